"""The local engine: the same verdict as the Spark engine, in plain Python and one pass over the records.

``replay_local`` reads files, ``judge_records`` takes what is in memory, as the simulated worlds have it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final

from triack.base.errors import ReplayError
from triack.tools.replay.files import LogFile, Record, find_damage, read_records
from triack.tools.replay.local_resends import Resends, Tiers
from triack.tools.replay.local_sessions import Packet, Sessions
from triack.tools.replay.local_streams import Streams
from triack.tools.replay.schema import (
    EXPRESS,
    LATENCY_BUCKETS_PER_DECADE,
    POSITION_SHIFT,
    STAYING_REASONS,
    TIMELINE_BUCKETS,
    SessionLine,
    Timeline,
    Verdict,
    Violation,
)

TIMELINE_GRAIN_NS: Final = 10_000_000
"""Timelines are gathered this fine, and widened when the span of the record is known."""


class LocalReplay:
    """One replay of what ``read`` and ``see`` are given: each node's records in their order, nodes in any order.

    Args:
        timeline: whether to gather what the plots show.
    """

    def __init__(self, *, timeline: bool) -> None:
        self._findings: list[Violation] = []
        self._streams = Streams(self._findings.append)
        self._resends = Resends(self._findings.append)
        self._tiers = Tiers(self._findings.append)
        self._sessions = Sessions(self._findings.append, self._streams.settled, self._freed)
        self._clock = Clockwork() if timeline else None
        self._verdict = Verdict(engine="local")
        self._serials: dict[tuple[str, int], int] = {}
        self._log_ends: dict[tuple[str, int], int] = {}
        self._peers: set[str] = set()
        self._first_queued_ns = 0
        self._last_committed_ns = 0
        self._handlers: dict[str, tuple[Callable[[Record], None], ...]] = {
            "queued": (self._queued,),
            "session_opened": (self._sessions.handle_opened, self._tiers.handle_opened, self._opened),
            "session_closed": (self._sessions.handle_closed, self._resends.handle_closed, self._closed),
            "packet_sent": (self._sent,),
            "packet_received": (self._received,),
            "ack_sent": (self._sessions.handle_ack_sent,),
            "ack_received": (self._sessions.handle_ack_received,),
            "store_ack_sent": (self._sessions.handle_store_ack_sent,),
            "store_ack_received": (self._sessions.handle_store_ack_received,),
            "committed": (self._committed,),
            "position_recovered": (self._streams.handle_recovered,),
            "rejected": (self._rejected,),
            "order_ack_sent": (self._streams.handle_order_ack_sent,),
            "order_ack_received": (
                self._streams.handle_order_ack_received,
                self._resends.handle_order_ack,
                self._tiers.handle_order_ack,
            ),
            "resend_scheduled": (self._tiers.handle_scheduled,),
            "removed": (
                self._streams.handle_removed,
                self._resends.handle_removed,
                self._tiers.handle_removed,
            ),
            "handed": (self._streams.handle_handed,),
        }

    def finish(self) -> tuple[Verdict, Timeline | None]:
        """Judge what only the whole record shows, and conclude."""
        verdict = self._verdict
        self._sessions.finish(self._log_ends, self._streams.forwarders)
        self._streams.finish(verdict)
        self._resends.finish()
        self._tiers.finish()
        verdict.resends += self._resends.count
        verdict.sessions_closed = self._resends.sessions_failed()
        nodes = {node for node, _ in self._serials}
        verdict.nodes = len(nodes)
        verdict.peers_without_log = sorted(self._peers - nodes)
        measured = self._first_queued_ns and self._last_committed_ns
        verdict.conclude(self._findings, (self._first_queued_ns, self._last_committed_ns) if measured else None)
        return verdict, self._clock.timeline() if self._clock else None

    def read(self, log: LogFile) -> None:
        """Look at the records of a segment.

        Raises:
            ReplayError: a line that does not parse, or lacks a field that its event must have.
        """
        number = 0
        record: Record = {}
        try:
            for number, record in enumerate(read_records(log), start=1):  # noqa: B007 - named in the error below
                self.see(record)
        except (KeyError, TypeError, ValueError) as error:
            raise _unfit(log, number, record, error) from error
        self._verdict.torn_lines += bool(log.torn)

    def see(self, record: Record) -> None:
        """Look at the next record.

        Raises:
            KeyError, TypeError, ValueError: it lacks a field that its event must have, or misuses it.
        """
        self._verdict.records += 1
        self._check_serial(record)
        for handle in self._handlers.get(record["event"], ()):
            handle(record)

    def _check_serial(self, record: Record) -> None:
        key = (record["node"], record["incarnation"])
        n = record["n"]
        before = self._serials.get(key, 0)
        if n != before + 1:
            evidence = f"incarnation {key[1]}: record {n} follows record {before}"
            self._findings.append(Violation("log_gap", key[0], number=n, evidence=evidence))
        self._serials[key] = n
        self._log_ends[key] = record["at_ns"]

    def _freed(self, node: str, packet: Packet) -> None:
        self._resends.handle_freed(node, packet)
        self._streams.handle_freed(node, packet)

    def _packet(self, record: Record) -> Packet | None:
        """Return the sequence packet of a record, and note its messages."""
        if record.get("lane") is None:
            return None
        packet = (record["class"], record["origin"], record["lane"], record["sequence"], record["number"])
        if packet[0] != EXPRESS:
            weights = self._streams.stories[packet[1:4]].weights
            weights[packet[4]] = max(weights.get(packet[4], 0), record["count"])
        return packet

    def _sent(self, record: Record) -> None:
        node, packet = record["node"], self._packet(record)
        link = self._sessions.link(record)
        first = self._sessions.handle_sent(link, record["packet"], packet, record)
        if packet is None:
            again = bool(record.get("resend"))
            self._verdict.resends += again
        else:
            position = record["incarnation"] << POSITION_SHIFT | record["n"]
            # A resend inside a session carries what the packet carried first.
            carried = link.sent[record["packet"]] or packet
            again = self._resends.handle_sent(node, record["session"], carried, position)
            if packet[1] != node:
                self._streams.forwarders.add((node, packet[1], packet[2]))
        if self._clock:
            self._clock.sent(record, link.unacked if first else 0, again=again)

    def _received(self, record: Record) -> None:
        link = self._sessions.link(record)
        self._sessions.handle_received(link, record["packet"], self._packet(record), record)
        if record.get("duplicate"):
            self._duplicate(record)

    def _rejected(self, record: Record) -> None:
        if record["reason"] == "duplicate":
            self._duplicate(record)
        elif record["reason"] not in STAYING_REASONS:
            self._streams.handle_refused(record)

    def _duplicate(self, record: Record) -> None:
        self._verdict.duplicates_on_wire += 1
        if self._clock:
            self._clock.duplicate(record)

    def _queued(self, record: Record) -> None:
        self._streams.handle_queued(record)
        if record["class"] != EXPRESS:
            wall = record["wall_ns"]
            self._first_queued_ns = min(self._first_queued_ns or wall, wall)
        if self._clock:
            self._clock.queued(record)

    def _committed(self, record: Record) -> None:
        self._streams.handle_committed(record)
        if record["class"] != EXPRESS:
            self._last_committed_ns = max(self._last_committed_ns, record["wall_ns"])
        if self._clock:
            self._clock.committed(record)

    def _opened(self, record: Record) -> None:
        self._peers.add(record["peer"])
        if self._clock:
            self._clock.opened(record)

    def _closed(self, record: Record) -> None:
        if self._clock:
            self._clock.closed(record)


def _unfit(log: LogFile, number: int, record: Record, error: Exception) -> ReplayError:
    """Return the error for a record that a check could not read: damage, if the line lacks a required field."""
    found = find_damage([log])
    if "does not fit" not in str(found):
        return found
    return ReplayError(f"{log.path} line {number} is damaged: event {record.get('event')!r} lacks or misuses {error}")


class Clockwork:
    """Gathers the timeline for the plots while the records go by."""

    __slots__ = ("_commits", "_duplicates", "_end", "_latest", "_queued", "_resends", "_sessions", "_start", "_unacked")

    def __init__(self) -> None:
        self._commits: defaultdict[int, int] = defaultdict(int)
        self._resends: defaultdict[int, int] = defaultdict(int)
        self._duplicates: defaultdict[int, int] = defaultdict(int)
        self._unacked: defaultdict[tuple[str, str], defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))
        self._sessions: dict[tuple[str, str], SessionLine] = {}
        # (origin, lane, sequence) -> [(first, last, wall)] of queued and [(last, wall, count)] of committed ranges.
        self._queued: defaultdict[tuple[str, int, int], list[tuple[int, int, int]]] = defaultdict(list)
        self._latest: defaultdict[tuple[str, int, int], list[tuple[int, int, int]]] = defaultdict(list)
        self._start = 1 << 62
        self._end = 0

    def _grain(self, record: Record) -> int:
        wall: int = record["wall_ns"]
        self._start = min(self._start, wall)
        self._end = max(self._end, wall)
        return wall // TIMELINE_GRAIN_NS

    def sent(self, record: Record, unacked: int, *, again: bool) -> None:
        """Note a send, and the packets unacknowledged with it if it is the packet's first in its session."""
        grain = self._grain(record)
        if again:
            self._resends[grain] += 1
        if unacked:
            line = self._unacked[(record["node"], record["session"])]
            line[grain] = max(line[grain], unacked)

    def duplicate(self, record: Record) -> None:
        """Note a packet that arrived again."""
        self._duplicates[self._grain(record)] += 1

    def queued(self, record: Record) -> None:
        """Note when packets were queued."""
        self._grain(record)
        if not record.get("recovered"):
            stream = (record["origin"], record["lane"], record["sequence"])
            self._queued[stream].append((record["first"], record["last"], record["wall_ns"]))

    def committed(self, record: Record) -> None:
        """Note messages that are on disk."""
        self._commits[self._grain(record)] += record["count"]
        stream = (record["origin"], record["lane"], record["sequence"])
        self._latest[stream].append((record["last"], record["wall_ns"], record["count"]))

    def opened(self, record: Record) -> None:
        """Note the start of a session."""
        self._grain(record)
        key = (record["node"], record["session"])
        self._sessions[key] = SessionLine(*key, record["wall_ns"], 0, "")

    def closed(self, record: Record) -> None:
        """Note the end of a session."""
        self._grain(record)
        line = self._sessions.get((record["node"], record["session"]))
        if line is not None:
            line.closed_ns = record["wall_ns"]
            line.reason = record["reason"]

    def timeline(self) -> Timeline:
        """Return the timeline in its final buckets."""
        width = bucket_width(self._start, self._end)
        timeline = Timeline(self._start, width * TIMELINE_GRAIN_NS)

        def widen(counts: dict[int, int], join: Callable[[int, int], int]) -> dict[int, int]:
            wide: dict[int, int] = {}
            for grain, count in counts.items():
                bucket = grain // width - self._start // TIMELINE_GRAIN_NS // width
                wide[bucket] = join(wide.get(bucket, 0), count)
            return wide

        timeline.committed = widen(self._commits, int.__add__)
        timeline.resends = widen(self._resends, int.__add__)
        timeline.duplicates = widen(self._duplicates, int.__add__)
        timeline.unacked = {key: widen(line, max) for key, line in self._unacked.items()}
        timeline.sessions = sorted(self._sessions.values(), key=lambda line: (line.opened_ns, line.node))
        timeline.latency = self._latency()
        return timeline

    def _latency(self) -> dict[int, int]:
        buckets: dict[int, int] = {}
        for stream, commits in self._latest.items():
            queued = sorted(self._queued[stream])
            at = 0
            for last, wall, count in sorted(commits):
                while at < len(queued) and queued[at][1] < last:
                    at += 1
                if at < len(queued) and queued[at][0] <= last and wall >= queued[at][2]:
                    bucket = latency_bucket(wall - queued[at][2])
                    buckets[bucket] = buckets.get(bucket, 0) + count
        return buckets


