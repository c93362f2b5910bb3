"""The answer to a ping, as applications see it."""

from dataclasses import dataclass
from typing import Self

from triack.base.paths import address_in
from triack.base.units import SECOND
from triack.queues.manager.pings import Pong

__all__ = ["PingAnswer"]


@dataclass(frozen=True, slots=True)
class PingAnswer:
    """The answer of a peer to a ping.

    Attributes:
        address: the address that answered.
        handshake_s: seconds until a session was open; None if one was open before.
        round_trip_s: seconds from the question to its answer.
        clock_ahead_s: seconds by which the peer's clock is ahead of this node's; negative if it is behind. It is exact
            to half the difference of the times that the two ways take.
        datagram_bytes: the largest datagram of the session by now: over UDP the path's limit, less headers of IP and
            UDP, or what was found of it so far.
    """

    address: str
    handshake_s: float | None
    round_trip_s: float
    clock_ahead_s: float
    datagram_bytes: int

    @classmethod
    def of(cls, pong: Pong) -> Self:
        """The same in seconds."""
        return cls(
            address_in(pong.address),
            None if pong.handshake_ns is None else pong.handshake_ns / SECOND,
            pong.round_trip_ns / SECOND,
            pong.clock_ahead_ms / 1_000,
            pong.datagram_bytes,
        )
