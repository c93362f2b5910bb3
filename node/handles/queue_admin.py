"""Browsing the queues of a running node, and moving or removing the messages that wait in them.

Promise: browsing changes nothing. One commit deletes a message from its queue and puts it into the other one: it is
never lost, and never there twice. Messages that a reader has are not touched.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Container, Iterable, Iterator
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

from triack.base.checks import check_kind, check_texts, check_timeout
from triack.base.delivery import TRANSACTIONAL_PRIORITY, Delivery
from triack.base.errors import BodyLost, QueueNotFound, UsageError
from triack.base.names import composed, split_topic, what_else
from triack.node.handles.choosing import fetch, find_in_time
from triack.node.handles.message import absolute
from triack.node.handles.routing import purge_passing
from triack.node.handles.streaming import Source, Upload, send_all, stored_parts
from triack.node.shell.engine_handle import EngineHandle, OnPort
from triack.node.shell.prepared import MESSAGE_OVERHEAD_BYTES, published
from triack.queues.admin_acks import Told
from triack.queues.mailboxes.mailbox import Lease, Mailbox
from triack.queues.mailboxes.parts_queue import PartsQueue
from triack.queues.mailboxes.resolver import RemoteQueue, local_queue
from triack.queues.mailboxes.system_queues import DEAD_LETTER_QUEUE, SystemQueue, is_reserved, system_queue
from triack.queues.manager.browse import (
    BrowsedMessage,
    Position,
    Sight,
    after_rank_of,
    cut_page,
    missing,
    place_of,
    see,
    sights_in_transit,
    sights_of,
    sights_on_the_way,
)
from triack.queues.message_classes import MessageClass
from triack.queues.messages import (
    ADMIN,
    CLASS,
    DEAD_PART,
    DEAD_SEALED,
    DEAD_UNREAD,
    DEATH,
    JOURNAL,
    NO_DEAD_LETTER,
    SENT_TO,
    Outgoing,
)
from triack.queues.node_settings import Quota, WhenFull
from triack.queues.packing import Unpacked
from triack.queues.streams.outgoing_stream import OutgoingStream
from triack.queues.streams.transit_stream import TransitStream
from triack.queues.topics.topic_root import TopicRoot
from triack.stats.stream_stats import StreamsStats, gather_streams
from triack.transport.address import Destination

PAGE_MESSAGES = 256
"""Messages looked at, or moved in one commit, at a time: a few milliseconds of work."""


class OnTheWay(NamedTuple):
    """What is on its way to a queue of another node.

    Attributes:
        own: the outgoing queues of this node to it, one for each class and priority.
        passing: streams of other nodes to it that pass through this one.
    """

    own: list[OutgoingStream]
    passing: list[TransitStream]


Route = Callable[[BrowsedMessage], tuple[OutgoingStream, Outgoing] | None]
"""Gives the outgoing queue for a message, and its new form; None for one that stays."""


class QueueAdmin(OnPort):
    """The verbs of a ``Node`` with which operators look into queues, and change them."""

    async def peek(self, queue: str, timeout: float | None = None) -> BrowsedMessage:
        """Look at the first message that waits in a queue of this node, and wait for one if there is none.

        It changes nothing: the message stays, and any reader may receive it. ``timeout`` is in seconds, None for no
        limit.

        Raises:
            WaitTimeout: none came in time.
            AddressError, QueueNotFound, UsageError: as for ``receive``.
        """
        port = self._port
        check_timeout(f"peek at {queue}", timeout)
        mailbox = port.mailbox(queue)
        end = None if timeout is None else asyncio.get_running_loop().time() + timeout

        async def look() -> BrowsedMessage | None:
            return next(iter(await page_of(port, queue, ())), None)

        late = f"no message waits in queue {queue} after {timeout} s"
        return await find_in_time(mailbox, asyncio.Event(), end, look, late)

    def browse(self, queue: str, after: int = 0) -> AsyncIterator[BrowsedMessage]:
        """Look at the messages that wait in a queue, in order: ``async for message in node.browse("orders")``.

        It changes nothing. It does not show messages that readers have received.

        Args:
            queue: a queue of this node, or a destination from ``stats().outgoing`` or ``stats().transit``, for messages
                on their way there.
            after: only messages that came into a queue of this node after the one with this place (``Message.place``,
                ``BrowsedMessage.place``).

        Raises:
            QueueNotFound: there is no such queue.
            UsageError: ``after`` is no place, or the queue is none of this node.
        """
        return _browse(self._port, queue, after)

    async def requeue(
        self,
        ids: Collection[str] | None = None,
        *,
        queue: str = "dead-letter",
        reason: str | None = None,
        older_than: float | None = None,
        maybe_delivered: bool = False,
    ) -> int:
        """Send dead letters again: to their destinations, or to the queues of this node in which they failed.

        Each becomes a new message with the priority and the properties that its first sender set, without times to
        live, and without a request for administration messages: transactional if the priority is 0, recoverable
        otherwise.

        Args:
            ids: which of the messages that wait there; None for all that have a destination. A message that was sent
                to that queue itself has none, and stays.
            queue: the queue of the dead letters: ``dead-letter``, or one that their sender has chosen
                (``dead_letter``).
            reason: only those that died for this reason, by its name in docs/reasons.md.
            older_than: only those that died that many seconds ago, or earlier.
            maybe_delivered: also those that may have arrived, as their acknowledgement was missing
                (``dead_maybe_delivered``). They arrive twice then, if they have.

        Returns:
            The number of messages sent again.

        Raises:
            QueueNotFound: there is no such queue.
            UsageError: a message in ``ids`` has no destination, or may have arrived, or ``older_than`` is no number of
                seconds.
        """
        port, wanted = self._port, as_ids(ids)
        check_kind(f"requeue {queue}: maybe_delivered", maybe_delivered, bool)
        check_kind(f"requeue {queue}: reason", reason, str | None)
        check_timeout(f"requeue {queue}: older_than", older_than)
        died_by = None if older_than is None else port.wall_ms() / 1_000 - older_than

        def route(message: BrowsedMessage) -> tuple[OutgoingStream, Outgoing] | None:
            if (reason is not None and message.reason != reason) or (died_by is not None and message.sent_at > died_by):
                return None
            if why := _why_it_stays(message, maybe_delivered=maybe_delivered):
                if wanted is None:
                    return None
                raise UsageError(f"requeue {message.id}: {why}")
            return _addressed_again(port, message)

        return await _move(port, queue, wanted, route)

    async def move(self, queue: str, destination: str, ids: Collection[str] | None = None) -> int:
        """Move messages that wait in a queue of this node elsewhere, with their priorities and all their properties.

        They go transactional if their priority is 0, recoverable otherwise. Without ``ids`` all of them go. Returns the
        number of messages.

        Raises:
            QueueNotFound: there is no such queue.
            AddressError, NotLoopback: the node cannot send to the destination.
        """
        port, wanted = self._port, as_ids(ids)
        port.check_way(destination, Delivery.TRANSACTIONAL)

        @cache  # made with the first message of each priority
        def way(priority: int, seal: bool) -> OutgoingStream:
            return port.outgoing_stream(destination, _class_of(priority), priority, seal or None)

        def route(message: BrowsedMessage) -> tuple[OutgoingStream, Outgoing]:
            receive_by_ms = round((message.receive_by or 0) * 1_000)
            properties = _properties_of(port, message) or None
            moved = Outgoing(message.body, properties, receive_by_ms=receive_by_ms)
            return addressed(destination, way(message.priority, DEAD_SEALED in message.properties), moved)

        return await _move(port, queue, wanted, route)

    async def purge(self, queue: str, ids: Collection[str] | None = None) -> int:
        """Remove messages that wait in a queue. Only those on their way elsewhere become dead letters (``purged``).

        For ``$large.QUEUE`` it frees the large bodies whose messages have not come; a sender that continues gets
        ``body-gone``.

        Args:
            queue: as for ``browse``.
            ids: which of the messages that wait in a queue of this node; None for all of them.

        Returns:
            The number of messages removed.

        Raises:
            QueueNotFound: there is no such queue.
            UsageError: ids were given for messages that are on their way.
        """
        port, wanted = self._port, as_ids(ids)
        where = _find(port, queue)
        if isinstance(where, OnTheWay):
            if wanted is not None:
                raise UsageError(f"purge {queue}: what is on its way goes in packets of many messages; purge all of it")
            purged = await _purge_outgoing(port, where.own)
            for final, name in {(stream.final, stream.queue) for stream in where.passing}:
                purged += await purge_passing(port, final, name)
            return purged
        purged = 0
        async for mailbox, page in _pages(port, queue, wanted):
            purged += len(_purge(port, mailbox, {place_of(it.position): it for it in page}))
            await port.commit()
        parts = port.mailboxes.get(queue)
        if wanted is None and isinstance(parts, PartsQueue):
            purged += parts.purge_bodies()
            await port.commit()
        return purged

    async def release(self, queue: str) -> int:
        """Take back the messages of a queue of this node that its readers have, such as a reader that hangs.

        They are redelivered, marked ``redelivered``; this is no failure. A reader that acknowledges one of them later
        gets HandOverEnded, and a transaction that received one can only be rolled back. Returns the number of messages.

        Raises:
            QueueNotFound: there is no such queue.
        """
        port = self._port
        await port.commit()
        taken = port.holding.take_back(_own(port, queue).name)
        await port.commit()
        return taken

    async def pause(self, queue: str, *, arrivals: bool = False) -> None:
        """Pause a queue until ``resume``, restarts included; what it accepts waits in it.

        Nothing new leaves a paused outgoing queue: what was sent and is not acknowledged stays so, and is not resent.
        Readers of a paused queue of this node wait; messages that they have stay with them. Times to live continue.
        ``close`` and ``drain`` do not wait for what a paused queue holds.

        Args:
            queue: a queue of this node, which is made if there is none; ``peer/queue``; or the name of a peer or of a
                route, with or without a ``/`` behind it, for all messages to that node. A queue of this node goes
                before a peer of the same name. What the pattern of a route leads to has the ``/``.
            arrivals: let nothing come into the queue of this node, either: senders wait, as for a full queue.

        Raises:
            QueueNotFound: the node has a fixed set of queues without this one.
            AddressError: the destination cannot be read, or names an unknown peer.
            UsageError: a queue that the node itself needs, or arrivals of an outgoing queue.
        """
        port = self._port
        name = _pausable(port, queue)
        check_kind(f"pause {queue}: arrivals", arrivals, bool)
        if arrivals and "/" in name:
            raise UsageError(f"pause {queue}: only a queue of this node has arrivals; no messages come into {name}")
        if "/" not in name:
            port.engine.make_queue(name)
        port.engine.pause(name, arrivals=arrivals, now_ns=port.clock())
        await port.commit()

    async def resume(self, queue: str) -> bool:
        """End a pause of a queue or a peer, as for ``pause``. Returns whether it was paused.

        Raises:
            QueueNotFound: there is neither a queue nor a peer of that name, and none is paused.
            AddressError, UsageError: as for ``pause``.
        """
        port = self._port
        paused = port.queues.pauses.by_name
        check_kind("resume: the name", queue, str)
        name = queue if queue in paused else _pausable(port, queue)
        if "/" not in name:
            _require(port, name, paused)
        was_paused = port.engine.resume(name, port.clock())
        await port.commit()
        return was_paused

    async def set_quota(
        self,
        queue: str,
        *,
        messages: int | None = None,
        size_bytes: int | None = None,
        when_full: WhenFull | None = None,
    ) -> None:
        """Set the quota of a queue of this node. It takes precedence over that of the settings, restarts included.

        What is in the queue stays there, even if it is more.

        Args:
            queue: its name; it is made if there is none.
            messages: the most unacknowledged messages; None: as it is.
            size_bytes: the most bytes of the packets that hold them; None: as it is.
            when_full: ``hold`` lets senders wait, ``reject`` rejects their messages; None: as it is. With none of the
                three, the queue has the quota of the settings again.

        Raises:
            QueueNotFound: the node has a fixed set of queues without this one; or there is none that could have the
                quota of the settings again.
            AddressError: no queue can have that name.
            UsageError: the node itself works with the queue, or a limit is not valid.
        """
        port = self._port
        port.check_alive()
        queues, by_settings = port.queues, messages is None and size_bytes is None and when_full is None
        name = _named(port, "quota of", queue)
        if system := system_queue(name):
            raise UsageError(f"quota of {name}: the node itself works with that queue; {system.why_no_quota}")
        if by_settings or "/" in name:
            _require(port, name, queues.set_quotas.by_name)
        before = queues.quota_of(name)
        quota = Quota(
            before.messages if messages is None else messages,
            before.size_bytes if size_bytes is None else size_bytes,
            before.when_full if when_full is None else when_full,
        )
        if not by_settings:
            port.engine.make_queue(name)
        port.engine.set_quota(name, None if by_settings else quota, port.clock())
        await port.commit()


async def _browse(port: EngineHandle, queue: str, after: int) -> AsyncIterator[BrowsedMessage]:
    check_after(queue, after)
    last: Position = ()
    while page := await page_of(port, queue, last):
        for message in younger_than(after, page):
            yield message
        last = page[-1].position


async def page_of(port: EngineHandle, queue: str, after: Position) -> list[BrowsedMessage]:
    """The next messages of a queue behind a position; none at its end. Lets other tasks run before that."""
    if after:
        await asyncio.sleep(0)
    else:
        await port.commit()  # messages that were sent to it before wait in it from here on
    while True:
        port.check_alive()
        page = _sights(port, queue, after)
        read = missing(page)
        found = list(see(page, {} if read is None else await fetch(port, read)))
        if found or not page:
            return found
        # All these messages have left since.
        after = page[-1].position


def _sights(port: EngineHandle, queue: str, after: Position) -> list[Sight]:
    now_ms = port.wall_ms()
    where = _find(port, queue)
    if isinstance(where, Mailbox):
        return cut_page(sights_of(where, after, now_ms), PAGE_MESSAGES)
    own = (sights_on_the_way(outgoing, port.engine.node_id, after) for outgoing in where.own)
    passing = (sights_in_transit(stream, after) for stream in where.passing)
    return cut_page((sight for way in chain(own, passing) for sight in way), PAGE_MESSAGES)


def _find(port: EngineHandle, queue: object) -> Mailbox | OnTheWay:
    """A queue of this node, or what is on its way to a queue of another one. Raises QueueNotFound."""
    if not isinstance(queue, str):
        raise UsageError(f"look into {queue!r}: the name of a queue is text")
    mailboxes = port.mailboxes
    queue = composed(queue)
    if queue in mailboxes:
        return mailboxes[queue]
    for subscription in port.topics.subscriptions.values():
        if subscription.mailbox.name == queue:
            return subscription.mailbox
    on_the_way: dict[str, OnTheWay] = {}
    for outgoing in sorted(port.outbox.streams, key=lambda it: it.stream_number):
        if outgoing.peer:
            on_the_way.setdefault(outgoing.destination, OnTheWay([], [])).own.append(outgoing)
    for stream in sorted(port.transits.streams, key=lambda it: it.number):
        on_the_way.setdefault(stream.destination, OnTheWay([], [])).passing.append(stream)
    found = on_the_way.get(_canonical(port, queue))
    if found is not None:
        return found
    known = [*mailboxes, *on_the_way]
    raise QueueNotFound(f"there is no queue {queue}; {what_else(queue, known)}")


def _own(port: EngineHandle, queue: object) -> Mailbox:
    """A queue of this node, or a subscription. Raises QueueNotFound; UsageError for any other."""
    mailbox = _find(port, queue)
    if isinstance(mailbox, Mailbox) and isinstance(mailbox.sink, TopicRoot):
        names = ", ".join(one.mailbox.name for one in mailbox.sink.subscriptions) or "none"
        raise UsageError(f"{queue} is a topic: each of its subscriptions has its own messages; there is {names}")
    if not isinstance(mailbox, Mailbox) and not mailbox.own:
        raise UsageError(
            f"{queue} is the destination of messages of other nodes, which wait here on their way: they are not "
            "moved; purge it, which makes dead letters of them, and tells those who sent them"
        )
    if not isinstance(mailbox, Mailbox):
        raise UsageError(
            f"{queue} is on its way to another node. To send it elsewhere, purge it, which makes dead letters of "
            f"it, and move those whose destination is {queue} (triack queue move {DEAD_LETTER_QUEUE} DEST --id ID "
            f"for each, as triack queue browse {DEAD_LETTER_QUEUE} shows them); requeue would send them to {queue}"
        )
    return mailbox


def _canonical(port: EngineHandle, queue: str) -> str:
    """A destination in the form of outgoing queues: an address of a known peer becomes its name."""
    try:
        parsed = Destination.parse(queue)
    except UsageError:
        return queue
    target = port.resolve(parsed)
    return target.destination if isinstance(target, RemoteQueue) else queue


def streams_of(port: EngineHandle, name: object) -> StreamsStats:
    """See ``Verbs.streams``."""
    if not isinstance(name, str):
        raise UsageError(f"streams of {name!r}: the name of a peer or of a queue is text")
    name = _canonical(port, name.removesuffix("/"))
    found = gather_streams(port.engine, port.clock(), name)
    if not (found.outgoing or found.incoming or found.transit):
        every = gather_streams(port.engine, port.clock())
        known = {it.name for it in every.outgoing} | {it.name for it in every.incoming}
        known |= {it.name for it in every.transit}
        if name not in port.mailboxes and not port.knows(name):
            raise QueueNotFound(f"no stream leads to or from {name}; {what_else(name, sorted(known))}")
    return found


def _why_it_stays(message: BrowsedMessage, *, maybe_delivered: bool) -> str | None:
    """Why a message is not sent again; None: it may be."""
    subscription = message.properties.get("dead_subscription")
    if subscription is not None:
        # Published again, it would come to all other subscriptions a second time.
        return f"it came by subscription {subscription}: move it to a queue"
    if message.destination is None:
        return "it is no dead letter of a node, and has no destination"
    if message.maybe_delivered and not maybe_delivered:
        return (
            "it may have arrived, and would arrive twice; maybe_delivered=True (--maybe-delivered) sends it all the "
            "same"
        )
    if DEAD_UNREAD in message.properties:
        what = "part of a large message" if DEAD_PART in message.properties else "sealed"
        return f"this node only passed it on, and cannot read it: it is {what}"
    return None


def _addressed_again(port: EngineHandle, message: BrowsedMessage) -> tuple[OutgoingStream, Outgoing]:
    # Times to live were for the first delivery.
    own = (*DEATH, NO_DEAD_LETTER)
    kept = {name: value for name, value in _properties_of(port, message).items() if name not in own}
    assert message.destination is not None
    way = _way_to(port, message.destination, message.priority, seal=DEAD_SEALED in message.properties)
    return addressed(message.destination, way, Outgoing(message.body, kept or None))


def _properties_of(port: EngineHandle, message: BrowsedMessage) -> dict[str, Any]:
    """The sender's properties; the copy is this node's own message, so ``reply_to`` names the first sender.

    Nor is it the message for which the sender wants administration messages, or a copy in a journal.
    """
    sender = port.name_of(bytes.fromhex(message.id.partition("-")[0]))
    reply_to = absolute(message.properties.get("reply_to"), sender)
    own = (ADMIN, CLASS, JOURNAL, SENT_TO)
    kept = {name: value for name, value in message.properties.items() if name not in own}
    return {**kept, **({"reply_to": reply_to} if reply_to else {})}


def _way_to(port: EngineHandle, destination: str, priority: int, *, seal: bool) -> OutgoingStream:
    delivery = _class_of(priority)
    # It went there before; the peer need not be known by that name now.
    for known in port.outbox.streams:
        if known.peer and known.destination == destination:
            return port.engine.outgoing_stream(known.peer, known.queue, delivery, priority, seal=seal)
    return port.outgoing_stream(destination, delivery, priority, seal or None)


async def _move(port: EngineHandle, queue: str, ids: Collection[str] | None, route: Route) -> int:
    moved = 0
    async for mailbox, page in _pages(port, queue, ids):
        found = ((message.position, route(message)) for message in page)
        ways = {position: way for position, way in found if way is not None}
        for looked_at in page:
            if looked_at.large_bytes is not None and looked_at.position in ways:
                moved += await _move_large(
                    port, mailbox, looked_at, *ways.pop(looked_at.position), named=ids is not None
                )
        for outgoing, message in ways.values():
            await port.wait_room((outgoing, message, len(message.body)))
        # No await from here to the commit's queueing: all of it is one disk transaction.
        by_place = {place_of(position): way for position, way in ways.items()}
        for lease in mailbox.withdraw(by_place.keys()):
            outgoing, message = by_place[lease.place]
            size_bytes = len(message.body) + MESSAGE_OVERHEAD_BYTES
            port.engine.submit(port.current(outgoing), message, size_bytes)
            moved += 1
        await port.commit()
    return moved


async def _move_large(
    port: EngineHandle,
    mailbox: Mailbox,
    message: BrowsedMessage,
    outgoing: OutgoingStream,
    copy: Outgoing,
    *,
    named: bool,
) -> int:
    """Move a message that was sent in parts: its body is sent again. Returns how many were moved.

    One without a body stays, as it died before it left; if it was ``named``, this raises BodyLost.
    """
    origin, _, ordinal = message.id.partition("-")
    upload = Upload(port, outgoing, message.size, copy)
    try:
        parts = stored_parts(port, bytes.fromhex(origin), int(ordinal))
        prepared = await send_all(upload, Source(message.size, parts))
    except BodyLost:
        if named:
            raise
        return 0
    if not mailbox.withdraw([place_of(message.position)]):
        upload.give_up()
        return 0
    upload.submit(prepared)  # with the commit that removes it here
    await port.commit()
    return 1


def _purge(port: EngineHandle, mailbox: Mailbox, page: dict[int, BrowsedMessage]) -> list[Lease]:
    """Remove messages, by their places, and tell the senders that want to know."""
    purged, now_ns = mailbox.withdraw(page), port.clock()
    for lease in purged:
        packet, message = lease.packet, page[lease.place]
        if packet.cares and not is_reserved(mailbox.name):
            where = packet.origin, packet.stream, packet.sequence, packet.number
            content = Unpacked(int(message.id.partition("-")[2]), 0, 0, [message.body], [message.properties])
            content.sealed = message.sealed
            port.tell(
                Told(
                    *where, packet.delivery, mailbox.name, content, (0,), MessageClass.QUEUE_PURGED, place=lease.index
                ),
                now_ns,
            )
    return purged


def _require(port: EngineHandle, name: str, kept: Container[str]) -> None:
    """Raises QueueNotFound: this node has no queue of that name, nor is anything kept for one."""
    mailboxes = port.mailboxes
    if name not in mailboxes and name not in kept:
        raise QueueNotFound(f"there is no queue {name} of this node; {what_else(name, mailboxes)}")


def _named(port: EngineHandle, what: str, queue: object) -> str:
    """The name of a queue of this node, which there may not be yet, or the destination of another one's.

    Raises:
        QueueNotFound: the node has a fixed set of queues without this one.
        AddressError, UsageError: nothing can have that name.
    """
    if not isinstance(queue, str):
        raise UsageError(f"{what} {queue!r}: the name of a queue is text")
    queues = port.queues
    queue = composed(queue)
    if queue in queues.mailboxes or queue in queues.set_quotas.by_name or system_queue(queue) is not None:
        return queue
    target = port.check_way(queue, Delivery.TRANSACTIONAL)
    if isinstance(target, RemoteQueue):
        return target.destination
    root, below = split_topic(queue)
    if below:
        raise UsageError(f"{what} {queue}: the topics below one root are one queue: name {root}")
    return target.name


def _pausable(port: EngineHandle, queue: object) -> str:
    """The name by which a queue is paused, see ``Pauses``; it may not be there yet. Raises as ``_named``."""
    port.check_alive()
    mailboxes = port.mailboxes
    if isinstance(queue, str) and (said := composed(queue)) not in mailboxes and _is_node(port, said):
        return f"{said.removesuffix('/')}/"
    name = _named(port, "pause", queue)
    if isinstance(local_queue(name), SystemQueue):
        raise UsageError(f"pause {queue}: the node itself works with that queue, and cannot do without it")
    return name


def _is_node(port: EngineHandle, name: str) -> bool:
    """Whether a name is that of a node that messages go to. A pattern of a route says so only with a ``/``."""
    peer = name.removesuffix("/")
    if port.knows(peer) or any(peer in it.pausable for it in port.transits.streams):
        return True
    return any(it.to == peer for it in port.routes.all) or (name != peer and port.routes.way(peer) is not None)


async def _pages(
    port: EngineHandle, queue: str, ids: Collection[str] | None
) -> AsyncIterator[tuple[Mailbox, list[BrowsedMessage]]]:
    """The messages that wait in a queue now, by the page, without later ones."""
    await port.commit()
    mailbox = _own(port, queue)
    end = mailbox.last_place
    last: Position = ()
    while page := await page_of(port, queue, last):
        last = page[-1].position
        wanted = [it for it in page if place_of(it.position) <= end and (ids is None or it.id in ids)]
        if wanted:
            yield mailbox, wanted
        if place_of(last) > end:
            # The others of this priority came later: continue with the next one.
            last = after_rank_of(last)


async def _purge_outgoing(port: EngineHandle, queues: list[OutgoingStream]) -> int:
    await port.commit()
    purged = {outgoing: port.outbox.dead_lettering.purge(outgoing) for outgoing in queues}
    port.wake()
    while any(entry.number in it.sequence.entries for it, entries in purged.items() for entry in entries):
        port.check_alive()
        await port.next_round()
    return sum(entry.messages for entries in purged.values() for entry in entries)


def _class_of(priority: int) -> Delivery:
    """The class in which a message is moved: it keeps its priority, and a transactional one has none."""
    return Delivery.TRANSACTIONAL if priority == TRANSACTIONAL_PRIORITY else Delivery.RECOVERABLE


def check_after(queue: str, after: object) -> None:
    """Raise UsageError for what is no place in a queue."""
    if type(after) is not int or after < 0:
        raise UsageError(f"browse {queue}: after must be the place of a message, not {after!r}")


def younger_than(after: int, page: Iterable[BrowsedMessage]) -> Iterator[BrowsedMessage]:
    """The messages of a page that came after the one with that place; 0: all. Raises UsageError for outgoing ones."""
    for message in page:
        if after and message.place is None:
            raise UsageError(f"browse {message.queue}: only messages in a queue of this node have a place")
        if not after or (message.place or 0) > after:
            yield message


def addressed(destination: str, outgoing: OutgoingStream, message: Outgoing) -> tuple[OutgoingStream, Outgoing]:
    """A message and its outgoing queue; if that leads to topics, the message has the name of one."""
    return outgoing, published(destination, message) if outgoing.of_topic else message


def as_ids(ids: Collection[str] | None) -> frozenset[str] | None:
    """Ids of messages, each once; None for all. Raises UsageError unless they are a list of texts."""
    return None if ids is None else frozenset(check_texts("ids of messages", ids))
