"""Events that report the acknowledgements of one outgoing stream to an application, in the order of sending.

Promise: every message is in exactly one event, for its first outcome, and events never go backwards. A failure is
reported alone and immediately, after everything that was acknowledged before it. It counts towards the trigger like its
neighbours, so that it delays no event. Without an outcome there is no event.

    SETTLED_EARLY --all before it are settled--> GATHERED --the trigger, or a failure--> UNREAD --read--> (told)

An ``AckDebt``, which has the table of its moves, decides when gathered messages are due. The same machine decides when
a receiver acknowledges, so that Solace's windowed events, HornetQ's confirmation window and the interval of AMPS are
values of an ``AckTrigger``. Without a trigger each message has its own event.

The application need not read. Unread acknowledged neighbours become one event. Neighbouring failures for one reason are
stored as one, too, but are read singly. Only alternating outcomes need memory; ``is_full`` limits them. When a thousand
blocks of ordinals are unread, which is some four million messages, the ids of the oldest are forgotten.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from triack.base.ack_debt import AckDebt
from triack.base.ack_trigger import AckTerms
from triack.queues.streams.outgoing_stream import Block

UNREAD_MAX = 1_000
"""Number of unread ranges at which senders wait: what ``Node.events`` keeps, and some hundred kilobytes."""


class AckKind(StrEnum):
    """Outcome of messages."""

    ACK = "ack"
    """The acknowledgement that frees their class has arrived, which is their last stage."""
    FAILURE = "failure"
    """The message will never be delivered, as far as its sender can tell. It is in the dead-letter queue."""
    GAP = "gap"
    """A client was without its node: outcomes of that time may be missing, and the numbers may begin at 1 again."""


@dataclass(frozen=True, slots=True)
class AckEvent:
    """Outcome of messages of one outgoing queue.

    Attributes:
        kind: acknowledged, failed, or a gap; the latter covers no messages.
        first: number of the first message, counted from 1 in each outgoing queue since the start of the node; see
            ``Receipt.number``.
        last: number of the last message; equal to ``first`` for a failure.
        reason: why it failed, by the names of docs/reasons.md; None for an acknowledgement.
        origin: the id of the node that sends them.
        ordinals: theirs there, in ranges; without those of messages that an earlier start of the node accepted.
    """

    kind: AckKind
    first: int
    last: int
    reason: str | None = None
    origin: str = field(default="", compare=False, repr=False)
    ordinals: Sequence[range] = field(default=(), compare=False, repr=False)

    @property
    def ids(self) -> list[str]:
        """The ids of its messages, in order, as ``Receipt.id`` and ``Message.id`` have them.

        Those that an earlier start of the node accepted are left out: no receipt of this process is about them.
        """
        return [f"{self.origin}-{ordinal}" for run in self.ordinals for ordinal in run]

    @property
    def count(self) -> int:
        """Number of messages it covers."""
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class _Fate:
    """The outcome of neighbouring messages; ``end`` is the ticket after the last of them."""

    end: int
    reason: str | None
    ack_requested: bool = False
    blocks: Sequence[Block] = ()


class AckEvents:
    """Makes the events of one reader.

    Args:
        terms: when acknowledgements are reported; None: each message by itself, immediately.
        wake: called when there is an event to read, and at the end.
        blocks_of: gives the blocks of ordinals of unsettled messages, by their tickets.

    Attributes:
        ended: whether no more events are added; unread ones can still be read.
    """

    def __init__(
        self,
        terms: AckTerms | None,
        first: int,
        wake: Callable[[], None],
        origin: str = "",
        blocks_of: Callable[[range], Sequence[Block]] = lambda _tickets: (),
    ) -> None:
        self._debt = None if terms is None else AckDebt(terms)
        self._fates: dict[int, _Fate] = {}
        self._new_bytes = 0
        self._next = first
        self._told = first
        self._unread: deque[tuple[int, _Fate]] = deque()
        self._wake = wake
        self._origin = origin
        self._blocks_of = blocks_of
        self._blocks: deque[Block] = deque(maxlen=UNREAD_MAX)
        self.ended = False

    # ---- inputs

    def handle_acked(self, ticket: int, messages: int, size_bytes: int, *, ack_requested: bool = False) -> None:
        """A packet is freed by the acknowledgement of its class. ``ticket``: of the first message in it.

        ``messages`` end in it; all but the last packet of a large message have none. ``ack_requested``: the event must
        not wait.
        """
        self._new_bytes += size_bytes
        self._settle(range(ticket, ticket + messages), None, ack_requested=ack_requested)

    def handle_failed(self, ticket: int, messages: int, reason: str) -> None:
        """A packet was given up, or rejected."""
        self._settle(range(ticket, ticket + messages), reason)

    def _settle(self, tickets: range, reason: str | None, *, ack_requested: bool = False) -> None:
        # A failed packet is freed afterwards like an acknowledged one: its first outcome counts.
        if tickets and tickets.start >= self._next and tickets.start not in self._fates:
            self._fates[tickets.start] = _Fate(tickets.stop, reason, ack_requested, self._blocks_of(tickets))

    def handle_time(self, now_ns: int) -> None:
        """Gather settled messages, in order, and report what is due."""
        while self._fates and (fate := self._fates.pop(self._next, None)) is not None:
            self._gather(fate, now_ns)
        debt = self._debt
        if debt is not None:
            debt.handle_timer(now_ns)
            if debt.due:
                debt.handle_sent()
                self._tell_gathered()

    def end(self) -> None:
        """Report what was gathered; there will be no more outcomes."""
        self._tell_gathered()
        self.ended = True
        self._wake()

    def _gather(self, fate: _Fate, now_ns: int) -> None:
        if self._debt is not None:
            self._debt.add(fate.end - self._next, self._new_bytes, now_ns, ack_requested=fate.ack_requested)
            self._new_bytes = 0
        self._blocks += [block for block in fate.blocks if not self._blocks or block[0] > self._blocks[-1][0]]
        if fate.reason is not None:
            self._tell_gathered()
            self._put(fate)
        self._next = fate.end
        if self._debt is None:
            self._tell_gathered()

    def _tell_gathered(self) -> None:
        if self._told < self._next:
            self._put(_Fate(self._next, None))

    def _put(self, fate: _Fate) -> None:
        first = self._told
        if self._unread and self._unread[-1][1].reason == fate.reason:
            first, _ = self._unread.pop()
        self._unread.append((first, fate))
        self._told = fate.end
        self._wake()

    # ---- outputs

    def next_deadline(self) -> int | None:
        """When ``handle_time`` must be called, or None."""
        return None if self._debt is None else self._debt.deadline_ns

    @property
    def is_full(self) -> bool:
        """Whether senders should wait because too many events are unread."""
        return not self.ended and len(self._unread) >= UNREAD_MAX

    def poll(self) -> AckEvent | None:
        """The next event, or None."""
        if not self._unread:
            return None
        first, fate = self._unread.popleft()
        end = fate.end
        if fate.reason is not None or self._debt is None:
            end = first + 1
            if end < fate.end:
                self._unread.appendleft((end, fate))
        kind = AckKind.ACK if fate.reason is None else AckKind.FAILURE
        return AckEvent(kind, first + 1, end, fate.reason, self._origin, self._ordinals_of(range(first, end)))

    def _ordinals_of(self, tickets: range) -> list[range]:
        """The ordinals of messages that are reported now, in ranges. They are the oldest with known blocks."""
        blocks = self._blocks
        while len(blocks) > 1 and blocks[1][0] <= tickets.start:
            blocks.popleft()
        runs: list[range] = []
        for at, (start, offset) in enumerate(blocks):
            end = tickets.stop if at + 1 == len(blocks) else min(blocks[at + 1][0], tickets.stop)
            runs.append(range(max(start, tickets.start) + offset, end + offset))
        return [run for run in runs if run]
