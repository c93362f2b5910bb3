"""Pacing: spreading what a session sends over its round trip, on a network that it shares.

Promise: no burst is longer than the network takes from any sender (RFC 9002 section 7.7), and none is shorter than it
must be: waking for each packet of a fast flow would cost more than sending it. A process that is scheduled late makes
up for that, within bounds.
"""

from typing import NamedTuple

from triack.base.ack_trigger import AckTerms
from triack.base.units import MS, SECOND
from triack.session.congestion.bbr import Bbr
from triack.session.congestion.congestion import Congestion, NewReno, Paced
from triack.session.congestion.rtt import RoundTrip
from triack.session.congestion.send_window import UNBOUNDED_BYTES
from triack.session.congestion.stream_window import StreamWindow
from triack.session.protocol.path_traits import PathTraits
from triack.session.protocol.settings import SessionSettings

BURST_PACKETS = 10
"""The most packets in a burst: the initial congestion window (RFC 9002 7.7, 7.2)."""
BURST_BYTES = 14_720
"""The most bytes in a burst; two packets may leave even if they are larger (RFC 9002 7.2)."""
BUCKET_NS = 2 * MS
"""Timers are not finer than a millisecond or two, so the bucket must hold the credit of that time."""
LATE_NS = 8 * MS
"""A sender that waited for credit and wakes late gets the credit of at most this time: two or three turns of other
processes on the same core, and less than the queue of a path of 10 ms holds."""
QUANTUM_NS = MS
"""A sender that has spent its credit waits for the credit of this time, as BBR does for its send quantum
(draft-cardwell-iccrg-bbr-congestion-control-02, section 4.6.3), but for at least a packet: a slow flow is even."""
QUANTUM_MAX_BYTES = 64 * 1024
"""The largest send quantum of BBR (same section): what hardware sends at once."""
ASKS = 8
"""Acks per window when the peer would wait longer: with fewer the bandwidth cannot be measured."""


