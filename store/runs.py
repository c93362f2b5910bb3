"""Consecutive packets of one commit as one row: the part of each, and which of them are gone.

    outgoing   packets x (size u32, messages u16, reach by u64, whether it cares u8)
    messages   packets x (size u32, the first bytes of the body)
    transit    packets x (size u32, number u64, messages u16, previous u64, left by u64)

All integers are little-endian. The key of a packet is that of its row plus its place in it. A row is deleted with the
last of its packets; until then a row of ``freed`` marks the gone ones, bit i for packet i.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, chain, pairwise
from struct import Struct
from typing import Any, Generic, NamedTuple, TypeVar

from triack.base.commit import (
    CARES,
    HEAD_BYTES,
    MessageIndex,
    MessageRow,
    OutgoingIndex,
    OutgoingRow,
    TransitIndex,
    TransitRow,
)
from triack.base.errors import StoreError

RUN_PACKETS = 256
"""Most packets in a row: enough for one statement, and few enough to mark when some of them are gone."""
RUN_PACKETS_MIN = 24
"""Fewer get a row each: to mark the gone ones would cost more than it saves (measured)."""
RUN_BYTES = 512 * 1024
"""Most bytes of bodies in a row: to read one packet the store reads its whole row."""

_OUTGOING = Struct("<IHQ?")
_MESSAGE = Struct(f"<I{HEAD_BYTES}s")
_TRANSIT = Struct("<IQHQQ")
_LAYOUTS = {"outgoing": _OUTGOING, "messages": _MESSAGE, "transit": _TRANSIT}
OUTGOING_BYTES = _OUTGOING.size
MESSAGE_BYTES = _MESSAGE.size
TRANSIT_BYTES = _TRANSIT.size
"""The bytes in ``parts`` for each packet."""
_CARING = bytes([CARES])
"""The least first byte of a body that cares, as that bit is the highest."""

Index = TypeVar("Index", OutgoingIndex, MessageIndex, TransitIndex)
Neighbour = TypeVar("Neighbour", OutgoingRow, TransitRow)


class StoredRun(NamedTuple):
    """The packets of one row, once read."""

    keys: range
    gone: int
    bodies: list[bytes]

    def body_of(self, key: int) -> bytes | None:
        """The body of a packet, unless it is gone."""
        place = key - self.keys.start
        return self.bodies[place] if key in self.keys and not self.gone >> place & 1 else None

    @classmethod
    def cut(cls, table: str, row: list[Any], gone: int) -> "StoredRun":
        """Cut a whole row, without its checksums, into packets."""
        key, packets, *_, parts, body = row
        ends = accumulate([part[0] for part in _LAYOUTS[table].iter_unpack(parts)], initial=0)
        return cls(range(key, key + packets), gone, [body[start:end] for start, end in pairwise(ends)])


def fold_outgoing(rows: Sequence[OutgoingRow]) -> Iterator[tuple[Any, ...]]:
    """Yield rows: key, how many packets, parts, bodies."""
    for run in _runs(rows):
        parts = [_OUTGOING.pack(len(body), messages, by_ms, body[:1] >= _CARING) for _, messages, by_ms, body in run]
        yield run[0].key, len(run), b"".join(parts), b"".join([row.body for row in run])


def fold_transit(rows: Sequence[TransitRow]) -> Iterator[tuple[Any, ...]]:
    """Yield rows: key, how many packets, parts, bodies."""
    for run in _runs(rows):
        parts = [_TRANSIT.pack(len(body), *values) for _, *values, body in run]
        yield run[0].key, len(run), b"".join(parts), b"".join([row.body for row in run])


def fold_messages(rows: Sequence[MessageRow]) -> Iterator[tuple[Any, ...]]:
    """Yield rows: key, how many packets, stream and number of the first, class, topic, place, parts, bodies."""
    for row in _joined(rows) if len(rows) > 1 else rows:
        key, origin, stream, sequence, number, bodies, delivery, topic, place = row
        for start, stop in _cut([len(body) for body in bodies]):
            run = bodies[start:stop]
            parts = b"".join([_MESSAGE.pack(len(body), body[:HEAD_BYTES]) for body in run])
            about = origin, stream, sequence, number + start, int(delivery), topic, place
            yield key + start, stop - start, *about, parts, b"".join(run)


def _runs(rows: Sequence[Neighbour]) -> list[Sequence[Neighbour]]:
    """Rows that share one; each has neighbouring keys."""
    if len(rows) < RUN_PACKETS_MIN:
        return [[row] for row in rows]
    runs: list[Sequence[Neighbour]] = []
    begin = 0
    for at, row in enumerate([*rows, None]):
        if row is None or row.key != rows[begin].key + at - begin:
            sizes_bytes = [len(row.body) for row in rows[begin:at]]
            runs += [rows[begin + start : begin + stop] for start, stop in _cut(sizes_bytes)]
            begin = at
    return runs


def _joined(rows: Sequence[MessageRow]) -> Iterator[MessageRow]:
    bodies: list[bytes] = []
    first: MessageRow | None = None
    for row in rows:
        count = len(bodies)
        follows = first is not None and row[:5] == (first.key + count, *first[1:4], first.number + count)
        named = first is not None and (first.topic or first.place or row.topic or row.place)
        if first is not None and follows and row.delivery == first.delivery and not named:
            bodies += row.bodies
            continue
        if first is not None:
            yield first._replace(bodies=bodies)
        first, bodies = row, list(row.bodies)
    if first is not None:
        yield first._replace(bodies=bodies)


def _cut(sizes_bytes: list[int]) -> list[tuple[int, int]]:
    """From where to where packets of a run share a row."""
    cuts: list[tuple[int, int]] = []
    start = size_bytes = 0
    for at, more_bytes in enumerate([*sizes_bytes, RUN_BYTES + 1]):
        size_bytes += more_bytes
        if at > start and (at - start == RUN_PACKETS or size_bytes > RUN_BYTES):
            is_run = at - start >= RUN_PACKETS_MIN
            cuts += [(start, at)] if is_run else [(place, place + 1) for place in range(start, at)]
            start, size_bytes = at, more_bytes
    return cuts


class Reading:
    """How far a start has read its store. Another thread may look at it, and give it up."""

    __slots__ = ("is_given_up", "rows")

    def __init__(self) -> None:
        self.rows = 0
        self.is_given_up = False

    def give_up(self) -> None:
        """End it with its next row. Any thread may call this."""
        self.is_given_up = True

    def step(self) -> None:
        """Count one more row. Raises StoreError if the start was given up."""
        self.rows += 1
        if self.is_given_up:
            raise StoreError("read the store: the start was given up")


class Unfolded(Generic[Index]):
    """The packets of rows, each made when it is asked for: a million of them need no more memory than their rows."""

    __slots__ = ("_reading", "_rows", "_unfold")

    def __init__(self, rows: list[tuple[Any, ...]], unfold: Callable[..., Iterator[Index]], reading: Reading) -> None:
        self._rows = rows
        self._unfold: Callable[..., Iterator[Index]] = unfold
        self._reading = reading

    def __iter__(self) -> Iterator[Index]:
        return chain.from_iterable(self._unfolded())

    def _unfolded(self) -> Iterator[Iterator[Index]]:
        for row in self._rows:
            self._reading.step()
            yield self._unfold(*row)


def outgoing_indices(key: int, parts: bytes, gone: int, head: bytes) -> Iterator[OutgoingIndex]:
    """Yield the packets of a row that are not gone; ``head`` is that of the row's first packet."""
    for place, (size_bytes, messages, reach_by_ms, cares) in enumerate(_OUTGOING.iter_unpack(parts)):
        if not gone >> place & 1:
            yield OutgoingIndex(key + place, messages, reach_by_ms, size_bytes, cares, head)


