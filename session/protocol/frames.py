"""What sessions say to each other: the frames inside a datagram, and the hello of a connection.

These are the typed frames that the machines of a session make and take. How they stand in a datagram is the business of
a codec (``codec``): today there is one, ``binary``. A datagram carries at most one frame of each kind, so that no
datagram asks for more work than a few frames. A packet, if there is one, comes last.

``echo`` is the counter of the newest datagram that brought a packet, and the ack delay the time since it arrived: as
numbers are kept on a resend, only the counter tells which sending was answered. All acks are cumulative plus ranges (as
RFC 9000 section 19.3 has them), so a lost one costs nothing. ``mark`` is a number of the sender's owner that only
grows. A session only carries it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from triack.base.delivery import Delivery
from triack.base.ranges import NumberSet, Range
from triack.session.protocol.policy import Policy
from triack.session.protocol.settings import SessionSettings
from triack.session.protocol.states import CloseReason

__all__ = [
    "MARK_MAX",
    "MAX_ACK_RANGES",
    "REFUSED_RANGES_MAX",
    "AckFrame",
    "Ask",
    "CloseFrame",
    "Frame",
    "Hello",
    "PacketFrame",
    "PacketRun",
    "PieceFrame",
    "PingFrame",
    "ProbeFrame",
    "ProbedFrame",
    "RoundTripFrame",
    "StoreAckFrame",
]

MAX_ACK_RANGES = 64
"""Ranges in one ack, and thereby the work that one ack can ask for. With all of them it has 536 bytes in the binary
layout, and still fits the smallest datagram, 576 bytes less the 36 of the insecure channel."""
REFUSED_RANGES_MAX = 16
"""Ranges of refused packets in one ack. An ack of what lies beyond them waits until some are settled."""
MARK_MAX = 2**63 - 1
"""What everything that may keep a mark takes as one signed integer, SQLite among them."""


class Ask(IntEnum):
    """What a packet asks for."""

    NO = 0
    AT_ONCE = 1
    """Every ack as soon as there is something to acknowledge."""
    WITH_STORE = 2
    """The store ack at once, and the session ack with it: it may wait a little for that (``session_ack``)."""


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
        number: of the first.
        asks: the numbers of those that ask the receiver to acknowledge.
        contents: of each.
        size_bytes: of all contents.
        mark: the greatest.
        ask: what they ask for: at once if one of them does.
    """

    number: int
    delivery: Delivery
    asks: list[int]
    contents: list[bytes]
    size_bytes: int
    mark: int
    ask: Ask = Ask.NO


@dataclass(slots=True)
class AckFrame:
    """A session ack: all up to ``cumulative`` arrived, and ``ranges`` above it; ``echo`` came ``delay_ns`` ago.

    Of what arrived the ``refused`` will never be taken, and the rejections that say why have not been acknowledged.
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
        """The ack of what was received, of which some is ``refused``, with as many ranges as one ack may have."""
        # What names the refused takes the room of two ranges, and of one for each of its own.
        most = MAX_ACK_RANGES - len(refused) - 2 if refused else MAX_ACK_RANGES
        return cls(received.cumulative, received.lowest_ranges(most), window, echo, delay_ns, refused)


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
    """A datagram came in one piece whose frames have so many bytes, and nothing else in them."""

    number: int
    size_bytes: int


@dataclass(slots=True)
class ProbedFrame:
    """The peer has got the probe with that number."""

    number: int


@dataclass(slots=True)
class PieceFrame:
    """What stands at ``offset`` of the content of a packet, which has ``total_bytes``; the rest as in the packet."""

    number: int
    delivery: Delivery
    ask: Ask
    total_bytes: int
    offset: int
    content: bytes
    mark: int = 0


@dataclass(slots=True)
class RoundTripFrame:
    """What the initiator has measured, for delays that both ends reckon by it ([MS-MQQB] 3.1.5.3.2)."""

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
    """What each end says of itself when a session is made.

    Attributes:
        session_id: chosen by the initiator, the same at both ends.
        connection_id: where the sender of this hello wants to get the session's datagrams.
        sent_at_ns: the initiator's clock, echoed by the acceptor, who cannot read it ([MS-MQQB] 2.2.3.1 TimeStamp).
        max_datagram_bytes: largest datagram it takes.
        policy: what an initiator states; from an acceptor what is in force.
        introduction: what the session's owner says to the peer's; it means nothing to a session.
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
