"""One outgoing stream: tickets, packets, expiries."""

from tests.queues.lanes import make_lane
from triack.base.delivery import Delivery
from triack.queues.packing import Outgoing
from triack.queues.stages import Stage


def test_tickets_and_packets_agree_over_batches_and_fragments() -> None:
    """Every message finds the packets that hold it, whatever was sent before and after it."""
    lane = make_lane()
    bodies = [b"a" * 20, b"b" * 2_000, b"c" * 20, b"d" * 20, b"e" * 1_000]
    tickets = [lane.submit(body, len(body)) for body in bodies]
    assert tickets == [0, 1, 2, 3, 4]
    entries, next_ordinal = lane.poll_packets(100, 1)
    assert next_ordinal == 105
    assert [entry.number for entry in entries] == list(range(1, len(entries) + 1))
    lane.start(entries)
    for ticket, body in enumerate(bodies):
        held = lane.receipts.wait(ticket, Stage.ORDERED, lambda reason: None)
        assert (len(held) > 1) == (len(body) > 500)
        assert all(body[:1] in (entry.body or b"") for entry in held)


def test_numbers_go_on_where_the_disk_says() -> None:
    """A number is never used twice."""
    lane = make_lane(next_number=41)
    lane.submit(b"x", 1)
    entries, _ = lane.poll_packets(1, 1)
    lane.submit(b"y", 1)
    more, _ = lane.poll_packets(2, 1)
    assert [entry.number for entry in entries + more] == [41, 42]
    assert lane.sequence.next_number == 43


def test_bytes_that_wait_are_counted_and_let_go() -> None:
    """Back-pressure is measured by them."""
    lane = make_lane(delivery=Delivery.EXPRESS)
    lane.submit(b"x" * 300, 300)
    assert (lane.pending_bytes, lane.unacked_bytes) == (300, 0)
    entries, _ = lane.poll_packets(1, 1)
    lane.start(entries)
    assert lane.pending_bytes == 0
    assert lane.unacked_bytes >= 300
    lane.handle_freed(entries[0])
    assert lane.unacked_bytes == 0


def test_packets_expire_by_their_deadline_once() -> None:
    """In the order of their deadlines, and only those that are still wanted."""
    lane = make_lane()
    for reach_by_ms in (300, 100, 200):
        lane.submit(Outgoing(b"%d" % reach_by_ms, None, reach_by_ms), 3)
    lane.submit(b"for ever", 8)
    entries, _ = lane.poll_packets(1, 1)
    lane.start(entries)
    assert lane.next_expiry_ms == 100
    assert lane.poll_expired(99) == []
    lane.sequence.remove(entries[2])
    assert lane.poll_expired(250) == [entries[1]]
    assert lane.poll_expired(250) == []
    assert lane.next_expiry_ms == 300


def test_a_lane_is_busy_until_everything_is_freed() -> None:
    """GroupCommit, waiting or unacknowledged."""
    lane = make_lane()
    assert not lane.busy
    lane.submit(b"x", 1)
    assert lane.busy
    entries, _ = lane.poll_packets(1, 1)
    lane.start(entries)
    assert lane.busy
    lane.sequence.handle_sent(entries[0], 0)
    assert lane.sequence.handle_order_ack(1, 1, 0) == entries
    assert not lane.busy
