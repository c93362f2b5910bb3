"""Rules of the session log that only a simulation can check: both ends of a conversation, restarts, ends of sessions.

They compare what the nodes of a world say of one thing, so they need all records of all nodes and of all their lives,
from the first start on; a user's logs are rotated away, or lack a node. All other rules are those of ``triack replay``,
whose local engine reads the same records.

Sets of single numbers and nothing cleverer, so that what they find needs no proof of its own.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from triack.session.states import CloseReason
from triack.tools.replay.files import Record
from triack.tools.replay.schema import ACK_RANGE_PACKETS_MAX, EXPRESS, RECOVERABLE, TRANSACTIONAL, Violation

__all__ = ["RULES", "Rule", "check_rules"]

Report = Callable[[Violation], None]
Handler = Callable[[Record], None]
Stream = tuple[str, int, int]
"""Origin, lane and sequence."""
End = tuple[str, str]
"""One end of a session: node and session id."""

REASONS = frozenset(reason.value for reason in CloseReason)
"""Why a session may end."""
DEAD_LETTER_LANE = 0
"""Dead letters are put into their queue by their own node; they were in no stream."""
RECOVERY = ("node_started", "position_recovered", "queued")
"""With these records an incarnation says what it found on its disk."""


def check_rules(records: Iterable[Record]) -> list[Violation]:
    """Let every rule see all records.

    Args:
        records: those of all nodes; the records of one node in the order in which it wrote them.

    Returns:
        What breaks a rule, sorted, each finding once.
    """
    found: list[Violation] = []
    rules = [kind(found.append) for kind in RULES]
    handlers: dict[str, list[Handler]] = {}
    for record in records:
        event = record["event"]
        if event not in handlers:
            names = ("on_record", f"on_{event}")
            handlers[event] = [getattr(rule, name) for rule in rules for name in names if hasattr(rule, name)]
        for handle in handlers[event]:
            handle(record)
    for rule in rules:
        rule.finish()
    return sorted({finding.identity: finding for finding in found}.values())


class Rule:
    """A rule over session-log records.

    Its methods ``on_EVENT`` get each record of that event, ``on_record`` gets every one; ``finish`` comes at the end.

    Args:
        report: takes what is found.
    """

    def __init__(self, report: Report) -> None:
        self.report = report

    def finish(self) -> None:
        """Judge what only the whole record shows."""


def stream_of(record: Record) -> Stream:
    """The stream that a record speaks of."""
    return record["origin"], record["lane"], record["sequence"]


def end_of(record: Record) -> End:
    """The end that a record speaks of."""
    return record["node"], record["session"]


def numbers_of(record: Record) -> Iterator[int]:
    """The single packets of a record's ranges."""
    for first, last in record["ranges"]:
        yield from range(first, min(last, first + ACK_RANGE_PACKETS_MAX - 1) + 1)


def numbers_from(record: Record) -> range:
    """The numbers from a record's ``first`` to its ``last``."""
    return range(record["first"], record["last"] + 1)


class Queue(Rule):
    """What is sent or committed was queued at its origin; what is handed out is in its node's queue."""

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self._nodes: set[str] = set()
        self._queued: defaultdict[Stream, set[int]] = defaultdict(set)
        self._arrived: defaultdict[tuple[str, Stream], set[int]] = defaultdict(set)

    def on_node_started(self, record: Record) -> None:
        self._nodes.add(record["node"])

    def on_queued(self, record: Record) -> None:
        self._queued[stream_of(record)].update(numbers_from(record))

    def on_packet_sent(self, record: Record) -> None:
        if record.get("lane") is None or record["node"] != record["origin"]:
            return
        stream, number = stream_of(record), record["number"]
        if number not in self._queued[stream]:
            node, session = end_of(record)
            self.report(Violation("queue", node, session, *stream, number, "sent but not queued"))

    def on_committed(self, record: Record) -> None:
        self._arrived[(record["node"], stream_of(record))].update(numbers_from(record))

    def on_position_recovered(self, record: Record) -> None:
        arrived = self._arrived[(record["node"], stream_of(record))]
        if record["class"] == TRANSACTIONAL:
            arrived.update(range(1, record["number"] + 1))
        else:
            arrived.update(numbers_of(record))

    def on_handed(self, record: Record) -> None:
        node, stream, number = record["node"], stream_of(record), record["number"]
        if stream[1] != DEAD_LETTER_LANE and number not in self._arrived[(node, stream)]:
            self.report(Violation("queue", node, "", *stream, number, "handed out but not committed"))

    def finish(self) -> None:
        for (node, stream), numbers in self._arrived.items():
            if stream[0] in self._nodes:
                for number in numbers - self._queued[stream]:
                    self.report(Violation("queue", node, "", *stream, number, "committed but not queued"))


