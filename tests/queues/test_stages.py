"""Stages and deadlines of messages, and clocks that jump."""

from heapq import heapify

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.queues.relays import post
from tests.queues.world import World, two
from triack.base.clock import ClockJump
from triack.base.commit import HEAD_BYTES, Commit, OutgoingStreamRow
from triack.base.delivery import Delivery
from triack.base.errors import StoreDamaged
from triack.base.units import SECOND
from triack.ordering.departing import StreamPacketState
from triack.ordering.outgoing import StreamPacket
from triack.queues import deadlines, stages
from triack.queues.body_head import receive_by_of, sent_at_of
from triack.queues.clock_jumps import JUMPS_MAX, ClockJumps, head_here
from triack.queues.deadlines import STALE_MIN, Deadlines
from triack.queues.messages import Outgoing
from triack.queues.packing import pack_one
from triack.queues.stages import DONE_MAX, PRUNE_AT, Stage, StageTracker
from triack.session.protocol.frames import Ask

# Which stage a message has reached, for those who ask.


class Book:
    """A receipt book with packets of ``tickets`` messages each."""

    def __init__(self, packets: int, tickets: int = 1) -> None:
        self.book = StageTracker()
        self.entries = [StreamPacket(at + 1, b"", 0, tickets, at * tickets, tickets) for at in range(packets)]
        for entry in self.entries:
            self.book.add([entry])
        self.book.handle_queued(packets * tickets)

    def wait(self, ticket: int, stage: Stage = Stage.ORDERED) -> list[str | None]:
        said: list[str | None] = []
        self.book.wait(ticket, stage, said.append)
        return said

    def finish(self, at: int) -> None:
        self.entries[at].state = StreamPacketState.DONE
        self.book.handle_progress([self.entries[at]], Stage.ORDERED)

    def remove(self, at: int, reason: str) -> None:
        self.entries[at].state = StreamPacketState.DONE
        self.book.handle_removed(self.entries[at], reason)


def test_stages_come_one_after_the_other() -> None:
    """Each waiter hears of its own stage, once, and only then."""
    book = Book(1)
    entry = book.entries[0]
    received, stored, ordered = (book.wait(0, stage) for stage in (Stage.RECEIVED, Stage.STORED, Stage.ORDERED))
    assert book.wait(0, Stage.QUEUED) == [None]
    entry.received = True
    book.book.handle_progress([entry], Stage.RECEIVED)
    assert (received, stored, ordered) == ([None], [], [])
    entry.stored = True
    book.book.handle_progress([entry], Stage.STORED)
    assert (received, stored, ordered) == ([None], [None], [])
    book.finish(0)
    book.finish(0)
    assert (received, stored, ordered) == ([None], [None], [None])


def test_a_packet_speaks_for_its_own_messages_only() -> None:
    """Ten messages a packet: the third packet is done, tickets 20 to 29 are."""
    book = Book(5, tickets=10)
    waiting = [book.wait(ticket) for ticket in range(50)]
    book.finish(2)
    assert [ticket for ticket in range(50) if waiting[ticket]] == list(range(20, 30))


def test_a_large_message_is_there_with_its_last_fragment() -> None:
    """All its packets have the same ticket."""
    book = StageTracker()
    entries = [StreamPacket(number, b"", 0, int(number == 3), 0, 1) for number in (1, 2, 3)]
    for entry in entries:
        book.add([entry])
    book.handle_queued(1)
    said: list[str | None] = []
    assert book.wait(0, Stage.ORDERED, said.append) == entries[::-1]
    for entry in entries:
        assert said == []
        entry.state = StreamPacketState.DONE
        book.handle_progress([entry], Stage.ORDERED)
    assert said == [None]


