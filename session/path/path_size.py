"""The size of the datagrams of a session, and its effect on packets.

Promise: the owner, which cuts packets, and the congestion control are notified of the size in force; the path is probed
while there is something to send (``path_mtu``). Streams and memory carry what both ends want, and are not probed.
"""

from collections.abc import Callable, Sequence
from operator import attrgetter

from triack.base.checks import DATAGRAM_BASE_BYTES
from triack.session.congestion.pacing import NetworkShare
from triack.session.congestion.rtt import RoundTrip
from triack.session.congestion.send_window import SendWindow
from triack.session.path.path_mtu import PROBE_NS, PathMtu
from triack.session.protocol.events import Event, ProbeAnswered, ProbeArrived, SizeChanged
from triack.session.protocol.frames import ProbedFrame, ProbeFrame
from triack.session.protocol.packets import SessionPacket
from triack.session.protocol.path_traits import PathTraits
from triack.session.protocol.timers import Timer, Timers

FLIGHT_PACKETS = 64
"""MSMQ's window. A peer has room for this number of the largest datagrams that it takes, or for its whole window of
base datagrams: a larger window of larger datagrams is not filled."""


class PathSize:
    """The datagrams of one end.

    Attributes:
        path: the search for the largest datagrams that it carries.
        packet_overhead_bytes: the same plus the header of a packet.
        answer: to a probe of the peer, to be sent with the next datagram; None when there is none.
        longest_bytes: of the longest packet that was handed over, as a datagram.
    """

    __slots__ = (
        "_most_bytes",
        "_rtt",
        "_share",
        "_tell",
        "_timers",
        "_traits",
        "_window",
        "answer",
        "longest_bytes",
        "overhead_bytes",
        "packet_overhead_bytes",
        "path",
        "probes",
        "size_bytes",
    )

    def __init__(
        self,
        traits: PathTraits,
        most_bytes: int,
        *,
        overhead_bytes: int,
        packet_header_bytes: int,
        share: NetworkShare | None,
        window: SendWindow,
        rtt: RoundTrip,
        timers: Timers,
        tell: Callable[[Event], None],
    ) -> None:
        self._traits = traits
        self._most_bytes = most_bytes
        self.overhead_bytes = overhead_bytes
        self.packet_overhead_bytes = overhead_bytes + packet_header_bytes
        self._share = share
        self._window = window
        self._rtt = rtt
        self._timers = timers
        self._tell = tell
        self.longest_bytes = 0
        self.probes = 0
        self.answer: ProbedFrame | None = None
        self.agree(most_bytes)

    def agree(self, peer_bytes: int) -> None:
        """The peer takes no longer datagrams."""
        most_bytes = min(self._most_bytes, peer_bytes)
        self.path = PathMtu(self._traits.base_bytes, most_bytes)
        self._use(self.path.size_bytes)

    def _use(self, size_bytes: int) -> None:
        """Datagrams of that size are in force."""
        self.size_bytes = size_bytes
        window, base = self._window, min(DATAGRAM_BASE_BYTES, size_bytes)
        window.most_bytes = max(FLIGHT_PACKETS * size_bytes, window.largest * base)
        window.packet_bytes = size_bytes

    @property
    def room_bytes(self) -> int:
        """For the frames of a datagram."""
        return self.size_bytes - self.overhead_bytes

    @property
    def piece_room_bytes(self) -> int:
        """For the frames of a datagram with a piece: always of the base size, so that a resend cuts the same pieces."""
        return self.path.base_bytes - self.overhead_bytes

    @property
    def has_larger(self) -> bool:
        """Whether there may be packets that no datagram holds."""
        return self.longest_bytes > self.size_bytes

    def fits(self, sent: SessionPacket) -> bool:
        """Whether a datagram holds the packet."""
        return sent.size_bytes <= self.size_bytes

    # ---- what happens

    def handle_departed(self, run: Sequence[SessionPacket], now_ns: int) -> None:
        """Packets leave."""
        path = self.path
        is_counted = path.sent_bytes < path.worth_bytes
        path.handle_sending(sum(map(_SIZE_OF, run)) if is_counted else 0, now_ns)

    def handle_acked(self, acked: Sequence[SessionPacket], lost: Sequence[SessionPacket]) -> None:
        """An ack has come: ``acked`` arrived, ``lost`` count as lost."""
        path = self.path
        if path.is_suspect and acked:
            path.handle_acked(max(sent.size_bytes for sent in acked))
        for sent in lost:
            path.handle_lost(sent.size_bytes)
        if lost:
            self._apply()

    def handle_silence(self) -> None:
        """Several probes in a row, which resend packets unchanged, went unanswered."""
        self.path.handle_silence()
        self._apply()

    def handle_moved(self) -> None:
        """The peer is at another address."""
        self.path.handle_moved()
        self._apply()

    def handle_timer(self, now_ns: int) -> None:
        """A probe was not answered in time."""
        self.path.handle_timer(now_ns)
        self._apply()

    def handle_probe(self, frame: ProbeFrame) -> None:
        """A probe of the peer's has come; the answer leaves with the next datagram."""
        self.answer = ProbedFrame(frame.number)
        self._tell(ProbeArrived(frame.size_bytes + self.overhead_bytes))

    def handle_probed(self, frame: ProbedFrame, now_ns: int) -> None:
        """The peer has answered a probe."""
        self._tell(ProbeAnswered())
        self.path.handle_answer(frame.number, now_ns)
        self._apply()

    def _apply(self) -> None:
        """Put a new size in force, and notify the congestion control and the owner."""
        path = self.path
        if not path.is_asking:
            self._timers.pop(Timer.PATH_MTU, None)
        if path.size_bytes == self.size_bytes:
            return
        self._use(path.size_bytes)
        if self._share is not None:
            self._share.handle_size(self.size_bytes)
        self._tell(SizeChanged(self.size_bytes))

    # ---- what leaves

    def poll_probe(self, now_ns: int) -> ProbeFrame | None:
        """The probe that leaves now, alone in its datagram, or None."""
        probe = self.path.poll_probe()
        if probe is None:
            return None
        self.probes += 1
        self._timers[Timer.PATH_MTU] = now_ns + max(PROBE_NS, self._rtt.probe_ns)
        return ProbeFrame(probe.number, probe.size_bytes - self.overhead_bytes)


_SIZE_OF = attrgetter("size_bytes")
