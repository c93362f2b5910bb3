"""The driver: bursts, timers, the worker, and its end."""

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import triack
from tests.node.nodes import WAIT, cancelled_by_others, on_platform, quick, until
from triack.base.commit import Read
from triack.base.errors import AddressError, StoreError, StoreFailed, TransportError, TriackError
from triack.base.news import (
    CallRefused,
    DeadLettersWaiting,
    GapFound,
    LinkDown,
    LinkUp,
    NodeEvent,
    PeerHalted,
    PeerSilent,
    PeerUnknown,
    QueueOverQuota,
    StoreLow,
    StreamsNearLimit,
)
from triack.base.reasons import DropReason
from triack.base.units import MS, SECOND
from triack.node.shell import driver
from triack.node.shell.driver import Driver
from triack.node.shell.event_loop import is_cancelled, is_failure, may_wait
from triack.node.shell.platform import Platform
from triack.node.shell.worker import Then, ThreadWorker
from triack.queues.fetching import Fetch
from triack.queues.manager.effects import Effect, Send, StartJob, Tell, WriteRecords
from triack.queues.manager.engine import Engine
from triack.queues.peers.kept_connections import DropConnection, KeepConnection
from triack.queues.streams.group_commit import GroupCommit
from triack.session.protocol.settings import SessionSettings
from triack.store.store import Store
from triack.transport.endpoint import Endpoint
from triack.transport.received import Inbox, Trouble, tell_nobody
from triack.transport.tcp import TcpEndpoint
from triack.transport.turns import Burst, Received

# The shell around the engine: it does what the engine says, in that order, and tells it what became of it.

HERE = "memory://here"


HOUR_NS = 3_600 * SECOND


class Script:
    """An engine that wants what the test says, and records its calls."""

    def __init__(self) -> None:
        self.plan: list[list[Effect]] = []
        self.deadline_ns: int | None = None
        self.polls: list[int] = []
        self.told: list[tuple[object, ...]] = []
        self.drops: Counter[DropReason] = Counter()
        self.failure: TriackError | None = None
        self.busy_storing = False
        self.idle = True
        self.draining = False
        self.is_behind = False
        self.outbox = self.handshakes = self.news = self.receiver = self
        self.jobs: Any = None
        self.streams: list[object] = []
        self.conversations: dict[bytes, object] = {}

    def handle_trouble(self, address: str, cause: str) -> None:
        self.told.append(("trouble", address, cause))

    def poll(self, now_ns: int) -> list[Effect]:
        self.polls.append(now_ns)
        self.deadline_ns = None
        return self.plan.pop(0) if self.plan else []

    def next_deadline(self) -> int | None:
        return self.deadline_ns

    def handle_done(self, job: object, now_ns: int) -> None:
        self.told.append(("done", job))

    def handle_store_failed(self, job: object, error: TriackError, now_ns: int) -> None:
        self.failure = error
        self.told.append(("failed", job, error))

    def handle_datagrams(self, burst: list[bytes], sender: str, now_ns: int) -> None:
        self.told += [("datagram", data, sender) for data in burst]

    def source_of(self, datagram: bytes) -> None:
        return None

    def handle_path_lost(self, sender: str, now_ns: int) -> None:
        self.told.append(("path lost", sender))

    def volatile(self, *, all_classes: bool) -> bool:
        return False

    def drain(self, now_ns: int) -> None:
        self.told.append(("drain",))

    def stop(self, error: TriackError, now_ns: int) -> None:
        self.told.append(("stop",))
        self.plan.append([WriteRecords(b"last words\n")])

    def finish(self, now_ns: int) -> bytes:
        return b"stopped\n"


class Place:
    """An endpoint and a log that write down what they are given."""

    def __init__(self, did: list[object]) -> None:
        self.address = HERE
        self.drops: Counter[DropReason] = Counter()
        self.arrived: asyncio.Queue[list[Received]] = asyncio.Queue()
        self.broken: Exception | None = None
        self.on_trouble: Trouble = tell_nobody
        self.inbox = Inbox(HERE, self.drops)
        self._did = did

    async def send(self, datagrams: list[bytes], to: str) -> None:
        await asyncio.sleep(0)
        if self.broken is not None:
            raise self.broken
        self._did.append((to, *datagrams))

    def vouch(self, address: str) -> None:
        self._did.append(("vouch", address))

    def release(self, address: str) -> None:
        self._did.append(("release", address))

    async def receive(self) -> Burst:
        arrived = await self.arrived.get()
        if not arrived:
            raise TransportError("closed")
        burst = Burst()
        burst += arrived
        burst.turns.append((None, len(burst)))
        return burst

    async def close(self) -> None:
        self.arrived.put_nowait([])

    def append(self, data: bytes) -> None:
        self._did.append(data)


