"""The disk of one simulated machine, in memory, with real SQLite on top of it.

Promise: the same seed and the same calls leave the same bytes, with any hash seed and any garbage collection.

Its content and its failures are in ``Medium``. As on Linux, the directory is synced by the first sync of a journal
or write-ahead log just created, and by a deletion that asks for it; SQLite never learns whether that sync of the
directory worked, except from a deletion.

It does not simulate locks between machines, time, and reordering of syncs.
"""

from array import array
from collections.abc import Iterable
from hashlib import sha256
from itertools import count, pairwise
from pathlib import Path
from random import Random
from typing import NamedTuple

import apsw

from triack.base.clock import BOOT_BYTES
from triack.base.lease_words import Marks, begin_words, read_marks
from triack.tools.sim.disk_file import Process
from triack.tools.sim.medium import Change, DiskFaults, FailAt, File, Medium, ProcessCrashed, put

__all__ = ["SECTOR_BYTES", "Change", "Disk", "DiskFaults", "FailAt", "Kept", "ProcessCrashed", "Snapshot", "sectors"]

SECTOR_BYTES = 512

_names = count(1)


class Kept(NamedTuple):
    """The surviving part of ``Disk.unsynced[place]``: of a write the bytes from ``start`` to ``end``, of others all."""

    place: int
    start: int = 0
    end: int | None = None


class Snapshot(NamedTuple):
    """Everything on a disk at one moment; it never changes."""

    contents: tuple[tuple[bytes, bytes], ...]
    visible: tuple[tuple[str, int], ...]
    durable: tuple[tuple[str, int], ...]
    unsynced: tuple[tuple[str, str, int, int, bytes], ...]


class MemoryLeases:
    """Leases, noted in the memory of the machine: a killed process leaves the notes behind."""

    def __init__(self) -> None:
        self._words: array[int] | None = None

    def begin(self, before: int, start: int) -> tuple[Marks, memoryview | None]:
        """See ``triack.store.lease_file.LeaseWords``."""
        left = {} if self._words is None else read_marks(self._words, before)
        self._words = begin_words(before, start, left)
        return left, memoryview(self._words)

    def end(self) -> None:
        """See ``triack.store.lease_file.LeaseWords``."""

    def freeze(self) -> None:
        """The process is dead: later calls of its objects, as they are collected, change nothing."""
        self._words = None if self._words is None else self._words[:]


