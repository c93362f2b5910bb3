"""``triack log prune``: removes old segments, and leaves a summary from which later replays go on.

Promise: what was removed is in a summary that is on the disk before anything is removed, and nothing is removed that
breaks a promise. A run that was ended at any point leaves logs of which a replay says the same as before, and the next
run goes on. Only whole segments are removed, the oldest of each node, never its last one.

The steps: lock the directory; judge everything, and keep what is known at the cut; write the summary beside the old
one, sync it and put it in its place; remove summaries that are in it, then segments.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from triack.base.errors import ReplayError
from triack.base.names import what_else
from triack.store.folder import sync_folder
from triack.tools.replay.engines.checkpoint import freeze_part
from triack.tools.replay.engines.local_engine import judge_segments, read_segments, replay_local
from triack.tools.replay.engines.summary import Loaded, Summary, encode, load_summaries, replay_numbers
from triack.tools.replay.judges.past import Cut, Past
from triack.tools.replay.log.files import LogFile, Reading, Record, in_order, read_records
from triack.tools.replay.log.listing import PARQUET_SUFFIX, SUMMARY, list_logs
from triack.tools.replay.log.schema import Verdict
from triack.tools.replay.log.writing import writing

try:
    import fcntl
except ImportError:  # pragma: no cover - another system than POSIX
    fcntl = None  # type: ignore[assignment]

LOCK: Final = ".prune.lock"
"""The file that a run holds locked in the directory that it prunes."""
_ID: Final = re.compile(r"[0-9a-f]{32}")
"""The id of a node."""
NEW: Final = ".new"
"""The end of the name of a summary that is being written."""


@dataclass(slots=True)
class Pruned:
    """The result of a run.

    Attributes:
        removed: the segments that were removed, or are to be.
        records: how many records were judged for the last time.
        bytes: how long the removed segments were.
        summary: the file that stands for what was removed; None if nothing ever was.
        summary_bytes: how long it is.
        digest: of it.
        verdict: over everything that was there; None if there was nothing to remove.
        refused: whether nothing was removed because the logs break a promise: they are the evidence.
    """

    removed: list[Path] = field(default_factory=list)
    records: int = 0
    bytes: int = 0
    summary: Path | None = None
    summary_bytes: int = 0
    digest: str = ""
    verdict: Verdict | None = None
    refused: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return it as plain data for JSON."""
        names = ("records", "bytes", "summary_bytes", "digest", "refused")
        data: dict[str, Any] = {name: getattr(self, name) for name in names}
        data["summary"] = str(self.summary) if self.summary is not None else None
        data["removed"] = [str(path) for path in self.removed]
        data["verdict"] = self.verdict.to_json() if self.verdict is not None else None
        return data


