"""Triack without ``async``: for scripts, and for the threads of a program that has no event loop of its own.

A node, or a client of one, runs in an event loop in a thread of its own; each call is carried out there and waited for.
The parts are those of ``triack`` itself, with the same names, arguments, promises and errors. Any thread may call.
"""

import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, Unpack

from triack.base.delivery import Delivery
from triack.base.errors import NodeClosed, TriackError, UsageError
from triack.base.news import NodeEvent
from triack.node.control.client import Client, ClientInvitation, connect_to
from triack.node.control.client_consumer import ClientConsumer
from triack.node.control.client_transaction import ClientTransaction
from triack.node.files.access import DEFAULT_SUITE
from triack.node.handles.acknowledgements import Acknowledgements, Every
from triack.node.handles.consumer import AckMode, Consumer
from triack.node.handles.message import Message
from triack.node.handles.receipt import Receipt
from triack.node.handles.requesting import REQUEST_TIMEOUT_S
from triack.node.handles.transaction import Transaction
from triack.node.node import Node, open_node
from triack.node.shell.enrolling import EnrolledPeer, OpenInvitation
from triack.node.shell.link_events import Events
from triack.node.shell.outgoing_message import MessageProperties
from triack.node.shell.stats import NodeStats
from triack.node.sync.sync_consumer import SyncConsumer, thread_safe
from triack.node.sync.sync_loop import LoopThread
from triack.node.sync.sync_receipts import SyncReceipt, SyncReceipts
from triack.node.sync.sync_transaction import SyncTransaction
from triack.queues.manager.browse import BrowsedMessage
from triack.queues.node_settings import NodeSettings, Redelivery
from triack.queues.stages import Stage
from triack.queues.streams.ack_events import AckEvent
from triack.transport.endpoint import Tls

__all__ = [
    "SyncClient",
    "SyncInvitation",
    "SyncNode",
    "connect",
    "open",
]


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


N = TypeVar("N", Node, Client)
E = TypeVar("E", AckEvent, NodeEvent)


