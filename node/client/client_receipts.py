"""How far messages have come that a node in another process accepted."""

import asyncio
from functools import partial
from operator import attrgetter

from triack.base.checks import check_timeout
from triack.base.errors import ConnectionLost, WaitTimeout
from triack.base.printable import counted
from triack.node.control.control_frames import Caller, Header
from triack.node.handles.receipt import Receipt, Receipts
from triack.queues.stages import Stage, StageName, as_stage


class ClientReceipt(Receipt):
    """A message that the node accepted; ``at`` is its place in a list that shares one receipt at the node.

    It outlives its connection if the message has a key: the node remembers those.
    """

    __slots__ = ("_at", "_client", "_epoch", "_id", "_number", "_place", "_reached")

    id = property(attrgetter("_id"))
    number = property(attrgetter("_place"))

    def __init__(self, client: Caller, header: Header, at: int | None = None) -> None:
        self._client = client
        self._epoch = header["epoch"]
        self._number = header["receipt"]
        self._id = str(header["id"] if at is None else header["ids"][at])
        self._place = header.get("number") if at is None else header["numbers"][at]
        self._at = at
        # The last stage that it is known to have reached.
        self._reached: Stage | None = None

    def __repr__(self) -> str:
        return f"<ClientReceipt of message {self.id}>"

    async def reached(self, stage: Stage | StageName, timeout: float | None = None) -> None:
        """Wait for a stage given as a value; see ``Receipt``.

        Raises ConnectionLost: the process of the node ended, and the next one does not know the outcome.
        """
        check_timeout(f"wait for {stage}", timeout)
        wanted = as_stage(stage)
        if self._reached is not None and wanted <= self._reached:
            return
        end = None if timeout is None else asyncio.get_running_loop().time() + timeout
        wait = partial(_wait, self._client, stage=wanted)
        try:
            await wait(self._epoch, self._number, self._at, timeout=timeout)
        except ConnectionLost:
            await self._follow(wanted, end)
            await wait(self._epoch, self._number, self._at, timeout=_left(end))
        self._reached = wanted

    async def _follow(self, wanted: Stage, end: float | None) -> None:
        """Find the message again, at the next process of the node."""
        await self._client.connected(end)
        header, _ = await self._client.call("follow", ordinal=int(self.id.partition("-")[2]))
        if header["receipt"] is None:
            known = "it may be lost" if self._reached is None else "the node has it on its disk, and will send it"
            raise ConnectionLost(
                f"wait for {wanted.name.lower()} of message {self.id}: the process that had accepted it went away, "
                f"and the next one does not know its outcome: {known}; a message that was sent with a key has one",
                maybe_done=True,
            )
        self._epoch, self._number, self._at = header["epoch"], header["receipt"], None


class ClientReceipts(Receipts):
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

    async def reached(self, stage: Stage | StageName, timeout: float | None = None) -> None:
        """Wait until every message has reached a stage given as a value; see ``Receipts``."""
        check_timeout(f"wait for {stage}", timeout)
        end = None if timeout is None else asyncio.get_running_loop().time() + timeout
        wanted = as_stage(stage)
        try:
            for header in self._headers:
                try:
                    await _wait(
                        self._client, header["epoch"], header["receipt"], None, stage=wanted, timeout=_left(end)
                    )
                except ConnectionLost:
                    for at in range(len(header["ids"])):
                        await ClientReceipt(self._client, header, at).reached(wanted, _left(end))
        except WaitTimeout as error:
            late = f"{counted(len(self), 'message')} not all {wanted.name.lower()} after {timeout} s"
            raise WaitTimeout(late, cause=error.cause) from None


async def _wait(
    client: Caller, epoch: int, number: int, at: int | None, *, stage: Stage, timeout: float | None
) -> None:
    await client.call("wait", epoch=epoch, receipt=number, at=at, stage=stage.name.lower(), timeout=timeout)


def _left(end: float | None) -> float | None:
    """Seconds until a time of the event loop."""
    return None if end is None else max(0.0, end - asyncio.get_running_loop().time())
