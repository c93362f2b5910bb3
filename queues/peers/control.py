"""What a node says of the packets of another: order acks and rejections, on their way to a session's window."""

from dataclasses import dataclass

__all__ = ["Control"]


@dataclass(slots=True)
class Control:
    """One control packet.

    Attributes:
        content: what the packet carries.
        refuses: the session's numbers of the packets that it refuses. They will never be on the disk here; when the
            peer has this packet, store acks may pass them.
    """

    content: bytes
    refuses: tuple[int, ...] = ()
