"""The largest datagram that the path to the peer carries: datagram packetization layer path MTU discovery (RFC 8899).

Promise: what is in force has been carried by this path in one piece, or is the base, which every path carries. It grows
when a probe of that size was answered, and goes back to the base when the path carries such datagrams no more. A probe
that is lost says nothing of congestion, and is never sent again as what it was: a padded datagram with nothing in it.

    DISABLED --wanted--> BASE --confirmed--> SEARCHING --narrowed--> SEARCHING --found--> SEARCH_COMPLETE
    BASE --unanswered--> ERROR --raise timer--> BASE
    SEARCH_COMPLETE --raise timer--> SEARCHING
    SEARCHING or SEARCH_COMPLETE --black hole--> BASE
    any but DISABLED --moved--> BASE

These are the phases of RFC 8899, section 5.2. Its ERROR has datagrams smaller than the base; here the base needs no
proof to be used, as what is no longer goes without the don't-fragment bit, and ERROR only means that nothing larger is
tried for a while: the peer may be one that answers no probes.

The search tries what Ethernet carries, then what jumbo frames carry, then the most that is wanted, which is what
loopback carries, and then halves what is left (section 5.3.2 leaves the order open). It begins when there is something
to send, and no probe is longer than all that was sent before it: who has little to say does not spend more on finding
out how to say it.
"""

from enum import Enum
from typing import NamedTuple

from triack.base.transitions import next_state
from triack.base.units import SECOND

__all__ = [
    "BLACK_HOLE_LOSSES",
    "ETHERNET_BYTES",
    "JUMBO_BYTES",
    "MAX_PROBES",
    "PROBE_NS",
    "RAISE_NS",
    "STEP_BYTES",
    "TRANSITIONS",
    "MtuEvent",
    "MtuState",
    "PathMtu",
    "SizeProbe",
]

MAX_PROBES = 3
"""Probes of one size without an answer until it counts as too large (RFC 8899, section 5.1.2)."""
PROBE_NS = SECOND
"""The wait for an answer to a probe, unless the round trip is longer: no less than a second (section 5.1.1), so that a
peer that is late for its turn is not taken for a path that carries nothing."""
RAISE_NS = 600 * SECOND
"""After so long a path that carries less than is wanted is searched again: PMTU_RAISE_TIMER (section 5.1.1)."""
ETHERNET_BYTES = 1_452
"""What 1,500 bytes of Ethernet leave beside the headers of IPv6 and UDP: most paths carry this, and few much more."""
JUMBO_FRAME_BYTES = 9_000
"""What nearly every network carries that carries more than Ethernet. Where no more is wanted, that is the only step."""
JUMBO_BYTES = 8_952
"""What such a frame leaves beside the headers of IPv6 and UDP. A path that carries no more is used well at once: to
find that out by halving what is left of 32,000 bytes takes ten seconds, in which three sizes are too large."""
STEP_BYTES = 16
"""The search ends when the largest that is carried is known so exactly: a hundredth of what Ethernet carries."""
BLACK_HOLE_LOSSES = 10
"""So many datagrams longer than the base lost, and none acknowledged, while others are: the path carries them no more
(RFC 8899, section 4.3). On a path that loses three of ten by chance that is once in 170,000 datagrams, and costs a
search."""


class MtuState(Enum):
    """How much is known of the path."""

    DISABLED = "disabled"
    """Nothing larger than the base is wanted, or nothing was sent yet."""
    BASE = "base"
    """Whether the peer answers probes is being asked, with one of the base's size."""
    SEARCHING = "searching"
    """Larger ones are tried."""
    SEARCH_COMPLETE = "search complete"
    """The largest is known."""
    ERROR = "error"
    """Not even a probe of the base's size was answered."""


class MtuEvent(Enum):
    """What happens."""

    WANTED = "wanted"
    """Something is to be sent, and larger datagrams would carry more of it."""
    CONFIRMED = "confirmed"
    """The probe of the base's size was answered."""
    NARROWED = "narrowed"
    """A probe was answered, or went unanswered ``MAX_PROBES`` times, and there is more to try."""
    FOUND = "found"
    """The same, and there is not."""
    UNANSWERED = "unanswered"
    """The base's probe went unanswered as often."""
    RAISE = "raise timer"
    """The path may carry more by now, and something is to be sent."""
    BLACK_HOLE = "black hole"
    """The path carries no datagrams longer than the base any more."""
    MOVED = "moved"
    """It is another path."""


