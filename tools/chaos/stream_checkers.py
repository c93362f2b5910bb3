"""Checkers of what happens to streams, whatever sessions carry them: queue to disk to application.

Sets of single numbers and nothing cleverer, so that what they find needs no proof of its own.
"""

from collections import defaultdict

from triack.tools.chaos.checker import Checker, Record, Report, Stream, stream_of
from triack.tools.replay.schema import EXPRESS, RECOVERABLE, TRANSACTIONAL, Violation

__all__ = ["STREAM_CHECKERS", "Delivered", "OrderAcks", "Prefix", "Serials", "TotalQueue"]


class Serials(Checker):
    """The serial numbers of each incarnation's records are 1, 2, 3, ..."""

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self._last: dict[tuple[str, int], int] = {}

    def on_record(self, record: Record) -> None:
        life = (record["node"], record["incarnation"])
        n, before = record["n"], self._last.get(life, 0)
        if n != before + 1:
            self.report(Violation("log_gap", life[0], number=n, evidence=f"record {n} follows record {before}"))
        self._last[life] = n


class Prefix(Checker):
    """What a destination commits of a transactional stream is, at every instant, a prefix of what was queued.

    A commit behind an earlier one breaks ``order``; one that leaves out a packet that is queued and wanted, ``gaps``.
    """

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self._queued: defaultdict[Stream, set[int]] = defaultdict(set)
        self._removed: defaultdict[Stream, set[int]] = defaultdict(set)
        # (node, origin, lane) -> sequence and number of the last packet on disk; and the same within each sequence.
        self._reached: dict[tuple[str, str, int], tuple[int, int]] = {}
        self._top: dict[tuple[str, Stream], int] = {}
        self._leaps: list[tuple[str, Stream, int, int]] = []

    def on_queued(self, record: Record) -> None:
        if record["class"] != EXPRESS:
            self._queued[stream_of(record)].update(range(record["first"], record["last"] + 1))

    def on_removed(self, record: Record) -> None:
        if record["class"] != EXPRESS:
            self._removed[stream_of(record)].update(range(record["first"], record["last"] + 1))

    def on_position_recovered(self, record: Record) -> None:
        if record["class"] == TRANSACTIONAL:
            self._reach(record, record["number"])

    def on_committed(self, record: Record) -> None:
        if record["class"] != TRANSACTIONAL:
            return
        node, stream, first = record["node"], stream_of(record), record["first"]
        sequence, number = self._reached.get((node, *stream[:2]), (0, 0))
        if (stream[2], first) <= (sequence, number):
            evidence = f"committed {first} of sequence {stream[2]} after {number} of sequence {sequence}"
            self.report(Violation("order", node, "", *stream, first, evidence))
        self._leaps.append((node, stream, self._top.get((node, stream), 0), first))
        self._reach(record, record["last"])

    def _reach(self, record: Record, number: int) -> None:
        node, stream = record["node"], stream_of(record)
        lane = (node, *stream[:2])
        self._reached[lane] = max(self._reached.get(lane, (0, 0)), (stream[2], number))
        self._top[(node, stream)] = max(self._top.get((node, stream), 0), number)

    def finish(self) -> None:
        for node, stream, top, first in self._leaps:
            wanted = self._queued[stream]
            skipped = [n for n in range(top + 1, first) if n in wanted and n not in self._removed[stream]]
            if skipped:
                evidence = f"committed {first}, which leaves out {skipped[0]}"
                self.report(Violation("gaps", node, "", *stream, first, evidence))


class Delivered(Checker):
    """No durable packet is committed twice by a node; its messages are handed out once, in order, or marked."""

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self._committed: defaultdict[tuple[str, Stream], set[int]] = defaultdict(set)
        self._handed: defaultdict[tuple[str, Stream, int], set[int]] = defaultdict(set)
        self._last: dict[tuple[str, str, str, int], tuple[int, int, int]] = {}

    def on_committed(self, record: Record) -> None:
        if record["class"] == EXPRESS:
            return
        node, stream = record["node"], stream_of(record)
        seen = self._committed[(node, stream)]
        for number in range(record["first"], record["last"] + 1):
            if number in seen:
                self.report(Violation("duplicates_delivered", node, "", *stream, number, "committed again"))
            seen.add(number)

    def on_handed(self, record: Record) -> None:
        if record["class"] == EXPRESS:
            return
        node, stream, number = record["node"], stream_of(record), record["number"]
        indices = range(record["first"], record["last"] + 1)
        seen = self._handed[(node, stream, number)]
        if not record["redelivered"]:
            if not seen.isdisjoint(indices):
                self.report(Violation("duplicates_delivered", node, "", *stream, number, "handed out again unmarked"))
            seen.update(indices)
        if record["class"] == TRANSACTIONAL:
            place = (node, record["queue"], *stream[:2])
            begin, end = (stream[2], number, record["first"]), (stream[2], number, record["last"])
            last = self._last.get(place, (0, 0, 0))
            if not record["redelivered"] and begin <= last:
                self.report(Violation("order", node, "", *stream, number, f"handed out {begin} after {last}"))
            self._last[place] = max(last, end)


