"""Every course of events of an origin, a relay and a destination: three packets, loss, repetition, the relay's deaths.

The machines are the shipped ones: ``ordering.outgoing`` at the origin, ``ordering.transit`` at the relay, and
``ordering.incoming`` or the filter of duplicates at the destination. The sessions between them are reduced to what they
promise: what was sent in one arrives in it in any order, any number of times or never; with its end all of it is gone.
The destination's disk never fails, as the searches of two nodes let it die.

Checked in each state: whatever the origin still wants is at the origin, on the relay's disk or at the destination;
nothing is accepted twice; transactional packets are accepted in order and without a gap. And from each state in which
the faults stop, everything arrives.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from time import perf_counter
from typing import Final

from proof.search.identity import freeze, thaw
from proof.search.search import SearchResult
from triack.base.delivery import Ack, Delivery
from triack.ordering.departing import StreamPacketState
from triack.ordering.duplicates import DuplicateFilter
from triack.ordering.incoming import IncomingSequence, Outcome
from triack.ordering.order_settings import OrderSettings
from triack.ordering.outgoing import OutgoingSequence, StreamPacket
from triack.ordering.transit import Taken, TransitPacket, TransitSequence
from triack.ordering.wire import SequenceHeader

SEQUENCE: Final = 1
ROUNDS_MAX: Final = 12
"""Rounds of a fair run: each brings every packet a hop further, and a relay that has died needs a few more."""

_ACKS: Final = ("free", "let go", "store-ack", "order-ack")

Packet = tuple[int, int]
Event = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class RelayScope:
    """What may happen, and how often."""

    name: str
    story: str
    delivery: Delivery
    packets: int = 3
    crashes: int = 1
    breaks: int = 1
    removals: int = 0


RELAY_SCOPES: Final = (
    RelayScope("relay, transactional", "three packets pass a relay that dies", Delivery.TRANSACTIONAL),
    RelayScope("relay, recoverable", "three packets pass a relay that dies", Delivery.RECOVERABLE),
    RelayScope("relay, given up", "their origin gives one up meanwhile", Delivery.TRANSACTIONAL, breaks=0, removals=1),
    RelayScope("relay, two deaths", "two packets pass a relay that dies twice", Delivery.RECOVERABLE, 2, 2, 1),
)


class BrokenError(Exception):
    """A promise was broken."""


@dataclass(slots=True)
class World:
    """All three nodes, and what is in transit between them."""

    scope: RelayScope
    origin: OutgoingSequence
    relay: TransitSequence
    ordered: IncomingSequence[None]
    seen: DuplicateFilter
    crashes: int
    breaks: int
    removals: int
    removed: set[int] = field(default_factory=set)
    disk: dict[int, int] = field(default_factory=dict)
    added: dict[int, int] = field(default_factory=dict)
    deleted: set[int] = field(default_factory=set)
    up: set[Packet] = field(default_factory=set)
    down: set[Packet] = field(default_factory=set)
    stored: set[int] = field(default_factory=set)
    freeing: set[int] = field(default_factory=set)
    passing_over: set[int] = field(default_factory=set)
    held: set[int] = field(default_factory=set)
    accepted: list[int] = field(default_factory=list)

    @classmethod
    def begin(cls, scope: RelayScope) -> "World":
        """All packets wait at the origin."""
        settings = OrderSettings()
        origin = OutgoingSequence(scope.delivery, SEQUENCE, 1, settings)
        origin.append([StreamPacket(number, b"", 0, 1, number - 1, 1) for number in range(1, scope.packets + 1)])
        relay = TransitSequence(scope.delivery, SEQUENCE)
        return cls(
            scope, origin, relay, IncomingSequence(settings), DuplicateFilter(), scope.crashes, scope.breaks,
            scope.removals,
        )  # fmt: skip

    @property
    def is_ordered(self) -> bool:
        """Whether the packets are transactional."""
        return self.scope.delivery is Delivery.TRANSACTIONAL

    @property
    def wanted(self) -> set[int]:
        """What the origin has not given up."""
        return set(range(1, self.scope.packets + 1)) - self.removed

    # ---- what can happen

    def events(self) -> Iterator[Event]:
        """Yield everything that can happen."""
        if self.origin.peek() is not None:
            yield "send", 0, 0
        yield from (("hear", *packet) for packet in sorted(self.up))
        if self.added or self.deleted:
            yield "commit", 0, 0
        if self.relay.peek() is not None:
            yield "pass on", 0, 0
        yield from (("arrive", *packet) for packet in sorted(self.down))
        yield from (("free", number, 0) for number in sorted(self.freeing))
        yield from (("let go", number, 0) for number in sorted(self.passing_over))
        yield from (("store-ack", number, 0) for number in sorted(self.stored))
        if self.is_ordered and self.accepted and self.origin.entries:
            yield "order-ack", self.ordered.position[1], 0
        if self.crashes:
            yield "crash", 0, 0
        if self.breaks:
            yield from (("break", hop, 0) for hop in (1, 2))
        if self.removals:
            yield from (("give up", number, 0) for number in self.origin.entries)

    def act(self, event: Event) -> None:
        """Let something happen."""
        name, number, previous = event
        match name:
            case "send":
                self._send()
            case "hear":
                self._hear(number, previous)
            case "commit":
                self._commit()
            case "pass on":
                self._pass_on()
            case "arrive":
                self._arrive(number, previous)
            case "free" | "let go":
                self._free(number, let_go=name == "let go")
            case "store-ack" if (entry := self.origin.entries.get(number)) is not None:
                self.origin.handle_ack([entry], Ack.STORE)
            case "order-ack":
                self.origin.handle_order_ack(SEQUENCE, number, 0)
            case "crash":
                self.crashes -= 1
                self._die()
            case "break":
                self.breaks -= 1
                self._end_session(number)
            case "give up":
                self.removals -= 1
                self._give_up(number)
        self._check()

    def _send(self) -> None:
        entry = self.origin.peek_run(1)[0]
        # As to a relay: of unordered streams nothing is said of other packets.
        self.up.add((entry.number, self.origin.previous_of(entry) if self.is_ordered else 0))
        self.origin.handle_sent([entry], 0, packet=entry.number)

    def _hear(self, number: int, previous: int) -> None:
        """The relay gets a packet. A duplicate of what is on the disk is store-acked immediately."""
        taken = self.relay.judge(SEQUENCE, number)
        if taken is Taken.DUPLICATE:
            entry = self.relay.find(number)
            assert entry is not None
            self.relay.handle_duplicate(entry, previous, ack_requested=False)
            if number in self.disk and number not in self.deleted:
                self.stored.add(number)
        elif taken is Taken.FRESH:
            self.relay.add([TransitPacket(number, b"", 0, 1, previous, 0)])
            self.added[number] = previous

    def _commit(self) -> None:
        self._write()
        committed = [entry for entry in self.relay.entries.values() if entry.state is StreamPacketState.ARRIVED]
        self.relay.handle_stored(committed)
        self.stored.update(entry.number for entry in committed)

    def _write(self) -> None:
        for number in self.deleted:
            self.disk.pop(number, None)
        self.disk.update(self.added)
        self.deleted.clear()
        self.added.clear()

    def _pass_on(self) -> None:
        run = self.relay.peek_run(1)
        self.down.add((run[0].number, self.relay.previous_of(run[0])))
        self.relay.handle_sent(run, 0, packet=run[0].number)

    def _arrive(self, number: int, previous: int) -> None:
        """The destination gets a packet; its commit returns immediately."""
        header = SequenceHeader(bytes(16), 1, SEQUENCE, number, previous, "q", ack_requested=False, body=b"")
        if self.is_ordered:
            outcome, accepted = self.ordered.handle_packet(header, None, 0)
            for each, _ in accepted:
                self._accept(each.number)
            self.ordered.handle_committed(self.ordered.position)
            if self.ordered.has_accepted(header):
                self.freeing.update({number, *(each.number for each, _ in accepted)})
            elif outcome is Outcome.OUT_OF_ORDER:
                self.held.add(number)
            else:
                self.passing_over.add(number)
        elif self.seen.handle_packet(header):
            self._accept(number)
            self.freeing.add(number)
        else:
            (self.passing_over if self.seen.has_skipped(header) else self.freeing).add(number)

    def _accept(self, number: int) -> None:
        if number in self.accepted:
            raise BrokenError(f"packet {number} was accepted twice")
        missing = [other for other in self.wanted if other < number and other not in self.accepted]
        if self.is_ordered and (missing or any(other > number for other in self.accepted)):
            raise BrokenError(f"packet {number} was accepted, and the destination had {self.accepted}")
        self.accepted.append(number)
        self.held.discard(number)

    def _free(self, number: int, *, let_go: bool) -> None:
        """The relay learns that a packet has arrived; it is stored, too, unless the destination passed it over."""
        entry = self.relay.entries.get(number)
        if entry is None or entry.state is not StreamPacketState.SENT:
            return
        freed = self.relay.handle_ack([entry], Ack.SESSION)
        if let_go and not freed:
            self.relay.remove([entry])
            freed = [entry]
        elif not freed:
            freed = self.relay.handle_ack([entry], Ack.STORE)
        self.deleted.update(one.number for one in freed)

    def _die(self) -> None:
        """The relay's process is gone, its sessions with it, and restarts on what its disk has."""
        self.added.clear()
        self.deleted.clear()
        self.relay = TransitSequence(self.scope.delivery, SEQUENCE)
        found = [TransitPacket(number, b"", 0, 1, self.disk[number], 0) for number in sorted(self.disk)]
        self.relay.add(found)
        self.relay.handle_stored(found)
        self._end_session(1)
        self._end_session(2)

    def _end_session(self, hop: int) -> None:
        if hop == 1:
            self.up.clear()
            self.stored.clear()
            self.origin.handle_session_closed()
        else:
            self.down.clear()
            self.freeing.clear()
            self.passing_over.clear()
            self.relay.handle_session_closed()

    def _give_up(self, number: int) -> None:
        self.removed.add(number)
        self.origin.remove(self.origin.entries[number])
        if self.is_ordered and (number + 1) in self.origin.entries:
            # It is sent again, as it names another previous packet.
            self.origin.handle_session_closed()

    # ---- what must hold

    def _check(self) -> None:
        there = {*self.origin.entries, *self.disk, *self.accepted}
        lost = sorted(self.wanted - there)
        if lost:
            raise BrokenError(f"packet {lost[0]} is nowhere")

    def end_well(self) -> str:
        """Let everything happen without faults; return what is wrong at the end, or nothing."""
        for _ in range(ROUNDS_MAX):
            self._end_session(1)
            self._end_session(2)
            for _ in range(2):
                while self.origin.peek() is not None:
                    self.act(("send", 0, 0))
                for packet in sorted(self.up):
                    self.act(("hear", *packet))
                self.act(("commit", 0, 0))
                while self.relay.peek() is not None:
                    self.act(("pass on", 0, 0))
                for packet in sorted(self.down):
                    self.act(("arrive", *packet))
                for event in [event for event in self.events() if event[0] in _ACKS]:
                    self.act(event)
                self.act(("commit", 0, 0))
            if not self.origin.entries and not self.disk:
                break
        missing = sorted(self.wanted - set(self.accepted))
        if missing:
            return f"packet {missing[0]} never arrives"
        return "packets wait without end" if self.origin.entries or self.disk else ""

    def key(self) -> tuple[object, ...]:
        """All that distinguishes this state from others."""
        origin = tuple((number, int(entry.state)) for number, entry in self.origin.entries.items())
        relay = tuple((number, int(it.state), it.previous) for number, it in self.relay.entries.items())
        sending = tuple(entry.number for entry in self.relay.upcoming(self.scope.packets))
        held = tuple(sorted(self.held)), self.ordered.position, tuple(self.seen.ranges)
        ways = [tuple(sorted(way)) for way in (self.up, self.down)]
        acks = [
            tuple(sorted(way)) for way in (self.stored, self.freeing, self.passing_over, self.removed, self.deleted)
        ]
        kept = tuple(sorted(self.disk.items())), tuple(sorted(self.added.items()))
        left = self.crashes, self.breaks, self.removals
        return (origin, relay, sending, held, *ways, *acks, *kept, tuple(self.accepted), left)


