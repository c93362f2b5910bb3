"""Triack without ``async``: for scripts, and for the threads of a program that has no event loop of its own.

A node, or a client of one, runs in an event loop in a thread of its own; each call is carried out there and waited for.
The parts are those of ``triack`` itself, with the same names, arguments, promises and errors. Any thread may call.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, Unpack, overload

from triack.base.delivery import Delivery
from triack.base.errors import NodeClosed
from triack.node.access import DEFAULT_SUITE
from triack.node.acknowledgements import Acknowledgements, Every
from triack.node.consumer import BATCH_MESSAGES, AckMode, Consumer
from triack.node.control.client import Client, ClientInvitation, connect_to
from triack.node.control.client_consumer import ClientConsumer
from triack.node.control.client_receipts import ClientReceipts
from triack.node.control.client_transaction import ClientTransaction
from triack.node.enrolling import EnrolledPeer, OpenInvitation
from triack.node.event_loop import new_event_loop
from triack.node.message import Holder, Message
from triack.node.node import Node, open_node
from triack.node.outgoing_message import MessageProperties
from triack.node.receipt import MessageWaits, Waits
from triack.node.receipts import Receipts
from triack.node.requesting import REQUEST_TIMEOUT_S
from triack.node.stats import NodeStats
from triack.node.transaction import Transaction
from triack.queues.ack_events import AckEvent
from triack.queues.browse import BrowsedMessage
from triack.queues.mailbox import Lease
from triack.queues.redelivery import Redelivery
from triack.queues.settings import NodeSettings
from triack.queues.stages import Stage
from triack.transport.endpoint import Tls

__all__ = [
    "SyncClient",
    "SyncConsumer",
    "SyncInvitation",
    "SyncNode",
    "SyncReceipt",
    "SyncReceipts",
    "SyncTransaction",
    "connect",
    "open",
]

T = TypeVar("T")


def open(
    name: str,
    *,
    data: str | Path | None,
    listen: str | None = None,
    log: str | Path | None = None,
    insecure: bool = False,
    queues: Sequence[str] | None = None,
    peers: dict[str, str] | None = None,
    announce: str | None = None,
    suite: str = DEFAULT_SUITE,
    tls: Tls | None = None,
    settings: NodeSettings | None = None,
) -> "SyncNode":
    """A node, begun by ``with``; arguments and errors are those of ``triack.open``."""
    return SyncNode(
        lambda: open_node(
            name,
            data=data,
            listen=listen,
            log=log,
            insecure=insecure,
            queues=queues,
            peers=peers,
            announce=announce,
            suite=suite,
            tls=tls,
            settings=settings,
        )
    )


def connect(data: str | Path) -> "SyncClient":
    """A client of a node that another process runs, begun by ``with``; see ``triack.connect``."""
    return SyncClient(lambda: connect_to(data))


class _Loop:
    """An event loop in a thread."""

    def __init__(self, name: str) -> None:
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._ended = threading.Lock()
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Carry it out, and wait for its end; whoever is interrupted meanwhile cancels it."""
        with self._ended:
            if not self._thread.is_alive():
                work.close()
                raise NodeClosed("the node is closed")
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def tell(self, work: Callable[[], None]) -> None:
        """Carry it out, and raise what it raises."""

        async def told() -> None:
            work()

        self.wait(told())

    def end(self) -> None:
        """Stop the loop. A second call does nothing."""
        with self._ended:
            if self._thread.is_alive():
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join()


N = TypeVar("N", Node, Client)


