"""When a node whose session has ended, or whose connect nobody answered, tries again, and what it sends again then.

How patient it then is with a peer whose disk has kept it waiting is here, too.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from triack.base.checks import check_between, check_settings
from triack.base.errors import UsageError
from triack.base.units import SECOND

if TYPE_CHECKING:
    from random import Random

__all__ = ["DOUBLINGS_MAX", "Gap", "Patience", "Reconnect", "wait_ns"]

Gap = Literal["warn", "error"]
"""Whether to go on when the node that a peer's name leads to is not the one that acknowledged what was sent before."""
_AfterSessionLost = Literal["resend", "hand back"]
DOUBLINGS_MAX = 30
"""By then a millisecond has become twelve days: whatever the longest wait is, it is reached."""


@dataclass(frozen=True, slots=True)
class Reconnect:
    """The waits between attempts to connect, and what a lost session leaves behind. Durations are given in seconds.

    MSMQ's waits for a destination that cannot be found (``WaitTime``) are ``Reconnect(first_s=60, step_s=30,
    most_s=300, unanswered_most_s=300, jitter=0)``; its plain reconnects (``TryConnectInterval``) ``Reconnect(first_s=5,
    most_s=5, unanswered_most_s=5, jitter=0)``.

    Attributes:
        first_s: the wait after a session that was open.
        step_s: each further wait in a row is that much longer; None: twice as long. A session that lasts for
            ``most_s``, or ends as idle, ends the row.
        most_s: the longest wait.
        unanswered_most_s: the longest after an attempt that nobody answered: it was a wait itself, of
            ``connect_timeout_s``, and a peer that comes back must not wait for ours.
        eager_s: how long a peer that does not answer is called once a second or more often.
        away_most_s: the longest wait between two calls to a peer that has not answered for longer than that, whatever
            the other waits are. Each call over UDP is 1,228 bytes with its headers, so that 120 s make 0.9 MB a day. A
            peer that calls by itself is heard at once.
        jitter: that share of each wait is drawn, so that nodes that lost the same peer do not come back in step.
        after_session_lost: what becomes of what was sent and not acknowledged when its session is lost, its peer being
            silent, gone, begun anew or ending it: ``resend`` it on the next session, or ``hand back``: its receipt
            fails as ``session-lost``, it is a dead letter that may have been delivered, and is sent no more.
        gap: what happens when another node answers for a peer, one that has nothing of what was acknowledged: ``warn``
            tells of it, counts it and goes on; ``error`` sends nothing there, and whoever waits gets ``GapDetected``.
    """

    first_s: float = 0.1
    step_s: float | None = None
    most_s: float = 1.0
    unanswered_most_s: float = 0.1
    eager_s: float = 3_600.0
    away_most_s: float = 120.0
    jitter: float = 0.5
    after_session_lost: _AfterSessionLost = "resend"
    gap: Gap = "warn"

    def __post_init__(self) -> None:
        check_settings(self, may_be_zero=("eager_s",))
        check_between("Reconnect: jitter", self.jitter, 0, 1)
        if self.gap not in get_args(Gap):
            raise UsageError(f"Reconnect: gap must be warn or error, not {self.gap!r}")
        if self.after_session_lost not in get_args(_AfterSessionLost):
            raise UsageError(
                f"Reconnect: after_session_lost must be resend or hand back, not {self.after_session_lost!r}"
            )
        if self.first_s > self.most_s:
            raise UsageError(f"Reconnect: first_s is {self.first_s}, more than most_s, {self.most_s}")


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

    def handle_closed(self, now_ns: int, *, unanswered: bool, settled: bool, untaken: bool) -> int:
        """A session is gone; see ``Link.handle_closed``. Returns how long to wait before the next one, in ns.

        ``settled``: it was idle, and all that had been sent in it was acknowledged.
        """
        opened_at_ns, self._opened_at_ns = self._opened_at_ns, None
        lasted = opened_at_ns is not None and now_ns - opened_at_ns >= self._reconnect.most_s * SECOND
        if lasted or settled:
            self._attempts = 0
        self._untaken += untaken
        self._attempts += 1
        return wait_ns(self._reconnect, self._attempts - 1, self._random, unanswered=unanswered)
