"""A queue of this node: messages that have arrived and wait for the application.

Promise: messages are handed out in the order in which their packets were put; each stays until it is acknowledged,
and what is returned comes again before anything younger. It knows packets ("parcels") and indices within them, not
message objects, and keeps bodies in memory only up to a limit: older ones are fetched from the store again when their
turn comes.

A message of a parcel is WAITING, then HANDED, then DONE; or HANDED and WAITING again when it is returned.
"""

import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush

from triack.base.delivery import Delivery
from triack.queues.packing import Unpacked, count_of, fragment_range, join_fragments, read_fragment, unpack

__all__ = ["Lease", "Mailbox", "QueuedPacket"]

CACHE_BYTES = 16 * 1024 * 1024
"""Bodies that one queue keeps in memory."""
FETCH_AHEAD_BYTES = 2 * 1024 * 1024
PARTIAL_MAX = 256
"""Unfinished large express messages of one stream; older ones are given up."""


@dataclass(slots=True, eq=False)
class QueuedPacket:
    """One packet of messages, or one large message of several packets.

    Attributes:
        keys: store keys of its rows; empty for express.
        count: how many messages it holds.
        pieces: bodies of its rows; empty while only the disk has them.
        acked: bit i is set when message i is done.
        failures: how often message i was returned as failed.
        redelivered: whether its messages may have been handed out before, in an earlier life of the process.
        serial: its place in the queue.
    """

    keys: list[int]
    origin: bytes
    lane: int
    sequence: int
    number: int
    delivery: int
    count: int
    size_bytes: int
    pieces: list[bytes]
    next_index: int = 0
    acked: int = 0
    failures: dict[int, int] = field(default_factory=dict)
    redelivered: bool = False
    serial: int = 0
    content: Unpacked | None = None

    @property
    def done(self) -> bool:
        """Whether every message is acknowledged."""
        return self.acked == (1 << self.count) - 1

    def open(self) -> Unpacked:
        """The messages. Raises ProtocolError when pieces do not make a message."""
        if self.content is None:
            pieces = self.pieces
            whole = pieces[0] if len(pieces) == 1 else join_fragments([read_fragment(piece) for piece in pieces])
            self.content = unpack(whole)
        return self.content

    def encode_progress(self) -> bytes:
        """What must survive a restart of a parcel that is partly done."""
        return json.dumps([hex(self.acked), self.failures]).encode()

    def decode_progress(self, progress: bytes) -> None:
        """Take what ``encode_progress`` wrote."""
        acked, failures = json.loads(progress)
        self.acked = int(acked, 16)
        self.failures = {int(index): times for index, times in failures.items()}


@dataclass(slots=True)
class Lease:
    """One message in the hands of the application. ``redelivered``: it may have been handed out before."""

    parcel: QueuedPacket
    index: int
    redelivered: bool


@dataclass(slots=True)
class _Partial:
    total_bytes: int
    rows: dict[int, QueuedPacket]
    have_bytes: int = 0
    last_number: int = 0


