"""A run of a plan, what is judged of it, and how it is made smaller."""

import json
import struct
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from tests.tools.chaos.conftest import Make
from tests.tools.chaos.scenes import plan_of
from triack.base.commit import Commit, OutgoingStreamRow
from triack.base.delivery import Delivery
from triack.base.errors import UsageError
from triack.base.names import StreamId
from triack.base.units import MS, SECOND
from triack.ordering.order_settings import OrderSettings
from triack.queues.mailboxes.large_bodies import Bodies
from triack.queues.mailboxes.quotas import NO_LIMIT
from triack.queues.manager.engine import Engine
from triack.queues.node_settings import Journal, NodeSettings
from triack.session.protocol.settings import SessionSettings
from triack.store.store import Store
from triack.tools.chaos import run, workload
from triack.tools.chaos.command import chaos
from triack.tools.chaos.drawing import draw
from triack.tools.chaos.history import READ, SENT
from triack.tools.chaos.host import Host
from triack.tools.chaos.pausing import OUTGOING, Pausing
from triack.tools.chaos.plan import DISHONEST, LASTING_MS, Fault, Plan, StreamPlan
from triack.tools.chaos.run import Outcome, _awaited, run_plan, run_seed
from triack.tools.chaos.shrink import shrink
from triack.tools.replay.run import replay
from triack.tools.sim.disk_file import Handle
from triack.tools.sim.faults import Faults
from triack.tools.sim.host import FOLDER
from triack.tools.sim.network import Network
from triack.tools.sim.world import World

# Whole runs: promises kept on many seeds, and the same bytes for the same seed. Bugs that a seed once found are
# planted now: plans change as faults are added, and the campaigns must still find them.
DAY = 86_400 * SECOND


def calm(seed: int, **changes: object) -> Plan:
    plan = next(plan for plan in map(draw, range(seed, seed + 100)) if len(plan.hosts) == 2)
    return replace(plan, faults=(), network=replace(draw(0).network, loss=0.0), **changes)  # type: ignore[arg-type]


def rules(outcome: Outcome) -> set[str]:
    return {rule for rule, _ in outcome.violations}


@pytest.mark.gate
@pytest.mark.parametrize("days", [0, 3])
def test_the_logs_of_a_run_pass_the_replay(tmp_path: Path, days: int) -> None:
    """They are what nodes write: a file for each process, and another one for a process that writes on the next day."""
    away = Fault(SECOND, "kill", 0, for_ns=days * DAY)
    plan = replace(calm(12, faults_end_ns=days * DAY + 5 * SECOND), faults=(away,))
    outcome = run_plan(plan) if days else run_seed(5)
    assert ("b-000001-000002.jsonl" in outcome.logs) == (days > 0)
    for name, records in outcome.logs.items():
        (tmp_path / name).write_bytes(records)
    verdict = replay([tmp_path], engine="local")
    assert (verdict.verdict, outcome.violations) == ("pass", [])
    assert verdict.records > 50


