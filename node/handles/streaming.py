"""Large messages: their bodies leave this node in parts, and are read in parts (``queues.mailboxes.large_bodies``).

Promise: a reader of the queue gets the whole message once, or nothing of it. The message that represents a body is sent
when all parts are on the disk of its destination. If the source ends early, the sender is cancelled, or its process
dies before that, the destination frees the parts. At most ``LargeBodies.ahead_bytes`` of a body are on this node's
disk at a time, and a few parts in memory.

Bodies for one queue of a peer go one after the other. Other messages to that queue do not wait for them.
"""

import asyncio
import os
import stat
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from io import SEEK_END
from pathlib import Path
from typing import Any, BinaryIO, Self, Unpack, cast

from triack.base.checks import check_kind
from triack.base.delivery import DURABLE, Delivery, check_sent
from triack.base.errors import AddressError, DeliveryFailed, MessageTooLarge, NoRoom, QueueFull, UsageError
from triack.base.names import check_name
from triack.base.reasons import DeadReason
from triack.node.handles.choosing import part_of
from triack.node.handles.receipt import NodeReceipt, Receipt, stage_to_wait_for
from triack.node.shell.engine_handle import EngineHandle, OnPort
from triack.node.shell.outgoing_message import MessageProperties, with_properties
from triack.node.shell.prepared import MESSAGE_OVERHEAD_BYTES, Prepared
from triack.queues.mailboxes.large_bodies import ANNOUNCED_BYTES, SIZE_BYTES
from triack.queues.mailboxes.resolver import RemoteQueue, local_queue
from triack.queues.mailboxes.system_queues import is_reserved, large_queue
from triack.queues.messages import JOURNAL, LargeMessage, Outgoing
from triack.queues.node_settings import LargeBodies
from triack.queues.stages import Stage, StageName
from triack.queues.streams.outbox import BODY_STATE
from triack.queues.streams.outgoing_stream import OutgoingStream
from triack.stats.causes import cause_of
from triack.store.folder import SAFELY_BY_LINKS

PIECE_BYTES = 256 * 1024
"""Bytes read from a source at a time: enough that each read costs little."""

BodySource = bytes | bytearray | memoryview | str | os.PathLike[str] | BinaryIO | AsyncIterable[bytes] | Iterable[bytes]
"""Bytes, the path of a file, a file that is open for reading bytes, or pieces of bytes, by ``async for`` or not."""


# ---- sources


class Source:
    """The bytes of one body, how many there are, and what to do at the end; an async context manager."""

    def __init__(self, size: int, pieces: AsyncIterator[bytes], close: Callable[[], Any] | None = None) -> None:
        self.size = size
        self._pieces = pieces
        self._close = close

    async def read(self) -> bytes:
        """The next bytes; none at the end."""
        return await anext(self._pieces, b"")

    async def read_all(self, destination: str) -> bytes:
        """All bytes of a body that is not large. Raises UsageError: there are more or fewer than was said."""
        body = bytearray()
        while piece := await self.read():
            body += piece
        if len(body) != self.size:
            raise UsageError(f"send to {destination}: the source has {len(body)} bytes, and {self.size} were said")
        return bytes(body)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._close is not None:
            await aside(self._close)


def _as_bytes(piece: object) -> memoryview:
    if not isinstance(piece, bytes | bytearray | memoryview):
        raise UsageError(f"send a stream: a source gives bytes, not {type(piece).__name__}")
    return memoryview(piece).cast("B")


async def _slices(body: memoryview) -> AsyncIterator[bytes]:
    for at in range(0, len(body), PIECE_BYTES):
        yield bytes(body[at : at + PIECE_BYTES])


