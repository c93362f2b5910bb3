"""A snapshot of a session: figures at one moment, and the policy in force, as a copy."""

from dataclasses import dataclass

from triack.base.ack_trigger import AckTerms
from triack.session.protocol.policy import Policy


@dataclass(frozen=True, slots=True)
class SessionSnapshot:
    """A session at one moment.

    Attributes:
        is_answered: whether the peer's hello has come.
        cleanup_interval_ns: how long the session may have nothing to do.
        acked: a number that grows with every packet that is acknowledged.
        round_trip_ns: the smoothed round trip; None before the first sample.
        probe_ns: how long to wait for an ack before asking for it (RFC 9002 section 6.2); None before the first sample.
        congestion: the congestion controller, ``none`` if no network is shared.
        congestion_window_bytes: how much may be in flight by it; None without one.
    """

    is_answered: bool
    policy: Policy
    ack_terms: AckTerms
    store_ack_terms: AckTerms
    cleanup_interval_ns: int
    window: int
    unacked: int
    acked: int
    resends: int
    round_trip_ns: int | None
    probe_ns: int | None
    congestion: str
    congestion_window_bytes: int | None
    datagram_bytes: int
