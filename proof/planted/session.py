"""Mistakes of ``session/`` and of how sessions are opened."""

from collections.abc import Sequence
from math import ceil
from typing import Any

from proof.planted.bug import Always, Bugs, Patch
from proof.planted.stories import DIED, NARROW, OVERTAKEN, POLICIES
from proof.planted.worlds import LOSSY, OLD_DATAGRAMS, PLAIN, RECEIVER_DIES, WINDOW
from proof.search.stillness import session_of
from triack.base.ack_debt import AckDebt
from triack.base.ack_trigger import AckTrigger
from triack.base.datagram import Header
from triack.queues.peers.handshake import Handshakes
from triack.queues.peers.link import Link
from triack.queues.peers.session_settings import SessionMaker
from triack.session import session
from triack.session.acknowledgements.session_ack import SessionAck
from triack.session.acknowledgements.store_ack import StoreAck
from triack.session.congestion.send_window import SPAN_WINDOWS, SendWindow
from triack.session.loss_timers import LossTimers
from triack.session.path.path_mtu import PathMtu, SizeProbe
from triack.session.path.path_size import PathSize
from triack.session.protocol.packets import PacketState, SessionPacket
from triack.session.protocol.policy import Policy
from triack.session.protocol.states import CloseReason, SessionState
from triack.session.protocol.timers import Timer

BUGS = Bugs()


@BUGS.by_seeds("nobody is told that a window has grown", SendWindow, "changes")
def _window_grows(changes: Any, self: SendWindow) -> list[int]:
    return [] if self._told else changes(self)


@BUGS.by_both("the window is off by one", WINDOW, "unacknowledged")
def _window(patch: Patch) -> None:
    def room(self: SendWindow) -> int:
        span = self.cumulative + SPAN_WINDOWS * self.limit - (self.next_number - 1)
        return max(0, min(self.limit + 1 - self.unacked, span))

    patch.setattr(SendWindow, "room", property(room))


@BUGS.by_both("a session ack names a packet that has not come", PLAIN, "never arrived", SessionAck, "handle_packet")
def _session_ack(
    handle_packet: Any,
    self: SessionAck,
    number: int,
    size_bytes: int,
    *,
    counter: int,
    ack_requested: bool,
    now_ns: int,
) -> bool:
    expected = self.received.highest + 1
    if number > expected:
        self.received.add(expected)
    return handle_packet(self, number, size_bytes, counter=counter, ack_requested=ack_requested, now_ns=now_ns)


BUGS.by_search("a session ack overtakes a refusal", OVERTAKEN, "told as received, and each was refused")(
    Always(None, SessionAck, "handle_refused")
)


@BUGS.by_search(
    "a third of the window is rounded up", POLICIES, "a third of 50 packets: acknowledged", AckTrigger, "threshold"
)
def _round_up(_right: Any, self: AckTrigger, window: int) -> int | None:
    return None if self.window_share is None else ceil(self.window_share * window)


@BUGS.by_search("an ack does not end the interval", POLICIES, "an interval of a second: acknowledged", AckDebt, "add")
def _interval(
    add: Any,
    self: AckDebt,
    packets: int,
    size_bytes: int,
    now_ns: int,
    *,
    ack_requested: bool = False,
    gap: bool = False,
    asked_by_ns: int | None = None,
) -> None:
    first_ns = self._first_at_ns
    add(self, packets, size_bytes, now_ns, ack_requested=ack_requested, gap=gap, asked_by_ns=asked_by_ns)
    self._first_at_ns = first_ns or now_ns


@BUGS.by_search("a policy is taken as it is stated", POLICIES, "patience for two: acknowledged", Policy, "bounded")
def _unbounded(_right: Any, self: Policy, other: Policy) -> Policy:
    return self


@BUGS.by_search("a packet is sent again under a new number", LOSSY, "sent again as packet", SendWindow, "handle_sent")
def _new_number(handle_sent: Any, self: SendWindow, run: Sequence[SessionPacket], counter: int, now_ns: int) -> int:
    sent, again = run[0], run[0].state is not PacketState.QUEUED
    run_bytes: int = handle_sent(self, run, counter, now_ns)
    if again:
        del self._packets[sent.number], self.flying[sent.number]
        sent.number = self.highest_sent = self.next_number
        self.next_number += 1
        self._packets[sent.number] = self.flying[sent.number] = sent
    return run_bytes


@BUGS.by_search("silence never closes a session", RECEIVER_DIES, "is open")
def _silence(patch: Patch) -> None:
    patch.setitem(session._EXPIRIES, Timer.ACK_LIMIT, lambda self, _now_ns: None)


@BUGS.by_seeds("bytes on the disk make no store ack due", StoreAck, "handle_stored")
def _store_ack_bytes(handle_stored: Any, self: StoreAck, numbers: list[int], now_ns: int) -> None:
    self._sizes.clear()
    handle_stored(self, numbers, now_ns)


@BUGS.by_search("a quiet peer is not asked", DIED, "still waits")
def _unasked(patch: Patch) -> None:
    patch.setitem(session._EXPIRIES, Timer.QUIET, lambda self, now_ns: None)


BUGS.by_search("a ping need not be answered", DIED, "still waits")(Always(None, LossTimers, "handle_pinged"))


@BUGS.by_search(
    "a session is open as soon as the connect comes", PLAIN, "without hearing", Handshakes, "handle_connect"
)
def _open_with_connect(
    handle_connect: Any, self: Handshakes, datagram: bytes, header: Header, sender: str, now_ns: int
) -> None:
    handle_connect(self, datagram, header, sender, now_ns)
    for conversation in self.conversations.values():
        if conversation.session.state is SessionState.ACCEPTING:
            session_of(conversation).state = SessionState.OPEN


BUGS.by_search("every session has the same connection id", OLD_DATAGRAMS, "went from open to accepting")(
    Always(7, SessionMaker, "connection_id")
)


@BUGS.by_seeds("datagrams grow before the answer to their probe", PathMtu, "poll_probe")
def _unproved(poll_probe: Any, self: PathMtu) -> SizeProbe | None:
    probe = poll_probe(self)
    if probe is not None:
        self.size_bytes = max(self.size_bytes, probe.size_bytes)
    return probe


@BUGS.by_search(
    "a lost probe of the path is taken for congestion", NARROW, "though no packet was lost", PathSize, "handle_timer"
)
def _probe_is_congestion(handle_timer: Any, self: PathSize, now_ns: int) -> None:
    handle_timer(self, now_ns)
    if self._share is not None:
        self._share.window.handle_persistent_congestion()


@BUGS.by_seeds("nobody connects again", Link, "handle_closed")
def _reconnect(handle_closed: Any, self: Link, reason: CloseReason, now_ns: int) -> None:
    handle_closed(self, reason, now_ns)
    self.retry_at_ns += (now_ns << self.patience._attempts) - now_ns