class Disk(Medium):
    """A disk, and the one process that uses it."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.vfs = f"triack-disk-{next(_names)}"
        self.tears = True
        self.free_bytes = self.size_bytes = 2**40
        self.boots = 1
        self._up_since = 1, 0
        self._leases: dict[Path, MemoryLeases] = {}
        self._process = self._start()

    # ---- processes

    def _start(self) -> Process:
        process = Process(self.vfs, self)
        # SQLite has one source of random numbers for all connections, and asks the default file system for its seed.
        default = apsw.vfs_names()[0]
        apsw.set_default_vfs(self.vfs)
        apsw.randomness(0)
        apsw.randomness(1)
        apsw.set_default_vfs(default)
        return process

    def kill(self) -> None:
        """The process is gone: its files are closed and its locks free; its writes stay visible."""
        for leases in self._leases.values():
            leases.freeze()
        self._process.end()
        self._process = self._start()

    def lose_power(self) -> None:
        """The machine stops: of the unsynced changes nothing, all, a prefix, or any part in any order survives."""
        random = self.chance
        mode = random.choice(("nothing", "everything", "prefix", "part"))
        kept = [Kept(place) for place in range(len(self.unsynced) if mode != "nothing" else 0)]
        if mode == "prefix":
            kept = kept[: random.randrange(len(kept) + 1)]
            kept[-1:] = [piece for one in kept[-1:] for piece in self._tear(one.place)]
        elif mode == "part":
            kept = [piece for one in kept if random.getrandbits(1) for piece in self._tear(one.place)]
            random.shuffle(kept)
        self.lose_power_with(kept)

    def _tear(self, place: int) -> list[Kept]:
        """A write that survives whole, up to a byte, or in some of its sectors."""
        random = self.chance
        change = self.unsynced[place]
        mode = random.choice(("whole", "bytes", "sectors")) if self.tears and change.data else "whole"
        if mode == "bytes":
            return [Kept(place, 0, random.randrange(len(change.data)))]
        if mode == "sectors":
            return [Kept(place, *sector) for sector in sectors(change) if random.getrandbits(1)]
        return [Kept(place)]

    def lose_power_with(self, kept: Iterable[Kept]) -> None:
        """The machine stops, and only these changes are durable, in this order."""
        self.boots += 1
        changes, self.unsynced = self.unsynced, []
        self._leases.clear()
        for place, start, end in kept:
            change = changes[place]
            if change.kind == "write":
                change = change._replace(offset=change.offset + start, data=change.data[start:end])
            self.persist(change)
        self.visible = dict(self.durable)
        for file in self.visible.values():
            file.visible[:] = file.durable
        self.kill()

    def uptime(self, now_ns: int) -> tuple[bytes, int]:
        """Which start of its machine this is, and nanoseconds since its clock was first read in it."""
        if self._up_since[0] != self.boots:
            self._up_since = self.boots, now_ns
        boots, since_ns = self._up_since
        return boots.to_bytes(BOOT_BYTES), now_ns - since_ns

    def leases_of(self, folder: Path | None) -> MemoryLeases | None:
        """The notes of leases of the node with that data directory; None for one in memory."""
        return None if folder is None else self._leases.setdefault(folder, MemoryLeases())

    def close(self) -> None:
        """End the process, remove the disk's name from SQLite and release all that it holds."""
        self._process.end()
        self.on_effect = None
        self.visible, self.durable, self.unsynced = {}, {}, []
        apsw.randomness(0)

    # ---- for tests: plan, look at and break

    def calm(self) -> None:
        """From now on nothing fails."""
        self.faults = DiskFaults()
        self.fail_at = None

    def fail_later(self, call: str, after: int, *, forever: bool = False, drops: bool = False) -> None:
        """Let a call fail."""
        self.fail_at = FailAt(self.counts[call] + after + 1, "drop" if drops else "eio", forever, call)

    def files(self) -> dict[str, bytes]:
        """The visible content of every file, by name."""
        return {path: bytes(file.visible) for path, file in sorted(self.visible.items())}

    def damage(self, path: str, offset: int, data: bytes) -> None:
        """Set other bytes than were written, in the visible and the durable content."""
        file = self.visible[path]
        for content in (file.visible, file.durable):
            put(content, offset, data)

    def cut(self, path: str, size_bytes: int) -> None:
        """Lose the end of a file, in the visible and the durable content."""
        file = self.visible[path]
        del file.visible[size_bytes:], file.durable[size_bytes:]

    def rot(self, bits: int) -> None:
        """Flip this many bits, anywhere on the disk."""
        files = sorted((path, file.visible) for path, file in self.visible.items() if file.visible)
        for _ in range(bits if files else 0):
            place = self.chance.randrange(sum(len(content) for _, content in files))
            for path, content in files:
                if place < len(content):
                    self.damage(path, place, bytes([content[place] ^ 1 << self.chance.randrange(8)]))
                    break
                place -= len(content)

    def snapshot(self) -> Snapshot:
        """All that is on the disk, durable or not."""
        numbers: dict[int, int] = {}
        contents: list[tuple[bytes, bytes]] = []

        def number(file: File) -> int:
            if id(file) not in numbers:
                numbers[id(file)] = len(contents)
                contents.append((bytes(file.visible), bytes(file.durable)))
            return numbers[id(file)]

        visible = tuple((path, number(file)) for path, file in self.visible.items())
        durable = tuple((path, number(file)) for path, file in self.durable.items())
        unsynced = tuple((kind, path, number(file), offset, data) for kind, path, file, offset, data in self.unsynced)
        return Snapshot(tuple(contents), visible, durable, unsynced)

    def restore(self, snapshot: Snapshot) -> None:
        """The disk is as it was, or as another disk was; its process ends."""
        self._leases.clear()
        files = [File(bytearray(visible), bytearray(durable)) for visible, durable in snapshot.contents]
        self.visible = {path: files[number] for path, number in snapshot.visible}
        self.durable = {path: files[number] for path, number in snapshot.durable}
        self.unsynced = [
            Change(kind, path, files[number], offset, data) for kind, path, number, offset, data in snapshot.unsynced
        ]
        self.kill()

    def fingerprint(self) -> str:
        """A hash of all that is on the disk, durable or not."""
        return sha256(repr(self.snapshot()).encode()).hexdigest()


def sectors(change: Change) -> list[tuple[int, int]]:
    """The parts of a write by sectors of the disk, as ranges of its bytes."""
    size = len(change.data)
    first = -change.offset % SECTOR_BYTES
    edges = [0, *range(first or SECTOR_BYTES, size, SECTOR_BYTES), size]
    return list(pairwise(edges))