@pytest.mark.gate
def test_a_node_that_wakes_for_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each ten milliseconds, though all of its messages have arrived."""

    def arm(self: Host, _engine: Engine) -> None:
        if self._timer_ns is None:
            timer_ns = self._timer_ns = self.world.now_ns + 10 * MS
            self.later(10 * MS, lambda: self._tick(timer_ns))

    monkeypatch.setattr(Host, "_arm", arm)
    assert rules(run_plan(calm(12, faults_end_ns=250 * SECOND))) == {"storm", "effort"}
    monkeypatch.setattr(run, "EVENTS_MAX", 60_000)
    assert rules(run_plan(calm(12, faults_end_ns=900 * SECOND))) == {"storm", "effort", "liveness"}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "host"), [("kill", 0), ("power-loss", 1)])
def test_a_crash_before_each_of_the_first_effects(kind: str, host: int) -> None:
    """One run for each: whatever the process was about to do, it dies before it. Both send and receive.

    A kill before the odd ones and a loss of power before the even ones.
    """
    plan = calm(12, faults_end_ns=SECOND)
    hosts = tuple(replace(one, read_gap_ns=20 * MS) for one in plan.hosts)
    streams = tuple(StreamPlan(one, 1 - one, "q", "transactional", 10, 100) for one in (0, 1))
    for after in range(kind == "kill", 60, 2):
        fault = Fault(5 * MS, kind, host, after=after, for_ns=SECOND // 2, again=after % 9 - 1)
        outcome = run_plan(replace(plan, hosts=hosts, streams=streams, faults=(fault,)))
        assert not outcome.violations, f"after {after} effects: {outcome.violations[0]}"
        assert outcome.seen["killed" if kind == "kill" else "power-loss"] > (kind != "kill")


@pytest.mark.gate
def test_a_pair_that_never_hears_of_each_other_does_not_hold_up_others() -> None:
    plan = next(plan for plan in map(draw, range(400)) if plan.dead_path is not None)
    assert not run_plan(plan).violations


def test_an_old_copy_that_comes_last_of_all_is_noticed_too() -> None:
    """All was at rest before it; the first packets afterwards bring it to light."""
    plan = calm(20, faults_end_ns=8 * SECOND)
    brief = NodeSettings(SessionSettings(cleanup_interval_s=1.0), OrderSettings(order_ack_idle_s=0.001))
    hosts = tuple(replace(host, settings=brief, transactional=True, read_gap_ns=5 * MS) for host in plan.hosts)
    streams = tuple(StreamPlan(one, 1 - one, "q", "transactional", 5, 100) for one in (0, 1))
    for host in (0, 1):
        fault = Fault(7_900 * MS, "old-copy", host, for_ns=400 * MS)
        outcome = run_plan(replace(plan, hosts=hosts, streams=streams, faults=(fault,)))
        assert not outcome.violations


@pytest.mark.slow
def test_a_clone_ends_with_the_other_faults() -> None:
    """One that has come between a message and its answer takes what comes next, and its original hears of nothing.

    Were it to go on, the last messages went to it, and two of these moments left no trace of there having been two.
    """
    plan = calm(20, faults_end_ns=4 * SECOND)
    settings = NodeSettings()
    hosts = tuple(replace(host, settings=settings, transactional=True, read_gap_ns=10 * MS) for host in plan.hosts)
    there = StreamPlan(0, 1, "q", "transactional", 20, 100, gap_ns=SECOND // 5)
    streams = (there, replace(there, sender=1, receiver=0, queue="fw", source=0))
    for at_ms in range(370, 420, 10):
        outcome = run_plan(replace(plan, hosts=hosts, streams=streams, faults=(Fault(at_ms * MS, "clone", 1),)))
        assert outcome.seen["clone"] == 1
        assert not outcome.violations, f"cloned at {at_ms} ms: {outcome.violations[0]}"


@pytest.mark.gate
@pytest.mark.parametrize("delivery", ["recoverable", "transactional"])
def test_what_a_lying_disk_loses_at_once_is_its_own_fault(delivery: str) -> None:
    """Acknowledged messages come again after a loss of power in the middle of the lie: no promise of the store's."""
    plan = calm(320, faults_end_ns=8 * SECOND)
    calm_host = {"transactional": False, "read_gap_ns": 5 * MS, "commit_ns": MS, "failure_rate": 0.0}
    hosts = tuple(replace(host, **calm_host) for host in plan.hosts)  # type: ignore[arg-type]
    streams = (StreamPlan(0, 1, "q", delivery, 200, 100, gap_ns=20 * MS),)
    faults = (Fault(100 * MS, "lie", 1, for_ns=6 * SECOND), Fault(350 * MS, "power-loss", 1, for_ns=10 * MS))
    assert not run_plan(replace(plan, hosts=hosts, streams=streams, faults=faults)).violations


