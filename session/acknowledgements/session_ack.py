"""The receiving half of the session acknowledgement: which packets arrived, and when to say so.

Promise: every packet that arrived is covered by the next ack, and that ack leaves no later than its terms say
(``base.ack_debt``). A session ack may be all that a sender learns of a message. So every ack that covers a refused
packet names it as refused until its sender has the rejection: a lost or late datagram never makes it look delivered.

Disks and order are the business of the other two acknowledgements.
"""

from collections.abc import Collection

from triack.base.ack_debt import AckDebt
from triack.base.ack_trigger import AckTerms
from triack.base.ranges import NumberSet, Range, as_ranges
from triack.base.units import MS
from triack.session.protocol.frames import REFUSED_RANGES_MAX, Ask, PacketRun

PATIENCE_NS = 5 * MS
"""How long a requested session ack waits for the store ack of the same packet, which saves a datagram: a few commits of
a fast disk, and a small delay for a sender whose packet was lost."""
WITHHELD_MAX = 4_096
"""Refused packets that acks name until their sender has the rejections: as many as any useful window has in flight.
Beyond that, acks cover a refused packet without naming it."""

_NONE: set[int] = set()
"""Shared by all sessions without refused packets, and never changed: an empty set takes 216 bytes."""


class SessionAck:
    """Tracks arrivals of one direction of one session.

    Args:
        terms: when the ack is due.
        span: how far above the cumulative number a packet may be; bounds what a peer can make us remember.
    """

    __slots__ = ("_refused", "_told", "debt", "newest_at_ns", "newest_counter", "received", "span")

    def __init__(self, terms: AckTerms, span: int) -> None:
        self.span = span
        self._refused = _NONE
        self._told: list[Range] | None = None
        self.debt = AckDebt(terms)
        self.received = NumberSet()
        self.newest_counter = 0
        self.newest_at_ns = 0

    def in_reach(self, number: int) -> bool:
        """Whether a correct sender could send this number now."""
        return number <= self.received.cumulative + self.span

    def handle_packet(self, number: int, size_bytes: int, *, counter: int, ack_requested: int, now_ns: int) -> bool:
        """Count a packet that datagram ``counter`` brought. Returns False when this session had it already."""
        received = self.received
        if counter > self.newest_counter:
            self.newest_counter = counter
            self.newest_at_ns = now_ns
        expected = received.highest + 1
        if not received.add(number):
            self.debt.handle_duplicate(now_ns)
            return False
        self._add(1, size_bytes, now_ns, ack_requested, gap=number != expected)
        return True

    def handle_run(self, run: PacketRun, *, ack_requested: int, counter: int, now_ns: int) -> None:
        """Count packets that follow all earlier ones, as ``handle_packet`` would one by one.

        ``counter`` is that of the newest datagram that brought one of them.
        """
        if counter > self.newest_counter:
            self.newest_counter = counter
            self.newest_at_ns = now_ns
        packets = len(run.contents)
        self.received.add_run(run.number, run.number + packets - 1)
        self._add(packets, run.size_bytes, now_ns, ack_requested)

    def _add(self, packets: int, size_bytes: int, now_ns: int, ack_requested: int, *, gap: bool = False) -> None:
        by_ns = now_ns + PATIENCE_NS if ack_requested == Ask.WITH_STORE else None
        self.debt.add(
            packets, size_bytes, now_ns, ack_requested=ack_requested == Ask.AT_ONCE, gap=gap, asked_by_ns=by_ns
        )

    def handle_refused(self, number: int) -> None:
        """A packet that has just arrived is refused, and its rejection follows."""
        self._told = None
        if not self._refused:
            self._refused = {number}
        elif len(self._refused) < WITHHELD_MAX:
            self._refused.add(number)

    def handle_rejections_known(self, numbers: Collection[int]) -> None:
        """Their sender has the rejections."""
        settled = self._refused.intersection(numbers) if self._refused else _NONE
        if not settled:
            return
        if len(self._refused_ranges) > REFUSED_RANGES_MAX:
            # Now there is room for ranges that the last ack had to leave out.
            self.debt.handle_request()
        self._refused = self._refused - settled or _NONE
        self._told = None

    def handle_unanswered(self, number: int) -> None:
        """No rejection will follow, for want of room: the ack is all that the sender gets."""
        if number in self._refused:
            self._refused.discard(number)
            self._told = None
            self.debt.handle_request()

    @property
    def _refused_ranges(self) -> list[Range]:
        """The refused packets; sorted only after changes, as a peer may ask for an ack at any time."""
        if self._told is None:
            self._told = as_ranges(sorted(self._refused))
        return self._told

    @property
    def told(self) -> tuple[NumberSet, list[Range]]:
        """The packets that an ack may cover now, and the refused ones among them."""
        if not self._refused:
            return self.received, []
        refused = self._refused_ranges
        if len(refused) <= REFUSED_RANGES_MAX:
            return self.received, refused
        return self.received.below(refused[REFUSED_RANGES_MAX][0]), refused[:REFUSED_RANGES_MAX]
