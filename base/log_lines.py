"""Turns records of the session log into lines, and lines into records (docs/session-log.md).

A line is JSON. The first one of a segment is an object with all that its records share: version, node, start and both
clocks. Most records are much like the one of their kind before: the same event in the same session or stream, with
numbers that continue where that one ended. Such a record is a number or a short list: its kind, the time since the line
before, and what is not as expected. All others are objects with their serial ``n`` and the time ``t`` since the first
record; one with ``as`` begins a kind. So no line needs a later one, and a segment may be cut off at any byte.
"""

import json
from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any, Final

from triack.base.session_log import EVENTS, SCHEMA_VERSION, SHARED, SHARING

Record = dict[str, Any]
Rule = Callable[[Record, Record, int], None]
"""Puts what is expected into a record, given the last one of its kind, and what the record itself newly covers."""
Rules = tuple[Rule, ...]

SEGMENT_BEGIN: Final = b'{"v":'
"""The beginning of the first line of a segment, and of no other one."""
SEGMENT_BYTES: Final = 64 * 1024 * 1024
"""A segment is read and moved as a whole: large enough that there are few, small enough to handle."""
SEGMENT_NS: Final = 24 * 3600 * 10**9
"""A segment covers a day at most, as old records are removed by segments, also on a node with little to do."""
KINDS_MAX: Final = 4096
"""The most kinds known at a time; then numbering starts again. Enough for a dozen for each busy session and stream, and
it bounds the memory."""
BRIEF_MAX: Final = 500
"""The most brief lines in a row. The next record is full, with serial and time, so that a lost or changed line is
noticed; that costs a byte in four records."""

NS_MAX: Final = 1 << 62
"""Nanoseconds that no clock reaches within a century; within them sums of times fit into tables."""


class _Shape:
    __slots__ = ("kinds", "rules", "shared_of")

    def __init__(self, fields: Iterable[str]) -> None:
        shared = [name for name in fields if name in _SHARED]
        self.shared_of: Callable[[Record], object] = itemgetter(*shared) if shared else _nothing_of
        self.rules = rules_of(fields)
        # The number of the kind and the fields of its last record, by the shared values.
        self.kinds: dict[object, tuple[int, Record]] = {}


def _nothing_of(_fields: Record) -> object:
    return None


class LineWriter:
    """Makes lines of records; ``lines`` are those that ``take`` has not fetched."""

    __slots__ = (
        "_begun_ns",
        "_brief",
        "_known",
        "_settings",
        "_shapes",
        "_size_bytes",
        "_start",
        "_wall_offset_ns",
        "at_ns",
        "lines",
        "written",
    )

    def __init__(self, node: bytes, incarnation: int, wall_offset_ns: int) -> None:
        self._start = f'{{"v":{SCHEMA_VERSION},"node":"{node.hex()}","incarnation":{incarnation}'
        self._wall_offset_ns = wall_offset_ns
        self.written = 0
        self.at_ns = 0
        # Begins every segment but the first.
        self._settings: Record = {}
        self._begun_ns: int | None = None
        self._size_bytes = 0
        # By event and names of fields: as many as the schema has shapes.
        self._shapes: dict[tuple[str, ...], _Shape] = {}
        # The kinds of all shapes.
        self._known = 0
        # Brief lines since the last full one.
        self._brief = 0
        self.lines: list[str] = []

    def add(self, event: str, at_ns: int, fields: Record) -> None:
        """Add a record."""
        if event == "node_started":
            self._settings = {name: value for name, value in fields.items() if name in _REPEATED}
        elif self._begun_ns is None and self._settings:
            self._put("node_continued", at_ns, "", self._settings)
        if event not in SHARING:
            self._put(event, at_ns, "", fields)
            return
        names = event, *fields
        if names not in self._shapes:
            self._shapes[names] = _Shape(fields)
        shape = self._shapes[names]
        if "ranges" in fields:
            fields["ranges"] = list(map(list, fields["ranges"]))
        shared = shape.shared_of(fields)
        number, last = shape.kinds[shared] if shared in shape.kinds else (self._learn(), None)
        shape.kinds[shared] = number, fields
        if last is None or self._brief >= BRIEF_MAX or self._begun_ns is None:
            self._put(event, at_ns, f',"as":{number}', fields)
            return
        # As ``following``, which a reader calls, but without a call for each record.
        expected, pending = dict(last), 0
        if "pending" in fields:
            pending = fields["pending"]
        for rule in shape.rules:
            rule(last, expected, pending)
        since_ns, self.at_ns = at_ns - self.at_ns, at_ns
        self.written += 1
        self._brief += 1
        if fields != expected:
            other = {name: value for name, value in fields.items() if value != expected[name]}
            self.lines.append(f"[{number},{since_ns},{''.join(_encode(other, 0))}]")
        elif since_ns:
            self.lines.append(f"[{number},{since_ns}]")
        else:
            self.lines.append(f"{number}")

    def _put(self, event: str, at_ns: int, kind: str, fields: Record) -> None:
        self.written += 1
        begun_ns, since_ns, self.at_ns = self._begun_ns, at_ns - self.at_ns, at_ns
        if begun_ns is None:
            self._begun_ns = at_ns
            times = f'"at_ns":{at_ns},"wall_ns":{at_ns + self._wall_offset_ns}'
            head = f'{self._start},"n":{self.written},{times},"event":"{event}"'
        else:
            since = f',"d":{since_ns}' if self._brief else ""
            head = f'{{"n":{self.written},"t":{at_ns - begun_ns}{since},"event":"{event}"'
        self._brief = 0
        text = "".join(_encode(fields, 0))[1:-1]
        comma = "," if text else ""
        self.lines.append(f"{head}{kind}{comma}{text}}}")

    def _learn(self) -> int:
        if self._known == KINDS_MAX:
            self._forget_kinds()
        self._known += 1
        return self._known

    def _forget_kinds(self) -> None:
        self._known = 0
        for shape in self._shapes.values():
            shape.kinds.clear()

    def take(self) -> bytes:
        """All lines since the last call, each ended. They are of one segment; the next ones may begin another."""
        lines, self.lines = self.lines, []
        data = "\n".join((*lines, "")).encode()
        self._size_bytes += len(data)
        is_old = self._begun_ns is not None and self.at_ns - self._begun_ns >= SEGMENT_NS
        if is_old or self._size_bytes >= SEGMENT_BYTES:
            self._begun_ns = None
            self._size_bytes = self._brief = 0
            self._forget_kinds()
        return data


