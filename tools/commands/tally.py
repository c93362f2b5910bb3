"""How far the lines of a ``triack send`` have come, and what to say of those that have not."""

import asyncio

import triack
from triack.node.control.intake import Chunk, Failure, add_failure
from triack.tools.commands.pipes import LineTooLong

__all__ = ["Tally"]

RANGES_SHOWN = 20
"""What fits into a few lines of a terminal."""


class Tally:
    """Counts lines.

    Args:
        until: the stage that counts.

    Attributes:
        read: the last line that was read.
        finished: the last line up to which all are decided.
        done: set when the input has ended and every line is decided.
    """

    def __init__(self, until: triack.Stage) -> None:
        self._stage = until.name.lower()
        self._failures: list[Failure] = []
        self._too_long: LineTooLong | None = None
        self.ended = False
        self.read = 0
        self.finished = 0
        self.done = asyncio.Event()

    def handle_input(self, item: Chunk | LineTooLong | None) -> None:
        """Lines were read, or the input has ended."""
        if isinstance(item, Chunk):
            self.read = item.last
            return
        self._too_long = item
        self.ended = True
        self._look()

    def handle_finished(self, last: int, failures: list[Failure]) -> None:
        """Lines were decided."""
        self.finished = last
        for failure in failures:
            add_failure(self._failures, failure)
        self._look()

    def _look(self) -> None:
        if self.ended and self.finished >= self.read:
            self.done.set()

    def problems(self, why_not_yet: str, limit_bytes: int) -> list[str]:
        """What to tell the user; nothing when every line has reached its stage.

        Args:
            why_not_yet: the reason for lines that are not decided.
            limit_bytes: the largest line.
        """
        by_reason: dict[str, list[tuple[int, int]]] = {}
        for first, last, reason in self._failures:
            by_reason.setdefault(reason, []).append((first, last))
        if self.finished < self.read:
            by_reason.setdefault(why_not_yet, []).append((self.finished + 1, self.read))
        found = [f"{_lines(ranges)} not {self._stage}: {reason}" for reason, ranges in by_reason.items()]
        if self._too_long is not None:
            line = self._too_long.line
            found.append(f"line {line} is over the limit of {limit_bytes} bytes; it and what follows was not sent")
        elif not self.ended:
            rest = f"what follows line {self.read}" if self.read else "nothing was read, and what comes"
            found.append(f"{rest} was not sent: {why_not_yet}")
        return found


def _lines(ranges: list[tuple[int, int]]) -> str:
    shown = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges[:RANGES_SHOWN])
    more = len(ranges) - RANGES_SHOWN
    single = len(ranges) == 1 and ranges[0][0] == ranges[0][1]
    return f"line{'' if single else 's'} {shown}{f' and {more} more ranges' if more > 0 else ''}"
