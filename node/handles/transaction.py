"""Transactions: receive from queues of this node and send to any queues, all of it or none."""

import asyncio
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from functools import partial
from typing import Any, Self, Unpack

from triack.base.checks import check_most, check_timeout
from triack.base.commit import OWN_STATE
from triack.base.delivery import DURABLE, Delivery
from triack.base.errors import HandOverEnded, NodeClosed, StateChanged, UsageError, WaitTimeout
from triack.base.printable import counted
from triack.base.reasons import DeadReason
from triack.node.handles.choosing import choose, read_part
from triack.node.handles.consumer import BATCH_BYTES, BATCH_MESSAGES, in_time
from triack.node.handles.message import Drawn, Message, Messages, delay_ms_of, messages_of_runs, way_back
from triack.node.handles.receipt import NodeReceipts, Receipt, Waits, accept, check_bounded, check_stage
from triack.node.handles.streaming import BodySource, Upload, open_source, send_all
from triack.node.handles.taken import Bridged, Taken
from triack.node.shell.engine_handle import EngineHandle
from triack.node.shell.event_loop import is_failure, when_dropped
from triack.node.shell.outgoing_message import MessageProperties
from triack.node.shell.prepared import MESSAGE_OVERHEAD_BYTES, Prepared, PreparedList
from triack.queues.mailboxes.lookup import Wanted
from triack.queues.mailboxes.mailbox import Lease, Mailbox, Run
from triack.queues.mailboxes.queued_packet import bits_of
from triack.queues.mailboxes.redelivery import Return
from triack.queues.stages import Stage, StageName, as_stage
from triack.queues.streams.outgoing_stream import OutgoingStream
from triack.stats.holding import Reader

LISTS_BYTES = 4 * 1024 * 1024
"""Bytes in the lists of one transaction: a commit handles all of them in one go, while nothing else runs. By default
an outgoing queue holds as much before a sender waits (``NodeSettings.pending_limit_bytes``)."""


