"""``triack receive``: each message of a queue becomes a line on standard output."""

import asyncio
import base64
import contextlib
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

import triack
from triack.base.errors import (
    HandOverEnded,
    NodeClosed,
    QueueNotFound,
    StoreError,
    TriackError,
    UsageError,
    WaitTimeout,
)
from triack.base.names import check_name, nearest, what_else
from triack.base.printable import counted, written
from triack.node.client.client import Client, client_on
from triack.node.control.control_frames import Link, cut, number_of
from triack.node.control.tasks import first_of
from triack.node.files import operator_log
from triack.node.handles.consumer import BATCH_MESSAGES
from triack.store.folder import STORE_FILE
from triack.tools.commands.common import (
    FloatRange,
    json_line,
    json_option,
    node_options,
    run,
    suite_option,
    tls_ca_option,
)
from triack.tools.commands.large import save_messages
from triack.tools.commands.pipes import LineSink
from triack.tools.commands.succession import OwnNode, Succession, own_node

STDOUT = 1
OUT_BYTES = 4 * 1024 * 1024
"""Leased messages: a few batches, so that some are written while the next are in progress."""
CONFIRM_S = 5.0
GRACE_S = 1.0


@dataclass(frozen=True, slots=True)
class _Order:
    """What to receive, and where."""

    queue: str
    own: OwnNode
    listen: str | None = None
    as_json: bool = False
    create: bool = False

    def open(self) -> triack.Node:
        if not self.create:
            _check_node(self.own.data)
        return self.own.open(self.listen)


class _OutputLost(Exception):
    """Standard output accepts no more."""


class _NodeGone(WaitTimeout):
    """No message came, because the serving process ended and no other replaced it."""


class _Output:
    """Standard output, and how many messages still go there."""

    def __init__(self, count: int | None) -> None:
        self._sink = LineSink(STDOUT)
        self._count = count
        self._cancelled = False
        self.written = 0

    @property
    def left(self) -> int | None:
        """How many messages are still to be written, None for no limit."""
        return None if self._count is None else self._count - self.written

    def room(self, more: int = 0) -> int:
        """How many messages to lease; ``more``: those of them that may turn out to be written already."""
        return self._sink.room if self.left is None else min(self._sink.room, self.left + more)

    async def write(self, bodies: list[bytes]) -> int:
        """Write messages. Returns how many were written whole; the others wait, unless ``check`` raises."""
        job = asyncio.create_task(self._sink.write(bodies))
        try:
            written = await asyncio.shield(job)
        except asyncio.CancelledError:
            # Messages that are written must be acknowledged, or the next reader writes them again.
            self._cancelled = True
            await asyncio.wait([job], timeout=GRACE_S)
            if not job.done():
                raise
            written = job.result()
        self.written += written
        return written

    def check(self) -> None:
        """Raises _OutputLost when the last write was cut short, CancelledError when a signal came meanwhile."""
        if self._cancelled:
            raise asyncio.CancelledError
        if self._sink.error is not None:
            raise _OutputLost from self._sink.error


@click.command()
@click.argument("queue", metavar="QUEUE")
@click.option("--listen", metavar="URL", help="Listen there meanwhile: udp://host:port or tcp://host:port.")
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="End after N messages.")
@click.option("--timeout", type=FloatRange(min=0, min_open=True), metavar="S", help="End when none came for S seconds.")
@click.option(
    "--save",
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="Write the body to this file, or each of several into this folder; for bodies of any size.",
)
@suite_option
@tls_ca_option
@click.option("--create", is_flag=True, help="Make the queue, and the node, if they do not exist; so does --listen.")
@click.option("--name", help="Name of the node; without it, that of the data directory.")
@json_option
@node_options
@own_node
def receive(
    *,
    queue: str,
    listen: str | None,
    count: int | None,
    timeout: float | None,
    save: Path | None,
    create: bool,
    as_json: bool,
    own: OwnNode,
) -> int:
    """Write each message of QUEUE as a line on standard output; it leaves the queue after that.

    A queue or a directory that does not exist is refused, unless --create, or --listen, says that it is to be made.

    Ends with 0 when --count messages were written, or after --timeout seconds without one if there is no --count. If
    another process serves the data directory, its queue is read, and this command writes no message twice even if that
    process is killed and started again meanwhile; if it was another command, which has ended, this one continues
    with its own node. A server that begins meanwhile gets the directory, and its queue is read from then on.

    What was written and not acknowledged when this command, or the process that serves the directory, was killed may be
    written again by the next command, or by another one that reads the queue; --json marks it as "redelivered".

    Into a pipe goes one message at a time, and it leaves the queue when it was read there: `triack receive QUEUE | head
    -1` takes one.

    With --save the body of a message goes to a file, and the line is the name of the file and its size; a message that
    was sent in parts is read in no other way. A folder gets a file for each message, named by its id.

    With --json a line is an object: the body, as "body" when it is UTF-8 and as "body_base64" when it is not, the id,
    the properties, and when it was sent.
    """
    order = _Order(check_name(queue), own, listen, as_json, create or listen is not None)
    if save is not None:
        if as_json:
            raise click.UsageError("--json: with --save, bodies go to files")
        passing = listen is None
        work = save_messages(own.data, order.open, order.queue, save, count=count, timeout=timeout, passing=passing)
        return run(work)
    return run(_receive(order, count, timeout))


