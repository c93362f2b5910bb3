"""Neighbouring messages on their way out of a queue."""

from triack.queues.mailboxes.queued_packet import Lease, QueuedPacket

__all__ = ["Run"]


class Run:
    """Neighbouring messages of one packet, handed out one by one to whoever reads the queue.

    A run ends when it is drawn to its end, when something older comes back, and when it is written down; whoever drew
    from it then asks for the next one.

    Attributes:
        packet: whose messages they are.
        first: the index of the first of them.
        next: the index of the next to be drawn: those from ``first`` up to it are handed out.
        end: the index behind the last of them.
        redelivered: whether they may have been handed out before.
    """

    __slots__ = ("end", "first", "next", "packet", "redelivered")

    def __init__(self, packet: QueuedPacket, first: int, end: int, *, redelivered: bool) -> None:
        self.packet = packet
        self.first = self.next = first
        self.end = end
        self.redelivered = redelivered

    def draw(self) -> int:
        """Hand out the next message. Returns its index in the packet, or -1 when the queue must be asked again."""
        index = self.next
        if index >= self.end:
            return -1
        self.next = index + 1
        return index

    def draw_many(self, most: int) -> range:
        """Hand out so many of the next messages, or all that there are. Returns their indices in the packet."""
        first = self.next
        self.next = min(first + most, self.end)
        return range(first, self.next)

    def size_of(self, drawn: range) -> int:
        """How many bytes messages that were drawn count for where a list is cut.

        Their bodies; all of the packet if it has properties, as how long those of one message are nobody has kept.
        """
        content = self.packet.open()
        if content.properties is not None:
            return self.packet.size_bytes
        return sum(map(len, content.bodies[drawn.start : drawn.stop]))

    def lease(self, index: int) -> Lease:
        """A message that was drawn."""
        return Lease(self.packet, index, self.redelivered)

    def stop(self) -> None:
        """Nothing more is drawn from it."""
        self.end = self.next
