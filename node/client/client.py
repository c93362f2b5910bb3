"""A node that runs in another process of this machine: ``triack.connect``.

It has the verbs of ``triack.Node``, with the same names, promises and errors; the node carries them out: see
``triack.node.control.calls``. When that process ends, every call raises NodeClosed; by then the messages of open
readers are given back, and open transactions are rolled back.
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from triack.base import errors
from triack.base.checks import check_kind, check_timeout
from triack.base.errors import HandOverEnded, NodeClosed, ProtocolError, TriackError, UsageError
from triack.base.reasons import DropReason
from triack.node.client.asking import Asking, ask, asked
from triack.node.client.at_once import begin_now
from triack.node.client.client_acknowledgements import ClientAcknowledgements, check_acknowledgements, handle
from triack.node.client.client_consumer import ClientConsumer
from triack.node.client.client_events import ClientEvents
from triack.node.client.client_receipts import ClientReceipt, ClientReceipts, check_until, when_reached
from triack.node.client.client_transaction import ClientTransaction
from triack.node.control import handover
from triack.node.control.client_messages import ClientHolder, frames_of, message_of, name_of
from triack.node.control.control_frames import CALLS_MAX, Header, Link, check_sayable, cut, greet
from triack.node.control.told import read_peer
from triack.node.handles.consumer import check_hand_over
from triack.node.handles.derived import Said, as_on
from triack.node.handles.message import way_back
from triack.node.handles.verbs import Verbs
from triack.node.shell.enrolling import EnrolledPeer, OpenInvitation
from triack.node.shell.event_loop import check_home
from triack.node.shell.holding import reader_of
from triack.node.shell.platform import PLATFORM
from triack.queues.manager.browse import BrowsedMessage, Position
from triack.queues.node_settings import Redelivery
from triack.store.folder import as_folder

__all__ = ["Client", "ClientInvitation", "client_on", "connect_to"]

GOODBYE_S = 2.0
"""How long a client that closes waits for the node to notice: a running node does in milliseconds."""


def connect_to(data: str | Path) -> "Client":
    """A client of the node that another process runs on a data directory; begun by ``async with`` or ``await start()``.

    Args:
        data: the node's data directory.

    Raises:
        UsageError: that is no path.
    """
    return Client(as_folder("connect: data", data))


async def client_on(link: Link, data: Path) -> tuple["Client", Header]:
    """A client on a connection to the process that serves a data directory, and the welcome of that process.

    Raises:
        ConnectionError: the connection has ended.
        ProtocolError, TriackError: the process speaks another version, or refuses to serve.
    """
    client = Client(data)
    await client._begin(link)  # noqa: SLF001 - for commands, which find their connections themselves
    return client, client._welcome  # noqa: SLF001


class Client(Asking):
    """A node in another process. Make it with ``triack.connect``."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._link: Link | None = None
        self._home: asyncio.AbstractEventLoop | None = None
        self._hearing: asyncio.Task[None] | None = None
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[tuple[Header, bytes]]] = {}
        self._parts: dict[int, list[bytes]] = {}  # of answers that are not complete
        self._free = asyncio.Semaphore(CALLS_MAX)
        self._welcome: Header = {}
        self._handlers: set[asyncio.Task[None]] = set()
        # Why messages in its hands were taken back, by number.
        self._taken_back: dict[int, str] = {}
        # The error of an acknowledgement that came too late, for the next call to raise.
        self._late: HandOverEnded | None = None

    def __repr__(self) -> str:
        return f"<Client of node {self.name}>" if self.name else f"<Client of the node of {self._data}, not connected>"

    # ---- life

    async def start(self) -> Self:
        """Find the process. ``async with`` calls it.

        Returns:
            The client itself.

        Raises:
            NodeClosed: no process runs a node there.
            UsageError: it was started before, and has not ended; or this platform has no control sockets.
        """
        if self._link is not None:
            raise UsageError(f"start the client of {self._data}: it is connected already")
        if not PLATFORM.get().control_sockets:
            why = "nodes have no sockets for other processes in a simulated world, nor on Windows"
            raise UsageError(f"connect to the node of {self._data}: {why}")
        refused: list[str] = []
        link = await handover.find(self._data, refused.append)
        if link is None:
            why = "no process runs one there"
            raise NodeClosed(f"connect to the node of {self._data}: {'; '.join([why, *refused])}")
        try:
            await self._begin(link)
        except ConnectionError as cause:
            why = "it has just ended, can open nothing more, or does not serve the user that this process runs as"
            raise NodeClosed(f"connect to the node of {self._data}: {why}") from cause
        return self

    async def _begin(self, link: Link) -> None:
        """Use the node at the other end of a connection. Raises as ``greet``, and closes it then."""
        try:
            self._welcome = await greet(link)
        except BaseException:
            await link.close()
            raise
        self._link = link
        self._home = asyncio.get_running_loop()
        self._hearing = asyncio.create_task(self._hear(link), name="triack-client")

    async def close(self) -> None:
        """End the connection; the node goes on. A second call does nothing."""
        if self._hearing is not None:
            if self._link is not None and not self._hearing.done():
                self._link.post("bye")  # the node then closes, and takes no reader for dead
                await asyncio.wait([self._hearing], timeout=GOODBYE_S)
            self._hearing.cancel()
            await asyncio.gather(self._hearing, return_exceptions=True)
        link, self._link = self._link, None
        if link is not None:  # the task that hears it had no turn yet, and has not closed it
            await link.close()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def name(self) -> str:
        """The node's name."""
        return str(self._welcome.get("name", ""))

    @property
    def address(self) -> str:
        """Where it listens; empty when it does not."""
        return str(self._welcome.get("address", ""))

    @property
    def node_id(self) -> str:
        """32 hex digits that name the node permanently."""
        return str(self._welcome.get("node_id", ""))

    # ---- calls

    async def _hear(self, link: Link) -> None:
        ended: TriackError = NodeClosed(f"the node of {self._data} has ended")
        try:
            while True:
                header, body = await link.receive()
                if self._is_aside(header, body):
                    continue
                waiting = self._waiting.pop(header["n"], None)
                body = b"".join([*self._parts.pop(header["n"], ()), body])
                if waiting is not None and not waiting.done():
                    waiting.set_result((header, body))
                else:
                    _refuse(link, header)
        except asyncio.CancelledError:
            ended = NodeClosed(f"the client of {self._data} is closed")
            link.post("bye")
        except TriackError as error:
            ended = error
        except OSError:
            pass
        finally:
            self._link = None
            await link.close()
            waiting_now, self._waiting = self._waiting, {}
            for future in waiting_now.values():
                if not future.done():
                    future.set_exception(ended)
                    future.exception()  # there may be no waiter left

    def _is_aside(self, header: Header, body: bytes) -> bool:
        """Take a frame that does not end an answer. Returns whether it is such a frame."""
        if header["op"] == "taken_back":
            self._taken_back.update(zip(header["messages"], header["why"], strict=True))
        elif header["op"] == "late":
            self._late = HandOverEnded(str(header["why"]))
        elif header["op"] == "part" and header["n"] in self._waiting:
            self._parts.setdefault(header["n"], []).append(body)
        return header["op"] in ("taken_back", "late", "part")

    def _connected(self) -> Link:
        if self._link is None:
            what = "the client was not started" if self._hearing is None else "it has ended, or the client is closed"
            raise NodeClosed(f"the node of {self._data}: {what}")
        return self._link

    async def call(self, do: str, body: bytes = b"", **fields: Any) -> tuple[Header, bytes]:
        """Have the node do something, and wait until it is done; for the parts of a client.

        Raises:
            NodeClosed: the process, or this client, has ended.
            HandOverEnded: an earlier acknowledgement came too late; this call does nothing.
            TriackError: the error of the call at the node, in its own class.
        """
        self._connected()
        if self._late is not None:
            late, self._late = self._late, None
            raise late
        check_home(f"the client of {self._data}", self._home)
        async with self._free:
            return await self._ask(do, body, fields)

    async def _ask(self, do: str, body: bytes, fields: dict[str, Any]) -> tuple[Header, bytes]:
        link, number = self._connected(), next(self._numbers)
        future: asyncio.Future[tuple[Header, bytes]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            await link.send("call", body, n=number, do=do, **fields)
            header, content = await future
        except (TypeError, ValueError, RecursionError):
            check_sayable(do, fields)
            raise
        except ConnectionError as cause:
            raise NodeClosed(f"the node of {self._data} has ended") from cause
        except asyncio.CancelledError:
            with contextlib.suppress(NodeClosed):
                self._connected().post("cancel", n=number)
                if future.done() and not future.cancelled() and future.exception() is None:
                    _refuse(link, future.result()[0])
            raise
        finally:
            self._waiting.pop(number, None)
            self._parts.pop(number, None)
        if header["op"] == "failed":
            raise _error_of(header)
        return header, content

    def post(self, op: str, **fields: Any) -> None:
        """Send the node a notice, for the parts of a client; does nothing after the end, which gives all back.

        Raises:
            HandOverEnded: a message in an acknowledgement was taken back; the others are done.
        """
        if self._link is None:
            return
        check_home(f"the client of {self._data}", self._home)
        late: list[str] = []
        if op == "ack" and self._taken_back:
            first = fields["message"]
            done = range(first, first + fields.get("count", 1))
            late = [self._taken_back.pop(number) for number in done if number in self._taken_back]
        if late:
            fields["told"] = True
        self._link.post(op, **fields)
        if late:
            raise HandOverEnded(late[-1])

    async def _call(self, do: str, body: bytes = b"", **fields: Any) -> tuple[Header, bytes]:
        return await self.call(do, body, **fields)

    # ---- the verbs of a node

    flush = asked(Verbs.flush)
    events = asked(Verbs.events, lambda self, header, _: ClientEvents(self, header["watch"]))
    recall = asked(Verbs.recall)
    request = asked(Verbs.request, lambda self, header, content: message_of(header, content, ClientHolder(self, None)))
    key = asked(Verbs.key)
    trust = asked(Verbs.trust)
    revoke = asked(Verbs.revoke)
    invite = asked(Verbs.invite, lambda self, header, _: ClientInvitation(self, header))
    queue_lengths = asked(Verbs.queue_lengths)
    stats = asked(Verbs.stats)
    requeue = asked(Verbs.requeue)
    move = asked(Verbs.move)
    purge = asked(Verbs.purge)
    release = asked(Verbs.release)

    @as_on(Verbs.send)
    async def send(self, said: Said) -> ClientReceipt:
        """Let the node accept a message, and wait by its receipt."""
        name_of(said["destination"], said["delivery"])
        check_until(said["until"], said["delivery"], said["timeout"])
        header, _ = await ask(self, Verbs.send, said)
        return await when_reached(ClientReceipt(self, header), said["until"], said["timeout"])

    @as_on(Verbs.send_many)
    async def send_many(self, said: Said) -> ClientReceipts:
        """Let the node accept messages, by the frame, and wait by their receipts."""
        name_of(said["destination"], said["delivery"])
        check_until(said["until"], said["delivery"], said["timeout"])
        frames = frames_of(said["destination"], said["bodies"], said["keys"])
        headers = [(await ask(self, Verbs.send_many, {**said, **frame}))[0] for frame in frames]
        return await when_reached(ClientReceipts(self, headers), said["until"], said["timeout"])

    @as_on(Verbs.reply)
    async def reply(self, said: Said) -> ClientReceipt:
        """Send to the ``reply_to`` of the message."""
        destination, answering = way_back(said["message"], said["properties"])
        return await self.send(destination, said["body"], delivery=said["delivery"], **answering)

    @as_on(Verbs.drain)
    async def drain(self, said: Said) -> None:
        """Check the timeout before the call."""
        check_timeout("drain", said["timeout"])
        await ask(self, Verbs.drain, said)

    @as_on(Verbs.enrol)
    async def enrol(self, said: Said) -> EnrolledPeer:
        """Check the timeout before the call."""
        check_timeout("enrol", said["timeout"])
        return read_peer(*await ask(self, Verbs.enrol, said))

    @as_on(Verbs.acknowledgements)
    async def acknowledgements(self, said: Said) -> ClientAcknowledgements:
        """Call a handler in this process, until the client is closed or the node ends."""
        check_acknowledgements(said)
        header, _ = await ask(self, Verbs.acknowledgements, said)
        events = ClientAcknowledgements(self, header["watch"])
        if said["handler"] is not None:
            task = asyncio.create_task(
                handle(events, said["destination"], said["handler"]), name="triack-acknowledgements"
            )
            self._handlers.add(task)
            task.add_done_callback(self._handlers.discard)
        return events

    @as_on(Verbs.transaction)
    def transaction(self, _said: Said) -> ClientTransaction:
        """It begins with its first call."""
        self._connected()
        return ClientTransaction(self)

    @as_on(Verbs.receive)
    def receive(self, said: Said) -> ClientConsumer:
        """Reading begins with the first request for a message."""
        queue, ack, redelivery = said["queue"], said["ack"], said["redelivery"]
        if ack not in ("auto", "manual"):
            raise UsageError(f"receive from {queue}: ack must be 'auto' or 'manual', not {ack!r}")
        check_kind(f"receive from {queue}: redelivery", redelivery, Redelivery | None)
        check_hand_over(queue, said["hand_over_timeout"])
        reader_of(queue, said["name"])
        self._connected()
        hand_over_timeout, name = said["hand_over_timeout"], said["name"]
        return ClientConsumer(
            self, queue, redelivery, auto=ack == "auto", hand_over_timeout=hand_over_timeout, name=name
        )

    @as_on(Verbs.browse)
    async def browse(self, said: Said) -> AsyncIterator[BrowsedMessage]:
        """Ask for one page after the other."""
        last: Position = ()
        while True:
            header, content = await self.call("browse", queue=said["queue"], after=last)
            page = zip(header["page"], cut(content, header["sizes"]), strict=True)
            messages = [BrowsedMessage.read(described, body) for described, body in page]
            if not messages:
                return
            for message in messages:
                yield message
            last = messages[-1].position


class ClientInvitation(Asking):
    """A one-time code that the node has given out; see ``OpenInvitation``."""

    __slots__ = ("_client", "_number", "code")

    def __init__(self, client: Client, header: Header) -> None:
        self.code = str(header["code"])
        self._client = client
        self._number = header["invitation"]

    async def _call(self, do: str, body: bytes = b"", **fields: Any) -> tuple[Header, bytes]:
        return await self._client.call(do, body, invitation=self._number, **fields)

    @as_on(OpenInvitation.enrolled)
    async def enrolled(self, said: Said) -> EnrolledPeer:
        """Check the timeout before the call."""
        check_timeout("wait for an enrolment", said["timeout"])
        return read_peer(*await ask(self, OpenInvitation.enrolled, said))

    @as_on(OpenInvitation.withdraw)
    def withdraw(self, said: Said) -> Awaitable[None]:
        """It happens even if the caller does not wait."""
        return begin_now(self._withdraw(said))

    async def _withdraw(self, said: Said) -> None:
        await ask(self, OpenInvitation.withdraw, said)


def _refuse(link: Link, header: Header) -> None:
    """Give back the messages in an answer for which no call waits any more."""
    if "message" in header and "reader" in header:
        count = header.get("count", 1)
        link.post("reject", message=header["message"], count=count, failed=False, delay_ms=None)


def _error_of(header: Header) -> TriackError:
    """The error that a call raised at the node, as the same error here."""
    name, message = str(header.get("error")), str(header.get("message"))
    more = {key: str(header[key]) for key in ("reason", "peer", "rolled_back") if key in header}
    if name == "ProtocolError":
        return ProtocolError(_REASONS.get(more["reason"], DropReason.BAD_FRAME), message.partition(": ")[2])
    kind = getattr(errors, name) if name in errors.__all__ else TriackError
    error = kind(message, **more)
    assert isinstance(error, TriackError)
    return error


_REASONS = {reason.value: reason for reason in DropReason}