TRANSITIONS: dict[MtuState, dict[MtuEvent, MtuState]] = {
    MtuState.DISABLED: {MtuEvent.WANTED: MtuState.BASE},
    MtuState.BASE: {
        MtuEvent.CONFIRMED: MtuState.SEARCHING,
        MtuEvent.UNANSWERED: MtuState.ERROR,
        MtuEvent.MOVED: MtuState.BASE,
    },
    MtuState.SEARCHING: {
        MtuEvent.NARROWED: MtuState.SEARCHING,
        MtuEvent.FOUND: MtuState.SEARCH_COMPLETE,
        MtuEvent.BLACK_HOLE: MtuState.BASE,
        MtuEvent.MOVED: MtuState.BASE,
    },
    MtuState.SEARCH_COMPLETE: {
        MtuEvent.RAISE: MtuState.SEARCHING,
        MtuEvent.BLACK_HOLE: MtuState.BASE,
        MtuEvent.MOVED: MtuState.BASE,
    },
    MtuState.ERROR: {MtuEvent.RAISE: MtuState.BASE, MtuEvent.MOVED: MtuState.BASE},
}
"""State, then what happens, then the next state. A disabled machine stays one however the path changes."""
_ASKING = frozenset({MtuState.BASE, MtuState.SEARCHING})
"""In these a probe is on its way, or due."""


class SizeProbe(NamedTuple):
    """A probe: its number on this path, and how long its datagram is."""

    number: int
    size_bytes: int


