"""The receiving half of the session acknowledgement: which packets arrived, and when to say so.

Promise: every packet that arrived is covered by the next ack, and that ack leaves no later than its terms say
(``base.ack_debt``).

It knows nothing of disks or of order; those are the other two acknowledgements.
"""

from triack.base.ack_debt import AckDebt
from triack.base.ack_trigger import AckTerms
from triack.base.ranges import NumberSet
from triack.session.frames import PacketRun

__all__ = ["SessionAck"]


class SessionAck:
    """Tracks arrivals of one direction of one session.

    Args:
        terms: when the ack is due.
        span: how far above the cumulative number a packet may be; bounds what a peer can make us remember.

    Attributes:
        debt: what is owed.
        received: the packets that arrived.
        newest_counter: of the newest datagram that brought a packet.
        newest_at_ns: when it came.
    """

    __slots__ = ("_span", "debt", "newest_at_ns", "newest_counter", "received")

    def __init__(self, terms: AckTerms, span: int) -> None:
        self._span = span
        self.debt = AckDebt(terms)
        self.received = NumberSet()
        self.newest_counter = 0
        self.newest_at_ns = 0

    def in_reach(self, number: int) -> bool:
        """Whether a correct sender could send this number now."""
        return number <= self.received.cumulative + self._span

    def handle_packet(self, number: int, size_bytes: int, *, counter: int, asks: bool, now_ns: int) -> bool:
        """Count a packet that datagram ``counter`` brought. Returns False when this session had it already."""
        received = self.received
        if counter > self.newest_counter:
            self.newest_counter = counter
            self.newest_at_ns = now_ns
        expected = received.highest + 1
        if not received.add(number):
            self.debt.handle_duplicate(now_ns)
            return False
        self.debt.add(1, size_bytes, now_ns, asks=asks, gap=number != expected)
        return True

    def handle_run(self, run: PacketRun, *, counter: int, now_ns: int) -> None:
        """Count packets that follow what came before them, as ``handle_packet`` would one by one.

        ``counter`` is that of the newest datagram that brought one of them.
        """
        if counter > self.newest_counter:
            self.newest_counter = counter
            self.newest_at_ns = now_ns
        packets = len(run.contents)
        self.received.add_run(run.number, run.number + packets - 1)
        self.debt.add(packets, run.size_bytes, now_ns, asks=bool(run.asks))

    @property
    def reach(self) -> int:
        """How many packets behind all that came a correct sender could send now."""
        return self.received.cumulative + self._span - self.received.highest

    def normalize(self) -> None:
        """For searches, which keep no session log."""
        self.debt.normalize()
