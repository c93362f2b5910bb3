"""Which stream of a link sends next: fair turns between destination queues, the higher priority first within one."""

from triack.queues.peers.turns import QUEUE_TURN_PACKETS, Turns


class Stream:
    """A stream with packets to send."""

    def __init__(self, turns: Turns, queue: str, priority: int, packets: int) -> None:
        self.turn_key = queue
        self.priority = priority
        self.packets = packets
        turns.offer(self)

    @property
    def sequence(self) -> "Stream":
        return self

    def peek(self) -> int | None:
        return self.packets or None


def give(turns: Turns, limit: int, at_once: int = 1_000) -> str:
    """The priorities whose packets leave, in order; ``at_once``: how many a window takes."""
    given = ""
    while len(given) < limit and (turn := turns.next()) is not None:
        stream, packets = turn
        assert isinstance(stream, Stream)
        packets = min(packets, stream.packets, limit - len(given), at_once)
        stream.packets -= packets
        turns.handle_given(stream, packets)
        given += str(stream.priority) * packets
    return given


def test_the_higher_priority_of_a_queue_goes_first() -> None:
    """Also when it comes in the middle of the turn of a lower one."""
    turns = Turns()
    Stream(turns, "q", 0, 10)
    Stream(turns, "q", 3, 5)
    assert give(turns, 3) == "333"
    Stream(turns, "q", 7, 2)
    assert give(turns, 100) == "77330000000000"
    assert turns.next() is None


def test_one_packet_in_sixty_four_goes_to_the_lowest_that_waits() -> None:
    """However many a window takes at once; priorities between the two have none of it."""
    for at_once in (1, 5, 1_000):
        turns = Turns()
        for priority in (7, 0, 3):
            Stream(turns, "q", priority, 1_000)
        given = give(turns, 640, at_once)
        assert given == ("7" * 63 + "0") * 10


def test_without_a_share_the_lowest_waits_until_nothing_else_does() -> None:
    """As in MSMQ."""
    turns = Turns(lowest_share=0)
    Stream(turns, "q", 0, 3)
    Stream(turns, "q", 7, 500)
    assert give(turns, 1_000) == "7" * 500 + "000"


def test_a_flood_of_one_queue_leaves_another_its_turns() -> None:
    """Priorities count within a destination queue alone."""
    turns = Turns()
    Stream(turns, "flooded", 7, 1_000)
    Stream(turns, "quiet", 0, 40)
    turn = QUEUE_TURN_PACKETS
    assert give(turns, 5 * turn) == "7" * turn + "0" * turn + "7" * turn + "0" * turn + "7" * turn


def test_streams_of_one_priority_take_turns() -> None:
    """Two classes of one queue, or two origins."""
    turns = Turns()
    one, other = (Stream(turns, "q", 3, 40) for _ in range(2))
    give(turns, QUEUE_TURN_PACKETS)
    assert (one.packets, other.packets) == (40 - QUEUE_TURN_PACKETS, 40)
    give(turns, QUEUE_TURN_PACKETS)
    assert (one.packets, other.packets) == (40 - QUEUE_TURN_PACKETS, 40 - QUEUE_TURN_PACKETS)


def test_a_stream_that_is_withdrawn_costs_the_others_nothing() -> None:
    """The turn of its queue goes on with the next priority; withdrawn twice, it is gone once."""
    turns = Turns()
    high, low = Stream(turns, "q", 7, 9), Stream(turns, "q", 0, 9)
    give(turns, 2)
    turns.withdraw(high)
    turns.withdraw(high)
    assert turns.next() == (low, QUEUE_TURN_PACKETS - 2)
    turns.offer(high)
    assert give(turns, 20) == "7" * 7 + "0" * 9
