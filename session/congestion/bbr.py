"""Sharing the network by a model of it: BBR (draft-ietf-ccwg-bbr).

It measures what a path delivers and how long it takes, sends at that rate, and looks now and then for more.

Promise: the path is kept full and its queue nearly empty, whatever share of packets it loses by chance. Losses by
congestion make the sender slow down; it makes up for those by chance (``loss_floor``).

    STARTUP --full--> DRAIN --drained--> DOWN --drained--> LISTEN --heard--> CRUISE --probe--> REFILL
    REFILL --refilled--> UP --sated--> DOWN
    DOWN or LISTEN --probe--> REFILL
    any but STARTUP --stale--> PROBE_RTT --measured--> CRUISE

Differences from the draft, each for a reason: losses count only above the floor. STARTUP ends when the path delivers no
more, and not by losses, as the share lost by chance is not known yet. PROBE_RTT is not entered from STARTUP: only a
sender with little to send stays there long, and it sees short round trips anyway. The draft has no LISTEN: DOWN ends
when the queue has gone, and so nothing is sent in it that shows which losses occur without one.
"""

from enum import IntEnum
from typing import ClassVar

from triack.base.transitions import next_state
from triack.base.units import MS, SECOND
from triack.session.congestion.delivery_rate import DeliveryRate, RateSample, Sending
from triack.session.congestion.loss_floor import LossFloor
from triack.session.congestion.path_model import AckBunching, Bandwidth, ShortestTrip


class BbrState(IntEnum):
    """The phase of the sender (section 5.2)."""

    STARTUP = 0
    """Doubles its rate each round until the path delivers no more (5.3.1)."""
    DRAIN = 1
    """Drains the queue that it made (5.3.2)."""
    DOWN = 2
    """Sends less than is delivered, so that other flows find room (5.3.3.1)."""
    CRUISE = 3
    """Sends as much as is delivered (5.3.3.2)."""
    REFILL = 4
    """The same for a round, without the bounds that losses have set (5.3.3.3)."""
    UP = 5
    """Sends more, to see whether it is delivered (5.3.3.4)."""
    LISTEN = 6
    """Sends as little for another round, without a queue: what is lost now is lost by chance."""
    PROBE_RTT = 7
    """Sends so little that our queue drains, to measure the shortest round trip (5.3.4)."""


class BbrEvent(IntEnum):
    """What ends a phase."""

    FULL = 0
    DRAINED = 1
    PROBE = 2
    REFILLED = 3
    SATED = 4
    HEARD = 5
    STALE = 6
    MEASURED = 7


TRANSITIONS: dict[BbrState, dict[BbrEvent, BbrState]] = {
    BbrState.STARTUP: {BbrEvent.FULL: BbrState.DRAIN},
    BbrState.DRAIN: {BbrEvent.DRAINED: BbrState.DOWN, BbrEvent.STALE: BbrState.PROBE_RTT},
    BbrState.DOWN: {
        BbrEvent.DRAINED: BbrState.LISTEN,
        BbrEvent.PROBE: BbrState.REFILL,
        BbrEvent.STALE: BbrState.PROBE_RTT,
    },
    BbrState.LISTEN: {
        BbrEvent.HEARD: BbrState.CRUISE,
        BbrEvent.PROBE: BbrState.REFILL,
        BbrEvent.STALE: BbrState.PROBE_RTT,
    },
    BbrState.CRUISE: {BbrEvent.PROBE: BbrState.REFILL, BbrEvent.STALE: BbrState.PROBE_RTT},
    BbrState.REFILL: {BbrEvent.REFILLED: BbrState.UP, BbrEvent.STALE: BbrState.PROBE_RTT},
    BbrState.UP: {BbrEvent.SATED: BbrState.DOWN, BbrEvent.STALE: BbrState.PROBE_RTT},
    BbrState.PROBE_RTT: {BbrEvent.MEASURED: BbrState.CRUISE},
}
"""The next state by state and event."""

