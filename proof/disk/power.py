"""Proof that a store survives a loss of power at any moment, whatever the disk had made durable by then.

A reference life of a store is stopped before each call that changes the disk. For each such moment every disk is built
that a loss of power may leave: nothing of what was not synced, all of it, each prefix, other parts in any order, and
the last write torn. Each must open, with every commit that had returned, whole, and with the interrupted commit whole
or not at all. It must also continue to work, through further losses of power while it is being opened, too.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from random import Random
from time import perf_counter

from proof.disk.reference import Life, losing_power, open_store, reference, see
from proof.search.disk import Disk as Model
from triack.base.commit import Commit
from triack.base.errors import StoreError
from triack.tools.sim.disk import Change, Disk, Kept, Snapshot, sectors

ALL_PARTS_OF = 5
ALL_PARTS_OF_THOROUGH = 10
"""Up to this many unsynced changes, every combination is tried; of more, this many:"""
PARTS = 64
GO_ON_EVERY = 8
NESTED = 5
NESTED_EVERY = 300
NESTED_EVERY_THOROUGH = 1_000
"""One in this many states is opened with interruptions, at each step and ``NESTED`` times in a row."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The disk before a call that changes it, and what a start may find from there."""

    effect: str
    disk: Snapshot
    allowed: tuple[Model, ...]
    started: tuple[int, ...]


@dataclass(slots=True)
class PowerProof:
    """What was tried: states of the disk, how many of them differ, and what went wrong."""

    moments: int = 0
    states: int = 0
    distinct: int = 0
    interrupted: int = 0
    seconds: float = 0.0
    violations: list[str] = field(default_factory=list)


def moments(seed: int, page_bytes: int, *, powersafe: bool = True) -> Iterator[Moment]:
    """Every moment of the reference life."""
    disk, life, found = Disk(Random(seed)), Life(), list[Moment]()
    disk.powersafe = powersafe

    def note(effect: str) -> None:
        found.append(Moment(effect, disk.snapshot(), tuple(life.allowed()), tuple(life.started)))

    disk.on_effect = note
    reference(disk, life, lambda store: store.close(), page_bytes=page_bytes)
    disk.close()
    yield from found


def survivors(changes: list[Change], random: Random, *, thorough: bool) -> Iterator[list[Kept]]:
    """What may be left of unsynced changes."""
    count = len(changes)
    yield []
    for end in range(1, count + 1):
        prefix = [Kept(place) for place in range(end)]
        yield prefix
        cuts = [size for _, size in sectors(changes[end - 1])[:-1]]
        if thorough and end == count:
            cuts = list(range(1, len(changes[end - 1].data)))
        for size in cuts:
            yield [*prefix[:-1], Kept(end - 1, 0, size)]
    if count <= (ALL_PARTS_OF_THOROUGH if thorough else ALL_PARTS_OF):
        for chosen in range(1, 1 << count):
            # Where the bits are 0...01...1 it is a prefix, tried above.
            if chosen & (chosen + 1):
                yield [Kept(place) for place in range(count) if chosen >> place & 1]
        return
    for _ in range(PARTS):
        part = [piece for place in range(count) if random.getrandbits(1) for piece in _pieces(changes, place, random)]
        random.shuffle(part)
        yield part


def _pieces(changes: list[Change], place: int, random: Random) -> list[Kept]:
    if random.getrandbits(1):
        return [Kept(place)]
    return [Kept(place, *sector) for sector in sectors(changes[place]) if random.getrandbits(1)]


def prove_power(
    seed: int = 0,
    *,
    page_bytes: int = 1024,
    powersafe: bool = True,
    thorough: bool = False,
    first: int = 0,
    every: int = 1,
    progress: Callable[[PowerProof], None] | None = None,
) -> PowerProof:
    """Try all of it."""
    started_s, proof, random = perf_counter(), PowerProof(), Random(seed)
    disk, known = Disk(random), set[bytes]()
    nested_every = NESTED_EVERY_THOROUGH if thorough else NESTED_EVERY
    for moment in list(moments(seed, page_bytes, powersafe=powersafe))[first::every]:
        proof.moments += 1
        disk.restore(moment.disk)
        for kept in survivors(list(disk.unsynced), random, thorough=thorough):
            proof.states += 1
            disk.restore(moment.disk)
            disk.lose_power_with(kept)
            after = disk.snapshot()
            digest = blake2b(repr((after.visible, after.contents, moment.started)).encode(), digest_size=16)
            digest.update(repr([seen.serial for seen in moment.allowed]).encode())
            if digest.digest() in known:
                continue
            known.add(digest.digest())
            proof.distinct += 1
            try:
                _check(disk, moment, page_bytes, proof, nested_every)
            except (AssertionError, StoreError) as error:
                proof.violations.append(f"before {moment.effect!r}, kept {kept}: {type(error).__name__}: {error}")
        proof.seconds = perf_counter() - started_s
        if progress is not None:
            progress(proof)
    disk.close()
    return proof


def _check(disk: Disk, moment: Moment, page_bytes: int, proof: PowerProof, nested_every: int) -> None:
    """The store opens with what it must hold; now and then it continues, or is interrupted again and again."""
    if proof.distinct % nested_every == 0:
        _interrupt(disk, moment, page_bytes, proof)
    found = _look(disk, moment, page_bytes, moment.allowed)
    if proof.distinct % GO_ON_EVERY == 0:
        store = open_store(disk, page_bytes)
        see(store, 2)
        store.apply(Commit(state={"later": b"x"}, serial=1000))
        disk.lose_power_with([])
        expected = replace(found, serial=1000, state=found.state | {"later": b"x"})
        _look(disk, moment, page_bytes, (expected,))


def _look(disk: Disk, moment: Moment, page_bytes: int, allowed: tuple[Model, ...]) -> Model:
    """A start must find an allowed state, and that must survive: what a start has seen stays."""
    store = open_store(disk, page_bytes)
    seen, starts = see(store, 1)
    assert seen in allowed, f"{seen} is none of {len(allowed)} allowed states"
    assert set(moment.started) <= set(starts), f"starts {starts}, although {moment.started} had returned"
    disk.lose_power_with([])
    return seen


def _interrupt(disk: Disk, moment: Moment, page_bytes: int, proof: PowerProof) -> None:
    """Lose power at every step of opening, then again during recovery, to a depth of ``NESTED``."""
    begun = disk.snapshot()
    effects: list[str] = []
    disk.on_effect = effects.append
    see(open_store(disk, page_bytes), 1)
    for effect in range(len(effects)):
        disk.restore(begun)
        allowed = moment.allowed
        for depth in range(NESTED):
            crash_before = disk.chance.randrange(len(effects)) if depth else effect
            allowed = _open_until(disk, page_bytes, crash_before, allowed)
        proof.interrupted += 1
        _look(disk, moment, page_bytes, allowed)
    disk.restore(begun)


def _open_until(disk: Disk, page_bytes: int, effects: int, allowed: tuple[Model, ...]) -> tuple[Model, ...]:
    """Open, and lose power before effect number ``effects`` or afterwards. Returns what may be found next time."""
    with losing_power(disk, effects):
        seen, _ = see(open_store(disk, page_bytes), 1)
        assert seen in allowed, f"{seen} is none of {len(allowed)} allowed states"
        return (seen,)
    return allowed
