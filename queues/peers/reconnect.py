"""Waits before a node reconnects after an ended session or an unanswered connect, and for store acks of a slow disk."""

from typing import TYPE_CHECKING

from triack.base.units import SECOND
from triack.queues.node_settings import Reconnect

if TYPE_CHECKING:
    from random import Random

DOUBLINGS_MAX = 30
"""By then a millisecond has become twelve days, which exceeds any longest wait."""


def wait_ns(reconnect: Reconnect, attempts: int, random: "Random", *, unanswered: bool) -> int:
    """How long to wait now, with jitter.

    ``attempts``: number of earlier waits in this row. ``unanswered``: whether the last attempt got no answer.
    """
    if reconnect.step_s is None:
        wait_s = reconnect.first_s * 2.0 ** min(attempts, DOUBLINGS_MAX)
    else:
        wait_s = reconnect.first_s + reconnect.step_s * attempts
    wait_s = min(wait_s, reconnect.most_s, reconnect.unanswered_most_s if unanswered else reconnect.most_s)
    drawn_ns = round(wait_s * reconnect.jitter * SECOND)
    return round(wait_s * SECOND) - drawn_ns + random.randrange(drawn_ns + 1)


class Patience:
    """How long one link waits between its sessions, and in them for the disk of its peer.

    After a session that ended by store ack timeout the next one waits twice as long, until something is stored, like
    the retransmission timer of RFC 6298 (section 5.5). A stalled disk gets ever fewer sessions. When it continues, its
    store acks arrive immediately, as there is a session.

    An answer alone does not end a row of waits: a peer that opens and immediately closes sessions is called as rarely
    as one that refuses them.
    """

    def __init__(self, reconnect: Reconnect, random: "Random") -> None:
        self._reconnect = reconnect
        self._random = random
        self._attempts = 0
        self._opened_at_ns: int | None = None
        self._untaken = 0

    @property
    def store_factor(self) -> int:
        """Factor for the store ack timeout of the next session."""
        return 1 << min(self._untaken, DOUBLINGS_MAX)

    def handle_opened(self, now_ns: int) -> None:
        """A session is open."""
        self._opened_at_ns = now_ns

    def handle_stored(self) -> None:
        """The peer has stored something."""
        self._untaken = 0

    def handle_closed(self, now_ns: int, *, unanswered: bool, settled: bool, not_stored: bool) -> int:
        """A session is gone; see ``Link.handle_closed``. Returns how long to wait before the next one, in ns.

        ``settled``: it was idle, and everything sent in it was acknowledged.
        """
        opened_at_ns, self._opened_at_ns = self._opened_at_ns, None
        lasted = opened_at_ns is not None and now_ns - opened_at_ns >= self._reconnect.most_s * SECOND
        if lasted or settled:
            self._attempts = 0
        self._untaken += not_stored
        self._attempts += 1
        return wait_ns(self._reconnect, self._attempts - 1, self._random, unanswered=unanswered)
