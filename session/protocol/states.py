"""The life of a session: its states, the moves between them and the reasons it ends. All of it is here, as tables.

    initiator:  CONNECTING --accepted--> OPEN --drain--> DRAINING --any close reason--> CLOSED
    acceptor:   ACCEPTING --confirmed--> OPEN ...

An acceptor is not open before the initiator has spoken on the new session: a copy of an old connect that arrives late
must not displace the session that is in use. [MS-MQQB] 3.1.1.3.1 has the states that these fold: its two request and
two response states are one round trip here.
"""

from enum import Enum

from triack.base.reasons import Reason


class SessionState(Enum):
    """Where a session is."""

    CONNECTING = "connecting"
    """Initiator: connect sent, waiting for the accept."""
    ACCEPTING = "accepting"
    """Acceptor: accept sent, waiting for the first packet or ack of the initiator."""
    OPEN = "open"
    """Packets flow."""
    DRAINING = "draining"
    """Closing at our own wish: no new packets, waiting for acks."""
    CLOSED = "closed"
    """Over. Nothing leaves this state."""


class CloseReason(Reason):
    """Why a session ended; each end is counted and logged under this name. Their order is their code on the wire."""

    ACK_TIMEOUT = "ack-timeout", "Packets were unacknowledged and nothing at all came from the peer."
    STORE_ACK_TIMEOUT = "store-ack-timeout", "The peer acknowledged arrival, but nothing reached its disk in time."
    PATH_LOST = "path-lost", "The transport reported that the way to the peer is gone."
    SUPERSEDED = "superseded", "The same peer opened a newer session."
    CONNECT_TIMEOUT = "connect-timeout", "The connection was not completed in time."
    PEER_CLOSED = "peer-closed", "The peer said goodbye."
    DRAINED = "drained", "We closed it and everything was acknowledged."
    IDLE = "idle", "No packet for the cleanup interval."
    LOCAL_STOP = "local-stop", "We closed it before everything was acknowledged."
    STORE_FAILED = "store-failed", "Our store failed, so nothing more may be acknowledged."
    PROTOCOL_ERROR = "protocol-error", "The peer broke the protocol."
    ROLLBACK = "rollback", "One of the two stores is an older copy of itself, or runs twice."
    REVOKED = "revoked", "The peer, or the key that it showed, is trusted no more."
    TOO_MANY_FORGERIES = "too-many-forgeries", "More forged datagrams came than its keys can bear."


class SessionEvent(Enum):
    """The events of a session besides closing."""

    ACCEPTED = "accepted"
    CONFIRMED = "confirmed"
    DRAIN = "drain"


FAILURES = frozenset(
    {CloseReason.ACK_TIMEOUT, CloseReason.STORE_ACK_TIMEOUT, CloseReason.PATH_LOST, CloseReason.SUPERSEDED}
)
"""Ends after which the next session sends everything unacknowledged again; ``triack replay`` asks for it."""
IN_DOUBT = FAILURES | {CloseReason.PEER_CLOSED, CloseReason.PROTOCOL_ERROR, CloseReason.TOO_MANY_FORGERIES}
"""Ends after which the fate of unconfirmed packets is unknown here. A peer may close because it heard nothing from us,
and packets that its goodbye does not acknowledge may have arrived behind that."""
UNTOLD = frozenset({CloseReason.PEER_CLOSED, CloseReason.PATH_LOST, CloseReason.CONNECT_TIMEOUT})
"""Ends that the peer knows of already, or cannot learn of."""

WITHOUT_ACKS = frozenset({CloseReason.STORE_FAILED, CloseReason.ROLLBACK})
"""Ends after which nothing may be acknowledged, not even with the goodbye."""

AS_HEARD: dict[CloseReason, CloseReason] = dict.fromkeys(CloseReason, CloseReason.PEER_CLOSED) | {
    CloseReason.ROLLBACK: CloseReason.ROLLBACK,
    CloseReason.IDLE: CloseReason.IDLE,
}
"""The reason at our end by that of the peer's goodbye. Reasons that concern both ends are the same at both."""

_ANY_TIME = {
    CloseReason.PATH_LOST,
    CloseReason.SUPERSEDED,
    CloseReason.PEER_CLOSED,
    CloseReason.LOCAL_STOP,
    CloseReason.STORE_FAILED,
    CloseReason.PROTOCOL_ERROR,
    CloseReason.ROLLBACK,
    CloseReason.REVOKED,
    CloseReason.TOO_MANY_FORGERIES,
}

TRANSITIONS: dict[SessionState, dict[SessionEvent | CloseReason, SessionState]] = {
    SessionState.CONNECTING: {
        SessionEvent.ACCEPTED: SessionState.OPEN,
        **dict.fromkeys(_ANY_TIME | {CloseReason.CONNECT_TIMEOUT}, SessionState.CLOSED),
    },
    SessionState.ACCEPTING: {
        SessionEvent.CONFIRMED: SessionState.OPEN,
        **dict.fromkeys(_ANY_TIME | {CloseReason.CONNECT_TIMEOUT}, SessionState.CLOSED),
    },
    SessionState.OPEN: {
        SessionEvent.DRAIN: SessionState.DRAINING,
        **dict.fromkeys(
            _ANY_TIME | {CloseReason.ACK_TIMEOUT, CloseReason.STORE_ACK_TIMEOUT, CloseReason.IDLE}, SessionState.CLOSED
        ),
    },
    SessionState.DRAINING: {
        **dict.fromkeys(
            _ANY_TIME | {CloseReason.ACK_TIMEOUT, CloseReason.STORE_ACK_TIMEOUT, CloseReason.DRAINED, CloseReason.IDLE},
            SessionState.CLOSED,
        ),
    },
    SessionState.CLOSED: {},
}
"""The next state by state and event."""
