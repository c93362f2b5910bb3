"""A queue manager for asyncio: the public face of Triack."""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from triack.base.commit import StoreContent
from triack.base.delivery import Delivery
from triack.base.errors import (
    AddressError,
    MessageTooLarge,
    NodeClosed,
    NotLoopback,
    QueueNotFound,
    StoreDamaged,
    TriackError,
    UsageError,
    WouldBlock,
)
from triack.base.names import check_name
from triack.node.consumer import AckMode, Consumer
from triack.node.driver import Driver
from triack.node.platform import MACHINE, Worker
from triack.node.receipt import Receipt
from triack.node.transaction import Transaction
from triack.queues.engine import Engine
from triack.queues.mailbox import Lease, Mailbox
from triack.queues.outgoing_queue import OutgoingQueue
from triack.queues.packing import MAX_BODY_BYTES, USER_PROPERTIES_BYTES, Outgoing, write_properties
from triack.queues.settings import NodeSettings
from triack.queues.stages import Stage, Waiter
from triack.store.store import Store
from triack.transport.address import Address, Destination
from triack.transport.endpoint import Endpoint
from triack.transport.insecure import InsecureChannels

__all__ = ["Node", "open_node"]

TURN_MESSAGES = 256
"""A sender that finds room lets others run after so many messages."""
MESSAGE_OVERHEAD_BYTES = 64
DEADLINE_GRAIN_MS = 100
"""Deadlines are rounded up to this, so that messages sent together share packets."""

LONGEST_LIFE_S = 100 * 366 * 86_400

