"""Delivery-rate samples (draft-cheng-iccrg-delivery-rate-estimation)."""

from triack.base.units import MS, SECOND
from triack.session.congestion.delivery_rate import DeliveryRate, RateSample, Sending

RTT = 10 * MS
PACKET = 1_000


def send(rate: DeliveryRate, packets: int, gap_ns: int, start_ns: int = 0, in_flight: int = 0) -> list[Sending]:
    """A number of packets leave, one after the other."""
    return [
        rate.handle_sent(PACKET, (in_flight + number) * PACKET, start_ns + number * gap_ns, spares=False)
        for number in range(packets)
    ]


def ack(rate: DeliveryRate, sendings: list[Sending], now_ns: int, min_rtt_ns: int = RTT) -> RateSample:
    """One ack for all of these."""
    for sending in sendings:
        rate.handle_acked(sending, PACKET)
    sample = rate.take_sample(min_rtt_ns, now_ns)
    assert sample is not None
    return sample


def test_packets_at_the_rate_of_the_path_show_it() -> None:
    """Each millisecond one leaves and, a round trip later, one is acknowledged: a thousand a second."""
    rate = DeliveryRate()
    flying = send(rate, 10, MS)
    samples = []
    for at_ns in range(RTT, 4 * RTT, MS):
        samples.append(ack(rate, [flying.pop(0)], at_ns))
        flying += send(rate, 1, 0, start_ns=at_ns, in_flight=9)
    assert samples[-1].rate == 1_000 * PACKET
    assert rate.delivered_bytes == 30 * PACKET


def test_acks_in_a_bunch_show_no_more_than_left() -> None:
    """Ten packets that left within 9 ms, acknowledged all at once: what counts is the longer time."""
    rate = DeliveryRate()
    sample = ack(rate, send(rate, 10, MS), 19 * MS)
    assert sample.rate == 10 * PACKET * SECOND // (19 * MS)


def test_packets_in_a_bunch_show_no_more_than_arrived() -> None:
    """Ten that left at once, with acks a millisecond apart, which is the rate of the path."""
    rate = DeliveryRate()
    sendings = send(rate, 10, 0)
    samples = [ack(rate, [sending], RTT + number * MS) for number, sending in enumerate(sendings)]
    assert samples[-1].rate == 10 * PACKET * SECOND // (19 * MS)
    assert sendings[0] is sendings[9]
    assert sendings[0].in_flight_bytes == 10 * PACKET


def test_an_answer_before_a_round_trip_is_to_another_sending() -> None:
    """It counts as delivered, and shows no rate."""
    rate = DeliveryRate()
    assert ack(rate, send(rate, 1, 0), RTT - 1).rate == 0
    assert rate.delivered_bytes == PACKET


def test_losses_are_in_what_was_tried() -> None:
    """Five of ten arrive: the path delivered half of what it was given."""
    rate = DeliveryRate()
    sendings = send(rate, 10, 0)
    for _ in range(5):
        rate.handle_lost(PACKET)
    sample = ack(rate, sendings[5:], RTT)
    assert (sample.rate, sample.tried_rate) == (500 * PACKET, 1_000 * PACKET)


def test_with_little_to_say_a_sample_tells_so() -> None:
    """Until all that was in flight then has been delivered."""
    rate = DeliveryRate()
    first = send(rate, 2, 0)
    rate.handle_app_limited(2 * PACKET)
    second = send(rate, 1, 0, start_ns=MS, in_flight=2)
    assert (first[0].app_limited, second[0].app_limited) == (False, True)
    ack(rate, first, RTT)
    ack(rate, second, RTT + MS)
    assert not send(rate, 1, 0, start_ns=20 * MS)[0].app_limited


def test_an_ack_of_nothing_is_no_sample() -> None:
    """Nothing was delivered."""
    assert DeliveryRate().take_sample(RTT, RTT) is None
