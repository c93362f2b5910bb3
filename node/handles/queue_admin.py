"""Browsing the queues of a running node, and moving or removing the messages that wait in them.

Promise: browsing changes nothing. One commit takes a message out of its queue and puts it into the other one: it is
never lost, and never there twice. Messages in the hands of a reader are not touched.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Container, Iterable, Iterator
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

from triack.base.checks import check_kind, check_texts, check_timeout
from triack.base.delivery import TRANSACTIONAL_PRIORITY, Delivery
from triack.base.errors import BodyLost, QueueNotFound, UsageError, WaitTimeout
from triack.base.names import find_name, split_topic, what_else
from triack.node.handles.choosing import fetch
from triack.node.handles.message import absolute
from triack.node.handles.streaming import StoredBody, Upload, send_all
from triack.node.shell.driver import Driver
from triack.node.shell.engine_handle import MESSAGE_OVERHEAD_BYTES, EngineHandle
from triack.node.shell.prepared import published
from triack.node.shell.stream_stats import StreamsStats, gather_streams
from triack.queues.admin_acks import Told
from triack.queues.mailboxes.body_shelf import BodyShelf
from triack.queues.mailboxes.mailbox import Lease, Mailbox
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
from triack.queues.manager.engine import Engine
from triack.queues.message_classes import MessageClass
from triack.queues.node_settings import Quota, WhenFull
from triack.queues.packing import (
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
    Unpacked,
)
from triack.queues.streams.outgoing_stream import OutgoingStream
from triack.queues.streams.transit_stream import TransitStream
from triack.queues.topics.topic_root import TopicRoot
from triack.transport.address import Destination

__all__ = ["PAGE_MESSAGES", "QueueAdmin", "as_ids", "check_after", "younger_than"]

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


class QueueAdmin:
    """An operator's work with queues.

    Args:
        port: of the running node.
        engine: its engine.
        driver: runs the engine.
        clock: the monotonic clock, in nanoseconds.
    """

    def __init__(self, port: EngineHandle, engine: Engine, driver: Driver, clock: Callable[[], int]) -> None:
        self._port = port
        self._engine = engine
        self._driver = driver
        self._clock = clock

    # ---- looking

    async def browse(self, queue: str, after: int = 0) -> AsyncIterator[BrowsedMessage]:
        """See ``Node.browse``."""
        check_after(queue, after)
        last: Position = ()
        while page := await self.page(queue, last):
            for message in younger_than(after, page):
                yield message
            last = page[-1].position

    async def peek(self, queue: str, timeout: float | None) -> BrowsedMessage:
        """See ``Node.peek``."""
        check_timeout(f"peek at {queue}", timeout)
        mailbox = self._port.mailbox(queue)
        arrived, loop = asyncio.Event(), asyncio.get_running_loop()
        end = None if timeout is None else loop.time() + timeout
        mailbox.listeners.append(arrived.set)
        try:
            while True:
                arrived.clear()
                if page := await self.page(queue, ()):
                    return page[0]
                try:
                    async with asyncio.timeout_at(end):
                        await arrived.wait()
                except TimeoutError:
                    raise WaitTimeout(f"no message waits in queue {queue} after {timeout} s") from None
                self._port.check_alive()
        finally:
            mailbox.leave(arrived.set)

    async def page(self, queue: str, after: Position) -> list[BrowsedMessage]:
        """The next messages of a queue behind a position; none at its end. Lets other tasks run before that."""
        if after:
            await asyncio.sleep(0)
        else:
            await self._port.commit()  # messages that were sent to it before wait in it from here on
        while True:
            self._port.check_alive()
            page = self._sights(queue, after)
            bodies = await self._fetch(page)
            found = list(see(page, bodies))
            if found or not page:
                return found
            # All these messages have left meanwhile.
            after = page[-1].position

    def _sights(self, queue: str, after: Position) -> list[Sight]:
        now_ms = self._engine.wall.ms(self._clock())
        where = self._find(queue)
        if isinstance(where, Mailbox):
            return cut_page(sights_of(where, after, now_ms), PAGE_MESSAGES)
        own = (sights_on_the_way(outgoing, self._engine.node_id, after) for outgoing in where.own)
        passing = (sights_in_transit(stream, after) for stream in where.passing)
        return cut_page((sight for way in chain(own, passing) for sight in way), PAGE_MESSAGES)

    def streams(self, name: object) -> StreamsStats:
        """See ``Node.streams``."""
        if not isinstance(name, str):
            raise UsageError(f"streams of {name!r}: the name of a peer or of a queue is text")
        name = self._canonical(name.removesuffix("/"))
        found = gather_streams(self._engine, self._clock(), name)
        if not (found.outgoing or found.incoming or found.transit):
            every = gather_streams(self._engine, self._clock())
            known = {it.name for it in every.outgoing} | {it.name for it in every.incoming}
            known |= {it.name for it in every.transit}
            if name not in self._engine.queues.mailboxes and not self._port.knows(name):
                raise QueueNotFound(f"no stream leads to or from {name}; {what_else(name, sorted(known))}")
        return found

    async def _fetch(self, page: list[Sight]) -> dict[int, bytes]:
        read = missing(page)
        return {} if read is None else await fetch(self._port, read)

    def _find(self, queue: object) -> Mailbox | OnTheWay:
        """A queue of this node, or what is on its way to a queue of another one. Raises QueueNotFound."""
        if not isinstance(queue, str):
            raise UsageError(f"look into {queue!r}: the name of a queue is text")
        mailboxes = self._engine.queues.mailboxes
        queue = find_name(queue, mailboxes)
        if queue in mailboxes:
            return mailboxes[queue]
        for subscription in self._engine.topics.subscriptions.values():
            if subscription.name == queue:
                return subscription
        on_the_way: dict[str, OnTheWay] = {}
        for outgoing in sorted(self._engine.outbox.streams, key=lambda it: it.stream_number):
            if outgoing.peer:
                on_the_way.setdefault(outgoing.destination, OnTheWay([], [])).own.append(outgoing)
        for stream in sorted(self._engine.transits.streams, key=lambda it: it.number):
            on_the_way.setdefault(stream.destination, OnTheWay([], [])).passing.append(stream)
        found = on_the_way.get(self._canonical(queue))
        if found is not None:
            return found
        known = [*mailboxes, *on_the_way]
        raise QueueNotFound(f"there is no queue {queue}; {what_else(queue, known)}")

    def _own(self, queue: object) -> Mailbox:
        """A queue of this node, or a subscription. Raises QueueNotFound; UsageError for any other."""
        mailbox = self._find(queue)
        if isinstance(mailbox, TopicRoot):
            names = ", ".join(one.name for one in mailbox.subscriptions) or "none"
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

    def _canonical(self, queue: str) -> str:
        """A destination in the form of outgoing queues: an address of a known peer becomes its name."""
        try:
            parsed = Destination.parse(queue)
        except UsageError:
            return queue
        target = self._port.resolve(parsed)
        return target.destination if isinstance(target, RemoteQueue) else queue

    # ---- steering

    async def requeue(
        self,
        ids: Collection[str] | None,
        *,
        queue: str,
        reason: str | None,
        older_than: float | None,
        maybe_delivered: bool,
    ) -> int:
        """See ``Node.requeue``."""
        check_kind(f"requeue {queue}: maybe_delivered", maybe_delivered, bool)
        check_kind(f"requeue {queue}: reason", reason, str | None)
        check_timeout(f"requeue {queue}: older_than", older_than)
        died_by = None if older_than is None else self._engine.wall.ms(self._clock()) / 1_000 - older_than

        def route(message: BrowsedMessage) -> tuple[OutgoingStream, Outgoing] | None:
            if (reason is not None and message.reason != reason) or (died_by is not None and message.sent_at > died_by):
                return None
            subscription = message.properties.get("dead_subscription")
            if subscription is not None:
                if ids is None:
                    return None
                # Published again, it would come to all other subscriptions a second time.
                raise UsageError(f"requeue {message.id}: it came by subscription {subscription}: move it to a queue")
            if message.destination is None:
                if ids is None:
                    return None
                raise UsageError(f"requeue {message.id}: it is no dead letter of a node, and has no destination")
            if message.maybe_delivered and not maybe_delivered:
                if ids is None:
                    return None
                raise UsageError(
                    f"requeue {message.id}: it may have arrived, and would arrive twice; maybe_delivered=True "
                    "(--maybe-delivered) sends it all the same"
                )
            # Times to live were for the first delivery.
            kept = {
                name: value
                for name, value in self._properties_of(message).items()
                if name not in (*DEATH, NO_DEAD_LETTER)
            }
            if DEAD_UNREAD in message.properties:
                if ids is None:
                    return None
                what = "part of a large message" if DEAD_PART in message.properties else "sealed"
                raise UsageError(f"requeue {message.id}: this node only passed it on, and cannot read it: it is {what}")
            way = self._way_to(message.destination, message.priority, seal=DEAD_SEALED in message.properties)
            return addressed(message.destination, way, Outgoing(message.body, kept or None))

        return await self._move(queue, ids, route)

    async def move(self, queue: str, destination: str, ids: Collection[str] | None) -> int:
        """See ``Node.move``."""
        self._port.check_way(destination, Delivery.TRANSACTIONAL)

        @cache  # made with the first message of each priority
        def way(priority: int, seal: bool) -> OutgoingStream:
            return self._port.outgoing_stream(destination, _class_of(priority), priority, seal or None)

        def route(message: BrowsedMessage) -> tuple[OutgoingStream, Outgoing]:
            receive_by_ms = round((message.receive_by or 0) * 1_000)
            properties = self._properties_of(message) or None
            moved = Outgoing(message.body, properties, receive_by_ms=receive_by_ms)
            return addressed(destination, way(message.priority, DEAD_SEALED in message.properties), moved)

        return await self._move(queue, ids, route)

    def _properties_of(self, message: BrowsedMessage) -> dict[str, Any]:
        """The sender's properties; the copy is this node's own message, so ``reply_to`` names the first sender.

        Nor is it the message for which the sender wants administration messages, or a copy in a journal.
        """
        sender = self._port.name_of(bytes.fromhex(message.id.partition("-")[0]))
        reply_to = absolute(message.properties.get("reply_to"), sender)
        own = (ADMIN, CLASS, JOURNAL, SENT_TO)
        kept = {name: value for name, value in message.properties.items() if name not in own}
        return {**kept, **({"reply_to": reply_to} if reply_to else {})}

    def _way_to(self, destination: str, priority: int, *, seal: bool) -> OutgoingStream:
        delivery = _class_of(priority)
        # It went there before; the peer need not be known by that name now.
        for known in self._engine.outbox.streams:
            if known.peer and known.destination == destination:
                return self._engine.outgoing_stream(known.peer, known.queue, delivery, priority, seal=seal)
        return self._port.outgoing_stream(destination, delivery, priority, seal or None)

    async def _move(self, queue: str, ids: Collection[str] | None, route: Route) -> int:
        moved = 0
        async for mailbox, page in self._pages(queue, ids):
            found = ((message.position, route(message)) for message in page)
            ways = {position: way for position, way in found if way is not None}
            for looked_at in page:
                if looked_at.large_bytes is not None and looked_at.position in ways:
                    moved += await self._move_large(
                        mailbox, looked_at, *ways.pop(looked_at.position), named=ids is not None
                    )
            for outgoing, message in ways.values():
                await self._port.wait_room((outgoing, message, len(message.body)))
            # No await from here to the commit's queueing: all of it is one disk transaction.
            by_place = {place_of(position): way for position, way in ways.items()}
            for lease in mailbox.withdraw(by_place.keys()):
                outgoing, message = by_place[lease.place]
                size_bytes = len(message.body) + MESSAGE_OVERHEAD_BYTES
                self._engine.submit(self._engine.current(outgoing), message, size_bytes)
                moved += 1
            await self._port.commit()
        return moved

    async def _move_large(
        self, mailbox: Mailbox, message: BrowsedMessage, outgoing: OutgoingStream, copy: Outgoing, *, named: bool
    ) -> int:
        """Move a message that was sent in parts: its body is sent again. Returns how many were moved.

        One without a body stays, as it died before it left; if it was ``named``, BodyLost is raised.
        """
        origin, _, ordinal = message.id.partition("-")
        upload = Upload(self._port, outgoing, message.size, copy)
        try:
            prepared = await send_all(upload, StoredBody(self._port, bytes.fromhex(origin), int(ordinal), message.size))
        except BodyLost:
            if named:
                raise
            return 0
        if not mailbox.withdraw([place_of(message.position)]):
            upload.give_up()
            return 0
        upload.submit(prepared)  # with the commit that removes it here
        await self._port.commit()
        return 1

    async def purge(self, queue: str, ids: Collection[str] | None) -> int:
        """See ``Node.purge``."""
        where = self._find(queue)
        if isinstance(where, OnTheWay):
            if ids is not None:
                raise UsageError(f"purge {queue}: what is on its way goes in packets of many messages; purge all of it")
            purged = await self._purge_outgoing(where.own)
            for final, name in {(stream.final, stream.queue) for stream in where.passing}:
                purged += await self._port.purge_transit(final, name)
            return purged
        purged = 0
        async for mailbox, page in self._pages(queue, ids):
            purged += len(self._purge(mailbox, {place_of(it.position): it for it in page}))
            await self._port.commit()
        shelf = self._engine.queues.mailboxes.get(queue)
        if ids is None and isinstance(shelf, BodyShelf):
            purged += shelf.purge_bodies()
            await self._port.commit()
        return purged

    def _purge(self, mailbox: Mailbox, page: dict[int, BrowsedMessage]) -> list[Lease]:
        """Remove messages, by their places, and tell the senders that want to know."""
        purged, now_ns = mailbox.withdraw(page), self._clock()
        for lease in purged:
            packet, message = lease.packet, page[lease.place]
            if packet.cares and not is_reserved(mailbox.name):
                where = packet.origin, packet.stream, packet.sequence, packet.number
                content = Unpacked(int(message.id.partition("-")[2]), 0, 0, [message.body], [message.properties])
                content.sealed = message.sealed
                self._engine.desk.tell(
                    Told(
                        *where,
                        packet.delivery,
                        mailbox.name,
                        content,
                        (0,),
                        MessageClass.QUEUE_PURGED,
                        place=lease.index,
                    ),
                    now_ns,
                )
        return purged

    async def release(self, queue: str) -> int:
        """See ``Node.release``."""
        await self._port.commit()
        taken = self._port.holding.take_back(self._own(queue).name)
        await self._port.commit()
        return taken

    async def pause(self, queue: str, *, arrivals: bool) -> None:
        """See ``Node.pause``."""
        name = self._pausable(queue)
        if arrivals and "/" in name:
            raise UsageError(f"pause {queue}: only a queue of this node has arrivals; no messages come into {name}")
        if "/" not in name:
            self._engine.make_queue(name)
        self._engine.pause(name, arrivals=arrivals, now_ns=self._clock())
        await self._port.commit()

    async def resume(self, queue: str) -> bool:
        """See ``Node.resume``."""
        paused = self._engine.queues.pauses.by_name
        name = queue if queue in paused else self._pausable(queue)
        if "/" not in name:
            self._require(name, paused)
        was_paused = self._engine.resume(name, self._clock())
        await self._port.commit()
        return was_paused

    async def set_quota(
        self, queue: object, messages: int | None, size_bytes: int | None, when_full: WhenFull | None
    ) -> None:
        """See ``Node.set_quota``."""
        self._port.check_alive()
        queues, by_settings = self._engine.queues, messages is None and size_bytes is None and when_full is None
        name = self._named("quota of", queue)
        if system := system_queue(name):
            raise UsageError(f"quota of {name}: the node itself works with that queue; {system.why_no_quota}")
        if by_settings or "/" in name:
            self._require(name, queues.set_quotas.by_name)
        before = queues.quota_of(name)
        quota = Quota(
            before.messages if messages is None else messages,
            before.size_bytes if size_bytes is None else size_bytes,
            before.when_full if when_full is None else when_full,
        )
        if not by_settings:
            self._engine.make_queue(name)
        self._engine.set_quota(name, None if by_settings else quota, self._clock())
        await self._port.commit()

    def _require(self, name: str, kept: Container[str]) -> None:
        """Raises QueueNotFound: this node has no queue of that name, nor is anything kept for one."""
        mailboxes = self._engine.queues.mailboxes
        if name not in mailboxes and name not in kept:
            raise QueueNotFound(f"there is no queue {name} of this node; {what_else(name, mailboxes)}")

    def _named(self, what: str, queue: object) -> str:
        """The name of a queue of this node, which there may not be yet, or the destination of another one's.

        Raises:
            QueueNotFound: the node has a fixed set of queues without this one.
            AddressError, UsageError: nothing can have that name.
        """
        if not isinstance(queue, str):
            raise UsageError(f"{what} {queue!r}: the name of a queue is text")
        queues = self._engine.queues
        queue = find_name(queue, queues.mailboxes)
        if queue in queues.mailboxes or queue in queues.set_quotas.by_name or system_queue(queue) is not None:
            return queue
        target = self._port.check_way(queue, Delivery.TRANSACTIONAL)
        if isinstance(target, RemoteQueue):
            return target.destination
        root, below = split_topic(queue)
        if below:
            raise UsageError(f"{what} {queue}: the topics below one root are one queue: name {root}")
        return target.name

    def _pausable(self, queue: object) -> str:
        """The name by which a queue is paused, see ``Pauses``; it may not be there yet. Raises as ``_named``."""
        self._port.check_alive()
        mailboxes = self._engine.queues.mailboxes
        if isinstance(queue, str) and (said := find_name(queue, mailboxes)) not in mailboxes and self._is_node(said):
            return f"{said.removesuffix('/')}/"
        name = self._named("pause", queue)
        if isinstance(local_queue(name), SystemQueue):
            raise UsageError(f"pause {queue}: the node itself works with that queue, and cannot do without it")
        return name

    def _is_node(self, name: str) -> bool:
        """Whether a name is that of a node to which messages go. A pattern of a route says so with a ``/`` alone."""
        peer, engine = name.removesuffix("/"), self._engine
        if self._port.knows(peer) or any(peer in it.pausable for it in engine.transits.streams):
            return True
        return any(it.to == peer for it in engine.routes.all) or (name != peer and engine.routes.way(peer) is not None)

    async def _pages(
        self, queue: str, ids: Collection[str] | None
    ) -> AsyncIterator[tuple[Mailbox, list[BrowsedMessage]]]:
        """The messages that wait in a queue now, by the page, without those that come meanwhile."""
        await self._port.commit()
        mailbox = self._own(queue)
        end = mailbox.last_place
        last: Position = ()
        while page := await self.page(queue, last):
            last = page[-1].position
            wanted = [it for it in page if place_of(it.position) <= end and (ids is None or it.id in ids)]
            if wanted:
                yield mailbox, wanted
            if place_of(last) > end:
                # The others of this priority came meanwhile: go on with the next one.
                last = after_rank_of(last)

    async def _purge_outgoing(self, queues: list[OutgoingStream]) -> int:
        await self._port.commit()
        purged = {outgoing: self._engine.outbox.dead_lettering.purge(outgoing) for outgoing in queues}
        self._port.wake()
        while any(entry.number in it.sequence.entries for it, entries in purged.items() for entry in entries):
            self._port.check_alive()
            await self._driver.next_round()
        return sum(entry.messages for entries in purged.values() for entry in entries)


def _class_of(priority: int) -> Delivery:
    """The class in which a message is moved: it keeps its priority, and a transactional one has none."""
    return Delivery.TRANSACTIONAL if priority == TRANSACTIONAL_PRIORITY else Delivery.RECOVERABLE


def check_after(queue: str, after: object) -> None:
    """Raises UsageError for what is no place in a queue."""
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
