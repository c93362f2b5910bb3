"""What one reader of a queue has in its hands: messages that it neither acknowledged nor gave back.

Nothing is kept for a single message but a bit: what was drawn from one run is held, and let go, together.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable

from triack.node.event_loop import check_home, run_at_home, running_loop
from triack.node.message import Holder, Keeper, Message
from triack.node.port import Port
from triack.queues.mailbox import Lease, Mailbox, Run
from triack.queues.queued_packet import QueuedPacket, bits_of, indices_of
from triack.queues.redelivery import Redelivery, Return

__all__ = ["Hands", "HeldList", "HeldRun", "Keeping"]


class Held(ABC):
    """What one reader has drawn at once; it answers for these messages.

    A message that comes again is drawn another time, so it is another one than before.
    """

    __slots__ = ("_hands",)

    def __init__(self, hands: "Hands") -> None:
        self._hands = hands

    @property
    @abstractmethod
    def holds_any(self) -> bool:
        """Whether it answers for any message still."""

    @abstractmethod
    def take_all(self) -> list[tuple[QueuedPacket, int]]:
        """What is held, by packet, a bit for each message; nothing is any more."""

    @abstractmethod
    def _let_go(self, lease: Lease) -> bool:
        """Hold a message no more. Returns whether it was held."""

    def acknowledge(self, lease: Lease) -> None:
        """A message is done. Raises UsageError in another event loop than the reader's."""
        if running_loop() is not self._hands.home:
            self._hands.check_home()
        if self._let_go(lease):
            self._hands.acknowledge([(lease.packet, 1 << lease.index)])

    def give_back(self, lease: Lease, *, failed: bool, delay_ms: int | None) -> None:
        """A message comes again. Raises UsageError in another event loop than the reader's."""
        if running_loop() is not self._hands.home:
            self._hands.check_home()
        if self._let_go(lease):
            self._hands.give_back(lease, failed=failed, delay_ms=delay_ms)


class HeldRun(Held):
    """What was drawn from one run, message by message.

    Attributes:
        run: from which more may be drawn.
        bits: bit i is set while message i of its packet is held.
    """

    __slots__ = ("_bodies", "bits", "run")

    def __init__(self, hands: "Hands", run: Run) -> None:
        super().__init__(hands)
        self.run = run
        self.bits = 0
        self._bodies = run.packet.open().bodies

    @property
    def holds_any(self) -> bool:
        """Whether any is held."""
        return self.bits != 0

    def draw(self, holder: Holder) -> Message | None:
        """The next message of the run, for which ``holder`` answers; None when the queue must be asked again."""
        run, hands = self.run, self._hands
        index = run.draw()
        if index < 0:
            return None
        self.bits |= 1 << index
        return Message(self._bodies[index], hands.queue, run.packet, index, run.redelivered, holder, hands.name_of)

    def take_all(self) -> list[tuple[QueuedPacket, int]]:
        """What is held."""
        bits, self.bits = self.bits, 0
        return [(self.run.packet, bits)] if bits else []

    def _let_go(self, lease: Lease) -> bool:
        bit = 1 << lease.index
        held = bool(self.bits & bit)
        self.bits &= ~bit
        if not self.bits:
            self._hands.forget(self)
        return held


class HeldList(Held):
    """What was drawn as a list, from as many runs as there were."""

    __slots__ = ("_bits",)

    def __init__(self, hands: "Hands") -> None:
        super().__init__(hands)
        self._bits: dict[QueuedPacket, int] = {}

    @property
    def holds_any(self) -> bool:
        """Whether any is held."""
        return bool(self._bits)

    def take(self, drawn: list[tuple[Run, range]], holder: Holder) -> list[Message]:
        """The messages that were drawn, for which ``holder`` answers."""
        queue, name_of, bits = self._hands.queue, self._hands.name_of, self._bits
        messages: list[Message] = []
        for run, indices in drawn:
            packet, redelivered = run.packet, run.redelivered
            bodies = packet.open().bodies
            bits[packet] = bits.get(packet, 0) | bits_of(indices)
            messages += [Message(bodies[at], queue, packet, at, redelivered, holder, name_of) for at in indices]
        return messages

    def take_all(self) -> list[tuple[QueuedPacket, int]]:
        """What is held."""
        taken = list(self._bits.items())
        self._bits.clear()
        return taken

    def _let_go(self, lease: Lease) -> bool:
        bits, bit = self._bits.get(lease.packet, 0), 1 << lease.index
        if not bits & bit:
            return False
        if bits != bit:
            self._bits[lease.packet] = bits & ~bit
            return True
        del self._bits[lease.packet]
        if not self._bits:
            self._hands.forget(self)
        return True


