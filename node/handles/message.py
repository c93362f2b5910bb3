"""A message that an application has received."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from operator import attrgetter
from pathlib import Path
from typing import Any, overload

from triack.base.checks import LONGEST_LIFE_S
from triack.base.errors import LargeBody, UsageError
from triack.base.printable import counted
from triack.node.shell.outgoing_message import MessageProperties
from triack.queues.admin_acks import class_in
from triack.queues.mailboxes.large_bodies import size_said
from triack.queues.mailboxes.mailbox import Lease, Run
from triack.queues.mailboxes.queued_packet import QueuedPacket
from triack.queues.mailboxes.redelivery import Return
from triack.queues.message_classes import MessageClass

ReadPart = Callable[[Lease, int], Awaitable[bytes]]
"""Reads a part of the body of a large message, by its number from 0 on; empty after the last one."""

Settle = Callable[[Lease, Return | None], None]
"""Answers for a message that an application has: it is done (None), or goes back into its queue."""


class Keeper:
    """Keeps a reader open: that ends with the last reference to this, from the reader itself or from its messages.

    It is defined here because ``in_flight`` may be compiled, and compiled classes have no weak references.
    """

    __slots__ = ("__weakref__",)


@dataclass(slots=True, eq=False)
class Drawn:
    """What messages have in common that a reader draws together from one run, so that each of them is small."""

    queue: str
    run: Run
    settle: Settle
    name_of: Callable[[bytes], str]


class Message:
    """A message that was received.

    Attributes:
        body: the bytes that were sent, at most 4 MiB. A large message raises LargeBody.
    """

    __slots__ = ("_drawn", "_index", "body")

    def __init__(self, body: bytes, index: int, drawn: Drawn) -> None:
        self.body = body
        self._index = index
        self._drawn = drawn

    @property
    def queue(self) -> str:
        """The queue that it came from."""
        return self._drawn.queue

    @property
    def lease(self) -> Lease:
        """The queue's handle of the message; for the node's own parts."""
        return self._drawn.run.lease(self._index)

    @property
    def place(self) -> int:
        """Its place in the queue: younger messages have greater ones.

        It stays the same while the process of the node runs; ``Node.browse(after=place)`` continues behind it.
        """
        return self.lease.place

    @property
    def redelivered(self) -> bool:
        """Whether a reader may have received it before."""
        return self._drawn.run.redelivered

    def __repr__(self) -> str:
        return f"<Message {self.id} of queue {self.queue}, {self.size} bytes>"

    @property
    def size(self) -> int:
        """Length of its body in bytes."""
        return len(self.body)

    @property
    def is_large(self) -> bool:
        """Whether it was sent in parts (``Node.send_stream``), so that its body is not in memory."""
        return False

    async def stream(self) -> AsyncIterator[bytes]:
        """Yield the body, a part at a time: ``async for chunk in message.stream()``. It begins anew with each call.

        Raises:
            BodyLost: of a large message: the body is not on the node, or was freed as the message was acknowledged.
            NodeClosed, StoreFailed, ConnectionLost: the node has ended, or the process that runs it.
        """
        if self.body:
            yield self.body

    async def save(self, path: str | Path) -> int:
        """Write the body to a file, which has all of it or does not exist: it gets its name at the end.

        Returns:
            Its length in bytes.

        Raises:
            OSError: the file cannot be written.
            BodyLost, NodeClosed, StoreFailed, ConnectionLost: as ``stream``.
        """
        target = Path(path)
        partial = target.with_name(f".{target.name}.part")
        size = 0
        file = partial.open("wb")
        try:
            async for chunk in self.stream():
                size += file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
            file.close()
            partial.replace(target)
        except BaseException:
            file.close()
            partial.unlink(missing_ok=True)
            raise
        return size

    def ack(self) -> None:
        """The message is done; it leaves the queue with the next commit, some ten milliseconds later at most.

        A second call does nothing, nor does one after ``reject`` or after its reader was closed.

        Raises:
            HandOverEnded: it was taken back from its reader (``Node.release``, ``hand_over_timeout``) and is
                redelivered.
            UsageError: a transaction received it, and acknowledges it with its commit; or this is another thread, or
                another event loop, than its reader's.
        """
        self._drawn.settle(self.lease, None)

    def reject(self, *, failed: bool = True, delay: float | None = None, dead: bool = False) -> None:
        """Give the message back: it is redelivered, before anything younger, with ``redelivered`` set.

        One that failed waits before that, as the ``Redelivery`` of its queue or consumer says; that also says whether
        younger messages wait with it. A second call does nothing, nor does one after ``ack``.

        Args:
            failed: count this as a failure; it goes to the dead-letter queue after one more
                than ``max_redeliveries`` of them.
            delay: seconds to wait instead, failed or not; 0 for none. A wait survives a restart.
            dead: send it to the dead-letter queue now (``reader-refused``), as no further try can succeed; a message
                of that queue itself stays there.

        Raises:
            UsageError: the delay is no number of seconds; a transaction received the message, and gives it back with
                its rollback; or as ``ack``.
        """
        delay_ms = None if delay is None else delay_ms_of(delay)
        self._drawn.settle(self.lease, Return(failed, delay_ms, dead=dead))

    def settled_by(self, wrap: Callable[[Settle], Settle]) -> "Message":
        """The same message, settled by what ``wrap`` makes of what settles it now; for the node's own parts."""
        return self._on(replace(self._drawn, settle=wrap(self._drawn.settle)))

    def _on(self, drawn: Drawn) -> "Message":
        return Message(self.body, self._index, drawn)

    @property
    def parts(self) -> tuple[int, Drawn]:
        """Its index in its run, and what it has in common with others; for the node's own parts."""
        return self._index, self._drawn

    @property
    def id(self) -> str:
        """The message's permanent name: 32 hex digits of its node, ``-``, its ordinal there.

        MSMQ names messages by the same two parts, the source queue manager and its MessageID ([MS-MQMQ] 2.2.19.2).
        """
        return id_of(self._drawn.run.packet, self._index)

    @property
    def topic(self) -> str | None:
        """The name of the topic to which it was published; None for a message of a queue."""
        packet = self._drawn.run.packet
        content = packet.open()
        return packet.topic or (content.topic if content.publisher else None)

    @property
    def sender(self) -> str:
        """This node's name for the node that sent it, as in destinations; empty for this node itself.

        For a message of a topic of another node, that node says who published it. A node without a name here has its id
        as name; only a node without keys can talk to such a node.
        """
        packet = self._drawn.run.packet
        return self._drawn.name_of(packet.open().publisher or packet.origin)

    @property
    def sent_at(self) -> float:
        """When it was sent: wall clock of the sender, seconds since 1970, to the millisecond."""
        return self._drawn.run.packet.open().sent_at_ms / 1_000

    @property
    def receive_by(self) -> float | None:
        """When it expires unless it was received: wall clock of the sender; None for never."""
        receive_by_ms = self._drawn.run.packet.open().receive_by_ms
        return receive_by_ms / 1_000 if receive_by_ms else None

    @property
    def failures(self) -> int:
        """How often it was given back as failed; for a message that is done, the count when its reader received it."""
        return self._drawn.run.failures_of(self._index)

    @property
    def has_properties(self) -> bool:
        """Whether its sender has set any: quicker than ``properties``."""
        packet = self._drawn.run.packet
        properties = (packet.content or packet.open()).properties
        return properties is not None and bool(properties[self._index])

    @property
    def properties(self) -> dict[str, Any]:
        """Everything the sender set beside the body.

        In the dead-letter queue also ``dead_reason``, ``dead_destination`` and, if it was sent from here,
        ``dead_maybe_delivered``.
        """
        properties = self._drawn.run.packet.open().properties
        if properties is None:
            return {}
        # Messages that were sent together share them.
        found = properties[self._index].items()
        return {name: dict(value) if type(value) is dict else value for name, value in found}

    @property
    def priority(self) -> int:
        """Its priority, 0 to 7; 7 is read first. A transactional message has 0."""
        return self._drawn.run.packet.open().priority

    @property
    def sealed(self) -> bool:
        """Whether its sender has sealed it, so that no node on its way could read it, and none but ``sender`` sent it.

        A copy that a node made of it, such as a dead letter, is not sealed.
        """
        return self._drawn.run.packet.open().sealed

    @property
    def correlation_id(self) -> str | None:
        """Set by the sender to match a reply with its request."""
        return self._text("correlation_id")

    @property
    def reply_to(self) -> str | None:
        """The destination to which the sender wants replies, as this node sends there.

        The bare name of a queue is a queue of the node that sent the message: ``sender/queue``.
        """
        return absolute(self._text("reply_to"), self.sender)

    @property
    def label(self) -> str | None:
        """A label for people."""
        return self._text("label")

    @property
    def message_class(self) -> MessageClass:
        """What it is: ``NORMAL``, or which administration message about the one whose id is its ``correlation_id``."""
        return class_in(self._drawn.run.packet.open().properties, self._index)

    @property
    def headers(self) -> dict[str, str]:
        """The names and values that the sender gave it."""
        headers = self.properties.get("headers")
        return {str(name): str(value) for name, value in headers.items()} if isinstance(headers, dict) else {}

    def forwardable(self) -> MessageProperties:
        """The sender's properties, to forward the message: ``node.send(next, message.body, **message.forwardable())``.

        Times to live are left out: they were for the way to this queue, which has ended. ``reply_to`` stays as it was
        set.
        """
        found: MessageProperties = {"headers": self.headers} if self.headers else {}
        if self.correlation_id is not None:
            found["correlation_id"] = self.correlation_id
        reply_to = self._text("reply_to")
        if reply_to is not None:
            found["reply_to"] = reply_to
        if self.label is not None:
            found["label"] = self.label
        return found

    def _text(self, name: str) -> str | None:
        value = self.properties.get(name)
        return value if isinstance(value, str) else None


