"""What becomes of messages: events of acks, copies, dead letters, the commit that holds it."""

import json
from collections.abc import Callable
from typing import Any, cast

import pytest

from tests.queues.bare import Bare, events, kinds, letters, submitted
from tests.queues.world import SimNode, World, single, two
from triack.base.ack_trigger import AckTrigger, terms_of
from triack.base.commit import Commit
from triack.base.delivery import Delivery
from triack.base.errors import StoreDamaged
from triack.base.units import MS, SECOND
from triack.ordering.order_settings import OrderSettings
from triack.ordering.outgoing import StreamPacket
from triack.ordering.wire import RejectPacket, SequenceHeader
from triack.queues.messages import Outgoing
from triack.queues.node_settings import KeySettings, NodeSettings
from triack.queues.packing import unpack
from triack.queues.stages import Stage
from triack.queues.streams.accepted_keys import Accepted, AcceptedKeys
from triack.queues.streams.ack_events import UNREAD_MAX, AckEvent, AckEvents, AckKind
from triack.queues.streams.dead_lettering import DeadMessage
from triack.queues.streams.group_commit import GroupCommit
from triack.queues.streams.incoming_stream import IncomingStream, new_row

# Events of acknowledgements, under a clock that only the test moves: the numbers of the systems they are from.

INTERVAL = AckTrigger(window_share=None, delay_s=1.0)
"""AMPS: once a second."""
THIRD = AckTrigger(window_share=1 / 3, delay_s=1.0)
"""Solace: a third of the window, or a second."""


class Reader:
    """A reader of an outgoing queue with a clock, which says what it was told as AMPS's page does: +2 -3 +5."""

    def __init__(self, trigger: AckTrigger | None, window: int = 64) -> None:
        self.now_ns = 0
        self.woken = 0
        self.events = AckEvents(None if trigger is None else terms_of(trigger, window), 0, self._wake)

    def _wake(self) -> None:
        self.woken += 1

    def settle(self, *numbers: int, size_bytes: int = 100) -> "Reader":
        """Messages are acknowledged, each in a packet of its own, or have failed if negative."""
        for number in numbers:
            if number < 0:
                self.events.handle_failed(-number - 1, 1, "queue-full")
            # A failed message is let go as well.
            self.events.handle_acked(abs(number) - 1, 1, size_bytes)
        self.events.handle_time(self.now_ns)
        return self

    def wait(self, seconds: float) -> "Reader":
        self.now_ns += round(seconds * SECOND)
        self.events.handle_time(self.now_ns)
        return self

    def read(self) -> list[AckEvent]:
        read = []
        while (event := self.events.poll()) is not None:
            read.append(event)
        return read

    def told(self) -> list[int]:
        return [event.last if event.kind is AckKind.ACK else -event.last for event in self.read()]


def test_an_interval_with_nothing_new_is_silent() -> None:
    """Neither a reader that was told nothing nor one that was told all is woken."""
    reader = Reader(INTERVAL).wait(1).wait(1)
    assert (reader.told(), reader.woken, reader.events.next_deadline()) == ([], 0, None)
    reader.settle(1).wait(1)
    assert (reader.told(), reader.woken) == ([1], 1)
    reader.wait(1).wait(1)
    assert (reader.told(), reader.woken, reader.events.next_deadline()) == ([], 1, None)


def test_an_interval_begins_with_the_first_that_is_not_told() -> None:
    """A failure does not begin it again: the event of what follows comes when it would have come anyway."""
    reader = Reader(INTERVAL).wait(5).settle(1).wait(0.999)
    assert reader.told() == []
    assert reader.events.next_deadline() == 6 * SECOND
    assert reader.settle(2).wait(0.001).told() == [2]
    assert reader.wait(0.5).settle(3).wait(0.6).settle(-4, 5).told() == [3, -4]
    assert reader.wait(0.399).told() == []
    assert reader.wait(0.001).told() == [5]


def test_events_never_go_backwards() -> None:
    reader = Reader(INTERVAL).settle(3, -4, 2).wait(2)
    assert reader.told() == []
    assert reader.settle(1, 4, 3).wait(1).told() == [3, -4]
    assert reader.settle(1, -2).wait(1).told() == []


