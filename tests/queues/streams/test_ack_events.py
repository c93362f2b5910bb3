"""Events of acknowledgements, under a clock that only the test moves: the numbers of the systems they are from."""

import pytest

from triack.base.ack_trigger import AckTrigger, terms_of
from triack.base.units import MS, SECOND
from triack.queues.streams.ack_events import UNREAD_MAX, AckEvent, AckEvents, AckKind

INTERVAL = AckTrigger(window_share=None, delay_s=1.0)
"""AMPS: once a second."""
THIRD = AckTrigger(window_share=1 / 3, delay_s=1.0)
"""Solace: a third of the window, or a second."""


class Reader:
    """A reader of an outgoing queue with a clock, which says what it was told as AMPS's page does: +2 -3 +5."""

    def __init__(self, trigger: AckTrigger | None, window: int = 64) -> None:
        self.now_ns = 0
        self.woken = 0
        self.events = AckEvents(None if trigger is None else terms_of(trigger, window), 0, self._wake)

    def _wake(self) -> None:
        self.woken += 1

    def settle(self, *numbers: int, size_bytes: int = 100) -> "Reader":
        """Messages are acknowledged, each in a packet of its own, or have failed if negative."""
        for number in numbers:
            if number < 0:
                self.events.handle_failed(-number - 1, 1, "queue-full")
            # A failed message is let go as well.
            self.events.handle_acked(abs(number) - 1, 1, size_bytes)
        self.events.handle_time(self.now_ns)
        return self

    def wait(self, seconds: float) -> "Reader":
        self.now_ns += round(seconds * SECOND)
        self.events.handle_time(self.now_ns)
        return self

    def read(self) -> list[AckEvent]:
        read = []
        while (event := self.events.poll()) is not None:
            read.append(event)
        return read

    def told(self) -> list[int]:
        return [event.last if event.kind is AckKind.ACK else -event.last for event in self.read()]


@pytest.mark.parametrize(
    ("settled", "told"),
    [
        ([1, 2, 3, 4, 5], [5]),
        ([1, 2, -3, 4, 5], [2, -3, 5]),
        ([-1, 2, 3, 4, 5], [-1, 5]),
        ([1, 2, 3, 4, -5], [4, -5]),
        ([1, -2, -3, 4, 5], [1, -2, -3, 5]),
        ([-1, -2, -3, -4, -5], [-1, -2, -3, -4, -5]),
    ],
)
def test_a_failure_splits_the_range_and_comes_alone(settled: list[int], told: list[int]) -> None:
    """60East, Acknowledgment Conflation and Publish Acknowledgements: five messages, some not entitled."""
    assert Reader(INTERVAL).settle(*settled).wait(1).told() == told


def test_an_event_says_which_how_many_and_why() -> None:
    assert Reader(INTERVAL).settle(1, 2, -3).read() == [
        AckEvent(AckKind.ACK, 1, 2),
        AckEvent(AckKind.FAILURE, 3, 3, "queue-full"),
    ]
    assert AckEvent(AckKind.ACK, 8, 16).count == 9


def test_an_interval_with_nothing_new_is_silent() -> None:
    """Neither a reader that was told nothing nor one that was told all is woken."""
    reader = Reader(INTERVAL).wait(1).wait(1)
    assert (reader.told(), reader.woken, reader.events.next_deadline()) == ([], 0, None)
    reader.settle(1).wait(1)
    assert (reader.told(), reader.woken) == ([1], 1)
    reader.wait(1).wait(1)
    assert (reader.told(), reader.woken, reader.events.next_deadline()) == ([], 1, None)


def test_an_interval_begins_with_the_first_that_is_not_told() -> None:
    reader = Reader(INTERVAL).wait(5).settle(1).wait(0.999)
    assert reader.told() == []
    assert reader.events.next_deadline() == 6 * SECOND
    assert reader.settle(2).wait(0.001).told() == [2]
    assert reader.wait(0.5).settle(3).wait(0.999).told() == []
    assert reader.wait(0.001).told() == [3]


def test_a_failure_does_not_begin_the_interval_again() -> None:
    """The event of what follows it comes when it would have come anyway."""
    reader = Reader(INTERVAL).settle(1).wait(0.6)
    assert reader.settle(-2, 3).told() == [1, -2]
    assert reader.wait(0.399).told() == []
    assert reader.wait(0.001).told() == [3]


