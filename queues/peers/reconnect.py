"""When a node whose session has ended, or whose connect nobody answered, tries again, and what it sends again then.

How patient it then is with a peer whose disk has kept it waiting is here, too.
"""

from typing import TYPE_CHECKING

from triack.base.units import SECOND
from triack.queues.node_settings import Reconnect

if TYPE_CHECKING:
    from random import Random

__all__ = ["DOUBLINGS_MAX", "Patience", "wait_ns"]

DOUBLINGS_MAX = 30
"""By then a millisecond has become twelve days: whatever the longest wait is, it is reached."""


def wait_ns(reconnect: Reconnect, attempts: int, random: "Random", *, unanswered: bool) -> int:
    """How long to wait now.

    Args:
        reconnect: the settings.
        attempts: how many waits there were in this row before.
        random: for jitter.
        unanswered: whether nobody has answered the last attempt.
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

    A session that a store ack timeout ends teaches that the disk takes longer than that: the next one waits twice as
    long, until something is stored, as RFC 6298 has it for a retransmission timer (section 5.5). A disk that stands
    still is asked by ever fewer sessions; one that goes on again is heard at once, as there is a session.

    To be answered ends no row of waits: a peer that opens sessions and closes them at once is called as rarely as one
    that refuses them.

    Args:
        reconnect: the waits between sessions.
        random: for jitter.
    """

    __slots__ = ("_attempts", "_opened_at_ns", "_random", "_reconnect", "_untaken")

    def __init__(self, reconnect: Reconnect, random: "Random") -> None:
        self._reconnect = reconnect
        self._random = random
        self._attempts = 0
        self._opened_at_ns: int | None = None
        self._untaken = 0

    @property
    def store_factor(self) -> int:
        """How many times the usual wait the next session waits for store acks."""
        return 1 << min(self._untaken, DOUBLINGS_MAX)

    def handle_opened(self, now_ns: int) -> None:
        """A session is open."""
        self._opened_at_ns = now_ns

    def handle_stored(self) -> None:
        """The peer has stored something."""
        self._untaken = 0

    def handle_closed(self, now_ns: int, *, unanswered: bool, settled: bool, not_stored: bool) -> int:
        """A session is gone; see ``Link.handle_closed``. Returns how long to wait before the next one, in ns.

        ``settled``: it was idle, and all that had been sent in it was acknowledged.
        """
        opened_at_ns, self._opened_at_ns = self._opened_at_ns, None
        lasted = opened_at_ns is not None and now_ns - opened_at_ns >= self._reconnect.most_s * SECOND
        if lasted or settled:
            self._attempts = 0
        self._untaken += not_stored
        self._attempts += 1
        return wait_ns(self._reconnect, self._attempts - 1, self._random, unanswered=unanswered)
