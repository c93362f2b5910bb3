"""The messages of a queue that came back from whoever had them, until they are handed out again.

Promise: they come again in the order in which they stand in the queue, none before its wait ends, and one that keeps
the order lets nothing younger pass while it waits.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush

from triack.queues.mailboxes.progress import Setbacks
from triack.queues.mailboxes.queued_packet import QueuedPacket
from triack.queues.mailboxes.redelivery import Wait

__all__ = ["Returned"]


class Returned:
    """What came back to one reader.

    Args:
        setbacks: of the reader: they say what keeps a message back.

    Attributes:
        coming: what comes next, before anything that was never handed out: place and packet of each message, a heap.
        passed: what younger messages may pass: the wall clock in milliseconds at which it joins those, then the same.
    """

    __slots__ = ("_setbacks", "coming", "passed")

    def __init__(self, setbacks: Setbacks) -> None:
        self._setbacks = setbacks
        self.coming: list[tuple[int, QueuedPacket]] = []
        self.passed: list[tuple[int, int, QueuedPacket]] = []

    @property
    def messages(self) -> list[tuple[int, QueuedPacket]]:
        """Place and packet of each, in no order."""
        return self.coming + [item[1:] for item in self.passed]

    def oldest(self) -> list[QueuedPacket]:
        """Packets of which one holds the oldest message; none when nothing is here."""
        return [packet for _, packet in self.coming[:1]] + [packet for _, _, packet in self.passed]

    def put(self, packet: QueuedPacket, index: int, wait: Wait | None) -> None:
        """Keep a message until it comes again: before anything younger, unless younger ones may pass it."""
        place = packet.first_place + index
        if wait is None or wait.keep_order:
            heappush(self.coming, (place, packet))
        else:
            heappush(self.passed, (wait.until_ms, place, packet))

    def handle_time(self, now_ms: int) -> None:
        """Let those come next whose wait has ended."""
        while self.passed and self.passed[0][0] <= now_ms:
            heappush(self.coming, heappop(self.passed)[1:])

    def pop(self, now_ms: int) -> tuple[QueuedPacket, int] | None:
        """The first that comes next, packet and index; None while it waits, and everything younger with it."""
        place, packet = self.coming[0]
        if self._setbacks.wait_of(place, now_ms) is not None:
            return None
        heappop(self.coming)
        return packet, place - packet.first_place

    def resume_ms(self, now_ms: int) -> int | None:
        """When the next wait ends, or None."""
        ends = [item[0] for item in self.passed[:1]]
        if self.coming:
            wait = self._setbacks.wait_of(self.coming[0][0], now_ms)
            ends += [] if wait is None else [wait.until_ms]
        return min(ends, default=None)

    def keep(self, keeps: Callable[[QueuedPacket, int], bool]) -> None:
        """Forget all but some; ``keeps`` is asked by packet and place."""
        self.coming = [item for item in self.coming if keeps(item[1], item[0])]
        self.passed = [item for item in self.passed if keeps(item[2], item[1])]
        heapify(self.coming)
        heapify(self.passed)