class Keeping:
    """Answers for what was drawn at once, for messages that keep their reader."""

    __slots__ = ("_held", "_keeper")

    def __init__(self, held: Held, keeper: Keeper) -> None:
        self._held = held
        self._keeper = keeper

    def acknowledge(self, lease: Lease) -> None:
        """A message is done."""
        self._held.acknowledge(lease)

    def give_back(self, lease: Lease, *, failed: bool, delay_ms: int | None) -> None:
        """A message comes again."""
        self._held.give_back(lease, failed=failed, delay_ms=delay_ms)


class Hands:
    """Everything that one consumer holds.

    It refers neither to its consumer nor to a keeper: a loop that is left without closing must not keep its messages,
    so the consumer ends with its last reference.

    Args:
        port: the node.
        mailbox: the queue that is read.
        listener: called when there may be something to read.
        redelivery: when messages that fail come again, in place of what the settings say.

    Attributes:
        queue: the queue's name.
        name_of: what a node is called in destinations.
        home: the event loop in which the reader was begun.
    """

    def __init__(
        self, port: Port, mailbox: Mailbox, listener: Callable[[], None], redelivery: Redelivery | None
    ) -> None:
        self.queue = mailbox.name
        self._whose = f"a message of queue {mailbox.name}"
        self.name_of = port.name_of
        self._port = port
        self._mailbox = mailbox
        self._listener = listener
        self._redelivery = redelivery
        self._open: Held | None = None
        self._older: dict[Held, None] = {}
        self.home = asyncio.get_running_loop()
        mailbox.listeners.append(listener)

    def check_home(self) -> None:
        """Raises UsageError in another event loop than the reader's."""
        check_home(self._whose, self.home)

    def hold(self, run: Run) -> HeldRun:
        """Draw from this run from now on, until a list is drawn."""
        before = self._open
        if isinstance(before, HeldRun) and before.run is run:
            return before
        held = HeldRun(self, run)
        self._begin(held)
        return held

    def _begin(self, held: Held) -> None:
        if self._open is not None and self._open.holds_any:
            self._older[self._open] = None
        self._open = held

    def draw(self, most: int, most_bytes: int, keeper: Keeper | None) -> list[Message]:
        """The next messages of the queue, in order; none when there are none now. See ``Engine.draw_runs``."""
        drawn = self._port.draw_runs(self._mailbox, most, most_bytes)
        if not drawn:
            return []
        held = HeldList(self)
        self._begin(held)
        return held.take(drawn, held if keeper is None else Keeping(held, keeper))

    def acknowledge(self, done: list[tuple[QueuedPacket, int]]) -> None:
        """Messages of packets that were just let go are done, message i if bit i is set."""
        self._port.acknowledge(self._mailbox, done)

    def give_back(self, lease: Lease, *, failed: bool, delay_ms: int | None = None) -> None:
        """A message that was just let go comes again."""
        self._port.give_back([(self._mailbox, lease)], Return(failed, delay_ms, self._redelivery))

    def forget(self, held: Held) -> None:
        """Nothing of it is held any more."""
        self._older.pop(held, None)

    def acknowledge_all(self) -> None:
        """All that is held is done."""
        if done := self._take_all():
            self.acknowledge(done)

    def give_back_all(self, *, failed: bool) -> None:
        """All that is held comes again."""
        self._port.give_back(self._leases(), Return(failed, None, self._redelivery))

    def _leases(self) -> list[tuple[Mailbox, Lease]]:
        """What is held, message by message, and is not any more."""
        held = [(packet, index) for packet, bits in self._take_all() for index in indices_of(bits)]
        return [(self._mailbox, Lease(packet, index, packet.redelivered)) for packet, index in held]

    def _take_all(self) -> list[tuple[QueuedPacket, int]]:
        """What is held, in order, and is not any more."""
        latest = [] if self._open is None else self._open.take_all()
        if not self._older:
            return latest
        older = [one for held in self._older for one in held.take_all()]
        self._older.clear()
        return older + latest

    def empty(self) -> None:
        """The consumer ends: everything goes back, and who waits with it is told."""
        self._mailbox.leave(self._listener)
        self._port.give_back(self._leases(), Return(failed=False))
        self._listener()

    def empty_at_home(self) -> None:
        """The same from wherever the garbage collector runs, which may be any thread."""
        run_at_home(self.home, self.empty)