class Pacer:
    """A token bucket that lets packets go at a rate (RFC 9002 section 7.7), a send quantum at a time.

    Attributes:
        credit_bytes: the tokens in the bucket. The sender takes what it has sent.
        was_late: whether the last call came so late that some of the credit is lost.
    """

    __slots__ = ("_burst_bytes", "_filled_at_ns", "_spent", "credit_bytes", "was_late")

    def __init__(self, datagram_bytes: int, now_ns: int) -> None:
        self.credit_bytes = self._burst_bytes = 0
        self.handle_size(datagram_bytes)
        self._filled_at_ns = now_ns
        self._spent = False
        self.was_late = False

    def handle_size(self, datagram_bytes: int) -> None:
        """Set the size of datagrams; a bucket that grows gets the difference as credit."""
        burst_bytes = min(BURST_PACKETS * datagram_bytes, max(BURST_BYTES, 2 * datagram_bytes))
        self.credit_bytes += max(0, burst_bytes - self._burst_bytes)
        self._burst_bytes = burst_bytes

    def ready_at_ns(self, rate: int, packet_bytes: int, now_ns: int) -> int:
        """When the next packet may go; ``now_ns`` or earlier means at once."""
        flow_bytes = rate * (now_ns - self._filled_at_ns) // SECOND
        self.was_late = False
        if flow_bytes:
            most_bytes = rate * (LATE_NS if self._spent else BUCKET_NS) // SECOND
            if most_bytes < self._burst_bytes:
                most_bytes = self._burst_bytes
            credit_bytes = self.credit_bytes + flow_bytes
            self.was_late = self._spent and credit_bytes > most_bytes
            self.credit_bytes = credit_bytes if credit_bytes < most_bytes else most_bytes
            self._filled_at_ns = now_ns
        if self.credit_bytes >= packet_bytes and not self._spent:
            return now_ns
        quantum_bytes = min(rate * QUANTUM_NS // SECOND, QUANTUM_MAX_BYTES)
        missing_bytes = max(packet_bytes, quantum_bytes) - self.credit_bytes
        self._spent = missing_bytes > 0
        if not self._spent:
            return now_ns
        # Rounded up, so that the credit is there then.
        return now_ns - -missing_bytes * SECOND // rate


class RunRoom(NamedTuple):
    """How much may leave at once, in a run of packets.

    Attributes:
        until_ask_bytes: one more packet may follow as long as those before it have fewer bytes.
        credit_bytes: the credit of the pacer; the first packet may exceed it.
    """

    until_ask_bytes: int = UNBOUNDED_BYTES
    credit_bytes: int = UNBOUNDED_BYTES


class NetworkShare:
    """What a session may take of a network that it shares with others: how much in all, and how fast."""

    __slots__ = ("_datagram_bytes", "_paced", "_pacer", "_passed_bytes", "_unasked_bytes", "window")

    def __init__(
        self, settings: SessionSettings, datagram_bytes: int, seed: int, now_ns: int, *, paced: bool = True
    ) -> None:
        self._datagram_bytes = datagram_bytes
        self._pacer = Pacer(self._datagram_bytes, now_ns)
        self._paced: Paced | None = None
        if paced:
            is_bbr = settings.congestion == "bbr"
            self._paced = Bbr(self._datagram_bytes, seed) if is_bbr else NewReno(self._datagram_bytes)
        self.window: Congestion = self._paced or StreamWindow(self._datagram_bytes)
        self._unasked_bytes = 0
        self._passed_bytes = 0

    def handle_size(self, datagram_bytes: int) -> None:
        """The path carries larger datagrams than before, or smaller ones."""
        self._datagram_bytes = datagram_bytes
        self._pacer.handle_size(datagram_bytes)
        if self._paced is not None:
            self._paced.handle_size(datagram_bytes)

    def ready_at_ns(self, rtt: RoundTrip, packet_bytes: int, now_ns: int) -> int:
        """When the next packet, of that size, may go; ``now_ns`` or earlier means at once."""
        if self._paced is None or not rtt.latest_ns:
            return now_ns  # there is nothing to spread over, or not yet
        # A packet that leaves in pieces may exceed any credit.
        if packet_bytes > self._datagram_bytes or packet_bytes > self.window.window_bytes:
            packet_bytes = min(self._datagram_bytes, self.window.window_bytes)
        ready_at_ns = self._pacer.ready_at_ns(self._paced.rate(rtt.smoothed_ns), packet_bytes, now_ns)
        if self._pacer.was_late:
            self._paced.handle_late()
        return ready_at_ns

    def run_room(self, rtt: RoundTrip) -> RunRoom:
        """How much may leave behind each other, beginning with a packet that ``ready_at_ns`` lets go now.

        None of them is held back by the pacer, and none but the last is one with which to ask for an ack.
        """
        until_ask_bytes = max(1, -(-self.window.window_bytes // ASKS) - self._unasked_bytes)
        if self._paced is None or not rtt.latest_ns:
            return RunRoom(until_ask_bytes)
        return RunRoom(until_ask_bytes, self._pacer.credit_bytes)

    def handle_sent(
        self,
        last_bytes: int,
        terms: AckTerms,
        *,
        before_bytes: int = 0,
        spare_bytes: int = 0,
        ack_requested: int = ASKS,
    ) -> bool:
        """A packet was sent, or several as ``run_room`` said. Returns whether it is time to ask for an ack.

        A sender that gets no ack before its window is spent stands still for a round trip. That happens if the peer's
        ack threshold exceeds half of the window. It does not matter to a sender with nothing more to send and half of
        the window left. Where one ack a window is enough, the threshold may be the whole window.

        Args:
            last_bytes: of the packet, the last of a run; the number of packets that fit is estimated from it.
            terms: when the peer acknowledges without being asked.
            before_bytes: of the packets of the run before it.
            spare_bytes: how much of the window is left, if nothing more is to be sent.
            ack_requested: the least number of acks per window.
        """
        self._pacer.credit_bytes -= before_bytes + last_bytes
        self._unasked_bytes += before_bytes + last_bytes
        window_bytes = self.window.window_bytes
        if self._unasked_bytes * ASKS < window_bytes or spare_bytes > window_bytes // 2:
            return False
        self._passed_bytes += self._unasked_bytes
        self._unasked_bytes = 0
        # Until the next check this many more bytes may leave; in all they must not exceed the window.
        if self._passed_bytes * ack_requested + window_bytes // ASKS + self._datagram_bytes <= window_bytes:
            return False
        self._passed_bytes = 0
        without_bytes = window_bytes if ack_requested == 1 else window_bytes // 2
        return not terms.reached(without_bytes // last_bytes, without_bytes)


def network_share(
    traits: PathTraits, settings: SessionSettings, datagram_bytes: int, seed: int, now_ns: int
) -> NetworkShare | None:
    """The share of a session on a path with these traits; None where no network is shared, as in memory."""
    if not (traits.paced or traits.reliable):
        return None
    return NetworkShare(settings, datagram_bytes, seed, now_ns, paced=traits.paced)
