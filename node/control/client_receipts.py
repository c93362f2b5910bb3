"""How far messages have come that a node in another process accepted."""

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol, overload

from triack.base.checks import check_timeout
from triack.base.errors import WaitTimeout
from triack.node.control.frames import Header
from triack.node.receipt import MessageWaits, Waits
from triack.queues.stages import Stage

__all__ = ["Caller", "ClientReceipt", "ClientReceipts"]


class Caller(Protocol):
    """The client."""

    async def call(self, do: str, body: bytes = b"", **fields: Any) -> tuple[Header, bytes]:
        """Let the node do something, and wait for the end of it."""


class ClientReceipt(MessageWaits):
    """A message that the node accepted; ``at`` is its place in a list of which the node keeps one receipt."""

    __slots__ = ("_at", "_client", "_id", "_number")

    def __init__(self, client: Caller, header: Header, at: int | None = None) -> None:
        self._client = client
        self._number = header["receipt"]
        self._id = header["id"] if at is None else header["ids"][at]
        self._at = at

    @property
    def id(self) -> str:
        """Names the message for ever, as ``Message.id`` does where it arrives."""
        return str(self._id)

    async def reached(self, stage: Stage | str, timeout: float | None = None) -> None:
        """Wait for a stage given as a value; see ``Receipt``."""
        await _wait(self._client, self._number, self._at, stage, timeout)


class ClientReceipts(Waits, Sequence[ClientReceipt]):
    """Messages that the node accepted as a list; see ``Receipts``."""

    __slots__ = ("_client", "_headers", "_places")

    def __init__(self, client: Caller, headers: list[Header]) -> None:
        self._client = client
        self._headers = headers
        self._places = [(header, at) for header in headers for at in range(len(header["ids"]))]

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, at: int) -> ClientReceipt: ...

    @overload
    def __getitem__(self, at: slice) -> list[ClientReceipt]: ...

    def __getitem__(self, at: int | slice) -> ClientReceipt | list[ClientReceipt]:
        if isinstance(at, slice):
            return [ClientReceipt(self._client, *place) for place in self._places[at]]
        return ClientReceipt(self._client, *self._places[at])

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
            raise WaitTimeout(f"{len(self)} messages not all {name} after {timeout} s") from None


async def _wait(client: Caller, number: int, at: int | None, stage: Stage | str, timeout: float | None) -> None:
    check_timeout(f"wait for {stage}", timeout)
    await client.call("wait", receipt=number, at=at, stage=_name_of(stage), timeout=timeout)


def _name_of(stage: Stage | str) -> str:
    return stage.name.lower() if isinstance(stage, Stage) else stage
