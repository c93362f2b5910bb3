"""What the peer owes: session acks, store acks, answers to pings. When to ask for them again, and for how long.

Promise: this end asks several times for whatever the peer owes before the peer's silence closes the session, and any
datagram from the peer delays that. Store acks have a separate limit, as the disk may hang in a peer that answers.
``probing`` decides how to ask, and how often.
"""

from triack.base.ranges import Range
from triack.session.acknowledgements.ack_sender import AckSender
from triack.session.acknowledgements.probing import Probing
from triack.session.acknowledgements.session_ack import PATIENCE_NS
from triack.session.acknowledgements.store_ack_waiter import StoreAckWaiter
from triack.session.congestion.rtt import RoundTrip
from triack.session.congestion.send_window import SendWindow
from triack.session.departing import Departing
from triack.session.idle import Idle
from triack.session.protocol.frames import Ask
from triack.session.protocol.packets import SessionPacket
from triack.session.protocol.policy import TIMEOUT_PROBES, Policy
from triack.session.protocol.timers import Timer, Timers


class LossTimers:
    """The waits of one end of a session, except those of its opening.

    Attributes:
        policy: in force now; see ``agree``.
        store_ack_waiter: waits for the peer's disk.
        unstored: the packets that are not yet on it.
        timeout_ns: the ack timeout: how long a peer that owes something may be silent.
    """

    __slots__ = (
        "_ack_sender",
        "_departing",
        "_idle",
        "_probing",
        "_rtt",
        "_timers",
        "_window",
        "policy",
        "store_ack_waiter",
        "timeout_ns",
        "unstored",
    )

    def __init__(
        self,
        policy: Policy,
        window: SendWindow,
        departing: Departing,
        probing: Probing,
        ack_sender: AckSender,
        rtt: RoundTrip,
        timers: Timers,
        *,
        idle: Idle,
    ) -> None:
        self.policy = policy
        self.store_ack_waiter = StoreAckWaiter(policy)
        self.unstored = self.store_ack_waiter.packets
        self._window = window
        self._departing = departing
        self._probing = probing
        self._ack_sender = ack_sender
        self._idle = idle
        self._rtt = rtt
        self._timers = timers
        self.handle_measured()

    def agree(self, stated: Policy) -> Policy:
        """Put the policy in force that the peer's one leads to. Returns it."""
        self.policy = self.policy.agreed(stated)
        self.handle_measured()
        return self.policy

    def begin(self, handshake_ns: int) -> None:
        """The session is open; the handshake took that long."""
        self._rtt.begin(handshake_ns)
        self.handle_measured()

    def handle_measured(self) -> None:
        """The round trip may have changed, on which the ack timeout depends."""
        self.timeout_ns = self.policy.ack_timeout_ns(self._rtt.probe_ns)

    @property
    def is_asking(self) -> bool:
        """Whether a ping has not been answered, and no packet waits for an ack."""
        return Timer.ACK_LIMIT in self._timers and not self._window.awaits_ack

    @property
    def _quiet_ns(self) -> int:
        """After how long without a datagram the owner is notified: early enough to ask before the session is idle."""
        return self._probing.quiet_ns(min(self.timeout_ns, self._idle.interval_ns))

    # ---- what begins a wait

    def handle_departed(self, run: list[SessionPacket], now_ns: int) -> None:
        """Begin the waits for packets that leave."""
        if run[-1].sends == 1:
            self._probing.begin_anew()
        if self.store_ack_waiter.add(run) and Timer.STORE_ACK_LIMIT not in self._timers:
            self._await_store(now_ns)
        if Timer.ACK_LIMIT not in self._timers:
            self._timers[Timer.ACK_LIMIT] = now_ns + self.timeout_ns
        self.arm_probe(now_ns)

    def handle_pinged(self, now_ns: int) -> None:
        """A ping leaves: it must be answered before the ack timeout, as a packet must be acknowledged."""
        self._timers.setdefault(Timer.ACK_LIMIT, now_ns + self.timeout_ns)
        self.await_quiet(now_ns)
        self.arm_probe(now_ns)

    def arm_probe(self, now_ns: int) -> None:
        """Schedule the next request for what the peer owes; several fit before the ack timeout."""
        probe_ns = self._rtt.probe_ns
        if self._window.flying:
            first_ns = probe_ns
            if not self._probing.last_asked and not self._departing.peer_acks:
                first_ns += self._ack_sender.terms.delay_ns
            elif self._probing.last_asked == Ask.WITH_STORE:
                first_ns += PATIENCE_NS
        elif self.unstored:
            first_ns = self.store_ack_waiter.probe_ns
            if not self._probing.last_asked:
                first_ns += self._ack_sender.store_terms.delay_ns
        elif self.is_asking:
            first_ns = probe_ns
        else:
            self._timers.pop(Timer.PROBE, None)
            return
        # Several probes must fit into the ack timeout, and a patient wait and the timeout into the longest timeout.
        patient_ns = self.policy.ack_timeout_max_ns - self.timeout_ns
        wait_ns = self._probing.wait_ns(first_ns, self.timeout_ns // TIMEOUT_PROBES, patient_ns)
        self._timers[Timer.PROBE] = now_ns + wait_ns

    def await_quiet(self, since_ns: int) -> None:
        """Something arrived or a ping left at ``since_ns``: check again later whether the peer is quiet."""
        self._timers[Timer.QUIET] = since_ns + self._quiet_ns

    # ---- what ends one

    def handle_heard(self, now_ns: int) -> None:
        """A datagram of any kind has come. All count: only a silent peer is given up."""
        put_off, waits = self._probing.handle_heard(now_ns), Timer.ACK_LIMIT in self._timers
        if waits and not self._window.flying and not self._window.awaits_ack:
            del self._timers[Timer.ACK_LIMIT]
            self._probing.handle_answer()
            self.arm_probe(now_ns)
            return
        if put_off:
            self.arm_probe(now_ns)
        if not waits:
            return
        limit_ns = now_ns + self.timeout_ns
        if self._probing.is_patient:
            # Where probes are rare, the peer is not silent for too long before the next one.
            asked_ns = self._timers.get(Timer.PROBE) or now_ns
            longest_ns = now_ns + self.policy.ack_timeout_max_ns
            limit_ns = max(limit_ns, min(asked_ns + self.timeout_ns, longest_ns))
        self._timers[Timer.ACK_LIMIT] = limit_ns

    def handle_all_acked(self, now_ns: int) -> None:
        """End the wait: no packet waits for a session ack."""
        if Timer.ACK_LIMIT in self._timers:
            del self._timers[Timer.ACK_LIMIT]
        self.await_quiet(now_ns)

    def handle_store_ack(self, cumulative: int, ranges: list[Range], now_ns: int) -> list[SessionPacket]:
        """Handle a store ack. Returns the packets that it newly covers."""
        stored = self.store_ack_waiter.handle_ack(cumulative, ranges, now_ns)
        if stored:
            self._probing.begin_anew()
        if not self.unstored:
            if Timer.STORE_ACK_LIMIT in self._timers:
                del self._timers[Timer.STORE_ACK_LIMIT]
        elif stored:
            self._await_store(now_ns)
        return stored

    def _await_store(self, now_ns: int) -> None:
        """Begin the wait for the next store ack.

        Its limit is for a peer that answers but stores nothing. Only the ack timeout covers silence, so this limit ends
        no sooner than that, as far as its maximum allows.
        """
        silence_ns = min(self.timeout_ns, self.policy.store_ack_timeout_max_ns)
        self._timers[Timer.STORE_ACK_LIMIT] = now_ns + max(self.store_ack_waiter.timeout_ns, silence_ns)

    def handle_freed(self, numbers: list[int]) -> None:
        """Store acks for these packets are no longer needed."""
        self.store_ack_waiter.forget(numbers)
        if Timer.STORE_ACK_LIMIT in self._timers and not self.unstored:
            del self._timers[Timer.STORE_ACK_LIMIT]

    def handle_quiet(self, now_ns: int) -> bool:
        """Check whether the peer is quiet. Returns whether it is, so that the owner must be notified."""
        # While an ack is awaited, probes already ask for it.
        waits = Timer.ACK_LIMIT in self._timers or self.unstored
        since_ns = now_ns if waits else self._probing.heard_at_ns
        if now_ns < since_ns + self._quiet_ns:
            self.await_quiet(since_ns)
            return False
        self._probing.handle_quiet()
        # If the owner waits for nothing now, it may when the next wait, twice as long, ends.
        self.await_quiet(now_ns)
        return True
