"""What an operator looks at and steers."""

import pytest

from tests.queues.admin import ask, classes
from tests.queues.world import SimNode, World, numbered, single, two
from tests.sure import sure
from triack.base.ack_trigger import AckTrigger, terms_of
from triack.base.commit import Read
from triack.base.delivery import Delivery
from triack.base.reasons import DropReason
from triack.base.units import MS, SECOND
from triack.ordering.outgoing import OutgoingSequence, StreamPacket
from triack.queues.admin_acks import Told
from triack.queues.fetching import Fetch
from triack.queues.mailboxes.mailbox import Mailbox
from triack.queues.mailboxes.redelivery import Return
from triack.queues.manager import administration
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
from triack.queues.message_classes import MessageClass
from triack.queues.node_settings import STREAM_BYTES, NodeSettings, Quota
from triack.queues.packing import Unpacked
from triack.queues.peers.session_settings import largest_window
from triack.queues.streams.ack_events import AckEvents, AckKind

# Looking into queues: pages, what is not seen, and what only the disk has.


def fetched(node: SimNode, read: Read | None) -> dict[int, bytes]:
    """Bodies through the store's thread, as a node has them."""
    if read is None:
        return {}
    found: list[dict[int, bytes]] = []
    node.live.fetch(Fetch(read.table, read.keys, take=found.append))
    node.drain()
    node.world.run(10 * MS)
    return found[0]


def page(node: SimNode, mailbox: Mailbox, after: Position = (), limit: int = 100) -> list[BrowsedMessage]:
    found = cut_page(sights_of(mailbox, after, node.world.now_ms), limit)
    return list(see(found, fetched(node, missing(found))))


def test_pages_show_all_that_waits_in_order_and_take_nothing() -> None:
    """After a restart, too, when only the disk has the bodies."""
    world, node = single()
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
    world, node = single(seed=2)
    node.send(node, "q", b"0", b"1", b"2", b"3")
    world.run(10 * MS)
    mailbox, now_ns = node.live.make_queue("q"), world.now_ns
    first, second = (sure(node.live.take(mailbox, now_ns)) for _ in range(2))
    assert [it.body for it in page(node, mailbox)] == [b"2", b"3"]
    node.live.give_back(mailbox, first, Return(failed=True), world.now_ns)
    found = page(node, mailbox)
    assert [(it.body, it.attempts) for it in found] == [(b"0", 1), (b"2", 0), (b"3", 0)]
    assert [it.wait_until for it in found] == [(world.now_ms + 1_000) / 1_000, None, None]
    mailbox.acknowledge(second)
    assert [it.body for it in page(node, mailbox)] == [b"0", b"2", b"3"]


