"""What session logs say of a message: each step (docs/session-log.md).

A log names packets. The ``queued`` record of the sender says which ordinals its packets have, and records with the
``counts`` of packets say in which of them a message is.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from triack.base.delivery import FREED_BY, LABELS, Ack, Role
from triack.queues.mailboxes.lookup import Wanted
from triack.tools.replay.causes.cause import spans_of
from triack.tools.replay.log.files import LogFile, find_logs, read_records

Record = dict[str, Any]

_CONTENT = frozenset({"packet_sent", "packet_received"})
_ACKS = frozenset({"ack_received", "store_ack_received"})
_UP_TO = frozenset({"order_ack_sent", "order_ack_received", "onward_sent", "onward_received"})
"""These, and order acks that relays pass on, are of all packets up to a number: the first that reaches a message
counts."""
_OF_STREAM = frozenset({"hold_received", "rerouted"})
"""These concern a message from when a node has it to send until it need not."""
_BEGINS = frozenset({"queued", "transit_committed"})
_ENDS = frozenset({"removed", "transit_freed"})
_ACK_EVENTS = {Ack.SESSION: "ack_received", Ack.STORE: "store_ack_received", Ack.ORDER: "order_ack_received"}
_FREED_BY = {LABELS[cls]: _ACK_EVENTS[ack] for (cls, role), ack in FREED_BY.items() if role is Role.ORIGIN}
"""The record of the acknowledgement that frees a message at its origin, by its class."""
_OF_NO_MESSAGE = frozenset({"position_recovered", "stream_ended", "stream_forgotten"})
_SAID = (
    "final", "queue", "peer_name", "by", "reason", "kind", "attempt", "interval_ns", "stop", "waits", "resend",
    "duplicate", "recovered", "redelivered", "kept", "subscription", "bridge", "where", "message_class",
)  # fmt: skip
"""The fields that say more of a step, in this order; ``by`` is the neighbour of its session."""


class Step(NamedTuple):
    """One record about a message.

    Attributes:
        wall_ns: when, by the clock of the node's machine, in nanoseconds since 1970.
        node: the name of the node that says it; if its log does not name it, its id.
    """

    id: str
    wall_ns: int
    node: str
    event: str
    why: str


class _Where(NamedTuple):
    """A message in its stream: its packets, and its place in the last of them; None if no log says that."""

    first: int
    last: int
    place: int | None


@dataclass(slots=True)
class _Way:
    """The records that may be about one message, and what they say about where it is."""

    id: str
    wanted: Wanted
    stream: tuple[Any, ...] = ()
    cls: str = ""
    first: int = 0
    last: int = 0
    offset: int = 0
    counts: dict[int, int] = field(default_factory=dict)
    # Packets that were sent: by whom in which session, the first number in the stream, the last, the first there.
    sent: set[tuple[tuple[str, str], int, int, int]] = field(default_factory=set)
    # Nodes, and events up to a number, that have reached all packets that may hold the message.
    reached: set[tuple[str, str]] = field(default_factory=set)
    found: list[Record] = field(default_factory=list)

    def begin(self, record: Record) -> None:
        """Note a record of messages that their sender has queued, if this one is among them."""
        offset = self.wanted.ordinal - record["ordinal"]
        if record["node"] == self.wanted.origin.hex() and 0 <= offset < record["count"]:
            self.stream, self.cls, self.offset = _stream_of(record), record["class"], offset
            self.first, self.last = record["first"], record["last"]

    def look_at(self, record: Record) -> None:
        """Note a record of the stream, or of a session, if it may be about the message."""
        event, reach = record["event"], _reach_of(record)
        if reach is not None:
            if reach < self.first or _who(record) in self.reached:
                return
            if reach >= self.last:
                self.reached.add(_who(record))
        elif event in _OF_NO_MESSAGE or not self._is_of(record, _Where(self.first, self.last, None)):
            return
        self.found.append(record)
        if event in _CONTENT:
            number = record["number"]
            for packets, messages in record["counts"]:
                self.counts.update(dict.fromkeys(range(number, number + packets), messages))
                number += packets
            if event == "packet_sent":
                self.sent.add((_session_of(record), record["number"], number - 1, record["packet"]))

    def where(self) -> _Where:
        """Where the message is, as far as the records say."""
        left, begin = self.offset, self.first
        for number in range(self.first, self.last + 1):
            count = self.counts.get(number)
            if count is None:
                break
            if left < count:
                return _Where(begin if left == 0 else number, number, left)
            left -= count
            # Fragments of a large message complete none; the last one does.
            begin = begin if count == 0 else number + 1
        return _Where(self.first, self.last, self.offset if self.first == self.last else None)

    def told(self) -> list[Record]:
        """The records about the message."""
        where, told, reached, have = self.where(), list[Record](), set[tuple[str, str]](), set[str]()
        for record in self.found:
            node, event = _who(record)
            if not self._is_of(record, where) or (node, event) in reached or (event in _OF_STREAM and node not in have):
                continue
            told.append(record)
            if _reach_of(record) is not None:
                reached.add((node, event))
            if event in _BEGINS:
                have.add(node)
            elif event in _ENDS or event == _FREED_BY[self.cls]:
                have.discard(node)
        return told

    def placed(self) -> Iterator[tuple[int, Record]]:
        """Its places in topics, if it is known which of several it is."""
        where = self.where()
        for record in self.found:
            if record["event"] == "placed" and where.place is not None and self._is_of(record, where):
                yield _place_in_topic(record, where), record

    def _is_of(self, record: Record, where: _Where) -> bool:
        if record["event"] in _ACKS:
            return any(_holds(record["ranges"], *span) for span in self._packets(_session_of(record), where))
        return _meets(record, where.first, where.last) and _has_place(record, where)

    def _packets(self, session: tuple[str, str], where: _Where) -> Iterator[tuple[int, int]]:
        for whose, first, last, packet in self.sent:
            begin, end = max(first, where.first), min(last, where.last)
            if whose == session and begin <= end:
                yield packet + begin - first, packet + end - first


def steps_of(ids: Iterable[str], paths: Iterable[Path]) -> list[Step]:
    """Find the steps of messages in session logs, in the order of time. Raises UsageError, ReplayError."""
    logs = find_logs(paths)
    ways = [_Way(id_, Wanted.by_id(id_)) for id_ in ids]
    names = _begin(ways, _records(logs))
    by_stream = {way.stream: [it for it in ways if it.stream == way.stream] for way in ways if way.stream}
    for record in _records(logs):
        for way in ways if record["event"] in _ACKS else by_stream.get(_stream_of(record), ()):
            way.look_at(record)
    told = [(way.id, record) for way in ways for record in way.told()]
    placed = [(way.id, place, root) for way in ways for place, root in way.placed()]
    if placed:
        told += _told_in_topics(placed, _records(logs))
    steps = [_step(id_, record, names) for id_, record in told]
    return sorted(steps, key=lambda it: (it.id, it.wall_ns))


def _records(logs: list[LogFile]) -> Iterator[Record]:
    return chain.from_iterable(map(read_records, logs))


def _begin(ways: list[_Way], records: Iterable[Record]) -> dict[str, str]:
    names: dict[str, str] = {}
    for record in records:
        if record["event"] == "node_started":
            names[record["node"]] = record["name"]
        elif record["event"] == "session_opened":
            names[record["session"] + record["node"]] = record["peer_name"]
        elif "ordinal" in record:
            for way in ways:
                way.begin(record)
    return names


def _told_in_topics(placed: list[tuple[str, int, Record]], records: Iterable[Record]) -> Iterator[tuple[str, Record]]:
    """Yield the records of places in topics; ``placed``: ids of messages, their places, and the record of each."""
    for record in records:
        if "topic" in record and "origin" not in record:
            for id_, place, root in placed:
                is_its = (record["node"], record["topic"]) == (root["node"], root["topic"])
                if is_its and _meets(record, place, place):
                    yield id_, record


def _who(record: Record) -> tuple[str, str]:
    return record["node"], record["event"]


def _session_of(record: Record) -> tuple[str, str]:
    return record["node"], record["session"]


def _stream_of(record: Record) -> tuple[Any, ...]:
    return record.get("origin"), record.get("stream"), record.get("sequence")


def _meets(record: Record, first: int, last: int) -> bool:
    if record["event"] in _OF_STREAM:
        return True
    reach = _reach_of(record)
    if reach is not None:
        return reach >= last
    return not record.keys().isdisjoint(("ranges", "last", "number")) and _holds(spans_of(record), first, last)


def _reach_of(record: Record) -> int | None:
    """The packet up to which a record applies; None for records of some packets."""
    if record["event"] in _UP_TO or record.get("kind") == "order-ack":
        reach: int = record["here"] if "here" in record else record["number"]
        return reach
    return None


def _holds(ranges: Iterable[Sequence[int]], first: int, last: int) -> bool:
    return any(begin <= last and first <= end for begin, end in ranges)


def _has_place(record: Record, where: _Where) -> bool:
    """Whether a record about some messages of its packets is about this one."""
    if "place" not in record or where.place is None:
        return True
    begin, number = record["place"], record["number"]
    for packets, messages in record.get("counts", [[1, record.get("count", 0)]]):
        for _ in range(packets):
            if number == where.last:
                return bool(begin <= where.place < begin + messages)
            begin, number = 0, number + 1
    return False


def _place_in_topic(record: Record, where: _Where) -> int:
    number, place = record["number"], record["at_place"]
    for packets, messages in record["counts"]:
        before = min(packets, where.last - number)
        place, number = place + before * messages, number + packets
        if number > where.last:
            break
    return int(place + (where.place or 0))


def _step(id_: str, record: Record, names: dict[str, str]) -> Step:
    node: str = record["node"]
    said = record | {"by": names.get(f"{record.get('session')}{node}", "")}
    why = ", ".join(filter(None, (_say(name, said.get(name)) for name in _SAID)))
    return Step(id_, record["wall_ns"], names.get(node, node), record["event"], why)


def _say(name: str, value: object) -> str:
    if name == "stop" and value is not None:
        return "it waits" if value else "it waits no longer"
    if value in (None, False, ""):
        return ""
    if isinstance(value, bool):
        return name
    if isinstance(value, int) and name.endswith("_ns"):
        return f"after {value / 1e9:g} s"
    return f"{name.replace('_', ' ')} {value}"
