"""Which packets are reported acknowledged, when an ack names some as refused."""

from typing import NamedTuple

from triack.base.ranges import Range
from triack.session.congestion.undecided import UNDECIDED_MAX, Undecided
from triack.session.protocol.frames import AckFrame


class Packet(NamedTuple):
    """What is asked of a packet."""

    number: int


def ack(cumulative: int, *refused: Range, ranges: tuple[Range, ...] = ()) -> AckFrame:
    return AckFrame(cumulative, list(ranges), 64, 0, 0, refused)


def packets(*numbers: int) -> list[Packet]:
    return [Packet(number) for number in numbers]


def test_what_is_named_waits_until_it_is_named_no_more() -> None:
    """All others are reported at once."""
    undecided = Undecided[Packet]()
    assert undecided.sift(packets(1, 2, 3), ack(3, (2, 2))) == packets(1, 3)
    assert undecided.sift(packets(4), ack(4, (2, 2))) == packets(4)
    assert undecided.sift([], ack(4)) == packets(2)
    assert undecided.sift([], ack(4)) == []
    assert undecided.sift(packets(5), ack(5, (5, 5))) == []
    assert undecided.sift([], ack(5)) == packets(5), "also the last that an ack covers"


def test_an_older_ack_settles_nothing() -> None:
    """It was sent before the packet came, so that it could not name it."""
    undecided = Undecided[Packet]()
    assert undecided.sift(packets(1, 5), ack(1, (5, 5), ranges=((5, 5),))) == packets(1)
    assert undecided.sift([], ack(1)) == []
    assert undecided.sift([], ack(1, ranges=((3, 5),))) == packets(5)


def test_a_peer_that_names_everything_fills_no_memory() -> None:
    """Packets beyond the number that any peer may name are reported."""
    undecided = Undecided[Packet]()
    numbers = range(1, UNDECIDED_MAX + 101)
    told = undecided.sift(packets(*numbers), ack(numbers[-1], (1, numbers[-1])))
    assert (len(undecided), told) == (UNDECIDED_MAX, packets(*numbers[UNDECIDED_MAX:]))
