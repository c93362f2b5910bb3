"""The write-ahead log that a process left behind: is it unchanged, and is it on the disk?

SQLite reads the log up to the first frame that is not whole, and assumes that all the rest is of a commit that a crash
interrupted. Two things that it cannot know are done here, before anything is written:

- Damage in the middle. A commit is written only when the one before it is synced, so at most one commit can be torn.
  If two or more lie behind the place where SQLite stopped, synced bytes have changed, and commits that were promised
  are gone. Damage in the very last commit looks the same as an interrupted write: that commit, and no other, is
  dropped.
- A sync that failed. The system may show bytes that never reached the disk and that no later sync would write. So the
  frames that SQLite read are written again, in place, and synced; all else that looks like a frame is erased, so that a
  later look finds only newer frames.

The file never becomes shorter than the size that the database knows: a log that is shorter, or gone, has lost commits.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count, takewhile
from struct import Struct, iter_unpack
from typing import NamedTuple, Self

import apsw

from triack.base.errors import StoreDamaged

_HEADER = Struct(">8I")
_FRAME = Struct(">6I")
HEADER_BYTES = _HEADER.size
FRAME_BYTES = _FRAME.size
"""The header of each page in the log."""
SECTOR_BYTES = 512
"""A disk writes at least this much as a whole: the smallest sector there is."""
EMPTIED = b"triack: all of this is elsewhere"
"""Replaces the header when nothing in the log is needed; SQLite then sees no header."""
COPY_BYTES = 65_536
"""SQLite's largest page; its file system accepts no larger writes."""
_MAGIC = 0x377F0682
"""Marks such a log in SQLite's file format; its last bit gives the byte order of the checksums."""
_MASK = 0xFFFFFFFF
"""Salts and checksums wrap around at 32 bits."""
_READ_WRITE = apsw.SQLITE_OPEN_READWRITE

_names = count(1)


class _Header(NamedTuple):
    magic: int
    version: int
    page_bytes: int
    checkpoints: int
    salt: int
    salt2: int
    checksum: int
    checksum2: int


class _Frame(NamedTuple):
    """The header of a page in the log; ``pages`` is not 0 when a commit ends here."""

    page: int
    pages: int
    salt: int
    salt2: int
    checksum: int
    checksum2: int


