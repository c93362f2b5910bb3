"""How fast a stream resumes after its destination had no room."""

from triack.ordering.slow_start import FULL_SPEED, SlowStart


def sent(start: SlowStart, most: int = 10_000) -> int:
    """Let go what may leave; how many that were."""
    packets = 0
    while packets < most and start.credit != 0:
        start.handle_sent()
        packets += 1
    return packets


def take(start: SlowStart, packets: int) -> None:
    for _ in range(packets):
        start.handle_taken()


def test_nothing_is_held_up_before_anything_is_refused() -> None:
    """Nor when a session ends for any other reason."""
    start = SlowStart()
    assert sent(start) == 10_000
    start.handle_refused()
    start.handle_session_closed(not_stored=False)
    assert sent(start) == 10_000


def test_it_begins_with_what_was_taken_last_and_doubles() -> None:
    """Until several windows may leave at once: then there is no limit."""
    start = SlowStart()
    take(start, 3)
    start.handle_refused()
    rounds = []
    while start.credit is not None:
        rounds.append(sent(start))
        take(start, rounds[-1])
    assert rounds == [3, 6, 12, 24, 48, 96, 192][: len(rounds)]
    assert 2 * rounds[-1] >= FULL_SPEED


def test_who_takes_nothing_is_sent_half_as_much_each_time_and_one_packet_at_least() -> None:
    """Whether it says that there is no room, or that there is some again."""
    start = SlowStart()
    take(start, 8)
    told = []
    for _ in range(5):
        start.handle_refused()
        told.append(sent(start))
    assert told == [8, 4, 2, 1, 1]
    start.handle_room()
    assert sent(start) == 1


def test_a_session_that_ends_as_nothing_was_stored_is_a_refusal() -> None:
    """The next one begins with a packet."""
    start = SlowStart()
    start.handle_session_closed(not_stored=True)
    assert sent(start) == 1


def test_what_left_before_may_leave_again_whole() -> None:
    """A resend is no refusal: it needs no credit that it had already, and takes none away."""
    start = SlowStart()
    start.handle_resend(16)
    assert sent(start) == 10_000
    start.handle_refused()
    start.handle_resend(16)
    assert sent(start) == 16
