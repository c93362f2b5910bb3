"""``triack send``: each line of standard input, or each file, becomes a message."""

import asyncio
import contextlib
import json
import uuid
from collections import deque
from dataclasses import dataclass
from pathlib import Path

import click

import triack
from triack.base.delivery import PRIORITY_MAX, check_priority
from triack.base.errors import NodeClosed, StoreError, TriackError
from triack.base.printable import written
from triack.node.client.client import Client, client_on
from triack.node.control.control_frames import Link, number_of
from triack.node.control.intake import Chunk
from triack.node.control.tasks import first_of
from triack.node.files import operator_log
from triack.node.shell.outgoing_message import MessageProperties, with_properties
from triack.queues.messages import MAX_BODY_BYTES
from triack.queues.stages import LAST_STAGES, STAGES
from triack.tools.commands.common import (
    FloatRange,
    json_option,
    node_options,
    peer_option,
    read_pairs,
    read_peers,
    run,
    suite_option,
    tls_ca_option,
)
from triack.tools.commands.large import has_large, stream_files
from triack.tools.commands.pipes import FileSource, LineSource
from triack.tools.commands.succession import OwnNode, Succession, own_node
from triack.tools.commands.tally import Tally
from triack.transport.address import Destination

STDIN = 0
UNSAFE_CHUNKS = 8
"""Chunks not yet durable at the serving node; at this many it stops reading, as it keeps them."""
LOST = "the connection to the node that serves the directory was lost, and express messages are not sent twice"
"""The error for express lines that a node accepted before it ended."""
GRACE_S = 1.0
EXIT_LATE = 3
"""All is stored, but not at the stage yet. Not 75 (EX_TEMPFAIL of sysexits), as that asks for another try."""


@dataclass(frozen=True, slots=True)
class _Order:
    """What to send, and from where."""

    destination: str
    delivery: triack.Delivery
    until: triack.Stage
    own: OwnNode
    files: list[Path]
    properties: MessageProperties

    @property
    def durable(self) -> bool:
        return self.delivery is not triack.EXPRESS

    def source(self) -> LineSource | FileSource:
        return FileSource(self.files, MAX_BODY_BYTES) if self.files else LineSource(STDIN, MAX_BODY_BYTES)

    def tally(self) -> Tally:
        return Tally(self.until, "file" if self.files else "line")


@click.command()
@click.argument("destination", metavar="DEST")
@click.option(
    "--file",
    "files",
    multiple=True,
    metavar="PATH",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    help="Send this file as one message, - for standard input; may be repeated.",
)
@click.option(
    "--class",
    "class_name",
    type=click.Choice([member.label for member in triack.Delivery]),
    default=triack.TRANSACTIONAL.label,
    show_default=True,
    help="Delivery class of the messages.",
)
@click.option(
    "--until",
    "stage_name",
    type=click.Choice([stage.name.lower() for stage in triack.Stage]),
    help="The stage to wait for; without it, the last one that the class has.",
)
@click.option("--timeout", type=FloatRange(min=0, min_open=True), metavar="S", help="Give up after S seconds.")
@click.option("--label", metavar="TEXT", help="A label for people.")
@click.option("--ttl", type=FloatRange(min=0, min_open=True), metavar="S", help="To be received in S seconds.")
@click.option("--dead-letter", metavar="QUEUE", help="The queue for undeliverable messages; none: none.")
@click.option("--admin-queue", metavar="QUEUE", help="The queue of the node for administration messages.")
@click.option(
    "--acks",
    "acks_name",
    type=click.Choice([it.lower().replace("_", "-") for it in triack.Acks.__members__ if it != "NONE"]),
    help="Which of them.",
)
@click.option("--reply-to", metavar="DEST", help="Where replies should go.")
@click.option(
    "--key",
    metavar="TEXT",
    help="Accept the input once: sent again with the same key, it is what was sent before. Line N has the key TEXT:N.",
)
@click.option(
    "--priority",
    type=click.IntRange(0, PRIORITY_MAX),
    metavar="N",
    help="0 to 7; higher ones are read first. Without it, 3; transactional messages always have 0.",
)
@click.option("--journal", is_flag=True, help="Keep a copy of each message in the journal, $journal, once it arrived.")
@click.option("--seal", is_flag=True, help="Seal for DEST: no node on the way can read it.")
@click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header; may be repeated.")
@peer_option
@suite_option
@tls_ca_option
@click.option("--name", help="Name of the node; without it, that of the data directory.")
@json_option
@node_options
@own_node
def send(
    *,
    destination: str,
    files: tuple[Path, ...],
    class_name: str,
    stage_name: str | None,
    timeout: float | None,
    label: str | None,
    ttl: float | None,
    dead_letter: str | None,
    admin_queue: str | None,
    acks_name: str | None,
    reply_to: str | None,
    key: str | None,
    priority: int | None,
    journal: bool,
    seal: bool,
    headers: tuple[str, ...],
    peers: tuple[str, ...],
    as_json: bool,
    own: OwnNode,
) -> int:
    """Send each line of standard input, without its newline, as a message to DEST, such as plant-b/orders.

    The options about messages hold for each of them. If another process serves the data directory, the lines go through
    it, once each even if that process is killed and started again meanwhile; it has its own settings. If that was
    another command, which has ended, this one continues with its own node. A server that begins meanwhile gets the
    directory, and the other lines go through it; only express lines end first.

    Ends with 0 when every line has come as far as --until says; otherwise it tells which lines have not, and why. It
    ends with 3 when all of them are on the disk of the node by then: do not send them again; the command says
    what they wait for. It ends with 1 when some were not accepted, or will never arrive. With a --key a command can
    be repeated without a look: for a day, the node accepts nothing again that it accepted with that key.

    A --file of any size is one message. If one is over 4 MiB, no --key can be given.
    """
    delivery = triack.Delivery[class_name.upper()]
    _check_key(delivery, key)
    destination = _resolve(destination, read_peers(peers))
    properties = MessageProperties(
        label=label,
        time_to_be_received=ttl,
        reply_to=reply_to,
        dead_letter=False if dead_letter == "none" else dead_letter,
        admin_queue=admin_queue,
        acks=None if acks_name is None else triack.Acks[acks_name.upper().replace("-", "_")],
        headers=read_pairs("--header", headers) or None,
        key=key,
        priority=priority,
        journal=journal or None,
        seal=seal or None,
    )
    check_priority(destination, delivery, priority)
    with_properties(destination, b"", properties, 0)  # refuse what cannot be sent before anything is read
    order = _Order(destination, delivery, _stage_of(delivery, stage_name), own, list(files), properties)
    return run((_send_large if has_large(files) else _send)(order, timeout, as_json=as_json))


