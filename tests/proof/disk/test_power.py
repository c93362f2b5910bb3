"""Power lost at every moment of a store's life. A part is tried; ``make disk`` tries all of it."""

import pytest

from proof.disk.power import prove_power
from triack.store.store import Store


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