class _Face(Generic[N]):
    """What a node and a client of one have in common."""

    def __init__(self, make: Callable[[], N]) -> None:
        self._make: Callable[[], N] = make
        self._made: tuple[_Loop, N] | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {'not open' if self._made is None else repr(self._made[1])}>"

    @property
    def _parts(self) -> tuple[_Loop, N]:
        if self._made is None:
            raise NodeClosed("the node is not open: use it inside `with`")
        return self._made

    def __enter__(self) -> Self:
        loop = _Loop("triack")

        async def begin() -> N:
            node = self._make()
            await node.start()
            return node

        try:
            self._made = loop, loop.wait(begin())
        except BaseException:
            loop.end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End it; see ``Node.close``. A second call does nothing."""
        loop, node = self._parts
        try:
            loop.wait(node.close())
        except NodeClosed:
            return
        finally:
            loop.end()

    @property
    def address(self) -> str:
        """Where the node listens, with the real port; empty when it does not."""
        return self._parts[1].address

    @property
    def node_id(self) -> str:
        """32 hex digits that name the node for ever."""
        return self._parts[1].node_id

    def send(
        self,
        destination: str,
        body: bytes,
        *,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        until: Stage | str | None = None,
        timeout: float | None = None,
        **properties: Unpack[MessageProperties],
    ) -> "SyncReceipt":
        """Accept a message for sending; see ``Node.send``."""
        loop, node = self._parts
        sending = node.send(destination, body, delivery=delivery, until=until, timeout=timeout, **properties)
        return SyncReceipt(loop, loop.wait(sending))

    def send_many(
        self,
        destination: str,
        bodies: Iterable[bytes],
        *,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        until: Stage | str | None = None,
        timeout: float | None = None,
        **properties: Unpack[MessageProperties],
    ) -> "SyncReceipts":
        """Accept messages for sending, in order; see ``Node.send_many``."""
        loop, node = self._parts
        sending = node.send_many(destination, bodies, delivery=delivery, until=until, timeout=timeout, **properties)
        return SyncReceipts(loop, loop.wait(sending))

    def request(
        self,
        destination: str,
        body: bytes,
        *,
        timeout: float = REQUEST_TIMEOUT_S,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        **properties: Unpack[MessageProperties],
    ) -> Message:
        """Send a message and wait for the one that answers it; see ``Node.request``."""
        loop, node = self._parts
        asked = node.request(destination, body, timeout=timeout, delivery=delivery, **properties)
        return _thread_safe(loop, loop.wait(asked))

    def reply(
        self,
        message: Message,
        body: bytes,
        *,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        **properties: Unpack[MessageProperties],
    ) -> "SyncReceipt":
        """Answer a message; see ``Node.reply``."""
        loop, node = self._parts
        return SyncReceipt(loop, loop.wait(node.reply(message, body, delivery=delivery, **properties)))

    def flush(self) -> None:
        """Wait until everything accepted and acknowledged so far is on the node's disk."""
        loop, node = self._parts
        loop.wait(node.flush())

    def receive(self, queue: str, *, ack: AckMode = "auto", redelivery: Redelivery | None = None) -> "SyncConsumer":
        """Read a queue of the node: ``for message in node.receive("orders")``; see ``Node.receive``."""
        loop, node = self._parts

        async def begin() -> Consumer | ClientConsumer:
            return node.receive(queue, ack=ack, redelivery=redelivery)

        return SyncConsumer(loop, loop.wait(begin()))

    def browse(self, queue: str) -> Iterator[BrowsedMessage]:
        """Look at what waits in a queue, and change nothing; see ``Node.browse``."""
        loop, node = self._parts

        async def follow(looking: AsyncIterator[BrowsedMessage]) -> BrowsedMessage | None:
            return await anext(looking, None)

        looking = node.browse(queue)
        while (message := loop.wait(follow(looking))) is not None:
            yield message

    def requeue(self, ids: Collection[str] | None = None) -> int:
        """Send dead letters again; see ``Node.requeue``."""
        loop, node = self._parts
        return loop.wait(node.requeue(ids))

    def move(self, queue: str, destination: str, ids: Collection[str] | None = None) -> int:
        """Move what waits in a queue elsewhere; see ``Node.move``."""
        loop, node = self._parts
        return loop.wait(node.move(queue, destination, ids))

    def purge(self, queue: str, ids: Collection[str] | None = None) -> int:
        """Take what waits out of a queue; see ``Node.purge``."""
        loop, node = self._parts
        return loop.wait(node.purge(queue, ids))

    def transaction(self) -> "SyncTransaction":
        """A new transaction; see ``Transaction``."""
        loop, node = self._parts
        return SyncTransaction(loop, node.transaction())

    def trust(
        self,
        name: str,
        key: str | None = None,
        *addresses: str,
        send: Iterable[str] | None = None,
        psk: str | None = None,
    ) -> None:
        """Trust a peer from now on; see ``Node.trust``."""
        loop, node = self._parts
        loop.wait(node.trust(name, key, *addresses, send=send, psk=psk))

    def revoke(self, name: str) -> None:
        """Trust a peer no longer; see ``Node.revoke``."""
        loop, node = self._parts
        loop.wait(node.revoke(name))

    def invite(self, name: str | None = None, *, send: Iterable[str] | None = None) -> "SyncInvitation":
        """Make a one-time code, with which another node can come; see ``Node.invite``."""
        loop, node = self._parts
        return SyncInvitation(loop, loop.wait(node.invite(name, send=send)))

    def enrol(self, code: str, url: str, *, name: str | None = None, send: Iterable[str] | None = None) -> EnrolledPeer:
        """Come to a node with a code that it has given out; see ``Node.enrol``."""
        loop, node = self._parts
        return loop.wait(node.enrol(code, url, name=name, send=send))