class PathMtu:
    """What one path carries.

    Args:
        base_bytes: what every path carries; in force until more is proved.
        ceiling_bytes: the most that either end wants.

    Attributes:
        state: how much is known.
        size_bytes: the largest datagram, in force.
        base_bytes: see above.
        due: the probe that is to leave as soon as enough was sent, or None.
    """

    __slots__ = (
        "_ceiling_bytes",
        "_lost",
        "_number",
        "_raise_at_ns",
        "_sent_bytes",
        "_sizes",
        "_tries",
        "_unproved_bytes",
        "base_bytes",
        "due",
        "size_bytes",
        "state",
    )

    def __init__(self, base_bytes: int, ceiling_bytes: int) -> None:
        self.state = MtuState.DISABLED
        self.size_bytes = self.base_bytes = min(base_bytes, ceiling_bytes)
        self.due: SizeProbe | None = None
        self._ceiling_bytes = ceiling_bytes
        self._unproved_bytes = ceiling_bytes
        self._number = 0
        self._sizes: dict[int, int] = {}
        self._tries = 0
        self._lost = 0
        self._raise_at_ns = 0
        self._sent_bytes = 0

    @property
    def is_saving(self) -> bool:
        """Whether too little was sent yet for some probe."""
        return self._sent_bytes < self._ceiling_bytes > self.base_bytes

    @property
    def is_asking(self) -> bool:
        """Whether an answer to a probe is awaited, or one is to leave."""
        return self.state in _ASKING

    @property
    def is_suspect(self) -> bool:
        """Whether datagrams longer than the base were lost, and none was acknowledged since."""
        return self._lost > 0

    # ---- what happens

    def handle_sending(self, size_bytes: int, now_ns: int) -> None:
        """Packets are on their way: it is worth while to know the path.

        Args:
            size_bytes: how long they are; 0 will do when nothing is saved for any more.
            now_ns: the clock.
        """
        self._sent_bytes += size_bytes
        if self._ceiling_bytes <= self.base_bytes:
            return
        if self.state is MtuState.DISABLED:
            self._begin(MtuEvent.WANTED)
        elif not self.is_asking and self.size_bytes < self._ceiling_bytes and now_ns >= self._raise_at_ns:
            self._move(MtuEvent.RAISE)
            self._unproved_bytes = self._ceiling_bytes
            self._sizes.clear()
            self._try(self.base_bytes if self.state is MtuState.BASE else self._untried_bytes)

    def handle_answer(self, number: int, now_ns: int) -> None:
        """The peer has got the probe with that number; one of another path, or of before, says nothing."""
        size_bytes = self._sizes.pop(number, 0)
        if self.state is MtuState.BASE and size_bytes:
            self._move(MtuEvent.CONFIRMED)
            self._try(min(ETHERNET_BYTES, self._ceiling_bytes))
        elif self.state is MtuState.SEARCHING and size_bytes > self.size_bytes:
            # An answer may be late, and to a larger one than is tried by now.
            self.size_bytes = size_bytes
            self._unproved_bytes = max(self._unproved_bytes, size_bytes)
            self._lost = 0
            self._narrow(now_ns)

    def handle_timer(self, now_ns: int) -> None:
        """The probe that left last has not been answered in time."""
        size_bytes = self._sizes.get(self._number, 0)
        if not self.is_asking or self.due is not None or not size_bytes:
            return
        if self._tries < MAX_PROBES:
            self._ask(size_bytes)
        elif self.state is MtuState.BASE:
            self._move(MtuEvent.UNANSWERED)
            self._raise_at_ns = now_ns + RAISE_NS
        else:
            self._unproved_bytes = size_bytes - 1
            self._narrow(now_ns)

    def handle_acked(self, size_bytes: int) -> None:
        """A packet of that size came over the path, in one datagram."""
        if size_bytes > self.base_bytes:
            self._lost = 0

    def handle_lost(self, size_bytes: int) -> None:
        """One was lost, and something that was sent later was not."""
        if not self.base_bytes < size_bytes <= self.size_bytes:
            return
        self._lost += 1
        if self._lost >= BLACK_HOLE_LOSSES:
            self.handle_silence()

    def handle_silence(self) -> None:
        """Nothing was acknowledged however often it was asked for; what is larger than the base may be why."""
        if self.size_bytes > self.base_bytes:
            self._begin(MtuEvent.BLACK_HOLE)

    def handle_moved(self) -> None:
        """The peer is somewhere else: what was known of the path is void."""
        if self.state is not MtuState.DISABLED:
            self._begin(MtuEvent.MOVED)

    def poll_probe(self) -> SizeProbe | None:
        """The probe that leaves now, or None."""
        due = self.due
        if due is None or due.size_bytes > self._sent_bytes:
            return None
        self.due = None
        return due

    # ---- what follows

    def _move(self, event: MtuEvent) -> None:
        self.state = next_state(TRANSITIONS, self.state, event)

    def _begin(self, event: MtuEvent) -> None:
        """Ask from the base on; answers to earlier probes say nothing any more."""
        self._move(event)
        self.size_bytes = self.base_bytes
        self._unproved_bytes = self._ceiling_bytes
        self._lost = 0
        self._sizes.clear()
        self._try(self.base_bytes)

    def _narrow(self, now_ns: int) -> None:
        """Try the next size, if there is one between what is proved and what may still be."""
        left_bytes = self._unproved_bytes - self.size_bytes
        if left_bytes < STEP_BYTES:
            self._move(MtuEvent.FOUND)
            self.due = None
            self._raise_at_ns = now_ns + RAISE_NS
            return
        self._move(MtuEvent.NARROWED)
        if self._unproved_bytes == self._ceiling_bytes:
            self._try(self._untried_bytes)
        else:
            self._try(self.size_bytes + -(-left_bytes // 2))

    @property
    def _untried_bytes(self) -> int:
        """What is tried next as long as nothing was too large."""
        has_jumbo = self.size_bytes < JUMBO_BYTES and self._ceiling_bytes > JUMBO_FRAME_BYTES
        return JUMBO_BYTES if has_jumbo else self._ceiling_bytes

    def _try(self, size_bytes: int) -> None:
        self._tries = 0
        self._ask(size_bytes)

    def _ask(self, size_bytes: int) -> None:
        self._tries += 1
        self._number += 1
        self._sizes[self._number] = size_bytes
        self.due = SizeProbe(self._number, size_bytes)
