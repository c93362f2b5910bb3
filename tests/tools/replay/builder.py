"""Writes session logs of two nodes, so that tests can break one promise at a time. Each record is of one packet."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from triack.base.session_log import COMMON, EVENTS, SCHEMA_VERSION
from triack.tools.replay.log.schema import Violation

ALPHA = "a1" * 16
BETA = "be" * 16
MS = 1_000_000
HOUR = 3_600_000 * MS
PER_PACKET = 10
CLASS_STREAMS = {"transactional": 1, "recoverable": 2, "express": 3}
SEQUENCE = 5

Record = dict[str, Any]


class Clock:
    """One time for both nodes; each record takes a millisecond."""

    def __init__(self) -> None:
        self.now_ns = 0

    def tick(self, step_ns: int = MS) -> int:
        self.now_ns += step_ns
        return self.now_ns


class Log:
    """The records of one node."""

    def __init__(self, name: str, node: str, clock: Clock) -> None:
        self.name = name
        self.node = node
        self.clock = clock
        self.incarnation = 0
        self.records: list[Record] = []

    def start(self, boot: str = "same") -> None:
        self.incarnation += 1
        self.write("node_started", name=self.name, **SETTINGS)
        self.write("start_before", records=0, boot=boot)

    def end(self) -> None:
        """The node stops, if it has not: so its log is all there."""
        if self.records and self.records[-1]["event"] != "node_stopped":
            self.write("node_stopped")["n"] = self.records[-2]["n"] + 1

    def write(self, event: str, **fields: Any) -> Record:
        now = self.clock.tick()
        cls = {"class": fields.pop("cls")} if "cls" in fields else {}
        common = {"v": SCHEMA_VERSION, "event": event, "node": self.node, "incarnation": self.incarnation, "n": 0}
        times = {"at_ns": now, "wall_ns": 1_700_000_000_000_000_000 + now}
        self.records.append({**common, **times, **cls, **as_range(event, fields)})
        return self.records[-1]

    def stand_still(self, for_ns: int) -> Record:
        """The process is stopped for a while, and says so when it goes on."""
        since_ns = self.clock.now_ns
        self.clock.tick(for_ns)
        return self.write("woke_late", since_ns=since_ns)

    def all(self, event: str, **match: Any) -> list[Record]:
        """The records of an event whose fields have these values."""
        wanted = {"class" if name == "cls" else name: value for name, value in match.items()}
        return [
            record
            for record in self.records
            if record["event"] == event and all(record.get(name) == value for name, value in wanted.items())
        ]

    def one(self, event: str, **match: Any) -> Record:
        return self.all(event, **match)[0]

    def drop(self, event: str, **match: Any) -> None:
        for record in self.all(event, **match):
            self.records.remove(record)

    def repeat(self, record: Record, **changes: Any) -> Record:
        """Put a changed copy right behind a record."""
        times = {name: record[name] for name in ("at_ns", "wall_ns")}
        copy = fit({**record, **changes, **times})
        self.records.insert(self.records.index(record) + 1, copy)
        return copy

    def move_before(self, record: Record, other: Record) -> None:
        self.records.remove(record)
        record.update(at_ns=other["at_ns"], wall_ns=other["wall_ns"])
        self.records.insert(self.records.index(other), record)

    def number(self) -> None:
        """Give the records their serials, as a node that wrote them in this order would have."""
        serials: dict[int, int] = {}
        for record in self.records:
            serials[record["incarnation"]] = serials.get(record["incarnation"], 0) + 1
            record["n"] = serials[record["incarnation"]]

    def save(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        for incarnation in sorted({record["incarnation"] for record in self.records}):
            lines = [json.dumps(record) + "\n" for record in self.records if record["incarnation"] == incarnation]
            half = len(lines) // 2
            stem = f"{self.name}-{incarnation:06}"
            (directory / f"{stem}-000001.jsonl").write_text("".join(lines[:half]))
            (directory / f"{stem}-000002.jsonl.open").write_text("".join(lines[half:]))


def close_segments(directory: Path) -> None:
    """Rename what is being written, as a node does when it begins the next segment."""
    for path in directory.rglob("*.open"):
        path.rename(path.with_suffix(""))


SETTINGS = {
    "max_unacked_packet": 64, "idle_ack_delay_ns": 500 * MS, "ack_threshold": 32, "ack_timeout_min_ns": 2_000 * MS,
    "seq_max_ack_delay_ns": 10_000 * MS, "seq_resend_13_ns": HOUR, "seq_resend_46_ns": 2 * HOUR,
    "seq_resend_79_ns": 3 * HOUR, "seq_resend_10_ns": 4 * HOUR,
}  # fmt: skip
"""What both nodes say when they start: no order ack and no resend is due within the minutes of a story."""

AGREED = {
    "ack_share": "1/2", "ack_count": 0, "store_ack_share": "1/2", "store_ack_count": 0,
    "ack_bytes": 0, "store_ack_delay_ns": 500 * MS, "store_ack_threshold": 32, "store_ack_bytes": 0,
    "ack_timeout_min_ns": 2000 * MS, "ack_timeout_max_ns": 120_000 * MS, "store_ack_timeout_min_ns": 10_000 * MS,
    "store_ack_timeout_max_ns": 120_000 * MS, "ack_at_once": "gap duplicate request",
    "cleanup_interval_ns": 300_000 * MS, "congestion": "none",
}  # fmt: skip
"""What both ends of a session have in force, beside what every story changes."""


class World:
    """Two nodes, alpha sends to beta."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.alpha = Log("alpha", ALPHA, self.clock)
        self.beta = Log("beta", BETA, self.clock)
        self.session = ""
        self.packets = 0
        self.sessions = 0
        self.next = dict.fromkeys(CLASS_STREAMS, 1)
        self.acked = 0

    @property
    def logs(self) -> tuple[Log, ...]:
        """Those of all nodes."""
        return self.alpha, self.beta

    def open(self) -> str:
        self.sessions += 1
        self.session = f"{self.sessions:016x}"
        self.packets = self.acked = 0
        write_opened(self.alpha, self.session, BETA, "b", "initiator")
        write_opened(self.beta, self.session, ALPHA, "b", "acceptor")
        return self.session

    def close(self, reason: str = "drained", *, early: bool = False) -> None:
        """End the session; an ack timeout is two seconds."""
        if reason == "ack-timeout" and not early:
            self.clock.tick(2_000 * MS)
        heard = "path-lost" if reason in ("ack-timeout", "store-ack-timeout") else reason
        write_closed(self.alpha, self.session, BETA, "b", reason, self.packets - self.acked)
        write_closed(self.beta, self.session, ALPHA, "b", heard)

    def queue(self, cls: str, packets: int) -> range:
        """Commit new outgoing packets at alpha."""
        first = self.next[cls]
        self.next[cls] += packets
        self.queued(cls, first, first + packets - 1)
        return range(first, first + packets)

    def queued(self, cls: str, first: int, last: int, **more: Any) -> Record:
        return self.alpha.write(
            "queued", cls=cls, **place(cls), first=first, last=last, count=PER_PACKET * (last - first + 1),
            queue="orders", peer_name="b", **{"sealed": False, **more},
        )  # fmt: skip

    def send(
        self, cls: str, numbers: range, *, lost: tuple[int, ...] = (), resend: bool = False, previous: int | None = None
    ) -> list[int]:
        """Send packets in the session; those in `lost` do not arrive. Returns the session's numbers that did."""
        arrived = []
        for number in numbers:
            if not resend:
                self.packets += 1
            fields = {
                "session": self.session, "packet": self.packets, "cls": cls, "size": 1200, **place(cls),
                "number": number, "count": PER_PACKET,
                "previous": number - 1 if previous is None else previous,
            }  # fmt: skip
            self.alpha.write("packet_sent", resend=resend, **fields)
            if number not in lost:
                self.beta.write("packet_received", duplicate=False, **fields)
                arrived.append(self.packets)
        return arrived

    def commit(self, cls: str, numbers: range) -> Record:
        return self.beta.write(
            "committed", cls=cls, **place(cls), first=numbers[0], last=numbers[-1],
            count=PER_PACKET * len(numbers), queue="orders",
        )  # fmt: skip

    def hand(self, cls: str, numbers: range, *, again: bool = False, first: int = 0) -> None:
        for number in numbers:
            self.beta.write(
                "handed", queue="orders", **place(cls), number=number, cls=cls, first=first, last=PER_PACKET - 1,
                redelivered=again,
            )  # fmt: skip

    def settle(self, cls: str, numbers: range) -> None:
        """The reader is done with packets."""
        for number in numbers:
            self.beta.write(
                "settled", queue="orders", **place(cls), number=number, cls=cls, place=0, counts=[[1, PER_PACKET]]
            )

    def ack(self, packets: list[int], *, store: bool = True) -> None:
        self.acked += len(packets)
        for kind in ("ack", "store_ack") if store else ("ack",):
            self.beta.write(
                f"{kind}_sent", session=self.session, cumulative=packets[-1], ranges=[],
                trigger="request", pending=len(packets),
            )  # fmt: skip
            self.alpha.write(f"{kind}_received", session=self.session, ranges=[[packets[0], packets[-1]]])

    def order_ack(self, number: int) -> None:
        self.beta.write("order_ack_sent", **place("transactional"), number=number, peer=ALPHA)
        self.alpha.write("order_ack_received", **place("transactional"), number=number)

    def deliver(self, cls: str, packets: int) -> None:
        """The whole way of new packets, with nothing going wrong."""
        numbers = self.queue(cls, packets)
        arrived = self.send(cls, numbers)
        self.commit(cls, numbers)
        self.ack(arrived)
        if cls == "transactional":
            self.order_ack(numbers[-1])
        self.hand(cls, numbers)
        if cls != "express":
            self.settle(cls, numbers)

    def number(self, *, lacking: bool = False) -> None:
        """Give the records their serials; where records of alpha are lacking it has them already."""
        for log in self.logs[1:] if lacking else self.logs:
            log.number()

    def all_records(self, *, lacking: bool = False) -> list[Record]:
        """The records of both nodes, each node's in its order."""
        self.number(lacking=lacking)
        return [record for log in self.logs for record in log.records]

    def end(self) -> None:
        """All logs go to their ends, so that nothing can be missing there."""
        for log in self.logs:
            log.end()

    def save(self, directory: Path, *, number: bool = True) -> list[Path]:
        for log in self.logs:
            if number:
                log.number()
            log.save(directory / log.name)
        return [directory / log.name for log in self.logs]


