"""From what the judges found to the verdict: what depends on other logs is decided, numbers are added up."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from triack.base.printable import escaped
from triack.tools.replay.checks.findings import EVER, LATE_NS, UNSENT_NS, Due, Finding, Opening, Output
from triack.tools.replay.judges.endings import Endings, Start
from triack.tools.replay.judges.journal import Segment, join_segments
from triack.tools.replay.judges.starts import Starts
from triack.tools.replay.log.listing import Listing
from triack.tools.replay.log.schema import (
    BROKEN,
    LATE,
    OF_SYSTEM,
    UNPROVEN,
    SessionLine,
    StartLine,
    Timeline,
    Verdict,
    Violation,
    is_system,
)
from triack.tools.replay.log.series import GRAIN_BITS, Series
from triack.tools.replay.report.report_tables import fill_tables


class Read(NamedTuple):
    """What an engine reports of a file: the records that it judged, a torn last line, and why the rest was not read."""

    path: str
    records: int
    torn: bool = False
    fault: str = ""


class World:
    """Facts about all nodes and sessions, for findings that depend on them."""

    def __init__(self, lives: Iterable[Segment], openings: Iterable[Opening]) -> None:
        self.lives = {(life.node, life.incarnation): life for life in lives}
        self.openings = sorted(openings)
        self.nodes = {life.node for life in self.lives.values()}
        self._by_start: defaultdict[tuple[str, int], list[Opening]] = defaultdict(list)
        self._peers: defaultdict[str, set[str]] = defaultdict(set)
        for opening in self.openings:
            self._by_start[(opening.node, opening.incarnation)].append(opening)
            self._peers[opening.node].add(opening.peer)
        self.headless = {start: life.first_n for start, life in self.lives.items() if life.first_n > 1}
        self.starts = Starts(self.lives, self.openings, self.headless)
        self.endings = Endings(self.lives, self.openings, self.starts)
        self._holds = {
            "log": lambda due: (life := self._life(due)) is not None and life.end_ns > due.end_ns,
            "stopped": lambda due: (life := self._life(due)) is not None and life.stops,
            "given": lambda due: self.starts.are_given(due.node, due.incarnation, due.end_ns),
            "peers_given": lambda due: all(self.starts.are_given(peer, 1, EVER) for peer in self._peers[due.node]),
            "told": lambda due: self.starts.would_tell(due.node, due.peer),
            "settled": lambda due: self.starts.are_given(due.node, due.incarnation, due.end_ns),
            "whole": lambda due: self.starts.are_given(due.node, due.incarnation, EVER),
            "seen": lambda due: self.starts.are_given(due.node, due.incarnation, due.incarnation),
            "powered": self._powered,
            "started": self._started,
            "open": self._open,
            "not_opened": self._not_opened,
            "reopened": lambda due: self._reopened(due, self.openings),
            "reopened_alive": lambda due: self._reopened(due, self._by_start[(due.node, due.incarnation)]),
            "carried_on": self._carried_on,
            "awake": self._awake,
            "room": self._room,
        }

    def holds(self, due: Due) -> bool:
        """Whether what a finding depends on holds, as far as the existing logs show."""
        return self._holds[due.kind](due)

    def lacking(self, due: Due) -> set[Start]:
        """Return the starts whose logs may lack, at their ends, what would show that a due does not hold."""
        if due.kind == "powered":
            return set() if self._powered(due) else {(due.node, due.incarnation)}
        return self.endings.lacking(due)

    def _powered(self, due: Due) -> bool:
        boots = [life.boot for start in (0, 1) if (life := self.lives.get((due.node, due.incarnation + start)))]
        return len(set(boots)) < 2  # noqa: PLR2004 - two starts

    def _life(self, due: Due) -> Segment | None:
        return self.lives.get((due.node, due.incarnation))

    def _started(self, due: Due) -> bool:
        start = max(1, due.incarnation)
        while start <= due.end_ns and (life := self.lives.get((due.node, start))) is not None:
            if life.ready:
                return True
            start += 1
        return False

    def _closed_ns(self, opening: Opening) -> int:
        # A damaged line may name a start that appears nowhere else.
        life = self.lives.get((opening.node, opening.incarnation))
        return opening.closed_ns or (life.end_ns if life else opening.opened_ns)

    def _open(self, due: Due) -> bool:
        return any(
            opening.peer == due.peer and opening.opened_ns <= due.begin_ns and self._closed_ns(opening) >= due.end_ns
            for opening in self._by_start[(due.node, due.incarnation)]
        )

    def _not_opened(self, due: Due) -> bool:
        openings = self._by_start[(due.node, due.incarnation)]
        return not any(
            due.begin_ns <= opening.opened_ns <= due.end_ns
            and due.peer in ("", opening.peer)
            and not _resumes(opening, openings, due.begin_ns)
            for opening in openings
        )

    def _reopened(self, due: Due, openings: Iterable[Opening]) -> bool:
        for opening in openings:
            if opening.node == due.node and opening.peer == due.peer:
                later = (opening.incarnation, opening.opened_ns) >= (due.incarnation, due.begin_ns)
                if later and self._closed_ns(opening) - opening.opened_ns > due.end_ns:
                    # In a start that is missing it may have done what it had to.
                    return self.starts.are_given(due.node, due.incarnation, opening.incarnation)
        return False

    def _awake(self, due: Due) -> bool:
        """Whether the node had the time that a limit allows, apart from standing still and catching up afterwards."""
        life = self._life(due)
        if life is None or not life.stood:
            return True
        until_ns = min(due.until_ns, life.end_ns, self._parted_ns(due) if due.peer else life.end_ns)
        still_ns = sum(
            min(end, until_ns) - max(begin, due.begin_ns)
            for begin, end in life.stood
            if begin < until_ns and end > due.begin_ns
        )
        return not still_ns or until_ns > due.end_ns + still_ns + LATE_NS

    def _parted_ns(self, due: Due) -> int:
        """When the last session with the peer closed that was open while the limit ran."""
        return max(
            (
                self._closed_ns(opening)
                for opening in self._by_start[(due.node, due.incarnation)]
                if due.peer in (opening.peer, opening.peer_name) and opening.opened_ns <= due.end_ns
            ),
            default=due.until_ns,
        )

    def _room(self, due: Due) -> bool:
        mine = [it for it in self.openings if it.node == due.node and it.peer_name == due.peer]
        if len({it.peer for it in mine}) != 1 or self._has_paused(due):
            return False
        here = [opening for opening in mine if opening.incarnation == due.incarnation]
        for opening in here:
            # As long as an older session is open, its streams stay there: it may have no room, or no way to its peer.
            older = [self._closed_ns(other) for other in here if other.opened_ns < opening.opened_ns]
            for begin_ns, end_ns in opening.free:
                until_ns = min(end_ns or self._closed_ns(opening), due.end_ns)
                if until_ns - max(begin_ns, due.begin_ns, *older) > UNSENT_NS + LATE_NS:
                    return True
        return False

    def _has_paused(self, due: Due) -> bool:
        """Whether a queue to the peer was paused: then what waits may wait for an operator, after a restart, too."""
        mine = (it for it in self.lives.values() if it.node == due.node and it.incarnation <= due.incarnation)
        return any(due.peer in it.paused for it in mine)

    def _carried_on(self, due: Due) -> bool:
        return any(
            opening.session == due.peer and self._closed_ns(opening) > due.end_ns
            for opening in self._by_start[(due.node, due.incarnation)]
        )


def decide(findings: Iterable[Finding], world: World) -> list[Violation]:
    """Return the violations, without those whose dues do not hold; sorted, each once, by their standing first."""
    found: dict[object, Violation] = {}
    held = (violation for it in findings for violation in _held(it, world))
    for violation in sorted(held, key=lambda it: (it.standing, it)):
        found.setdefault(violation.identity, violation)
    return list(found.values())


_HARMLESS: Final = {"awake", "powered"}
"""Dues whose failing makes a finding late, or names a log, in place of dropping it."""


def _held(finding: Finding, world: World) -> Iterator[Violation]:
    """Yield the outcome of a finding: itself, the starts whose logs may lack its explanation, or nothing."""
    violation = finding.violation
    if (violation.node or violation.origin, violation.incarnation) in world.headless:
        # The begin of its log may explain it; that it is missing is reported by itself.
        return
    failing = {due.kind for due in finding.dues if not world.holds(due)}
    if not failing <= _HARMLESS:
        return
    # The ends of these logs may show that a due does not hold.
    lacking = sorted({start for due in finding.dues for start in world.lacking(due)})
    for node, start in lacking:
        said = cut_log(world, (node, start))
        yield Violation("", node, number=start, evidence=said, incarnation=start, standing=UNPROVEN)
    if not lacking:
        yield replace(violation, standing=LATE) if failing else violation


def place(violations: list[Violation], segments: Iterable[Segment]) -> None:
    """Name the file and line of the record that shows each violation."""
    starts: defaultdict[tuple[str, int], list[Segment]] = defaultdict(list)
    for segment in sorted(segments, key=lambda it: it.first_n):
        starts[(segment.node, segment.incarnation)].append(segment)
    for violation in violations:
        parts = starts.get((violation.node or violation.origin, violation.incarnation), [])
        at = bisect_left(parts, violation.n, key=lambda it: it.last_n)
        # A record that was removed is in no file any more.
        if at < len(parts) and parts[at].path and parts[at].first_n <= violation.n:
            violation.file = escaped(parts[at].path)
            violation.line = violation.n - parts[at].first_n + parts[at].line


def missing_logs(world: World) -> list[str]:
    """Name the missing logs: of peers, and of starts of nodes that have logs of other starts."""
    missing = sorted({opening.peer for opening in world.openings} - world.nodes - {""})
    return [f"node {peer}" for peer in missing] + world.starts.missing()


def cut_log(world: World, start: Start) -> str:
    """Say of the log of a start that it may lack its end."""
    node, number = start
    last_n, known = world.lives[start].last_n, world.endings.known_of(node, number)
    at = f"the log of start {number} of node {node} ends at record {last_n:,}"
    if known > last_n:
        return f"{at}, and its node had written {known:,} when its last commit was begun"
    return f"{at} without its end record; what is missing after that may be there"


def draw(
    series: dict[str, Series], openings: Iterable[Opening], numbers: dict[str, int], lives: Iterable[Segment] = ()
) -> Timeline:
    """Return what the report draws: all series in buckets of the same width, the lives of sessions, tables."""
    bits = max((some.bits for some in series.values()), default=GRAIN_BITS)
    for some in series.values():
        some.widen(bits)
    start = min((min(some.buckets) for some in series.values()), default=0)
    timeline = Timeline(start << bits, 1 << bits)
    for name, some in series.items():
        timeline.series[name] = {bucket - start: value for bucket, value in sorted(some.buckets.items())}
    for it in openings:
        closed_ns = it.wall_ns + it.closed_ns - it.opened_ns if it.closed_ns else 0
        heard_ns = numbers.get(f"heard\t{it.node}\t{it.session}", 0)
        timeline.sessions.append(
            SessionLine(it.node, it.session, it.wall_ns, closed_ns, it.reason, it.peer, it.incarnation, heard_ns)
        )
    timeline.sessions.sort(key=lambda line: (line.opened_ns, line.node, line.session))
    for life in sorted(lives, key=lambda it: (it.node, it.incarnation)):
        begin_ns, end_ns = life.begin_ns + life.offset_ns, life.end_ns + life.offset_ns
        stood = [(begin + life.offset_ns, end + life.offset_ns) for begin, end in life.stood]
        timeline.starts.append(
            StartLine(life.node, life.incarnation, begin_ns, end_ns, life.stops, life.records, life.first_n == 1, stood)
        )
    fill_tables(timeline, numbers)
    return timeline


def conclude(engine: str, segments: list[Segment], out: Output) -> Verdict:
    """Return the verdict of all that was read and found; ``engine`` is what it is to call that."""
    world, numbers, verdict = World(join_segments(segments, out), out.openings), out.numbers, Verdict(engine=engine)
    timeline = verdict.timeline = draw(out.series, world.openings, numbers, world.lives.values())
    verdict.nodes, verdict.starts = len(world.nodes), len(world.lives)
    verdict.records = sum(life.records for life in world.lives.values())
    last = {node: world.lives[(node, incarnation)] for node, incarnation in sorted(world.lives)}
    verdict.missing, verdict.unfinished = missing_logs(world), [node for node, it in last.items() if not it.stops]
    for name in _ADDED_UP:
        setattr(verdict, name, numbers.get(name, 0))
    verdict.fill(numbers)
    verdict.system.fill(numbers, OF_SYSTEM)
    decided = decide(out.findings, world)
    verdict.findings = [it for it in decided if it.standing == BROKEN]
    lacking = {(it.node, it.incarnation) for it in decided if it.standing == UNPROVEN}
    verdict.cut = [cut_log(world, start) for start in sorted({*lacking, *world.endings.short()})]
    for standing, counts in ((BROKEN, verdict.violations), (LATE, verdict.late)):
        counts.update(sorted(Counter(it.check for it in decided if it.standing == standing).items()))
    for it in verdict.findings:
        if it.check == "lost":
            stream = it.origin, it.stream
            timeline.flows.lost[stream] = timeline.flows.lost.get(stream, 0) + it.value
            account = verdict.system if is_system(timeline.streams.get(stream, "")) else verdict
            account.lost += it.value
            account.pending -= it.value
    verdict.time(out.begin_ns, out.end_ns)
    place(verdict.findings, segments)
    return verdict


_ADDED_UP: Final = (
    "passed_on", "resends", "duplicates_on_wire", "sessions_closed", "out_of_order", "duplicates_delivered",
)  # fmt: skip
"""Numbers of a verdict that judges have added up."""


def files_of(segments: Iterable[Segment], read: Iterable[Read]) -> list[Read]:
    """Return what was read with the records that were judged: of files, and of segments of others."""
    told, records = {it.path: it for it in read}, Counter[str]()
    for segment in segments:
        records[segment.path] += segment.records
    del records[""]  # what was removed
    return [told.get(path, Read(path, 0))._replace(records=records[path]) for path in sorted({*told, *records})]


def cover(verdict: Verdict, listing: Listing, read: Iterable[Read]) -> None:
    """Fill in what was read and what was not: every listed file is in one of the two."""
    told = {it.path: it for it in read}
    unread = dict(listing.unread)
    unread |= {it.path: it.fault for it in told.values() if it.fault}
    unread |= {listed.path: "was not read" for listed in listing.logs if listed.path not in told}
    verdict.files = {escaped(path): told[path].records for path in sorted(told)}
    verdict.unread = {escaped(path): escaped(unread[path]) for path in sorted(unread)}
    verdict.torn_lines = sum(it.torn for it in told.values())


def _resumes(opening: Opening, openings: list[Opening], since_ns: int) -> bool:
    """Whether all sessions with its peer that it may follow have ended as idle."""
    before = [one for one in openings if one.peer == opening.peer and one.opened_ns < opening.opened_ns]
    last_ns = max((one.closed_ns for one in before), default=0)
    follows = [one for one in before if not one.closed_ns or one.closed_ns >= min(since_ns, last_ns)]
    return bool(follows) and all(one.reason == "idle" for one in follows)