def search_relay(scope: RelayScope, limit: int, *, fair_runs: int = 0) -> SearchResult:
    """Try everything that can happen, or stop after ``limit`` states; ``fair_runs`` of them then continue fairly."""
    began = perf_counter()
    known: dict[tuple[object, ...], int] = {}
    frozen, parents = list[bytes](), list[tuple[int, Event]]()
    transitions, first, depth = 0, 0, 0
    violation, trace = "", list[Event]()

    def add(world: World, parent: int, event: Event) -> None:
        key = world.key()
        if key not in known:
            known[key] = len(frozen)
            frozen.append(freeze(world))
            parents.append((parent, event))

    def path(index: int) -> list[Event]:
        events = []
        while index:
            index, event = parents[index]
            events.append(event)
        return events[::-1]

    add(World.begin(scope), 0, ("begin", 0, 0))
    while first < len(frozen) < limit and not violation:
        end = len(frozen)
        for index in range(first, end):
            for event in list(thaw(frozen[index]).events()):
                world: World = thaw(frozen[index])
                transitions += 1
                try:
                    world.act(event)
                except BrokenError as error:
                    violation, trace = str(error), [*path(index), event]
                    break
                add(world, index, event)
            if violation or len(frozen) >= limit:
                break
        first, depth = end, depth + 1
    complete = not violation and len(frozen) < limit
    tried = 0
    for index in range(0, len(frozen), max(1, len(frozen) // max(1, fair_runs))) if fair_runs and not violation else ():
        tried += 1
        try:
            violation = thaw(frozen[index]).end_well()
        except BrokenError as error:
            violation = str(error)
        if violation:
            trace = [*path(index), ("from here on nothing is lost", 0, 0)]
            break
    return SearchResult(
        scope.name, len(frozen), transitions, depth, complete, (len(frozen), 0), tried, violation or None,
        tuple(_told(event) for event in trace), perf_counter() - began,
    )  # fmt: skip


def _told(event: Event) -> str:
    name, number, previous = event
    return name if not number else f"{name} {number}" + (f", previous {previous}" if name in ("hear", "arrive") else "")