def transit_indices(key: int, parts: bytes, gone: int, head: bytes) -> Iterator[TransitIndex]:
    """Yield the packets in transit of a row that are not gone; ``head`` is that of the row's first packet."""
    for place, part in enumerate(_TRANSIT.iter_unpack(parts)):
        size_bytes, number, messages, previous, left_by_ms = part
        if not gone >> place & 1:
            yield TransitIndex(key + place, number, messages, previous, left_by_ms, size_bytes, head)


def message_indices(row: list[Any], gone: int, progress: dict[int, bytes]) -> Iterator[MessageIndex]:
    """Yield the packets of a row that are not gone, with the progress of those that are partly done."""
    first, _, origin, stream, sequence, number, delivery, topic, at_place, parts = row
    for place, (size_bytes, start) in enumerate(_MESSAGE.iter_unpack(parts)):
        if not gone >> place & 1:
            key, head = first + place, start[:size_bytes]
            done = progress.get(key)
            about = origin, stream, sequence, number + place
            yield MessageIndex(key, *about, size_bytes, head, done, delivery, topic, at_place)


def every_bit(packets: int) -> int:
    """All packets of a row, as bits."""
    return (1 << packets) - 1


def bits_in(key: int, packets: int, first: int, last: int) -> int:
    """The packets of a row whose keys are from ``first`` to ``last``, as bits."""
    start, end = max(first - key, 0), min(last - key + 1, packets)
    return every_bit(end) - every_bit(start) if start < end else 0