PACING_PERCENT = {
    BbrState.STARTUP: 277,
    BbrState.DRAIN: 50,
    BbrState.DOWN: 90,
    BbrState.LISTEN: 95,
    BbrState.CRUISE: 100,
    BbrState.REFILL: 100,
    BbrState.UP: 125,
    BbrState.PROBE_RTT: 100,
}
"""The sending rate relative to the delivery rate (section 5.6.1): 4 ln 2 doubles in a round, 1 / 2 reverts that."""
WINDOW_PERCENT = {
    BbrState.STARTUP: 200,
    BbrState.DRAIN: 200,
    BbrState.DOWN: 130,
    BbrState.LISTEN: 130,
    BbrState.CRUISE: 130,
    BbrState.REFILL: 130,
    BbrState.UP: 180,
    BbrState.PROBE_RTT: 50,
}
"""How many round trips' worth may be in flight (same). The draft says 200 where this says 130, and 225 where it says
180: with those, a flow keeps any part of a queue that it has once taken, and a NewReno flow beside it got a third of
its rate, at a queue of one round trip's worth. Acknowledgements that come in bunches get room on top."""
_SPARING = (BbrState.LISTEN, BbrState.PROBE_RTT)
_DRAINING = (BbrState.DRAIN, BbrState.DOWN)
_PROBING = (BbrState.DOWN, BbrState.LISTEN, BbrState.CRUISE)
STRAYS = 2
"""Losses that a round may have on top while the sender does not probe: of twenty packets one is 5 %."""
MARGIN_PERCENT = 99
"""BBRPacingMarginPercent is 1: at exactly the rate of the path a queue would never drain (section 2.4)."""
HEADROOM_PERCENT = 85
"""BBRHeadroom: the part that we use of the bound that losses have shown; the rest is for other flows (section 2.7)."""
BETA_PERCENT = 70
"""BBRBeta: the part of a bound that is left after a round with too many losses (same)."""
INITIAL_WINDOW_PACKETS, INITIAL_WINDOW_BYTES = 10, 14_720
"""RFC 9002 7.2: ten datagrams, but of large ones no more than these bytes or two."""
MINIMUM_WINDOW_PACKETS = 4
"""BBRMinPipeCwnd (section 2.7)."""
QUANTA_NS = 3 * MS
"""Three send quanta of a millisecond may be in flight: being sent, being received, being answered (section 5.6.4.2)."""
SHORT_NS = MS
"""A path shorter than a send quantum is within a machine or a room. Packets cannot be spread over its round trip, so
the window alone decides; and the delay is that of the processes at its ends, not of the network."""
TURN_NS = 50 * MS
"""On a short path, what is delivered in this time may be in flight: several turns of other processes on these cores."""
UNPACED_RATE = 1 << 40
"""Bytes a second, faster than any network."""
STARTUP_ROUNDS = 20
"""Ten packets, doubled this often, are more than any network carries in a round trip."""
PROBE_AFTER_NS, PROBE_SPREAD_NS = 2 * SECOND, SECOND
"""A path is probed every 2 to 3 s, at different moments by flows that began together (section 5.3.3.8)."""
PROBE_AFTER_ROUNDS_MAX = 63
"""And at the latest when a sender with Reno's rule would have grown as much (same)."""
MEASURE_NS = 200 * MS
"""ProbeRTTDuration (section 2.13.2): longer than most round trips, and 4 % of the time at most."""


