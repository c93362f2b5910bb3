"""Full queues: their senders wait or are refused, nobody else does, and nothing is lost or hangs."""

from collections.abc import Callable
from functools import partial
from typing import get_args

import pytest

from tests.queues.relays import line, post
from tests.queues.topics.bench import Bench
from tests.queues.world import SimNode, World, numbered, single, two
from triack.base.commit import HEAD_BYTES
from triack.base.delivery import Delivery
from triack.base.news import QueueOverQuota
from triack.base.reasons import RejectReason
from triack.base.units import MS, SECOND
from triack.ordering.order_settings import OrderSettings
from triack.queues.body_head import fragment_range
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
from triack.queues.stages import STAGES
from triack.queues.streams.admission import Admission
from triack.tools.sim.faults import Faults

EXPRESS, RECOVERABLE, TRANSACTIONAL = Delivery.EXPRESS, Delivery.RECOVERABLE, Delivery.TRANSACTIONAL
DURABLE = [RECOVERABLE, TRANSACTIONAL]
TIERS = ("seq_resend_13_s", "seq_resend_46_s", "seq_resend_79_s", "seq_resend_10_s")


def small(messages: int = 10, size_bytes: int = 1024**2, **more: object) -> NodeSettings:
    """A node whose queues take little."""
    return NodeSettings(limits=Limits(queue_quota={"q": Quota(messages, size_bytes)}, **more))  # type: ignore[arg-type]


def read_slowly(world: World, node: SimNode, queue: str, limit: int = 3) -> None:
    """Take some messages every tenth of a second, without end."""

    def turn() -> None:
        if node.engine is not None:
            node.read(queue, limit)
        world.at(100 * MS, turn)

    turn()


@pytest.mark.gate
@pytest.mark.parametrize("delivery", DURABLE)
def test_a_queue_that_is_read_slowly_is_not_sent_a_window_each_time(delivery: Delivery) -> None:
    """As many packets as it took last leave, and two for each that it takes."""
    world, a, b = two(b=small())
    for body in numbered(0, 150, 900):
        a.send(b, "q", body, delivery=delivery)
    read_slowly(world, b, "q")
    assert world.run(60 * SECOND, lambda: not a.busy)
    assert len(a.log("packet_sent")) < 4 * 150


@pytest.mark.slow
def test_what_came_too_early_does_not_all_come_again_at_once() -> None:
    """A destination that holds one packet, and a link that reorders."""
    order = OrderSettings(max_held_packets=1, **dict.fromkeys(TIERS, 30.0))  # type: ignore[arg-type]
    world, a, b = two(1, Faults(reorder=0.3, delay_ns=5 * MS), both=NodeSettings(order=order))
    for body in numbered(0, 90, 900):
        a.send(b, "q", body)
    assert world.run(900 * SECOND, lambda: not a.busy)
    assert b.read_all("q") == numbered(0, 90, 900)
    assert len(a.log("packet_sent")) < 8 * 90


@pytest.mark.slow
def test_large_messages_that_share_a_queue_do_not_stop_each_other() -> None:
    """Room for one is room for all of its packets: two halves never wait for each other."""
    world, b = single(small(1_000, 50_000), name="b")
    senders = [world.node(name) for name in "acdef"]
    for delivery in DURABLE:
        for sender in senders:
            sender.send(b, "q", *numbered(0, 4, 30_000), delivery=delivery)
    queue, most = b.live.make_queue("q"), 0

    def watch() -> None:
        nonlocal most
        most = max(most, queue.fill.bytes.value)
        world.at(MS, watch)

    watch()
    read_slowly(world, b, "q", 1)
    assert world.run(120 * SECOND, lambda: not any(sender.busy for sender in senders))
    assert len(b.read_all("q")) == 40
    assert most < 50_000 + 31_000


@pytest.mark.slow
@pytest.mark.parametrize("delivery", DURABLE)
def test_what_was_begun_of_refused_messages_makes_room_for_the_next(
    monkeypatch: pytest.MonkeyPatch, delivery: Delivery
) -> None:
    """Their sender lost its permission within them: the packet that shows that they are gone finds no room itself."""
    world, a, b = two(b=small(size_bytes=8_000))

    def refusal(_self: Admission, _transfer: object, _conversation: object, body: bytes) -> RejectReason | None:
        fragment = fragment_range(body[:HEAD_BYTES], len(body))
        return RejectReason.ACCESS_DENIED if fragment and fragment[1] else None

    monkeypatch.setattr(Admission, "refusal", refusal)
    a.send(b, "q", *numbered(0, 3, 3_000), delivery=delivery)
    world.run(SECOND)
    assert a.length("dead-letter") == 3
    a.send(b, "q", b"next", delivery=delivery)
    assert world.run(SECOND, lambda: b.length("q") == 1)