class TotalQueue(Checker):
    """What an origin had queued and forgot because it was acknowledged is on the disk of a destination."""

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self._transactional: set[Stream] = set()
        self._queued: defaultdict[Stream, set[int]] = defaultdict(set)
        self._removed: defaultdict[Stream, set[int]] = defaultdict(set)
        self._on_disk: defaultdict[Stream, set[int]] = defaultdict(set)
        self._carried: dict[tuple[str, str, int], tuple[str, Stream, int]] = {}
        self._order_acked: dict[Stream, int] = {}
        self._store_acked: set[tuple[str, str, int]] = set()
        self._forwarded: set[tuple[str, int]] = set()

    def on_queued(self, record: Record) -> None:
        if record["class"] != EXPRESS:
            self._classify(record)
            self._queued[stream_of(record)].update(range(record["first"], record["last"] + 1))

    def on_removed(self, record: Record) -> None:
        if record["class"] != EXPRESS:
            self._classify(record)
            self._removed[stream_of(record)].update(range(record["first"], record["last"] + 1))

    def on_committed(self, record: Record) -> None:
        if record["class"] != EXPRESS:
            self._classify(record)
            self._on_disk[stream_of(record)].update(range(record["first"], record["last"] + 1))

    def _classify(self, record: Record) -> None:
        """A stream is transactional if anything durable that is said of it says so."""
        if record["class"] == TRANSACTIONAL:
            self._transactional.add(stream_of(record))

    def on_position_recovered(self, record: Record) -> None:
        self._classify(record)
        on_disk = self._on_disk[stream_of(record)]
        if record["class"] == TRANSACTIONAL:
            on_disk.update(range(1, record["number"] + 1))
        else:
            for first, last in record["ranges"]:
                on_disk.update(range(first, last + 1))

    def on_order_ack_received(self, record: Record) -> None:
        if record["node"] == record["origin"]:
            stream = stream_of(record)
            self._order_acked[stream] = max(self._order_acked.get(stream, 0), record["number"])

    def on_packet_sent(self, record: Record) -> None:
        if record.get("lane") is None:
            return
        if record["node"] != record["origin"]:
            self._forwarded.add((record["origin"], record["lane"]))
        # A resend inside a session carries what the packet carried first.
        key = (record["node"], record["session"], record["packet"])
        self._carried.setdefault(key, (record["class"], stream_of(record), record["number"]))

    def on_store_ack_received(self, record: Record) -> None:
        node, session = record["node"], record["session"]
        for first, last in record["ranges"]:
            self._store_acked.update((node, session, packet) for packet in range(first, last + 1))

    def finish(self) -> None:
        for stream, acked in self._order_acked.items():
            if stream in self._transactional:
                self._judge(stream, {number for number in self._queued[stream] if 1 <= number <= acked})
        for (node, session, packet), (class_, stream, number) in self._carried.items():
            acked = class_ == RECOVERABLE and stream[0] == node and (node, session, packet) in self._store_acked
            if acked and stream not in self._transactional and stream[:2] not in self._forwarded:
                self._judge(stream, {number} & self._queued[stream])

    def _judge(self, stream: Stream, forgotten: set[int]) -> None:
        for number in forgotten - self._on_disk[stream] - self._removed[stream]:
            evidence = "acknowledged at its origin, on the disk of no destination"
            self.report(Violation("lost", "", "", *stream, number, evidence))


class OrderAcks(Checker):
    """An order ack never says more than its node has on disk."""

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self._on_disk: dict[tuple[str, Stream], int] = {}

    def on_committed(self, record: Record) -> None:
        if record["class"] == TRANSACTIONAL:
            self._reach(record, record["last"])

    def on_position_recovered(self, record: Record) -> None:
        if record["class"] == TRANSACTIONAL:
            self._reach(record, record["number"])

    def _reach(self, record: Record, number: int) -> None:
        key = (record["node"], stream_of(record))
        self._on_disk[key] = max(self._on_disk.get(key, 0), number)

    def on_order_ack_sent(self, record: Record) -> None:
        node, stream, number = record["node"], stream_of(record), record["number"]
        on_disk = self._on_disk.get((node, stream), 0)
        if number > on_disk:
            evidence = f"order ack up to {number}, on disk up to {on_disk}"
            self.report(Violation("order_ack_before_commit", node, "", *stream, number, evidence))


STREAM_CHECKERS: tuple[type[Checker], ...] = (Serials, Prefix, Delivered, TotalQueue, OrderAcks)
