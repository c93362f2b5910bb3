"""A node that runs in another process of this machine: ``triack.connect``.

What it gives are the verbs of ``triack.Node``, with the same names, promises and errors, carried out there: see
``triack.node.control.calls``. When that process ends, every call raises NodeClosed; readers and transactions that were
open are given back and rolled back by then.
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Collection, Iterable
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self, Unpack

from triack.base import errors
from triack.base.checks import check_most, check_timeout
from triack.base.delivery import DURABLE, Delivery
from triack.base.errors import NodeClosed, ProtocolError, TriackError, UsageError
from triack.base.reasons import DropReason
from triack.node.consumer import BATCH_MESSAGES, AckMode
from triack.node.control import handover
from triack.node.control.client_acknowledgements import ClientAcknowledging
from triack.node.control.client_receipts import ClientReceipt, ClientReceipts, check_until, settled
from triack.node.control.frames import VERSION, Header, Link, cut
from triack.node.enrolling import EnrolledPeer
from triack.node.message import Holder, Message, way_back
from triack.node.outgoing_message import MessageProperties, as_bytes, check_size
from triack.node.requesting import REQUEST_TIMEOUT_S
from triack.node.stats import NodeStats, read_stats
from triack.node.steering import as_ids
from triack.node.transaction import ONLY_THE_TRANSACTION, add_listed
from triack.queues.browse import BrowsedMessage, Position
from triack.queues.mailbox import Lease, QueuedPacket
from triack.queues.packing import MAX_BODY_BYTES
from triack.queues.redelivery import Redelivery
from triack.queues.stages import Stage

__all__ = ["Client", "ClientConsumer", "ClientInvitation", "ClientTransaction", "connect_to"]


def connect_to(data: str | Path) -> "Client":
    """A client of the node that another process runs on a data directory; begun by ``async with`` or ``await start()``.

    Args:
        data: the node's data directory.
    """
    return Client(Path(data))


class Client(ClientAcknowledging):
    """A node in another process. Make it with ``triack.connect``."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._link: Link | None = None
        self._hearing: asyncio.Task[None] | None = None
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[tuple[Header, bytes]]] = {}
        self._welcome: Header = {}
        self._handlers: set[asyncio.Task[None]] = set()

    # ---- life

    async def start(self) -> Self:
        """Find the process. ``async with`` calls it.

        Returns:
            The client itself.

        Raises:
            NodeClosed: no process runs a node there.
        """
        link = await handover.find(self._data)
        if link is None:
            raise NodeClosed(f"connect to the node of {self._data}: no process runs one there")
        try:
            await link.send("hello", v=VERSION, do="call")
            self._welcome, _ = await link.receive()
        except ConnectionError as cause:
            await link.close()
            raise NodeClosed(f"connect to the node of {self._data}: it has just ended") from cause
        except BaseException:
            await link.close()
            raise
        self._link = link
        self._hearing = asyncio.create_task(self._hear(link), name="triack-client")
        return self

    async def close(self) -> None:
        """End the connection; the node goes on. A second call does nothing."""
        if self._hearing is not None:
            self._hearing.cancel()
            await asyncio.gather(self._hearing, return_exceptions=True)

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
                waiting = self._waiting.pop(header["n"], None)
                if waiting is not None and not waiting.done():
                    waiting.set_result((header, body))
                elif "message" in header and "reader" in header:
                    # Whoever asked for it has gone meanwhile.
                    count = header.get("count", 1)
                    link.post("reject", message=header["message"], count=count, failed=False, delay_ms=None)
        except asyncio.CancelledError:
            ended = NodeClosed(f"the client of {self._data} is closed")
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

    def _connected(self) -> Link:
        if self._link is None:
            what = "the client was not started" if self._hearing is None else "it has ended, or the client is closed"
            raise NodeClosed(f"the node of {self._data}: {what}")
        return self._link

    async def call(self, do: str, body: bytes = b"", **fields: Any) -> tuple[Header, bytes]:
        """Let the node do something, and wait for the end of it; for the parts of a client.

        Raises:
            NodeClosed: the process, or this client, has ended.
            TriackError: what the call raised there, by its own class.
        """
        link, number = self._connected(), next(self._numbers)
        future: asyncio.Future[tuple[Header, bytes]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            await link.send("call", body, n=number, do=do, **fields)
            header, content = await future
        except ConnectionError as cause:
            raise NodeClosed(f"the node of {self._data} has ended") from cause
        except asyncio.CancelledError:
            with contextlib.suppress(NodeClosed):
                self._connected().post("cancel", n=number)
            raise
        finally:
            self._waiting.pop(number, None)
        if header["op"] == "failed":
            raise _error_of(header)
        return header, content

    def post(self, op: str, **fields: Any) -> None:
        """Tell the node something, for the parts of a client; nothing when it has ended, as that gives all back."""
        if self._link is not None:
            self._link.post(op, **fields)

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
        name = _name_of(destination, delivery)
        check_until(until, delivery, timeout)
        body = as_bytes(destination, body)
        check_size(destination, body)
        header, _ = await self.call("send", body, destination=destination, delivery=name, properties=properties)
        return await settled(ClientReceipt(self, header), until, timeout)

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
        name = _name_of(destination, delivery)
        check_until(until, delivery, timeout)
        headers: list[Header] = []
        for body, sizes in _frames_of(destination, bodies):
            header, _ = await self.call(
                "send_many", body, sizes=sizes, destination=destination, delivery=name, properties=properties
            )
            headers.append(header)
        return await settled(ClientReceipts(self, headers), until, timeout)

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
        name = _name_of(destination, delivery)
        header, content = await self.call(
            "request", body, destination=destination, delivery=name, timeout=timeout, properties=properties
        )
        return _message_of(header, content, _Hands(self, None))

    async def reply(
        self,
        message: Message,
        body: bytes,
        *,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        **properties: Unpack[MessageProperties],
    ) -> "ClientReceipt":
        """Answer a message; see ``Node.reply``."""
        destination, answering = way_back(message, properties)
        return await self.send(destination, body, delivery=delivery, **answering)

    async def flush(self) -> None:
        """Wait until everything accepted and acknowledged so far is on the node's disk."""
        await self.call("flush")

    def transaction(self) -> "ClientTransaction":
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
    ) -> None:
        """Let the node trust a peer from now on; see ``Node.trust``."""
        await self.call("trust", name=name, key=key, addresses=addresses, send=_listed(send), psk=psk)

    async def revoke(self, name: str) -> None:
        """Let the node trust a peer no longer; see ``Node.revoke``."""
        await self.call("revoke", name=name)

    async def invite(self, name: str | None = None, *, send: Iterable[str] | None = None) -> "ClientInvitation":
        """Make a one-time code, which the node keeps when this client has gone; see ``Node.invite``."""
        header, _ = await self.call("invite", name=name, send=_listed(send))
        return ClientInvitation(self, header)

    async def enrol(
        self, code: str, url: str, *, name: str | None = None, send: Iterable[str] | None = None
    ) -> EnrolledPeer:
        """Let the node come to another one with its code; see ``Node.enrol``."""
        header, _ = await self.call("enrol", code=code, url=url, name=name, send=_listed(send))
        return _peer_of(header)

    # ---- receiving and looking

    def receive(self, queue: str, *, ack: AckMode = "auto", redelivery: Redelivery | None = None) -> "ClientConsumer":
        """Read a queue of the node; see ``Node.receive``."""
        if ack not in ("auto", "manual"):
            raise UsageError(f"receive from {queue}: ack must be 'auto' or 'manual', not {ack!r}")
        self._connected()
        return ClientConsumer(self, queue, redelivery, auto=ack == "auto")

    async def queue_lengths(self) -> dict[str, int]:
        """How many messages wait in each queue of the node."""
        header, _ = await self.call("queue_lengths")
        return dict(header["queues"])

    async def stats(self) -> NodeStats:
        """Everything that the node counts; see ``NodeStats``."""
        header, _ = await self.call("stats")
        return read_stats(header["stats"])

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

    async def withdraw(self) -> None:
        """Let nobody use it any more; does nothing when it is used already."""
        await self._client.call("withdraw", invitation=self._number)