@pytest.mark.slow
@pytest.mark.parametrize("delivery", Delivery)
@pytest.mark.parametrize("when_full", get_args(WhenFull))
def test_what_was_begun_by_a_peer_that_is_gone_stops_nobody(when_full: WhenFull, delivery: Delivery) -> None:
    """It fills its queue, and nobody can read it; when its peer comes back after all, it is taken."""
    quota = Quota(3, 1_000_000, when_full)
    world, a, b = two(1, Faults(delay_ns=50 * MS), b=NodeSettings(limits=Limits(queue_quota={"q": quota})))
    c = world.node("c")
    large = bytes(900_000)
    a.send(b, "q", large, delivery=delivery)
    assert world.run(10 * SECOND, lambda: begun_bytes(b, "q") > 0)
    b.live.submit(b.live.outgoing_stream("", "q", TRANSACTIONAL), bytes(200_000), 200_000)
    b.drain()
    world.run(100 * MS)
    world.cut(a, b)
    assert len(b.read_all("q")) == 1
    read_slowly(world, b, "q", 1)
    world.run(600 * SECOND)
    said = c.watch(c.send(b, "q", *numbered(0, 3)), STAGES[TRANSACTIONAL])
    assert b.live.inbox.has_room("q", durable=True)
    assert world.run(90 * SECOND, lambda: not c.busy)
    assert said == [None]
    world.heal()
    assert world.run(60 * SECOND, lambda: not a.busy)
    world.run(SECOND)
    assert sorted(b.read_all("q"), key=len) == [*numbered(0, 3), bytes(200_000), large]


def begun_bytes(node: SimNode, queue: str) -> int:
    """How much is here of messages that are not here as a whole."""
    mailbox = node.live.queues.mailboxes.get(queue)
    streams = [] if mailbox is None else [mailbox.partials.of(stream) for stream in mailbox.partials.streams]
    return sum(row.size_bytes for partials in streams for one in partials.values() for row in one.rows.values())


@pytest.mark.plain
@pytest.mark.parametrize("when_full", get_args(WhenFull))
def test_the_operator_hears_when_a_queue_becomes_full(when_full: WhenFull) -> None:
    """And not when something more comes, which may never be; of what the node itself sends there, too."""
    quotas = {name: Quota(3, when_full=when_full) for name in ("q", "own")}
    world, a, b = two(b=NodeSettings(limits=Limits(queue_quota=quotas)))
    for bodies, full in (([b"1", b"2"], []), ([b"3"], [("own", 3), ("q", 3)])):
        a.send(b, "q", *bodies)
        b.send(b, "own", *bodies)
        world.run(10 * SECOND)
        assert sorted((it.queue, it.messages) for it in b.news if isinstance(it, QueueOverQuota)) == full


@pytest.mark.gate
def test_express_messages_that_nobody_reads_do_not_fill_the_memory() -> None:
    """Their sender waits at a quarter of what a peer may fill; what was on its way is taken."""
    world, a, b = two(b=NodeSettings(limits=Limits(peer_memory_bytes=1024**2)))
    for at in range(0, 2_000, 100):
        a.send(b, "q", *numbered(at, at + 100, 900), delivery=EXPRESS)
        world.run(100 * MS)
    express = b.live.inbox.admission.express
    assert 256 * 1024 <= express.total_bytes <= 512 * 1024
    assert a.busy
    read_slowly(world, b, "q", 50)
    assert world.run(120 * SECOND, lambda: not a.busy)
    assert b.read_all("q") == numbered(0, 2_000, 900)


@pytest.mark.gate
def test_what_arrives_while_the_disk_is_slow_does_not_fill_the_memory() -> None:
    """A commit of ten seconds: the sender waits at a quarter of what a peer may fill."""
    world, a, b = two(b=NodeSettings(limits=Limits(peer_memory_bytes=256 * 1024)))
    b.commit_ns = 10 * SECOND
    for at in range(0, 500, 50):
        a.send(b, "q", *numbered(at, at + 50, 900), delivery=RECOVERABLE)
        world.run(100 * MS)
    assert 0 < b.live.inbox.admission.waiting.total_bytes <= 66_500  # one packet more
    b.commit_ns = MS
    assert world.run(90 * SECOND, lambda: not a.busy)
    assert sorted(b.read_all("q")) == numbered(0, 500, 900)
    assert b.live.inbox.admission.waiting.total_bytes == 0


@pytest.mark.parametrize("delivery", DURABLE)
def test_a_lost_word_stops_no_sender_permanently(monkeypatch: pytest.MonkeyPatch, delivery: Delivery) -> None:
    """The destination never says go: the probes find that there is room."""
    world, a, b = two(b=small())
    monkeypatch.setattr(Admission, "go", lambda _: None)
    for body in numbered(0, 14, 900):
        a.send(b, "q", body, delivery=delivery)
    world.run(5 * SECOND)
    assert b.length("q") == 10
    b.read("q")
    assert world.run(90 * SECOND, lambda: not a.busy)
    assert sorted(b.read_all("q")) == numbered(0, 14, 900)


