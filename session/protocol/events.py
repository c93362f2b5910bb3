"""The outputs of a session for its owner: events (past tense), and transmits, which the owner sends."""

from dataclasses import dataclass
from enum import IntEnum

from triack.base.delivery import Delivery
from triack.base.ranges import Range
from triack.base.reasons import DropReason
from triack.session.protocol.packets import SessionPacket
from triack.session.protocol.states import CloseReason


class TransmitKind(IntEnum):
    """The kind of a datagram."""

    CONNECT = 1
    ACCEPT = 2
    DATA = 3


@dataclass(slots=True)
class AckSent:
    """A session or store ack that left in a transmit; it covers ``pending`` packets for the first time."""

    cumulative: int
    ranges: list[Range]
    trigger: str
    pending: int


@dataclass(slots=True)
class Transmit:
    """One datagram to seal and send, and its frames for the session log.

    The counter of an accept means nothing: the owner replaces it by that of the connect which it answers.
    """

    kind: TransmitKind
    connection_id: int
    counter: int
    payload: bytes
    packet: SessionPacket | None = None
    ack: AckSent | None = None
    store_ack: AckSent | None = None
    ping: bool = False


@dataclass(slots=True)
class TransmitRun:
    """Datagrams to seal and send: one for each packet, or the pieces of one; their counters follow the first."""

    connection_id: int
    counter: int
    payloads: list[bytes]
    packets: list[SessionPacket]


@dataclass(slots=True)
class SessionOpened:
    """Packets may flow."""


@dataclass(slots=True)
class PacketArrived:
    """A packet arrived; ``duplicate`` when this session had it already."""

    number: int
    delivery: Delivery
    content: bytes
    duplicate: bool


@dataclass(slots=True)
class RunArrived:
    """Packets arrived together, one behind the other from ``number`` on, and for the first time."""

    number: int
    delivery: Delivery
    contents: list[bytes]


@dataclass(slots=True)
class PacketDropped:
    """A packet or a whole datagram that no correct peer sends arrived; it was ignored."""

    reason: DropReason


@dataclass(slots=True)
class PacketsAcked:
    """A session ack arrived and newly covers ``packets`` (perhaps none).

    The peer has taken the ``told`` ones, or their rejections have come; see ``session.undecided``.
    """

    packets: list[SessionPacket]
    told: list[SessionPacket]


@dataclass(slots=True)
class PacketsStored:
    """A store ack arrived and newly covers ``packets`` (perhaps none)."""

    packets: list[SessionPacket]


@dataclass(slots=True)
class AcksRequested:
    """The peer wants every ack that is owed, order acks included."""


@dataclass(slots=True)
class PeerQuiet:
    """Nothing came for a while, and no packet waits for an ack: an owner that expects other acks pings."""


@dataclass(slots=True)
class SessionIdle:
    """Neither end had a packet for the cleanup interval: the owner closes the session, or has something to send."""


@dataclass(slots=True)
class SizeChanged:
    """Datagrams of that size are in force from now on: the owner cuts packets for them."""

    size_bytes: int


@dataclass(slots=True)
class WindowChanged:
    """A window that follows its path has changed: at most ``packets`` are unacknowledged from now on."""

    packets: int


@dataclass(slots=True)
class ProbeArrived:
    """A probe of the path came, in a datagram of that size."""

    size_bytes: int


@dataclass(slots=True)
class ProbeAnswered:
    """The answer to a probe of ours came, whether or not it says anything new of the path."""


@dataclass(slots=True)
class PieceArrived:
    """Pieces came that make no packet whole, or one that is here already: of some in a row one of these."""


@dataclass(slots=True)
class SessionClosed:
    """The session ended; ``unacked`` packets had no session ack."""

    reason: CloseReason
    unacked: int


Event = (
    SessionOpened
    | PacketArrived
    | RunArrived
    | PacketDropped
    | PacketsAcked
    | PacketsStored
    | AcksRequested
    | PeerQuiet
    | SessionIdle
    | SizeChanged
    | WindowChanged
    | ProbeArrived
    | ProbeAnswered
    | PieceArrived
    | SessionClosed
)