def _check_key(delivery: triack.Delivery, key: str | None) -> None:
    if key is not None and delivery is triack.EXPRESS:
        raise click.UsageError("--key: express messages are on no disk, and neither are keys")


def _stage_of(delivery: triack.Delivery, name: str | None) -> triack.Stage:
    """The stage to wait for. Raises UsageError when the class has no such stage."""
    until = STAGES[delivery] if name is None else triack.Stage[name.upper()]
    if until > LAST_STAGES[delivery]:
        raise click.UsageError(f"--until {name}: {delivery.label} messages have no such stage")
    return until


def _resolve(destination: str, peers: dict[str, str]) -> str:
    parsed = Destination.parse(destination)
    return f"{peers[parsed.peer]}/{parsed.queue}" if parsed.peer in peers else destination


async def _send_large(order: _Order, timeout: float | None, *, as_json: bool) -> int:
    if as_json:
        raise click.UsageError("--json: files over 4 MiB are sent one by one, and nothing is counted")
    return await stream_files(
        order.own.data,
        order.own.open,
        order.destination,
        order.files,
        delivery=order.delivery,
        until=order.until,
        timeout=timeout,
        properties=order.properties,
    )


async def _send(order: _Order, timeout: float | None, *, as_json: bool = False) -> int:
    tally = order.tally()
    why = "interrupted"
    try:
        await _transfer(order, tally, timeout)
    except TimeoutError:
        why = f"not after {written(timeout or 0)} s"
    except TriackError as error:
        if not tally.read:
            raise
        why = str(error)
    finally:
        problems = tally.problems(why, MAX_BODY_BYTES)
        for problem in problems if tally.read or tally.ended or why.startswith("not after") else ():
            click.echo(f"triack: {problem}", err=True)
    if as_json:
        click.echo(json.dumps(tally.to_json()))
    return EXIT_LATE if tally.only_late else int(bool(problems))


async def _transfer(order: _Order, tally: Tally, timeout: float | None) -> None:
    """Send, with a timeout that does not include opening and closing the command's node."""
    async with Succession(order.own.data, order.own.open, gives_way=order.durable) as succession:
        link = await succession.first()
        async with asyncio.timeout(timeout):
            await _HandedOver(order, tally, succession).run(link)


