"""Threads and event loops: the worker, the platform, standing still."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import triack
from tests.machine import PATIENCE_S
from tests.node.nodes import WAIT, bodies, make, on_platform
from triack.base.transitions import IllegalTransition
from triack.base.units import MS, SECOND
from triack.node.handles.verbs import Verbs
from triack.node.node import port_of
from triack.node.shell import event_loop
from triack.node.shell.accepting import TURN_MESSAGES
from triack.node.shell.life import TRANSITIONS, Life, LifeEvent, LifeState
from triack.node.shell.platform import Platform
from triack.node.shell.prepared import PreparedList, published
from triack.node.shell.worker import LONG_NS, PAUSE_NS, QUICK_NS, Pace, ThreadWorker
from triack.node.sync.sync_loop import LoopThread
from triack.queues.messages import Outgoing
from triack.queues.node_settings import NodeSettings
from triack.queues.streams.outgoing_stream import OutgoingStream
from triack.store.store import Store
from triack.tools.replay.run import replay

# Jobs of a store: one by one and in order, in a thread or, when they are brief and the disk is quick, in the loop.

ENOUGH = 64
"""Quick jobs after which a pace is quick."""


def quick(now_ns: int = 0) -> Pace:
    """What has seen quick jobs alone."""
    pace = Pace()
    for _ in range(ENOUGH):
        pace.add(MS // 2, now_ns)
    return pace


def worker_on(pace: Pace) -> ThreadWorker:
    """A worker whose jobs have been of that pace."""
    worker = ThreadWorker()
    worker.pace = pace
    return worker


def test_brief_jobs_are_quick_once_a_dozen_were() -> None:
    """The first ones say nothing of a disk."""
    pace = Pace()
    took = 0
    while not pace.is_quick(0):
        pace.add(MS // 2, 0)
        took += 1
    assert 12 <= took <= ENOUGH
    for _ in range(ENOUGH):
        pace.add(2 * QUICK_NS, 0)
    assert not pace.is_quick(0)


def test_after_a_long_one_nothing_is_quick_for_a_while() -> None:
    """However quick those are that follow."""
    pace = quick()
    pace.add(LONG_NS, MS)
    for _ in range(ENOUGH):
        pace.add(MS // 2, 2 * MS)
    assert not pace.is_quick(PAUSE_NS)
    assert pace.is_quick(PAUSE_NS + MS)


async def test_jobs_are_done_one_by_one_in_order_and_off_the_loop() -> None:
    """The next one waits, however slow the first is; the loop goes on meanwhile."""
    worker, done, gate = ThreadWorker(), list[str](), threading.Event()

    def first() -> str:
        assert gate.wait(PATIENCE_S)
        done.append("first")
        return threading.current_thread().name

    slow, quick = worker.start(first), worker.start(lambda: done.append("second"))
    await asyncio.sleep(0.01)
    assert done == []
    gate.set()
    await quick
    assert done == ["first", "second"]
    assert (await slow).startswith("triack-store")
    worker.close()


async def test_the_outcome_of_a_job_is_reported_in_the_loop() -> None:
    """In the order of the jobs, with the errors of those that fail, and in the thread of the loop."""
    worker, loop = ThreadWorker(), asyncio.get_running_loop()
    told: list[tuple[int | None, str]] = []
    over = loop.create_future()

    def then(result: int | None, error: BaseException | None) -> None:
        assert asyncio.get_running_loop() is loop
        told.append((result, str(error)))
        if len(told) == 2:
            over.set_result(None)

    worker.run(lambda: int("no number"), then)
    worker.run(lambda: 7, then)
    async with asyncio.timeout(60):
        await over
    assert told == [(None, "invalid literal for int() with base 10: 'no number'"), (7, "None")]
    worker.close()


async def test_a_worker_ends_after_what_was_begun() -> None:
    """A commit is never cut off."""
    worker, done = ThreadWorker(), list[int]()

    def slow() -> None:
        time.sleep(0.05)
        done.append(1)

    future = worker.start(slow)
    worker.close()
    assert done == [1]
    await future
    with pytest.raises(RuntimeError):
        worker.start(lambda: None)


async def test_brief_jobs_are_done_in_the_loop_as_long_as_they_are_quick() -> None:
    """When their giver is ready; those that are not brief, and those of a slow disk, are done in the thread."""
    here, places, over = threading.current_thread(), list[bool](), asyncio.Event()
    worker = worker_on(quick(time.monotonic_ns()))

    def job() -> None:
        places.append(threading.current_thread() is here)

    async def place_of(*, is_brief: bool) -> bool:
        over.clear()
        worker.run(job, lambda _, error: over.set(), is_brief=is_brief)
        async with asyncio.timeout(PATIENCE_S):
            await over.wait()
        await worker.start(lambda: None)
        return places[-1]

    worker.run(job, lambda _, error: over.set(), is_brief=True)
    assert places == []
    assert worker.work_here()
    assert over.is_set()
    assert places == [True]
    assert not worker.work_here()
    assert not await place_of(is_brief=False)
    worker.pace.add(LONG_NS, time.monotonic_ns())
    assert not await place_of(is_brief=True)
    worker.close()


async def test_what_waits_for_its_turn_in_the_loop_comes_before_what_follows() -> None:
    """It goes to the thread when something else is begun, or the worker ends: the order stays, and nothing is lost."""
    worker, done, told = worker_on(quick(time.monotonic_ns())), list[int](), list[int]()
    worker.run(lambda: done.append(1), lambda _, error: told.append(1), is_brief=True)
    await worker.start(lambda: done.append(2))
    assert done == [1, 2]
    worker.run(lambda: done.append(3), lambda _, error: told.append(3), is_brief=True)
    worker.close()
    assert done == [1, 2, 3]
    await asyncio.sleep(0)
    assert told == [1, 3]


async def test_the_error_of_a_job_in_the_loop_goes_to_its_caller() -> None:
    """As of one that the thread did."""
    worker, failed = worker_on(quick(time.monotonic_ns())), asyncio.get_running_loop().create_future()

    def fail() -> None:
        raise OSError("full")

    worker.run(fail, lambda _, error: failed.set_result(str(error)), is_brief=True)
    assert worker.work_here()
    assert await failed == "full"
    worker.close()


# The machine that a node runs on: that it is real, and that another one can take its place.


@pytest.mark.gate
@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one clock for both")
def test_its_clock_goes_on_while_the_machine_is_suspended() -> None:
    """A namespace whose clocks say that this machine was, for a day."""
    read = (
        "import time; from triack.node.shell.platform import Platform; "
        "print(Platform().monotonic_ns() - time.monotonic_ns())"
    )
    command = ["unshare", "--user", "--map-root-user", "--time", "--boottime", "86400", sys.executable, "-c", read]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if "unshare" in found.stderr:
        pytest.skip(f"no namespaces of time here: {found.stderr.strip()}")
    assert int(found.stdout) >= 86_000 * SECOND, found.stderr


@pytest.mark.parametrize(
    ("settings", "torn"),
    [({}, False), ({"survives": "process crash"}, True), ({"recoverable_survives": "process crash"}, True)],
)
async def test_a_node_runs_on_the_machine_of_its_context(settings: dict[str, Any], torn: bool) -> None:
    """Nodes made elsewhere do not. A log with holes is no damage where not every commit is synced."""
    used: list[object] = []

    class Other(Platform):
        def open_store(self, data: Path | None, log_bytes: int | None = None, *, torn: bool = False) -> Store:
            used.append(torn)
            return super().open_store(data, log_bytes, torn=torn)

        def worker(self) -> ThreadWorker:
            used.append("worker")
            return ThreadWorker()

    with on_platform(Other()):
        node = make("other", settings=NodeSettings(**settings))
    assert used == []
    async with node, make("usual") as usual:
        await node.send("q", b"x")
        await usual.send("q", b"y")
        assert await bodies(node, "q", 1) == [b"x"]
    assert sorted(map(str, used)) == [str(torn), "worker"]


class Elsewhen(Platform):
    """A machine whose time of day is that much off; its uptime is what it is."""

    def __init__(self, by_s: int) -> None:
        super().__init__()
        self.wall_ns = lambda: time.time_ns() + by_s * SECOND


YEAR_S = 366 * 86_400


@pytest.mark.parametrize(("by_s", "from_s"), [(-80 * YEAR_S, 0), (400 * YEAR_S, 4_102_444_800)])
async def test_a_node_may_begin_in_1946(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, by_s: int, from_s: int
) -> None:
    """It counts as 1970, in messages and in the log; what it does can be judged, and the operator hears of it.

    A year that no record has room for counts as 2100.
    """
    with on_platform(Elsewhen(by_s)):
        async with make(data=tmp_path / "data", log=tmp_path / "log") as node:
            await node.send("q", b"1", time_to_be_received=3_600, time_to_reach_queue=3_600)
            async with node.receive("q") as consumer:
                message = await consumer.get(WAIT)
    assert message.body == b"1"
    assert from_s <= message.sent_at < from_s + 3_600
    assert ("the clock of this machine is not set, it shows 1970-01-01" in caplog.text) == (not from_s)
    verdict = replay(tmp_path / "log", engine="local")
    assert (verdict.verdict, verdict.missing) == ("pass", [])


# Which event loop runs what has none of its own, and that nodes run in uvloop's as in asyncio's.

uvloop = pytest.importorskip("uvloop", reason="uvloop has no wheel for this system")
ABSENT = "import sys; sys.modules['uvloop'] = None\n"
SHOWN = "from triack.node.shell import event_loop; print(type(event_loop.new_event_loop()).__module__)"


def test_it_is_that_of_uvloop_where_that_is_installed() -> None:
    """Of a command, and of the thread of a program without one."""

    async def loop() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    assert isinstance(event_loop.run(loop()), uvloop.Loop)
    background = LoopThread("test")
    assert isinstance(background.wait(loop()), uvloop.Loop)
    background.end()


def test_it_is_that_of_asyncio_where_it_is_not() -> None:
    shown = subprocess.run([sys.executable, "-c", ABSENT + SHOWN], capture_output=True, text=True, check=True)
    assert shown.stdout == "asyncio.unix_events\n"


@pytest.mark.parametrize("scheme", ["udp", "tcp"])
@pytest.mark.parametrize("batches", [True, False])
def test_nodes_talk_to_each_other_in_it(
    scheme: str, batches: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over both transports, and both kinds of UDP socket; everything arrives in order and is acknowledged."""
    if not batches:
        monkeypatch.setattr("triack.transport.udp.offers_batches", lambda _sock: False)
    bodies = [b"%d" % number for number in range(500)]

    async def transfer() -> list[bytes]:
        listen = f"{scheme}://127.0.0.1:0"
        plant = triack.open("plant", data=tmp_path / "plant", listen=listen, insecure=True)
        shop = triack.open("shop", data=tmp_path / "shop", listen=listen, insecure=True)
        async with plant, shop, plant.receive("orders") as orders:
            receipts = await shop.send_many(f"{plant.address}/orders", bodies)
            found: list[bytes] = []
            async with asyncio.timeout(PATIENCE_S):
                while len(found) < len(bodies):
                    found += [message.body for message in await orders.get_many()]
                await receipts.ordered()
        return found

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(transfer()) == bodies


