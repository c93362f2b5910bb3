"""A second count of the messages in session logs, written from docs/session-log.md alone.

It shares no code with the judge, not even the reader of lines: so what both of them count is no artefact of either. It
is made to be read, not to be fast: it keeps each packet separately.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

Record = dict[str, Any]


class Counted(NamedTuple):
    """Messages of all classes and queues, as docs/verdict.md defines these numbers; ``dead``: the purged ones, too.

    ``waiting``: those that are pending, lost, or express and not kept.
    """

    sent: int
    delivered: int
    dead: int
    dead_delivered: int
    waiting: int


def read_lines(content: bytes) -> Iterator[Record]:
    """Yield the records of one segment, without their serials and times; anything after the last newline is torn."""
    kinds: dict[int, Record] = {}
    common: Record = {}
    for line in content.split(b"\n")[:-1]:
        said = json.loads(line)
        if isinstance(said, dict):
            if "v" in said:
                common = {"node": said["node"], "incarnation": said["incarnation"]}
            record = {**common, **said}
            if "as" in said:
                kinds[said["as"]] = record
        else:
            kind, other = (said, {}) if isinstance(said, int) else (said[0], said[2] if said[2:] else {})
            record = kinds[kind] = {**_next(kinds[kind]), **other}
        yield record


def _next(before: Record) -> Record:
    after = dict(before)
    if "number" in before:
        packets = sum(packets for packets, _ in before["counts"]) if before.get("counts") else 1
        after["number"] += packets
        if before.get("previous") == before["number"] - 1:
            after["previous"] += packets
    if "first" in before:
        packets = before["last"] - before["first"] + 1
        after["first"] += packets
        after["last"] += packets
    return after


class Stream:
    """One sequence of one stream: its packets, each by its number."""

    def __init__(self, ordered: bool) -> None:
        self.ordered = ordered
        self.messages: dict[int, int] = {}
        self.queued: dict[int, tuple[int, int, int]] = {}
        self.removed: dict[int, tuple[int, int, int]] = {}
        self.arrived: dict[int, int] = {}
        self.commits: list[tuple[int, int, int]] = []
        self.found: set[int] = set()

    def see(self, record: Record) -> None:
        """Apply the next record of it."""
        match record["event"]:
            case "queued":
                span = record["first"], record["last"], record["count"]
                for number in range(span[0], span[1] + 1):
                    self.queued.setdefault(number, span)
                    self.removed.pop(number, None)
            case "removed":
                span = record["first"], record["last"], record["count"]
                self.removed |= dict.fromkeys(range(span[0], span[1] + 1), span)
            case "committed":
                self.commits.append((record["first"], record["last"], record["count"]))
            case "packet_sent" | "packet_received":
                self._see_packets(record)
            case "position_recovered":
                ranges = record.get("ranges") or [[1, record.get("number", 0)]]
                self.found.update(number for first, last in ranges for number in range(first, last + 1))

    def _see_packets(self, record: Record) -> None:
        number, previous = record["number"], record["previous"]
        for packets, messages in record["counts"]:
            for _ in range(packets):
                self.messages[number] = messages
                if record["event"] == "packet_received":
                    self.arrived[number] = min(previous, self.arrived.get(number, previous))
                previous = number if self.ordered else previous
                number += 1

    def weigh(self, numbers: Iterable[int]) -> int:
        """The messages of packets; those that never left share what their range says."""
        total = 0
        for number in numbers:
            first, last, count = self.removed.get(number) or self.queued.get(number, (number, number, 0))
            share = count * (number - first + 1) // (last - first + 1) - count * (number - first) // (last - first + 1)
            total += self.messages.get(number, share)
        return total

    def within(self, first: int, last: int, count: int) -> set[int]:
        """The packets in a commit: the chain of `previous` from its last packet, and what came before that."""
        if not self.ordered or not self.arrived:
            return set(range(first, last + 1))
        there, number = set(), last
        while number >= first:
            there.add(number)
            number = min(self.arrived.get(number, number - 1), number - 1)
        # A packet may have been accepted before the origin gave it up; then the count has room for it.
        for number in sorted(set(range(first, last + 1)) & self.arrived.keys() - there):
            if self.weigh(there) >= count:
                break
            there.add(number)
        return there

    def count(self) -> Counted:
        """The messages of the whole sequence."""
        there = set().union(*(self.within(*commit) for commit in self.commits))
        delivered = there | ((self.found & self.queued.keys()) - self.removed.keys())
        queued, removed = self.queued.keys(), self.removed.keys()
        return Counted(
            *map(self.weigh, (queued, delivered, removed, removed & delivered, queued - removed - delivered))
        )


def recount(files: Iterable[bytes]) -> Counted:
    """Count the messages in the segments of all nodes, each node's in its order."""
    streams: dict[tuple[str, int, int], Stream] = {}
    for content in files:
        for record in read_lines(content):
            cls = record.get("class")
            if record.get("stream") and record["event"] != "handed" and cls:
                key = record["origin"], record["stream"], record["sequence"]
                streams.setdefault(key, Stream(cls == "transactional")).see(record)
    counts = [stream.count() for stream in streams.values()]
    return Counted(*(sum(column) for column in zip(*counts, strict=True))) if counts else Counted(0, 0, 0, 0, 0)