_PROPERTIES = ("correlation_id", "reply_to", "label")


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
        NotLoopback: an insecure node was to listen beyond loopback.
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
        if listen is not None and not listen.is_loopback:
            raise NotLoopback(f"listen on {listen}: an insecure node listens on loopback addresses only")
        self.name = name
        self.settings = settings
        self._machine = MACHINE.get()
        self._data = data
        self._listen = listen
        self._log = log
        self._queues = queues
        self._peers = peers
        self._lanes: dict[tuple[str, Delivery], OutgoingQueue] = {}
        self._turn = 0
        self._started_engine: Engine | None = None
        self._started_driver: Driver | None = None
        self._state: dict[str, bytes] = {}
        self._failed = asyncio.Event()
        self._closing: asyncio.Task[None] | None = None
        self._closed = False

    # ---- life

    async def start(self) -> Self:
        """Open the store and the endpoint. ``async with`` calls it.

        Raises:
            StoreInUse: another process has the data directory.
            StoreDamaged, StoreError, StoreFailed: the store cannot be used; the message names path and cause.
            TransportError: the address cannot be listened on.
        """
        if self._started_driver is not None or self._closed:
            raise UsageError(f"start node {self.name}: it was started before")
        machine = self._machine
        worker = machine.worker()
        async with AsyncExitStack() as opened:
            store, content = await self._open_store(opened, worker)
            endpoint = await machine.open_endpoint(self._listen.scheme, str(self._listen)) if self._listen else None
            if endpoint is not None:
                opened.push_async_callback(endpoint.close)
            log = machine.open_log(self._log, self.name, content.incarnation)
            if log is not None:
                opened.callback(log.close)
            try:
                engine = self._make_engine(content, endpoint, recording=log is not None)
            except (KeyError, ValueError) as cause:
                raise StoreDamaged(f"open store {store.path}: {type(cause).__name__}: {cause}") from cause
            opened.pop_all()
        self._state = content.state
        self._started_engine = engine
        self._started_driver = Driver(engine, machine, worker, store, log, endpoint)
        self._started_driver.on_failure = lambda _error: self._failed.set()
        return self

    async def _open_store(self, opened: AsyncExitStack, worker: Worker) -> tuple[Store, StoreContent]:
        machine, stores = self._machine, list[Store]()

        def open_and_load() -> StoreContent:
            stores.append(machine.open_store(self._data))
            return stores[0].load(machine.entropy(16), int.from_bytes(machine.entropy(8)) >> 1)

        def close() -> None:
            for store in stores:
                store.close()

        # Whoever is cancelled here must still close what the worker opens meanwhile.
        opened.callback(close)
        opened.callback(worker.close)
        content = await worker.start(open_and_load)
        return stores[0], content

    def _make_engine(self, content: StoreContent, endpoint: Endpoint | None, *, recording: bool) -> Engine:
        machine = self._machine
        now_ns = machine.monotonic_ns()
        return Engine(
            content,
            name=self.name,
            address=endpoint.address if endpoint is not None else "",
            settings=self.settings,
            queues=self._queues,
            channels=InsecureChannels(),
            random=random.Random(machine.entropy(16)),
            now_ns=now_ns,
            wall_offset_ns=machine.wall_ns() - now_ns,
            recording=recording,
        )

    async def close(self) -> None:
        """Make everything accepted durable, let sessions finish their acks for a while, close.

        What is not acknowledged yet stays on the disk and goes out when the node is opened again. Every further call
        waits for the first one; a call that is cancelled leaves it to end by itself.
        """
        if self._started_driver is None or self._closed:
            return
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(self._started_driver), name="triack-close")
        await asyncio.shield(self._closing)

    async def _close(self, driver: Driver) -> None:
        await driver.close(self.settings.close_timeout_ns)
        self._closed = True
        # Who asked for a commit after the last one was begun gets this instead.
        self._engine.stop(NodeClosed(f"node {self.name} was closed"), self._machine.monotonic_ns())
        for lane in self._engine.outbox.lanes:
            lane.receipts.fail_all("node closed")
        for mailbox in self._engine.inbox.mailboxes.values():
            mailbox.wake()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def failed(self) -> TriackError:
        """Wait until the store fails, which ends the node. Returns the error."""
        await self._failed.wait()
        error = self._engine.failure
        assert error is not None
        return error

    def check_alive(self) -> None:
        """Raises NodeClosed before the start and after the end, StoreFailed after the store failed."""
        if self._started_engine is not None and self._started_engine.failure is not None:
            raise self._started_engine.failure
        if self._closed or self._started_engine is None:
            raise NodeClosed(f"node {self.name} is not open")

    @property
    def address(self) -> str:
        """Where it listens, with the real port; empty when it does not."""
        return self._engine.address

    @property
    def node_id(self) -> str:
        """32 hex digits that name this queue manager for ever."""
        return self._engine.node_id.hex()

    # ---- sending

    async def send(
        self, destination: str, body: bytes, *, delivery: Delivery = Delivery.TRANSACTIONAL, **properties: Any
    ) -> Receipt:
        """Accept a message for sending; waits only while the outgoing queue is full.

        The message is safe when ``receipt.queued()`` returns; a crash before that may lose it. For "safe when the call
        returns" use a transaction.

        Args:
            destination: ``udp://host:port/queue``, ``tcp://host:port/queue``, ``peer/queue`` for a known peer, or
                ``queue`` for a queue of this node.
            body: at most 4 MiB.
            delivery: ``EXPRESS``, ``RECOVERABLE`` or ``TRANSACTIONAL``.
            **properties: ``correlation_id``, ``reply_to``, ``label`` (strings); ``time_to_reach_queue`` and
                ``time_to_be_received`` (seconds), after which the message goes to a dead-letter queue.

        Returns:
            A receipt, whose stages can be awaited.

        Raises:
            AddressError: a destination that cannot be read, or an unknown peer.
            MessageTooLarge: the body is over 4 MiB, or the properties over 12 KiB.
            NodeClosed, StoreFailed: the node has ended.
        """
        lane, message, size_bytes = self.prepare(destination, body, delivery, properties)
        self._turn += 1
        if self._turn >= TURN_MESSAGES or not self._engine.outbox.room(lane):
            await self.wait_room(lane)
        return self.submit(lane, message, size_bytes)

    def send_nowait(
        self, destination: str, body: bytes, *, delivery: Delivery = Delivery.TRANSACTIONAL, **properties: Any
    ) -> Receipt:
        """As ``send``, but raises WouldBlock instead of waiting."""
        lane, message, size_bytes = self.prepare(destination, body, delivery, properties)
        if not self._engine.outbox.room(lane):
            raise WouldBlock(f"send to {destination}: the outgoing queue is full")
        return self.submit(lane, message, size_bytes)

    def transaction(self) -> Transaction:
        """A new transaction; see ``Transaction``."""
        self.check_alive()
        return Transaction(self)

    async def flush(self) -> None:
        """Wait until everything accepted and acknowledged so far is on this node's disk. Raises StoreFailed."""
        self.check_alive()
        future: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

        def waiter(error: Exception | None) -> None:
            if not future.done():
                future.set_result(error)

        self._engine.await_commit(waiter)
        self.wake()
        error = await future
        if error is not None:
            raise error

    def recall(self, key: str) -> bytes | None:
        """What ``Transaction.remember`` keeps under a key, or None."""
        return self._state.get(key)

    # ---- receiving

    def receive(self, queue: str, *, ack: AckMode = "auto") -> Consumer:
        """Read a queue of this node: ``async for message in node.receive("orders")``.

        Args:
            queue: its name; made when it does not exist, unless the node was opened with a fixed set of queues.
            ack: ``auto`` acknowledges a message when the next one is asked for, ``manual`` leaves that to the caller.

        Raises:
            QueueNotFound: the node has a fixed set of queues, and this is none of them.
        """
        return Consumer(self, self.mailbox(queue), ack)

    def queue_lengths(self) -> dict[str, int]:
        """How many messages wait in each queue of this node."""
        return {name: mailbox.length for name, mailbox in sorted(self._engine.inbox.mailboxes.items())}

    def stats(self) -> dict[str, Any]:
        """Counters for people: drops and closes by reason, outgoing packets by destination, halted peers by node id."""
        engine = self._engine
        drops = Counter({str(reason): count for reason, count in engine.drops.items()})
        if self._started_driver is not None:
            drops.update(self._started_driver.drops)
        waiting = {
            f"{lane.address}/{lane.queue} {lane.delivery.label}": lane.unacknowledged
            for lane in engine.outbox.lanes
            if lane.address
        }
        return {
            "drops": dict(drops),
            "closes": dict(engine.closes),
            "unacknowledged_packets": waiting,
            "rollbacks": engine.rollbacks,
        }

    # ---- for consumers, receipts and transactions

    @property
    def _engine(self) -> Engine:
        if self._started_engine is None:
            raise NodeClosed(f"node {self.name} was not started")
        return self._started_engine

    def wake(self) -> None:
        """Let the driver look at the engine."""
        if self._started_driver is not None:
            self._started_driver.wake()

    def mailbox(self, queue: str) -> Mailbox:
        """The queue of that name. Raises QueueNotFound."""
        self.check_alive()
        if self._queues is not None and queue not in self._engine.inbox.mailboxes:
            known = ", ".join(sorted(self._engine.inbox.mailboxes))
            raise QueueNotFound(f"queue {queue} does not exist on node {self.name}, which has {known}")
        return self._engine.make_queue(check_name(queue))

    def take(self, mailbox: Mailbox) -> Lease | None:
        """The next message of a queue, or None."""
        return self._engine.take(mailbox, self._machine.monotonic_ns())

    def acknowledge(self, mailbox: Mailbox, handed: Lease) -> None:
        """A message is done."""
        mailbox.acknowledge(handed)
        self.wake()

    def give_back(self, mailbox: Mailbox, handed: Lease, *, failed: bool) -> None:
        """A message comes again."""
        self._engine.give_back(mailbox, handed, failed=failed, now_ns=self._machine.monotonic_ns())
        self.wake()

    def await_stage(self, lane: OutgoingQueue, ticket: int, stage: Stage, waiter: Waiter) -> None:
        """Call ``waiter`` when a message reaches a stage."""
        self._engine.await_stage(lane, ticket, stage, waiter)
        self.wake()

    def set_state(self, key: str, value: bytes | None) -> None:
        """Keep a value with the next commit."""
        if value is None:
            self._state.pop(key, None)
        else:
            self._state[key] = value
        self._engine.set_state(key, value)

    def prepare(
        self, destination: str, body: bytes, delivery: Delivery, properties: dict[str, Any]
    ) -> tuple[OutgoingQueue, bytes | Outgoing, int]:
        """Check a message before it is accepted. Returns its lane, the message and its size."""
        self.check_alive()
        lane = self._lanes.get((destination, delivery)) or self._find_lane(destination, delivery)
        if type(body) is not bytes:
            body = _as_bytes(destination, body)
        size_bytes = len(body) + MESSAGE_OVERHEAD_BYTES
        if len(body) > MAX_BODY_BYTES:
            raise MessageTooLarge(
                f"send to {destination}: a body of {len(body)} bytes is over the limit of {MAX_BODY_BYTES}"
            )
        if not properties:
            return lane, body, size_bytes
        now_ms = self._engine.wall_ms(self._machine.monotonic_ns())
        return lane, _with_properties(destination, body, properties, now_ms), size_bytes

    def _find_lane(self, destination: object, delivery: object) -> OutgoingQueue:
        if not isinstance(destination, str) or not isinstance(delivery, Delivery):
            raise UsageError(
                f"send to {destination!r} as {delivery!r}: a destination is text, a class is a triack.Delivery"
            )
        parsed = Destination.parse(destination)
        address = str(parsed.address) if parsed.address is not None else ""
        if parsed.peer is not None:
            if parsed.peer not in self._peers:
                raise AddressError(f"send to {destination}: unknown peer {parsed.peer}")
            address = self._peers[parsed.peer]
        if not address or address == self._engine.address:
            self.mailbox(parsed.queue)
        lane = self._engine.lane_for(address, parsed.queue, delivery)
        self._lanes[(destination, delivery)] = lane
        return lane

    async def wait_room(self, lane: OutgoingQueue) -> None:
        """Let others run, and wait while the outgoing queue is full."""
        self._turn = 0
        await asyncio.sleep(0)
        while not self._engine.outbox.room(lane):
            self.check_alive()
            assert self._started_driver is not None
            await self._started_driver.progress()
            await asyncio.sleep(0)

    def submit(self, lane: OutgoingQueue, message: bytes | Outgoing, size_bytes: int) -> Receipt:
        """Accept a message that ``prepare`` has checked."""
        ticket = self._engine.submit(lane, message, size_bytes)
        self.wake()
        return Receipt(self, lane, ticket)


