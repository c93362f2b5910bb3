"""Follows logs that grow: judges each record once, as it is written, and reports violations as they turn up.

At each moment a log is one whose nodes might have been killed just then, so a verdict is possible at each moment.
Sessions and streams without new records are not judged again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Event
from typing import Final

from triack.base.errors import ReplayError
from triack.tools.replay.checks.findings import DisorderError
from triack.tools.replay.engines.checkpoint import load, save
from triack.tools.replay.engines.local_engine import begin_judge
from triack.tools.replay.engines.summary import load_summaries
from triack.tools.replay.judges.conclusion import Read, cover, place
from triack.tools.replay.judges.journal import Journal
from triack.tools.replay.judges.judge import Judge
from triack.tools.replay.log.files import Tail, in_order, size_bytes
from triack.tools.replay.log.listing import Listing, complete, list_growing
from triack.tools.replay.log.schema import Timeline, Verdict, Violation

POLL_S: Final = 0.5
"""Interval between two looks for new records: soon enough for a person, and little work for a disk."""
SHARE: Final = 4
"""Reporting what holds for now takes at most one part in ``SHARE`` of the time, and so does writing the checkpoint: the
rest is for new records."""
KEEP_S: Final = 10.0
"""Interval between two checkpoints: after a crash no more than that is judged again."""


class Follower:
    """Reads growing logs and judges what was read."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self.fresh = False
        self._paths = list(paths)
        self._listing = Listing()
        # The summaries from which the following went on.
        self._summaries: list[Read] = []
        self._begin(Judge(forgets=True))
        self._told: set[object] = set()

    def _begin(self, judge: Judge) -> None:
        self._judge = judge
        # By the file's own name as it is when the segment is complete.
        self._tails: dict[Path, tuple[Tail, Journal]] = {}

    def read(self) -> bool:
        """Read what is new, and return whether there was anything."""
        if not self._tails:
            self._load(forgets=True)
        try:
            # Every path has to be read: a generator within any() would stop at the first with news.
            news = [self._read_on(path) for path in self._list()]
        except DisorderError:
            self._read_anew()
            news = [True]
        self.fresh = self.fresh or any(news)
        return any(news)

    def _load(self, *, forgets: bool) -> None:
        """Go on from summaries: later ones are of logs that were read."""
        listing = list_growing(self._paths, ())
        loaded = load_summaries(listing).require(listing)
        self._summaries = loaded.read
        self._begin(begin_judge(loaded.past, forgets=forgets))

    def _list(self) -> list[Path]:
        """Look for logs; those that were read before are not opened again to see what they are."""
        self._listing = list_growing(self._paths, {str(tail.path) for tail, _ in self._tails.values()})
        return [Path(listed.path) for listed in self._listing.logs]

    def _read_on(self, path: Path) -> bool:
        tail, journal = self._tail_of(path)
        try:
            return self._judge.take(journal, tail.read()) > 0
        except ReplayError:
            if size_bytes(path):
                raise
            # It was removed since it was listed.
            return False

    def _tail_of(self, path: Path) -> tuple[Tail, Journal]:
        name = Path(complete(str(path.resolve())))
        known = self._tails.get(name)
        if known is None:
            known = self._tails[name] = Tail(path), self._judge.begin(str(path))
        tail, journal = known
        tail.path, journal.path = path, str(path)
        return known

    def _read_anew(self) -> None:
        """Judge all logs again: a record came behind later ones of its node, or concerns what was forgotten."""
        self._load(forgets=False)
        self._list()
        tails = [self._tail_of(log.path) for log in in_order(self._listing)]
        self._judge.take_all((journal, tail.read()) for tail, journal in tails)

    def news(self) -> tuple[list[Violation], Timeline]:
        """Return the violations that were not returned before, and the names of nodes.

        One end's log may have been read before the other's: then what was sent in between seems forged. So each finding
        is checked again after everything that was written before it was found has been read.
        """
        self.fresh = False
        found, timeline = self._judge.news()
        new = {it.identity for it in found} - self._told
        if new and self.read():
            # Findings that are new now need a second look of their own: ``fresh`` is set.
            found, timeline = self._judge.news()
        violations = [it for it in found if it.identity in new]
        place(violations, self._judge.segments)
        self._told |= {it.identity for it in violations}
        return violations, timeline

    def verdict(self) -> Verdict:
        """Return the verdict that ``replay`` gives of the logs as far as they were read."""
        verdict = self._judge.finish()
        read = [Read(str(tail.path), journal.records, tail.is_torn()) for tail, journal in self._tails.values()]
        read += self._summaries
        cover(verdict, self._listing.without({it.path for it in read}), read)
        return verdict

    def is_of(self, paths: Iterable[Path]) -> bool:
        """Whether this followed these paths, and what was read of their logs still exists."""
        tails = [tail for tail, _ in self._tails.values()]
        return self._paths == list(paths) and bool(tails) and all(tail.find() for tail in tails)


def follow(
    paths: Iterable[Path],
    tell: Callable[[Violation, Timeline], None],
    *,
    until_idle_s: float | None = None,
    checkpoint: Path | None = None,
    stop: Event | None = None,
) -> Verdict:
    """Report violations as they turn up in growing logs; return the verdict that ``replay`` gives of the same logs.

    Args:
        paths: directories with logs (searched in depth; they may be empty as yet), or single segments.
        tell: called once with each violation, and with the names of nodes.
        until_idle_s: return when nothing was written for this many seconds; None: only ``stop`` ends it.
        checkpoint: a file for what was judged so far, to go on from there after a restart; what was reported just
            before a crash is reported again. None: start from scratch each time.
        stop: ends it when it is set.

    Raises:
        ReplayError: a path does not exist, a log is damaged, or the checkpoint cannot be read or written.
    """
    stop, given = stop or Event(), list(paths)
    follower = _known(given, checkpoint) or Follower(given)
    heard_s, due_s, keep_s = time.monotonic(), 0.0, 0.0
    while not stop.is_set():
        if follower.read():
            heard_s = time.monotonic()
        if follower.fresh and time.monotonic() >= due_s:
            due_s = _timed(lambda: _tell(follower, tell))
        if checkpoint is not None and time.monotonic() >= keep_s:
            keep_s = max(_timed(lambda: save(checkpoint, follower)), time.monotonic() + KEEP_S)
        if until_idle_s is not None and time.monotonic() - heard_s >= until_idle_s:
            break
        stop.wait(POLL_S)
    while follower.fresh:
        _tell(follower, tell)
    if checkpoint is not None:
        save(checkpoint, follower)
    return follower.verdict()


def _known(paths: list[Path], checkpoint: Path | None) -> Follower | None:
    """Return the follower that a checkpoint kept, if it followed these logs and they are the same."""
    follower = load(checkpoint, Follower) if checkpoint is not None else None
    return follower if follower is not None and follower.is_of(paths) else None


def _tell(follower: Follower, tell: Callable[[Violation, Timeline], None]) -> None:
    violations, timeline = follower.news()
    for violation in violations:
        tell(violation, timeline)


def _timed(work: Callable[[], None]) -> float:
    """Do some work, and return when it may be done again."""
    begun_s = time.monotonic()
    work()
    return time.monotonic() + (SHARE - 1) * (time.monotonic() - begun_s)