class Transaction:
    """An async context manager: leaving the block commits, an exception rolls back.

    An exception counts as a failure of the messages received; a cancellation does not. A cancelled send or receive has
    done nothing. A wait for a message ends with the transaction. A transaction that is dropped is rolled back, which
    is no failure either.

    When ``commit`` returns, everything it sent is on this node's disk, everything it received is gone from its
    queues, and every ``remember`` holds: one disk transaction. Receiving, sending and remembering in one transaction
    is exactly-once processing across machines. If ``commit`` is cancelled or the process dies inside it, all of it
    happened or nothing.
    """

    def __init__(self, port: EngineHandle, *, reader: Reader | None = None) -> None:
        self._port = port
        # The messages that each step sends.
        self._sends: dict[int, Prepared | PreparedList] = {}
        # Messages taken out of queues beyond those that it sends there.
        self._leaving: Counter[str] = Counter()
        # Those of them that represent large messages.
        self._uploads: dict[int, Upload] = {}
        # What the session log says of it, if a bridge uses it.
        self._bridged: Bridged | None = None
        self._taken = Taken(port, reader)
        self._steps = 0
        self._state: dict[str, bytes | None] = {}
        self._expected: dict[str, bytes | None] = {}
        self._listed_bytes = 0
        self._finalizer: weakref.finalize[..., Any] | None = None
        # Wake the tasks that wait for messages.
        self._waiting: set[asyncio.Event] = set()
        self._ended = False

    def __repr__(self) -> str:
        return f"<Transaction of node {self._port.name}, {'ended' if self._ended else 'open'}>"

    async def send(
        self,
        destination: str,
        body: bytes,
        *,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        timeout: float | None = None,
        **properties: Unpack[MessageProperties],
    ) -> None:
        """Send with the commit; waits only while the outgoing queue is full, at most ``timeout`` seconds.

        All else is as for ``Node.send``, errors too; times to live, in seconds, count from this call.

        Raises:
            UsageError: the class is express: such messages are on no disk, so no transaction can hold them.
            WaitTimeout: there was no room in time; nothing of this call is sent, and the transaction continues.
            NodeClosed: this transaction or the node has ended.
        """
        self._check_open()
        check_durable(destination, delivery)
        check_timeout(f"send to {destination}", timeout)
        prepared = self._port.prepare(destination, body, delivery, properties)
        if not self._has_left_room(prepared[0], 1) and not self._port.may_go_on(prepared[0]):
            await self._port.wait_room(prepared, timeout)
        self._check_open()
        self._sends[self._next_step()] = prepared

    def _has_left_room(self, outgoing: OutgoingStream, messages: int) -> bool:
        """Whether it received as many messages from a queue of this node as it sends there: the commit does both."""
        if outgoing.peer or self._leaving[outgoing.queue] < messages:
            return False
        self._leaving[outgoing.queue] -= messages
        return True

    async def send_many(
        self,
        destination: str,
        bodies: Iterable[bytes],
        *,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        keys: Iterable[str] | None = None,
        each: Iterable[MessageProperties] | None = None,
        timeout: float | None = None,
        **properties: Unpack[MessageProperties],
    ) -> None:
        """Send a list with the commit, in order; waits only while the outgoing queue is full.

        The lists of a transaction may hold 4 MiB together, with 64 bytes counted for each message beside its body; the
        last message may exceed that. All else is as for ``send``, and for ``keys`` and ``each`` as for
        ``Node.send_many``.

        Raises:
            UsageError: as for ``send``, or the lists hold more than a transaction may; nothing of this one is sent.
        """
        self._check_open()
        check_durable(destination, delivery)
        check_timeout(f"send to {destination}", timeout)
        prepared = self._port.prepare_many(destination, bodies, delivery, properties, keys, each)
        sizes = [len(body) for body in prepared.bodies]
        add_listed(destination, self._listed_bytes, sizes)
        if not self._has_left_room(prepared.outgoing, len(sizes)):
            await self._port.wait_room_for(prepared, timeout)
        self._check_open()
        self._listed_bytes = add_listed(destination, self._listed_bytes, sizes)
        self._sends[self._next_step()] = prepared

    async def send_stream(
        self,
        destination: str,
        source: BodySource,
        *,
        content_length: int | None = None,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        **properties: Unpack[MessageProperties],
    ) -> None:
        """Send a message whose body may have any size, see ``Node.send_stream``; its reader gets it with the commit.

        The body leaves immediately, and this waits until all of it is at its destination. A rollback frees it there.
        Arguments and errors are those of ``Node.send_stream`` and of ``send``.
        """
        self._check_open()
        check_durable(destination, delivery)
        port = self._port
        async with await open_source(destination, source, content_length) as opened:
            if opened.size <= port.settings.large.from_bytes:
                body = await opened.read_all(destination)
                await self.send(destination, body, delivery=delivery, **properties)
                return
            upload = Upload.to(port, destination, opened.size, delivery, properties)
            await self.take_upload(upload, await send_all(upload, opened))

    async def take_upload(self, upload: Upload, prepared: Prepared) -> None:
        """Send a large message, all of whose body has left, with the commit; for the parts of the node."""
        if self._ended:
            upload.give_up()
            self._check_open()
        step = self._next_step()
        self._sends[step], self._uploads[step] = prepared, upload

    async def reply(
        self,
        message: Message,
        body: bytes,
        *,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        **properties: Unpack[MessageProperties],
    ) -> None:
        """Answer a message with the commit; see ``Node.reply``, and ``send`` for further errors."""
        destination, answering = way_back(message, properties)
        await self.send(destination, body, delivery=delivery, **answering)

    async def receive(self, queue: str, timeout: float | None = None) -> Message:
        """Take a message with the commit; a rollback puts it back and counts a failure.

        Args:
            queue: its name, as for ``Node.receive``.
            timeout: seconds to wait for a message, None for no limit.

        Returns:
            The message. The transaction acknowledges it or gives it back: its own ``ack`` and ``reject`` refuse to.

        Raises:
            WaitTimeout: none came in time; the transaction continues.
            QueueNotFound: the node has a fixed set of queues without this one.
            NodeClosed, StoreFailed: this transaction or the node has ended.
        """
        return (await self._take(queue, 1, timeout))[0]

    async def receive_many(self, queue: str, most: int = BATCH_MESSAGES, timeout: float | None = None) -> Messages:
        """Take messages with the commit, in order: wait for the first, and take with it those that wait already.

        As ``receive``, for at most ``most`` messages. A list also ends with about a mebibyte of bodies and properties.
        A rollback is a failure of each message.
        """
        check_most(queue, most)
        return await self._take(queue, most, timeout)

    async def receive_by_id(
        self,
        queue: str,
        id: str,  # noqa: A002 - as users name it
        timeout: float | None = 0,
    ) -> Message:
        """Take the message with an id (``Message.id``) with the commit; a rollback puts it back and counts a failure.

        Raises:
            WaitTimeout: it did not wait there in that time; the transaction continues.
            UsageError: that is no id of a message, or the timeout is no number of seconds.
            QueueNotFound, NodeClosed, StoreFailed: as for ``receive``.
        """
        return await self._take_chosen(queue, Wanted.by_id(id), timeout)

    async def receive_by_correlation_id(self, queue: str, correlation_id: str, timeout: float | None = 0) -> Message:
        """Take the first message with a correlation id with the commit; see ``receive_by_id``."""
        return await self._take_chosen(queue, Wanted.by_correlation_id(correlation_id), timeout)

    async def _take_chosen(self, queue: str, wanted: Wanted, timeout: float | None) -> Message:
        self._check_open()
        check_timeout(f"receive from {queue}", timeout)
        mailbox, arrived = self._port.mailbox(queue), asyncio.Event()
        self._waiting.add(arrived)
        try:
            run = await choose(self._port, mailbox, wanted, timeout, self._check_open, arrived)
        finally:
            self._waiting.discard(arrived)
        return self._hold(queue, mailbox, [(run, range(run.first, run.next))])[0]

    async def _take(self, queue: str, most: int, timeout: float | None) -> Messages:
        self._check_open()
        check_timeout(f"receive from {queue}", timeout)
        mailbox, arrived = self._port.mailbox(queue), asyncio.Event()

        async def take() -> list[tuple[Run, range]]:
            while not (drawn := self._port.draw_runs(mailbox, most, BATCH_BYTES)):
                await arrived.wait()
                arrived.clear()
                # Nothing would give back what an ended transaction takes.
                self._check_open()
            return drawn

        mailbox.listeners.append(arrived.set)
        self._waiting.add(arrived)
        try:
            return self._hold(queue, mailbox, await in_time(timeout, mailbox, arrived, take))
        finally:
            self._waiting.discard(arrived)
            mailbox.leave(arrived.set)

    def _hold(self, queue: str, mailbox: Mailbox, drawn: list[tuple[Run, range]]) -> Messages:
        """Make a step of messages that were just drawn."""
        if self._finalizer is None:
            self._finalizer = when_dropped(self, partial(self._taken.give_back, Return(failed=False)))
        taken = [(mailbox, run, indices) for run, indices in drawn]
        self._taken.add(self._next_step(), queue, taken)
        name_of = self._port.name_of
        common = [(Drawn(queue, run, only_the_transaction, name_of), indices) for run, indices in drawn]
        messages = messages_of_runs(common, partial(read_part, self._port))
        self._leaving[queue] += len(messages)
        if self._bridged is not None:
            self._bridged.note_drawn(taken)
        return messages

    def _next_step(self) -> int:
        self._steps += 1
        if self._bridged is not None:
            self._bridged.note_step(self._steps)
        return self._steps

    async def note_bridge(self, bridge: str, where: str) -> None:
        """Have the session log say that what it sends and receives from now on is a bridge's, by its rule ``where``."""
        self._check_open()
        self._bridged = self._taken.bridged = self._bridged or Bridged(self._port, bridge)
        self._bridged.go_by(where)

    async def note_given(self, reason: str, ids: Collection[str] | None) -> None:
        """Have the session log say that the broker of the bridge has acknowledged messages that were received.

        With a ``reason``, by name, it never will. Without ``ids`` these are all others.
        """
        self._check_open()
        if self._bridged is not None:
            self._bridged.note_given(self._taken.all(), reason, ids)

    @property
    def last_step(self) -> int:
        """The last step that sent or received, for ``undo``."""
        return self._steps

    def undo_last(self) -> Callable[[], None]:
        """A call that takes back the last step, at any later time; see ``undo``."""
        return partial(self.undo, self._steps)

    def undo(self, step: int) -> None:
        """Take back a step that its caller has not heard of; does nothing if the transaction has ended."""
        if self._ended:
            return
        prepared = self._sends.pop(step, None)
        if (upload := self._uploads.pop(step, None)) is not None:
            upload.give_up()
        if isinstance(prepared, PreparedList):
            self._listed_bytes -= sum(_counted(map(len, prepared.bodies)))
        self._taken.give_back_step(step)

    def remember(self, key: str, value: bytes | None) -> "Done":
        """Keep a value of the application's own with the commit; None removes it. ``Node.recall`` reads it.

        Returns:
            An object that may be awaited, on the node and over a client; there is nothing to wait for.

        Raises:
            UsageError: the key is not text, is empty, or begins with ``$`` as the node's own do; or the value is
                neither bytes nor None.
            NodeClosed: this transaction has ended.
        """
        self._check_open()
        check_state(key, value)
        self._state[key] = value
        return DONE

    def expect(self, key: str, value: bytes | None) -> "Done":
        """Commit only if this value is still remembered under a key; None: only if none is. ``remember`` may change it.

        So programs that read a value, work, and write it again notice that another one was faster. Result and errors
        are as of ``remember``.
        """
        self._check_open()
        check_state(key, value)
        self._expected[key] = value
        return DONE

    async def commit(self, *, until: Stage | StageName | None = None, timeout: float | None = None) -> list[Receipt]:
        """Make it all durable.

        Args:
            until: a stage that every message sent is to reach before the call returns; None: only the disk.
            timeout: seconds to wait for that, once all is durable; None for no limit.

        Returns:
            A receipt for each message sent, in order.

        Raises:
            NodeClosed: this transaction or the node had ended; nothing of it happened.
            SubscriptionEnded: a subscription that it received from was ended; nothing of it happens.
            HandOverEnded: something that it received was taken back (``Node.release``); nothing of it happens.
            StateChanged: a value is not what ``expect`` said; nothing of it happens, and what it received is
                redelivered, which is no failure.
            StoreFailed: the node has stopped; all of it happened or nothing, as the next start shows.
            UsageError: a message sent has no such stage, or there is a timeout and no stage; nothing of it happened,
                and the transaction continues.
            WaitTimeout, DeliveryFailed, RollbackDetected: from ``until``, see ``Receipt``; all of it has happened.
        """
        self._check_kept()
        check_bounded(until, timeout)
        if until is not None:
            for prepared in self._sends.values():
                outgoing = prepared.outgoing if isinstance(prepared, PreparedList) else prepared[0]
                check_stage(until, outgoing.delivery, timeout)
        port = self._port
        await self._await_windows()
        self._check_kept()
        self._check_expected()
        self._end()
        port.check_alive()
        # No await from here to the commit's queueing: the engine puts all of it into one disk transaction.
        receipts: list[Receipt] = []
        for step, prepared in self._sends.items():
            if self._bridged is not None:
                self._bridged.begin_send(prepared.outgoing if isinstance(prepared, PreparedList) else prepared[0])
            if (upload := self._uploads.pop(step, None)) is not None and not isinstance(prepared, PreparedList):
                receipts.append(upload.submit(prepared))
            elif isinstance(prepared, PreparedList) and prepared.keys is not None:
                receipts += [accept(port, one) for one in prepared.singly()]
            elif isinstance(prepared, PreparedList):
                rows = port.accept_all(prepared)  # into the current stream
                receipts += NodeReceipts(port, prepared.outgoing, rows)
            else:
                receipts.append(accept(port, prepared))
            if self._bridged is not None:
                self._bridged.note_sent(step, len(receipts))
        for mailbox, run, drawn in self._taken.take_all():
            port.take_with_commit(mailbox, [(run.packet, bits_of(drawn))])
        for key, value in self._state.items():
            port.remember(key, value)
        await port.commit(transacted=True)
        if until is not None:
            await all_reached(receipts, until, timeout)
        return receipts

    def _check_kept(self) -> None:
        """Raise, and roll back, if something that it received is no longer its own."""
        lost = self._taken.lost or self._taken.ended
        if lost is not None and not self._ended:
            self.rollback(failed=False)
            raise lost
        self._check_open()

    async def _await_windows(self) -> None:
        """Wait until publish windows accept what it sends; a cancellation rolls back."""
        messages: Counter[OutgoingStream] = Counter()
        for prepared in self._sends.values():
            if isinstance(prepared, PreparedList):
                messages[self._port.current(prepared.outgoing)] += len(prepared.bodies)
            else:
                messages[self._port.current(prepared[0])] += 1
        try:
            await self._port.wait_windows(messages)
        except asyncio.CancelledError:
            self.rollback(failed=False)
            raise

    def _check_expected(self) -> None:
        changed = next((key for key, value in self._expected.items() if self._port.recall(key) != value), None)
        if changed is not None:
            self.rollback(failed=False)
            raise StateChanged(f"commit on node {self._port.name}: the value remembered as {changed!r} has changed")

    def rollback(self, *, failed: bool = True, delay: float | None = None, dead: bool = False) -> "Done":
        """Send nothing, and put back the received messages. A second call does nothing.

        Arguments are as for ``Message.reject``, of each message received. The result may be awaited, as that of
        ``remember``.
        """
        self._roll_back(Return(failed, None if delay is None else delay_ms_of(delay), dead=dead))
        return DONE

    def handle_death(self) -> None:
        """The process that used this transaction died before its end; for the control socket."""
        self._roll_back(Return(failed=True, reason=DeadReason.READER_DIED))

    def _roll_back(self, way: Return) -> None:
        if not self._ended:
            self._end()
            for upload in self._uploads.values():
                upload.give_up()
            self._uploads.clear()
            self._taken.give_back(way)

    def _end(self) -> None:
        self._ended = True
        if self._finalizer is not None:
            self._finalizer.detach()
        for arrived in self._waiting:
            arrived.set()

    def _check_open(self) -> None:
        if self._ended:
            raise NodeClosed("this transaction has ended")
        if self._taken.lost is not None:
            raise HandOverEnded(str(self._taken.lost))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.rollback(failed=is_failure(kind))
        elif not self._ended:
            await self.commit()