@pytest.mark.gate
@pytest.mark.parametrize("kind", ["udp", "tcp"])
@pytest.mark.parametrize("delivery", [EXPRESS, RECOVERABLE])
def test_a_full_queue_says_so_in_each_session(kind: str, delivery: Delivery) -> None:
    """A stop ends with its session: a sender that begins another one hears it again, after a window at most."""
    world, a, b = two(1, Faults(delay_ns=5 * MS), b=small(), scheme=kind)
    for body in numbered(0, 300, 900):
        a.send(b, "q", body, delivery=delivery)
        world.run(10 * MS)
    for sessions in range(3):
        assert b.length("q") <= 10 + 66 * sessions
        for node, other in ((a, b), (b, a)):
            node.live.handle_path_lost(other.address, world.now_ns)
            node.drain()
        world.run(20 * SECOND)
    assert len(a.log("session_opened")) == 4
    assert b.length("q") <= 10 + 66 * 3 < 300
    read_slowly(world, b, "q", 50)
    assert world.run(60 * SECOND, lambda: not a.busy)
    assert sorted(b.read_all("q")) == numbered(0, 300, 900)


# A limit of n lets n in, neither one less nor one more: a row for each quota that counts.

SENT = 12
"""More than each limit here, twice."""


def settings(**limits: object) -> NodeSettings:
    return NodeSettings(limits=Limits(**limits), messages_per_packet=1)  # type: ignore[arg-type]


def sent(of: NodeSettings, delivery: Delivery = Delivery.TRANSACTIONAL, *, by: NodeSettings | None = None) -> SimNode:
    world, a, b = two(a=by, b=of)
    for number in range(SENT):
        a.send(b, "q", b"%02d" % number, delivery=delivery)
    world.run(2 * SECOND)
    return b


def in_a_queue(when_full: WhenFull, delivery: Delivery, most: int) -> int:
    return sent(settings(quota=Quota(most, when_full=when_full)), delivery, by=settings()).length("q")


def own(when_full: WhenFull, most: int) -> int:
    """Messages of the node itself."""
    world, node = single(settings(quota=Quota(most, when_full=when_full)))
    outgoing = node.live.outgoing_stream(node.address, "q", Delivery.TRANSACTIONAL)
    for number in range(SENT):
        if node.outbox.room_bytes(outgoing) > 0:
            node.send(node, "q", b"%d" % number)
        world.run(10 * MS)
    return node.length("q")


def in_a_journal(when_full: WhenJournalFull, per_packet: int, most: int) -> int:
    journal = Journal(most, when_full=when_full)
    world, node = single(NodeSettings(limits=Limits(queue_journal={"q": journal}), messages_per_packet=per_packet))
    node.send(node, "q", *[b"%d" % number for number in range(SENT)])
    world.run(SECOND)
    node.read("q")
    world.run(SECOND)
    return node.length("$journal.q")


def in_a_journal_by_size(when_full: WhenJournalFull, most: int) -> int:
    """As many copies as fit to the byte, of the size that one has where there is room."""
    journal, filled = Journal(when_full=when_full), list[int]()
    for _ in range(2):
        world, node = single(settings(queue_journal={"q": journal}))
        for _ in range(SENT):
            node.send(node, "q", b"x")
            world.run(10 * MS)
            node.read("q")
            world.run(10 * MS)
        filled.append(node.length("$journal.q"))
        size_bytes = node.live.queues.mailboxes["$journal.q"].fill.bytes.value
        journal = Journal(size_bytes=most * size_bytes // SENT, when_full=when_full)
    return filled[-1]


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
    world, node = single(NodeSettings(keys=KeySettings(most=most)))
    outgoing = node.live.outgoing_stream(node.address, "q", Delivery.TRANSACTIONAL)
    for number in range(SENT):
        if not node.outbox.keys.full_for_ms(world.now_ms):
            node.live.submit_once(outgoing, Outgoing(b"x", key=f"{number}"), 1, world.now_ns)
        node.drain()
        world.run(10 * MS)
    return node.length("q")


def queues(most: int) -> int:
    world, a, b = two(b=settings(max_peer_queues=most))
    for number in range(SENT):
        a.send(b, f"q{number}", b"x")
    world.run(2 * SECOND)
    return sum(b.length(f"q{number}") for number in range(SENT))


def streams(most: int) -> int:
    world, a, b = two(b=NodeSettings(max_streams=most, retire_after_s=None))
    for number in range(SENT):
        a.send(b, f"q{number}", b"x")
    highest = 0

    def look() -> bool:
        nonlocal highest
        highest = max(highest, len(list(b.live.inbox._streams)))  # noqa: SLF001 - what it has
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
