"""The control socket of a running node: other processes of the machine send, receive and look through it.

A connection is one conversation, opened by a ``hello`` frame that says which:

    call     hello -> welcome; see ``triack.node.control.calls``
    send     hello -> welcome(accepted); chunk... -> safe(last)..., finished(last, failures)...;
             forget -> forgotten(waits_for)
    receive  hello(most) -> welcome; messages(serial, ids, sizes, about)..., empty...;
             ack(serial, most)... -> confirmed(serial)...; bye
    claim    hello -> welcome; a process that is but passing gives way to the one that asks

``most`` is how many messages a receiver wants in hand, by its last word: what it has, no other reader gets. To whoever
may come back after a loss, ``welcome`` says besides whether the process is but ``passing``; see
``triack.node.control.handover``. An error ends the conversation with an ``error`` frame. A receiver that goes without
``bye`` has died: the message that it was writing has failed by that, the others of its messages have not.

Only processes of the node's own user, and of root, are served (``socket_file.py``). A socket that somebody has removed
is made again.
"""

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import cast

from triack.base.delivery import Delivery
from triack.base.errors import HandOverEnded, NodeClosed, ProtocolError, StoreError, TriackError, UsageError
from triack.base.reasons import DropReason
from triack.node.control.calls import Calls
from triack.node.control.control_frames import VERSION, Header, Link, cut, number_of, words_of
from triack.node.control.description import check_queue, describe
from triack.node.control.handover import PASSING, Served, publish, retract
from triack.node.control.intake import Chunk, Failure, Intake
from triack.node.control.socket_file import check_peer, is_there, make_socket_path, remove
from triack.node.control.tasks import first_of
from triack.node.files import operator_log
from triack.node.files.notes import folder_of
from triack.node.files.ownership import trusted_users
from triack.node.handles.consumer import BATCH_MESSAGES, Consumer
from triack.node.handles.message import Message
from triack.node.handles.verbs import Verbs
from triack.node.shell.holding import Reader
from triack.node.shell.outgoing_message import MessageProperties
from triack.queues.stages import Stage

__all__ = ["ControlServer", "converse"]

OUT_BYTES = 4 * 1024 * 1024
"""Messages in the hands of one consumer: a few batches, so that it works while the next is under way."""

HELLO_S = 10.0
"""How long a process may take to say what it wants: ours do so at once, and one that does not takes others' place."""
CONNECTIONS_MAX = 512
"""Each takes a descriptor; or half of all that the process may have, if that is less."""
LOOK_S = 5.0
"""How often the node looks whether its socket is still there: a runtime directory goes when its user logs out."""


class ControlServer:
    """Serves the control socket of a node.

    Args:
        node: the node; it is running.
        data: its data directory, in which the socket is published.
        address: where it listens, empty when it does not.
    """

    def __init__(self, node: Verbs, data: Path, address: str) -> None:
        self._node = node
        self._data = data
        self._address = address
        self._give_way = PASSING.get()
        self._served: Served | None = None
        self._watch: asyncio.Task[None] | None = None
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen, and say where. Raises TriackError or OSError when that cannot be."""
        try:
            await self._listen()
            self._watch = asyncio.create_task(self._watch_over(), name="triack-control")
        except BaseException:
            await self.close()
            raise

    async def _listen(self) -> None:
        """Listen at a new socket, and say where it is."""
        path = make_socket_path()
        server = None
        try:
            # It begins to listen below: a cancellation in here would leave it listening, with nobody to close it.
            server = await asyncio.start_unix_server(self._accept, path, start_serving=False)
            path.chmod(0o600)
            await server.start_serving()
            served = Served(folder=folder_of(self._data), control=str(path), pid=os.getpid(), listen=self._address)
            publish(self._data, served)
        except BaseException:
            if server is not None:
                server.close()
            remove(path)
            raise
        self._served, self._server = served, server

    async def close(self) -> None:
        """Be found no more, and end every conversation."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        await self._close()

    async def _watch_over(self) -> None:
        """Be found as long as the node lives, and no longer: nobody is to wait for one that has nothing to say."""
        failed = asyncio.create_task(self._node.failed())
        try:
            while not (await asyncio.wait((failed,), timeout=LOOK_S))[0]:
                await self._listen_again()
        finally:
            failed.cancel()
        await self._close()

    async def _listen_again(self) -> None:
        """Make another socket where somebody has removed the one that there was."""
        if self._served is None or is_there(Path(self._served.control)):
            return
        gone, before = self._served, self._server
        try:
            await self._listen()
        except (OSError, TriackError) as error:
            operator_log.warning(
                f"other processes cannot use node {self._node.name}: {gone.control} is gone, and {error}",
                node=self._node.name,
            )
            return
        operator_log.info(f"control socket {gone.control} is gone; node {self._node.name} has made another")
        if before is not None:
            before.close()

    async def _close(self) -> None:
        if self._served is not None:
            retract(self._data, self._served)
            self._served = None
        if self._server is not None:
            self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            check_peer(writer.get_extra_info("socket"), trusted_users())
        except OSError as error:  # it is another user's, or gone already
            operator_log.warning(f"control socket: a process was not served: {error.strerror}")
            writer.transport.abort()
            return
        link = Link(reader, writer)
        has_room = len(self._tasks) < _connections_max()
        task = asyncio.create_task(self._converse(link) if has_room else _refuse(link))
        self._tasks.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            operator_log.error(f"control socket: a conversation ended by a bug: {error!r}")

    async def _converse(self, link: Link) -> None:
        await converse(self._node, link, self._give_way, HELLO_S)