class ClientConsumer:
    """An async iterator over the messages of one queue of the node; also an async context manager. See ``Consumer``."""

    def __init__(self, client: Client, queue: str, redelivery: Redelivery | None, *, auto: bool) -> None:
        self._client = client
        self._queue = queue
        self._redelivery = None if redelivery is None else asdict(redelivery)
        self._auto = auto
        self._number: int | None = None
        self._closed = False
        self._last: list[Message] = []
        self._first_of_last = 0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        return await self.get()

    async def get(self, timeout: float | None = None) -> Message:
        """The next message; see ``Consumer.get``."""
        header, content = await self._ask("get", timeout)
        return self._take(header["message"], [header], [content])[0]

    async def get_many(self, most: int = BATCH_MESSAGES, timeout: float | None = None) -> list[Message]:
        """The next messages, in order; see ``Consumer.get_many``."""
        check_most(self._queue, most)
        header, content = await self._ask("get_many", timeout, most=most)
        return self._take(header["message"], header["about"], cut(content, header["sizes"]))

    async def _ask(self, do: str, timeout: float | None, **fields: Any) -> tuple[Header, bytes]:
        check_timeout(f"receive from {self._queue}", timeout)
        if self._closed:
            raise NodeClosed(f"receive from {self._queue}: the consumer is closed")
        if self._number is None:
            begun, _ = await self._client.call("read", queue=self._queue, redelivery=self._redelivery)
            self._number = begun["reader"]
        self._acknowledge_last()
        return await self._client.call(do, reader=self._number, timeout=timeout, **fields)

    def _take(self, first: int, headers: list[Header], contents: list[bytes]) -> list[Message]:
        messages = [
            _message_of(header, content, _Hands(self._client, number))
            for number, (header, content) in enumerate(zip(headers, contents, strict=True), first)
        ]
        if self._auto:
            self._first_of_last, self._last = first, messages
        return messages

    def _acknowledge_last(self) -> None:
        last, self._last = self._last, []
        if last:
            self._client.post("ack", message=self._first_of_last, count=len(last))

    async def close(self) -> None:
        """Give back what is unacknowledged and take no more. A second call does nothing."""
        self._closed = True
        number, self._number = self._number, None
        if number is not None:
            with contextlib.suppress(NodeClosed):
                await self._client.call("close", reader=number)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._acknowledge_last()
        else:
            for message in self._last:
                message.reject(failed=issubclass(kind, Exception))
        await self.close()


