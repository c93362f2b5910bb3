"""Control packets about another node's packets, such as order acks and rejections, that wait for a session's window."""

from dataclasses import dataclass

from triack.base.names import StreamId

ControlKey = tuple[int | StreamId, int]
"""A stream and something in it. A stream of this node, or of the neighbour itself, is named by its number alone."""


@dataclass(slots=True)
class Control:
    """One control packet.

    ``refuses``: the session's numbers of the packets that it refuses. They will never be on the disk here; when the
    peer has this packet, store acks may pass them.
    """

    content: bytes
    refuses: tuple[int, ...] = ()
