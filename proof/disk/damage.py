"""Proof that damage to a store's files is detected and never believed.

A store of 64 KiB, killed in the middle of its work, is damaged in every way in turn: each bit flipped, each file cut at
each length, each sector of 512 bytes zeroed, replaced by another one, exchanged with another one, or as it was at an
earlier moment. Then it must hold what it held, or report the damage. The one exception is the last commit in the log:
damage there looks the same as a commit that was interrupted, so the store may open without it.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from random import Random
from time import perf_counter
from typing import NamedTuple

from proof.disk.reference import BODY, NODE_ID, ORIGIN, Life, commits, open_store, see
from triack.base.commit import Commit, MessageRow, OutgoingRow, PositionRow
from triack.base.errors import StoreError
from triack.base.names import StreamId
from triack.tools.sim.disk import SECTOR_BYTES, Disk, Snapshot


class Damage(NamedTuple):
    """New bytes at an offset of a file, or, with None, its end."""

    kind: str
    path: str
    offset: int
    data: bytes | None
    second: tuple[int, bytes] | None = None


@dataclass(slots=True)
class DamageProof:
    """What was tried, by kind, and how the store reacted: ``unharmed``, ``detected``, ``without the last commit``."""

    tried: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    violations: list[str] = field(default_factory=list)


def victim(disk: Disk, *, clean: bool = False) -> tuple[Life, list[Snapshot]]:
    """A store with everything in it, its files 64 KiB together, and the disk after each of its commits."""
    life, past = Life(), list[Snapshot]()
    long = [MessageRow(number, ORIGIN, 1, 1, number, (BODY * 10,)) for number in range(20, 45)]
    last = (
        Commit(outgoing=[OutgoingRow(key, 1, 0, BODY) for key in range(10, 13)], serial=50),
        Commit(positions={StreamId(ORIGIN, 1): PositionRow(ORIGIN, 1, 2, "orders", 1, 44, b"")}, serial=51),
        Commit(progress={44: b"half"}, state={"reader": b"44"}, serial=52),
    )
    store = open_store(disk)
    store.load(NODE_ID, 100)
    for commit in (*commits(), *(Commit(messages=[row], serial=row.number) for row in long), *last):
        life.apply(store, commit)
        past.append(disk.snapshot())
    if clean:
        store.close()
    disk.kill()
    return life, past


def every_damage(files: dict[str, bytes], past: list[Snapshot], random: Random) -> Iterator[Damage]:
    """All of it, kind by kind."""
    for path, content in files.items():
        for offset, byte in enumerate(content):
            yield from (Damage("bit", path, offset, bytes([byte ^ 1 << bit])) for bit in range(8))
    for path, content in files.items():
        yield from (Damage("cut", path, size, None) for size in range(len(content)))
    sectors = [(path, offset) for path, content in files.items() for offset in range(0, len(content), SECTOR_BYTES)]
    for path, offset in sectors:
        here = files[path][offset : offset + SECTOR_BYTES]
        yield Damage("zeroed", path, offset, bytes(len(here)))
        for other, place in (*sectors, *random.sample(sectors, 1)):
            there = files[other][place : place + SECTOR_BYTES]
            if there != here:
                yield Damage("duplicated", path, offset, there)
                if other == path and offset < place and len(here) == len(there):
                    yield Damage("swapped", path, offset, there, (place, here))
        older = {dict(_visible(snapshot)).get(path, b"")[offset : offset + SECTOR_BYTES] for snapshot in past}
        yield from (Damage("older", path, offset, old) for old in sorted(older - {here, b""}))


def _visible(snapshot: Snapshot) -> Iterator[tuple[str, bytes]]:
    return ((path, snapshot.contents[number][0]) for path, number in snapshot.visible)


def prove_damage(
    seed: int = 0,
    *,
    clean: bool = False,
    first: int = 0,
    every: int = 1,
    progress: Callable[[DamageProof], None] | None = None,
) -> DamageProof:
    """Try all of it."""
    begun_s, proof = perf_counter(), DamageProof()
    disk = Disk(Random(seed))
    life, past = victim(disk, clean=clean)
    whole, files = disk.snapshot(), disk.files()
    for number, damage in enumerate(islice(every_damage(files, past, disk.chance), first, None, every)):
        disk.restore(whole)
        if damage.data is None:
            disk.cut(damage.path, damage.offset)
        else:
            for offset, data in chain([(damage.offset, damage.data)], filter(None, [damage.second])):
                disk.damage(damage.path, offset, data)
        proof.tried[damage.kind] += 1
        end = _open(disk, life)
        if end is None:
            where = f"{damage.path} at {damage.offset}" + (f" and {damage.second[0]}" if damage.second else "")
            proof.violations.append(f"{damage.kind}: {where}: what was read is not what was written")
        proof.ends[end or "believed"] += 1
        proof.seconds = perf_counter() - begun_s
        if progress is not None and number % 1000 == 0:
            progress(proof)
    disk.close()
    return proof


def _open(disk: Disk, life: Life) -> str | None:
    """How a store with damage opened; None if it did not notice the damage."""
    try:
        store = open_store(disk)
        seen, starts = see(store, 1)
    except StoreError:
        return "detected"
    except KeyError:
        return None
    if starts == [100] and seen == life.states[life.done]:
        return "unharmed"
    return "without the last commit" if starts == [100] and seen == life.states[life.done - 1] else None
