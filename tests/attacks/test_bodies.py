"""Large bodies of a peer that means harm: none fills the disk or the memory beyond what it is charged for."""

import pytest

from tests.queues.hostile import ORIGIN, Hostile, victim
from tests.queues.world import SimNode
from triack.base.commit import Read, key_of
from triack.base.names import StreamId
from triack.base.reasons import DropReason
from triack.base.units import SECOND
from triack.queues.mailboxes.large_bodies import BODY_BYTES, Body
from triack.queues.messages import LargeMessage, Outgoing
from triack.queues.node_settings import PART_MIN_BYTES, STREAM_BYTES, Limits, NodeSettings, Quota, streams_limit
from triack.queues.packing import pack

RESERVE_BYTES = Limits().disk_reserve_bytes


def announcement(ordinal: int, total_bytes: int) -> bytes:
    return pack([LargeMessage(total_bytes.to_bytes(6), ordinal=ordinal)], 2_000, 1, 1)[0][0].body


def part(size_bytes: int) -> bytes:
    return pack([Outgoing(bytes(size_bytes))], 2_000, 1, 1)[0][0].body


def bodies_of(node: SimNode) -> list[Body]:
    return list(node.live.queues.bodies.by_id.values())


def send(evil: Hostile, number: int, body: bytes, *, stream: int = 1, previous: int | None = None) -> None:
    evil.frames(evil.message(number, previous=previous, stream=stream, queue="$large.q", body=body))
    evil.world.run(SECOND // 100)


def send_whole(evil: Hostile, count: int) -> None:
    """Bodies of one byte each, and no message."""
    for at in range(count):
        send(evil, 2 * at + 1, announcement(at + 1, 1))
        send(evil, 2 * at + 2, part(1))


def test_announcements_that_come_before_their_turn_share_one_room() -> None:
    """Each is alone when it comes, and would fit; but what makes it the next in its stream comes later."""
    _, node, evil = victim()
    node.live.inbox.admission.disk_room.handle_room(RESERVE_BYTES + 1_500_000)
    for stream in (1, 2, 3):
        send(evil, 2, announcement(stream, 1_000_000), stream=stream, previous=1)
    assert node.live.queues.bodies.coming_bytes == 0
    for stream in (1, 2, 3):
        send(evil, 1, part(1), stream=stream, previous=0)
    for stream in (1, 2, 3):
        send(evil, 2, announcement(stream, 1_000_000), stream=stream, previous=1)
    assert node.live.queues.bodies.coming_bytes == 1_000_000


def test_parts_of_one_byte_are_refused_but_for_the_last() -> None:
    """A part below the least size ends its body: no row and no memory is spent on those behind it."""
    _, node, evil = victim()
    send(evil, 1, announcement(9, 100_000))
    for number in range(2, 52):
        send(evil, number, part(1))
    (body,) = bodies_of(node)
    assert (body.have_bytes, len(body.parts)) == (1, 1)
    assert node.log("rejected")[-1]["reason"] == "part-too-small"
    for number, it in enumerate((announcement(10, PART_MIN_BYTES + 1), part(PART_MIN_BYTES), part(1)), start=1):
        send(evil, number, it, stream=2)
    assert node.live.queues.bodies.is_whole(ORIGIN, 10)


def test_parts_of_one_byte_in_one_commit_are_dropped_and_counted() -> None:
    """They come before it is known that one of them is here already."""
    _, node, evil = victim()
    send(evil, 1, announcement(9, 100_000))
    frames = [evil.message(number, queue="$large.q", body=part(1)) for number in range(2, 22)]
    evil.each(*frames)
    evil.world.run(SECOND)
    (body,) = bodies_of(node)
    assert body.have_bytes == 1
    assert node.live.drops[DropReason.SMALL_PART] + len(node.log("rejected")) == 19
    node.restart()
    assert [it.have_bytes for it in bodies_of(node)] == [1]


def test_bodies_that_nobody_claims_count_as_messages() -> None:
    """A quota of bytes would let in a thousand million of one byte each."""
    limits = Limits(queue_quota={"q": Quota(20, 2**30)})
    _, node, evil = victim(NodeSettings(limits=limits))
    send_whole(evil, 40)
    assert len(bodies_of(node)) == 20
    assert [it.reason for it in node.live.inbox.admission.holds.streams] == ["queue-full"]


def test_bodies_that_nobody_claims_count_for_the_memory_of_their_peer() -> None:
    """Before and after a start; nobody counts them one by one to say how many there are."""
    _, node, evil = victim(NodeSettings(limits=Limits(peer_memory_bytes=4 * 30 * BODY_BYTES)))
    send_whole(evil, 40)
    assert len(bodies_of(node)) == 30
    assert [it.reason for it in node.live.inbox.admission.holds.streams] == ["peer-quota"]
    node.restart()
    bodies, shelf = node.live.queues.bodies, node.live.queues.mailboxes["$large.q"]
    for awaiting in (30, 0):
        assert bodies.awaiting(ORIGIN, shelf.fill) == awaiting
        assert bodies.keeps_any(shelf.fill) is bodies.is_full(ORIGIN) is (awaiting > 0)
        for ordinal in range(1, awaiting + 1):
            bodies.give_up((ORIGIN, ordinal))
    assert not bodies.is_full(b"x" * 16)


def test_a_body_has_a_stream_for_the_word_that_frees_it_beyond_the_limit() -> None:
    """As for its message: the streams within the limit may wait for its room."""
    _, node, evil = victim()
    send(evil, 1, announcement(9, 300))
    send(evil, 2, part(300))
    places = node.live.inbox.admission.stream_places
    places.account.add(ORIGIN, STREAM_BYTES * streams_limit(node.settings) - places.account.of(ORIGIN))
    full = [queue for queue in ("q", "$large.q", "other", "$large.other") if places.has_enough(ORIGIN, queue)]
    assert full == ["other", "$large.other"]


@pytest.mark.parametrize("is_low", [False, True])
def test_parts_of_no_body_stay_nowhere(is_low: bool) -> None:
    """They are refused by name, on a disk without room, too, so that the stream goes on."""
    _, node, evil = victim()
    send(evil, 1, announcement(9, 100_000))
    node.live.inbox.admission.disk_room.handle_room(0 if is_low else None)
    send(evil, 2, pack([LargeMessage(b"", ordinal=9)], 2_000, 1, 1)[0][0].body)
    for number in range(3, 13):
        send(evil, number, part(1_000))
    evil.world.run(SECOND)
    assert not bodies_of(node)
    assert not node.live.queues.bodies.is_coming(StreamId(ORIGIN, 1))
    assert {it["reason"] for it in node.log("rejected")} == {"body-gone"}
    shelf = node.live.queues.mailboxes["$large.q"]
    rows = Read("messages", [key_of(shelf.queue_id, position) for position in range(1, shelf.next_position)])
    node.store.read(rows)
    assert (shelf.fill.bytes.value, shelf.fill.messages.value, rows.bodies) == (0, 0, {})
