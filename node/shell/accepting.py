"""Messages on their way into a running node: their outgoing queues, what is checked before, and the wait for room."""

import asyncio
import weakref
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, assert_never

from triack.base.checks import check_kind, check_texts
from triack.base.delivery import Delivery, check_priority, check_sent
from triack.base.errors import AddressError, NoRoom, QueueFull, QueueNotFound, TooManyKeys, UsageError, WaitTimeout
from triack.base.names import TOPIC_PREFIX, check_queue, composed, nearest, what_else
from triack.base.printable import counted
from triack.node.files import operator_log
from triack.node.files.access import Access
from triack.node.shell.driver import Driver
from triack.node.shell.holding import WORKING
from triack.node.shell.life import Life
from triack.node.shell.outgoing_message import (
    MessageProperties,
    as_bytes,
    below_root,
    check_each,
    check_key,
    check_size,
    with_properties,
)
from triack.node.shell.platform import Platform
from triack.node.shell.prepared import MESSAGE_OVERHEAD_BYTES, Prepared, PreparedList, check_keepable, published
from triack.queues.admin_acks import request_of
from triack.queues.mailboxes.mailbox import Mailbox
from triack.queues.mailboxes.resolver import LocalQueue, RemoteQueue, Target
from triack.queues.mailboxes.system_queues import SystemQueue
from triack.queues.manager.engine import Engine
from triack.queues.messages import ADMIN, JOURNAL, Outgoing
from triack.queues.streams.accepted_keys import Accepted
from triack.queues.streams.outgoing_stream import OutgoingStream, Row
from triack.queues.streams.stream_state import StreamState
from triack.stats.causes import cause_of
from triack.transport.address import Destination

DESTINATIONS_MAX = 1_024
"""Destinations that are found without being parsed again; a program that uses more of them parses some again."""
TURN_MESSAGES = 256
"""After this many messages, at first twice as many, a sender that finds room lets others run: a few milliseconds."""
AT_HAND_BYTES_MAX = 65_536
"""The longest body that another thread checks by itself: to hand over a longer one costs little beside its copy."""


