"""The store's bugs: each keeps something from the disk."""

import apsw
import pytest

from proof.planted.bug import Bug
from proof.planted.catalogue import bug_named
from proof.planted.store import BUGS
from tests.proof.planted.changes import changes_of
from triack.base.commit import Commit
from triack.base.errors import StoreFailed
from triack.store.store import Store


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_each_still_changes_something(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a name that is there, and with what can be called as the right one is."""
    assert len(changes_of(bug, monkeypatch)) == 1


@pytest.mark.parametrize(
    ("name", "level"), [("nothing is synced", 0), ("the log is not synced at each commit", 1), ("", 2)]
)
def test_sqlite_syncs_no_more_than_the_bug_lets_it(name: str, level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is asked of it; without a bug it obeys."""
    if name:
        changes_of(bug_named(name), monkeypatch)
    connection = apsw.Connection(":memory:")
    connection.pragma("synchronous", "FULL")
    assert connection.pragma("synchronous") == level
    connection.close()


def test_a_commit_that_failed_is_ignored_and_no_failure_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """All other failures are reported, and it goes on as if nothing had been."""

    def fail(*_: object) -> None:
        raise apsw.FullError

    changes_of(bug_named("a failed write or sync is ignored"), monkeypatch)
    store = Store(None)
    with monkeypatch.context() as full:
        full.setattr(Store, "_apply", fail)
        full.setattr(Store, "_put", fail)
        store.apply(Commit())
        with pytest.raises(StoreFailed, match="the disk is full"):
            store.load(bytes(16), 1)
    assert store.load(bytes(16), 1).incarnation
    store.close()