@pytest.mark.gate
def test_a_second_opener_of_a_store_is_refused_and_harms_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever it comes; and a file system whose locks keep nobody out is a broken promise."""
    plan = calm(20, faults_end_ns=2 * SECOND)
    plan = replace(plan, faults=tuple(Fault(at_ms * MS, "second-opener", at_ms % 2) for at_ms in range(0, 2_000, 97)))
    outcome = run_plan(plan)
    assert not outcome.violations
    assert outcome.seen["refused"] == outcome.seen["second-opener"] == len(plan.faults)
    monkeypatch.setattr(Handle, "xLock", lambda _self, _level: None)
    assert ("one-owner", "a second process has opened the store of a") in run_plan(plan).violations


@pytest.mark.gate
def test_what_lives_for_an_hour_outlives_clocks_that_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two starts, to the time of day and back to 1970; a node that goes by its clock alone loses messages."""
    plan = calm(20, faults_end_ns=4 * SECOND)
    streams = tuple(StreamPlan(one, 1 - one, "q", "transactional", 20, 100, live_ms=LASTING_MS) for one in (0, 1))
    cut = Fault(0, "cut", 0, 1, for_ns=3_500 * MS)
    faults = (cut, *(Fault(at_ms * MS, "clock-set", 0, for_ns=MS) for at_ms in (0, 1_500, 2_500)))
    plan = replace(plan, streams=streams, faults=faults)
    assert not run_plan(plan).violations
    monkeypatch.setattr("triack.tools.sim.host.find_jump", lambda *_: None)
    assert run_plan(plan).violations


def test_a_run_without_end_is_a_broken_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends, says so, and still tells what happened until then."""
    monkeypatch.setattr("triack.tools.chaos.run.EVENTS_MAX", 20)
    outcome = run_plan(draw(1))
    assert outcome.violations == [("liveness", "more than 20 events: something goes on without end")]
    assert outcome.events == 20


def test_an_error_that_no_rule_knows_is_a_broken_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of this seed: a campaign goes on with the next one, and names where it was raised."""

    def fail(_store: Store) -> None:
        raise struct.error("argument out of range")

    monkeypatch.setattr(Store, "close", fail)
    (violation,) = run_plan(replace(draw(1), faults=(Fault(100 * MS, "stop", 0, for_ns=10 * MS),))).violations
    assert violation[0] == "crash"
    assert violation[1].startswith(f"error: argument out of range, in fail ({Path(__file__).name}:")


def test_a_body_that_nobody_frees_is_a_broken_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sender's source has ended, and the destination was told."""
    plan = calm(0, streams=(StreamPlan(0, 1, "q", "transactional", 4, 100, streamed_bytes=9_000),))
    assert rules(run_plan(plan)) == set()
    monkeypatch.setattr(workload, "TORN_CHANCE", 1.0)
    monkeypatch.setattr(Bodies, "give_up", lambda *_: None)
    assert rules(run_plan(plan)) == {"bodies"}


@pytest.mark.gate
@pytest.mark.parametrize(
    "seed",
    [
        5339,  # an answer that was logged before its commit, as another message was refused
        20068,  # a rejection that is on the disk, and in a log that a loss of power has cut
        20180,  # the rest of a message whose first part was refused
        1352318,  # a route that changes while a resend tier runs
        1360503,  # and one that is held at each relay of a circle
        1361582,  # fragments of an ended stream at a relay that was away
        1362118,  # a relay that holds back what its origin has given up
        1370402,  # a session that fails while its packets wait for their order ack
        1372263,  # a relay that gets a copy of what it has given up
        1500084,  # fragments whose time was over, and that were passed on after all
        1372670,  # a session that still repeats after its stream goes another way
    ],
)
def test_seeds_that_once_accused_nodes_that_were_right(seed: int) -> None:
    assert run_seed(seed).violations == []


@pytest.mark.parametrize(
    ("stream", "has_died", "waits"),
    [
        ({}, False, False),
        ({"rejections": {3: "queue-full"}}, False, True),
        ({"relay": "r"}, False, True),
        ({"delivery": Delivery.EXPRESS}, False, False),
        ({"delivery": Delivery.EXPRESS}, True, True),
    ],
)
def test_pieces_of_a_message_wait_where_its_origin_has_still_to_say_that_it_has_ended(
    stream: dict[str, object], has_died: bool, waits: bool
) -> None:
    """A part of it was refused, or lies at a relay, or was in the memory of a process that has died."""
    name = StreamId(b"o" * 16, 1)
    one = SimpleNamespace(**{"id": name, "rejections": {}, "relay": "", "delivery": Delivery.RECOVERABLE, **stream})
    ends = SimpleNamespace(awaited=SimpleNamespace(ends={}))
    inbox = SimpleNamespace(ends=ends, streams=[one])
    assert _awaited(inbox, has_died=has_died) == ({name} if waits else set())  # type: ignore[arg-type]