def test_events_never_go_backwards() -> None:
    """A message that is settled before its turn waits for those before it, whatever is said of it again meanwhile."""
    reader = Reader(INTERVAL).settle(3, -4, 2).wait(2)
    assert reader.told() == []
    assert reader.settle(1, 4, 3).wait(1).told() == [3, -4]
    assert reader.settle(1, -2).wait(1).told() == []


def test_a_window_of_255_has_one_event_for_85() -> None:
    """Solace, Acknowledging Published Messages: a third of the window."""
    reader = Reader(THIRD, 255).settle(*range(1, 85))
    assert reader.told() == []
    assert reader.settle(85).read() == [AckEvent(AckKind.ACK, 1, 85)]


def test_three_of_a_window_of_50_come_after_a_second() -> None:
    reader = Reader(THIRD, 50).settle(1, 2, 3).wait(0.999)
    assert reader.told() == []
    assert reader.wait(0.001).told() == [3]


def test_one_of_sixteen_is_rejected_in_a_window_of_50() -> None:
    """Ranged: 6, -7, 16, without waiting for the second; per message: fifteen and one failure."""
    settled = [*range(1, 7), -7, *range(8, 17)]
    ranged = Reader(THIRD, 50).settle(*settled).read()
    assert ranged == [
        AckEvent(AckKind.ACK, 1, 6),
        AckEvent(AckKind.FAILURE, 7, 7, "queue-full"),
        AckEvent(AckKind.ACK, 8, 16),
    ]
    single = Reader(None).settle(*settled).read()
    assert [event.kind for event in single] == [AckKind.ACK] * 6 + [AckKind.FAILURE] + [AckKind.ACK] * 9
    assert [(event.first, event.last) for event in single] == [(number, number) for number in range(1, 17)]


def test_bytes_make_an_event_due_or_the_flush() -> None:
    """HornetQ: a confirmation window of 1,000 bytes, and a flush every two seconds."""
    reader = Reader(AckTrigger(window_share=None, bytes_=1_000, delay_s=2.0))
    assert reader.settle(*range(1, 10)).told() == []
    assert reader.settle(10).told() == [10]
    assert reader.settle(11).wait(1.999).told() == []
    assert reader.wait(0.001).told() == [11]


def test_a_large_message_counts_with_all_its_packets() -> None:
    """Its event comes once, when its last packet is freed."""
    reader = Reader(AckTrigger(window_share=None, bytes_=1_000, delay_s=2.0))
    for messages in (0, 0, 1):
        reader.events.handle_acked(0, messages, 400)
    reader.events.handle_time(0)
    assert reader.told() == [1]


def test_two_intervals_add_up() -> None:
    """AMPS: the link reports once a second, the client every half: a second and a half at the most."""
    link, client = Reader(INTERVAL), Reader(AckTrigger(window_share=None, delay_s=0.5))
    link.settle(1)
    told_at = []
    for _ in range(30):
        link.wait(0.1)
        client.now_ns = link.now_ns - 1
        client.settle(*link.told())
        client.wait(1e-9)
        told_at += [round(client.now_ns / (100 * MS))] * len(client.told())
    assert told_at == [15]


def test_a_message_that_asks_for_an_ack_has_its_event_at_once() -> None:
    """Solace's Ack Immediately, with all before it."""
    reader = Reader(THIRD, 50).settle(1, 2)
    reader.events.handle_acked(2, 1, 100, ack_requested=True)
    reader.events.handle_time(reader.now_ns)
    assert reader.told() == [3]


def test_events_that_nobody_reads_are_merged_and_none_is_lost() -> None:
    reader = Reader(INTERVAL)
    for number in range(1, 10_001):
        reader.settle(number).wait(1)
    assert reader.read() == [AckEvent(AckKind.ACK, 1, 10_000)]
    assert not reader.events.is_full


def test_what_alternates_unread_fills_it() -> None:
    """Until it is read, or nobody reads it any more."""
    reader = Reader(None)
    for number in range(1, UNREAD_MAX, 2):
        assert not reader.events.is_full
        reader.settle(number, -(number + 1))
    assert reader.events.is_full
    reader.events.poll()
    assert not reader.events.is_full
    reader.settle(UNREAD_MAX + 1)
    assert reader.events.is_full
    reader.events.end()
    assert not reader.events.is_full


def test_the_end_tells_what_was_gathered() -> None:
    """As HornetQ flushes when it is closed."""
    reader = Reader(INTERVAL).settle(1, 2)
    reader.events.end()
    assert reader.told() == [2]
