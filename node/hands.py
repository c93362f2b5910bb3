"""What one reader of a queue has in its hands: messages that it neither acknowledged nor gave back.

Nothing is kept for a single message but a bit: what was drawn from one run is held, and let go, together.
"""

import asyncio
from collections.abc import Callable

from triack.node.message import Message
from triack.node.port import Port
from triack.queues.mailbox import Lease, Mailbox, Run
from triack.queues.queued_packet import bits_of, indices_of
from triack.queues.redelivery import Redelivery, Return

__all__ = ["Hands", "Held"]


class Held:
    """What one reader has drawn from one run; it answers for these messages.

    A message that comes again is drawn from another run, so it is another one than before.

    Attributes:
        run: from which more may be drawn.
        bits: bit i is set while message i of its packet is held.
    """

    __slots__ = ("_bodies", "_hands", "bits", "run")

    def __init__(self, hands: "Hands", run: Run) -> None:
        self.run = run
        self.bits = 0
        self._hands = hands
        self._bodies = run.packet.open().bodies

    def draw(self) -> Message | None:
        """The next message of the run; None when the queue must be asked again."""
        run = self.run
        index = run.draw()
        if index < 0:
            return None
        self.bits |= 1 << index
        return Message(
            self._bodies[index], self._hands.queue, run.packet, index, run.redelivered, self, self._hands.name_of
        )

    def take(self, drawn: range) -> list[Message]:
        """Messages that were drawn from the run."""
        run, queue, name_of = self.run, self._hands.queue, self._hands.name_of
        packet, redelivered = run.packet, run.redelivered
        self.bits |= bits_of(drawn)
        bodies = self._bodies if len(drawn) == len(self._bodies) else self._bodies[drawn.start : drawn.stop]
        return [
            Message(body, queue, packet, index, redelivered, self, name_of)
            for index, body in zip(drawn, bodies, strict=True)
        ]

    def acknowledge(self, lease: Lease) -> None:
        """A message is done."""
        if self._let_go(lease):
            self._hands.acknowledge(self, 1 << lease.index)

    def give_back(self, lease: Lease, *, failed: bool, delay_ms: int | None) -> None:
        """A message comes again."""
        if self._let_go(lease):
            self._hands.give_back(lease, failed=failed, delay_ms=delay_ms)

    def _let_go(self, lease: Lease) -> bool:
        """Whether it was still held."""
        bit = 1 << lease.index
        held = bool(self.bits & bit)
        self.bits &= ~bit
        if not self.bits:
            self._hands.forget(self)
        return held


class Hands:
    """Everything that one consumer holds.

    It does not refer to its consumer: a loop that is left without closing must not keep its messages, so the consumer
    ends with its last reference.

    Args:
        port: the node.
        mailbox: the queue that is read.
        listener: called when there may be something to read.
        redelivery: when messages that fail come again, in place of what the settings say.

    Attributes:
        queue: the queue's name.
        name_of: what a node is called in destinations.
    """

    def __init__(
        self, port: Port, mailbox: Mailbox, listener: Callable[[], None], redelivery: Redelivery | None
    ) -> None:
        self.queue = mailbox.name
        self.name_of = port.name_of
        self._port = port
        self._mailbox = mailbox
        self._listener = listener
        self._redelivery = redelivery
        self._open: Held | None = None
        self._older: dict[Held, None] = {}
        self._loop = asyncio.get_running_loop()
        mailbox.listeners.append(listener)

    def hold(self, run: Run) -> Held:
        """Draw from this run from now on."""
        before = self._open
        if before is not None and before.run is run:
            return before
        if before is not None and before.bits:
            self._older[before] = None
        self._open = Held(self, run)
        return self._open

    def draw(self, most: int, most_bytes: int) -> list[Message]:
        """The next messages of the queue, in order; none when there are none now. See ``Engine.draw_runs``."""
        messages: list[Message] = []
        for run, drawn in self._port.draw_runs(self._mailbox, most, most_bytes):
            messages += self.hold(run).take(drawn)
        return messages

    def acknowledge(self, held: Held, bits: int) -> None:
        """Messages that were just let go are done."""
        self._port.acknowledge(self._mailbox, [(held.run.packet, bits)])

    def give_back(self, lease: Lease, *, failed: bool, delay_ms: int | None = None) -> None:
        """A message that was just let go comes again."""
        self._port.give_back([(self._mailbox, lease)], Return(failed, delay_ms, self._redelivery))

    def forget(self, held: Held) -> None:
        """Nothing of it is held any more."""
        self._older.pop(held, None)

    def acknowledge_all(self) -> None:
        """All that is held is done."""
        held = self._open
        if self._older:
            self._port.acknowledge(self._mailbox, [(older.run.packet, bits) for older, bits in self._take_all()])
        elif held is not None and held.bits:
            bits, held.bits = held.bits, 0
            self.acknowledge(held, bits)

    def give_back_all(self, *, failed: bool) -> None:
        """All that is held comes again."""
        self._port.give_back(self._leases(), Return(failed, None, self._redelivery))

    def _leases(self) -> list[tuple[Mailbox, Lease]]:
        """What is held, message by message, and is not any more."""
        return [(self._mailbox, held.run.lease(index)) for held, bits in self._take_all() for index in indices_of(bits)]

    def _take_all(self) -> list[tuple[Held, int]]:
        """What is held, in order, and is not any more."""
        every = [*self._older, *([] if self._open is None else [self._open])]
        taken = [(held, held.bits) for held in every]
        for held in every:
            held.bits = 0
        self._older.clear()
        return taken

    def empty(self) -> None:
        """The consumer ends: everything goes back, and who waits with it is told."""
        self._mailbox.listeners.remove(self._listener)
        self._port.give_back(self._leases(), Return(failed=False))
        self._listener()

    def empty_at_home(self) -> None:
        """The same from wherever the garbage collector runs, which may be any thread."""
        try:
            at_home = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            at_home = False
        if at_home:
            self.empty()
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.empty)
