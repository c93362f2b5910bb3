"""Records of the session log as lines, and lines as records again (docs/session-log.md).

A line is a JSON object. The first of a segment says all that is common to its records: version, node, start and both
clocks. Each later one has its serial ``n``, the time ``t`` in nanoseconds since the first one, and its event. The first
of several records that share fields (``SHARED``) holds them and gives them a number, ``as``; the others refer to it by
``of``. So no line needs a later one, and a segment may be cut off at any byte.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any, Final

from triack.base.session_log import EVENTS, SCHEMA_VERSION, SHARED, SHARING

__all__ = ["SEGMENT_BEGIN", "SEGMENT_BYTES", "LineReader", "LineWriter"]

Record = dict[str, Any]

SEGMENT_BEGIN: Final = b'{"v":'
"""The beginning of the first line of a segment, and of no other one."""
SEGMENT_BYTES: Final = 64 * 1024 * 1024
"""A segment is read and moved as one: large enough that there are few, small enough to handle."""
GROUPS_MAX: Final = 4096
"""Groups of shared fields that are known at a time; beyond that, numbering starts anew. Enough for a few for each busy
session and stream, and it bounds the memory."""

NS_MAX: Final = 1 << 62
"""Nanoseconds that no clock reaches within a century; with them times are sums that tables have room for."""


class LineWriter:
    """Makes lines of records.

    Args:
        node: id of the recording node.
        incarnation: which start of it.
        wall_offset_ns: wall clock minus monotonic clock.

    Attributes:
        at_ns: the time of the last record.
        written: the serial of the last record.
    """

    __slots__ = (
        "_begun_ns",
        "_groups",
        "_lines",
        "_settings",
        "_size_bytes",
        "_start",
        "_wall_offset_ns",
        "at_ns",
        "written",
    )

    def __init__(self, node: bytes, incarnation: int, wall_offset_ns: int) -> None:
        self._start = f'{{"v":{SCHEMA_VERSION},"node":"{node.hex()}","incarnation":{incarnation}'
        self._wall_offset_ns = wall_offset_ns
        self.written = 0
        self.at_ns = 0
        # The beginning of every segment but the first.
        self._settings: Record = {}
        self._begun_ns: int | None = None
        self._size_bytes = 0
        self._groups: dict[tuple[tuple[str, Any], ...], int] = {}
        self._lines: list[str] = []

    def add(self, event: str, at_ns: int, fields: Record) -> None:
        """Add a record.

        Args:
            event: the name of its event.
            at_ns: the monotonic clock.
            fields: all its other fields.
        """
        if event == "node_started":
            self._settings = {name: value for name, value in fields.items() if name in _REPEATED}
        elif self._begun_ns is None and self._settings:
            self._put("node_continued", at_ns, "", self._settings)
        group = ""
        if event in SHARING:
            shared = tuple([item for item in fields.items() if item[0] in _SHARED])
            known = self._groups.get(shared)
            if known is None:
                group = f',"as":{self._learn(shared)}'
            else:
                group = f',"of":{known}'
                fields = {name: value for name, value in fields.items() if name not in _SHARED}
        self._put(event, at_ns, group, fields)

    def _put(self, event: str, at_ns: int, group: str, fields: Record) -> None:
        self.written += 1
        self.at_ns = at_ns
        begun_ns = self._begun_ns
        if begun_ns is None:
            self._begun_ns = at_ns
            times = f'"at_ns":{at_ns},"wall_ns":{at_ns + self._wall_offset_ns}'
            head = f'{self._start},"n":{self.written},{times},"event":"{event}"'
        else:
            head = f'{{"n":{self.written},"t":{at_ns - begun_ns},"event":"{event}"'
        text = "".join(_encode(fields, 0))[1:-1]
        comma = "," if text else ""
        self._lines.append(f"{head}{group}{comma}{text}}}")

    def _learn(self, shared: tuple[tuple[str, Any], ...]) -> int:
        if len(self._groups) == GROUPS_MAX:
            self._groups.clear()
        number = self._groups[shared] = len(self._groups) + 1
        return number

    def take(self) -> bytes:
        """All lines since the last call, each ended. They are of one segment; the next ones may begin another."""
        if not self._lines:
            return b""
        lines, self._lines = self._lines, []
        lines.append("")
        data = "\n".join(lines).encode()
        self._size_bytes += len(data)
        if self._size_bytes >= SEGMENT_BYTES:
            self._begun_ns = None
            self._size_bytes = 0
            self._groups.clear()
        return data


class LineReader:
    """Makes records of the lines of a segment, one by one, or of several segments one behind the other."""

    __slots__ = ("_begun_ns", "_common", "_groups", "_wall_offset_ns")

    def __init__(self) -> None:
        self._common: Record = {}
        self._begun_ns = 0
        self._wall_offset_ns = 0
        # The fields that the records of a group share, with each other and with all.
        self._groups: dict[int, Record] = {}

    def read(self, line: Record) -> Record:
        """Return the record of a line, with all its fields.

        Args:
            line: the JSON object; it is the reader's from now on.

        Raises:
            ValueError: fields of a record are missing; the message names them.
        """
        if "v" in line:
            self._begin(line)
            record = line
        else:
            record = self.fill(line)
        number = record.pop("as", None)
        if number is not None:
            if type(number) is not int:
                raise ValueError("what it shares has no number")
            self._groups[number] = {**self._common, **{name: record[name] for name in SHARED if name in record}}
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
        self._groups = {}

    def fill(self, line: Record) -> Record:
        """Do the same with a line to which later ones cannot refer: it has neither ``v`` nor ``as``."""
        if not self._common:
            raise ValueError("no record before it says whose it is")
        since_ns = line.pop("t", None)
        if type(since_ns) is not int:
            raise ValueError("it has no time")
        if not -NS_MAX < since_ns < NS_MAX:
            raise ValueError("it has a time that no clock has")
        at_ns = self._begun_ns + since_ns
        number, shared = line.pop("of", None), self._common
        if number is not None:
            known = self._groups.get(number) if type(number) is int else None
            if known is None:
                raise ValueError(f"no record before it shares anything as {number!r}")
            shared = known
        return {**shared, "at_ns": at_ns, "wall_ns": at_ns + self._wall_offset_ns, **line}


_SHARED: Final = frozenset(SHARED)
_REPEATED: Final = frozenset(EVENTS["node_continued"].fields)


def _make_encode() -> Callable[[Record, int], Iterable[str]]:
    """The encoder that ``json.JSONEncoder`` makes anew for each record, which takes as long as encoding one."""
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
