"""What a sender promises about sending again: all of a failed session, and by tiers while no order ack comes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from triack.tools.replay.files import Record
from triack.tools.replay.local_sessions import Packet
from triack.tools.replay.local_streams import Stream
from triack.tools.replay.schema import (
    EXPRESS,
    FAILURE_REASONS,
    POSITION_SHIFT,
    TIER_NOISE_NS,
    TIER_TOLERANCE_PERCENT,
    Violation,
    tier_of,
)

Place = tuple[str, Stream]
"""A stream as one node knows it."""


class Resends:
    """Counts packets that leave again and checks that none is left behind by a failed session.

    Args:
        report: called with each violation.
    """

    def __init__(self, report: Callable[[Violation], None]) -> None:
        self._report = report
        self.count = 0
        # number -> (position, session, class) of the last send.
        self._last: defaultdict[Place, dict[int, tuple[int, str, str]]] = defaultdict(dict)
        self._freed: defaultdict[Place, set[int]] = defaultdict(set)
        self._order_acks: dict[Place, int] = {}
        # (node, origin, lane) -> session -> (position of its first send, highest (sequence, number)).
        self._lanes: defaultdict[tuple[str, str, int], dict[str, tuple[int, tuple[int, int]]]] = defaultdict(dict)
        self._removed: defaultdict[Stream, list[tuple[int, int]]] = defaultdict(list)
        self._failed: set[tuple[str, str]] = set()

    def handle_removed(self, record: Record) -> None:
        """The origin gave packets up: they need no resend."""
        stream = (record["origin"], record["lane"], record["sequence"])
        self._removed[stream].append((record["first"], record["last"]))

    def handle_sent(self, node: str, session: str, packet: Packet, position: int) -> bool:
        """Note a send of a sequence packet; return whether it left before."""
        cls, origin, lane, sequence, number = packet
        sends = self._last[(node, (origin, lane, sequence))]
        again = number in sends
        self.count += again
        sends[number] = (position, session, cls)
        sessions = self._lanes[(node, origin, lane)]
        begin, top = sessions.get(session, (position, (-1, -1)))
        if (sequence, number) > top:
            sessions[session] = (begin, (sequence, number))
        return again

    def handle_closed(self, record: Record) -> None:
        """Note the sessions that failed."""
        if record["reason"] in FAILURE_REASONS:
            self._failed.add((record["node"], record["session"]))

    def handle_freed(self, node: str, packet: Packet) -> None:
        """An ack freed the packet: it needs no resend."""
        self._freed[(node, packet[1:4])].add(packet[4])

    def handle_order_ack(self, record: Record) -> None:
        """An order ack at the origin frees everything up to its number."""
        if record["node"] == record["origin"]:
            place = (record["node"], (record["origin"], record["lane"], record["sequence"]))
            self._order_acks[place] = max(self._order_acks.get(place, 0), record["number"])

    def sessions_failed(self) -> int:
        """Return how many sessions failed, each once however many of its ends say so."""
        return len({session for _, session in self._failed})

    def finish(self) -> None:
        """Find packets of failed sessions that their lane left behind."""
        for (node, stream), sends in self._last.items():
            freed = self._freed.get((node, stream), ())
            acked = self._order_acks.get((node, stream), 0)
            removed = self._removed.get(stream, ())
            for number, (position, session, cls) in sends.items():
                if number in freed or number <= acked or (node, session) not in self._failed:
                    continue
                if any(first <= number <= last for first, last in removed):
                    continue
                if self._went_on(node, (cls, *stream, number), position, session):
                    evidence = "unacknowledged when its session failed, and skipped by later sessions"
                    self._report(Violation("close_without_full_resend", node, session, *stream, number, evidence))

    def _went_on(self, node: str, packet: Packet, position: int, session: str) -> bool:
        """Say whether a later session carried a later packet of the lane."""
        cls, origin, lane, sequence, number = packet
        for later, (first, top) in self._lanes[(node, origin, lane)].items():
            # Express packets live in memory: another start of the node owes nothing of them.
            alive = cls != EXPRESS or first >> POSITION_SHIFT == position >> POSITION_SHIFT
            if later != session and first > position and alive and top > (sequence, number):
                return True
        return False


class Tiers:
    """Checks the resend tiers of each sequence.

    Args:
        report: called with each violation.
    """

    def __init__(self, report: Callable[[Violation], None]) -> None:
        self._report = report
        self._opens: defaultdict[str, int] = defaultdict(int)
        # By incarnation: what a process had freed comes back when it died before that was on its disk.
        self._progress: dict[tuple[Place, int], int] = {}
        self._removals: defaultdict[Place, int] = defaultdict(int)
        # (attempt, what may reset it: incarnation, sessions opened, progress, removals).
        self._before: dict[Place, tuple[int, tuple[int, int, int, int]]] = {}
        self._waits: defaultdict[tuple[Place, int], dict[int, list[int]]] = defaultdict(dict)

    def handle_opened(self, record: Record) -> None:
        """A new session allows the first tier again."""
        self._opens[record["node"]] += 1

    def handle_order_ack(self, record: Record) -> None:
        """Progress allows the first tier again."""
        key = (record["node"], (record["origin"], record["lane"], record["sequence"])), record["incarnation"]
        self._progress[key] = max(self._progress.get(key, 0), record["number"])

    def handle_removed(self, record: Record) -> None:
        """What went out again may be gone: the first tier again for what comes next."""
        self._removals[record["node"], (record["origin"], record["lane"], record["sequence"])] += 1

    def handle_scheduled(self, record: Record) -> None:
        """Check the attempt against the one before, and keep its wait."""
        node, attempt = record["node"], record["attempt"]
        stream = (record["origin"], record["lane"], record["sequence"])
        place = (node, stream)
        life = record["incarnation"]
        state = (life, self._opens[node], self._progress.get((place, life), 0), self._removals[place])
        before, old = self._before.get(place, (0, state))
        if attempt != before + 1 and not (attempt == 1 and state != old):
            evidence = f"attempt {attempt} follows attempt {before}"
            self._report(Violation("resend_tiers", node, "", *stream, attempt, evidence))
        self._before[place] = (attempt, state)
        waits = self._waits[(place, record["incarnation"])].setdefault(tier_of(attempt), [record["interval_ns"]] * 2)
        waits[0] = min(waits[0], record["interval_ns"])
        waits[1] = max(waits[1], record["interval_ns"])

    def finish(self) -> None:
        """Compare the waits within each tier and from tier to tier."""
        for ((node, stream), _), tiers in self._waits.items():
            shortest_before = 0
            for tier, (shortest, longest) in sorted(tiers.items()):
                attempt = 3 * tier - 2
                if longest * 100 > _longest_allowed(shortest):
                    evidence = f"waits of tier {tier} go from {shortest} to {longest} ns"
                    self._report(Violation("resend_tiers", node, "", *stream, attempt, evidence))
                if shortest_before * 100 > _longest_allowed(shortest):
                    evidence = f"tier {tier} waits {shortest} ns, the tier before {shortest_before} ns"
                    self._report(Violation("resend_tiers", node, "", *stream, attempt, evidence))
                shortest_before = shortest


def _longest_allowed(wait_ns: int) -> int:
    """Return a hundred times the longest wait that counts as equal."""
    return wait_ns * (100 + TIER_TOLERANCE_PERCENT) + 100 * TIER_NOISE_NS
