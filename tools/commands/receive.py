"""``triack receive``: each message of a queue becomes a line on standard output."""

import asyncio
import base64
import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

import triack
from triack.base.errors import ProtocolError, TriackError, UsageError, WaitTimeout
from triack.base.names import check_name, nearest
from triack.base.printable import counted, written
from triack.base.reasons import DropReason
from triack.node.control.control_frames import VERSION, Header, Link, cut, number_of
from triack.node.files import operator_log
from triack.store.folder import STORE_FILE
from triack.tools.commands.common import (
    FloatRange,
    json_line,
    json_option,
    log_for,
    name_for,
    node_options,
    read_tls,
    run,
    suite_option,
    tls_ca_option,
)
from triack.tools.commands.pipes import LineSink
from triack.tools.commands.succession import Succession

__all__ = ["receive"]

STDOUT = 1
"""The file descriptor, which is written to without Python's buffers: what was written is known."""
CONFIRM_S = 5.0
"""With nothing left to write: how long to wait for the last confirmations."""
GRACE_S = 1.0
"""How long a write that a signal comes upon may still take."""


@dataclass(frozen=True, slots=True)
class _Order:
    """What to receive, and where."""

    queue: str
    data: Path
    listen: str | None
    name: str
    log: Path | None
    insecure: bool
    suite: str
    tls: triack.Tls | None
    as_json: bool = False
    create: bool = False

    def open(self) -> triack.Node:
        if not self.create:
            _check_node(self.data)
        return triack.open(
            self.name,
            data=self.data,
            listen=self.listen,
            log=log_for(self.log, self.data),
            insecure=self.insecure,
            suite=self.suite,
            tls=self.tls,
        )


class _OutputLost(Exception):
    """Standard output takes no more."""


class _NodeGone(WaitTimeout):
    """No message came, because the serving process ended and no other took its place."""


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
        """How many messages to have in hand; ``more`` of them may turn out to be written already."""
        return self._sink.room if self.left is None else min(self._sink.room, self.left + more)

    async def write(self, bodies: list[bytes]) -> int:
        """Write messages.

        Returns:
            How many were written whole; the others are for another call, unless ``check`` says why not.
        """
        job = asyncio.create_task(self._sink.write(bodies))
        try:
            written = await asyncio.shield(job)
        except asyncio.CancelledError:
            # What is written must be acknowledged, or it will be written again by whoever comes next.
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
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="End after so many messages.")
@click.option("--timeout", type=FloatRange(min=0, min_open=True), metavar="S", help="End when none came for S seconds.")
@suite_option
@tls_ca_option
@click.option("--create", is_flag=True, help="Make the queue, and the node, if they do not exist; so does --listen.")
@click.option("--name", help="Name of the node; without it, that of the data directory.")
@json_option
@node_options
def receive(
    *,
    queue: str,
    listen: str | None,
    count: int | None,
    timeout: float | None,
    suite: str,
    tls_ca: Path | None,
    create: bool,
    name: str | None,
    as_json: bool,
    data: Path,
    log: Path | None,
    insecure: bool,
) -> int:
    """Write each message of QUEUE as a line on standard output; it leaves the queue after that.

    A queue or a directory that does not exist is refused, unless --create, or --listen, says that it is to be made.

    Ends with 0 when --count messages were written, or after --timeout seconds without one if there is no --count. If
    another process serves the data directory, its queue is read, and this command writes no message twice even if that
    process is killed and started again meanwhile; if it was another command, which has ended, this one goes on with a
    node of its own. A server that begins meanwhile gets the directory, and its queue is read from then on.

    What was written and not acknowledged when this command, or the process that serves the directory, was killed may be
    written again by the next command, or by another one that reads the queue; --json marks it as "redelivered".

    Into a pipe goes one message at a time, and it leaves the queue when it was read there: `triack receive QUEUE | head
    -1` takes one.

    With --json a line is an object: the body, as "body" when it is UTF-8 and as "body_base64" when it is not, the id,
    the properties, and when it was sent.
    """
    order = _Order(
        check_name(queue),
        data,
        listen,
        name_for(name, data),
        log,
        insecure,
        suite,
        read_tls(authority=tls_ca),
        as_json,
        create or listen is not None,
    )
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
    async with Succession(order.data, order.open, passing=order.listen is None) as succession:
        link = await succession.first()
        if order.listen is not None:
            if succession.own is None:
                await link.close()
                raise UsageError(f"--listen {order.listen}: another process serves {order.data}, so leave --listen out")
            click.echo(f"listening {succession.own.address}", err=True)
        await _HandedOver(order, output, timeout, succession).run(link)


