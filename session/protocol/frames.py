"""The frames inside a datagram, and the hello of a connection.

These are the typed frames that the machines of a session make and take. A codec (``codec``) encodes them: today there
is one, ``binary``. A datagram carries at most one frame of each kind, which bounds the work that it can cause. A
packet, if there is one, comes last.

``echo`` is the counter of the newest datagram that brought a packet, and the ack delay the time since it arrived. As a
resend keeps its packet number, only the counter tells which sending was answered. All acks are cumulative plus ranges
(as in RFC 9000 section 19.3), so a lost one costs nothing. ``mark`` is a number of the sender's owner that only grows.
A session only carries it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from triack.base.delivery import Delivery
from triack.base.ranges import NumberSet, Range
from triack.session.protocol.policy import Policy
from triack.session.protocol.settings import SessionSettings
from triack.session.protocol.states import CloseReason

MAX_ACK_RANGES = 64
"""Ranges in one ack, which bounds the work that it can cause. With all of them it has 536 bytes in the binary layout,
and still fits the smallest datagram, 576 bytes less the 36 of the insecure channel."""
REFUSED_RANGES_MAX = 16
"""Ranges of refused packets in one ack. An ack of packets beyond them waits until some are settled."""
MARK_MAX = 2**63 - 1
"""The largest signed 64-bit integer, as whatever stores a mark (SQLite, for example) holds it in one."""


class Ask(IntEnum):
    """What a packet asks for."""

    NO = 0
    AT_ONCE = 1
    """Every ack as soon as there is something to acknowledge."""
    WITH_STORE = 2
    """The store ack at once; the session ack may wait a little to leave with it (``session_ack``)."""


@dataclass(slots=True)
class PacketFrame:
    """One numbered packet, and what it asks the receiver for."""

    number: int
    delivery: Delivery
    ask: int
    content: bytes
    mark: int = 0


@dataclass(slots=True)
class PacketRun:
    """Packets of one class whose numbers follow each other, each the only frame of its datagram.

    Attributes:
        ack_requested: the numbers of those that ask the receiver to acknowledge.
        mark: the greatest.
        ask: what they ask for: ``AT_ONCE`` if one of them does.
    """

    number: int
    delivery: Delivery
    ack_requested: list[int]
    contents: list[bytes]
    size_bytes: int
    mark: int
    ask: Ask = Ask.NO


@dataclass(slots=True)
class AckFrame:
    """A session ack: all up to ``cumulative`` arrived, and ``ranges`` above it; ``echo`` came ``delay_ns`` ago.

    The ``refused`` packets arrived but will never be taken, and the peer has not acknowledged their rejections yet.
    """

    cumulative: int
    ranges: list[Range]
    window: int
    echo: int
    delay_ns: int
    refused: Sequence[Range] = ()

    @classmethod
    def of(
        cls, received: NumberSet, window: int, echo: int, delay_ns: int, refused: Sequence[Range] = ()
    ) -> "AckFrame":
        """The ack of the packets received, of which some are ``refused``, with as many ranges as one ack may have."""
        # The list of refused packets takes the room of two ranges, and of one more for each range in it.
        limit = MAX_ACK_RANGES - len(refused) - 2 if refused else MAX_ACK_RANGES
        return cls(received.cumulative, received.highest_ranges(limit), window, echo, delay_ns, refused)


@dataclass(slots=True)
class StoreAckFrame:
    """A store ack: everything up to ``cumulative`` is on disk, and ``ranges`` above it."""

    cumulative: int
    ranges: list[Range]
    mark: int = 0

    @classmethod
    def of(cls, stored: NumberSet, mark: int = 0) -> "StoreAckFrame":
        """The store ack of what is on disk, with as many ranges as one ack may have."""
        return cls(stored.cumulative, stored.lowest_ranges(MAX_ACK_RANGES), mark)


@dataclass(slots=True)
class PingFrame:
    """Asks for every ack that is owed, order acks included."""


@dataclass(slots=True)
class CloseFrame:
    """The peer's goodbye."""

    reason: CloseReason


@dataclass(slots=True)
class ProbeFrame:
    """Path MTU probe: the only frame of its datagram, padded so that the frames have ``size_bytes``."""

    number: int
    size_bytes: int


@dataclass(slots=True)
class ProbedFrame:
    """The peer has got the probe with that number."""

    number: int


@dataclass(slots=True)
class PieceFrame:
    """The part at ``offset`` of a packet's content of ``total_bytes``; the other fields are those of the packet."""

    number: int
    delivery: Delivery
    ask: Ask
    total_bytes: int
    offset: int
    content: bytes
    mark: int = 0


@dataclass(slots=True)
class RoundTripFrame:
    """The round trip that the initiator has measured; both ends derive delays from it ([MS-MQQB] 3.1.5.3.2)."""

    rtt_ns: int


Frame = (
    PacketFrame
    | AckFrame
    | StoreAckFrame
    | PingFrame
    | CloseFrame
    | ProbeFrame
    | ProbedFrame
    | PieceFrame
    | RoundTripFrame
)


@dataclass(frozen=True, slots=True)
class Hello:
    """What each end states about itself when a session is set up.

    Attributes:
        session_id: chosen by the initiator, the same at both ends.
        connection_id: where the sender of this hello wants to get the session's datagrams.
        sent_at_ns: the initiator's clock; the acceptor echoes it ([MS-MQQB] 2.2.3.1 TimeStamp).
        max_datagram_bytes: largest datagram it takes.
        policy: the initiator's proposal; from an acceptor, the policy in force.
        introduction: the owner's bytes for the peer's owner; a session does not read them.
    """

    session_id: int
    connection_id: int
    sent_at_ns: int
    max_datagram_bytes: int
    policy: Policy
    introduction: bytes = b""

    @classmethod
    def of(
        cls,
        settings: SessionSettings,
        *,
        session_id: int,
        connection_id: int,
        sent_at_ns: int = 0,
        introduction: bytes = b"",
    ) -> "Hello":
        """The hello of an end with these settings."""
        return cls(
            session_id,
            connection_id,
            sent_at_ns,
            settings.max_datagram_bytes,
            Policy.of(settings),
            introduction,
        )
