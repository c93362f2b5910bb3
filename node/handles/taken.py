"""The messages that a transaction has in hand: it received them, and has not yet committed or rolled back."""

from itertools import chain

from triack.base.errors import HandOverEnded, SubscriptionEnded
from triack.base.reasons import DeadReason
from triack.node.shell.engine_handle import EngineHandle
from triack.node.shell.holding import task_name
from triack.queues.mailboxes.mailbox import Lease, Mailbox, Run
from triack.queues.mailboxes.queued_packet import bits_of
from triack.queues.mailboxes.redelivery import Return
from triack.stats.holding import RELEASED, HeldPacket, Reader, taken_back

__all__ = ["Taken"]

Drawn = list[tuple[Mailbox, Run, range]]
"""The messages that one step received."""


class Taken:
    """The messages of one transaction, by the step that received them.

    It does not refer to its transaction, so that the transaction ends with its last reference.

    Args:
        port: the node.
        reader: the owner of the transaction; one without a name gets that of the task that receives.

    Attributes:
        reader: as given.
        lost: set when a message was taken back: the transaction can only be rolled back.
    """

    def __init__(self, port: EngineHandle, reader: Reader | None) -> None:
        self.reader = reader or Reader()
        self.lost: HandOverEnded | None = None
        self._port = port
        self._is_named = bool(self.reader.name)
        self._steps: dict[int, Drawn] = {}
        self._since: dict[int, int] = {}
        self._queues: set[str] = set()

    def begin(self, step: int, queue: str) -> None:
        """A step receives from a queue."""
        self._steps[step] = []
        self._since[step] = self._port.clock()
        self._port.holding.enter(queue, self)
        self._queues.add(queue)
        if not self._is_named:
            self.reader.name = task_name()

    def add(self, step: int, mailbox: Mailbox, run: Run, drawn: range) -> None:
        """The step has received these messages."""
        self._steps[step].append((mailbox, run, drawn))
        if self.reader.is_here:
            self._port.in_hand.hold([(run.packet, bits_of(drawn))])

    @property
    def ended(self) -> SubscriptionEnded | None:
        """The error for a transaction that received from a subscription which was ended; None for any other."""
        for mailbox, _, _ in chain(*self._steps.values()):
            if mailbox.has_ended:
                return SubscriptionEnded(f"commit: the subscription {mailbox.name} was ended")
        return None

    def take_all(self) -> Drawn:
        """Let go of all messages, which are done. Returns them in order."""
        taken = list(chain(*self._steps.values()))
        self._end()
        return taken

    def give_back(self, way: Return) -> None:
        """All messages come again."""
        self._give_back(list(chain(*self._steps.values())), way)
        self._end()

    def give_back_step(self, step: int) -> None:
        """The messages of one step come again: its caller has not heard of them."""
        self._give_back(self._steps.pop(step, []), Return(failed=False))
        self._since.pop(step, None)

    def handle_death(self) -> None:
        """The process that used the transaction died."""
        self.give_back(Return(failed=True, reason=DeadReason.READER_DIED))

    def _end(self) -> None:
        for queue in self._queues:
            self._port.holding.leave(queue, self)
        self._steps.clear()
        self._since.clear()

    def _give_back(self, drawn: Drawn, way: Return) -> None:
        self._port.give_back(((mailbox, run.lease(index)) for mailbox, run, some in drawn for index in some), way)

    # ---- what operators see and take back

    def held(self, queue: str) -> list[HeldPacket]:
        """The messages of a queue in hand, see ``Holder``."""
        return [
            HeldPacket(run.packet, bits_of(drawn), self._since[step])
            for step, some in self._steps.items()
            for mailbox, run, drawn in some
            if mailbox.name == queue
        ]

    def take_back(self, queue: str) -> int:
        """Take back the messages of a queue in hand, see ``Holder``: the transaction can only be rolled back."""
        found: Drawn = []
        for step, some in self._steps.items():
            found += [one for one in some if one[0].name == queue]
            self._steps[step] = [one for one in some if one[0].name != queue]
        if found:
            _, run, drawn = found[0]
            self.lost = taken_back(queue, Lease(run.packet, drawn.start, run.redelivered), RELEASED)
            self._give_back(found, Return(failed=False))
        return sum([len(drawn) for _, _, drawn in found])