class Log:
    def __init__(self, did: list[object]) -> None:
        self._did = did

    def append(self, records: bytes) -> None:
        self._did.append(records)

    def close(self) -> None:
        self._did.append("log closed")


class Bench(Platform):
    """A driver of a scripted engine, and everything that it did, in order."""

    def __init__(self) -> None:
        self.engine = Script()
        self.did: list[object] = []
        self.place = Place(self.did)
        self.job: Callable[[], None] = lambda: None
        self.jobs = Worker(self)
        self.driver = Driver(
            "n",
            cast("Engine", self.engine),
            self,
            self.jobs,
            Store(None),
            Log(self.did),
            cast("Any", self.place),
            open_endpoint=self.open_other_endpoint,
        )
        self.failures: list[TriackError] = []
        self.driver.on_failure = self.failures.append

    async def open_other_endpoint(self, scheme: str) -> Any:
        self.did.append(f"open {scheme}")
        if scheme == "tcp":
            raise TransportError("no more files")
        return Place(self.did)

    async def go(self, *effects: Effect) -> None:
        """Let the engine want these, and wait until they are done."""
        self.engine.plan.append(list(effects))
        async with asyncio.timeout(WAIT):
            await self.driver.progress()


class Worker(ThreadWorker):
    """Says when a job starts."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self._bench = bench

    def start(self, job: Callable[[], Any]) -> "asyncio.Future[Any]":
        self._bench.did.append("job")
        return super().start(job)

    def run(self, job: Callable[[], Any], then: Then[Any], *, is_brief: bool = False) -> None:
        self._bench.did.append("job")
        super().run(job, then, is_brief=is_brief)


@asynccontextmanager
async def bench() -> AsyncIterator[Bench]:
    found = Bench()
    await found.driver.progress()
    yield found
    await found.driver.close(0)


@pytest.mark.plain
async def test_what_comes_of_a_commit_in_the_loop_leaves_in_the_turn_that_makes_it() -> None:
    """After the readers of what it brought, whom it wakes in the turn behind."""
    for queued, order in (([], ["poll", "next turn"]), ([cast("Any", None)], ["next turn", "poll"])):
        async with bench() as it:
            while not it.jobs.pace.is_quick(0):
                it.jobs.pace.add(0, 0)
            seen: list[str] = []
            poll, done = it.engine.poll, it.engine.handle_done

            def handle_done(job: object, now_ns: int, seen: list[str] = seen, done: Any = done) -> None:
                asyncio.get_running_loop().call_soon(seen.append, "next turn")
                done(job, now_ns)

            def look(now_ns: int, it: Bench = it, seen: list[str] = seen, poll: Any = poll) -> Any:
                if it.engine.told:
                    seen.append("poll")
                return poll(now_ns)

            it.engine.handle_done = handle_done  # type: ignore[method-assign]
            it.engine.poll = look  # type: ignore[method-assign]
            commit = GroupCommit()
            commit.queued += queued
            await it.go(StartJob(commit))
            await until(lambda seen=seen: len(seen) >= 2)
            assert seen[:2] == order
            assert it.engine.told == [("done", commit)]


@pytest.mark.plain
async def test_effects_are_done_one_by_one_in_their_order() -> None:
    """Each is over before the next begins, although sending waits."""
    async with bench() as it:
        read = Fetch("messages", [], take=print)
        await it.go(
            WriteRecords(b"1"), StartJob(read), WriteRecords(b"2"), Send(HERE, [b"x", b"y"]), WriteRecords(b"3")
        )
        assert it.did == [b"1", "job", b"2", (HERE, b"x", b"y"), b"3"]
        await until(lambda: it.engine.told)
        assert it.engine.told == [("done", read)]


@pytest.mark.plain
async def test_a_turn_that_waits_when_the_node_closes_is_carried_out() -> None:
    """What the engine wanted to be written behind it is written."""
    async with bench() as it:
        send = it.place.send

        def send_and_wake(datagrams: list[bytes], to: str) -> Coroutine[Any, Any, None]:
            it.driver.wake()
            return send(datagrams, to)

        def stop(error: TriackError, now_ns: int) -> None:
            it.engine.plan += [[Send(HERE, [b"x"])], [Send(HERE, [b"y"]), WriteRecords(b"last words\n")]]

        it.place.send = send_and_wake  # type: ignore[method-assign]
        it.engine.stop = stop  # type: ignore[method-assign]
    assert [done for done in it.did if done != "job"] == [
        (HERE, b"x"), (HERE, b"y"), b"last words\n", b"stopped\n", "log closed"
    ]  # fmt: skip


@pytest.mark.plain
async def test_an_endpoint_is_opened_when_somebody_is_sent_to_and_hears_what_to_keep() -> None:
    """Once for each scheme; before anything is sent there, and after the last datagram."""
    async with bench() as it:
        await it.go(Send("udp://b:1", [b"x"]), Send("udp://c:1", [b"y"]), Send(HERE, [b"z"]))
        await it.go(KeepConnection(HERE), Send(HERE, [b"x"]), DropConnection(HERE))
        assert it.did == [
            *("open udp", ("udp://b:1", b"x"), ("udp://c:1", b"y"), (HERE, b"z")),
            *(("vouch", HERE), (HERE, b"x"), ("release", HERE)),
        ]


@pytest.mark.parametrize("error", [AddressError("no such host"), TransportError("closed")])
@pytest.mark.plain
async def test_what_cannot_be_sent_is_counted_and_the_rest_goes_on(error: TriackError) -> None:
    async with bench() as it:
        it.place.broken = error
        await it.go(Send(HERE, [b"x", b"y"]), Send("tcp://c:1", [b"z"]), WriteRecords(b"on"))
        assert it.engine.drops == {DropReason.CANNOT_SEND: 3}
        assert it.did[-1] == b"on"
        it.place.broken = None
        it.place.drops[DropReason.RECEIVE_OVERFLOW] = 2
        assert it.driver.drops == {"receive-overflow": 2}


@pytest.mark.plain
async def test_what_arrives_is_handed_over_and_polled_for() -> None:
    """Nothing but an address says that the path to it is gone."""
    async with bench() as it:
        polls = len(it.engine.polls)
        it.place.arrived.put_nowait([Received(b"x", "memory://b"), Received(b"", "memory://c")])
        await until(lambda: len(it.engine.polls) > polls)
        assert it.engine.told == [("datagram", b"x", "memory://b"), ("path lost", "memory://c")]


@pytest.mark.plain
async def test_what_arrives_without_a_pause_does_not_keep_the_engine_waiting() -> None:
    """The tasks that it woke come first, but once."""
    async with bench() as it:
        it.engine.jobs = SimpleNamespace(group=SimpleNamespace(is_awaited=False))
        loop, inbox, arrived = asyncio.get_running_loop(), it.place.inbox, list[int]()
        waiting = asyncio.create_task(inbox.take())
        await asyncio.sleep(0)
        polls = len(it.engine.polls)

        def arrive() -> None:
            arrived.append(len(it.engine.polls) - polls)
            inbox.offer(b"x", "memory://b")
            if len(arrived) < 20:
                loop.call_soon(arrive)

        arrive()
        await until(lambda: len(it.engine.told) == 20)
        assert arrived[-1] >= 6
        waiting.cancel()


@pytest.mark.plain
async def test_what_arrives_waits_for_a_store_that_is_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it has caught up, whatever else happens meanwhile."""
    monkeypatch.setattr(driver, "CATCH_UP_S", 3_600)
    async with bench() as it:
        it.engine.is_behind = True
        it.place.arrived.put_nowait([Received(b"x", "memory://b")])
        await until(it.place.arrived.empty)
        for _ in range(5):
            await it.go()
        assert it.engine.told == []
        it.engine.is_behind = False
        await it.go()
        await until(lambda: it.engine.told)
        assert it.engine.told == [("datagram", b"x", "memory://b")]


