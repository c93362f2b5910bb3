"""Runs: neighbouring messages that a queue hands out."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from triack.queues.mailboxes.progress import Setbacks
from triack.queues.mailboxes.queued_packet import Lease, QueuedPacket

NO_SETBACKS: Final = Setbacks()
"""Setbacks of a run that was made for a record, or outside the queue's process."""

NO_FAILURES: Final[Mapping[int, int]] = MappingProxyType({})


class Run:
    """Neighbouring messages of one packet, handed out one by one to the readers of the queue.

    A run ends when it is drawn to its end, when an older message comes back, and when it is logged. Its readers then
    ask for the next one.

    Args:
        failures: how often messages had failed when the run began, by index, without those that had not.
        apart: whether they are handed out before or after their turn: they came back, or were chosen.
        drawn: whether all of them are handed out already.

    Attributes:
        next: the index of the next message: those from ``first`` up to it are handed out.
        chosen: whether a reader has chosen them, so that they are in no order.
    """

    __slots__ = ("_failures", "_setbacks", "apart", "chosen", "end", "first", "next", "packet", "redelivered")

    def __init__(
        self,
        packet: QueuedPacket,
        first: int,
        end: int,
        setbacks: Setbacks = NO_SETBACKS,
        failures: Mapping[int, int] = NO_FAILURES,
        *,
        redelivered: bool,
        apart: bool = False,
        drawn: bool = False,
    ) -> None:
        self.packet = packet
        self.first = first
        self.next = end if drawn else first
        self.end = end
        self.redelivered = redelivered
        self.apart = apart
        self.chosen = False
        self._setbacks = setbacks
        self._failures = failures

    @property
    def killed(self) -> bool:
        """Whether the reader of its first message died. Such a message is a run by itself."""
        deaths = self._setbacks.deaths
        return bool(deaths) and self.packet.first_place + self.first in deaths

    def failures_of(self, index: int) -> int:
        """How often one of its messages has failed: until now, or until the run began if the message is done."""
        failures = self._setbacks.failures.get(self.packet.first_place + index, 0)
        return max(failures, self._failures.get(index, 0))

    def draw(self) -> int:
        """Hand out the next message. Returns its index in the packet, or -1 when the queue must be asked again."""
        index = self.next
        if index >= self.end:
            return -1
        self.next = index + 1
        return index

    def draw_many(self, limit: int) -> range:
        """Hand out at most ``limit`` of the next messages. Returns their indices in the packet."""
        first = self.next
        self.next = min(first + limit, self.end)
        return range(first, self.next)

    def size_of(self, drawn: range) -> int:
        """Size of drawn messages, for limiting a list.

        That of their bodies; of the whole packet if it has properties, as the size of each message's is not kept.
        """
        content = self.packet.open()
        if content.properties is not None:
            return self.packet.size_bytes
        return sum(map(len, content.bodies[drawn.start : drawn.stop]))

    def lease(self, index: int) -> Lease:
        """The lease of a drawn message."""
        return Lease(self.packet, index, self.redelivered)

    def stop(self) -> None:
        """End the run: nothing more can be drawn from it."""
        self.end = self.next
