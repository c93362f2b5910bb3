"""How far messages have come, for callers that wait."""

from typing import TypeVar

from triack.node.handles.derived import waited
from triack.node.handles.receipt import Receipt, Waits
from triack.node.handles.receipts import Listed, Receipts
from triack.node.sync.sync_loop import OverLoop

W = TypeVar("W", bound=Waits)


class _SyncWaits(OverLoop[W]):
    queued = waited(Waits.queued)
    received = waited(Waits.received)
    stored = waited(Waits.stored)
    onward = waited(Waits.onward)
    ordered = waited(Waits.ordered)
    reached = waited(Waits.reached)


class SyncReceipt(_SyncWaits[Receipt]):
    """A handle on how far a message has come; see ``Receipt``. Each wait takes seconds, None for no limit."""

    @property
    def id(self) -> str:
        """The message's permanent name, which ``Message.id`` has where it arrives."""
        return self._inner.id

    @property
    def number(self) -> int | None:
        """Its place in its outgoing queue; see ``Receipt.number``."""
        return self._inner.number


class SyncReceipts(_SyncWaits[Receipts], Listed[SyncReceipt]):
    """A handle on how far a list of messages has come, and on each of them; see ``Receipts``."""

    def __len__(self) -> int:
        return len(self._inner)

    def _receipt_of(self, index: int) -> SyncReceipt:
        return SyncReceipt(self._loop, self._inner[index])
