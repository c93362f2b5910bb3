"""NewReno and the pacer (RFC 9002 section 7)."""

from itertools import pairwise

from triack.base.units import MS
from triack.session.congestion import NewReno, Pacer
from triack.session.rtt import RoundTrip

DATAGRAM = 1_200


def test_slow_start_doubles_in_a_round_trip() -> None:
    """Every acknowledged byte adds one: a window's worth of acks doubles the window of ten datagrams."""
    reno = NewReno(DATAGRAM)
    assert reno.window_bytes == 10 * DATAGRAM
    for _ in range(10):
        reno.handle_acked(DATAGRAM, 5, limited=True)
    assert reno.window_bytes == 20 * DATAGRAM


def test_a_window_that_was_not_the_limit_does_not_grow() -> None:
    """A sender with little to say learns nothing about the network (RFC 9002 7.8)."""
    reno = NewReno(DATAGRAM)
    reno.handle_acked(DATAGRAM, 5, limited=False)
    assert reno.window_bytes == 10 * DATAGRAM


def test_an_episode_of_losses_halves_once() -> None:
    """Losses of packets sent before the halving belong to it; a packet sent later begins a new episode."""
    reno = NewReno(DATAGRAM)
    for _ in range(10):
        reno.handle_acked(DATAGRAM, 5, limited=True)
    reno.handle_lost(50, now_ns=100)
    assert reno.window_bytes == 10 * DATAGRAM
    reno.handle_lost(100, now_ns=120)
    assert reno.window_bytes == 10 * DATAGRAM
    reno.handle_lost(101, now_ns=130)
    assert reno.window_bytes == 5 * DATAGRAM


def test_acks_from_before_the_halving_do_not_grow_the_window() -> None:
    """Growth begins again with a packet sent in the recovery."""
    reno = NewReno(DATAGRAM)
    reno.handle_lost(50, now_ns=100)
    reno.handle_acked(DATAGRAM, 100, limited=True)
    assert reno.window_bytes == 5 * DATAGRAM
    reno.handle_acked(DATAGRAM, 101, limited=True)
    assert reno.window_bytes > 5 * DATAGRAM


def test_after_a_loss_a_round_trip_adds_about_one_datagram() -> None:
    """Congestion avoidance: five acks of a window of five add just under one datagram, not five."""
    reno = NewReno(DATAGRAM)
    reno.handle_lost(50, now_ns=100)
    for _ in range(5):
        reno.handle_acked(DATAGRAM, 200, limited=True)
    assert 5.8 * DATAGRAM < reno.window_bytes <= 6 * DATAGRAM


def test_the_floor_is_four_datagrams() -> None:
    """Neither many episodes nor unanswered probes go below it: one loss of four still leaves evidence."""
    reno = NewReno(DATAGRAM)
    for episode in range(10):
        reno.handle_lost(100 * episode + 50, now_ns=100 * episode + 60)
    assert reno.window_bytes == 4 * DATAGRAM
    calm = NewReno(DATAGRAM)
    calm.handle_persistent_congestion()
    assert calm.window_bytes == 4 * DATAGRAM


def measured(rtt_ns: int) -> RoundTrip:
    rtt = RoundTrip()
    rtt.update(rtt_ns)
    return rtt


def test_the_pacer_spreads_a_window_over_its_round_trip() -> None:
    """After a burst of ten, datagrams leave evenly, 5/4 of a window in each round trip."""
    pacer, rtt, window = Pacer(DATAGRAM, 0), measured(100 * MS), 20 * DATAGRAM
    now_ns, times = 0, list[int]()
    while now_ns < 100 * MS and len(times) < 1_000:
        ready_ns = pacer.ready_at_ns(window, rtt, now_ns)
        if ready_ns > now_ns:
            now_ns = ready_ns
            continue
        pacer.spend(DATAGRAM)
        times.append(now_ns)
    assert times[:10] == [0] * 10
    gaps = [later - earlier for earlier, later in pairwise(times[10:])]
    assert all(abs(gap - 4 * MS) <= MS // 100 for gap in gaps)
    assert 33 <= len(times) <= 35


def test_a_rested_pacer_lets_a_burst_go_and_no_more() -> None:
    """Credit does not pile up: after any rest, ten datagrams leave at once."""
    pacer, rtt, window = Pacer(DATAGRAM, 0), measured(100 * MS), 20 * DATAGRAM
    now_ns = 3_600_000 * MS
    burst = 0
    while pacer.ready_at_ns(window, rtt, now_ns) <= now_ns and burst < 1_000:
        pacer.spend(DATAGRAM)
        burst += 1
    assert burst == 10


def test_a_fast_link_gets_what_flows_between_two_ticks_of_a_timer() -> None:
    """With a round trip of 1 ms, two milliseconds carry 2.5 windows, and the bucket holds them."""
    pacer, rtt, window = Pacer(DATAGRAM, 0), measured(MS), 20 * DATAGRAM
    burst = 0
    while pacer.ready_at_ns(window, rtt, 10 * MS) <= 10 * MS and burst < 1_000:
        pacer.spend(DATAGRAM)
        burst += 1
    assert burst == 50


def test_before_the_round_trip_is_known_nothing_is_held_back() -> None:
    """There is nothing to spread over yet."""
    pacer = Pacer(DATAGRAM, 0)
    for _ in range(100):
        assert pacer.ready_at_ns(DATAGRAM, RoundTrip(), 7) == 7
        pacer.spend(DATAGRAM)
