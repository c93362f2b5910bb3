"""Asking for acknowledgements that do not come: probes and pings.

Promise: while something is unacknowledged, this end probes the peer again and again. The wait doubles each time
(RFC 9002 section 6.2), yet several probes fit into the silence that closes the session. A peer that answers every time
but acknowledges nothing is probed ever more rarely.

A path that loses half of all datagrams each way answers one probe in four. If the wait doubled each time, the session
would soon do nothing but wait. So it doubles only when more probes in a row went unanswered than usual, as learned from
the rows that ended with an answer. With a peer that never answered, or on a path without losses, the usual number is 1.

A probe resends the oldest packets and asks for acks with them. When every packet has arrived it is a ping: for missing
store acks, or because the owner asked. Over a stream it is a ping too, as an unacknowledged packet is usually still in
flight and a copy would queue behind it: packets are resent only if the peer answers and acknowledges nothing.

The owner may wait for acks that no session knows of, such as order acks. So it is notified of a quiet peer: first after
half of the silence that closes a session, then after waits that double. A peer that is gone is noticed soon, and one
that has nothing to send is left alone.
"""

from triack.session.protocol.frames import Ask
from triack.session.protocol.packets import PacketState, SessionPacket

PROBE_PACKETS = 2
"""Packets that one probe resends: the loss of one does not cost another wait (RFC 9002 6.2.4)."""
PROBES_BEFORE_PERSISTENT = 3
"""Probes unanswered in a row that make congestion persistent: kPersistentCongestionThreshold of RFC 9002 7.6.1."""
USUAL_MAX = 8
"""Upper limit of the usual number of probes. Where three of four datagrams are lost each way it takes sixteen; probing
that often would be a load of its own."""
USUAL_WEIGHT = 8
"""Each row counts for one part in this many of the usual number: RFC 6298, section 2, smooths round trips this way."""
USUAL_SLACK = 0.5
"""Half a probe of tolerance: a row of two or three now and then, as where one datagram in ten is lost, changes
nothing."""
QUIET_SHARE = 2
"""A peer is quiet after the ack timeout divided by this: it holds no ack back for longer (``session.policy``)."""
VAIN_ROUNDS = 8
"""Answers that acknowledge nothing before the peer is probed more rarely, and before each further doubling of the wait:
as many as the probes that fit into an ack timeout, and more than losses explain."""
VAIN_DOUBLINGS = 5
"""Limit of these doublings: the wait grows to four ack timeouts, 8 s on most paths. A peer that begins to acknowledge
does so unasked; a lost ack costs that wait, and so does a peer that dies meanwhile."""
_DOUBLINGS_MAX = 10
"""More doublings exceed any silence that a session survives, and only make large numbers."""


class Probing:
    """The probes and pings of one end.

    Args:
        reliable: whether the path is (``PathTraits``).

    Attributes:
        due: packets to send again as probes.
        heard_at_ns: when the last datagram came.
        last_asked: the ``Ask`` of the packet sent last; for ``Ask.NO`` the peer may delay its ack.
        ping_due: whether a ping leaves with the next datagram.
    """

    __slots__ = (
        "_is_answered",
        "_persists",
        "_pings",
        "_quiets",
        "_reliable",
        "_rounds",
        "_usual",
        "_vain",
        "due",
        "heard_at_ns",
        "last_asked",
        "ping_due",
    )

    def __init__(self, *, reliable: bool = False) -> None:
        self._reliable = self._pings = reliable
        self.due: list[SessionPacket] = []
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
        """Whether enough probes in a row went unanswered to call congestion persistent; True only once per row."""
        if self._doublings < PROBES_BEFORE_PERSISTENT or self._persists:
            return False
        self._persists = True
        return True

    @property
    def _doublings(self) -> int:
        """The number of times that the wait has doubled."""
        return int(self._rounds / max(1.0, self._usual - USUAL_SLACK))

    def _end_row(self) -> None:
        """The peer has answered."""
        if self._rounds:
            self._usual += (min(self._rounds, USUAL_MAX) - self._usual) / USUAL_WEIGHT
            self._rounds = 0

    @property
    def is_patient(self) -> bool:
        """Whether the peer answers, but has acknowledged nothing for so long that the next probe is not urgent."""
        return self._is_answered and self._vain >= VAIN_ROUNDS

    def wait_ns(self, first_ns: int, most_ns: int, patient_ns: int = 0) -> int:
        """How long to wait until the next probe.

        Args:
            first_ns: the wait before the first one.
            most_ns: the longest wait for an answer, unless already the first is longer.
            patient_ns: the longest wait when the probe is not urgent, unless ``wait_ns`` is longer anyway.
        """
        wait_ns = first_ns
        if self._rounds:
            wait_ns = min(first_ns << min(self._doublings, _DOUBLINGS_MAX), max(most_ns, first_ns))
        if not self._vain or not self.is_patient:
            return wait_ns
        doublings = min(self._vain // VAIN_ROUNDS, VAIN_DOUBLINGS)
        return max(wait_ns, min(wait_ns << doublings, most_ns << VAIN_DOUBLINGS, patient_ns))

    def quiet_ns(self, timeout_ns: int) -> int:
        """After how long without a datagram, with nothing unacknowledged, the owner is notified.

        Args:
            timeout_ns: the ack timeout, or when the session ends if that is sooner.
        """
        return timeout_ns // QUIET_SHARE << self._quiets

    def handle_quiet(self) -> None:
        """The owner is notified; the next wait is twice as long."""
        self._quiets = min(self._quiets + 1, _DOUBLINGS_MAX)

    def handle_progress(self) -> None:
        """Something was acknowledged."""
        if self._rounds:
            self._end_row()
        self._persists = False
        self._quiets = 0
        self._pings = self._reliable
        self._vain, self._is_answered = 0, False

    def begin_anew(self) -> None:
        """A packet was acknowledged, or was sent for the first time: no probe for what is owed now was in vain."""
        self._vain, self._is_answered = 0, False

    def handle_heard(self, now_ns: int) -> bool:
        """A datagram has come. Returns whether the next probe becomes less urgent."""
        self.heard_at_ns = now_ns
        before, self._is_answered = self._is_answered, True
        return self._vain >= VAIN_ROUNDS and not before

    def handle_barren(self) -> None:
        """The peer has answered and acknowledged nothing."""
        self._pings = False

    def handle_answer(self) -> None:
        """The peer has answered a ping."""
        self._end_row()

    def handle_timer(self, oldest: list[SessionPacket], *, awaits: bool) -> bool:
        """The peer has not answered in time. Returns whether packets leave with the probe.

        Args:
            oldest: the packets to send again, none when all have arrived.
            awaits: whether there is something else to ask for: a store ack, or any answer to a ping.
        """
        self._rounds += 1
        self._vain += self._is_answered
        self._is_answered = False
        if oldest and not self._pings:
            self.due = list(oldest)
            return True
        self.ping_due = self.ping_due or bool(oldest) or awaits
        return False

    def peek(self) -> SessionPacket | None:
        """The next packet to send as a probe, or None; those acknowledged or lost meanwhile are skipped."""
        while self.due:
            if self.due[0].state is PacketState.IN_FLIGHT:
                return self.due[0]
            del self.due[0]
        return None

    def handle_sent(self, packet: SessionPacket) -> bool:
        """A packet leaves. Returns whether it is the probe that ``peek`` gave."""
        if self.due and self.due[0] is packet:
            del self.due[0]
            return True
        self._pings = self._reliable
        return False
