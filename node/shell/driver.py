"""The thin shell around the engine: it owns clock, sockets, log and the store's thread, and has no rules.

A turn polls the engine and carries out its effects in order, until it wants no more; ``wake`` asks for the next turn,
and so does a deadline. Datagrams begin one without a further turn of the event loop. If the system accepts no more
datagrams for now, a task waits for that, and the turn continues where it was. The store does one job at a time, in a
separate thread or, if the job is brief, in the loop (``worker``); while it syncs, the next commit fills.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any, TypeVar

from triack.base.datagram import Kind
from triack.base.errors import AddressError, NodeClosed, ProtocolError, StoreError, TransportError, TriackError
from triack.base.news import NodeEvent, PeerHalted, StoreLow, StreamHeld
from triack.base.reasons import DropReason, HoldReason
from triack.base.units import MS
from triack.node.files import operator_log
from triack.node.shell.alarm import Alarm
from triack.node.shell.enrolling import Enrolling
from triack.node.shell.event_loop import end_tasks
from triack.node.shell.link_events import EventFeed
from triack.node.shell.operator_news import OperatorNews
from triack.node.shell.platform import Log, Platform
from triack.node.shell.worker import Worker
from triack.queues.manager.closing import Departure, count_by, left_behind, way_made
from triack.queues.manager.effects import Effect, Job, Send, StartJob, Tell, TellRollback, WriteRecords
from triack.queues.manager.engine import Engine
from triack.queues.peers.kept_connections import DropConnection, KeepConnection
from triack.queues.streams.group_commit import GroupCommit
from triack.stats.node_stats import DiskFigures
from triack.store.store import Store
from triack.transport.endpoint import Endpoint
from triack.transport.received import Inbox
from triack.transport.turns import Burst, Received
from triack.transport.wakeup import DONE

T = TypeVar("T")

PATIENCE_NS = 1_500 * MS
"""A node that closes stops waiting after this time without progress of its messages: some round trips of the longest
paths there are, and longer than the wait between two attempts to connect."""
LOOK_NS = 100 * MS
"""Time between checks of the disk's free room while commits are made. In this time the fastest disks write a tenth of
the default reserve."""
LOW_LOOK_S = 1.0
"""Time between these checks while there is too little room, and no commits are made."""
OWNER_LOOK_S = 1.0
"""Time between a node's checks that its store is still its own, when it commits nothing. For that long another process
and this one may both answer peers under the same name; neither reports anything new as durable."""
CATCH_UP_S = 0.02
"""The longest that arrived datagrams wait for a store that is behind: longer than a disk needs to catch up, and short
beside the time that peers wait for acknowledgements. A disk that hangs does not stop reception: each burst waits this
long, and is then accepted."""
_SENDER_OF = attrgetter("sender")
_ENROL = int(Kind.ENROL)  # compared with the first byte of each datagram


async def _wait(work: Awaitable[None]) -> None:
    await work


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
        self._inboxes: list[Inbox] = []  # of these
        self._tasks: list[asyncio.Task[None]] = []
        self._loop = asyncio.get_running_loop()
        # Turns begin in contexts of others: of calls of the application, of timers, of the network.
        self._context = copy_context()
        self._due = False  # whether the engine may have something to do
        self._busy = False  # whether a turn is under way; it sees for itself whether another one is due
        self._gave_way = False  # to the tasks that what has arrived since the last poll has woken
        self._effects: Iterator[Effect] | None = None  # what is left to do of this turn
        self._begun: Job | None = None  # by this turn
        self._waiting: asyncio.Task[None] | None = None  # for room, in the middle of a turn
        self._progress: list[asyncio.Future[None]] = []
        self._alarm = Alarm(self._loop, self._context, self._now_ns, self._look_at_deadline)
        self._closed = self._broken = False
        self._looked_ns = platform.monotonic_ns()
        self._looking: asyncio.TimerHandle | None = None
        self.disk = DiskFigures()
        self.events = EventFeed()
        self._news = OperatorNews(name, engine, lambda: self.drops)
        self.on_failure: Callable[[TriackError], None] | None = None
        self.enrolling: Enrolling | None = None
        self.wake()
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
            self._end_progress()

    def _fail_by_bug(self, job: Job | None, error: BaseException) -> None:
        self._fail(job, TriackError(f"node {self._name}: {type(error).__name__}: {error}"))

    async def work(self, job: Callable[[], T]) -> T:
        """Run a blocking job in the store's thread. Returns and raises as the job does."""
        return await self._worker.start(job)

    async def progress(self) -> None:
        """Wait until the engine has been drained once more."""
        self.wake()
        if self._closed or self._broken:
            await asyncio.sleep(0)  # a caller that asks again and again must let the end happen
            return
        await self.next_round()

    async def next_round(self) -> None:
        """Wait until something has happened to the engine, or its next deadline has come. Raises NodeClosed."""
        if self._closed or self._broken:
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

    def wake(self) -> None:
        """The engine has got something to do: begin a turn with the next turn of the event loop."""
        if not self._due:
            self._due = True
            if not self._busy:
                self._loop.call_soon(self._turn, context=self._context)

    def _wake_here(self) -> None:
        """The same, but the caller has the turn of the event loop for itself."""
        if self._due or self._busy:
            self._due = True  # a turn follows anyway
        else:
            self._turn()

    def _turn(self) -> None:
        if self._broken or (self._closed and self._effects is None):
            return
        self._busy = True
        try:
            self._go()
        except Exception as bug:  # noqa: BLE001 - the event loop would only log it, and calls would wait on
            self._broken = True
            self._fail_by_bug(None, bug)
            self._end_progress()

    def _go(self) -> None:
        """Do turns, until nothing is due, others come first, or something has to be waited for."""
        engine = self.engine
        while not self._closed or self._effects is not None:
            if self._effects is None:
                taken = self._take_few()
                if self._waiting is not None:
                    return
                if taken and not self._gave_way and not engine.jobs.group.is_awaited:
                    self._gave_way = True
                    self._let_others()  # what the tasks send that waited for this leaves with it
                    return
                self._due, self._gave_way, self._begun = False, False, None
                self._effects = iter(engine.poll(self._now_ns()))
            if not self._carry_out(self._effects):
                return
            self._effects = None
            if self._progress:
                self._end_progress()
            # All that left before the job has left. Its own output leaves immediately, after the turn of its readers.
            begun = self._begun
            if begun is not None and self._worker.work_here() and type(begun) is GroupCommit and begun.queued:
                self._let_others()
                return
            if not self._due:
                self._alarm.arm(engine.next_deadline())
                break
        self._busy = False

    def _let_others(self) -> None:
        """Continue after the tasks of the loop that are ready."""
        self._due, self._busy = True, False
        self._loop.call_soon(self._turn, context=self._context)

    def _wait_for(self, work: Awaitable[None]) -> None:
        """Continue the turn after that."""
        self._waiting = self._loop.create_task(_wait(work), name="triack-wait")
        self._waiting.add_done_callback(self._handle_waited)

    def _handle_waited(self, waited: "asyncio.Task[None]") -> None:
        self._waiting = None
        error = None if waited.cancelled() else waited.exception()
        if error is not None:
            self._fail_by_bug(None, error)
        self._turn()

    def _end_progress(self) -> None:
        waiting, self._progress = self._progress, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def _carry_out(self, effects: Iterator[Effect]) -> bool:
        """Carry out the engine's effects. Returns False if one has to wait before the next."""
        log = self._log_file
        for effect in effects:
            # Nearly all effects are of the first three kinds.
            if type(effect) is WriteRecords:
                if log is not None:
                    log.append(effect.data)
            elif type(effect) is Send:
                sent = self.send(effect.address, effect.datagrams)
                if sent is not DONE:
                    self._worker.work_here()  # the job has no reason to wait as well
                    self._wait_for(sent)
                    return False
            elif type(effect) is StartJob:
                self._begun = effect.job
                self._start_job(effect.job)
            else:
                self._do(effect)
        return True

    def _do(self, effect: Effect) -> None:
        match effect:
            case KeepConnection(address):
                self._endpoints[address.partition(":")[0]].vouch(address)
            case DropConnection(address):
                self._endpoints[address.partition(":")[0]].release(address)
            case Tell(event):
                self.tell(event)
            case TellRollback(error):
                self.tell(PeerHalted(error.peer, error.rolled_back, str(error)))

    def send(self, address: str, datagrams: list[bytes]) -> Awaitable[None]:
        """Send datagrams to an address, best effort; trouble is counted and reported. Returns ``DONE``, or the wait."""
        endpoint = self._endpoints.get(address.partition(":")[0])
        try:
            sent = self._send_by_new(address, datagrams) if endpoint is None else endpoint.send(datagrams, address)
        except (TransportError, AddressError) as error:
            self._handle_unsent(address, datagrams, error)
            return DONE
        return sent if sent is DONE else self._finish_send(sent, address, datagrams)

    async def _finish_send(self, sent: Awaitable[None], address: str, datagrams: list[bytes]) -> None:
        try:
            await sent
        except (TransportError, AddressError) as error:
            self._handle_unsent(address, datagrams, error)

    async def _send_by_new(self, address: str, datagrams: list[bytes]) -> None:
        """Send by an endpoint that has to be opened."""
        scheme = address.partition(":")[0]
        if scheme not in self._endpoints:
            self._add_endpoint(scheme, await self._open_endpoint(scheme))
        await self._endpoints[scheme].send(datagrams, address)

    def _handle_unsent(self, address: str, datagrams: list[bytes], error: TriackError) -> None:
        self.engine.drops[DropReason.CANNOT_SEND] += len(datagrams)
        self._handle_trouble(address, str(error))

    def tell(self, event: NodeEvent) -> None:
        """Tell the program, and the operator."""
        match event:
            case StoreLow(is_low=True) | StreamHeld(reason=HoldReason.NO_ROOM_FOR_BODY, here=True, is_held=True):
                self._look_later()
        self._news.tell(event)
        self.events.put(event)

    def _handle_trouble(self, address: str, cause: str) -> None:
        self.engine.news.handle_trouble(address, cause)
        if self.enrolling is not None:
            self.enrolling.handle_trouble(address, cause)
        self.wake()

    def _look_at_deadline(self) -> int | None:
        """Begin a turn if the engine's next deadline has come. Returns that."""
        deadline_ns = self.engine.next_deadline()
        if deadline_ns is not None and deadline_ns <= self._now_ns():
            self._wake_here()
            return None  # the turn arms the timer anew
        return deadline_ns  # it has moved away since: no need to poll the engine

    # ---- the network

    def _add_endpoint(self, scheme: str, endpoint: Endpoint) -> None:
        self._endpoints[scheme] = endpoint
        endpoint.on_trouble = self._handle_trouble
        inbox = endpoint.inbox
        self._inboxes.append(inbox)
        inbox.source_of, inbox.now_ns = self.engine.receiver.source_of, self._now_ns
        inbox.on_arrived, inbox.on_read = self.wake, self._wake_here
        self.start_task(self._receive(endpoint), f"triack-receive-{scheme}")

    async def _receive(self, endpoint: Endpoint) -> None:
        while True:
            try:
                burst = await endpoint.receive()
            except TransportError:
                return
            await self._let_store_catch_up()
            await self._enrol(self._take(endpoint.inbox, burst))
            self.wake()

    def _take_few(self) -> bool:
        """Take datagrams that arrived one by one, as a turn of a task costs as much as they. Returns whether."""
        taken, enrolling = False, list[Received]()
        for inbox in self._inboxes:
            if not inbox.turns.count:
                continue
            if not self.engine.is_behind and (burst := inbox.take_few()) is not None:
                enrolling += self._take(inbox, burst)
                taken = True
            else:
                inbox.hand_over()
        if enrolling:
            self._wait_for(self._enrol(enrolling))
        return taken

    def _take(self, inbox: Inbox, burst: Burst) -> list[Received]:
        """Give datagrams to the engine. Returns those that are not for it."""
        enrolling, begin = list[Received](), 0
        for source, count in burst.turns:
            began_ns = self._now_ns()
            enrolling += self._take_turn(burst[begin : begin + count], began_ns)
            begin += count
            inbox.turns.charge(source, self._now_ns() - began_ns)
        return enrolling

    def _take_turn(self, turn: Iterable[Received], now_ns: int) -> list[Received]:
        engine, enrolling = self.engine, list[Received]()
        for sender, group in groupby(turn, key=_SENDER_OF):
            datagrams: list[bytes] = []
            for received in group:
                data = received.data
                if not data:
                    engine.receiver.handle_datagrams(datagrams, sender, now_ns)
                    datagrams = []
                    engine.handle_path_lost(sender, now_ns)
                elif data[0] == _ENROL and self.enrolling is not None:
                    enrolling.append(received)
                else:
                    datagrams.append(data)
            engine.receiver.handle_datagrams(datagrams, sender, now_ns)
        return enrolling

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

    async def _enrol(self, arrived: list[Received]) -> None:
        for data, sender in arrived:
            assert self.enrolling is not None
            try:
                await self.enrolling.handle_datagram(data, sender)
            except ProtocolError as error:
                self.engine.drops[error.reason] += 1
                self.engine.callers.handle_dropped(data, error, sender, self._now_ns())

    # ---- the disk

    def _start_job(self, job: Job) -> None:
        self.disk.began_ns = self._now_ns()
        self._worker.run(
            partial(self._work, job),
            partial(self._finish_job, job),
            is_brief=type(job) is GroupCommit and self._store.is_brief(job.commit),
        )

    def _work(self, job: Job) -> int | None:
        """In the worker. Returns the bytes that the disk still accepts, if it was time to check."""
        if type(job) is GroupCommit:
            if job.commit.serial:  # only waiters have asked for one without
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
        if (room_bytes := done.result()) is not None:
            self._handle_room(room_bytes)
        disk_room = self.engine.inbox.admission.disk_room
        if disk_room.is_low or disk_room.is_awaited:
            self._look_later()

    def _handle_room(self, room_bytes: int) -> None:
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
        if type(job) is GroupCommit and began_ns is not None and error is None:
            self.disk.commits.observe(self._now_ns() - began_ns)
        if error is None:
            try:
                if room_bytes is not None:
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
        is_volatile = partial(engine.outbox.volatile, all_classes=self._store.in_memory)  # what only memory holds
        while engine.failure is None and is_volatile() and self._now_ns() < end_ns:
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
        self._end_progress()
        for endpoint in self._endpoints.values():
            await endpoint.close()
        await end_tasks(self._tasks)
        while self._waiting is not None:  # the last turn ends by itself, as nothing finds room any more
            await asyncio.wait([self._waiting])
        self._alarm.end()
        if self._looking is not None:
            self._looking.cancel()
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

    async def _soon(self) -> None:
        await self.progress()
        await asyncio.sleep(0.002)
