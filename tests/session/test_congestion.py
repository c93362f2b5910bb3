"""NewReno (RFC 9002 section 7)."""

from triack.session.congestion import NewReno

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
