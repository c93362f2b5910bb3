"""What a record may hold, beside its shape: nothing that was read is believed before it was judged here.

Ids follow one pattern, numbers fit into a table, lists are of pairs, and text is text of bounded length. So neither a
damaged line nor a malicious one can give a judge, a terminal or a page more than a record can say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any, Final

from triack.base.log_lines import NS_MAX
from triack.base.printable import printable
from triack.base.session_log import COMMON, EVENTS, FIELDS, SCHEMA_VERSION, Event
from triack.tools.replay.log.schema import CLASS_CODES, EXPRESS, HOLD_REASONS, TRANSACTIONAL

Record = dict[str, Any]

PACKETS_MAX: Final = 1 << 20
"""The most packets in one record: no burst comes near, and a damaged number cannot keep a replay counting."""
TEXT_LETTERS_MAX: Final = 1_000
"""Letters of a text: names have 124 bytes, and an address has a name and a number or two."""
NUMBER_MAX: Final = (1 << 63) - 1
"""The largest number that a column of a table can hold."""
SHAPES_MAX: Final = 4096
"""The fields of records that are alike in all but their values are judged once. No honest log has more kinds."""

_NODE: Final = re.compile(r"[0-9a-f]{32}")
_IDS: Final = {
    "node": (_NODE, "32 hex digits"),
    "origin": (_NODE, "32 hex digits"),
    "peer": (re.compile(r"(?:[0-9a-f]{32})?"), "32 hex digits, or empty"),
    "session": (re.compile(r"[0-9a-f]{16}"), "16 hex digits"),
}
"""The pattern of each id, and its description."""
_NAMES: Final = frozenset({"name", "queue", "peer_name", "address", "topic", "below", "subscription", "pattern"})
"""Texts that others may have made up; all other texts are words of the schema, such as reasons."""
_TIMES: Final = ("at_ns", "wall_ns")
"""Clock readings; one of a clock that was never set, or was set back, may be below zero."""
_SIGNED: Final = frozenset({*_TIMES, "receive_by_ms"})
"""Numbers that may be below zero: times."""
_FIELDS: Final = COMMON | FIELDS
_LISTS: Final = frozenset(name for name, field in FIELDS.items() if field.type is list)
_COUNTED: Final = frozenset({"counts", "packets"})


class Values:
    """Judges the values of records that have the same fields, each of the right type."""

    __slots__ = ("_has_deadline", "_lists", "_numbers", "_numbers_of", "_ranged", "_texts", "_whole_fault")

    def __init__(self, names: Iterable[str]) -> None:
        known = [name for name in names if name in _FIELDS]
        # By event and class, the fields that are known to be required.
        self._texts = [name for name in known if _FIELDS[name].type is str and name not in ("event", "class")]
        self._numbers = [name for name in known if _FIELDS[name].type is int and name not in _SIGNED]
        # One more than needed, so that the result is a tuple even for a single one.
        self._numbers_of = itemgetter(*self._numbers, self._numbers[0]) if self._numbers else None
        self._lists = [name for name in known if name in _LISTS]
        self._has_deadline = "receive_by_ms" in known
        self._ranged = "first" in known and "last" in known
        # Rules about several fields together.
        self._whole_fault: Callable[[Record], str] | None = None
        if not _COUNTED.isdisjoint(known):
            self._whole_fault = _packets_fault
        elif "stop" in known:
            self._whole_fault = _hold_fault

    def fault(self, record: Record) -> str:
        """Return what is wrong with the values of a record, or an empty string."""
        if self._numbers_of is not None:
            numbers = self._numbers_of(record)
            if min(numbers) < 0 or max(numbers) > NUMBER_MAX:
                return _number_fault(record, self._numbers)
        if self._has_deadline and abs(record["receive_by_ms"]) > NUMBER_MAX:
            return f"is damaged: field 'receive_by_ms' is {_shown(record['receive_by_ms'])}, which no clock gives"
        if self._ranged and record["first"] > record["last"]:
            return f"is damaged: a range from {record['first']} to {record['last']}"
        for name in self._texts:
            if said := _text_fault(name, record[name]):
                return f"is damaged: field {name!r} is {said}"
        for name in self._lists:
            if said := _list_fault(name, record[name]):
                return said
        return "" if self._whole_fault is None else self._whole_fault(record)


def complaint(record: Any) -> str:
    """Return what is wrong with a parsed line, or an empty string."""
    if type(record) is not dict:
        return "is damaged: not a JSON object"
    shape = (record.get("event"), record.get("class"), record.get("v"), *record, *map(type, record.values()))
    try:
        values = _KNOWN_SHAPES.get(shape)
    except TypeError:
        return "is damaged: its event or class is not a name"
    if values is None:
        if said := _shape_fault(record):
            return said
        values = Values(record)
        if len(_KNOWN_SHAPES) < SHAPES_MAX:
            _KNOWN_SHAPES[shape] = values
    return _times_fault(record) or values.fault(record)


_KNOWN_SHAPES: dict[tuple[Any, ...], Values] = {}


def _times_fault(record: Record) -> str:
    """Clock readings; one of a clock that was set back may be below zero."""
    for name in _TIMES:
        if not -NS_MAX < record[name] < NS_MAX:
            return f"is damaged: field {name!r} is {_shown(record[name])}, which no clock gives"
    return ""


def _number_fault(record: Record, names: Iterable[str]) -> str:
    wrong = [name for name in names if not 0 <= record[name] <= NUMBER_MAX]
    return f"is damaged: field {wrong[0]!r} is {_shown(record[wrong[0]])}, which nothing counts to"


def _text_fault(name: str, text: str) -> str:
    if name in _IDS:
        pattern, said = _IDS[name]
        return "" if pattern.fullmatch(text) else f"{_shown(text)}, and not {said}"
    if len(text) > TEXT_LETTERS_MAX:
        return f"{_shown(text)}, and has {len(text):,} letters"
    if name not in _NAMES and not text.isprintable():
        return f"{_shown(text)}, which is no word of a log"
    return f"{_shown(text)}, which is no text" if _HALF.search(text) else ""


_HALF: Final = re.compile("[\ud800-\udfff]")
"""Half of a character: JSON can say it, and no encoding can."""


def _list_fault(name: str, pairs: list[Any]) -> str:
    """Lists are of pairs of numbers; of ranges the first number is not above the last."""
    for pair in pairs:
        if type(pair) is not list or len(pair) != 2 or not (type(pair[0]) is int is type(pair[1])):  # noqa: PLR2004
            return f"is damaged: field {name!r} is not made of pairs"
        low, high = pair
        if low < 0 or high < 0 or low > NUMBER_MAX or high > NUMBER_MAX:
            return f"is damaged: field {name!r} has numbers that nothing counts to"
        if low > high and name == "ranges":
            return f"is damaged: a range from {low} to {high}"
    return ""


def _hold_fault(record: Record) -> str:
    """A destination that has no room names the reason, and only then."""
    if not record["stop"]:
        return "is damaged: a reason why there is room" if "reason" in record else ""
    if record.get("reason") in HOLD_REASONS:
        return ""
    return f"is damaged: no room for a stream, and why is {_shown(record.get('reason'))}"


def _packets_fault(record: Record) -> str:
    """The counts cover as many packets as the record has."""
    if (counts := record.get("counts")) is not None:
        there = least = counts[0][0] if counts else 0
        for packets, _ in counts[1:]:
            there += packets
            least = min(least, packets)
        if least < 1 or there != record.get("packets", there) or there > PACKETS_MAX:
            return f"is damaged: the counts of {there} packets"
    elif not 0 < record.get("packets", 1) <= PACKETS_MAX:
        return f"is damaged: {record['packets']} packets"
    return ""


def _shape_fault(record: Record) -> str:
    if record.get("v", SCHEMA_VERSION) != SCHEMA_VERSION:
        return f"has session log version {_shown(record['v'])}; this replay reads version {SCHEMA_VERSION} only"
    for name, field in COMMON.items():
        if type(record.get(name)) is not field.type:
            return f"is damaged: field {name!r} is missing or of the wrong type"
    event = EVENTS.get(record["event"])
    said = f"unknown event {_shown(record['event'])}" if event is None else _fields_fault(record, event)
    return f"is damaged: {said}" if said else ""


def _fields_fault(record: Record, event: Event) -> str:
    name, cls = record["event"], record.get("class", EXPRESS)
    wanted = set(event.fields)
    more = record.keys() - COMMON.keys() - wanted
    if wanted - record.keys() or more not in map(set, event.variants):
        return printable(f"{name} with the fields {', '.join(sorted(record.keys() - COMMON.keys()))}")
    wrong = [field for field, value in record.items() if type(value) is not _FIELDS[field].type]
    if wrong:
        return f"field {wrong[0]!r} is of the wrong type"
    if cls not in CLASS_CODES:
        return f"unknown class {_shown(cls)}"
    if name == "position_recovered" and ("number" in record) != (cls == TRANSACTIONAL):
        return f"a position of class {cls!r} that is not one"
    return ""


def _shown(value: object) -> str:
    """Return a value as it is, or its begin where it is long; Python writes no numbers of many thousand digits."""
    if type(value) is int and value.bit_length() > _SHOWN_BITS_MAX:
        return f"a number of {value.bit_length():,} bits"
    if type(value) is str and len(value) > _SHOWN_MAX:
        return f"{value[:_SHOWN_MAX]!r}..."
    return repr(value)


_SHOWN_MAX: Final = 100
"""Letters: more than any id or name has."""
_SHOWN_BITS_MAX: Final = 256
"""Numbers up to 78 digits are shown as they are."""
