"""A limit of n lets n in, neither one less nor one more: a row for each quota that counts."""

from collections.abc import Callable
from functools import partial

import pytest

from tests.queues.relays import line, post
from tests.queues.topics.bench import Bench
from tests.queues.world import SimNode, World, two
from triack.base.delivery import Delivery
from triack.base.units import MS, SECOND
from triack.queues.messages import Outgoing
from triack.queues.node_settings import (
    DeadLetters,
    Journal,
    KeySettings,
    Limits,
    NodeSettings,
    Quota,
    Strategy,
    WhenFull,
    WhenJournalFull,
    WhenLettersFull,
)

SENT = 12
"""More than each limit here, twice."""


def settings(**limits: object) -> NodeSettings:
    return NodeSettings(limits=Limits(**limits), messages_per_packet=1)  # type: ignore[arg-type]


def sent(of: NodeSettings, delivery: Delivery = Delivery.TRANSACTIONAL, *, by: NodeSettings | None = None) -> SimNode:
    """A node to which another one has sent ``SENT`` messages."""
    world, a, b = two(a=by, b=of)
    for number in range(SENT):
        a.send(b, "q", b"%02d" % number, delivery=delivery)
    world.run(2 * SECOND)
    return b


def in_a_queue(when_full: WhenFull, delivery: Delivery, most: int) -> int:
    return sent(settings(quota=Quota(most, when_full=when_full)), delivery, by=settings()).length("q")


def own(when_full: WhenFull, most: int) -> int:
    """Messages of the node itself."""
    world = World(1)
    node = world.node("a", settings(quota=Quota(most, when_full=when_full)))
    outgoing = node.live.outgoing_stream(node.address, "q", Delivery.TRANSACTIONAL)
    for number in range(SENT):
        if node.outbox.room_bytes(outgoing) > 0:
            node.send(node, "q", b"%d" % number)
        world.run(10 * MS)
    return node.length("q")


def in_a_journal(when_full: WhenJournalFull, per_packet: int, most: int) -> int:
    journal = Journal(most, when_full=when_full)
    world = World(1)
    node = world.node("a", NodeSettings(limits=Limits(queue_journal={"q": journal}), messages_per_packet=per_packet))
    node.send(node, "q", *[b"%d" % number for number in range(SENT)])
    world.run(SECOND)
    node.read("q")
    world.run(SECOND)
    return node.length("$journal.q")


def in_a_journal_by_size(when_full: WhenJournalFull, most: int) -> int:
    """As many copies as fit to the byte."""
    world = World(1)
    journal = Journal(when_full=when_full)
    node = world.node("a", settings(queue_journal={"all": journal}))
    node.send(node, "all", b"x")
    world.run(SECOND)
    node.read("all")
    world.run(SECOND)
    size_bytes = node.live.queues.mailboxes["$journal.all"].fill.bytes.value
    node = world.node("b", settings(queue_journal={"q": Journal(size_bytes=most * size_bytes, when_full=when_full)}))
    for _ in range(SENT):
        node.send(node, "q", b"x")
        world.run(10 * MS)
        node.read("q")
        world.run(10 * MS)
    return node.length("$journal.q")


def in_the_journal_of_what_was_sent(when_full: WhenJournalFull, most: int) -> int:
    world, a, b = two(a=settings(journal=Journal(most, when_full=when_full)))
    outgoing = a.live.outgoing_stream(b.address, "q", Delivery.TRANSACTIONAL)
    a.outbox.copies.asking[outgoing] = None
    for number in range(SENT):
        if a.outbox.room_bytes(outgoing) > 0:
            a.live.submit(outgoing, Outgoing(b"%d" % number, {"journal": True}), 1)
            a.drain()
        world.run(SECOND)  # until it is acknowledged and copied
    return a.length("$journal")


def dead_letters(when_full: WhenLettersFull, most: int) -> int:
    world, a, b = two(a=settings(dead_letters=DeadLetters(most, when_full=when_full)))
    world.cut(a, b)
    for number in range(SENT):
        a.send(b, "q", b"%d" % number, live_ms=100 + number)
    world.run(2 * SECOND)
    return a.length("dead-letter")


