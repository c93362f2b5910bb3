"""When a session that has nothing to do ends: after the cleanup interval of one of its ends, and not before.

An end that waits for an ack is not idle, nor is one that owes a store ack; it checks again half an interval later. Only
packets are judged. A packet that waits to be sent is not logged, and leaves within the tolerance, as nothing else does.
"""

from __future__ import annotations

from dataclasses import dataclass

from triack.base.units import MS
from triack.tools.replay.checks.findings import EVER, LATE_NS, Due, Output, Record, awake


@dataclass
class Quiet:
    """How long an end of a session has had no packet.

    Attributes:
        since_ns: when the last packet went either way, or the session opened.
        free_ns: when the last ack came, which the end may have waited for, or when it sent its last store ack.
        owed: durable packets that arrived and that no store ack of this end covers.
        relays: whether relays pass packets of the session on: then it may stay open for a word that would end with it.
    """

    since_ns: int = 0
    free_ns: int = 0
    owed: int = 0
    relays: bool = False

    def over_ns(self, opened: Record) -> int:
        """When the session is over at the latest if nothing happens."""
        interval_ns: int = opened["cleanup_interval_ns"]
        return max(self.since_ns, self.free_ns) + interval_ns + LATE_NS

    def awake(self, opened: Record, until_ns: int = EVER) -> Due:
        """Return the due that the end was awake while it had nothing to do, until it did something."""
        return awake(opened, max(self.since_ns, self.free_ns), self.over_ns(opened), until_ns)

    def is_over(self, opened: Record, closed: Record) -> bool:
        """Whether the end had reason to close the session as idle."""
        return bool(closed["at_ns"] - self.since_ns >= opened["cleanup_interval_ns"])

    def look(self, opened: Record, record: Record) -> str:
        """Return what is wrong with a session in which nothing waits and this happens; an empty string: nothing."""
        if record["at_ns"] <= self.over_ns(opened):
            return ""
        return _told(opened, f"open for {(record['at_ns'] - self.since_ns) // MS} ms without a packet")


def judge_open(session: str, opened: Record, quiet: Quiet, out: Output) -> None:
    """Judge a session that is open, and in which nothing waits, when the record ends."""
    due = Due("log", opened["node"], opened["incarnation"], end_ns=quiet.over_ns(opened))
    evidence = _told(opened, "no packet any more, and open")
    out.report(opened, "idle_open", evidence, due, quiet.awake(opened), session=session)


def judge_close(session: str, ends: list[tuple[Record, Record | None, Quiet]], out: Output, *dues: Due) -> None:
    """Judge a session that the first of its ends closed as idle."""
    opened, closed, quiet = ends[0]
    assert closed is not None
    # An end that hears that the other one is idle closes its own side as idle as well.
    known = [it.is_over(begun, ended) for begun, ended, it in ends if ended is not None and ended["reason"] == "idle"]
    heard = len(ends) > 1 and ends[1][1] is None
    if None in known or True in known or heard:
        return
    evidence = _told(opened, f"closed as idle {(closed['at_ns'] - quiet.since_ns) // MS} ms after its last packet")
    out.report(closed, "idle_close", evidence, *dues, session=session)


def _told(opened: Record, what: str) -> str:
    return f"{what}, its cleanup interval is {opened['cleanup_interval_ns'] // MS} ms"