SERVICE = """
import asyncio, sys, triack

async def main():
    async with triack.open("a", data=sys.argv[1], insecure=True) as node:
        await node.send("q", b"1")
        print("ready", flush=True)
        try:
            await asyncio.Event().wait()
        finally:
            if len(sys.argv) > 2:
                print("stuck", flush=True)
                await asyncio.sleep(1_000)

print(triack.run(main), flush=True)
"""


def start(*arguments: str | Path, prefix: tuple[str, ...] = ()) -> "subprocess.Popen[str]":
    """The service, when it is ready."""
    command = [*prefix, sys.executable, "-c", SERVICE, *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_closes_the_node_in_good_order(tmp_path: Path, number: signal.Signals) -> None:
    """What it had accepted is on the disk, and the program goes on behind ``run``."""
    process = start(tmp_path)
    process.send_signal(number)
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, output) == (0, "None\n")
    with triack.sync.open("a", data=tmp_path, insecure=True) as node:
        assert node.queue_lengths()["q"] == 1


@pytest.mark.slow
@pytest.mark.skipif(subprocess.run(["unshare", "-pf", "true"], check=False).returncode != 0, reason="takes root")
def test_process_1_of_a_container_is_stopped_by_sigterm(tmp_path: Path) -> None:
    """The system gives that process no default for the signal."""
    process = start(tmp_path, prefix=("unshare", "--pid", "--fork", "--kill-child"))
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[0]), signal.SIGTERM)
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, output) == (0, "None\n")


