"""Keys of senders: a message sent with the key of an accepted message is that message again.

Promise: a key is in the commit of its message, so that a killed process has both or neither. A key counts for one queue
of one peer, for ``lifetime_s`` from the acceptance on. If the clock was set between two starts, and by how much is
known (``base/clock``), that changes nothing. As long as a key counts, it also knows whether its message became a dead
letter.
"""

import json
import operator
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from triack.base.commit import OWN_STATE, Commit, kept_under
from triack.base.errors import StoreDamaged
from triack.base.units import MS, in_ns
from triack.ordering.outgoing import StreamPacket
from triack.queues.node_settings import KeySettings
from triack.queues.streams.outgoing_stream import OutgoingStream

KEY_BYTES_MAX = 255
"""A file name's length: room for a UUID, a hash, or a path with a line number."""

_PREFIX = f"{OWN_STATE}key:"


@dataclass(slots=True)
class Accepted:
    """A message that was accepted with a key.

    Attributes:
        peer, queue: where it goes.
        stream: stream and sequence of its stream.
        outgoing: its outgoing stream; None when that has ended.
        accepted_ms: wall clock of the acceptance.
        ticket: its ticket in its outgoing stream; None when it was settled before this start, or its stream has ended.
        number: number of its packet, the last one of a large message; 0 before it is in one.
        index: its index among the messages of the packet.
        reason: why it became a dead letter; empty when it has not.
    """

    key: str
    peer: str
    queue: str
    stream: tuple[int, int]
    outgoing: OutgoingStream | None
    ordinal: int
    accepted_ms: int
    ticket: int | None
    number: int = 0
    index: int = 0
    reason: str = ""

    @property
    def name(self) -> tuple[str, str, str]:
        """The scope of the key: peer, queue, key."""
        return self.peer, self.queue, self.key

    @property
    def destination(self) -> str:
        """Where it goes, as senders write it."""
        return f"{self.peer}/{self.queue}" if self.peer else self.queue

    @property
    def row(self) -> str:
        """The name under which it is stored."""
        stream, sequence = self.stream
        return f"{_PREFIX}{stream}.{sequence}:{self.key}"

    def write(self, commit: Commit) -> None:
        """Keep it with a commit."""
        value = [self.accepted_ms, self.ordinal, self.number, self.index, self.reason, self.peer, self.queue]
        commit.state[self.row] = json.dumps(value).encode()


class KeptKey(NamedTuple):
    """A stored key, with the fields of ``Accepted``; ``place`` is its ``index``."""

    stream: tuple[int, int]
    key: str
    accepted_ms: int
    ordinal: int
    number: int
    place: int
    reason: str
    peer: str
    queue: str

    @classmethod
    def read(cls, name: str, value: bytes) -> "KeptKey":
        """Read what ``Accepted.write`` wrote. Raises StoreDamaged."""
        where, _, key = name.removeprefix(_PREFIX).partition(":")
        try:
            stream, sequence = map(int, where.split("."))
            *numbers, reason, peer, queue = json.loads(value)
            accepted_ms, ordinal, number, place = map(operator.index, numbers)
            found = cls((stream, sequence), key, accepted_ms, ordinal, number, place, reason, peer, queue)
        except (ValueError, TypeError, RecursionError) as cause:
            raise StoreDamaged(f"what the store has of {name} cannot be read") from cause
        if not all(type(text) is str for text in (reason, peer, queue)):
            raise StoreDamaged(f"what the store has of {name} has no reason, or no queue")
        return found