def segments_in(log: bytes) -> list[bytes]:
    """Return the segments of a log, each of which is one file."""
    first, *others = log.split(b"\n" + SEGMENT_BEGIN)
    begun = [first, *(SEGMENT_BEGIN + other for other in others)]
    return [segment + b"\n" for segment in begun[:-1]] + begun[-1:]


def following(last: Record, rules: Rules, pending: int) -> Record:
    """Return what is expected of the record that follows another one of its kind."""
    expected = dict(last)
    for rule in rules:
        rule(last, expected, pending)
    return expected


def rules_of(fields: Iterable[str]) -> Rules:
    """Return how the fields of a kind continue from one record to the next: where the last one ended."""
    names = set(fields)
    return tuple(rule for name, rule in _RULES if name in names and (name != "ranges" or "cumulative" not in names))


def _next_number(last: Record, expected: Record, _pending: int) -> None:
    number = following_number = last["number"]
    if "counts" in last:
        for packets, _ in last["counts"]:
            following_number += packets
    else:
        following_number += 1
    expected["number"] = following_number
    if "previous" in last and last["previous"] == number - 1:
        expected["previous"] = following_number - 1


def _next_place(last: Record, expected: Record, _pending: int) -> None:
    expected["at_place"] = last["at_place"] + sum([packets * messages for packets, messages in last["counts"]])


def _next_ordinal(last: Record, expected: Record, _pending: int) -> None:
    expected["ordinal"] = last["ordinal"] + last["count"]


def _next_packet(last: Record, expected: Record, _pending: int) -> None:
    expected["packet"] = last["packet"] + last["packets"]


def _next_range(last: Record, expected: Record, _pending: int) -> None:
    first, end = last["first"], last["last"]
    expected["first"], expected["last"] = end + 1, end + 1 + end - first


def _next_cumulative(last: Record, expected: Record, pending: int) -> None:
    expected["cumulative"] = last["cumulative"] + pending


def _next_ranges(last: Record, expected: Record, _pending: int) -> None:
    if last["ranges"] and not last["ranges"][1:]:
        first, end = last["ranges"][0]
        expected["ranges"] = [[end + 1, end + 1 + end - first]]


_RULES: Final[tuple[tuple[str, Rule], ...]] = (
    ("number", _next_number), ("at_place", _next_place), ("ordinal", _next_ordinal), ("packet", _next_packet),
    ("first", _next_range), ("cumulative", _next_cumulative), ("ranges", _next_ranges),
)  # fmt: skip
"""By a field that a kind has. Nothing is expected of ``ranges`` beside ``cumulative``."""


# A compiled class does not have its ``__slots__``.
_READER_STATE: Final = ("_at_ns", "_begun_ns", "_brief", "_common", "_kinds", "_n", "_wall_offset_ns")


