"""Looks at one node from outside and says when it breaks a promise.

The witness believes nothing that the node says of itself: it reads the datagrams that come and go and the commits that
the disk has made durable, and accounts for both. It is part of a state, as it limits what a node may do next.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from proof.search.datagrams import Datagram, describe_packet
from proof.search.inside import conversations
from proof.search.stillness import session_of
from triack.base.commit import Commit, split_key
from triack.base.datagram import Kind
from triack.base.delivery import DURABLE, Delivery
from triack.base.errors import TriackError
from triack.ordering import wire
from triack.queues.manager.engine import Engine
from triack.queues.packing import unpack
from triack.session.protocol.frames import AckFrame, PacketFrame, StoreAckFrame
from triack.session.protocol.states import SessionState

Place = tuple[int, int, int]

_LATER = {
    SessionState.CONNECTING: {SessionState.OPEN, SessionState.DRAINING, SessionState.CLOSED},
    SessionState.ACCEPTING: {SessionState.OPEN, SessionState.DRAINING, SessionState.CLOSED},
    SessionState.OPEN: {SessionState.DRAINING, SessionState.CLOSED},
    SessionState.DRAINING: {SessionState.CLOSED},
    SessionState.CLOSED: set(),
}
"""The states that may follow each state of a session, written down apart from ``session.states``."""


class Violation(TriackError):
    """A promise was broken."""


def sentence(error: Exception) -> str:
    """Describe an error of a node; whatever the engine raises breaks a promise, too."""
    return str(error) if isinstance(error, Violation) else f"{type(error).__name__}: {error}"


@dataclass(slots=True)
class Talk:
    """What was exchanged in one session of the node."""

    session: int
    initiator: bool
    state: SessionState
    peer: int = 0
    sent: dict[int, bytes] = field(default_factory=dict)
    acked: set[int] = field(default_factory=set)
    arrived: dict[int, tuple[Delivery, bytes]] = field(default_factory=dict)
    counter: int = 0


@dataclass(slots=True)
class Witness:
    """The account of one node."""

    window: int
    queued: list[bytes] = field(default_factory=list)
    kept: list[bytes] = field(default_factory=list)
    places: dict[bytes, Place] = field(default_factory=dict)
    durable: dict[Place, None] = field(default_factory=dict)
    bodies: dict[Place, bytes] = field(default_factory=dict)
    read: list[bytes] = field(default_factory=list)
    heard: list[bytes] = field(default_factory=list)
    talks: dict[int, Talk] = field(default_factory=dict)

    # ---- the node's life

    def note_crash(self) -> None:
        """Drop all that was in memory."""
        self.talks.clear()
        self.heard.clear()

    def meet(self, engine: Engine, heard: Datagram | None) -> None:
        """Check every session, after an input or before it."""
        if engine.rollbacks:
            raise Violation(f"a store is taken for an older copy of itself: {', '.join(engine.rollbacks.values())}")
        for connection, conversation in conversations(engine).items():
            session = session_of(conversation)
            talk = self.talks.get(connection)
            if talk is None:
                first = SessionState.CONNECTING if session.initiator else SessionState.ACCEPTING
                talk = self.talks[connection] = Talk(session.session_id, session.initiator, first)
            if session.peer is not None:
                talk.peer = session.peer.connection_id
            if session.state is not talk.state:
                self._check_move(connection, talk, session.state, heard)
                talk.state = session.state

    def _check_move(self, connection: int, talk: Talk, state: SessionState, heard: Datagram | None) -> None:
        if state not in _LATER[talk.state]:
            raise Violation(f"session {talk.session:x} went from {talk.state.value} to {state.value}")
        if state is SessionState.OPEN:
            awaited = Kind.ACCEPT if talk.initiator else Kind.DATA
            spoken = heard is not None and heard.kind is awaited and heard.connection == connection
            if not spoken:
                raise Violation(f"session {talk.session:x} opened without hearing from its peer")

    def forget_gone(self, engine: Engine) -> None:
        """Drop the accounts of sessions that have ended."""
        self.talks = {
            connection: talk for connection, talk in self.talks.items() if connection in conversations(engine)
        }

    # ---- the disk

    def note_commit(self, commit: Commit) -> None:
        """A commit is durable."""
        for row in commit.outgoing:
            stream, number = split_key(row.key)
            for body in unpack(row.body).bodies:
                self.queued.append(body)
                self.places[body] = (stream, commit.streams[stream].sequence, number)
        for message in (packet for row in commit.messages for packet in row.packets()):
            _add_new(self.kept, unpack(message.bodies[0]).bodies)
            self.durable[(message.stream, message.sequence, message.number)] = None

    def note_read(self, body: bytes, *, redelivered: bool, express: bool) -> None:
        """The application got a message."""
        if express:
            _add_new(self.heard, [body])
            return
        if body not in self.kept:
            raise Violation(f"the application got message {body.decode()} before it was on disk")
        if body not in self.read:
            self.read.append(body)
        elif not redelivered:
            raise Violation(f"message {body.decode()} came again and was not marked redelivered")

    # ---- what arrives

    def note_arrival(self, engine: Engine, datagram: Datagram) -> None:
        """The node has taken a datagram."""
        talk, conversation = self.talks.get(datagram.connection), conversations(engine).get(datagram.connection)
        if talk is None or conversation is None or datagram.kind is not Kind.DATA:
            return
        taken = session_of(conversation).ack_sender.received
        for frame in datagram.frames:
            if isinstance(frame, AckFrame) and datagram.session == talk.session:
                talk.acked.update(_covered(frame))
            elif isinstance(frame, PacketFrame) and frame.number in taken and frame.number not in talk.arrived:
                if datagram.session != talk.session:
                    raise Violation(f"session {talk.session:x} took a packet of session {datagram.session:x}")
                talk.arrived[frame.number] = (frame.delivery, frame.content)

    # ---- what leaves

    def note_sending(self, datagram: Datagram) -> None:
        """A datagram leaves the node; its session is filled in."""
        if datagram.kind is not Kind.DATA:
            return
        talk = next((talk for talk in self.talks.values() if talk.peer == datagram.connection), None)
        if talk is None:
            raise Violation(f"a datagram leaves for connection {datagram.connection:x}, which no session has")
        datagram.session = talk.session
        for frame in datagram.frames:
            if isinstance(frame, PacketFrame):
                talk.counter = datagram.counter
                self._check_packet(talk, frame)
            elif isinstance(frame, AckFrame):
                self._check_ack(talk, frame)
            elif isinstance(frame, StoreAckFrame):
                self._check_store_ack(talk, frame)

    def _check_packet(self, talk: Talk, frame: PacketFrame) -> None:
        known = talk.sent.setdefault(frame.number, frame.content)
        if known != frame.content:
            was, now = describe_packet(known), describe_packet(frame.content)
            raise Violation(f"packet {frame.number} of session {talk.session:x} was {was}, and is now {now}")
        unacked = talk.sent.keys() - talk.acked
        if len(unacked) > self.window:
            raise Violation(f"{len(unacked)} packets of session {talk.session:x} are unacknowledged")
        packet = wire.decode(frame.content)
        if isinstance(packet, wire.OrderAckPacket):
            self._check_order_ack(packet)
        elif isinstance(packet, wire.SequenceHeader):
            self._check_number(talk, frame.number, packet)

    def _check_number(self, talk: Talk, number: int, packet: wire.SequenceHeader) -> None:
        place = (packet.stream, packet.sequence, packet.number)
        if self.bodies.setdefault(place, packet.body) != packet.body:
            raise Violation(f"number {packet.number} of sequence {packet.sequence} was used for two packets")
        for other in sorted(talk.sent.keys() - talk.acked - {number}):
            sent = wire.decode(talk.sent[other])
            if isinstance(sent, wire.SequenceHeader) and (sent.stream, sent.sequence, sent.number) == place:
                raise Violation(f"packet {other} of session {talk.session:x} was sent again as packet {number}")

    def _check_order_ack(self, packet: wire.OrderAckPacket) -> None:
        for number in range(1, packet.number + 1):
            if (packet.stream, packet.sequence, number) not in self.durable:
                raise Violation(f"order ack to {packet.number} left, and number {number} is not on disk")

    def _check_ack(self, talk: Talk, frame: AckFrame) -> None:
        for number in _covered(frame):
            if number not in talk.arrived:
                raise Violation(f"session ack of packet {number}, which never arrived in session {talk.session:x}")

    def _check_store_ack(self, talk: Talk, frame: StoreAckFrame) -> None:
        for number in _covered(frame):
            delivery, content = talk.arrived.get(number, (None, b""))
            if delivery is None:
                raise Violation(f"store ack of packet {number}, which never arrived in session {talk.session:x}")
            packet = wire.decode(content)
            if not isinstance(packet, wire.SequenceHeader) or delivery not in DURABLE:
                continue
            if (packet.stream, packet.sequence, packet.number) not in self.durable:
                raise Violation(f"store ack of packet {number}, whose message is not on disk")

    # ---- what the other side must be compared with

    def forgotten(self, engine: Engine, on_disk: set[tuple[int, int]]) -> tuple[bytes, ...]:
        """Queued messages that the node would not send again: it has dropped them, or could not after a crash."""
        held = {
            (outgoing.stream_number, number)
            for outgoing in engine.outbox.streams
            for number in outgoing.sequence.entries
            if (outgoing.stream_number, number) in on_disk
        }
        return tuple(body for body in self.queued if self.places[body][::2] not in held)


def _add_new(messages: list[bytes], bodies: Sequence[bytes]) -> None:
    for body in bodies:
        if body in messages:
            raise Violation(f"message {body.decode()} was accepted twice")
        messages.append(body)


def _covered(frame: AckFrame | StoreAckFrame) -> list[int]:
    above = [number for first, last in frame.ranges for number in range(first, last + 1)]
    return [*range(1, frame.cumulative + 1), *above]
