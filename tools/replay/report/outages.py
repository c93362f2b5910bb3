"""When a node was away, stood still, or did not reach its peer, and why: what the page draws as gaps."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from triack.tools.replay.log.schema import FAILURE_REASONS, SessionLine, StartLine, Timeline

IN_ORDER: Final = "in order"
RESTART: Final = "by a restart"
FAILED: Final = "failed"
OPEN: Final = "open"
"""How a session ended, for an operator: a restart of one of its nodes ends it, too, and that is no failure of the
network."""


@dataclass(slots=True)
class Outage:
    """A time, by the wall clock, in which a node was away, stood still, or had lost its peer.

    ``over``: whether that was before the logs end. ``cause``: why, in words, without numbers. ``what``: the stream or
    queue that waited, if it was not all of the node.
    """

    node: str
    peer: str
    begin_ns: int
    end_ns: int
    over: bool
    cause: str
    what: str = ""


@dataclass(slots=True)
class Session:
    """A session, as both of its ends tell.

    Attributes:
        number: which one of the two nodes', from 1, in the order in which they opened.
        node, peer: its ends; the first is the one whose name comes first.
        session: its id.
        opened_ns, closed_ns: by the wall clock, of the first end that opened it and of the last one that closed it; 0
            for one that was not closed.
        end: one of ``IN_ORDER``, ``RESTART``, ``FAILED`` and ``OPEN``.
        reason: why it was closed, as the records say; of a failure, that one.
        failed: whether it counts in ``sessions_closed``.
        heard_ns: when one of its ends heard the other one last, if it failed and the logs tell.
    """

    number: int
    node: str
    peer: str
    session: str
    opened_ns: int
    closed_ns: int
    end: str
    reason: str
    failed: bool
    heard_ns: int


def sessions_of(timeline: Timeline) -> list[Session]:
    """Return the sessions in the order in which they opened; both ends of one are one."""
    by_id: defaultdict[str, list[SessionLine]] = defaultdict(list)
    for line in timeline.sessions:
        by_id[line.session].append(line)
    starts = _starts_by_node(timeline)
    numbers: defaultdict[tuple[str, str], int] = defaultdict(int)
    sessions = []
    for session, lines in sorted(by_id.items(), key=lambda it: (min(line.opened_ns for line in it[1]), it[0])):
        ends = sorted({end for line in lines for end in (line.node, line.peer)}, key=lambda it: (timeline.name(it), it))
        node, peer = ends[0], ends[-1]
        numbers[(node, peer)] += 1
        failed = next((line.reason for line in lines if line.reason in FAILURE_REASONS), "")
        reason = failed or next((line.reason for line in lines if line.reason), "")
        opened_ns, closed_ns = min(line.opened_ns for line in lines), max(line.closed_ns for line in lines)
        end = IN_ORDER if reason else OPEN
        if failed or not reason:
            restarted = any(_restarted(it, opened_ns, closed_ns, starts) for it in ends)
            end = RESTART if restarted else FAILED if failed else OPEN
        heard_ns = max(line.heard_ns for line in lines)
        numbered = numbers[(node, peer)]
        sessions.append(
            Session(numbered, node, peer, session, opened_ns, closed_ns, end, reason, bool(failed), heard_ns)
        )
    return sessions


def _starts_by_node(timeline: Timeline) -> dict[str, list[StartLine]]:
    starts: defaultdict[str, list[StartLine]] = defaultdict(list)
    for start in timeline.starts:
        starts[start.node].append(start)
    return starts


def _restarted(node: str, opened_ns: int, closed_ns: int, starts: dict[str, list[StartLine]]) -> bool:
    """Whether the start of a node in which a session opened was over before the session closed, if it did."""
    mine = starts.get(node, [])
    at = bisect_right(mine, opened_ns, key=lambda it: it.begin_ns) - 1
    # Two machines have two clocks: the start that began last before is meant, or the first one.
    return bool(mine) and max(at, 0) + 1 < len(mine) and (not closed_ns or mine[max(at, 0)].end_ns <= closed_ns)


def outages_of(timeline: Timeline, sessions: list[Session]) -> list[Outage]:
    """Return the outages in the order of their begins."""
    found = [*_away(timeline), *_stood(timeline)]
    found += _parted(timeline, sessions, list(found))
    found += [*_held(timeline), *_paused(timeline)]
    return sorted(found, key=lambda it: (it.begin_ns, it.node, it.peer))


def _away(timeline: Timeline) -> list[Outage]:
    found = []
    for node, starts in _starts_by_node(timeline).items():
        for before, after in pairwise(starts):
            if before.end_ns < after.begin_ns:
                cause = "stopped in good order, and started again" if before.stopped else "killed, and started again"
                if after.start > before.start + 1:
                    cause = "no log of the starts in between"
                found.append(Outage(node, "", before.end_ns, after.begin_ns, True, cause))
    return found


def _stood(timeline: Timeline) -> list[Outage]:
    cause = "its process stood still"
    return [Outage(it.node, "", begin, end, True, cause) for it in timeline.starts for begin, end in it.stood]


def _parted(timeline: Timeline, sessions: list[Session], others: list[Outage]) -> list[Outage]:
    """Return the times between a session that failed and the next one of the same nodes."""
    by_ends: defaultdict[tuple[str, str], list[Session]] = defaultdict(list)
    for session in sessions:
        by_ends[(session.node, session.peer)].append(session)
    found, (_, last_ns) = [], timeline.span_ns
    for (node, peer), mine in by_ends.items():
        for session, following in zip(mine, [*mine[1:], None], strict=True):
            if not session.failed:
                continue
            begin_ns = session.heard_ns or session.closed_ns
            end_ns = following.opened_ns if following is not None else max(last_ns, session.closed_ns)
            if begin_ns < end_ns:
                cause = session.reason
                for away in others:
                    if away.node in (node, peer) and away.begin_ns < end_ns and away.end_ns > begin_ns:
                        cause = f"{session.reason}: {timeline.name(away.node)} was away or stood still"
                found.append(Outage(node, peer, begin_ns, end_ns, following is not None, cause))
    return found


def _held(timeline: Timeline) -> Iterator[Outage]:
    """Yield when streams waited because their destination had no room for them."""
    for (node, origin, stream), edges in timeline.holds.items():
        queue = timeline.streams.get((origin, stream), "not known")
        takers = " or ".join(sorted(map(timeline.name, timeline.flows.takers.get((origin, stream), ()))))
        of = "" if origin == node else f" of {timeline.name(origin)}"
        what = f"stream {stream}{of} to {takers or 'not known'}/{queue}"
        for begin_ns, end_ns, over, reason in _spans(timeline, edges):
            said = "is paused by an operator" if reason == "paused" else f"has no room: {reason}"
            yield Outage(node, "", begin_ns, end_ns, over, f"its destination {said}", what)


def _paused(timeline: Timeline) -> Iterator[Outage]:
    """Yield when queues were paused at their own node."""
    for (node, queue), edges in timeline.pauses.items():
        what = f"all queues to {queue.removesuffix('/')}" if queue.endswith("/") else f"queue {queue}"
        for begin_ns, end_ns, over, _ in _spans(timeline, edges):
            yield Outage(node, "", begin_ns, end_ns, over, "paused by an operator here", what)


def _spans(timeline: Timeline, edges: list[tuple[int, str]]) -> Iterator[tuple[int, int, bool, str]]:
    """Yield from when to when a reason was in force, whether it was over before the logs end, and the reason."""
    since_ns, known = 0, ""
    for wall_ns, reason in sorted(edges):
        if reason == known:
            continue
        if known and since_ns < wall_ns:
            yield since_ns, wall_ns, True, known
        since_ns, known = wall_ns, reason
    if known and since_ns < timeline.span_ns[1]:
        yield since_ns, timeline.span_ns[1], False, known
