"""The messages that a transaction has leased: it received them, and has not yet committed or rolled back.

If a bridge to a broker uses it, the session log says what became of them.
"""

from collections.abc import Collection, Iterable, Iterator
from itertools import chain, groupby
from operator import itemgetter
from typing import Any

from triack.base.errors import HandOverEnded, SubscriptionEnded
from triack.node.handles.message import id_of
from triack.node.shell.engine_handle import EngineHandle
from triack.node.shell.holding import task_name
from triack.queues.mailboxes.handed import as_runs, fields_of_runs
from triack.queues.mailboxes.mailbox import Lease, Mailbox, Run
from triack.queues.mailboxes.queued_packet import QueuedPacket, bits_of
from triack.queues.mailboxes.redelivery import Return
from triack.queues.streams.outgoing_stream import OutgoingStream
from triack.queues.topics.subscription import Subscription, ranges_of
from triack.stats.holding import RELEASED, HeldPacket, Reader, taken_back

Drawn = list[tuple[Mailbox, Run, range]]
WHERE_LETTERS = 1_000
"""Of a rule in the session log, whose readers accept no longer texts."""


class Taken:
    """The messages of one transaction, by the step that received them.

    It does not refer to its transaction, so that the transaction ends with its last reference.
    """

    def __init__(self, port: EngineHandle, reader: Reader | None) -> None:
        self.reader = reader or Reader()
        # A message was taken back: the transaction can only be rolled back.
        self.lost: HandOverEnded | None = None
        self.bridged: Bridged | None = None
        self._port = port
        self._is_named = bool(self.reader.name)
        self._steps: dict[int, Drawn] = {}
        self._since: dict[int, int] = {}
        self._queues: set[str] = set()

    def add(self, step: int, queue: str, drawn: Drawn) -> None:
        """A step has received these messages from a queue."""
        self._steps[step] = drawn
        self._since[step] = self._port.clock()
        self._port.holding.enter(queue, self)
        self._queues.add(queue)
        if not self._is_named:
            self.reader.name = task_name()
        if self.reader.is_here:
            self._port.leases.hold([(run.packet, bits_of(indices)) for _, run, indices in drawn])

    @property
    def ended(self) -> SubscriptionEnded | None:
        """The error for a transaction that received from a subscription which was ended; None for any other."""
        for mailbox, _, _ in chain(*self._steps.values()):
            if mailbox.has_ended:
                return SubscriptionEnded(f"commit: the subscription {mailbox.name} was ended")
        return None

    def all(self) -> Drawn:
        """All messages, in order."""
        return list(chain(*self._steps.values()))

    def take_all(self) -> Drawn:
        """Release all messages, which are done. Returns them in order."""
        taken = self.all()
        if self.bridged is not None:
            self.bridged.note_let_go(taken)
        self._end()
        return taken

    def give_back(self, way: Return) -> None:
        """Give back all messages."""
        self._give_back(self.all(), way)
        self._end()

    def give_back_step(self, step: int) -> None:
        """Give back the messages of one step: its caller has not heard of them."""
        self._give_back(self._steps.pop(step, []), Return(failed=False))
        self._since.pop(step, None)

    def _end(self) -> None:
        for queue in self._queues:
            self._port.holding.leave(queue, self)
        self._steps.clear()
        self._since.clear()

    def _give_back(self, drawn: Drawn, way: Return) -> None:
        self._port.give_back(((mailbox, run.lease(index)) for mailbox, run, some in drawn for index in some), way)

    # ---- what operators see and take back

    def held(self, queue: str) -> list[HeldPacket]:
        """The leased messages of a queue, see ``Holder``."""
        return [
            HeldPacket(run.packet, bits_of(drawn), self._since[step])
            for step, some in self._steps.items()
            for mailbox, run, drawn in some
            if mailbox.name == queue
        ]

    def take_back(self, queue: str) -> int:
        """Take back the leased messages of a queue, see ``Holder``: the transaction can only be rolled back."""
        found: Drawn = []
        for step, some in self._steps.items():
            found += [one for one in some if one[0].name == queue]
            self._steps[step] = [one for one in some if one[0].name != queue]
        if found:
            _, run, drawn = found[0]
            self.lost = taken_back(queue, Lease(run.packet, drawn.start, run.redelivered), RELEASED)
            self._give_back(found, Return(failed=False))
        return sum([len(drawn) for _, _, drawn in found])


