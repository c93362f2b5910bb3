"""NewReno (RFC 9002 section 7), driven as a session drives it."""

from triack.base.units import SECOND
from triack.session.congestion.congestion import NewReno

DATAGRAM = 1_200


def ack(reno: NewReno, sent_at_ns: int, *, limited: bool = True) -> None:
    """A datagram that left then is acknowledged; so much was in flight that the window held it back, or not."""
    in_flight_bytes = reno.window_bytes if limited else 0
    sending = reno.handle_sent(DATAGRAM, in_flight_bytes, sent_at_ns)
    reno.handle_acked(1, DATAGRAM, sending)


def lose(reno: NewReno, sent_at_ns: int, now_ns: int) -> None:
    """One is lost."""
    reno.handle_lost(DATAGRAM, reno.handle_sent(DATAGRAM, 0, sent_at_ns), now_ns)


def test_slow_start_doubles_in_a_round_trip() -> None:
    """Every acknowledged byte adds one: a window's worth of acks doubles the window of ten datagrams."""
    reno = NewReno(DATAGRAM)
    assert reno.window_bytes == 10 * DATAGRAM
    for _ in range(10):
        ack(reno, 5)
    assert reno.window_bytes == 20 * DATAGRAM


def test_what_left_together_counts_as_much_as_one_by_one() -> None:
    """Ten datagrams of one sending and ten of ten, in slow start; and about as much when the window grows slowly."""
    for halved in (False, True):
        single, by_run = NewReno(DATAGRAM), NewReno(DATAGRAM)
        for reno in (single, by_run):
            if halved:
                lose(reno, 50, 100)
        sending = by_run.handle_sent(10 * DATAGRAM, 0, 200)
        by_run.handle_acked(10, 10 * DATAGRAM, sending)
        for _ in range(10):
            ack(single, 200)
        assert single.window_bytes <= by_run.window_bytes <= 1.1 * single.window_bytes


def test_a_window_that_was_not_the_limit_does_not_grow() -> None:
    """A sender with little to say learns nothing about the network (RFC 9002 7.8)."""
    reno = NewReno(DATAGRAM)
    ack(reno, 5, limited=False)
    assert reno.window_bytes == 10 * DATAGRAM


def test_an_episode_of_losses_halves_once() -> None:
    """Losses of packets sent before the halving belong to it; a packet sent later begins a new episode."""
    reno = NewReno(DATAGRAM)
    for _ in range(10):
        ack(reno, 5)
    lose(reno, 50, 100)
    assert reno.window_bytes == 10 * DATAGRAM
    lose(reno, 100, 120)
    assert reno.window_bytes == 10 * DATAGRAM
    lose(reno, 101, 130)
    assert reno.window_bytes == 5 * DATAGRAM


def test_acks_from_before_the_halving_do_not_grow_the_window() -> None:
    """Growth begins again with a packet sent in the recovery."""
    reno = NewReno(DATAGRAM)
    lose(reno, 50, 100)
    ack(reno, 100)
    assert reno.window_bytes == 5 * DATAGRAM
    ack(reno, 101)
    assert reno.window_bytes > 5 * DATAGRAM


def test_after_a_loss_a_round_trip_adds_about_one_datagram() -> None:
    """Congestion avoidance: five acks of a window of five add just under one datagram, not five."""
    reno = NewReno(DATAGRAM)
    lose(reno, 50, 100)
    for _ in range(5):
        ack(reno, 200)
    assert 5.8 * DATAGRAM < reno.window_bytes <= 6 * DATAGRAM


def test_the_floor_is_four_datagrams() -> None:
    """Neither many episodes nor unanswered probes go below it: one loss of four still leaves evidence."""
    reno = NewReno(DATAGRAM)
    for episode in range(10):
        lose(reno, 100 * episode + 50, 100 * episode + 60)
    assert reno.window_bytes == 4 * DATAGRAM
    calm = NewReno(DATAGRAM)
    calm.handle_persistent_congestion()
    assert calm.window_bytes == 4 * DATAGRAM


def test_a_window_leaves_a_quarter_faster_than_its_round_trip() -> None:
    """So that the pacer is not what holds it back (RFC 9002 7.7)."""
    assert NewReno(DATAGRAM).rate(SECOND // 10) == 5 * 10 * DATAGRAM * 10 // 4