def test_who_waits_for_less_comes_before_who_waits_for_more() -> None:
    """However they came: what is asked for alone, and what is asked for beside, or after, something later."""
    for first, second in ((Stage.ORDERED, Stage.RECEIVED), (Stage.RECEIVED, Stage.ORDERED)):
        book = Book(3)
        said = {(at, stage): book.wait(at, stage) for at, stage in ((0, first), (0, second), (1, first), (2, second))}
        for entry in book.entries:
            entry.received = True
            book.book.handle_progress([entry], Stage.RECEIVED)
        assert {key for key, told in said.items() if told} == {key for key in said if key[1] is Stage.RECEIVED}
        for at in range(3):
            book.finish(at)
        assert set(map(tuple, said.values())) == {(None,)}
        later = book.wait(5, Stage.QUEUED)
        assert later == []
        book.book.handle_queued(6)
        assert later == [None]


def test_who_no_longer_waits_hears_nothing() -> None:
    """A wait that timed out leaves nothing behind, and others still hear."""
    book = Book(1)
    said, other = book.wait(0), book.wait(0)
    gone: list[str | None] = []
    waiter = gone.append
    for it in (gone.append, waiter):
        book.book.wait(0, Stage.ORDERED, it)
    book.book.forget(0, waiter)
    book.book.forget(7, waiter)
    assert book.book.asks_of(book.entries[:1]) != [Ask.NO]
    book.finish(0)
    assert (said, other, gone) == ([None], [None], [None])
    assert book.book.asks_of(book.entries[:1]) == [Ask.NO]


