"""When a policy makes an acknowledgement due, and the terms in force."""

from fractions import Fraction

import pytest

from triack.base.ack_trigger import AckTrigger, capped, terms_of
from triack.base.errors import UsageError
from triack.base.units import MS, SECOND


@pytest.mark.parametrize(("window", "count"), [(1, 1), (2, 1), (3, 1), (16, 8), (64, 32), (255, 127)])
def test_half_of_any_window_is_at_least_one(window: int, count: int) -> None:
    """A window of one is stop-and-wait: every packet is acknowledged."""
    assert AckTrigger().threshold(window) == count


@pytest.mark.parametrize("share", [1 / 3, Fraction(1, 3)])
@pytest.mark.parametrize(("window", "count"), [(255, 85), (50, 16), (64, 21), (5, 1), (2, 1), (1, 1)])
def test_a_third_is_rounded_down(window: int, count: int, share: float) -> None:
    """Solace's share, whether it is written as a fraction or as a number; 1 and 2 acknowledge every packet."""
    assert AckTrigger(window_share=share).threshold(window) == count


def test_the_smaller_of_share_and_count_counts() -> None:
    """And no window is too small for a count."""
    assert AckTrigger(count=5).threshold(64) == 5
    assert AckTrigger(count=50).threshold(64) == 32
    assert AckTrigger(count=50, window_share=None).threshold(64) == 50
    assert AckTrigger(count=50, window_share=None).threshold(8) == 8
    assert AckTrigger(window_share=None).threshold(64) is None


@pytest.mark.parametrize(
    ("rtt_ns", "delay_ns"), [(0, 500 * MS), (62 * MS, 500 * MS), (187 * MS, 1_496 * MS), (60 * SECOND, 120 * SECOND)]
)
def test_a_delay_of_eight_round_trips(rtt_ns: int, delay_ns: int) -> None:
    """Between half a second and two minutes; the capture in [MS-MQQB] 4.1.5 has 1,496 ms, of a round trip of 187 ms."""
    assert terms_of(AckTrigger(delay_rtts=8, delay_s=0.5, delay_max_s=120), 64, rtt_ns).delay_ns == delay_ns


def test_a_cap_shortens_every_delay() -> None:
    """The fixed one, and the longest that round trips may make; the rest stays."""
    assert terms_of(capped(AckTrigger(delay_s=5), 3 * SECOND), 64).delay_ns == 3 * SECOND
    adaptive = capped(AckTrigger(delay_rtts=8), SECOND)
    assert (terms_of(adaptive, 64, SECOND).delay_ns, terms_of(adaptive, 64).delay_ns) == (SECOND, 500 * MS)
    assert terms_of(capped(AckTrigger(delay_rtts=8), 100 * MS), 64, SECOND).delay_ns == 100 * MS
    untouched = AckTrigger(count=3, delay_s=1)
    assert capped(untouched, SECOND) is untouched


@pytest.mark.parametrize("delay_s", [0, 1])
def test_a_cap_of_nothing_leaves_no_delay(delay_s: float) -> None:
    """Half of a peer's timeout of a nanosecond, rounded down: that is for this end to bear, whatever its trigger is."""
    assert terms_of(capped(AckTrigger(delay_rtts=8, delay_s=delay_s), 0), 64, SECOND).delay_ns == 0


def test_the_share_of_the_delay_before_an_ack_rides() -> None:
    """Three quarters of half a second; always; never."""
    assert terms_of(AckTrigger(piggyback_after=0.75), 64).piggyback_ns == 375 * MS
    assert terms_of(AckTrigger(), 64).piggyback_ns == 0
    assert terms_of(AckTrigger(piggyback_after=None), 64).piggyback_ns is None


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"window_share": 0}, "window_share must be above 0 and at most 1, not 0"),
        ({"window_share": 1.5}, "not 1.5"),
        ({"window_share": True}, "not True"),
        ({"window_share": float("nan")}, "not nan"),
        ({"window_share": 0.0001}, "not 0.0001"),
        ({"count": 0}, "count must be a whole number of at least 1, not 0"),
        ({"delay_s": -1}, "delay_s must be a number of seconds of at least 0, not -1"),
        ({"piggyback_after": 2}, "piggyback_after must be between 0 and 1, not 2"),
        ({"delay_s": 1e9}, "delay_s must be between 0 and 1000000, not 1000000000.0"),
        ({"bytes_": 1 << 70}, "bytes_ must be between 0 and"),
        ({"delay_rtts": -8}, "delay_rtts must be between 0 and 1000, not -8"),
        ({"delay_rtts": 8, "delay_s": 5, "delay_max_s": 1}, "delay_s is 5, more than delay_max_s, 1"),
    ],
)
def test_what_cannot_be_is_refused(wrong: dict[str, float], says: str) -> None:
    """By name and value."""
    with pytest.raises(UsageError) as caught:
        AckTrigger(**wrong)  # type: ignore[arg-type]
    assert says in str(caught.value)


def test_so_much_makes_it_due() -> None:
    """A number of packets or of bytes, whichever is reached."""
    terms = terms_of(AckTrigger(count=3, bytes_=100, window_share=None), 64)
    assert [terms.reached(packets, size) for packets, size in ((2, 99), (3, 0), (0, 100))] == [False, True, True]
    assert not terms_of(AckTrigger(window_share=None), 64).reached(1_000, 10**9)
