"""Messages that came back: in the order of the queue, none before its time, and what may pass them."""

from triack.base.delivery import Delivery
from triack.queues.mailboxes.queued_packet import QueuedPacket
from triack.queues.mailboxes.redelivery import Wait
from triack.queues.mailboxes.returned import Returned


def packet(place: int) -> QueuedPacket:
    return QueuedPacket([place], b"o" * 16, 1, 1, place, Delivery.TRANSACTIONAL, 9, 1, [b"x"], place=place)


def waiting(returned: Returned, index_of: QueuedPacket, index: int, wait: Wait) -> None:
    """A message comes back, and has to wait."""
    index_of.waits = {index: wait}
    returned.put(index_of, index, wait)


def drain(returned: Returned, now_ms: int) -> list[tuple[int, int]]:
    """Places and indices of all that comes at a time."""
    found = []
    returned.handle_time(now_ms)
    while returned.coming and (one := returned.pop(now_ms)) is not None:
        found.append((one[0].place, one[1]))
    return found


def test_they_come_again_in_the_order_of_the_queue() -> None:
    returned, first, second = Returned(), packet(1), packet(2)
    for one, index in ((second, 0), (first, 3), (first, 1)):
        returned.put(one, index, None)
    assert [found.place for found in returned.oldest()] == [1]
    assert drain(returned, 0) == [(1, 1), (1, 3), (2, 0)]


def test_what_keeps_the_order_holds_all_that_is_younger() -> None:
    returned = Returned()
    waiting(returned, packet(1), 0, Wait(100, 50, keep_order=True))
    returned.put(packet(2), 0, None)
    assert (drain(returned, 99), returned.resume_ms(99)) == ([], 100)
    assert (drain(returned, 100), returned.resume_ms(100)) == ([(1, 0), (2, 0)], None)


def test_what_may_be_passed_comes_when_its_wait_ends() -> None:
    """Then it comes before anything younger."""
    returned = Returned()
    waiting(returned, packet(1), 0, Wait(100, 50, keep_order=False))
    waiting(returned, packet(2), 0, Wait(70, 50, keep_order=False))
    returned.put(packet(3), 0, None)
    assert [found.place for found in returned.oldest()] == [3, 2, 1]
    assert returned.resume_ms(0) == 70
    assert drain(returned, 69) == [(3, 0)]
    returned.put(packet(3), 0, None)
    assert drain(returned, 100) == [(1, 0), (2, 0), (3, 0)]


def test_what_is_taken_out_is_forgotten() -> None:
    returned = Returned()
    for place in (3, 1, 2):
        returned.put(packet(place), 0, None)
        waiting(returned, packet(place), 1, Wait(place, 1, keep_order=False))
    returned.keep(lambda found, index: found.place != 1 and (found.place, index) != (2, 1))
    assert sorted(item[:2] for item in returned.messages) == [(2, 0), (3, 0), (3, 1)]
    assert drain(returned, 9) == [(2, 0), (3, 0), (3, 1)]
