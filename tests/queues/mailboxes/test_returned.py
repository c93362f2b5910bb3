"""Messages that came back: in the order of the queue, none before its time, and what may pass them."""

from triack.base.delivery import Delivery
from triack.queues.mailboxes.progress import Setbacks
from triack.queues.mailboxes.queued_packet import QueuedPacket
from triack.queues.mailboxes.redelivery import Wait
from triack.queues.mailboxes.returned import Returned


def packet(place: int) -> QueuedPacket:
    return QueuedPacket([place], b"o" * 16, 1, 1, place, Delivery.TRANSACTIONAL, 9, 1, [b"x"], first_place=10 * place)


class Reader:
    """What came back to a reader, and why it waits."""

    def __init__(self) -> None:
        self.setbacks = Setbacks()
        self.returned = Returned(self.setbacks)

    def wait(self, packet: QueuedPacket, index: int, wait: Wait) -> None:
        """A message comes back, and has to wait."""
        self.setbacks.waits[packet.first_place + index] = wait
        self.returned.put(packet, index, wait)


def drain(returned: Returned, now_ms: int) -> list[tuple[int, int]]:
    """Packets and indices of all that comes at a time."""
    found = []
    returned.handle_time(now_ms)
    while returned.coming and (one := returned.pop(now_ms)) is not None:
        found.append((one[0].number, one[1]))
    return found


def test_they_come_again_in_the_order_of_the_queue() -> None:
    returned, first, second = Reader().returned, packet(1), packet(2)
    for one, index in ((second, 0), (first, 3), (first, 1)):
        returned.put(one, index, None)
    assert [found.number for found in returned.oldest()] == [1]
    assert drain(returned, 0) == [(1, 1), (1, 3), (2, 0)]


def test_what_keeps_the_order_holds_all_that_is_younger() -> None:
    reader = Reader()
    returned = reader.returned
    reader.wait(packet(1), 0, Wait(100, 50, keep_order=True))
    returned.put(packet(2), 0, None)
    assert (drain(returned, 99), returned.resume_ms(99)) == ([], 100)
    assert (drain(returned, 100), returned.resume_ms(100)) == ([(1, 0), (2, 0)], None)


def test_what_may_be_passed_comes_when_its_wait_ends() -> None:
    """Then it comes before anything younger."""
    reader = Reader()
    returned = reader.returned
    reader.wait(packet(1), 0, Wait(100, 50, keep_order=False))
    reader.wait(packet(2), 0, Wait(70, 50, keep_order=False))
    returned.put(packet(3), 0, None)
    assert [found.number for found in returned.oldest()] == [3, 2, 1]
    assert returned.resume_ms(0) == 70
    assert drain(returned, 69) == [(3, 0)]
    returned.put(packet(3), 0, None)
    assert drain(returned, 100) == [(1, 0), (2, 0), (3, 0)]


def test_what_is_taken_out_is_forgotten() -> None:
    reader = Reader()
    returned = reader.returned
    for number in (3, 1, 2):
        returned.put(packet(number), 0, None)
        reader.wait(packet(number), 1, Wait(number, 1, keep_order=False))
    returned.keep(lambda found, place: found.number != 1 and place != 21)
    assert sorted(place for place, _ in returned.messages) == [20, 30, 31]
    assert drain(returned, 9) == [(2, 0), (3, 0), (3, 1)]
