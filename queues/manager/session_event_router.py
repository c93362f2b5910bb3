"""Routes the events of sessions: packets to the inbox, acknowledgements to the outbox."""

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from operator import attrgetter
from typing import Any, Protocol

from triack.base.ack_trigger import AckTerms, AckTrigger
from triack.base.delivery import DURABLE, Ack, Delivery
from triack.base.errors import ProtocolError
from triack.base.paths import address_in
from triack.base.reasons import DropReason, FreedReason
from triack.base.session_log import Record
from triack.ordering import wire
from triack.queues.mailboxes.incoming_run import read_runs
from triack.queues.mailboxes.system_queues import is_subscribed
from triack.queues.manager.jobs import Jobs
from triack.queues.manager.link_news import News
from triack.queues.manager.recorder import Recorder
from triack.queues.packing import check, check_source
from triack.queues.peers.control import Control
from triack.queues.peers.handshake import Handshakes
from triack.queues.peers.link import Conversation
from triack.queues.streams.departing_stream import DepartingContext
from triack.queues.streams.departing_streams import DepartingStreams
from triack.queues.streams.group_commit import Turn
from triack.queues.streams.inbox import Inbox
from triack.queues.streams.outbox import Outbox
from triack.queues.streams.outgoing_stream import OutgoingStream
from triack.queues.transit.transits import Transits
from triack.session.protocol import events
from triack.session.protocol.packets import SessionPacket
from triack.session.protocol.states import CloseReason

_STREAM_OF = attrgetter("stream")


class OnOpened(Protocol):
    """Called with a neighbour whose session is open, and whether it is the first one with a peer of that name."""

    def __call__(self, neighbour: str, now_ns: int, *, is_first: bool) -> None:
        """A session is open."""


