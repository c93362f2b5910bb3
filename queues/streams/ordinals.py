"""Permanent numbers of this node's messages, part of their ids; see ``triack.node.handles.message.Message.id``."""

from triack.queues.streams.outgoing_stream import OutgoingStream

__all__ = ["ORDINALS_BLOCK", "Ordinals"]

ORDINALS_PER_START_BITS = 40
"""2^40 messages for each of 2^24 starts: message ids are never used twice."""
ORDINALS_BLOCK = 4_096
"""Ordinals that an outgoing queue takes at a time, so that a message has its id at once: enough for many packets, and
few compared with the ordinals of one start."""


class Ordinals:
    """Allocates ordinals.

    Args:
        incarnation: number of the node's start.
    """

    __slots__ = ("_next",)

    def __init__(self, incarnation: int) -> None:
        self._next = incarnation << ORDINALS_PER_START_BITS

    def take(self) -> int:
        """The ordinal of one message that is numbered by itself."""
        self._next += 1
        return self._next - 1

    def number(self, outgoing: OutgoingStream) -> None:
        """Give an outgoing queue its next block of ordinals, after it has used up the last one."""
        outgoing.number(self._next, ORDINALS_BLOCK)
        self._next += ORDINALS_BLOCK
