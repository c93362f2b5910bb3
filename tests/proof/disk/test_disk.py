"""Broken disks: what they do, what must be left, and the run over all of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import apsw
import pytest

from proof.disk import run as store_proofs
from proof.disk.damage import Damage, prove_damage, victim
from proof.disk.errors import prove_errors
from proof.disk.power import PowerProof, moments, prove_power
from proof.disk.reference import FOLDER, Life, open_store, reference, see
from tests.proof.disk.lives import DATABASE, LOG, started
from triack.base.commit import Commit
from triack.base.errors import StoreDamaged, StoreFailed
from triack.store.store import Store
from triack.tools.sim.disk import Disk

# Every kind of damage to a store's files. A part is tried; ``make disk`` tries all of it.


@pytest.mark.slow
@pytest.mark.parametrize(("clean", "every"), [(False, 1_229), (True, 1_327)])
def test_damage_is_detected_and_never_believed(clean: bool, every: int) -> None:
    """Bits, cuts and sectors of a store of 64 KiB, in use and closed: what was written, or an error with the place."""
    proof = prove_damage(clean=clean, every=every)
    assert proof.violations == []
    assert {kind for kind, tried in proof.tried.items() if tried} >= {"bit", "cut", "duplicated", "swapped"}
    assert proof.ends["detected"] > proof.ends["unharmed"] > 25
    assert not clean or proof.ends["without the last commit"] == 0


def test_a_store_that_leaves_rows_out_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof bites: a row that is listed, and cannot be read, is no store unharmed."""
    none = "proof.disk.damage.every_damage"
    monkeypatch.setattr(none, lambda files, _past, _random: [Damage("bit", DATABASE, 0, files[DATABASE][:1])])
    assert prove_damage().ends == {"unharmed": 1}
    monkeypatch.setattr(Store, "read", lambda _store, _read: None)
    assert prove_damage().violations == [f"bit: {DATABASE} at 0: what was read is not what was written"]


def test_the_victim_is_a_store_of_64_kib() -> None:
    disk = Disk(Random(1))
    victim(disk)
    assert abs(sum(map(len, disk.files().values())) - 65_536) < 4_096
    disk.close()


def test_an_old_page_that_comes_back_is_not_believed() -> None:
    """Its rows have good checksums, but they are not those that the last commit counted."""
    disk = Disk(Random(1))
    life = Life()
    reference(disk, life, lambda store: store.close())
    old = disk.files()[DATABASE]
    store = open_store(disk)
    see(store, 200)
    store.apply(Commit(state={"reader": b"9"}, serial=14))
    store.close()
    new = disk.files()[DATABASE]
    pages = [at for at in range(0, len(new), 1024) if new[at : at + 1024] != old[at : at + 1024]]
    whole = disk.snapshot()
    said = []
    for at in pages:
        disk.restore(whole)
        disk.damage(DATABASE, at, old[at : at + 1024])
        with pytest.raises(StoreDamaged) as caught:
            see(open_store(disk), 201)
        said.append(str(caught.value))
    assert any("old ones are back" in error for error in said), said
    assert len(said) >= 3
    disk.close()


# Every call of a store to its disk fails in turn. A part is tried; ``make disk`` tries all of it.


@pytest.mark.slow
def test_an_error_of_the_disk_never_becomes_a_promise() -> None:
    """Each call fails, once and permanently, in every way; then restarts, with and without a loss of power."""
    proof = prove_errors(every=127)
    assert proof.violations == []
    assert proof.runs * 127 >= proof.calls * 32 - 127
    assert proof.ends["StoreFailed"] > proof.ends["unharmed"] > 2


@pytest.mark.slow
def test_a_failed_sync_never_becomes_a_promise_although_the_next_one_works() -> None:
    """Every sync in turn drops what it should have written, and the system goes on showing it."""
    proof = prove_errors(kinds=["drop"], effect="sync", every=6)
    assert proof.violations == []
    assert proof.calls > 10


def test_a_store_that_goes_on_after_a_failure_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof bites: a store that forgets that a write failed takes the next one."""

    @contextmanager
    def forgetful(_store: Store, operation: str) -> Iterator[None]:
        try:
            yield
        except apsw.Error as cause:
            raise StoreFailed(operation) from cause

    monkeypatch.setattr(Store, "_writing", forgetful)
    proof = prove_errors(kinds=["eio"], effect="sync", first=80, every=1_000)
    (said,) = proof.violations
    assert said.endswith("then kill: AssertionError: a store that had failed took another commit")


# Power lost at every moment of a store's life. A part is tried; ``make disk`` tries all of it.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page_bytes", "powersafe", "every"), [(1024, True, 80), (512, True, 70), (4096, True, 280), (1024, False, 60)]
)
def test_a_loss_of_power_takes_nothing_that_had_returned(page_bytes: int, powersafe: bool, every: int) -> None:
    """Before every call that changes the disk, with all that a disk may have kept by then; also while it is opened."""
    proof = prove_power(page_bytes=page_bytes, powersafe=powersafe, every=every)
    assert proof.violations == []
    assert proof.states > proof.distinct > 70
    assert proof.interrupted > 20


@pytest.mark.slow
def test_a_store_that_does_not_sync_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof bites: a commit that had returned is gone with the power."""
    honest = Store._open  # noqa: SLF001

    def careless(store: Store, page_bytes: int) -> None:
        honest(store, page_bytes)
        store._db.pragma("synchronous", "OFF")  # noqa: SLF001

    monkeypatch.setattr(Store, "_open", careless)
    proof = prove_power(first=200, every=1_000)
    assert proof.moments == 1
    assert "allowed states" in proof.violations[0]


# The life that the proofs break has what makes it hard.


def test_the_reference_life_has_what_makes_it_hard() -> None:
    """It begins a log again, ends orderly and by a kill, and fills more than a checkpoint's worth of pages."""
    effects = [moment.effect for moment in moments(0, 1024)]
    assert effects.count(f"delete {LOG}") == 2
    assert effects.count(f"sync {DATABASE}") > 5
    assert effects.count(f"sync {LOG}") > 15
    assert len(effects) > 250


def test_names_in_a_file_system_of_sqlite_need_no_folder() -> None:
    disk = Disk(Random(1))
    started(disk, b"a").close()
    assert list(disk.files()) == [DATABASE]
    assert not Path(FOLDER).exists()
    disk.close()


# All proofs about a store on its disk, shared out among processes.


@pytest.mark.slow
def test_parts_of_the_proofs_make_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [("failing", prove_errors, {}), ("power", prove_power, {}), ("power", prove_power, {"powersafe": False})]
    monkeypatch.setattr(store_proofs, "PROOFS", lines)
    said: list[str] = []
    found, _ = store_proofs.prove_all(said.append, 2, every=800)
    whole = prove_errors(every=800)
    assert found["failing"] == replace(whole, seconds=found["failing"].seconds)
    parts = [prove_power(every=800), prove_power(every=800, powersafe=False)]
    power = found["power"]
    assert isinstance(power, PowerProof)
    assert (power.moments, power.states) == (sum(p.moments for p in parts), sum(p.states for p in parts))
    assert len(said) == 12
