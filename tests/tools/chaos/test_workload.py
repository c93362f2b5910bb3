"""The applications of a simulated world: all that they send is read and forwarded, and the history knows."""

import pytest

from tests.tools.chaos.conftest import Make
from triack.base.units import MS, SECOND
from triack.queues.node_settings import LargeBodies, NodeSettings
from triack.tools.chaos import workload
from triack.tools.chaos.history import Batch, Fate, Part, body_of
from triack.tools.chaos.plan import StreamPlan
from triack.tools.chaos.workload import STREAMED_AT, STREAMED_EVERY

CLASSES = ("express", "recoverable", "transactional")


@pytest.mark.parametrize("delivery", CLASSES)
@pytest.mark.parametrize("transactional", [False, True])
def test_everything_is_sent_accepted_and_read(make: Make, delivery: str, transactional: bool) -> None:
    scene = make(StreamPlan(0, 1, "q", delivery, 50, 100, large_bytes=5_000), transactional=transactional)
    scene.world.run(20 * SECOND)
    seen = scene.history.streams[0]
    assert seen.fates == dict.fromkeys(range(50), Fate.ACCEPTED)
    assert seen.handed == dict.fromkeys(range(50), 1)
    assert seen.acknowledged == set(range(50))
    scene.history.finish()
    assert scene.history.violations == []
    kept = scene.hosts[1].state.get("done/0")
    assert kept == (b"49" if transactional and delivery == "transactional" else None)


IN_PARTS = NodeSettings(large=LargeBodies(1, 500, 1_000))