class _HandedOver:
    """Sends through the process that has the directory, and through the next one when that process ends."""

    def __init__(self, order: _Order, tally: Tally, succession: Succession) -> None:
        self._order = order
        self._tally = tally
        self._succession = succession
        self._name = uuid.uuid4().hex
        self._producer = 0  # what the node calls it, by its present connection
        self._source = order.source()
        self._unsafe: deque[Chunk] = deque()
        self._safe = 0
        self._changed = asyncio.Event()
        self._offers: deque[asyncio.Task[None]] = deque()  # in the order of the chunks
        self._offered = asyncio.Event()
        self._greeted = False

    async def run(self, link: Link) -> None:
        while True:
            client = None
            try:
                client = await self._begin(link)
                await self._converse(client)
            except (ConnectionError, NodeClosed, StoreError):
                await self._succession.check()
                if not self._order.durable:
                    raise TriackError(LOST) from None
            except (asyncio.CancelledError, TriackError):
                await _hang_up(client)
                await self._take_leave()
                raise
            else:
                return
            finally:
                await _hang_up(client)
            link = await self._succession.next()

    async def _begin(self, link: Link) -> Client:
        client, welcome = await client_on(link, self._order.own.data)
        self._succession.handle_welcome(welcome)
        return client

    async def _converse(self, client: Client) -> None:
        accepted = await self._greet(client)
        if accepted < self._safe:
            if self._tally.done.is_set():
                return  # it got the request to forget, and died before it could answer
            self._tally.stored = accepted
            lost = f"lines {accepted + 1}-{self._safe}"
            raise TriackError(f"the node of {self._order.own.data} has lost {lost}: it is not the same store")
        self._handle_safe(accepted)
        if self._succession.own is None:
            operator_log.info(
                f"sending through the process that serves {self._order.own.data}, from line {accepted + 1} on"
            )
        try:
            await first_of(self._feed(client), self._await_taken(), self._follow(client))
        finally:
            for offered in self._offers:
                offered.cancel()
            await asyncio.gather(*self._offers, return_exceptions=True)
            self._offers.clear()

    async def _greet(self, client: Client) -> int:
        """Introduce this producer; returns how many of its lines are safe."""
        order = self._order
        header, _ = await client.call(
            "produce",
            name=self._name,
            destination=order.destination,
            finished=self._tally.finished,
            delivery=order.delivery.name,
            until=order.until.name,
            properties=order.properties,
        )
        self._greeted = True
        self._producer = number_of(header, "producer")
        return number_of(header, "accepted")

    async def _take_leave(self) -> None:
        """After a break: learn what is safe by now, to report it, and let the node forget this producer."""
        if not self._greeted or not self._order.durable:
            return
        with contextlib.suppress(OSError, TriackError):
            async with asyncio.timeout(GRACE_S):
                client = await self._begin(await self._succession.again())
                try:
                    accepted = await self._greet(client)
                    if accepted >= self._safe:  # or it is another store
                        self._handle_safe(accepted)
                    await self._forget(client)
                finally:
                    await client.close()

    async def _feed(self, client: Client) -> None:
        for chunk in list(self._unsafe):
            self._offer(client, chunk)
        while not self._tally.ended:
            item = await self._source.next()
            self._tally.handle_input(item)
            if isinstance(item, Chunk):
                self._unsafe.append(item)
                self._offer(client, item)
            while len(self._unsafe) >= UNSAFE_CHUNKS:
                self._changed.clear()
                await self._changed.wait()
        await self._tally.done.wait()
        await self._forget(client)

    def _offer(self, client: Client, chunk: Chunk) -> None:
        self._offers.append(asyncio.create_task(self._hand_over(client, chunk), name="triack-send"))
        self._offered.set()

    async def _hand_over(self, client: Client, chunk: Chunk) -> None:
        sizes = [len(line) for line in chunk.lines]
        await client.call("take", b"".join(chunk.lines), producer=self._producer, first=chunk.first, sizes=sizes)
        self._handle_safe(chunk.last)

    async def _await_taken(self) -> None:
        while True:
            while not self._offers:
                self._offered.clear()
                await self._offered.wait()
            await asyncio.shield(self._offers[0])
            self._offers.popleft()

    async def _follow(self, client: Client) -> None:
        while True:
            header, _ = await client.call("progress", producer=self._producer)
            last = number_of(header, "last")
            self._handle_safe(last)
            failures = [(int(first), int(end), str(reason)) for first, end, reason in header["failures"]]
            self._tally.handle_finished(last, failures)

    async def _forget(self, client: Client) -> None:
        header, _ = await client.call("forget", producer=self._producer)
        self._tally.waits_for = str(header.get("waits_for") or "")

    def _handle_safe(self, last: int) -> None:
        self._safe = max(self._safe, last)
        if self._order.durable:
            self._tally.handle_stored(self._safe)
        while self._unsafe and self._unsafe[0].last <= last:
            self._unsafe.popleft()
        self._changed.set()


async def _hang_up(client: Client | None) -> None:
    if client is not None:
        await client.close()
