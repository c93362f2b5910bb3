"""Notes of what is in hand, and what a start makes of those of the one before."""

import pytest

from triack.base.in_hand import begin_words, read_marks
from triack.queues.mailboxes.in_hand import InHand
from triack.queues.mailboxes.queued_packet import QueuedPacket


class Notes:
    """Notes in memory."""

    def __init__(self) -> None:
        self.words = begin_words(0, 1, {})
        self.in_hand = InHand(memoryview(self.words))

    @property
    def left(self) -> dict[int, tuple[int, int]]:
        return read_marks(self.words, 1)


@pytest.fixture
def notes() -> Notes:
    return Notes()


def packet(key: int, count: int = 3) -> QueuedPacket:
    return QueuedPacket([key], b"o" * 16, 1, 1, key, 3, count, 100, [b""])


@pytest.mark.parametrize("index", [0, 2, 63, 64, 999])
def test_what_is_held_is_left(notes: Notes, index: int) -> None:
    one = packet(7, 1_000)
    notes.in_hand.open(one)
    notes.in_hand.hold([(one, 1 << index)])
    assert notes.left == {7: (1 << index, 0)}
    notes.in_hand.let_go(one, 1 << index)
    assert notes.left == {}


def test_packets_of_a_list_are_noted_together(notes: Notes) -> None:
    """One for which there was no room does not keep the others from it."""
    small, without, large = packet(7), packet(8), packet(9, 100)
    notes.in_hand.open(small)
    notes.in_hand.open(large)
    notes.in_hand.hold([(small, 0b1), (without, 0b1), (large, 1 << 99), (small, 0b10)])
    assert notes.left == {7: (0b11, 0), 9: (1 << 99, 0)}


@pytest.mark.parametrize("index", [1, 100])
def test_what_is_done_is_done_once_all_before_it_is_safe(notes: Notes, index: int) -> None:
    """Else the process may have lost what the handler had sent."""
    one = packet(7, index + 1)
    notes.in_hand.open(one)
    notes.in_hand.hold([(one, 1 << index)])
    notes.in_hand.settle([(one, 1 << index)], is_safe=False)
    assert notes.left == {}
    notes.in_hand.settle([(one, 1 << index)], is_safe=True)
    assert notes.left == {7: (0, 1 << index)}


@pytest.mark.slow
@pytest.mark.gate
def test_a_cell_is_used_again(notes: Notes) -> None:
    """With nothing in it of the packet before."""
    for key in range(1, 100_000):
        one = packet(key)
        notes.in_hand.open(one)
        assert notes.in_hand.cells[one]
        notes.in_hand.hold([(one, 0b1)])
        notes.in_hand.close(one)
        assert one not in notes.in_hand.cells
    last = packet(5)
    notes.in_hand.open(last)
    assert notes.left == {}


def test_more_packets_than_there_is_room_for_go_without(notes: Notes) -> None:
    packets = [packet(key) for key in range(1, 20_000)]
    for one in packets:
        notes.in_hand.open(one)
        notes.in_hand.hold([(one, 0b1)])
    assert 8_000 < len(notes.left) < len(packets)
    assert packets[-1] not in notes.in_hand.cells


def test_express_messages_go_without(notes: Notes) -> None:
    one = packet(7)
    one.keys = ()
    notes.in_hand.open(one)
    assert notes.in_hand.cells == {}


def test_a_node_that_ends_leaves_nothing_in_hand(notes: Notes) -> None:
    """Acknowledged messages stay so."""
    one = packet(7)
    notes.in_hand.open(one)
    notes.in_hand.hold([(one, 0b11)])
    notes.in_hand.settle([(one, 0b10)], is_safe=True)
    notes.in_hand.handle_end()
    assert notes.left == {7: (0, 0b10)}
    notes.in_hand.hold([(one, 0b1)])


def test_without_words_nothing_is_noted() -> None:
    one = packet(7)
    nowhere = InHand(None)
    nowhere.open(one)
    nowhere.hold([(one, 1)])
    nowhere.settle([(one, 1)], is_safe=True)
    nowhere.close(one)
    nowhere.forget_left()
    assert nowhere.cells == {}