class Bridged:
    """Writes that into the session log."""

    def __init__(self, port: EngineHandle, bridge: str) -> None:
        self._port = port
        self._bridge = bridge
        self._where = ""
        # The rule of each step.
        self._steps: dict[int, str] = {}
        self._gives = False
        # What the commit accepts now: the outgoing queue, the first ticket, and the receipts of earlier steps.
        self._outgoing: OutgoingStream
        self._first = self._receipts = 0
        # Messages that the log has an outcome of.
        self._given: set[tuple[QueuedPacket, int]] = set()

    def go_by(self, where: str) -> None:
        """The next steps are by this rule."""
        self._where = where[:WHERE_LETTERS]

    def note_step(self, step: int) -> None:
        """A step begins."""
        self._steps[step] = self._where

    def begin_send(self, outgoing: OutgoingStream) -> None:
        """The commit is about to accept the messages of a step."""
        self._outgoing = self._port.current(outgoing)
        self._first = self._outgoing.submitted

    def note_sent(self, step: int, receipts: int) -> None:
        """The commit has accepted them, and has that many receipts now. Those known by their keys are not new.

        What was received may be moved elsewhere, and then comes from no broker.
        """
        messages, self._receipts = receipts - self._receipts, receipts
        if self._gives:
            return
        where, tickets = self._steps[step], range(self._first, self._outgoing.submitted)
        self._port.engine.jobs.group.note_taken(self._outgoing, tickets, self._bridge, where)
        if known := messages - len(tickets):
            self._port.note_bridge("bridge_took", bridge=self._bridge, where=where, known=known)

    def note_drawn(self, drawn: Drawn) -> None:
        """A step has received messages."""
        self._gives = True
        self._note("bridge_drew", drawn)

    def note_let_go(self, drawn: Drawn) -> None:
        """The commit that begins deletes messages from their queues."""
        self._note("bridge_let_go", drawn)

    def note_given(self, drawn: Drawn, reason: str, ids: Collection[str] | None) -> None:
        """The broker has those of these messages with these ids, or all others; with a reason, it never will."""
        more = {"reason": reason} if reason else {}
        if ids is None and not self._given:
            self._note("bridge_gave", drawn, **more)
            return
        for mailbox, some in groupby(drawn, key=itemgetter(0)):
            leases: list[Lease] = []
            for _, run, places in some:
                left = (at for at in places if (run.packet, at) not in self._given)
                named = [at for at in left if ids is None or id_of(run.packet, at) in ids]
                self._given.update((run.packet, at) for at in named)
                leases += [Lease(run.packet, at, run.redelivered) for at in named]
            for fields in _described(mailbox, as_runs(leases)):
                self._port.note_bridge("bridge_gave", bridge=self._bridge, where=self._where, **fields, **more)

    def _note(self, event: str, drawn: Drawn, **more: str) -> None:
        for mailbox, some in groupby(drawn, key=itemgetter(0)):
            for fields in _described(mailbox, _whole(some)):
                self._port.note_bridge(event, bridge=self._bridge, where=self._where, **fields, **more)


def _whole(drawn: Iterable[tuple[object, Run, range]]) -> Iterator[Run]:
    for _, run, places in drawn:
        one = Run(run.packet, places.start, places.start, redelivered=run.redelivered)
        one.next = places.stop
        yield one


def _described(mailbox: Mailbox, runs: Iterable[Run]) -> Iterator[dict[str, Any]]:
    if isinstance(mailbox.owner, Subscription):
        yield {**mailbox.owner.records.fields, "ranges": ranges_of(runs)}
    else:
        yield from fields_of_runs(mailbox.name, runs)