@pytest.mark.plain
async def test_a_disk_that_hangs_stops_nobody() -> None:
    """Packets that arrive are taken after a while all the same, and acknowledged, or refused."""
    async with bench() as it:
        it.engine.is_behind = True
        for number in range(3):
            it.place.arrived.put_nowait([Received(b"%d" % number, "memory://b")])
        await until(lambda: len(it.engine.told) == 3)


@pytest.mark.plain
async def test_a_deadline_that_came_while_the_machine_was_suspended_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timers of the event loop do not know of it."""
    monkeypatch.setattr("triack.node.shell.alarm.LONGEST_SLEEP_NS", 10 * MS)
    slept_ns = 0
    monkeypatch.setattr(Bench, "monotonic_ns", staticmethod(lambda: Platform.monotonic_ns() + slept_ns))
    async with bench() as it:
        due_ns = it.monotonic_ns() + HOUR_NS
        it.engine.next_deadline = lambda: due_ns if it.engine.polls[-1] < due_ns else None  # type: ignore[method-assign]
        await it.driver.progress()
        polls = len(it.engine.polls)
        await asyncio.sleep(0.05)
        assert len(it.engine.polls) == polls, "to look at the clock is no poll"
        slept_ns = 3 * 24 * HOUR_NS
        await until(lambda: it.engine.polls[-1] >= due_ns)


@pytest.mark.plain
async def test_a_deadline_may_move_away_and_come_nearer() -> None:
    """A timer that comes in time is left, and armed again without a look when it comes; a nearer one, at once."""
    async with bench() as it:
        await it.go()
        due_ns = it.monotonic_ns() + 30_000_000
        it.engine.next_deadline = lambda: due_ns  # type: ignore[method-assign]
        await it.driver.progress()
        due_ns += 60_000_000
        await it.driver.progress()
        polls = len(it.engine.polls)
        await until(lambda: it.monotonic_ns() >= due_ns and it.engine.polls[-1] >= due_ns)
        assert [at_ns for at_ns in it.engine.polls[polls:] if at_ns < due_ns] == []
        due_ns = it.monotonic_ns() + 60_000_000_000
        await it.driver.progress()
        near_ns = it.monotonic_ns() + 10_000_000
        it.engine.next_deadline = lambda: near_ns if it.engine.polls[-1] < near_ns else None  # type: ignore[method-assign]
        await it.driver.progress()
        await until(lambda: it.engine.polls[-1] >= near_ns)


@pytest.mark.parametrize("error", [StoreFailed("full"), OSError("full")])
@pytest.mark.plain
async def test_a_store_that_fails_ends_the_engine_and_the_node_hears_of_it(error: Exception) -> None:
    """With an error of ours, whatever it was."""
    async with bench() as it:
        job = Fetch("messages", [1], take=print)

        def fail(read: Read) -> None:
            raise error

        it.driver._store.read = fail  # type: ignore[method-assign] # noqa: SLF001
        await it.go(StartJob(job))
        await until(lambda: it.failures)
        assert it.engine.told == [("failed", job, it.failures[0])]
        assert isinstance(it.failures[0], StoreFailed if isinstance(error, StoreFailed) else StoreError)
        assert "full" in str(it.failures[0])


@pytest.mark.plain
async def test_a_bug_in_the_engine_leaves_nobody_waiting() -> None:
    """The node fails with the bug's name; a waiter for progress goes on."""
    async with bench() as it:
        it.engine.plan = [None]  # type: ignore[list-item]
        async with asyncio.timeout(WAIT):
            await it.driver.progress()
            await it.driver.progress()
        assert [str(error) for error in it.failures] == ["node n: TypeError: 'NoneType' object is not iterable"]