@pytest.mark.slow
def test_a_second_signal_ends_a_service_that_does_not_end(tmp_path: Path) -> None:
    process = start(tmp_path, "stuck")
    process.send_signal(signal.SIGTERM)
    assert process.stdout is not None
    assert process.stdout.readline() == "stuck\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == -signal.SIGTERM


def test_it_returns_and_raises_what_the_service_does() -> None:
    before = signal.getsignal(signal.SIGTERM)

    async def main() -> int:
        return 7

    async def fail() -> None:
        raise LookupError

    assert triack.run(main()) == triack.run(main) == 7
    with pytest.raises(LookupError):
        triack.run(fail)
    assert signal.getsignal(signal.SIGTERM) is before


def test_only_the_main_thread_can_have_signals() -> None:
    """Another thread, or a running loop, is a mistake that is named."""
    said: list[BaseException] = []

    async def main() -> None:
        raise AssertionError

    def run() -> None:
        try:
            triack.run(main)
        except triack.UsageError as error:
            said.append(error)

    async def inside() -> None:
        with pytest.raises(triack.UsageError, match="runs an event loop already"):
            triack.run(main)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert "only the main thread gets signals" in str(said[0])
    asyncio.run(inside())


def life_in(state: LifeState) -> Life:
    """A life that has come to a state in the usual way."""
    to_open = (LifeEvent.START, LifeEvent.STARTED)
    way = {
        LifeState.NEW: (),
        LifeState.STARTING: (LifeEvent.START,),
        LifeState.OPEN: to_open,
        LifeState.CLOSING: (*to_open, LifeEvent.CLOSE),
        LifeState.CLOSED: (*to_open, LifeEvent.CLOSE, LifeEvent.CLOSED),
        LifeState.FAILED: to_open,
    }[state]
    life = Life("n")
    for event in way:
        life.handle(event)
    if state is LifeState.FAILED:
        life.fail(triack.StoreFailed("full"))
    return life


