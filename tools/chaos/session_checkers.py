"""Checkers of what happens in sessions: windows, acknowledgements, their timing, and what follows a failed session.

A session is known by the node that saw it and its id: each end is judged by its own records.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from triack.tools.chaos.checker import Checker, Record, Report, Stream, stream_of
from triack.tools.replay.schema import (
    ACK_BURST_PACKETS,
    ACK_RANGE_PACKETS_MAX,
    EXPRESS,
    FAILURE_REASONS,
    IDLE_ACK_TOLERANCE_NS,
    RECOVERABLE,
    TIER_NOISE_NS,
    TIER_TOLERANCE_PERCENT,
    TRANSACTIONAL,
    Violation,
    tier_of,
)

__all__ = ["SESSION_CHECKERS", "AckTimes", "Arrivals", "Resends", "StoreAcks", "Tiers", "Window"]

End = tuple[str, str]
"""One end of a session: node and session id."""


def end_of(record: Record) -> End:
    """The end that a record speaks of."""
    return record["node"], record["session"]


def numbers_of(record: Record) -> Iterator[int]:
    """The single packets of a record's ranges."""
    for first, last in record["ranges"]:
        yield from range(first, min(last, first + ACK_RANGE_PACKETS_MAX - 1) + 1)


class Window(Checker):
    """A sender never has more unacknowledged packets than the window, and no ack arrives for what was not sent."""

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self._window: dict[End, int] = {}
        self._sent: defaultdict[End, set[int]] = defaultdict(set)
        self._acked: defaultdict[End, set[int]] = defaultdict(set)
        self._unacked: defaultdict[End, set[int]] = defaultdict(set)
        # With the first send of each packet: how many were unacknowledged.
        self._counts: defaultdict[End, dict[int, int]] = defaultdict(dict)

    def on_session_opened(self, record: Record) -> None:
        self._window.setdefault(end_of(record), record["window"])

    def on_packet_sent(self, record: Record) -> None:
        end, packet = end_of(record), record["packet"]
        if packet in self._sent[end]:
            return
        self._sent[end].add(packet)
        if packet not in self._acked[end]:
            self._unacked[end].add(packet)
            self._counts[end][packet] = len(self._unacked[end])

    def on_ack_received(self, record: Record) -> None:
        end, packets = end_of(record), set(numbers_of(record))
        for packet in packets - self._sent[end]:
            self.report(Violation("ack_unreceived", *end, number=packet, evidence="acknowledged but not sent"))
        self._acked[end] |= packets
        self._unacked[end] -= packets

    def finish(self) -> None:
        for end, window in self._window.items():
            for packet, unacked in self._counts[end].items():
                if unacked > window:
                    evidence = f"{unacked} packets unacknowledged, the window is {window}"
                    self.report(Violation("window", *end, number=packet, evidence=evidence))


class Arrivals(Checker):
    """A session ack speaks only of packets that had arrived."""

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self._arrived: defaultdict[End, set[int]] = defaultdict(set)
        self._looked_at: dict[End, int] = {}

    def on_packet_received(self, record: Record) -> None:
        self._arrived[end_of(record)].add(record["packet"])

    def on_ack_sent(self, record: Record) -> None:
        end, cumulative = end_of(record), record["cumulative"]
        # What was acknowledged before was judged then.
        seen = self._looked_at.get(end, 0)
        self._looked_at[end] = max(seen, cumulative)
        for packet in {*range(seen + 1, cumulative + 1), *numbers_of(record)} - self._arrived[end]:
            self.report(Violation("ack_unsent", *end, number=packet, evidence="acknowledged but not received"))


class StoreAcks(Checker):
    """The store ack that first covers a durable packet leaves after its number is on the node's disk.

    Forwarders keep no record of what they have on disk, and are not judged.
    """

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self._carried: defaultdict[End, dict[int, tuple[str, Stream, int]]] = defaultdict(dict)
        self._looked_at: dict[End, int] = {}
        self._covered: defaultdict[End, set[int]] = defaultdict(set)
        self._on_disk: defaultdict[tuple[str, Stream], set[int]] = defaultdict(set)
        self._found: list[Violation] = []
        self._forwarded: set[tuple[str, str, int]] = set()

    def on_packet_sent(self, record: Record) -> None:
        if record.get("lane") is not None and record["origin"] != record["node"]:
            self._forwarded.add((record["node"], record["origin"], record["lane"]))

    def on_packet_received(self, record: Record) -> None:
        if record.get("lane") is not None:
            packet = (record["class"], stream_of(record), record["number"])
            self._carried[end_of(record)].setdefault(record["packet"], packet)

    def on_committed(self, record: Record) -> None:
        if record["class"] != EXPRESS:
            on_disk = self._on_disk[(record["node"], stream_of(record))]
            on_disk.update(range(record["first"], record["last"] + 1))

    def on_position_recovered(self, record: Record) -> None:
        on_disk = self._on_disk[(record["node"], stream_of(record))]
        if record["class"] == TRANSACTIONAL:
            on_disk.update(range(1, record["number"] + 1))
        else:
            on_disk.update(numbers_of(record))

    def on_store_ack_sent(self, record: Record) -> None:
        end, cumulative = end_of(record), record["cumulative"]
        seen = self._looked_at.get(end, 0)
        self._looked_at[end] = max(seen, cumulative)
        news = {*range(seen + 1, cumulative + 1), *numbers_of(record)} - self._covered[end]
        self._covered[end] |= news
        for packet in news & self._carried[end].keys():
            class_, stream, number = self._carried[end][packet]
            if class_ != EXPRESS and number not in self._on_disk[(end[0], stream)]:
                evidence = f"store ack of packet {packet}, which is on no disk"
                self._found.append(Violation("store_ack_before_commit", end[0], end[1], *stream, number, evidence))

    def finish(self) -> None:
        for found in self._found:
            if (found.node, found.origin, found.lane) not in self._forwarded:
                self.report(found)


