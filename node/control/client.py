"""A node that runs in another process of this machine: ``triack.connect``.

What it gives are the verbs of ``triack.Node``, with the same names, promises and errors, carried out there: see
``triack.node.control.calls``. When that process ends, every call raises NodeClosed; readers and transactions that were
open are given back and rolled back by then.
"""

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Collection, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, Unpack

from triack.base import errors
from triack.base.checks import check_kind, check_texts, check_timeout
from triack.base.delivery import Delivery
from triack.base.errors import HandOverEnded, NodeClosed, ProtocolError, TriackError, UsageError
from triack.base.reasons import DropReason
from triack.node.control import handover
from triack.node.control.at_once import begin_now
from triack.node.control.client_acknowledgements import ClientAcknowledging
from triack.node.control.client_consumer import ClientConsumer
from triack.node.control.client_events import ClientEvents
from triack.node.control.client_messages import ClientHolder, frames_of, message_of, name_of
from triack.node.control.client_receipts import ClientReceipt, ClientReceipts, check_until, when_reached
from triack.node.control.client_transaction import ClientTransaction
from triack.node.control.control_frames import CALLS_MAX, VERSION, Header, Link, check_sayable, cut
from triack.node.handles.consumer import AckMode, check_hand_over
from triack.node.handles.message import Message, way_back
from triack.node.handles.requesting import REQUEST_TIMEOUT_S
from triack.node.handles.steering import as_ids
from triack.node.shell.enrolling import EnrolledPeer
from triack.node.shell.event_loop import check_home
from triack.node.shell.holding import reader_of
from triack.node.shell.outgoing_message import MessageProperties, as_bytes, check_size
from triack.node.shell.platform import PLATFORM
from triack.node.shell.stats import NodeStats, read_stats
from triack.queues.manager.browse import BrowsedMessage, Position
from triack.queues.node_settings import Redelivery
from triack.queues.stages import Stage
from triack.store.folder import as_folder

__all__ = ["Client", "ClientInvitation", "connect_to"]

GOODBYE_S = 2.0
"""How long a client that closes waits for the node to see it: one that runs does in milliseconds."""


def connect_to(data: str | Path) -> "Client":
    """A client of the node that another process runs on a data directory; begun by ``async with`` or ``await start()``.

    Args:
        data: the node's data directory.

    Raises:
        UsageError: that is no path.
    """
    return Client(as_folder("connect: data", data))