class LargeMessage(Message):
    """A message that was sent in parts."""

    __slots__ = ("_read_part", "_size")

    is_large = True
    size = property(attrgetter("_size"))

    def __init__(self, size: int, index: int, drawn: Drawn, read_part: ReadPart) -> None:
        super().__init__(b"", index, drawn)
        self._size = size
        self._read_part = read_part

    @property
    def body(self) -> bytes:
        """Raise LargeBody: there is none."""
        raise LargeBody(
            f"message {self.id} of queue {self.queue} has a body of {self._size} bytes: read it by "
            "`async for chunk in message.stream()`, or `await message.save(path)`"
        )

    @body.setter
    def body(self, body: bytes) -> None:
        """Do nothing: it stays where it is."""

    async def stream(self) -> AsyncIterator[bytes]:
        """Yield the body, a part at a time."""
        index = 0
        while chunk := await self._read_part(self.lease, index):
            yield chunk
            index += 1

    def _on(self, drawn: Drawn) -> "Message":
        return LargeMessage(self._size, self._index, drawn, self._read_part)


def id_of(packet: QueuedPacket, index: int) -> str:
    """The id of the message with that index of a packet."""
    content = packet.open()
    return f"{(content.publisher or packet.origin).hex()}-{content.first_ordinal + index}"


