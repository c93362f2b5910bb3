"""The control socket of a serving process: other processes send and receive through its node.

A connection is one conversation, opened by a ``hello`` frame that says which:

    send     hello -> welcome(accepted); chunk... -> safe(last)..., finished(last, failures)...; forget -> forgotten
    receive  hello -> welcome; messages(serial, ids, sizes)..., empty...; ack(serial)... -> confirmed(serial)...

An error ends the conversation with an ``error`` frame.
"""

import asyncio
import contextlib
from collections import deque
from pathlib import Path

import triack
from triack.base.errors import NodeClosed, ProtocolError, StoreError, TriackError
from triack.base.reasons import DropReason
from triack.node import operator_log
from triack.tools.commands.batches import take_batch
from triack.tools.commands.common import first_of
from triack.tools.commands.frames import VERSION, Header, Link, number_of
from triack.tools.commands.handover import make_socket_path
from triack.tools.commands.intake import Failure, Intake
from triack.tools.commands.pipes import Chunk

__all__ = ["ControlServer"]

OUT_MESSAGES = 4_000
OUT_BYTES = 4 * 1024 * 1024
"""Messages in the hands of one consumer: a few batches, so that it works while the next is under way."""


class ControlServer:
    """Serves the control socket of a node."""

    def __init__(self, node: triack.Node) -> None:
        self._node = node
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> Path:
        """Listen. Returns the path of the socket."""
        path = make_socket_path()
        self._server = await asyncio.start_unix_server(self._accept, path)
        return path

    async def close(self) -> None:
        """End every conversation."""
        if self._server is not None:
            self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._converse(Link(reader, writer)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _converse(self, link: Link) -> None:
        try:
            hello, _ = await link.receive()
            if hello["op"] != "hello" or hello.get("v") != VERSION:
                raise ProtocolError(
                    DropReason.BAD_HELLO, f"this process speaks version {VERSION}; use the same Triack for both"
                )
            if hello.get("do") == "send":
                await _Sending(self._node, link, hello).run()
            elif hello.get("do") == "receive":
                await _Receiving(self._node, link, hello).run()
            else:
                raise ProtocolError(DropReason.BAD_HELLO, f"do is {hello.get('do')!r}")
        except (NodeClosed, StoreError) as error:
            # Not the other end's fault: it finds the next process that serves the directory, and goes on there.
            operator_log.info(f"control socket: a conversation ended: {error}")
        except TriackError as error:
            with contextlib.suppress(OSError):
                await link.send("error", message=str(error))
        except OSError as error:
            operator_log.info(f"control socket: a conversation ended: {error}")
        finally:
            await link.close()


class _Sending:
    """A producer's side of the node."""

    def __init__(self, node: triack.Node, link: Link, hello: Header) -> None:
        self._link = link
        self._reported = number_of(hello, "finished")
        try:
            delivery, until = triack.Delivery[str(hello["delivery"])], triack.Stage[str(hello["until"])]
        except KeyError as cause:
            raise ProtocolError(DropReason.BAD_HELLO, f"class or stage {cause}") from cause
        self._intake = Intake(
            node,
            str(hello.get("destination")),
            delivery,
            until,
            producer=str(hello.get("producer")),
            on_finished=self._handle_finished,
        )
        self._finished = self._reported
        self._failures: list[Failure] = []
        self._news = asyncio.Event()

    async def run(self) -> None:
        await self._link.send("welcome", v=VERSION, accepted=await self._intake.recover(self._reported))
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
                await self._link.send("forgotten")
                continue
            chunk = _read_chunk(header, body)
            await self._intake.accept(chunk)
            await self._link.send("safe", last=chunk.last)


def _read_chunk(header: Header, body: bytes) -> Chunk:
    chunk = Chunk(number_of(header, "first"), body.split(b"\n"))
    if header["op"] != "chunk" or len(chunk.lines) != number_of(header, "count"):
        raise ProtocolError(DropReason.BAD_FRAME, f"op {header['op']} with {len(chunk.lines)} lines")
    return chunk


class _Receiving:
    """A consumer's side of the node."""

    def __init__(self, node: triack.Node, link: Link, hello: Header) -> None:
        self._node = node
        self._link = link
        self._queue = str(hello.get("queue"))
        self._out: deque[triack.Message] = deque()
        self._out_bytes = 0
        self._handed = 0
        self._acked = 0
        self._changed = asyncio.Event()
        self._to_confirm = asyncio.Event()

    async def run(self) -> None:
        queues = list(self._node.queue_lengths())
        async with self._node.receive(self._queue, ack="manual") as consumer:
            await self._link.send("welcome", v=VERSION, queues=queues)
            await first_of(self._hand_out(consumer), self._take_acks(), self._confirm())

    async def _hand_out(self, consumer: triack.Consumer) -> None:
        while True:
            while len(self._out) >= OUT_MESSAGES or self._out_bytes >= OUT_BYTES:
                self._changed.clear()
                await self._changed.wait()
            if self._node.queue_lengths()[self._queue] <= len(self._out):
                await self._link.send("empty")
            batch = await take_batch(consumer)
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
            )

    async def _take_acks(self) -> None:
        while True:
            header, _ = await self._link.receive()
            serial = number_of(header, "serial")
            if header["op"] != "ack" or not self._acked <= serial <= self._handed:
                raise ProtocolError(DropReason.BAD_FRAME, f"op {header['op']} with serial {serial}")
            for _ in range(serial - self._acked):
                message = self._out.popleft()
                self._out_bytes -= len(message.body)
                message.ack()
            self._acked = serial
            self._changed.set()
            self._to_confirm.set()

    async def _confirm(self) -> None:
        while True:
            await self._to_confirm.wait()
            self._to_confirm.clear()
            serial = self._acked
            await self._node.flush()
            await self._link.send("confirmed", serial=serial)
