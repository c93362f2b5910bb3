"""Which stage each message has reached. Costs nothing per message until a waiter asks."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import islice
from typing import Literal

from triack.base.delivery import Delivery
from triack.base.errors import RollbackDetected, UsageError
from triack.ordering.departing import StreamPacketState
from triack.ordering.outgoing import StreamPacket
from triack.session.protocol.frames import Ask


class Stage(IntEnum):
    """Stage that a message has reached.

    Attributes:
        QUEUED: accepted here, and on this node's disk unless it is express.
        RECEIVED: session ack: it arrived at the next hop. The last stage of express messages.
        STORED: store ack: it is on the next hop's disk.
        ONWARD: over a synchronous link (``Route``): it is on the disk behind the next hop, too. Over others it is
            reached with STORED. The last stage of recoverable messages.
        ORDERED: order ack: accepted once, in order, and on disk at its destination.
    """

    QUEUED = 0
    RECEIVED = 1
    STORED = 2
    ONWARD = 3
    ORDERED = 4


StageName = Literal["queued", "received", "stored", "onward", "ordered"]
"""A stage by its name in small letters: type checkers find one that is mistyped."""

STAGES: dict[Delivery, Stage] = {
    Delivery.EXPRESS: Stage.RECEIVED,
    Delivery.RECOVERABLE: Stage.STORED,
    Delivery.TRANSACTIONAL: Stage.ORDERED,
}
"""The stage at which a node deletes a message of a class, over a link that is not synchronous."""
LAST_STAGES: dict[Delivery, Stage] = STAGES | {Delivery.RECOVERABLE: Stage.ONWARD}
"""The last stage of each class."""
_BY_NAME = {stage.name.lower(): stage for stage in Stage}
_DONE = StreamPacketState.DONE  # its own name, as every packet is compared with it


def as_stage(stage: object) -> Stage:
    """A stage, or its name in small letters, as a stage. Raises UsageError when there is no such stage."""
    if isinstance(stage, Stage):
        return stage
    if not isinstance(stage, str) or stage not in _BY_NAME:
        raise UsageError(f"wait for {stage!r}: stages are {', '.join(_BY_NAME)}")
    return _BY_NAME[stage]


Waiter = Callable[[str | None], None]

PRUNE_AT = 1_024
"""Limit of separate failures: beyond it, messages up to the oldest failure are forgotten."""
DONE_MAX = 32
"""Done packets that are kept, or an eighth of all if that is more. It is small because a node may have thousands of
outgoing streams; forgetting packets one at a time would be expensive where many wait."""


@dataclass(slots=True)
class _Wait:
    """A waiter; ``left`` are packets of its message that may not have reached the stage, None before they are known.

    Packets never lose a stage, so each is checked only until it has reached it, however many a message has.
    """

    stage: Stage
    waiter: Waiter
    left: list[StreamPacket] | None = None

    def is_over(self) -> bool:
        """Whether all of the packets have reached the stage."""
        left = self.left
        while left and _reached(left[-1], self.stage):
            left.pop()
        return not left


class StageTracker:
    """The messages of one outgoing stream by ticket, the count of messages submitted before them."""

    def __init__(self) -> None:
        self.queued = self.settled = 0
        self.suspended: RollbackDetected | None = None
        self._starts: list[int] = []
        self._entries: list[StreamPacket] = []
        self._failed: list[tuple[int, int, str]] = []
        self._forgotten_below = 0
        self._waiting: dict[int, list[_Wait]] = {}
        # The lowest stage that any waiter may wait for.
        self._least = Stage.QUEUED

    @property
    def awaited(self) -> bool:
        """Whether there are waiters."""
        return bool(self._waiting)

    def asks_of(self, run: list[StreamPacket]) -> list[int]:
        """For each of a run of packets, which of its acks its messages ask for, or waiters for them need."""
        asks: list[int] = [entry.ack_requested for entry in run]
        if not self._waiting:
            return asks
        last = run[-1]
        awaited = _common(self._waiting, range(run[0].first_ticket, last.first_ticket + last.tickets))
        if awaited:
            return [asked or self._ask_of(entry, awaited) for entry, asked in zip(run, asks, strict=True)]
        return asks

    def _ask_of(self, entry: StreamPacket, awaited: list[int]) -> Ask:
        """The acks of a packet that waiters for its messages need, whose tickets are among these."""
        ask, tickets = Ask.NO, range(entry.first_ticket, entry.first_ticket + entry.tickets)
        for ticket in awaited:
            for wait in self._waiting[ticket] if ticket in tickets else ():
                if wait.stage <= Stage.RECEIVED:
                    return Ask.AT_ONCE
                # The order ack follows the commit as the store ack does, and says what the session ack says.
                ask = Ask.WITH_STORE
        return ask

    def add(self, entries: list[StreamPacket]) -> None:
        """Packets were made."""
        self._starts += [entry.first_ticket for entry in entries]
        self._entries += entries

    def handle_queued(self, tickets: int) -> None:
        """All messages with a ticket below are queued."""
        before, self.queued = self.queued, tickets
        if self._waiting and (self._least is Stage.QUEUED or self.suspended is not None):
            self._answer_all(range(before, tickets))

    def handle_progress(self, entries: Sequence[StreamPacket], stage: Stage) -> None:
        """Packets reached a stage; done packets reach the last one, whatever their outcome."""
        if self._waiting and entries and stage >= self._least:
            first, end = entries[0].first_ticket, 0
            for entry in entries:
                first = entry.first_ticket if entry.first_ticket < first else first
                end = entry.first_ticket + entry.tickets if entry.first_ticket + entry.tickets > end else end
            self._answer_all(range(first, end))
        # Check the packet in the middle of those that may be kept: later ones may be done by chance, before their turn.
        kept = len(self._entries)
        if kept > DONE_MAX // 2:
            at = max(DONE_MAX, kept // 8) // 2
            if at < kept and self._entries[at].state is _DONE:
                self._prune()

    def handle_removed(self, entry: StreamPacket, reason: str) -> None:
        """A packet was given up."""
        first, end = entry.first_ticket, entry.first_ticket + entry.tickets
        if self._failed and self._failed[-1][2] == reason and self._failed[-1][0] <= first <= self._failed[-1][1]:
            self._failed[-1] = (self._failed[-1][0], max(end, self._failed[-1][1]), reason)
        else:
            self._failed.append((first, end, reason))
        if len(self._failed) > PRUNE_AT:
            forgotten = self._failed.pop(0)
            self._forgotten_below = max(self._forgotten_below, forgotten[1])
        self.handle_progress([entry], Stage.ORDERED)

    def wait(self, ticket: int, stage: Stage, waiter: Waiter) -> list[StreamPacket]:
        """Call ``waiter`` when a message reaches a stage. Returns its packets, if it has not yet."""
        wait = _Wait(stage, waiter)
        if self._answer(ticket, wait):
            return []
        self._least = min(stage, self._least) if self._waiting else stage
        self._waiting.setdefault(ticket, []).append(wait)
        return self._find(ticket)

    def reached_until(self, tickets: range, stage: Stage) -> int:
        """The first ticket of a row of messages that has not reached a stage, or the end; checked packet by packet."""
        at, end = tickets.start, min(tickets.stop, self.queued)
        for first, behind, _ in [(0, self._forgotten_below, ""), *self._failed]:
            if first < end and at < behind:
                end = max(first, at)
        index = bisect_left(self._starts, at)
        while index and self._entries[index - 1].first_ticket + self._entries[index - 1].tickets > at:
            index -= 1
        # Messages whose packets are gone are done.
        for entry in islice(self._entries, index, None):
            if entry.first_ticket >= end:
                break
            if not _reached(entry, stage):
                return max(at, entry.first_ticket)
        return max(at, end)

    def fates(self, tickets: range) -> Iterator[tuple[range, str | None]]:
        """Outcomes of messages whose packets are gone: runs of them, and why they failed or None."""
        at = tickets.start
        while at < tickets.stop:
            ends, reason = [tickets.stop], None
            for first, end, why in [(0, self._forgotten_below, "forgotten"), *self._failed]:
                if first <= at < end:
                    reason = why
                    ends.append(end)
                elif at < first:
                    ends.append(first)
            yield range(at, min(ends)), reason
            at = min(ends)

    def forget(self, ticket: int, waiter: Waiter) -> None:
        """Remove a waiter."""
        left = [wait for wait in self._waiting.get(ticket, ()) if wait.waiter is not waiter]
        if left:
            self._waiting[ticket] = left
        else:
            self._waiting.pop(ticket, None)

    def halt(self, error: RollbackDetected | None) -> None:
        """Nothing leaves any more: waiters for more than ``QUEUED`` get the error. None: sending continues."""
        self.suspended = error
        if error is not None:
            self._answer_all(range(self.queued))

    def fail_all(self, reason: str) -> None:
        """Fail all waiters."""
        waiting, self._waiting = self._waiting, {}
        for waits in waiting.values():
            for wait in waits:
                wait.waiter(reason)

    def _answer_all(self, tickets: range) -> None:
        waiting = self._waiting
        for ticket in _common(waiting, tickets):
            waiting[ticket] = [wait for wait in waiting[ticket] if not self._answer(ticket, wait)]
            if not waiting[ticket]:
                del waiting[ticket]

    def _answer(self, ticket: int, wait: _Wait) -> bool:
        """Notify a waiter of a message's outcome. Returns False when that is still open."""
        if ticket < self._forgotten_below:
            wait.waiter("forgotten")
            return True
        for first, end, reason in self._failed:
            if first <= ticket < end:
                wait.waiter(reason)
                return True
        if ticket < self.queued:
            if wait.left is None:
                wait.left = self._find(ticket)
            if wait.is_over():
                wait.waiter(None)
                return True
        # Suspended only for the life of this process: queued messages stay queued.
        if self.suspended is None or wait.stage is Stage.QUEUED:
            return False
        wait.waiter(str(self.suspended))
        return True

    def _find(self, ticket: int) -> list[StreamPacket]:
        found: list[StreamPacket] = []
        at = bisect_right(self._starts, ticket) - 1
        # Only the fragments of one large message share a ticket, and they are neighbours.
        while at >= 0 and self._entries[at].first_ticket + self._entries[at].tickets > ticket:
            found.append(self._entries[at])
            at -= 1
        return found

    def _prune(self) -> None:
        done = 0
        for entry in self._entries:
            if entry.state is not _DONE:
                break
            done += 1
        del self._starts[:done], self._entries[:done]


def _common(waiting: dict[int, list[_Wait]], tickets: range) -> list[int]:
    if tickets.stop - tickets.start < len(waiting):
        return [ticket for ticket in tickets if ticket in waiting]
    return [ticket for ticket in waiting if ticket in tickets]


def _reached(entry: StreamPacket, stage: Stage) -> bool:
    if entry.state is _DONE or stage is Stage.QUEUED:
        return True
    if stage is Stage.RECEIVED:
        return entry.received
    return entry.stored if stage is Stage.STORED else entry.onward and stage is Stage.ONWARD
