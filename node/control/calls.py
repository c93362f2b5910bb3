"""Calls of another process, answered by the node: ``triack.connect`` is at the other end.

    hello(v) -> welcome(v, name, node_id, address, passing) | error(message, usage)
    call(n, do, ...) -> part(n)..., done(n, ...) | failed(n, error, message)
    cancel(n): the caller no longer waits; what the call put into a transaction, or its answer gives out, is taken back
    ack(message), ack(message, count), reject(message, failed), unwatch(watch, forget): no answer
    waits(reader, why): what messages wait for that its handler has failed with; no answer
    leave(reader), leave(transaction): its last reference is gone; no answer
    failed(n, error, message, ended): with ``ended`` the node works no more, although its process may
    taken_back(messages, why): the caller's leases on these messages ended; late(why): an ack came too late, and
    without ``told``, which says that the application knows
    bye: the caller ends in good order; a caller that ends without it has died with its leases

``verb_table`` has the arguments of a call after ``do``. ``passing`` is true for a command that has its directory only
until its work is done; see ``handover``.

Calls run immediately and are answered as they end; an answer that does not fit into one frame is preceded by parts. No
two running calls have the same number. The node sends no more answers to a caller that does not read them: it makes an
answer when there is room for it, one at a time, and does not read from that caller either. If too many answers of calls
that had to wait are unsent, the connection ends. The objects that a caller holds (receipts, readers, messages,
transactions, events of the node and of acknowledgements) have numbers here, and limits. When the connection ends,
readers and events close and transactions roll back, so that nothing stays held. Invitations stay open: the other node
may come with the code after the caller has ended.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence, Sized
from contextlib import asynccontextmanager, suppress
from typing import Any

from triack.base.delivery import Delivery
from triack.base.errors import LargeBody, NodeClosed, ProtocolError, TriackError, UsageError, WaitTimeout
from triack.base.printable import printable
from triack.base.reasons import DropReason
from triack.node.control.client_messages import content_of, contents_of, describe
from triack.node.control.codec import RECEIPT, WATCH, describe_events, describe_news
from triack.node.control.control_frames import CALLS_MAX, VERSION, Answer, Header, Link, number_of, words_of
from triack.node.control.intake import Producer
from triack.node.control.verb_table import On, Verb, check_call
from triack.node.files import operator_log
from triack.node.handles.acknowledgements import Acknowledgements
from triack.node.handles.choosing import part_of
from triack.node.handles.consumer import BATCH_MESSAGES, Consumer
from triack.node.handles.derived import settled
from triack.node.handles.message import Message
from triack.node.handles.queue_admin import page_of
from triack.node.handles.receipt import KeyedReceipts, Receipt, Receipts, find_kept
from triack.node.handles.streaming import Upload
from triack.node.handles.subscribing import Subscriber, begin_subscription
from triack.node.handles.transaction import Transaction
from triack.node.handles.verbs import Verbs
from triack.node.shell.enrolling import OpenInvitation
from triack.node.shell.link_events import Events
from triack.queues.mailboxes.mailbox import Lease
from triack.queues.node_settings import Redelivery
from triack.queues.stages import Stage
from triack.stats.holding import Reader

RECEIPTS_MAX = 65_536
"""Receipts that one connection may still wait for: a few megabytes; beyond that the oldest are forgotten."""
STEPS_MAX = 131_072
"""Sends and receives of one transaction. If each send has another destination, the answer to the commit has some 45
bytes for each, so that all of them still fit into a frame."""
READERS_MAX = 4_096
"""Of one connection: some kilobytes each."""
TRANSACTIONS_MAX = 4_096
"""Open ones of one connection; also some kilobytes each."""
WATCHES_MAX = 1_024
"""Events that one connection follows: of the node, and of acknowledgements."""
PRODUCERS_MAX = 64
"""Processes that send through one connection: each keeps up to 256 chunks of receipts here."""
UPLOADS_MAX = 64
"""Large messages that one connection is sending: each keeps some parts in memory."""
INVITATIONS_MAX = 1_024
"""Invitations that one connection may still ask about; the oldest are forgotten beyond that. A node has far fewer."""
HELD_MAX = 131_072
"""Messages leased to one connection. Their bodies are at the other end; the rest needs tens of MB here."""
CALLS_BYTES_MAX = 256 * 1024 * 1024
"""Bytes of calls that have not ended: as many as some tens of senders of the largest messages. The node does not read
from a connection with more until some calls have ended."""
QUEUED_MAX = 256
"""Calls that wait for their turn to be answered. With more, the other end reads too slowly or not at all, and the node
does not read from it either."""
UNSENT_BYTES_MAX = 64 * 1024 * 1024
"""Bytes of answers that wait until the other end reads: sixteen of the largest messages."""

PART_BYTES = 4 * 1024 * 1024
"""Bytes of an answer's content in one frame, beside its header. Messages are hardly longer; the stats of tens of
thousands of queues are."""


_NO_MESSAGE: tuple[int, Message | None] = 0, None
_GONE: dict[On, tuple[type[Exception], str]] = {
    On.READER: (NodeClosed, "receive: this reader is closed"),
    On.TRANSACTION: (NodeClosed, "this transaction has ended"),
    On.INVITATION: (UsageError, f"an invitation: more than {INVITATIONS_MAX} came after it, and it was forgotten"),
    On.RECEIPT: (UsageError, f"wait for a receipt: more than {RECEIPTS_MAX} came after it, and it was forgotten"),
}
"""Why an object is no longer kept; the numbers of all others are wrong."""

_Given = tuple[str, int, int]
"""What an answer gives out: the kind, the number of the first, and how many."""


class Calls:
    """One connection's calls."""

    def __init__(self, node: Verbs, link: Link, give_way: Callable[[], None] | None) -> None:
        self._node = node
        self._link = link
        self._give_way = give_way
        self._tasks: dict[int, asyncio.Task[None]] = {}
        # Clients wait before they call: while this connection waits here, it reads nothing, not even a cancel.
        self._free = asyncio.Semaphore(CALLS_MAX)
        self._bytes = 0  # of the frames of calls that have not ended
        self._fewer = asyncio.Event()
        self._turn = asyncio.Lock()
        self._queued = 0  # calls that wait for their turn to be answered
        self._unsent_bytes = 0  # of answers that wait for their turn
        self._next = 1
        # What this connection has at the node, by kind and number.
        self._kept: dict[On, dict[int, Any]] = {on: {} for on in On}
        self._kept_receipts = 0
        self._in_order: set[int] = set()  # readers that take their messages one after the other
        # Messages by number, with the number of the reader; their numbers by reader, also of those taken back.
        self._messages: dict[int, tuple[int, Message]] = {}
        self._held: dict[int, dict[int, None]] = {}
        # By call: what its answer has given out. Its caller may not have received it.
        self._answered: OrderedDict[int, _Given] = OrderedDict()
        # Steps of open transactions by call: their callers may not know of them.
        self._steps: dict[int, tuple[Transaction, int]] = {}
        self._steps_of: dict[Transaction, list[int]] = {}
        # Why messages were taken back, by number, while the caller may not know.
        self._taken_back: dict[int, tuple[int, str]] = {}

    async def run(self) -> None:
        """Answer until the connection ends."""
        node, passing = self._node, self._give_way is not None
        await self._link.send(
            "welcome", v=VERSION, passing=passing, name=node.name, node_id=node.node_id, address=node.address
        )
        try:
            while True:
                header, body = await self._link.receive()
                if header["op"] == "bye":
                    return
                await self._take(header, body)
        except ConnectionError:
            await self._stop_tasks()
            for transaction in self._kept[On.TRANSACTION].values():
                transaction.handle_death()
            for number, reader in self._kept[On.READER].items():
                self._handle_death(number, reader)
            raise
        finally:
            await self._end()

    def _handle_death(self, number: int, reader: Consumer) -> None:
        """The process that reads has died. If it takes its messages in order, only the first of them has failed."""
        if number not in self._in_order:
            reader._hands.handle_death()
            return
        first = next((at for at in self._held.get(number, ()) if at in self._messages), None)
        if first is not None:
            reader._hands.handle_death(self._messages[first][1])

    async def _take(self, header: Header, body: bytes) -> None:
        if header["op"] == "call":
            await self._free.acquire()
            while self._bytes > CALLS_BYTES_MAX or self._queued > QUEUED_MAX:
                self._fewer.clear()
                await self._fewer.wait()
            self._begin_call(number_of(header, "n"), header, body)
        elif header["op"] == "cancel":
            self._cancel(number_of(header, "n"))
        elif header["op"] in ("ack", "reject"):
            self._settle(header)
        elif header["op"] == "unwatch":
            self._unwatch(header)
        elif header["op"] == "waits":
            self._note_wait(header)
        elif header["op"] == "leave":
            on = On.TRANSACTION if "transaction" in header else On.READER
            self._let_go(on, number_of(header, on.value))
        else:
            raise ProtocolError(DropReason.BAD_FRAME, f"op {header['op']} in a conversation of calls")

    def _begin_call(self, number: int, header: Header, body: bytes) -> None:
        if number in self._tasks or number in self._steps:
            raise ProtocolError(DropReason.BAD_FRAME, f"call {number}: another call has that number")
        size = self._link.received_bytes
        self._bytes += size

        def end(task: "asyncio.Task[None]") -> None:
            self._tasks.pop(number, None)
            self._free.release()
            self._bytes -= size
            self._fewer.set()
            error = None if task.cancelled() else task.exception()
            if error is not None:
                operator_log.error(f"control socket: a call ended by a bug: {error!r}")
                self._link.abort()

        task = self._tasks[number] = asyncio.create_task(self._answer(number, header, body), name="triack-call")
        task.add_done_callback(end)  # also of one that was cancelled before it began

    def _cancel(self, number: int) -> None:
        if number in self._tasks:
            self._tasks[number].cancel()
        if number in self._steps:
            transaction, step = self._steps.pop(number)
            transaction.undo(step)
        if number in self._answered:
            # It no longer waits, so it takes nothing. Messages go back before a later call takes what is behind them.
            self._take_back(self._answered.pop(number))

    def _settle(self, header: Header) -> None:
        """Messages are done, or redelivered: ``count`` of them, or one, unless they are no longer held."""
        first = number_of(header, "message")
        count = min(number_of(header, "count"), BATCH_MESSAGES) if "count" in header else 1
        delay = None if header.get("delay_ms") is None else number_of(header, "delay_ms") / 1_000
        for number in range(first, first + count):
            reader, message = self._messages.pop(number, _NO_MESSAGE)
            if self._taken_back:
                reader, late = self._taken_back.pop(number, (reader, None))
                if late is not None and header["op"] == "ack" and not header.get("told"):
                    self._link.post("late", why=late)
            if (held := self._held.get(reader)) is not None:
                held.pop(number, None)
            if message is not None and header["op"] == "ack":
                message.ack()
            elif message is not None:
                message.reject(failed=bool(header.get("failed")), delay=delay, dead=bool(header.get("dead")))

    async def _answer(self, number: int, header: Header, body: bytes) -> None:
        try:
            try:
                await self._work(number, header, body)
            except TriackError as error:
                more = ("reason", "cause", "peer", "rolled_back")
                told = {name: getattr(error, name) for name in more if hasattr(error, name)}
                if isinstance(error, NodeClosed) and self._node._running is not None and not self._node._life.is_alive:
                    told["ended"] = True
                async with self._in_turn():
                    self._link.post("failed", n=number, error=type(error).__name__, message=words_of(error), **told)
        except OSError:
            return  # the connection has ended, and its reader notices

    async def _work(self, number: int, header: Header, body: bytes) -> None:
        verb = check_call(header)
        if verb.may_wait is not None:
            async with self._in_turn():
                answer = await self._do_at_once(verb, header, body)
                if answer is not None:
                    await self._send_answer(number, *answer)
                    return
        fields, content = await self._do(verb, header, body)
        if not self._queued and not self._link.unsent_bytes:  # the caller reads
            await self._send_answer(number, fields, content)
            return
        self._unsent_bytes += len(content)
        try:
            self._check_unsent()
            async with self._in_turn():
                await self._send_answer(number, fields, content)
        except BaseException:
            self._take_back(_given_by(fields))
            raise
        finally:
            self._unsent_bytes -= len(content)

    @asynccontextmanager
    async def _in_turn(self) -> AsyncIterator[None]:
        """Make and send one answer at a time, when the other end has read those before it."""
        self._queued += 1
        try:
            async with self._turn:
                await self._link.drained()
                yield
        finally:
            self._queued -= 1
            self._fewer.set()

    async def _do_at_once(self, verb: Verb, header: Header, body: bytes) -> Answer | None:
        """Do what needs no wait. Returns None if there is nothing yet, and the call wants to wait for it."""
        if not verb.may_wait or not (header["timeout"] is None or header["timeout"] > 0):
            return await self._do(verb, header, body)
        try:
            return await self._do(verb, {**header, "timeout": 0}, body)
        except WaitTimeout:
            return None

    async def _send_answer(self, number: int, fields: dict[str, Any], content: bytes) -> None:
        """Send an answer, in turn. A call that is cancelled in here has sent none, and holds nothing."""
        rest = max(0, len(content) - 1) // PART_BYTES * PART_BYTES
        try:
            for at in range(0, rest, PART_BYTES):
                await self._link.send("part", content[at : at + PART_BYTES], n=number)
            self._link.post("done", content[rest:], n=number, **fields)
            given = _given_by(fields)
            if given is not None:
                self._answered[number] = given
                if len(self._answered) > CALLS_MAX:  # no caller has as many answers on their way to it
                    self._answered.popitem(last=False)
        except BaseException:
            self._take_back(_given_by(fields))
            raise

    def _take_back(self, given: _Given | None) -> None:
        """The caller does not get it: messages go back into their queue, and anything else ends."""
        if given is None:
            return
        kind, number, count = given
        if kind == "message":
            self._settle({"op": "reject", "message": number, "count": count})
        else:
            self._let_go(On(kind), number)

    def _check_unsent(self) -> None:
        """Raise ConnectionError, and end the connection, if too many bytes wait for a caller that does not read."""
        if self._unsent_bytes + self._link.unsent_bytes <= UNSENT_BYTES_MAX:
            return
        why = f"{UNSENT_BYTES_MAX // 2**20} MiB of answers wait, and it does not read them"
        operator_log.warning(f"control socket: a process is cut off: {why}")
        self._link.abort()
        raise ConnectionAbortedError(why)

    async def _do(self, verb: Verb, header: Header, body: bytes) -> Answer:
        try:
            if verb.on is None:
                answer: Answer = await getattr(self, f"_step_{verb.name}")(header)
                return answer
            return await self._call(verb, verb.on, header, body)
        except TriackError:
            raise
        except (LookupError, TypeError, ValueError) as cause:  # a wrong argument
            raise ProtocolError(DropReason.BAD_FRAME, f"{verb.name}: {type(cause).__name__} {cause}") from cause
        except OSError as cause:  # the process may have no descriptors left
            raise TriackError(f"{verb.name}: {cause.strerror or cause}") from cause

    async def _call(self, verb: Verb, on: On, header: Header, body: bytes) -> Answer:
        placed, named = verb.read(header, body)
        if verb.result is WATCH:
            _check_room("follow events", self._kept[On.WATCH], WATCHES_MAX, "of them")
        callee: Any = self._node if on is On.NODE else self._at(on, header)
        if on is On.TRANSACTION and "destination" in header and callee.last_step >= STEPS_MAX:
            why = f"it has sent and received {STEPS_MAX} times; commit it, and go on in another one, or send lists"
            raise UsageError(f"send to {header['destination']} in a transaction: {why}")
        if verb.ends:
            self._forget(on, header[on.value])
        before = callee.last_step if on is On.TRANSACTION else None
        given = await settled(callee, verb.method, placed, named)
        if before is not None and callee.last_step != before:
            self._note_step(header["n"], callee)
        return verb.result.describe(given, self._keep)

    # ---- what stays at the node for the caller

    def _keep(self, given: Receipt | Receipts | list[Receipt] | Events | Acknowledgements | OpenInvitation) -> int:
        if isinstance(given, Events | Acknowledgements):
            return self._add(On.WATCH, given)
        if isinstance(given, OpenInvitation):
            if len(invitations := self._kept[On.INVITATION]) == INVITATIONS_MAX:
                del invitations[next(iter(invitations))]
            return self._add(On.INVITATION, given)
        receipts = self._kept[On.RECEIPT]
        self._kept_receipts += _objects_of(given)
        while self._kept_receipts > RECEIPTS_MAX and receipts:  # those of one commit are kept together
            self._kept_receipts -= _objects_of(receipts.pop(next(iter(receipts))))
        return self._add(On.RECEIPT, given)

    def _add(self, on: On, it: Any) -> int:
        number, self._next = self._next, self._next + 1
        self._kept[on][number] = it
        return number

    def _at(self, on: On, header: Header) -> Any:
        """What the caller has under a number. Raises an error that says why it is gone."""
        it = self._kept[on].get(header[on.value])
        if it is None:
            kind, why = _GONE.get(on, (KeyError, str(header[on.value])))
            raise kind(why)
        return it

    def _forget(self, on: On, number: int) -> Any:
        """Stop keeping something, and what depends on it. Returns it; None if it is not kept."""
        it = self._kept[on].pop(number, None)
        if on is On.READER:
            self._in_order.discard(number)
            for at in self._held.pop(number, ()):
                self._messages.pop(at, None)  # it goes back into its queue
                self._taken_back.pop(at, None)
        elif on is On.TRANSACTION:
            for step in self._steps_of.pop(it, ()):
                self._steps.pop(step, None)
        return it

    def _let_go(self, on: On, number: int) -> None:
        """End something: its caller released it, or has not received it, or the connection has ended."""
        match self._forget(on, number):
            case None:
                return
            case Transaction() as transaction:
                transaction.rollback(failed=False)
            case OpenInvitation() as invitation:
                invitation.withdraw()
            case Upload() as upload:
                with suppress(NodeClosed):
                    upload.give_up()
            case reader_or_events:
                reader_or_events.close()

    async def _stop_tasks(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _end(self) -> None:
        await self._stop_tasks()
        for on in (On.TRANSACTION, On.READER, On.WATCH, On.PRODUCER, On.UPLOAD):  # invitations stay open
            for number in list(self._kept[on]):
                self._let_go(on, number)

    # ---- steps: sending

    async def _step_wait(self, header: Header) -> Answer:
        kept, at = self._at(On.RECEIPT, header), header["at"]
        receipt = kept if isinstance(kept, Receipt) or (isinstance(kept, Receipts) and at is None) else kept[at]
        await receipt.reached(header["stage"], header["timeout"])
        return {}, b""

    async def _step_follow(self, header: Header) -> Answer:
        """The receipt of a message that was sent with a key, for a client that lost it with a connection."""
        receipt = find_kept(self._node._port, header["ordinal"])
        return {"receipt": None if receipt is None else self._keep(receipt)}, b""

    async def _step_produce(self, header: Header) -> Answer:
        _check_room("send lines", self._kept[On.PRODUCER], PRODUCERS_MAX, "producers")
        producer = Producer(
            self._node,
            header["destination"],
            Delivery[header["delivery"]],
            Stage[header["until"]],
            properties=header["properties"],
            name=header["name"],
            finished=header["finished"],
        )
        return {"producer": self._add(On.PRODUCER, producer), "accepted": await producer.begin()}, b""

    # ---- steps: large messages

    async def _step_upload(self, header: Header) -> Answer:
        uploads = self._kept[On.UPLOAD]
        for number in [number for number, upload in uploads.items() if upload.has_ended]:
            del uploads[number]
        _check_room("send a stream", self._kept[On.UPLOAD], UPLOADS_MAX, "of them under way")
        delivery = Delivery[header["delivery"]]
        upload = Upload.to(self._node._port, header["destination"], header["size"], delivery, header["properties"])
        number = self._add(On.UPLOAD, upload)
        try:
            await upload.begin()
        except BaseException:
            upload.give_up()
            raise
        return {"upload": number}, b""

    async def _step_upload_end(self, header: Header) -> Answer:
        upload = self._at(On.UPLOAD, header)
        prepared = await upload.complete()
        if header["transaction"] is not None:
            transaction = self._at(On.TRANSACTION, header)
            await transaction.take_upload(upload, prepared)
            self._note_step(header["n"], transaction)
            return {}, b""
        receipt = upload.submit(prepared)
        await receipt.reached(Stage.QUEUED)
        return RECEIPT.describe(receipt, self._keep)

    async def _step_read_part(self, header: Header) -> Answer:
        origin = bytes.fromhex(header["origin"])
        return {}, await part_of(self._node._port, origin, header["ordinal"], header["index"])

    # ---- steps: events, and acknowledgements

    async def _step_told(self, header: Header) -> Answer:
        watch = self._at(On.WATCH, header)
        if isinstance(watch, Events):
            return {"events": [describe_news(event) for event in await watch.get_many()], "missed": watch.missed}, b""
        return describe_events(self._node.node_id, await watch.get_many()), b""

    def _note_wait(self, header: Header) -> None:
        reader = self._kept[On.READER].get(number_of(header, "reader"))
        if reader is not None:
            reader.reader.waits_for = printable(str(header.get("why")))

    def _unwatch(self, header: Header) -> None:
        number = number_of(header, "watch")
        if header.get("forget"):
            self._let_go(On.WATCH, number)
        elif number in self._kept[On.WATCH]:
            self._kept[On.WATCH][number].close()

    # ---- steps: receiving

    async def _step_read(self, header: Header) -> Answer:
        _check_room(f"receive from {header['queue']}", self._kept[On.READER], READERS_MAX, "readers")
        redelivery = None if header["redelivery"] is None else Redelivery(**header["redelivery"])
        port, reader, timeout = self._node._port, self._reader_of(header), header["hand_over_timeout"]
        consumer = Consumer(port, port.mailbox(header["queue"]), "manual", redelivery, timeout, reader=reader)
        number = self._add(On.READER, consumer)
        consumer._hands.on_take_back = lambda leases: self._handle_taken_back(number, leases)
        if header["in_order"]:
            self._in_order.add(number)
        return {"reader": number}, b""

    async def _step_subscribe(self, header: Header) -> Answer:
        """A reader of a subscription. What it does with a message too late changes nothing, and is not reported."""
        _check_room(f"subscribe to {header['pattern']}", self._kept[On.READER], READERS_MAX, "readers")
        redelivery = None if header["redelivery"] is None else Redelivery(**header["redelivery"])
        about = {name: header[name] for name in ("durable", "shared", "ack_wait_s", "max_unacked")}
        about["delivery"] = Delivery[header["delivery"]]
        port, reader = self._node._port, self._reader_of(header)
        found = begin_subscription(port, header["pattern"], **about, ack="manual", redelivery=redelivery, reader=reader)
        number = self._add(On.READER, found)
        try:
            await found
        except BaseException:
            self._let_go(On.READER, number)
            raise
        if header["paused"]:
            await found.pause()
        return {"reader": number}, b""

    async def _step_pause_reader(self, header: Header) -> Answer:
        reader = self._at(On.READER, header)
        if not isinstance(reader, Subscriber):
            raise UsageError("pause a reader: it is none of a subscription")
        await (reader.pause() if header["paused"] else reader.resume())
        return {}, b""

    def _reader_of(self, header: Header) -> Reader:
        """The reader, which is in another process, by its name there."""
        return Reader(str(header["name"] or ""), self._link.peer_pid, is_here=False)

    def _note_step(self, number: int, transaction: Transaction) -> None:
        self._steps[number] = transaction, transaction.last_step
        self._steps_of.setdefault(transaction, []).append(number)

    def _handle_taken_back(self, reader: int, leases: list[Lease]) -> None:
        """Messages of a reader were taken back: tell the client, so that it can tell its application."""
        gone = {(lease.packet, lease.index) for lease in leases}
        held = (
            (number, self._messages[number][1]) for number in self._held.get(reader, ()) if number in self._messages
        )
        taken = [(number, it) for number, it in held if (it.lease.packet, it.lease.index) in gone]
        for number, message in taken:
            del self._messages[number]
            why = f"message {message.id} of queue {message.queue} was taken back: it will be handed out again"
            self._taken_back[number] = reader, why
        for at in range(0, len(taken), BATCH_MESSAGES):
            some = [number for number, _ in taken[at : at + BATCH_MESSAGES]]
            self._link.post("taken_back", messages=some, why=[self._taken_back[number][1] for number in some])

    async def _step_get(self, header: Header) -> Answer:
        message = await self._reader(header).get(header["timeout"])
        return self._hand_out(header, [message], *content_of(message))

    async def _step_get_chosen(self, header: Header) -> Answer:
        reader, timeout = self._reader(header), header["timeout"]
        if header["id"] is not None:
            message = await reader.get_by_id(header["id"], timeout)
        else:
            message = await reader.get_by_correlation_id(header["correlation_id"], timeout)
        return self._hand_out(header, [message], *content_of(message))

    def _hand_out(self, header: Header, messages: Sequence[Message], fields: Header, content: bytes) -> Answer:
        """Messages for the caller; the answer has their bodies, which are dropped here."""
        return {"message": self._hold(header, messages), "reader": header["reader"], **fields}, content

    async def _step_get_many(self, header: Header) -> Answer:
        most = min(header["most"], BATCH_MESSAGES)
        batch = await self._reader(header).get_many(most, header["timeout"])
        fields, content = contents_of(batch)
        return self._hand_out(header, batch, {"count": len(batch), **fields}, content)

    async def _step_draw(self, header: Header) -> Answer:
        most = min(header["most"], BATCH_MESSAGES)
        batch = await self._reader(header).get_many(most, header["timeout"])
        for message in batch:
            if message.is_large:
                what = f"message {message.id} of queue {message.queue} has a body of {message.size} bytes"
                raise LargeBody(f"{what}, which is no line: triack receive {message.queue} --save PATH")
        content = b"".join([message.body for message in batch])
        fields = {
            "count": len(batch),
            "ids": [message.id for message in batch],
            "sizes": [len(message.body) for message in batch],
            "about": [describe(message) for message in batch] if header["about"] else [],
        }
        return self._hand_out(header, batch, fields, content)

    def _reader(self, header: Header) -> Consumer:
        _check_room("receive", self._messages, HELD_MAX - len(self._taken_back), "messages in its hands")
        reader: Consumer = self._at(On.READER, header)
        return reader

    def _hold(self, header: Header, messages: Sequence[Message]) -> int:
        """Keep messages that the caller has leased. Returns the number of the first; the others are consecutive."""
        first, reader = self._next, header["reader"]
        self._next += len(messages)
        self._messages.update(enumerate([(reader, message) for message in messages], first))
        self._held.setdefault(reader, {}).update(dict.fromkeys(range(first, self._next)))
        for message in messages:
            message.body = b""  # it is in the answer, and not needed here
        return first

    # ---- steps: transactions

    async def _step_begin(self, header: Header) -> Answer:
        _check_room("begin a transaction", self._kept[On.TRANSACTION], TRANSACTIONS_MAX, "open ones")
        port = self._node._port
        port.check_alive()
        return {"transaction": self._add(On.TRANSACTION, Transaction(port, reader=self._reader_of(header)))}, b""

    async def _step_bridge_said(self, header: Header) -> Answer:
        said = (header[name] for name in ("bridge", "said", "why", "count", "known"))
        self._node._port.note_bridge_said(*said)
        return {}, b""

    # ---- steps: peers, and looking

    async def _step_claim(self, _header: Header) -> Answer:
        """Give way: another, permanent node wants the directory."""
        if self._give_way is not None:
            self._give_way()
        return {"passing": self._give_way is not None}, b""

    async def _step_browse(self, header: Header) -> Answer:
        after = tuple(header["after"])
        page = await page_of(self._node._port, header["queue"], after)
        sizes = [len(message.body) for message in page]
        return {"page": [it.describe() for it in page], "sizes": sizes}, b"".join([it.body for it in page])


def _check_room(what: str, kept: Sized, most: int, of_what: str) -> None:
    if len(kept) >= most:
        raise UsageError(f"{what}: this connection has {most} {of_what}; end some, or use another connection")


def _given_by(fields: dict[str, Any]) -> _Given | None:
    """What the caller of this answer then holds, besides receipts."""
    if "message" in fields and "reader" in fields:
        return "message", fields["message"], fields.get("count", 1)
    kinds = ("transaction", "reader", "watch", "upload", "invitation")
    return next(((kind, fields[kind], 1) for kind in kinds if kind in fields), None)


def _objects_of(receipt: Receipt | Receipts | list[Receipt]) -> int:
    """Its count among the receipts of a connection; a list that was sent as one is hardly more than one."""
    return max(1, len(receipt)) if isinstance(receipt, list | KeyedReceipts) else 1