async def _receive(order: _Order, count: int | None, timeout: float | None) -> int:
    output = _Output(count)
    try:
        await _transfer(order, output, timeout)
    except WaitTimeout as error:
        gone = ", and the node went away" if isinstance(error, _NodeGone) else ""
        if count is None:
            return 0
        came = f"only {output.written} of {counted(count, 'message')}"
        raise WaitTimeout(f"{came}: none came to queue {order.queue} for {written(timeout or 0)} s{gone}") from None
    except _OutputLost as lost:
        if not isinstance(lost.__cause__, BrokenPipeError):
            raise TriackError(f"write to standard output: {lost.__cause__}") from lost
        return 1
    return 0


async def _transfer(order: _Order, output: _Output, timeout: float | None) -> None:
    async with Succession(order.own.data, order.open, passing=order.listen is None) as succession:
        link = await succession.first()
        if order.listen is not None:
            if succession.own is None:
                await link.close()
                raise UsageError(
                    f"--listen {order.listen}: another process serves {order.own.data}, so leave --listen out"
                )
            click.echo(f"listening {succession.own.address}", err=True)
        await _HandedOver(order, output, timeout, succession).run(link)


def _check_node(data: Path) -> None:
    if (data / STORE_FILE).exists():
        return
    others = [path.name for path in data.parent.glob("*") if (path / STORE_FILE).exists()]
    meant = nearest(data.name, others)
    what = f"did you mean {data.parent / meant}?" if meant else "--create makes one"
    raise UsageError(f"receive from {data}: there is no node in it; {what}")


def _as_json(body: bytes, about: dict[str, Any]) -> bytes:
    try:
        shown = {"body": body.decode()}
    except UnicodeDecodeError:
        shown = {"body_base64": base64.b64encode(body).decode()}
    return json_line(about | shown).encode()


async def _check_queue(client: Client, queue: str) -> None:
    """Raises QueueNotFound when the node has no queue of that name, with what may have been meant."""
    there = await client.queue_lengths()
    if queue not in there:
        raise QueueNotFound(
            f"receive from {queue}: node {client.name} has no such queue; {what_else(queue, there)} (--create makes it)"
        )


def room_for(room: int, in_hand: int) -> int:
    """How many messages to ask for; none when that is less than half of what one answer may have.

    If it asked for room bit by bit, messages would arrive, and be written, bit by bit from then on: what TCP calls the
    silly window syndrome (RFC 9293, section 3.8.6.2).
    """
    free = room - in_hand
    return free if free > min(room, BATCH_MESSAGES) // 2 else 0


@dataclass(frozen=True, slots=True)
class _Batch:
    """Messages that the node has handed out: the number of the first, their ids, and what to write of each."""

    first: int
    ids: list[str]
    bodies: list[bytes]
    sizes: list[int]


