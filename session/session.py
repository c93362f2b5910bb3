"""One session: a conversation between two queue managers.

Drive it with three kinds of input, then drain its outputs until each returns None:

- ``handle_*``: a hello, a datagram, a commit, the clock;
- ``poll_event``: what happened, for the owner;
- ``poll_transmit``: the next datagram to send;
- ``next_deadline``: when to call ``handle_timer`` if nothing happens before. An early call does nothing.

It promises that every packet handed to ``send_packet`` is delivered and reported acknowledged, or that the session
closes with a named reason. It does not know queues, sequences, addresses, keys or disks; the serials of commits that
it carries mean nothing to it. Its states, moves and close
reasons are tables in ``states``; its timers are named in ``timers``; the session and store acknowledgements are the
machines in ``session_ack`` and ``store_ack``.
"""

from collections import Counter, deque
from collections.abc import Callable

from triack.base.checks import DATAGRAM_MAX_BYTES
from triack.base.delivery import DURABLE, Delivery
from triack.base.errors import ProtocolError
from triack.base.ranges import NumberSet
from triack.base.reasons import DropReason
from triack.base.units import MS
from triack.session import frames as wire
from triack.session.congestion import NewReno, Pacer
from triack.session.events import (
    AckSent,
    AcksRequested,
    Event,
    PacketArrived,
    PacketsAcked,
    PacketsStored,
    SessionClosed,
    SessionOpened,
    StoreAckSent,
    Transmit,
    TransmitKind,
)
from triack.session.frames import NO_ECHO, Hello
from triack.session.rtt import RoundTrip
from triack.session.sending import SPAN_WINDOWS, PacketState, SendWindow, SessionPacket
from triack.session.session_ack import AckState, SessionAck
from triack.session.settings import SessionSettings
from triack.session.states import CloseReason, Move, State, next_state
from triack.session.store_ack import StoreAck
from triack.session.timers import Timer, Timers

__all__ = ["DATAGRAM_OVERHEAD_BYTES", "Session", "content_limit_bytes"]

DATAGRAM_OVERHEAD_BYTES = 36
"""Header and tag around the frames of a datagram; the transport layer owns their layout."""
ACK_ROOM_BYTES = 24
"""Left free in a full packet's datagram, so that an ack without ranges can ride on it."""
CONNECT_RESEND_NS = 200 * MS
CONNECT_RESEND_MAX_NS = 500 * MS
ACCEPT_RESENDS_MAX = 3
"""An acceptor repeats itself this often unasked; after that only another connect makes it speak."""
_UNTOLD = frozenset({CloseReason.PEER_CLOSED, CloseReason.PATH_LOST, CloseReason.CONNECT_TIMEOUT})
"""Ends that the peer knows of already, or cannot be told."""
_WITHOUT_FAREWELL = frozenset({CloseReason.STORE_FAILED, CloseReason.ROLLBACK})
"""Ends after which nothing may be acknowledged any more."""
PROBES_BEFORE_PERSISTENT = 3
PROBE_PACKETS = 2
"""Packets that one probe resends (RFC 9002 6.2.4)."""
STORE_PROBE_MIN_NS = 100 * MS


def content_limit_bytes(max_datagram_bytes: int) -> int:
    """The largest packet content that fits a datagram of that size."""
    return max_datagram_bytes - DATAGRAM_OVERHEAD_BYTES - wire.PACKET_HEADER_BYTES - ACK_ROOM_BYTES


