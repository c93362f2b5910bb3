"""Control packets about another node's packets, such as order acks and rejections, that wait for a session's window."""

from dataclasses import dataclass

__all__ = ["Control"]


@dataclass(slots=True)
class Control:
    """One control packet.

    Attributes:
        content: content of the packet.
        refuses: the session's numbers of the packets that it refuses. They will never be on the disk here; when the
            peer has this packet, store acks may pass them.
    """

    content: bytes
    refuses: tuple[int, ...] = ()