class Once(Rule):
    """No express packet enters a queue twice in one life of its node; nothing is marked once and unmarked later.

    Of express packets a new life of the node knows nothing.
    """

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self._committed: defaultdict[tuple[str, int, Stream], set[int]] = defaultdict(set)
        self._marked: defaultdict[tuple[str, int, Stream, int], set[int]] = defaultdict(set)

    def on_committed(self, record: Record) -> None:
        if record["class"] == EXPRESS:
            node, stream, numbers = record["node"], stream_of(record), set(numbers_from(record))
            seen = self._committed[(node, record["incarnation"], stream)]
            for number in numbers & seen:
                self.report(Violation("express_twice", node, "", *stream, number, "entered the queue again"))
            seen |= numbers

    def on_handed(self, record: Record) -> None:
        node, stream, number = record["node"], stream_of(record), record["number"]
        life = record["incarnation"] if record["class"] == EXPRESS else 0
        marked = self._marked[(node, life, stream, number)]
        if record["redelivered"]:
            marked.update(numbers_from(record))
        elif not marked.isdisjoint(numbers_from(record)):
            self.report(Violation("unmarked", node, "", *stream, number, "handed out as new after a redelivery"))


class Steady(Rule):
    """Nothing that was acknowledged is taken back: within a session for its acks, for ever for order acks."""

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self._session_acks: dict[tuple[str, End], int] = {}
        self._order_acks: dict[tuple[str, str, int], tuple[int, int]] = {}

    def on_ack_sent(self, record: Record) -> None:
        self._judge(record)

    def on_store_ack_sent(self, record: Record) -> None:
        self._judge(record)

    def _judge(self, record: Record) -> None:
        key, cumulative = (record["event"], end_of(record)), record["cumulative"]
        before = self._session_acks.get(key, 0)
        if cumulative < before:
            evidence = f"{key[0]} {cumulative} follows {before}"
            self.report(Violation("ack_taken_back", *end_of(record), number=cumulative, evidence=evidence))
        self._session_acks[key] = max(before, cumulative)

    def on_order_ack_sent(self, record: Record) -> None:
        node, stream = record["node"], stream_of(record)
        lane, now = (node, *stream[:2]), (stream[2], record["number"])
        before = self._order_acks.get(lane, (0, 0))
        if now < before:
            evidence = f"order ack {now} follows {before}"
            self.report(Violation("ack_taken_back", node, "", *stream, record["number"], evidence))
        self._order_acks[lane] = max(before, now)


class Restart(Rule):
    """A base for rules about what an incarnation finds on its disk: ``judge`` comes when it has said it all."""

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self._recovering: set[str] = set()

    def on_record(self, record: Record) -> None:
        node = record["node"]
        if record["event"] == "node_started":
            self._recovering.add(node)
            self.begin(node)
        elif node in self._recovering and (
            record["event"] not in RECOVERY or (record["event"] == "queued" and not record.get("recovered"))
        ):
            self._recovering.remove(node)
            self.judge(node)

    def begin(self, node: str) -> None:
        """A node has started."""

    def judge(self, node: str) -> None:
        """The node has said what it found."""


class Recovered(Restart):
    """What a destination had on its disk is there again when it has started again."""

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self._on_disk: defaultdict[str, defaultdict[Stream, set[int]]] = defaultdict(lambda: defaultdict(set))
        self._found: dict[str, dict[tuple[str, int], tuple[int, set[int]]]] = {}

    def on_committed(self, record: Record) -> None:
        if record["class"] != EXPRESS:
            self._on_disk[record["node"]][stream_of(record)].update(numbers_from(record))

    def begin(self, node: str) -> None:
        self._found[node] = {}

    def on_position_recovered(self, record: Record) -> None:
        origin, lane, sequence = stream_of(record)
        numbers = range(1, record["number"] + 1) if record["class"] == TRANSACTIONAL else numbers_of(record)
        self._found[record["node"]][(origin, lane)] = (sequence, set(numbers))

    def judge(self, node: str) -> None:
        for stream, numbers in self._on_disk[node].items():
            if stream[0] == node:
                continue
            sequence, found = self._found[node].get(stream[:2], (0, set()))
            if sequence > stream[2]:
                continue
            for number in numbers - (found if sequence == stream[2] else set()):
                self.report(Violation("not_recovered", node, "", *stream, number, "committed before the restart"))


