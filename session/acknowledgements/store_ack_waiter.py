"""The sending half of the store acknowledgement: which of our packets are not yet on the peer's disk.

Promise: a durable packet that was sent is reported stored once, when a store ack first covers it, or the session
closes.

The session ack frees room in the window; it does not end this wait ([MS-MQQB] 3.1.5.5: packets received and not yet
stored stay). The owner may end it with ``forget``: when another acknowledgement implies the store ack, or when the
packet was resent under another number, as the peer may then answer only that one.
"""

from triack.base.delivery import DURABLE
from triack.base.ranges import NumberSet, Range
from triack.base.units import MS
from triack.session.congestion.rtt import RoundTrip
from triack.session.protocol.packets import SessionPacket
from triack.session.protocol.policy import Policy

PROBE_MIN_NS = 100 * MS
"""A disk may take a while, and asking does not make it faster."""
TIMEOUT_PROBES = 8
"""The timeout in probe times; [MS-MQQB] 3.1.5.3.2 has 8 round trips for its RecoverableAckSendTimeout."""


_UNMEASURED = RoundTrip()
"""Shared by all sessions that have not waited for a store ack, and never changed: another one takes 90 bytes."""


class StoreAckWaiter:
    """The packets of one direction of one session that wait for store acks: ``packets``, by number."""

    __slots__ = ("_covered", "_delay", "_policy", "packets")

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.packets: dict[int, SessionPacket] = {}
        self._covered = NumberSet()
        self._delay = _UNMEASURED

    @property
    def probe_ns(self) -> int:
        """How long a store ack may take before asking again."""
        return max(2 * self._delay.probe_ns, PROBE_MIN_NS)

    @property
    def timeout_ns(self) -> int:
        """How long to wait for the next store ack before the session closes (MSMQ ``StoreAckTimeout``)."""
        policy, adaptive_ns = self._policy, TIMEOUT_PROBES * self._delay.probe_ns
        if adaptive_ns < policy.store_ack_timeout_min_ns:
            adaptive_ns = policy.store_ack_timeout_min_ns
        return adaptive_ns if adaptive_ns < policy.store_ack_timeout_max_ns else policy.store_ack_timeout_max_ns

    def add(self, run: list[SessionPacket]) -> bool:
        """Packets leave: durable ones that leave for the first time wait from now on. Returns whether there are any."""
        is_durable = False
        for sent in run:
            if sent.delivery in DURABLE and sent.sends == 1 and not sent.is_freed:
                self.packets[sent.number] = sent
                is_durable = True
        return is_durable

    def forget(self, numbers: list[int]) -> None:
        """Store acks for these packets are no longer needed."""
        for number in numbers:
            if number in self.packets:
                del self.packets[number]

    def handle_ack(self, cumulative: int, ranges: list[Range], now_ns: int) -> list[SessionPacket]:
        """Take a store ack. Returns the packets that it newly covers, in the order in which they were sent first."""
        waiting = self.packets
        stored: list[SessionPacket] = []
        # Each number is looked at once, however often a peer acknowledges it.
        for first, last in ((1, cumulative), *ranges):
            for fresh in self._covered.take_run(first, last):
                # The range may hold many more packets of other classes, which do not wait.
                fewer = fresh if len(fresh) <= len(waiting) else [number for number in waiting if number in fresh]
                stored += [waiting.pop(number) for number in fewer if number in waiting]
        # The last packet waited least. A resent one gives no sample: the ack may answer either sending.
        if stored and stored[-1].sends == 1:
            if self._delay is _UNMEASURED:
                self._delay = RoundTrip()
            self._delay.update(now_ns - stored[-1].sent_at_ns)
        return stored
