"""The estimators of BBR (draft-ietf-ccwg-bbr, 5.5)."""

from triack.base.units import MS, SECOND
from triack.session.congestion.delivery_rate import RateSample, Sending
from triack.session.congestion.path_model import AckBunching, Bandwidth, ShortestTrip


class Rounds:
    """A bandwidth that gets one sample a round trip."""

    def __init__(self) -> None:
        self.bandwidth = Bandwidth()
        self.delivered_bytes = 0

    def sample(self, *rates: int, app_limited: bool = False) -> Bandwidth:
        for rate in rates:
            sending = Sending(0, self.delivered_bytes, 0, 0, 0, 0, app_limited, False)
            self.delivered_bytes += 1_000
            self.bandwidth.handle_sample(RateSample(rate, rate, 1_000, sending), rate, self.delivered_bytes)
        return self.bandwidth


def test_a_path_that_delivers_more_each_round_is_not_full() -> None:
    """A quarter more is growth."""
    assert not Rounds().sample(100, 125, 160, 200, 250, 320).is_full


def test_three_rounds_without_growth_show_that_it_is_full() -> None:
    """And no fewer: a peer that acknowledges late looks like that for two."""
    rounds = Rounds()
    assert not rounds.sample(100, 110, 110, 110).is_full
    assert rounds.sample(110).is_full


def test_a_sender_with_little_to_say_does_not_fill_it() -> None:
    """Its rounds show nothing, unless they show more than was known."""
    rounds = Rounds()
    rounds.sample(100)
    assert not rounds.sample(*[50] * 10, app_limited=True).is_full
    assert rounds.bandwidth.limit == 100
    assert rounds.sample(200, app_limited=True).limit == 200


def test_a_bandwidth_is_believed_for_two_cycles() -> None:
    """A path that has become slower is known as such when it has been probed twice."""
    rounds = Rounds()
    rounds.sample(100)
    rounds.bandwidth.begin_cycle()
    assert rounds.sample(40).limit == 100
    rounds.bandwidth.begin_cycle()
    assert rounds.sample(40).limit == 40


def test_a_cycle_without_a_sample_forgets_nothing() -> None:
    """A sender that rested knows what it knew."""
    rounds = Rounds()
    rounds.sample(100)
    for _ in range(3):
        rounds.bandwidth.begin_cycle()
    assert rounds.bandwidth.limit == 100


def test_the_shortest_round_trip_is_kept_and_looked_for() -> None:
    """After five seconds without one as short it is time to look; what is found then is believed."""
    trip = ShortestTrip()
    trip.handle_sample(10 * MS, 0)
    trip.handle_sample(30 * MS, SECOND)
    assert (trip.min_ns, trip.is_stale) == (10 * MS, False)
    trip.handle_sample(30 * MS, 6 * SECOND)
    assert (trip.min_ns, trip.is_stale) == (10 * MS, True)
    trip.handle_sample(25 * MS, 6 * SECOND + MS)
    trip.refresh(6 * SECOND + MS)
    assert trip.min_ns == 25 * MS
    trip.handle_sample(25 * MS, 7 * SECOND)
    assert not trip.is_stale


def test_a_shorter_round_trip_counts_at_once() -> None:
    trip = ShortestTrip()
    trip.handle_sample(10 * MS, 0)
    trip.handle_sample(4 * MS, MS)
    assert trip.min_ns == 4 * MS


def test_acks_in_bunches_are_counted_above_the_flow() -> None:
    """Of a flow of 1,000 bytes a millisecond, 10,000 at once every 10 ms are nearly 10,000 ahead of it."""
    bunching = AckBunching()
    for number in range(1, 5):
        bunching.handle_acked(10_000, 1_000_000, 64_000, number * 10 * MS, round_started=False)
    assert bunching.extra_bytes == 10_000


def test_bunches_of_long_ago_are_forgotten() -> None:
    """After ten rounds."""
    bunching = AckBunching()
    bunching.handle_acked(50_000, 1_000_000, 64_000, SECOND, round_started=False)
    for number in range(1, 12):
        bunching.handle_acked(1_000, 1_000_000, 64_000, SECOND + number * 100 * MS, round_started=True)
    assert bunching.extra_bytes == 1_000
