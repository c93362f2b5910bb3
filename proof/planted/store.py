"""Mistakes of ``store/``: what the disk was never asked to keep."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

import apsw

from proof.planted.bug import Always, Bugs, Patch
from triack.base.errors import StoreFailed
from triack.store.store import Store
from triack.tools.sim.disk_file import Handle

BUGS = Bugs()


@BUGS.by_seeds("a failed write or sync is ignored")
def _ignored(patch: Patch) -> None:
    writing = Store._writing

    @contextmanager
    def careless(self: Store, operation: str) -> Iterator[None]:
        ignored: AbstractContextManager[None] = suppress(StoreFailed) if operation == "commit" else nullcontext()
        try:
            with ignored, writing(self, operation):
                yield
        finally:
            self._failure = None

    patch.setattr(Store, "_writing", careless)


@BUGS.by_seeds("nothing is synced")
def _nothing_synced(patch: Patch) -> None:
    _sync_only(patch, "OFF")


@BUGS.by_seeds("the log is not synced at each commit")
def _log_not_synced(patch: Patch) -> None:
    _sync_only(patch, "NORMAL")


BUGS.by_seeds("a second process is let into the store")(Always(None, Handle, "xLock"))


def _sync_only(patch: Patch, level: str) -> None:
    """Let every store be opened with another level of ``synchronous``."""

    class Careless(apsw.Connection):
        def pragma(self, name: str, *value: Any, **options: Any) -> Any:
            return super().pragma(name, *((level,) if value and name == "synchronous" else value), **options)

    patch.setattr(apsw, "Connection", Careless)