def test_a_large_message_counts_with_all_its_packets() -> None:
    reader = Reader(AckTrigger(window_share=None, bytes_=1_000, delay_s=2.0))
    for messages in (0, 0, 1):
        reader.events.handle_acked(0, messages, 400)
    reader.events.handle_time(0)
    assert reader.told() == [1]


def test_events_that_nobody_reads_are_merged_and_none_is_lost() -> None:
    reader = Reader(INTERVAL)
    for number in range(1, 10_001):
        reader.settle(number).wait(1)
    assert reader.read() == [AckEvent(AckKind.ACK, 1, 10_000)]
    assert not reader.events.is_full


def test_what_alternates_unread_fills_it() -> None:
    reader = Reader(None)
    for number in range(1, UNREAD_MAX, 2):
        assert not reader.events.is_full
        reader.settle(number, -(number + 1))
    assert reader.events.is_full
    reader.events.poll()
    assert not reader.events.is_full
    reader.settle(UNREAD_MAX + 1)
    assert reader.events.is_full
    reader.events.end()
    assert not reader.events.is_full


def test_the_end_tells_what_was_gathered() -> None:
    """As HornetQ flushes when it is closed."""
    reader = Reader(INTERVAL).settle(1, 2)
    reader.events.end()
    assert reader.told() == [2]


# Messages that are sent no more: which of their times ran out, and what is known until their letter is made.


@pytest.mark.parametrize(
    ("reach_ms", "receive_ms", "dies_ms", "reason"),
    [
        (50, None, 50, "reach-queue-timeout"),
        (0, 70, 70, "receive-timeout"),
        (50, 70, 50, "reach-queue-timeout"),
        (70, 50, 50, "receive-timeout"),
    ],
)
def test_a_message_dies_on_its_way_when_the_first_of_its_times_runs_out(
    reach_ms: int, receive_ms: int | None, dies_ms: int, reason: str
) -> None:
    node = Bare()
    start_ms = node.now_ns // MS
    receive_by_ms = 0 if receive_ms is None else start_ms + receive_ms
    submitted(node, Outgoing(b"x", None, start_ms + reach_ms if reach_ms else 0, receive_by_ms=receive_by_ms))
    node.poll((dies_ms - 1) * MS)
    assert node.job is None
    effects = node.poll(1 * MS)
    (letter,) = letters(node)
    assert letter["dead_reason"] == reason
    assert isinstance(node.job, GroupCommit)
    assert [unpack(row.bodies[0]).receive_by_ms for row in node.job.commit.messages] == [0]
    assert "removed" in events(effects)


def test_messages_of_one_moment_and_two_reasons_each_say_their_own() -> None:
    """They share no packet, as a receipt hears only the fate of its packet."""
    node = Bare()
    at_ms = node.now_ns // MS + 50
    outgoing = submitted(node, Outgoing(b"1", None, at_ms), Outgoing(b"2", receive_by_ms=at_ms))
    assert outgoing.unacknowledged == 2
    node.poll(50 * MS)
    assert [letter["dead_reason"] for letter in letters(node)] == ["reach-queue-timeout", "receive-timeout"]


def test_what_was_never_sent_was_not_delivered() -> None:
    node = Bare()
    entry = StreamPacket(1, b"", 0, 1, 0, 1)
    given_up = DeadMessage(node.submit("memory://nobody"), [entry], "purged")
    assert given_up.properties["dead_maybe_delivered"] is False
    entry.sends = 1
    assert given_up.properties["dead_maybe_delivered"] is True


@pytest.mark.parametrize("delivery", [Delivery.TRANSACTIONAL, Delivery.RECOVERABLE])
def test_what_an_earlier_life_had_queued_may_have_been_delivered(delivery: Delivery) -> None:
    """The first had left, and the restarted node never sends it; the second is queued afterwards, and never leaves."""
    world, a, b = two()
    world.cut(b, a, both=False)
    a.send(b, "q", b"1", delivery=delivery, live_ms=20_000)
    world.run(SECOND)
    a.crash()
    world.cut(a, b)
    a.start()
    a.send(b, "q", b"2", delivery=delivery, live_ms=20_000)
    world.run(30 * SECOND)
    assert maybe_delivered(a) == {b"1": True, b"2": False}