class Accepting:
    """The part of ``EngineHandle`` that accepts messages."""

    def __init__(
        self,
        name: str,
        *,
        life: Life,
        engine: Engine,
        driver: Driver,
        platform: Platform,
        access: Access,
        fixed_queues: bool,
    ) -> None:
        self.name = name
        self.check_alive = life.check_alive
        self.wake = driver.wake
        self.clock = platform.monotonic_ns
        self.engine = engine
        self.outbox = engine.outbox
        self.queues = engine.queues
        self.mailboxes = engine.queues.mailboxes
        self.routes = engine.routes
        self.topics = engine.topics
        self.admission = engine.inbox.admission
        self.publish_windows = engine.publish_windows
        self.access = access
        self.current = engine.current
        self.turn = 0  # messages sent since other tasks ran
        # The task that ended the last turn, if it still exists.
        self.sender: Callable[[], asyncio.Task[Any] | None] = lambda: None
        self._life = life
        self._driver = driver
        self._fixed_queues = fixed_queues
        self._outgoing: dict[tuple[str, Delivery, int | None, bool | None], OutgoingStream] = {}

    # ---- names

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
        sealing = self.outbox.sealing
        if isinstance(target, RemoteQueue) and (seal or sealing.is_wanted(target.peer)):
            missing = sealing.missing(target.peer, self.routes.way_of(target.peer))
            if missing:
                raise UsageError(f"send to {destination}: node {self.name} cannot seal messages for it: {missing}")
        if not isinstance(target, RemoteQueue) and target.name.startswith(TOPIC_PREFIX):
            self.engine.make_queue(target.name)
        elif not isinstance(target, RemoteQueue):
            self.mailbox(target.name)
        found = self.engine.outgoing_to(target, delivery, priority, seal=bool(seal))
        if len(self._outgoing) >= DESTINATIONS_MAX:
            self._outgoing.clear()
        self._outgoing[(destination, delivery, priority, seal)] = found
        return found

    def check_way(self, destination: str, delivery: object) -> Target:
        """The target of a destination. Makes nothing; raises as ``outgoing_stream``."""
        check_sent("send to", destination, delivery)
        parsed = Destination.parse(destination)
        way = None if parsed.peer is None else self.routes.way_of(parsed.peer)
        if way is not None and not self.access.knows(way.via):
            known = [peer.name for peer in self.access.directory]
            routed = "" if way.via == parsed.peer else f", and {way.why}"
            raise AddressError(f"send to {destination}: unknown peer {way.via}; {what_else(way.via, known)}{routed}")
        target = self.resolve(parsed)
        match target:
            case RemoteQueue():
                self.access.check_destination(destination, parsed if way is None else replace(parsed, peer=way.via))
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

    def mailbox(self, queue: str) -> Mailbox:
        """The queue of that name; made if there is none, unless the set of queues is fixed. Raises QueueNotFound."""
        self.check_alive()
        mailboxes = self.mailboxes
        try:
            queue = composed(queue)
            known = mailboxes.get(queue)
            if queue.startswith(TOPIC_PREFIX):
                return self.topics.named(queue).mailbox
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

    def _check_new(self, queue: str) -> None:
        """Check that a queue may be made. Raises AddressError for a wrong name, QueueNotFound if the set is fixed."""
        check_queue(queue)
        if self._fixed_queues:
            known = self.mailboxes
            raise QueueNotFound(f"queue {queue} does not exist on node {self.name}; {what_else(queue, known)}")

    # ---- checks

    def prepare(self, destination: str, body: bytes, delivery: Delivery, properties: MessageProperties) -> Prepared:
        """Check a message before it is accepted; see ``Node.send`` for arguments and errors."""
        self.check_alive()
        outgoing = self.outgoing_stream(destination, delivery, properties.get("priority"), properties.get("seal"))
        if type(body) is not bytes:
            body = as_bytes(destination, body)
        check_size(destination, body)
        size_bytes = len(body) + MESSAGE_OVERHEAD_BYTES
        message: bytes | Outgoing = body
        life_s = self.outbox.life_s(outgoing)
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

    def prepare_many(
        self,
        destination: str,
        bodies: Iterable[bytes],
        delivery: Delivery,
        properties: MessageProperties,
        keys: Iterable[str] | None = None,
        each: Iterable[MessageProperties] | None = None,
    ) -> PreparedList:
        """Check a list before any of it is accepted; see ``Node.send_many`` for arguments and errors."""
        self.check_alive()
        outgoing = self.outgoing_stream(destination, delivery, properties.get("priority"), properties.get("seal"))
        check_kind(f"send to {destination}: bodies", bodies, Iterable)
        checked = [body if type(body) is bytes else as_bytes(destination, body) for body in bodies]
        check_size(destination, max(checked, key=len, default=b""))
        self.check_taken(destination, outgoing)
        named = None if keys is None else self._check_keys(destination, outgoing, keys, len(checked))
        if each is None:
            shared = self._without_body(destination, outgoing, properties)
            return PreparedList(destination, outgoing, checked, shared, named)
        ids, owns = check_each(destination, each, len(checked))
        made = {at: self._without_body(destination, outgoing, {**properties, **own}) for at, own in owns.items()}
        return PreparedList(destination, outgoing, checked, None, named, [made[at] for at in ids])

    def _without_body(
        self, destination: str, outgoing: OutgoingStream, properties: MessageProperties
    ) -> Outgoing | None:
        """What a message of a list has beside its body and its key; None for nothing."""
        life_s = self.outbox.life_s(outgoing)
        if not properties and life_s is None:
            return published(destination, b"") if outgoing.of_topic else None
        found = with_properties(destination, b"", properties, self.wall_ms(), self.name, life_s)
        if outgoing.of_topic:
            found.topic = below_root(destination)
        if found.key:
            raise UsageError(f"send to {destination}: a key names one message, not a list of them: say keys=")
        self.heed(outgoing, found)
        return found

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

        ``before`` is how many messages, of how many bytes, will be accepted before it. Returns None if only the event
        loop can check the message: it has a key, it asks for administration messages, it is the first for its queue
        that asks for a copy in the journal, there may be no room for it, its destination is new, or the node has ended.

        Raises UsageError, MessageTooLarge: the properties are not valid.
        """
        named = destination, delivery, properties.get("priority"), properties.get("seal")
        outgoing = self._outgoing.get(named)
        if outgoing is None or not self._life.is_alive or type(body) is not bytes or len(body) > AT_HAND_BYTES_MAX:
            return None
        message: bytes | Outgoing = body
        life_s = self.outbox.life_s(outgoing)
        if properties or life_s is not None:
            message = with_properties(destination, body, properties, self.wall_ms(), self.name, life_s)
            wishes, asking = message.properties or {}, self.outbox.copies.asking
            if message.key or ADMIN in wishes or (JOURNAL in wishes and outgoing not in asking):
                return None
        if outgoing.of_topic:
            message = published(destination, message)
        coming, coming_bytes = before
        if outgoing.life is not StreamState.LIVE or self.outbox.room_bytes(outgoing, coming) <= coming_bytes:
            return None
        if self.publish_windows.left(outgoing, coming) <= 0:
            return None
        if outgoing.durable and self.admission.disk_room.is_low:
            return None
        return outgoing, message, len(body) + MESSAGE_OVERHEAD_BYTES

    def heed(self, outgoing: OutgoingStream, message: Outgoing) -> None:
        """Note what a message wants: make the queue for administration messages about it. Raises QueueNotFound."""
        properties = message.properties or {}
        request = request_of(properties)
        if request is not None:
            self.mailbox(request.queue)
        if JOURNAL in properties:
            self.outbox.copies.asking[outgoing] = None

    def _check_keys(self, destination: str, outgoing: OutgoingStream, keys: Iterable[str], count: int) -> list[str]:
        """The keys of a list. Raises UsageError, or TooManyKeys when there is no room for the new ones of them."""
        named = [check_key(destination, key) for key in check_texts(f"send to {destination}: keys", keys)]
        if len(named) != count:
            raise UsageError(f"send to {destination}: {len(named)} keys for {counted(count, 'message')}")
        check_keepable(destination, outgoing)
        now_ms = self.wall_ms()
        self._check_room_for_keys(
            destination, sum(self.outbox.keys.find(outgoing, key, now_ms) is None for key in set(named))
        )
        return named

    def _is_accepted(self, prepared: Prepared) -> bool:
        """Whether a message with this key was accepted before: then this one is not accepted again."""
        outgoing, message, _ = prepared
        if isinstance(message, bytes) or not message.key:
            return False
        return self.outbox.keys.find(outgoing, message.key, self.wall_ms()) is not None

    def check_taken(self, destination: str, outgoing: OutgoingStream) -> None:
        """Raise NoRoom or QueueFull if nothing more is accepted."""
        if outgoing.durable and self.admission.disk_room.is_low:
            raise NoRoom(f"send to {destination}: the disk of node {self.name} has less room than its reserve")
        self._check_refused(destination, outgoing)

    def _check_refused(self, destination: str, outgoing: OutgoingStream) -> None:
        if not outgoing.peer and self.engine.inbox.refuses(outgoing.queue, durable=outgoing.durable):
            raise QueueFull(f"send to {destination}: queue {outgoing.queue} has reached its quota and refuses more")

    def _check_room_for_keys(self, destination: str, count: int) -> None:
        wait_ms = self.outbox.keys.full_for_ms(self.wall_ms(), count) if count else 0
        if wait_ms:
            eldest = "the eldest is" if count == 1 else f"the {count:,} eldest are"
            raise TooManyKeys(
                f"send to {destination}: node {self.name} keeps as many keys as it may; {eldest} over in "
                f"{wait_ms / 1_000:.0f} s"
            )

    def wall_ms(self) -> int:
        """The time of day of this node, in milliseconds."""
        return self.engine.wall.ms(self.clock())

    # ---- room

    def has_room(self, prepared: Prepared) -> bool:
        """Whether the outgoing queue has room for the message; one that was accepted before needs none."""
        return self._has_room(prepared[0]) or self._is_accepted(prepared)

    def _has_room(self, outgoing: OutgoingStream) -> bool:
        return self.outbox.room_bytes(outgoing) > 0 and self.publish_windows.left(outgoing) > 0

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
            cause = cause_of(self.engine, outgoing) or ("" if outgoing.peer else "too many messages wait in that queue")
            raise WaitTimeout(f"send to {where}: no room within {timeout} s", cause=cause) from None

    def may_go_on(self, outgoing: OutgoingStream) -> bool:
        """Whether a sender may send one more message before it waits: there is room, and its turn continues."""
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

    # ---- acceptance

    def accept_some(self, prepared: PreparedList, at: int) -> list[Row]:
        """Accept the messages of a list that find room, at most ``TURN_MESSAGES``."""
        self.check_taken(prepared.destination, prepared.outgoing)
        # A handler may send one more than there is room for, see ``_wait_room``.
        most = max(1, min(TURN_MESSAGES, self.publish_windows.left(prepared.outgoing)))
        bodies = prepared.bodies[at : at + most]
        room_bytes = self.outbox.room_bytes(prepared.outgoing)
        size_bytes = sum(map(len, bodies)) + MESSAGE_OVERHEAD_BYTES * len(bodies)
        while len(bodies) > 1 and size_bytes - len(bodies[-1]) - MESSAGE_OVERHEAD_BYTES >= room_bytes:
            size_bytes -= len(bodies.pop()) + MESSAGE_OVERHEAD_BYTES
        self.turn += len(bodies) - 1
        rows = self.engine.submit_many(prepared.outgoing, prepared.messages(bodies, at), size_bytes)
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

    def accept_at_hand(
        self, outgoing: OutgoingStream, messages: list[bytes | Outgoing], size_bytes: int
    ) -> tuple[OutgoingStream, list[Row]]:
        """Accept messages of other threads, which were checked. Returns their outgoing queue of now, and their rows."""
        self.check_alive()
        outgoing = self.current(outgoing)
        rows = self.engine.submit_many(outgoing, messages, size_bytes)
        self.wake()
        return outgoing, rows

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
