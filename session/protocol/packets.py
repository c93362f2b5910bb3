"""The packets that a session sends, as its machines and its owner see them."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from triack.base.delivery import Delivery


class PacketState(IntEnum):
    """Where a packet is in its session."""

    QUEUED = 0
    """Numbered; it waits for the congestion window and the pacer."""
    IN_FLIGHT = 1
    """On the wire as far as we know."""
    LOST = 2
    """It goes out again, before anything that is queued."""
    ACKED = 3
    """Over."""


@dataclass(slots=True)
class SessionPacket:
    """A packet of the session.

    Attributes:
        number: the session's own; a resend keeps it.
        context: the caller's own; it comes back with the acks.
        ack_requested: which of its acks the caller wants at once, an ``Ask``.
        is_freed: whether the caller no longer needed a store ack when it was sent first.
        size_bytes: of a datagram that carries nothing else.
        order: of its last sending among all sendings of the session.
        sending: the congestion controller's record of its last sending.
    """

    number: int
    delivery: Delivery
    content: bytes
    context: Any
    ack_requested: int
    size_bytes: int
    state: PacketState = PacketState.QUEUED
    sends: int = 0
    order: int = 0
    sent_at_ns: int = 0
    sending: Any = None
    is_freed: bool = False