class LineReader:
    """Makes records of the lines of a segment, or of several segments in their order."""

    __slots__ = _READER_STATE

    def __init__(self) -> None:
        self._common: Record = {}
        self._begun_ns = 0
        self._wall_offset_ns = 0
        # The last record of each kind, and how its fields continue.
        self._kinds: dict[int, tuple[Record, Rules]] = {}
        # Serial and time of the last record, and whether its line was brief.
        self._n = 0
        self._at_ns = 0
        self._brief = False

    def __getstate__(self) -> dict[str, Any]:
        """The state for a file, without the rules, which follow from the records."""
        state = {name: getattr(self, name) for name in _READER_STATE}
        return {**state, "_kinds": {number: record for number, (record, _) in self._kinds.items()}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Continue where the reader was."""
        for name, value in state.items():
            setattr(self, name, value)
        self._kinds = {number: (record, rules_of(record)) for number, record in state["_kinds"].items()}

    def read(self, line: Record | int | list[Any]) -> Record:
        """Return the record of a line, with all its fields; the reader owns the line from now on.

        Raises ValueError: it needs what no line before it says, or does not follow the one before it.
        """
        if not isinstance(line, dict):
            return self.follow(line)
        if "v" in line:
            self._begin(line)
            record = line
        else:
            record = self._fill(line)
        number = record.pop("as", None)
        if number is not None:
            if type(number) is not int:
                raise ValueError("its kind has no number")
            self._kinds[number] = record, rules_of(record)
        self._n, self._at_ns, self._brief = record.get("n", 0), record["at_ns"], False
        if type(self._n) is not int:
            raise ValueError("its serial is no number")
        return record

    def _begin(self, line: Record) -> None:
        for name in ("at_ns", "wall_ns"):
            if type(line.get(name)) is not int:
                raise ValueError("the first record of a segment has no times")
            # A clock that was never set may show a time before 1970.
            if not -NS_MAX < line[name] < NS_MAX:
                raise ValueError("the first record of a segment has times that no clock has")
        self._begun_ns, wall_ns = line["at_ns"], line["wall_ns"]
        self._wall_offset_ns = wall_ns - self._begun_ns
        self._common = {name: line.get(name) for name in ("v", "node", "incarnation", "at_ns", "wall_ns")}
        self._kinds = {}

    def _fill(self, line: Record) -> Record:
        if not self._common:
            raise ValueError("no record before it says whose it is")
        since_ns, step_ns = line.pop("t", None), line.pop("d", None)
        if type(since_ns) is not int:
            raise ValueError("it has no time")
        if not -NS_MAX < since_ns < NS_MAX:
            raise ValueError("it has a time that no clock has")
        at_ns = self._begun_ns + since_ns
        if self._brief and (type(step_ns) is not int or self._at_ns + step_ns != at_ns):
            raise ValueError("its time does not follow from those of the lines before it")
        return {**self._common, "at_ns": at_ns, "wall_ns": at_ns + self._wall_offset_ns, **line}

    def follow(self, line: int | list[Any]) -> Record:
        """Return the record of a brief line, which is like the one of its kind before.

        Raises ValueError: there is none, or the line has another form.
        """
        number, since_ns, other = line, 0, _NOTHING
        if type(line) is list and 1 < len(line) <= _BRIEF_PARTS:
            number, since_ns, *more = line
            other = more[0] if more else other
        if type(number) is not int or type(since_ns) is not int or type(other) is not dict:
            raise ValueError("it is neither a record nor one like another")
        known = self._kinds.get(number)
        if known is None:
            raise ValueError(f"no record before it is of kind {number!r}")
        last, rules = known
        at_ns = self._at_ns + since_ns
        if not -NS_MAX < at_ns < NS_MAX:
            raise ValueError("it has a time that no clock has")
        record = following(last, rules, _pending_of(last, other))
        if other:
            record.update(other)
        self._n += 1
        record["n"], record["at_ns"], record["wall_ns"] = self._n, at_ns, at_ns + self._wall_offset_ns
        self._at_ns, self._brief = at_ns, True
        self._kinds[number] = record, rules
        return record


def _pending_of(last: Record, other: Record) -> int:
    """Return how many packets a record newly covers: ``other`` may say it, else it is as before. Raises ValueError."""
    pending = last.get("pending", 0)
    if not other:
        return int(pending)
    if not (_FIXED.isdisjoint(other) and other.keys() <= last.keys()):
        raise ValueError("it has a field that others of its kind do not have")
    pending = other.get("pending", pending)
    if type(pending) is not int:
        raise ValueError("what it newly covers is no number")
    return pending


_NOTHING: Final[Record] = {}
_BRIEF_PARTS: Final = 3
"""The kind, the time since the line before, and the fields that are not as expected."""
_FIXED: Final = frozenset({"v", "node", "incarnation", "n", "at_ns", "wall_ns", "event", *SHARED})
"""Fields that a brief line does not change: all of its kind share them, or they follow from it."""
_SHARED: Final = frozenset(SHARED)
_REPEATED: Final = frozenset(EVENTS["node_continued"].fields)


def _make_encode() -> Callable[[Record, int], Iterable[str]]:
    """The encoder that ``json.JSONEncoder`` would make anew for each record, which costs as much as encoding one."""
    encoder = json.JSONEncoder(separators=(",", ":"), check_circular=False)
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:  # another Python than CPython
        return lambda fields, _level: (encoder.encode(fields),)
    quote: Any = json.encoder.encode_basestring_ascii
    encode: Callable[[Record, int], Iterable[str]] = make(
        None, encoder.default, quote, None, encoder.key_separator, encoder.item_separator, False, False, True
    )
    return encode


_encode: Final = _make_encode()