class Session:
    """One end of a session.

    Args:
        settings: limits and timeouts.
        hello: what this end says of itself; its ``session_id`` is the initiator's choice.
        peer: the initiator's hello when this end accepts, None when it initiates.
        shares_network: True on UDP: congestion control and pacing are on.
        now_ns: the caller's monotonic clock.

    Attributes:
        serial: the newest commit of this end's store; goes out with packets and store acks. The owner keeps it current.
        peer_serial: the newest commit of the peer's store that it has told of in this session.
    """

    def __init__(
        self, settings: SessionSettings, *, hello: Hello, peer: Hello | None, shares_network: bool, now_ns: int
    ) -> None:
        self._settings = settings
        self.hello = hello
        self.peer = peer
        self.initiator = peer is None
        self.state = State.CONNECTING if peer is None else State.ACCEPTING
        self.serial = 0
        self.peer_serial = 0
        self.rtt = RoundTrip()
        self._store_delay = RoundTrip()
        self._datagram_bytes = datagram_bytes = settings.max_datagram_bytes
        self._congestion = NewReno(datagram_bytes) if shares_network else None
        self._pacer = Pacer(datagram_bytes, now_ns) if shares_network else None
        self.window = SendWindow(settings.max_unacked_packet, self.rtt, self._congestion)
        self._session_ack = SessionAck(settings.trigger, SPAN_WINDOWS * settings.max_unacked_packet)
        self._store_ack = StoreAck()
        self._awaiting_store: dict[int, SessionPacket] = {}
        self._timers = Timers()
        self._events: deque[Event] = deque()
        self.drops: Counter[DropReason] = Counter()
        self._counter = 0
        self._datagram = 0
        self._hello_due = True
        self._echo_ns = hello.sent_at_ns
        self._hello_sends = 0
        self._ping_due = False
        self._probes_due: deque[SessionPacket] = deque()
        self._probes = 0
        self._last_asked = False
        self._last_packet_at_ns = now_ns
        self._goodbye: CloseReason | None = None
        self._farewell = False
        self._timers.start(Timer.CONNECT_LIMIT, now_ns + settings.connect_timeout_ns)
        if peer is not None:
            self._take_peer(peer)

    # ---- what the owner asks

    @property
    def is_closed(self) -> bool:
        """Whether the session is over."""
        return self.state is State.CLOSED

    @property
    def room(self) -> int:
        """How many packets ``send_packet`` will take now."""
        return self.window.room if self.state is State.OPEN else 0

    def send_packet(self, delivery: Delivery, content: bytes, token: object, *, asks: bool = False) -> int:
        """Number a packet and queue it for sending.

        Args:
            delivery: its class.
            content: at most ``content_limit_bytes``; one that was made under a larger setting goes out all the same.
            token: anything; it comes back in ``PacketsAcked`` and ``PacketsStored``.
            asks: ask the peer to acknowledge at once.

        Returns:
            The session's number of the packet.
        """
        size_bytes = len(content) + wire.PACKET_HEADER_BYTES + DATAGRAM_OVERHEAD_BYTES
        if size_bytes > DATAGRAM_MAX_BYTES:
            raise ValueError(f"a content of {len(content)} bytes does not fit the datagram")
        return self.window.push(delivery, content, token, asks=asks, size_bytes=size_bytes).number

    def ping(self) -> None:
        """Ask the peer for every ack that it owes."""
        self._ping_due = True

    def drain(self, now_ns: int) -> None:
        """Take no more packets, wait for the last acks, then close. Closes at once when it is not open."""
        if self.state is State.OPEN:
            self.state = next_state(self.state, Move.DRAIN)
            self._timers.start(Timer.DRAIN_LIMIT, now_ns + self._settings.drain_timeout_ns)
            self._close_if_drained()
        elif self.state in (State.CONNECTING, State.ACCEPTING):
            self.close(CloseReason.LOCAL_STOP)

    def close(self, reason: CloseReason) -> None:
        """Close now and tell the peer, if there is one yet; a second call does nothing."""
        if self.state is State.CLOSED:
            return
        if self.peer is not None and reason not in _UNTOLD:
            self._goodbye = reason
            # What arrived here is said with the goodbye, so that the peer need not send it again.
            self._farewell = reason not in _WITHOUT_FAREWELL
        self.state = next_state(self.state, reason)
        self._timers.stop_all()
        self._events.append(SessionClosed(reason, self.window.unacked))

    def say_hello(self) -> None:
        """The owner has changed ``hello``: say it again, now."""
        self._hello_due = True

    # ---- inputs

    def handle_hello(self, peer: Hello, now_ns: int) -> None:
        """Take the peer's hello: the accept (initiator) or one more copy of the connect (acceptor)."""
        if self.state is State.CONNECTING:
            self._take_peer(peer)
            if peer.sent_at_ns != NO_ECHO:
                self.rtt.update(now_ns - peer.sent_at_ns)
            self._open(Move.ACCEPTED, now_ns)
        elif self.state is State.ACCEPTING:
            self._echo_ns = max(self._echo_ns, peer.sent_at_ns)
            self.hello.sent_at_ns = self._echo_ns
            self._hello_due = True
        if self.initiator and self.state is State.OPEN:
            self._session_ack.handle_request(now_ns)

    def handle_datagram(self, payload: bytes, counter: int, now_ns: int) -> None:
        """Take the frames of the datagram with that counter.

        Raises:
            ProtocolError: the datagram is not well-formed and was ignored as a whole.
        """
        if self.state is State.ACCEPTING:
            frames = wire.decode_frames(payload)
            self._open(Move.CONFIRMED, now_ns)
        elif self.state in (State.OPEN, State.DRAINING):
            frames = wire.decode_frames(payload)
        else:
            raise ProtocolError(DropReason.NOT_OPEN, self.state.value)
        self._datagram = counter
        if self._timers.runs(Timer.ACK_LIMIT):
            self._timers.start(Timer.ACK_LIMIT, now_ns + self._ack_timeout_ns)
        for frame in frames:
            _HANDLERS[type(frame)](self, frame, now_ns)
            if self.is_closed:
                return
        self._arm_ack_delay()
        self._close_if_drained()

    def handle_stored(self, numbers: list[int]) -> None:
        """The commit that holds these received packets has returned."""
        self._store_ack.handle_stored(numbers)

    def handle_settled(self, numbers: list[int]) -> None:
        """Nobody waits any more for store acks of these packets that we sent."""
        for number in numbers:
            self._awaiting_store.pop(number, None)
        if not self._awaiting_store:
            self._timers.stop(Timer.STORE_ACK_LIMIT)

    def handle_timer(self, now_ns: int) -> None:
        """Let every timer that has run out do its work."""
        while self.state is not State.CLOSED:
            timer = self._timers.poll_expired(now_ns)
            if timer is None:
                return
            _EXPIRIES[timer](self, now_ns)

    def next_deadline(self) -> int | None:
        """When ``handle_timer`` must be called at the latest, or None."""
        return self._timers.next_deadline()

    # ---- outputs

    def poll_event(self) -> Event | None:
        """The next thing that happened, or None."""
        return self._events.popleft() if self._events else None

    def poll_transmit(self, now_ns: int) -> Transmit | None:
        """The next datagram to send, or None."""
        if self.state in (State.OPEN, State.DRAINING):
            return self._transmit_frames(now_ns)
        if self._goodbye is not None:
            return self._transmit_goodbye(self._goodbye, now_ns)
        if self.state is State.CLOSED or not self._hello_due:
            return None
        self._hello_due = False
        return self._transmit_hello(now_ns)

    # ---- sending

    def _transmit(self, kind: TransmitKind, payload: bytes) -> Transmit:
        self._counter += 1
        connection_id = self.peer.connection_id if self.peer is not None else 0
        return Transmit(kind, connection_id, self._counter, payload)

    def _transmit_goodbye(self, reason: CloseReason, now_ns: int) -> Transmit:
        self._goodbye = None
        transmit = self._transmit(TransmitKind.DATA, b"")
        frames: list[bytes] = []
        room = self._datagram_bytes - DATAGRAM_OVERHEAD_BYTES - wire.CLOSE_BYTES
        if self._farewell and self._session_ack.state is not AckState.NOTHING_OWED:
            room -= self._add_ack(transmit, frames, room, now_ns)
        if self._farewell and self._store_ack.due:
            self._add_store_ack(transmit, frames, room)
        frames.append(wire.encode_close(reason))
        transmit.payload = b"".join(frames)
        return transmit

    def _transmit_hello(self, now_ns: int) -> Transmit:
        wait_ns = min(CONNECT_RESEND_NS << min(self._hello_sends, 8), CONNECT_RESEND_MAX_NS)
        self._hello_sends += 1
        if self.initiator:
            self.hello.sent_at_ns = now_ns
            self._timers.start(Timer.CONNECT_RESEND, now_ns + wait_ns)
            return self._transmit(TransmitKind.CONNECT, self.hello.encode())
        if self._hello_sends <= ACCEPT_RESENDS_MAX:
            self._timers.start(Timer.CONNECT_RESEND, now_ns + wait_ns)
        return self._transmit(TransmitKind.ACCEPT, self.hello.encode())

    def _transmit_frames(self, now_ns: int) -> Transmit | None:
        sent = self._next_packet(now_ns)
        acks = self._session_ack
        owes_ack = acks.state is AckState.DUE or (sent is not None and acks.piggybacks)
        if sent is None and not owes_ack and not self._store_ack.due and not self._ping_due:
            return None
        room = self._datagram_bytes - (sent.size_bytes if sent else DATAGRAM_OVERHEAD_BYTES)
        owed_bytes = self._owed_ack_bytes()
        if sent is not None and owed_bytes and room < owed_bytes:
            # Owed acks with many ranges need a datagram of their own; the packet follows in the next.
            sent, room = None, self._datagram_bytes - DATAGRAM_OVERHEAD_BYTES
        transmit = self._transmit(TransmitKind.DATA, b"")
        frames: list[bytes] = []
        if owes_ack:
            room -= self._add_ack(transmit, frames, room, now_ns)
        if self._store_ack.due:
            room -= self._add_store_ack(transmit, frames, room)
        if self._ping_due and room >= wire.PING_BYTES:
            self._ping_due = False
            frames.append(wire.encode_ping())
        if sent is not None:
            frames.append(self._send(sent, now_ns))
            transmit.packet = sent
        transmit.payload = b"".join(frames)
        return transmit

    def _owed_ack_bytes(self) -> int:
        owed = 0
        if self._session_ack.state is AckState.DUE:
            owed += wire.numbers_bytes(self._session_ack.received)
        if self._store_ack.due:
            owed += wire.numbers_bytes(self._store_ack.stored)
        return owed

    def _add_ack(self, transmit: Transmit, frames: list[bytes], room: int, now_ns: int) -> int:
        acks = self._session_ack
        window, delay_ns = self._settings.max_unacked_packet, now_ns - acks.newest_at_ns
        frame = wire.encode_ack(acks.received, window, acks.newest_counter, delay_ns)
        if len(frame) > room:
            return 0
        trigger = acks.cause.value if acks.state is AckState.DUE else "piggyback"
        ranges = acks.received.lowest_ranges(wire.MAX_ACK_RANGES)
        transmit.ack = AckSent(acks.received.cumulative, ranges, trigger, acks.pending)
        acks.handle_sent(now_ns)
        self._timers.stop(Timer.ACK_DELAY)
        frames.append(frame)
        return len(frame)

    def _add_store_ack(self, transmit: Transmit, frames: list[bytes], room: int) -> int:
        stored = self._store_ack.stored
        frame = wire.encode_store_ack(stored, self.serial)
        if len(frame) > room:
            return 0
        transmit.store_ack = StoreAckSent(stored.cumulative, stored.lowest_ranges(wire.MAX_ACK_RANGES))
        self._store_ack.handle_sent()
        frames.append(frame)
        return len(frame)

    def _next_packet(self, now_ns: int) -> SessionPacket | None:
        while self._probes_due:
            if self._probes_due[0].state is PacketState.IN_FLIGHT:
                return self._probes_due[0]
            self._probes_due.popleft()
        sent = self.window.peek()
        if sent is None or not self.window.has_credit(sent):
            return None
        if self._pacer is not None and self._congestion is not None:
            ready_at_ns = self._pacer.ready_at_ns(self._congestion.window_bytes, self.rtt, now_ns)
            if ready_at_ns > now_ns:
                self._timers.start(Timer.PACING, ready_at_ns)
                return None
        return sent

    def _send(self, sent: SessionPacket, now_ns: int) -> bytes:
        probing = bool(self._probes_due)
        if probing:
            self._probes_due.popleft()
        window = self.window
        window.handle_sent(sent, self._counter, now_ns)
        if self._pacer is not None:
            self._pacer.spend(sent.size_bytes)
        # The window closes behind the last packet that may go: do not wait for the receiver's delay.
        following = window.peek()
        closing = not window.room if following is None else not window.has_credit(following)
        asks = sent.asks or probing or sent.sends > 1 or closing
        self._last_asked = asks
        self._last_packet_at_ns = now_ns
        if sent.delivery in DURABLE and sent.sends == 1:
            self._awaiting_store[sent.number] = sent
            self._timers.start_if_stopped(Timer.STORE_ACK_LIMIT, now_ns + self._store_ack_timeout_ns)
        self._timers.start_if_stopped(Timer.ACK_LIMIT, now_ns + self._ack_timeout_ns)
        self._arm_probe(now_ns)
        return wire.encode_packet(sent.number, sent.delivery, asks, sent.content, self.serial)

    # ---- receiving

    def _take_peer(self, peer: Hello) -> None:
        self.peer = peer
        self.window.peer_window = peer.window
        self._datagram_bytes = min(self._settings.max_datagram_bytes, peer.max_datagram_bytes)

    def _open(self, move: Move, now_ns: int) -> None:
        self.state = next_state(self.state, move)
        self._timers.stop(Timer.CONNECT_RESEND)
        self._timers.stop(Timer.CONNECT_LIMIT)
        self._timers.start(Timer.CLEANUP, now_ns + self._settings.cleanup_interval_ns)
        self._last_packet_at_ns = now_ns
        self._events.append(SessionOpened())

    def _on_packet(self, frame: wire.PacketFrame, now_ns: int) -> None:
        self.peer_serial = max(self.peer_serial, frame.serial)
        acks = self._session_ack
        if not acks.in_reach(frame.number):
            self.drops[DropReason.BEYOND_WINDOW] += 1
            return
        size_bytes = len(frame.content)
        fresh = acks.handle_packet(frame.number, size_bytes, counter=self._datagram, asks=frame.ask, now_ns=now_ns)
        self._last_packet_at_ns = now_ns
        if fresh and frame.delivery not in DURABLE:
            self._store_ack.handle_not_durable(frame.number)
        if not fresh:
            self._store_ack.handle_request()
        self._events.append(PacketArrived(frame.number, frame.delivery, frame.content, not fresh))

    def _on_ack(self, frame: wire.AckFrame, now_ns: int) -> None:
        window = self.window
        try:
            acked = window.handle_ack(frame.cumulative, frame.ranges, frame.echo, frame.delay_ns, now_ns)
        except ProtocolError:
            self.close(CloseReason.PROTOCOL_ERROR)
            return
        window.peer_window = max(1, frame.window)
        if acked:
            self._probes = 0
            self._timers.stop(Timer.PROBE)
        self._detect_losses(now_ns)
        if acked or not self._timers.runs(Timer.PROBE):
            self._arm_probe(now_ns)
        if not window.unacked:
            self._timers.stop(Timer.ACK_LIMIT)
        self._events.append(PacketsAcked(acked))

    def _on_store_ack(self, frame: wire.StoreAckFrame, now_ns: int) -> None:
        highest = frame.ranges[-1][1] if frame.ranges else frame.cumulative
        if highest > self.window.highest_sent:
            self.close(CloseReason.PROTOCOL_ERROR)
            return
        self.peer_serial = max(self.peer_serial, frame.serial)
        covered = NumberSet(frame.cumulative, frame.ranges)
        waiting = self._awaiting_store
        stored = [waiting.pop(number) for number in list(waiting) if number in covered]
        for sent in stored[-1:]:
            if sent.sends == 1:
                self._store_delay.update(now_ns - sent.sent_at_ns)
        if not waiting:
            self._timers.stop(Timer.STORE_ACK_LIMIT)
        elif stored:
            self._timers.start(Timer.STORE_ACK_LIMIT, now_ns + self._store_ack_timeout_ns)
        self._events.append(PacketsStored(stored))

    def _on_ping(self, _frame: wire.PingFrame, now_ns: int) -> None:
        self._session_ack.handle_request(now_ns)
        self._store_ack.handle_request()
        self._events.append(AcksRequested())

    def _on_close(self, frame: wire.CloseFrame, _now_ns: int) -> None:
        rolled_back = frame.reason is CloseReason.ROLLBACK
        self.close(CloseReason.ROLLBACK if rolled_back else CloseReason.PEER_CLOSED)
        self._goodbye = None

    def _detect_losses(self, now_ns: int) -> None:
        _, look_again_ns = self.window.detect_losses(now_ns)
        if look_again_ns is None:
            self._timers.stop(Timer.LOSS)
        else:
            self._timers.start(Timer.LOSS, max(look_again_ns, now_ns + 1))

    # ---- timers

    @property
    def _ack_timeout_ns(self) -> int:
        settings = self._settings
        if settings.ack_timeout_ns is not None:
            return settings.ack_timeout_ns
        adaptive_ns = 8 * self.rtt.probe_ns + (self.peer.idle_ack_delay_ns if self.peer else 0)
        return min(max(adaptive_ns, settings.ack_timeout_min_ns), settings.ack_timeout_max_ns)

    @property
    def _store_ack_timeout_ns(self) -> int:
        settings = self._settings
        if settings.store_ack_timeout_ns is not None:
            return settings.store_ack_timeout_ns
        adaptive_ns = 8 * self._store_delay.probe_ns
        return min(max(adaptive_ns, settings.store_ack_timeout_min_ns), settings.ack_timeout_max_ns)

    def _arm_probe(self, now_ns: int) -> None:
        if self.window.in_flight:
            wait_ns = self.rtt.probe_ns
            if not self._last_asked and self.peer is not None:
                wait_ns += self.peer.idle_ack_delay_ns
        elif self._awaiting_store:
            wait_ns = max(2 * self._store_delay.probe_ns, STORE_PROBE_MIN_NS)
        else:
            self._timers.stop(Timer.PROBE)
            return
        # Several probes must fit into the silence that closes the session.
        wait_ns = min(wait_ns << min(self._probes, 10), max(self._ack_timeout_ns // 8, wait_ns))
        self._timers.start(Timer.PROBE, now_ns + wait_ns)

    def _arm_ack_delay(self) -> None:
        deadline_ns = self._session_ack.deadline_ns
        if deadline_ns is not None:
            self._timers.start_if_stopped(Timer.ACK_DELAY, deadline_ns)

    def _on_connect_resend(self, _now_ns: int) -> None:
        if not self.initiator and not self._hello_due:
            self.hello.sent_at_ns = NO_ECHO
        self._hello_due = True

    def _on_connect_limit(self, _now_ns: int) -> None:
        self.close(CloseReason.CONNECT_TIMEOUT)

    def _on_ack_delay(self, now_ns: int) -> None:
        self._session_ack.handle_timer(now_ns)
        self._arm_ack_delay()

    def _on_probe(self, now_ns: int) -> None:
        self._probes += 1
        oldest = self.window.oldest_unacked(PROBE_PACKETS)
        if not oldest:
            self._ping_due = self._ping_due or bool(self._awaiting_store)
            self._arm_probe(now_ns)
            return
        self._probes_due = deque(oldest)
        if self._probes >= PROBES_BEFORE_PERSISTENT and self._congestion is not None:
            self._congestion.handle_persistent_congestion()

    def _on_ack_limit(self, _now_ns: int) -> None:
        if self.window.unacked:
            self.close(CloseReason.ACK_TIMEOUT)

    def _on_store_ack_limit(self, _now_ns: int) -> None:
        if self._awaiting_store:
            self.close(CloseReason.STORE_ACK_TIMEOUT)

    def _on_cleanup(self, now_ns: int) -> None:
        idle_since_ns = self._last_packet_at_ns
        waits = self.window.unacked or self._awaiting_store or self.state is not State.OPEN
        if now_ns >= idle_since_ns + self._settings.cleanup_interval_ns and not waits:
            self.close(CloseReason.IDLE)
        else:
            idle_at_ns = idle_since_ns + self._settings.cleanup_interval_ns
            again_ns = now_ns + self._settings.cleanup_interval_ns // 2
            self._timers.start(Timer.CLEANUP, idle_at_ns if idle_at_ns > now_ns else again_ns)

    def _on_pacing(self, _now_ns: int) -> None:
        """Nothing to do: ``poll_transmit`` looks at the pacer itself."""

    def _on_drain_limit(self, _now_ns: int) -> None:
        self.close(CloseReason.LOCAL_STOP)

    def _close_if_drained(self) -> None:
        if self.state is State.DRAINING and not self.window.unacked and not self._awaiting_store:
            self.close(CloseReason.DRAINED)


_HANDLERS: dict[type, Callable[..., None]] = {
    wire.PacketFrame: Session._on_packet,
    wire.AckFrame: Session._on_ack,
    wire.StoreAckFrame: Session._on_store_ack,
    wire.PingFrame: Session._on_ping,
    wire.CloseFrame: Session._on_close,
}

_EXPIRIES: dict[Timer, Callable[[Session, int], None]] = {
    Timer.CONNECT_RESEND: Session._on_connect_resend,
    Timer.CONNECT_LIMIT: Session._on_connect_limit,
    Timer.ACK_DELAY: Session._on_ack_delay,
    Timer.LOSS: Session._detect_losses,
    Timer.PROBE: Session._on_probe,
    Timer.ACK_LIMIT: Session._on_ack_limit,
    Timer.STORE_ACK_LIMIT: Session._on_store_ack_limit,
    Timer.CLEANUP: Session._on_cleanup,
    Timer.PACING: Session._on_pacing,
    Timer.DRAIN_LIMIT: Session._on_drain_limit,
}
