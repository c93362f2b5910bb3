"""Clocks that are set between two starts: no message dies early of it, and none is sent twice."""

import pytest

from tests.queues.world import SimNode, World
from triack.base.clock import ClockJump
from triack.base.commit import HEAD_BYTES, Commit, OutgoingStreamRow
from triack.base.delivery import Delivery
from triack.base.errors import StoreDamaged
from triack.base.units import SECOND
from triack.queues.body_head import receive_by_of, sent_at_of
from triack.queues.clock_jumps import JUMPS_MAX, ClockJumps, head_here
from triack.queues.packing import Outgoing, pack_one

HOUR_S = 3_600
YEAR_S = 366 * 86_400
UNSET_S = -53 * YEAR_S
"""To 1970, from the wall clock of the simulated world."""


def submit(
    node: SimNode,
    to: SimNode,
    body: bytes,
    *,
    reach_s: int = 0,
    receive_s: int = 0,
    delivery: Delivery = Delivery.TRANSACTIONAL,
) -> None:
    """Send a message that lives for so long."""
    engine = node.live
    now_ms = engine.wall.ms(node.world.now_ns)
    limits = [now_ms + limit_s * 1_000 if limit_s else 0 for limit_s in (reach_s, receive_s)]
    outgoing = engine.outgoing_stream("" if to is node else to.address, "q", delivery)
    engine.submit(outgoing, Outgoing(body, None, limits[0], receive_by_ms=limits[1]), 1)
    node.drain()


def set_clock(node: SimNode, by_s: int) -> None:
    """Start it again, with its clock set meanwhile."""
    node.wall_offset_ns += by_s * SECOND
    node.restart()


@pytest.mark.slow
@pytest.mark.parametrize(("first_s", "then_s"), [(UNSET_S, 0), (0, UNSET_S), (0, YEAR_S), (-HOUR_S, 0), (HOUR_S, 0)])
def test_what_is_on_its_way_lives_as_long_as_was_said(first_s: int, then_s: int) -> None:
    """By the time that passes, however often the node starts meanwhile."""
    world = World(1)
    a, b = world.node("a"), world.node("b")
    set_clock(a, first_s)
    world.cut(a, b)
    submit(a, b, b"reach", reach_s=HOUR_S)
    submit(a, b, b"receive", receive_s=HOUR_S)
    world.run(20 * 60 * SECOND)
    set_clock(a, then_s - first_s)
    world.run(20 * 60 * SECOND)
    set_clock(a, 0)
    assert a.read_all("dead-letter") == []
    world.run(19 * 60 * SECOND)
    assert a.read_all("dead-letter") == []
    world.run(2 * 60 * SECOND)
    assert sorted(a.read_all("dead-letter")) == [b"reach", b"receive"]


@pytest.mark.parametrize("off", [False, True])
def test_a_message_of_a_clock_that_was_not_set_arrives_alive(off: bool) -> None:
    """Its time to be received moves with the clock, also when the machine was off and nobody knows for how long."""
    world = World(1)
    a, b = world.node("a"), world.node("b")
    set_clock(a, UNSET_S)
    world.cut(a, b)
    submit(a, b, b"1", receive_s=HOUR_S)
    world.run(10 * SECOND)
    if off:
        a.end(a.disk.lose_power)
        a.wall_offset_ns -= UNSET_S * SECOND
        a.start()
    else:
        set_clock(a, -UNSET_S)
    world.heal()
    world.run(60 * SECOND)
    assert b.read_all("q") == [b"1"]


def test_a_message_in_a_queue_lives_as_long_as_was_said() -> None:
    """One of its own node, and one of another whose clock agreed with its own before it was set."""
    world = World(1)
    a, b = world.node("a"), world.node("b")
    for node in (a, b):
        set_clock(node, UNSET_S)
    submit(b, b, b"own", receive_s=HOUR_S)
    submit(a, b, b"other", receive_s=HOUR_S)
    world.run(10 * SECOND)
    set_clock(b, -UNSET_S)
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
    world = World(1)
    a, b = world.node("a"), world.node("b")
    set_clock(a, UNSET_S)
    for body in (b"1", b"2"):
        submit(a, b, body * size, receive_s=HOUR_S, delivery=delivery)
    world.run((HOUR_S - 60) * SECOND)
    assert b.live.queues.mailboxes["q"].length == 2
    world.run(120 * SECOND)
    assert sorted(b.read_all("dead-letter")) == [b"1" * size, b"2" * size]
    assert b.read_all("q") == []


@pytest.mark.parametrize(("sent_at_ms", "receive_by_ms"), [(0, 2**64 - 1), (2**64 - 1, 2**64 - 1), (5, 1), (0, 0)])
def test_times_that_no_node_of_ours_writes_move_nothing_out_of_range(sent_at_ms: int, receive_by_ms: int) -> None:
    """A peer may say anything."""
    now_ms = World(1).now_ms
    head = pack_one(Outgoing(b"x", receive_by_ms=receive_by_ms), 1, sent_at_ms)[:HEAD_BYTES]
    assert head_here(head, now_ms) == head
    jumps = ClockJumps(ClockJump(now_ms, 2**62))
    jumps.restore({}, [], Commit())
    assert receive_by_of(jumps.move_queued(head)) in (receive_by_ms, receive_by_ms + now_ms, 2**64 - 1)


def test_a_message_whose_sender_has_no_clock_outlives_a_start_of_its_receiver() -> None:
    world = World(1)
    a, b = world.node("a"), world.node("b")
    set_clock(a, UNSET_S)
    submit(a, b, b"1", receive_s=HOUR_S)
    world.run(10 * SECOND)
    b.restart()
    world.run(10 * SECOND)
    assert b.read_all("q") == [b"1"]


def test_a_message_of_a_clock_that_was_right_all_the_time_ends_in_time() -> None:
    """Only the receiver's was not set."""
    world = World(1)
    a, b = world.node("a"), world.node("b")
    set_clock(b, UNSET_S)
    submit(a, b, b"1", receive_s=HOUR_S)
    world.run(10 * SECOND)
    set_clock(b, -UNSET_S)
    world.run(HOUR_S * SECOND)
    assert b.read_all("q") == []
    assert b.read_all("dead-letter") == [b"1"]


def test_a_clock_that_goes_right_moves_nothing() -> None:
    """Also while the machine is off: then what passed is seen by the clock."""
    world = World(1)
    a, b = world.node("a"), world.node("b")
    world.cut(a, b)
    submit(a, b, b"1", reach_s=HOUR_S)
    world.run(10 * SECOND)
    a.end(a.disk.lose_power)
    world.run(HOUR_S * SECOND)
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


def test_each_packet_moves_by_what_came_after_it() -> None:
    """Numbers tell: set back, and later forward, leaves the oldest where they were."""
    commit = Commit()
    start(commit, 5, -1_000)
    jumps = start(commit, 8, 3_000)
    assert [jumps.outgoing_ms(1, number) for number in (4, 5, 7, 8)] == [2_000, 3_000, 3_000, 0]
    assert jumps.outgoing_ms(2, 1) == 0
    again = ClockJumps()
    again.restore(state_of(commit), [], Commit())
    assert again.outgoing_ms(1, 4) == 2_000


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
