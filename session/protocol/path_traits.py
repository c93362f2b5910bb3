"""The properties of the path to the peer that a session must know, whatever carries it."""

from dataclasses import dataclass

from triack.base.checks import DATAGRAM_BASE_BYTES, DATAGRAM_MAX_BYTES


@dataclass(frozen=True, slots=True)
class PathTraits:
    """The properties of a path.

    Attributes:
        paced: nothing below the session controls congestion, so the session does: it keeps a congestion window and
            paces what it sends (RFC 9002 section 7).
        reliable: the path retransmits losses and keeps the order, as TCP does (RFC 9293). A packet without an ack is
            in flight, and a copy of it would only queue behind it.
        base_bytes: the largest datagram that the path carries for certain, without a probe.
    """

    paced: bool
    reliable: bool
    base_bytes: int


UDP = PathTraits(paced=True, reliable=False, base_bytes=DATAGRAM_BASE_BYTES)
TCP = PathTraits(paced=False, reliable=True, base_bytes=DATAGRAM_MAX_BYTES)
MEMORY = PathTraits(paced=False, reliable=False, base_bytes=DATAGRAM_MAX_BYTES)
"""Within one process: no network to share, and a full inbox loses datagrams."""
