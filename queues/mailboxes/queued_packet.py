"""A packet of messages in a queue of this node, and what has become of each of them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from triack.base.errors import StoreDamaged
from triack.queues.mailboxes.redelivery import Wait
from triack.queues.packing import Unpacked, unpack_pieces

__all__ = ["Lease", "QueuedPacket", "bits_of", "indices_of", "merge"]


@dataclass(slots=True, eq=False)
class QueuedPacket:
    """One packet of messages, or one large message of several packets.

    Attributes:
        keys: store keys of its rows; empty for express.
        count: how many messages it holds.
        pieces: bodies of its rows; empty while only the disk has them.
        next_index: the first message that was never handed out; while a run is open, where that run began.
        acked: bit i is set when message i is done.
        failures: how often message i was given back as failed, or its reader died; None as long as none was.
        deaths: how many of those were deaths of its reader; None as long as none was.
        waits: what keeps message i back, or did so last; None as long as nothing did.
        redelivered: whether its messages may have been handed out before, in an earlier life of the process.
        place: where it stands in the queue; nothing else in the queue has that number, ever.
        sent_at_ms: wall clock of its sender.
        receive_by_ms: wall clock at which what waits of it expires; 0 for never.
        charged_bytes: what it counts for in quotas; 0 while it does not.
        cell: where it is noted which of its messages are in hand; 0 while nothing is, see ``InHand``.
    """

    keys: Sequence[int]
    origin: bytes
    lane: int
    sequence: int
    number: int
    delivery: int
    count: int
    size_bytes: int
    pieces: Sequence[bytes]
    next_index: int = 0
    acked: int = 0
    # Hardly any packet comes back, and two empty dictionaries for each of the others are work for the collector.
    failures: dict[int, int] | None = None
    deaths: dict[int, int] | None = None
    waits: dict[int, Wait] | None = None
    redelivered: bool = False
    place: int = 0
    content: Unpacked | None = None
    sent_at_ms: int = 0
    receive_by_ms: int = 0
    charged_bytes: int = 0
    cell: int = 0

    @property
    def done(self) -> bool:
        """Whether every message is acknowledged."""
        return self.acked == (1 << self.count) - 1

    def has_expired(self, now_ms: int) -> bool:
        """Whether nobody is to be handed its messages any more."""
        return 0 < self.receive_by_ms <= now_ms

    def open(self) -> Unpacked:
        """The messages. Raises ProtocolError when pieces do not make a message."""
        if self.content is None:
            self.content = unpack_pieces(self.pieces)
        return self.content

    def encode_progress(self) -> bytes:
        """What must survive a restart of a packet that is partly done."""
        return json.dumps([hex(self.acked), self.failures or {}, self.deaths or {}, self.waits or {}]).encode()

    def decode_progress(self, progress: bytes, now_ms: int, moved_ms: int = 0) -> None:
        """Take what ``encode_progress`` wrote, before the clock was moved. Raises StoreDamaged."""
        try:
            acked, failures, deaths, waits = json.loads(progress)
            self.acked = int(acked, 16)
            self.failures = {int(index): times for index, times in failures.items()}
            self.deaths = {int(index): times for index, times in deaths.items()}
            self.waits = {int(index): Wait(*wait).after_restart(now_ms, moved_ms) for index, wait in waits.items()}
        except (ValueError, TypeError, AttributeError, RecursionError) as cause:
            raise StoreDamaged(f"progress of packet {self.number} cannot be read") from cause

    def next_waiting(self) -> tuple[int, int]:
        """The next neighbours that are not acknowledged: the first of them, and the index behind the last.

        Those that are acknowledged were so before a restart. One that had to wait before it, or whose reader died,
        is handed out by itself.
        """
        first = self.next_index
        if not (self.acked or self.waits or self.deaths):
            return first, self.count
        rest = self.acked >> first
        while rest & 1:
            first, rest = first + 1, rest >> 1
        end = first + (rest & -rest).bit_length() - 1 if rest else self.count
        apart = (self.waits or {}).keys() | (self.deaths or {}).keys()
        if first in apart:
            end = min(end, first + 1)
        return first, min((index for index in apart if first < index < end), default=end)

    def failures_of(self, index: int) -> int:
        """How often a message was given back as failed."""
        return self.failures.get(index, 0) if self.failures else 0

    def count_failure(self, index: int) -> int:
        """A message was given back as failed, or its reader died. Returns how often that happened to it."""
        failures = self.failures_of(index) + 1
        self.failures = {**(self.failures or {}), index: failures}
        return failures

    def count_death(self, index: int) -> int:
        """The reader of a message died, which is a failure as well. Returns how many failures there were."""
        self.deaths = {**(self.deaths or {}), index: self.deaths_of(index) + 1}
        return self.count_failure(index)

    def deaths_of(self, index: int) -> int:
        """How often the reader of a message died."""
        return self.deaths.get(index, 0) if self.deaths else 0

    def keep_back(self, index: int, wait: Wait) -> None:
        """A message has to wait."""
        self.waits = {**(self.waits or {}), index: wait}

    def wait_of(self, index: int, now_ms: int) -> Wait | None:
        """What keeps a message back now."""
        wait = self.waits.get(index) if self.waits else None
        return wait if wait is not None and wait.until_ms > now_ms else None


@dataclass(slots=True)
class Lease:
    """One message in the hands of the application. ``redelivered``: it may have been handed out before."""

    packet: QueuedPacket
    index: int
    redelivered: bool

    @property
    def body(self) -> bytes:
        """The message's body. Raises ProtocolError when pieces do not make a message."""
        return self.packet.open().bodies[self.index]


def bits_of(indices: range) -> int:
    """Neighbouring messages of a packet as bits, one for each index."""
    return (1 << len(indices)) - 1 << indices.start


def indices_of(bits: int) -> list[int]:
    """The indices whose bits are set, ascending."""
    return [index for index in range(bits.bit_length()) if bits >> index & 1]


def merge(rows: list[QueuedPacket], charged_bytes: int) -> QueuedPacket:
    """The packets of a large message, ascending, as one; ``charged_bytes`` is what all of it counts for."""
    first = rows[0]
    whole = all(row.pieces for row in rows)
    return QueuedPacket(
        keys=[key for row in rows for key in row.keys],
        origin=first.origin,
        lane=first.lane,
        sequence=first.sequence,
        number=rows[-1].number,
        delivery=first.delivery,
        count=1,
        size_bytes=sum(row.size_bytes for row in rows),
        pieces=[piece for row in rows for piece in row.pieces] if whole else [],
        acked=first.acked,
        failures=first.failures,
        deaths=first.deaths,
        waits=first.waits,
        redelivered=first.redelivered,
        sent_at_ms=first.sent_at_ms,
        receive_by_ms=first.receive_by_ms,
        charged_bytes=charged_bytes,
    )