# One simulated machine: a store that it cannot use, and readers that wait for its messages.
def test_a_store_that_says_what_no_node_writes_is_damaged(one: Host) -> None:
    """Its checksums are right, but there is no such delivery class: the machine is lost, with the reason."""
    with_row = Commit(streams={1: OutgoingStreamRow(1, "udp://b:1", "orders", 9, 1, 1)}, serial=1)
    store = Store(FOLDER, vfs=one.disk.vfs, page_bytes=one.plan.page_bytes)
    store.load(b"n" * 16, 1)
    store.apply(with_row)
    store.close()
    one.start()
    assert (one.engine, one.ends) == (None, ["store-damaged"])
    assert str(one.lost) == f"open store {store.path}: ValueError: 9 is not a valid Delivery"
    one.start()
    assert one.lives == 1, "a lost machine does not start again"


@pytest.fixture
def one() -> Iterator[Host]:
    world = World(1)
    host = Host(world, Network(world), draw(1).hosts[0])
    yield host
    host.disk.close()


def test_a_waiter_for_messages_hears_once_by_a_process_that_works(one: Host) -> None:
    """Not while the machine is down, and not again for what is still there."""
    world, told = one.world, list[int]()
    one.await_messages("orders", lambda: told.append(world.now_ns))
    one.start()
    one.act(lambda: one.live.submit(one.live.outgoing_stream("", "orders", Delivery.RECOVERABLE), b"x", 1))
    assert told == []
    world.run(SECOND)
    assert (len(told), one.has_messages("orders")) == (1, True)
    one.act(lambda: None)
    one.crash_after(down_ns=SECOND)
    one.await_messages("orders", lambda: told.append(world.now_ns))
    assert (len(told), one.has_messages("orders")) == (1, False)
    world.run(SECOND)
    assert (len(told), one.has_messages("orders")) == (2, True)


def test_a_machine_that_moves_is_found_where_others_look_for_it() -> None:
    world = World(1)
    network = Network(world)
    plans = [
        replace(draw(1).hosts[0], name=name, address=f"udp://{name}:1", others=(f"udp://{name}:2",)) for name in "ab"
    ]
    one, other = hosts = [Host(world, network, plan) for plan in plans]
    for host in hosts:
        host.start()
    other.move("udp://b:2", SECOND)
    one.act(lambda: one.live.submit(one.live.outgoing_stream("b", "q", Delivery.RECOVERABLE), b"x", 1))
    world.run(10 * SECOND)
    assert (other.ends, other.has_messages("q")) == (["killed"], True)
    for host in hosts:
        host.disk.close()


def test_a_process_that_stood_still_does_what_has_waited_in_order(one: Host) -> None:
    """When its pause is over, however often it was made longer, or everything is healed; and nothing if it has died."""
    one.start()
    done: list[int] = []

    def pause(first: int) -> None:
        one.pause(2 * SECOND)
        for number in (first, first + 1):
            one.act(partial(done.append, number))

    pause(1)
    one.world.run(SECOND)
    one.pause(3 * SECOND)
    one.world.run(2 * SECOND)
    assert done == []
    one.world.run(SECOND)
    assert done == [1, 2]
    pause(3)
    one.heal()
    one.act(lambda: done.append(5))
    assert done == [1, 2, 3, 4, 5]
    pause(6)
    one.crash_after(down_ns=SECOND)
    one.world.run(9 * SECOND)
    assert done == [1, 2, 3, 4, 5]


# A failing plan becomes small, as long as it still fails.
def test_shrinking_leaves_what_the_failure_needs() -> None:
    """The one fault that matters, a calm network and little work."""
    plan = next(plan for plan in map(draw, range(100)) if sum(fault.kind == "kill" for fault in plan.faults) > 3)
    needed = [fault for fault in plan.faults if fault.kind == "kill"][2]

    def fails(smaller: Plan) -> bool:
        return needed in smaller.faults and smaller.streams[0].count >= 5

    found = shrink(plan, fails)
    assert found.faults == (needed,)
    assert found.network == Faults(delay_ns=plan.network.delay_ns)
    assert 5 <= found.streams[0].count < 10
    assert len(found.streams) == 1


