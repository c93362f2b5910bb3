"""A queue manager for asyncio: the public face of Triack."""

import asyncio
import random
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self, Unpack

from triack.base.commit import StoreContent
from triack.base.delivery import Delivery
from triack.base.errors import NodeClosed, StoreDamaged, TriackError, UsageError, WouldBlock
from triack.base.names import check_name
from triack.base.peers import Directory, Peer
from triack.node import operator_log
from triack.node.consumer import AckMode, Consumer
from triack.node.control.server import ControlServer
from triack.node.driver import Driver
from triack.node.events import Events
from triack.node.life import Life, LifeState
from triack.node.outgoing_message import MessageProperties
from triack.node.platform import PLATFORM, Worker
from triack.node.port import Port
from triack.node.receipt import Receipt
from triack.node.stats import NodeStats
from triack.node.transaction import Transaction
from triack.queues.engine import Engine
from triack.queues.redelivery import Redelivery
from triack.queues.settings import NodeSettings
from triack.store.store import Store
from triack.transport.address import Address, check_loopback
from triack.transport.endpoint import Endpoint
from triack.transport.insecure import InsecureChannels

__all__ = ["Node", "open_node", "port_of"]


def open_node(
    name: str,
    *,
    data: str | Path | None,
    listen: str | None = None,
    log: str | Path | None = None,
    insecure: bool = False,
    queues: Sequence[str] | None = None,
    peers: dict[str, str] | None = None,
    settings: NodeSettings | None = None,
) -> "Node":
    """A node, to be started by ``async with`` or ``await node.start()``.

    Args:
        name: a label for people, 1-124 letters, digits, ``.``, ``_``, ``-`` or ``$``.
        data: its data directory, made when it does not exist; None keeps everything in memory, for tests.
        listen: ``udp://host:port``, ``tcp://host:port`` or ``memory://name``; port 0 takes a free one. None: it only
            connects.
        log: directory for the session log; None records nothing.
        insecure: must be True as long as there is no secure channel; then only loopback addresses are listened on.
        queues: the only queues it has; None makes a queue when the first message for it arrives.
        peers: addresses by name, for destinations like ``plant-b/orders``.
        settings: limits and timeouts.

    Raises:
        AddressError: a name or address that cannot be read.
        NotLoopback: an insecure node was to listen beyond loopback, or to know a peer there.
        UsageError: ``insecure`` is not set.
    """
    return Node(
        check_name(name),
        data=None if data is None else Path(data),
        listen=None if listen is None else Address.parse(listen, listening=True),
        log=None if log is None else Path(log),
        insecure=insecure,
        queues=None if queues is None else [check_name(queue) for queue in queues],
        peers={check_name(peer): str(Address.parse(address)) for peer, address in (peers or {}).items()},
        settings=settings or NodeSettings(),
    )


