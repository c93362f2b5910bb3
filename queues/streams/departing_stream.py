"""A stream that leaves this node, its own or one of another node: where it goes, and what holds it up."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from triack.base.delivery import DURABLE
from triack.base.names import StreamId
from triack.base.ranges import Range, as_ranges
from triack.ordering.departing import DepartingSequence
from triack.ordering.wire import RelayedPacket
from triack.queues.deadlines import Deadlines
from triack.queues.routes import Way
from triack.queues.sync_links import NextHop

NO_RELAY = -1
"""In place of the number of relays, for packets that go to their destination directly."""

Sequence = TypeVar("Sequence", bound=DepartingSequence[Any])


@dataclass(slots=True)
class Seal:
    """The seal of a stream.

    Attributes:
        missing: why its packets cannot be sealed now, so that they wait; for people.
        by: the destination itself, once it has proved an answer about the stream; empty before.
    """

    key: bytes = b""
    missing: str = ""
    by: bytes = b""


class DepartingStream(Generic[Sequence]):
    """One stream: messages for one queue in one class, and of one priority.

    Args:
        sequence: its packets that are stored here.

    Attributes:
        way: the way to its destination; None for a queue of this node, or when nothing says where that is.
        next_hop: what is known of the node that its packets go to, and of those that they went to before.
        seal: how its packets are sealed; None if they are not sealed here.
        paused: whether an operator has paused it: nothing of it leaves until it is resumed.
        expiries: when packets in memory expire, by this node's wall clock.
        turn_key: the streams with the same key share their turns, see ``queues.peers.turns``.
    """

    __slots__ = (
        "delivery",
        "durable",
        "expiries",
        "id",
        "next_hop",
        "paused",
        "priority",
        "queue",
        "seal",
        "sequence",
        "turn_key",
        "way",
    )

    def __init__(
        self,
        id: StreamId,  # noqa: A002 - as in IncomingStream
        queue: str,
        priority: int,
        sequence: Sequence,
        turn_key: Hashable,
    ) -> None:
        self.id = id
        self.turn_key = turn_key
        self.queue = queue
        self.delivery = sequence.delivery
        self.durable = sequence.delivery in DURABLE
        self.priority = priority
        self.sequence = sequence
        self.way: Way | None = None
        self.next_hop = NextHop()
        self.seal: Seal | None = None
        self.paused = False
        self.expiries = Deadlines[int]()

    @property
    def via(self) -> str:
        """The neighbour that its packets go to, by name; empty if there is none."""
        return "" if self.way is None else self.way.via

    def go_by(self, way: Way | None) -> None:
        """Its packets use another way from now on."""
        self.way = way

    def contexts_of(self, run: list[Any], previous: list[int], hops: int) -> list["DepartingContext"]:
        """What a session carries along with each packet of a run."""
        return [DepartingContext(self, entry, before, hops) for entry, before in zip(run, previous, strict=True)]

    # ---- time

    def expect(self, entries: Iterable[Any]) -> None:
        """Note when packets in memory expire."""
        for entry in entries:
            if entry.reach_by_ms:
                self.expiries.set(entry.number, entry.reach_by_ms)

    def expect_no_more(self, entries: Iterable[Any]) -> None:
        """Packets are not in memory any more."""
        for entry in entries:
            if entry.reach_by_ms:
                self.expiries.set(entry.number, None)

    def poll_expired(self, now_ms: int, limit: int) -> list[Any]:
        """Packets in memory whose time has ended; ``next_expiry_ms`` has passed while there are more."""
        entries = self.sequence.entries
        return [entries[number] for number in self.expiries.poll_due(now_ms, limit) if number in entries]

    def may_expire(self, _entry: Any) -> bool:
        """Whether a packet ends when its time has ended."""
        return True

    def expire_late(self, run: Iterable[Any], arrives_ms: int, now_ms: int) -> bool:
        """Let those of a run expire now that would arrive too late, instead of leaving. Returns whether any do."""
        late = [entry for entry in run if 0 < entry.reach_by_ms <= arrives_ms and self.may_expire(entry)]
        for entry in late:
            self.expiries.set(entry.number, now_ms)
        return bool(late)

    @property
    def next_expiry_ms(self) -> int | None:
        """When the next packet expires, by this node's wall clock, or None."""
        return self.expiries.soonest_ns if self.expiries.heap else None


class DepartingContext:
    """What a session carries along with a packet: ``sequence``, ``previous`` and ``hops`` as in its header.

    The session repeats a packet even if its stream has begun a newer sequence meanwhile.
    """

    __slots__ = ("entry", "hops", "previous", "sequence", "stream")

    def __init__(self, stream: DepartingStream[Any], entry: Any, previous: int, hops: int) -> None:
        self.stream: Any = stream
        self.sequence = stream.sequence.sequence
        self.entry = entry
        self.previous = previous
        self.hops = hops


def ranges_of(entries: Iterable[Any]) -> list[Range]:
    """The numbers of packets."""
    return as_ranges(sorted([entry.number for entry in entries]))


def relayed_packets(
    run: list[Any], previous: list[int], ack_requested: list[bool], bodies: list[bytes], arrives_ms: int
) -> list[RelayedPacket]:
    """Packets that arrive at a relay at that time."""
    return [
        RelayedPacket(
            entry.number, before, max(1, entry.reach_by_ms - arrives_ms) if entry.reach_by_ms else 0, asks, body
        )
        for entry, before, asks, body in zip(run, previous, ack_requested, bodies, strict=True)
    ]
