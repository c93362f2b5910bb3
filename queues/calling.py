"""Where a peer is looked for: at each of its addresses in turn, until it answers.

Promise: an address that answered last is called first; one that did not is left for the next, and comes again when all
others have been tried. So a peer that is anywhere of all these is found, however many of them are dead. The longer it
has been away the more rarely it is called, so that when it comes back it waits for a small share of that, and not long.
"""

from collections.abc import Sequence
from enum import StrEnum

from triack.base.peers import Peer
from triack.base.units import SECOND

__all__ = ["Calling", "WaitsFor"]

FIRST_TRY_NS = 1 * SECOND
"""How long a peer with several addresses is called at each of them, the first time round: time for three connects.
Every round takes twice as long, as the way may be longer than that."""
_DOUBLINGS_MAX = 16
"""More are beyond any timeout, and only make large numbers."""
AWAY_SHARE = 600
"""A peer that was away for five minutes is called twice a second, as in the first seconds: until then it may well be
there, behind a network that loses nine of ten datagrams each way."""
SPACING_MAX_NS = 1 * SECOND
"""However long it was away: the first message passes a second and three round trips after an outage at the latest
(docs/proof.md)."""
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


class Calling:
    """How one peer is called.

    Attributes:
        address: where it was called last, empty before.
        known: what the directory said of it when it was called last.
        since_ns: since when it is called without success, or None.
    """

    __slots__ = ("_choices", "_missed", "address", "known", "since_ns")

    def __init__(self) -> None:
        self.address = ""
        self.known: Peer | None = None
        self.since_ns: int | None = None
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
        if len(addresses) == 1:
            return None
        return FIRST_TRY_NS << min(self._missed // len(addresses), _DOUBLINGS_MAX)

    def is_fresh(self, now_ns: int) -> bool:
        """Whether the peer was not called for so long that it may be out of our reach."""
        return self.since_ns is not None and now_ns - self.since_ns < COLLISION_NS

    def spacing_ns(self, now_ns: int) -> int:
        """How much time there is between two calls at one address, at least."""
        if self.since_ns is None:
            return 0
        return min((now_ns - self.since_ns) // AWAY_SHARE, SPACING_MAX_NS) // self._choices

    @property
    def is_last(self) -> bool:
        """Whether the peer was called wherever it may be, with the call that goes on now."""
        return self._missed + 1 >= self._choices

    def handle_missed(self) -> None:
        """It did not answer there."""
        self._missed += 1

    def handle_quiet(self) -> None:
        """Nobody wants anything of it, or it is to be looked for elsewhere: how long it was away says nothing then."""
        self.since_ns = None

    def handle_opened(self) -> None:
        """A session with it is open, whoever called."""
        self._missed = 0
        self.since_ns = None

    def forget_waits(self) -> None:
        """Forget how long it was called, for searches that keep the clock still."""
        self.handle_opened()
