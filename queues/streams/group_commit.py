"""Group commit: everything that happens while the disk is busy becomes one commit.

Promise: nothing in it becomes visible before the commit has returned.
"""

from dataclasses import dataclass, field
from typing import final

from triack.base.delivery import Delivery
from triack.ordering.outgoing import StreamPacket
from triack.ordering.transit import TransitPacket
from triack.ordering.wire import EndPacket, SequenceHeader
from triack.queues.mailboxes.local_commit import LocalCommit
from triack.queues.peers.link import Conversation
from triack.queues.streams.incoming_stream import Arrival, IncomingStream
from triack.queues.streams.outgoing_stream import OutgoingStream
from triack.queues.streams.transit_stream import TransitStream

AcceptedRun = tuple[int, int, int, int]
"""Successive packets of a stream: sequence, first number, last number, number of messages in them."""
REFUSED = -1
"""Takes the place of the message count for rejected packets."""


@final
@dataclass(slots=True)
class GroupCommit(LocalCommit):
    """The next commit, and what to do when it has returned.

    Attributes:
        started: packets of outgoing streams that it holds: send them.
        dead_lettered: packets whose messages it moves to the dead-letter queue, with the reason: forget them.
        ending: streams whose end it holds: notify their destinations.
        over: streams whose rows it deletes: their numbers are free.
        bridged: messages that bridges brought from brokers, by outgoing stream, bridge and rule: for the session log.
        accepted: received packets of each stream that it holds: acknowledge them. A rejected packet has its own run,
            with ``REFUSED`` for its messages.
        stored: received packets by conversation whose content or position it holds: store-acknowledge them.
        refused: received packets whose rejections it holds: notify their origins.
        ended: streams that have ended, by what their origins say; it deletes those that were known here: answer.
        passed_on: packets in transit that it holds, and the node that they came from: pass them on.
        dead_in_transit: those whose messages it moves to the dead-letter queue: forget them.
        departed: streams in transit whose departed packets it deletes; until then a restart would find these.
        transacted: whether an application's transaction is in it.
    """

    started: list[tuple[OutgoingStream, list[StreamPacket]]] = field(default_factory=list)
    dead_lettered: list[tuple[OutgoingStream, list[StreamPacket], str]] = field(default_factory=list)
    ending: list[OutgoingStream] = field(default_factory=list)
    over: list[OutgoingStream] = field(default_factory=list)
    bridged: dict[tuple[OutgoingStream, str, str], list[range]] = field(default_factory=dict)
    accepted: dict[IncomingStream, list[AcceptedRun]] = field(default_factory=dict)
    stored: dict[Conversation, list[int]] = field(default_factory=dict)
    refused: list[tuple[Arrival, SequenceHeader, str]] = field(default_factory=list)
    ended: list[tuple[Conversation, EndPacket, IncomingStream | None]] = field(default_factory=list)
    passed_on: list[tuple[TransitStream, list[TransitPacket], bytes]] = field(default_factory=list)
    dead_in_transit: list[tuple[TransitStream, list[TransitPacket]]] = field(default_factory=list)
    departed: list[TransitStream] = field(default_factory=list)
    transacted: bool = False

    def __bool__(self) -> bool:
        return bool(self.commit or self.stored or self.accepted or self.refused or self.ended or self.waiters)

    @property
    def is_awaited(self) -> bool:
        """Whether anything waits for it. Plain deletions do not: the next commit can do them as well."""
        return bool(self.stored or self.accepted or self.has_waiters or self.commit.adds)

    @property
    def has_waiters(self) -> bool:
        """Whether anything but what it adds waits for it."""
        return bool(
            self.stored
            or self.accepted
            or self.waiters
            or self.refused
            or self.ended
            or self.dead_lettered
            or self.dead_in_transit
        )

    def note_taken(self, outgoing: OutgoingStream, tickets: range, bridge: str, where: str) -> None:
        """A bridge brought messages from its broker."""
        known = self.bridged.setdefault((outgoing, bridge, where), []) if tickets else []
        if known and known[-1].stop == tickets.start:
            tickets = range(known.pop().start, tickets.stop)
        known.append(tickets)

    def store_ack(self, conversation: Conversation, packet: int) -> None:
        """Store-acknowledge a packet when it has returned."""
        self.stored.setdefault(conversation, []).append(packet)

    def is_synced(self, *, transactional: bool, other: bool) -> bool:
        """Whether it must be on the disk when it returns: if transactional messages must be, and if others must."""
        if transactional is other:
            return other
        commit = self.commit
        classes = {row.delivery for row in commit.messages}
        classes.update([stream.delivery for stream in (*self.ending, *self.over)])
        classes.update([stream.delivery for stream, _ in self.started])
        classes.update([stream.delivery for stream, _, _ in self.dead_lettered])
        classes.update([stream.delivery for stream in self.accepted])
        classes.update([stream.delivery for stream, _, _ in self.passed_on])
        classes.update([stream.delivery for stream, _ in self.dead_in_transit])
        is_more = self.refused or self.ended or commit.state or commit.subscriptions or commit.addresses
        is_transactional = self.transacted or bool(is_more) or Delivery.TRANSACTIONAL in classes
        is_other = not is_transactional or Delivery.RECOVERABLE in classes
        is_other = is_other or bool(commit.message_deletes or commit.progress)
        return (transactional and is_transactional) or (other and is_other)


Turn = GroupCommit
"""One call: its time, and the commit to which it adds. Not kept after the call, as the time moves on."""


def fold(numbers: list[AcceptedRun], *, bridge: bool) -> list[AcceptedRun]:
    """Join successive runs. With ``bridge`` a run may span expired numbers; no run spans a rejected one."""
    runs: list[AcceptedRun] = []
    ends = True
    for sequence, first, last, count in numbers if bridge else sorted(numbers):
        if count == REFUSED:
            ends = True
        elif not ends and runs[-1][0] == sequence and (bridge or runs[-1][2] + 1 == first):
            runs[-1] = (sequence, runs[-1][1], last, runs[-1][3] + count)
        else:
            runs.append((sequence, first, last, count))
            ends = False
    return runs
