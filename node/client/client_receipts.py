"""How far messages have come that a node in another process accepted."""

import asyncio
from typing import TypeVar

from triack.base.checks import check_timeout
from triack.base.delivery import Delivery
from triack.base.errors import WaitTimeout
from triack.base.printable import counted
from triack.node.control.control_frames import Caller, Header
from triack.node.handles.receipt import MessageWaits, Waits, check_bounded, check_stage
from triack.node.handles.receipts import Listed
from triack.queues.stages import Stage

__all__ = ["ClientReceipt", "ClientReceipts", "check_until", "when_reached"]

_R = TypeVar("_R", bound=Waits)


class ClientReceipt(MessageWaits):
    """A message that the node accepted; ``at`` is its place in a list of which the node keeps one receipt."""

    __slots__ = ("_at", "_client", "_id", "_number", "_place")

    def __init__(self, client: Caller, header: Header, at: int | None = None) -> None:
        self._client = client
        self._number = header["receipt"]
        self._id = header["id"] if at is None else header["ids"][at]
        self._place = header.get("number") if at is None else header["numbers"][at]
        self._at = at

    def __repr__(self) -> str:
        return f"<ClientReceipt of message {self._id}>"

    @property
    def number(self) -> int | None:
        """Its number in the outgoing queue; see ``Receipt.number``."""
        return self._place

    @property
    def id(self) -> str:
        """The message's permanent name, which ``Message.id`` has where it arrives."""
        return str(self._id)

    async def reached(self, stage: Stage | str, timeout: float | None = None) -> None:
        """Wait for a stage given as a value; see ``Receipt``."""
        await _wait(self._client, self._number, self._at, stage, timeout)


class ClientReceipts(Waits, Listed[ClientReceipt]):
    """Messages that the node accepted as a list; see ``Receipts``."""

    __slots__ = ("_client", "_headers", "_places")

    def __init__(self, client: Caller, headers: list[Header]) -> None:
        self._client = client
        self._headers = headers
        self._places = [(header, at) for header in headers for at in range(len(header["ids"]))]

    def __len__(self) -> int:
        return len(self._places)

    def _receipt_of(self, index: int) -> ClientReceipt:
        return ClientReceipt(self._client, *self._places[index])

    async def reached(self, stage: Stage | str, timeout: float | None = None) -> None:
        """Wait until every message has reached a stage given as a value; see ``Receipts``."""
        check_timeout(f"wait for {stage}", timeout)
        loop = asyncio.get_running_loop()
        end = None if timeout is None else loop.time() + timeout
        try:
            for header in self._headers:
                left = None if end is None else max(0.0, end - loop.time())
                await _wait(self._client, header["receipt"], None, stage, left)
        except WaitTimeout:
            name = _name_of(stage)
            raise WaitTimeout(f"{counted(len(self), 'message')} not all {name} after {timeout} s") from None


def check_until(until: Stage | str | None, delivery: Delivery, timeout: float | None) -> None:
    """Check the stage for which a call that sends waits. Raises UsageError when its messages have no such stage."""
    check_bounded(until, timeout)
    if until is not None:
        check_stage(until, delivery, timeout)


async def when_reached(receipt: _R, until: Stage | str | None, timeout: float | None) -> _R:
    """The same receipt, as soon as its messages have reached the stage; None: at once."""
    if until is not None:
        await receipt.reached(until, timeout)
    return receipt


async def _wait(client: Caller, number: int, at: int | None, stage: Stage | str, timeout: float | None) -> None:
    check_timeout(f"wait for {stage}", timeout)
    await client.call("wait", receipt=number, at=at, stage=_name_of(stage), timeout=timeout)


def _name_of(stage: Stage | str) -> str:
    return stage.name.lower() if isinstance(stage, Stage) else stage
