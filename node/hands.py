"""What one reader of a queue has in its hands: messages that it neither acknowledged nor gave back.

Nothing is kept for a single message but a bit: what was drawn from one run is held, and let go, together.
"""

import asyncio
from collections.abc import Callable

from triack.node.message import Message
from triack.node.port import Port
from triack.queues.mailbox import Lease, Mailbox, Run
from triack.queues.queued_packet import QueuedPacket, bits_of, indices_of
from triack.queues.redelivery import Redelivery, Return

__all__ = ["Hands", "Held"]


class Held:
    """What one reader has drawn from one run, or from several as a list; it answers for these messages.

    A message that comes again is drawn another time, so it is another one than before.

    Attributes:
        bits: by packet; bit i is set while message i is held.
    """

    __slots__ = ("_hands", "_run", "bits")

    def __init__(self, hands: "Hands", run: Run | None = None) -> None:
        self.bits: dict[QueuedPacket, int] = {}
        self._hands = hands
        self._run = run

    def draws_from(self, run: Run) -> bool:
        """Whether it is that run from which more may be drawn."""
        return self._run is run

    def end(self) -> None:
        """Nothing more is drawn by it; it goes on to answer for what it has."""
        self._run = None

    def draw(self) -> Message | None:
        """The next message of the run; None when the queue must be asked again."""
        run, hands, bits = self._run, self._hands, self.bits
        index = -1 if run is None else run.draw()
        if run is None or index < 0:
            return None
        packet = run.packet
        bits[packet] = bits.get(packet, 0) | 1 << index
        body = packet.open().bodies[index]
        return Message(body, hands.queue, packet, index, run.redelivered, self, hands.name_of)

    def take(self, drawn: list[tuple[Run, range]]) -> list[Message]:
        """Messages that were drawn from runs."""
        queue, name_of, bits = self._hands.queue, self._hands.name_of, self.bits
        messages: list[Message] = []
        for run, indices in drawn:
            packet, redelivered = run.packet, run.redelivered
            bodies = packet.open().bodies
            bits[packet] = bits.get(packet, 0) | bits_of(indices)
            messages += [Message(bodies[index], queue, packet, index, redelivered, self, name_of) for index in indices]
        return messages

    def acknowledge(self, lease: Lease) -> None:
        """A message is done."""
        if self._let_go(lease):
            self._hands.acknowledge([(lease.packet, 1 << lease.index)])

    def give_back(self, lease: Lease, *, failed: bool, delay_ms: int | None) -> None:
        """A message comes again."""
        if self._let_go(lease):
            self._hands.give_back(lease, failed=failed, delay_ms=delay_ms)

    def _let_go(self, lease: Lease) -> bool:
        """Whether it was still held."""
        bits, bit = self.bits.get(lease.packet, 0), 1 << lease.index
        if not bits & bit:
            return False
        if bits == bit:
            del self.bits[lease.packet]
            self._hands.forget(self)
        else:
            self.bits[lease.packet] = bits & ~bit
        return True


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
        if self._open is None or not self._open.draws_from(run):
            self._begin(Held(self, run))
        assert self._open is not None
        return self._open

    def _begin(self, held: Held) -> None:
        before, self._open = self._open, held
        if before is not None:
            before.end()
            if before.bits:
                self._older[before] = None

    def draw(self, most: int, most_bytes: int) -> list[Message]:
        """The next messages of the queue, in order; none when there are none now. See ``Engine.draw_runs``."""
        drawn = self._port.draw_runs(self._mailbox, most, most_bytes)
        if not drawn:
            return []
        held = Held(self)
        self._begin(held)
        return held.take(drawn)

    def acknowledge(self, done: list[tuple[QueuedPacket, int]]) -> None:
        """Messages of packets that were just let go are done, message i if bit i is set."""
        self._port.acknowledge(self._mailbox, done)

    def give_back(self, lease: Lease, *, failed: bool, delay_ms: int | None = None) -> None:
        """A message that was just let go comes again."""
        self._port.give_back([(self._mailbox, lease)], Return(failed, delay_ms, self._redelivery))

    def forget(self, held: Held) -> None:
        """Messages of it were let go: it is to be remembered no more once none is left."""
        if not held.bits:
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
        leases = [Lease(packet, index, True) for packet, bits in self._take_all() for index in indices_of(bits)]
        return [(self._mailbox, lease) for lease in leases]

    def _take_all(self) -> list[tuple[QueuedPacket, int]]:
        """What is held, in order, and is not any more."""
        every = [*self._older, *([] if self._open is None else [self._open])]
        taken = [one for held in every for one in held.bits.items()]
        for held in every:
            held.bits.clear()
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
