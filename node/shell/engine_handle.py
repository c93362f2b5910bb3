"""The one way from the objects that applications hold to a running node's engine.

Promise: no call reaches the engine of a node that has ended. Each call that gives the engine work wakes the driver, and
each call that may wait ends when the node does.
"""

import asyncio
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar, assert_never

from triack.base.ack_trigger import AckTrigger, terms_of
from triack.base.checks import check_kind, check_texts, check_timeout
from triack.base.commit import OWN_STATE
from triack.base.delivery import Delivery, check_priority, check_sent
from triack.base.errors import (
    AddressError,
    NodeClosed,
    NoRoom,
    QueueFull,
    QueueNotFound,
    SubscriptionEnded,
    TooManyKeys,
    TriackError,
    UsageError,
    WaitTimeout,
)
from triack.base.names import TOPIC_PREFIX, check_queue, find_name, nearest, what_else
from triack.base.printable import counted
from triack.base.reasons import DropReason
from triack.base.units import SECOND
from triack.node.files import operator_log
from triack.node.files.access import Access
from triack.node.files.trust import TrustFile
from triack.node.shell.driver import Driver
from triack.node.shell.enrolling import Enrolling
from triack.node.shell.holding import WORKING
from triack.node.shell.life import Life
from triack.node.shell.outgoing_message import (
    MessageProperties,
    as_bytes,
    below_root,
    check_key,
    check_size,
    with_properties,
)
from triack.node.shell.ping_answer import PingAnswer, ask
from triack.node.shell.platform import Platform
from triack.node.shell.prepared import (
    MESSAGE_OVERHEAD_BYTES,
    Prepared,
    PreparedList,
    check_keepable,
    published,
)
from triack.queues.admin_acks import request_of
from triack.queues.mailboxes.local_commit import LocalTurn
from triack.queues.mailboxes.mailbox import Lease, Mailbox, QueuedPacket, Run
from triack.queues.mailboxes.redelivery import Return
from triack.queues.mailboxes.resolver import LocalQueue, RemoteQueue, Target, local_queue
from triack.queues.mailboxes.system_queues import LARGE_PREFIX, SystemQueue, large_queue
from triack.queues.manager.closing import Departure, count_by, left_behind
from triack.queues.manager.engine import Engine
from triack.queues.node_settings import NodeSettings, Redelivery
from triack.queues.packing import ADMIN, JOURNAL, Outgoing
from triack.queues.peers.dialer import WaitsFor
from triack.queues.peers.link import Link
from triack.queues.peers.session_settings import largest_window
from triack.queues.remote.desk import SubscriptionDesk
from triack.queues.routes import Route, check_routes
from triack.queues.stages import Stage, Waiter
from triack.queues.streams.accepted_keys import Accepted
from triack.queues.streams.ack_events import AckEvents
from triack.queues.streams.group_commit import Turn
from triack.queues.streams.outgoing_stream import OutgoingStream, Row
from triack.queues.streams.stream_state import StreamState
from triack.queues.topics.topics import Topics
from triack.queues.transit.transit_purge import TransitPurge
from triack.stats.bridge_stats import BridgeStats
from triack.stats.holding import Holding
from triack.stats.node_stats import NodeStats, gather
from triack.transport.address import Destination

__all__ = ["MESSAGE_OVERHEAD_BYTES", "EngineHandle", "OnPort", "Prepared", "PreparedList"]

T = TypeVar("T")

DESTINATIONS_MAX = 1_024
"""Destinations that are found without being parsed again; a program that uses more of them parses some again."""
TURN_MESSAGES = 256
"""After this many messages, at first twice as many, a sender that finds room lets others run: a few milliseconds."""
EXIT_LOOKS = 5
"""Looks at a node that another thread runs: a table that grows meanwhile ends a look, and hardly ever five."""
AT_HAND_BYTES_MAX = 65_536
"""The longest body that another thread checks by itself: to hand over a longer one costs little beside its copy."""


