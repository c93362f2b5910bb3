"""What the rooms of a node do, and in which order: each room registers its own work once, the engine runs it.

Promise: work is done in the order of ``Phase``; within a phase, rooms have their turns in the order in which they were
registered. A step that names containers is run only while one of them holds something, and a timer only when its time
has come: a room that has nothing to do is not asked. Rooms clear the containers that they have named, and never replace
them: the schedule would look at those before.

    a poll          timers, the next job, PACK_EXPRESS GIVE CALL SEND, NOTE TELL WATCH
    the next job    END EXPIRE, a read if it is its turn; else RELAY ANSWER PACK ADD, and a commit or a read
    a commit        BEGIN FREE NOTE_COMMIT NOTE before it goes to the disk, SENDS ACKS READS when it has returned
"""

from collections.abc import Callable, Collection
from enum import IntEnum
from typing import Any, NamedTuple

from triack.base.commit import StoreContent
from triack.queues.clock_jumps import ClockJumps
from triack.queues.deadlines import NEVER_NS, Deadlines
from triack.queues.fetching import Fetch, Fetches, Source


class Phase(IntEnum):
    """When a step is run, in order. It gets the next commit, whose time is now, or what its phase says."""

    END = 0
    """What was given up becomes a dead letter, and what was freed a copy in a journal."""
    EXPIRE = 1
    """The same for what has expired in queues."""
    RELAY = 2
    """The same for what only passes through. Its dead letters may have answers, as those before."""
    ANSWER = 3
    """Senders hear, in the same commit, what has become of their messages."""
    PACK = 4
    """Accepted messages, and these answers, become packets."""
    ADD = 5
    """Queues and topics add what was read, and journals express copies."""

    BEGIN = 6
    """A commit begins: what only its whole content tells."""
    FREE = 7
    """Large bodies are freed that nothing in a queue, or in this commit, represents."""
    NOTE_COMMIT = 8
    """The session log has what the commit changes."""

    SENDS = 9
    """A commit, which a step gets, has returned: what it holds may leave."""
    ACKS = 10
    """What it holds is acknowledged."""
    READS = 11
    """What it holds may be read."""

    PACK_EXPRESS = 12
    """Express messages become packets, which need no commit."""
    GIVE = 13
    """Sessions get acks, and words of relays. A step returns True if the store may have a job because of it."""

    CALL = 14
    """Peers are called for which something waits. A step returns as those of ``GIVE``."""

    SEND = 15
    """Sessions make datagrams. This continues when the store has failed, as do the following."""

    NOTE = 16
    """The session log has everything else."""
    TELL = 17
    """What the operator is to hear is complete."""
    WATCH = 18
    """Readers of acknowledgement events get them."""


class Restore(IntEnum):
    """When a room reads what the store had at the start."""

    RULES = 0
    """What decides how queues are made."""
    QUEUES = 1
    FILLED = 2
    """What is known only when the queues have their messages."""
    STREAMS = 3
    REST = 4
    """What looks at queues and streams."""


ALWAYS = ((None,),)
"""The needs of a step that is run each time."""


class _Step(NamedTuple):
    needs: tuple[Collection[object], ...]
    run: Callable[[Any], object]


class _Timer(NamedTuple):
    clocks: tuple[Deadlines[Any], ...]
    needs: tuple[Collection[object], ...]
    run: Callable[[Any], object]


class _Deadline(NamedTuple):
    needs: tuple[Collection[object], ...]
    ask: Callable[[], int | None]


class Schedule:
    """The work of all rooms of a node.

    Attributes:
        news: what the operator is to hear, see ``tell``.
        fetches: the bodies that only the disk has, see ``source``.
    """

    def __init__(self) -> None:
        self._steps: tuple[list[_Step], ...] = tuple([] for _ in Phase)
        self._restore: tuple[list[Callable[[StoreContent, Any, ClockJumps], None]], ...] = tuple([] for _ in Restore)
        self._timers: list[_Timer] = []
        self._clocks: list[Deadlines[Any]] = []
        self._deadlines: list[_Deadline] = []
        self.news: list[list[Any]] = []
        self.fetches = Fetches()

    # ---- registering

    def restore(self, when: Restore, run: Callable[[StoreContent, Any, ClockJumps], None]) -> None:
        """At the start, call ``run`` with the content of the store, the next commit, and how clocks have jumped."""
        self._restore[when].append(run)

    def step(self, phase: Phase, run: Callable[[Any], object], *needs: Collection[object]) -> None:
        """In a phase, call ``run`` if one of ``needs`` holds something; always if there are none."""
        self._steps[phase].append(_Step(needs or ALWAYS, run))

    def timer(
        self, run: Callable[[Any], object], *clocks: Deadlines[Any], needs: tuple[Collection[object], ...] = ()
    ) -> None:
        """Call ``run`` with the next commit when one of ``clocks`` is due, or in each poll while ``needs`` hold any."""
        self._timers.append(_Timer(clocks, needs, run))
        self._clocks += clocks

    def source(self, poll: Callable[[], Fetch | None], *needs: Collection[object]) -> None:
        """Have bodies fetched by ``poll`` while one of ``needs`` holds something."""
        self.fetches.sources += [Source(its, poll) for its in needs]

    def tell(self, *news: list[Any]) -> None:
        """Let the operator hear what lists of events hold; each poll empties them."""
        self.news += news

    def deadline(self, ask: Callable[[], int | None], *needs: Collection[object]) -> None:
        """A moment at which ``poll`` must be called that no clock has: ask for it while one of ``needs`` holds any."""
        self._deadlines.append(_Deadline(needs or ALWAYS, ask))

    # ---- running

    def run(self, phase: Phase, turn: Any, last: Phase | None = None) -> bool:
        """Run the steps of a phase, or of those up to ``last``. Returns whether one of them returned True."""
        found = False
        for steps in self._steps[phase : (phase if last is None else last) + 1]:
            for needs, step in steps:
                for need in needs:
                    if need:
                        if step(turn):
                            found = True
                        break
        return found

    def handle_restored(self, content: StoreContent, turn: Any, jumps: ClockJumps) -> None:
        """Let each room read what the store had."""
        for rooms in self._restore:
            for run in rooms:
                run(content, turn, jumps)

    def handle_timer(self, turn: Any) -> None:
        """Run what is due."""
        now_ns = turn.now_ns
        for clocks, needs, run in self._timers:
            for clock in clocks:
                if clock.soonest_ns <= now_ns:
                    run(turn)
                    break
            else:
                for need in needs:
                    if need:
                        run(turn)
                        break

    def soonest(self) -> int | None:
        """When ``poll`` must be called at the latest, or None."""
        soonest_ns = NEVER_NS
        for clock in self._clocks:
            if clock.soonest_ns < soonest_ns:
                soonest_ns = clock.soonest_ns
        for needs, ask in self._deadlines:
            for need in needs:
                if need:
                    at_ns = ask()
                    if at_ns is not None and at_ns < soonest_ns:
                        soonest_ns = at_ns
                    break
        return None if soonest_ns == NEVER_NS else soonest_ns

    def handle_failure(self, *kept: Deadlines[Any]) -> None:
        """The store has failed: rooms only log and report what has happened, and only these clocks have timers."""
        self._clocks[:] = kept
        self._timers[:] = [timer for timer in self._timers if set(kept) & set(timer.clocks)]
        self._deadlines.clear()
        for steps in self._steps[: Phase.SEND]:
            steps.clear()
