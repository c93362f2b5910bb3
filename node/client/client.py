"""A node that runs in another process of this machine: ``triack.connect``.

It has the verbs of ``triack.Node``, with the same names, promises and errors; the node carries them out: see
``triack.node.control.calls``. When that process ends, the client waits for the next one (``Line``), and what it has
given out continues: readers and events begin anew, and calls that may be repeated are repeated. By then its leased
messages are back in their queue, and open transactions are rolled back.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, Self, TypeVar

from triack.base.checks import check_timeout
from triack.base.errors import ConnectionLost, HandOverEnded, NodeClosed, UsageError, WaitTimeout
from triack.node.client.asking import Asking, ask, asked, begin_now, with_rows
from triack.node.client.client_consumer import ClientConsumer, ClientSubscriber
from triack.node.client.client_events import ClientAcknowledgements, ClientEvents, handle
from triack.node.client.client_receipts import ClientReceipt, ClientReceipts
from triack.node.client.client_transaction import ClientTransaction
from triack.node.client.client_uploads import send_whole_or_parts
from triack.node.client.connection import Connection
from triack.node.client.line import LONGEST_PAUSE_S, Line, LineState
from triack.node.control import handover
from triack.node.control.client_messages import frames_of, message_of, name_of
from triack.node.control.control_frames import Header, Link, cut
from triack.node.control.verb_table import VERBS, may_repeat, row_of
from triack.node.handles.acknowledgements import check_events
from triack.node.handles.consumer import check_hand_over, check_reading
from triack.node.handles.consuming import Handlers
from triack.node.handles.derived import Said, as_on
from triack.node.handles.queue_admin import check_after, younger_than
from triack.node.handles.receipt import Waits, check_until
from triack.node.handles.subscribing import Terms, check_subscription
from triack.node.handles.verbs import CommonVerbs, Verbs
from triack.node.shell.enrolling import OpenInvitation
from triack.node.shell.event_loop import check_home
from triack.node.shell.holding import reader_of, works_for
from triack.node.shell.platform import PLATFORM
from triack.queues.manager.browse import BrowsedMessage, Position
from triack.store.folder import as_folder

R = TypeVar("R", bound=Waits)

GOODBYE_S = 2.0
"""How long a client that closes waits for the node to notice: a running node needs milliseconds."""
PATIENCE_S = 60.0
"""How long calls wait by default: as a request does for its answer, and longer than a process takes to restart."""


def connect_to(data: str | Path, *, patience: float | None = PATIENCE_S, start_timeout: float = 0) -> "Client":
    """A client of the node that another process runs on a data directory; begun by ``async with`` or ``await start()``.

    When that process ends, the client looks for the next one until it is closed, and calls wait for it. What the node
    gave out continues: readers and events begin anew, and calls that change nothing, or send with a key, are made
    again. Messages that readers had are redelivered; acknowledging one later raises HandOverEnded. Other calls under
    way raise ConnectionLost, transactions TransactionLost.

    Args:
        data: the node's data directory.
        patience: seconds for which calls wait for the next process. When it has been away for longer, they raise
            NodeClosed immediately, until it is back. None: no limit; 0: calls do not wait.
        start_timeout: seconds for which ``start`` waits for a process to begin with; 0: hardly at all.

    Raises:
        UsageError: that is no path, or no number of seconds.
    """
    check_timeout("connect: patience", patience)
    check_timeout("connect: start_timeout", start_timeout)
    return Client(as_folder("connect: data", data), patience_s=patience, start_timeout_s=start_timeout)


connect = connect_to  # as users call it


async def client_on(link: Link, data: Path) -> tuple["Client", Header]:
    """A client on a connection to the process that serves a data directory, and the welcome of that process.

    It ends with the connection.

    Raises:
        ConnectionError: the connection has ended.
        ProtocolError, TriackError: the process speaks another version, or refuses to serve.
    """
    client = Client(data, reconnects=False)
    await client._begin(link)  # noqa: SLF001 - for commands, which find their connections themselves
    return client, client._welcome  # noqa: SLF001


@with_rows
class Client(CommonVerbs, Asking):
    """A node in another process. Make it with ``triack.connect``.

    Each call raises NodeClosed before the start and after the end, and StoreFailed if the store of the node has failed.
    """

    def __init__(
        self, data: Path, *, patience_s: float | None = 0, start_timeout_s: float = 0, reconnects: bool = True
    ) -> None:
        self._data = data
        self._start_timeout_s = start_timeout_s
        self._whose = f"the node of {data}"
        self._line = Line(self._whose, partial(handover.attempt, data) if reconnects else None, patience_s)
        self._home: asyncio.AbstractEventLoop | None = None
        self._handling = Handlers(self, self._line.is_back)
        # Ends the client after a handler that has asked for that.
        self._closing: asyncio.Task[None] | None = None
        # The connection on which the node first accepted something that may not be on its disk.
        self._accepted_on: int | None = None

    def __repr__(self) -> str:
        return f"<Client of node {self.name}>" if self.name else f"<Client of {self._whose}, not connected>"

    # ---- life

    async def start(self) -> Self:
        """Find the process. ``async with`` calls it.

        Returns:
            The client itself.

        Raises:
            NodeClosed: no process runs a node there, or none began to in ``start_timeout``.
            UsageError: it was started before, and has not ended; or this platform has no control sockets.
        """
        if self._line.state not in (LineState.NEW, LineState.CLOSED):
            raise UsageError(f"start the client of {self._data}: it is connected already")
        if not PLATFORM.get().control_sockets:
            raise UsageError(f"connect to {self._whose}: nodes have no sockets for other processes on Windows")
        self._home = asyncio.get_running_loop()
        end = self._home.time() + self._start_timeout_s
        self._line.start()
        try:
            while True:
                try:
                    await self._line.open(await _find(self._data, self._whose))
                except NodeClosed:
                    if self._home.time() >= end:
                        raise
                except ConnectionError as cause:
                    if self._home.time() >= end:
                        why = "it has just ended, can open nothing more, or does not serve the user of this process"
                        raise NodeClosed(f"connect to {self._whose}: {why}") from cause
                else:
                    self._handling.start()
                    return self
                await asyncio.sleep(LONGEST_PAUSE_S)
        except BaseException:
            self._line.refuse()
            raise

    async def _begin(self, link: Link) -> None:
        """Use the node at the other end of a connection. Raises as ``greet``; then it closes the connection."""
        self._home = asyncio.get_running_loop()
        self._line.start()
        try:
            await self._line.open(link)
        except BaseException:
            self._line.refuse()
            raise

    async def close(self) -> None:
        """End the connection once running handlers have ended; the node continues. A second call does nothing.

        A call in a handler of this client returns immediately, and the connection ends when the handler has returned.
        """
        if works_for(self):
            if self._closing is None or self._closing.done():
                self._closing = asyncio.create_task(self._close(), name="triack-close")
            return
        if self._closing is not None:
            await self._closing
        await self._close()

    async def _close(self) -> None:
        await self._handling.stop()
        await self._line.close(GOODBYE_S)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def _welcome(self) -> Header:
        """The welcome of the process that runs the node, or ran it last."""
        return {} if self._line.connection is None else self._line.connection.welcome

    @property
    def name(self) -> str:
        """The node's name."""
        return str(self._welcome.get("name", ""))

    @property
    def address(self) -> str:
        """Where it listens; empty if it does not."""
        return str(self._welcome.get("address", ""))

    @property
    def node_id(self) -> str:
        """32 hex digits that name the node permanently."""
        return str(self._welcome.get("node_id", ""))

    # ---- calls

    async def call(
        self, do: str, body: bytes = b"", *, epoch: int | None = None, **fields: Any
    ) -> tuple[Header, bytes]:
        """Have the node do something, and wait until it is done; for the parts of a client.

        Without a connection it waits for one. A call that may be repeated is made again on the next connection.

        Raises:
            ConnectionLost: the process ended before it answered; or the connection of ``epoch`` has ended.
            NodeClosed: the process has been away for too long, or this client is closed.
            HandOverEnded: an earlier acknowledgement came too late; this call does nothing.
            UsageError: an argument has a wrong type.
            TriackError: the error of the call at the node, in its own class.
        """
        if epoch is None:
            self._line.check()
        check_home(f"the client of {self._data}", self._home)
        if why := VERBS[do].misfit(fields):
            raise UsageError(f"{VERBS[do].method or do}: {why}")
        while True:
            connection = await self._connection(do, epoch)
            try:
                answer = await connection.ask(do, body, fields)
            except ConnectionLost as lost:
                if not self._line.reconnects:
                    raise NodeClosed(f"{self._whose} has ended") from None
                if epoch is not None or (lost.maybe_done and not may_repeat(do, fields)):
                    raise
                await self._line.left(connection)
            else:
                return answer

    async def _connection(self, do: str, epoch: int | None) -> Connection:
        if epoch is None:
            return await self._line.opened()
        if self._line.epoch != epoch or self._line.connection is None:
            if self._line.state in (LineState.NEW, LineState.CLOSED) or not self._line.reconnects:
                self._line.check()  # there will be no other connection
            raise ConnectionLost(f"{do}: {self._whose} went away, and with it what this is about", maybe_done=False)
        return self._line.connection

    def post(self, op: str, *, epoch: int | None = None, **fields: Any) -> None:
        """Send the node a notice, for the parts of a client; does nothing after the end, which gives all back.

        Raises HandOverEnded: an acknowledged message was taken back, or its connection was lost; other messages are
        done.
        """
        connection = self._line.connection
        if self._line.state is LineState.CLOSED or connection is None:
            return
        check_home(f"the client of {self._data}", self._home)
        if epoch is not None and epoch != self._line.epoch:
            if op == "ack":
                raise HandOverEnded(
                    f"{self._whose} went away while this message was being worked on: it will be handed out again, and "
                    "this does not acknowledge it"
                )
            return
        if op == "ack":
            self._accepted_on = self._accepted_on or connection.epoch
        connection.post(op, **fields)

    async def connected(self, end: float | None = None, *, patient: bool = False) -> int:
        """Wait for a connection, for the parts of a client. Returns its epoch."""
        return (await self._line.opened(end, patient=patient)).epoch

    async def lost(self, epoch: int) -> None:
        """Wait until that connection has ended, for the parts of a client."""
        connection = self._line.connection
        if connection is not None and connection.epoch == epoch:
            await self._line.left(connection)

    _call = call

    @property
    def _port(self) -> NoReturn:
        raise AssertionError("a client reaches no engine: each of its verbs has a row, or is written over others")

    # ---- what may not be on the node's disk

    async def _when_reached(self, receipts: R, header: Header, said: Said, *, keyed: bool) -> R | None:
        """The same receipts once their messages have reached ``until``; None: they were lost, and must be sent again.

        Without a key, and if this waited for no stage or in vain, the messages may not be on the disk.
        """
        until = said["until"]
        try:
            if until is not None:
                await receipts.reached(until, said["timeout"])
                return receipts
        except BaseException as error:
            if keyed and isinstance(error, ConnectionLost):
                return None
            self._accepted_on = self._accepted_on or header["epoch"]
            raise
        self._accepted_on = self._accepted_on or header["epoch"]
        return receipts

    async def _when_safe(self, declared: Callable[..., Any], said: Said) -> None:
        """Have the process that has accepted something from this client make it safe, and wait until it has.

        Raises ConnectionLost: a process that has ended had accepted some of it, which may be lost.
        """
        what, (_, fields) = declared.__name__, row_of(declared).write(said)
        while True:
            epoch = await self.connected()
            before, self._accepted_on = self._accepted_on, None
            if before is not None and before != epoch:
                why = "what it had accepted from this client may not be on its disk"
                raise ConnectionLost(f"{what}: {self._whose} went away meanwhile, and {why}", maybe_done=True)
            try:
                await self.call(what, epoch=epoch, **fields)
            except ConnectionLost as lost:
                if before is not None or lost.maybe_done:
                    raise
                await self.lost(epoch)
            except (WaitTimeout, asyncio.CancelledError):
                self._accepted_on = self._accepted_on if before is None else before
                raise
            else:
                return

    # ---- the verbs of a node

    events = asked(Verbs.events, lambda self, header, _: ClientEvents(self, header, partial(self.call, "events")))
    recall = asked(Verbs.recall)
    request = asked(Verbs.request, lambda self, header, content: message_of(header, content, lambda *_: None, self))
    key = asked(Verbs.key)
    invite = asked(Verbs.invite, lambda self, header, _: ClientInvitation(self, header))
    queue_lengths = asked(Verbs.queue_lengths)
    stats = asked(Verbs.stats)
    streams = asked(Verbs.streams)
    routes = asked(Verbs.routes)
    reload = asked(Verbs.reload)

    @as_on(Verbs.send)
    async def send(self, said: Said) -> ClientReceipt:
        """Let the node accept a message, and wait by its receipt; one with a key is sent again after a loss."""
        name_of(said["destination"], said["delivery"])
        check_until(said["until"], said["delivery"], said["timeout"])
        header, _ = await ask(self, Verbs.send, said)
        keyed = said["properties"].get("key") is not None
        receipt = await self._when_reached(ClientReceipt(self, header), header, said, keyed=keyed)
        return receipt or await self.send(said["destination"], said["body"], **_again(said))

    @as_on(Verbs.send_stream)
    async def send_stream(self, said: Said) -> ClientReceipt:
        """Give the node the body a piece at a time; a loss of the connection ends it, and frees what had arrived."""
        until, timeout = said["until"], said["timeout"]
        check_until(until, said["delivery"], timeout)

        async def send_whole(body: bytes) -> ClientReceipt:
            return await self.send(said["destination"], body, delivery=said["delivery"], **said["properties"])

        async def end(_begun: Header, call: Callable[..., Awaitable[Header]]) -> ClientReceipt:
            return ClientReceipt(self, await call("upload_end", transaction=None))

        receipt = await send_whole_or_parts(self, said, send_whole, end)
        if until is not None:
            await receipt.reached(until, timeout)
        return receipt

    @as_on(Verbs.send_many)
    async def send_many(self, said: Said) -> ClientReceipts:
        """Let the node accept messages by the frame, and wait by their receipts; after a loss, resend keyed ones."""
        name_of(said["destination"], said["delivery"])
        check_until(said["until"], said["delivery"], said["timeout"])
        frames = frames_of(said["destination"], said["bodies"], said["keys"], said["each"])
        headers = [(await ask(self, Verbs.send_many, {**said, **frame}))[0] for frame in frames]
        keyed = said["keys"] is not None
        receipts = await self._when_reached(ClientReceipts(self, headers), headers[0], said, keyed=keyed)
        if receipts is not None:
            return receipts
        whole: dict[str, Any] = {name: [one for frame in frames for one in frame[name]] for name in frames[0]}
        return await self.send_many(said["destination"], **_again(said), **whole)

    @as_on(Verbs.flush)
    async def flush(self, said: Said) -> None:
        """Wait for the node, unless a process that has ended had accepted something before."""
        await self._when_safe(Verbs.flush, said)

    @as_on(Verbs.drain)
    async def drain(self, said: Said) -> None:
        """As ``flush``."""
        await self._when_safe(Verbs.drain, said)

    @as_on(Verbs.acknowledgements)
    async def acknowledgements(self, said: Said) -> ClientAcknowledgements:
        """Call a handler in this process, until the client is closed or the node ends."""
        check_events(said["destination"], said["delivery"], said["every"], said["handler"], said["priority"])
        header, _ = await ask(self, Verbs.acknowledgements, said)
        events = ClientAcknowledgements(self, header, partial(ask, self, Verbs.acknowledgements, said))
        if said["handler"] is not None:
            begin_now(handle(self, events, said["destination"], said["handler"]))
        return events

    @as_on(Verbs.transaction)
    def transaction(self, _said: Said) -> ClientTransaction:
        """Return a transaction, which begins with its first call."""
        self._line.check()
        return ClientTransaction(self)

    @as_on(Verbs.receive)
    def receive(self, said: Said) -> ClientConsumer:
        """Return a reader, which begins with the first request for a message."""
        queue, ack, redelivery = said["queue"], said["ack"], said["redelivery"]
        check_reading(f"receive from {queue}", ack, redelivery)
        check_hand_over(queue, said["hand_over_timeout"])
        reader_of(queue, said["name"])
        self._line.check()
        hand_over_timeout, name = said["hand_over_timeout"], said["name"]
        return ClientConsumer(
            self, queue, redelivery, auto=ack == "auto", hand_over_timeout=hand_over_timeout, name=name
        )

    @as_on(Verbs.subscribe)
    def subscribe(self, said: Said) -> ClientSubscriber:
        """Return a subscription, which begins with ``async with`` or the first request for a message."""
        pattern, ack, name = said["pattern"], said["ack"], said["name"]
        terms = Terms(*(said[name] for name in Terms._fields))
        check_subscription(pattern, terms)
        check_reading(f"subscribe to {pattern}", ack, said["redelivery"])
        reader_of(pattern, name)
        self._line.check()
        about = {**terms._asdict(), "delivery": name_of(pattern, terms.delivery)}
        return ClientSubscriber(self, pattern, said["redelivery"], auto=ack == "auto", name=name, **about)

    unsubscribe = asked(Verbs.unsubscribe)

    @as_on(Verbs.browse)
    async def browse(self, said: Said) -> AsyncIterator[BrowsedMessage]:
        """Ask for one page after the other."""
        after = said["after"]
        check_after(said["queue"], after)
        last: Position = ()
        epoch: int | None = None  # places in a queue are those of one life of the node
        while True:
            header, content = await self.call("browse", epoch=epoch, queue=said["queue"], after=last)
            epoch = header["epoch"]
            page = zip(header["page"], cut(content, header["sizes"]), strict=True)
            messages = [BrowsedMessage.read(described, body) for described, body in page]
            if not messages:
                return
            for message in younger_than(after, messages):
                yield message
            last = messages[-1].position


