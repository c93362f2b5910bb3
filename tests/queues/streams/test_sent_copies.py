"""The journal of a sender has a copy of each message that asked for one, in the commit that frees it."""

from dataclasses import replace

import pytest

from tests.queues.relays import line
from tests.queues.transit.stories.test_lines import make_sync
from tests.queues.world import SimNode, World, numbered
from triack.base.delivery import DURABLE, Delivery
from triack.base.units import MS, SECOND
from triack.queues.mailboxes.system_queues import DEAD_LETTER_QUEUE
from triack.queues.manager.browse import BrowsedMessage, see, sights_of
from triack.queues.messages import JOURNAL, SENT_TO, Outgoing, Properties
from triack.queues.node_settings import Journal, Limits, NodeSettings

DAY = 86_400 * SECOND
CLASSES = list(Delivery)
ASKS: Properties = {JOURNAL: True}
SENT = "$journal"


def settings(journal: Journal | None = None, **more: object) -> NodeSettings:
    limits = Limits(journal=journal or Journal())
    return replace(NodeSettings(limits=limits), **more)  # type: ignore[arg-type]


def send(
    node: SimNode,
    where: str,
    *bodies: bytes,
    delivery: Delivery = Delivery.TRANSACTIONAL,
    properties: Properties | None = None,
    live_ms: int = 0,
) -> None:
    """Send messages that ask for copies, or have these properties."""
    outgoing = node.live.outgoing_stream(where, "q", delivery)
    reach_by_ms = node.world.now_ms + live_ms if live_ms else 0
    for body in bodies:
        message = Outgoing(body, ASKS if properties is None else properties or None, reach_by_ms)
        node.live.submit(outgoing, message, len(body))
    node.drain()


def copies(node: SimNode) -> list[BrowsedMessage]:
    mailbox = node.live.queues.mailboxes.get(SENT)
    if mailbox is None:
        return []
    node.read(SENT, 0)
    sights = list(sights_of(mailbox, (), node.world.now_ms))
    read = {key: body for sight in sights for key, body in zip(sight.keys, sight.pieces, strict=False)}
    return list(see(sights, read))


def kept(node: SimNode) -> list[bytes]:
    return [message.body for message in copies(node)]


def two(seed: int = 1, mine: NodeSettings | None = None) -> tuple[SimNode, SimNode]:
    world = World(seed)
    return world.node("a", mine or settings()), world.node("b")


@pytest.mark.parametrize("delivery", CLASSES)
def test_a_copy_is_kept_when_the_ack_of_the_class_frees_the_message(delivery: Delivery) -> None:
    a, b = two()
    a.world.cut(b, a)
    send(a, "b", b"1", b"2", delivery=delivery, properties={**ASKS, "label": "order"})
    send(a, "b", b"plain", delivery=delivery, properties={})
    send(a, "b", b"labelled", delivery=delivery, properties={"dead_letter": False})
    a.world.run(SECOND)
    assert kept(a) == []  # it may have arrived, but nothing says so
    a.world.heal()
    assert a.world.run(30 * SECOND, lambda: not a.busy)
    a.world.run(SECOND)
    found = copies(a)
    assert [it.body for it in found] == [b"1", b"2"]
    assert {(it.destination, it.delivery) for it in found} == {("b/q", delivery)}
    assert found[0].properties == {JOURNAL: True, "label": "order", SENT_TO: "b/q"}
    assert sorted(it.id.partition("-")[0] for it in found) == [a.live.node_id.hex()] * 2
    assert b.read_all("q") == [b"1", b"2", b"plain", b"labelled"]
    assert SENT not in b.live.queues.mailboxes


@pytest.mark.parametrize("delivery", CLASSES)
def test_a_message_to_a_queue_of_this_node_is_copied_when_it_is_there(delivery: Delivery) -> None:
    a, _ = two()
    send(a, "", b"1", delivery=delivery)
    a.world.run(SECOND)
    assert [(it.body, it.destination) for it in copies(a)] == [(b"1", "q")]
    assert a.read_all("q") == [b"1"]


@pytest.mark.parametrize("purged", [False, True])
def test_what_becomes_a_dead_letter_is_not_copied(purged: bool) -> None:
    """Nor is it when its destination had it all the time, and says so after the letter is written."""
    a, b = two()
    a.world.cut(b, a)
    send(a, "b", b"1", live_ms=300)
    a.world.run(SECOND)
    if purged:
        a.act(lambda: [a.outbox.dead_lettering.purge(it) for it in a.outbox.streams])
    a.world.run(5 * SECOND)
    a.world.heal()
    a.world.run(60 * SECOND)
    assert (kept(a), a.length("dead-letter")) == ([], 1)


def test_an_ack_that_comes_while_a_dead_letter_is_written_makes_no_copy() -> None:
    a, b = two()
    a.world.cut(b, a)
    send(a, "b", b"1")
    a.world.run(SECOND)
    stream = a.outbox.streams[0]
    entry = next(iter(stream.sequence.entries.values()))
    turn = a.live.jobs.turn(a.world.now_ns)
    a.outbox.dead_lettering.purge(stream)
    a.outbox.dead_lettering.dead_letter(turn)
    a.outbox.handle_order_ack(stream.stream_number, stream.sequence.sequence, entry.number, turn)
    a.drain()
    a.world.run(SECOND)
    assert (kept(a), a.length("dead-letter")) == ([], 1)


