"""The largest datagram that the path to the peer carries: datagram packetization layer path MTU discovery (RFC 8899).

Promise: this path has carried a datagram of the size in force in one piece, or that size is the base, which every path
carries. It grows when a probe of that size was answered, and falls back to the base when the path no longer carries
such datagrams. A lost probe is no sign of congestion and is not retransmitted: it is padding, with no content.

    DISABLED --wanted--> BASE --confirmed--> SEARCHING --narrowed--> SEARCHING --found--> SEARCH_COMPLETE
    BASE --unanswered--> ERROR --raise timer--> BASE
    SEARCH_COMPLETE --raise timer--> SEARCHING
    SEARCHING or SEARCH_COMPLETE --black hole--> BASE
    any but DISABLED --moved--> BASE

These are the phases of RFC 8899, section 5.2. In its ERROR datagrams are smaller than the base. Here the base is used
without proof, as datagrams up to that size leave without the don't-fragment bit; ERROR only means that nothing larger
is tried for a while, as the peer may answer no probes.

The search tries the size of Ethernet, then that of jumbo frames, then the largest wanted, which loopback carries. Then
it halves the remaining range (section 5.3.2 leaves the order open). It begins when there is something to send, and no
probe is longer than all that was sent before it: a node with little to send does not spend more on probes.
"""

from enum import Enum
from typing import NamedTuple

from triack.base.transitions import next_state
from triack.base.units import SECOND

MAX_PROBES = 3
"""Probes of one size without an answer until it counts as too large (RFC 8899, section 5.1.2)."""
PROBE_NS = SECOND
"""The wait for an answer to a probe, unless the round trip is longer: no less than a second (section 5.1.1), so that a
peer that is late for its turn is not taken for a path that carries nothing."""
RAISE_NS = 600 * SECOND
"""A path that carries less than is wanted is searched again after this time: PMTU_RAISE_TIMER (section 5.1.1)."""
ETHERNET_BYTES = 1_452
"""1,500 bytes of Ethernet less the headers of IPv6 and UDP: most paths carry this, and few much more."""
JUMBO_FRAME_BYTES = 9_000
"""Nearly every network above Ethernet's size carries this. If the ceiling is no larger, it is tried directly."""
JUMBO_BYTES = 8_952
"""Such a frame less the headers of IPv6 and UDP. A path that carries no more is used well at once: halving the range up
to 32,000 bytes would take ten seconds, with three sizes that are too large."""
STEP_BYTES = 16
"""The search ends when the largest size is known to this precision: a hundredth of Ethernet's."""
BLACK_HOLE_LOSSES = 10
"""When this many datagrams longer than the base were lost and none acknowledged, while others are, the path no longer
carries them (RFC 8899, section 4.3). If three in ten are lost by chance, that occurs once in 170,000 datagrams, and
costs a search."""


class MtuState(Enum):
    """How much is known of the path."""

    DISABLED = "disabled"
    """Nothing larger than the base is wanted, or nothing was sent yet."""
    BASE = "base"
    """A probe of the base's size checks whether the peer answers probes."""
    SEARCHING = "searching"
    """Larger sizes are tried."""
    SEARCH_COMPLETE = "search complete"
    """The largest is known."""
    ERROR = "error"
    """Not even a probe of the base's size was answered."""


class MtuEvent(Enum):
    """The events of the search."""

    WANTED = "wanted"
    """Something is to be sent, and larger datagrams would carry more of it."""
    CONFIRMED = "confirmed"
    """The probe of the base's size was answered."""
    NARROWED = "narrowed"
    """A probe was answered, or went unanswered ``MAX_PROBES`` times, and there is more to try."""
    FOUND = "found"
    """The same, and there is nothing more to try."""
    UNANSWERED = "unanswered"
    """The base's probe went unanswered as often."""
    RAISE = "raise timer"
    """The path may carry more by now, and something is to be sent."""
    BLACK_HOLE = "black hole"
    """The path no longer carries datagrams longer than the base."""
    MOVED = "moved"
    """The peer is on another path."""


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
"""The next state by state and event. A disabled machine stays disabled however the path changes."""
NOT_DUE = 1 << 62
"""More than is ever sent."""
_ASKING = (MtuState.BASE, MtuState.SEARCHING)
"""In these states a probe is in flight or due."""


class SizeProbe(NamedTuple):
    """A probe: its number on this path, and how long its datagram is."""

    number: int
    size_bytes: int