def test_a_stream_that_others_forward_from_stays() -> None:
    plan = next(plan for plan in map(draw, range(100)) if any(stream.source >= 0 for stream in plan.streams))
    found = shrink(plan, lambda smaller: any(stream.source >= 0 for stream in smaller.streams))
    forwarding = [stream for stream in found.streams if stream.source >= 0]
    assert forwarding
    assert all(stream.source < len(found.streams) for stream in forwarding)
    assert {stream.count for stream in found.streams} == {1}
    assert found.faults == ()
    assert found.dead_path is None


# ``triack chaos`` as a user runs it.
FIGURES = {"seeds", "violations", "seconds", "seeds_per_second", "virtual_seconds", "trace"}


def run_command(*arguments: str) -> Result:
    return CliRunner().invoke(chaos, arguments, standalone_mode=False, catch_exceptions=False)


def figures(result: Result) -> dict[str, object]:
    return dict(json.loads(result.stdout.splitlines()[-1]))


@pytest.mark.gate
def test_one_seed_says_what_it_drew_and_what_came_of_it(tmp_path: Path) -> None:
    """The seed first, the figures last; the same trace each time. Logs are written for the replay."""
    logs = tmp_path / "logs"
    results = [run_command("--seed", "7", "--json", *more) for more in (("--log", str(logs)), ("-v",))]
    assert results[0].return_value == 0
    assert results[0].stderr.startswith("seed 7\n")
    assert figures(results[0]).keys() >= FIGURES
    assert figures(results[0])["trace"] == figures(results[1])["trace"]
    assert all(path.name.endswith("-000001.jsonl") for path in logs.iterdir())
    assert len(list(logs.iterdir())) >= 2


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ("--seed 1 --seeds 2", "--seeds does not go with --seed"),
        ("--shrink", "--shrink does not go with a run of many seeds"),
        ("--log x", "--log does not go with a run of many seeds"),
        ("--seed 1 --minutes 2", "--minutes does not go with --seed"),
    ],
)
def test_options_that_do_not_go_together(arguments: str, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        run_command(*arguments.split())


# Journals of chaos runs: all kinds are drawn, and the history knows what has to be in them.
def test_both_kinds_are_drawn_with_all_that_may_happen_when_they_are_full() -> None:
    kinds: set[tuple[str, str, bool]] = set()
    for plan in map(draw, range(120)):
        limits = [host.settings.limits for host in plan.hosts]
        journals = [(READ, it) for one in limits for it in one.queue_journal.values()]
        journals += [(SENT, one.journal) for one in limits if one.journal != Journal()]
        if any(fault.kind in DISHONEST for fault in plan.faults):
            assert not journals
        kinds |= {(kind, journal.when_full, journal.messages == NO_LIMIT) for kind, journal in journals}
        assert any(kind == SENT for kind, _ in journals) == any(stream.journal for stream in plan.streams)
    assert kinds == {(kind, full, limit) for kind in (READ, SENT) for full in FULL for limit in (True, False)}


FULL = ("drop oldest", "stop", "hold")


# Operators who pause queues and resume them, whatever happens to the nodes meanwhile.
HERE = Fault(0, "pause-queue", host=1, for_ns=3 * SECOND)
THERE = Fault(0, "pause-queue", host=0, other=OUTGOING, for_ns=3 * SECOND)


@pytest.mark.parametrize("fault", [HERE, THERE])
def test_nothing_is_read_of_a_paused_queue_until_it_is_resumed(make: Make, fault: Fault) -> None:
    scene = make()
    scene.world.run(200 * MS)
    Pausing(plan_of(), scene.hosts, scene.world).pause(fault)
    scene.world.run(SECOND)
    before = len(scene.handed())
    scene.world.run(SECOND)
    assert len(scene.handed()) == before < 200
    scene.world.run(20 * SECOND)
    assert len(scene.handed()) == 200


def test_a_node_that_dies_before_the_resume_is_durable_is_resumed_again(make: Make) -> None:
    scene = make()
    pausing = Pausing(plan_of(), scene.hosts, scene.world)
    pausing.pause(HERE)
    scene.world.run(2_999 * MS)
    host = scene.hosts[1]
    assert host.engine is not None
    host.engine.resume("q", scene.world.now_ns)
    host.crash_after(down_ns=500 * MS)
    scene.world.run(20 * SECOND)
    assert host.engine is not None
    assert not host.engine.queues.pauses.by_name
    assert len(scene.handed()) == 200