@dataclass(slots=True)
class _Run:
    """New packets that arrived at one end of a session between two of its acks."""

    life: tuple[str, int]
    since_ns: int
    packets: list[int] = field(default_factory=list)
    acked_ns: int | None = None


class AckTimes(Checker):
    """An ack leaves soon after the threshold of new packets, and within the idle delay of the first one.

    An end that closes or dies first owes no ack. A threshold of 0 is none.
    """

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self._limits: dict[End, tuple[int, int]] = {}
        self._runs: defaultdict[End, list[_Run]] = defaultdict(list)
        self._closed_ns: dict[End, int] = {}
        self._log_end_ns: dict[tuple[str, int], int] = {}

    def on_record(self, record: Record) -> None:
        life = (record["node"], record["incarnation"])
        self._log_end_ns[life] = max(self._log_end_ns.get(life, 0), record["at_ns"])

    def on_session_opened(self, record: Record) -> None:
        self._limits.setdefault(end_of(record), (record["ack_threshold"], record["idle_ack_delay_ns"]))

    def on_session_closed(self, record: Record) -> None:
        self._closed_ns.setdefault(end_of(record), record["at_ns"])

    def on_packet_received(self, record: Record) -> None:
        if record["duplicate"]:
            return
        runs = self._runs[end_of(record)]
        if not runs or runs[-1].acked_ns is not None:
            runs.append(_Run((record["node"], record["incarnation"]), record["at_ns"]))
        runs[-1].packets.append(record["packet"])

    def on_ack_sent(self, record: Record) -> None:
        runs = self._runs[end_of(record)]
        if runs and runs[-1].acked_ns is None:
            runs[-1].acked_ns = record["at_ns"]

    def finish(self) -> None:
        for end, (threshold, delay_ns) in self._limits.items():
            for run in self._runs[end]:
                self._judge(end, run, threshold, delay_ns)

    def _judge(self, end: End, run: _Run, threshold: int, delay_ns: int) -> None:
        """Look at one run; it goes by the name of its lowest packet."""
        if threshold and len(run.packets) >= threshold + ACK_BURST_PACKETS:
            evidence = f"{len(run.packets)} packets without an ack, the threshold is {threshold}"
            self.report(Violation("half_window", *end, number=min(run.packets), evidence=evidence))
        ends_ns = [run.acked_ns, self._closed_ns.get(end), self._log_end_ns[run.life]]
        waited_ns = min(end_ns for end_ns in ends_ns if end_ns is not None) - run.since_ns
        if waited_ns > delay_ns + IDLE_ACK_TOLERANCE_NS:
            evidence = f"unacknowledged for {waited_ns} ns, the idle delay is {delay_ns} ns"
            self.report(Violation("idle_delay", *end, number=min(run.packets), evidence=evidence))


class _Send(NamedTuple):
    """The last time that a packet left its node."""

    at: int
    end: End
    class_: str
    incarnation: int