def message_of_run(drawn: Drawn, index: int, read_part: ReadPart) -> Message:
    """The message with that index of a run."""
    packet = drawn.run.packet
    body = packet.open().bodies[index]
    if packet.large:
        return LargeMessage(size_said(body), index, drawn, read_part)
    return Message(body, index, drawn)


class Messages(Sequence[Message]):
    """Messages that were received together, in order. It is used as a list is.

    The messages are made when one of them is first looked at: a reader that needs only ``bodies`` does not pay for
    them. ``make`` makes all ``count`` of them, and is called once; ``bodies``: None asks each message for its own.
    """

    __slots__ = ("_bodies", "_count", "_make", "_messages")

    def __init__(self, count: int, make: Callable[[], list[Message]], bodies: list[bytes] | None = None) -> None:
        self._count = count
        self._make = make
        self._bodies = bodies
        self._messages: list[Message] | None = None

    def _all(self) -> list[Message]:
        if self._messages is None:
            self._messages = self._make()
        return self._messages

    @property
    def bodies(self) -> list[bytes]:
        """The body of each message, with no work for each.

        Raises:
            LargeBody: one of them was sent in parts, as ``Message.body``.
        """
        return [message.body for message in self] if self._bodies is None else self._bodies.copy()

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Message]:
        return iter(self._all())

    @overload
    def __getitem__(self, at: int) -> Message: ...
    @overload
    def __getitem__(self, at: slice) -> list[Message]: ...
    def __getitem__(self, at: int | slice) -> Message | list[Message]:
        return self._all()[at]

    def __add__(self, others: Iterable[Message]) -> list[Message]:
        return [*self, *others]

    def __repr__(self) -> str:
        return f"<{counted(self._count, 'message')}>"

    def each(self, change: Callable[[Message], Message]) -> "Messages":
        """The same messages, each changed when it is first looked at; for the node's own parts."""
        return Messages(self._count, lambda: [change(message) for message in self], self._bodies)