def _connections_max() -> int:
    import resource  # noqa: PLC0415 - systems without control sockets have no such module

    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return CONNECTIONS_MAX if limit == resource.RLIM_INFINITY else min(CONNECTIONS_MAX, limit // 2)


async def _refuse(link: Link) -> None:
    operator_log.warning(f"control socket: a process was not served: {_connections_max()} others are")
    with contextlib.suppress(OSError):
        await link.send("error", message="too many other processes use this node", usage=False)
    await link.close()


async def converse(node: Verbs, link: Link, give_way: Callable[[], None] | None, hello_s: float | None = None) -> None:
    """Let another process, or a command in this one, use a node until the conversation ends.

    Args:
        node: the node; it is running.
        link: the connection; it is closed in the end.
        give_way: see ``handover.PASSING``.
        hello_s: how long the other end may take to say what it wants; None for any time.
    """
    passing = give_way is not None
    try:
        hello = await _hello(link, hello_s)
        if hello["op"] != "hello" or hello.get("v") != VERSION:
            raise ProtocolError(
                DropReason.BAD_HELLO, f"this process speaks version {VERSION}; use the same Triack for both"
            )
        if hello.get("do") == "send":
            await _Sending(node, link, hello).run(passing=passing)
        elif hello.get("do") == "call":
            await Calls(node, link).run()
        elif hello.get("do") == "receive":
            await _Receiving(node, link, hello).run(passing=passing)
        elif hello.get("do") == "claim":
            await link.send("welcome", v=VERSION, passing=passing)
            if give_way is not None:
                give_way()
        else:
            raise ProtocolError(DropReason.BAD_HELLO, f"do is {hello.get('do')!r}")
    except (NodeClosed, StoreError) as error:
        # Not the other end's fault: it finds the next process that serves the directory, and goes on there.
        operator_log.info(f"control socket: a conversation ended: {error}")
    except TriackError as error:
        with contextlib.suppress(OSError):
            await link.send("error", message=words_of(error), usage=isinstance(error, UsageError))
    except OSError as error:
        operator_log.info(f"control socket: a conversation ended: {error}")
    except (LookupError, TypeError, ValueError) as cause:  # what a frame holds
        refusal = ProtocolError(DropReason.BAD_FRAME, f"{type(cause).__name__} {cause}")
        with contextlib.suppress(OSError):
            await link.send("error", message=words_of(refusal), usage=False)
    finally:
        await link.close()


async def _hello(link: Link, seconds: float | None) -> Header:
    try:
        async with asyncio.timeout(seconds):
            hello, _ = await link.receive()
    except TimeoutError:
        raise ProtocolError(DropReason.BAD_HELLO, f"nothing was said for {seconds:g} s") from None
    return hello


class _Sending:
    """A producer's side of the node."""

    def __init__(self, node: Verbs, link: Link, hello: Header) -> None:
        self._link = link
        self._reported = number_of(hello, "finished")
        try:
            delivery, until = Delivery[str(hello["delivery"])], Stage[str(hello["until"])]
        except KeyError as cause:
            raise ProtocolError(DropReason.BAD_HELLO, f"class or stage {cause}") from cause
        properties = hello.get("properties", {})
        if not isinstance(properties, dict):
            raise ProtocolError(DropReason.BAD_HELLO, f"properties are {properties!r}")
        self._intake = Intake(
            node,
            str(hello.get("destination")),
            delivery,
            until,
            properties=cast("MessageProperties", properties),
            producer=str(hello.get("producer")),
            on_finished=self._handle_finished,
        )
        self._finished = self._reported
        self._failures: list[Failure] = []
        self._news = asyncio.Event()

    async def run(self, *, passing: bool) -> None:
        accepted = await self._intake.recover(self._reported)
        await self._link.send("welcome", v=VERSION, passing=passing, accepted=accepted)
        await first_of(self._take(), self._intake.follow(), self._report())

    def _handle_finished(self, last: int, failures: list[Failure]) -> None:
        self._finished = last
        self._failures += failures
        self._news.set()

    async def _report(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            failures, self._failures = self._failures, []
            await self._link.send("finished", last=self._finished, failures=failures)

    async def _take(self) -> None:
        while True:
            header, body = await self._link.receive()
            if header["op"] == "forget":
                await self._intake.forget()
                await self._link.send("forgotten", waits_for=self._intake.waits_for)
                continue
            chunk = _read_chunk(header, body)
            await self._intake.accept(chunk)
            await self._link.send("safe", last=chunk.last)


def _read_chunk(header: Header, body: bytes) -> Chunk:
    if header["op"] != "chunk":
        raise ProtocolError(DropReason.BAD_FRAME, f"op {header['op']} in place of a chunk")
    return Chunk(number_of(header, "first"), cut(body, header.get("sizes")))


class _Receiving:
    """A consumer's side of the node."""

    def __init__(self, node: Verbs, link: Link, hello: Header) -> None:
        self._node = node
        self._link = link
        self._queue = str(hello.get("queue"))
        self._create = hello.get("create") is True
        self._with_properties = hello.get("about") is True
        self._most = number_of(hello, "most")
        self._out: deque[Message] = deque()
        self._out_bytes = 0
        self._handed = 0
        self._acked = 0
        self._changed = asyncio.Event()
        self._to_confirm = asyncio.Event()
        self._taken_back = asyncio.Event()

    async def run(self, *, passing: bool) -> None:
        if not self._create:
            check_queue(self._node, self._queue)
        port = self._node._port  # noqa: SLF001 - the node's own part
        reader = Reader("triack receive", self._link.peer_pid, is_here=False)
        async with Consumer(port, port.mailbox(self._queue), "manual", None, reader=reader) as consumer:
            consumer.on_take_back(lambda _: self._taken_back.set())
            await self._link.send("welcome", v=VERSION, passing=passing)
            try:
                await first_of(self._hand_out(consumer), self._take_acks(), self._confirm(), self._end_if_taken())
            except ConnectionError:
                if self._out:
                    consumer.handle_death(self._out[0])
                raise

    async def _end_if_taken(self) -> None:
        """What it still has of the messages that were taken back it is not to write: it ends."""
        await self._taken_back.wait()
        raise HandOverEnded(f"receive from {self._queue}: what was in hand was taken back, and comes again")

    async def _hand_out(self, consumer: Consumer) -> None:
        while True:
            while len(self._out) >= self._most or self._out_bytes >= OUT_BYTES:
                self._changed.clear()
                await self._changed.wait()
            if self._node._port.queue_length(self._queue) <= len(self._out):  # noqa: SLF001 - the node's own part
                await self._link.send("empty")
            batch = await consumer.get_many(min(self._most - len(self._out), BATCH_MESSAGES))
            self._out.extend(batch)
            self._out_bytes += sum(len(message.body) for message in batch)
            serial = self._handed + 1
            self._handed += len(batch)
            await self._link.send(
                "messages",
                b"".join([message.body for message in batch]),
                serial=serial,
                ids=[message.id for message in batch],
                sizes=[len(message.body) for message in batch],
                about=[describe(message) for message in batch] if self._with_properties else [],
            )

    async def _take_acks(self) -> None:
        while True:
            header, _ = await self._link.receive()
            if header["op"] == "bye":
                return
            serial = number_of(header, "serial")
            if header["op"] != "ack" or not self._acked <= serial <= self._handed:
                raise ProtocolError(DropReason.BAD_FRAME, f"op {header['op']} with serial {serial}")
            for _ in range(serial - self._acked):
                message = self._out.popleft()
                self._out_bytes -= len(message.body)
                message.ack()
            self._acked = serial
            self._most = number_of(header, "most")
            self._changed.set()
            self._to_confirm.set()

    async def _confirm(self) -> None:
        while True:
            await self._to_confirm.wait()
            self._to_confirm.clear()
            serial = self._acked
            await self._node.flush()
            await self._link.send("confirmed", serial=serial)
