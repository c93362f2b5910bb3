"""The verbs of a node, as its users call them: each signature and promise is here, or in a base class of this one.

``Node`` inherits them. ``triack.connect`` and ``triack.sync`` derive theirs from them, see ``derived``.
"""

from abc import abstractmethod
from collections.abc import AsyncIterator, Collection, Iterable
from typing import Unpack

from triack.base.delivery import Delivery
from triack.base.errors import TriackError, WouldBlock
from triack.node.handles.acknowledgements import Acknowledging
from triack.node.handles.consumer import AckMode, Consumer
from triack.node.handles.handling import Handling
from triack.node.handles.queue_admin import QueueAdmin, as_ids
from triack.node.handles.receipt import Receipt, accept, stage_to_wait_for
from triack.node.handles.reloading import Reloading
from triack.node.handles.requesting import Requesting
from triack.node.handles.routing import Routing
from triack.node.handles.send_many import Sending, send_to_each
from triack.node.handles.streaming import StreamSending
from triack.node.handles.subscribing import Subscribing
from triack.node.handles.transaction import Transaction
from triack.node.handles.trusting import Trusting
from triack.node.shell.engine_handle import EngineHandle
from triack.node.shell.holding import reader_of
from triack.node.shell.life import Life
from triack.node.shell.link_events import Events
from triack.node.shell.outgoing_message import MessageProperties
from triack.node.shell.ping_answer import PingAnswer
from triack.node.shell.stats import NodeStats
from triack.node.shell.stream_stats import StreamsStats
from triack.queues.manager.browse import BrowsedMessage
from triack.queues.node_settings import Redelivery, WhenFull
from triack.queues.stages import Stage, StageName

__all__ = ["Verbs"]


