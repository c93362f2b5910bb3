"""Triack without ``async``: for scripts, and for the threads of a program without an event loop.

A node, or a client of one, runs in an event loop in a separate thread; each call runs there, and the caller waits.
The parts are those of ``triack`` itself, with the same names, arguments, promises and errors. Any thread may call.
"""

import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import ExitStack
from typing import Any, Generic, Self, TypeVar

from triack.base.delivery import Delivery
from triack.base.errors import NodeClosed, UsageError
from triack.base.news import NodeEvent
from triack.node.client.client import Client, ClientInvitation, connect_to
from triack.node.handles.acknowledgements import Every
from triack.node.handles.consuming import Handler
from triack.node.handles.derived import Said, as_called, as_on, settled, waited
from triack.node.handles.verbs import Verbs
from triack.node.node import Node, open_node, port_of
from triack.node.shell.enrolling import OpenInvitation
from triack.node.shell.holding import works_for
from triack.node.sync.send_buffer import SendBuffer
from triack.node.sync.sync_handles import (
    SyncConsumer,
    SyncReceipt,
    SyncReceipts,
    SyncSubscriber,
    SyncTransaction,
    in_threads,
    thread_safe,
)
from triack.node.sync.sync_loop import LoopThread, OverLoop
from triack.queues.manager.browse import BrowsedMessage
from triack.queues.streams.ack_events import AckEvent


@as_called(open_node)
def open(*args: Any, **kwargs: Any) -> "SyncNode":
    """A node, begun by ``with``; arguments and errors are those of ``triack.open``."""
    return SyncNode(lambda: open_node(*args, **kwargs))


@as_called(connect_to)
def connect(*args: Any, **kwargs: Any) -> "SyncClient":
    """A client of a node that another process runs, begun by ``with``; arguments are those of ``triack.connect``."""
    return SyncClient(lambda: connect_to(*args, **kwargs))


class SyncInvitation(OverLoop[OpenInvitation | ClientInvitation]):
    """A one-time code that the node has given out; see ``OpenInvitation``."""

    @property
    def code(self) -> str:
        """The code for the other node's operator; pass it on privately."""
        return self._inner.code

    enrolled = waited(OpenInvitation.enrolled)
    withdraw = waited(OpenInvitation.withdraw)


N = TypeVar("N", Node, Client)
H = TypeVar("H", bound=Handler)
R = TypeVar("R")
E = TypeVar("E", AckEvent, NodeEvent, BrowsedMessage)


