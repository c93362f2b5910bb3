"""A packet of another node that passes through this one."""

from dataclasses import dataclass
from enum import IntEnum

__all__ = ["TransitPacket", "TransitState"]


class TransitState(IntEnum):
    """Where a packet in transit is."""

    ARRIVED = 0
    """In memory; the commit that holds it has not returned."""
    WAITING = 1
    """It goes out as soon as a session takes it."""
    SENT = 2
    """A session with the next hop has it."""
    DEAD = 3
    """It is not sent any more, and is removed as soon as its dead letter is on the disk."""
    DONE = 4
    """It is not here any more; nothing leaves this state."""


@dataclass(slots=True)
class TransitPacket:
    """A packet in transit.

    Attributes:
        number: its place in its sequence.
        body: its content; None while only the disk has it.
        size_bytes: length of the body.
        messages: how many messages end in it.
        previous: the smallest that came with it; see above.
        hops: how many relays it had passed when it came.
        place: its place among all packets of its stream that were here: of one number there may be two in a row.
        left_by_ms: this node's wall clock time at which its time runs out, 0 for never.
        via: the neighbour that it came by, by name.
        came_ns: when it came; of a packet of an earlier start, when it was sent, as far as the clocks of its origin and
            of this node tell. It may be before the monotonic clock began.
        ack_requested: whether it asks for an order ack.
        sends: how often it was handed to a session.
        packet: the number that the current session gave it; 0 when it has not been sent in it.
        stored: over a synchronous link: whether the next hop has it on its disk, by a store ack of this session.
        stored_before: the same, of an earlier session.
        passed: over a synchronous link: whether the next hop has had it, and has said in this session that it has
            passed on a packet of that number.
        cached_bytes: what of the memory for packets that are on the disk, too, it takes.
    """

    number: int
    body: bytes | None
    size_bytes: int
    messages: int
    previous: int
    hops: int
    left_by_ms: int
    via: str
    came_ns: int
    place: int = 0
    ack_requested: bool = False
    sends: int = 0
    packet: int = 0
    state: TransitState = TransitState.ARRIVED
    stored: bool = False
    stored_before: bool = False
    passed: bool = False
    cached_bytes: int = 0

    @property
    def before(self) -> int:
        """Everything after this number and before its own was given up by its origin."""
        return min(self.previous, self.number - 1)
