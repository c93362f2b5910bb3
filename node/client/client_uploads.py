"""Large messages that a client sends: their bodies go to the node in pieces, and from there as its own."""

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from triack.base.delivery import Delivery
from triack.base.errors import ConnectionLost, NodeClosed
from triack.node.client.asking import begin_now
from triack.node.control.client_messages import name_of
from triack.node.control.control_frames import Caller, Header
from triack.node.handles.derived import Said
from triack.node.handles.streaming import Source, open_source
from triack.node.shell.event_loop import may_wait
from triack.queues.messages import MAX_BODY_BYTES

T = TypeVar("T")

PIECE_BYTES = 1024 * 1024
"""Bytes of one call: they fit into a frame, and a call costs little for each."""


async def send_whole_or_parts(
    client: Caller,
    said: Said,
    send_whole: Callable[[bytes], Awaitable[T]],
    end: Callable[[Header, Callable[..., Awaitable[Header]]], Awaitable[T]],
) -> T:
    """Send a small body in one call; of a large one send the parts, and then the message by ``end``."""
    destination, delivery = said["destination"], said["delivery"]
    name_of(destination, delivery)
    async with await open_source(destination, said["source"], said["content_length"]) as source:
        if source.size <= MAX_BODY_BYTES:
            return await send_whole(await source.read_all(destination))
        return await _send_parts(client, said, source, end)


async def _send_parts(
    client: Caller, said: Said, source: Source, end: Callable[[Header, Callable[..., Awaitable[Header]]], Awaitable[T]]
) -> T:
    delivery: Delivery = said["delivery"]
    begun, _ = await client.call(
        "upload",
        destination=said["destination"],
        delivery=delivery.name,
        size=source.size,
        properties=dict(said["properties"]),
    )
    number, epoch = begun["upload"], begun["epoch"]

    async def call(do: str, body: bytes = b"", **fields: Any) -> Header:
        header, _ = await client.call(do, body, epoch=epoch, upload=number, **fields)
        return header

    try:
        held = bytearray()
        while piece := await source.read():
            held += piece
            if len(held) >= PIECE_BYTES:
                await call("upload_part", bytes(held))
                held.clear()
        if held:
            await call("upload_part", bytes(held))
        return await end(begun, call)
    except BaseException as error:
        given_up = begin_now(_give_up(call))
        if may_wait(type(error)):
            await given_up
        raise


async def _give_up(call: Callable[..., Awaitable[Header]]) -> None:
    with contextlib.suppress(ConnectionLost, NodeClosed):  # then the node has given it up
        await call("upload_give_up")
