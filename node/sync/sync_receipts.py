"""How far messages have come, for callers that wait."""

from collections.abc import Sequence
from typing import Generic, TypeVar, overload

from triack.node.control.client_receipts import ClientReceipts
from triack.node.handles.receipt import MessageWaits, Waits
from triack.node.handles.receipts import Receipts
from triack.node.sync.sync_loop import LoopThread
from triack.queues.stages import Stage

__all__ = ["SyncReceipt", "SyncReceipts"]

W = TypeVar("W", bound=Waits)


class _SyncWaits(Generic[W]):
    """Each wait takes seconds, None for no limit."""

    def __init__(self, loop: LoopThread, receipt: W) -> None:
        self._loop = loop
        self._receipt = receipt

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._receipt!r}>"

    def queued(self, timeout: float | None = None) -> None:
        """Wait until the node has the message for good."""
        self.reached(Stage.QUEUED, timeout)

    def received(self, timeout: float | None = None) -> None:
        """Wait until the message has arrived at the next hop."""
        self.reached(Stage.RECEIVED, timeout)

    def stored(self, timeout: float | None = None) -> None:
        """Wait until the message is on the next hop's disk."""
        self.reached(Stage.STORED, timeout)

    def ordered(self, timeout: float | None = None) -> None:
        """Wait until the message is accepted once, in order, and on disk at its destination."""
        self.reached(Stage.ORDERED, timeout)

    def reached(self, stage: Stage | str, timeout: float | None = None) -> None:
        """Wait for a stage given as a value or by its name."""
        self._loop.wait(self._receipt.reached(stage, timeout))


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
