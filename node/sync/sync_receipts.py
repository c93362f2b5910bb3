"""How far messages have come, for callers that wait."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Generic, TypeVar, overload

from triack.node.control.client_receipts import ClientReceipts
from triack.node.handles.derived import waited
from triack.node.handles.receipt import MessageWaits, Waits
from triack.node.handles.receipts import Receipts
from triack.node.sync.sync_loop import LoopThread

__all__ = ["SyncReceipt", "SyncReceipts"]

W = TypeVar("W", bound=Waits)


class _SyncWaits(Generic[W]):
    """Each wait takes seconds, None for no limit."""

    def __init__(self, loop: LoopThread, receipt: W) -> None:
        self._loop = loop
        self._receipt = receipt

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._receipt!r}>"

    def _perform(self, begin: Callable[[W], Coroutine[Any, Any, Any]], _wrap: None) -> Any:
        return self._loop.wait(begin(self._receipt))

    queued = waited(Waits.queued)
    received = waited(Waits.received)
    stored = waited(Waits.stored)
    ordered = waited(Waits.ordered)
    reached = waited(Waits.reached)


class SyncReceipt(_SyncWaits[MessageWaits]):
    """A handle on how far a message has come; see ``Receipt``. Each wait takes seconds, None for no limit."""

    @property
    def id(self) -> str:
        """Names the message for ever, as ``Message.id`` does where it arrives."""
        return self._receipt.id

    @property
    def number(self) -> int | None:
        """Its place in its outgoing queue; see ``Receipt.number``."""
        return self._receipt.number


class SyncReceipts(_SyncWaits[Receipts | ClientReceipts], Sequence[SyncReceipt]):
    """A handle on how far a list of messages has come, and on each of them; see ``Receipts``."""

    def __len__(self) -> int:
        return len(self._receipt)

    @overload
    def __getitem__(self, at: int) -> SyncReceipt: ...

    @overload
    def __getitem__(self, at: slice) -> list[SyncReceipt]: ...

    def __getitem__(self, at: int | slice) -> SyncReceipt | list[SyncReceipt]:
        if isinstance(at, slice):
            return [SyncReceipt(self._loop, receipt) for receipt in self._receipt[at]]
        return SyncReceipt(self._loop, self._receipt[at])