@pytest.mark.plain
async def test_a_bug_behind_a_job_leaves_nobody_waiting() -> None:
    """Nobody waits for the call in which it comes to light: the node fails with the bug's name all the same."""
    async with bench() as it:
        job = Fetch("messages", [], take=print)

        def break_down(job: object, now_ns: int) -> None:
            raise KeyError("stream")

        it.engine.handle_done = break_down  # type: ignore[method-assign]
        await it.go(StartJob(job))
        await until(lambda: it.failures)
        assert [str(error) for error in it.failures] == ["node n: KeyError: 'stream'"]
        assert it.engine.told == [("failed", job, it.failures[0])]


NO_ROOM = (
    "the disk has little room, 5 bytes beside what the log of the store may take: "
    "nothing new is accepted until there is more"
)
EVENTS = [
    (LinkUp("udp://b:1", "b", "0b"), logging.INFO, "link to b at udp://b:1 is up"),
    (LinkDown("udp://b:1", "b", "0b", "idle"), logging.INFO, "link to b at udp://b:1 is down: idle"),
    (QueueOverQuota("q", 3, 900), logging.WARNING, "queue q is over its quota"),
    (
        DeadLettersWaiting("dead-letter", 5),
        logging.WARNING,
        "5 messages wait in dead-letter: read why they died, then requeue or purge them",
    ),
    (
        StreamsNearLimit("b", 6, 8, incoming=True, is_full=False),
        logging.WARNING,
        "6 streams from b are live, of at most 8",
    ),
    (
        StreamsNearLimit("b", 8, 8, incoming=False, is_full=True),
        logging.WARNING,
        "8 streams to b are live, of at most 8; messages for further queues wait",
    ),
    (StoreLow(True, 5), logging.ERROR, NO_ROOM),
    (StoreLow(False, 10**9), logging.WARNING, "the disk has room again"),
    (PeerSilent("udp://b:1", "cannot resolve b"), logging.WARNING, "cannot resolve b; trying on"),
    (PeerUnknown("b", "this node trusts no b"), logging.WARNING, "this node trusts no b; what is for it waits"),
    (CallRefused("h", "untrusted", "a node calls", "trust it"), logging.WARNING, "a node calls; trust it"),
    (PeerHalted("0b", "peer", "it is older"), logging.ERROR, "rollback detected: it is older"),
    (GapFound("b", "0b", "0a", ("q",), False, "b is new"), logging.WARNING, "gap found: b is new; going on"),
    (GapFound("b", "0b", "0a", (), True, "b is new"), logging.ERROR, "gap found: b is new; nothing is sent there"),
]


