"""The messages that one reader of a queue has leased: it has neither acknowledged them nor given them back.

Little is kept for a single message: a bit, and when it was leased. Messages drawn from one run are held together.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from triack.base.errors import HandOverEnded
from triack.base.lease_words import WORD_BITS
from triack.base.reasons import DeadReason
from triack.node.handles.choosing import read_part
from triack.node.handles.message import Drawn, Keeper, Message, Messages, Settle, message_of_run, messages_of_runs
from triack.node.shell.engine_handle import EngineHandle
from triack.node.shell.event_loop import check_home, run_at_home, running_loop
from triack.node.shell.holding import task_name
from triack.queues.mailboxes.leases import Leases
from triack.queues.mailboxes.mailbox import Lease, Mailbox, Run
from triack.queues.mailboxes.queued_packet import QueuedPacket, indices_of
from triack.queues.mailboxes.redelivery import Return
from triack.queues.node_settings import Redelivery
from triack.stats.holding import OVERDUE, RELEASED, HeldPacket, Reader, taken_back

NOTHING = range(0)
"""Drawn by a reader that asks for one message after the other."""


class Held:
    """The messages that one reader drew from one run; it answers for them.

    A message that is redelivered is drawn again, and then counts as another one.
    """

    __slots__ = ("_bodies", "_cell", "_in_flight", "_lost", "_since", "_since_ns", "_words", "bits", "run")

    def __init__(self, in_flight: "InFlight", run: Run, drawn: range = NOTHING, now_ns: int = 0) -> None:
        self.run = run
        self.bits = (1 << drawn.stop) - (1 << drawn.start)  # as ``bits_of``, without a call
        self._in_flight = in_flight
        # When its messages were drawn: together, or each by itself.
        self._since_ns = now_ns
        self._since: dict[int, int] = {}
        # Messages that were taken back, and why.
        self._lost = 0, ""
        self._words: memoryview | None = None

    def begin(self, leases: Leases | None) -> None:
        """Messages will be drawn one by one, and noted there."""
        packet = self.run.packet
        self._bodies = packet.open().bodies
        self._cell = 0 if leases is None else leases.cells.get(packet, 0)
        self._words = leases.words if leases is not None and self._cell else None

    def drawn(self, keeper: Keeper | None) -> Drawn:
        """What the messages of the run have in common; this answers for them, and they keep their reader open."""
        in_flight = self._in_flight
        settle = self.settle if keeper is None else partial(_keeping, keeper, self.settle)
        return Drawn(in_flight.queue, self.run, settle, in_flight.name_of)

    def draw(self, drawn: Drawn) -> Message | None:
        """The next message of the run; None: the caller must ask the queue again."""
        run, in_flight = self.run, self._in_flight
        index = run.draw()
        if index < 0:
            return None
        self.bits |= 1 << index
        self._since[index] = in_flight.clock()
        words = self._words
        if words is not None:  # as ``Leases.hold``, for a single message
            words[self._cell + index // WORD_BITS] |= 1 << index % WORD_BITS
        if in_flight.timeout_ns:
            in_flight.watch()
        if run.packet.large:
            return message_of_run(drawn, index, in_flight.read_part)
        return Message(self._bodies[index], index, drawn)

    def take_all(self) -> list[tuple[QueuedPacket, int]]:
        """Release all messages. Returns their packet, and a bit for each; nothing if there are none."""
        bits, self.bits = self.bits, 0
        self._since = {}
        return [(self.run.packet, bits)] if bits else []

    def held(self) -> list[HeldPacket]:
        """The messages held, and since when."""
        since_ns = min(self._since.values(), default=self._since_ns)
        return [HeldPacket(self.run.packet, self.bits, since_ns)] if self.bits else []

    def take_back(self, until_ns: int | None, why: str) -> list[tuple[QueuedPacket, int]]:
        """Release messages held since that time or before; None: all. Returns them as ``take_all``.

        Acknowledging one later raises HandOverEnded with why.
        """
        bits = 0
        for index in indices_of(self.bits):
            if until_ns is None or self._since.get(index, self._since_ns) <= until_ns:
                bits |= 1 << index
                self._since.pop(index, None)
        if not bits:
            return []
        self.bits &= ~bits
        self._lost = bits | self._lost[0], why
        return [(self.run.packet, bits)]

    def let_go(self, lease: Lease) -> bool:
        """Release a message. Returns whether it was held."""
        bit = 1 << lease.index
        if not self.bits & bit or lease.packet is not self.run.packet:
            return False
        self.bits &= ~bit
        self._since.pop(lease.index, None)
        if not self.bits:
            self._in_flight.forget(self)
        return True

    def settle(self, lease: Lease, way: Return | None) -> None:
        """A message is done, or goes back; nothing happens to one that was settled before.

        Raises UsageError in another event loop than the reader's; HandOverEnded: it was taken back, and is done.
        """
        in_flight = self._in_flight
        if running_loop() is not in_flight.home:
            check_home(f"a message of queue {in_flight.queue}", in_flight.home)
        if self.let_go(lease):
            if way is None:
                in_flight.acknowledge([(lease.packet, 1 << lease.index)])
            else:
                in_flight.give_back(lease, way)
        elif way is None and self._lost[0] >> lease.index & 1 and not in_flight.ignores_late(lease):
            raise taken_back(in_flight.queue, lease, self._lost[1])


def _keeping(_keeper: Keeper, settle: Settle, lease: Lease, way: Return | None) -> None:
    """Settle a message that keeps its reader open."""
    settle(lease, way)


class InFlight:
    """Everything that one consumer holds.

    It refers neither to its consumer nor to a keeper, so the consumer ends with its last reference: a loop that ends
    without closing the consumer must not keep its messages.
    """

    def __init__(
        self,
        port: EngineHandle,
        mailbox: Mailbox,
        listener: Callable[[], None],
        redelivery: Redelivery | None,
        *,
        reader: Reader | None = None,
        timeout_ns: int = 0,
    ) -> None:
        self.queue = mailbox.name
        self.name_of = port.name_of
        self.read_part = partial(read_part, port)
        self._port = port
        self._mailbox = mailbox
        # For messages of packets that were just released, message i if bit i is set.
        self.acknowledge: Callable[[list[tuple[QueuedPacket, int]]], None] = partial(port.acknowledge, mailbox)
        self._listener = listener
        self._redelivery = redelivery
        self._open: Held | None = None
        self._older: dict[Held, None] = {}
        # Whether messages are drawn from ``_open`` one by one.
        self._is_single = False
        self.home = asyncio.get_running_loop()
        self.clock = port.clock
        self.reader = reader or Reader()
        self._is_named = bool(self.reader.name)
        self.timeout_ns = timeout_ns
        self.on_take_back: Callable[[list[Lease]], None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._taken_back: HandOverEnded | None = None
        mailbox.listeners.append(listener)
        port.holding.enter(mailbox.name, self)

    def ignores_late(self, lease: Lease) -> bool:
        """A message that was taken back is done. Returns whether to ignore that, see ``Owner``."""
        owner = self._mailbox.owner
        if owner is not None:
            owner.note_late(lease)
        return owner is not None

    def hold(self, run: Run) -> Held:
        """Draw one by one from this run from now on, until a list is drawn."""
        held = self._open
        if held is None or held.run is not run or not self._is_single:
            held = Held(self, run)
            held.begin(self._port.leases if self.reader.is_here else None)
            self._begin([held])
            self._is_single = True
        return held

    def _begin(self, held: list[Held]) -> None:
        if self._open is not None and self._open.bits:
            self._older[self._open] = None
        *older, self._open = held
        if older:
            self._older.update(dict.fromkeys(older))
        if not self._is_named:
            self.reader.name = task_name()

    def draw(self, most: int, most_bytes: int, keeper: Keeper | None) -> Messages | None:
        """The next messages of the queue, in order; None if there are none now. See ``Engine.draw_runs``."""
        drawn = self._port.draw_runs(self._mailbox, most, most_bytes)
        return self._take(drawn, keeper) if drawn else None

    def take_chosen(self, run: Run, keeper: Keeper | None) -> Message:
        """Hold the message that ``Engine.choose`` has drawn."""
        return self._take([(run, range(run.first, run.next))], keeper)[0]

    def _take(self, drawn: list[tuple[Run, range]], keeper: Keeper | None) -> Messages:
        now_ns, self._is_single = self.clock(), False
        held = [Held(self, run, indices, now_ns) for run, indices in drawn]
        self._begin(held)
        if self.reader.is_here:  # the note outlives this process
            self._port.leases.hold([(one.run.packet, one.bits) for one in held])
        if self.timeout_ns:
            self.watch()
        queue, name_of, common = self.queue, self.name_of, list[tuple[Drawn, range]]()
        for one, (run, indices) in zip(held, drawn, strict=True):
            settle = one.settle if keeper is None else partial(_keeping, keeper, one.settle)
            common += [(Drawn(queue, run, settle, name_of), indices)]
        return messages_of_runs(common, self.read_part)

    def give_back(self, lease: Lease, way: Return) -> None:
        """A message that was just released is redelivered, or is dead."""
        self._port.give_back([(self._mailbox, lease)], way._replace(redelivery=self._redelivery))

    def forget(self, held: Held) -> None:
        """Drop a ``Held`` that no longer holds anything."""
        self._older.pop(held, None)

    def acknowledge_all(self) -> None:
        """Acknowledge all messages held. Raises HandOverEnded if some had been taken back."""
        if done := self._take_all():
            self.acknowledge(done)
        if self._taken_back is not None:
            error, self._taken_back = self._taken_back, None
            raise error

    def give_back_all(self, *, failed: bool) -> None:
        """Give back all messages held."""
        self._taken_back = None
        self._port.give_back(self._leases(self._take_all()), Return(failed, None, self._redelivery))

    def handle_death(self, message: Message | None = None) -> None:
        """The reader's process died: its messages, or the one that it worked on, have failed."""
        if message is None:
            leases = self._leases(self._take_all())
        else:
            lease = message.lease
            leases = [(self._mailbox, lease)] if any(held.let_go(lease) for held in self._helds()) else []
        self._port.give_back(leases, Return(True, None, self._redelivery, DeadReason.READER_DIED))

    def _leases(self, taken: list[tuple[QueuedPacket, int]]) -> list[tuple[Mailbox, Lease]]:
        held = [(packet, index) for packet, bits in taken for index in indices_of(bits)]
        return [(self._mailbox, Lease(packet, index, packet.restored)) for packet, index in held]

    def _helds(self) -> list[Held]:
        """Every ``Held`` that may hold messages, in order."""
        return [*self._older, *([] if self._open is None else [self._open])]

    def _take_all(self) -> list[tuple[QueuedPacket, int]]:
        latest = [] if self._open is None else self._open.take_all()
        if not self._older:
            return latest
        older = [one for held in self._older for one in held.take_all()]
        self._older.clear()
        return older + latest

    # ---- taking back

    def held(self, queue: str) -> list[HeldPacket]:  # noqa: ARG002 - it has but one
        """The messages held, see ``Holder``."""
        return [one for held in self._helds() for one in held.held()]

    def take_back(self, queue: str) -> int:  # noqa: ARG002 - it has but one
        """Take back all messages held, see ``Holder``."""
        return self._take_back(None, RELEASED, Return(failed=False))

    def _take_back(self, until_ns: int | None, why: str, way: Return) -> int:
        taken = [one for held in self._helds() for one in held.take_back(until_ns, why)]
        leases = self._leases(taken)
        if leases:
            if self._mailbox.owner is None:
                self._taken_back = taken_back(self.queue, leases[-1][1], why)
            self._port.give_back(leases, way)
            if self.on_take_back is not None:
                self.on_take_back([lease for _, lease in leases])
        return len(leases)

    def watch(self) -> None:
        """A leased message may become overdue: start the timer, and have the hand-over logged now.

        Otherwise its record might be so late that the message seems to come back too early.
        """
        self._port.wake()
        if self._timer is None:
            self._timer = self.home.call_later(self.timeout_ns / 1e9, self._handle_timer)

    def _handle_timer(self) -> None:
        """Take back messages that were leased for too long; they have failed."""
        self._timer = None
        way = Return(True, None, self._redelivery, DeadReason.HAND_OVER_TIMEOUT)
        self._take_back(self.clock() - self.timeout_ns, OVERDUE, way)
        held = self.held(self.queue)
        if held:
            left_ns = min(one.since_ns for one in held) + self.timeout_ns - self.clock()
            self._timer = self.home.call_later(max(left_ns, 0) / 1e9, self._handle_timer)

    # ---- the end

    def empty(self) -> None:
        """End: everything goes back, and a task that waits for a message wakes up."""
        if self._timer is not None:
            self._timer.cancel()
        self._port.holding.leave(self.queue, self)
        self._mailbox.leave(self._listener)
        self._port.give_back(self._leases(self._take_all()), Return(failed=False))
        self._listener()

    def empty_at_home(self) -> None:
        """The same for a consumer that was dropped: the garbage collector may run in any thread."""
        run_at_home(self.home, self._drop)

    def _drop(self) -> None:
        held = self.held(self.queue)
        self.empty()
        leases = self._leases([(one.packet, one.bits) for one in held])
        self._port.dropped = [(mailbox, lease, self._redelivery) for mailbox, lease in leases]
