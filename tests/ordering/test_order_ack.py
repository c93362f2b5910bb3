"""When an order ack leaves: after a burst, at the latest after the cap, at once when asked."""

from tests.ordering.pair import StreamPair
from triack.base.units import MS, SECOND
from triack.ordering.order_ack import OrderAck
from triack.ordering.order_settings import OrderSettings

SETTINGS = OrderSettings()


def test_due_after_exactly_the_idle_time() -> None:
    """500 ms after the last packet of a burst, not before."""
    ack = OrderAck(SETTINGS)
    assert ack.deadline_ns is None
    for at_ns in (0, 100 * MS, 400 * MS):
        ack.handle_packet(at_ns, ack_requested=False)
    assert ack.deadline_ns == 900 * MS
    ack.handle_timer(900 * MS - 1)
    assert not ack.due
    ack.handle_timer(900 * MS)
    assert ack.due
    assert ack.deadline_ns is None


def test_an_endless_burst_is_acknowledged_at_the_cap() -> None:
    """10 s after its first packet, however dense it is; then the next one begins."""
    ack = OrderAck(SETTINGS)
    at_ns = 0
    while not ack.due and at_ns < 60 * SECOND:
        ack.handle_timer(at_ns)
        ack.handle_packet(at_ns, ack_requested=False)
        at_ns += 400 * MS
    assert at_ns == 10 * SECOND + 400 * MS
    ack.handle_sent()
    ack.handle_packet(20 * SECOND, ack_requested=False)
    assert ack.deadline_ns == 20 * SECOND + 500 * MS


def test_the_cap_cuts_the_last_idle_time() -> None:
    """A packet at 9.8 s leaves only 200 ms."""
    ack = OrderAck(SETTINGS)
    for at_ns in range(0, 9_801 * MS, 400 * MS):
        ack.handle_packet(at_ns, ack_requested=False)
    ack.handle_packet(9_800 * MS, ack_requested=False)
    assert ack.deadline_ns == 10 * SECOND


def test_due_at_once_when_asked() -> None:
    """By a packet or by a request, and it stays due when more packets come."""
    for ack_requested in (True, False):
        ack = OrderAck(SETTINGS)
        ack.handle_packet(0, ack_requested=ack_requested)
        if not ack_requested:
            ack.handle_request()
        assert ack.due
        ack.handle_packet(1, ack_requested=False)
        assert ack.due
        ack.handle_sent()
        assert not ack.owed


# ---- in a stream


def test_a_burst_brings_one_order_ack() -> None:
    """It leaves 500 ms after the last packet arrived, speaks for all of them, and frees them."""
    pair = StreamPair()
    pair.append(10)
    pair.run(300 * MS)
    pair.append(10)
    pair.run(5 * SECOND)
    assert pair.order_acks == [(810 * MS, 20)]
    assert not pair.out.entries
    assert pair.out.tier.deadline_ns is None


def test_a_sender_asks_after_every_eight_packets() -> None:
    """So that a steady stream is freed before its cap: packets 8 and 16 of 20 ask."""
    pair = StreamPair(OrderSettings(order_ack_every=8))
    for _ in range(20):
        pair.append(1)
        pair.run(20 * MS)
    assert [number for _, number in pair.order_acks] == [8, 16]


def test_an_order_ack_waits_for_the_disk() -> None:
    """It is due after 500 ms, but the commit takes two seconds."""
    pair = StreamPair(commit_ns=2 * SECOND)
    pair.append(3)
    pair.run(2 * SECOND)
    assert pair.order_acks == []
    assert pair.incoming.ack.due
    pair.run(SECOND)
    assert pair.order_acks == [(2_010 * MS, 3)]


def test_a_duplicate_brings_the_order_ack_again() -> None:
    """Its sender has missed one: the resend after 30 s is answered, although nothing is new."""
    pair = StreamPair(lose_order_acks=True)
    pair.append(1)
    pair.run(SECOND)
    pair.lose_order_acks = False
    pair.run(30 * SECOND)
    assert pair.order_acks == [(510 * MS, 1), (30 * SECOND + 10 * MS, 1)]
    assert not pair.out.entries
    assert pair.delivered == [b"1"]
