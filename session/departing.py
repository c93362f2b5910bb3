"""Which packets of a session leave now, and which of them ask for an ack.

Promise: probes leave immediately, everything else as the congestion window and the pacer allow. The sender never stands
still waiting for an ack that the peer need not send yet.

Packets that leave for the first time, with nothing else in their datagrams, leave in runs: the same packets, in the
same way, as would leave one by one at that moment.
"""

from collections.abc import Sequence
from itertools import takewhile

from triack.session.acknowledgements.ack_sender import AckSender
from triack.session.acknowledgements.probing import Probing
from triack.session.congestion.pacing import ASKS, NetworkShare, RunRoom
from triack.session.congestion.rtt import RoundTrip
from triack.session.congestion.send_window import SendWindow
from triack.session.path.path_size import PathSize
from triack.session.protocol.frames import Ask
from triack.session.protocol.packets import PacketState, SessionPacket
from triack.session.protocol.timers import Timer, Timers

EARLY_ASKS = 2
"""Acks per window, until the peer has acknowledged as many packets as its ack threshold."""
EARLY_PACKETS = 128
"""Or this number: a few windows that only begin to grow. If a path carries more, its bandwidth must be known soon."""


class Departing:
    """Chooses the packets that leave a session."""

    __slots__ = (
        "_ack_debt",
        "_ack_sender",
        "_asked",
        "_asked_bytes",
        "_path_size",
        "_probing",
        "_rtt",
        "_share",
        "_timers",
        "_window",
    )

    def __init__(
        self,
        window: SendWindow,
        share: NetworkShare | None,
        probing: Probing,
        ack_sender: AckSender,
        rtt: RoundTrip,
        timers: Timers,
        path_size: PathSize,
    ) -> None:
        self._window = window
        self._share = share
        self._probing = probing
        self._ack_sender = ack_sender
        self._ack_debt = ack_sender.session_ack.debt
        self._rtt = rtt
        self._timers = timers
        self._path_size = path_size
        # The packet that asked last, and what was in flight with it, which its ack may free.
        self._asked: SessionPacket | None = None
        self._asked_bytes = 0

    def next_packet(self, now_ns: int) -> SessionPacket | None:
        """The packet that leaves now, or None; if the pacer holds it back, this sets a timer."""
        probe = self._probing.peek() if self._probing.due else None
        if probe is not None:
            # Neither congestion window nor pacer holds back a probe (RFC 9002 6.2.4, 7.5).
            return probe
        window = self._window
        sent = window.peek() if window.unsent_bytes or window.lost else None
        if sent is None:
            if window.congestion is not None:
                window.congestion.handle_app_limited(window.in_flight_bytes)
            return None
        if not window.has_credit(sent):
            return None
        if self._share is not None:
            ready_at_ns = self._share.ready_at_ns(self._rtt, sent.size_bytes, now_ns)
            if ready_at_ns > now_ns:
                self._timers[Timer.PACING] = ready_at_ns
                return None
        return sent

    def next_larger(self, now_ns: int) -> SessionPacket | None:
        """The packet that leaves now if it is longer than a datagram, so that it must leave in pieces."""
        sent = self.next_packet(now_ns) if self._path_size.has_larger else None
        return None if sent is None or self._path_size.fits(sent) else sent

    def next_run(self) -> list[SessionPacket]:
        """The packet that ``next_packet`` gave, and those behind it that may leave with it, all for the first time."""
        share, sizes = self._share, self._path_size
        room = RunRoom() if share is None else share.run_room(self._rtt)
        run = self._window.next_run(room.until_ask_bytes, room.credit_bytes)
        return list(takewhile(sizes.fits, run)) if sizes.has_larger else run

    def handle_sent(self, run: Sequence[SessionPacket], counter: int, now_ns: int, *, pieces: int = 1) -> int:
        """The packet of ``next_packet``, or those of ``next_run``, leave. Returns the ``Ask`` of the last.

        They leave in datagrams from that counter on; a packet that is longer than a datagram in ``pieces`` of them. The
        others ask only if their owner wants it: another packet may follow each of them.
        """
        share, terms, last = self._share, self._ack_debt.terms, run[-1]
        probes = self._probing.handle_sent(last)
        run_bytes = self._window.handle_sent(run, counter, now_ns)
        if pieces > 1:
            self._window.handle_pieces_sent(last, range(counter + 1, counter + pieces))
        # Probes bypass the pacer and cost no credit: many of them would use up that of a slow flow for seconds.
        spent = (not probes and share is not None) and share.handle_sent(
            last.size_bytes,
            terms,
            before_bytes=run_bytes - last.size_bytes,
            spare_bytes=self._window.spare_bytes,
            ack_requested=self._asks_of_window,
        )
        waits = spent or (self.stands_still and not self._is_asked)
        at_once = probes or last.sends > 1 or (waits and not self.peer_acks)
        ack_requested = Ask.AT_ONCE if at_once else last.ack_requested
        if at_once:
            self._asked, self._asked_bytes = last, self._window.in_flight_bytes
        self._probing.last_asked = ack_requested
        return ack_requested

    @property
    def _asks_of_window(self) -> int:
        """Acks per window that this end wants, whatever the peer's terms are.

        A window that is still small is used up before the peer's ack threshold is reached. A few acks are enough then:
        the first shows that the path works, and each later one doubles the window.
        """
        if not self._window.acked_order:
            return 1
        acked, threshold = self._window.cumulative, self._ack_debt.terms.count or 0
        return EARLY_ASKS if acked < threshold and acked < EARLY_PACKETS else ASKS

    @property
    def _is_asked(self) -> bool:
        """Whether the first ack, which was asked for, will open the window for all that waits."""
        window, asked = self._window, self._asked
        if window.acked_order or asked is None or asked.state is not PacketState.IN_FLIGHT:
            return False
        return window.unsent_bytes <= self._asked_bytes

    @property
    def stands_still(self) -> bool:
        """Whether no packet may leave before another is acknowledged: a window is full."""
        window = self._window
        following = window.peek() if window.unsent_bytes or window.lost else None
        return not window.room if following is None else not window.has_credit(following)

    @property
    def is_stuck(self) -> bool:
        """Whether the sender stands still and the peer need not acknowledge anything yet."""
        return self.stands_still and not self.peer_acks

    @property
    def peer_acks(self) -> bool:
        """Whether enough is in flight for the peer to acknowledge some of it immediately, without being asked."""
        window = self._window
        packets = len(window.flying)
        content_bytes = window.in_flight_bytes - packets * self._path_size.packet_overhead_bytes
        return self._ack_debt.terms.reached(packets, content_bytes)