@pytest.mark.parametrize(("event", "level", "line"), EVENTS)
@pytest.mark.plain
async def test_the_operator_and_the_program_hear_the_same(
    caplog: pytest.LogCaptureFixture, event: NodeEvent, level: int, line: str
) -> None:
    caplog.set_level(logging.INFO, "triack")
    async with bench() as it:
        events = it.driver.events.read()
        await it.go(Tell(event))
        assert await anext(events) == event
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [(level, line)]


@pytest.mark.plain
async def test_what_a_transport_says_of_an_address_reaches_the_engine() -> None:
    async with bench() as it:
        it.place.on_trouble("memory://b", "no process listens at memory://b")
        await it.driver.progress()
    assert ("trouble", "memory://b", "no process listens at memory://b") in it.engine.told


class Watched(Platform):
    """Remembers the endpoints of its nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.endpoints: list[Endpoint] = []

    async def open_endpoint(self, *arguments: Any, **options: Any) -> Endpoint:
        self.endpoints.append(await super().open_endpoint(*arguments, **options))
        return self.endpoints[-1]


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="it is the system that gives up")
@pytest.mark.parametrize(
    ("session", "seconds"),
    [
        (SessionSettings(ack_timeout_s=60.0, ack_timeout_max_s=10.0), 60),
        (SessionSettings(ack_timeout_min_s=1.0, ack_timeout_max_s=5.0), 30),
        (SessionSettings(direct_ack_timeouts=2), 240),
        (SessionSettings(ack_timeout_s=1e9), 0x7FFFFFFF / 1_000),
    ],
)
async def test_tcp_ends_no_session_before_its_ack_timeout(session: SessionSettings, seconds: float) -> None:
    """The system gives a silent peer up by a time of its own, which is as long at both ends."""
    settings, watched = quick(session=session), Watched()
    with on_platform(watched):
        a = triack.open("a", data=None, insecure=True, settings=settings)
        b = triack.open("b", data=None, listen="tcp://127.0.0.1:0", insecure=True, settings=settings)
    async with a, b:
        await (await a.send(f"{b.address}/q", b"1")).ordered(WAIT)
        ends = [end for it in watched.endpoints if isinstance(it, TcpEndpoint) for end in it._connections.values()]  # noqa: SLF001
        socks = [end.writer.get_extra_info("socket") for end in ends if end.writer is not None]
        found = [sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) for sock in socks]
        assert found == [round(1_000 * seconds)] * 2


@pytest.mark.plain
async def test_the_last_records_are_the_last_of_all(tmp_path: Path) -> None:
    """The last effects of the engine are done, the store is closed, then the log ends; a second stop does no harm."""
    async with bench() as it:
        pass
    assert it.engine.told == [("drain",), ("stop",)]
    assert it.did == [b"last words\n", "job", b"stopped\n", "log closed"]
    await it.driver.progress()


# Whose a cancellation is: that of a task, or of something that it has awaited.


async def test_what_a_task_awaits_may_be_cancelled_and_it_is_not() -> None:
    with pytest.raises(asyncio.CancelledError):
        await cancelled_by_others()
    assert not is_cancelled()
    assert is_failure(asyncio.CancelledError)
    assert is_failure(OSError)
    assert not is_failure(KeyboardInterrupt)
    assert [may_wait(kind) for kind in (None, OSError, asyncio.CancelledError)] == [True] * 3
    assert not may_wait(KeyboardInterrupt)


async def test_its_own_cancellation_is_no_failure() -> None:
    """Nor is that of a limit of time, until the limit has caught it."""
    seen: list[bool] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.extend((is_cancelled(), is_failure(asyncio.CancelledError), may_wait(OSError)))
            raise

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await work()
    assert seen == [True, False, False] * 2
    assert not is_cancelled()
