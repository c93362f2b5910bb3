"""When streams end, what is on the disk before anything is said, and what a restart makes of each step."""

import pytest

from tests.queues.bare import Bare
from tests.queues.world import SimNode, World
from triack.base.commit import Commit
from triack.base.delivery import Delivery
from triack.base.units import MS, SECOND
from triack.queues.node_settings import Limits, NodeSettings
from triack.queues.peers.control import Control
from triack.queues.peers.link import Conversation
from triack.queues.streams.retirement import ENDED
from triack.queues.streams.stream_state import END_KEY, StreamState
from triack.session.protocol.settings import SessionSettings
from triack.store.runs import Reading
from triack.tools.sim.faults import Faults

QUICK = NodeSettings(retire_after_s=1.0)


def pair(settings: NodeSettings = QUICK) -> tuple[World, SimNode, SimNode]:
    world = World(1, Faults(delay_ns=5 * MS))
    return world, world.node("a", settings), world.node("b", settings)


def life(node: SimNode) -> list[StreamState]:
    return [outgoing.life for outgoing in node.outbox.retirement._ended.values()]  # noqa: SLF001 - what it has told


@pytest.mark.slow
@pytest.mark.gate
def test_each_stream_has_a_stream_and_a_sequence_that_no_other_ever_has() -> None:
    """Streams are used again, sequences are not, over restarts."""
    world, a, b = pair()
    seen: set[tuple[int, int]] = set()
    for number in range(30):
        a.send(b, f"q{number}", b"x")
        a.send(a, f"own{number}", b"x")
        streams = {(outgoing.stream_number, outgoing.sequence.sequence) for outgoing in a.outbox.streams}
        seen |= streams
        world.run(5 * SECOND)
        if number % 7 == 3:
            a.restart()
    assert len(seen) == 60
    assert len({sequence for _, sequence in seen}) == 60
    assert max(stream for stream, _ in seen) <= 8


