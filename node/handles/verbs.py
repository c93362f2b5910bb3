"""The verbs of a node, as its users call them: each signature and promise is here, or in a base class of this one.

``Node`` inherits them. ``triack.connect`` and ``triack.sync`` derive theirs from them, see ``derived``.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Unpack

from triack.base.checks import check_kind, check_texts, check_timeout
from triack.base.delivery import Delivery
from triack.base.errors import TriackError, UsageError, WaitTimeout, WouldBlock
from triack.base.names import TOPIC_PREFIX, check_topic
from triack.base.printable import counted
from triack.node.handles.acknowledgements import Acknowledging
from triack.node.handles.consumer import AckMode, Consumer
from triack.node.handles.consuming import Handling
from triack.node.handles.message import Message, way_back
from triack.node.handles.queue_admin import QueueAdmin, streams_of
from triack.node.handles.receipt import KeyedReceipts, NodeReceipts, Receipt, Receipts, accept, stage_to_wait_for
from triack.node.handles.requesting import Requesting
from triack.node.handles.routing import Routing
from triack.node.handles.streaming import StreamSending
from triack.node.handles.subscribing import Subscribing
from triack.node.handles.transaction import Transaction
from triack.node.handles.trusting import Trusting
from triack.node.shell.engine_handle import EngineHandle
from triack.node.shell.enrolling import OpenInvitation
from triack.node.shell.holding import reader_of
from triack.node.shell.life import Life
from triack.node.shell.link_events import Events
from triack.node.shell.outgoing_message import MessageProperties
from triack.node.shell.ping_answer import PingAnswer, ask
from triack.node.shell.prepared import PreparedList
from triack.queues.manager.closing import Departure, count_by, left_behind
from triack.queues.node_settings import Redelivery
from triack.queues.routes import Route
from triack.queues.stages import Stage, StageName
from triack.queues.streams.outgoing_stream import Row
from triack.stats.causes import causes
from triack.stats.node_stats import NodeStats
from triack.stats.stream_stats import StreamsStats


@dataclass(frozen=True, slots=True)
class Reloaded:
    """What a file of settings that was read again has changed; keys as the file names them, ``limits.quota.messages``.

    Attributes:
        in_force: the keys whose new values are in force now.
        needs_restart: the keys whose new values are in force after a restart of the node.
    """

    in_force: tuple[str, ...]
    needs_restart: tuple[str, ...]


class CommonVerbs(Handling, Trusting, Routing, QueueAdmin):
    """The verbs that a node and a client of one have with the same signature.

    Those with a row of ``verb_table`` are calls of a client by that row, with nothing else to write. The others are
    written over further verbs, so that they are the same on both.
    """

    transaction: Callable[..., Any]
    send: Callable[..., Awaitable[Receipt]]

    async def send_to(
        self,
        destinations: Iterable[str],
        body: bytes,
        *,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        until: Stage | StageName | None = None,
        timeout: float | None = None,
        **properties: Unpack[MessageProperties],
    ) -> list[Receipt]:
        """Send a message to several destinations: in one transaction, to all of them or to none.

        It is MSMQ's distribution list and multiple-element format name. Each destination gets a separate message; one
        that is listed twice gets two. All else is as for ``send``, but no message may be express.

        Returns:
            Their receipts, in the order of the destinations; all are queued.

        Raises:
            TriackError: as ``send``; nothing was sent, except that ``StoreFailed`` leaves that open until the next
                start.
            WaitTimeout, DeliveryFailed, RollbackDetected: from ``until``, see ``Receipt``; all were accepted.
        """
        named = check_texts("send to several destinations", destinations)
        if not named:
            raise UsageError("send to several destinations: there is none in the list")
        async with self.transaction() as transaction:
            for destination in named:
                await transaction.send(destination, body, delivery=delivery, **properties)
            receipts: list[Receipt] = await transaction.commit(until=until, timeout=timeout)
        return receipts

    async def publish(
        self,
        topic: str,
        body: bytes,
        *,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        until: Stage | StageName | None = None,
        timeout: float | None = None,
        **properties: Unpack[MessageProperties],
    ) -> Receipt:
        """Publish to a topic of this node, such as ``Games.Cricket``: as ``send`` to ``topic:`` and its name.

        Each subscription that matches the topic gets the message; if there is none, it is dropped (``no-subscriber``).
        ``send("hub/topic:Games.Cricket", ...)`` publishes at another node. Arguments and errors are those of ``send``.
        """
        destination = f"{TOPIC_PREFIX}{check_topic(topic)}"
        return await self.send(destination, body, delivery=delivery, until=until, timeout=timeout, **properties)

    async def reply(
        self,
        message: Message,
        body: bytes,
        *,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        **properties: Unpack[MessageProperties],
    ) -> Receipt:
        """Answer a message: send to its ``reply_to``, so that its sender can match the answer. Else as ``send``.

        To answer exactly once, receive and answer in one transaction (``Transaction.reply``). The answer has the
        ``correlation_id`` of the request, or its id when it has none.

        Raises:
            UsageError: the message wants no answer (``reply_to``).
            AddressError: its sender is no peer any more.
        """
        destination, answering = way_back(message, properties)
        return await self.send(destination, body, delivery=delivery, **answering)

    async def ids_of_key(self, key: str) -> list[str]:
        """The ids of the messages that this node has accepted with ``send(..., key=...)``, one for each destination.

        They are those whose keys still count (``KeySettings``).
        """
        port = self._port
        port.check_alive()
        check_kind("ids of a key: the key", key, str)
        return [f"{port.node_id}-{it.ordinal}" for it in port.outbox.keys.with_key(key, port.wall_ms())]

    async def create_queue(self, queue: str) -> bool:
        """Make a queue of this node before the first message for it arrives. Returns False if it existed.

        Raises:
            AddressError: no queue can have that name.
            QueueNotFound: the node has a fixed set of queues without this one.
        """
        port = self._port
        known = port.queue_lengths()
        port.mailbox(queue)
        await port.commit()
        return queue not in known

    async def ping(self, peer: str, *, timeout: float = 5.0) -> PingAnswer:
        """Ask a peer for an answer, and measure it; opens a session if there is none. It changes nothing there.

        A ping is for one session. If messages for the peer go through a relay, the relay is asked, and ``by`` of the
        answer names it.

        Args:
            peer: a known peer by name, ``udp://host:port`` and the like, or a node to which a route leads.
            timeout: seconds to wait for the session and the answer. A lost question is not repeated.

        Raises:
            AddressError: there is no such peer, or no key of it is known.
            NotLoopback: an insecure node would reach beyond loopback.
            UsageError: the peer is this node, or the timeout is not valid.
            WaitTimeout: no answer in that time; the message has the last known cause.
            RollbackDetected: nothing is exchanged with that peer.
        """
        return await ask(self._port, peer, timeout)


class Verbs(StreamSending, Acknowledging, Requesting, Subscribing, CommonVerbs):
    """The public methods of a node.

    Attributes:
        name: the node's name, for people.
    """

    name: str
    _life: Life
    _running: EngineHandle | None
    _read_settings_again: Callable[[], Awaitable[Reloaded]]

    async def failed(self) -> TriackError:
        """Wait until the store fails, which ends the node; without end, if it does not fail.

        Returns:
            The error that all other calls of the node raise then.
        """
        return await self._life.failed()

    def events(self) -> Events:
        """The events of this node from now on, until it ends, as ``LinkUp`` and all others of ``triack.NodeEvent``.

        Use it as ``async for event in node.events()``.
        """
        return self._port.events()

    @property
    def address(self) -> str:
        """Where it listens, with the real port; empty if it does not. Raises NodeClosed before the start."""
        return self._port.engine.resolver.address

    @property
    def node_id(self) -> str:
        """32 hex digits that name this queue manager permanently. Raises NodeClosed before the start."""
        return self._port.node_id

    # ---- peers

    @property
    def key(self) -> str:
        """The public key by which others know this node, as text; it is no secret.

        Raises:
            UsageError: the node runs without keys.
        """
        return self._port.access.keys[0]

    async def invite(self, name: str | None = None, *, send: Iterable[str] | None = None) -> OpenInvitation:
        """Make a one-time code, with which another node can enrol here and be trusted.

        Both nodes learn each other's authentic keys and addresses: an attacker between them would have to know the
        code. Codes are kept in memory: they end with the node.

        Args:
            name: this node's name for the one that comes; None uses that node's own name, unless a peer has it.
            send: patterns of the only queues that it may send to; None for all.

        Returns:
            The code, good for one hour, with a wait for the node that comes.

        Raises:
            AddressError: no peer can have that name.
            UsageError: 16 codes are open; ``send`` is no list; the node does not listen, or it runs without keys.
        """
        port = self._port
        port.check_alive()
        if not port.engine.resolver.address:
            raise UsageError("invite: this node does not listen, so that no peer can come to it")
        return port.enrolling.invite(name, None if send is None else check_texts("invite: send", send))

    # ---- sending

    async def send(
        self,
        destination: str,
        body: bytes,
        *,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        until: Stage | StageName | None = None,
        timeout: float | None = None,
        **properties: Unpack[MessageProperties],
    ) -> Receipt:
        """Accept a message for sending; waits while the outgoing queue is full, and then for the stage ``until``.

        The message is safe when ``receipt.queued()`` returns; a crash before that may lose it. For "safe when the call
        returns" say ``until="queued"``, or use a transaction. For many messages, ``send_many`` costs far less.

        Args:
            destination: ``udp://host:port/queue``, ``tcp://host:port/queue``, ``peer/queue`` for a known peer, or
                ``queue`` for a queue of this node.
            body: at most 4 MiB.
            delivery: ``EXPRESS``, ``RECOVERABLE`` or ``TRANSACTIONAL``.
            until: a stage that the message is to reach before the call returns: ``queued``, ``received``, ``stored`` or
                ``ordered``. None: as ``NodeSettings.blocking`` says, which is not to wait.
            timeout: seconds to wait for that, None for no limit. It does not bound the wait for room.
            **properties: ``correlation_id``, ``reply_to``, ``label`` (text), ``headers`` (texts by name);
                ``time_to_reach_queue`` and ``time_to_be_received`` (seconds), after which the message goes to a
                dead-letter queue; ``dead_letter`` (False, or another queue for that); ``admin_queue`` and ``acks``, for
                administration messages; ``journal``, for a copy in ``$journal`` when it has arrived; ``key`` (text),
                with which it is accepted once; ``priority`` (0 to 7); ``ack_now``. See ``MessageProperties``.

        Returns:
            A receipt, whose stages can be awaited.

        Raises:
            AddressError: the destination cannot be read, or names an unknown peer, or one without a known key.
            NotLoopback: an insecure node would send beyond loopback.
            MessageTooLarge: the body is over 4 MiB ([MS-MQMQ] 2.2.19.1), or the properties over 12 KiB.
            QueueNotFound: the destination is a queue of this node that is not in its fixed set.
            UsageError: an argument of a wrong type, a property that does not exist, a priority for a transactional
                message, or a timeout without a stage.
            QueueFull, NoRoom: a queue of this node refuses more; its disk has less room than the reserve.
            TooManyKeys: the node keeps as many keys as it may.
            WaitTimeout, DeliveryFailed, RollbackDetected: from ``until``, see ``Receipt``; the message was accepted.
        """
        port = self._port
        prepared = port.prepare(destination, body, delivery, properties)
        stage = stage_to_wait_for(port, until, delivery, timeout)
        if not port.may_go_on(prepared[0]):
            await port.wait_room(prepared)
        receipt = accept(port, prepared)
        if stage is not None:
            await receipt.reached(stage, timeout)
        return receipt

    async def send_many(
        self,
        destination: str,
        bodies: Iterable[bytes],
        *,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        keys: Iterable[str] | None = None,
        each: Iterable[MessageProperties] | None = None,
        until: Stage | StageName | None = None,
        timeout: float | None = None,
        **properties: Unpack[MessageProperties],
    ) -> Receipts:
        """Accept messages for sending, in order; waits while the outgoing queue is full.

        It is like ``send`` for one after the other, with less work: messages of other senders may come in between. If
        the process dies, the call is cancelled or an error comes while it waits, the beginning of the list stays
        accepted. A note on the error, but not on a cancellation, has the number. ``Transaction.send_many`` sends all of
        the list or nothing.

        All bodies are checked before the first is accepted. All that is not said here is as for ``send``, errors too.

        Args:
            destination: as for ``send``.
            bodies: at most 4 MiB each.
            delivery: as for ``send``.
            keys: a key for each body, as ``key`` for ``send``: a message that was accepted with its key before is not
                accepted again, and its receipt is that of the first. After an error, send the whole list again.
            each: the properties of each body, which beat those for all: no ``key``, ``priority`` or ``seal``. Bodies
                with the same object cost little more than bodies without any.
            until: the stage that all of them are to reach.
            timeout: seconds to wait for that, once all are accepted.
            **properties: the same for all of them; no ``key``, which names one message.

        Returns:
            Their receipts: each wait is for all of them, and ``receipts[i]`` is the receipt of one.

        Raises:
            TooManyKeys: the node has no room for all of the new keys; none of the list was accepted.
        """
        port = self._port
        prepared = port.prepare_many(destination, bodies, delivery, properties, keys, each)
        stage = stage_to_wait_for(port, until, delivery, timeout)
        accept_all = _accept_rows if prepared.keys is None else _accept_keyed
        accepted: list[int] = []
        prepared.outgoing.senders += 1
        try:
            receipts = await accept_all(port, prepared, accepted)
        except TriackError as error:
            if accepted:
                of = counted(len(prepared.bodies), "message")
                error.add_note(f"{sum(accepted)} of {of} were accepted before")
            raise
        finally:
            prepared.outgoing.senders -= 1
        if stage is not None:
            await receipts.reached(stage, timeout)
        return receipts

    def send_nowait(
        self,
        destination: str,
        body: bytes,
        *,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        **properties: Unpack[MessageProperties],
    ) -> Receipt:
        """As ``send``, but without waiting, whatever ``NodeSettings.blocking`` says.

        Raises:
            WouldBlock: the outgoing queue is full; a ``CanSend`` of ``events`` says when it is no longer.
            TriackError: all others of ``send``.
        """
        port = self._port
        prepared = port.prepare(destination, body, delivery, properties)
        if not port.has_room(prepared):
            port.publish_windows.note_refused(prepared[0])
            raise WouldBlock(f"send to {destination}: the outgoing queue is full")
        return accept(port, prepared)

    def transaction(self) -> Transaction:
        """A new transaction; see ``Transaction``. Raises NodeClosed, StoreFailed."""
        port = self._port
        port.check_alive()
        return Transaction(port)

    async def flush(self) -> None:
        """Wait until everything accepted and acknowledged so far is on this node's disk."""
        await self._port.commit()

    async def drain(self, timeout: float | None = None) -> None:
        """Wait until everything sent so far, or during this call, has come as far as its class says; see ``Receipt``.

        It does not wait for dead letters.

        Args:
            timeout: seconds to wait, None for no limit.

        Raises:
            UsageError: the timeout is no number of seconds.
            WaitTimeout: not yet; the error says how many are left, and for which destinations. All of them continue.
            RollbackDetected: a peer gets nothing more while this process runs; the rest has arrived.
        """
        port = self._port
        port.check_alive()
        check_timeout("drain", timeout)
        departure = Departure(port.engine, port.wake)
        try:
            async with asyncio.timeout(timeout):
                while departure.hasten():
                    await port.next_round()
                    port.check_alive()
        except TimeoutError:
            left = count_by(left_behind(port.engine, stored=True) + left_behind(port.engine, stored=False))
            late = f"still {left} on the way from node {port.name} after {timeout} s"
            raise WaitTimeout(late, cause=causes(port.engine)) from None
        suspended = next((it.stages.suspended for it in port.outbox.streams if it.busy), None)
        if suspended is not None:
            raise suspended.anew()

    def recall(self, key: str) -> bytes | None:
        """The value that ``Transaction.remember`` keeps under a key; None: there is none, or the node is not open."""
        return None if self._running is None else self._running.recall(key)

    # ---- receiving

    def receive(
        self,
        queue: str,
        *,
        ack: AckMode = "auto",
        redelivery: Redelivery | None = None,
        hand_over_timeout: float | None = None,
        name: str | None = None,
    ) -> Consumer:
        """Read a queue of this node: ``async for message in node.receive("orders")``.

        Args:
            queue: its name; made when it does not exist, unless the node was opened with a fixed set of queues.
            ack: ``auto`` acknowledges a message when the next one is asked for, ``manual`` leaves that to the caller.
            redelivery: when messages that fail with this consumer are redelivered; it overrides the settings.
            hand_over_timeout: seconds that this consumer may have a message; then it is taken back, which is a failure,
                and acknowledging it raises HandOverEnded. None: no limit.
            name: the consumer's name in ``stats`` while it has messages; None: that of the task that reads.

        Raises:
            AddressError: no queue can have that name.
            QueueNotFound: the node has a fixed set of queues without this one.
            UsageError: there is no such ``ack``, or the timeout or the name is not valid.
        """
        port = self._port
        return Consumer(port, port.mailbox(queue), ack, redelivery, hand_over_timeout, reader=reader_of(queue, name))

    def queue_lengths(self) -> dict[str, int]:
        """How many messages wait in each queue of this node, those that readers have included."""
        return self._port.queue_lengths()

    # ---- looking and steering

    def streams(self, name: str) -> StreamsStats:
        """The state of single streams at this moment: why they do not move, and when they are sent again.

        Args:
            name: a peer, or a destination ``peer/queue``, or a queue of this node, for all that comes into it.

        Returns:
            The streams to and from that peer or queue, and those that this node passes on.

        Raises:
            QueueNotFound: there is no such peer, queue or stream.
            UsageError: the name is no text.
        """
        return streams_of(self._port, name)

    def routes(self) -> list[Route]:
        """The routes of this node, in the order in which they are tried."""
        return list(self._port.routes.all)

    def stats(self) -> NodeStats:
        """The node's statistics at this moment.

        Returns:
            Queues with depth, bytes and age, outgoing queues, links and sessions with window, round trip and resends,
            and drops and closed sessions by reason (the names of docs/reasons.md).
        """
        return self._port.stats()

    async def reload(self) -> Reloaded:
        """Read the file of settings again, and adopt what can change in a running node.

        These are quotas, the reserve of the disk, the waits of messages that failed, the queues that are passed on,
        addresses of peers, routes and bridges. The result names everything else that has changed in the file: a restart
        puts it in force.

        Returns:
            The keys that have changed.

        Raises:
            ConfigError: the file cannot be used, with every mistake in it; nothing has changed.
            IdentityError, NotLoopback: the addresses of peers cannot be used; nothing has changed.
            UsageError: the node was opened without a file of settings.
        """
        return await self._read_settings_again()


async def _accept_rows(port: EngineHandle, prepared: PreparedList, accepted: list[int]) -> Receipts:
    """Accept a list by the row; ``accepted`` gets the number of messages of each."""
    rows: list[Row] = []
    at = 0
    while at < len(prepared.bodies):
        if not port.may_go_on(prepared.outgoing):
            await port.wait_room_for(prepared)
        new = port.accept_some(prepared, at)
        accepted.append(sum(row.messages for row in new))
        at += accepted[-1]
        rows += new
    return NodeReceipts(port, prepared.outgoing, rows)


async def _accept_keyed(port: EngineHandle, prepared: PreparedList, accepted: list[int]) -> Receipts:
    """The same for a list with keys, of which some messages may have been accepted before."""
    receipts: list[Receipt] = []
    for one in prepared.singly():
        if not port.may_go_on(one[0]):
            await port.wait_room(one)
        receipts.append(accept(port, one))
        accepted.append(1)
    return KeyedReceipts(port, prepared.outgoing, receipts)
