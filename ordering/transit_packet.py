"""A packet of another node that passes through this one."""

from dataclasses import KW_ONLY, dataclass

from triack.ordering.departing import DepartingPacket, StreamPacketState


@dataclass(slots=True)
class TransitPacket(DepartingPacket):
    """A packet in transit. ``onward`` of it: the next hop has had it, and has said so of that number in this session.

    Attributes:
        previous: the smallest that came with it; see ``ordering.transit``.
        came_ns: when it came; of a packet of an earlier start, when it was sent, as far as the clocks of its origin and
            of this node tell. It may be before the monotonic clock began.
        place: its place among all packets of its stream that were here: of one number there may be two in a row.
        cached_bytes: what of the memory for packets that are on the disk, too, it takes.
    """

    previous: int
    came_ns: int
    _: KW_ONLY
    state: StreamPacketState = StreamPacketState.ARRIVED
    place: int = 0
    cached_bytes: int = 0

    @property
    def before(self) -> int:
        """Everything after this number and before its own was given up by its origin."""
        return min(self.previous, self.number - 1)