class AcceptedKeys:
    """The keys of one node. The settings say how long a key counts, and how many there may be."""

    def __init__(self, settings: KeySettings) -> None:
        self._lifetime_ms = -(-in_ns(settings.lifetime_s) // MS)
        self._most = settings.most
        # In the order of acceptance: the first ends first.
        self._by_name: dict[tuple[str, str, str], Accepted] = {}
        self._by_ordinal: dict[int, Accepted] = {}
        self._by_stream: dict[tuple[int, int], dict[int, Accepted]] = {}
        self._unpacked: list[Accepted] = []

    def restore(
        self,
        state: Mapping[str, bytes],
        by_number: Mapping[int, OutgoingStream],
        now_ms: int,
        commit: Commit,
        *,
        moved_ms: int = 0,
    ) -> None:
        """Restore the keys from the store, after the outgoing streams have their packets. Raises StoreDamaged.

        If the clock was moved since, the times of acceptance move with it, and the commit stores them. A time of
        acceptance that is in the future, for whatever reason, becomes now: otherwise the key would not age.
        """
        found: list[Accepted] = []
        for name, value in kept_under(state, _PREFIX):
            row = KeptKey.read(_PREFIX + name, value)
            stream, sequence = row.stream
            outgoing = by_number.get(stream)
            if outgoing is not None and outgoing.sequence.sequence != sequence:
                outgoing = None
            entry = None if outgoing is None else outgoing.sequence.entries.get(row.number)
            ticket = None if entry is None else entry.first_ticket + row.place
            at_ms = min(row.accepted_ms + moved_ms, now_ms)
            where = row.peer, row.queue, row.stream, outgoing
            found.append(Accepted(row.key, *where, row.ordinal, at_ms, ticket, row.number, row.place, row.reason))
            if at_ms != row.accepted_ms:
                found[-1].write(commit)
        for accepted in sorted(found, key=lambda accepted: (accepted.accepted_ms, accepted.ordinal)):
            self._keep(accepted)

    def find(self, outgoing: OutgoingStream, key: str, now_ms: int) -> Accepted | None:
        """The message that was accepted with that key, if the key still counts."""
        accepted = self._by_name.get((outgoing.peer, outgoing.queue, key))
        return None if accepted is None or self._is_over(accepted, now_ms) else accepted

    def of_ordinal(self, ordinal: int, now_ms: int) -> Accepted | None:
        """The message with that ordinal, if it was accepted with a key that still counts."""
        accepted = self._by_ordinal.get(ordinal)
        return None if accepted is None or self._is_over(accepted, now_ms) else accepted

    def with_key(self, key: str, now_ms: int) -> list[Accepted]:
        """The messages that were accepted with a key that still counts, whatever their queue is."""
        return [it for it in self._by_name.values() if it.key == key and not self._is_over(it, now_ms)]

    def full_for_ms(self, now_ms: int, count: int = 1) -> int:
        """How long until there is room for ``count`` more keys; 0 when there is. At least a lifetime if there never is.

        Keys end in the order of their acceptance.
        """
        over = len(self._by_name) + count - self._most
        if over <= 0:
            return 0
        last = next(islice(self._by_name.values(), over - 1, None), None)
        return self._lifetime_ms if last is None else max(0, last.accepted_ms + self._lifetime_ms - now_ms)

    def add(self, accepted: Accepted, commit: Commit) -> None:
        """Add the key of an accepted message to its commit, which also deletes keys that have ended."""
        for over in self._take_over(accepted.accepted_ms):
            commit.state[over.row] = None
        self._keep(accepted)
        self._unpacked.append(accepted)

    def handle_packed(self, outgoing: OutgoingStream, entries: list[StreamPacket], commit: Commit) -> None:
        """The messages submitted to a queue are in packets now, which go into this commit."""
        if not self._unpacked:
            return
        mine = [accepted for accepted in self._unpacked if accepted.outgoing is outgoing]
        self._unpacked = [accepted for accepted in self._unpacked if accepted.outgoing is not outgoing]
        # All fragments of a large message have its ticket; the last one is meant.
        starts = [entry.first_ticket for entry in entries]
        for accepted in mine:
            assert accepted.ticket is not None
            entry = entries[bisect_right(starts, accepted.ticket) - 1]
            accepted.number, accepted.index = entry.number, accepted.ticket - entry.first_ticket
            accepted.write(commit)

    def handle_dead(self, ordinal: int, reason: str, commit: Commit) -> None:
        """A message becomes a dead letter with this commit."""
        accepted = self._by_ordinal.get(ordinal)
        if accepted is not None:
            accepted.reason = reason
            accepted.write(commit)

    def handle_ended(self, outgoing: OutgoingStream) -> None:
        """An outgoing stream has ended: keys of its messages no longer refer to it."""
        for accepted in self._by_stream.pop((outgoing.stream_number, outgoing.sequence.sequence), {}).values():
            accepted.outgoing = accepted.ticket = None

    def _is_over(self, accepted: Accepted, now_ms: int) -> bool:
        return now_ms >= accepted.accepted_ms + self._lifetime_ms

    def _take_over(self, now_ms: int) -> list[Accepted]:
        over: list[Accepted] = []
        for accepted in self._by_name.values():
            if not self._is_over(accepted, now_ms):
                break
            over.append(accepted)
        for accepted in over:
            del self._by_name[accepted.name]
            del self._by_ordinal[accepted.ordinal]
            of_stream = self._by_stream.get(accepted.stream, {})
            of_stream.pop(accepted.ordinal, None)
            if not of_stream:
                self._by_stream.pop(accepted.stream, None)
        return over

    def _keep(self, accepted: Accepted) -> None:
        self._by_name[accepted.name] = accepted
        self._by_ordinal[accepted.ordinal] = accepted
        if accepted.outgoing is not None:
            self._by_stream.setdefault(accepted.stream, {})[accepted.ordinal] = accepted
