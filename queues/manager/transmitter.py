"""Transmission: packets from links to sessions, and datagrams from sessions to addresses.

Nothing is polled: a conversation with something to do puts itself into a ready set (``Conversation.wake``), one that
waits for a moment into ``Deadlines``; all others cost nothing.

Datagrams to one address leave together, and the system may carry them as one, and lose them as one. A resent packet
leaves by itself, so that the cause that lost a run of packets does not lose their retransmission as well. It keeps its
place among the others: if a peer acknowledges a later datagram first, it looks lost again.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from triack.base.clock import WallClock
from triack.base.datagram import Kind
from triack.base.delivery import Delivery
from triack.queues.deadlines import Deadlines
from triack.queues.manager.link_news import News
from triack.queues.manager.pings import CLOCK, CLOCK_BYTES, Pings
from triack.queues.manager.recorder import Recorder
from triack.queues.peers.handshake import Handshakes
from triack.queues.peers.link import Conversation, Link
from triack.queues.peers.path import CHALLENGE_BYTES
from triack.queues.schedule import Phase, Schedule
from triack.queues.streams.departing_streams import DepartingStreams
from triack.queues.streams.group_commit import Turn
from triack.queues.streams.incoming_stream import IncomingStream
from triack.queues.streams.outbox import Outbox
from triack.queues.streams.outgoing_stream import OutgoingStream
from triack.queues.transit.transits import Transits
from triack.session.protocol.events import Transmit, TransmitKind, TransmitRun
from triack.session.protocol.states import SessionState
from triack.session.protocol.timers import Timer

_KINDS = {TransmitKind.CONNECT: Kind.CONNECT, TransmitKind.ACCEPT: Kind.ACCEPT, TransmitKind.DATA: Kind.DATA}


class Giving(IntEnum):
    """What sessions are given to send, besides their own frames."""

    NOTHING = 0
    ANSWERS = 1
    """The node closes: order acks and rejections, and no packets of its own."""
    ALL = 2


@dataclass(eq=False, repr=False)
class Transmitter:
    """Serves the conversations of a node.

    Args:
        news: reports peers that do not answer.
        report: called with a conversation whose session has something to report.
        recorder: of the session log, or None.

    Attributes:
        deadlines: when conversations must be served again.
        acks: session and store acks that left, by name and trigger.
        giving: what sessions are given now.
        leaving: addresses, and the datagrams that go there together; the engine takes them with each poll.
    """

    handshakes: Handshakes
    outbox: Outbox
    transits: Transits
    news: News
    report: Callable[[Conversation], None]
    recorder: Recorder | None
    pings: Pings
    wall: WallClock

    def __post_init__(self) -> None:
        self.deadlines = Deadlines[Conversation]()
        self.acks: Counter[tuple[str, str]] = Counter()
        self.giving = Giving.ALL
        self.leaving: list[tuple[str, list[bytes]]] = []
        self._batches: dict[str, list[bytes]] = {}

    def register(self, schedule: Schedule) -> None:
        """Register when sessions are looked at, and peers are called."""
        schedule.timer(self.handle_timer, self.deadlines)
        schedule.step(Phase.CALL, self._call, self.outbox.links.awake)
        schedule.step(Phase.SEND, self._send_all, self.handshakes.awake, self.handshakes.replies)

    def _call(self, turn: Turn) -> bool:
        """Call the peers for which something waits. Returns whether there are any."""
        links = self.outbox.links
        wanting = links.poll_wanting(self.outbox.deadlines, turn.now_ns) if self.giving is Giving.ALL else []
        self.connect(wanting, turn.now_ns)
        return bool(wanting)

    def handle_timer(self, turn: Turn) -> None:
        """Run the timers of every session that is due."""
        for conversation in self.deadlines.poll_due(turn.now_ns):
            # A half-open conversation may have been dropped for others.
            if conversation.session.connection_id not in self.handshakes.conversations:
                continue
            conversation.session.handle_timer(turn.now_ns)
            self.news.look_at(conversation)
            conversation.wake()
            self.report(conversation)

    def connect(self, links: Iterable[Link], now_ns: int) -> None:
        """Begin a session for each of these links."""
        for link in links:
            self.handshakes.connect(link, now_ns)
            self.news.handle_called(link, self.handshakes.reach.waits_for(link))

    def _send_all(self, turn: Turn) -> None:
        """Add everything to send now to what leaves."""
        paced: dict[Conversation, None] = {}
        ready, conversations = self.handshakes.awake, self.handshakes.conversations
        while ready:
            # Closing one session can give another one something to do.
            awake = list(ready)
            ready.clear()
            for conversation in awake:
                if conversation.session.connection_id in conversations:
                    self._serve(conversation, turn.now_ns)
                    if Timer.PACING in conversation.session.timers:
                        paced[conversation] = None
        if paced:
            # Credit grows with time: any later poll may release a packet, and timers of the system are coarse.
            ready.update(paced)
        if replies := self.handshakes.replies:
            for address, datagram in replies:
                self._batch(address).append(datagram)
            replies.clear()
        self._batches = {}

    def _batch(self, address: str) -> list[bytes]:
        """The datagrams that leave together for an address, and last so far."""
        if address not in self._batches:
            self._batches[address] = []
            self.leaving.append((address, self._batches[address]))
        return self._batches[address]

    def _serve(self, conversation: Conversation, now_ns: int) -> None:
        session = conversation.session
        if session.events:
            # A session that drains may have closed when the disk, not a datagram, freed its last packet.
            self.report(conversation)
        self.fill(conversation, now_ns)
        session.commit_serial = self.handshakes.history.committed
        while (transmit := session.poll_transmit(now_ns)) is not None:
            if type(transmit) is TransmitRun:
                self._send_run(conversation, transmit, now_ns)
            elif type(transmit) is Transmit:
                self._send(conversation, transmit, now_ns)
        if (conversation.paths is not None or self.pings.waiting) and conversation.is_live:
            self._look_for(conversation, now_ns)
        if session.state is SessionState.CLOSED:
            self.deadlines.set(conversation, None)
            self.handshakes.remove(conversation)
        else:
            is_settled = conversation.paths is None
            self.deadlines.set(conversation, session.next_deadline() if is_settled else conversation.next_deadline())

    def route(self, stream: IncomingStream) -> Conversation | None:
        """The conversation for an order ack: the one its packets came by, or another with the same node."""
        via = stream.via
        if via is not None and via.is_open:
            return via
        if stream.relay:
            return self.handshakes.index.open_with(stream.relay)
        if not stream.heard:
            return via
        return next((other for other in self.handshakes.index.with_node(stream.origin) if other.is_open), None)

    def fill(self, conversation: Conversation, now_ns: int) -> None:
        """Give a session as many packets as its window accepts."""
        session, giving = conversation.session, self.giving
        while conversation.control is not None and giving >= Giving.ANSWERS and session.room:
            answer = conversation.take_control()
            session.send_packet(Delivery.EXPRESS, answer.content, answer)
        link = conversation.link
        if giving < Giving.ALL or link is None or link.conversation is not conversation:
            return
        while link.turns.groups and (room := session.room) and (turn := link.next_turn()) is not None:
            stream, packets = turn
            source: DepartingStreams[Any] = self.outbox if isinstance(stream, OutgoingStream) else self.transits
            source.give(stream, link, session, min(room, packets), now_ns)

    def _send(self, conversation: Conversation, transmit: Transmit, now_ns: int) -> None:
        counter = transmit.counter
        if transmit.kind is TransmitKind.ACCEPT:
            counter = conversation.connect_counter
        data = conversation.channel.seal(
            _KINDS[transmit.kind], transmit.connection_id, counter, transmit.payload, now_ns
        )
        if transmit.packet is not None and transmit.packet.sends > 1:
            self._batches.pop(conversation.path, None)
            self.leaving.append((conversation.path, [data]))
        else:
            self._batch(conversation.path).append(data)
        if transmit.ack is not None:
            self.acks["session", transmit.ack.trigger] += 1
        if transmit.store_ack is not None:
            self.acks["store", transmit.store_ack.trigger] += 1
        if self.recorder is not None:
            self.recorder.add_transmit(conversation.label, transmit, now_ns)

    def _send_run(self, conversation: Conversation, run: TransmitRun, now_ns: int) -> None:
        batch = self._batch(conversation.path)
        batch += conversation.channel.seal_run(run.connection_id, run.counter, run.payloads, now_ns)
        if self.recorder is not None:
            self.recorder.add_run_sent(conversation.label, run.packets, now_ns)

    def _look_for(self, conversation: Conversation, now_ns: int) -> None:
        """Answer a challenge of the peer, challenge its candidate address, and send pings."""
        for question in self.pings.poll(conversation, now_ns):
            self._challenge(Kind.CHALLENGE, conversation, conversation.path, question, now_ns)
        paths, overhead_bytes = conversation.paths, conversation.channel.overhead_bytes
        if paths is None:
            return
        while (answer := paths.poll_answer()) is not None:
            self._challenge(Kind.RESPONSE, conversation, *answer, now_ns)
        challenge = paths.poll_challenge(overhead_bytes + CHALLENGE_BYTES + CLOCK_BYTES, now_ns)
        if challenge is not None:
            self._challenge(Kind.CHALLENGE, conversation, *challenge, now_ns)
        if paths.is_settled:
            conversation.paths = None

    def _challenge(self, kind: Kind, conversation: Conversation, address: str, content: bytes, now_ns: int) -> None:
        payload = content + CLOCK.pack(self.wall.ms(now_ns) if kind is Kind.RESPONSE else 0)
        data = conversation.channel.seal(kind, *conversation.session.take_counter(), payload, now_ns)
        self._batch(address).append(data)
