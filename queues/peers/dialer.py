"""Where a peer is looked for: at each of its addresses in turn, until it answers.

Promise: an address that answered last is called first; one that did not is left for the next, and comes again when all
others have been tried. So a peer that is anywhere of all these is found, however many of them are dead. For an hour it
is called so often that it waits for no more than a second when it comes back. After that a call is sent every two
minutes, as a day of calls each second is a hundred megabytes, which somebody pays for. Whatever shows that the peer may
be there again makes the calls frequent for a while: a connect of its own, or that nobody has called it for long.
"""

from collections.abc import Sequence
from enum import StrEnum

from triack.base.peers import Peer
from triack.base.units import SECOND, in_ns
from triack.queues.node_settings import Reconnect

__all__ = ["Dialer", "WaitsFor"]

FIRST_TRY_NS = 1 * SECOND
"""How long a peer with several addresses is called at each of them, the first time round: time for three connects.
Every round takes twice as long, as the way may be longer than that."""
_DOUBLINGS_MAX = 16
"""More are beyond any timeout, and only make large numbers."""
AWAY_SHARE = 600
"""A peer that was away for five minutes is called twice a second, as in the first seconds: until then it may well be
there, behind a network that loses nine of ten datagrams each way."""
SPACING_MAX_NS = 1 * SECOND
"""As long as calls are frequent: the first message passes a second and three round trips after an outage at the latest
(docs/proof.md)."""
BURST_NS = 20 * SECOND
"""How long calls are frequent again. Where half of all datagrams are lost each way one call in four is answered, and
twenty fail together once in 300 times. Over UDP they are 25 kB."""
QUIET_NS = 3_600 * SECOND
"""Nobody has called for so long, as nobody wanted anything, or the machine was suspended: the peer may be there again.
Twenty calls in an hour are less than thirty, which is how many there are of a peer that is called all the time."""
ANSWER_NS = SECOND // 2
"""How long a peer that calls has for its own session before it is called: a round trip on most paths, and soon enough
that it is there within a second."""
COLLISION_NS = 1 * SECOND
"""Both ends may call at once. When ours have gone unanswered for longer than this, they may have been sent in vain for
all we know, and are no reason to refuse theirs."""


class WaitsFor(StrEnum):
    """What is missing for a peer to get what there is for it."""

    KEY = "key"
    """It is not trusted, or no key of it is known."""
    ADDRESS = "address"
    """Nobody knows where it is: it has to call."""
    ANSWER = "answer"
    """It has answered no call yet."""
    RESTART = "restart"
    """One of the two stores is an older copy: nothing is exchanged until the right one is there."""


class Dialer:
    """How one peer is called.

    Args:
        reconnect: how long calls are frequent, and how rare they are then.

    Attributes:
        address: where it was called last, empty before.
        known: what the directory said of it when it was called last.
        since_ns: since when it is called without success, or None. Later than that when calls are frequent again.
    """

    __slots__ = (
        "_called_at_ns",
        "_choices",
        "_eager_ns",
        "_missed",
        "_most_ns",
        "_quiet_ns",
        "address",
        "known",
        "since_ns",
    )

    def __init__(self, reconnect: Reconnect) -> None:
        self.address = ""
        self.known: Peer | None = None
        self.since_ns: int | None = None
        self._eager_ns = in_ns(reconnect.eager_s)
        self._most_ns = in_ns(reconnect.away_most_s)
        self._quiet_ns = max(QUIET_NS, 2 * self._most_ns)
        self._called_at_ns = 0
        self._choices = 1
        self._missed = 0

    def choose(self, addresses: Sequence[str], now_ns: int) -> int | None:
        """Choose where to call the peer now; ``address`` says where.

        Args:
            addresses: where it may be; one at least.
            now_ns: the clock.

        Returns:
            How long to call it there, None for as long as a connection may take.
        """
        self._choices = len(addresses)
        if self.address not in addresses:
            self.address = addresses[0]
        elif self._missed:
            self.address = addresses[(addresses.index(self.address) + 1) % len(addresses)]
        if self.since_ns is None:
            self.since_ns = now_ns
        elif now_ns - self._called_at_ns >= self._quiet_ns:
            self.hasten(now_ns)
        self._called_at_ns = now_ns
        if len(addresses) == 1:
            return None
        return FIRST_TRY_NS << min(self._missed // len(addresses), _DOUBLINGS_MAX)

    def is_fresh(self, now_ns: int) -> bool:
        """Whether the peer was not called for so long that it may be out of our reach."""
        return self.since_ns is not None and now_ns - self.since_ns < COLLISION_NS

    def spacing_ns(self, now_ns: int) -> int:
        """How much time there is between two calls, at least.

        As long as they are frequent, that is between two at one address; then between any two, as all of them cost.
        """
        if self.since_ns is None:
            return 0
        away_ns = now_ns - self.since_ns
        if away_ns < self._eager_ns:
            return min(away_ns // AWAY_SHARE, SPACING_MAX_NS, self._most_ns) // self._choices
        return min(max(away_ns - self._eager_ns, SPACING_MAX_NS), self._most_ns)

    @property
    def is_last(self) -> bool:
        """Whether the peer was called wherever it may be, with the call that goes on now."""
        return self._missed + 1 >= self._choices

    def handle_missed(self) -> None:
        """It did not answer there."""
        self._missed += 1

    def hasten(self, now_ns: int) -> None:
        """It may be there again: call it frequently for a while, if it was away for so long that calls are rare."""
        if self.since_ns is not None:
            self.since_ns = max(self.since_ns, now_ns - self._eager_ns + min(BURST_NS, self._eager_ns))

    def handle_moved(self) -> None:
        """It is to be looked for elsewhere: how long it was away says nothing then."""
        self.since_ns = None

    def handle_opened(self) -> None:
        """A session with it is open, whoever called."""
        self._missed = 0
        self.since_ns = None