class Bbr:
    """One direction of one path.

    Args:
        datagram_bytes: of the largest datagram.
        seed: any number; flows with different ones probe at different moments.
    """

    name: ClassVar[str] = "bbr"
    __slots__ = ("_bound", "_bunching", "_datagram_bytes", "_delivery", "_entered_at_ns", "_growth_packets", "_idle",
                 "_is_clear", "_is_late", "_most_bytes", "_probe_at_ns", "_round_trip_ns", "_rounds", "_seed",
                 "bandwidth", "floor", "state", "trip", "window_bytes")  # fmt: skip

    def __init__(self, datagram_bytes: int, seed: int) -> None:
        self.state = BbrState.STARTUP
        initial = max(2 * datagram_bytes, INITIAL_WINDOW_BYTES)
        self.window_bytes = min(INITIAL_WINDOW_PACKETS * datagram_bytes, initial)
        self.bandwidth, self.trip, self.floor = Bandwidth(), ShortestTrip(), LossFloor()
        self._datagram_bytes = datagram_bytes
        self._delivery, self._bunching = DeliveryRate(), AckBunching()
        self._seed = seed
        self._most_bytes: int | None = None  # BBR.inflight_longterm
        self._growth_packets = 1
        self._bound: tuple[int, int] | None = None  # BBR.bw_shortterm, BBR.inflight_shortterm
        self._rounds = 0
        self._entered_at_ns = 0
        self._probe_at_ns = 0
        self._idle = False
        self._is_late = False
        self._is_clear = False
        self._round_trip_ns = 0

    # ---- for the sender

    def rate(self, smoothed_ns: int) -> int:
        """Bytes a second; before anything was delivered, from the window and the round trip."""
        if 0 < self.trip.min_ns < SHORT_NS:
            return UNPACED_RATE
        bandwidth = self._sending_rate
        if not bandwidth:
            bandwidth = self.window_bytes * SECOND // max(smoothed_ns, 1)
        return max(PACING_PERCENT[self.state] * MARGIN_PERCENT * bandwidth // 10_000, 1)

    @property
    def _sending_rate(self) -> int:
        """Bytes a second that the path carries, including those it loses by chance."""
        limit = self.bandwidth.limit
        return limit if self._bound is None else min(limit, self._bound[0])

    @property
    def _path_bytes(self) -> int:
        """The bandwidth-delay product: the bytes that the path holds without a queue."""
        return self._sending_rate * self.trip.min_ns // SECOND

    @property
    def _minimum_bytes(self) -> int:
        return MINIMUM_WINDOW_PACKETS * self._datagram_bytes

    # ---- inputs

    def handle_size(self, datagram_bytes: int) -> None:
        """Raise the window to the minimum for such datagrams; their size says nothing else about the path."""
        self._datagram_bytes = datagram_bytes
        self.window_bytes = max(self.window_bytes, self._minimum_bytes)

    def handle_sent(self, size_bytes: int, in_flight_bytes: int, now_ns: int) -> Sending:
        """Packets leave together, on top of ``in_flight_bytes``. The result comes back with the fate of each packet."""
        if not in_flight_bytes and self._delivery.app_limited_until:
            self._idle = True
        if self._is_late:
            self._is_late = False
            self._delivery.handle_app_limited(in_flight_bytes)
        # It leaves the network room if it sends less than it has seen delivered.
        spares = self.state in _SPARING or self._bound is not None
        return self._delivery.handle_sent(size_bytes, in_flight_bytes, now_ns, spares=spares)

    def handle_app_limited(self, in_flight_bytes: int) -> None:
        """There is nothing to send."""
        if in_flight_bytes < self.window_bytes:
            self._delivery.handle_app_limited(in_flight_bytes)

    def handle_late(self) -> None:
        """The next samples show how much this process could send, and not that the path takes no more.

        In STARTUP only for ``STARTUP_ROUNDS``: a process that is always late would never find the path full.
        """
        self._is_late = self.state is not BbrState.STARTUP or self._rounds < STARTUP_ROUNDS

    def handle_acked(self, packets: int, size_bytes: int, sending: Sending) -> None:
        """Packets that left together are acknowledged; ``handle_ack`` follows after the last of an ack."""
        self._delivery.handle_acked(sending, size_bytes)
        self.floor.handle_acked(packets, spared=sending.spares and self._is_clear)

    def handle_lost(self, size_bytes: int, sending: Sending, now_ns: int) -> None:  # noqa: ARG002 - as any controller
        """A packet is lost; the losses of a round are judged when it ends."""
        self._delivery.handle_lost(size_bytes)
        self.floor.handle_lost(spared=sending.spares and self._is_clear)

    def handle_ack(self, in_flight_bytes: int, rtt_ns: int, now_ns: int) -> None:
        """An acknowledgement has been taken; ``rtt_ns`` is the round trip it shows, 0 for none (section 5.2.3)."""
        sample = self._delivery.take_sample(self.trip.min_ns, now_ns)
        if sample is None:
            return
        bandwidth = self.bandwidth
        # A round may by chance lose less than others: that is no additional bandwidth.
        rate = self.floor.carried(sample.rate)
        if rate > sample.tried_rate:
            rate = sample.tried_rate
        bandwidth.handle_sample(sample, rate, self._delivery.delivered_bytes)
        if rtt_ns:
            self.trip.handle_sample(rtt_ns, now_ns)
            if rtt_ns < self._round_trip_ns or not self._round_trip_ns:
                self._round_trip_ns = rtt_ns
        self._bunching.handle_acked(
            sample.acked_bytes, bandwidth.limit, self.window_bytes, now_ns, round_started=bandwidth.round_started
        )
        if bandwidth.round_started:
            self._rounds += 1
            if self._round_trip_ns:
                # The shortest of a round: others are long where processes are late, without any queue.
                self._is_clear = self._round_trip_ns <= self.trip.min_ns + max(self.trip.min_ns // 8, MS)
                self._round_trip_ns = 0
            strays = 0 if self.state in (BbrState.UP, BbrState.REFILL) else STRAYS
            self._handle_round(sample, in_flight_bytes, excess=self.floor.end_round(strays), now_ns=now_ns)
        self._move_on(in_flight_bytes, now_ns)
        self._idle = False
        self._set_window(sample.acked_bytes)

    def handle_persistent_congestion(self) -> None:
        """Probes in a row went unanswered: use the minimum window until an acknowledgement comes (section 5.6.4.4)."""
        self.window_bytes = self._minimum_bytes

    # ---- states

    def _handle_round(self, sample: RateSample, in_flight_bytes: int, *, excess: bool, now_ns: int) -> None:
        """A round trip is over; ``excess``: it lost more than chance explains (sections 5.5.10.2, 5.5.10.3)."""
        state = self.state
        if state in (BbrState.UP, BbrState.REFILL):
            if excess:
                target_bytes = BETA_PERCENT * min(self._path_bytes, self.window_bytes) // 100
                self._most_bytes = max(sample.sending.in_flight_bytes, target_bytes)
                if state is BbrState.UP:
                    self._enter(next_state(TRANSITIONS, state, BbrEvent.SATED), now_ns)
            elif state is BbrState.UP and self._most_bytes is not None:
                self._most_bytes += self._growth_packets * self._datagram_bytes
                self._growth_packets *= 2
        elif excess and state is not BbrState.STARTUP:
            rate, most_bytes = self._bound or (self.bandwidth.limit, self.window_bytes)
            lower = (BETA_PERCENT * rate // 100, BETA_PERCENT * most_bytes // 100)
            self._bound = (max(self.bandwidth.latest, lower[0]), max(in_flight_bytes, lower[1]))

    def _move_on(self, in_flight_bytes: int, now_ns: int) -> None:
        """Take the transition that is due, or two if the path drains at once."""
        for _ in range(2):
            event = self._event(in_flight_bytes, now_ns)
            if event is None:
                return
            self._enter(next_state(TRANSITIONS, self.state, event), now_ns)

    def _event(self, in_flight_bytes: int, now_ns: int) -> BbrEvent | None:
        """The event that ends this state, if it has occurred."""
        state = self.state
        if state is BbrState.PROBE_RTT:
            return BbrEvent.MEASURED if self._is_measured(in_flight_bytes, now_ns) else None
        if state is BbrState.STARTUP:
            return BbrEvent.FULL if self.bandwidth.is_full else None
        if self.trip.is_stale and not self._idle:
            return BbrEvent.STALE
        if state in _PROBING and self._is_time_to_probe(now_ns):
            return BbrEvent.PROBE
        return self._end_of_state(in_flight_bytes, now_ns)

    def _end_of_state(self, in_flight_bytes: int, now_ns: int) -> BbrEvent | None:
        """The event by which a state ends itself, if it has reached its goal."""
        state, event = self.state, None
        if state is BbrState.UP and self._is_sated(in_flight_bytes, now_ns):
            event = BbrEvent.SATED
        elif state is BbrState.REFILL and self.bandwidth.round_started and self._rounds > 1:
            event = BbrEvent.REFILLED
        elif state is BbrState.LISTEN and self.bandwidth.round_started and (self._rounds > 1 or not self._is_clear):
            event = BbrEvent.HEARD
        elif state in _DRAINING and in_flight_bytes <= self._drained_bytes:
            event = BbrEvent.DRAINED
        return event

    def _is_measured(self, in_flight_bytes: int, now_ns: int) -> bool:
        """Whether little enough was in flight for long enough (section 5.3.4.3)."""
        if in_flight_bytes > self._least_bytes:
            # Packets sent before this state are still in flight.
            self._entered_at_ns, self._rounds = now_ns, 0
        return now_ns >= self._entered_at_ns + MEASURE_NS and self._rounds > 0

    def _is_time_to_probe(self, now_ns: int) -> bool:
        packets = self._path_bytes // self._datagram_bytes
        return now_ns >= self._probe_at_ns or self._rounds >= min(packets + 1, PROBE_AFTER_ROUNDS_MAX)

    def _is_sated(self, in_flight_bytes: int, now_ns: int) -> bool:
        """Whether we have built a queue, or the delivery rate grows no more (section 5.3.3.4)."""
        for_long = now_ns >= self._entered_at_ns + self.trip.min_ns
        return (for_long and 4 * in_flight_bytes >= 5 * self._path_bytes) or self.bandwidth.is_plateau

    @property
    def _drained_bytes(self) -> int:
        """The most that may be in flight with room left for other flows."""
        return max(min(self._path_bytes, self._headroom_bytes), self._minimum_bytes)

    @property
    def _headroom_bytes(self) -> int:
        most_bytes = self._most_bytes
        return self._path_bytes if most_bytes is None else HEADROOM_PERCENT * most_bytes // 100

    @property
    def _least_bytes(self) -> int:
        """The most that may be in flight while the round trip is measured."""
        return max(WINDOW_PERCENT[BbrState.PROBE_RTT] * self._path_bytes // 100, self._minimum_bytes)

    def _enter(self, state: BbrState, now_ns: int) -> None:
        if self.state is BbrState.PROBE_RTT:
            self.trip.refresh(now_ns)
        self.state = state
        self._entered_at_ns = now_ns
        if state is not BbrState.CRUISE:
            self._rounds = 0
        if state is BbrState.REFILL:
            self._bound = None
            self._growth_packets = 1
            self.bandwidth.begin_cycle()
        elif state is BbrState.UP:
            self.bandwidth.restart()
        elif state is BbrState.DOWN:
            self._seed = (self._seed * 1_103_515_245 + 12_345) % 2**31  # ISO C's example of rand, 7.22.2
            self._probe_at_ns = now_ns + PROBE_AFTER_NS + self._seed * PROBE_SPREAD_NS // 2**31

    # ---- outputs

    def _set_window(self, acked_bytes: int) -> None:
        """Section 5.6.4: grow by what was delivered, up to what the model says."""
        rate, state = self._sending_rate, self.state
        turn_bytes = rate * (TURN_NS if 0 < self.trip.min_ns < SHORT_NS else QUANTA_NS) // SECOND
        path_bytes = rate * self.trip.min_ns // SECOND
        target_bytes = WINDOW_PERCENT[state] * path_bytes // 100 + self._bunching.extra_bytes
        if target_bytes < turn_bytes:
            target_bytes = turn_bytes
        if self.bandwidth.is_full:
            window_bytes = min(self.window_bytes + acked_bytes, target_bytes)
        elif self.window_bytes < target_bytes:
            window_bytes = self.window_bytes + acked_bytes
        else:
            window_bytes = self.window_bytes
        if state is BbrState.PROBE_RTT:
            window_bytes = min(window_bytes, self._least_bytes)
        if self._most_bytes is not None:
            room = state in (BbrState.CRUISE, BbrState.PROBE_RTT)
            window_bytes = min(window_bytes, self._headroom_bytes if room else self._most_bytes)
        if self._bound is not None:
            window_bytes = min(window_bytes, self._bound[1])
        least_bytes = MINIMUM_WINDOW_PACKETS * self._datagram_bytes
        self.window_bytes = window_bytes if window_bytes > least_bytes else least_bytes