def test_a_refusal_after_a_restart_is_as_definite_as_before() -> None:
    world = World(1)
    a, b = world.node("a"), world.node("b", queues=[])
    world.cut(a, b)
    a.send(b, "nosuch", b"1")
    world.run(SECOND)
    a.restart()
    world.heal()
    world.run(30 * SECOND)
    assert maybe_delivered(a) == {b"1": False}


def maybe_delivered(node: SimNode) -> dict[bytes, object]:
    """What the dead letters of a node say, by their bodies."""
    box, found = node.live.make_queue("dead-letter"), {}
    while (lease := node.live.take(box, node.world.now_ns)) is not None:
        properties = lease.packet.open().properties or []
        found[lease.body] = properties[lease.index]["dead_maybe_delivered"]
    return found


# Messages that are sent no more, until their letters are made: on record at once, in order, and each at most once.


@pytest.mark.parametrize("refused", [False, True])
def test_a_refusal_that_comes_before_the_letter_is_part_of_it(refused: bool) -> None:
    """A message that expired after it was sent may have arrived, unless its destination says that it never will."""
    node = Bare()
    outgoing = submitted(node, Outgoing(b"x"))
    (entry,) = outgoing.sequence.entries.values()
    entry.sends = 1
    outbox = node.engine.outbox
    outbox.dead_lettering.purge(outgoing)
    if refused:
        refusal = RejectPacket(*outgoing.id, outgoing.sequence.sequence, entry.number, "queue-not-found")
        outbox.handle_reject(cast("Any", None), refusal, node.engine.jobs.turn(node.now_ns))
        outbox.handle_reject(cast("Any", None), refusal, node.engine.jobs.turn(node.now_ns))
    node.poll()
    (letter,) = letters(node)
    assert (letter["dead_reason"], letter["dead_maybe_delivered"]) == ("purged", not refused)


def test_what_is_given_up_is_on_record_at_once() -> None:
    """A session may pass it over before its letter can be made: the disk is busy here, and the message freed first."""
    node = Bare()
    outgoing = submitted(node, Outgoing(b"x"))
    node.submit("memory://nobody", b"y")
    node.poll()
    assert node.job is not None
    node.engine.outbox.dead_lettering.purge(outgoing)
    assert "removed" in events(node.poll())
    (entry,) = [entry for entry in outgoing.sequence.entries.values() if entry.number == 1]
    node.engine.outbox.handle_order_ack(outgoing.stream_number, 1, entry.number, node.engine.jobs.turn(node.now_ns))
    node.finish_job()
    assert "removed" not in events(node.poll())
    assert node.job is None


def test_a_word_about_a_packet_that_has_not_left_is_not_believed() -> None:
    """A relay may invent it, or it is about a copy of an earlier process."""
    node = Bare()
    outgoing = submitted(node, Outgoing(b"x"))
    (entry,) = outgoing.sequence.entries.values()
    refusal = RejectPacket(*outgoing.id, outgoing.sequence.sequence, entry.number, "access-denied")
    node.engine.outbox.handle_reject(cast("Any", None), refusal, node.engine.jobs.turn(node.now_ns))
    assert "removed" not in events(node.poll())
    assert list(outgoing.sequence.entries) == [entry.number]


# What a commit holds beside its rows, and that nothing of it is seen before it has returned.

BEGINS = SequenceHeader(b"o" * 16, 1, 1, 1, 0, "q", False, b"")
TRANSFER = IncomingStream(new_row(BEGINS, "q", Delivery.RECOVERABLE), OrderSettings())


@pytest.mark.parametrize(
    "put",
    [
        lambda group: group.commit.state.update(key=None),
        lambda group: group.accepted.update({TRANSFER: [(1, 1, 1, 1)]}),
        lambda group: group.stored.update({object(): [1]}),
        lambda group: group.waiters.append(print),
    ],
    ids=["rows", "accepted", "stored", "waiters"],
)
def test_each_of_these_is_something_to_do(put: Callable[[GroupCommit], None]) -> None:
    """A store ack or a waiter needs no row: it goes with the next commit, and makes one if there is none."""
    group = GroupCommit()
    put(group)
    assert (bool(group), group.is_awaited) == (True, True)