def test_that_it_ends_is_on_the_disk_before_its_peer_hears_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the row stays until the answer has come."""
    world, a, b = pair()
    told: list[tuple[bool, int]] = []
    put = Conversation.put_control

    def note(conversation: Conversation, key: tuple[int, int], control: Control) -> bool:
        if key[1] == END_KEY and conversation.own.name == "a":
            told.append((on_disk(a)[key[0]] == ENDED, key[0]))
        return put(conversation, key, control)

    a.send(b, "q", b"x")
    world.run(500 * MS)
    monkeypatch.setattr(Conversation, "put_control", note)
    world.run(5 * SECOND)
    assert told == [(True, 1)]
    assert on_disk(a) == {}


def on_disk(node: SimNode) -> dict[int, int]:
    """Stream and next number of each row."""
    found = node.store._load(Reading())  # noqa: SLF001 - what a start would find
    return {row.stream: row.next_number for row in found.streams}


def test_the_end_of_a_stream_is_sent_again_after_a_restart() -> None:
    """It was not answered: nobody knows whether its destination has heard. A new message has a new stream."""
    world, a, b = pair()
    a.send(b, "q", b"1")
    world.run(900 * MS)
    world.cut(a, b)
    world.run(2 * SECOND)
    assert life(a) == [StreamState.TOLD]
    a.restart()
    assert (life(a), a.outbox.streams, on_disk(a)) == ([StreamState.TOLD], [], {1: ENDED})
    world.heal()
    a.send(b, "q", b"2")
    world.run(60 * SECOND)
    assert (life(a), on_disk(a), b.read_all("q")) == ([], {}, [b"1", b"2"])


@pytest.mark.slow
def test_what_is_outstanding_keeps_its_stream() -> None:
    """However long it waits."""
    world, a, b = pair()
    b.crash()
    a.send(b, "q", b"1")
    world.run(3_600 * SECOND)
    assert [outgoing.life for outgoing in a.outbox.streams] == [StreamState.LIVE]
    b.start()
    assert world.run(120 * SECOND, lambda: b.length("q") == 1)


@pytest.mark.parametrize("restarts", [False, True], ids=["goes on", "starts again"])
@pytest.mark.parametrize("delivery", list(Delivery), ids=str)
def test_pieces_of_a_message_that_expired_half_way_keep_no_other_waiting(delivery: Delivery, *, restarts: bool) -> None:
    """Nothing follows in its stream: its end says that the pieces are not wanted, though an idle stream never ends."""
    world = World(1, Faults(delay_ns=5 * MS))
    a = world.node("a", NodeSettings(retire_after_s=None, session=SessionSettings(max_unacked_packet=2)))
    b = world.node("b", NodeSettings(limits=Limits(peer_quota_bytes=10_000, peer_memory_bytes=10_000)))
    a.send(b, "large", b"x" * 15_000, delivery=delivery, live_ms=60)
    assert world.run(SECOND, lambda: a.length("dead-letter") == 1)
    if restarts:
        a.restart()
    assert b.log("committed") or delivery is Delivery.EXPRESS
    a.send(b, "other", b"y" * 15_000, delivery=delivery)
    assert world.run(30 * SECOND, lambda: b.length("other") == 1)
    assert b.length("large") == 0


def test_a_node_looks_at_a_stream_that_must_not_end_once_a_second() -> None:
    """A short wait would wake it without end."""
    node = Bare(settings=NodeSettings(retire_after_s=0.01))
    outgoing = node.engine.outgoing_stream("memory://b", "q", Delivery.EXPRESS)
    outgoing.senders = 1
    node.poll()
    wakes, end_ns = 0, node.now_ns + 20 * SECOND
    while (at_ns := node.engine.next_deadline()) is not None and at_ns < end_ns:
        node.poll(max(0, at_ns - node.now_ns))
        wakes += 1
    assert node.engine.outbox.streams == [outgoing]
    assert wakes < 50
    outgoing.senders = 0
    node.poll(2 * SECOND)
    assert node.engine.outbox.streams == []


def test_a_name_that_is_only_asked_for_is_forgotten_as_well() -> None:
    """Nothing was ever sent to it."""
    node = Bare(settings=QUICK)
    node.engine.outgoing_stream("memory://b", "q", Delivery.TRANSACTIONAL)
    node.poll()
    node.finish_job()
    node.now_ns += 2 * SECOND
    node.poll()
    assert node.engine.outbox.streams == []


def test_who_kept_an_outgoing_queue_finds_the_one_in_its_place() -> None:
    """A transaction may have prepared a message long ago."""
    world, a, b = pair()
    kept = a.live.outgoing_stream(b.address, "q", Delivery.TRANSACTIONAL)
    a.act(lambda: a.live.submit(kept, b"1", 1))
    world.run(5 * SECOND)
    assert kept.life is StreamState.GONE
    a.act(lambda: a.live.submit(a.live.current(kept), b"2", 1))
    world.run(5 * SECOND)
    assert b.read_all("q") == [b"1", b"2"]


def test_an_answer_of_another_node_counts_for_nothing() -> None:
    world, a, b = pair()
    a.send(b, "q", b"1")
    world.run(900 * MS)
    world.cut(a, b)
    world.run(2 * SECOND)
    (told,) = a.outbox.retirement._ended.values()  # noqa: SLF001 - what it has told
    turn = a.live.jobs.turn(world.now_ns)
    answer = told.stream_number, told.sequence.sequence
    assert not a.outbox.retirement.handle_answer(*answer, b"x" * 16, turn)
    assert a.outbox.retirement.handle_answer(answer[0], answer[1] + 1, b"x" * 16, turn)
    assert turn.commit == Commit()


@pytest.mark.slow
@pytest.mark.gate
@pytest.mark.parametrize("delivery", [Delivery.TRANSACTIONAL, Delivery.RECOVERABLE], ids=str)
def test_pieces_of_an_ended_stream_go_whenever_their_node_dies(delivery: Delivery) -> None:
    """One commit forgets the stream, and a later one deletes the pieces."""
    died = set()
    for at_ms in range(24):
        world = World(1, Faults(delay_ns=5 * MS))
        a = world.node("a", NodeSettings(session=SessionSettings(max_unacked_packet=2)))
        b = world.node("b")
        a.send(b, "large", b"x" * 15_000, delivery=delivery, live_ms=60)
        assert world.run(SECOND, lambda b=b: bool(b.log("stream_forgotten")))  # type: ignore[misc]
        world.run(at_ms * MS // 4)
        died.add((bool(b.live.inbox.streams), bool(b.live.queues.mailboxes["large"].partials)))
        b.restart()
        a.send(b, "other", b"opens a session, in which the end is said again")
        fill = b.live.queues.mailboxes["large"].fill
        assert world.run(60 * SECOND, lambda fill=fill: not fill.bytes.value)  # type: ignore[misc]
    assert (False, True) in died