@dataclass(eq=False, repr=False)
class SessionEventRouter:
    """Routes the events of a node's sessions.

    Args:
        jobs: has the next commit.
        recorder: of the session log, or None.
        record: writes to the session log, ``record(event, now_ns, **fields)``.

    Attributes:
        closes: sessions that ended, by reason.
    """

    node_id: bytes
    inbox: Inbox
    outbox: Outbox
    transits: Transits
    handshakes: Handshakes
    jobs: Jobs
    news: News
    drops: Counter[DropReason]
    recorder: Recorder | None
    record: Record
    on_opened: OnOpened

    def __post_init__(self) -> None:
        self.closes: Counter[str] = Counter()

    def take(self, conversation: Conversation, turn: Turn) -> None:
        """Handle all events of the session of a conversation."""
        waiting = conversation.session.events
        while waiting:
            event = waiting.pop(0)
            if type(event) is events.RunArrived:
                self._take_run(conversation, event, turn)
            elif type(event) is events.PacketArrived and not event.duplicate and wire.carries_body(event.content):
                run = events.RunArrived(event.number, event.delivery, [event.content])
                self._take_run(conversation, run, turn)
            else:
                self._take(conversation, event, turn)

    def _take(self, conversation: Conversation, event: events.Event, turn: Turn) -> None:
        try:
            _REPORTS[type(event)](self, conversation, event, turn)
        except ProtocolError as error:
            self.drops[error.reason] += 1

    # ---- the session

    def _on_opened(self, conversation: Conversation, _event: events.SessionOpened, turn: Turn) -> None:
        session = conversation.session
        agreed = session.stats()
        policy, terms, store_terms = agreed.policy, agreed.ack_terms, agreed.store_ack_terms
        self.record(
            "session_opened",
            turn.now_ns,
            session=conversation.label,
            peer=conversation.peer_id.hex(),
            peer_name=conversation.peer_name,
            role="initiator" if session.initiator else "acceptor",
            address=address_in(conversation.path),
            window=policy.window,
            idle_ack_delay_ns=terms.delay_ns,
            ack_threshold=terms.count or 0,
            ack_share=_share(policy.session_ack),
            ack_count=policy.session_ack.count or 0,
            ack_bytes=terms.bytes_ or 0,
            store_ack_delay_ns=store_terms.delay_ns,
            store_ack_threshold=store_terms.count or 0,
            store_ack_share=_share(policy.store_ack),
            store_ack_count=policy.store_ack.count or 0,
            store_ack_bytes=store_terms.bytes_ or 0,
            ack_timeout_min_ns=policy.ack_timeout_min_ns,
            ack_timeout_max_ns=policy.ack_timeout_max_ns,
            store_ack_timeout_min_ns=policy.store_ack_timeout_min_ns,
            store_ack_timeout_max_ns=policy.store_ack_timeout_max_ns,
            ack_at_once=_at_once(terms),
            **({} if terms.idle_ns is None else {"ack_idle_ns": terms.idle_ns}),
            cleanup_interval_ns=agreed.cleanup_interval_ns,
            congestion=agreed.congestion,
        )
        proved, peers = conversation.channel.peer, self.handshakes.peers
        is_first = proved != "" and not peers.has_met(proved)
        self.handshakes.handle_opened(conversation, turn.commit)
        self.inbox.admission.handle_proved(conversation.peer_id)
        self.news.handle_opened(conversation)
        if conversation.link is not None:
            self.outbox.handle_session_opened(conversation.link, turn.now_ns)
        if session.initiator:
            self._take_positions(conversation, turn)
        self.inbox.handle_session_opened(conversation.peer_id, conversation.peer_start, conversation.link_name)
        self.transits.handle_session_opened(conversation, turn.now_ns)
        self.on_opened(conversation.link_name, turn.now_ns, is_first=is_first)
        conversation.keep_essence()

    def _take_positions(self, conversation: Conversation, turn: Turn) -> None:
        """Handle the acceptor's positions like order acks, before anything is resent."""
        assert conversation.peer is not None
        for position in conversation.peer.positions:
            if self.outbox.leads(position.stream, conversation.peer_id):
                word = wire.OrderAckPacket(self.node_id, *position)
                if self._believes_ack(conversation, word, turn.now_ns):
                    self._depend(conversation)
                    self.outbox.handle_order_ack(*position, turn)

    def _on_closed(self, conversation: Conversation, event: events.SessionClosed, turn: Turn) -> None:
        self.closes[event.reason.value] += 1
        if conversation.known is not None or conversation.session.initiator:
            # A connect alone makes no session: otherwise an attacker could fill the log with copies of one.
            self.record(
                "session_closed",
                turn.now_ns,
                session=conversation.label,
                peer=conversation.peer_id.hex(),
                peer_name=conversation.peer_name,
                reason=event.reason.value,
                unacked=event.unacked,
            )
        self.handshakes.handle_closed(conversation, event.reason, turn.now_ns)
        self.news.handle_closed(conversation, event.reason)
        self.inbox.handle_session_closed(conversation)
        self.transits.handle_session_closed(conversation)
        link = conversation.link
        if link is not None and link.conversation is conversation:
            self.outbox.handle_session_closed(link, event.reason, turn.now_ns)
            self.transits.handle_link_closed(link, event.reason, turn.now_ns)

    # ---- packets

    def _on_packet(self, conversation: Conversation, event: events.PacketArrived, turn: Turn) -> None:
        try:
            packet = wire.decode(event.content)
            if isinstance(packet, wire.SequenceHeader):
                check(packet.body, may_have_priority=event.delivery is not Delivery.TRANSACTIONAL)
                check_source(packet.body, is_subscribed(packet.queue))
        except ProtocolError:
            # It has arrived, and will be acknowledged, although it cannot be read.
            if self.recorder is not None:
                self.recorder.add_received(conversation.label, event, None, turn.now_ns)
            raise
        if self.recorder is not None:
            self.recorder.add_received(conversation.label, event, packet, turn.now_ns)
        if event.duplicate:
            return
        if isinstance(packet, wire.SequenceHeader):
            if event.delivery in DURABLE:
                self._depend(conversation)
            self._take_packet(conversation, event.number, packet, event.delivery, turn)
            return
        if isinstance(packet, wire.EndPacket):
            self._take_end(conversation, packet, turn)
            return
        if packet.origin == self.node_id and not self.outbox.leads(packet.stream, conversation.peer_id):
            raise ProtocolError(DropReason.NOT_OUR_PACKET)
        self._take_word(conversation, packet, turn)

    def _take_word(self, conversation: Conversation, packet: wire.Answer, turn: Turn) -> None:
        """The next hop answers about packets of this node, or about others that were passed on."""
        is_own = packet.origin == self.node_id
        room = self.outbox if is_own else self.transits
        match packet:
            case wire.HoldPacket():
                room.handle_hold(conversation, packet, turn.now_ns)
            case wire.OnwardPacket():
                self._depend(conversation)
                room.handle_onward(conversation, packet, turn.now_ns)
            case wire.OnwardAckPacket():
                self._depend(conversation)
                room.handle_onward_ack(conversation, packet, turn)
            case wire.OrderAckPacket() if is_own:
                self._take_order_ack(conversation, packet, turn)
            case wire.RejectPacket() if is_own:
                if packet.reason != FreedReason.LET_GO:
                    self.outbox.handle_reject(conversation, packet, turn)
            case wire.RelayedOrderAck():
                self.transits.handle_order_ack(conversation, packet, turn)
            case wire.RelayedReject():
                self._depend(conversation)
                self.transits.handle_reject(conversation, packet, turn)
            case _:
                raise ProtocolError(DropReason.NOT_OUR_PACKET)

    def _take_order_ack(self, conversation: Conversation, packet: wire.OrderAckPacket, turn: Turn) -> None:
        """The destination of packets of this node has accepted them."""
        if self._believes_ack(conversation, packet, turn.now_ns):
            self._depend(conversation)
            if isinstance(packet, wire.RelayedOrderAck):
                self._depend_on_told(packet, turn.now_ns)
            self.outbox.handle_order_ack(packet.stream, packet.sequence, packet.number, turn)

    def _believes_ack(self, conversation: Conversation, packet: wire.OrderAckPacket, now_ns: int) -> bool:
        outgoing = self.outbox.stream(packet.stream)
        if outgoing is None or outgoing.seal is None:
            return True
        return self.outbox.sealing.believes_ack(outgoing, conversation, packet, now_ns)

    def _take_packet(
        self, conversation: Conversation, number: int, packet: wire.SequenceHeader, delivery: Delivery, turn: Turn
    ) -> None:
        """Handle a packet for a queue of this node, or one that is to be passed on."""
        if isinstance(packet, wire.RelayedHeader):
            if not self.transits.door.is_here(packet):
                self.transits.handle_packet(conversation, number, packet, delivery, turn)
                return
            self.transits.words.handle_arrived(conversation, packet, delivery, turn.now_ns)
        self.inbox.handle_packet(conversation, number, packet, delivery, turn)

    def _take_end(self, conversation: Conversation, packet: wire.EndPacket, turn: Turn) -> None:
        """An origin says that its stream has ended, or a destination that it has forgotten one of ours."""
        self._depend(conversation)
        if isinstance(packet, wire.RelayedEnd) and (packet.origin != self.node_id or not packet.answer):
            self._take_relayed_end(conversation, packet, turn)
            return
        if not packet.answer:
            if packet.origin != conversation.peer_id:
                raise ProtocolError(DropReason.FOREIGN_ORIGIN)
            self.inbox.ends.handle_end(conversation, packet, turn)
            return
        if isinstance(packet, wire.RelayedEnd):
            self._depend_on_told(packet, turn.now_ns)
        known = packet.origin == self.node_id and self.outbox.retirement.handle_answer(
            packet.stream, packet.sequence, conversation.peer_id, turn
        )
        if not known:
            raise ProtocolError(DropReason.NOT_OUR_PACKET)

    def _take_relayed_end(self, conversation: Conversation, packet: wire.RelayedEnd, turn: Turn) -> None:
        """The same for a stream of another node that uses or used relays, in transit or for this node."""
        if packet.answer:
            self.transits.ends.handle_answer(conversation, packet, turn.now_ns)
        elif packet.origin == self.node_id:
            raise ProtocolError(DropReason.END_ASTRAY, "it has gone round in a circle")
        elif self.transits.door.is_here(packet):
            self.inbox.ends.handle_end(conversation, packet, turn)
        else:
            self.transits.handle_end(conversation, packet, turn.now_ns)

    def _take_run(self, conversation: Conversation, event: events.RunArrived, turn: Turn) -> None:
        """Handle packets by the run where possible, else one by one."""
        delivery = event.delivery
        for run in read_runs(event):
            if isinstance(run, events.PacketArrived):
                self._take(conversation, run, turn)
                continue
            if self.recorder is not None:
                self.recorder.add_run(conversation.label, run, delivery, turn.now_ns)
            if delivery in DURABLE:
                self._depend(conversation)
            header = run.header
            taker: Inbox | Transits = self.inbox
            if isinstance(header, wire.RelayedHeader):
                if self.transits.door.is_here(header):
                    self.transits.words.handle_arrived(conversation, header, delivery, turn.now_ns)
                else:
                    taker = self.transits
            if taker.handle_run(conversation, run, delivery, turn):
                continue
            for number, packet in enumerate(run.headers(), run.packet):
                try:
                    self._take_packet(conversation, number, packet, delivery, turn)
                except ProtocolError as error:
                    self.drops[error.reason] += 1

    # ---- datagrams

    def _on_size(self, conversation: Conversation, event: events.SizeChanged, turn: Turn) -> None:
        self.record("path_size", turn.now_ns, session=conversation.label, size=event.size_bytes)
        link = conversation.link
        if link is not None and link.conversation is conversation:
            self.outbox.handle_size(link)

    def _on_window(self, conversation: Conversation, event: events.WindowChanged, turn: Turn) -> None:
        self.record("window_changed", turn.now_ns, session=conversation.label, window=event.packets)

    def _on_probe(self, conversation: Conversation, event: events.ProbeArrived, turn: Turn) -> None:
        self.record("probe_received", turn.now_ns, session=conversation.label, size=event.size_bytes)

    def _on_probed(self, conversation: Conversation, _event: events.ProbeAnswered, turn: Turn) -> None:
        self.record("probe_answered", turn.now_ns, session=conversation.label)

    def _on_piece(self, conversation: Conversation, _event: events.PieceArrived, turn: Turn) -> None:
        self.record("piece_received", turn.now_ns, session=conversation.label)

    def _on_dropped(self, _conversation: Conversation, event: events.PacketDropped, _turn: Turn) -> None:
        self.drops[event.reason] += 1

    def _depend(self, conversation: Conversation) -> None:
        """The next commit depends on the peer's store: let it hold the point."""
        known = conversation.known
        if known is not None:
            if conversation.session.peer_commit_serial > known.serial:
                known.handle_serial(conversation.session.peer_commit_serial)
            self.handshakes.peers.depend(known)

    def _depend_on_told(self, packet: wire.RelayedOrderAck | wire.RelayedEnd, now_ns: int) -> None:
        """The next commit depends on the store of a destination that relays lead to."""
        name = self.outbox.destination_of(packet.stream)
        if name:
            self.handshakes.told.handle_word(packet.by, name, packet.store, now_ns)

    # ---- acknowledgements

    def _on_acked(self, conversation: Conversation, event: events.PacketsAcked, turn: Turn) -> None:
        if self.recorder is not None:
            self.recorder.add_numbers("ack_received", conversation.label, event.packets, turn.now_ns)
        self._take_acks(conversation, event.told, Ack.SESSION, turn)
        for sent in event.told:
            if type(sent.context) is Control and sent.context.refuses:
                conversation.handle_rejections_known(sent.context.refuses)

    def _on_stored(self, conversation: Conversation, event: events.PacketsStored, turn: Turn) -> None:
        if self.recorder is not None:
            self.recorder.add_numbers("store_ack_received", conversation.label, event.packets, turn.now_ns)
        if event.packets:
            self._depend(conversation)
            if conversation.link is not None:
                conversation.link.patience.handle_stored()
        self._take_acks(conversation, event.packets, Ack.STORE, turn)

    def _take_acks(self, conversation: Conversation, acked: list[SessionPacket], ack: Ack, turn: Turn) -> None:
        """Give acks to the rooms that have the packets; those of this node's own streams first."""
        # Only the newest sending counts: there was no room for an older one, or it may have been passed over. But each
        # shows that a durable packet has arrived.
        contexts = [
            sent.context
            for sent in acked
            if type(sent.context) is DepartingContext
            and (sent.number == sent.context.entry.packet or (ack is Ack.SESSION and sent.context.stream.durable))
        ]
        if not contexts:
            return
        if self.transits.next_number > 1:  # some stream has passed through
            contexts.sort(key=_passes)
        for stream, some in groupby(contexts, key=_STREAM_OF):
            room: DepartingStreams[Any] = self.outbox if isinstance(stream, OutgoingStream) else self.transits
            room.handle_acked(stream, [context.entry for context in some], ack, conversation, turn)

    def _on_request(self, conversation: Conversation, _event: events.AcksRequested, _turn: Turn) -> None:
        self.inbox.order_acks.handle_request(conversation.peer_id, conversation.link_name)

    def _on_quiet(self, conversation: Conversation, _event: events.PeerQuiet, _turn: Turn) -> None:
        link = conversation.link
        if link is None or link.conversation is not conversation:
            return
        # A relay that has started anew does not know what it has said, and may have nothing to say.
        if link.awaits_order_ack or self.outbox.relies_on(link) or self.transits.has_to_ask(link):
            conversation.session.ping()

    def _on_idle(self, conversation: Conversation, _event: events.SessionIdle, turn: Turn) -> None:
        """End the session, unless there is something to send that must not wait for another one.

        That is an order ack or, for a stream that waits for room, a packet that asks, or a repeated hold. A pending
        store ack keeps it open, too, however long the disk needs: its peer would resend everything.
        """
        if self.jobs.holds(conversation):
            return
        link, inbox = conversation.link, self.inbox
        serves = link is not None and link.conversation is conversation
        relies = link is not None and serves and self.outbox.relies_on(link)
        if relies or self.transits.holds_open(conversation):
            # An answer that ends with the session holds.
            conversation.session.stay(turn.now_ns)
            return
        owed = inbox.order_acks.handle_request(conversation.peer_id, conversation.link_name)
        acks = any(stream.owes_ack and stream.via is conversation for stream in owed)
        asks = link is not None and serves and (self.outbox.ask_for_room(link) or self.transits.ask_for_room(link))
        repeats = acks or asks or inbox.admission.holds.stop_again(conversation)
        if not (repeats or self.transits.holds.stop_again(conversation)):
            conversation.session.close(CloseReason.IDLE)


