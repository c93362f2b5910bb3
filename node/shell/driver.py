"""The thin shell around the engine: it owns clock, sockets, log and the store's thread, and has no rules.

One task polls the engine and carries out its effects in order, until something arrives or the next deadline comes. The
store does one job at a time, in a separate thread or, if the job is brief, in the loop (``worker``); while it syncs,
the next commit fills.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from itertools import groupby, islice
from operator import attrgetter
from typing import Any, TypeVar

from triack.base.datagram import Kind
from triack.base.errors import AddressError, NodeClosed, ProtocolError, StoreError, TransportError, TriackError
from triack.base.news import (
    AckWaitOver,
    CallRefused,
    DeadLettersWaiting,
    GapFound,
    JournalFull,
    LinkDown,
    LinkDowngraded,
    LinkUp,
    LinkUpgraded,
    MessagesDiscarded,
    NodeEvent,
    NoRoute,
    PeerHalted,
    PeerSilent,
    PeerUnknown,
    QueueOverQuota,
    StoreLow,
    StreamHeld,
    StreamsNearLimit,
    SubscriptionLost,
    TransitOverQuota,
    WayChanged,
)
from triack.base.printable import counted
from triack.base.reasons import DropReason, HoldReason
from triack.base.units import MS, in_ns
from triack.node.files import operator_log
from triack.node.shell.enrolling import Enrolling
from triack.node.shell.link_events import EventFeed
from triack.node.shell.platform import Log, Platform
from triack.node.shell.worker import Worker
from triack.queues.mailboxes.system_queues import system_queue
from triack.queues.manager.closing import Departure, count_by, left_behind, way_made
from triack.queues.manager.effects import Job, Send, StartJob, Tell, TellRollback, WriteRecords
from triack.queues.manager.engine import Engine
from triack.queues.peers.kept_connections import DropConnection, KeepConnection
from triack.queues.streams.group_commit import GroupCommit
from triack.stats.node_stats import DiskFigures
from triack.stats.troubles import when_journal_full
from triack.store.store import Store
from triack.transport.endpoint import Endpoint
from triack.transport.turns import Burst, Received
from triack.transport.wakeup import Wakeup

T = TypeVar("T")

PATIENCE_NS = 1_500 * MS
"""A node that closes stops waiting after this time without progress of its messages: some round trips of the longest
paths there are, and longer than the wait between two attempts to connect."""
LOOK_NS = 100 * MS
"""Time between checks of the disk's free room while commits are made. In this time the fastest disks write a tenth of
the default reserve."""
LOW_LOOK_S = 1.0
"""Time between these checks while there is too little room, and no commits are made."""
LONGEST_SLEEP_S = 60.0
"""A timer of the event loop does not count the time that the machine was suspended, and would be late by that. So
deadlines that are farther away are checked once a minute."""
OWNER_LOOK_S = 1.0
"""Time between a node's checks that its store is still its own, when it commits nothing. For that long another process
and this one may both answer peers under the same name; neither reports anything new as durable."""
CATCH_UP_S = 0.02
"""The longest that arrived datagrams wait for a store that is behind: longer than a disk needs to catch up, and short
beside the time that peers wait for acknowledgements. A disk that hangs does not stop reception: each burst waits this
long, and is then accepted."""
_SENDER_OF = attrgetter("sender")
_ENROL = int(Kind.ENROL)  # compared with the first byte of each datagram


class Driver:
    """Runs an engine in the current event loop."""

    def __init__(
        self,
        name: str,
        engine: Engine,
        platform: Platform,
        worker: Worker,
        store: Store,
        log: Log | None,
        endpoint: Endpoint | None,
        *,
        open_endpoint: Callable[[str], Awaitable[Endpoint]],
    ) -> None:
        self.engine = engine
        self._name = name
        self._open_endpoint = open_endpoint
        self._worker = worker
        self._platform = platform
        self._now_ns = platform.monotonic_ns
        self._store = store
        self._log_file = log
        self._endpoints: dict[str, Endpoint] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._wakeup = Wakeup()
        self.wake: Callable[[], None] = self._wakeup.set  # to be called when the engine has got something to do
        self._progress: list[asyncio.Future[None]] = []
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ns = 0
        self._closed = False
        self._looked_ns = platform.monotonic_ns()
        self._looking: asyncio.TimerHandle | None = None
        self.disk = DiskFigures()
        self.events = EventFeed()
        self.on_failure: Callable[[TriackError], None] | None = None
        self.enrolling: Enrolling | None = None
        self.start_task(self._run(), "triack-driver")
        if endpoint is not None:
            self._add_endpoint(endpoint.address.partition(":")[0], endpoint)
        if store.has_owner:
            self.start_task(self._watch_store(), "triack-owner")

    def start_task(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Start a task that runs until the node is closed; an error that ends the task ends the node."""
        task = self._loop.create_task(work, name=name)
        task.add_done_callback(self._check_task)
        self._tasks.append(task)

    def _check_task(self, task: "asyncio.Task[None]") -> None:
        """End the node if a task dies of our bug, so that calls do not wait forever."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._fail_by_bug(None, error)
        if error is not None or task is self._tasks[0]:
            self._end_progress()

    def _fail_by_bug(self, job: Job | None, error: BaseException) -> None:
        self._fail(job, TriackError(f"node {self._name}: {type(error).__name__}: {error}"))

    async def work(self, job: Callable[[], T]) -> T:
        """Run a blocking job in the store's thread. Returns and raises as the job does."""
        return await self._worker.start(job)

    async def progress(self) -> None:
        """Wait until the engine has been drained once more."""
        self.wake()
        if self._closed or self._tasks[0].done():
            await asyncio.sleep(0)  # a caller that asks again and again must let the end happen
            return
        future = self._loop.create_future()
        self._progress.append(future)
        await future

    async def next_round(self) -> None:
        """Wait until something has happened to the engine, or its next deadline has come. Raises NodeClosed."""
        if self._closed or self._tasks[0].done():
            raise NodeClosed(f"node {self._name} was closed")
        future = self._loop.create_future()
        self._progress.append(future)
        await future

    @property
    def drops(self) -> dict[str, int]:
        """Datagrams that the endpoints dropped, by reason."""
        total = sum((endpoint.drops for endpoint in self._endpoints.values()), Counter[DropReason]())
        return {str(reason): count for reason, count in total.items()}

    # ---- the loop

    async def _run(self) -> None:
        while not self._closed:
            if await self._take_few() and not self.engine.jobs.group.is_awaited:
                await asyncio.sleep(0)  # first let tasks run that waited for this: what they send leaves with it
            self._wakeup.clear()
            job = await self._drain()
            self._end_progress()
            # All that left before the job has left. Its own output leaves immediately, after the turn of its readers.
            if self._worker.work_here() and isinstance(job, GroupCommit) and job.queued:
                await asyncio.sleep(0)
            if not self._wakeup.is_set:
                self._arm_timer(self.engine.next_deadline())
                await self._wakeup.wait()
        self._end_progress()

    def _end_progress(self) -> None:
        waiting, self._progress = self._progress, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def _drain(self) -> Job | None:
        """Carry out the engine's effects. Returns the job that has begun, or is about to."""
        begun: Job | None = None
        log = self._log_file
        for effect in self.engine.poll(self._now_ns()):
            # Nearly all effects are of the first three kinds.
            if isinstance(effect, WriteRecords):
                if log is not None:
                    log.append(effect.data)
            elif isinstance(effect, Send):
                await self.send(effect.address, effect.datagrams)
            elif isinstance(effect, StartJob):
                begun = effect.job
                self._start_job(begun)
            else:
                self._do(effect)
        return begun

    def _do(self, effect: KeepConnection | DropConnection | Tell | TellRollback) -> None:
        match effect:
            case KeepConnection(address):
                self._endpoints[address.partition(":")[0]].vouch(address)
            case DropConnection(address):
                self._endpoints[address.partition(":")[0]].release(address)
            case Tell(event):
                self.tell(event)
            case TellRollback(error):
                self.tell(PeerHalted(error.peer, error.rolled_back, str(error)))

    async def send(self, address: str, datagrams: list[bytes]) -> None:
        """Send datagrams to an address, best effort; trouble is counted and reported."""
        try:
            endpoint = self._endpoints.get(address.partition(":")[0]) or await self._endpoint_for(address)
            await endpoint.send(datagrams, address)
        except (TransportError, AddressError) as error:
            self.engine.drops[DropReason.CANNOT_SEND] += len(datagrams)
            self._handle_trouble(address, str(error))

    def tell(self, event: NodeEvent) -> None:
        """Tell the program, and the operator."""
        match event:
            case LinkUp() | LinkDown() | LinkDowngraded() | LinkUpgraded() | WayChanged():
                self._tell_link(event)
            case PeerSilent(address, cause):
                operator_log.warning(f"{cause}; trying on", node=self._name, to=address, drops=self.drops)
            case PeerUnknown(peer, cause):
                operator_log.warning(f"{cause}; what is for it waits", node=self._name, peer=peer)
            case PeerHalted(peer, rolled_back, cause):
                why = f"rollback detected: {cause}"
                operator_log.error(why, node=self._name, peer=peer, rolled_back=rolled_back)
            case GapFound(peer, _, _, _, halts, cause):
                log = operator_log.error if halts else operator_log.warning
                then = "nothing is sent there" if halts else "going on"
                log(f"gap found: {cause}; {then}", node=self._name, peer=peer)
            case CallRefused(host, trouble, cause, remedy):
                operator_log.warning(f"{cause}; {remedy}", node=self._name, host=host, trouble=trouble)
            case QueueOverQuota() | DeadLettersWaiting() | JournalFull():
                self._tell_full(event)
            case StreamsNearLimit(peer, streams, limit, incoming, is_full):
                whose = "from" if incoming else "to"
                why = f"{streams} streams {whose} {peer} are live, of at most {limit}"
                why += "; messages for further queues wait" if is_full else ""
                operator_log.warning(why, node=self._name, peer=peer, streams=streams, limit=limit)
            case MessagesDiscarded() | AckWaitOver() | SubscriptionLost():
                self._tell_subscription(event)
            case NoRoute() | TransitOverQuota():
                self._tell_transit(event)
            case StoreLow():
                self._tell_room(event)
            case StreamHeld():
                self._tell_held(event)
        self.events.put(event)

    def _tell_link(self, event: LinkUp | LinkDown | LinkDowngraded | LinkUpgraded | WayChanged) -> None:
        match event:
            case LinkUp(address, peer):
                operator_log.info(f"link to {peer} at {address} is up", node=self._name, peer=peer, to=address)
            case LinkDown(address, peer, _, reason):
                why = f"link to {peer} at {address} is down: {reason}"
                operator_log.info(why, node=self._name, peer=peer, to=address, reason=reason)
            case LinkDowngraded(peer, oldest_s, packets):
                behind = f"{peer} has not passed on {counted(packets, 'packet')}, the oldest for {oldest_s:.1f} s"
                operator_log.warning(f"{behind}: its link is asynchronous for now", node=self._name, peer=peer)
            case LinkUpgraded(peer):
                operator_log.info(f"link to {peer} is synchronous again", node=self._name, peer=peer)
            case WayChanged(ways, via, before):
                is_back = ways.index(via) < ways.index(before)
                why = f"{via} is back" if is_back else f"{before} is silent"
                operator_log.warning(f"{why}: messages go by {via} now", node=self._name, peer=via, ways=",".join(ways))

    def _tell_transit(self, event: NoRoute | TransitOverQuota) -> None:
        peer = event.came_by
        if isinstance(event, NoRoute):
            why = f"no route leads to {event.final}, and {peer} sends to it by way of this node"
            operator_log.warning(why, node=self._name, peer=peer, final=event.final)
            return
        why = f"what waits here for other nodes is over its quota: {peer} waits"
        operator_log.warning(why, node=self._name, peer=peer, messages=event.messages, bytes=event.bytes)

    def _tell_subscription(self, event: MessagesDiscarded | AckWaitOver | SubscriptionLost) -> None:
        if isinstance(event, SubscriptionLost):
            why = f"the subscription to {event.destination} had ended there and begins anew: messages are missed"
            operator_log.warning(why, node=self._name, subscription=event.subscription)
            return
        topic, subscription, messages = event.topic, event.subscription, event.messages
        whose = f"topic {topic}: {counted(messages, 'message')}"
        if isinstance(event, MessagesDiscarded):
            why = f"{whose} dropped for the slow subscription {subscription}"
        else:
            why = f"{whose} taken back from readers of subscription {subscription}, which had them for too long"
        operator_log.warning(why, node=self._name, topic=topic, subscription=subscription, messages=messages)

    def _tell_full(self, event: QueueOverQuota | DeadLettersWaiting | JournalFull) -> None:
        queue, messages = event.queue, event.messages
        if isinstance(event, DeadLettersWaiting):
            why = f"{messages} messages wait in {queue}: read why they died, then requeue or purge them"
            operator_log.warning(why, node=self._name, queue=queue, messages=messages)
            return
        why = f"queue {queue} is over its quota"
        if isinstance(event, JournalFull):
            why = f"{queue} has reached its quota: {when_journal_full(queue, event.when_full)}"
        elif (system := system_queue(queue)) is not None:
            why += system.overflow(self.engine.settings.limits)
        operator_log.warning(why, node=self._name, queue=queue, messages=messages, bytes=event.bytes)

    def _tell_room(self, event: StoreLow) -> None:
        room_bytes = event.room_bytes
        if not event.is_low:
            operator_log.warning("the disk has room again", node=self._name, room_bytes=room_bytes)
            return
        self._look_later()
        why = (
            f"the disk has little room, {max(0, room_bytes)} bytes beside what the log of the store may take: "
            "nothing new is accepted until there is more"
        )
        operator_log.error(why, node=self._name, room_bytes=room_bytes)

    def _tell_held(self, event: StreamHeld) -> None:
        """A wait is a warning, unless it ends with the disk's next job."""
        if event.reason == HoldReason.NO_ROOM_FOR_BODY and event.here and event.is_held:
            self._look_later()
        is_minor = event.reason == HoldReason.STORE_BUSY or not event.is_held
        log = operator_log.info if is_minor else operator_log.warning
        of_queue = event.reason == HoldReason.QUEUE_FULL
        what = f"messages of {event.peer}"
        if not event.here:
            what = f"messages to {event.peer}/{event.queue}" if of_queue else f"messages to {event.peer}"
        wait = f"wait for room {'here' if event.here else 'there'}" if event.is_held else "wait no more"
        why = f"{what} {wait}: {event.reason}"
        log(why, node=self._name, peer=event.peer, queue=event.queue, reason=event.reason)

    def _handle_trouble(self, address: str, cause: str) -> None:
        self.engine.news.handle_trouble(address, cause)
        if self.enrolling is not None:
            self.enrolling.handle_trouble(address, cause)
        self.wake()

    def _arm_timer(self, deadline_ns: int | None) -> None:
        if self._timer is not None:
            if deadline_ns is not None and self._timer_ns <= deadline_ns:
                return  # it fires in time, and is armed again then: most deadlines only move away
            self._timer.cancel()
            self._timer = None
        if deadline_ns is not None:
            now_ns = self._now_ns()
            self._timer_ns = min(deadline_ns, now_ns + in_ns(LONGEST_SLEEP_S))
            self._timer = self._loop.call_later(max(0, self._timer_ns - now_ns) / 1e9, self._handle_timer)

    def _handle_timer(self) -> None:
        self._timer = None
        deadline_ns = self.engine.next_deadline()
        if deadline_ns is not None and deadline_ns <= self._now_ns():
            self.wake()
        else:
            self._arm_timer(deadline_ns)  # it has moved away since: no need to poll the engine

    # ---- the network

    def _add_endpoint(self, scheme: str, endpoint: Endpoint) -> None:
        self._endpoints[scheme] = endpoint
        endpoint.on_trouble = self._handle_trouble
        endpoint.inbox.source_of, endpoint.inbox.on_arrived = self.engine.source_of, self.wake
        self.start_task(self._receive(endpoint), f"triack-receive-{scheme}")

    async def _endpoint_for(self, address: str) -> Endpoint:
        scheme = address.partition(":")[0]
        if scheme not in self._endpoints:
            self._add_endpoint(scheme, await self._open_endpoint(scheme))
        return self._endpoints[scheme]

    async def _receive(self, endpoint: Endpoint) -> None:
        while True:
            try:
                burst = await endpoint.receive()
            except TransportError:
                return
            await self._let_store_catch_up()
            await self._take(endpoint, burst)
            self.wake()

    async def _take_few(self) -> bool:
        """Take datagrams that arrived one by one, as a turn of another task costs as much as they. Returns whether."""
        taken = False
        for endpoint in list(self._endpoints.values()):
            inbox = endpoint.inbox
            if not inbox.turns.count:
                continue
            if not self.engine.is_behind and (burst := inbox.take_few()) is not None:
                await self._take(endpoint, burst)
                taken = True
            else:
                inbox.hand_over()
        return taken

    async def _take(self, endpoint: Endpoint, burst: Burst) -> None:
        arrived = iter(burst)
        for source, count in burst.turns:
            began_ns = self._now_ns()
            await self._take_turn(islice(arrived, count), began_ns)
            endpoint.inbox.charge(source, self._now_ns() - began_ns)

    async def _take_turn(self, turn: Iterable[Received], now_ns: int) -> None:
        engine = self.engine
        for sender, group in groupby(turn, key=_SENDER_OF):
            datagrams: list[bytes] = []
            for data, _ in group:
                if not data:
                    engine.handle_datagrams(datagrams, sender, now_ns)
                    datagrams = []
                    engine.handle_path_lost(sender, now_ns)
                elif data[0] == _ENROL and self.enrolling is not None:
                    await self._enrol(self.enrolling, data, sender)
                else:
                    datagrams.append(data)
            engine.handle_datagrams(datagrams, sender, now_ns)

    async def _let_store_catch_up(self) -> None:
        """Let arrived datagrams wait while many packets before them wait for the disk.

        Packets beyond the disk's capacity would be refused in the end, and resent. In Python there is one more reason:
        the thread of the store gets its turns when the loop has nothing to do.
        """
        if not self.engine.is_behind:
            return
        with suppress(TimeoutError, NodeClosed):
            async with asyncio.timeout(CATCH_UP_S):
                while self.engine.is_behind:
                    await self.next_round()

    async def _enrol(self, enrolling: Enrolling, data: bytes, sender: str) -> None:
        try:
            await enrolling.handle_datagram(data, sender)
        except ProtocolError as error:
            self.engine.drops[error.reason] += 1
            self.engine.callers.handle_dropped(data, error, sender, self._now_ns())

    # ---- the disk

    def _start_job(self, job: Job) -> None:
        self.disk.began_ns = self._now_ns()
        self._worker.run(
            lambda: self._work(job),
            lambda room_bytes, error: self._finish_job(job, room_bytes, error),
            is_brief=isinstance(job, GroupCommit) and self._store.is_brief(job.commit),
        )

    def _work(self, job: Job) -> int | None:
        """In the worker. Returns the bytes that the disk still accepts, if it was time to check."""
        if isinstance(job, GroupCommit):
            if job.commit:
                job.commit.clock = self._platform.read_clock(self._now_ns() + self.engine.wall.offset_ns).pack()
                self._store.apply(job.commit)
                if self._now_ns() - self._looked_ns >= LOOK_NS:
                    self._looked_ns = self._now_ns()
                    return self._store.room_bytes()
        else:
            self._store.read(job)
        return None

    def _look_later(self) -> None:
        if self._looking is None and not self._closed:
            self._looking = self._loop.call_later(LOW_LOOK_S, self._look)

    def _look(self) -> None:
        self._worker.start(self._store.room_bytes).add_done_callback(self._finish_look)

    def _finish_look(self, done: "asyncio.Future[int | None]") -> None:
        self._looking = None
        if done.exception() is not None:
            # The next commit fails in the same way, and reports it.
            return
        self._handle_room(done.result())
        disk_room = self.engine.inbox.admission.disk_room
        if disk_room.is_low or disk_room.is_awaited:
            self._look_later()

    def _handle_room(self, room_bytes: int | None) -> None:
        if room_bytes is not None:
            self.engine.inbox.admission.disk_room.handle_room(room_bytes)
            self.wake()

    async def _watch_store(self) -> None:
        """End the node if another process has its store, or its files are gone, even while it commits nothing."""
        while self.engine.failure is None:
            await asyncio.sleep(OWNER_LOOK_S)
            try:
                await self._worker.start(self._store.check)
            except StoreError as error:
                if self.engine.failure is None:
                    self._fail(None, error)
                    self.wake()

    def _finish_job(self, job: Job, room_bytes: int | None, error: BaseException | None) -> None:
        began_ns, self.disk.began_ns = self.disk.began_ns, None
        if isinstance(job, GroupCommit) and began_ns is not None and error is None:
            self.disk.commits.observe(self._now_ns() - began_ns)
        if error is None:
            try:
                self._handle_room(room_bytes)
                self.engine.handle_done(job, self._now_ns())
            except Exception as bug:  # noqa: BLE001 - the event loop would only log it, and calls would wait on
                self._fail_by_bug(job, bug)
        else:
            known = error if isinstance(error, TriackError) else StoreError(f"store: {type(error).__name__}: {error}")
            self._fail(job, known)
        self.wake()

    def _fail(self, job: Job | None, error: TriackError) -> None:
        self.engine.handle_store_failed(job, error, self._now_ns())
        if self.on_failure is not None:
            self.on_failure(error)
        if self.enrolling is not None:
            self.enrolling.end(error)
        operator_log.error(f"node {self._name} failed: {error}", node=self._name)

    # ---- the end

    async def close(self, timeout_ns: int) -> None:
        """Wait for messages on their way while they make progress, at most ``timeout_ns``, then close everything.

        A call that is cancelled stops waiting, but still closes everything.
        """
        if self.enrolling is not None:
            self.enrolling.end(NodeClosed(f"node {self._name} was closed"))
        rested = self.engine.draining
        try:
            await self._let_go(self._now_ns() + timeout_ns, rested=rested)
        finally:
            await self._close_all()
        if not rested:
            # Only now it is known which messages the last commit has stored.
            self.tell_left_behind("closes before all has arrived")

    async def _let_go(self, end_ns: int, *, rested: bool) -> None:
        engine = self.engine
        while engine.failure is None and engine.busy_storing and self._now_ns() < end_ns:
            await self._soon()
        while engine.failure is None and self._volatile() and self._now_ns() < end_ns:
            await self._soon()
        if not rested:
            await self._finish_sending(end_ns)
        engine.drain(self._now_ns())
        while engine.failure is None and not engine.idle and self._now_ns() < end_ns:
            await self._soon()

    async def _close_all(self) -> None:
        self.engine.stop(NodeClosed(f"node {self._name} was closed"), self._now_ns())
        await self.progress()
        self._closed = True
        self.wake()
        for endpoint in self._endpoints.values():
            await endpoint.close()
        for task in self._tasks[1:]:  # the first ends by itself
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for timer in (self._timer, self._looking):
            if timer is not None:
                timer.cancel()
        await self._worker.start(self._store.close)
        self._worker.close()
        self.events.end()
        if self._log_file is not None:
            self._log_file.append(self.engine.finish(self._now_ns()))
            self._log_file.close()

    async def _finish_sending(self, end_ns: int) -> None:
        engine = self.engine
        departure, before, since_ns = Departure(engine, self.wake), way_made(engine), self._now_ns()
        while engine.failure is None and self._now_ns() < min(end_ns, since_ns + PATIENCE_NS) and departure.hasten():
            await self._soon()
            now = way_made(engine)
            if now != before:
                before, since_ns = now, self._now_ns()

    def tell_left_behind(self, when: str) -> None:
        """Log the messages that have not arrived: those on disk, and those lost; ``when`` says what the node did."""
        stored, lost = (left_behind(self.engine, stored=there) for there in (True, False))
        if self._store.in_memory:
            stored, lost = Counter(), stored + lost
        if self.engine.failure is not None or not (stored or lost):
            return
        told = [f"stored until it is opened again: {count_by(stored)}"] if stored else []
        told += [f"lost, as no disk has them: {count_by(lost)}"] if lost else []
        why = f"node {self._name} {when}; {'; '.join(told)}"
        operator_log.notice(why, node=self._name, stored=dict(stored), lost=dict(lost))

    def _volatile(self) -> bool:
        """Whether closing now would lose messages that only memory holds."""
        return self.engine.outbox.volatile(all_classes=self._store.in_memory)

    async def _soon(self) -> None:
        await self.progress()
        await asyncio.sleep(0.002)