class Verbs(Sending, StreamSending, Acknowledging, Trusting, Requesting, Reloading, Routing, Subscribing, Handling):
    """The public methods of a node.

    Attributes:
        name: the node's name, for people.
    """

    name: str
    _life: Life
    _running: EngineHandle | None

    @property
    @abstractmethod
    def _steering(self) -> QueueAdmin:
        """Browses and changes its queues. Raises NodeClosed before the start."""

    async def failed(self) -> TriackError:
        """Wait until the store fails, which ends the node; without end, if it does not fail.

        Returns:
            The error that all other calls of the node raise then.
        """
        return await self._life.failed()

    def events(self) -> Events:
        """The events of this node from now on, until it ends: ``async for event in node.events()``.

        Returns:
            An iterator over ``LinkUp``, ``LinkDown``, ``LinkDowngraded``, ``LinkUpgraded``, ``WayChanged``,
            ``PeerSilent``, ``PeerUnknown``, ``PeerHalted``, ``GapFound``, ``CallRefused``, ``CanSend``, ``NoRoute``,
            ``QueueOverQuota``, ``DeadLettersWaiting``, ``StoreLow``, ``StreamHeld``, ``StreamsNearLimit``,
            ``TransitOverQuota``, ``MessagesDiscarded``, ``AckWaitOver`` and ``SubscriptionLost``.

        Raises:
            NodeClosed: the node was not started.
        """
        return self._port.events()

    @property
    def address(self) -> str:
        """Where it listens, with the real port; empty when it does not. Raises NodeClosed before the start."""
        return self._port.address

    @property
    def node_id(self) -> str:
        """32 hex digits that name this queue manager permanently. Raises NodeClosed before the start."""
        return self._port.node_id

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
        returns" say ``until="queued"``, or use a transaction. For many messages at once, ``send_many`` costs far less.

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
            NodeClosed, StoreFailed: the node has ended, or was not started.
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
            AddressError, MessageTooLarge, QueueNotFound, UsageError, QueueFull, NoRoom, TooManyKeys, NodeClosed,
                StoreFailed: as for ``send``.
        """
        port = self._port
        prepared = port.prepare(destination, body, delivery, properties)
        if not port.has_room(prepared):
            port.note_refused(prepared[0])
            raise WouldBlock(f"send to {destination}: the outgoing queue is full")
        return accept(port, prepared)

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

        It is MSMQ's distribution list and multiple-element format name. Each destination gets a message of its own.

        Args:
            destinations: each as for ``send``; one that is there twice gets two messages.
            body: as for ``send``.
            delivery: ``RECOVERABLE`` or ``TRANSACTIONAL``.
            until: as for ``send``: the stage that all of them are to reach.
            timeout: seconds to wait for that, None for no limit.
            **properties: as for ``send``.

        Returns:
            Their receipts, in the order of the destinations; all are queued.

        Raises:
            AddressError, NotLoopback, MessageTooLarge, QueueNotFound, UsageError, QueueFull, NoRoom, TooManyKeys,
                NodeClosed, StoreFailed: as for ``send``; nothing was sent, except that ``StoreFailed`` leaves that
                open until the next start.
            WaitTimeout, DeliveryFailed, RollbackDetected: from ``until``, see ``Receipt``; all were accepted.
        """
        return await send_to_each(self.transaction(), destinations, body, delivery, until, timeout, properties)

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

        It does not wait for dead letters.

        Args:
            timeout: seconds to wait, None for no limit.

        Raises:
            UsageError: the timeout is no number of seconds.
            WaitTimeout: not yet; the error says how many are left, and for which destinations. All of them go on.
            RollbackDetected: a peer gets nothing more as long as this process runs; the rest has arrived.
            NodeClosed, StoreFailed: the node has ended, or was not started.
        """
        await self._port.drain(timeout)

    def recall(self, key: str) -> bytes | None:
        """The value that ``Transaction.remember`` keeps under a key; None for none, or before the node's start."""
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
            redelivery: when messages that fail with this consumer come again; it overrides the settings.
            hand_over_timeout: seconds that a message may be in this consumer's hands; then it is taken back, which is a
                failure, and acknowledging it raises HandOverEnded. None: no limit.
            name: the consumer's name in ``stats`` while it has messages in hand; None: that of the task that reads.

        Raises:
            AddressError: no queue can have that name.
            QueueNotFound: the node has a fixed set of queues without this one.
            UsageError: there is no such ``ack``, or the timeout or the name is not valid.
            NodeClosed, StoreFailed: the node has ended, or was not started.
        """
        port = self._port
        return Consumer(port, port.mailbox(queue), ack, redelivery, hand_over_timeout, reader=reader_of(queue, name))

    def queue_lengths(self) -> dict[str, int]:
        """How many messages wait in each queue of this node, those in the hands of readers included.

        Raises:
            NodeClosed: the node was not started.
        """
        return self._port.queue_lengths()

    # ---- looking and steering

    async def peek(self, queue: str, timeout: float | None = None) -> BrowsedMessage:
        """Look at the first message that waits in a queue of this node, and wait for one if there is none.

        It changes nothing: the message stays, and any reader may take it meanwhile.

        Args:
            queue: its name, as for ``receive``.
            timeout: seconds to wait for a message, None for no limit.

        Raises:
            WaitTimeout: none came in time.
            AddressError: no queue can have that name.
            QueueNotFound: the node has a fixed set of queues without this one.
            UsageError: the timeout is no number of seconds.
            NodeClosed, StoreFailed: the node has ended, or was not started.
        """
        return await self._steering.peek(queue, timeout)

    async def ids_of_key(self, key: str) -> list[str]:
        """The ids of the messages that this node has accepted with a key, one for each destination.

        Args:
            key: as in ``send(..., key=...)``.

        Returns:
            Those whose keys still count (``KeySettings``).

        Raises:
            NodeClosed: the node has ended, or was not started.
        """
        return self._port.ids_of_key(key)

    def browse(self, queue: str, after: int = 0) -> AsyncIterator[BrowsedMessage]:
        """Look at the messages that wait in a queue, in order: ``async for message in node.browse("orders")``.

        It changes nothing. It does not show messages that readers have in hand.

        Args:
            queue: a queue of this node, or a destination from ``stats().outgoing`` or ``stats().transit``, for messages
                on their way there.
            after: only messages that came into a queue of this node after the one with this place (``Message.place``,
                ``BrowsedMessage.place``).

        Raises:
            QueueNotFound: there is no such queue.
            UsageError: ``after`` is no place, or the queue is none of this node.
            NodeClosed, StoreFailed: the node has ended, or was not started.
        """
        return self._steering.browse(queue, after)

    async def requeue(
        self,
        ids: Collection[str] | None = None,
        *,
        queue: str = "dead-letter",
        reason: str | None = None,
        older_than: float | None = None,
        maybe_delivered: bool = False,
    ) -> int:
        """Send dead letters again: to their destinations, or to the queues of this node in which they failed.

        Each becomes a new message with the priority and the properties that its first sender set, without times to
        live, and without a request for administration messages: transactional if the priority is 0, recoverable
        otherwise.

        Args:
            ids: which of the messages that wait there; None for all that have a destination. A message that was sent
                to that queue itself has none, and stays.
            queue: the queue of the dead letters: ``dead-letter``, or one that their sender has chosen
                (``dead_letter``).
            reason: only those that died for this reason, by its name in docs/reasons.md.
            older_than: only those that died that many seconds ago, or earlier.
            maybe_delivered: also those that may have arrived, as their acknowledgement was missing
                (``dead_maybe_delivered``). They arrive twice then, if they have.

        Returns:
            The number of messages sent again.

        Raises:
            QueueNotFound: there is no such queue.
            UsageError: a message in ``ids`` has no destination, or may have arrived, or ``older_than`` is no number of
                seconds.
            NodeClosed, StoreFailed: the node has ended, or was not started.
        """
        return await self._steering.requeue(
            as_ids(ids), queue=queue, reason=reason, older_than=older_than, maybe_delivered=maybe_delivered
        )

    async def move(self, queue: str, destination: str, ids: Collection[str] | None = None) -> int:
        """Move messages that wait in a queue of this node elsewhere, with their priorities and all their properties.

        They go transactional if their priority is 0, recoverable otherwise.

        Args:
            queue: a queue of this node.
            destination: as for ``send``.
            ids: which of the messages that wait; None for all of them.

        Returns:
            The number of messages moved.

        Raises:
            QueueNotFound: there is no such queue.
            AddressError, NotLoopback: the node cannot send to the destination.
            NodeClosed, StoreFailed: the node has ended, or was not started.
        """
        return await self._steering.move(queue, destination, as_ids(ids))

    async def purge(self, queue: str, ids: Collection[str] | None = None) -> int:
        """Remove messages that wait in a queue. Only those on their way elsewhere become dead letters (``purged``).

        Of ``$large.QUEUE`` it frees the large bodies whose messages have not come; a sender that goes on gets
        ``body-gone``.

        Args:
            queue: as for ``browse``.
            ids: which of the messages that wait in a queue of this node; None for all of them.

        Returns:
            The number of messages removed.

        Raises:
            QueueNotFound: there is no such queue.
            UsageError: ids were given for messages that are on their way.
            NodeClosed, StoreFailed: the node has ended, or was not started.
        """
        return await self._steering.purge(queue, as_ids(ids))

    async def release(self, queue: str) -> int:
        """Take back the messages of a queue that its readers have in hand, such as a reader that hangs.

        They come again, marked ``redelivered``; this is no failure. A reader that acknowledges one of them later gets
        HandOverEnded, and a transaction that received one can only be rolled back.

        Args:
            queue: a queue of this node.

        Returns:
            The number of messages taken back.

        Raises:
            QueueNotFound: there is no such queue.
            NodeClosed, StoreFailed: the node has ended, or was not started.
        """
        return await self._steering.release(queue)

    async def pause(self, queue: str, *, arrivals: bool = False) -> None:
        """Pause a queue until ``resume``, restarts included; what it accepts waits in it.

        Nothing new leaves a paused outgoing queue: what was sent and is not acknowledged stays so, and is not sent
        again. Readers of a paused queue of this node wait; messages that they have in hand stay there. Times to live go
        on. ``close`` and ``drain`` do not wait for what a paused queue holds.

        Args:
            queue: a queue of this node, which is made if there is none; ``peer/queue``; or the name of a peer or of a
                route, with or without a ``/`` behind it, for all messages to that node. A queue of this node goes
                before a peer of the same name. What the pattern of a route leads to has the ``/``.
            arrivals: let nothing come into the queue of this node, either: senders wait, as for a full queue.

        Raises:
            QueueNotFound: the node has a fixed set of queues without this one.
            AddressError: the destination cannot be read, or names an unknown peer.
            UsageError: a queue that the node itself needs, or arrivals of an outgoing queue.
            NodeClosed, StoreFailed: the node has ended, or was not started.
        """
        await self._steering.pause(queue, arrivals=arrivals)

    async def resume(self, queue: str) -> bool:
        """End a pause.

        Args:
            queue: as for ``pause``.

        Returns:
            Whether that queue, or that peer, was paused.

        Raises:
            QueueNotFound: there is neither a queue nor a peer of that name, and none is paused.
            AddressError, UsageError: as for ``pause``.
            NodeClosed, StoreFailed: the node has ended, or was not started.
        """
        return await self._steering.resume(queue)

    async def set_quota(
        self,
        queue: str,
        *,
        messages: int | None = None,
        size_bytes: int | None = None,
        when_full: WhenFull | None = None,
    ) -> None:
        """Set the quota of a queue of this node. It goes before that of the settings, restarts included.

        What is in the queue stays there, even if it is more.

        Args:
            queue: its name; it is made if there is none.
            messages: the most unacknowledged messages; None: as it is.
            size_bytes: the most bytes of the packets that hold them; None: as it is.
            when_full: ``hold`` lets senders wait, ``reject`` rejects their messages; None: as it is. With none of the
                three, the queue has the quota of the settings again.

        Raises:
            QueueNotFound: the node has a fixed set of queues without this one; or there is none that could have the
                quota of the settings again.
            AddressError: no queue can have that name.
            UsageError: the node itself works with the queue, or a limit is not valid.
            NodeClosed, StoreFailed: the node has ended, or was not started.
        """
        await self._steering.set_quota(queue, messages, size_bytes, when_full)

    async def create_queue(self, queue: str) -> bool:
        """Make a queue of this node before the first message for it arrives.

        Args:
            queue: its name.

        Returns:
            Whether it was made: False if it existed.

        Raises:
            AddressError: no queue can have that name.
            QueueNotFound: the node has a fixed set of queues without this one.
            NodeClosed, StoreFailed: the node has ended, or was not started.
        """
        port = self._port
        known = port.queue_lengths()
        port.mailbox(queue)
        await port.commit()
        return queue not in known

    async def ping(self, peer: str, *, timeout: float = 5.0) -> PingAnswer:
        """Ask a peer for an answer, and measure it; opens a session if there is none. It changes nothing there.

        A ping is for one session. If messages for the peer go by a relay, the relay is asked, and ``by`` of the answer
        names it.

        Args:
            peer: a known peer by name, ``udp://host:port`` and the like, or a node to which a route leads.
            timeout: seconds to wait for the session and the answer. A lost question is not repeated.

        Raises:
            AddressError: there is no such peer, or no key of it is known.
            NotLoopback: an insecure node would reach beyond loopback.
            UsageError: the peer is this node, or the timeout is not valid.
            WaitTimeout: no answer in that time; the message has the last known cause.
            RollbackDetected: nothing is exchanged with that peer.
            NodeClosed, StoreFailed: the node has ended, or was not started.
        """
        return await self._port.ping(peer, timeout)

    def stats(self) -> NodeStats:
        """The node's statistics at this moment.

        Returns:
            Queues with depth, bytes and age, outgoing queues, links and sessions with window, round trip and resends,
            and drops and closed sessions by reason (the names of docs/reasons.md).

        Raises:
            NodeClosed: the node was not started.
        """
        return self._port.stats()

    def streams(self, name: str) -> StreamsStats:
        """The state of single streams at this moment: why they do not move, and when they are sent again.

        Args:
            name: a peer, or a destination ``peer/queue``, or a queue of this node, for all that comes into it.

        Returns:
            The streams to and from that peer or queue, and those that this node passes on.

        Raises:
            QueueNotFound: there is no such peer, queue or stream.
            UsageError: the name is no text.
            NodeClosed: the node was not started.
        """
        return self._steering.streams(name)
