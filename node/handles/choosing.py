"""Taking one message of a queue by its id or its correlation id, whatever waits before it.

The first such call reads the queue once, page by page, and makes an index of it (``queues/mailboxes/lookup.py``); later
ones read what has come since. A body that is only on the disk is fetched when a reader takes its message.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

from triack.base.commit import Read
from triack.base.errors import BodyLost, ProtocolError, UsageError, WaitTimeout
from triack.node.shell.engine_handle import EngineHandle
from triack.node.shell.event_loop import settle
from triack.queues.fetching import Fetch
from triack.queues.mailboxes.large_bodies import open_part
from triack.queues.mailboxes.lookup import Lookup, Wanted
from triack.queues.mailboxes.mailbox import Lease, Mailbox, Run
from triack.queues.mailboxes.queued_packet import QueuedPacket
from triack.queues.packing import Unpacked, unpack_pieces

T = TypeVar("T")

PAGE_PACKETS = 256
"""Packets read at a time: a few milliseconds of work."""
PAGE_BYTES = 1024 * 1024
"""The same for large packets."""


async def choose(
    port: EngineHandle,
    mailbox: Mailbox,
    wanted: Wanted,
    timeout: float | None,
    check: Callable[[], None],
    arrived: asyncio.Event | None = None,
) -> Run:
    """Draw a message of a queue, whatever waits before it. The timeout does not bound the search itself.

    ``arrived`` says that there is a reason to look again, besides arrivals; ``check`` raises if the caller has ended.
    Returns a run of that message, already drawn: the caller must hold it before anything else happens.

    Raises:
        WaitTimeout: it does not wait there.
        UsageError: the queue is a subscription, whose messages only come in their order.
        NodeClosed, StoreFailed: the node has ended; or as ``check``.
    """
    if mailbox.owner is not None:
        raise UsageError(f"choose a message of {mailbox.name}: those of a subscription only come in their order")
    end = None if timeout is None else asyncio.get_running_loop().time() + timeout
    await port.commit()  # messages that were sent to it before wait in it from here on
    late = f"no message with {wanted} waits in queue {mailbox.name}"
    look = partial(_find, port, mailbox, wanted, check)
    return await find_in_time(mailbox, arrived or asyncio.Event(), end, look, late)


async def find_in_time(
    mailbox: Mailbox, arrived: asyncio.Event, end: float | None, look: Callable[[], Awaitable[T | None]], late: str
) -> T:
    """What ``look`` finds in a queue, where it looks again with each arrival until ``end``. Raises WaitTimeout."""
    mailbox.listeners.append(arrived.set)
    try:
        while True:
            arrived.clear()
            found = await look()
            if found is not None:
                return found
            try:
                async with asyncio.timeout_at(end):
                    await arrived.wait()
            except TimeoutError:
                raise WaitTimeout(late) from None
    finally:
        mailbox.leave(arrived.set)


async def _find(port: EngineHandle, mailbox: Mailbox, wanted: Wanted, check: Callable[[], None]) -> Run | None:
    check()
    lookup = mailbox.reader.lookup = mailbox.reader.lookup or Lookup()
    further: list[int] = []
    async for packet, content in _read(port, mailbox, lookup):
        if not lookup.is_full:
            lookup.add(packet, content)
        elif content is not None:
            further += wanted.places_in(packet, content)
    lookup.compact(mailbox.reader.done.__contains__)
    returned = [
        place for place, packet in mailbox.reader.returned if packet.pieces and place in _places_in(wanted, packet)
    ]
    for place in sorted({*lookup.find(wanted), *returned, *further}):
        keys = mailbox.body_keys(place)
        bodies = await fetch(port, Read("messages", list(keys))) if keys else {}
        check()
        port.check_alive()
        run = port.engine.choose(mailbox, place, [bodies[key] for key in keys if key in bodies], port.clock())
        port.wake()
        if run is not None:
            return run
    return None


def _places_in(wanted: Wanted, packet: QueuedPacket) -> list[int]:
    content = _open(packet.pieces)
    return [] if content is None else wanted.places_in(packet, content)


async def _read(
    port: EngineHandle, mailbox: Mailbox, lookup: Lookup
) -> AsyncIterator[tuple[QueuedPacket, Unpacked | None]]:
    after = lookup.indexed_to
    while page := _page_of(mailbox, after):
        keys = [key for packet in page if not packet.pieces for key in packet.keys]
        bodies = await fetch(port, Read("messages", keys)) if keys else {}
        for packet in page:
            pieces = packet.pieces or [bodies[key] for key in packet.keys if key in bodies]
            # Another task may have added it since.
            if packet.last_place > lookup.indexed_to:
                yield packet, _open(pieces) if len(pieces) >= max(1, len(packet.keys)) else None
        after = page[-1].last_place
        await asyncio.sleep(0)


def _page_of(mailbox: Mailbox, after: int) -> list[QueuedPacket]:
    page: list[QueuedPacket] = []
    size_bytes = 0
    for packet in mailbox.unindexed(after):
        page.append(packet)
        size_bytes += packet.size_bytes
        if len(page) == PAGE_PACKETS or size_bytes > PAGE_BYTES:
            break
    return page


def _open(pieces: Sequence[bytes]) -> Unpacked | None:
    try:
        return unpack_pieces(pieces)
    except ProtocolError:
        return None


async def fetch(port: EngineHandle, read: Read) -> dict[int, bytes]:
    """Fetch bodies from the disk. Raises NodeClosed, StoreFailed."""
    done: asyncio.Future[dict[int, bytes]] = asyncio.get_running_loop().create_future()
    settled = partial(settle, done)
    port.engine.fetch(Fetch(read.table, read.keys, take=settled, fail=settled))
    port.wake()
    return await done


async def read_part(port: EngineHandle, lease: Lease, index: int) -> bytes:
    """A part of the body of a large message, see ``part_of``."""
    return await part_of(port, lease.packet.origin, lease.packet.large, index)


async def part_of(port: EngineHandle, origin: bytes, ordinal: int, index: int) -> bytes:
    """A part of a large body of this node, from 0 on; empty after the last one. Raises NodeClosed, StoreFailed.

    Raises BodyLost: the body is not on this node, or no more: its message was acknowledged, or died before it left.
    """
    port.check_alive()
    bodies = port.queues.bodies
    body = bodies.by_id.get((origin, ordinal))
    if body is None or not bodies.is_whole(origin, ordinal):
        raise BodyLost(f"message {origin.hex()}-{ordinal}: its body is not on node {port.name}, or no more")
    if index >= len(body.parts):
        return b""
    keys = [key for first, last in body.parts[index].keys for key in range(first, last + 1)]
    found = await fetch(port, Read("messages", keys))
    with suppress(ProtocolError, KeyError):
        return open_part([found[key] for key in keys])
    raise BodyLost(f"message {origin.hex()}-{ordinal}: it was acknowledged, and its body freed, while it was read")