class Forgotten(Restart):
    """A sender forgets only what is acknowledged or removed: after a restart all else is queued again."""

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self._wanted: defaultdict[str, defaultdict[Stream, set[int]]] = defaultdict(lambda: defaultdict(set))
        self._again: dict[str, defaultdict[Stream, set[int]]] = {}
        self._carried: dict[tuple[End, int], tuple[Stream, int]] = {}

    def on_queued(self, record: Record) -> None:
        node, stream = record["node"], stream_of(record)
        if record["class"] != EXPRESS:
            self._wanted[node][stream].update(numbers_from(record))
            if record.get("recovered"):
                self._again[node][stream].update(numbers_from(record))

    def on_packet_sent(self, record: Record) -> None:
        if record.get("lane") is not None and record["class"] == RECOVERABLE:
            self._carried.setdefault((end_of(record), record["packet"]), (stream_of(record), record["number"]))

    def on_store_ack_received(self, record: Record) -> None:
        for packet in numbers_of(record):
            carried = self._carried.get((end_of(record), packet))
            if carried is not None:
                self._wanted[record["node"]][carried[0]].discard(carried[1])

    def on_order_ack_received(self, record: Record) -> None:
        wanted = self._wanted[record["node"]][stream_of(record)]
        wanted.difference_update([number for number in wanted if number <= record["number"]])

    def on_removed(self, record: Record) -> None:
        self._wanted[record["node"]][stream_of(record)].difference_update(numbers_from(record))

    def on_committed(self, record: Record) -> None:
        # A queue of the node itself: there is nobody to acknowledge.
        if record["node"] == record["origin"]:
            self._wanted[record["node"]][stream_of(record)].difference_update(numbers_from(record))

    def begin(self, node: str) -> None:
        self._again[node] = defaultdict(set)

    def judge(self, node: str) -> None:
        for stream, wanted in self._wanted[node].items():
            for number in wanted - self._again[node][stream]:
                self.report(Violation("forgotten", node, "", *stream, number, "neither acknowledged nor removed"))
            wanted.intersection_update(self._again[node][stream])


_ALIVE = ("session_opened", "packet_sent", "packet_received", "ack_received", "store_ack_received")
"""What only a session that is not over does."""


class NoSilentEnd(Rule):
    """A session that opened ends by a record with a known reason, or with its node; then nothing of it follows.

    Only its last acks may leave with the goodbye. A node that stops in good order has closed all of them.
    """

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self._open: dict[End, int] = {}
        self._over: set[End] = set()

    def on_session_opened(self, record: Record) -> None:
        self._judge_end(record)
        self._open[end_of(record)] = record["incarnation"]

    def on_session_closed(self, record: Record) -> None:
        if record["reason"] not in REASONS:
            self.report(Violation("silent_end", *end_of(record), evidence=f"unknown reason {record['reason']!r}"))
        # One that never opened may close as well: it gave up connecting.
        if self._open.pop(end_of(record), 0):
            self._over.add(end_of(record))

    def on_packet_sent(self, record: Record) -> None:
        self._judge_end(record)

    def on_packet_received(self, record: Record) -> None:
        self._judge_end(record)

    def on_ack_received(self, record: Record) -> None:
        self._judge_end(record)

    def on_store_ack_received(self, record: Record) -> None:
        self._judge_end(record)

    def _judge_end(self, record: Record) -> None:
        if end_of(record) in self._over:
            self.report(Violation("silent_end", *end_of(record), evidence=f"{record['event']} after its end"))

    def on_node_stopped(self, record: Record) -> None:
        for end, incarnation in self._open.items():
            if (end[0], incarnation) == (record["node"], record["incarnation"]):
                self.report(Violation("silent_end", *end, evidence="open when its node stopped"))