@pytest.mark.parametrize("before", list(LifeState))
@pytest.mark.parametrize("event", list(LifeEvent))
async def test_only_what_the_table_has_can_happen(before: LifeState, event: LifeEvent) -> None:
    """A second start is a mistake of the user, and is reported as one."""
    life = life_in(before)
    if event in TRANSITIONS[before]:
        life.handle(event)
        assert life.state is TRANSITIONS[before][event]
        return
    again = event is LifeEvent.START
    error = pytest.raises(triack.UsageError, match=f"started before, and is {before.value}")
    with error if again else pytest.raises(IllegalTransition):
        life.handle(event)
    assert life.state is before


@pytest.mark.parametrize("state", list(LifeState))
async def test_a_node_works_or_says_why_not(state: LifeState) -> None:
    life = life_in(state)
    if state in (LifeState.OPEN, LifeState.CLOSING):
        life.check_alive()
        return
    with pytest.raises(triack.StoreFailed if state is LifeState.FAILED else triack.NodeClosed):
        life.check_alive()


@pytest.mark.parametrize("state", [LifeState.OPEN, LifeState.CLOSING])
async def test_the_first_failure_counts(state: LifeState) -> None:
    life = life_in(state)
    first = triack.StoreFailed("full")
    life.fail(first)
    life.fail(triack.StoreFailed("worse"))
    assert await life.failed() is first
    assert life.state is LifeState.FAILED


