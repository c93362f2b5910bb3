"""Which files a replay reads: both engines, ``--follow``, ``triack log compact`` and notebooks take them from here.

A directory is searched in depth, links included, and each file is read once, whatever names lead to it. A file that has
the name of a session log and cannot be read is listed with the reason, and no verdict over the rest is a pass.

Names are text as Python has it (bytes that are no text become surrogates), so a locale changes none of them.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, TypeVar
from urllib.parse import unquote

from triack.base.errors import ReplayError
from triack.base.log_lines import SEGMENT_BEGIN

OPEN_SUFFIX: Final = ".open"
"""The end of the name of a segment that is being written, after its later name."""
PARQUET_SUFFIX: Final = ".parquet"
"""The end of the name of a file that ``triack log compact`` made of segments."""
SUFFIXES: Final = (".jsonl", ".jsonl" + OPEN_SUFFIX, PARQUET_SUFFIX)
"""The ends of the names of files that are read."""
PACKED: Final = tuple(f".jsonl{state}.{packer}" for state in ("", OPEN_SUFFIX) for packer in ("gz", "bz2", "xz", "zst"))
"""The ends of the names of packed files: a verdict without them would cover only part of the record."""
VIOLATIONS: Final = "violations.jsonl"
"""The file that a report writes beside its page, perhaps beside logs: it is no log. It may be empty."""
SUMMARY: Final = "pruned.summary"
"""The name of the file that ``triack log prune`` leaves in the place of the logs that it removed."""
UNFINISHED: Final = PARQUET_SUFFIX + ".new"
"""The end of the name of a file that ``triack log compact`` is writing, or was writing when it ended."""
_LOG_LIKE: Final = re.compile(r"\.jsonl|\.parquet|-\d{6}-\d{6}", re.IGNORECASE)
"""A part of each name of a log, even packed, renamed, or copied in part: a suffix, or a start and a segment."""
_CHECKSUM: Final = re.compile(r"\..*\.crc")
"""Hadoop writes one beside each file."""
_HEAD_BYTES: Final = 65_536
"""A first line is looked for in this much of a file: it has a dozen fields."""
_PARQUET_BEGIN: Final = b"PAR1"
_NO_LOG: Final = "is no session log: its first line does not begin one"
_EMPTY: Final = "is empty, as no complete segment is: restore it, or remove it if there is no other"
_NOWHERE: Final = "is a link that leads nowhere"

Used = TypeVar("Used")


class Listed(NamedTuple):
    """A file to read: its name, and its size in bytes when it was listed. A file that is being written may grow."""

    path: str
    size: int


@dataclass(slots=True)
class Listing:
    """The files that were found.

    Attributes:
        logs: the files to read, by name.
        unread: name -> why it is not read, of what looks like a log; with the name before it, it is a sentence.
        summaries: the files that stand for logs that were removed.
    """

    logs: list[Listed] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)
    summaries: list[Listed] = field(default_factory=list)

    def take(self, name: str, size: int, unseen: str = "") -> bool:
        """Take a file of another machine, of which no more is known; return whether it is a log, or looks like one."""
        base = name.rpartition("/")[2]
        why = refusal_of(base)
        if why is None or base == VIOLATIONS or (base.endswith(OPEN_SUFFIX) and not size):
            return False
        if base == SUMMARY:
            self.summaries.append(Listed(name, size))
        elif why := why or unseen or ("" if size else _EMPTY):
            self.unread[name] = why
        else:
            self.logs.append(Listed(name, size))
        return True

    def without(self, read: Collection[str]) -> Listing:
        """Return what was not read, by any name: a segment may have been completed since, or packed."""
        known = set(map(complete, read))
        logs = [listed for listed in self.logs if complete(listed.path) not in known]
        return Listing(logs, {path: why for path, why in self.unread.items() if _unpacked(path) not in known})

    def require_all(self) -> Listing:
        """Return it, if all that looks like a log can be read."""
        for path, why in self.unread.items():
            raise ReplayError(f"{path} {why}")
        return self


def list_logs(
    paths: Iterable[str | Path], *, may_be_empty: bool = False, known: Collection[str] = frozenset()
) -> Listing:
    """Return the session logs under paths.

    Args:
        paths: directories, searched in depth, or files.
        may_be_empty: whether there may be no log in one of them, as while logs grow.
        known: names of files that are known to be logs, and need not be opened to see that.

    Raises:
        ReplayError: a path does not exist, or has no log and nothing that looks like one.
    """
    walk = _Walk(known)
    given = list(paths)
    if not given:
        raise ReplayError("no directory with session logs was given")
    for path in map(str, given):
        if not walk.take(path) and not may_be_empty:
            raise ReplayError(f"no session log (*{', *'.join(SUFFIXES)}) in {path}")
    walk.listing.logs.sort()
    return walk.listing


def list_growing(paths: Iterable[str | Path], known: Collection[str]) -> Listing:
    """Return the session logs under paths that are followed: none may be there as yet."""
    listing = list_logs(paths, may_be_empty=True, known=known)
    for path, _ in listing.logs:
        if path.endswith(PARQUET_SUFFIX):
            raise ReplayError(f"cannot follow {path}: Parquet is made of logs that are complete; leave out --follow")
    return listing


def is_remote(path: str) -> bool:
    """Whether a path has a scheme that only Spark reads."""
    return not os.path.lexists(path) and "://" in _without_scheme(path)


def local_path(path: str) -> str:
    """Return a path of this machine, without a scheme."""
    if is_remote(path):
        raise ReplayError(f"{path} is not of this machine: --engine spark reads it")
    return path if os.path.lexists(path) else _without_scheme(path)


def _without_scheme(path: str) -> str:
    """Return a path without ``file:``; in a URI, letters may be written by their numbers."""
    if not path.startswith("file:///"):
        return path.removeprefix("file:")
    name = path.removeprefix("file://")
    return name if os.path.lexists(name) else unquote(name, errors="surrogateescape")


def refusal_of(name: str) -> str | None:
    """Return why a file of this name, without directory, is not read: empty if it is, None if it is like no log."""
    if name.endswith(PACKED):
        return "is packed: unpack it; `triack log compact` makes small files that a replay reads"
    if name.endswith(SUFFIXES) or name == SUMMARY:
        return ""
    if _CHECKSUM.fullmatch(name) or not _LOG_LIKE.search(name):
        return None
    if name.endswith(UNFINISHED):
        return "was not finished: run `triack log compact` again"
    return f"is called like a session log, but does not end in {', '.join(SUFFIXES)}"


class _Walk:
    """Looks for logs, in one path after the other."""

    def __init__(self, known: Collection[str]) -> None:
        self.listing = Listing()
        self._known = known
        # The first name of each file, by what the file system calls it.
        self._files: dict[object, str] = {}

    def take(self, path: str) -> bool:
        """Take what is in a path that was given; return whether there is any log, or anything that looks like one."""
        if not path or not os.path.lexists(there(path)):
            raise ReplayError(f"no such directory: {path}")
        path = there(str(Path(path)))
        unread = self.listing.unread
        before = len(unread)
        names = self._search(path) if os.path.isdir(path) else [path]  # noqa: PTH112 - Path.is_dir may raise
        # A file that is renamed while its directory is listed may appear by both names. Of several names of a file, one
        # by which it is read comes first.
        names.sort(key=lambda name: bool(refusal_of(Path(name).name)))
        looks = [self._look(name, is_given=name == path) for name in dict.fromkeys(map(there, names))]
        return any(looks) or len(unread) > before

    def _search(self, root: str) -> list[str]:
        """Return what looks like a log in a directory, and below it."""
        names: list[str] = []
        folders, seen = [root], set()
        while folders:
            folder = folders.pop()
            try:
                identity = _identity(folder, Path(folder).stat())
                if identity in seen:  # a circle of links ends here
                    continue
                seen.add(identity)
                with os.scandir(folder) as entries:
                    for entry in sorted(entries, key=lambda it: it.name):
                        self._sort(entry, folders, names)
            except FileNotFoundError:  # it was removed since it was listed
                continue
            except OSError as error:
                self.listing.unread[folder] = _cannot(error)
        return names

    def _sort(self, entry: os.DirEntry[str], folders: list[str], names: list[str]) -> None:
        try:
            is_folder = entry.is_dir()
        except OSError as error:
            self.listing.unread[entry.path] = _cannot(error)
            return
        if is_folder:
            folders.append(entry.path)
        elif refusal_of(entry.name) is not None:
            names.append(entry.path)
        elif entry.is_symlink() and not os.path.exists(entry.path):  # noqa: PTH110 - Path.exists may raise
            # Its target may have been a directory with logs.
            self.listing.unread[entry.path] = _NOWHERE

    def _look(self, path: str, *, is_given: bool) -> bool:
        """Look at a file; return whether it is a log, or looks like one."""
        size = 0
        try:
            status = Path(path).stat()
            size = status.st_size
            identity = _identity(path, status)
            if identity in self._files:
                return True
            why = self._why_not(path, status, is_given=is_given)
        except FileNotFoundError:
            if not os.path.lexists(path):  # it was removed since it was listed
                return False
            why, identity = _NOWHERE, path
        except OSError as error:
            why, identity = _cannot(error), path
        if why is None:
            return False
        self._files[identity] = path
        if why:
            self.listing.unread[path] = why
        else:
            logs = self.listing.summaries if Path(path).name == SUMMARY else self.listing.logs
            logs.append(Listed(path, size))
        return True

    def _why_not(self, path: str, status: os.stat_result, *, is_given: bool) -> str | None:
        """Return why a file is not read: empty if it is, None if it is no log and needs no reason."""
        name = Path(path).name
        why = refusal_of(name)
        # A file that the caller names is read, whatever it is.
        if why and not (is_given and not name.endswith(PACKED)):
            return why
        if not stat.S_ISREG(status.st_mode):
            return "is no file"
        if name == VIOLATIONS and (not status.st_size or _why_no_log(path)):
            return None
        if not status.st_size:
            # A complete segment has records, unless it lost them; one that is open may have been begun just before
            # a crash.
            return None if name.endswith(OPEN_SUFFIX) else _EMPTY
        if path in self._known or name == SUMMARY:
            return ""
        return _why_no_log(path)


def _identity(path: str, status: os.stat_result) -> object:
    """What identifies a file, whatever name leads to it. Not every file system numbers its files."""
    return (status.st_dev, status.st_ino) if status.st_ino else os.path.realpath(path)


def _cannot(error: OSError) -> str:
    return f"cannot be read: {os.strerror(error.errno or 0)}"


def _why_no_log(path: str) -> str:
    """Return why the content of a file is no log, as far as its begin shows; empty if it may be one."""
    with by_either_name(path, lambda name: Path(name).open("rb")) as file:
        head = file.read(_HEAD_BYTES)
    if path.endswith(PARQUET_SUFFIX):
        return "" if head.startswith(_PARQUET_BEGIN) else "is damaged: it is no Parquet file"
    return "" if begins_segment(head.partition(b"\n")[0]) else _NO_LOG


def begins_segment(line: bytes) -> bool:
    """Whether a line is the first of a segment, even damaged or torn, whatever wrote its JSON."""
    begin = line[:_HEAD_BYTES].translate(None, b" \t\r")
    if begin.startswith(SEGMENT_BEGIN) or SEGMENT_BEGIN.startswith(begin):
        return True
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return type(value) is dict and {"v", "event"} <= value.keys()


def by_either_name(path: str, use: Callable[[str], Used]) -> Used:
    """Use a segment that was listed: its node may have completed and renamed it since then.

    Raises:
        FileNotFoundError: it was removed.
    """
    try:
        return use(path)
    except FileNotFoundError:
        return use(path.removesuffix(OPEN_SUFFIX))


def complete(path: str) -> str:
    """Return the name that a segment has when it is complete."""
    return path.removesuffix(OPEN_SUFFIX)


def _unpacked(path: str) -> str:
    """Return the name that a packed segment had when it was complete."""
    return complete(path.rpartition(".")[0]) if path.endswith(PACKED) else path


def there(path: str) -> str:
    """Return the name that a segment has which was listed a moment ago; it may change at once."""
    return path if os.path.lexists(path) else complete(path)
