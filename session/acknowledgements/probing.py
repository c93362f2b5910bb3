"""Asking for acknowledgements that do not come: probes and pings.

Promise: while something is unacknowledged the peer is asked for it again and again, each time after twice the wait
(RFC 9002 section 6.2), yet several times within the silence that closes the session. A peer that answers every time,
and acknowledges nothing, is asked ever more rarely.

A path that loses half of all datagrams each way answers one probe in four, and a wait that doubles each time is soon
all that a session does. So the wait doubles only when more probes in a row went unanswered than it usually takes: the
rows that ended with an answer tell how many that is. A peer that never answers tells nothing, and on a path without
losses one probe is what it takes.

A probe sends the oldest packets once more and asks with them. When every packet has arrived it is a ping: for store
acks that are missing, or because the owner asked. So it is over a stream, where a packet that is not acknowledged is on
its way as a rule, and a copy would go behind it: only when the peer has answered, and acknowledged nothing, packets go
again. An owner that may wait for what no session knows of, as it does for order acks, is told of a peer that is quiet:
first after half of the silence that closes a session, then after waits that double, so that a peer that is gone is
noticed soon, and one that has nothing to say is left alone.
"""

from triack.session.protocol.frames import Ask
from triack.session.protocol.packets import PacketState, SessionPacket

__all__ = ["PROBE_PACKETS", "Probing"]

PROBE_PACKETS = 2
"""Packets that one probe resends: the loss of one does not cost another wait (RFC 9002 6.2.4)."""
PROBES_BEFORE_PERSISTENT = 3
"""Probes unanswered in a row that make congestion persistent: kPersistentCongestionThreshold of RFC 9002 7.6.1."""
USUAL_MAX = 8
"""Probes that it usually takes, at most: where three of four datagrams are lost each way it takes sixteen, and to ask
more often than that would be a load of its own."""
USUAL_WEIGHT = 8
"""Each row counts for so small a part of what is usual: RFC 6298, section 2, smooths round trips in the same way."""
USUAL_SLACK = 0.5
"""A row of two or three now and then, as where one datagram in ten is lost, changes nothing: half a probe is allowed
for it."""
QUIET_SHARE = 2
"""A peer is quiet after this part of the ack timeout: it holds no ack back for longer (``session.policy``)."""
VAIN_ROUNDS = 8
"""So often a peer may answer and acknowledge nothing until it is asked more rarely, and again until the wait doubles:
as many probes as fit into an ack timeout, and more than losses explain."""
VAIN_DOUBLINGS = 5
"""The wait grows no further: to four ack timeouts, 8 s on most paths. Whoever begins to acknowledge does so unasked;
an ack that is lost costs that wait, and so does a peer that dies meanwhile."""
_DOUBLINGS_MAX = 10
"""More are beyond any silence that a session lasts, and only make large numbers."""


class Probing:
    """What one end has to ask.

    Args:
        reliable: whether the path is (``PathTraits``).

    Attributes:
        heard_at_ns: when anything came last.
        last_asked: the ``Ask`` of the packet sent last; without one the peer may take its time.
        ping_due: whether a ping leaves with the next datagram.
    """

    __slots__ = (
        "_due",
        "_is_answered",
        "_persists",
        "_pings",
        "_quiets",
        "_reliable",
        "_rounds",
        "_usual",
        "_vain",
        "heard_at_ns",
        "last_asked",
        "ping_due",
    )

    def __init__(self, *, reliable: bool = False) -> None:
        self._reliable = self._pings = reliable
        self._due: list[SessionPacket] = []
        self._quiets = 0
        self._rounds = 0
        self._usual = 1.0
        self._persists = False
        self._vain = 0
        self._is_answered = False
        self.heard_at_ns = 0
        self.last_asked: int = Ask.NO
        self.ping_due = False

    def poll_persistent(self) -> bool:
        """Whether so many probes in a row went unanswered that the network must be worse than we think; said once."""
        if self._doublings < PROBES_BEFORE_PERSISTENT or self._persists:
            return False
        self._persists = True
        return True

    @property
    def _doublings(self) -> int:
        """How often the wait has doubled."""
        return int(self._rounds / max(1.0, self._usual - USUAL_SLACK))

    def _end_row(self) -> None:
        """Somebody has answered."""
        if self._rounds:
            self._usual += (min(self._rounds, USUAL_MAX) - self._usual) / USUAL_WEIGHT
            self._rounds = 0

    @property
    def is_patient(self) -> bool:
        """Whether the peer has answered, and so often in vain that there is no hurry to ask again."""
        return self._is_answered and self._vain >= VAIN_ROUNDS

    def wait_ns(self, first_ns: int, most_ns: int, patient_ns: int = 0) -> int:
        """How long to wait until the next probe.

        Args:
            first_ns: the wait before the first one.
            most_ns: the longest wait for an answer, unless already the first is longer.
            patient_ns: the longest wait when there is no hurry, unless that is longer.
        """
        wait_ns = min(first_ns << min(self._doublings, _DOUBLINGS_MAX), max(most_ns, first_ns))
        if not self.is_patient:
            return wait_ns
        doublings = min(self._vain // VAIN_ROUNDS, VAIN_DOUBLINGS)
        return max(wait_ns, min(wait_ns << doublings, most_ns << VAIN_DOUBLINGS, patient_ns))

    def quiet_ns(self, timeout_ns: int) -> int:
        """How long nothing may come, with nothing unacknowledged, until the owner is told.

        Args:
            timeout_ns: the ack timeout, or when the session ends if that is sooner.
        """
        return timeout_ns // QUIET_SHARE << min(self._quiets, _DOUBLINGS_MAX)

    def handle_quiet(self) -> None:
        """The owner is told; the next time it takes twice as long."""
        self._quiets += 1

    def handle_progress(self) -> None:
        """Something was acknowledged."""
        self._end_row()
        self._persists = False
        self._quiets = 0
        self._pings = self._reliable
        self.begin_anew()

    def begin_anew(self) -> None:
        """Something was acknowledged, or has left for the first time: for what is awaited now nobody asked in vain."""
        self._vain = 0
        self._is_answered = False

    def handle_heard(self, now_ns: int) -> bool:
        """Anything has come. Returns whether the next probe waits longer for that."""
        self.heard_at_ns = now_ns
        before, self._is_answered = self.is_patient, True
        return self.is_patient and not before

    def handle_barren(self) -> None:
        """The peer has answered, and acknowledged nothing."""
        self._pings = False

    def handle_answer(self) -> None:
        """The peer has answered a ping."""
        self._end_row()

    def handle_timer(self, oldest: list[SessionPacket], *, awaits: bool) -> bool:
        """Nobody has answered in time. Returns whether packets leave with the probe.

        Args:
            oldest: the packets to send again, none when all have arrived.
            awaits: whether there is something else to ask for: a store ack, or any answer to a ping.
        """
        self._rounds += 1
        self._vain += self._is_answered
        self._is_answered = False
        if oldest and not self._pings:
            self._due = list(oldest)
            return True
        self.ping_due = self.ping_due or bool(oldest) or awaits
        return False

    def peek(self) -> SessionPacket | None:
        """The packet that goes next as a probe, or None; what was acknowledged or lost meanwhile is none any more."""
        while self._due:
            if self._due[0].state is PacketState.IN_FLIGHT:
                return self._due[0]
            del self._due[0]
        return None

    def handle_sent(self, packet: SessionPacket) -> bool:
        """A packet leaves. Returns whether it is the probe that ``peek`` gave."""
        if self._due and self._due[0] is packet:
            del self._due[0]
            return True
        self._pings = self._reliable
        return False