@pytest.mark.parametrize("delivery", CLASSES[1:])
@pytest.mark.parametrize("transactional", [False, True])
def test_messages_go_in_parts(make: Make, delivery: str, transactional: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each once and in its place, though sources end early, readers give back, and both machines die."""
    monkeypatch.setattr(workload, "TORN_CHANCE", 0.5)
    stream = StreamPlan(0, 1, "q", delivery, 20, 100, streamed_bytes=2_700, live_ms=3_600_000)
    scene = make(stream, transactional=transactional, settings=IN_PARTS, failure_rate=0.2)
    for host in (0, 1, 0, 1):
        scene.world.run(150 * MS)
        scene.hosts[host].crash_after(power=True, down_ns=100 * MS)
    scene.world.run(60 * SECOND)
    seen = scene.history.streams[0]
    assert sorted(seen.fates) == sorted(seen.handed) == list(range(20))
    scene.history.finish()
    assert scene.history.violations == []
    assert not scene.hosts[1].live.queues.bodies.by_id
    number = STREAMED_AT + STREAMED_EVERY
    seen.handed.clear()
    scene.history.handed(0, number, body_of(0, number, 2_700)[:-500] + bytes(500), redelivered=True, reader=None)
    assert ("queue", "stream 0 (0>1/q " + delivery + "): 7 was altered on its way") in scene.history.violations


@pytest.mark.parametrize("large", [0, 2_700])
def test_what_has_to_be_received_in_time_and_is_read_by_nobody(make: Make, large: int) -> None:
    """Nothing of it is handed out, and all of it is a dead letter that says which it is."""
    scene = make(StreamPlan(0, 1, "q", "transactional", 3, 100, streamed_bytes=large, read_ms=300, is_read=False))
    scene.world.run(9 * SECOND)
    for host in scene.hosts:
        scene.work.read_dead_letters(host)
    seen = scene.history.streams[0]
    assert (seen.buried, seen.handed, scene.history.violations) == ({0, 1, 2}, {}, [])


def test_a_sender_goes_on_where_it_was_when_its_machine_died(make: Make) -> None:
    """No number is submitted twice: what was on its way to the disk is there, or is not."""
    scene = make(StreamPlan(0, 1, "q", "transactional", 60, 100, gap_ns=100 * MS), transactional=True)
    for _ in range(4):
        scene.world.run(300 * MS)
        scene.hosts[0].crash_after(power=True, down_ns=200 * MS)
        before = scene.work.senders[0].next
        scene.world.run(199 * MS)
        assert scene.work.senders[0].next == before
    scene.world.run(30 * SECOND)
    assert scene.hosts[0].ends == ["power-loss"] * 4
    assert sorted(scene.history.streams[0].fates) == list(range(60))
    assert not scene.history.missing(0)
    scene.history.finish()
    assert scene.history.violations == []


@pytest.mark.gate
def test_what_is_read_is_forwarded_in_the_commit_that_acknowledges_it(make: Make) -> None:
    """With its number, and once, though the machine in the middle dies again and again."""
    plans = (
        StreamPlan(0, 1, "q", "transactional", 80, 100, batch=2, gap_ns=400 * MS),
        StreamPlan(1, 2, "r", "transactional", 80, 100, source=0),
    )
    scene = make(*plans)
    for _ in range(6):
        scene.world.run(SECOND)
        scene.hosts[1].crash_after(3, down_ns=50 * MS)
    scene.world.run(60 * SECOND)
    assert len(scene.hosts[1].ends) > 3
    assert scene.handed(0) == scene.handed(1) == list(range(80))
    assert set(scene.history.streams[1].handed.values()) == {1}
    scene.history.finish()
    assert scene.history.violations == []


def test_what_a_reader_gives_back_comes_again(make: Make) -> None:
    """Before anything younger, as the history checks; in the end all is acknowledged."""
    scene = make(StreamPlan(0, 1, "q", "transactional", 40, 100), failure_rate=0.3)
    scene.world.run(30 * SECOND)
    seen = scene.history.streams[0]
    assert sorted(seen.acknowledged) == list(range(40))
    assert max(seen.handed.values()) > 1
    assert seen.returned == set()
    assert scene.history.violations == []


def test_batches_of_two_streams_go_into_one_commit(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only those of one machine; both are there, or none of them."""
    monkeypatch.setattr(workload, "PAIR_CHANCE", 1.0)
    plans = [StreamPlan(sender, 2, f"q{sender}{queue}", "recoverable", 20, 100) for sender in (0, 1) for queue in "ab"]
    scene = make(*plans)
    batches: list[set[int]] = []
    submitted = scene.history.submitted

    def note(parts: list[Part]) -> Batch:
        batches.append({part.stream for part in parts})
        return submitted(parts)

    monkeypatch.setattr(scene.history, "submitted", note)
    scene.world.run(10 * SECOND)
    assert {0, 1} in batches
    assert {2, 3} in batches
    assert all(batch <= {0, 1} or batch <= {2, 3} for batch in batches)
    assert [scene.handed(stream) for stream in range(4)] == [list(range(20))] * 4


def test_a_last_message_makes_all_talk(make: Make) -> None:
    """However much was planned; what is read of it is still forwarded."""
    plans = (
        StreamPlan(0, 1, "q", "transactional", 1_000, 100, batch=1, gap_ns=SECOND),
        StreamPlan(1, 2, "r", "transactional", 1_000, 100, source=0),
    )
    scene = make(*plans)
    scene.world.run(2 * SECOND)
    sent = scene.work.senders[0].next
    assert 0 < sent < 20
    scene.work.finish()
    scene.world.run(30 * SECOND)
    assert scene.work.senders[0].next == sent + 1
    assert scene.handed(0) == scene.handed(1) == list(range(sent + 1))


def test_nothing_expires_any_more_when_the_last_messages_leave(make: Make) -> None:
    """They make every pair meet again: a peer whose store is an older copy is missed only by a node that comes by."""
    plans = (
        StreamPlan(0, 1, "q", "transactional", 1, 100, live_ms=1),
        StreamPlan(1, 2, "r", "transactional", 1, 100, read_ms=1, source=0),
    )
    scene = make(*plans)
    assert [stream.expires for stream in scene.history.streams] == [True, True]
    scene.work.finish()
    scene.world.run(30 * SECOND)
    assert scene.handed(0) == scene.handed(1) == [0]


def test_dead_letters_are_found(make: Make) -> None:
    """Messages that were not in their queue in time, at their sender; each is looked at once."""
    scene = make(StreamPlan(0, 1, "q", "transactional", 10, 100, live_ms=500))
    scene.network.cut(scene.hosts[0].address, scene.hosts[1].address)
    scene.world.run(10 * SECOND)
    assert scene.history.missing(0) == list(range(10))
    for _ in range(2):
        scene.work.read_dead_letters(scene.hosts[0])
        scene.world.run(SECOND)
    assert scene.history.streams[0].buried == set(range(10))
    assert scene.history.missing(0) == []
    assert scene.history.violations == []
    scene.hosts[0].die()
    scene.work.read_dead_letters(scene.hosts[0])


def test_receipts_that_somebody_waits_for_are_claims(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload, "CLAIM_CHANCE", 1.0)
    scene = make(*(StreamPlan(0, 1, delivery, delivery, 10, 100, batch=1) for delivery in CLASSES))
    claims: list[tuple[int, int, str]] = []
    monkeypatch.setattr(scene.history, "claimed", lambda *claim: claims.append(claim))
    scene.network.cut(scene.hosts[0].address, scene.hosts[1].address)
    scene.world.run(5 * SECOND)
    assert claims == []
    scene.network.heal()
    scene.world.run(20 * SECOND)
    found = {(stream, stage) for stream, _, stage in claims}
    assert found == {(0, "received"), (1, "stored"), (2, "ordered")}
    assert sorted(number for stream, number, _ in claims if stream == 2) == list(range(10))
