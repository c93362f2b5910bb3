"""The kernel fails calls on the store's files: nothing is acknowledged after it, and nothing acknowledged is lost."""

import asyncio
from pathlib import Path

import pytest

import triack
from proof.real.faults import Fault, inject, missing, sweep
from proof.real.ledger import write

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def strace() -> None:
    """Skip where the kernel may not be made to fail."""
    if (reason := missing()) is not None:
        pytest.skip(reason)


# A sample: `make real` strikes every call in turn.
SAMPLE = [
    (Fault("fdatasync", "error=EIO"), (1, 11, 14, 22)),
    (Fault("fdatasync", "error=EIO", forever=True), (13,)),
    (Fault("fsync", "error=EIO"), (1,)),
    (Fault("pwrite64", "error=EIO"), (30, 60)),
    (Fault("pwrite64", "error=ENOSPC", forever=True), (40,)),
    (Fault("pread64", "error=EIO"), (3,)),
    (Fault("openat", "error=EMFILE"), (3,)),
]


@pytest.mark.parametrize(("fault", "nths"), SAMPLE, ids=str)
def test_the_nth_call_fails(tmp_path: Path, fault: Fault, nths: tuple[int, ...]) -> None:
    """The process ends with a named error or is not harmed; the store has what was reported, and nothing half."""
    found = sweep(tmp_path, [fault], nths=nths)
    assert found.violations == []
    assert found.struck[str(fault)] >= 1
    assert set(found.ends) <= {"StoreError", "StoreFailed", "StoreDamaged", "unharmed"}


@pytest.mark.parametrize(("call", "nth"), [("fdatasync", 14), ("pwrite64", 40), ("unlink", 1)])
def test_the_process_dies_in_the_nth_call(tmp_path: Path, call: str, nth: int) -> None:
    outcome = inject(Fault(call, "signal=SIGKILL"), nth, tmp_path / "data")
    assert (outcome.code, outcome.violations) == (-9, [])


def test_a_directory_that_cannot_be_synced(tmp_path: Path) -> None:
    """SQLite overlooks that; what a lost directory entry would take with it must not be acknowledged."""
    outcome = inject(Fault("fdatasync", "error=EIO", forever=True), 2, tmp_path / "data")
    assert outcome.violations == []
    assert outcome.failed.startswith("Store")


def test_a_sync_fails_while_the_log_is_brought_into_the_database(tmp_path: Path) -> None:
    """SQLite overlooks that as well; what is committed afterwards must not be acknowledged."""
    found = sweep(tmp_path, [Fault("fdatasync", "error=EIO")], task="write-big", nths=(25, 26))
    assert found.violations == []


@pytest.mark.parametrize(("call", "nth"), [("fdatasync", 12), ("pwrite64", 50)])
def test_a_receiver_fails(tmp_path: Path, call: str, nth: int) -> None:
    """Messages that it had order-acked are there when it is started again; then the rest arrives, once."""
    outcome = inject(Fault(call, "error=EIO"), nth, tmp_path / "data", task="keep")
    assert outcome.violations == []
    assert outcome.failed.startswith("StoreFailed: ")


def test_a_process_that_hangs_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stands still in a sync: the report says so, and that its store cannot be looked at."""
    monkeypatch.setattr("proof.real.faults.HANG_S", 1.5)
    outcome = inject(Fault("fdatasync", "signal=SIGSTOP"), 1, tmp_path / "data")
    assert outcome.code is None
    hangs, cannot = outcome.violations
    assert hangs == "it hangs"
    assert cannot.startswith("afterwards: StoreInUse: open store ")


def test_a_process_that_nobody_traces_does_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gives up, by name, before it has touched a store."""
    monkeypatch.setattr("proof.real.ledger.HANG_S", 0.01)
    options = {"traced": True, "data": tmp_path / "data", "size_bytes": 0, "count": 1}
    with pytest.raises(triack.WaitTimeout, match=r"not traced after 0\.01 s"):
        asyncio.run(write(options, lambda _line: None))
    assert list(tmp_path.iterdir()) == []