class Client(ClientAcknowledging):
    """A node in another process. Make it with ``triack.connect``."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._link: Link | None = None
        self._home: asyncio.AbstractEventLoop | None = None
        self._hearing: asyncio.Task[None] | None = None
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[tuple[Header, bytes]]] = {}
        self._parts: dict[int, list[bytes]] = {}  # of answers of which there is more to come
        self._free = asyncio.Semaphore(CALLS_MAX)
        self._welcome: Header = {}
        self._handlers: set[asyncio.Task[None]] = set()
        # Why what was handed to it is not in its hands any more, by number.
        self._taken_back: dict[int, str] = {}
        # What an acknowledgement that came too late is answered with, for the next call.
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
            UsageError: it was started before, and has not ended; or no node can be reached like that here.
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
            await link.send("hello", v=VERSION, do="call")
            self._welcome, _ = await link.receive()
        except ConnectionError as cause:
            await link.close()
            why = "it has just ended, can open nothing more, or does not serve the user that this process runs as"
            raise NodeClosed(f"connect to the node of {self._data}: {why}") from cause
        except BaseException:
            await link.close()
            raise
        self._link = link
        self._home = asyncio.get_running_loop()
        self._hearing = asyncio.create_task(self._hear(link), name="triack-client")
        return self

    async def close(self) -> None:
        """End the connection; the node goes on. A second call does nothing."""
        if self._hearing is not None:
            if self._link is not None and not self._hearing.done():
                self._link.post("bye")  # the node then closes, and takes nobody for dead
                await asyncio.wait([self._hearing], timeout=GOODBYE_S)
            self._hearing.cancel()
            await asyncio.gather(self._hearing, return_exceptions=True)
        link, self._link = self._link, None
        if link is not None:  # whoever was to hear it had no turn yet, and has not closed it
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
        """32 hex digits that name the node for ever."""
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
                    future.exception()  # nobody may be left to look

    def _is_aside(self, header: Header, body: bytes) -> bool:
        """Whether a frame is not the end of an answer; it is taken then."""
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
        """Let the node do something, and wait for the end of it; for the parts of a client.

        Raises:
            NodeClosed: the process, or this client, has ended.
            HandOverEnded: something was acknowledged before, and too late; nothing is done.
            TriackError: what the call raised there, by its own class.
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
        """Tell the node something, for the parts of a client; nothing when it has ended, as that gives all back.

        Raises:
            HandOverEnded: of messages that are acknowledged, one was taken back; the others are done.
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

    # ---- sending

    async def send(
        self,
        destination: str,
        body: bytes,
        *,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        until: Stage | str | None = None,
        timeout: float | None = None,
        **properties: Unpack[MessageProperties],
    ) -> ClientReceipt:
        """Let the node accept a message for sending; see ``Node.send``."""
        name = name_of(destination, delivery)
        check_until(until, delivery, timeout)
        body = as_bytes(destination, body)
        check_size(destination, body)
        header, _ = await self.call("send", body, destination=destination, delivery=name, properties=properties)
        return await when_reached(ClientReceipt(self, header), until, timeout)

    async def send_many(
        self,
        destination: str,
        bodies: Iterable[bytes],
        *,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        until: Stage | str | None = None,
        timeout: float | None = None,
        **properties: Unpack[MessageProperties],
    ) -> ClientReceipts:
        """Let the node accept messages for sending, in order; see ``Node.send_many``."""
        name = name_of(destination, delivery)
        check_until(until, delivery, timeout)
        headers: list[Header] = []
        for body, sizes in frames_of(destination, bodies):
            header, _ = await self.call(
                "send_many", body, sizes=sizes, destination=destination, delivery=name, properties=properties
            )
            headers.append(header)
        return await when_reached(ClientReceipts(self, headers), until, timeout)

    async def request(
        self,
        destination: str,
        body: bytes,
        *,
        timeout: float = REQUEST_TIMEOUT_S,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        **properties: Unpack[MessageProperties],
    ) -> Message:
        """Let the node send a message and wait for the one that answers it; see ``Node.request``."""
        body = as_bytes(destination, body)
        check_size(destination, body)
        name = name_of(destination, delivery)
        header, content = await self.call(
            "request", body, destination=destination, delivery=name, timeout=timeout, properties=properties
        )
        return message_of(header, content, ClientHolder(self, None))

    async def reply(
        self,
        message: Message,
        body: bytes,
        *,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        **properties: Unpack[MessageProperties],
    ) -> ClientReceipt:
        """Answer a message; see ``Node.reply``."""
        destination, answering = way_back(message, properties)
        return await self.send(destination, body, delivery=delivery, **answering)

    async def flush(self) -> None:
        """Wait until everything accepted and acknowledged so far is on the node's disk."""
        await self.call("flush")

    async def drain(self, timeout: float | None = None) -> None:
        """Wait until all that was sent there, by whomever, has come as far as its class says; see ``Node.drain``."""
        check_timeout("drain", timeout)
        await self.call("drain", timeout=timeout)

    async def events(self) -> ClientEvents:
        """What happens at the node from now on: ``async for event in await client.events()``; see ``Node.events``."""
        header, _ = await self.call("events")
        return ClientEvents(self, header["watch"])

    def transaction(self) -> ClientTransaction:
        """A new transaction; see ``Transaction``."""
        self._connected()
        return ClientTransaction(self)

    async def recall(self, key: str) -> bytes | None:
        """What ``remember`` keeps under a key, or None."""
        header, value = await self.call("recall", key=key)
        return value if header["known"] else None

    # ---- peers

    async def key(self) -> str:
        """The public key by which others know the node; see ``Node.key``."""
        header, _ = await self.call("key")
        return str(header["key"])

    async def trust(
        self,
        name: str,
        key: str | None = None,
        *addresses: str,
        send: Iterable[str] | None = None,
        psk: str | None = None,
        keep_alive_s: float | None = None,
    ) -> None:
        """Let the node trust a peer from now on; see ``Node.trust``."""
        known: dict[str, Any] = {"key": key, "addresses": addresses, "send": _listed(send), "psk": psk}
        await self.call("trust", name=name, keep_alive_s=keep_alive_s, **known)

    async def revoke(self, name: str) -> None:
        """Let the node trust a peer no longer; see ``Node.revoke``."""
        await self.call("revoke", name=name)

    async def invite(self, name: str | None = None, *, send: Iterable[str] | None = None) -> "ClientInvitation":
        """Make a one-time code, which the node keeps when this client has gone; see ``Node.invite``."""
        header, _ = await self.call("invite", name=name, send=_listed(send))
        return ClientInvitation(self, header)

    async def enrol(
        self,
        code: str,
        url: str,
        *,
        name: str | None = None,
        send: Iterable[str] | None = None,
        timeout: float | None = None,
    ) -> EnrolledPeer:
        """Let the node come to another one with its code; see ``Node.enrol``."""
        check_timeout("enrol", timeout)
        header, _ = await self.call("enrol", code=code, url=url, name=name, send=_listed(send), timeout=timeout)
        return _peer_of(header)

    # ---- receiving and looking

    def receive(
        self,
        queue: str,
        *,
        ack: AckMode = "auto",
        redelivery: Redelivery | None = None,
        hand_over_timeout: float | None = None,
        name: str | None = None,
    ) -> ClientConsumer:
        """Read a queue of the node; see ``Node.receive``."""
        if ack not in ("auto", "manual"):
            raise UsageError(f"receive from {queue}: ack must be 'auto' or 'manual', not {ack!r}")
        check_kind(f"receive from {queue}: redelivery", redelivery, Redelivery | None)
        check_hand_over(queue, hand_over_timeout)
        reader_of(queue, name)
        self._connected()
        auto = ack == "auto"
        return ClientConsumer(self, queue, redelivery, auto=auto, hand_over_timeout=hand_over_timeout, name=name)

    async def queue_lengths(self) -> dict[str, int]:
        """How many messages wait in each queue of the node."""
        _, lengths = await self.call("queue_lengths")
        return dict(json.loads(lengths))

    async def stats(self) -> NodeStats:
        """Everything that the node counts; see ``NodeStats``."""
        _, described = await self.call("stats")
        return read_stats(json.loads(described))

    async def browse(self, queue: str) -> AsyncIterator[BrowsedMessage]:
        """Look at what waits in a queue of the node; see ``Node.browse``."""
        last: Position = ()
        while True:
            header, content = await self.call("browse", queue=queue, after=last)
            page = zip(header["page"], cut(content, header["sizes"]), strict=True)
            messages = [BrowsedMessage.read(described, body) for described, body in page]
            if not messages:
                return
            for message in messages:
                yield message
            last = messages[-1].position

    async def requeue(self, ids: Collection[str] | None = None) -> int:
        """Send dead letters again; see ``Node.requeue``."""
        return await self._steer("requeue", ids)

    async def move(self, queue: str, destination: str, ids: Collection[str] | None = None) -> int:
        """Move what waits in a queue of the node elsewhere; see ``Node.move``."""
        return await self._steer("move", ids, queue=queue, destination=destination)

    async def purge(self, queue: str, ids: Collection[str] | None = None) -> int:
        """Take what waits out of a queue; see ``Node.purge``."""
        return await self._steer("purge", ids, queue=queue)

    async def release(self, queue: str) -> int:
        """Take the messages of a queue back that readers have in hand; see ``Node.release``."""
        header, _ = await self.call("release", queue=queue)
        return int(header["count"])

    async def _steer(self, do: str, ids: Collection[str] | None, **fields: Any) -> int:
        wanted = as_ids(ids)
        header, _ = await self.call(do, ids=None if wanted is None else list(wanted), **fields)
        return int(header["count"])


