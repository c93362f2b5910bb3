"""Messages between a node and a process that uses it: their fields and their contents.

A body goes into a frame unchanged; several share one up to a limit. A message from the node is like any other, but
settled at the other end.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any

from triack.base.checks import check_kind, check_texts
from triack.base.delivery import Delivery, check_sent
from triack.base.errors import HandOverEnded, UsageError
from triack.base.printable import counted
from triack.node.control.control_frames import Answer, Caller, Header
from triack.node.handles.consumer import BATCH_MESSAGES
from triack.node.handles.message import Drawn, Keeper, Message, Settle, message_of_run
from triack.node.shell.outgoing_message import MessageProperties, as_bytes, check_each, check_size
from triack.queues.body_head import mark_opened
from triack.queues.mailboxes.mailbox import Lease, QueuedPacket, Run
from triack.queues.mailboxes.redelivery import Return
from triack.queues.messages import MAX_BODY_BYTES, Outgoing
from triack.queues.packing import pack_one


class ClientHolder:
    """Answers for one message that the node has leased to this process."""

    __slots__ = ("_client", "_epoch", "_keeper", "_number")

    def __init__(self, client: Caller, epoch: int | None, number: int | None, keeper: Keeper | None = None) -> None:
        self._client = client
        self._epoch = epoch
        self._number = number
        self._keeper = keeper

    def settle(self, _lease: Lease, way: Return | None) -> None:
        """The message is done, or goes back. Raises HandOverEnded if it was taken back, or its connection was lost."""
        if self._number is None:
            return
        how = {} if way is None else {"failed": way.failed, "delay_ms": way.delay_ms, "dead": way.dead}
        try:
            self._client.post("ack" if way is None else "reject", epoch=self._epoch, message=self._number, **how)
        except HandOverEnded:
            self._number = self._keeper = None
            raise
        self._number = self._keeper = None


def name_of(destination: object, delivery: Delivery) -> str:
    """The name of a delivery class in a frame. Raises UsageError: one of the two has a wrong type."""
    check_sent("send to", destination, delivery)
    return delivery.name


EACH_MESSAGES = 256
"""Messages with properties of their own in a frame: these may have 12 KiB each."""


def frames_of(
    destination: str,
    bodies: Iterable[bytes],
    keys: Iterable[str] | None = None,
    each: Iterable[MessageProperties] | None = None,
) -> list[dict[str, Any]]:
    """Cut the ``bodies`` of a list, their ``keys`` and ``each``, into lists for one frame each; at least one.

    Raises:
        UsageError: a body is not made of bytes, a key is no text, or there are not as many of the others as bodies.
        MessageTooLarge: a body is over the limit.
    """
    frames = _cut(destination, bodies, BATCH_MESSAGES if each is None else EACH_MESSAGES)
    count = sum(map(len, frames))
    more: dict[str, Iterator[Any]] = {}
    if keys is not None:
        named = check_texts(f"send to {destination}: keys", keys)
        if len(named) != count:
            raise UsageError(f"send to {destination}: {len(named)} keys for {counted(count, 'message')}")
        more["keys"] = iter(named)
    if each is not None:
        ids, owns = check_each(destination, each, count)
        more["each"] = (owns[at] for at in ids)
    return [{"bodies": some, **{name: list(islice(rest, len(some))) for name, rest in more.items()}} for some in frames]


def _cut(destination: str, bodies: Iterable[bytes], most: int) -> list[list[bytes]]:
    check_kind(f"send to {destination}: bodies", bodies, Iterable)
    frames: list[list[bytes]] = [[]]
    size_bytes = 0
    for body in [as_bytes(destination, body) for body in bodies]:
        check_size(destination, body)
        if len(frames[-1]) == most or size_bytes + len(body) > MAX_BODY_BYTES:
            frames.append([])
            size_bytes = 0
        frames[-1].append(body)
        size_bytes += len(body)
    return frames


def content_of(message: Message) -> Answer:
    """A message for ``message_of``: the fields that are not in a packet, and the body of a packet for it alone."""
    origin, _, ordinal = message.id.partition("-")
    outgoing = Outgoing(
        message.size.to_bytes(8) if message.is_large else message.body,
        message.properties,
        receive_by_ms=round((message.receive_by or 0) * 1_000),
        priority=message.priority,
    )
    content = pack_one(outgoing, int(ordinal), round(message.sent_at * 1_000))
    fields = {
        "queue": message.queue,
        "place": message.place,
        "origin": origin,
        "sender": message.sender,
        "failures": message.failures,
        "redelivered": message.redelivered,
        "topic": message.topic or "",
        "large": message.is_large,
        "sealed": message.sealed,
    }
    return fields, content


def contents_of(messages: Iterable[Message]) -> Answer:
    """The same for several messages."""
    about, contents = zip(*map(content_of, messages), strict=True)
    return {"about": about, "sizes": [len(content) for content in contents]}, b"".join(contents)


def message_of(header: Header, content: bytes, settle: Settle, client: Caller) -> Message:
    """A message from the output of ``content_of``, as if it had come out of a queue of this process."""
    if header["sealed"]:
        content = mark_opened(content)
    packet = QueuedPacket(
        keys=(),
        origin=bytes.fromhex(header["origin"]),
        stream=0,
        sequence=0,
        number=0,
        delivery=Delivery.TRANSACTIONAL,
        count=1,
        size_bytes=len(content),
        pieces=[content],
        topic=str(header["topic"]),
    )
    packet.first_place = int(header.get("place", 0))  # older builds with this version of the frames do not say it
    run = Run(packet, 0, 1, redelivered=bool(header["redelivered"]), failures={0: header["failures"]})
    if header["large"]:
        packet.large = packet.open().first_ordinal
    queue, sender = str(header["queue"]), str(header["sender"])
    return message_of_run(Drawn(queue, run, settle, lambda _origin: sender), 0, partial(_read_part, client))


async def _read_part(client: Caller, lease: Lease, index: int) -> bytes:
    packet = lease.packet
    _, content = await client.call("read_part", origin=packet.origin.hex(), ordinal=packet.large, index=index)
    return content


def describe(message: Message) -> dict[str, Any]:
    """The fields of a message beside its body, for JSON."""
    return {
        "id": message.id,
        "queue": message.queue,
        "sender": message.sender,
        "sent_at": message.sent_at,
        "receive_by": message.receive_by,
        "redelivered": message.redelivered,
        "failures": message.failures,
        "properties": message.properties,
    }
