"""Jobs of the store: group commits and reads in turns, one job at a time.

A commit that has waiters goes to the disk as soon as the disk is free. A commit of mere deletions waits for the next
such commit, for at most ``LAZY_NS``. A crash may lose it, like any commit that has not returned; its deletions are then
found to be due again.
"""

from collections.abc import Callable
from dataclasses import dataclass

from triack.base.clock import WallClock
from triack.base.commit import Commit
from triack.base.units import MS
from triack.queues.fetching import Fetches, Source
from triack.queues.journals.journals import Journals
from triack.queues.mailboxes.local_queues import LocalQueues
from triack.queues.manager.administration import Administration
from triack.queues.manager.effects import Job
from triack.queues.manager.recorder import Recorder
from triack.queues.peers.link import Conversation
from triack.queues.streams.group_commit import GroupCommit, Turn
from triack.queues.streams.inbox import Inbox
from triack.queues.streams.outbox import Outbox
from triack.queues.topics.topics import Topics
from triack.queues.transit.transits import Transits

LAZY_NS = 10 * MS
"""How long deletions may wait: several syncs, so that single messages in a row need no sync for deletions alone; and no
longer, as a crash repeats the handing out, or sending, of that time."""


@dataclass(eq=False, repr=False)
class Jobs:
    """The jobs of a node's store. The rooms of the node add their parts to every commit.

    Args:
        wall: the time of day.
        recorder: of the session log, or None.
        number: called with every commit before it goes to the disk.

    Attributes:
        administration: tells senders what became of their messages.
        fetches: the bodies that only the disk has.
        group: the next commit.
        lazy_until_ns: when mere deletions have waited long enough, or None while none wait.
        running: the store's current job, or None.
        stirred: whether what happens after ``poll`` may have found work for the disk, so that it is asked again.
    """

    queues: LocalQueues
    inbox: Inbox
    outbox: Outbox
    transits: Transits
    administration: Administration
    wall: WallClock
    number: Callable[[Commit], None]
    journals: Journals
    topics: Topics
    synced: tuple[bool, bool]
    recorder: Recorder | None

    def __post_init__(self) -> None:
        self.group = GroupCommit()
        self.running: Job | None = None
        self._read_next = False
        self.lazy_until_ns: int | None = None
        needed = self.outbox.dead_lettering.waiting, self.outbox.copies.waiting, self.outbox.wanting
        on_the_way = self.transits.letters.waiting, self.transits.wanting
        self.fetches = Fetches(
            *(Source(needs, self.outbox.poll_fetch) for needs in needed),
            *(Source(needs, self.transits.poll_fetch) for needs in on_the_way),
            Source(self.queues.notices.whole, self.administration.poll_fetch),
            Source(self.journals.missing, self.journals.poll_fetch),
            Source(self.queues.expiry.expired, self.queues.expiry.poll_fetch),
            Source(self.queues.notices.wanting, self.queues.poll_fetch),
        )
        self._stops = False
        self._ended = False
        self._runs_adding = False
        self.stirred = False

    def turn(self, now_ns: int) -> Turn:
        """The next commit, for a call of the host at that moment. Such a call may be late: the log has that first."""
        if self.recorder is not None:
            self.recorder.handle_time(now_ns)
        group = self.group
        # As ``WallClock.ms``, without the call: there are several of these for each message.
        group.now_ns, group.now_ms = now_ns, (now_ns + self.wall.offset_ns) // MS
        return group

    def poll(self, *, at_once: bool) -> Job | None:
        """The next job, which the caller starts, as none is running; or None if there is none now.

        Commits and reads come in turns: neither starves. ``at_once``: no commit may wait for another.
        """
        if self._ended:
            return None
        if self._stops:
            self._ended, self._read_next = True, False
        turn, notices = self.group, self.queues.notices
        dead, copies, expiry = self.outbox.dead_lettering, self.outbox.copies, self.queues.expiry
        if dead.waiting or copies.waiting or expiry.expired:
            dead.dead_letter(turn)
            copies.complete(turn)
            expiry.dead_letter_expired(turn)
        read_next, self._read_next = self._read_next, False
        if read_next and (read := self.fetches.poll()) is not None:
            return read
        # What these move to dead letters may have answers, which are in the same commit.
        if self.transits.is_used:
            self.transits.complete(turn)
        if notices.whole:
            self.administration.tell_whole(turn.now_ns)
        if self.queues.untold:
            self.queues.tell_read(turn.now_ns)
        if self.outbox.unpacked:
            self.outbox.pack_durable(turn)
        if notices.dirty or self.queues.removed or self.queues.bodies.deletes_any:
            self.queues.complete(self.group)
        if notices.has_topics:
            self.topics.complete(self.group)
        if notices.taken or self.journals.express:
            self.journals.handle_express(turn)
        group = self.group
        if not group.is_awaited and (not group.commit.removes or (not at_once and self._may_wait(turn.now_ns))):
            return self.fetches.poll()
        return self._begin(group)

    def _begin(self, group: GroupCommit) -> GroupCommit:
        """A commit goes to the disk: complete it, and collect the next one from now on."""
        if group.accepted or group.ended:
            self.inbox.complete(group)
        if self.journals.ready:
            self.journals.keep(group)
        bodies = self.queues.bodies
        if bodies.left or bodies.deletes_any:
            bodies.free_left()
            group.commit.message_deletes += bodies.poll_announcements()
        self._runs_adding = self.adds_any
        self.group = GroupCommit(group.now_ns, group.now_ms)
        self.lazy_until_ns = None
        if group.commit:
            transactional, other = self.synced
            group.commit.synced = group.is_synced(transactional=transactional, other=other)
            self.number(group.commit)
        self._read_next = True
        return group

    def next_deadline(self) -> int | None:
        """When a commit has waited long enough, or None."""
        return self.lazy_until_ns if self.running is None and not self._ended else None

    def _may_wait(self, now_ns: int) -> bool:
        if self.lazy_until_ns is None:
            self.lazy_until_ns = now_ns + LAZY_NS
        return now_ns < self.lazy_until_ns

    def handle_done(self, job: Job, now_ns: int) -> None:
        """The store has done a job: if it is a commit, its content is durable."""
        self.running = None
        self._runs_adding = False
        if type(job) is GroupCommit:
            self.outbox.handle_committed(job, now_ns)
            if self.transits.is_used:
                self.transits.handle_committed(job, now_ns)
            if job.stored or job.accepted or job.refused or job.ended:
                self.inbox.handle_committed(job, now_ns)
            self.queues.handle_committed(job)
            self.journals.handle_committed()
            for waiter in job.waiters:
                waiter(None)
        else:
            job.take(job.bodies)

    def fail(self, job: Job | None, error: Exception) -> None:
        """The store has failed: notify all its waiters. ``job`` is the job that failed, if any."""
        if job is not None:
            self.running = None
        waiters = [*self.group.waiters, *self.fetches.drop_asked()]
        if isinstance(job, GroupCommit):
            waiters += job.waiters
        elif job is not None:
            waiters.append(job.fail)
        for waiter in waiters:
            waiter(error)

    def holds(self, conversation: Conversation) -> bool:
        """Whether packets of a session are being written to the disk, so that it will send a store ack."""
        running = self.running
        groups = (self.group, running) if isinstance(running, GroupCommit) else (self.group,)
        return any(conversation in group.stored for group in groups)

    def interrupt(self, error: Exception) -> None:
        """The node stops: the next commit is the last, and the store must be free for it at the next ``poll``.

        If the store is busy, that commit never happens, and its waiters get the error.
        """
        waiters = self.fetches.drop_asked()
        self._ended = self._ended or self._stops or self.running is not None
        self._stops = True
        if self._ended:
            group_waiters, self.group.waiters = self.group.waiters, []
            waiters = [*group_waiters, *waiters]
        for waiter in waiters:
            waiter(error)

    @property
    def adds_any(self) -> bool:
        """Whether the next or the running commit may hold messages or values of an application."""
        commit = self.group.commit
        return self._runs_adding or bool(commit.outgoing or commit.messages or commit.state)

    @property
    def busy(self) -> bool:
        """Whether anything accepted is not in a commit that has returned."""
        return self.running is not None or bool(self.group)
