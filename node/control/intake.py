"""Lines of one producer on their way through a node; the producer uses the control socket.

Promise: a chunk of lines enters the node once and whole, together with the number of its last line, however often it is
offered and whenever the process is killed. Progress is reported in order: ``finished`` is the last line up to which all
are decided, each either at the wanted stage or among the failures.
"""

import asyncio
import contextlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from triack.base.delivery import Delivery
from triack.base.errors import DeliveryFailed, ProtocolError
from triack.base.reasons import DropReason
from triack.node.handles.receipt import Receipt
from triack.node.handles.transaction import Transaction
from triack.node.handles.verbs import Verbs
from triack.node.shell.outgoing_message import MessageProperties
from triack.queues.mailboxes.system_queues import DEAD_LETTER_QUEUE
from triack.queues.stages import Stage
from triack.stats.causes import waits_for

POLL_S = 0.05
"""Time between checks of packets from before a restart of the process: nothing reports their progress."""
BACKLOG_CHUNKS = 256
"""The most unfinished chunks of one producer before it waits, as their receipts are kept in memory."""

LOST = (DropReason.DEAD_LETTERS_FULL, DropReason.DEAD_LETTER_REPLACED, DropReason.EXPIRED_DISCARDED)
"""Dead letters that are gone because of their quota and policy."""

# First and last line, and why they will not arrive.
Failure = tuple[int, int, str]


@dataclass(slots=True)
class Chunk:
    """Some consecutive lines, or files; ``first`` is the number of the first, from 1."""

    first: int
    lines: list[bytes]
    size_bytes: int = field(default=0)

    @property
    def last(self) -> int:
        """The number of the last line."""
        return self.first + len(self.lines) - 1


@dataclass(slots=True)
class _Recovered:
    """Lines from before a restart of the process: they have no receipts, but packets with numbers below ``end``."""

    first: int
    last: int
    end: int


# The last line up to which all are decided, and the failures since the last call.
Progress = tuple[int, list[Failure]]