class PathMtu:
    """The search on one path.

    Args:
        base_bytes: what every path carries; in force until a larger size is proved.
        ceiling_bytes: the most that either end wants.

    Attributes:
        size_bytes: the largest datagram in force.
        due: the probe that leaves as soon as enough was sent, or None.
        due_bytes: how much that is; ``NOT_DUE`` for None.
        sent_bytes: how much was sent, counted up to ``worth_bytes``.
        worth_bytes: how much must be sent before the largest probe leaves; 0 if there is nothing to search.
    """

    __slots__ = (
        "_ceiling_bytes",
        "_lost",
        "_number",
        "_raise_at_ns",
        "_sizes",
        "_tries",
        "_unproved_bytes",
        "base_bytes",
        "due",
        "due_bytes",
        "sent_bytes",
        "size_bytes",
        "state",
        "worth_bytes",
    )

    def __init__(self, base_bytes: int, ceiling_bytes: int) -> None:
        self.state = MtuState.DISABLED
        self.size_bytes = self.base_bytes = min(base_bytes, ceiling_bytes)
        self.due: SizeProbe | None = None
        self.due_bytes = NOT_DUE
        self._ceiling_bytes = ceiling_bytes
        self._unproved_bytes = ceiling_bytes
        self._number = 0
        self._sizes: dict[int, int] = {}
        self._tries = 0
        self._lost = 0
        self._raise_at_ns = 0
        self.sent_bytes = 0
        self.worth_bytes = ceiling_bytes if ceiling_bytes > base_bytes else 0

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
        """Packets leave, so the path is worth probing.

        Args:
            size_bytes: of the packets; may be 0 once ``worth_bytes`` were sent.
            now_ns: the clock.
        """
        self.sent_bytes += size_bytes
        if not self.worth_bytes:
            return
        if self.state is MtuState.DISABLED:
            self._begin(MtuEvent.WANTED)
        elif self.state not in _ASKING and self.size_bytes < self._ceiling_bytes and now_ns >= self._raise_at_ns:
            self._move(MtuEvent.RAISE)
            self._unproved_bytes = self._ceiling_bytes
            self._sizes.clear()
            self._try(self.base_bytes if self.state is MtuState.BASE else self._untried_bytes)

    def handle_answer(self, number: int, now_ns: int) -> None:
        """The peer has got the probe with that number; one of another path, or of an earlier search, is ignored."""
        size_bytes = self._sizes.pop(number, 0)
        if self.state is MtuState.BASE and size_bytes:
            self._move(MtuEvent.CONFIRMED)
            self._try(min(ETHERNET_BYTES, self._ceiling_bytes))
        elif self.state is MtuState.SEARCHING and size_bytes > self.size_bytes:
            # A late answer may be to a larger probe than the one tried now.
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
        """The path has carried a packet of that size in one datagram."""
        if size_bytes > self.base_bytes:
            self._lost = 0

    def handle_lost(self, size_bytes: int) -> None:
        """A packet of that size was lost, while a later one arrived."""
        if not self.base_bytes < size_bytes <= self.size_bytes:
            return
        self._lost += 1
        if self._lost >= BLACK_HOLE_LOSSES:
            self.handle_silence()

    def handle_silence(self) -> None:
        """Probing for acks got none; perhaps the path drops datagrams larger than the base."""
        if self.size_bytes > self.base_bytes:
            self._begin(MtuEvent.BLACK_HOLE)

    def handle_moved(self) -> None:
        """The peer is at another address: what was known of the path is void."""
        if self.state is not MtuState.DISABLED:
            self._begin(MtuEvent.MOVED)

    def poll_probe(self) -> SizeProbe | None:
        """The probe that leaves now, or None."""
        due = self.due
        if due is None or self.due_bytes > self.sent_bytes:
            return None
        self._set_due(None)
        return due

    # ---- what follows

    def _move(self, event: MtuEvent) -> None:
        self.state = next_state(TRANSITIONS, self.state, event)

    def _begin(self, event: MtuEvent) -> None:
        """Search again from the base on; answers to earlier probes no longer count."""
        self._move(event)
        self.size_bytes = self.base_bytes
        self._unproved_bytes = self._ceiling_bytes
        self._lost = 0
        self._sizes.clear()
        self._try(self.base_bytes)

    def _narrow(self, now_ns: int) -> None:
        """Try the next size, if there is one between the size proved and the largest still possible."""
        left_bytes = self._unproved_bytes - self.size_bytes
        if left_bytes < STEP_BYTES:
            self._move(MtuEvent.FOUND)
            self._set_due(None)
            self._raise_at_ns = now_ns + RAISE_NS
            return
        self._move(MtuEvent.NARROWED)
        if self._unproved_bytes == self._ceiling_bytes:
            self._try(self._untried_bytes)
        else:
            self._try(self.size_bytes + -(-left_bytes // 2))

    @property
    def _untried_bytes(self) -> int:
        """The next size to try as long as none was too large."""
        has_jumbo = self.size_bytes < JUMBO_BYTES and self._ceiling_bytes > JUMBO_FRAME_BYTES
        return JUMBO_BYTES if has_jumbo else self._ceiling_bytes

    def _try(self, size_bytes: int) -> None:
        self._tries = 0
        self._ask(size_bytes)

    def _ask(self, size_bytes: int) -> None:
        self._tries += 1
        self._number += 1
        self._sizes[self._number] = size_bytes
        self._set_due(SizeProbe(self._number, size_bytes))

    def _set_due(self, probe: SizeProbe | None) -> None:
        self.due, self.due_bytes = probe, NOT_DUE if probe is None else probe.size_bytes
