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
that had to wait are unsent, the connection ends. What a caller holds has numbers and limits; see ``Kept``.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from triack.base.errors import NodeClosed, ProtocolError, TriackError, UsageError, WaitTimeout
from triack.base.printable import printable
from triack.base.reasons import DropReason
from triack.node.control.codec import WATCH
from triack.node.control.control_frames import CALLS_MAX, VERSION, Answer, Header, Link, number_of, words_of
from triack.node.control.kept import Given, Kept, On, check_room
from triack.node.control.steps import Steps
from triack.node.control.verb_table import Verb, check_call
from triack.node.files import operator_log
from triack.node.handles.derived import settled
from triack.node.handles.verbs import Verbs
from triack.node.shell.event_loop import end_tasks

STEPS_MAX = 131_072
"""Sends and receives of one transaction. If each send has another destination, the answer to the commit has some 45
bytes for each, so that all of them still fit into a frame."""
WATCHES_MAX = 1_024
"""Events that one connection follows: of the node, and of acknowledgements."""
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


class Calls:
    """One connection's calls."""

    def __init__(self, node: Verbs, link: Link, give_way: Callable[[], None] | None) -> None:
        self._node = node
        self._link = link
        self._is_passing = give_way is not None
        self._kept = Kept(link)
        self._steps = Steps(node, link, self._kept, give_way)
        self._tasks: dict[int, asyncio.Task[None]] = {}
        # Clients wait before they call: while this connection waits here, it reads nothing, not even a cancel.
        self._free = asyncio.Semaphore(CALLS_MAX)
        self._bytes = 0  # of the frames of calls that have not ended
        self._fewer = asyncio.Event()
        self._turn = asyncio.Lock()
        self._queued = 0  # calls that wait for their turn to be answered
        self._unsent_bytes = 0  # of answers that wait for their turn
        # By call: what its answer has given out. Its caller may not have received it.
        self._answered: OrderedDict[int, Given] = OrderedDict()

    async def run(self) -> None:
        """Answer until the connection ends."""
        node = self._node
        await self._link.send(
            "welcome", v=VERSION, passing=self._is_passing, name=node.name, node_id=node.node_id, address=node.address
        )
        try:
            while True:
                header, body = await self._link.receive()
                if header["op"] == "bye":
                    return
                await self._take(header, body)
        except ConnectionError:
            await end_tasks(self._tasks.values())
            self._kept.handle_death()
            raise
        finally:
            await end_tasks(self._tasks.values())
            self._kept.end()

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
            self._kept.settle(header)
        elif header["op"] == "unwatch":
            self._unwatch(header)
        elif header["op"] == "waits":
            self._note_wait(header)
        elif header["op"] == "leave":
            on = On.TRANSACTION if "transaction" in header else On.READER
            self._kept.let_go(on, number_of(header, on.value))
        else:
            raise ProtocolError(DropReason.BAD_FRAME, f"op {header['op']} in a conversation of calls")

    def _unwatch(self, header: Header) -> None:
        number = number_of(header, "watch")
        if header.get("forget"):
            self._kept.let_go(On.WATCH, number)
        elif number in self._kept.of(On.WATCH):
            self._kept.of(On.WATCH)[number].close()

    def _note_wait(self, header: Header) -> None:
        reader = self._kept.of(On.READER).get(number_of(header, "reader"))
        if reader is not None:
            reader.reader.waits_for = printable(str(header.get("why")))

    def _begin_call(self, number: int, header: Header, body: bytes) -> None:
        if number in self._tasks or self._kept.awaits(number):
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
        self._kept.undo(number)
        if number in self._answered:
            # It no longer waits, so it takes nothing. Messages go back before a later call takes what is behind them.
            self._kept.take_back(self._answered.pop(number))

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
            self._kept.take_back(_given_by(fields))
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
            self._kept.take_back(_given_by(fields))
            raise

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
                answer: Answer = await getattr(self._steps, verb.name)(header)
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
            check_room("follow events", self._kept.of(On.WATCH), WATCHES_MAX, "of them")
        callee: Any = self._node if on is On.NODE else self._kept.at(on, header)
        if on is On.TRANSACTION and "destination" in header and callee.last_step >= STEPS_MAX:
            why = f"it has sent and received {STEPS_MAX} times; commit it, and go on in another one, or send lists"
            raise UsageError(f"send to {header['destination']} in a transaction: {why}")
        if verb.ends:
            self._kept.forget(on, header[on.value])
        before = callee.last_step if on is On.TRANSACTION else None
        given = await settled(callee, verb.method, placed, named)
        if before is not None and callee.last_step != before:
            self._kept.note_step(header["n"], callee)
        return verb.result.describe(given, self._kept.keep)


def _given_by(fields: dict[str, Any]) -> Given | None:
    """What the caller of this answer then holds, besides receipts."""
    if "message" in fields and "reader" in fields:
        return "message", fields["message"], fields.get("count", 1)
    kinds = ("transaction", "reader", "watch", "upload", "invitation")
    return next(((kind, fields[kind], 1) for kind in kinds if kind in fields), None)
