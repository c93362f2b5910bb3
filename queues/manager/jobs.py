"""Jobs of the store: group commits and reads in turns, one job at a time.

A commit that has waiters goes to the disk as soon as the disk is free. A commit of mere deletions waits for the next
such commit, for at most ``LAZY_NS``. A crash may lose it, like any commit that has not returned; its deletions are then
found to be due again.
"""

from collections.abc import Callable

from triack.base.clock import WallClock
from triack.base.commit import Commit
from triack.base.units import MS
from triack.queues.manager.effects import Job
from triack.queues.manager.recorder import Recorder
from triack.queues.peers.link import Conversation
from triack.queues.schedule import Phase, Schedule
from triack.queues.streams.group_commit import GroupCommit, Turn

LAZY_NS = 10 * MS
"""How long deletions may wait: several syncs, so that single messages in a row need no sync for deletions alone; and no
longer, as a crash repeats the handing out, or sending, of that time."""


class Jobs:
    """The jobs of a node's store. The rooms of the node add their parts to every commit.

    Args:
        schedule: what rooms add, and when.
        wall: the time of day.
        synced: whether commits of transactional messages, and others, must be on the disk when they return.
        recorder: of the session log, or None.
        number: called with every commit before it goes to the disk.

    Attributes:
        group: the next commit.
        lazy_until_ns: when mere deletions have waited long enough, or None while none wait.
        running: the store's current job, or None.
        stirred: whether what happens after ``poll`` may have found work for the disk, so that it is asked again.
    """

    def __init__(
        self,
        schedule: Schedule,
        wall: WallClock,
        number: Callable[[Commit], None],
        *,
        synced: tuple[bool, bool],
        recorder: Recorder | None,
    ) -> None:
        self._schedule, self.fetches = schedule, schedule.fetches
        self._wall, self._number, self._synced, self._recorder = wall, number, synced, recorder
        self.group = GroupCommit()
        self.running: Job | None = None
        self.lazy_until_ns: int | None = None
        self.stirred = False
        self._read_next = self._stops = self._ended = self._runs_adding = False

    def turn(self, now_ns: int) -> Turn:
        """The next commit, for a call of the host at that moment. Such a call may be late: the log has that first."""
        if self._recorder is not None:
            self._recorder.handle_time(now_ns)
        group = self.group
        # As ``WallClock.ms``, without the call: there are several of these for each message.
        group.now_ns, group.now_ms = now_ns, (now_ns + self._wall.offset_ns) // MS
        return group

    def poll(self, *, at_once: bool) -> Job | None:
        """The next job, which the caller starts, as none is running; or None if there is none now.

        Commits and reads come in turns: neither starves. ``at_once``: no commit may wait for another.
        """
        if self._ended:
            return None
        if self._stops:
            self._ended, self._read_next = True, False
        turn, schedule, first = self.group, self._schedule, Phase.END
        if self._read_next:
            self._read_next = False
            schedule.run(Phase.END, turn, Phase.EXPIRE)
            if (read := self.fetches.poll()) is not None:
                return read
            first = Phase.RELAY
        schedule.run(first, turn, Phase.ADD)
        adds = turn.commit.adds
        is_mere = not (adds or turn.has_waiters)
        if is_mere and (not turn.commit.removes or (not at_once and self._may_wait(turn.now_ns))):
            return self.fetches.poll()
        return self._begin(turn, adds=adds)

    def _begin(self, group: GroupCommit, *, adds: bool) -> GroupCommit:
        """A commit goes to the disk: complete it, and collect the next one from now on. ``adds``: it has rows."""
        self._schedule.run(Phase.BEGIN, group, Phase.NOTE_COMMIT)
        self._runs_adding = self.adds_any
        self.group = GroupCommit(group.now_ns, group.now_ms)
        self.lazy_until_ns = None
        if adds or group.commit:
            transactional, other = self._synced
            group.commit.synced = group.is_synced(transactional=transactional, other=other)
            self._number(group.commit)
        self._read_next = True
        return group

    def next_deadline(self) -> int | None:
        """When a commit has waited long enough, or None."""
        return self.lazy_until_ns if self.running is None and not self._ended else None

    def _may_wait(self, now_ns: int) -> bool:
        if self.lazy_until_ns is None:
            self.lazy_until_ns = now_ns + LAZY_NS
        return now_ns < self.lazy_until_ns

    def handle_done(self, job: Job) -> None:
        """The store has done a job: if it is a commit, its content is durable."""
        self.running = None
        self._runs_adding = False
        if type(job) is GroupCommit:
            job.now_ns, job.now_ms = self.group.now_ns, self.group.now_ms
            self._schedule.run(Phase.SENDS, job, Phase.READS)
            for waiter in job.waiters:
                waiter(None)
        else:
            job.take(job.bodies)

    def fail(self, job: Job | None, error: Exception) -> None:
        """The store has failed: notify all its waiters. ``job`` is the job that failed, if any."""
        self.running, self._ended = None, True
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
