"""How far the lines of a ``triack send`` have come, and what to report of those that are late or failed."""

import asyncio
from typing import Any

import triack
from triack.base.reasons import HoldReason
from triack.node.control.intake import Chunk, Failure, add_failure
from triack.queues.peers.dialer import WaitsFor
from triack.tools.commands.pipes import LineTooLong

RANGES_SHOWN = 20
STORED = "on the node's disk, and sent when it runs: do not send this again"
_STORED_BUT: dict[str, str] = {
    WaitsFor.KEY: "sent when this node trusts the peer (triack trust add)",
    WaitsFor.ANSWER: "sent when this node runs and the peer answers, which it does not now",
    WaitsFor.ADDRESS: "sent when the peer calls this node, which has no address of it",
    WaitsFor.RESTART: "not sent to that peer until the right stores are there and both nodes were started again",
    **{reason: f"sent when there is room for it at its destination ({reason})" for reason in HoldReason},
}


def stored_but(waits_for: str) -> str:
    """A hint for lines that are late, when more is missing than a running node."""
    what = _STORED_BUT.get(waits_for)
    return STORED if what is None else f"on the node's disk, and {what}: do not send this again"


class Tally:
    """Counts lines."""

    def __init__(self, until: triack.Stage, unit: str = "line") -> None:
        self._stage = until.name.lower()
        self._unit = unit
        self._failures: list[Failure] = []
        self._too_long: LineTooLong | None = None
        self.ended = False
        self.read = 0
        self.stored = 0
        self.finished = 0
        self.done = asyncio.Event()
        self.waits_for = ""

    def handle_input(self, item: Chunk | LineTooLong | None) -> None:
        """Lines were read, or the input has ended."""
        if isinstance(item, Chunk):
            self.read = item.last
            return
        self._too_long = item
        self.ended = True
        self._look()

    def handle_stored(self, last: int) -> None:
        """Lines are on the disk of the node."""
        self.stored = max(self.stored, last)

    def handle_finished(self, last: int, failures: list[Failure]) -> None:
        """Lines were decided."""
        self.finished = last
        for failure in failures:
            add_failure(self._failures, failure)
        self._look()

    def _look(self) -> None:
        if self.ended and self.finished >= self.read:
            self.done.set()

    @property
    def only_late(self) -> bool:
        """Whether all lines are on the disk of the node, and some are still to reach the stage; none has failed."""
        on_the_way = self.ended and self._too_long is None and self.finished < self.read == self.stored
        return on_the_way and not self._failures

    def to_json(self) -> dict[str, Any]:
        """How it ended: how many were read, and ranges of those that have not reached the stage, with the reason."""
        failures = [{"first": first, "last": last, "reason": reason} for first, last, reason in self._failures]
        missing = self.read - self.finished + sum(last - first + 1 for first, last, _ in self._failures)
        counts = {"read": self.read, "stored": self.stored, "stage": self._stage, "reached": self.read - missing}
        return counts | {"failures": failures}

    def problems(self, why_not_yet: str, limit_bytes: int) -> list[str]:
        """The message for the user; empty when every line has reached its stage."""
        by_reason: dict[str, list[tuple[int, int]]] = {}
        for first, last, reason in self._failures:
            by_reason.setdefault(reason, []).append((first, last))
        late = max(self.finished, self.stored)
        if late < self.read:
            by_reason.setdefault(why_not_yet, []).append((late + 1, self.read))
        found = [f"{_ranges(self._unit, ranges)} not {self._stage}: {reason}" for reason, ranges in by_reason.items()]
        if self.finished < late:
            lines = _ranges(self._unit, [(self.finished + 1, late)])
            found.append(f"{lines} not yet {self._stage}: {why_not_yet}; {stored_but(self.waits_for)}")
        if self._too_long is not None:
            line = self._too_long.line
            found.append(
                f"{self._unit} {line} is over the limit of {limit_bytes} bytes; it and what follows was not sent"
            )
        elif not self.ended:
            rest = f"what follows {self._unit} {self.read}" if self.read else "nothing was read, and what comes"
            found.append(f"{rest} was not sent: {why_not_yet}")
        return found


def _ranges(unit: str, ranges: list[tuple[int, int]]) -> str:
    shown = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges[:RANGES_SHOWN])
    more = len(ranges) - RANGES_SHOWN
    single = len(ranges) == 1 and ranges[0][0] == ranges[0][1]
    return f"{unit}{'' if single else 's'} {shown}{f' and {more} more ranges' if more > 0 else ''}"
