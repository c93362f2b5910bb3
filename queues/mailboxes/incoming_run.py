"""Runs of successive packets of one stream that arrived together: most of the traffic.

Fields that all packets of a run share are read once. A packet that is not plain - properties, a gap, another stream, a
control packet - ends a run, and is read by itself. Pieces of one large message, behind its first one, are a run, too.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from triack.base.delivery import Delivery
from triack.base.errors import ProtocolError
from triack.ordering import wire
from triack.ordering.wire import RelayedHeader, SequenceHeader
from triack.queues.body_head import LARGE, TOPIC, large_of, priority_of
from triack.queues.mailboxes.queued_packet import QueuedPacket
from triack.queues.mailboxes.system_queues import is_subscribed
from triack.queues.packing import read_batch, read_piece, says_publisher
from triack.session.protocol.events import PacketArrived, RunArrived

Context = TypeVar("Context")


@dataclass(slots=True)
class IncomingRun:
    """Batches with successive numbers in their session and in their stream.

    Attributes:
        packet: the session's number of the first.
        length: how many packets it has.
        size_bytes: of the packets as they came; once the run has ended, and 0 for packets that came before their turn.
        previous_step: by how much ``previous`` rises from packet to packet.
        bodies: one for each packet, as are ``about`` and ``lefts_ms``.
        about: what ``read_batch`` says of each.
        counts: of messages; once the run has ended, as are the two times, and the sums of both kinds.
        sent_at_ms: by the sender's wall clock.
        first_byte: of every body: it holds the priority.
        lefts_ms: how long each packet has left, if relays pass them on.
        follow: reads a packet that may follow.
        queue: the encoded name of the queue.
        piece_of: ordinal and size of the message of which all packets are pieces; None for whole messages.
    """

    packet: int
    header: SequenceHeader
    previous_step: int
    bodies: list[bytes] = field(default_factory=list)
    about: list[tuple[int, int, int]] = field(default_factory=list)
    counts: Sequence[int] = ()
    sent_at_ms: Sequence[int] = ()
    receive_by_ms: Sequence[int] = ()
    body_bytes: int = 0
    messages: int = 0
    ack_requested: bool = False
    length: int = 0
    size_bytes: int = 0
    first_byte: int = 0
    lefts_ms: list[int] = field(default_factory=list)
    follow: Callable[[SequenceHeader, bytes, bytes], tuple[int, int, bool, bytes] | None] = wire.read_following
    queue: bytes = b""
    piece_of: tuple[int, int] | None = None

    @property
    def last(self) -> int:
        """The number of the last packet in its sequence."""
        return self.header.number + self.length - 1

    def end(self, arrived: Sequence[bytes] = ()) -> "IncomingRun":
        """The run is complete: say what is known of its packets only now. Returns it.

        ``arrived``: its packets as they came.
        """
        self.size_bytes = sum(map(len, arrived))
        self.counts, self.sent_at_ms, self.receive_by_ms = zip(*self.about, strict=True)
        self.body_bytes, self.messages = sum(map(len, self.bodies)), sum(self.counts)
        return self

    def headers(self) -> Iterator[SequenceHeader]:
        """Yield the packets one by one. If any asks for an order ack, all do."""
        for step, body in enumerate(self.bodies):
            header = replace(self.header, ack_requested=self.ack_requested, body=body)
            header.number += step
            header.previous += step * self.previous_step
            if isinstance(header, RelayedHeader):
                header.left_ms = self.lefts_ms[step]
            yield header

    def packets(self, delivery: Delivery) -> list[QueuedPacket]:
        """The packets for a queue, without keys, and charged with their sizes."""
        first, priority = self.header, priority_of(self.bodies[0])
        packets: list[QueuedPacket] = []
        contents = zip(self.bodies, self.counts, self.sent_at_ms, self.receive_by_ms, strict=True)
        for number, (body, count, sent_at_ms, receive_by_ms) in enumerate(contents, first.number):
            size_bytes = len(body)
            packet = QueuedPacket(
                (), first.origin, first.stream, first.sequence, number, delivery, count, size_bytes, (body,)
            )
            packet.sent_at_ms, packet.receive_by_ms, packet.charged_bytes = sent_at_ms, receive_by_ms, size_bytes
            packet.priority = priority
            packets.append(packet)
        return packets

    def take(self, content: bytes) -> bool:
        """Add the next packet, if it continues the run. Returns whether it does."""
        first = self.header
        following = self.follow(first, self.queue, content)
        if following is None:
            return False
        number, previous, ack_requested, body = following
        step = self.length
        if number != first.number + step or previous != first.previous + step * self.previous_step:
            return False
        if not self._add(body, ack_requested=ack_requested):
            return False
        if self.lefts_ms:
            self.lefts_ms.append(wire.left_of(content))
        return True

    def take_held(self, header: SequenceHeader) -> bool:
        """Add the next packet of its stream, which came before its turn, if it continues the run."""
        step, first = self.length, self.header
        follows = (header.sequence, header.number, header.previous) == (
            first.sequence,
            first.number + step,
            first.previous + step * self.previous_step,
        )
        return follows and self._add(header.body, ack_requested=False)

    def _add(self, body: bytes, *, ack_requested: bool) -> bool:
        if self.piece_of is None:
            batch = read_batch(body)
        else:
            message, batch = read_piece(body) or (None, None)
            batch = batch if message == self.piece_of else None
        if batch is None or body[0] != self.first_byte or (body[0] & LARGE and large_of(body)):
            return False
        if body[0] & TOPIC and says_publisher(body) and not is_subscribed(self.header.queue):
            return False  # a look at it alone refuses it
        self.bodies.append(body)
        self.about.append(batch)
        self.ack_requested = self.ack_requested or ack_requested
        self.length += 1
        return True

    @classmethod
    def begin(cls, packet: int, content: bytes, delivery: Delivery) -> "IncomingRun | None":
        """The run that begins with a packet, or None if the packet is no plain batch."""
        if not wire.carries_body(content):
            return None
        try:
            header = wire.decode(content)
        except ProtocolError:
            return None
        assert isinstance(header, SequenceHeader)
        return cls.of(packet, header, delivery)

    @classmethod
    def of(cls, packet: int, header: SequenceHeader, delivery: Delivery) -> "IncomingRun | None":
        """The same, of a packet that was read."""
        run = cls(packet, header, int(delivery is Delivery.TRANSACTIONAL))
        run.first_byte = header.body[0] if header.body else 0
        if delivery is Delivery.TRANSACTIONAL and header.body and priority_of(header.body):
            return None
        if not run._add(header.body, ack_requested=header.ack_requested):
            piece = read_piece(header.body)
            if piece is None:
                return None
            run.piece_of = piece[0]
            run._add(header.body, ack_requested=header.ack_requested)
        run.queue = header.queue.encode()
        if type(header) is RelayedHeader:
            run.lefts_ms.append(header.left_ms)
            run.follow = wire.read_following_relayed
        return run


def read_runs(event: RunArrived) -> Iterator[IncomingRun | PacketArrived]:
    """Yield what has arrived, in order: runs, and single packets that belong to none."""
    run: IncomingRun | None = None
    for packet, content in enumerate(event.contents, event.number):
        if run is not None:
            if run.take(content):
                continue
            yield _end_of(event, run)
        run = IncomingRun.begin(packet, content, event.delivery)
        if run is None:
            yield PacketArrived(packet, event.delivery, content, duplicate=False)
    if run is not None:
        yield _end_of(event, run)


def _end_of(event: RunArrived, run: IncomingRun) -> IncomingRun:
    begin = run.packet - event.number
    return run.end(event.contents[begin : begin + run.length])


def held_runs(
    held: Iterable[tuple[SequenceHeader, Context]], delivery: Delivery
) -> Iterator[tuple[IncomingRun | None, list[tuple[SequenceHeader, Context]]]]:
    """Yield packets of a stream that came before their turn, in order: each run, or None for a packet of no run."""
    run: IncomingRun | None = None
    items: list[tuple[SequenceHeader, Context]] = []
    for item in held:
        header = item[0]
        if run is not None and run.take_held(header):
            items.append(item)
            continue
        if items:
            yield run and run.end(), items
        run, items = IncomingRun.of(0, header, delivery), [item]
    if items:
        yield run and run.end(), items