class Resends(Checker):
    """After a failed session nothing unacknowledged is skipped when its lane goes on in a later session.

    Session acks free express, store acks recoverable and order acks transactional packets; a store ack frees whatever a
    node only passes on. Express packets die with the process that has them.
    """

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self._at = 0
        self._carried: dict[tuple[End, int], tuple[str, Stream, int]] = {}
        self._last: dict[tuple[str, Stream, int], _Send] = {}
        self._acked: set[tuple[End, int]] = set()
        self._stored: set[tuple[End, int]] = set()
        self._order_acked: dict[Stream, int] = {}
        self._removed: defaultdict[Stream, set[int]] = defaultdict(set)
        self._failed: set[End] = set()
        # (node, origin, lane) -> end -> where its first packet is in the record, its incarnation, its latest packet.
        self._lanes: defaultdict[tuple[str, str, int], dict[End, tuple[int, int, tuple[int, int]]]]
        self._lanes = defaultdict(dict)

    def on_packet_sent(self, record: Record) -> None:
        if record.get("lane") is None:
            return
        self._at += 1
        end, life = end_of(record), record["incarnation"]
        # A resend inside a session carries what the packet carried first.
        packet = (record["class"], stream_of(record), record["number"])
        class_, stream, number = self._carried.setdefault((end, record["packet"]), packet)
        self._last[(end[0], stream, number)] = _Send(self._at, end, class_, life)
        lane = self._lanes[(end[0], *stream[:2])]
        since, life, latest = lane.get(end, (self._at, life, (0, 0)))
        lane[end] = (since, life, max(latest, (stream[2], number)))

    def on_ack_received(self, record: Record) -> None:
        end = end_of(record)
        self._acked.update((end, packet) for packet in numbers_of(record))

    def on_store_ack_received(self, record: Record) -> None:
        end = end_of(record)
        self._stored.update((end, packet) for packet in numbers_of(record))

    def on_order_ack_received(self, record: Record) -> None:
        if record["node"] == record["origin"]:
            stream = stream_of(record)
            self._order_acked[stream] = max(self._order_acked.get(stream, 0), record["number"])

    def on_removed(self, record: Record) -> None:
        self._removed[stream_of(record)].update(range(record["first"], record["last"] + 1))

    def on_session_closed(self, record: Record) -> None:
        if record["reason"] in FAILURE_REASONS:
            self._failed.add(end_of(record))

    def finish(self) -> None:
        freed = set(self._freed())
        for (node, stream, number), send in self._last.items():
            kept = (node, stream, number) not in freed and number not in self._removed[stream]
            if not kept or send.end not in self._failed or self._is_order_acked(node, stream, number):
                continue
            for since, life, latest in self._lanes[(node, *stream[:2])].values():
                alive = send.class_ != EXPRESS or life == send.incarnation
                if since > send.at and latest > (stream[2], number) and alive:
                    evidence = f"its session failed, and a later one went on up to {latest[1]}"
                    sender, session = send.end
                    self.report(Violation("close_without_full_resend", sender, session, *stream, number, evidence))

    def _freed(self) -> Iterator[tuple[str, Stream, int]]:
        """What acks of sessions let each node forget."""
        for (end, packet), (class_, stream, number) in self._carried.items():
            acked = class_ == EXPRESS and (end, packet) in self._acked
            stored = (class_ == RECOVERABLE or stream[0] != end[0]) and (end, packet) in self._stored
            if acked or stored:
                yield end[0], stream, number

    def _is_order_acked(self, node: str, stream: Stream, number: int) -> bool:
        return node == stream[0] and number <= self._order_acked.get(stream, 0)


class Tiers(Checker):
    """Resend attempts count 1, 2, 3, ...; the waits of a tier are even and never shorter than those of the tier before.

    They start again at 1 only after progress, a new session or a restart.
    """

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self._attempt: dict[tuple[str, Stream], int] = {}
        self._opened: defaultdict[str, int] = defaultdict(int)
        # By life of the process: what it had freed comes back when it died before that was on its disk.
        self._order_acked: defaultdict[tuple[str, int, Stream], int] = defaultdict(int)
        # What lets attempts start again, as it was with the last attempt.
        self._reasons: dict[tuple[str, Stream], tuple[int, int, int]] = {}
        self._waits: defaultdict[tuple[str, int, Stream], dict[int, list[int]]] = defaultdict(dict)

    def on_session_opened(self, record: Record) -> None:
        self._opened[record["node"]] += 1

    def on_order_ack_received(self, record: Record) -> None:
        key = (record["node"], record["incarnation"], stream_of(record))
        self._order_acked[key] = max(self._order_acked[key], record["number"])

    def on_resend_scheduled(self, record: Record) -> None:
        node, life, stream, attempt = record["node"], record["incarnation"], stream_of(record), record["attempt"]
        key = (node, stream)
        before, reasons = self._attempt.get(key, 0), (life, self._opened[node], self._order_acked[node, life, stream])
        again = attempt == 1 and reasons != self._reasons.get(key)
        if attempt != before + 1 and not again:
            self.report(Violation("resend_tiers", node, "", *stream, attempt, f"attempt {attempt} follows {before}"))
        self._attempt[key], self._reasons[key] = attempt, reasons
        self._waits[(node, life, stream)].setdefault(tier_of(attempt), []).append(record["interval_ns"])

    def finish(self) -> None:
        for (node, _, stream), tiers in self._waits.items():
            before = 0
            for tier, waits in sorted(tiers.items()):
                attempt = 3 * tier - 2
                if _is_beyond(max(waits), min(waits)):
                    self.report(Violation("resend_tiers", node, "", *stream, attempt, "uneven waits in a tier"))
                if _is_beyond(before, min(waits)):
                    self.report(Violation("resend_tiers", node, "", *stream, attempt, "shorter than the tier before"))
                before = min(waits)


def _is_beyond(wait_ns: int, other_ns: int) -> bool:
    """Whether a wait is longer than another by more than chance explains."""
    return 100 * wait_ns > (100 + TIER_TOLERANCE_PERCENT) * other_ns + 100 * TIER_NOISE_NS


SESSION_CHECKERS: tuple[type[Checker], ...] = (Window, Arrivals, StoreAcks, AckTimes, Resends, Tiers)