class Node:
    """One queue manager. Make it with ``triack.open``."""

    def __init__(
        self,
        name: str,
        *,
        data: Path | None,
        listen: Address | None,
        log: Path | None,
        insecure: bool,
        queues: list[str] | None,
        peers: dict[str, str],
        settings: NodeSettings,
    ) -> None:
        if not insecure:
            raise UsageError(
                f"open node {name}: there is no secure channel yet; "
                "say insecure=True (--insecure) to run on loopback without one"
            )
        if listen is not None:
            check_loopback("listen on", listen)
        for peer, address in peers.items():
            check_loopback(f"know {peer} at", Address.parse(address))
        self.name = name
        self.settings = settings
        self._platform = PLATFORM.get()
        self._data = data
        self._listen = listen
        self._log = log
        self._queues = queues
        self._directory = Directory(Peer(peer, addresses=(address,)) for peer, address in peers.items())
        self._life = Life(name)
        self._running: Port | None = None
        self._control: ControlServer | None = None
        self._closing: asyncio.Task[None] | None = None

    # ---- life

    async def start(self) -> Self:
        """Open the store and the endpoint. ``async with`` calls it.

        Returns:
            The node itself.

        Raises:
            UsageError: it was started before.
            StoreInUse: another process has the data directory.
            StoreDamaged, StoreError, StoreFailed: the store cannot be used; the message names path and cause.
            TransportError: the address cannot be listened on.
        """
        self._life.move(LifeState.STARTING)
        try:
            self._running = await self._open()
        except BaseException:
            self._life.move(LifeState.NEW)
            raise
        self._life.move(LifeState.OPEN)
        return self

    async def _open(self) -> Port:
        platform = self._platform
        worker = platform.worker()
        async with AsyncExitStack() as opened:
            store, content = await self._open_store(opened, worker)
            endpoint = await platform.open_endpoint(self._listen.scheme, str(self._listen)) if self._listen else None
            if endpoint is not None:
                opened.push_async_callback(endpoint.close)
            log = platform.open_log(self._log, self.name, content.incarnation)
            if log is not None:
                opened.callback(log.close)
            try:
                engine = self._make_engine(content, endpoint, recording=log is not None)
            except (KeyError, ValueError) as cause:
                raise StoreDamaged(f"open store {store.path}: {type(cause).__name__}: {cause}") from cause
            # The last that waits: who calls finds a node that is open.
            self._control = await self._open_control(endpoint)
            opened.pop_all()
        driver = Driver(self.name, engine, platform, worker, store, log, endpoint)
        driver.on_failure = self._life.fail
        port = Port(
            self.name,
            life=self._life,
            engine=engine,
            driver=driver,
            clock=platform.monotonic_ns,
            directory=self._directory,
            fixed_queues=self._queues is not None,
            state=content.state,
        )
        platform.note_node(self.name, port.stats)
        return port

    async def _open_store(self, opened: AsyncExitStack, worker: Worker) -> tuple[Store, StoreContent]:
        platform, stores = self._platform, list[Store]()

        def open_and_load() -> StoreContent:
            stores.append(platform.open_store(self._data))
            return stores[0].load(platform.entropy(16), int.from_bytes(platform.entropy(8)) >> 1)

        def close() -> None:
            for store in stores:
                store.close()

        # Whoever is cancelled here must still close what the worker opens meanwhile.
        opened.callback(close)
        opened.callback(worker.close)
        content = await worker.start(open_and_load)
        return stores[0], content

    async def _open_control(self, endpoint: Endpoint | None) -> ControlServer | None:
        """Let other processes of this machine use the node, if they can find it: by its data directory."""
        if self._data is None or not self._platform.control_sockets:
            return None
        control = ControlServer(self, self._data, endpoint.address if endpoint is not None else "")
        try:
            await control.start()
        except (OSError, TriackError) as error:
            operator_log.warning(f"other processes cannot use node {self.name}: {error}", node=self.name)
            return None
        return control

    def _make_engine(self, content: StoreContent, endpoint: Endpoint | None, *, recording: bool) -> Engine:
        platform = self._platform
        now_ns = platform.monotonic_ns()
        return Engine(
            content,
            name=self.name,
            address=endpoint.address if endpoint is not None else "",
            settings=self.settings,
            queues=self._queues,
            channels=InsecureChannels(),
            directory=self._directory,
            random=random.Random(platform.entropy(16)),
            now_ns=now_ns,
            wall_offset_ns=platform.wall_ns() - now_ns,
            recording=recording,
        )

    async def close(self) -> None:
        """Make everything accepted durable, let go what is on its way, close.

        As long as messages come nearer to their destinations they are waited for, at most ``close_timeout_s``. What is
        not acknowledged then stays on the disk and goes out when the node is opened again; one line of the log for
        operators says how much it is, and for whom. Every further call waits for the first one; a call that is
        cancelled leaves it to end by itself.
        """
        if self._running is None:
            return
        if self._closing is None:
            if self._life.is_alive:
                self._life.move(LifeState.CLOSING)
            self._closing = asyncio.create_task(self._close(self._running), name="triack-close")
        await asyncio.shield(self._closing)

    async def _close(self, port: Port) -> None:
        if self._control is not None:
            await self._control.close()
        await port.close(self.settings.close_timeout_ns)
        if self._life.is_alive:
            self._life.move(LifeState.CLOSED)
        port.tell_everyone()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def failed(self) -> TriackError:
        """Wait until the store fails, which ends the node; for ever, if it does not.

        Returns:
            The error that everybody else who uses the node gets.
        """
        return await self._life.failed()

    def events(self) -> Events:
        """What happens from now on to the links of this node, until it ends: ``async for event in node.events()``.

        Returns:
            An iterator over ``LinkUp``, ``LinkDown``, ``PeerSilent``, ``PeerHalted`` and ``QueueOverQuota``.

        Raises:
            NodeClosed: the node was not started.
        """
        return self._port.events()

    @property
    def _port(self) -> Port:
        if self._running is None:
            raise NodeClosed(f"node {self.name} is not open: it was not started")
        return self._running

    @property
    def address(self) -> str:
        """Where it listens, with the real port; empty when it does not. Raises NodeClosed before the start."""
        return self._port.address

    @property
    def node_id(self) -> str:
        """32 hex digits that name this queue manager for ever. Raises NodeClosed before the start."""
        return self._port.node_id

    # ---- sending

    async def send(
        self,
        destination: str,
        body: bytes,
        *,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        **properties: Unpack[MessageProperties],
    ) -> Receipt:
        """Accept a message for sending; waits only while the outgoing queue is full.

        The message is safe when ``receipt.queued()`` returns; a crash before that may lose it. For "safe when the call
        returns" use a transaction.

        Args:
            destination: ``udp://host:port/queue``, ``tcp://host:port/queue``, ``peer/queue`` for a known peer, or
                ``queue`` for a queue of this node.
            body: at most 4 MiB.
            delivery: ``EXPRESS``, ``RECOVERABLE`` or ``TRANSACTIONAL``.
            **properties: ``correlation_id``, ``reply_to``, ``label`` (text), ``headers`` (texts by name);
                ``time_to_reach_queue`` and ``time_to_be_received`` (seconds), after which the message goes to a
                dead-letter queue. See ``MessageProperties``.

        Returns:
            A receipt, whose stages can be awaited.

        Raises:
            AddressError: a destination that cannot be read, or an unknown peer.
            NotLoopback: an insecure node was to send beyond loopback.
            MessageTooLarge: the body is over 4 MiB ([MS-MQMQ] 2.2.19.1), or the properties over 12 KiB.
            QueueNotFound: a queue of this node, which has a fixed set of others.
            UsageError: an argument of a wrong type, or a property that does not exist.
            NodeClosed, StoreFailed: the node has ended, or was not started.
        """
        port = self._port
        prepared = port.prepare(destination, body, delivery, properties)
        outgoing = prepared[0]
        if not port.may_go_on(outgoing):
            await port.wait_room(outgoing)
        return Receipt(port, outgoing, port.submit(prepared))

    def send_nowait(
        self,
        destination: str,
        body: bytes,
        *,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        **properties: Unpack[MessageProperties],
    ) -> Receipt:
        """As ``send``, but without waiting.

        Raises:
            WouldBlock: the outgoing queue is full.
            AddressError, MessageTooLarge, QueueNotFound, UsageError, NodeClosed, StoreFailed: as for ``send``.
        """
        port = self._port
        prepared = port.prepare(destination, body, delivery, properties)
        outgoing = prepared[0]
        if not port.has_room(outgoing):
            raise WouldBlock(f"send to {destination}: the outgoing queue is full")
        return Receipt(port, outgoing, port.submit(prepared))

    def transaction(self) -> Transaction:
        """A new transaction; see ``Transaction``. Raises NodeClosed, StoreFailed."""
        port = self._port
        port.check_alive()
        return Transaction(port)

    async def flush(self) -> None:
        """Wait until everything accepted and acknowledged so far is on this node's disk.

        Raises:
            NodeClosed, StoreFailed: the node has ended, or was not started.
        """
        await self._port.commit()

    async def drain(self, timeout: float | None = None) -> None:
        """Wait until everything sent so far, and meanwhile, has come as far as its class says; see ``Receipt``.

        What became a dead letter is not waited for any more.

        Args:
            timeout: seconds to wait, None for no limit.

        Raises:
            WaitTimeout: not yet; the message says how many messages are left, and for whom. All of them go on.
            RollbackDetected: a peer gets nothing more as long as this process runs; the rest has arrived.
            NodeClosed, StoreFailed: the node has ended, or was not started.
        """
        await self._port.drain(timeout)

    def recall(self, key: str) -> bytes | None:
        """What ``Transaction.remember`` keeps under a key; None when that is nothing, or the node was not started."""
        return None if self._running is None else self._running.recall(key)

    # ---- receiving

    def receive(self, queue: str, *, ack: AckMode = "auto", redelivery: Redelivery | None = None) -> Consumer:
        """Read a queue of this node: ``async for message in node.receive("orders")``.

        Args:
            queue: its name; made when it does not exist, unless the node was opened with a fixed set of queues.
            ack: ``auto`` acknowledges a message when the next one is asked for, ``manual`` leaves that to the caller.
            redelivery: when messages that fail with this consumer come again, in place of what the settings say.

        Raises:
            AddressError: no queue can have that name.
            QueueNotFound: the node has a fixed set of queues, and this is none of them.
            UsageError: there is no such ``ack``.
            NodeClosed, StoreFailed: the node has ended, or was not started.
        """
        port = self._port
        return Consumer(port, port.mailbox(queue), ack, redelivery)

    def queue_lengths(self) -> dict[str, int]:
        """How many messages wait in each queue of this node, those in the hands of readers included.

        Raises:
            NodeClosed: the node was not started.
        """
        return self._port.queue_lengths()

    def stats(self) -> NodeStats:
        """Everything that can be counted, at this moment.

        Returns:
            Queues with depth, bytes and age, outgoing queues, links and sessions with window, round trip and resends,
            and what was dropped and closed by reason (the names of docs/reasons.md).

        Raises:
            NodeClosed: the node was not started.
        """
        return self._port.stats()


def port_of(node: Node) -> Port:
    """The port of a running node, for the tools that serve it. Raises NodeClosed before the start."""
    return node._port  # noqa: SLF001 - users see the verbs of ``Node``, tools ask here
