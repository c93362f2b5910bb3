"""Streams that stand still: they have something to send, and no turn, or wait for room that nothing will make.

A timer, or the end of its session some minutes later, moves such a stream after all. So other judges see at most that a
message was slow.
"""

from typing import Final, NamedTuple

from triack.base.units import SECOND
from triack.ordering.departing import StreamPacketState
from triack.ordering.hold import HoldState
from triack.ordering.outgoing import OutgoingSequence
from triack.ordering.transit import TransitSequence
from triack.queues.manager.engine import Engine
from triack.queues.peers.link import Link
from triack.queues.streams.outgoing_stream import OutgoingStream
from triack.queues.streams.transit_stream import TransitStream

STILL_NS: Final = 2 * SECOND
LOOK_NS: Final = 1 * SECOND

_UNTAKEN: Final = (StreamPacketState.GIVEN_UP, StreamPacketState.REJECTED)
"""They free room for others as soon as the disk has their dead letters."""
_AT_REST: Final = (StreamPacketState.WAITING_TO_SEND, StreamPacketState.ARRIVED)


class Still(NamedTuple):
    """A stream that stands still, and why."""

    stream: str
    reason: str


class Standstill:
    """What stands still on the nodes of a world."""

    def __init__(self) -> None:
        self.violations: list[tuple[str, str]] = []
        self._told: set[tuple[str, Still]] = set()
        # By node: since when which streams have stood still, and when to look again if none has.
        self._since: dict[str, dict[Still, int]] = {}
        self._next_ns: dict[str, int] = {}

    def forget(self, host: str) -> None:
        """The process of a node has ended."""
        self._since.pop(host, None)

    def look_at(self, host: str, engine: Engine, now_ns: int) -> None:
        """A node has done all that it wanted: what stands still now does so until its next input."""
        before = self._since.get(host)
        if not before and now_ns < self._next_ns.get(host, 0):
            return
        self._next_ns[host] = now_ns + LOOK_NS
        for still, since_ns in (before or {}).items():
            if now_ns - since_ns >= STILL_NS and (host, still) not in self._told:
                self._told.add((host, still))
                sentence = f"{host}: {still.stream} {still.reason}, for {(now_ns - since_ns) / SECOND:.1f} s"
                self.violations.append(("standstill", sentence))
        self._since[host] = {still: (before or {}).get(still, now_ns) for still in _still_of(engine)}


def _still_of(engine: Engine) -> list[Still]:
    if engine.failure is not None or engine.draining:
        return []
    outbox, transits, found = engine.outbox, engine.transits, list[Still]()
    for outgoing in outbox.streams:
        # Until its key is known, or its bodies are read from the disk, a stream waits for these.
        sealed = outgoing.seal is None or not outgoing.seal.missing
        if outgoing.peer and sealed and outgoing not in outbox.wanting:
            found += _judge(outgoing, f"stream {outgoing.stream_number}", outbox.links[outgoing.via])
    for stream in transits.streams:
        if stream.way is not None and stream not in transits.wanting:
            found += _judge(stream, f"stream {stream.id.number} in transit", outbox.links[stream.way.via])
    return found


def _judge(stream: OutgoingStream | TransitStream, name: str, link: Link) -> list[Still]:
    conversation, sequence = link.conversation, stream.sequence
    if stream.paused or link.suspended is not None or conversation is None or not conversation.is_open:
        return []
    if sequence.peek() is not None:
        return [] if stream in link.turns else [Still(name, "has something to send, and no turn")]
    waits = sequence.hold.state is HoldState.GOING and sequence.start.credit == 0 and not _makes_room(sequence)
    return [Still(name, "waits for room, and nothing on its way makes any")] if waits else []


def _makes_room(sequence: OutgoingSequence | TransitSequence) -> bool:
    """Whether an acknowledgement or a removal is still to come that makes room for what waits, or nothing waits."""
    states = {it.state for it in sequence.entries.values()}
    on_disk = isinstance(sequence, TransitSequence) and len(sequence.on_disk)
    return (
        not (on_disk or StreamPacketState.WAITING_TO_SEND in states)
        or not states.isdisjoint(_UNTAKEN)
        or any(it.state not in _AT_REST and not it.taken for it in sequence.entries.values())
    )
