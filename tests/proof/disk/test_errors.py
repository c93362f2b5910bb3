"""Every call of a store to its disk fails in turn. A part is tried; ``make disk`` tries all of it."""

from collections.abc import Iterator
from contextlib import contextmanager

import apsw
import pytest

from proof.disk.errors import prove_errors
from triack.base.errors import StoreFailed
from triack.store.store import Store


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
