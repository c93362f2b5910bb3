"""When a node's store acks for the packets of a stream leave: at the latest the agreed delay after their commit.

The debt begins when the commit returns (``session/acknowledgements/store_ack.py``); enough packets or bytes on the disk
make it due at once. Only what arrived in one session is judged, as a packet that came in two may be acknowledged in
either. A record gives the bytes of all its packets together: they count when one commit holds them all.
"""

from __future__ import annotations

from collections import defaultdict

from triack.base.printable import counted
from triack.base.units import MS
from triack.tools.replay.checks.findings import EVER, LATE_NS, Due, LaneReporter, Output, Record, allowed, awake
from triack.tools.replay.log.ranges import RangeSet, Span, size
from triack.tools.replay.log.schema import EXPRESS

RUNS_MAX = 4_096
"""Records whose bytes a debt knows until they are committed; rejected packets never are."""


class Debt:
    """What a node owes in one session.

    Attributes:
        delay_ns, threshold, most_bytes: the policy in force; a limit of 0 is none.
        arrived: by sequence, what came and is not committed.
        first: the first commit that no store ack has followed; ``packets``: how many packets the debt holds;
            ``size_bytes``: how many bytes at least.
        due_ns: when a store ack of it must leave.
    """

    def __init__(self, delay_ns: int, threshold: int, most_bytes: int) -> None:
        self.delay_ns = delay_ns
        self.threshold = threshold
        self.most_bytes = most_bytes
        self.arrived: defaultdict[int, RangeSet] = defaultdict(RangeSet)
        # By sequence, first and last number of what one record brought, and its bytes.
        self._runs: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
        self.clear()

    def clear(self) -> None:
        """Nothing is owed."""
        self.first: Record | None = None
        self.packets = 0
        self.size_bytes = 0
        self.due_ns = 0

    def bring(self, record: Record) -> None:
        """A record brought packets, all of them for the first time: this is what they hold."""
        if self.most_bytes:
            runs, first = self._runs[record["sequence"]], record["number"]
            runs.append((first, first + record["packets"] - 1, record["size"]))
            del runs[:-RUNS_MAX]

    def commit(self, record: Record) -> None:
        """Packets are on disk, some of them perhaps those that are waited for."""
        taken = self.arrived[record["sequence"]].take(record["first"], record["last"])
        if not taken:
            return
        if self.first is None:
            self.first = record
            self.due_ns = record["at_ns"] + self.delay_ns
        self.packets += size(taken)
        if self.most_bytes:
            self.size_bytes += self._weigh(record["sequence"], taken)
        reached = (self.threshold and self.packets >= self.threshold) or (
            self.most_bytes and self.size_bytes >= self.most_bytes
        )
        if reached:
            self.due_ns = min(self.due_ns, record["at_ns"])

    def _weigh(self, sequence: int, taken: list[Span]) -> int:
        """The bytes of the records all of whose packets are among these; the bytes of a part are unknown."""
        begin, end = taken[0][0], taken[-1][1]
        touched = [run for run in self._runs[sequence] if run[0] <= end and run[1] >= begin]
        self._runs[sequence] = [run for run in self._runs[sequence] if run[0] > end or run[1] < begin]
        return sum(run[2] for run in touched if any(low <= run[0] and run[1] <= high for low, high in taken))


class StoreAcks(LaneReporter):
    """Judges the store acks of one node for one stream."""

    def __init__(self, origin: str, stream: int, out: Output) -> None:
        super().__init__(origin, stream, out)
        # By session.
        self._debts: dict[str, Debt] = {}
        # What the last record brought in a session that is still unknown: sequence, first and last.
        self._unclaimed: list[tuple[int, int, int]] = []
        self._unclaimed_run: Record | None = None

    def handle_started(self) -> None:
        """A new start of the node has no sessions."""
        self.finish()
        self._debts.clear()

    def handle_taking(self, record: Record) -> None:
        """A session carries the stream, from the last record on."""
        terms = record["delay_ns"], record["threshold"], record["most_bytes"]
        debt = self._debts.setdefault(record["session"], Debt(*terms))
        for sequence, first, last in self._unclaimed:
            debt.arrived[sequence].add(first, last)
        if self._unclaimed_run is not None:
            debt.bring(self._unclaimed_run)
        self.handle_record()

    def handle_taken(self, record: Record) -> None:
        """A session carries the stream no longer, or its acks cannot be attributed any more."""
        debt = self._debts.pop(record["session"], None)
        if debt is not None and record["closed"]:
            self._judge(debt, record, "none before the end of the session, after")

    def handle_record(self) -> None:
        """Another record follows."""
        self._unclaimed.clear()
        self._unclaimed_run = None

    def handle_run(self, record: Record) -> None:
        """All that a record brought came for the first time."""
        debt = self._debts.get(record["session"])
        if debt is None:
            self._unclaimed_run = record
        else:
            debt.bring(record)

    def handle_arrived(self, record: Record, first: int, last: int, known: list[Span]) -> None:
        """Packets arrived, some of which had done so before."""
        debt, sequence = self._debts.get(record["session"]), record["sequence"]
        for other in self._debts.values():
            # A copy that came in another session before may have been refused.
            other.arrived[sequence].cut(known if other is debt else [(first, last)])
        if known or record["class"] == EXPRESS:
            return
        if debt is None:
            self._unclaimed.append((sequence, first, last))
        else:
            debt.arrived[sequence].add(first, last)

    def handle_refused(self, sequence: int, number: int) -> None:
        """A packet was refused for good: the commit that passes it over comes when those before it are there."""
        for debt in self._debts.values():
            debt.arrived[sequence].take(number, number)

    def handle_committed(self, record: Record) -> None:
        """Packets are on disk."""
        for debt in self._debts.values():
            debt.commit(record)

    def handle_store_acked(self, record: Record) -> None:
        """A store ack left: it covers whatever is on disk."""
        debt = self._debts.get(record["session"])
        if debt is not None:
            self._judge(debt, record, "after")
            debt.clear()

    def _judge(self, debt: Debt, record: Record, what: str) -> None:
        if debt.first is not None and record["at_ns"] > debt.due_ns + LATE_NS:
            evidence = f"{what} {(record['at_ns'] - debt.first['at_ns']) // MS} ms"
            self._report(debt, evidence, record["session"], record["at_ns"])

    def _report(self, debt: Debt, what: str, session: str, until_ns: int, *dues: Due) -> None:
        assert debt.first is not None
        dues = *dues, awake(debt.first, debt.first["at_ns"], debt.due_ns + LATE_NS, until_ns)
        limit = allowed(debt.due_ns - debt.first["at_ns"])
        evidence = f"store ack of {counted(debt.packets, 'packet')} {what}, {limit}"
        first, where = debt.first, {"session": session, "number": debt.first["first"]}
        self._at(first, "store_ack_late", evidence, *dues, **where)

    def finish(self) -> None:
        """Judge what is owed when the record ends; more of it may follow."""
        for session, debt in self._debts.items():
            if debt.first is not None:
                start = debt.first["node"], debt.first["incarnation"]
                self._report(debt, "never", session, EVER, Due("log", *start, end_ns=debt.due_ns + LATE_NS))