def test_what_was_given_up_never_counts_as_delivered() -> None:
    """However many messages were given up since."""
    packets = 2 * PRUNE_AT + 100
    book = Book(packets)
    early = book.wait(0)
    for at in range(packets):
        book.remove(at, "queue-not-found")
    assert early == ["queue-not-found"]
    for ticket in (0, 1, PRUNE_AT // 2, PRUNE_AT, packets - 1):
        assert book.wait(ticket) == ["queue-not-found"], ticket
        assert book.wait(ticket, Stage.RECEIVED) == ["queue-not-found"], ticket


def test_failures_among_deliveries_never_count_as_delivered() -> None:
    """Every second message was given up, more than the book remembers one by one: it never claims too much."""
    packets = 4 * PRUNE_AT
    book = Book(packets)
    for at in range(0, packets, 2):
        book.remove(at, "expired")
        book.finish(at + 1)
    assert [ticket for ticket in range(0, packets, 2) if book.wait(ticket) == [None]] == []
    assert book.wait(packets - 1) == [None]


@pytest.mark.parametrize(("packets", "ahead"), [(1_000, 1), (5_000, 5_000), (5_000, 300)])
def test_of_what_is_done_little_is_kept(packets: int, ahead: int) -> None:
    """However many packets a queue has sent, and however many wait: some tens of them, or an eighth."""
    book, shelf = StageTracker(), Book(packets).entries
    for at in range(packets + ahead):
        if at < packets:
            book.add([shelf[at]])
        if at >= ahead:
            shelf[at - ahead].state = StreamPacketState.DONE
            book.handle_progress([shelf[at - ahead]], Stage.ORDERED)
            waiting = min(at + 1, packets) - (at - ahead + 1)
            assert len(book._entries) - waiting <= max(DONE_MAX, len(book._entries) // 8), at  # noqa: SLF001
    assert len(book._entries) <= DONE_MAX  # noqa: SLF001


def test_what_was_delivered_long_ago_still_counts_as_delivered() -> None:
    """The book forgets old packets, not what became of them."""
    packets = 3 * PRUNE_AT
    book = Book(packets)
    for at in range(packets - 1):
        book.finish(at)
    assert [book.wait(ticket) for ticket in (0, packets - 2, packets - 1)] == [[None], [None], []]


@pytest.mark.parametrize("stage", [Stage.RECEIVED, Stage.STORED, Stage.ORDERED])
def test_everyone_hears_of_the_end(stage: Stage) -> None:
    """Once, with the reason."""
    book = Book(3)
    waiting = [book.wait(ticket, stage) for ticket in range(3)]
    book.book.fail_all("node closed")
    book.book.fail_all("again")
    assert waiting == [["node closed"]] * 3


@pytest.mark.parametrize("backwards", [False, True])
def test_a_large_message_is_looked_at_once_for_each_of_its_packets(
    monkeypatch: pytest.MonkeyPatch, *, backwards: bool
) -> None:
    """In whatever order they are acknowledged."""
    reached, looked = stages._reached, []  # noqa: SLF001 - what is counted

    def count(entry: StreamPacket, stage: Stage) -> bool:
        looked.append(entry)
        return reached(entry, stage)

    monkeypatch.setattr(stages, "_reached", count)
    book = StageTracker()
    fragments = [StreamPacket(number, b"", 0, int(number == 500), 0, 1) for number in range(1, 501)]
    for fragment in fragments:
        book.add([fragment])
    book.handle_queued(1)
    said: list[str | None] = []
    book.wait(0, Stage.RECEIVED, said.append)
    for fragment in reversed(fragments) if backwards else fragments:
        assert not said
        fragment.received = True
        book.handle_progress([fragment], Stage.RECEIVED)
    assert said == [None]
    assert len(looked) <= 2 * len(fragments)


def test_a_row_has_come_as_far_as_the_first_that_has_not() -> None:
    """Whole packets are looked at, and a row may begin and end in the midst of one."""
    book = Book(4, tickets=10)
    row = range(5, 35)
    assert book.book.reached_until(row, Stage.QUEUED) == 35
    assert book.book.reached_until(row, Stage.ORDERED) == 5
    book.finish(0)
    book.finish(2)
    assert book.book.reached_until(row, Stage.ORDERED) == 10
    book.entries[1].stored = True
    assert book.book.reached_until(row, Stage.STORED) == 30
    book.finish(1)
    book.finish(3)
    assert book.book.reached_until(row, Stage.ORDERED) == 35
    assert book.book.reached_until(range(7, 7), Stage.ORDERED) == 7
    assert book.book.reached_until(range(30, 45), Stage.QUEUED) == 40


def test_a_row_has_not_come_past_one_that_failed() -> None:
    book = Book(3, tickets=10)
    for at in (0, 2):
        book.finish(at)
    book.remove(1, "expired")
    assert book.book.reached_until(range(30), Stage.QUEUED) == 10
    assert book.book.reached_until(range(15, 30), Stage.ORDERED) == 15
    assert book.book.reached_until(range(20, 30), Stage.ORDERED) == 30


def test_a_waiter_for_an_arrival_alone_wants_its_ack_before_the_disk_has_it() -> None:
    """All others hear more of the acks that follow the commit."""
    book = Book(3)
    book.wait(0, Stage.ORDERED)
    book.wait(0, Stage.STORED)
    book.wait(1, Stage.ORDERED)
    book.wait(1, Stage.RECEIVED)
    assert book.book.asks_of(book.entries) == [Ask.WITH_STORE, Ask.AT_ONCE, Ask.NO]


# Deadlines: the earliest is seen at once, what was moved or removed does not come back, and nothing piles up.


def test_ties_go_by_the_order_of_setting() -> None:
    """Also when keys cannot be compared; one that is set to what it says already keeps its place."""
    keys = [object() for _ in range(5)]
    found = Deadlines[object]()
    for key in keys:
        found.set(key, 7)
    found.set(keys[0], 7)
    found.set(keys[1], 8)
    found.set(keys[1], 7)
    assert found.poll_due(7) == [keys[0], *keys[2:], keys[1]]


def test_moving_without_end_takes_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions move their deadlines with every packet: stale entries are bounded, and seldom cleared away."""
    cleared: list[int] = []

    def clear(heap: list[tuple[int, int, str]]) -> None:
        cleared.append(len(heap))
        heapify(heap)

    monkeypatch.setattr(deadlines, "heapify", clear)
    found = Deadlines[str]()
    found.set("still", 0)
    for at_ns in range(10_000, 0, -1):
        found.set("moved", at_ns)
        assert len(found.heap) <= 2 * STALE_MIN + 2 * 2
    assert (set(cleared), len(cleared) <= 10_000 // STALE_MIN) == ({2}, True)
    assert (found.earliest(), found.poll_due(10**9)) == (0, ["still", "moved"])


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.none() | st.integers(0, 30) | st.just(-1)), max_size=200))
def test_it_does_what_a_table_would_do(steps: list[tuple[str, int | None]]) -> None:
    """-1 polls what is due at 15."""
    found, table = Deadlines[str](), dict[str, int]()
    for key, at_ns in steps:
        if at_ns == -1:
            due = found.poll_due(15)
            assert sorted(due) == sorted(name for name, due_ns in table.items() if due_ns <= 15)
            times = [table.pop(name) for name in due]
            assert times == sorted(times)
        else:
            found.set(key, at_ns)
            table.pop(key, None)
            table |= {key: at_ns} if at_ns is not None else {}
        assert found.earliest() == min(table.values(), default=None)
        assert len(found) == len(table)


# Clocks that are set between two starts: no message dies early of it, and none is sent twice.

HOUR, HOUR_MS = 3_600 * SECOND, 3_600_000
YEAR = 366 * 24 * HOUR
UNSET = -53 * YEAR
"""To 1970, from the wall clock of the simulated world."""


@pytest.mark.slow
@pytest.mark.parametrize(("first_ns", "then_ns"), [(UNSET, 0), (0, UNSET), (0, YEAR), (-HOUR, 0), (HOUR, 0)])
def test_what_is_on_its_way_lives_as_long_as_was_said(first_ns: int, then_ns: int) -> None:
    """By the time that passes, however often the node starts meanwhile."""
    world, a, b = two()
    a.restart(first_ns)
    world.cut(a, b)
    post(a, "b", b"reach", life_ms=HOUR_MS)
    post(a, "b", b"receive", read_ms=HOUR_MS)
    world.run(20 * 60 * SECOND)
    a.restart(then_ns - first_ns)
    world.run(20 * 60 * SECOND)
    a.restart()
    assert a.read_all("dead-letter") == []
    world.run(19 * 60 * SECOND)
    assert a.read_all("dead-letter") == []
    world.run(2 * 60 * SECOND)
    assert sorted(a.read_all("dead-letter")) == [b"reach", b"receive"]


@pytest.mark.parametrize("off", [False, True])
def test_a_message_of_a_clock_that_was_not_set_arrives_alive(off: bool) -> None:
    """Its time to be received moves with the clock, also when the machine was off and nobody knows for how long."""
    world, a, b = two()
    a.restart(UNSET)
    world.cut(a, b)
    post(a, "b", b"1", read_ms=HOUR_MS)
    world.run(10 * SECOND)
    if off:
        a.end(a.disk.lose_power)
        a.wall_offset_ns -= UNSET
        a.start()
    else:
        a.restart(-UNSET)
    world.heal()
    world.run(60 * SECOND)
    assert b.read_all("q") == [b"1"]


def test_a_message_in_a_queue_lives_as_long_as_was_said() -> None:
    """One of its own node, and one of another whose clock agreed with its own before it was set."""
    world, a, b = two()
    for node in (a, b):
        node.restart(UNSET)
    post(b, "", b"own", read_ms=HOUR_MS)
    post(a, "b", b"other", read_ms=HOUR_MS)
    world.run(10 * SECOND)
    b.restart(-UNSET)
    world.run(50 * 60 * SECOND)
    b.restart()
    world.run(60 * SECOND)
    assert b.live.queues.mailboxes["q"].length == 2
    world.run(12 * 60 * SECOND)
    assert sorted(b.read_all("dead-letter")) == [b"other", b"own"]


@pytest.mark.parametrize("size", [1, 5_000])
@pytest.mark.parametrize("delivery", list(Delivery))
def test_a_message_whose_sender_has_no_clock_lives_from_its_arrival_on(delivery: Delivery, size: int) -> None:
    """As long as was said, and not longer; in runs, alone, and in fragments."""
    world, a, b = two()
    a.restart(UNSET)
    for body in (b"1", b"2"):
        post(a, "b", body * size, read_ms=HOUR_MS, delivery=delivery)
    world.run(HOUR - 60 * SECOND)
    assert b.live.queues.mailboxes["q"].length == 2
    world.run(120 * SECOND)
    assert sorted(b.read_all("dead-letter")) == [b"1" * size, b"2" * size]
    assert b.read_all("q") == []


@pytest.mark.parametrize(("sent_at_ms", "receive_by_ms"), [(0, 2**64 - 1), (2**64 - 1, 2**64 - 1), (5, 1)])
def test_times_that_no_node_of_ours_writes_move_nothing_out_of_range(sent_at_ms: int, receive_by_ms: int) -> None:
    """A peer may say anything."""
    now_ms = World(1).now_ms
    head = pack_one(Outgoing(b"x", receive_by_ms=receive_by_ms), 1, sent_at_ms)[:HEAD_BYTES]
    assert head_here(head, now_ms) == head
    jumps = ClockJumps(ClockJump(now_ms, 2**62))
    jumps.restore({}, [], Commit())
    assert receive_by_of(jumps.move_queued(head)) in (receive_by_ms, receive_by_ms + now_ms, 2**64 - 1)


def test_a_message_whose_sender_has_no_clock_outlives_a_start_of_its_receiver() -> None:
    world, a, b = two()
    a.restart(UNSET)
    post(a, "b", b"1", read_ms=HOUR_MS)
    world.run(10 * SECOND)
    b.restart()
    world.run(10 * SECOND)
    assert b.read_all("q") == [b"1"]


def test_a_message_of_a_clock_that_was_right_all_the_time_ends_in_time() -> None:
    """Only the receiver's was not set."""
    world, a, b = two()
    b.restart(UNSET)
    post(a, "b", b"1", read_ms=HOUR_MS)
    world.run(10 * SECOND)
    b.restart(-UNSET)
    world.run(HOUR)
    assert b.read_all("q") == []
    assert b.read_all("dead-letter") == [b"1"]


def test_a_clock_that_goes_right_moves_nothing() -> None:
    """Also while the machine is off: then what passed is seen by the clock."""
    world, a, b = two()
    world.cut(a, b)
    post(a, "b", b"1", life_ms=HOUR_MS)
    world.run(10 * SECOND)
    a.end(a.disk.lose_power)
    world.run(HOUR)
    a.start()
    world.run(SECOND)
    assert a.read_all("dead-letter") == [b"1"]


def streams(next_number: int) -> list[OutgoingStreamRow]:
    return [OutgoingStreamRow(1, "b", "q", Delivery.TRANSACTIONAL, 1, next_number)]


def state_of(commit: Commit) -> dict[str, bytes]:
    return {name: value for name, value in commit.state.items() if value is not None}


def start(commit: Commit, next_number: int, by_ms: int) -> ClockJumps:
    """A start that finds the clock set, on a store that has this commit."""
    jumps = ClockJumps(ClockJump(by_ms, 10_000))
    jumps.restore(state_of(commit), streams(next_number), commit)
    return jumps


def test_a_body_moves_forward_only() -> None:
    """A clock that was set back may be one that is not set at all: the receiver's knows better."""
    body = pack_one(Outgoing(b"x", receive_by_ms=9_000), 1, 5_000)
    for by_ms, moved in ((1_000, (6_000, 10_000)), (-1_000, (5_000, 9_000))):
        jumps = ClockJumps(ClockJump(by_ms, 10_000))
        jumps.restore({}, streams(2), Commit())
        found = jumps.move_outgoing(1, 1, body)
        assert (sent_at_of(found), receive_by_of(found)) == moved
        assert len(found) == len(body)


def test_no_more_jumps_are_kept_than_may_be() -> None:
    commit = Commit()
    jumps = [start(commit, 9, 1) for _ in range(JUMPS_MAX + 3)]
    assert jumps[-1].outgoing_ms(1, 1) == JUMPS_MAX


@pytest.mark.parametrize("value", [b"{", b"[1]", b'[["1", 2, []]]', b"[[1, 2, [[1]]]]"])
def test_what_no_node_has_kept_is_damage(value: bytes) -> None:
    with pytest.raises(StoreDamaged, match="its clock cannot be read"):
        ClockJumps().restore({"$clock": value}, [], Commit())