@pytest.mark.parametrize("delivery", DURABLE)
def test_a_message_whose_body_is_only_on_the_disk_waits_for_it(delivery: Delivery) -> None:
    """After a restart the destination acknowledges what it has, before anything is sent again."""
    a, b = two(2)
    large = bytes(range(256)) * 600
    a.world.cut(b, a)
    send(a, "b", b"1", large, b"2", delivery=delivery)
    a.world.run(2 * SECOND)
    b.read("q")
    a.restart()
    turn = a.live.jobs.turn(a.world.now_ns)
    stream = next(it for it in a.outbox.streams if it.queue == "q")
    entries = list(stream.sequence.entries.values())
    assert all(entry.body is None for entry in entries)
    for entry in entries:
        entry.received = entry.stored = True
    freed = stream.sequence._free(entries)  # noqa: SLF001 - as any ack of the class does
    a.act(lambda: a.outbox._free(stream, freed, turn))  # noqa: SLF001
    assert stream.is_held
    a.world.run(SECOND)
    assert kept(a) == [b"1", large, b"2"]
    assert not stream.is_held
    a.restart()
    assert (a.length(SENT), a.busy) == (3, False)


@pytest.mark.parametrize("delivery", CLASSES)
def test_a_relay_copies_nothing_and_the_origin_once(delivery: Delivery) -> None:
    relays = line("abc")
    a, b, c = relays.nodes.values()
    send(a, "c", b"1", delivery=delivery)
    assert relays.world.run(30 * SECOND, lambda: c.length("q") == 1 and not a.busy)
    relays.world.run(SECOND)
    assert [kept(node) for node in (a, b, c)] == [[b"1"], [], []]
    assert copies(a)[0].destination == "c/q"


@pytest.mark.parametrize("size", [1, 40_000])
def test_the_origin_copies_what_ends_while_a_relay_answers_for_it(size: int) -> None:
    """Over a synchronous link its time runs out before the relay says that it has passed it on."""
    body = bytes(size)
    relays = line("abrc")
    make_sync(relays, "a", "b", interval_s=5.0)
    a, c = relays["a"], relays["c"]
    send(a, "c", body, delivery=Delivery.RECOVERABLE, live_ms=1_500)
    assert relays.world.run(10 * SECOND, lambda: c.length("q") == 1 and not a.busy)
    assert a.log("onward_ack_received") == []
    relays.world.run(SECOND)
    assert (kept(a), a.length(DEAD_LETTER_QUEUE)) == ([body], 0)


def one_by_one(a: SimNode, *bodies: bytes) -> None:
    for body in bodies:
        send(a, "b", body)
        a.world.run(SECOND)


def test_a_journal_that_holds_lets_the_senders_of_these_queues_wait() -> None:
    """Others go on; a program that asks for copies waits until somebody has read the journal."""
    a, _ = two(10, settings(Journal(messages=4, when_full="hold"), messages_per_packet=1))
    asking = a.live.outgoing_stream("b", "q", Delivery.TRANSACTIONAL)
    other = a.live.outgoing_stream("b", "other", Delivery.TRANSACTIONAL)
    a.outbox.copies.asking[asking] = None
    one_by_one(a, *numbered(0, 4))
    assert a.outbox.room_bytes(asking) == 0
    assert a.outbox.room_bytes(other) > 0
    assert list(a.live.journals.full) == [(SENT, "hold")]
    a.read(SENT)
    a.world.run(SECOND)
    assert a.outbox.room_bytes(asking) > 0


def test_peers_cannot_send_to_the_journal() -> None:
    a, b = two()
    outgoing = b.live.outgoing_stream("a", SENT, Delivery.RECOVERABLE)
    b.live.submit(outgoing, b"forged", 6)
    b.drain()
    a.world.run(10 * SECOND)
    assert a.length(SENT) == 0
    assert b.length("dead-letter") == 1


@pytest.mark.gate
@pytest.mark.parametrize("seed", range(25))
def test_a_crash_at_any_commit_leaves_no_message_in_both_and_none_in_neither(seed: int) -> None:
    """Each is on its way, or a dead letter, or copied; whatever expires or is purged meanwhile."""
    world = World(seed)
    random = world.random
    few = settings(messages_per_packet=1 + seed % 4, body_cache_bytes=2_000)
    a, b = world.node("a", few), world.node("b")
    delivery = random.choice(sorted(DURABLE))
    bodies = numbered(0, 60)
    live = random.choice([0, 0, 3_000])
    world.network.faults = replace(world.faults, loss=0.2)
    waiting = list(bodies)
    for _ in range(60):
        what = random.random()
        if what < 0.4:
            send(a, "b", *waiting[:4], delivery=delivery, live_ms=live)
            waiting = waiting[4:]
        elif what < 0.85:
            world.run(random.randint(1, 400) * MS)
        else:
            (a if random.random() < 0.8 else b).restart()
    world.heal()
    send(a, "b", *waiting, delivery=delivery)
    assert world.run(600 * SECOND, lambda: not a.busy)
    world.run(SECOND)
    a.restart()
    copied, dead = a.read_all(SENT), a.read_all("dead-letter") if a.length("dead-letter") else []
    assert len(copied) == len(set(copied)), "twice"
    assert not set(copied) & set(dead), "in both"
    lost = set(bodies) - set(copied) - set(dead)  # a crash before the commit of their sending
    arrived = set(b.read_all("q"))
    assert not lost & arrived, "in neither"
