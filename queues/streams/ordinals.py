"""The numbers by which messages of this node are named for ever; see ``triack.node.handles.message.Message.id``."""

from triack.queues.streams.outgoing_stream import OutgoingStream

__all__ = ["ORDINALS_BLOCK", "Ordinals"]

ORDINALS_PER_START_BITS = 40
"""2^40 messages for each of 2^24 starts: message ids are never used twice."""
ORDINALS_BLOCK = 4_096
"""Ordinals that an outgoing queue takes at a time, so that a message has its id at once: many packets full, and little
beside the ordinals of one start."""


class Ordinals:
    """Gives them out.

    Args:
        incarnation: which start of the node it is.
    """

    __slots__ = ("_next",)

    def __init__(self, incarnation: int) -> None:
        self._next = incarnation << ORDINALS_PER_START_BITS

    def number(self, outgoing: OutgoingStream) -> None:
        """Give an outgoing queue, which has used up those it had, its next ones."""
        outgoing.number(self._next, ORDINALS_BLOCK)
        self._next += ORDINALS_BLOCK
