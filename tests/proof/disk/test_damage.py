"""Every kind of damage to a store's files. A part is tried; ``make disk`` tries all of it."""

from random import Random

import pytest

from proof.disk.damage import Damage, prove_damage, victim
from proof.disk.reference import Life, open_store, reference, see
from tests.proof.disk.lives import DATABASE
from triack.base.commit import Commit
from triack.base.errors import StoreDamaged
from triack.store.store import Store
from triack.tools.sim.disk import Disk


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
    """Database and log together."""
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