class ClientInvitation(Asking):
    """A one-time code that the node has given out; see ``OpenInvitation``."""

    __slots__ = ("_client", "_epoch", "_number", "code")

    def __init__(self, client: Client, header: Header) -> None:
        self.code = str(header["code"])
        self._client = client
        self._epoch = header["epoch"]
        self._number = header["invitation"]

    async def _call(self, do: str, body: bytes = b"", **fields: Any) -> tuple[Header, bytes]:
        return await self._client.call(do, body, epoch=self._epoch, invitation=self._number, **fields)

    enrolled = asked(OpenInvitation.enrolled)

    @as_on(OpenInvitation.withdraw)
    def withdraw(self, said: Said) -> Awaitable[None]:
        """Withdraw it, even if the caller does not wait."""
        return begin_now(self._withdraw(said))

    async def _withdraw(self, said: Said) -> None:
        await ask(self, OpenInvitation.withdraw, said)


async def _find(data: Path, whose: str) -> Link:
    refused: list[str] = []
    link = await handover.find(data, refused.append)
    if link is None:
        why = "no process runs one there"
        raise NodeClosed(f"connect to {whose}: {'; '.join([why, *refused])}")
    return link


def _again(said: Said) -> dict[str, Any]:
    """The arguments by name to send once more, as a receipt was lost with the node."""
    return {name: said[name] for name in ("delivery", "until", "timeout")} | dict(said["properties"])