class _HandedOver:
    """Receives from the process that has the directory, and from the next one when that process ends.

    A message that was written may be redelivered when the process dies before its acknowledgement is on the disk. The
    ids of those are kept until the process confirms them; ``_doubtful`` are those of earlier connections.
    """

    def __init__(self, order: _Order, output: _Output, timeout: float | None, succession: Succession) -> None:
        self._drawn: deque[_Batch] = deque()
        self._in_hand = 0  # messages
        self._in_hand_bytes = 0
        self._acked = 0  # the last message, by the number that the node has given it
        self._arrived = asyncio.Event()  # something to write, or another reason to look
        self._changed = asyncio.Event()  # there may be room for more
        self._to_confirm = asyncio.Event()
        self._order = order
        self._output = output
        self._timeout = timeout
        self._succession = succession
        self._doubtful: set[str] = set()
        self._unconfirmed: dict[str, int] = {}
        self._idle_since = 0.0
        self._begun = False
        self._ending = False

    async def run(self, link: Link) -> None:
        self._idle_since = asyncio.get_running_loop().time()
        while True:
            client = None
            try:
                client, welcome = await client_on(link, self._order.own.data)
                self._succession.handle_welcome(welcome)
                await self._converse(client)
            except (ConnectionError, NodeClosed, StoreError):
                self._doubtful.update(self._unconfirmed)
                self._unconfirmed.clear()
            except (_OutputLost, asyncio.CancelledError):
                await self._wait_confirmed(client)
                raise
            else:
                break
            finally:
                if client is not None:
                    await client.close()
            link = await self._find_again()
        if self._output.left != 0:
            raise WaitTimeout("no message came")

    async def _wait_confirmed(self, client: Client | None) -> None:
        """Written messages have to leave the queue; a connection that closes immediately may lose its last frames."""
        if client is None or not self._unconfirmed:
            return
        with contextlib.suppress(ConnectionError, TriackError, TimeoutError):
            async with asyncio.timeout(CONFIRM_S):
                await client.flush()
                self._unconfirmed.clear()

    async def _find_again(self) -> Link:
        try:
            async with asyncio.timeout_at(None if self._timeout is None else self._idle_since + self._timeout):
                return await self._succession.next()
        except TimeoutError:
            if self._output.left == 0 or self._ending:
                unsure = counted(len(self._doubtful), "message")
                raise TriackError(f"written, but the node went away; it may hand out {unsure} again") from None
            raise _NodeGone("no message came, and the node went away") from None

    async def _converse(self, client: Client) -> None:
        order = self._order
        if not order.create and not self._begun:
            await _check_queue(client, order.queue)
        how: dict[str, Any] = {
            "redelivery": None,
            "hand_over_timeout": None,
            "name": "triack receive",
            "in_order": True,
        }
        header, _ = await client.call("read", queue=order.queue, **how)
        self._begun = True
        if self._succession.own is None:
            operator_log.info(f"receiving through the process that serves {order.own.data}")
        self._drawn.clear()
        self._to_confirm.clear()
        self._in_hand = self._in_hand_bytes = self._acked = 0
        reader = number_of(header, "reader")
        try:
            await first_of(self._draw(client, reader), self._write(client), self._confirm(client))
        except HandOverEnded:
            why = "what was not acknowledged was taken back"
            raise HandOverEnded(f"receive from {order.queue}: {why}") from None

    async def _draw(self, client: Client, reader: int) -> None:
        wanted: dict[str, Any] = {"reader": reader, "about": self._order.as_json}
        while True:
            while not (most := room_for(self._most, self._in_hand)) or self._in_hand_bytes >= OUT_BYTES:
                self._changed.clear()
                await self._changed.wait()
            try:
                header, body = await client.call("draw", most=most, timeout=0, **wanted)
            except WaitTimeout:
                # A message that was not redelivered was acknowledged for good before the node died.
                self._doubtful.intersection_update(self._unconfirmed)
                self._arrived.set()
                header, body = await client.call("draw", most=most, timeout=None, **wanted)
            bodies = cut(body, header["sizes"])
            if self._order.as_json:
                bodies = [_as_json(*pair) for pair in zip(bodies, header["about"], strict=True)]
            self._drawn.append(_Batch(number_of(header, "message"), header["ids"], bodies, header["sizes"]))
            self._in_hand += len(bodies)
            self._in_hand_bytes += len(body)
            self._arrived.set()

    async def _write(self, client: Client) -> None:
        while not (self._ending and not self._unconfirmed and not self._doubtful):
            if self._drawn:
                await self._handle_batch(client, self._drawn.popleft())
                continue
            self._arrived.clear()
            try:
                async with asyncio.timeout_at(self._deadline()):
                    await self._arrived.wait()
            except TimeoutError:
                if self._ending:
                    return
                self._end()

    async def _confirm(self, client: Client) -> None:
        """An acknowledged message has left the queue for good when the node confirms that."""
        while True:
            await self._to_confirm.wait()
            self._to_confirm.clear()
            number = self._acked
            await client.flush()
            for message_id in [known for known, at in self._unconfirmed.items() if at <= number]:
                del self._unconfirmed[message_id]
                self._doubtful.discard(message_id)
            self._changed.set()
            self._arrived.set()

    @property
    def _most(self) -> int:
        return self._output.room(len(self._doubtful))

    def _end(self) -> None:
        self._ending = True
        self._idle_since = asyncio.get_running_loop().time()

    def _deadline(self) -> float | None:
        if self._ending:
            return self._idle_since + CONFIRM_S
        return None if self._timeout is None else self._idle_since + self._timeout

    async def _handle_batch(self, client: Client, batch: "_Batch") -> None:
        ids, bodies = batch.ids, batch.bodies
        fresh = [at for at, message_id in enumerate(ids) if message_id not in self._doubtful]
        room = 0 if self._ending else self._output.left
        wanted = fresh if room is None else fresh[:room]
        written = done = 0
        while True:
            if wanted:
                written += await self._output.write([bodies[at] for at in wanted[written:]])
            # Everything up to the first new message that was not written.
            taken = fresh[written] if written < len(fresh) else len(ids)
            if written < len(fresh):
                # Old messages never follow a new one.
                self._doubtful.intersection_update({*self._unconfirmed, *ids[:taken]})
            if taken > done:
                self._acknowledge(client, batch, range(done, taken))
            self._output.check()
            done = taken
            if written:
                self._idle_since = asyncio.get_running_loop().time()
            if written == len(wanted):
                break
        if self._output.left == 0 and not self._ending:
            self._end()

    def _acknowledge(self, client: Client, batch: "_Batch", done: range) -> None:
        """These messages of a batch are written. Raises HandOverEnded when they were taken back meanwhile."""
        first, last = batch.first + done[0], batch.first + done[-1]
        self._unconfirmed.update(zip(batch.ids[done[0] : done[-1] + 1], range(first, last + 1), strict=True))
        self._in_hand -= len(done)
        self._in_hand_bytes -= sum(batch.sizes[done[0] : done[-1] + 1])
        client.post("ack", message=first, count=len(done))
        self._acked = last
        self._changed.set()
        self._to_confirm.set()
