"""The messages of a queue that were given back, until they are handed out again.

Promise: they are redelivered in the order of the queue, none before its wait ends. While a message that keeps the order
waits, nothing younger passes it.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush

from triack.queues.mailboxes.progress import Setbacks
from triack.queues.mailboxes.queued_packet import QueuedPacket
from triack.queues.mailboxes.redelivery import Wait


class Returned:
    """The returned messages of one reader.

    Attributes:
        coming: messages that are next, before any that was never handed out: place and packet of each, a heap.
        passed: messages that younger ones may pass: the end of each wait, in ms of the wall clock, when it joins
            ``coming``; then place and packet.
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
        """Packets, one of which holds the oldest message; empty when there are no messages."""
        return [packet for _, packet in self.coming[:1]] + [packet for _, _, packet in self.passed]

    def put(self, packet: QueuedPacket, index: int, wait: Wait | None) -> None:
        """Keep a message until it is redelivered: before anything younger, unless younger ones may pass it."""
        place = packet.first_place + index
        if wait is None or wait.keep_order:
            heappush(self.coming, (place, packet))
        else:
            heappush(self.passed, (wait.until_ms, place, packet))

    def handle_time(self, now_ms: int) -> None:
        """Move messages whose wait has ended to those that come next."""
        while self.passed and self.passed[0][0] <= now_ms:
            heappush(self.coming, heappop(self.passed)[1:])

    def pop(self, now_ms: int) -> tuple[QueuedPacket, int] | None:
        """Remove and return the next message, packet and index; None while it, and everything younger, waits."""
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
        """Keep only messages for which ``keeps`` is true, given packet and place."""
        self.coming = [item for item in self.coming if keeps(item[1], item[0])]
        self.passed = [item for item in self.passed if keeps(item[2], item[1])]
        heapify(self.coming)
        heapify(self.passed)