def test_what_is_on_its_way_is_seen_until_it_has_arrived() -> None:
    """Large and small ones, with how often they were sent, also when their bodies are on the disk only."""
    world, a, b = two(3)
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
    world, a, b = two(3, a=NodeSettings(messages_per_packet=1))
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
    world, node = single(seed=4)
    node.send(node, "q", *[b"x" * (PAGE_BYTES // 2)] * 3, b"1", b"2")
    world.run(10 * MS)
    sizes, seen = list[int](), Position()
    while found := page(node, node.live.queues.mailboxes["q"], seen):
        sizes.append(len(found))
        seen = found[-1].position
    assert sizes == [1, 1, 3]


def test_what_leaves_while_it_is_fetched_is_left_out() -> None:
    world, node = single(seed=5)
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


# Whole nodes under a simulated clock: what their readers hear, and when.

ONE = AckTrigger(count=1)
"""An event for each acknowledgement that comes."""


def watch(
    node: SimNode, to: SimNode, every: AckTrigger | None, delivery: Delivery = Delivery.TRANSACTIONAL
) -> AckEvents:
    """A reader of what goes to queue q."""
    outgoing = node.live.outgoing_stream(to.address, "q", delivery)
    terms = None if every is None else terms_of(every, largest_window(node.settings))
    events = AckEvents(terms, outgoing.first_unsettled, lambda: None)
    node.live.watching.begin(outgoing, events)
    return events


def told(events: AckEvents) -> list[int]:
    """The last message of each event; negative for failures."""
    said = []
    while (event := events.poll()) is not None:
        said.append(event.last if event.kind is AckKind.ACK else -event.last)
    return said


@pytest.mark.parametrize("delivery", Delivery)
def test_every_message_of_every_class_is_reported_once(delivery: Delivery) -> None:
    """Batches and a large one, in order."""
    world, a, b = two()
    events = watch(a, b, None, delivery)
    a.send(b, "q", *numbered(0, 50), b"x" * 20_000, *numbered(0, 9), delivery=delivery)
    world.run(30 * SECOND)
    assert told(events) == list(range(1, 61))


def test_a_reader_that_comes_late_hears_of_what_is_not_settled() -> None:
    """And, without order, of what is settled after the oldest that is not."""
    world, a, b = two()
    a.send(b, "q", b"x")
    world.run(10 * SECOND)
    world.cut(a, b)
    a.send(b, "q", b"y")
    a.send(b, "q", b"z", live_ms=100)
    a.send(b, "q", b"z")
    world.run(200 * MS)
    events = watch(a, b, None)
    world.heal()
    world.run(60 * SECOND)
    assert told(events) == [2, -3, 4]


def test_a_reader_that_has_ended_is_forgotten() -> None:
    world, a, b = two()
    events = watch(a, b, None)
    outgoing, _ = a.send(b, "q", b"x")
    events.end()
    world.run(10 * SECOND)
    assert (told(events), outgoing.readers, a.live.watching.next_deadline()) == ([], [], None)


def test_senders_wait_for_a_reader_that_is_full() -> None:
    world, a, b = two()
    events = watch(a, b, None)
    outgoing, _ = a.send(b, "q", b"x")
    assert a.outbox.room_bytes(outgoing) > 0
    for ticket in range(1, 1_001):
        events.handle_failed(ticket, 1, "purged" if ticket % 2 else "queue-full")
    world.run(10 * SECOND)
    assert a.outbox.room_bytes(outgoing) == 0
    assert told(events) == [1, *(-number for number in range(2, 1_002))]
    assert a.outbox.room_bytes(outgoing) > 0


# Answers on their way out: who gets them, and what is counted.


def tell(
    node: SimNode, origin: bytes, queue: object, acks: int = 15, delivery: Delivery = Delivery.RECOVERABLE
) -> None:
    """Something happened to one message of a node."""
    content = Unpacked(1, 0, 0, [b"x"], [{"admin": {"queue": queue, "acks": acks}}])
    about = Told(origin, 1, 1, 1, delivery, "q", content, [0], MessageClass.ACK_RECEIVE)
    node.live.administration.tell(about, node.world.now_ns)
    node.drain()


@pytest.mark.parametrize("queue", ["dead-letter", "$replies", "no such name!", ""])
def test_no_answer_goes_to_a_queue_of_the_node_itself(queue: str) -> None:
    """Whatever a sender asks for."""
    world, a, b = two()
    tell(b, a.live.node_id, queue)
    world.run(SECOND)
    assert b.live.drops[DropReason.ADMIN_ACK_LOST] == 1
    assert not b.busy


def test_an_answer_to_a_stranger_is_dropped() -> None:
    _, _, b = two()
    tell(b, b"stranger" * 2, "acks")
    assert b.live.drops[DropReason.ADMIN_ACK_LOST] == 1
    assert [it["lost"] for it in b.live.administration.unnoted] == [True]
    assert b.live.administration.queued == {}


def test_a_node_that_takes_no_answers_leaves_a_limited_number_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many queues it names for them, and whatever else waits for it; those for other nodes go."""
    monkeypatch.setattr(administration, "WAITING_BYTES_MAX", 20 * (administration.PACKET_BYTES + STREAM_BYTES))
    world, a, b = two()
    c = world.node("c")
    for node in (a, c):
        node.send(b, "q", b"x")
    world.run(5 * SECOND)
    world.cut(a, b)
    for _ in range(30):
        b.send(a, "own", bytes(2_000))
    for number in range(50):
        tell(b, a.live.node_id, f"q{number}")
        world.run(SECOND // 10)
    assert sum(it.unacknowledged for it in b.live.outbox.links["a"].streams if it.queue != "own") == 20
    assert b.live.drops[DropReason.ADMIN_ACK_LOST] == 30
    tell(b, c.live.node_id, "q")
    assert world.run(5 * SECOND, lambda: c.length("q") == 1)


def test_an_answer_to_the_node_itself_finds_its_queue_or_is_dropped() -> None:
    world = World(1)
    fixed = world.node("a", queues=["acks"])
    for queue in ("acks", "none"):
        tell(fixed, fixed.live.node_id, queue)
    world.run(SECOND)
    assert classes(fixed) == [MessageClass.ACK_RECEIVE]
    assert fixed.live.drops[DropReason.ADMIN_ACK_LOST] == 1


def test_a_large_message_whose_pieces_are_on_the_disk_alone_is_told_of() -> None:
    """They are fetched for it, with or without a reader; after a restart nothing is told again."""
    world, a, b = two()
    b.live.queues.notices.cache.limit_bytes = 1
    ask(a, "b", bytes(30_000), bytes(30_000))
    world.run(5 * SECOND)
    assert classes(a) == [MessageClass.ACK_REACH_QUEUE] * 2
    b.restart()
    world.run(5 * SECOND)
    assert classes(a) == []
    b.read_all("q")
    world.run(SECOND)
    assert classes(a) == [MessageClass.ACK_RECEIVE] * 2


def test_what_applications_ask_for_is_in_the_log() -> None:
    """For neighbours that ask for the same one record, by the packet that the messages end in."""
    world, a, _ = two()
    ask(a, "b", b"1", b"2", acks=MessageClass.ACK_RECEIVE.asked_by)
    ask(a, "b", b"3")
    ask(a, "b", bytes(3_000))
    world.run(SECOND)
    asked = [(it["number"], it["place"], it["count"], it["acks"]) for it in a.log("admin_ack_asked")]
    assert asked[0] == (1, 0, 2, 2)
    assert [it[2:] for it in asked] == [(2, 2), (1, 15), (1, 15)]


# What an operator says of a queue is in force at once, durable with the next commit, and in the session log.


def test_pauses_and_quotas_are_kept_and_recorded() -> None:
    world, node = single()
    node.send(node, "q", b"x")
    assert world.run(SECOND, lambda: node.length("q") == 1)
    node.act(lambda: node.live.pause("q", arrivals=True, now_ns=world.now_ns))
    node.act(lambda: node.live.set_quota("q", Quota(messages=7), world.now_ns))
    assert not node.live.queues.mailboxes["q"].takes_arrivals
    world.run(SECOND)
    node.restart()
    assert node.live.queues.mailboxes["q"].fill.messages.limit == 7
    node.act(lambda: node.live.resume("q", world.now_ns))
    assert node.live.queues.mailboxes["q"].takes_arrivals
    assert not node.live.resume("q", world.now_ns)
    events = ("queue_paused", "queue_quota_set", "queue_resumed")
    assert [record["event"] for record in node.log(*events)] == list(events)


def test_a_pause_after_a_standstill_says_first_that_the_process_was_late() -> None:
    """Else what it does then would look late for no reason."""
    world, a, b = two()
    b.crash()
    a.send(b, "q", b"x")
    world.run(SECOND)
    late_ns = world.now_ns + 60 * SECOND
    a.live.pause("q", arrivals=False, now_ns=late_ns)
    a.drain()
    world.run(SECOND)
    assert [record["event"] for record in a.log("woke_late", "queue_paused")] == ["woke_late", "queue_paused"]