def brief(findings: Iterable[Violation]) -> set[tuple[str, int, int, int]]:
    """The findings, packet by packet, without who says so and how."""
    return {
        (found.check, found.stream, found.sequence, number)
        for found in findings
        for number in range(found.number, found.last + 1)
    }


def as_range(event: str, fields: Record) -> Record:
    """The fields of a record about one packet as the log has them: a packet is a range of one."""
    fields = dict(fields)
    if event in ("packet_sent", "packet_received"):
        fields["packets"] = 1
        if "count" in fields:
            fields["counts"] = [[1, fields.pop("count")]]
    elif event == "handed" and "ranges" not in fields:
        first, last = fields.pop("first"), fields.pop("last")
        fields |= {"place": first, "counts": [[1, last - first + 1]]}
    return fields


def fit(record: Record) -> Record:
    """A record without the fields that its event does not have."""
    event = EVENTS[record["event"]]
    kept = {*COMMON, *event.fields, *(name for group in event.variants for name in group)}
    return {name: value for name, value in record.items() if name in kept}


def place(cls: str) -> dict[str, Any]:
    return {"origin": ALPHA, "stream": CLASS_STREAMS[cls], "sequence": SEQUENCE}


def scheduled(world: World, attempt: int, interval_ns: int, number: int = 1) -> Record:
    what = {"first": number, "last": number, "attempt": attempt, "interval_ns": interval_ns}
    return world.alpha.write("resend_scheduled", cls="transactional", **place("transactional"), **what)


def write_opened(log: Log, session: str, peer: str, peer_name: str, role: str, window: int = 64) -> None:
    log.write(
        "session_opened", session=session, peer=peer, peer_name=peer_name, role=role, address="udp://127.0.0.1:7801",
        window=window, idle_ack_delay_ns=500 * MS, ack_threshold=32, **AGREED,
    )  # fmt: skip


def write_closed(log: Log, session: str, peer: str, peer_name: str, reason: str, unacked: int = 0) -> None:
    log.write("session_closed", session=session, peer=peer, peer_name=peer_name, reason=reason, unacked=unacked)


def ready() -> World:
    """Both nodes run and have a session."""
    world = World()
    world.alpha.start()
    world.beta.start()
    world.open()
    return world


def healthy() -> World:
    """Three sessions: all classes, a failed session with a full resend, a removal, a crash of each node."""
    from tests.tools.replay.harmless import HARMLESS

    return HARMLESS["healthy"]()
