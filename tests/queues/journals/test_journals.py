"""A journal has a copy of each message that a reader took, in the commit that removes it, as long as there is room."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.queues.world import SimNode, World, numbered, single, two
from tests.sure import sure
from triack.base.delivery import DURABLE, Delivery
from triack.base.news import JournalFull
from triack.base.reasons import DropReason, HoldReason
from triack.base.session_log import COMMON, EVENTS
from triack.base.units import MS, SECOND
from triack.queues.journals import journals
from triack.queues.mailboxes.redelivery import Return
from triack.queues.manager.browse import see, sights_of
from triack.queues.messages import Outgoing
from triack.queues.node_settings import Journal, Limits, NodeSettings, WhenJournalFull
from triack.tools.replay.engines.local_engine import verdict_on
from triack.tools.replay.log.files import parse_records

DAY = 86_400 * SECOND
CLASSES = list(Delivery)


def settings(journal: Journal | None = None, **more: object) -> NodeSettings:
    limits = Limits(queue_journal={"q": journal or Journal()})
    return replace(NodeSettings(limits=limits), **more)  # type: ignore[arg-type]


def kept(node: SimNode, queue: str = "q") -> list[bytes]:
    mailbox = node.live.queues.mailboxes.get(f"$journal.{queue}")
    if mailbox is None:
        return []
    node.world.run(MS)
    sights = list(sights_of(mailbox, (), node.world.now_ms))
    read = {key: body for sight in sights for key, body in zip(sight.keys, sight.pieces, strict=False)}
    return [message.body for message in see(sights, read)]


def fill(world: World, node: SimNode, *bodies: bytes, delivery: Delivery = Delivery.TRANSACTIONAL) -> None:
    node.send(node, "q", *bodies, delivery=delivery)
    assert world.run(SECOND, lambda: node.length("q") >= len(bodies))


@pytest.mark.parametrize("delivery", CLASSES)
def test_what_readers_took_is_in_the_journal_and_nothing_else(delivery: Delivery) -> None:
    world, a, b = two(b=settings())
    a.send(b, "q", *numbered(0, 50), delivery=delivery)
    a.send(b, "other", b"x", delivery=delivery)
    assert world.run(10 * SECOND, lambda: b.length("q") == 50)
    b.read("q", 30)
    b.read("other")
    world.run(SECOND)
    whole = len(kept(b))  # packets of which a message waits still are copied when they are done
    assert kept(b) == numbered(0, whole)
    assert whole <= 30
    b.read("q")
    world.run(SECOND)
    assert kept(b) == numbered(0, 50)
    assert "$journal.other" not in b.live.queues.mailboxes


def purge(node: SimNode, place: int) -> None:
    node.live.queues.mailboxes["q"].withdraw({place})


def kill(node: SimNode, place: int) -> None:
    mailbox = node.live.queues.mailboxes["q"]
    lease = sure(node.live.take(mailbox, node.world.now_ns))
    node.live.give_back(mailbox, lease, Return(failed=True, dead=True), node.world.now_ns)


@pytest.mark.parametrize("end", [purge, kill], ids=["purged", "dead"])
def test_what_no_reader_took_is_not_in_the_journal(end: Callable[[SimNode, int], None]) -> None:
    world, node = single(settings(), seed=3)
    fill(world, node, *numbered(0, 5))
    node.act(lambda: end(node, 1))
    world.run(SECOND)
    node.restart()
    world.run(SECOND)
    node.read_all("q")
    world.run(SECOND)
    assert kept(node) == numbered(1, 5)


@pytest.mark.parametrize("delivery", CLASSES)
def test_a_large_message_has_one_copy(delivery: Delivery) -> None:
    world, node = single(settings(), seed=5)
    body = bytes(range(256)) * 1_000
    fill(world, node, body, b"small", delivery=delivery)
    node.read("q")
    world.run(SECOND)
    assert node.length("$journal.q") == 2
    if delivery in DURABLE:
        node.restart()
        assert node.length("$journal.q") == 2
    assert node.read_all("$journal.q") == [body, b"small"]


def test_messages_that_expire_are_not_copied_and_copies_never_expire_like_them() -> None:
    world, node = single(settings(Journal(keep_s=None)), seed=6)
    outgoing = node.live.outgoing_stream(node.address, "q", Delivery.TRANSACTIONAL)
    for body in (b"taken", b"late"):
        node.live.submit(outgoing, Outgoing(body, receive_by_ms=world.now_ms + 60_000), len(body))
        node.drain()
        world.run(SECOND)
    node.read("q", 1)
    world.run(DAY)
    assert kept(node) == [b"taken"]
    assert node.length("dead-letter") == 1


def test_copies_end_after_their_time_and_are_no_dead_letters() -> None:
    world, node = single(settings(Journal(keep_s=3_600.0)), seed=7)
    fill(world, node, *numbered(0, 3))
    node.read("q")
    world.run(SECOND)
    node.restart()
    world.run(3_500 * SECOND)
    assert node.length("$journal.q") == 3
    world.run(200 * SECOND)
    assert (node.length("$journal.q"), node.length("dead-letter")) == (0, 0)
    assert node.live.drops[DropReason.JOURNAL_EXPIRED] == 3


def drained(world: World, node: SimNode, count: int) -> None:
    for body in numbered(0, count):
        fill(world, node, body)
        node.read("q")
        world.run(50 * MS)


def test_the_oldest_copies_give_way_and_the_operator_hears_of_it_once() -> None:
    world, node = single(settings(Journal(messages=10), messages_per_packet=1), seed=8)
    drained(world, node, 25)
    assert kept(node) == numbered(15, 25)
    assert node.live.drops[DropReason.JOURNAL_REPLACED] == 15
    told = [event for event in node.news if isinstance(event, JournalFull)]
    assert [(event.queue, event.when_full) for event in told] == [("$journal.q", "drop oldest")]


def test_a_journal_that_holds_lets_the_senders_of_its_queue_wait() -> None:
    world = World(10)
    journal = Journal(messages=4, when_full="hold")
    a, b = world.node("a"), world.node("b", settings(journal, messages_per_packet=1))
    for body in numbered(0, 8):
        a.send(b, "q", body)
        world.run(SECOND)
        b.read("q")
        world.run(SECOND)
    assert len(kept(b)) == 4
    assert [it.reason for it in b.live.inbox.admission.holds.streams] == [HoldReason.JOURNAL_FULL]
    assert [it.reason for it in a.live.outbox.holds.streams] == [HoldReason.JOURNAL_FULL]
    for _ in range(10):
        b.read("$journal.q")
        world.run(10 * SECOND)
        b.read("q")
    assert not a.busy
    assert b.received["q"] == numbered(0, 8)


def test_without_room_on_the_disk_reading_goes_on_without_copies() -> None:
    world, node = single(settings(), seed=11)
    fill(world, node, *numbered(0, 3))
    node.live.inbox.admission.disk_room.is_low = True
    node.read("q")
    world.run(SECOND)
    assert (node.length("q"), kept(node)) == (0, [])
    assert node.live.drops[DropReason.JOURNAL_FULL] == 3


@pytest.mark.parametrize("seed", range(25))
def test_a_crash_at_any_commit_leaves_no_message_in_both_and_none_in_neither(seed: int) -> None:
    """Whatever is acknowledged, purged or given back meanwhile; the copies of purged messages are missing alone."""
    world = World(seed)
    random, node = world.random, world.node("a", settings(messages_per_packet=1 + seed % 5, body_cache_bytes=8_000))
    bodies = numbered(0, 60)
    fill(world, node, *bodies, delivery=random.choice(sorted(DURABLE)))
    purged: set[bytes] = set()
    for _ in range(60):
        engine, mailbox, what = node.live, node.live.make_queue("q"), random.random()
        if what < 0.6:
            lease = engine.take(mailbox, world.now_ns)
            if lease is not None and random.random() < 0.8:
                engine.acknowledge(mailbox, [(lease.packet, 1 << lease.index)])
            elif lease is not None:
                engine.give_back(mailbox, lease, Return(failed=False), world.now_ns)
        elif what < 0.7:
            packet, index = next(mailbox.waiting(), (None, 0))
            if packet is not None and packet.pieces:
                purged.add(packet.open().bodies[index])
                mailbox.withdraw({packet.first_place + index})
        elif what < 0.85:
            world.run(random.randint(1, 40) * MS)
        else:
            node.restart()
        node.drain()
    node.restart()
    world.run(200 * SECOND)
    before = list(node.read_all("$journal.q")) if "$journal.q" in node.live.queues.mailboxes else []
    left = node.read_all("q")
    world.run(SECOND)
    copies = node.read_all("$journal.q")
    assert not set(before) & set(left), "in both"
    assert len(copies) == len(set(copies)), "twice"
    assert set(bodies) - set(copies) <= purged, "in neither"


def test_the_records_of_copies_are_whole_whatever_the_priorities() -> None:
    """A replay reads them; a journal is in the order of arrival, so they name no priority."""
    world, a, b = two(12, b=settings())
    for priority in (0, 7, None):
        a.send(b, "q", *numbered(0, 5), delivery=Delivery.RECOVERABLE, priority=priority)
    assert world.run(10 * SECOND, lambda: b.length("q") == 15)
    b.read("q")
    world.run(SECOND)
    records = list(parse_records(b"".join([*a.records, *b.records])))
    said = [it for it in records if it["event"] == "journaled"]
    assert sum(packets * messages for it in said for packets, messages in it["counts"]) == 15
    fields = {*COMMON, *EVENTS["journaled"].fields}
    assert all(set(it) == fields for it in said)
    assert not verdict_on(records).findings


def test_a_copy_of_a_part_of_a_packet_keeps_the_priority_and_the_properties() -> None:
    world, node = single(settings(), seed=13)
    outgoing = node.live.outgoing_stream(node.address, "q", Delivery.RECOVERABLE, 5)
    for body in numbered(0, 3):
        node.live.submit(outgoing, Outgoing(body, {"label": "l"}), len(body))
    node.drain()
    world.run(SECOND)
    node.act(lambda: purge(node, 2))
    node.read("q")
    world.run(SECOND)
    mailbox = node.live.queues.mailboxes["$journal.q"]
    copies = list(see(list(sights_of(mailbox, (), world.now_ms)), {}))
    assert [(it.body, it.priority, it.properties) for it in copies] == [
        (body, 5, {"label": "l"}) for body in (numbered(0, 3)[0], numbered(0, 3)[2])
    ]


def test_a_copy_that_waits_for_its_body_outlives_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    """The row says that all of it is done; the next start makes the copy, and hands nothing out."""
    world, node = single(settings(), seed=14)
    fill(world, node, *numbered(0, 5))
    node.read("q", 2)
    world.run(SECOND)
    node.restart()
    with monkeypatch.context() as slow:
        slow.setattr(journals, "fetch_packets", lambda *_: None)
        node.act(lambda: node.live.queues.mailboxes["q"].withdraw({3, 4, 5}))
        world.run(SECOND)
        assert kept(node) == []
    node.restart()
    world.run(SECOND)
    assert (node.length("q"), kept(node)) == (0, numbered(0, 2))
    node.restart()
    assert (node.length("q"), node.length("$journal.q")) == (0, 2)


@pytest.mark.parametrize("forgotten", [False, True])
def test_a_purged_journal_lets_the_senders_go_on(forgotten: bool) -> None:
    """And one that the settings no longer have."""
    world = World(15)
    journal = Journal(messages=2, when_full="hold")
    a, b = world.node("a"), world.node("b", settings(journal, messages_per_packet=1))
    for body in numbered(0, 4):
        a.send(b, "q", body)
        world.run(SECOND)
        b.read("q")
        world.run(SECOND)
    assert a.busy
    copies = b.live.queues.mailboxes["$journal.q"]
    if forgotten:
        b.act(lambda: b.live.handle_settings(replace(b.live.settings, limits=Limits())))
    else:
        b.act(lambda: copies.withdraw(set(range(1, copies.last_place + 1))))
    world.run(10 * SECOND)
    b.read("q")
    world.run(20 * SECOND)
    assert not a.busy


def test_a_journal_that_gets_its_settings_later_copies_from_then_on() -> None:
    world, node = single(NodeSettings(), seed=16)
    fill(world, node, *numbered(0, 4))
    node.read("q", 2)
    node.act(lambda: node.live.handle_settings(settings()))
    node.read("q")
    world.run(SECOND)
    assert kept(node) == numbered(0, 4)


def test_a_full_journal_is_told_of_again_after_a_restart() -> None:
    world, node = single(settings(Journal(messages=4, when_full="stop"), messages_per_packet=1), seed=17)
    drained(world, node, 6)
    node.restart()
    world.run(SECOND)
    assert [event.queue for event in node.news if isinstance(event, JournalFull)] == ["$journal.q"] * 2
    node.settings = settings(Journal(messages=2))
    node.restart()
    world.run(SECOND)
    assert node.read_all("$journal.q") == numbered(2, 4)


@pytest.mark.parametrize("when_full", ["drop oldest", "stop", "hold"])
def test_all_journals_together_have_no_more_than_all_queues_may_have(when_full: WhenJournalFull) -> None:
    world = World(18)
    journal = Journal(when_full=when_full)
    limits = Limits(queue_journal={"q": journal, "other": journal}, node_quota_bytes=20_000)
    node = world.node("a", NodeSettings(limits=limits, messages_per_packet=1))
    for queue in ("q", "other", "q", "other"):
        for body in numbered(0, 10, 600):
            node.send(node, queue, body)
            world.run(20 * MS)
            node.read(queue)
    world.run(SECOND)
    sizes = [it.fill.bytes.value for name, it in node.live.queues.mailboxes.items() if name.startswith("$journal.")]
    assert 18_000 < sum(sizes) <= 20_000
    assert len(node.received["q"]) == len(node.received["other"]) == 20
    lost = DropReason.JOURNAL_REPLACED if when_full == "drop oldest" else DropReason.JOURNAL_FULL
    assert node.live.drops[lost] == 40 - sum(node.length(f"$journal.{queue}") for queue in ("q", "other"))
    assert {name for name, _ in node.live.journals.full} <= {"$journal.q", "$journal.other"}