@pytest.mark.plain
def test_store_acks_are_kept_by_conversation() -> None:
    group = GroupCommit()
    one, other = object(), object()
    for conversation, packet in ((one, 1), (other, 1), (one, 2)):
        group.store_ack(conversation, packet)  # type: ignore[arg-type]
    assert list(group.stored.items()) == [(one, [1, 2]), (other, [1])]


@pytest.mark.parametrize("delivery", [Delivery.RECOVERABLE, Delivery.TRANSACTIONAL])
def test_nothing_is_seen_before_the_commit_has_returned(delivery: Delivery) -> None:
    node, said = Bare(), list[object]()
    outgoing = node.submit(node.address, b"hello", delivery=delivery)
    node.engine.await_commit(said.append)
    node.engine.await_stage(outgoing, 0, Stage.QUEUED, said.append)
    node.poll()
    node.poll()
    box = node.engine.make_queue("q")
    assert (said, box.length, node.engine.busy_storing) == ([], 0, True)
    node.finish_job()
    assert (said, box.length) == ([None, None], 1)


def test_a_waiter_alone_makes_a_commit_without_a_number() -> None:
    """Nothing is written, but the disk is asked: what was asked for before is durable then."""
    node, said = Bare(), list[object]()
    node.poll()
    node.finish_job()
    node.engine.await_commit(said.append)
    assert kinds(node.poll()) == ["StartJob"]
    job = node.job
    assert isinstance(job, GroupCommit)
    assert (bool(job.commit), job.commit.serial, said) == (False, 0, [])
    node.finish_job()
    assert (said, node.poll()) == ([None], [])


# A key is in the commit of its message, counts for one queue and for a time, and knows how its message ended.

PEER = "memory://b"


def send(node: Bare, key: str, queue: str = "q", delivery: Delivery = Delivery.TRANSACTIONAL) -> Accepted:
    outgoing = node.engine.outgoing_stream(PEER, queue, delivery)
    return node.engine.submit_once(outgoing, Outgoing(b"body", None, 0, key), 4, node.now_ns)


def commit(node: Bare) -> GroupCommit:
    node.poll()
    assert isinstance(node.job, GroupCommit)
    job = node.job
    node.finish_job()
    return job


def send_once(node: SimNode, to: str) -> Accepted:
    """Send the same message with its key."""
    outgoing = node.live.outgoing_stream(to, "q", Delivery.TRANSACTIONAL)
    accepted = node.live.submit_once(outgoing, Outgoing(b"body", None, 0, "k"), 4, node.world.now_ns)
    node.drain()
    return accepted


def test_key_and_message_are_in_one_commit() -> None:
    node = Bare()
    first = send(node, "k")
    group = commit(node)
    assert len(group.commit.outgoing) == 1
    assert json.loads(group.commit.state["$key:1.1:k"] or b"") == [1_000, first.ordinal, 1, 0, "", PEER, "q"]


def test_sent_again_it_is_the_message_that_was_accepted() -> None:
    node = Bare()
    first = send(node, "k")
    assert send(node, "k") is first
    commit(node)
    assert send(node, "k") is first
    assert send(node, "k", delivery=Delivery.RECOVERABLE) is first
    assert commit(node).commit.outgoing == []
    assert len({first.ordinal, send(node, "k", "other").ordinal, send(node, "l").ordinal}) == 3


def test_a_key_is_over_after_its_time() -> None:
    node = Bare(settings=NodeSettings(keys=KeySettings(lifetime_s=60)))
    first = send(node, "k")
    commit(node)
    node.now_ns += 59 * SECOND
    assert send(node, "k") is first
    young = send(node, "l")
    commit(node)
    node.now_ns += SECOND
    again = send(node, "k")
    assert again is not first
    group = commit(node)
    assert json.loads(group.commit.state["$key:1.1:k"] or b"")[1] == again.ordinal
    node.now_ns += 58 * SECOND
    assert send(node, "l") is young
    node.now_ns += SECOND
    send(node, "m")
    assert commit(node).commit.state["$key:1.1:l"] is None


