"""One session: a conversation between two queue managers.

Give it input, then drain its outputs until each returns None:

- ``handle_*``: a hello, a datagram, a commit, the clock;
- ``events``: what has happened, for the owner to remove;
- ``poll_transmit`` until it returns None: the next datagrams to send;
- ``next_deadline``: when to call ``handle_timer`` if nothing happens before. An early call does nothing.

It promises that every packet given to ``send_packet`` is delivered and reported acknowledged, or that the session
closes with a named reason. It does not know queues, sequences, addresses, keys or disks. It carries introductions and
marks for its owner without reading them. It consists of these machines, one file each:

    states            the states, and why the session ends       opening           the hellos before it is open
    policy            the policy that both ends agree on         ack_sender        which acks leave with which datagram
    send_window       the window, and loss detection             session_ack       the packets that arrived
    departing         which packets leave now                    store_ack         the packets on our disk
    datagram_builder  in which datagrams, with which frames      store_ack_waiter  those not yet on the peer's disk
    loss_timers       what the peer owes, and until when         idle              when it had no packet for too long
    probing           asking for acks that do not come           pieces            packets longer than a datagram
    bbr               how much the network takes, and how fast   path_mtu          the largest datagram of the path
    pacing            how fast packets leave                     timers            every timer, by name
    path_size         the size of datagrams in force             keep_alive        when a ping keeps the path open
    rtt               the round trip time                        codec             how frames become bytes
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from triack.base.checks import DATAGRAM_MAX_BYTES
from triack.base.delivery import Delivery
from triack.base.errors import ProtocolError
from triack.base.reasons import DropReason
from triack.base.transitions import next_state
from triack.base.units import end_ns, in_ns
from triack.session.acknowledgements.ack_sender import AckSender
from triack.session.acknowledgements.probing import PROBE_PACKETS, Probing
from triack.session.congestion.pacing import network_share
from triack.session.congestion.rtt import RoundTrip
from triack.session.congestion.send_window import SPAN_WINDOWS, SendWindow
from triack.session.datagram_builder import DatagramBuilder
from triack.session.departing import Departing
from triack.session.idle import Idle
from triack.session.keep_alive import KeepAlive
from triack.session.loss_timers import LossTimers
from triack.session.path.path_size import PathSize
from triack.session.protocol.codec import Codec
from triack.session.protocol.events import (
    AcksRequested,
    Event,
    PacketArrived,
    PacketDropped,
    PacketsAcked,
    PacketsStored,
    PeerQuiet,
    PieceArrived,
    SessionClosed,
    SessionIdle,
    SessionOpened,
    Transmit,
    TransmitKind,
    TransmitRun,
    WindowChanged,
)
from triack.session.protocol.frames import (
    AckFrame,
    CloseFrame,
    Frame,
    Hello,
    PacketFrame,
    PacketRun,
    PieceFrame,
    PingFrame,
    ProbedFrame,
    ProbeFrame,
    RoundTripFrame,
    StoreAckFrame,
)
from triack.session.protocol.opening import CONNECT_RESEND_NS, Opening
from triack.session.protocol.packets import SessionPacket
from triack.session.protocol.path_traits import PathTraits
from triack.session.protocol.settings import SessionSettings
from triack.session.protocol.states import AS_HEARD, TRANSITIONS, UNTOLD, CloseReason, SessionEvent, SessionState
from triack.session.protocol.timers import Timer, Timers
from triack.session.snapshot import SessionSnapshot


class Session:
    """One end of a session.

    Attributes:
        events: what has happened; the owner removes what it has taken.
        connection_id: where this end wants to get its datagrams.
        peer: the peer's hello, without its introduction; None for an initiator that has no answer yet.
        commit_serial: the owner's mark, a number that only grows; packets and store acks carry it. The owner keeps it
            current.
        peer_commit_serial: the greatest mark that came from the peer.
        ack_sender: the acks that this end owes, and when they are due.
        timers: those that are set, and when each ends.
    """

    def __init__(
        self,
        settings: SessionSettings,
        codec: Codec,
        *,
        session_id: int,
        connection_id: int,
        introduction: bytes,
        peer: Hello | None,
        overhead_bytes: int,
        traits: PathTraits,
        now_ns: int,
        spacing_ns: int = 0,
        keep_alive_ns: int = 0,
    ) -> None:
        own = Hello.of(settings, session_id=session_id, connection_id=connection_id, introduction=introduction)
        self.peer = peer
        self.connection_id = connection_id
        self.policy = own.policy if peer is None else own.policy.agreed(peer.policy)
        self.state = SessionState.CONNECTING if peer is None else SessionState.ACCEPTING
        self.commit_serial = 0
        self.peer_commit_serial = 0
        self.rtt = RoundTrip()
        self._settings = settings
        self._codec = codec
        least_bytes = min(traits.base_bytes, settings.max_datagram_bytes)
        share = network_share(traits, settings, least_bytes, session_id ^ connection_id, now_ns)
        largest = settings.largest_window
        auto = settings.max_unacked_packet == "auto"
        self.window = SendWindow(largest, self.rtt, None if share is None else share.window, follows=auto)
        self._opening = Opening(replace(own, policy=self.policy), peer, spacing_ns, in_ns(settings.connect_timeout_s))
        self.ack_sender = AckSender(largest, self.policy, SPAN_WINDOWS * largest)
        self._probing = Probing(reliable=traits.reliable)
        self.idle = Idle(in_ns(settings.cleanup_interval_s), now_ns)
        self._keep_alive = KeepAlive(keep_alive_ns)
        self.timers = Timers()
        self.events: list[Event] = []
        self.path_size = PathSize(
            traits,
            settings.max_datagram_bytes,
            overhead_bytes=overhead_bytes,
            packet_header_bytes=codec.packet_header_bytes,
            share=share,
            window=self.window,
            rtt=self.rtt,
            timers=self.timers,
            tell=self.events.append,
        )
        self._departing = Departing(
            self.window, share, self._probing, self.ack_sender, self.rtt, self.timers, self.path_size
        )
        self._loss_timers = LossTimers(
            self.policy,
            self.window,
            self._departing,
            self._probing,
            self.ack_sender,
            self.rtt,
            self.timers,
            idle=self.idle,
        )
        self._builder = DatagramBuilder(
            codec, self._departing, self.ack_sender, self._probing, self.path_size, self._opening, self.take_counter
        )
        self._counter = 0
        self._goodbye: CloseReason | None = None
        self.timers[Timer.CONNECT_LIMIT] = end_ns(now_ns + in_ns(settings.connect_timeout_s), spacing_ns)
        if peer is not None:
            self._take_peer(peer)

    # ---- what the owner asks

    @property
    def hello(self) -> Hello:
        """The hello of this end."""
        return self._opening.hello

    @property
    def session_id(self) -> int:
        """The initiator's choice, the same at both ends."""
        return self._opening.hello.session_id

    @property
    def initiator(self) -> bool:
        """Whether this end began the session."""
        return self._opening.initiator

    @property
    def peer_store_wait_ns(self) -> int:
        """How long the peer waits for a store ack at least; 0 until it has said that."""
        return self.peer.policy.store_ack_timeout_min_ns if self.peer is not None else 0

    @property
    def one_way_ns(self) -> int:
        """How long a datagram takes to the peer, assumed to be half of the round trip; 0: not measured yet."""
        return self.rtt.smoothed_ns // 2 if self.rtt.latest_ns else 0

    @property
    def heard_at_ns(self) -> int:
        """When the last datagram of the peer came."""
        return self._probing.heard_at_ns

    @property
    def is_unanswered(self) -> bool:
        """Whether this end has tried to connect for a while without an answer."""
        return self.state is SessionState.CONNECTING and self._opening.is_unanswered

    @property
    def said_at_ns(self) -> int:
        """When this end last said its hello."""
        return self._opening.said_at_ns

    @property
    def is_closed(self) -> bool:
        """Whether the session has ended."""
        return self.state is SessionState.CLOSED

    @property
    def room(self) -> int:
        """How many packets ``send_packet`` accepts now."""
        return self.window.room if self.state is SessionState.OPEN else 0

    def stats(self) -> SessionSnapshot:
        """A snapshot of the session."""
        window, rtt, congestion = self.window, self.rtt, self.window.congestion
        return SessionSnapshot(
            is_answered=self.peer is not None,
            policy=self.policy,
            ack_terms=self.ack_sender.terms,
            store_ack_terms=self.ack_sender.store_terms,
            cleanup_interval_ns=self.idle.interval_ns,
            window=window.limit,
            unacked=window.unacked,
            acked=window.cumulative + window.acked_order,
            resends=window.resends,
            round_trip_ns=rtt.smoothed_ns if rtt.measured else None,
            probe_ns=rtt.probe_ns if rtt.measured else None,
            congestion="none" if congestion is None else congestion.name,
            congestion_window_bytes=None if congestion is None else congestion.window_bytes,
            datagram_bytes=self.path_size.size_bytes,
        )

    def send_packet(self, delivery: Delivery, content: bytes, context: object, *, ack_requested: bool = False) -> int:
        """Number a packet and queue it for sending. Returns the session's number of the packet.

        Args:
            delivery: its class.
            content: if longer than ``content_limit_bytes``, it leaves only by the run, in pieces (``poll_transmit``).
            context: anything; ``PacketsAcked`` and ``PacketsStored`` return it.
            ack_requested: ask the peer to acknowledge without delay.

        Raises:
            ValueError: no datagram at all can hold the content.
        """
        return self.send_packets(delivery, (content,), (context,), (ack_requested,))

    def send_packets(
        self, delivery: Delivery, contents: Sequence[bytes], contexts: Sequence[object], ack_requested: Sequence[int]
    ) -> int:
        """``send_packet`` for each of several, which may ask for any ``Ask``. Returns the number of the first."""
        header_bytes, longest_bytes = self.path_size.packet_overhead_bytes, max(map(len, contents))
        if longest_bytes + header_bytes > DATAGRAM_MAX_BYTES:
            raise ValueError(f"a content of {longest_bytes} bytes does not fit the datagram")
        if longest_bytes + header_bytes > self.path_size.longest_bytes:
            self.path_size.longest_bytes = longest_bytes + header_bytes
        return self.window.push(delivery, contents, contexts, ack_requested, header_bytes)

    def ping(self) -> None:
        """Ask the peer for every ack that it owes; a peer that then stays silent for the ack timeout is given up."""
        self._probing.ping_due = True

    def stay(self, now_ns: int) -> None:
        """Do not end for having nothing to do before another interval has passed.

        If nothing was heard of the peer for half of one, a ping asks whether it is still there.
        """
        if now_ns - self._probing.heard_at_ns >= self.idle.interval_ns // 2:
            self.ping()
        self.idle.since_ns = now_ns

    def drain(self, now_ns: int) -> None:
        """Accept no more packets, wait for the last acks, then close. Closes immediately if it is not open."""
        if self.state is SessionState.OPEN:
            self._move(SessionEvent.DRAIN)
            self.timers[Timer.DRAIN_LIMIT] = now_ns + in_ns(self._settings.drain_timeout_s)
            # Missing acks must not wait for the receiver's delays.
            self._probing.ping_due = True
            self._close_if_drained()
        elif self.state in (SessionState.CONNECTING, SessionState.ACCEPTING):
            self.close(CloseReason.LOCAL_STOP)

    def close(self, reason: CloseReason) -> None:
        """Close now and tell the peer, if there is one yet; a second call does nothing."""
        if self.state is SessionState.CLOSED:
            return
        # The accept makes the keys: until it is sent, the peer can read nothing else from us.
        if self.peer is not None and not self._opening.due and reason not in UNTOLD:
            self._goodbye = reason
        self._move(reason)
        self.timers.clear()
        self.events.append(SessionClosed(reason, self.window.unacked))

    def take_counter(self, count: int = 1) -> tuple[int, int]:
        """Reserve ``count`` counters; the owner may reserve some too."""
        first = self._counter + 1
        self._counter += count
        # Only a connect has our own id: it tells the peer where to send the answer.
        return (self.peer or self.hello).connection_id, first

    def introduce(self, introduction: bytes) -> None:
        """Replace the introduction while the session is not open; see ``Opening``."""
        if self.state in (SessionState.CONNECTING, SessionState.ACCEPTING):
            self._opening.introduce(introduction)

    def keep_alive(self, interval_ns: int, now_ns: int) -> None:
        """From now on send a ping after sending nothing for ``interval_ns``; 0: send none."""
        if interval_ns == self._keep_alive.interval_ns:
            return
        self._keep_alive.interval_ns = interval_ns
        self.timers.pop(Timer.KEEP_ALIVE, None)
        if interval_ns and self.state is SessionState.OPEN:
            self.timers[Timer.KEEP_ALIVE] = self._keep_alive.look_again_ns(now_ns)

    def hasten(self, wait_ns: int, now_ns: int) -> None:
        """The peer may be reachable again: an initiator without an answer repeats its hello within ``wait_ns``."""
        if self.state is SessionState.CONNECTING and self._opening.hasten(wait_ns):
            self.timers[Timer.CONNECT_RESEND] = now_ns + wait_ns

    # ---- inputs

    def handle_hello(self, peer: Hello, now_ns: int) -> None:
        """Handle the peer's hello: the accept (initiator) or one more connect (acceptor)."""
        if self.state is SessionState.CONNECTING:
            self._take_peer(peer)
            rtt_ns = max(1, now_ns - peer.sent_at_ns)
            self.rtt.update(rtt_ns)
            self._open(SessionEvent.ACCEPTED, now_ns, rtt_ns)
            # The acceptor waits for our first datagram, so one must leave, and again until it is answered.
            self._opening.handle_measured(rtt_ns, tells=self.policy.reckons_by_rtt)
            self.ack_sender.session_ack.debt.handle_request()
            self.timers[Timer.CONNECT_RESEND] = now_ns + CONNECT_RESEND_NS
            # It is open here, so it is not given up sooner than any open session.
            limit_ns = max(in_ns(self._settings.connect_timeout_s), self._loss_timers.timeout_ns)
            self.timers[Timer.CONNECT_LIMIT] = now_ns + limit_ns
        elif self.state is SessionState.ACCEPTING:
            self._opening.handle_connect(peer)

    def handle_retry(self) -> None:
        """The acceptor wants the connect once more."""
        self._opening.repeat()

    def handle_datagram(self, payload: bytes, counter: int, now_ns: int) -> None:
        """Handle the frames of the datagram with that counter.

        Raises ProtocolError: the datagram is not well-formed and was ignored as a whole. A ``repeated-frame`` has
        closed the session as well: it is no accident, and costs work.
        """
        if self.state not in _LISTENING:
            raise ProtocolError(DropReason.NOT_OPEN, self.state.value)
        try:
            frames = self._codec.decode(payload)
        except ProtocolError as error:
            if error.reason is DropReason.REPEATED_FRAME:
                self.close(CloseReason.PROTOCOL_ERROR)
            raise
        if self.state is SessionState.ACCEPTING:
            # A connect alone opens nothing: it may be a late copy. The sender of this datagram has received our accept.
            self._open(SessionEvent.CONFIRMED, now_ns, self._told_rtt_ns(frames))
        if self._opening.unconfirmed:
            self._confirm()
        self._loss_timers.handle_heard(now_ns)
        for frame in frames:
            _HANDLERS[type(frame)](self, frame, counter, now_ns)
            if self.state not in _LISTENING:
                return
        self.ack_sender.arm(self.timers)
        if self.state is SessionState.DRAINING:
            self._close_if_drained()

    def handle_datagrams(self, payloads: list[bytes], counters: list[int], now_ns: int) -> None:
        """Handle datagrams that came together, in order; one that is not well-formed is reported as dropped."""
        at, end = 0, len(payloads)
        while at < end:
            is_run = at + 1 < end and self.state in (SessionState.OPEN, SessionState.DRAINING)
            run = self.ack_sender.read_run(self._codec, payloads[at:]) if is_run else None
            first, at = at, at + (1 if run is None else len(run.contents))
            if run is not None:
                self._handle_run(run, max(counters[first:at]), now_ns)
                continue
            try:
                self.handle_datagram(payloads[first], counters[first], now_ns)
            except ProtocolError as error:
                self.events.append(PacketDropped(error.reason))

    def handle_stored(self, numbers: list[int], now_ns: int) -> None:
        """The commit that holds these received packets has returned."""
        self.ack_sender.handle_stored(numbers, now_ns)
        if self.state is not SessionState.CLOSED:
            self.ack_sender.arm(self.timers)

    def withhold(self, number: int) -> None:
        """A received packet is refused and its rejection follows: until the peer has that, session acks name it."""
        self.ack_sender.session_ack.handle_refused(number)

    def handle_unanswered(self, number: int) -> None:
        """No rejection of a withheld packet will follow: acks no longer name it."""
        self.ack_sender.session_ack.handle_unanswered(number)

    def handle_moved(self) -> None:
        """The peer is at another address: what was learned about the path no longer holds.

        Acks since it moved went to the old address, and it asks for them ever more rarely.
        """
        self.path_size.handle_moved()
        self.ack_sender.repeat()

    def handle_rejections_known(self, numbers: Collection[int]) -> None:
        """The peer has the rejections of these received packets, which no commit will hold: acks may pass them."""
        for number in numbers:
            self.ack_sender.store_ack.handle_not_durable(number)
        self.ack_sender.session_ack.handle_rejections_known(numbers)

    def handle_freed(self, numbers: list[int]) -> None:
        """The owner no longer needs store acks for these packets, sent or not. A draining session may close."""
        if self._loss_timers.unstored or self.window.unsent_bytes:
            self._loss_timers.handle_freed(numbers)
            self.window.handle_freed(numbers)
        self._close_if_drained()

    def handle_timer(self, now_ns: int) -> None:
        """Handle every expired timer."""
        while self.state is not SessionState.CLOSED:
            timer = self.timers.poll_expired(now_ns)
            if timer is None:
                return
            _EXPIRIES[timer](self, now_ns)

    def next_deadline(self) -> int | None:
        """When ``handle_timer`` must be called at the latest, or None."""
        return min(self.timers.values(), default=None)

    # ---- outputs

    def poll_transmit(self, now_ns: int, *, by_run: bool = True) -> Transmit | TransmitRun | None:
        """The next datagrams to send, or None.

        ``by_run``: packets leave together as far as they can, and those longer than a datagram in pieces. Without it
        each packet leaves alone; one that is longer, and those behind it, wait until the session ends.
        """
        if self.state not in (SessionState.OPEN, SessionState.DRAINING):
            return self._transmit_unopened(now_ns)
        leaving = self._builder.leaving(self.commit_serial, now_ns, by_run=by_run)
        if leaving is None:
            return None
        self._keep_alive.sent_at_ns = now_ns
        if type(leaving) is TransmitRun:
            self._handle_departed(leaving.packets, now_ns)
        elif type(leaving) is Transmit:
            if leaving.ack or leaving.store_ack:
                self.ack_sender.arm(self.timers)
            if leaving.ping and not self._opening.unconfirmed:
                self._loss_timers.handle_pinged(now_ns)
            if leaving.packet is not None:
                self._handle_departed([leaving.packet], now_ns)
        return leaving

    # ---- sending

    def _transmit_unopened(self, now_ns: int) -> Transmit | None:
        """The goodbye of a session that has ended, or the hello of one that is not open yet."""
        if self._goodbye is not None:
            reason, self._goodbye = self._goodbye, None
            return self._builder.goodbye(reason, self.commit_serial, now_ns)
        if self.state is SessionState.CLOSED or not self._opening.due:
            return None
        hello, wait_ns = self._opening.say(now_ns), self._opening.wait_ns
        if wait_ns is not None:
            self.timers[Timer.CONNECT_RESEND] = end_ns(now_ns + wait_ns, self._opening.spacing_ns)
        kind = TransmitKind.CONNECT if self.initiator else TransmitKind.ACCEPT
        return Transmit(kind, *self.take_counter(), self._codec.encode_hello(hello))

    def _handle_departed(self, run: list[SessionPacket], now_ns: int) -> None:
        self.idle.since_ns = now_ns
        self.path_size.handle_departed(run, now_ns)
        self._loss_timers.handle_departed(run, now_ns)

    # ---- receiving

    def _take_peer(self, peer: Hello) -> None:
        self.peer = replace(peer, introduction=b"", sent_at_ns=0)
        self.policy = self._loss_timers.agree(peer.policy)
        self.window.peer_window = peer.policy.window
        self.path_size.agree(peer.max_datagram_bytes)

    def _told_rtt_ns(self, frames: Sequence[Frame]) -> int:
        """The round trip that the initiator reports, capped by the connect timeout; 0: none."""
        told_ns = next((frame.rtt_ns for frame in frames if isinstance(frame, RoundTripFrame)), 0)
        return min(told_ns, in_ns(self._settings.connect_timeout_s))

    def _move(self, event: SessionEvent | CloseReason) -> None:
        self.state = next_state(TRANSITIONS, self.state, event)

    def _open(self, event: SessionEvent, now_ns: int, told_ns: int) -> None:
        self._move(event)
        measured_ns = self._opening.handle_opened(now_ns)
        rtt_ns = told_ns or measured_ns
        self._loss_timers.begin(rtt_ns)
        self.ack_sender.agree(self.policy, rtt_ns)
        self.timers.pop(Timer.CONNECT_LIMIT, None)
        self.timers[Timer.CLEANUP] = now_ns + in_ns(self._settings.cleanup_interval_s)
        self.idle.since_ns = now_ns
        if self._keep_alive.interval_ns:
            self.timers[Timer.KEEP_ALIVE] = now_ns + self._keep_alive.interval_ns
        self.events.append(SessionOpened())
        self.events += map(WindowChanged, self.window.changes())

    def _confirm(self) -> None:
        """The peer has spoken on the session, so it is open at both ends."""
        self._opening.unconfirmed = False
        self.timers.pop(Timer.CONNECT_RESEND, None)
        self.timers.pop(Timer.CONNECT_LIMIT, None)

    def _on_packet(self, frame: PacketFrame, counter: int, now_ns: int) -> None:
        if frame.mark > self.peer_commit_serial:
            self.peer_commit_serial = frame.mark
        event = self.ack_sender.handle_packet(frame, counter, now_ns)
        if type(event) is PacketArrived:
            self.idle.since_ns = now_ns
        self.events.append(event)

    def _on_piece(self, piece: PieceFrame, counter: int, now_ns: int) -> None:
        frame = self.ack_sender.join(piece)
        if frame is not None:
            self._on_packet(frame, counter, now_ns)
        elif not self.events or type(self.events[-1]) is not PieceArrived:
            self.events.append(PieceArrived())

    def _on_probe_frame(self, frame: ProbeFrame, _counter: int, _now_ns: int) -> None:
        self.path_size.handle_probe(frame)

    def _on_probed(self, frame: ProbedFrame, _counter: int, now_ns: int) -> None:
        self.path_size.handle_probed(frame, now_ns)

    def _handle_run(self, run: PacketRun, counter: int, now_ns: int) -> None:
        if self._opening.unconfirmed:
            self._confirm()
        self._loss_timers.handle_heard(now_ns)
        self.peer_commit_serial = max(self.peer_commit_serial, run.mark)
        self.idle.since_ns = now_ns
        self.events.append(self.ack_sender.handle_run(run, counter, now_ns))
        self.ack_sender.arm(self.timers)

    def _on_ack(self, frame: AckFrame, _counter: int, now_ns: int) -> None:
        window = self.window
        try:
            acked = window.handle_ack(frame.cumulative, frame.ranges, frame.echo, frame.delay_ns, now_ns)
        except ProtocolError:
            self.close(CloseReason.PROTOCOL_ERROR)
            return
        self._loss_timers.handle_measured()
        window.peer_window = frame.window or 1  # a window of 0 would never open again
        if acked:
            self._probing.handle_progress()
            if Timer.PROBE in self.timers:
                del self.timers[Timer.PROBE]
        else:
            self._probing.handle_barren()
        self._detect_losses(now_ns, acked)
        if acked or Timer.PROBE not in self.timers:
            self._loss_timers.arm_probe(now_ns)
        if acked and window.flying and not self._probing.last_asked and self._departing.is_stuck:
            # The window has shrunk, and packets that the peer need not acknowledge yet fill it.
            self._probing.ping_due = True
        if acked and not window.flying and not window.awaits_ack:
            self._loss_timers.handle_all_acked(now_ns)
        self.events.append(PacketsAcked(acked, window.undecided.sift(acked, frame)))
        if window.auto is not None:
            self.events += map(WindowChanged, window.changes())

    def check_invariants(self) -> None:
        """Assert that what it remembers of packets agrees, for simulations and searches."""
        self.window.check_invariants()
        self.ack_sender.session_ack.received.check_invariants()

    def _on_store_ack(self, frame: StoreAckFrame, _counter: int, now_ns: int) -> None:
        highest = frame.ranges[-1][1] if frame.ranges else frame.cumulative
        if highest > self.window.highest_sent:
            self.close(CloseReason.PROTOCOL_ERROR)
            return
        if frame.mark > self.peer_commit_serial:
            self.peer_commit_serial = frame.mark
        self.events.append(PacketsStored(self._loss_timers.handle_store_ack(frame.cumulative, frame.ranges, now_ns)))

    def _on_round_trip(self, _frame: RoundTripFrame, _counter: int, _now_ns: int) -> None:
        """Ignored: the reported round trip counts only when the session opens."""

    def _on_ping(self, _frame: PingFrame, _counter: int, _now_ns: int) -> None:
        self.ack_sender.session_ack.debt.handle_request()
        self.ack_sender.store_ack.handle_request()
        self.events.append(AcksRequested())

    def _on_close(self, frame: CloseFrame, _counter: int, _now_ns: int) -> None:
        self.close(AS_HEARD[frame.reason])
        # A peer that has said goodbye needs no answer.
        self._goodbye = None

    def _detect_losses(self, now_ns: int, acked: Sequence[SessionPacket] = ()) -> None:
        lost, look_again_ns = self.window.detect_losses(now_ns)
        self.path_size.handle_acked(acked, lost)
        if look_again_ns is None:
            if Timer.LOSS in self.timers:
                del self.timers[Timer.LOSS]
        else:
            self.timers[Timer.LOSS] = max(look_again_ns, now_ns + 1)

    # ---- timers

    def _on_connect_resend(self, now_ns: int) -> None:
        if self.state is SessionState.CONNECTING:
            self._opening.repeat()
        else:
            # Packets in flight already ask for an ack, unless the peer may take its time and the next packet waits for
            # that.
            self._probing.ping_due = not self.window.flying or self._departing.next_larger(now_ns) is not None
            self.timers[Timer.CONNECT_RESEND] = now_ns + CONNECT_RESEND_NS

    def _on_connect_limit(self, _now_ns: int) -> None:
        self.close(CloseReason.ACK_TIMEOUT if self._opening.unconfirmed else CloseReason.CONNECT_TIMEOUT)

    def _on_ack_delay(self, now_ns: int) -> None:
        self.ack_sender.handle_timer(now_ns)
        self.ack_sender.arm(self.timers)

    def _on_probe(self, now_ns: int) -> None:
        oldest = self.window.oldest_unacked(PROBE_PACKETS)
        awaits = bool(self._loss_timers.unstored) or self._loss_timers.is_asking
        if not self._probing.handle_timer(oldest, awaits=awaits):
            self._loss_timers.arm_probe(now_ns)
        elif self.window.congestion is not None and self._probing.poll_persistent():
            self.window.congestion.handle_persistent_congestion()
            self.path_size.handle_silence()

    def _on_ack_limit(self, _now_ns: int) -> None:
        self.close(CloseReason.ACK_TIMEOUT)

    def _on_quiet(self, now_ns: int) -> None:
        if self._loss_timers.handle_quiet(now_ns):
            self.events.append(PeerQuiet())

    def _on_store_ack_limit(self, _now_ns: int) -> None:
        if self._loss_timers.unstored:
            self.close(CloseReason.STORE_ACK_TIMEOUT)

    def _on_cleanup(self, now_ns: int) -> None:
        waits = self.window.unacked or self._loss_timers.unstored or self.state is not SessionState.OPEN
        if self.idle.is_over(now_ns) and not waits:
            self.events.append(SessionIdle())
        self.timers[Timer.CLEANUP] = self.idle.look_again_ns(now_ns)

    def _on_path_mtu(self, now_ns: int) -> None:
        self.path_size.handle_timer(now_ns)

    def _on_keep_alive(self, now_ns: int) -> None:
        if self._keep_alive.is_due(now_ns):
            self._probing.ping_due = True
        self.timers[Timer.KEEP_ALIVE] = self._keep_alive.look_again_ns(now_ns)

    def _on_pacing(self, _now_ns: int) -> None:
        """Nothing to do: ``poll_transmit`` looks at the pacer itself."""

    def _on_drain_limit(self, _now_ns: int) -> None:
        self.close(CloseReason.LOCAL_STOP)

    def _close_if_drained(self) -> None:
        if self.state is SessionState.DRAINING and not self.window.unacked and not self._loss_timers.unstored:
            self.close(CloseReason.DRAINED)


_LISTENING = (SessionState.ACCEPTING, SessionState.OPEN, SessionState.DRAINING)
_HANDLERS: dict[type, Callable[..., None]] = {
    PacketFrame: Session._on_packet,
    AckFrame: Session._on_ack,
    StoreAckFrame: Session._on_store_ack,
    PingFrame: Session._on_ping,
    CloseFrame: Session._on_close,
    ProbeFrame: Session._on_probe_frame,
    ProbedFrame: Session._on_probed,
    PieceFrame: Session._on_piece,
    RoundTripFrame: Session._on_round_trip,
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
    Timer.STORE_ACK_DELAY: Session._on_ack_delay,
    Timer.QUIET: Session._on_quiet,
    Timer.PATH_MTU: Session._on_path_mtu,
    Timer.KEEP_ALIVE: Session._on_keep_alive,
}
