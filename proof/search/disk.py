"""The durable store as rows in memory: the search runs the shipped engine against it.

A commit is there as a whole or not at all, which is what the store on a real disk promises; other proofs test how it
keeps that promise. A test compares this model with the real store, commit by commit.
"""

from dataclasses import dataclass, field
from typing import TypeVar

from triack.base.commit import (
    CARES,
    HEAD_BYTES,
    Commit,
    MessageIndex,
    MessageRow,
    OutgoingIndex,
    OutgoingRow,
    OutgoingStreamRow,
    PeerRow,
    PositionRow,
    Read,
    StoreContent,
)
from triack.base.names import StreamId

Row = TypeVar("Row")


@dataclass(slots=True)
class Disk:
    """The rows of one node. The fields are the tables; ``node_id`` never changes."""

    node_id: bytes
    incarnation: int = 0
    start: int = 0
    serial: int = 0
    starts: dict[int, int] = field(default_factory=dict)
    peers: dict[bytes, PeerRow] = field(default_factory=dict)
    streams: dict[int, OutgoingStreamRow] = field(default_factory=dict)
    outgoing: dict[int, OutgoingRow] = field(default_factory=dict)
    queues: dict[int, str] = field(default_factory=dict)
    messages: dict[int, MessageRow] = field(default_factory=dict)
    progress: dict[int, bytes] = field(default_factory=dict)
    positions: dict[StreamId, PositionRow] = field(default_factory=dict)
    state: dict[str, bytes] = field(default_factory=dict)

    def apply(self, commit: Commit) -> None:
        """Make a commit durable."""
        self.serial = commit.serial or self.serial
        self.queues.update(commit.queues)
        for stream in commit.stream_deletes:
            self.streams.pop(stream, None)
        for stream_id in commit.position_deletes:
            self.positions.pop(stream_id, None)
        self.streams.update(commit.streams)
        self.outgoing.update((row.key, row) for row in commit.outgoing)
        self.messages.update((row.key, row) for several in commit.messages for row in several.packets())
        self.positions.update(commit.positions)
        self.progress.update(commit.progress)
        self.peers.update(commit.peers)
        self.outgoing = _without(self.outgoing, commit.outgoing_deletes)
        self.messages = _without(self.messages, commit.message_deletes)
        self.progress = _without(self.progress, commit.message_deletes)
        for key, value in commit.state.items():
            if value is None:
                self.state.pop(key, None)
            else:
                self.state[key] = value

    def load(self, start: int) -> StoreContent:
        """Begin an incarnation, with the id ``start``, and read everything but the bodies."""
        content = StoreContent(self.node_id, self.incarnation + 1, start=start, serial=self.serial)
        if self.incarnation:
            self.starts[self.start] = self.serial
        content.starts = dict(self.starts)
        content.peers = dict(sorted(self.peers.items()))
        content.streams = [row for _, row in sorted(self.streams.items())]
        content.outgoing = [
            OutgoingIndex(row.key, row.messages, row.reach_by_ms, len(row.body), row.body[:1] >= bytes([CARES]))
            for _, row in sorted(self.outgoing.items())
        ]
        content.queues = sorted(self.queues.items())
        content.messages = [self._index(row) for _, row in sorted(self.messages.items())]
        content.transit = []  # no relay is searched with a store
        content.positions = [row for _, row in sorted(self.positions.items())]
        content.state = dict(sorted(self.state.items()))
        self.incarnation, self.start = content.incarnation, start
        return content

    def _index(self, row: MessageRow) -> MessageIndex:
        (body,), progress = row.bodies, self.progress.get(row.key)
        stream = row.origin, row.stream, row.sequence, row.number
        return MessageIndex(row.key, *stream, len(body), body[:HEAD_BYTES], progress, row.delivery)

    def read(self, read: Read) -> None:
        """Fetch bodies into ``read.bodies``; a row that is gone is left out."""
        for key in read.keys:
            if read.table == "outgoing" and key in self.outgoing:
                read.bodies[key] = self.outgoing[key].body
            elif read.table == "messages" and key in self.messages:
                read.bodies[key] = self.messages[key].bodies[0]


def _without(rows: dict[int, Row], spans: list[tuple[int, int]]) -> dict[int, Row]:
    if not spans:
        return rows
    return {key: row for key, row in rows.items() if not any(first <= key <= last for first, last in spans)}
