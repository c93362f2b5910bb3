"""Dialling a peer: at each of its addresses in turn, until it answers.

Promise: the address that answered last is called first. An unanswered one is tried again when all others have been
tried. So a peer at any of these addresses is found, however many of them are dead. For an hour the calls are so
frequent that a peer that returns waits for at most a second. After that there is one call every two minutes, as a day
of calls each second costs a hundred megabytes. Two signs that the peer may be back make the calls frequent for a while:
a connect from it, or a long time without calls. When many peers are away, they share a fixed number of calls a second.
"""

from collections.abc import Sequence
from enum import StrEnum

from triack.base.peers import Peer
from triack.base.units import SECOND, in_ns
from triack.queues.node_settings import Reconnect

FIRST_TRY_NS = 1 * SECOND
"""How long to call a peer with several addresses at each of them in the first round: time for three connects. Every
round is twice as long, as the round trip may be longer than that."""
_DOUBLINGS_MAX = 16
"""More would exceed any timeout."""
AWAY_SHARE = 600
"""A peer that was away for five minutes is called twice a second, as in the first seconds: it may well be there, behind
a network that loses nine of ten datagrams each way."""
SPACING_MAX_NS = 1 * SECOND
"""Limit while calls are frequent: the first message passes at most a second and three round trips after an outage
(docs/proof-figures.md)."""
SHARED_NS = SECOND // 16
"""The wait grows by this for each peer that is away: a node makes sixteen calls a second at most, as each call makes
new keys. Up to eight such peers are called as often as one."""
SHARED_AFTER = 10
"""Other absent peers add at most a tenth of a peer's own time away to its wait: a node that starts calls all of its
peers at first."""
BURST_NS = 20 * SECOND
"""How long calls are frequent again. If half of all datagrams are lost each way, one call in four is answered, and
twenty fail together once in 300 times. Over UDP they are 25 kB."""
QUIET_NS = 3_600 * SECOND
"""After this time without calls, because there was nothing to send or the machine was suspended, the peer may be back.
Twenty calls in an hour are fewer than the thirty for a peer that is called continuously."""
ANSWER_NS = SECOND // 2
"""A peer that calls has this time to open its session before we call it: a round trip on most paths, and soon enough to
have a session within a second."""
COLLISION_NS = 1 * SECOND
"""Both ends may call at the same time. If our calls have gone unanswered for longer than this, they may not reach the
peer, and are no reason to refuse its calls."""


class WaitsFor(StrEnum):
    """What is missing before packets can go to a peer."""

    KEY = "key"
    ADDRESS = "address"
    """Its address is unknown: it has to call."""
    ANSWER = "answer"
    RESTART = "restart"
    """One of the two stores is an older copy: nothing is exchanged until the right one is back."""


class Dialer:
    """How one peer is called.

    Args:
        away: the dialers of this node whose peers are called without success; it adds and removes itself.

    Attributes:
        since_ns: since when it has been called without success, or None; moved later to make calls frequent again.
    """

    def __init__(self, reconnect: Reconnect, away: set["Dialer"] | None = None) -> None:
        self._away = set() if away is None else away
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
        """Choose the ``address`` to call now, out of one or more.

        Returns how long to call there, None for the connect timeout.
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
        self._away.add(self)
        if len(addresses) == 1:
            return None
        return FIRST_TRY_NS << min(self._missed // len(addresses), _DOUBLINGS_MAX)

    def is_fresh(self, now_ns: int) -> bool:
        """Whether our calls began recently, so that the peer may well be in reach."""
        return self.since_ns is not None and now_ns - self.since_ns < COLLISION_NS

    def spacing_ns(self, now_ns: int) -> int:
        """The least time between two calls.

        It applies to each address while calls are frequent and few peers are away, else to all calls together, as each
        costs.
        """
        if self.since_ns is None:
            return 0
        away_ns = now_ns - self.since_ns
        shared_ns = min(len(self._away) * SHARED_NS, away_ns // SHARED_AFTER)
        if away_ns < self._eager_ns:
            own_ns = min(away_ns // AWAY_SHARE, SPACING_MAX_NS) // self._choices
        else:
            own_ns = max(away_ns - self._eager_ns, SPACING_MAX_NS)
        return min(max(own_ns, shared_ns), self._most_ns)

    @property
    def is_last(self) -> bool:
        """Whether the peer was called at all of its addresses, including the current call."""
        return self._missed + 1 >= self._choices

    def handle_missed(self) -> None:
        """The call was not answered."""
        self._missed += 1

    def hasten(self, now_ns: int) -> None:
        """The peer may be back: if calls are rare by now, make them frequent for a while."""
        if self.since_ns is not None:
            self.since_ns = max(self.since_ns, now_ns - self._eager_ns + min(BURST_NS, self._eager_ns))

    def handle_unwanted(self) -> None:
        """There is no reason to call it now."""
        self._away.discard(self)

    def handle_moved(self) -> None:
        """Its addresses have changed: forget how long it was away."""
        self.since_ns = None
        self._away.discard(self)

    def handle_opened(self) -> None:
        """A session with it is open, whichever end called."""
        self._missed = 0
        self.since_ns = None
        self._away.discard(self)