class Done:
    """A result that exists already; awaiting it does nothing."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        """Wait for nothing."""
        return
        yield


DONE = Done()
"""Returned by calls that a node does immediately, so that the same code awaits them on a node and over a client."""


async def all_reached(receipts: Sequence[Waits], stage: Stage | StageName, timeout: float | None) -> None:
    """Wait until all messages of a transaction have reached a stage. Raises as the waits of ``Receipt`` do."""
    loop = asyncio.get_running_loop()
    end = None if timeout is None else loop.time() + timeout
    try:
        for receipt in receipts:
            await receipt.reached(stage, None if end is None else max(0.0, end - loop.time()))
    except WaitTimeout as error:
        what = f"{counted(len(receipts), 'message')} of a transaction"
        late = f"{what} not all {as_stage(stage).name.lower()} after {timeout} s"
        raise WaitTimeout(late, cause=error.cause) from None


def only_the_transaction(_lease: Lease, way: Return | None) -> None:
    """Refuse to settle a message of a transaction."""
    what = "acknowledged by its commit" if way is None else "given back by its rollback"
    raise UsageError(f"a message that a transaction received is {what}")


def add_listed(destination: str, listed_bytes: int, sizes: list[int]) -> int:
    """Add a list of messages to the bytes in the lists of a transaction. Returns the new total.

    Raises UsageError: it is more than a transaction may hold.
    """
    counted = _counted(sizes)
    total_bytes = listed_bytes + sum(counted)
    if counted and total_bytes - counted[-1] >= LISTS_BYTES:
        raise UsageError(
            f"send to {destination} in a transaction: its lists would hold {total_bytes} bytes, more than "
            f"{LISTS_BYTES}: send them in several transactions"
        )
    return total_bytes


def _counted(sizes: Iterable[int]) -> list[int]:
    return [size_bytes + MESSAGE_OVERHEAD_BYTES for size_bytes in sizes]


def check_durable(destination: str, delivery: Delivery) -> None:
    """Raise UsageError for a class that no transaction can hold."""
    if delivery not in DURABLE:
        raise UsageError(f"send to {destination} in a transaction: {delivery.label} messages cannot be part of one")


def check_state(key: object, value: object) -> None:
    """Raise UsageError for a key or a value that ``remember`` does not accept."""
    try:
        fits = isinstance(key, str) and bool(key.encode()) and not key.startswith(OWN_STATE)
        fits = fits and (value is None or isinstance(value, bytes))
    except UnicodeEncodeError:
        fits = False
    if not fits:
        raise UsageError(
            f"remember {key!r}: keys are text that does not begin with {OWN_STATE}, and values bytes or None"
        )