class _Face(Generic[N]):
    """The common part of a node and a client of one."""

    def __init__(self, make: Callable[[], N]) -> None:
        self._make: Callable[[], N] = make
        self._made: tuple[LoopThread, N] | None = None
        self._threads = ExitStack()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {'not open' if self._made is None else repr(self._made[1])}>"

    @property
    def _parts(self) -> tuple[LoopThread, N]:
        if self._made is None:
            raise NodeClosed("the node is not open: use it inside `with`, or between start() and close()")
        return self._made

    def start(self) -> Self:
        """Begin it, as ``with`` does, for a caller that closes it elsewhere; see ``Node.start``.

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

    def __exit__(self, kind: type[BaseException] | None, *how: object) -> None:
        self._end(lambda node: node.__aexit__(kind, *how))

    def close(self) -> None:
        """End it; see ``Node.close``. A second call does nothing, nor does one before the start.

        After a call in a handler, its threads end with a call outside of handlers, or the end of ``with``.
        """
        self._end(lambda node: node.close())

    def _end(self, end: Callable[[N], Coroutine[Any, Any, None]]) -> None:
        if self._made is None:
            return
        loop, node = self._made
        if works_for(node):
            loop.wait(node.close())
            return
        try:
            loop.wait(end(node))
        except NodeClosed:
            return
        finally:
            loop.end()
            self._threads.close()

    def _perform(
        self, begin: Callable[[N], Coroutine[Any, Any, Any]], wrap: Callable[[LoopThread, Any], Any] | None
    ) -> Any:
        loop, node = self._parts
        given = loop.wait(begin(node))
        return given if wrap is None else wrap(loop, given)

    def _given(self, wrap: Callable[[LoopThread, Any], R], verb: str, /, *args: Any, **kwargs: Any) -> R:
        """What a verb gives out, for callers that wait."""
        loop, node = self._parts
        return wrap(loop, loop.wait(settled(node, verb, args, kwargs)))

    @property
    def name(self) -> str:
        """The node's name."""
        return self._parts[1].name

    @property
    def address(self) -> str:
        """Where the node listens, with the real port; empty if it does not."""
        return self._parts[1].address

    @property
    def node_id(self) -> str:
        """32 hex digits that name the node permanently."""
        return self._parts[1].node_id

    @property
    def key(self) -> str:
        """The public key by which others know the node; see ``Node.key``."""
        return str(self._perform(lambda node: settled(node, "key", (), {}), None))

    send = waited(Verbs.send, SyncReceipt)
    send_many = waited(Verbs.send_many, SyncReceipts)
    send_stream = waited(Verbs.send_stream, SyncReceipt)
    send_to = waited(Verbs.send_to, lambda loop, receipts: [SyncReceipt(loop, receipt) for receipt in receipts])
    request = waited(Verbs.request, thread_safe)
    reply = waited(Verbs.reply, SyncReceipt)
    flush = waited(Verbs.flush)
    drain = waited(Verbs.drain)
    requeue = waited(Verbs.requeue)
    move = waited(Verbs.move)
    purge = waited(Verbs.purge)
    routes = waited(Verbs.routes)
    set_routes = waited(Verbs.set_routes)
    explain_route = waited(Verbs.explain_route)
    purge_transit = waited(Verbs.purge_transit)
    ids_of_key = waited(Verbs.ids_of_key)
    release = waited(Verbs.release)
    peek = waited(Verbs.peek)
    pause = waited(Verbs.pause)
    set_quota = waited(Verbs.set_quota)
    resume = waited(Verbs.resume)
    transaction = waited(Verbs.transaction, SyncTransaction)
    trust = waited(Verbs.trust)
    revoke = waited(Verbs.revoke)
    reload = waited(Verbs.reload)
    invite = waited(Verbs.invite, SyncInvitation)
    enrol = waited(Verbs.enrol)
    create_queue = waited(Verbs.create_queue)
    ping = waited(Verbs.ping)
    stats = waited(Verbs.stats)
    streams = waited(Verbs.streams)
    queue_lengths = waited(Verbs.queue_lengths)
    recall = waited(Verbs.recall)

    @as_on(Verbs.consume)
    def consume(self, said: Said) -> None:
        """Call the handler in threads, and wait."""
        loop, node = self._parts
        with in_threads(loop, said["handler"], said["options"]) as handler:
            loop.wait(settled(node, "consume", (said["queue"], handler), said["options"]))

    @as_on(Verbs.handler)
    def handler(self, said: Said) -> Callable[[H], H]:
        """Call the handler in separate threads."""

        def declare(handler: H) -> H:
            loop, node = self._parts
            threads = self._threads.enter_context(in_threads(loop, handler, said["options"]))

            async def begin() -> None:
                node.handler(said["queue"], **said["options"])(threads)

            loop.wait(begin())
            return handler

        return declare

    @as_on(Verbs.receive)
    def receive(self, said: Said) -> SyncConsumer:
        """A reader for callers that wait."""
        return self._given(SyncConsumer, "receive", **_named(said))

    @as_on(Verbs.subscribe)
    def subscribe(self, said: Said) -> SyncSubscriber:
        """It has begun when this returns."""
        return self._given(SyncSubscriber, "subscribe", **_named(said))

    unsubscribe = waited(Verbs.unsubscribe)
    publish = waited(Verbs.publish, SyncReceipt)

    def browse(self, queue: str, after: int = 0) -> Iterator[BrowsedMessage]:
        """Look at the messages that wait in a queue, and change nothing: ``for message in node.browse("orders")``.

        See ``Node.browse``.
        """
        return self._given(_iterate, "browse", queue, after)

    def events(self) -> Iterator[NodeEvent]:
        """The events of the node from now on, until it ends; see ``Node.events``."""
        return self._given(_iterate, "events")

    def acknowledgements(
        self,
        destination: str,
        *,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        every: Every = None,
        priority: int | None = None,
    ) -> Iterator[AckEvent]:
        """Outcomes of the messages to a queue, until the node ends; see ``Node.acknowledgements``."""
        wanted = {"delivery": delivery, "every": every, "priority": priority}
        return self._given(_iterate, "acknowledgements", destination, **wanted)


class SyncNode(_Face[Node]):
    """One queue manager. Make it with ``triack.sync.open``, use it inside ``with``."""

    _buffer: SendBuffer | None = None

    def start(self) -> Self:
        """See ``_Face.start``."""
        super().start()
        loop, node = self._parts
        self._buffer = SendBuffer(loop, port_of(node))
        return self

    @as_on(Verbs.send)
    def send(self, said: Said) -> SyncReceipt:
        """Without a turn of the event loop if possible."""
        loop, _ = self._parts
        destination, body, properties = said["destination"], said["body"], said["properties"]
        if self._buffer is not None and said["until"] is None and said["timeout"] is None:
            receipt = self._buffer.put(destination, body, said["delivery"], properties)
            if receipt is not None:
                return SyncReceipt(loop, receipt)
        wanted = {name: said[name] for name in ("delivery", "until", "timeout")}
        return self._given(SyncReceipt, "send", destination, body, **wanted, **properties)

    send_nowait = waited(Verbs.send_nowait, SyncReceipt)
    failed = waited(Verbs.failed)


class SyncClient(_Face[Client]):
    """A node in another process. Make it with ``triack.sync.connect``, use it inside ``with``."""


def _named(said: Said) -> Said:
    """The arguments of a reader: without a name, it gets this thread's."""
    return {**said, "name": threading.current_thread().name if said["name"] is None else said["name"]}


def _iterate(loop: LoopThread, events: AsyncIterator[E]) -> Iterator[E]:
    unseen = deque[E | None]()

    async def follow() -> E | None:
        return unseen.popleft() if unseen else await anext(events, None)

    # An interrupted call takes nothing along: an event that had come is for the next call.
    return iter(lambda: loop.wait(follow(), unseen.append), None)