class Wire(Rule):
    """Packets of a session count 1, 2, 3, ..., keep their number and content, and arrive only as they were sent."""

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self._sent: defaultdict[End, dict[int, tuple[object, ...]]] = defaultdict(dict)
        self._received: defaultdict[End, dict[int, tuple[object, ...]]] = defaultdict(dict)
        self._peer: dict[End, str] = {}
        self._nodes: set[str] = set()

    def on_node_started(self, record: Record) -> None:
        self._nodes.add(record["node"])

    def on_session_opened(self, record: Record) -> None:
        self._peer[end_of(record)] = record["peer"]

    def on_packet_sent(self, record: Record) -> None:
        end, packet, sent = end_of(record), record["packet"], self._sent[end_of(record)]
        content = _content(record)
        if record["resend"] != (packet in sent):
            self.report(Violation("wire", *end, number=packet, evidence="a resend that is none, or unmarked"))
        elif packet not in sent and packet != len(sent) + 1:
            self.report(Violation("wire", *end, number=packet, evidence=f"follows packet {len(sent)}"))
        elif sent.setdefault(packet, content) != content:
            self.report(Violation("wire", *end, number=packet, evidence="sent again with something else"))
        sent[packet] = content

    def on_packet_received(self, record: Record) -> None:
        end, packet, received = end_of(record), record["packet"], self._received[end_of(record)]
        if record["duplicate"] != (packet in received):
            self.report(Violation("wire", *end, number=packet, evidence="a duplicate that is none, or unmarked"))
        received[packet] = _content(record)

    def finish(self) -> None:
        for end, received in self._received.items():
            peer = self._peer.get(end)
            if peer in self._nodes:
                sent = self._sent[(peer, end[1])]
                for packet in [packet for packet, content in received.items() if sent.get(packet) != content]:
                    self.report(Violation("wire", *end, number=packet, evidence="arrived, but was not sent like that"))


def _content(record: Record) -> tuple[object, ...]:
    """What a packet carries, whoever says it."""
    get = record.get
    return get("class"), get("origin"), get("lane"), get("sequence"), get("number"), get("previous"), get("count")


class Acks(Rule):
    """No store ack leaves for what had not arrived, and no ack of any kind arrives that was not sent."""

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self._arrived: defaultdict[End, set[int]] = defaultdict(set)
        self._peer: dict[End, str] = {}
        self._nodes: set[str] = set()
        # (what, end) -> packets.
        self._given: defaultdict[tuple[str, End], set[int]] = defaultdict(set)
        self._got: defaultdict[tuple[str, End], set[int]] = defaultdict(set)
        self._cumulative: dict[tuple[str, End], int] = {}
        self._order_given: dict[Stream, int] = {}
        self._order_got: dict[Stream, int] = {}

    def on_node_started(self, record: Record) -> None:
        self._nodes.add(record["node"])

    def on_session_opened(self, record: Record) -> None:
        self._peer[end_of(record)] = record["peer"]

    def on_packet_received(self, record: Record) -> None:
        self._arrived[end_of(record)].add(record["packet"])

    def on_ack_sent(self, record: Record) -> None:
        self._give("ack", record)

    def on_store_ack_sent(self, record: Record) -> None:
        end = end_of(record)
        for packet in self._give("store ack", record) - self._arrived[end]:
            self.report(Violation("store_ack_unsent", *end, number=packet, evidence="store-acked but not received"))

    def _give(self, what: str, record: Record) -> set[int]:
        """Note what an ack covers; return what no earlier one did."""
        key, cumulative = (what, end_of(record)), record["cumulative"]
        seen = self._cumulative.get(key, 0)
        self._cumulative[key] = max(seen, cumulative)
        news = {*range(seen + 1, cumulative + 1), *numbers_of(record)} - self._given[key]
        self._given[key] |= news
        return news

    def on_ack_received(self, record: Record) -> None:
        self._got[("ack", end_of(record))].update(numbers_of(record))

    def on_store_ack_received(self, record: Record) -> None:
        self._got[("store ack", end_of(record))].update(numbers_of(record))

    def on_order_ack_sent(self, record: Record) -> None:
        stream = stream_of(record)
        self._order_given[stream] = max(self._order_given.get(stream, 0), record["number"])

    def on_order_ack_received(self, record: Record) -> None:
        stream = stream_of(record)
        self._order_got[stream] = max(self._order_got.get(stream, 0), record["number"])

    def finish(self) -> None:
        for (what, end), packets in self._got.items():
            peer = self._peer.get(end)
            if peer in self._nodes:
                for packet in packets - self._given[(what, (peer, end[1]))]:
                    evidence = f"{what} that {peer} did not send"
                    self.report(Violation("ack_from_nowhere", *end, number=packet, evidence=evidence))
        for stream, number in self._order_got.items():
            given = self._order_given.get(stream, 0)
            if number > given:
                evidence = f"order ack of {number}, given only up to {given}"
                self.report(Violation("ack_from_nowhere", stream[0], "", *stream, number, evidence))


RULES: tuple[type[Rule], ...] = (Queue, Once, Steady, Recovered, Forgotten, NoSilentEnd, Wire, Acks)