class ClientInvitation:
    """A one-time code that the node has given out; see ``OpenInvitation``."""

    __slots__ = ("_client", "_number", "code")

    def __init__(self, client: Client, header: Header) -> None:
        self.code = str(header["code"])
        self._client = client
        self._number = header["invitation"]

    async def enrolled(self, timeout: float | None = None) -> EnrolledPeer:
        """Wait until somebody has come with the code; see ``OpenInvitation.enrolled``."""
        check_timeout("wait for an enrolment", timeout)
        header, _ = await self._client.call("enrolled", invitation=self._number, timeout=timeout)
        return _peer_of(header)

    def withdraw(self) -> Awaitable[None]:
        """Let nobody use it any more; does nothing when it is used already. It is done also if nobody waits."""
        return begin_now(self._withdraw())

    async def _withdraw(self) -> None:
        await self._client.call("withdraw", invitation=self._number)


def _refuse(link: Link, header: Header) -> None:
    """Give back messages in an answer for which nobody waits any more."""
    if "message" in header and "reader" in header:
        count = header.get("count", 1)
        link.post("reject", message=header["message"], count=count, failed=False, delay_ms=None)


def _listed(patterns: Iterable[str] | None) -> list[str] | None:
    return None if patterns is None else check_texts("send", patterns)


def _peer_of(header: Header) -> EnrolledPeer:
    peer = header["peer"]
    return EnrolledPeer(peer["name"], peer["key"], tuple(peer["addresses"]))


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