def keys(most: int) -> int:
    world = World(1)
    node = world.node("a", NodeSettings(keys=KeySettings(most=most)))
    outgoing = node.live.outgoing_stream(node.address, "q", Delivery.TRANSACTIONAL)
    for number in range(SENT):
        if not node.outbox.keys.full_for_ms(world.now_ms):
            node.live.submit_once(outgoing, Outgoing(b"x", key=f"{number}"), 1, world.now_ns)
        node.drain()
        world.run(10 * MS)
    return node.length("q")


def queues(most: int) -> int:
    """That one peer has created."""
    world, a, b = two(b=settings(max_peer_queues=most))
    for number in range(SENT):
        a.send(b, f"q{number}", b"x")
    world.run(2 * SECOND)
    return sum(b.length(f"q{number}") for number in range(SENT))


def streams(most: int) -> int:
    """That one peer has at a time."""
    world, a, b = two(b=NodeSettings(max_streams=most, retire_after_s=None))
    for number in range(SENT):
        a.send(b, f"q{number}", b"x")
    highest = 0

    def look() -> bool:
        nonlocal highest
        highest = max(highest, sum(map(len, b.live.inbox._streams.values())))  # noqa: SLF001 - what it has
        return False

    world.run(SECOND, look)
    return highest


def pending(strategy: Strategy, most: int) -> int:
    """Messages of a topic that a subscription has, which acknowledges none."""
    bench = Bench(strategy=strategy, max_unacked=most)
    reader = bench.subscribe()
    bench.publish(SENT)
    return reader.mailbox.length


def at_a_relay(most: int) -> int:
    """Of five streams, of which each may have as much as is left for all others."""
    net = line("arb", settings={"a": settings(), "r": settings(transit_quota=Quota(most))})
    net.world.cut(net["r"], net["b"])
    for queue in ("one", "two", "three", "four", "five"):
        post(net["a"], "b", *[b"x"] * SENT, queue=queue)
    net.world.run(2 * SECOND)
    return net["r"].live.transits.room.messages.value


TABLE: dict[str, Callable[[int], int]] = {
    "quota, hold, transactional": partial(in_a_queue, "hold", Delivery.TRANSACTIONAL),
    "quota, hold, recoverable": partial(in_a_queue, "hold", Delivery.RECOVERABLE),
    "quota, reject, transactional": partial(in_a_queue, "reject", Delivery.TRANSACTIONAL),
    "quota, reject, express": partial(in_a_queue, "reject", Delivery.EXPRESS),
    "quota, hold, own": partial(own, "hold"),
    "quota, reject, own": partial(own, "reject"),
    "journal, stop": partial(in_a_journal, "stop", 1),
    "journal, stop, packets of five": partial(in_a_journal, "stop", 5),
    "journal, drop oldest": partial(in_a_journal, "drop oldest", 1),
    "journal, drop oldest, packets of five": partial(in_a_journal, "drop oldest", 5),
    "journal, stop, bytes": partial(in_a_journal_by_size, "stop"),
    "journal, drop oldest, bytes": partial(in_a_journal_by_size, "drop oldest"),
    "sent journal, stop": partial(in_the_journal_of_what_was_sent, "stop"),
    "sent journal, drop oldest": partial(in_the_journal_of_what_was_sent, "drop oldest"),
    "sent journal, hold": partial(in_the_journal_of_what_was_sent, "hold"),
    "dead letters, keep": partial(dead_letters, "keep"),
    "dead letters, drop oldest": partial(dead_letters, "drop oldest"),
    "keys": keys,
    "max_peer_queues": queues,
    "max_streams": streams,
    "max_unacked, discard_none": partial(pending, "discard_none"),
    "max_unacked, slowest_sub_rate": partial(pending, "slowest_sub_rate"),
    "transit_quota": at_a_relay,
}


@pytest.mark.parametrize("most", [1, 2, 5])
@pytest.mark.parametrize("kind", TABLE)
def test_a_limit_of_n_lets_n_in(kind: str, most: int) -> None:
    assert TABLE[kind](most) == most
