"""Proof that an error of the disk never becomes a promise: each call of a store's life fails in turn, in every way.

The store then reports the error, or its promises hold: a commit that returned is there after a restart and after a loss
of power, whole, and so is what is written after the restart. The hard case is a failed sync after which the system
shows bytes that are not on the disk and never will be (``drop``).
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from random import Random
from time import perf_counter

from proof.disk.reference import Life, losing_power, open_store, reference, see
from proof.search.disk import Disk as Model
from triack.base.commit import Commit
from triack.base.errors import StoreError, StoreFailed
from triack.store.store import Store
from triack.tools.sim.disk import Disk, FailAt, Kept

KINDS = ("eio", "full", "short", "drop")
RESTARTS = ("kill", "power", "power in start", "power later")
EFFECTS_OF_START = 70


@dataclass(slots=True)
class ErrorProof:
    """What was tried: calls of the reference life, ways to fail, how they ended, and what went wrong."""

    calls: int = 0
    runs: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    violations: list[str] = field(default_factory=list)


def prove_errors(
    seed: int = 0,
    *,
    kinds: Sequence[str] = KINDS,
    effect: str = "",
    first: int = 0,
    every: int = 1,
    progress: Callable[[ErrorProof], None] | None = None,
) -> ErrorProof:
    """Let each call fail."""
    begun_s, proof = perf_counter(), ErrorProof()
    calls = [number for number, what in enumerate(_calls(seed), 1) if what.startswith(effect)]
    proof.calls = len(calls)
    for number, kind, forever, restart in list(product(calls, kinds, (False, True), RESTARTS))[first::every]:
        disk = Disk(Random(f"{seed} {number} {kind} {forever} {restart}"))
        disk.fail_at = FailAt(number, kind, forever)
        try:
            proof.ends[_run(disk, restart)] += 1
        except (AssertionError, StoreError) as error:
            how = "from then on" if forever else "once"
            proof.violations.append(
                f"call {number} fails with {kind} {how}, then {restart}: {type(error).__name__}: {error}"
            )
        disk.close()
        proof.runs += 1
        proof.seconds = perf_counter() - begun_s
        if progress is not None:
            progress(proof)
    return proof


def _calls(seed: int) -> list[str]:
    disk, effects = Disk(Random(seed)), dict[int, str]()

    def note(effect: str) -> None:
        effects[disk.calls] = effect

    disk.on_effect = note
    reference(disk, Life(), lambda store: store.close())
    disk.close()
    return [effects.get(number, "") for number in range(disk.calls)]


def _run(disk: Disk, restart: str) -> str:
    life, stores = Life(), list[Store]()
    try:
        reference(disk, life, lambda store: store.close(), opened=stores.append)
        end = "unharmed"
    except StoreFailed:
        end = "StoreFailed"
        _must_refuse(stores[-1])
    except StoreError as error:
        end = type(error).__name__
        assert not life.busy, f"a commit ended with {end}"
    assert disk.failed, "the call never came"
    disk.calm()
    if restart == "power":
        disk.lose_power()
    else:
        disk.kill()
    if restart == "power in start":
        _start_in_vain(disk, life)
    _go_on(disk, life, loses_power=restart != "kill")
    return end


def _start_in_vain(disk: Disk, life: Life) -> None:
    """Lose power in the middle of the restart, or just after it: then what it found must be found again."""
    with losing_power(disk, disk.chance.randrange(EFFECTS_OF_START)):
        life.states[life.done :] = [see(open_store(disk), 1)[0]]
        life.busy = False


def _must_refuse(store: Store) -> None:
    for commit in (Commit(state={"more": b"x"}), Commit(peers={})):
        try:
            store.apply(commit)
        except StoreFailed:
            continue
        raise AssertionError("a store that had failed took another commit")
    store.close()


def _go_on(disk: Disk, life: Life, *, loses_power: bool) -> None:
    """Every commit that had returned is there; two more commits, and that still holds."""
    store = open_store(disk)
    found, starts = see(store, 1)
    assert found in life.allowed(), f"{found} is none of the allowed states"
    assert set(life.started) <= set(starts), f"starts {starts}, although {life.started} had returned"
    for number, expected in enumerate(_later(found)):
        store.apply(Commit(state={"later": b"%d" % number}, serial=1000 + number))
        if loses_power:
            # Nothing unsynced survives, which exposes a broken promise.
            disk.lose_power_with(list[Kept]())
        else:
            disk.kill()
        store = open_store(disk)
        again, _ = see(store, 2 + number)
        assert again == expected, "a later commit, or one before it, is not there"
    disk.kill()


def _later(found: Model) -> Iterator[Model]:
    for number in range(2):
        yield replace(found, serial=1000 + number, state=found.state | {"later": b"%d" % number})
