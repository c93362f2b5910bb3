"""Makes every single-record lie in a log: dropped, repeated, swapped, shifted, each field changed, runs spliced.

From a record about a range of packets the one in its middle is taken out as well. Every lie renumbers the serials, so
that they have no gaps and only its content can give it away. Only ``lost`` leaves a gap, as an accident does.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Record = dict[str, Any]
Log = dict[tuple[str, int], list[Record]]
SHIFTS_NS = (1_000_000, 40_000_000, 1_000_000_000)
"""Within a burst, beyond one, and beyond every tolerance."""
KEPT = ("v", "event", "n", "at_ns", "wall_ns", "node", "incarnation")
"""Fields that have other lies, or that make a line unreadable."""


@dataclass(frozen=True, slots=True)
class Lie:
    """One lie.

    Attributes:
        kind: ``drop``, ``lost``, ``repeat``, ``swap``, ``shift``, ``raise``, ``lower``, ``other``, ``hole``,
            ``splice``, ``claim``, ``slow``.
        field: which field, for lies about one; else empty.
        records: the log with the lie in it, all nodes.
        said: the record as it is, if it still is one.
    """

    kind: str
    event: str
    field: str
    start: tuple[str, int]
    at: int
    records: list[Record]
    truth: Record
    said: Record


def lies_about(log: Log, start: tuple[str, int], at: int) -> Iterator[Lie]:
    """Yield every lie about one record of a log."""
    mine = log[start]
    truth = mine[at]

    def lie(kind: str, part: list[Record], said: Record, field: str = "", *, renumber: bool = True) -> Lie:
        told = renumbered(part) if renumber else part
        return Lie(kind, truth["event"], field, start, at, _with(log, start, told), truth, said)

    if len(mine) > 1:
        yield lie("drop", mine[:at] + mine[at + 1 :], {})
        yield lie("lost", mine[:at] + mine[at + 1 :], {}, renumber=False)
    yield lie("repeat", [*mine[: at + 1], dict(truth), *mine[at + 1 :]], truth)
    if at + 1 < len(mine):
        first, second = mine[at], mine[at + 1]
        yield lie("swap", [*mine[:at], _timed(second, first), _timed(first, second), *mine[at + 2 :]], first)
    for by_ns in (*SHIFTS_NS, *(-shift for shift in SHIFTS_NS)):
        said = {**truth, "at_ns": truth["at_ns"] + by_ns, "wall_ns": truth["wall_ns"] + by_ns}
        yield lie("shift", [*mine[:at], said, *mine[at + 1 :]], said, f"{by_ns // 1_000_000} ms")
    if (parts := _with_hole(truth)) is not None:
        yield lie("hole", [*mine[:at], *parts, *mine[at + 1 :]], parts[0])
    for field, kind, value in _changes(truth, log):
        said = {**truth, field: value}
        yield lie(kind, [*mine[:at], said, *mine[at + 1 :]], said, field)


def splices(log: Log, other: Log) -> Iterator[Lie]:
    """Yield logs in which one start is half of this run and half of another."""
    for start, mine in log.items():
        for theirs in other.values():
            at = len(mine) // 2
            rest = [{**record, "node": start[0], "incarnation": start[1]} for record in theirs[len(theirs) // 2 :]]
            if at and rest:
                shift = mine[at - 1]["at_ns"] - rest[0]["at_ns"] + 1
                offset = mine[0]["wall_ns"] - mine[0]["at_ns"]
                rest = [{**it, "at_ns": it["at_ns"] + shift, "wall_ns": it["at_ns"] + shift + offset} for it in rest]
                told = renumbered(mine[:at] + rest)
                yield Lie("splice", rest[0]["event"], "", start, at, _with(log, start, told), mine[at], rest[0])


def claims(log: Log) -> Iterator[Lie]:
    """Yield logs in which a first start has found on its disk all that it later accepts of a stream."""
    for start, mine in log.items():
        streams = {
            tuple(it[name] for name in _PLACE): it
            for it in mine
            if it["event"] == "committed" and it["class"] == "transactional" and it["origin"] != start[0]
        }
        for last in streams.values() if start[1] == 1 and mine[1]["event"] == "start_before" else ():
            kept = {name: last[name] for name in _PLACE}
            common = {name: mine[1][name] for name in KEPT if name in mine[1]}
            said = {**common, **kept, "event": "position_recovered", "number": last["last"]}
            told = renumbered([*mine[:2], said, *mine[2:]])
            yield Lie("claim", "position_recovered", "", start, 1, _with(log, start, told), mine[1], said)


def slowed(log: Log) -> Iterator[Lie]:
    """Yield logs in which the clock of one start loses a quarter, and the others are right."""
    for start, mine in log.items():
        begin_ns = mine[0]["at_ns"]
        told = [_late(record, (record["at_ns"] - begin_ns) // 4) for record in mine]
        yield Lie("slow", mine[0]["event"], "", start, 0, _with(log, start, told), mine[0], told[0])


def _late(record: Record, by_ns: int) -> Record:
    more = {"since_ns": record["since_ns"] - by_ns} if "since_ns" in record else {}
    return {**record, **more, "at_ns": record["at_ns"] - by_ns, "wall_ns": record["wall_ns"] - by_ns}


def _with_hole(record: Record) -> list[Record] | None:
    """The two records that say all but the middle packet of what one says; None if it has no middle."""
    if record["event"] == "committed":
        packets = record["last"] - record["first"] + 1
        each = record["count"] // packets
        if packets < 3 or record["count"] != each * packets:  # noqa: PLR2004 - there is one in the middle
            return None
        middle = record["first"] + packets // 2
        before, behind = middle - record["first"], record["last"] - middle
        return [
            {**record, "last": middle - 1, "count": each * before},
            {**record, "first": middle + 1, "count": each * behind},
        ]
    if "counts" not in record or (packets := sum(packets for packets, _ in record["counts"])) < 3:  # noqa: PLR2004
        return None
    before = packets // 2
    first = {**record, "counts": _cut(record["counts"], 0, before)}
    second = {**record, "counts": _cut(record["counts"], before + 1, packets), "number": record["number"] + before + 1}
    if "packets" in record:
        first["packets"] = before
        second |= {"packets": packets - before - 1, "packet": record["packet"] + before + 1}
        if record["class"] == "transactional":
            second["previous"] = second["number"] - 1
    else:
        second["place"] = 0
    return [first, second]


def _cut(counts: list[list[int]], begin: int, end: int) -> list[list[int]]:
    found, at = [], 0
    for packets, messages in counts:
        there = min(at + packets, end) - max(at, begin)
        if there > 0:
            found.append([there, messages])
        at += packets
    return found


def _with(log: Log, start: tuple[str, int], told: list[Record]) -> list[Record]:
    """The records of all starts, one of them with the records that are given for it."""
    return [record for key, some in log.items() for record in (told if key == start else some)]


def renumbered(records: list[Record]) -> list[Record]:
    """The records with serials that have no gaps."""
    first = records[0]["n"] if records[0]["n"] == 1 or not records else 1
    return [record if record["n"] == n else {**record, "n": n} for n, record in enumerate(records, start=first)]


def _timed(record: Record, like: Record) -> Record:
    return {**record, "at_ns": like["at_ns"], "wall_ns": like["wall_ns"]}


def _changes(record: Record, log: Log) -> Iterator[tuple[str, str, object]]:
    for field, value in record.items():
        if field in KEPT:
            continue
        if isinstance(value, bool):
            yield field, "other", not value
        elif isinstance(value, int):
            yield field, "raise", value + 1
            if value:
                yield field, "lower", value - 1
        elif isinstance(value, str):
            yield from ((field, "other", other) for other in _others(field, value, log))
        elif field == "counts":
            yield from ((field, how, counts) for how, counts in _other_counts(value))
        else:
            yield from ((field, how, ranges) for how, ranges in _other_ranges(value))


def _others(field: str, value: str, log: Log) -> list[str]:
    known = sorted({record[field] for some in log.values() for record in some if record.get(field, value) != value})
    unknown = "".join("0" if digit != "0" else "1" for digit in value) if field in _IDS else f"{value}x"
    return [*known[:1], unknown]


_IDS = ("origin", "peer", "session")
_PLACE = ("class", "origin", "stream", "sequence")


def _other_ranges(ranges: list[list[int]]) -> Iterator[tuple[str, list[list[int]]]]:
    top = ranges[-1][1] if ranges else 0
    yield "raise", [*ranges, [top + 2, top + 2]]
    if ranges:
        yield "raise", [*ranges[:-1], [ranges[-1][0], top + 1]]
        yield "lower", ranges[:-1]


def _other_counts(counts: list[list[int]]) -> Iterator[tuple[str, list[list[int]]]]:
    *before, (packets, messages) = counts
    rest = [[packets - 1, messages]] if packets > 1 else []
    yield "raise", [*before, *rest, [1, messages + 1]]
    yield "raise", [*before, [packets + 1, messages]]
    if messages:
        yield "lower", [*before, *rest, [1, messages - 1]]
    if packets > 1:
        yield "lower", [*before, *rest]