class EngineHandle:
    """A running node, as consumers, receipts, transactions and the control socket see it.

    Args:
        name: the node's name, for messages to people.
        life: says whether the node still works.
        engine: its engine.
        driver: runs the engine.
        platform: the machine.
        access: the peers that it may speak to.
        announced: the address at which others find the node; empty for none.
        fixed_queues: whether it has only the queues that it was opened with.
        state: the values that the store keeps under names; the node's own are left to the engine.

    Attributes:
        name: as given.
        turn: the number of messages sent since other tasks ran.
        sender: the task that ended the last turn, if it still exists.
        enrolling: its enrolments.
        engine: as given.
        mailboxes: the queues of this node, by name.
        current: see ``Engine.current``, and ``Engine.name_of`` for ``name_of``.
        in_hand: notes of the messages that applications of this process have in hand.
        events: makes a reader of the events of the node.
        clock: the monotonic clock.
        holding: the readers that have messages in hand.
        dropped: the messages in the hands of the reader that was last dropped without being closed.
    """

    def __init__(
        self,
        name: str,
        *,
        life: Life,
        engine: Engine,
        driver: Driver,
        platform: Platform,
        access: Access,
        announced: str,
        fixed_queues: bool,
        state: dict[str, bytes],
    ) -> None:
        self.check_alive = life.check_alive
        self._life = life
        self.wake = driver.wake
        self.turn = 0
        self.sender: Callable[[], asyncio.Task[Any] | None] = lambda: None
        self.name = name
        self.engine = engine
        self.mailboxes = engine.queues.mailboxes
        self._outbox = engine.outbox
        self.current = engine.current
        self.name_of = engine.name_of
        self.in_hand = engine.in_hand
        self.events = driver.events.read
        self._driver = driver
        self.clock = platform.monotonic_ns
        self.holding = Holding()
        # Those that this process runs, by name: what each says of itself.
        self.bridges: dict[str, Callable[[], BridgeStats]] = {}
        self.dropped: list[tuple[Mailbox, Lease, Redelivery | None]] = []
        self._access = access
        self._fixed_queues = fixed_queues
        self._state = {key: value for key, value in state.items() if not key.startswith(OWN_STATE)}
        self._handlers: set[asyncio.Task[None]] = set()
        self._outgoing: dict[tuple[str, Delivery, int | None, bool | None], OutgoingStream] = {}
        self._body_locks = weakref.WeakValueDictionary[str, asyncio.Lock]()
        self.enrolling = driver.enrolling = Enrolling(
            name,
            [announced] if announced else [],
            access=access,
            platform=platform,
            send=driver.send,
            change_trust=self.change_trust,
        )

    # ---- sending

    def outgoing_stream(
        self, destination: str, delivery: Delivery, priority: int | None = None, seal: bool | None = None
    ) -> OutgoingStream:
        """The outgoing queue of a delivery class and a priority to a destination; None: the default of the class.

        Its packets leave sealed if ``seal`` says so, or else what is said of the peer or the route.

        Raises:
            AddressError: the destination cannot be read, or names an unknown peer.
            UsageError: an argument is of a wrong type, the class has no such priority, or nothing can be sealed for
                that destination.
            QueueNotFound: it is a queue of this node that is not in its fixed set.
        """
        if priority is not None:
            check_sent("send to", destination, delivery)
            check_priority(destination, delivery, priority)
        try:
            found = self._outgoing[destination, delivery, priority, seal]
        except (KeyError, TypeError):  # an argument of a wrong type may be unhashable
            return self._find_outgoing(destination, delivery, priority, seal)
        return found if found.life is StreamState.LIVE else self._find_outgoing(destination, delivery, priority, seal)

    def _find_outgoing(
        self, destination: str, delivery: Delivery, priority: int | None, seal: bool | None
    ) -> OutgoingStream:
        target = self.check_way(destination, delivery)
        if seal is not None:
            check_kind(f"send to {destination}: seal", seal, bool)
        self._check_seal(destination, target, seal=bool(seal))
        if not isinstance(target, RemoteQueue) and target.name.startswith(TOPIC_PREFIX):
            self.engine.make_queue(target.name)
        elif not isinstance(target, RemoteQueue):
            self.mailbox(target.name)
        found = self.engine.outgoing_to(target, delivery, priority, seal=bool(seal))
        if len(self._outgoing) >= DESTINATIONS_MAX:
            self._outgoing.clear()
        self._outgoing[(destination, delivery, priority, seal)] = found
        return found

    def _check_seal(self, destination: str, target: Target, *, seal: bool) -> None:
        """Raises UsageError if messages are to be sealed for a destination, and nothing can be."""
        sealing = self._outbox.sealing
        if isinstance(target, RemoteQueue) and (seal or sealing.is_wanted(target.peer)):
            missing = sealing.missing(target.peer, self.engine.routes.way_of(target.peer))
            if missing:
                raise UsageError(f"send to {destination}: node {self.name} cannot seal messages for it: {missing}")

    def check_way(self, destination: str, delivery: object) -> Target:
        """The target of a destination. Makes nothing; raises as ``outgoing_stream``."""
        check_sent("send to", destination, delivery)
        parsed = Destination.parse(destination)
        way = None if parsed.peer is None else self.engine.routes.way_of(parsed.peer)
        if way is not None and not self._access.knows(way.via):
            known = [peer.name for peer in self._access.directory]
            routed = "" if way.via == parsed.peer else f", and {way.why}"
            raise AddressError(f"send to {destination}: unknown peer {way.via}; {what_else(way.via, known)}{routed}")
        target = self.resolve(parsed)
        match target:
            case RemoteQueue():
                self._access.check_destination(destination, parsed if way is None else replace(parsed, peer=way.via))
            case LocalQueue() | SystemQueue():
                if target.name not in self.mailboxes:
                    self._check_new(target.name)
            case _:
                assert_never(target)
        return target

    def resolve(self, destination: Destination) -> Target:
        """The target of a destination on this node."""
        where = destination.peer or (str(destination.address) if destination.address is not None else "")
        return self.engine.resolver.resolve(where, destination.queue)

    def knows(self, peer: str) -> bool:
        """Whether a peer has that name or address here, or had it when messages were sent there."""
        return self._access.knows(peer) or any(it.peer == peer for it in self._outbox.streams)

    def handle_directory_changed(self) -> None:
        """The node's peers have changed."""
        self._outgoing.clear()
        self.engine.handle_directory_changed(self.clock())
        self.wake()

    async def change_addresses(self, addresses: dict[str, str]) -> None:
        """Know peers by other addresses besides those of the trust file. Raises IdentityError, NotLoopback."""
        self.check_alive()
        await self._access.change_addresses(addresses, self.work)
        self.handle_directory_changed()

    def change_settings(self, settings: NodeSettings) -> None:
        """Take up settings; see ``Engine.handle_settings``."""
        self.check_alive()
        now = self.settings
        kept = replace(settings, survives=now.survives, recoverable_survives=now.recoverable_survives)
        self.engine.handle_settings(kept)
        self.wake()

    # ---- routes

    @property
    def routes(self) -> tuple[Route, ...]:
        """The routes of the node."""
        return self.engine.routes.all

    async def set_routes(self, routes: Iterable[Route]) -> None:
        """Have these routes, and no others. Raises UsageError."""
        self.check_alive()
        wanted = check_routes(f"set routes of {self.name}", routes)
        self._outgoing.clear()
        self.engine.set_routes(wanted, self.clock())
        self.wake()

    def explain_route(self, name: str) -> list[str]:
        """The rules about the way to a node. Raises AddressError."""
        self.check_alive()
        parsed = Destination.parse(f"{name}/queue")
        now_ns, ways = self.clock(), self.engine.ways
        return self.engine.routes.explain(parsed.peer or str(parsed.address), lambda it: ways.explain(it, now_ns))

    def ids_of_key(self, key: str) -> list[str]:
        """The ids of the messages that were accepted with a key that still counts."""
        self.check_alive()
        engine = self.engine
        found = engine.outbox.keys.with_key(key, engine.wall.ms(self.clock()))
        return [f"{self.node_id}-{it.ordinal}" for it in found]

    async def purge_transit(self, final: str, queue: str | None = None) -> int:
        """Remove what waits here for a node, or for one queue of it; durable when this returns.

        Returns:
            The number of messages.
        """
        self.check_alive()
        await self.commit()  # what is only about to be stored is there, too
        purge, purged = TransitPurge(self.engine.transits, final, queue), 0
        while purge.has_more:
            self.check_alive()
            removed = self.engine.purge_transit(purge, self.clock())
            purged += removed
            if removed:
                await self.commit()
            elif purge.has_more:  # the dead letters of a portion, and the words about it, leave before the next one
                await self._driver.next_round()
        await self.commit()
        return purged

    async def change_trust(self, change: Callable[[TrustFile], T]) -> T:
        """Change the trust file, and act by it. Raises what ``change`` raises, and UsageError."""
        self.check_alive()
        return await self._access.change_trust(change, self.work)

    async def reread(self) -> None:
        """Read the files of keys and peers again, and act by them. Raises IdentityError."""
        self.check_alive()
        await self._access.reread(self.work)

    async def work(self, job: Callable[[], T]) -> T:
        """Run a blocking job in a thread of the node. Returns and raises as the job does, and NodeClosed."""
        self.check_alive()  # the node may have ended while this waited for the file
        return await self._driver.work(job)

    @property
    def keys(self) -> tuple[str, ...]:
        """The node's own public keys; it connects with the first. Raises UsageError if it has none."""
        return self._access.keys

    def prepare(self, destination: str, body: bytes, delivery: Delivery, properties: MessageProperties) -> Prepared:
        """Check a message before it is accepted; see ``Node.send`` for arguments and errors."""
        self.check_alive()
        outgoing = self.outgoing_stream(destination, delivery, properties.get("priority"), properties.get("seal"))
        if type(body) is not bytes:
            body = as_bytes(destination, body)
        check_size(destination, body)
        size_bytes = len(body) + MESSAGE_OVERHEAD_BYTES
        message: bytes | Outgoing = body
        life_s = self._outbox.life_s(outgoing)
        if properties or life_s is not None:
            message = with_properties(destination, body, properties, self.wall_ms(), self.name, life_s)
            if message.key:
                check_keepable(destination, outgoing)
            self.heed(outgoing, message)
        if outgoing.of_topic:
            message = published(destination, message)
        prepared = outgoing, message, size_bytes
        if not self._is_accepted(prepared):
            self.check_taken(destination, outgoing)
            if not isinstance(message, bytes) and message.key:
                self._check_room_for_keys(destination, 1)
        return prepared

    def prepare_at_hand(
        self,
        destination: str,
        body: bytes,
        delivery: Delivery,
        properties: MessageProperties,
        *,
        before: tuple[int, int],
    ) -> Prepared | None:
        """Check a message of another thread, as ``prepare``. It changes nothing, and looks only at plain numbers.

        Args:
            destination: as for ``Node.send``.
            body: as for ``Node.send``.
            delivery: as for ``Node.send``.
            properties: as for ``Node.send``.
            before: messages, and their bytes, that are to be accepted before it.

        Returns:
            The message; None if only the event loop can check it: it has a key, it asks for administration messages,
            it is the first for its queue that asks for a copy in the journal, there may be no room for it, its
            destination is new, or the node has ended.

        Raises:
            UsageError, MessageTooLarge: the properties are not valid.
        """
        named = destination, delivery, properties.get("priority"), properties.get("seal")
        outgoing = self._outgoing.get(named)
        if outgoing is None or not self._life.is_alive or type(body) is not bytes or len(body) > AT_HAND_BYTES_MAX:
            return None
        message: bytes | Outgoing = body
        life_s = self._outbox.life_s(outgoing)
        if properties or life_s is not None:
            message = with_properties(destination, body, properties, self.wall_ms(), self.name, life_s)
            wishes, asking = message.properties or {}, self._outbox.copies.asking
            if message.key or ADMIN in wishes or (JOURNAL in wishes and outgoing not in asking):
                return None
        if outgoing.of_topic:
            message = published(destination, message)
        coming, coming_bytes = before
        if outgoing.life is not StreamState.LIVE or self._outbox.room_bytes(outgoing, coming) <= coming_bytes:
            return None
        if self.engine.publish_windows.left(outgoing, coming) <= 0:
            return None
        if outgoing.durable and self.engine.inbox.admission.store_low:
            return None
        return outgoing, message, len(body) + MESSAGE_OVERHEAD_BYTES

    def accept_at_hand(
        self, outgoing: OutgoingStream, messages: list[bytes | Outgoing], size_bytes: int
    ) -> tuple[OutgoingStream, list[Row]]:
        """Accept messages of other threads, which were checked. Returns their outgoing queue of now, and their rows."""
        self.check_alive()
        outgoing = self.current(outgoing)
        rows = self.engine.submit_many(outgoing, messages, size_bytes)
        self.wake()
        return outgoing, rows

    def prepare_many(
        self,
        destination: str,
        bodies: Iterable[bytes],
        delivery: Delivery,
        properties: MessageProperties,
        keys: Iterable[str] | None = None,
    ) -> PreparedList:
        """Check a list before any of it is accepted; see ``Node.send_many`` for arguments and errors."""
        self.check_alive()
        outgoing = self.outgoing_stream(destination, delivery, properties.get("priority"), properties.get("seal"))
        check_kind(f"send to {destination}: bodies", bodies, Iterable)
        checked = [body if type(body) is bytes else as_bytes(destination, body) for body in bodies]
        check_size(destination, max(checked, key=len, default=b""))
        self.check_taken(destination, outgoing)
        named = None if keys is None else self._check_keys(destination, outgoing, keys, len(checked))
        life_s = self._outbox.life_s(outgoing)
        if not properties and life_s is None:
            shared = published(destination, b"") if outgoing.of_topic else None
            return PreparedList(destination, outgoing, checked, shared, named)
        shared = with_properties(destination, b"", properties, self.wall_ms(), self.name, life_s)
        if outgoing.of_topic:
            shared.topic = below_root(destination)
        if shared.key:
            raise UsageError(f"send to {destination}: a key names one message, not a list of them: say keys=")
        self.heed(outgoing, shared)
        return PreparedList(destination, outgoing, checked, shared, named)

    def heed(self, outgoing: OutgoingStream, message: Outgoing) -> None:
        """Note what a message wants: make the queue for administration messages about it. Raises QueueNotFound."""
        properties = message.properties or {}
        request = request_of(properties)
        if request is not None:
            self.mailbox(request.queue)
        if JOURNAL in properties:
            self._outbox.copies.asking[outgoing] = None

    def _check_keys(self, destination: str, outgoing: OutgoingStream, keys: Iterable[str], count: int) -> list[str]:
        """The keys of a list. Raises UsageError, or TooManyKeys when there is no room for the new ones of them."""
        named = [check_key(destination, key) for key in check_texts(f"send to {destination}: keys", keys)]
        if len(named) != count:
            raise UsageError(f"send to {destination}: {len(named)} keys for {counted(count, 'message')}")
        check_keepable(destination, outgoing)
        now_ms = self.wall_ms()
        self._check_room_for_keys(
            destination, sum(self._outbox.keys.find(outgoing, key, now_ms) is None for key in set(named))
        )
        return named

    def _is_accepted(self, prepared: Prepared) -> bool:
        """Whether a message with this key was accepted before: then this one is not accepted again."""
        outgoing, message, _ = prepared
        if isinstance(message, bytes) or not message.key:
            return False
        return self._outbox.keys.find(outgoing, message.key, self.wall_ms()) is not None

    def check_taken(self, destination: str, outgoing: OutgoingStream) -> None:
        """Raises NoRoom, QueueFull when nothing more is accepted."""
        if outgoing.durable and self.engine.inbox.admission.store_low:
            raise NoRoom(f"send to {destination}: the disk of node {self.name} has less room than its reserve")
        self._check_refused(destination, outgoing)

    def _check_refused(self, destination: str, outgoing: OutgoingStream) -> None:
        if not outgoing.peer and self.engine.inbox.refuses(outgoing.queue, durable=outgoing.durable):
            raise QueueFull(f"send to {destination}: queue {outgoing.queue} has reached its quota and refuses more")

    def _check_room_for_keys(self, destination: str, count: int) -> None:
        wait_ms = self._outbox.keys.full_for_ms(self.wall_ms(), count) if count else 0
        if wait_ms:
            eldest = "the eldest is" if count == 1 else f"the {count:,} eldest are"
            raise TooManyKeys(
                f"send to {destination}: node {self.name} keeps as many keys as it may; {eldest} over in "
                f"{wait_ms / 1_000:.0f} s"
            )

    def wall_ms(self) -> int:
        """The time of day of this node, in milliseconds."""
        return self.engine.wall.ms(self.clock())

    def has_room(self, prepared: Prepared) -> bool:
        """Whether the outgoing queue has room for the message; one that was accepted before needs none."""
        return self._has_room(prepared[0]) or self._is_accepted(prepared)

    def _has_room(self, outgoing: OutgoingStream) -> bool:
        return self._outbox.room_bytes(outgoing) > 0 and self.engine.publish_windows.left(outgoing) > 0

    def note_refused(self, outgoing: OutgoingStream) -> None:
        """A sender was told that it would have to wait: an event says when it need not."""
        self.engine.publish_windows.note_refused(outgoing)

    async def wait_windows(self, messages: Mapping[OutgoingStream, int]) -> None:
        """Wait until the publish windows take a transaction that sends that number of messages to each outgoing queue.

        Raises:
            NodeClosed, StoreFailed: they never will.
        """
        while not self.engine.publish_windows.take(messages):
            self.check_alive()
            await self._driver.next_round()

    async def wait_room(self, prepared: Prepared, timeout: float | None = None) -> None:
        """Let other tasks run, and wait until a message finds room.

        Raises:
            NodeClosed, StoreFailed, QueueFull: there will be none.
            WaitTimeout: there was none in that many seconds.
        """
        await self._wait_room(prepared[0], lambda: self.has_room(prepared), timeout)

    async def wait_room_for(self, prepared: PreparedList, timeout: float | None = None) -> None:
        """The same for the next message of a list."""
        await self._wait_room(prepared.outgoing, lambda: self._has_room(prepared.outgoing), timeout)

    async def next_round(self) -> None:
        """Wait until the engine has worked once more. Raises NodeClosed, StoreFailed."""
        self.check_alive()
        await self._driver.next_round()

    def parts_stream(self, outgoing: OutgoingStream) -> OutgoingStream:
        """The outgoing queue of the parts of large messages that go where this one leads."""
        target = RemoteQueue(outgoing.peer, large_queue(outgoing.queue)) if outgoing.peer else None
        own = local_queue(large_queue(outgoing.queue))
        return self.engine.outgoing_to(target or own, Delivery.TRANSACTIONAL)

    def seals_for(self, peer: str) -> bool:
        """Whether all messages for a peer leave sealed."""
        return bool(peer) and self._outbox.sealing.is_wanted(peer)

    def body_lock(self, destination: str) -> asyncio.Lock:
        """Held while a large message is sent to a destination: the parts of each come after those of the one before."""
        lock = self._body_locks.get(destination)
        if lock is None:
            lock = self._body_locks[destination] = asyncio.Lock()
        return lock

    async def _wait_room(self, outgoing: OutgoingStream, has_room: Callable[[], bool], timeout: float | None) -> None:
        self.turn = 0
        await asyncio.sleep(0)
        working = WORKING.get()
        if has_room():
            return
        if working is not None and not outgoing.peer:
            if working.queue == outgoing.queue and working.leaving > 0:
                # A handler that sends to the queue that it reads waits for room that only it can make.
                working.leaving -= 1
                return
            working.on_wait(f"room in queue {outgoing.queue}")
        try:
            async with asyncio.timeout(timeout):
                while not has_room():
                    self.check_alive()
                    self._check_refused(outgoing.queue, outgoing)
                    await self._driver.next_round()
        except TimeoutError:
            where = f"{outgoing.peer}/{outgoing.queue}" if outgoing.peer else outgoing.queue
            cause = self.cause_of(outgoing) or ("" if outgoing.peer else "too many messages wait in that queue")
            raise WaitTimeout(f"send to {where}: no room within {timeout} s", cause=cause) from None

    def may_go_on(self, outgoing: OutgoingStream) -> bool:
        """Whether a sender may send one more message before it waits: there is room, and its turn goes on."""
        self.turn += 1
        return self._has_room(outgoing) and (self.turn < TURN_MESSAGES or not self._has_had_turn())

    def _has_had_turn(self) -> bool:
        """Whether the sending task ended the last turn, too; others overtake a task that sends once and gives way."""
        task = asyncio.current_task()
        if task is None or task is self.sender():
            return True
        self.sender = weakref.ref(task)
        self.turn = 0
        return False

    def accept_some(self, prepared: PreparedList, at: int) -> list[Row]:
        """Accept the messages of a list that find room, at most ``TURN_MESSAGES``."""
        self.check_taken(prepared.destination, prepared.outgoing)
        # A handler may send one more than there is room for, see ``_wait_room``.
        most = max(1, min(TURN_MESSAGES, self.engine.publish_windows.left(prepared.outgoing)))
        bodies = prepared.bodies[at : at + most]
        room_bytes = self._outbox.room_bytes(prepared.outgoing)
        size_bytes = sum(map(len, bodies)) + MESSAGE_OVERHEAD_BYTES * len(bodies)
        while len(bodies) > 1 and size_bytes - len(bodies[-1]) - MESSAGE_OVERHEAD_BYTES >= room_bytes:
            size_bytes -= len(bodies.pop()) + MESSAGE_OVERHEAD_BYTES
        self.turn += len(bodies) - 1
        rows = self.engine.submit_many(prepared.outgoing, prepared.messages(bodies), size_bytes)
        self.wake()
        return rows

    def accept_all(self, prepared: PreparedList) -> list[Row]:
        """Accept a whole list, after the caller has waited for room."""
        bodies = prepared.bodies
        prepared.outgoing = self.current(prepared.outgoing)
        size_bytes = sum(map(len, bodies)) + MESSAGE_OVERHEAD_BYTES * len(bodies)
        rows = self.engine.submit_many(prepared.outgoing, prepared.messages(bodies), size_bytes)
        self.wake()
        return rows

    def submit(self, prepared: Prepared) -> int:
        """Accept a message that ``prepare`` has checked. Returns its ticket in its outgoing queue."""
        ticket = self.engine.submit(*prepared)
        self.wake()
        return ticket

    def submit_once(self, outgoing: OutgoingStream, message: Outgoing, size_bytes: int) -> Accepted:
        """Accept a message with a key, unless one with that key was accepted before. Returns the accepted one."""
        accepted = self.engine.submit_once(outgoing, message, size_bytes, self.clock())
        self.wake()
        return accepted

    def accepted_with_key(self, ordinal: int) -> Accepted | None:
        """The message of this node with that ordinal, if it was accepted with a key that still counts."""
        self.check_alive()
        return self._outbox.keys.of_ordinal(ordinal, self.wall_ms())

    # ---- how far messages have come

    def await_stage(self, outgoing: OutgoingStream, ticket: int, stage: Stage, waiter: Waiter) -> None:
        """Call ``waiter`` when a message reaches a stage, or never can."""
        self.engine.await_stage(outgoing, ticket, stage, waiter)
        self.wake()

    def waits_for(self, outgoing: OutgoingStream) -> str:
        """Why the messages to a queue do not arrive yet, as in stats; empty when no reason is known."""
        link = self._outbox.links.get(outgoing.via)
        missing = None if link is None else self.engine.handshakes.waits_for(link)
        return missing or self._outbox.holds.of(outgoing) or ""

    def cause_of(self, outgoing: OutgoingStream) -> str:
        """The same as a sentence, with the address and what the system said last; empty when no reason is known."""
        link = self._outbox.links.get(outgoing.via)
        if link is None:
            return ""
        match self._missing(link):
            case WaitsFor.KEY:
                renamed = self.engine.handshakes.renamed(link)
                now = f"; its node is {renamed} here now" if renamed else ""
                return f"this node trusts no {link.peer}, or has no key of it{now}"
            case WaitsFor.ADDRESS:
                return f"no address of {link.peer} is known, and it has not called"
            case WaitsFor.ANSWER:
                unheard = not link.silent or link.silent == f"no answer from {link.peer}"
                return f"no node answers at {link.dialer.address or link.peer}" if unheard else link.silent
            case WaitsFor.RESTART:
                return str(link.suspended)
        hold = self._outbox.holds.of(outgoing)
        return "" if hold is None else f"{link.peer} has no room: {hold}"

    def _missing(self, link: Link) -> WaitsFor | None:
        """What a link lacks, or has lacked for messages whose time has run out since."""
        missing = self.engine.handshakes.waits_for(link)
        if missing is None and (link.conversation is None or not link.conversation.is_open):
            return link.missing or (None if link.dialer.since_ns is None else WaitsFor.ANSWER)
        return missing

    def watch(self, outgoing: OutgoingStream, trigger: AckTrigger | None, wake: Callable[[], None]) -> AckEvents:
        """Make the events of a new reader of an outgoing queue; ``wake`` is called when there are some."""
        self.check_alive()
        terms = None if trigger is None else terms_of(trigger, largest_window(self.settings))
        events = AckEvents(terms, outgoing.first_unsettled, wake, self.node_id, outgoing.blocks_of)
        self.engine.watching.begin(outgoing, events)
        self.wake()
        return events

    def start_handler(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a handler of events, until the node has ended and no event is left."""
        task = asyncio.create_task(work, name="triack-acknowledgements")
        self._handlers.add(task)
        task.add_done_callback(self._handlers.discard)

    async def finish_handlers(self, timeout_ns: int) -> None:
        """Let handlers take the last events, for at most ``timeout_ns``."""
        if self._handlers:
            _, late = await asyncio.wait(self._handlers, timeout=timeout_ns / 1e9)
            for task in late:
                task.cancel()

    @property
    def settings(self) -> NodeSettings:
        """The settings in force."""
        return self.engine.settings

    async def drain(self, timeout: float | None) -> None:
        """See ``Node.drain``."""
        self.check_alive()
        check_timeout("drain", timeout)
        departure = Departure(self.engine, self.wake)
        try:
            async with asyncio.timeout(timeout):
                while departure.hasten():
                    await self._driver.next_round()
                    self.check_alive()
        except TimeoutError:
            left = count_by(left_behind(self.engine, stored=True) + left_behind(self.engine, stored=False))
            late = f"still {left} on the way from node {self.name} after {timeout} s"
            raise WaitTimeout(late, cause=self._causes()) from None
        suspended = next((outgoing.stages.suspended for outgoing in self._outbox.streams if outgoing.busy), None)
        if suspended is not None:
            raise type(suspended)(str(suspended), peer=suspended.peer, rolled_back=suspended.rolled_back)

    def _causes(self) -> str:
        """What keeps messages from their destinations, each cause once."""
        found = (self.cause_of(outgoing) for outgoing in self._outbox.streams if outgoing.busy)
        return "; ".join(dict.fromkeys(cause for cause in found if cause))

    # ---- receiving

    def mailbox(self, queue: str) -> Mailbox:
        """The queue of that name; made if there is none, unless the set of queues is fixed. Raises QueueNotFound."""
        self.check_alive()
        mailboxes = self.mailboxes
        try:
            queue = find_name(queue, mailboxes)
            known = mailboxes.get(queue)
            if queue.startswith(TOPIC_PREFIX):
                return self.engine.topics.named(queue)
        except (AttributeError, TypeError):  # no text, or even unhashable
            known = None
        if known is not None:
            return known
        self._check_new(queue)
        meant = nearest(queue, mailboxes)
        made = self.engine.make_queue(queue)
        if meant is not None:
            operator_log.warning(f"new queue {queue}, which is much like {meant}", node=self.name, queue=queue)
        return made

    def topics(self) -> tuple[Topics, LocalTurn]:
        """The topics of the node, and a call of now that may change them. Raises NodeClosed, StoreFailed."""
        self.check_alive()
        self.wake()
        return self.engine.topics, self.engine.jobs.turn(self.clock())

    def remote(self) -> tuple[SubscriptionDesk, Turn]:
        """The subscriptions of one node to topics of another, and a call of now. Raises NodeClosed, StoreFailed."""
        self.check_alive()
        self.wake()
        return self.engine.remote, self.engine.jobs.turn(self.clock())

    def cause_at(self, peer: str) -> str:
        """Why a node has not answered, as a sentence, as far as is known here."""
        busy = [it for it in self._outbox.streams if it.peer == peer and it.busy]
        if cause := next((cause for cause in map(self.cause_of, busy) if cause), ""):
            return cause
        where = f"the request waits at {busy[0].via}" if busy else f"{peer} has the request"
        return f"{where}; triack status there says what waits"

    def _check_new(self, queue: str) -> None:
        """Check that a queue may be made. Raises AddressError for a wrong name, QueueNotFound if the set is fixed."""
        check_queue(queue)
        if self._fixed_queues:
            known = self.mailboxes
            raise QueueNotFound(f"queue {queue} does not exist on node {self.name}; {what_else(queue, known)}")

    def open_run(self, mailbox: Mailbox) -> Run | None:
        """Messages of a queue, to be drawn one by one; None when there are none now. Raises NodeClosed, StoreFailed.

        After None, the queue's listeners say when to ask again.
        """
        self.check_alive()
        if mailbox.has_ended:
            raise SubscriptionEnded(f"receive from {mailbox.name}: the subscription was ended")
        run = self.engine.open_run(mailbox, self.clock())
        if run is None or self.engine.jobs.adds_any:
            # There may be bodies to fetch, and messages to commit that have expired or killed their readers.
            self.wake()
        return run

    def draw_runs(self, mailbox: Mailbox, most: int, most_bytes: int) -> list[tuple[Run, range]]:
        """The next messages of a queue, in order, drawn from their runs; as ``open_run``."""
        self.check_alive()
        if mailbox.has_ended:
            raise SubscriptionEnded(f"receive from {mailbox.name}: the subscription was ended")
        drawn = self.engine.draw_runs(mailbox, most, most_bytes, self.clock())
        self.wake()  # as above
        return drawn

    def acknowledge(self, mailbox: Mailbox, done: list[tuple[QueuedPacket, int]]) -> None:
        """Messages of packets are done, message i if bit i is set; durable with the next commit."""
        self.engine.acknowledge(mailbox, done)
        self.wake()

    def take_with_commit(self, mailbox: Mailbox, done: list[tuple[QueuedPacket, int]]) -> None:
        """The same for messages that a transaction received: only its commit makes them done."""
        self.engine.queues.take(mailbox, done)
        self.wake()

    def give_back(self, leases: Iterable[tuple[Mailbox, Lease]], way: Return) -> None:
        """Messages come again, those with equal delays at one time; one that failed too often becomes a dead letter."""
        now_ns = self.clock()
        for mailbox, lease in leases:
            self.engine.give_back(mailbox, lease, way, now_ns)
        self.wake()

    def fail_dropped(self) -> None:
        """An error ends the program that uses the node: the messages in hand of the loop that it ended have failed."""
        dropped, self.dropped = self.dropped, []
        for mailbox, lease, redelivery in dropped:
            if mailbox.take_returned(lease):
                self.give_back([(mailbox, lease)], Return(True, None, redelivery))

    @property
    def lost_letters(self) -> int:
        """The number of dead letters lost since the start because of their quota and policy."""
        drops = self.engine.drops
        lost = (DropReason.DEAD_LETTERS_FULL, DropReason.DEAD_LETTER_REPLACED, DropReason.EXPIRED_DISCARDED)
        return sum([drops[reason] for reason in lost])

    def queue_lengths(self) -> dict[str, int]:
        """How many messages wait in each queue."""
        mailboxes = sorted(self.mailboxes.items())
        return {
            name: mailbox.length for name, mailbox in mailboxes if not name.startswith((TOPIC_PREFIX, LARGE_PREFIX))
        }

    # ---- the disk

    def remember(self, key: str, value: bytes | None) -> None:
        """Keep a value of the application with the next commit; None removes it."""
        if value is None:
            self._state.pop(key, None)
        else:
            self._state[key] = value
        self.engine.set_state(key, value)

    def recall(self, key: str) -> bytes | None:
        """The value that ``remember`` keeps under a key, or None. Raises UsageError for a key that is not text."""
        check_kind("recall: a key", key, str)
        return self._state.get(key)

    async def commit(self, *, transacted: bool = False) -> None:
        """Wait until everything given to the engine so far is on the disk. Raises NodeClosed, StoreFailed."""
        self.check_alive()
        future: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

        def waiter(error: Exception | None) -> None:
            if not future.done():
                future.set_result(error)

        self.engine.await_commit(waiter, transacted=transacted)
        self.wake()
        error = await future
        if error is not None:
            raise error

    # ---- the node itself

    @property
    def address(self) -> str:
        """Where it listens, with the real port; empty when it does not."""
        return self.engine.address

    @property
    def node_id(self) -> str:
        """32 hex digits that name this queue manager permanently."""
        return self.engine.node_id.hex()

    def stats(self) -> NodeStats:
        """See ``Node.stats``."""
        bridges = [row() for row in self.bridges.values()]
        return gather(self.engine, self._driver.drops, self._driver.disk, self.holding, self.clock(), bridges)

    async def ping(self, peer: str, timeout: float) -> PingAnswer:
        """See ``Node.ping``."""
        self.check_alive()
        check_timeout(f"ping {peer}", timeout)
        target = self.check_way(f"{peer}/ping", Delivery.EXPRESS)
        if not isinstance(target, RemoteQueue):
            raise UsageError(f"ping {peer}: that is this node")
        link, now_ns = self._outbox.links[self.engine.routes.way_of(target.peer).via], self.clock()
        if link.suspended is not None:
            raise type(link.suspended)(
                str(link.suspended), peer=link.suspended.peer, rolled_back=link.suspended.rolled_back
            )
        handshakes = self.engine.handshakes
        return await ask(target.peer, self.engine.pings, link, handshakes.waits_for_session, self.wake, timeout, now_ns)

    def why_ill(self, hung_s: float) -> str | None:
        """Why the node's store does not work; None while it does. It costs no more for many queues.

        Args:
            hung_s: how long the store's current job may take, in seconds.
        """
        try:
            self.check_alive()
        except TriackError as error:
            return str(error)
        began_ns = self._driver.disk.began_ns
        busy_s = 0.0 if began_ns is None else (self.clock() - began_ns) / SECOND
        return f"the disk of node {self.name} has not answered for {busy_s:.0f} s" if busy_s >= hung_s else None

    def why_not_ready(self, links: Iterable[str] = ()) -> str | None:
        """Why the node takes no new messages, or lacks a session that one of these peers needs; None for no reason."""
        if self.engine.draining:
            return f"node {self.name} closes"
        if self.engine.inbox.admission.store_low:
            return f"the disk of node {self.name} has less room than its reserve"
        down = [peer for peer in links if (link := self._outbox.links.get(peer)) is None or _is_down(link)]
        return f"no session with {', '.join(down)}" if down else None

    async def close(self, timeout_ns: int) -> None:
        """Let sessions finish for at most ``timeout_ns``, and close everything."""
        await self._driver.close(timeout_ns)

    def handle_exit(self) -> None:
        """The process ends, and nobody has closed the node: say what has not arrived."""
        for _ in range(EXIT_LOOKS):
            # The node may still run, in the thread of its loop.
            with suppress(RuntimeError):
                self._driver.tell_left_behind("was not closed before the program ended")
                return

    def tell_everyone(self) -> None:
        """Tell every waiting call that the node has ended."""
        # A call that asked for a commit after the last one was begun gets this error instead.
        self.engine.stop(NodeClosed(f"node {self.name} was closed"), self.clock())
        for outgoing in self._outbox.streams:
            outgoing.stages.fail_all("node closed")
        for mailbox in (*self.mailboxes.values(), *self.engine.topics.subscriptions.values()):
            mailbox.interrupt()
        self.engine.watching.end()


class OnPort(ABC):
    """Verbs of a node, which reach its engine by its port."""

    @property
    @abstractmethod
    def _port(self) -> EngineHandle:
        """The node's port. Raises NodeClosed before the start."""


def _is_down(link: Link) -> bool:
    """Whether no session is open, and one is needed."""
    is_open = link.conversation is not None and link.conversation.is_open
    return not is_open and (link.busy or link.suspended is not None)
