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
from typing import Any, TypeVar

from triack.base.ack_trigger import AckTrigger, terms_of
from triack.base.checks import check_kind
from triack.base.commit import OWN_STATE
from triack.base.errors import NodeClosed, SubscriptionEnded, TriackError
from triack.base.names import TOPIC_PREFIX
from triack.base.news import BridgeLost, BridgeRefused, BridgeUp
from triack.base.units import SECOND
from triack.node.files.access import Access
from triack.node.files.trust import TrustFile
from triack.node.shell.accepting import Accepting
from triack.node.shell.driver import Driver
from triack.node.shell.enrolling import Enrolling
from triack.node.shell.life import Life
from triack.node.shell.platform import Platform
from triack.queues.mailboxes.mailbox import Lease, Mailbox, QueuedPacket, Run
from triack.queues.mailboxes.redelivery import Return
from triack.queues.mailboxes.system_queues import LARGE_PREFIX
from triack.queues.manager.engine import Engine
from triack.queues.node_settings import NodeSettings, Redelivery
from triack.queues.peers.session_settings import largest_window
from triack.queues.routes import Route, check_routes
from triack.queues.stages import Stage, Waiter
from triack.queues.streams.ack_events import AckEvents
from triack.queues.streams.group_commit import Turn
from triack.queues.streams.outgoing_stream import OutgoingStream
from triack.stats.holding import Holding
from triack.stats.node_stats import NodeStats, gather
from triack.stats.troubles import BridgeStats

T = TypeVar("T")

EXIT_LOOKS = 5
"""Looks at a node that another thread runs: a table that grows in between ends a look, and hardly ever five."""