def test_no_more_keys_are_kept_than_may_be() -> None:
    node = Bare(settings=NodeSettings(keys=KeySettings(lifetime_s=60, most=2)))
    keys = node.engine.outbox.keys
    send(node, "k")
    assert keys.full_for_ms(1_000) == 0
    send(node, "l")
    assert keys.full_for_ms(1_000) == 60_000
    assert keys.full_for_ms(60_999) == 1
    assert keys.full_for_ms(61_000) == 0
    assert keys.full_for_ms(1_000, 2) == 60_000
    assert keys.full_for_ms(1_000, 3) == 60_000  # there never is


def test_a_message_is_found_by_its_ordinal_as_long_as_its_key_counts() -> None:
    node = Bare(settings=NodeSettings(keys=KeySettings(lifetime_s=60)))
    accepted, keys = send(node, "k"), node.engine.outbox.keys
    assert keys.of_ordinal(accepted.ordinal, 60_999) is accepted
    assert keys.of_ordinal(accepted.ordinal, 61_000) is None
    assert keys.of_ordinal(accepted.ordinal + 1, 1_000) is None
    assert accepted.destination == f"{accepted.peer}/{accepted.queue}"


def test_a_dead_letter_is_remembered_with_its_reason() -> None:
    node = Bare()
    first = send(node, "k")
    commit(node)
    assert first.outgoing is not None
    node.engine.outbox.dead_lettering.purge(first.outgoing)
    group = commit(node)
    assert (first.reason, group.commit.outgoing_deletes) == ("purged", [(first.outgoing.stream_number << 40 | 1,) * 2])
    assert json.loads(group.commit.state["$key:1.1:k"] or b"")[4] == "purged"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("$key:1.1:k", b"[1, 2", "cannot be read"),
        ("$key:1.1:k", b'["1", 2, 3, 4, "", "b", "q"]', "cannot be read"),
        ("$key:1.1:k", b'[1, 2, 3, 4, 5, "b", "q"]', "has no reason"),
        ("$key:one:k", b'[1, 2, 3, 4, "", "b", "q"]', "cannot be read"),
        ("$key:1.1:k", b'[1, 2, 3, 4, "", "b", 7]', "or no queue"),
    ],
)
def test_what_no_node_has_kept_is_damage(name: str, value: bytes, said: str) -> None:
    keys = Bare().engine.outbox.keys
    with pytest.raises(StoreDamaged, match=said):
        keys.restore({name: value}, {}, 0, Commit())


@pytest.mark.parametrize("jump_s", [-86_400, 86_400, 56 * 366 * 86_400])
def test_a_key_lasts_as_long_as_was_said_however_the_clock_was_set_between_two_starts(jump_s: int) -> None:
    """Set forward, it would be forgotten and its message accepted twice; set back, it would be known for years."""
    world, a = single(NodeSettings(keys=KeySettings(lifetime_s=60)))
    found = []
    for then_s in (jump_s, -jump_s, 0, 0):
        found.append(send_once(a, "").ordinal)
        world.run(25 * SECOND)
        a.wall_offset_ns += then_s * SECOND
        a.restart()
    assert [ordinal == found[0] for ordinal in found] == [True, True, True, False]


def test_a_key_that_was_accepted_later_than_now_is_as_old_as_the_start_that_finds_it() -> None:
    """Where nothing tells how long it was; and the commit says so, or it would be as old as each further start."""
    keys, commit = AcceptedKeys(KeySettings(lifetime_s=60)), Commit()
    node = Bare()
    outgoing = node.engine.outgoing_stream(PEER, "q", Delivery.TRANSACTIONAL)
    keys.restore({"$key:1.1:k": b'[90000, 2, 3, 4, "", "memory://b", "q"]'}, {1: outgoing}, 50_000, commit)
    assert json.loads(commit.state["$key:1.1:k"] or b"")[0] == 50_000
    assert keys.find(outgoing, "k", 109_999) is not None
    assert keys.find(outgoing, "k", 110_000) is None


def test_a_key_outlives_the_stream_of_its_message() -> None:
    world, a, b = two(a=NodeSettings(retire_after_s=1.0))
    first = send_once(a, b.address)
    for _ in range(2):
        world.run(10 * SECOND)
        assert send_once(a, b.address).ordinal == first.ordinal
        a.restart()
    assert send_once(a, b.address).ordinal == first.ordinal
    world.run(10 * SECOND)
    assert b.read_all("q") == [b"body"]
    assert (first.outgoing, first.ticket) == (None, None)