class SyncNode(_Face[Node]):
    """One queue manager. Make it with ``triack.sync.open``, use it inside ``with``."""

    def stats(self) -> NodeStats:
        """Everything that can be counted; see ``Node.stats``."""
        loop, node = self._parts

        async def look() -> NodeStats:
            return node.stats()

        return loop.wait(look())

    def acknowledgements(
        self, destination: str, *, delivery: Delivery = Delivery.TRANSACTIONAL, every: Every = None
    ) -> Iterator[AckEvent]:
        """What becomes of the messages to a queue, until the node ends; see ``Node.acknowledgements``."""
        loop, node = self._parts

        async def begin() -> Acknowledgements:
            return node.acknowledgements(destination, delivery=delivery, every=every)

        return _iterate(loop, loop.wait(begin()))

    def queue_lengths(self) -> dict[str, int]:
        """How many messages wait in each queue."""
        return {name: queue.messages for name, queue in self.stats().queues.items()}

    def recall(self, key: str) -> bytes | None:
        """What ``remember`` keeps under a key, or None."""
        return self._parts[1].recall(key)

    @property
    def key(self) -> str:
        """The public key by which others know this node; see ``Node.key``."""
        return self._parts[1].key


class SyncClient(_Face[Client]):
    """A node in another process. Make it with ``triack.sync.connect``, use it inside ``with``."""

    def stats(self) -> NodeStats:
        """Everything that can be counted; see ``Node.stats``."""
        loop, client = self._parts
        return loop.wait(client.stats())

    def acknowledgements(
        self, destination: str, *, delivery: Delivery = Delivery.TRANSACTIONAL, every: Every = None
    ) -> Iterator[AckEvent]:
        """What becomes of the messages to a queue, until the node ends; see ``Node.acknowledgements``."""
        loop, client = self._parts
        return _iterate(loop, loop.wait(client.acknowledgements(destination, delivery=delivery, every=every)))

    def queue_lengths(self) -> dict[str, int]:
        """How many messages wait in each queue."""
        loop, client = self._parts
        return loop.wait(client.queue_lengths())

    def recall(self, key: str) -> bytes | None:
        """What ``remember`` keeps under a key, or None."""
        loop, client = self._parts
        return loop.wait(client.recall(key))

    @property
    def key(self) -> str:
        """The public key by which others know the node; see ``Node.key``."""
        loop, client = self._parts
        return loop.wait(client.key())


def _iterate(loop: _Loop, events: AsyncIterator[AckEvent]) -> Iterator[AckEvent]:
    async def follow() -> AckEvent | None:
        return await anext(events, None)

    return iter(lambda: loop.wait(follow()), None)


class SyncInvitation:
    """A one-time code that the node has given out; see ``OpenInvitation``."""

    def __init__(self, loop: _Loop, invitation: OpenInvitation | ClientInvitation) -> None:
        self.code = invitation.code
        self._loop = loop
        self._invitation = invitation

    def enrolled(self, timeout: float | None = None) -> EnrolledPeer:
        """Wait until somebody has come with the code; see ``OpenInvitation.enrolled``."""
        return self._loop.wait(self._invitation.enrolled(timeout))

    def withdraw(self) -> None:
        """Let nobody use it any more; does nothing when it is used already."""

        async def withdraw() -> None:
            told = self._invitation.withdraw()
            if told is not None:
                await told

        self._loop.wait(withdraw())


W = TypeVar("W", bound=Waits)


class _SyncWaits(Generic[W]):
    """Each wait takes seconds, None for no limit."""

    def __init__(self, loop: _Loop, receipt: W) -> None:
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