class _Face(Generic[N]):
    """What a node and a client of one have in common."""

    def __init__(self, make: Callable[[], N]) -> None:
        self._make: Callable[[], N] = make
        self._made: tuple[LoopThread, N] | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {'not open' if self._made is None else repr(self._made[1])}>"

    @property
    def _parts(self) -> tuple[LoopThread, N]:
        if self._made is None:
            raise NodeClosed("the node is not open: use it inside `with`, or between start() and close()")
        return self._made

    def start(self) -> Self:
        """Begin it, as ``with`` does, for whoever closes it elsewhere; see ``Node.start``.

        Returns:
            The node itself.
        """
        if self._made is not None and self._made[0].runs:
            raise UsageError(f"start {self._made[1]!r}: it is open already")
        loop = LoopThread("triack")

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

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(lambda node: node.__aexit__(kind, error, trace))

    def close(self) -> None:
        """End it; see ``Node.close``. A second call does nothing, nor does one before the start."""
        self._end(lambda node: node.close())

    def _end(self, end: Callable[[N], Coroutine[Any, Any, None]]) -> None:
        if self._made is None:
            return
        loop, node = self._made
        try:
            loop.wait(end(node))
        except NodeClosed:
            return
        finally:
            loop.end()

    @property
    def name(self) -> str:
        """The node's name."""
        return self._parts[1].name

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
    ) -> SyncReceipt:
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
    ) -> SyncReceipts:
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
        return thread_safe(loop, loop.wait(asked))

    def reply(
        self,
        message: Message,
        body: bytes,
        *,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        **properties: Unpack[MessageProperties],
    ) -> SyncReceipt:
        """Answer a message; see ``Node.reply``."""
        loop, node = self._parts
        return SyncReceipt(loop, loop.wait(node.reply(message, body, delivery=delivery, **properties)))

    def flush(self) -> None:
        """Wait until everything accepted and acknowledged so far is on the node's disk."""
        loop, node = self._parts
        loop.wait(node.flush())

    def drain(self, timeout: float | None = None) -> None:
        """Wait until all that was sent has come as far as its class says; see ``Node.drain``."""
        loop, node = self._parts
        loop.wait(node.drain(timeout))

    def receive(
        self,
        queue: str,
        *,
        ack: AckMode = "auto",
        redelivery: Redelivery | None = None,
        hand_over_timeout: float | None = None,
        name: str | None = None,
    ) -> SyncConsumer:
        """Read a queue of the node: ``for message in node.receive("orders")``; see ``Node.receive``.

        Without a name, it is called by this thread's.
        """
        loop, node = self._parts
        reader = threading.current_thread().name if name is None else name

        async def begin() -> Consumer | ClientConsumer:
            return node.receive(queue, ack=ack, redelivery=redelivery, hand_over_timeout=hand_over_timeout, name=reader)

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

    def release(self, queue: str) -> int:
        """Take the messages of a queue back that readers have in hand; see ``Node.release``."""
        loop, node = self._parts
        return loop.wait(node.release(queue))

    def transaction(self) -> SyncTransaction:
        """A new transaction; see ``Transaction``."""
        loop, node = self._parts

        async def begin() -> Transaction | ClientTransaction:
            return node.transaction()

        return SyncTransaction(loop, loop.wait(begin()))

    def trust(
        self,
        name: str,
        key: str | None = None,
        *addresses: str,
        send: Iterable[str] | None = None,
        psk: str | None = None,
        keep_alive_s: float | None = None,
    ) -> None:
        """Trust a peer from now on; see ``Node.trust``."""
        loop, node = self._parts
        loop.wait(node.trust(name, key, *addresses, send=send, psk=psk, keep_alive_s=keep_alive_s))

    def revoke(self, name: str) -> None:
        """Trust a peer no longer; see ``Node.revoke``."""
        loop, node = self._parts
        loop.wait(node.revoke(name))

    def invite(self, name: str | None = None, *, send: Iterable[str] | None = None) -> "SyncInvitation":
        """Make a one-time code, with which another node can come; see ``Node.invite``."""
        loop, node = self._parts
        return SyncInvitation(loop, loop.wait(node.invite(name, send=send)))

    def enrol(
        self,
        code: str,
        url: str,
        *,
        name: str | None = None,
        send: Iterable[str] | None = None,
        timeout: float | None = None,
    ) -> EnrolledPeer:
        """Come to a node with a code that it has given out; see ``Node.enrol``."""
        loop, node = self._parts
        return loop.wait(node.enrol(code, url, name=name, send=send, timeout=timeout))


class SyncNode(_Face[Node]):
    """One queue manager. Make it with ``triack.sync.open``, use it inside ``with``."""

    def send_nowait(
        self,
        destination: str,
        body: bytes,
        *,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        **properties: Unpack[MessageProperties],
    ) -> SyncReceipt:
        """As ``send``, but raises WouldBlock when the outgoing queue is full; see ``Node.send_nowait``."""
        loop, node = self._parts

        async def send() -> Receipt:
            return node.send_nowait(destination, body, delivery=delivery, **properties)

        return SyncReceipt(loop, loop.wait(send()))

    def events(self) -> Iterator[NodeEvent]:
        """What happens from now on to the links of the node, until it ends; see ``Node.events``."""
        loop, node = self._parts

        async def begin() -> Events:
            return node.events()

        return _iterate(loop, loop.wait(begin()))

    def failed(self) -> TriackError:
        """Wait until the store fails, which ends the node; see ``Node.failed``. Raises NodeClosed when it is closed."""
        loop, node = self._parts
        return loop.wait(node.failed())

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

    def events(self) -> Iterator[NodeEvent]:
        """What happens from now on at the node, until it ends; see ``Node.events``."""
        loop, client = self._parts
        return _iterate(loop, loop.wait(client.events()))

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


def _iterate(loop: LoopThread, events: AsyncIterator[E]) -> Iterator[E]:
    unseen = deque[E | None]()

    async def follow() -> E | None:
        return unseen.popleft() if unseen else await anext(events, None)

    # Who is interrupted takes nothing along: what had come is for the next call.
    return iter(lambda: loop.wait(follow(), unseen.append), None)


class SyncInvitation:
    """A one-time code that the node has given out; see ``OpenInvitation``."""

    def __init__(self, loop: LoopThread, invitation: OpenInvitation | ClientInvitation) -> None:
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