class ClientTransaction:
    """A transaction of the node: leaving the block commits, an exception rolls back. See ``Transaction``."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._number: int | None = None
        self._listed_bytes = 0
        self._ended = False

    async def _call(self, do: str, body: bytes = b"", **fields: Any) -> tuple[Header, bytes]:
        if self._ended:
            raise NodeClosed("this transaction has ended")
        if self._number is None:
            self._number = (await self._client.call("begin"))[0]["transaction"]
        return await self._client.call(do, body, transaction=self._number, **fields)

    async def send(
        self,
        destination: str,
        body: bytes,
        *,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        **properties: Unpack[MessageProperties],
    ) -> None:
        """Send with the commit; see ``Transaction.send``."""
        name = _durable_name_of(destination, delivery)
        body = as_bytes(destination, body)
        check_size(destination, body)
        await self._call("tx_send", body, destination=destination, delivery=name, properties=properties)

    async def send_many(
        self,
        destination: str,
        bodies: Iterable[bytes],
        *,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        **properties: Unpack[MessageProperties],
    ) -> None:
        """Send a list with the commit, in order; see ``Transaction.send_many``."""
        name = _durable_name_of(destination, delivery)
        frames = _frames_of(destination, bodies)
        self._listed_bytes = add_listed(destination, self._listed_bytes, [one for _, sizes in frames for one in sizes])
        for body, sizes in frames:
            await self._call(
                "tx_send_many", body, sizes=sizes, destination=destination, delivery=name, properties=properties
            )

    async def reply(
        self,
        message: Message,
        body: bytes,
        *,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        **properties: Unpack[MessageProperties],
    ) -> None:
        """Answer a message with the commit; see ``Transaction.reply``."""
        destination, answering = way_back(message, properties)
        await self.send(destination, body, delivery=delivery, **answering)

    async def receive_many(self, queue: str, most: int = BATCH_MESSAGES, timeout: float | None = None) -> list[Message]:
        """Take messages with the commit, in order; see ``Transaction.receive_many``."""
        check_most(queue, most)
        check_timeout(f"receive from {queue}", timeout)
        header, content = await self._call("tx_receive_many", queue=queue, most=most, timeout=timeout)
        contents = zip(header["about"], cut(content, header["sizes"]), strict=True)
        return [_message_of(about, one, ONLY_THE_TRANSACTION) for about, one in contents]

    async def receive(self, queue: str, timeout: float | None = None) -> Message:
        """Take a message with the commit; see ``Transaction.receive``."""
        check_timeout(f"receive from {queue}", timeout)
        header, content = await self._call("tx_receive", queue=queue, timeout=timeout)
        return _message_of(header, content, ONLY_THE_TRANSACTION)

    async def remember(self, key: str, value: bytes | None) -> None:
        """Keep a value of the application's own with the commit; None removes it."""
        await self._call("tx_remember", value or b"", key=key, forget=value is None)

    async def commit(self) -> list[ClientReceipt]:
        """Make it all durable; see ``Transaction.commit``."""
        header, _ = await self._call("commit")
        self._ended = True
        return [ClientReceipt(self._client, receipt) for receipt in header["receipts"]]

    async def rollback(self, *, failed: bool = True) -> None:
        """Send nothing, and put back what was received. A second call does nothing."""
        if not self._ended and self._number is not None:
            await self._call("rollback", failed=failed)
        self._ended = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            await asyncio.shield(self.rollback(failed=issubclass(kind, Exception)))
        elif not self._ended:
            await self.commit()