def _as_bytes(destination: str, body: object) -> bytes:
    if isinstance(body, bytearray | memoryview):
        return bytes(body)
    raise UsageError(f"send to {destination}: a body is bytes, not {type(body).__name__}")


def _with_properties(destination: str, body: bytes, properties: dict[str, Any], now_ms: int) -> Outgoing:
    reach_by_ms = 0
    kept: dict[str, Any] = {}
    for name, value in properties.items():
        if name == "time_to_reach_queue":
            reach_by_ms = _deadline_ms(name, value, now_ms)
        elif name == "time_to_be_received":
            kept["receive_by_ms"] = _deadline_ms(name, value, now_ms)
        elif name not in _PROPERTIES or not isinstance(value, str):
            raise UsageError(f"send to {destination}: {name}={value!r} is no message property")
        else:
            kept[name] = value
    if len(write_properties(kept)) > USER_PROPERTIES_BYTES:
        raise MessageTooLarge(f"send to {destination}: properties over the limit of {USER_PROPERTIES_BYTES} bytes")
    return Outgoing(body, kept or None, reach_by_ms)


def _deadline_ms(name: str, seconds: object, now_ms: int) -> int:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= LONGEST_LIFE_S:
        raise UsageError(f"{name} must be a number of seconds, above 0 and at most {LONGEST_LIFE_S}, not {seconds!r}")
    return -(-int(now_ms + seconds * 1_000) // DEADLINE_GRAIN_MS) * DEADLINE_GRAIN_MS
