"""Looking into queues: pages, what is not seen, and what only the disk has."""

import pytest

from tests.queues.world import SimNode, World, numbered
from triack.base.commit import Read
from triack.base.delivery import Delivery
from triack.base.units import MS
from triack.ordering.outgoing import OutgoingSequence, StreamPacket
from triack.queues.mailboxes.mailbox import Mailbox
from triack.queues.mailboxes.redelivery import Return
from triack.queues.manager.browse import (
    PAGE_BYTES,
    BrowsedMessage,
    Position,
    Sight,
    cut_page,
    missing,
    see,
    sights_of,
    sights_on_the_way,
)
from triack.queues.manager.jobs import Look
from triack.queues.node_settings import NodeSettings


def fetched(node: SimNode, read: Read | None) -> dict[int, bytes]:
    """Bodies through the store's thread, as a node has them."""
    if read is None:
        return {}
    said: list[Exception | None] = []
    look = Look(read.table, read.keys, waiter=said.append)
    node.live.look(look)
    node.drain()
    node.world.run(10 * MS)
    assert said == [None]
    return look.bodies


def page(node: SimNode, mailbox: Mailbox, after: Position = (), limit: int = 100) -> list[BrowsedMessage]:
    found = cut_page(sights_of(mailbox, after, node.world.now_ms), limit)
    return list(see(found, fetched(node, missing(found))))


def test_pages_show_all_that_waits_in_order_and_take_nothing() -> None:
    """After a restart, too, when only the disk has the bodies."""
    world = World(1)
    node = world.node("a")
    sent = numbered(0, 50)
    for at in range(0, 50, 10):
        node.send(node, "q", *sent[at : at + 10])
        world.run(10 * MS)
    for _ in range(2):
        mailbox = node.live.queues.mailboxes["q"]
        seen: list[BrowsedMessage] = []
        while found := page(node, mailbox, seen[-1].position if seen else (), 7):
            seen += found
        assert [it.body for it in seen] == sent
        assert {(it.queue, it.delivery, it.attempts) for it in seen} == {("q", Delivery.TRANSACTIONAL, 0)}
        assert len({it.id for it in seen}) == 50
        node.restart()
    assert node.read_all("q") == sent


def test_what_a_reader_has_is_not_seen_and_what_it_gave_back_is() -> None:
    """With its failures, and until when it waits; one that younger ones pass is in its old place."""
    world = World(2)
    node = world.node("a")
    node.send(node, "q", b"0", b"1", b"2", b"3")
    world.run(10 * MS)
    mailbox, now_ns = node.live.make_queue("q"), world.now_ns
    first, second = (node.live.take(mailbox, now_ns) for _ in range(2))
    assert first is not None
    assert second is not None
    assert [it.body for it in page(node, mailbox)] == [b"2", b"3"]
    node.live.give_back(mailbox, first, Return(failed=True), world.now_ns)
    found = page(node, mailbox)
    assert [(it.body, it.attempts) for it in found] == [(b"0", 1), (b"2", 0), (b"3", 0)]
    assert [it.wait_until for it in found] == [(world.now_ms + 1_000) / 1_000, None, None]
    mailbox.acknowledge(second)
    assert [it.body for it in page(node, mailbox)] == [b"0", b"2", b"3"]


def test_what_is_on_its_way_is_seen_until_it_has_arrived() -> None:
    """Large and small ones, with how often they were sent, also when their bodies are on the disk only."""
    world = World(3)
    a, b = world.node("a"), world.node("b")
    world.cut(a, b)
    large = b"x" * 200_000
    a.send(b, "q", b"small", large, b"smaller")
    world.run(10 * MS)
    seen: list[BrowsedMessage] = []
    for _ in range(2):
        (outgoing,) = a.outbox.streams
        found = cut_page(sights_on_the_way(outgoing, a.live.node_id, ()), 100)
        seen = list(see(found, fetched(a, missing(found))))
        assert [it.body for it in seen] == [b"small", large, b"smaller"]
        assert [it.queue for it in seen] == ["b/q"] * 3
        rest = cut_page(sights_on_the_way(outgoing, a.live.node_id, seen[0].position), 1)
        assert [it.position for it in rest] == [seen[1].position]
        a.restart()
    ids = [it.id for it in seen]
    world.heal()
    world.run(5_000 * MS)
    assert list(sights_on_the_way(a.outbox.streams[0], a.live.node_id, ())) == []
    assert [it.id for it in page(b, b.live.queues.mailboxes["q"])] == ids


def test_a_page_looks_at_what_it_shows_and_not_at_all_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a long queue would take its square in time to be gone through."""
    world = World(3)
    a, b = world.node("a", NodeSettings(messages_per_packet=1)), world.node("b")
    world.cut(a, b)
    for delivery in (Delivery.RECOVERABLE, Delivery.TRANSACTIONAL):
        a.send(b, "q", *numbered(0, 50), delivery=delivery)
    world.run(10 * MS)
    ways = sorted(a.outbox.streams, key=lambda it: it.stream_number)
    whole = [sight.position for way in ways for sight in sights_on_the_way(way, b"", ())]
    looked_at: list[int] = []
    sequence, of = type(ways[0].sequence), type(ways[0].sequence).message_of

    def message_of(self: OutgoingSequence, entry: StreamPacket) -> list[StreamPacket]:
        looked_at.append(entry.number)
        return of(self, entry)

    monkeypatch.setattr(sequence, "message_of", message_of)
    for first in (0, 30, 49, 70):
        looked_at.clear()
        page = cut_page((sight for way in ways for sight in sights_on_the_way(way, b"", whole[first])), 10)
        assert [sight.position for sight in page] == whole[first + 1 : first + 11]
        assert len(looked_at) <= 13


def test_a_page_ends_before_it_is_larger_than_a_frame() -> None:
    """One packet is always in it; messages of one packet count once."""
    world = World(4)
    node = world.node("a")
    node.send(node, "q", *[b"x" * (PAGE_BYTES // 2)] * 3, b"1", b"2")
    world.run(10 * MS)
    sizes = []
    seen: Position = ()
    while found := page(node, node.live.queues.mailboxes["q"], seen):
        sizes.append(len(found))
        seen = found[-1].position
    assert sizes == [1, 1, 3]


def test_what_leaves_while_it_is_fetched_is_left_out() -> None:
    world = World(5)
    node = world.node("a")
    for body in (b"1", b"2"):
        node.send(node, "q", body)
        world.run(10 * MS)
    node.restart()
    world.run(10 * MS)
    found = cut_page(sights_of(node.live.make_queue("q"), (), world.now_ms), 100)
    bodies = fetched(node, Read("messages", list(found[1].keys)))
    for sight in found:
        sight.pieces = []
    assert [it.body for it in see(found, bodies)] == [b"2"]


def test_what_cannot_be_read_is_shown_as_it_is() -> None:
    """Under the id that it has as a dead letter; properties of wrong types do no harm."""
    sight = Sight((1, 0), "q", b"o" * 16, 7, 0, Delivery.EXPRESS, 2, 3, "messages", [], [b"???"])
    (message,) = see([sight], {})
    assert (message.id, message.body, message.attempts) == (f"{(b'o' * 16).hex()}-7", b"???", 2)
    assert (message.reason, message.destination) == (None, None)
    assert BrowsedMessage.read(message.describe(), message.body) == message