def as_messages(messages: list[Message]) -> Messages:
    """Messages that are made already."""
    return Messages(len(messages), lambda: messages)


def messages_of_runs(drawn: Sequence[tuple[Drawn, range]], read_part: ReadPart) -> Messages:
    """Messages of several runs, by their indices there, in order."""
    bodies, has_large = list[bytes](), 0
    for common, indices in drawn:
        packet = common.run.packet
        has_large |= packet.large
        found = (packet.content or packet.open()).bodies
        bodies += found[indices.start : indices.stop]
    make = partial(_make_messages, drawn, bodies, read_part)
    return Messages(len(bodies), make, None if has_large else bodies)


def _make_messages(drawn: Sequence[tuple[Drawn, range]], bodies: list[bytes], read_part: ReadPart) -> list[Message]:
    messages: list[Message] = []
    rest = iter(bodies)
    for common, indices in drawn:
        if common.run.packet.large:
            messages.append(LargeMessage(size_said(next(rest)), indices.start, common, read_part))
        else:
            messages += [Message(body, index, common) for index, body in zip(indices, rest, strict=False)]
    return messages


def with_properties(messages: Sequence[Message]) -> list[Message]:
    """The messages with ``has_properties``, with almost no work for packets without any such message."""
    packets = {message._drawn.run.packet for message in messages}  # noqa: SLF001 - of this module
    rich = {packet: properties for packet in packets if (properties := packet.open().properties)}
    if not rich:
        return []
    at = [(message._drawn.run.packet, message._index) for message in messages]  # noqa: SLF001 - of this module
    return [one for one, (packet, index) in zip(messages, at, strict=True) if packet in rich and rich[packet][index]]


def absolute(reply_to: str | None, sender: str) -> str | None:
    """A ``reply_to`` as a destination at the node that has the message; a bare name is a queue of its sender."""
    return reply_to if not reply_to or "/" in reply_to or not sender else f"{sender}/{reply_to}"


def way_back(message: Message, properties: MessageProperties) -> tuple[str, MessageProperties]:
    """The destination and properties of the answer to a message. Raises UsageError if it wants none."""
    if not isinstance(message, Message):
        raise UsageError(f"reply to {message!r}: only a message that was received has a way back")
    if not message.reply_to:
        raise UsageError(f"reply to {message.id}: it wants no answer, as its sender set no reply_to")
    return message.reply_to, {"correlation_id": message.correlation_id or message.id, **properties}


def delay_ms_of(seconds: object) -> int:
    """Milliseconds of a wait. Raises UsageError for a wait that is not valid."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= LONGEST_LIFE_S:
        raise UsageError(f"reject: delay must be a number of seconds, 0 to {LONGEST_LIFE_S}, not {seconds!r}")
    return ceil(seconds * 1_000)