_REPORTS: dict[type, Any] = {
    events.SessionOpened: SessionEventRouter._on_opened,
    events.PacketArrived: SessionEventRouter._on_packet,
    events.PacketDropped: SessionEventRouter._on_dropped,
    events.PacketsAcked: SessionEventRouter._on_acked,
    events.PacketsStored: SessionEventRouter._on_stored,
    events.AcksRequested: SessionEventRouter._on_request,
    events.PeerQuiet: SessionEventRouter._on_quiet,
    events.SessionIdle: SessionEventRouter._on_idle,
    events.SizeChanged: SessionEventRouter._on_size,
    events.WindowChanged: SessionEventRouter._on_window,
    events.ProbeArrived: SessionEventRouter._on_probe,
    events.ProbeAnswered: SessionEventRouter._on_probed,
    events.PieceArrived: SessionEventRouter._on_piece,
    events.SessionClosed: SessionEventRouter._on_closed,
}


def _share(trigger: AckTrigger) -> str:
    share = trigger.window_share
    return "" if share is None else f"{Fraction(share).numerator}/{Fraction(share).denominator}"


def _at_once(terms: AckTerms) -> str:
    """The causes that make an ack due immediately, as text."""
    told = {"gap": terms.on_gap, "duplicate": terms.on_duplicate, "request": terms.on_request}
    return " ".join(name for name, is_told in told.items() if is_told)


def _passes(context: DepartingContext) -> bool:
    return context.hops > 0
