"""The timers of a session, by name."""

from enum import IntEnum


class Timer(IntEnum):
    """Each timer with the moment at which it runs out."""

    CONNECT_RESEND = 0
    """The connect (initiator) has not been answered: send it again."""
    CONNECT_LIMIT = 1
    """The session has not become open in time: close."""
    ACK_DELAY = 2
    """The first unacknowledged received packet has waited long enough: send the session ack."""
    LOSS = 3
    """A packet sent before an acknowledged one is overdue by 9/8 of the round trip: count it as lost (RFC 9002
    6.1.2)."""
    PROBE = 4
    """Nothing was acknowledged for a probe time: send something that asks for an ack (RFC 9002 6.2)."""
    ACK_LIMIT = 5
    """Something is unacknowledged, or a ping unanswered, and the peer has been silent for the ack timeout: close."""
    STORE_ACK_LIMIT = 6
    """Something is not store-acknowledged and no store ack came for the store ack timeout: close."""
    CLEANUP = 7
    """No packet either way for the cleanup interval: close."""
    PACING = 8
    """The pacer has credit for the next packet."""
    DRAIN_LIMIT = 9
    """Draining took too long: close."""
    STORE_ACK_DELAY = 10
    """Packets on our disk have waited long enough: send the store ack."""
    QUIET = 11
    """Nothing came for a while after everything was acknowledged: the owner may wait for other acks, and ask."""
    PATH_MTU = 12
    """A probe of the path has not been answered: send another, or take that size for too large."""
    KEEP_ALIVE = 13
    """Perhaps nothing has left for the keep-alive interval: if so, send a ping before a middlebox forgets the path."""


class Timers(dict[Timer, int]):
    """The timers that run, and when they run out, by the caller's clock. A spurious wake-up does nothing."""

    __slots__ = ()

    def poll_expired(self, now_ns: int) -> Timer | None:
        """Stop and return one timer that has run out, lowest first, or None."""
        due = [timer for timer, at_ns in self.items() if at_ns <= now_ns]
        if not due:
            return None
        timer = min(due)
        del self[timer]
        return timer