class Producer:
    """A process that sends lines through the node, seen from the node."""

    def __init__(
        self,
        node: Verbs,
        destination: str,
        delivery: Delivery,
        until: Stage,
        *,
        properties: MessageProperties,
        name: str,
        finished: int = 0,
    ) -> None:
        self._node = node
        self._destination = destination
        self._delivery = delivery
        self._until = until
        self._properties = properties
        self._key = None if delivery is Delivery.EXPRESS else f"producer:{name}"
        self._to_follow: asyncio.Queue[tuple[Chunk, Sequence[Receipt]] | _Recovered] = asyncio.Queue(BACKLOG_CHUNKS)
        self._dead_letters = 0
        self._accepted = 0
        self._port = node._port  # noqa: SLF001 - the node's own part
        chosen = properties.get("priority"), properties.get("seal")
        self._outgoing = self._port.outgoing_stream(destination, delivery, *chosen)
        self._finished = finished
        self._failures: list[Failure] = []
        self._news = asyncio.Event()
        self._following: asyncio.Task[None] | None = None
        self._one_at_a_time = asyncio.Lock()
        # Why a chunk was refused: those behind it, which are already on their way, are refused too.
        self._refused: BaseException | None = None

    async def begin(self) -> int:
        """Find out which lines were accepted before, and follow new ones. Returns the last line that is safe here."""
        if self._key is not None:
            await self._recover(self._key)
        self._following = asyncio.create_task(self._follow(), name="triack-producer")
        self._following.add_done_callback(self._handle_followed)
        return self._accepted

    async def _recover(self, key: str) -> None:
        self._dead_letters = self._count_dead_letters()
        await self._node.flush()  # the remembered values are safe from here on
        known = self._node.recall(key)
        if known is not None:
            self._accepted, self._dead_letters = json.loads(known)
        if self._accepted > self._finished:
            end = self._outgoing.sequence.next_number
            self._to_follow.put_nowait(_Recovered(self._finished + 1, self._accepted, end))

    async def take(self, first: int, bodies: Iterable[bytes]) -> None:
        """Accept lines, the first of which has that number; when this returns they are safe.

        Lines that were accepted before are skipped. Waits while too many chunks are not finished.
        """
        async with self._one_at_a_time:
            if self._refused is not None:
                raise self._refused
            try:
                await self._accept(Chunk(first, list(bodies)))
            except BaseException as error:
                self._refused = error
                raise

    async def _accept(self, chunk: Chunk) -> None:
        if self._key is None:
            receipts: Sequence[Receipt] = await self._node.send_many(
                self._destination, chunk.lines, delivery=self._delivery, **self._properties
            )
        else:
            transaction = self._node.transaction()
            await self._put(transaction, chunk)
            # Another connection of the same producer may have been faster. Nothing can come between this look and the
            # commit, which takes everything before it waits.
            known = self._node.recall(self._key)
            last = self._accepted if known is None else int(json.loads(known)[0])
            if last >= chunk.last:
                return
            if last != chunk.first - 1:
                raise ProtocolError(DropReason.BAD_FRAME, f"line {chunk.first} after line {last}")
            transaction.remember(self._key, json.dumps([chunk.last, self._dead_letters]).encode())
            receipts = await transaction.commit()
        self._accepted = chunk.last
        await self._to_follow.put((chunk, receipts))

    async def _put(self, transaction: Transaction, chunk: Chunk) -> None:
        key, destination, delivery = self._properties.get("key"), self._destination, self._delivery
        if key is None:
            await transaction.send_many(destination, chunk.lines, delivery=delivery, **self._properties)
            return
        # Each line needs its own key: with the same one, only the first would be accepted.
        keys = [f"{key}:{number}" for number in range(chunk.first, chunk.last + 1)]
        properties: MessageProperties = {**self._properties, "key": None}
        await transaction.send_many(destination, chunk.lines, delivery=delivery, keys=keys, **properties)

    async def progress(self) -> Progress:
        """Wait until more lines are decided. Returns the last finished line, and new failures."""
        await self._news.wait()
        if self._following is not None and self._following.done():
            await self._following
        self._news.clear()
        failures, self._failures = self._failures, []
        return self._finished, failures

    async def forget(self) -> str:
        """Remember nothing of a producer that has ended. Returns why its lines do not arrive yet."""
        if self._key is not None:
            transaction = self._node.transaction()
            transaction.remember(self._key, None)
            await transaction.commit()
        return waits_for(self._port.engine, self._outgoing)

    def close(self) -> None:
        """Stop following."""
        if self._following is not None:
            self._following.cancel()

    # ---- following

    async def _follow(self) -> None:
        while True:
            item = await self._to_follow.get()
            if isinstance(item, _Recovered):
                self._failures += await self._finish_recovered(item)
                self._finished = item.last
            else:
                self._failures += await self._finish(*item)
                self._finished = item[0].last
            self._news.set()

    def _handle_followed(self, task: "asyncio.Task[None]") -> None:
        """Following has failed, which the next call of ``progress`` raises, or was cancelled."""
        if not task.cancelled():
            task.exception()
        self._news.set()

    async def _finish(self, chunk: Chunk, receipts: Sequence[Receipt]) -> list[Failure]:
        failures: list[Failure] = []
        # The last one first: in a sequence the others are finished before it, and need no wait.
        with contextlib.suppress(DeliveryFailed):
            await receipts[-1].reached(self._until)
        for line, receipt in enumerate(receipts, chunk.first):
            try:
                await receipt.reached(self._until)
            except DeliveryFailed as error:
                add_failure(failures, (line, line, error.reason))
        return failures

    async def _finish_recovered(self, item: _Recovered) -> list[Failure]:
        while any(number < item.end for number in self._outgoing.sequence.entries):
            self._port.check_alive()
            await asyncio.sleep(POLL_S)
        dead, lost = (
            self._count_dead_letters() - self._dead_letters,
            sum([self._port.engine.drops[why] for why in LOST]),
        )
        if lost:
            return [(item.first, item.last, f"some may be among {lost} dead letters that found no room and are gone")]
        if dead <= 0:
            return []
        return [(item.first, item.last, f"some may be among {dead} new messages in the queue {DEAD_LETTER_QUEUE}")]

    def _count_dead_letters(self) -> int:
        return self._port.queue_lengths().get(DEAD_LETTER_QUEUE, 0)


def add_failure(failures: list[Failure], new: Failure) -> None:
    """Add a failure, in order; join it with the one before if they touch and have the same reason."""
    if failures and failures[-1][1] + 1 == new[0] and failures[-1][2] == new[2]:
        failures[-1] = (failures[-1][0], new[1], new[2])
    else:
        failures.append(new)