def bucket_width(start_ns: int, end_ns: int) -> int:
    """Return how many grains wide a timeline's buckets are."""
    return max(1, math.ceil((end_ns - start_ns) / TIMELINE_BUCKETS / TIMELINE_GRAIN_NS))


def latency_bucket(latency_ns: int) -> int:
    """Return the bucket of a latency; buckets are even on a logarithmic scale from a microsecond."""
    return math.floor(math.log10(max(latency_ns, 1000) / 1000) * LATENCY_BUCKETS_PER_DECADE)


def replay_local(logs: list[LogFile], *, timeline: bool) -> tuple[Verdict, Timeline | None]:
    """Replay the segments in this process.

    Args:
        logs: the segments, as ``find_logs`` returns them.
        timeline: whether the plots of a report will be drawn.

    Raises:
        ReplayError: the logs cannot be read.
    """
    replay = LocalReplay(timeline=timeline)
    for log in logs:
        replay.read(log)
    return replay.finish()


def judge_records(records: Iterable[Record]) -> list[Violation]:
    """Return what records in memory violate, sorted.

    Args:
        records: those of all nodes, each node's in the order in which it wrote them.

    Raises:
        KeyError, TypeError, ValueError: one lacks a field that its event must have, or misuses it.
    """
    replay = LocalReplay(timeline=False)
    for record in records:
        replay.see(record)
    return replay.finish()[0].findings