class Mailbox:
    """One queue.

    Args:
        queue_id: its number in the store.
        name: its name.
        next_position: where the next packet goes.
    """

    __slots__ = (
        "_again",
        "_partials",
        "_ready",
        "_serial",
        "cached_bytes",
        "dirty",
        "fetching",
        "length",
        "listeners",
        "name",
        "next_position",
        "queue_id",
    )

    def __init__(self, queue_id: int, name: str, next_position: int = 1) -> None:
        self.queue_id = queue_id
        self.name = name
        self.next_position = next_position
        self.length = 0
        self.cached_bytes = 0
        self.fetching = False
        self.listeners: list[Callable[[], None]] = []
        self.dirty: dict[int, QueuedPacket] = {}
        self._ready: deque[QueuedPacket] = deque()
        self._again: list[tuple[int, int, Lease]] = []
        self._partials: dict[tuple[bytes, int], dict[int, _Partial]] = {}
        self._serial = 0

    # ---- filling

    def put(self, parcel: QueuedPacket, head: bytes) -> list[int]:
        """Add a packet whose commit has returned (express: has arrived).

        Args:
            parcel: one row.
            head: the first bytes of its body, enough to know what it is.

        Returns:
            Keys of rows that this makes worthless: pieces of large messages that will never be whole.
        """
        fragment = fragment_range(head, parcel.size_bytes)
        worthless = self._drop_dead(parcel, fragment[0] if fragment else None)
        if fragment is None:
            parcel.count = count_of(head)
            self._add(parcel)
        else:
            self._put_fragment(parcel, *fragment)
        return worthless

    def _drop_dead(self, parcel: QueuedPacket, ordinal: int | None) -> list[int]:
        """In an ordered stream, an unfinished message is dead as soon as something else follows: its rest expired."""
        partials = self._partials.get((parcel.origin, parcel.lane))
        if not partials or parcel.delivery != Delivery.TRANSACTIONAL:
            return []
        dead = [partials.pop(other) for other in list(partials) if other != ordinal]
        return [key for partial in dead for row in partial.rows.values() for key in row.keys]

    def drop_unfinished(self, origin: bytes, lane: int, floor: int) -> list[int]:
        """Drop unfinished messages of which nobody sends a packet any more, all being numbered up to ``floor``.

        Returns:
            Keys of their rows, now worthless.
        """
        partials = self._partials.get((origin, lane))
        if not partials:
            return []
        dead = [ordinal for ordinal, partial in partials.items() if 0 < partial.last_number <= floor]
        return [key for ordinal in dead for row in partials.pop(ordinal).rows.values() for key in row.keys]

    def _put_fragment(self, parcel: QueuedPacket, ordinal: int, offset: int, length: int, total_bytes: int) -> None:
        partials = self._partials.setdefault((parcel.origin, parcel.lane), {})
        partial = partials.setdefault(ordinal, _Partial(total_bytes, {}))
        if parcel.delivery == Delivery.EXPRESS and len(partials) > PARTIAL_MAX:
            del partials[next(iter(partials))]
        if offset not in partial.rows and partial.total_bytes == total_bytes:
            partial.rows[offset] = parcel
            partial.have_bytes += length
            if offset == 0:
                partial.last_number = parcel.number - 1 - (-total_bytes // length)
            elif offset + length == total_bytes:
                partial.last_number = parcel.number
        if partial.have_bytes == partial.total_bytes:
            partials.pop(ordinal, None)
            self._add(_merge([partial.rows[at] for at in sorted(partial.rows)]))

    def _add(self, parcel: QueuedPacket) -> None:
        self.length += parcel.count - parcel.acked.bit_count()
        if parcel.done:
            self.dirty[id(parcel)] = parcel
            return
        if parcel.pieces:
            if parcel.keys and self.cached_bytes > CACHE_BYTES:
                parcel.pieces = []
            else:
                self.cached_bytes += parcel.size_bytes
        self._serial += 1
        parcel.serial = self._serial
        self._ready.append(parcel)
        self.wake()

    def wake(self) -> None:
        """Tell the listeners that there may be something to take."""
        for listener in self.listeners:
            listener()

    def load(self, bodies: dict[int, bytes]) -> None:
        """Take bodies that were fetched from the store."""
        self.fetching = False
        for waiting in self._ready:
            if waiting.keys and not waiting.pieces:
                if any(key not in bodies for key in waiting.keys):
                    break
                waiting.pieces = [bodies[key] for key in waiting.keys]
                self.cached_bytes += waiting.size_bytes
        self.wake()

    def poll_fetch(self) -> list[int]:
        """Keys of the bodies to fetch next, or nothing."""
        if self.fetching or not self._ready or self._ready[0].pieces:
            return []
        keys: list[int] = []
        size_bytes = 0
        for parcel in self._ready:
            if parcel.pieces or size_bytes > FETCH_AHEAD_BYTES:
                break
            keys.extend(parcel.keys)
            size_bytes += parcel.size_bytes
        self.fetching = True
        return keys

    # ---- handing out

    def take(self) -> Lease | None:
        """The next message, or None when there is none, or its body is still on its way from the disk."""
        if self._again:
            return heappop(self._again)[2]
        while self._ready:
            parcel = self._ready[0]
            if not parcel.pieces:
                return None
            index = parcel.next_index
            parcel.next_index = index + 1
            if parcel.next_index >= parcel.count:
                self._ready.popleft()
                self.cached_bytes -= parcel.size_bytes
            if not parcel.acked >> index & 1:
                return Lease(parcel, index, parcel.redelivered)
        return None

    def take_next(self, parcel: QueuedPacket) -> int:
        """The index of the message that follows in the same parcel, or -1 when ``take`` must decide."""
        index = parcel.next_index
        if self._again or not self._ready or self._ready[0] is not parcel or parcel.acked >> index:
            return -1
        parcel.next_index = index + 1
        if parcel.next_index == parcel.count:
            self._ready.popleft()
            self.cached_bytes -= parcel.size_bytes
        return index

    def acknowledge(self, handed: Lease) -> None:
        """A message is done; a second time does nothing."""
        parcel, bit = handed.parcel, 1 << handed.index
        if parcel.acked & bit:
            return
        parcel.acked |= bit
        self.length -= 1
        self.dirty[id(parcel)] = parcel

    def count_failure(self, handed: Lease) -> int:
        """A message could not be processed. Returns how often that happened to it."""
        parcel, index = handed.parcel, handed.index
        failures = parcel.failures[index] = parcel.failures.get(index, 0) + 1
        self.dirty[id(parcel)] = parcel
        return failures

    def give_back(self, handed: Lease) -> None:
        """A message that is not acknowledged comes again, before anything younger."""
        parcel, index = handed.parcel, handed.index
        if not parcel.acked >> index & 1:
            heappush(self._again, (parcel.serial, index, Lease(parcel, index, redelivered=True)))
            self.wake()


def _merge(rows: list[QueuedPacket]) -> QueuedPacket:
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
        redelivered=first.redelivered,
    )