class WriteAheadLog:
    """The open log file of a store that this process has locked."""

    def __init__(self, vfs: str, path: str, page_bytes: int) -> None:
        self.path = path
        self._page_bytes = page_bytes
        self._file = apsw.VFSFile(vfs, path, [apsw.SQLITE_OPEN_WAL | _READ_WRITE, 0])
        self.size_bytes = self._file.xFileSize()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.xClose()

    # ---- is it unchanged?

    def verify(self, frames: int, read_page: Callable[[int], bytes]) -> None:
        """Look for commits that were synced and that SQLite cannot read.

        Args:
            frames: how many frames SQLite read.
            read_page: gives a page of the database file, without what the log has.

        Raises:
            StoreDamaged: there are some; the message names the offset.
        """
        header = self._header()
        if header is None:
            self._verify_checkpointed(read_page)
            return
        commits: Counter[tuple[int, int]] = Counter()
        pages: Counter[tuple[int, int, int]] = Counter()
        before: _Frame | None = next((frame for _, frame in self._frames(frames - 1)), None) if frames else None
        for slot, frame in self._frames(frames):
            # Each time the log begins again its first salt grows by one: frames with a smaller one are older.
            if not frame.page or (frame.salt - header.salt) & _MASK > _MASK >> 1 or self._is_mixed(header, slot, frame):
                continue
            # If a write could harm its neighbours, SQLite repeats the last frame of a commit up to the next sector.
            if before is not None and frame.pages and frame[:4] == before[:4]:
                continue
            before = frame
            salts = frame.salt, frame.salt2
            commits[salts] += frame.pages != 0
            pages[*salts, frame.page] += 1
            # A commit writes each page once, and every commit writes the page that counts the rows.
            if max(commits[salts], pages[*salts, frame.page]) > 1:
                raise self._damaged(frames, "frames of later commits follow one that is not what was written")

    def _verify_checkpointed(self, read_page: Callable[[int], bytes]) -> None:
        """No header: it was torn while the log began again. At that time the database had all that is in the log."""
        if self._file.xRead(min(HEADER_BYTES, self.size_bytes), 0) == EMPTIED:
            # An earlier look has done that; something may have interrupted it while it erased the frames.
            return
        slots = list(self._frames(0))
        if not any(frame.page for _, frame in slots):
            return
        first = slots[0][1]
        newest = list(takewhile(lambda one: one[1].page and one[1][2:4] == first[2:4], slots))
        if not newest or not newest[-1][1].pages:
            raise self._damaged(0, "its header is not what was written")
        for page, slot in {frame.page: slot for slot, frame in newest}.items():
            if read_page(page) != self._file.xRead(self._page_bytes, self._offset(slot) + FRAME_BYTES):
                raise self._damaged(0, "its header is not what was written, and the database lacks commits")

    def _damaged(self, frames: int, cause: str) -> StoreDamaged:
        return StoreDamaged(f"open {self.path}: damaged at offset {self._offset(frames) if frames else 0}: {cause}")

    def _header(self) -> _Header | None:
        if self.size_bytes < HEADER_BYTES:
            return None
        data = self._file.xRead(HEADER_BYTES, 0)
        header = _Header(*_HEADER.unpack(data))
        if header.magic & ~1 != _MAGIC or header.page_bytes != self._page_bytes:
            return None
        return header if _checksum(header.magic, data[:24], 0, 0) == header[6:] else None

    def _is_mixed(self, header: _Header, slot: int, frame: _Frame) -> bool:
        """Whether a frame's head is half old, half new: it lies in two sectors, and a write was interrupted."""
        offset = self._offset(slot)
        if offset % SECTOR_BYTES <= SECTOR_BYTES - FRAME_BYTES:
            return False
        before: tuple[int, ...] = header[6:]
        if slot:
            before = _FRAME.unpack(self._file.xRead(FRAME_BYTES, self._offset(slot - 1)))[4:]
        written = self._file.xRead(8, offset) + self._file.xRead(self._page_bytes, offset + FRAME_BYTES)
        return _checksum(header.magic, written, *before) != frame[4:]

    def _frames(self, start: int) -> Iterator[tuple[int, _Frame]]:
        """The bytes in the places of frames from ``start`` on, without one that the end of the file cuts short."""
        read, size_bytes = self._file.xRead, self.size_bytes
        for slot in count(start):
            offset = self._offset(slot)
            if offset + FRAME_BYTES + self._page_bytes > size_bytes:
                return
            yield slot, _Frame(*_FRAME.unpack(read(FRAME_BYTES, offset)))

    def _slots(self, size_bytes: int) -> int:
        """How many frames a file of that size has at least some room for."""
        return -(-(size_bytes - HEADER_BYTES) // (FRAME_BYTES + self._page_bytes))

    def _offset(self, slot: int) -> int:
        return HEADER_BYTES + slot * (FRAME_BYTES + self._page_bytes)

    # ---- is it on the disk?

    def persist(self, frames: int, size_bytes: int) -> None:
        """Write the frames that SQLite read again, erase all else, give the file its least size, and sync it.

        ``frames`` is how many SQLite read, ``size_bytes`` the least size. Raises apsw.Error: the disk does not accept
        it.
        """
        file = self._file
        if self._header() is not None:
            end = self._offset(frames)
            for offset in range(0, end, COPY_BYTES):
                file.xWrite(file.xRead(min(COPY_BYTES, end - offset), offset), offset)
        elif self.size_bytes:
            file.xWrite(EMPTIED, 0)
        # Even if the file is that long already: its size may never have reached the disk. This also completes a frame
        # that was cut short, so that its head is erased too.
        size_bytes = self._offset(self._slots(max(size_bytes, self.size_bytes)))
        last = file.xRead(1, size_bytes - 1) if self.size_bytes == size_bytes else b"\0"
        file.xWrite(last, size_bytes - 1)
        self.size_bytes = size_bytes
        file.xSync(apsw.SQLITE_SYNC_NORMAL)
        # Only now: as long as the disk may have an older header, the frames that belong to it must stay.
        remains = [slot for slot, frame in self._frames(frames) if any(frame)]
        for slot in remains:
            file.xWrite(bytes(FRAME_BYTES), self._offset(slot))
        if remains:
            file.xSync(apsw.SQLITE_SYNC_NORMAL)


def log_size_bytes(page_bytes: int, pages: int) -> int:
    """The size of a log with that many pages."""
    return HEADER_BYTES + pages * (FRAME_BYTES + page_bytes)


def pages_in(page_bytes: int, size_bytes: int) -> int:
    """The number of whole pages in a log of that size."""
    return (size_bytes - HEADER_BYTES) // (FRAME_BYTES + page_bytes)


def read_page(vfs: str, path: str, page_bytes: int, page: int) -> bytes:
    """A page of a database file as it is on the disk, without what the log has."""
    with _opened(vfs, path, apsw.SQLITE_OPEN_MAIN_DB) as file:
        offset = (page - 1) * page_bytes
        return file.xRead(page_bytes, offset) if offset + page_bytes <= file.xFileSize() else b""


def is_orphan(vfs: str, path: str) -> bool:
    """Whether a database is empty beside a log that is not. SQLite would remove the log, and begin anew."""
    with _opened(vfs, path, apsw.SQLITE_OPEN_MAIN_DB) as file:
        if file.xFileSize():
            return False
    try:
        with _opened(vfs, f"{path}-wal", apsw.SQLITE_OPEN_WAL) as file:
            return file.xFileSize() > 0
    except apsw.CantOpenError:
        return False


@contextmanager
def _opened(vfs: str, path: str, kind: int) -> Iterator[apsw.VFSFile]:
    file = apsw.VFSFile(vfs, path, [kind | _READ_WRITE, 0])
    try:
        yield file
    finally:
        file.xClose()


def sync_directory(vfs: str, path: str) -> None:
    """Make the names of the files beside ``path`` durable. Raises apsw.Error.

    SQLite syncs the directory as well, but does not learn whether that worked.
    """
    marker = f"{path}-sync"
    files = apsw.VFS(f"triack-directory-{next(_names)}", vfs)
    try:
        flags = apsw.SQLITE_OPEN_SUPER_JOURNAL | apsw.SQLITE_OPEN_CREATE | _READ_WRITE
        files.xOpen(marker, [flags, 0]).xClose()
        # Only a deletion reports whether the sync of its directory worked.
        files.xDelete(marker, True)
    finally:
        files.unregister()


def _checksum(magic: int, data: bytes, sum1: int, sum2: int) -> tuple[int, int]:
    """SQLite's checksum of frames; each frame continues that of the one before."""
    for one, two in iter_unpack(">2I" if magic & 1 else "<2I", data):
        sum1 = (sum1 + one + sum2) & _MASK
        sum2 = (sum2 + two + sum1) & _MASK
    return sum1, sum2