class _ThreadSafe:
    """Answers for a message that any thread may settle."""

    def __init__(self, loop: _Loop, holder: Holder) -> None:
        self._loop = loop
        self._holder = holder

    def acknowledge(self, lease: Lease) -> None:
        """It is done."""
        self._loop.tell(lambda: self._holder.acknowledge(lease))

    def give_back(self, lease: Lease, *, failed: bool, delay_ms: int | None) -> None:
        """It comes again."""
        self._loop.tell(lambda: self._holder.give_back(lease, failed=failed, delay_ms=delay_ms))


def _thread_safe(loop: _Loop, message: Message) -> Message:
    return message.held_by(lambda holder: _ThreadSafe(loop, holder))


class SyncConsumer:
    """An iterator over the messages of one queue; also a context manager. See ``Consumer``."""

    def __init__(self, loop: _Loop, consumer: Consumer | ClientConsumer) -> None:
        self._loop = loop
        self._consumer = consumer

    def __repr__(self) -> str:
        return f"<SyncConsumer: {self._consumer!r}>"

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message:
        return self.get()

    def get(self, timeout: float | None = None) -> Message:
        """The next message; see ``Consumer.get``."""
        return _thread_safe(self._loop, self._loop.wait(self._consumer.get(timeout)))

    def get_many(self, most: int = BATCH_MESSAGES, timeout: float | None = None) -> list[Message]:
        """The next messages, in order; see ``Consumer.get_many``."""
        batch = self._loop.wait(self._consumer.get_many(most, timeout))
        return [_thread_safe(self._loop, message) for message in batch]

    def close(self) -> None:
        """Give back what is unacknowledged and take no more."""
        self.__exit__(GeneratorExit, None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.wait(self._consumer.__aexit__(kind, error, trace))


class SyncTransaction:
    """A context manager: leaving the block commits, an exception rolls back. See ``Transaction``."""

    def __init__(self, loop: _Loop, transaction: Transaction | ClientTransaction) -> None:
        self._loop = loop
        self._transaction = transaction

    def __repr__(self) -> str:
        return f"<SyncTransaction: {self._transaction!r}>"

    def send(
        self,
        destination: str,
        body: bytes,
        *,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        **properties: Unpack[MessageProperties],
    ) -> None:
        """Send with the commit; see ``Transaction.send``."""
        self._loop.wait(self._transaction.send(destination, body, delivery=delivery, **properties))

    def send_many(
        self,
        destination: str,
        bodies: Iterable[bytes],
        *,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        **properties: Unpack[MessageProperties],
    ) -> None:
        """Send a list with the commit, in order; see ``Transaction.send_many``."""
        self._loop.wait(self._transaction.send_many(destination, bodies, delivery=delivery, **properties))

    def reply(
        self,
        message: Message,
        body: bytes,
        *,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        **properties: Unpack[MessageProperties],
    ) -> None:
        """Answer a message with the commit; see ``Transaction.reply``."""
        self._loop.wait(self._transaction.reply(message, body, delivery=delivery, **properties))

    def receive_many(self, queue: str, most: int = BATCH_MESSAGES, timeout: float | None = None) -> list[Message]:
        """Take messages with the commit, in order; see ``Transaction.receive_many``."""
        return self._loop.wait(self._transaction.receive_many(queue, most, timeout))

    def receive(self, queue: str, timeout: float | None = None) -> Message:
        """Take a message with the commit; see ``Transaction.receive``."""
        return self._loop.wait(self._transaction.receive(queue, timeout))

    def remember(self, key: str, value: bytes | None) -> None:
        """Keep a value of the application's own with the commit; None removes it."""

        async def remember() -> None:
            told = self._transaction.remember(key, value)
            if told is not None:
                await told

        self._loop.wait(remember())

    def commit(self, *, until: Stage | str | None = None, timeout: float | None = None) -> list[SyncReceipt]:
        """Make it all durable; see ``Transaction.commit``. Returns a receipt for each message sent, in order."""

        async def commit() -> list[MessageWaits]:
            return [*await self._transaction.commit(until=until, timeout=timeout)]

        return [SyncReceipt(self._loop, receipt) for receipt in self._loop.wait(commit())]

    def rollback(self, *, failed: bool = True) -> None:
        """Send nothing, and put back what was received. A second call does nothing."""

        async def rollback() -> None:
            told = self._transaction.rollback(failed=failed)
            if told is not None:
                await told

        self._loop.wait(rollback())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.wait(self._transaction.__aexit__(kind, error, trace))