@pytest.mark.parametrize("state", [LifeState.NEW, LifeState.CLOSED])
async def test_what_does_not_run_does_not_fail(state: LifeState) -> None:
    life = life_in(state)
    life.fail(triack.StoreFailed("late"))
    assert life.state is state


NOWHERE: OutgoingStream = None  # type: ignore[assignment]


def test_a_message_for_a_topic_has_what_its_name_has_below_the_root() -> None:
    for destination, below in (
        ("topic:Games", ""),
        ("topic:Games.Cricket", "Cricket"),
        ("hub/topic:Games.Cricket.Scores", "Cricket.Scores"),
        ("udp://127.0.0.1:7801/topic:Games.Cricket", "Cricket"),
    ):
        assert published(destination, b"x") == Outgoing(b"x", topic=below)
        assert published(destination, Outgoing(b"x", {"label": "l"})) == Outgoing(b"x", {"label": "l"}, topic=below)


def test_each_message_of_a_list_has_what_they_share() -> None:
    shared = published("topic:Games.Cricket", b"")
    prepared = PreparedList("topic:Games.Cricket", NOWHERE, [b"a", b"b"], shared, ["k", "l"])
    assert prepared.messages([b"a"]) == [Outgoing(b"a", topic="Cricket")]
    assert [message for _, message, _ in prepared.singly()] == [
        Outgoing(b"a", key="k", topic="Cricket"),
        Outgoing(b"b", key="l", topic="Cricket"),
    ]


# What stands between applications and the engine: users see verbs, tools see the port, nobody sees the engine.


def test_a_node_shows_the_verbs_of_users_and_nothing_else() -> None:
    """The port has all that consumers, receipts and transactions need."""
    own, verbs = ({name for name in dir(kind) if not name.startswith("_")} for kind in (triack.Node, Verbs))
    assert own - verbs == {"start", "close"}
    assert {name for name in vars(make()) if not name.startswith("_")} == {"name", "settings"}


async def test_there_is_no_port_before_the_start() -> None:
    with pytest.raises(triack.NodeClosed, match="not started"):
        port_of(make())


async def test_who_sends_at_once_sends_in_the_order_of_the_calls() -> None:
    """However many tasks do: letting others run is for a task that sends again and again."""
    many = [b"%d" % number for number in range(10 * TURN_MESSAGES)]
    async with make() as node:
        await asyncio.gather(*(node.send("q", body) for body in many))
        assert await bodies(node, "q", len(many)) == many


async def test_who_sends_again_and_again_lets_others_run() -> None:
    """Though there is room for all of it."""
    done, seen = 0, set[int]()

    async def watch() -> None:
        while done < 10 * TURN_MESSAGES:
            seen.add(done)
            await asyncio.sleep(0)

    async with make() as node:
        watching = asyncio.create_task(watch())
        while done < 10 * TURN_MESSAGES:
            await node.send("q", b"")
            done += 1
        await watching
        assert len(seen) >= 9


async def test_a_queue_that_is_much_like_another_is_announced(caplog: pytest.LogCaptureFixture) -> None:
    """It is made, as it may be meant; in a node with a fixed set it is refused, with the name that is near."""
    async with make() as node:
        for queue in ("orders", "ordres", "ordres", "stock"):
            node.receive(queue)
    assert [record.getMessage() for record in caplog.records] == ["new queue ordres, which is much like orders"]
    async with make(queues=["orders"]) as node:
        for queue, why in (("ordres", "; did you mean orders?"), ("stock", "; there is dead-letter, orders")):
            told = re.escape(f"queue {queue} does not exist on node node{why}")
            with pytest.raises(triack.QueueNotFound, match=f"^{told}$"):
                node.receive(queue)
