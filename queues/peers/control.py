"""Control packets, such as order acks and rejections, that wait for a session's window."""

from dataclasses import dataclass
from typing import assert_never

from triack.ordering import wire

ControlKey = tuple[bytes, int, int]
"""Origin and number of a stream, and what is said of it: the number of a refused packet, or one of these."""
_ACK, _HOLD, _END, _WAITS, _FORGOTTEN = 0, -1, -2, -3, -5
_ONWARD = -6
"""The first word about what was passed on: none replaces another, so each has a key of its own, further down."""


def key_of(packet: wire.Answer | wire.EndPacket) -> ControlKey:
    """The key of a control packet: one that waits gives way to a newer one with the same key."""
    match packet:
        case wire.OrderAckPacket():
            about = _ACK
        case wire.RejectPacket():
            about = packet.number
        case wire.HoldPacket():
            about = _HOLD
        case wire.OnwardPacket():
            about = _WAITS
        case wire.OnwardAckPacket():
            about = _ONWARD - packet.turn
        case wire.EndPacket():
            about = _FORGOTTEN if packet.answer else _END
        case _:
            assert_never(packet)
    return packet.origin, packet.stream, about


@dataclass(slots=True)
class Control:
    """One control packet.

    ``refuses``: the session's numbers of the packets that it refuses. They will never be on the disk here; when the
    peer has this packet, store acks may pass them.
    """

    content: bytes
    refuses: tuple[int, ...] = ()
