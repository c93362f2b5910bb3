"""The round trip, against figures computed by hand from RFC 6298 and RFC 9002."""

from triack.base.units import MS
from triack.session.congestion.rtt import RoundTrip


def after(*samples_ms: int | tuple[int, int]) -> RoundTrip:
    """An estimate after samples in milliseconds, each perhaps with the peer's ack delay."""
    rtt = RoundTrip()
    for sample in samples_ms:
        sample_ms, delay_ms = sample if isinstance(sample, tuple) else (sample, 0)
        rtt.update(sample_ms * MS, delay_ms * MS)
    return rtt


def test_before_any_sample() -> None:
    """The first guess is 100 ms with half of it as variance: a probe after 300 ms."""
    rtt = RoundTrip()
    assert not rtt.measured
    assert (rtt.smoothed_ns, rtt.variance_ns, rtt.probe_ns) == (100 * MS, 50 * MS, 300 * MS)


def test_what_the_handshake_took_is_the_first_sample_if_there_is_none() -> None:
    """So acks that were held back for long are seen to be that."""
    rtt = RoundTrip()
    rtt.begin(0)
    assert not rtt.measured
    rtt.begin(10 * MS)
    rtt.begin(70 * MS)
    rtt.update(510 * MS, 500 * MS)
    assert (rtt.smoothed_ns, rtt.min_ns) == (10 * MS, 10 * MS)


def test_the_first_sample_is_taken_whole() -> None:
    """RFC 6298 2.2: SRTT = R, RTTVAR = R/2, and RTO = SRTT + 4 RTTVAR. An ack delay is not believed yet."""
    rtt = after((80, 20))
    assert rtt.measured
    assert (rtt.smoothed_ns, rtt.variance_ns, rtt.min_ns, rtt.probe_ns) == (80 * MS, 40 * MS, 80 * MS, 240 * MS)


def test_a_sequence_of_samples() -> None:
    """100, 60, then 120 of which the peer held back 20; RFC 6298 2.3 and RFC 9002 5.3, step by step.

    60:  var = 3/4 50 + 1/4 |100 - 60| = 47.5;   srtt = 7/8 100 + 1/8 60 = 95
    100: var = 3/4 47.5 + 1/4 |95 - 100| = 36.875;   srtt = 7/8 95 + 1/8 100 = 95.625
    """
    rtt = after(100, 60)
    assert (rtt.variance_ns, rtt.smoothed_ns) == (47_500_000, 95 * MS)
    rtt = after(100, 60, (120, 20))
    assert (rtt.variance_ns, rtt.smoothed_ns) == (36_875_000, 95_625_000)
    assert rtt.probe_ns == 95_625_000 + 4 * 36_875_000
    assert rtt.min_ns == 60 * MS


def test_an_ack_delay_never_takes_a_sample_below_the_minimum() -> None:
    """RFC 9002 5.3: a peer that overstates its delay does not shrink the round trip under what was seen."""
    assert after(60, (70, 20)).latest_ns == 60 * MS
    assert after(60, (80, 20)).latest_ns == 60 * MS


def test_loss_delay_is_nine_eighths_of_the_larger_figure() -> None:
    """RFC 9002 6.1.2: the smoothed or the latest round trip, whichever is larger."""
    assert after(80).loss_delay_ns == 90 * MS
    assert after(80, 160).loss_delay_ns == 180 * MS
    assert after(80, 40).loss_delay_ns == 9 * 75 * MS // 8


def test_timers_are_never_finer_than_a_millisecond() -> None:
    """On a fast link the variance is nothing, but the granularity of a timer stays (RFC 9002 6.2.1)."""
    rtt = RoundTrip()
    for _ in range(60):
        rtt.update(8_000)
    assert rtt.variance_ns < 10
    assert rtt.probe_ns == rtt.smoothed_ns + 1 * MS
    assert rtt.loss_delay_ns == 1 * MS


def test_a_clock_that_did_not_move_is_a_sample_all_the_same() -> None:
    """A sample of nothing counts as the smallest there is, so the round trip counts as measured."""
    assert after(0).measured
    assert after(0).smoothed_ns == 1


def test_what_was_learnt_can_be_forgotten() -> None:
    """Then it is as before the first sample."""
    rtt, new = after(100, 60), RoundTrip()
    rtt.reset()
    assert not rtt.measured
    assert (rtt.smoothed_ns, rtt.variance_ns, rtt.min_ns) == (new.smoothed_ns, new.variance_ns, new.min_ns)
