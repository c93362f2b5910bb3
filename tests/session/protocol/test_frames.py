"""The content of typed frames, before any codec encodes them."""

from triack.base.ranges import NumberSet
from triack.session.protocol.frames import MAX_ACK_RANGES, AckFrame, Hello, StoreAckFrame
from triack.session.protocol.policy import Policy
from triack.session.protocol.settings import SessionSettings


def test_an_ack_has_the_lowest_ranges_and_fewer_when_it_names_refused_packets() -> None:
    """Packets above them are in a later ack."""
    numbers = NumberSet(3, [(at, at) for at in range(5, 400, 2)])
    plain, refusing = AckFrame.of(numbers, 64, 9, 0), AckFrame.of(numbers, 64, 9, 0, [(5, 5), (7, 7)])
    assert plain.ranges == StoreAckFrame.of(numbers).ranges == numbers.ranges[:MAX_ACK_RANGES]
    assert refusing.ranges == numbers.ranges[: MAX_ACK_RANGES - 4]
    assert plain.cumulative == refusing.cumulative == 3


def test_a_hello_says_what_its_settings_are() -> None:
    """The largest datagram and the policy are what the peer must know of them."""
    settings = SessionSettings(max_unacked_packet=5, max_datagram_bytes=600, idle_ack_delay_s=0.000000007)
    hello = Hello.of(settings, session_id=1, connection_id=2, sent_at_ns=3, introduction=b"x")
    assert hello == Hello(1, 2, 3, 600, Policy.of(settings), b"x")