class EngineHandle(Accepting):
    """A running node, as consumers, receipts, transactions and the control socket see it: the port in this process."""

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
        super().__init__(
            name, life=life, engine=engine, driver=driver, platform=platform, access=access, fixed_queues=fixed_queues
        )
        self.transits = engine.transits
        self.remote = engine.remote
        self.tell = engine.administration.tell
        self.name_of = engine.name_of
        self.leases = engine.leases
        self.events = driver.events.read
        self.holding = Holding()
        # Those that this process runs, by name: what each says of itself.
        self.bridges: dict[str, Callable[[], BridgeStats]] = {}
        # The messages leased to the reader that was last dropped without being closed.
        self.dropped: list[tuple[Mailbox, Lease, Redelivery | None]] = []
        # The values of the application; the node's own are left to the engine.
        self._state = {key: value for key, value in state.items() if not key.startswith(OWN_STATE)}
        self._handlers: set[asyncio.Task[None]] = set()
        self._body_locks = weakref.WeakValueDictionary[str, asyncio.Lock]()
        self.enrolling = driver.enrolling = Enrolling(
            name,
            [announced] if announced else [],
            access=access,
            platform=platform,
            send=driver.send,
            change_trust=self.change_trust,
        )

    def knows(self, peer: str) -> bool:
        """Whether a peer has that name or address here, or had it when messages were sent there."""
        return self.access.knows(peer) or any(it.peer == peer for it in self.outbox.streams)

    def handle_directory_changed(self) -> None:
        """The node's peers have changed."""
        self._outgoing.clear()
        self.engine.handle_directory_changed(self.clock())
        self.wake()

    async def change_addresses(self, addresses: dict[str, str]) -> None:
        """Know peers by other addresses besides those of the trust file. Raises IdentityError, NotLoopback."""
        self.check_alive()
        await self.access.change_addresses(addresses, self.work)
        self.handle_directory_changed()

    def change_settings(self, settings: NodeSettings) -> None:
        """Adopt settings; see ``Engine.handle_settings``."""
        self.check_alive()
        now = self.settings
        kept = replace(settings, survives=now.survives, recoverable_survives=now.recoverable_survives)
        self.engine.handle_settings(kept)
        self.wake()

    async def set_routes(self, routes: Iterable[Route]) -> None:
        """Have these routes, and no others. Raises UsageError."""
        self.check_alive()
        wanted = check_routes(f"set routes of {self.name}", routes)
        self._outgoing.clear()
        self.engine.set_routes(wanted, self.clock())
        self.wake()

    async def change_trust(self, change: Callable[[TrustFile], T]) -> T:
        """Change the trust file, and act by it. Raises what ``change`` raises, and UsageError."""
        self.check_alive()
        return await self.access.change_trust(change, self.work)

    async def work(self, job: Callable[[], T]) -> T:
        """Run a blocking job in a thread of the node. Returns and raises as the job does, and NodeClosed."""
        self.check_alive()  # the node may have ended while this waited for the file
        return await self._driver.work(job)

    async def next_round(self) -> None:
        """Wait until the engine has worked once more. Raises NodeClosed, StoreFailed."""
        self.check_alive()
        await self._driver.next_round()

    def body_lock(self, destination: str) -> asyncio.Lock:
        """Held while a large message is sent to a destination: the parts of each come after those of the one before."""
        lock = self._body_locks.get(destination)
        if lock is None:
            lock = self._body_locks[destination] = asyncio.Lock()
        return lock

    @property
    def settings(self) -> NodeSettings:
        """The settings in force."""
        return self.engine.settings

    # ---- how far messages have come

    def await_stage(self, outgoing: OutgoingStream, ticket: int, stage: Stage, waiter: Waiter) -> None:
        """Call ``waiter`` when a message reaches a stage, or can never reach it."""
        self.engine.await_stage(outgoing, ticket, stage, waiter)
        self.wake()

    async def wait_windows(self, messages: Mapping[OutgoingStream, int]) -> None:
        """Wait until the publish windows accept a transaction that sends so much to each outgoing queue.

        Raises NodeClosed, StoreFailed: they never will.
        """
        while not self.publish_windows.take(messages):
            self.check_alive()
            await self._driver.next_round()

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
        """Let handlers process the last events, for at most ``timeout_ns``."""
        if self._handlers:
            _, late = await asyncio.wait(self._handlers, timeout=timeout_ns / 1e9)
            for task in late:
                task.cancel()

    # ---- receiving

    def next_turn(self) -> Turn:
        """A call of now, which may change topics and subscriptions. Raises NodeClosed, StoreFailed."""
        self.check_alive()
        self.wake()
        return self.engine.jobs.turn(self.clock())

    def open_run(self, mailbox: Mailbox) -> Run | None:
        """Messages of a queue, to be drawn one by one; None if there are none now. Raises NodeClosed, StoreFailed.

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
        self.queues.take(mailbox, done)
        self.wake()

    def give_back(self, leases: Iterable[tuple[Mailbox, Lease]], way: Return) -> None:
        """Redeliver messages, those with equal delays at one time; one that failed too often becomes a dead letter."""
        now_ns = self.clock()
        for mailbox, lease in leases:
            self.engine.give_back(mailbox, lease, way, now_ns)
        self.wake()

    def fail_dropped(self) -> None:
        """An error ends the program that uses the node: the messages leased in the loop that it ended have failed."""
        dropped, self.dropped = self.dropped, []
        for mailbox, lease, redelivery in dropped:
            if mailbox.take_returned(lease):
                self.give_back([(mailbox, lease)], Return(True, None, redelivery))

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

    def note_bridge(self, event: str, **fields: Any) -> None:
        """Log what a bridge says of itself."""
        self.engine.note_bridge(event, self.clock(), **fields)
        self.wake()

    def note_bridge_said(self, bridge: str, said: str, why: str = "", count: int = 0, known: int = 0) -> None:
        """Note what a bridge reports: in the session log, or as an event.

        Args:
            bridge: its name.
            said: ``acked``, ``up``, ``lost``, or ``refused``. Others, of a newer bridge, are ignored.
            why: the broker of ``up``, the cause of ``lost``, the reason of ``refused``.
            count: how many messages.
            known: how many of those that it acknowledges had come before.
        """
        self.check_alive()
        match said:
            case "acked":
                self.note_bridge("bridge_acked", bridge=bridge, count=count, known=known)
            case "up":
                self._driver.tell(BridgeUp(bridge, why))
            case "lost":
                self._driver.tell(BridgeLost(bridge, why))
            case "refused":
                self._driver.tell(BridgeRefused(bridge, why, count))

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
    def node_id(self) -> str:
        """32 hex digits that name this queue manager permanently."""
        return self.engine.node_id.hex()

    def stats(self) -> NodeStats:
        """See ``Node.stats``."""
        bridges = [row() for row in self.bridges.values()]
        return gather(self.engine, self._driver.drops, self._driver.disk, self.holding, self.clock(), bridges)

    def why_ill(self, hung_s: float) -> str | None:
        """Why the node's store does not work; None while it does. It costs no more for many queues.

        ``hung_s`` is how long the store's current job may take, in seconds.
        """
        try:
            self.check_alive()
        except TriackError as error:
            return str(error)
        began_ns = self._driver.disk.began_ns
        busy_s = 0.0 if began_ns is None else (self.clock() - began_ns) / SECOND
        return f"the disk of node {self.name} has not answered for {busy_s:.0f} s" if busy_s >= hung_s else None

    async def close(self, timeout_ns: int) -> None:
        """Let sessions finish for at most ``timeout_ns``, and close everything."""
        await self._driver.close(timeout_ns)

    def handle_exit(self) -> None:
        """The process ends without closing the node: report what has not arrived."""
        for _ in range(EXIT_LOOKS):
            # The node may still run, in the thread of its loop.
            with suppress(RuntimeError):
                self._driver.tell_left_behind("was not closed before the program ended")
                return

    def tell_everyone(self) -> None:
        """Tell every waiting call that the node has ended."""
        # A call that asked for a commit after the last one was begun gets this error instead.
        self.engine.stop(NodeClosed(f"node {self.name} was closed"), self.clock())
        for outgoing in self.outbox.streams:
            outgoing.stages.fail_all("node closed")
        for mailbox in self.mailboxes.values():
            mailbox.interrupt()
        self.engine.watching.end()


class OnPort(ABC):
    """Verbs of a node, which reach its engine by its port."""

    @property
    @abstractmethod
    def _port(self) -> EngineHandle:
        """The node's port. Raises NodeClosed before the start."""