def prune(
    directory: Path,
    before_ns: int,
    *,
    nodes: Iterable[str] = (),
    dry_run: bool = False,
    accept: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Pruned:
    """Remove the segments of a directory that ended before a time, and leave a summary of them.

    Args:
        directory: searched in depth. Logs of nodes that talked to each other are best pruned together: what both ends
            of a session have settled is kept as counts only.
        before_ns: wall clock, nanoseconds since 1970.
        nodes: names or ids of the nodes whose segments are removed; empty: of all.
        dry_run: judge and say what would be removed, and change nothing.
        accept: remove even what breaks a promise; the summary keeps the findings, so later replays find them, too.
        say: called now and then with the progress in words.

    Raises:
        ReplayError: there is no log, one cannot be read, another run prunes the directory, or it cannot be written.
    """
    if not directory.is_dir():
        raise ReplayError(f"no such directory: {directory}")
    with contextlib.nullcontext() if dry_run else _locked(directory):
        listing = list_logs([directory]).require_all()
        loaded = load_summaries(listing)
        listing.require_all()
        cuts = loaded.past.cuts if loaded.past is not None else {}
        logs = in_order(listing)
        for log in logs:
            if log.path.name.endswith(PARQUET_SUFFIX):
                raise ReplayError(f"{log.path} is a copy of logs: keep it in another directory, which is not pruned")
        left_over = [log for log in logs if _is_covered(log, cuts)]
        old = list(_old(logs, cuts, before_ns, set(nodes)))
        done = Pruned([log.path for log in [*left_over, *old]], bytes=sum(log.size for log in [*left_over, *old]))
        obsolete = [Path(path) for path in loaded.replaced]
        if old:
            past = _judge(directory, loaded.past, old, done, say)
            if done.verdict is not None and done.verdict.violations and not accept:
                return Pruned(verdict=done.verdict, refused=True)
            if not dry_run:
                _write(directory, past, loaded, done)
                obsolete += [path for path in map(Path, loaded.digests) if path.resolve() != done.summary]
        if not dry_run:
            # Of a run that was ended, the summary may be in its place, and not on the disk.
            for folder in {directory, *(Path(path).parent for path in loaded.digests)}:
                with _saying(f"cannot sync {folder}, nothing was removed"):
                    sync_folder(folder)
            _remove([*obsolete, *done.removed])
    return done


@contextlib.contextmanager
def _saying(what: str) -> Iterator[None]:
    """Say what cannot be done, and why."""
    try:
        yield
    except OSError as error:
        raise ReplayError(f"{what}: {os.strerror(error.errno or 0)}") from error


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Hold the directory: a second run would judge what the first one removes."""
    with _saying(f"cannot prune {directory}"):
        fd = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if fcntl is not None:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise ReplayError(f"another run prunes {directory}: try again when it has ended") from error
        yield
    finally:
        os.close(fd)


def _is_covered(log: LogFile, cuts: dict[str, Cut]) -> bool:
    """Whether all records of a segment are in the summary: a run was ended before it had removed the segment."""
    node, start, n = log.order
    cut = cuts.get(node, (0, 0))
    if (start, n) > cut:
        return False
    return all((record["incarnation"], record["n"]) <= cut for record in read_records(log))


def _old(logs: list[LogFile], cuts: dict[str, Cut], before_ns: int, nodes: set[str]) -> Iterator[LogFile]:
    """Yield the segments that may be removed: of each node those that another one follows which began early enough."""
    by_node: defaultdict[str, list[LogFile]] = defaultdict(list)
    for log in logs:
        by_node[log.order[0]].append(log)
    firsts_of = {node: [next(read_records(log), None) for log in mine] for node, mine in by_node.items()}
    names = {name for firsts in firsts_of.values() for name in _names_in(firsts)}
    for name in sorted(nodes - names - firsts_of.keys()):
        # A node that has just started may have written nothing yet: it is named by its id.
        if not _ID.fullmatch(name):
            raise ReplayError(f"there is no log of a node {name}; {what_else(name, names)}")
    for node, mine in by_node.items():
        firsts = firsts_of[node]
        if nodes and nodes.isdisjoint({node, *_names_in(firsts)}):
            continue
        for log, following in zip(mine, firsts[1:], strict=False):
            if following is None or following["wall_ns"] >= before_ns:
                break
            if not _is_covered(log, cuts):
                yield log


def _names_in(firsts: Iterable[Record | None]) -> set[str]:
    """Return the names that a node has in the first records of its segments."""
    return {first["name"] for first in firsts if first is not None and "name" in first}


def _judge(directory: Path, before: Past | None, old: list[LogFile], done: Pruned, say: Callable[[str], None]) -> Past:
    """Judge everything, and return what is known at the cut."""
    readings: dict[str, Reading] = {}
    judge = judge_segments(lambda: read_segments(old, readings, say), before, forgets=True)
    for it in readings.values():
        if it.fault:
            raise ReplayError(f"{it.path} {it.fault}")
    past = judge.past(freeze_part)
    known = sum(segment.records for segment in before.segments) if before is not None else 0
    done.records = sum(segment.records for segment in past.segments) - known
    verdict = done.verdict = _verdict(directory, say)
    if verdict.violations:
        # The logs grow: what was read of one node may be older than what was read of another.
        again = _verdict(directory, say)
        if {it.identity for it in verdict.findings}.isdisjoint(it.identity for it in again.findings):
            done.verdict = again
    return past


def _verdict(directory: Path, say: Callable[[str], None]) -> Verdict:
    listing = list_logs([directory])
    verdict = replay_local(in_order(listing), say, listing)
    for path, why in verdict.unread.items():
        raise ReplayError(f"{path} {why}")
    return verdict


def _write(directory: Path, past: Past, loaded: Loaded, done: Pruned) -> None:
    """Write the summary, and put it into the place of the one before."""
    assert done.verdict is not None
    replaces = sorted({*loaded.digests.values(), *loaded.replaced.values()})
    summary = Summary(past, replaces, told=replay_numbers(done.verdict))
    content = encode(summary)
    path = directory / SUMMARY
    with _saying(f"cannot write {path}, nothing was removed"), writing(path, directory / (SUMMARY + NEW)) as file:
        file.write(content)
    done.summary, done.summary_bytes, done.digest = path.resolve(), len(content), summary.digest


def _remove(paths: list[Path]) -> None:
    """Remove what the summary has: earlier summaries, then segments."""
    try:
        for path in paths:
            path.unlink(missing_ok=True)
    except OSError as error:
        why = os.strerror(error.errno or 0)
        told = "what is left is in the summary, and the next run removes it"
        raise ReplayError(f"cannot remove {error.filename}: {why}; {told}") from error
