"""Follows logs that grow: reads on, judges anew all that was read, and tells violations as they turn up.

At each moment a log is one whose nodes might have been killed just then, so it can be judged at each moment. The judges
want the records of one node after those of another, so they begin anew each time; what they cost is bounded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from triack.base.errors import ReplayError
from triack.tools.replay.conclusion import place
from triack.tools.replay.files import OPEN_SUFFIX, Tail, segments_of
from triack.tools.replay.journal import Journal
from triack.tools.replay.judge import Judge
from triack.tools.replay.schema import Timeline, Verdict, Violation

POLL_S: Final = 0.5
"""Between two looks for new records: soon enough for a person, and little work for a disk."""
SHARE: Final = 10
"""Judging takes at most one part in so many of the time, however much there is to judge."""


class Follower:
    """Reads growing logs and judges what was read.

    Args:
        paths: directories with logs (searched in depth), or single segments.

    Attributes:
        fresh: whether something was read that is not judged yet.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        self.fresh = False
        self._paths = list(paths)
        self._judge = Judge()
        # By the name that a segment has when it is complete.
        self._tails: dict[Path, tuple[Tail, Journal]] = {}
        self._told: set[object] = set()

    def read(self) -> bool:
        """Read what is new, and return whether there was anything.

        Raises:
            ReplayError: a path does not exist, or a log is damaged.
        """
        # Of no path everything is taken again: a generator within any() would stop at the first with news.
        news = [self._read_on(path) for given in self._paths for path in segments_of(given)]
        self.fresh = self.fresh or any(news)
        return any(news)

    def _read_on(self, path: Path) -> bool:
        name = path.resolve()
        name = name.with_name(name.name.removesuffix(OPEN_SUFFIX))
        known = self._tails.get(name)
        if known is None:
            known = self._tails[name] = Tail(path), self._judge.begin(str(path))
        tail, journal = known
        tail.path, journal.path = path, str(path)
        try:
            return self._judge.take(journal, tail.read()) > 0
        except ReplayError:
            if path.exists():
                raise
            # It was renamed since it was listed, and is there next time.
            return False

    def news(self) -> tuple[list[Violation], Timeline]:
        """Judge, and return the violations that were not returned before, and how nodes are called.

        One end's log may have been read before the other's: what was sent in between seems forged. So whatever is
        found is looked at again, with all that was written before it was found.
        """
        verdict = self._verdict()
        found = {it.identity for it in verdict.findings} - self._told
        if found and self.read():
            verdict = self._verdict()
            # What else it finds needs a second look of its own.
            self.fresh = True
        violations = [it for it in verdict.findings if it.identity in found]
        self._told |= {it.identity for it in violations}
        return violations, verdict.timeline or Timeline()

    def _verdict(self) -> Verdict:
        self.fresh = False
        verdict = self._judge.finish()
        place(verdict.findings, self._judge.segments)
        return verdict


def follow(
    paths: Iterable[Path], tell: Callable[[Violation, Timeline], None], *, until_idle_s: float | None = None
) -> None:
    """Tell violations as they turn up in growing logs; the verdict is what ``replay`` says of them afterwards.

    Args:
        paths: directories with logs (searched in depth; they may be empty as yet), or single segments.
        tell: called once with each violation, and with how nodes are called.
        until_idle_s: return when nothing was written for so many seconds; None: only an exception ends it.

    Raises:
        ReplayError: a path does not exist, or a log is damaged.
    """
    follower = Follower(paths)
    heard_s, due_s = time.monotonic(), 0.0
    while until_idle_s is None or time.monotonic() - heard_s < until_idle_s:
        if follower.read():
            heard_s = time.monotonic()
        if follower.fresh and time.monotonic() >= due_s:
            begun_s = time.monotonic()
            violations, timeline = follower.news()
            for violation in violations:
                tell(violation, timeline)
            due_s = time.monotonic() + (SHARE - 1) * (time.monotonic() - begun_s)
        time.sleep(POLL_S)