class _Hands:
    """Answers for one message that the node has handed to this process; ``number`` is None when it is done already."""

    def __init__(self, client: Client, number: int | None) -> None:
        self._client = client
        self._number = number

    def acknowledge(self, _lease: Lease) -> None:
        """It is done."""
        self._settle("ack")

    def give_back(self, _lease: Lease, *, failed: bool, delay_ms: int | None) -> None:
        """It comes again."""
        self._settle("reject", failed=failed, delay_ms=delay_ms)

    def _settle(self, op: str, **fields: Any) -> None:
        number, self._number = self._number, None
        if number is not None:
            self._client.post(op, message=number, **fields)


def _listed(patterns: Iterable[str] | None) -> list[str] | None:
    return None if patterns is None else list(patterns)


def _peer_of(header: Header) -> EnrolledPeer:
    peer = header["peer"]
    return EnrolledPeer(peer["name"], peer["key"], tuple(peer["addresses"]))


def _name_of(destination: object, delivery: object) -> str:
    if not isinstance(destination, str) or not isinstance(delivery, Delivery):
        raise UsageError(
            f"send to {destination!r} as {delivery!r}: a destination is text, a class is a triack.Delivery"
        )
    return delivery.name


def _durable_name_of(destination: str, delivery: Delivery) -> str:
    name = _name_of(destination, delivery)
    if delivery not in DURABLE:
        raise UsageError(f"send to {destination} in a transaction: {delivery.label} messages cannot be part of one")
    return name


def _frames_of(destination: str, bodies: Iterable[bytes]) -> list[tuple[bytes, list[int]]]:
    """A list of bodies as what goes into one frame each, with the sizes; at least one. Raises as ``as_bytes``."""
    frames: list[list[bytes]] = [[]]
    size_bytes = 0
    for body in [as_bytes(destination, body) for body in bodies]:
        check_size(destination, body)
        if len(frames[-1]) == BATCH_MESSAGES or size_bytes + len(body) > MAX_BODY_BYTES:
            frames.append([])
            size_bytes = 0
        frames[-1].append(body)
        size_bytes += len(body)
    return [(b"".join(frame), [len(body) for body in frame]) for frame in frames]


def _message_of(header: Header, content: bytes, holder: Holder) -> Message:
    """A message as if it had come out of a queue of this process."""
    packet = QueuedPacket(
        keys=(),
        origin=bytes.fromhex(header["origin"]),
        lane=0,
        sequence=0,
        number=0,
        delivery=Delivery.TRANSACTIONAL,
        count=1,
        size_bytes=len(content),
        pieces=[content],
        failures={0: header["failures"]},
    )
    return Message(
        packet.open().bodies[0],
        str(header["queue"]),
        packet,
        0,
        bool(header["redelivered"]),
        holder,
        lambda _origin: str(header["sender"]),
    )


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