def _check_node(data: Path) -> None:
    """Raises UsageError when there is no node in a directory."""
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


class _HandedOver:
    """Receives from the process that has the directory, and from the next one when that went away.

    A message that was written may come again when the process dies before its acknowledgement is on the disk. The ids
    of those are kept until the process confirms them; ``_doubtful`` are those of earlier connections.
    """

    def __init__(self, order: _Order, output: _Output, timeout: float | None, succession: Succession) -> None:
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
            try:
                await self._converse(link)
            except ConnectionError:
                self._doubtful.update(self._unconfirmed)
                self._unconfirmed.clear()
            except (_OutputLost, asyncio.CancelledError):
                await self._wait_confirmed(link)
                raise
            else:
                break
            finally:
                await link.part()
                await link.close()
            link = await self._find_again()
        if self._output.left != 0:
            raise WaitTimeout("no message came")

    async def _wait_confirmed(self, link: Link) -> None:
        """What was written is to leave the queue; a connection that closes at once may swallow its last words."""
        with contextlib.suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(CONFIRM_S):
                while self._unconfirmed:
                    header, _ = await link.receive()
                    if header["op"] == "confirmed":
                        self._handle_confirmed(number_of(header, "serial"))

    async def _find_again(self) -> Link:
        try:
            async with asyncio.timeout_at(None if self._timeout is None else self._idle_since + self._timeout):
                return await self._succession.next()
        except TimeoutError:
            if self._output.left == 0 or self._ending:
                unsure = counted(len(self._doubtful), "message")
                raise TriackError(f"written, but the node went away; it may hand out {unsure} again") from None
            raise _NodeGone("no message came, and the node went away") from None

    async def _converse(self, link: Link) -> None:
        order, create = self._order, self._order.create or self._begun
        await link.send(
            "hello", v=VERSION, do="receive", queue=order.queue, about=order.as_json, create=create, most=self._most
        )
        welcome, _ = await link.receive()
        if welcome.get("v") != VERSION:
            raise ProtocolError(DropReason.BAD_HELLO, f"the serving process speaks version {welcome.get('v')!r}")
        self._begun = True
        self._succession.handle_welcome(welcome)
        if self._succession.own is None:
            operator_log.info(f"receiving through the process that serves {self._order.data}")
        while not (self._ending and not self._unconfirmed and not self._doubtful):
            try:
                async with asyncio.timeout_at(self._deadline()):
                    header, body = await link.receive()
            except TimeoutError:
                if self._ending:
                    return
                self._end()
                continue
            await self._handle(link, header, body)

    @property
    def _most(self) -> int:
        """How many messages the node may have handed out to us."""
        return self._output.room(len(self._doubtful))

    def _end(self) -> None:
        self._ending = True
        self._idle_since = asyncio.get_running_loop().time()

    def _deadline(self) -> float | None:
        if self._ending:
            return self._idle_since + CONFIRM_S
        return None if self._timeout is None else self._idle_since + self._timeout

    async def _handle(self, link: Link, header: Header, body: bytes) -> None:
        if header["op"] == "messages":
            bodies = cut(body, header["sizes"])
            if self._order.as_json:
                bodies = [_as_json(*pair) for pair in zip(bodies, header["about"], strict=True)]
            await self._handle_messages(link, number_of(header, "serial"), header["ids"], bodies)
        elif header["op"] == "confirmed":
            self._handle_confirmed(number_of(header, "serial"))
        elif header["op"] == "empty":
            # What has not come again was acknowledged for good before the node died.
            self._doubtful.intersection_update(self._unconfirmed)

    def _handle_confirmed(self, serial: int) -> None:
        for message_id in [known for known, at in self._unconfirmed.items() if at <= serial]:
            del self._unconfirmed[message_id]
            self._doubtful.discard(message_id)

    async def _handle_messages(self, link: Link, serial: int, ids: list[str], bodies: list[bytes]) -> None:
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
                # Nothing old comes after something new.
                self._doubtful.intersection_update({*self._unconfirmed, *ids[:taken]})
            self._unconfirmed.update(zip(ids[done:taken], range(serial + done, serial + taken), strict=True))
            if taken > done:
                await link.send("ack", serial=serial + taken - 1, most=self._most)
            self._output.check()
            done = taken
            if written:
                self._idle_since = asyncio.get_running_loop().time()
            if written == len(wanted):
                break
        if self._output.left == 0 and not self._ending:
            self._end()
