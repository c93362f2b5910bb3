"""Which of our packets are not yet on the peer's disk, and how long we wait for them."""

from proof.search import stillness
from triack.base.delivery import Delivery
from triack.base.units import MS, SECOND
from triack.session.acknowledgements.store_ack_waiter import StoreAckWaiter
from triack.session.protocol.packets import PacketState, SessionPacket
from triack.session.protocol.policy import Policy
from triack.session.protocol.settings import SessionSettings


def sent(number: int, at_ns: int = 0, delivery: Delivery = Delivery.RECOVERABLE) -> SessionPacket:
    """A packet that leaves for the first time."""
    packet = SessionPacket(number, delivery, b"", None, False, 100, PacketState.IN_FLIGHT, sends=1, sent_at_ns=at_ns)
    packet.order = number
    return packet


def waiting(*packets: SessionPacket, settings: SessionSettings | None = None) -> StoreAckWaiter:
    wait = StoreAckWaiter(Policy.of(settings or SessionSettings()))
    for packet in packets:
        wait.add([packet])
    return wait


def numbers(packets: list[SessionPacket]) -> list[int]:
    return [packet.number for packet in packets]


def test_each_packet_is_reported_once() -> None:
    """Whatever later store acks say of it; numbers that do not wait are passed over."""
    wait = waiting(sent(1), sent(3), sent(4))
    assert numbers(wait.handle_ack(1, [(4, 9)], 10)) == [1, 4]
    assert wait
    assert numbers(wait.handle_ack(4, [], 10)) == [3]
    assert not wait
    assert wait.handle_ack(9, [], 10) == []


def test_what_is_forgotten_is_waited_for_no_more() -> None:
    """Numbers that never waited do no harm."""
    wait = waiting(sent(1), sent(2))
    wait.forget([2, 7])
    assert wait
    wait.forget([1])
    assert not wait


def test_only_durable_packets_wait_and_only_from_the_first_time_that_they_leave() -> None:
    """A packet that was freed before it left never waits."""
    again, freed, express = sent(1), sent(2), sent(3, delivery=Delivery.EXPRESS)
    again.sends, freed.is_freed = 2, True
    wait = StoreAckWaiter(Policy.of(SessionSettings()))
    assert not wait.add([again, freed, express])
    assert not wait
    assert wait.add([express, sent(4)])
    assert numbers(wait.handle_ack(9, [], 0)) == [4]


def test_the_timeout_and_the_probe_adapt_to_the_disk() -> None:
    """A first sample R makes a probe time of 3 R: eight of them are the timeout, two the wait before asking."""
    wait = waiting(sent(1, at_ns=SECOND))
    assert (wait.timeout_ns, wait.probe_ns) == (10 * SECOND, 600 * MS)
    wait.handle_ack(1, [], 3 * SECOND)
    assert (wait.timeout_ns, wait.probe_ns) == (48 * SECOND, 12 * SECOND)
    slow = waiting(sent(1))
    slow.handle_ack(1, [], 100 * SECOND)
    assert slow.timeout_ns == 120 * SECOND


def test_a_fast_disk_is_not_asked_all_the_time() -> None:
    """Not before 100 ms; and never given up before 10 s."""
    wait = waiting(sent(1))
    wait.handle_ack(1, [], MS)
    assert (wait.timeout_ns, wait.probe_ns) == (10 * SECOND, 100 * MS)


def test_a_packet_that_was_sent_twice_tells_nothing_of_the_disk() -> None:
    """It may be the ack of either sending."""
    packet = sent(1)
    wait = waiting(packet)
    packet.sends = 2
    before_ns = wait.probe_ns
    wait.handle_ack(1, [], 50 * SECOND)
    assert wait.probe_ns == before_ns


def test_a_fixed_timeout_does_not_adapt() -> None:
    """MSMQ's StoreAckTimeout: setting it turns the computation off."""
    wait = waiting(sent(1), settings=SessionSettings(store_ack_timeout_s=3.0))
    wait.handle_ack(1, [], 50 * SECOND)
    assert wait.timeout_ns == 3 * SECOND


def test_for_a_search_waits_and_order_are_forgotten_and_packets_are_not() -> None:
    """That a packet was sent again is kept, how often is not."""
    first, second = sent(1), sent(2)
    wait = waiting(first, second, sent(3))
    first.sends = 5
    wait.handle_ack(0, [(3, 3)], 50 * SECOND)
    stillness.normalize_store_ack_waiter(wait)
    stillness.forget_sends(wait)
    assert wait.probe_ns == 600 * MS
    assert (first.sends, second.sends, first.order, second.order) == (2, 1, 0, 0)
    assert numbers(wait.handle_ack(2, [], 0)) == [1, 2]
