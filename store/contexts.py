"""What a write to the store stands in: a transaction of SQLite, and what follows when it fails.

They are classes because every commit enters both, and a context that is a generator costs three times the calls.
"""

from collections.abc import Callable
from contextlib import suppress

import apsw

from triack.base.errors import StoreError
from triack.store.rows import UNREADABLE

_FAILURES = (apsw.Error, *UNREADABLE)
"""What an operation raises when the disk fails, or a row is damaged."""


class Transaction:
    """All of it is committed, or nothing.

    SQLite rolls back by itself on a full disk; apsw's context manager would then report the second rollback.
    """

    __slots__ = ("_db",)

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def __enter__(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, _error: object, _traceback: object) -> None:
        try:
            if kind is None:
                self._db.execute("COMMIT")
        finally:
            if self._db.in_transaction:
                with suppress(apsw.Error):
                    self._db.execute("ROLLBACK")


class Writing:
    """A failure within it is passed to ``fail``, which returns the error to raise."""

    __slots__ = ("_fail",)

    def __init__(self, fail: Callable[[Exception], StoreError]) -> None:
        self._fail = fail

    def __enter__(self) -> None:
        """Nothing is done before the first statement."""

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if error is not None and isinstance(error, _FAILURES):
            raise self._fail(error) from error
