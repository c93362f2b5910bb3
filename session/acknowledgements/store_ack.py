"""The receiving half of the store acknowledgement: which packets are on our disk, and when to say so.

Promise: a number is in a store ack only after the commit that holds its packet has returned, and leaves then no later
than its terms say (``base.ack_debt``). The caller reports commits with ``handle_stored``; nothing else adds a number.

A request that arrives during the write is answered when the write completes. Express packets are never written: they
are counted with ``handle_not_durable``, so that the cumulative number can pass them; the peer awaits no store ack.
"""

from triack.base.ack_debt import AckDebt
from triack.base.ack_trigger import AckTerms
from triack.base.ranges import NumberSet, as_ranges
from triack.session.protocol.frames import PacketRun


class StoreAck:
    """Tracks what one direction of one session has on disk.

    Attributes:
        stored: the packets that are on our disk, or never will be.
    """

    __slots__ = ("_asked", "_highest", "_sizes", "debt", "stored")

    def __init__(self, terms: AckTerms) -> None:
        self.debt = AckDebt(terms)
        self.stored = NumberSet()
        self._sizes: dict[int, int] = {}
        self._asked = 0
        self._highest = 0

    def handle_packet(self, number: int, size_bytes: int, *, ack_requested: bool) -> None:
        """A durable packet arrived; a commit will hold it."""
        self._sizes[number] = size_bytes
        if number > self._highest:
            self._highest = number
        if ack_requested and number > self._asked:
            self._asked = number

    def handle_run(self, run: PacketRun) -> None:
        """The same for packets that follow each other."""
        numbers = range(run.number, run.number + len(run.contents))
        self._highest = max(self._highest, numbers[-1])
        self._sizes.update(zip(numbers, map(len, run.contents), strict=True))
        if run.ack_requested:
            self._asked = max(self._asked, run.ack_requested[-1])

    def handle_stored(self, numbers: list[int], now_ns: int) -> None:
        """The commit that holds these packets has returned."""
        for first, last in as_ranges(numbers):
            self.stored.add_run(first, last)
        size_bytes, sizes = 0, self._sizes
        for number in numbers:
            if number in sizes:
                size_bytes += sizes[number]
                del sizes[number]
        # A packet that asks for the ack asks for those before it, too.
        self.debt.add(len(numbers), size_bytes, now_ns, ack_requested=min(numbers) <= self._asked)

    def handle_run_not_durable(self, run: PacketRun) -> None:
        """No commit will ever hold any of these packets, which came for the first time."""
        self.stored.add_run(run.number, run.number + len(run.contents) - 1)

    def handle_not_durable(self, number: int) -> None:
        """No commit will ever hold this packet: pass its number without owing an ack."""
        self.stored.add(number)
        self._sizes.pop(number, None)

    def handle_request(self) -> None:
        """The peer asked: repeat the store ack, in case the last one was lost, and ack pending writes at once."""
        if self._sizes:
            self._asked = max(self._asked, self._highest)
        if self.stored.highest:
            self.debt.handle_request()