async def _cut(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async for piece in pieces:
        async for part in _slices(_as_bytes(piece)):
            yield part


async def _pieces_of(file: BinaryIO) -> AsyncIterator[bytes]:
    """A file from where it is."""
    while (piece := await aside(lambda: file.read(PIECE_BYTES))) != b"":
        if not isinstance(piece, bytes):
            raise UsageError(f"send a stream: the file must be open for reading bytes, and gave {type(piece).__name__}")
        yield piece


async def _each(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    while (piece := await aside(lambda: next(pieces, None))) is not None:
        yield piece


async def stored_parts(port: EngineHandle, origin: bytes, ordinal: int) -> AsyncIterator[bytes]:
    """A large body that is on this node already. Raises BodyLost."""
    index = 0
    while part := await part_of(port, origin, ordinal, index):
        yield part
        index += 1


async def aside(job: Callable[[], Any]) -> Any:
    """Run a blocking job in a thread that is not the node's: no commit waits for a source that is slow."""
    return await asyncio.to_thread(job)


async def open_source(destination: str, source: BodySource, content_length: int | None) -> Source:
    """The bytes of a source, whose size is known.

    Pieces without a known size, and files that cannot say theirs, are written to a temporary file first.

    Raises:
        UsageError: it is no source, or it has another size than was said.
        OSError: a file cannot be opened or read.
    """
    check_kind(f"send to {destination}: content_length", content_length, int | None)
    if content_length is not None and content_length < 0:
        raise UsageError(f"send to {destination}: content_length must not be negative, and is {content_length}")
    opened = await _open(destination, source, content_length)
    if content_length is not None and opened.size != content_length:
        async with opened:  # which ends it
            raise UsageError(
                f"send to {destination}: the source has {opened.size} bytes, and content_length is {content_length}"
            )
    return opened


async def _open(destination: str, source: BodySource, content_length: int | None) -> Source:
    if isinstance(source, bytes | bytearray | memoryview):
        whole = _as_bytes(source)
        return Source(len(whole), _slices(whole))
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        file, size = await aside(lambda: _open_file(destination, path))
        return Source(size, _pieces_of(file), file.close)
    if callable(getattr(source, "read", None)):
        file = cast("BinaryIO", source)
        known = content_length if content_length is not None else await aside(lambda: _size_left(file))
        return await _spool(_pieces_of(file)) if known is None else Source(known, _pieces_of(file))
    if isinstance(source, AsyncIterable):
        pieces = aiter(source)
    elif isinstance(source, Iterable):
        pieces = _each(iter(source))
    else:
        raise UsageError(
            f"send to {destination}: {source!r} is no bytes, no path, no file, and gives no pieces of bytes"
        )
    return await _spool(pieces) if content_length is None else Source(content_length, _cut(pieces))


def _open_file(destination: str, path: Path) -> tuple[BinaryIO, int]:
    """A file, and its size. A pipe has none, and the thread that opens it waits for its other end: it is refused."""
    opened = os.open(path, os.O_RDONLY | SAFELY_BY_LINKS | getattr(os, "O_BINARY", 0))
    found = os.fstat(opened)
    if stat.S_ISREG(found.st_mode):
        return os.fdopen(opened, "rb"), found.st_size
    os.close(opened)
    raise UsageError(f"send to {destination}: {path} is no regular file; open it, and give what open() returns")


def _size_left(file: BinaryIO) -> int | None:
    """The bytes of a file from where it is; None if it cannot say."""
    try:
        at = file.tell()
        end = file.seek(0, SEEK_END)
        file.seek(at)
    except (OSError, AttributeError):
        return None
    return end - at


async def _spool(pieces: AsyncIterator[bytes]) -> Source:
    import tempfile  # noqa: PLC0415 - few programs need it, and what it imports takes long

    file = cast("BinaryIO", await aside(tempfile.TemporaryFile))
    size = 0
    try:
        async for piece in pieces:
            written = _as_bytes(piece)
            size += len(written)
            await aside(lambda: file.write(written))  # noqa: B023 - it has run by the next turn
        await aside(lambda: file.seek(0))
    except BaseException:
        file.close()
        raise
    return Source(size, _pieces_of(file), file.close)


# ---- sending


class Upload:
    """One large body on its way. ``begin``, ``add`` all of it, ``complete``, ``submit``; or ``give_up`` at any time.

    Attributes:
        has_ended: whether it was submitted or given up.

    Raises:
        AddressError, MessageTooLarge, UsageError: the message cannot be large.
    """

    def __init__(self, port: EngineHandle, outgoing: OutgoingStream, size: int, message: Outgoing) -> None:
        port.check_alive()
        self._port = port
        destination = self._destination = outgoing.destination
        self._size = size
        self._limits: LargeBodies = port.settings.large
        self._outgoing = outgoing
        self._message = message
        copied = JOURNAL in (message.properties or {})
        check_large(destination, size, self._limits, outgoing.queue, message.key, copied=copied)
        if outgoing.delivery not in DURABLE:
            raise UsageError(f"send a stream to {destination}: express messages are on no disk, and large ones must be")
        if outgoing.way is not None and not outgoing.way.is_direct and outgoing.delivery is Delivery.RECOVERABLE:
            raise UsageError(
                f"send a stream to {destination}: by way of a relay, only a transactional message can be large"
            )
        self._ordinal = 0
        self._part = bytearray()
        self._given = 0
        self._receipts: deque[tuple[Receipt, int]] = deque()
        self._ahead_bytes = 0
        self._lock = port.body_lock(outgoing.destination)
        self._parts = _parts_stream(port, outgoing)
        self._begun = self.has_ended = False

    @classmethod
    def to(
        cls, port: EngineHandle, destination: str, size: int, delivery: Delivery, properties: MessageProperties
    ) -> "Upload":
        """A large body for a destination; arguments and errors are those of ``Node.send``."""
        outgoing = port.outgoing_stream(destination, delivery, properties.get("priority"), properties.get("seal"))
        if properties.get("seal") and not (outgoing.peer and port.outbox.sealing.is_wanted(outgoing.peer)):
            # The parts have a separate stream, which knows nothing of what one message wants.
            raise UsageError(
                f"send a stream to {destination}: parts are sealed only where the peer or the route says so for all "
                "messages: node.trust(..., seal=True)"
            )
        now_ms = port.wall_ms()
        life_s = port.settings.time_to_reach_queue_s if outgoing.peer else None
        message = with_properties(destination, b"", properties, now_ms, port.name, life_s)
        upload = cls(port, outgoing, size, message)
        port.heed(outgoing, message)
        return upload

    async def begin(self) -> None:
        """Wait for the turn of this body, and for room at its destination.

        Raises:
            DeliveryFailed: the destination refuses it, or its time to reach the queue ran out.
            MessageTooLarge: the queue of this node, or its disk, never accepts such a body.
            QueueFull, NoRoom: it has no room for it now.
        """
        async with self._in_time():
            await self._lock.acquire()
            self._begun = True
            # The stream of the parts must not end in between.
            self._parts = _parts_stream(self._port, self._outgoing)
            self._parts.senders += 1
            if self._outgoing.peer:
                await self._announce()
                return
            while not self._ordinal:
                await self._wait_room_here()
                # None may count on the room of another one whose announcement is not in a commit yet.
                async with self._port.body_lock(""):
                    if self._has_room_here():
                        await self._announce()

    async def _announce(self) -> None:
        engine = self._port.engine
        self._ordinal = engine.take_ordinal()
        announced = LargeMessage(self._size.to_bytes(ANNOUNCED_BYTES), ordinal=self._ordinal)
        engine.set_state(f"{BODY_STATE}{self._ordinal}", f"{self._outgoing.peer}/{self._outgoing.queue}".encode())
        await self._submit(announced, ANNOUNCED_BYTES)
        await self._settle(0)

    async def add(self, piece: bytes) -> None:
        """Send the next bytes. Raises UsageError if there are more than was said, and as ``begin``."""
        self._given += len(piece)
        if self._given > self._size:
            raise UsageError(
                f"send to {self._destination}: the source has more than the {self._size} bytes that were said"
            )
        self._part += piece
        async with self._in_time():
            while len(self._part) >= self._limits.part_bytes:
                body = bytes(memoryview(self._part)[: self._limits.part_bytes])
                del self._part[: self._limits.part_bytes]
                await self._send_part(body)

    async def complete(self) -> Prepared:
        """Wait until all of it is at the destination. Returns the message that represents it, to be submitted.

        ``submit`` must follow in the same turn of the event loop.
        """
        if self._given != self._size:
            raise UsageError(
                f"send to {self._destination}: the source has {self._given} of the {self._size} bytes that were said"
            )
        async with self._in_time():
            if self._part:
                await self._send_part(bytes(self._part))
            await self._settle(0)
        it = self._message
        message = LargeMessage(
            self._size.to_bytes(SIZE_BYTES),
            it.properties,
            it.reach_by_ms,
            ack_now=it.ack_now,
            receive_by_ms=it.receive_by_ms,
            ordinal=self._ordinal,
        )
        prepared = self._outgoing, cast("Outgoing", message), SIZE_BYTES + MESSAGE_OVERHEAD_BYTES
        async with self._in_time():
            await self._port.wait_room(prepared)
        return prepared

    def submit(self, prepared: Prepared) -> Receipt:
        """Accept the message that ``complete`` has returned: the next commit makes it durable."""
        outgoing, message, size_bytes = prepared
        outgoing = self._port.current(outgoing)
        ticket = self._port.submit((outgoing, message, size_bytes))
        self._port.engine.set_state(f"{BODY_STATE}{self._ordinal}", None)
        self._end()
        return NodeReceipt(self._port, outgoing, ticket, self._ordinal)

    def give_up(self) -> None:
        """Send no more of it: what its destination has is freed. It does nothing after ``submit``."""
        if self.has_ended:
            return
        if self._ordinal:
            self._port.engine.give_up_body(self._parts, self._ordinal)
            self._port.engine.set_state(f"{BODY_STATE}{self._ordinal}", None)
            self._port.wake()
        self._end()

    def _end(self) -> None:
        if self._begun and not self.has_ended:
            self._parts.senders -= 1
            self._lock.release()
        self.has_ended = True

    async def _wait_room_here(self) -> None:
        admission, queue, port = self._port.admission, self._outgoing.queue, self._port
        if self._size > admission.body_room.most_bytes(queue):
            raise MessageTooLarge(
                f"send to {queue}: a body of {self._size} bytes is larger than all that the queue may take"
            )
        if admission.disk_room.is_exceeded_by(self._size):
            raise MessageTooLarge(f"send to {queue}: the disk never has room for a body of {self._size} bytes")
        while not self._has_room_here():
            if port.queues.quota_of(queue).when_full == "reject":
                raise QueueFull(f"send to {queue}: it has no room for {self._size} bytes, and refuses more")
            await port.next_round()

    def _has_room_here(self) -> bool:
        """Whether a queue of this node has room for it now. Raises NoRoom if the disk has none."""
        admission, queue, port = self._port.admission, self._outgoing.queue, self._port
        if not admission.disk_room.fits(self._size):
            raise NoRoom(
                f"send to {queue}: the disk of node {port.name} has no room for {self._size} bytes beside its reserve "
                "and the bodies that are coming"
            )
        return admission.body_room.has_room(queue, port.engine.node_id, self._size)

    async def _send_part(self, body: bytes) -> None:
        await self._submit(body, len(body))
        await self._settle(self._limits.ahead_bytes)

    async def _submit(self, message: bytes | Outgoing, size_bytes: int) -> None:
        prepared = self._parts, message, size_bytes + MESSAGE_OVERHEAD_BYTES
        self._port.check_taken(self._destination, self._parts)
        await self._port.wait_room(prepared)
        ticket = self._port.submit(prepared)
        self._receipts.append((NodeReceipt(self._port, self._parts, ticket, 0), size_bytes))
        self._ahead_bytes += size_bytes

    async def _settle(self, ahead_bytes: int) -> None:
        """Wait until no more than that is missing on the disk of the destination."""
        while self._receipts and (self._ahead_bytes > ahead_bytes or not ahead_bytes):
            receipt, size_bytes = self._receipts[0]
            try:
                await receipt.reached(Stage.ORDERED)
            except DeliveryFailed as failed:
                why = f"message to {self._destination} not delivered: {failed.reason}"
                raise DeliveryFailed(why, reason=failed.reason) from None
            self._receipts.popleft()
            self._ahead_bytes -= size_bytes

    @asynccontextmanager
    async def _in_time(self) -> AsyncIterator[None]:
        """Raise DeliveryFailed if the message's time to reach its queue runs out in the block."""
        by_ms, left_s = self._message.expiry[0], None
        if by_ms:
            left_s = (by_ms - self._port.wall_ms()) / 1_000
        try:
            async with asyncio.timeout(left_s):
                yield
        except TimeoutError:
            reason = DeadReason.REACH_QUEUE_TIMEOUT
            raise DeliveryFailed(
                f"message to {self._destination} not delivered: {reason}",
                reason=reason,
                cause=cause_of(self._port.engine, self._parts),
            ) from None


def _parts_stream(port: EngineHandle, outgoing: OutgoingStream) -> OutgoingStream:
    """The outgoing queue of the parts of large messages that go where this one leads."""
    name = large_queue(outgoing.queue)
    target = RemoteQueue(outgoing.peer, name) if outgoing.peer else local_queue(name)
    return port.engine.outgoing_to(target, Delivery.TRANSACTIONAL)


def check_large(destination: str, size: int, limits: LargeBodies, queue: str, key: str, *, copied: bool) -> None:
    """Raise UsageError, MessageTooLarge, AddressError for a large message that can go nowhere."""
    if is_reserved(queue) or ":" in queue:
        raise UsageError(f"send a stream to {destination}: large messages go to queues of applications, not to topics")
    if key:
        raise UsageError(f"send a stream to {destination}: a large message has no key, as it is sent in parts")
    if copied:
        raise UsageError(f"send a stream to {destination}: no copy of a large message stays at its sender (journal)")
    if size > limits.most_bytes:
        raise MessageTooLarge(
            f"send to {destination}: a body of {size} bytes is over the limit of {limits.most_bytes} (large.most_bytes)"
        )
    try:
        check_name(large_queue(queue))
    except AddressError as error:
        raise AddressError(f"send a stream to {destination}: its parts need a longer name: {error}") from None


class StreamSending(OnPort):
    """The verb of a node that sends bodies of any size."""

    send: Callable[..., Awaitable[Receipt]]

    async def send_stream(
        self,
        destination: str,
        source: BodySource,
        *,
        content_length: int | None = None,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        until: Stage | StageName | None = None,
        timeout: float | None = None,
        **properties: Unpack[MessageProperties],
    ) -> Receipt:
        """Send one message whose body may have any size: it leaves in parts, and few of them are in memory.

        It is not stored and forwarded as ``send`` does: it returns when all of the body is on the disk of the
        destination, and the message that represents it on the disk of this node. Until then it waits, also while the
        destination is away, and nothing was sent. A reader gets the whole message or nothing: if the source fails, the
        call is cancelled, or the process dies, what has arrived is freed.

        A body of at most ``NodeSettings.large.from_bytes``, 4 MiB, is sent as ``send`` does.

        Args:
            destination: a queue, as for ``send``; no topic.
            source: bytes; the path of a file; a file that is open for reading bytes, from where it is; or pieces of
                bytes, by ``async for`` or ``for``. Pieces without ``content_length`` go to a temporary file first.
            content_length: the number of bytes, if it is known.
            delivery: ``RECOVERABLE`` or ``TRANSACTIONAL``.
            until: as for ``send``.
            timeout: seconds to wait for that, after all was sent; None for no limit.
            **properties: as for ``send``, but no ``key``, and ``seal`` only for a peer or a route that seals
                everything; times to live count from this call.

        Returns:
            The receipt of the message.

        Raises:
            UsageError: it is no source, or has another size than was said; the message is express, or has a key.
            MessageTooLarge: the body is over ``large.most_bytes``, or more than the queue, or the disk, here accepts.
            DeliveryFailed: the destination refuses the body (``too-large``: its queue has a smaller quota,
                ``larger-than-disk``), or the time to reach the queue has run out. There is no dead letter then.
            OSError: a file cannot be read.
            AddressError, NotLoopback, QueueNotFound, QueueFull, NoRoom, NodeClosed, StoreFailed: as for ``send``.
            WaitTimeout, RollbackDetected: from ``until``, see ``Receipt``; the message was accepted.
        """
        port = self._port
        check_sent("send to", destination, delivery)
        stage = stage_to_wait_for(port, until, delivery, timeout)
        async with await open_source(destination, source, content_length) as opened:
            if opened.size <= port.settings.large.from_bytes:
                body = await opened.read_all(destination)
                receipt = await self.send(destination, body, delivery=delivery, **properties)
            else:
                upload = Upload.to(port, destination, opened.size, delivery, properties)
                receipt = upload.submit(await send_all(upload, opened))
        await receipt.reached(Stage.QUEUED)
        if stage is not None:
            await receipt.reached(stage, timeout)
        return receipt


async def send_all(upload: Upload, source: Source) -> Prepared:
    """Send all of a body. Returns the message that represents it; gives the upload up if anything fails."""
    try:
        await upload.begin()
        while piece := await source.read():
            await upload.add(piece)
        return await upload.complete()
    except BaseException:
        upload.give_up()
        raise
