"""Sessions that share a narrow link, under a clock that jumps to the next event. Streams lose nothing on it."""

from collections.abc import Callable
from random import Random

from tests.session.pair import OVERHEAD_BYTES, make_hello, make_session, unprobed
from triack.base.delivery import Delivery
from triack.base.units import SECOND
from triack.session.protocol.binary import BINARY
from triack.session.protocol.events import PacketArrived, Transmit, TransmitKind
from triack.session.protocol.path_traits import UDP, PathTraits
from triack.session.protocol.settings import SessionSettings
from triack.session.session import Session
from triack.tools.sim.faults import BITS, Fates, Faults
from triack.tools.sim.world import World


class Flow:
    """A sender that always has something to send, unless ``sends`` is false, and its receiver.

    Attributes:
        sends: whether there is anything to send.
        gap_ns: between two packets; 0 for as many as may leave.
        late_ns: how late each end is scheduled on average, as other processes run before it.
        delivered_bytes: contents that arrived for the first time.
        ends: sender and receiver.
    """

    def __init__(self, link: "Bottleneck", settings: SessionSettings, traits: PathTraits) -> None:
        self.link = link
        self.sends = True
        self.gap_ns = 0
        self.late_ns = 0
        self.delivered_bytes = 0
        self._arrived: tuple[list[Transmit], list[Transmit]] = ([], [])
        self._turn_at_ns: list[int | None] = [0, 0]
        self._random = Random(len(link.flows))
        self._ready_at_ns = 0
        overhead = OVERHEAD_BYTES + BINARY.packet_header_bytes
        self._content = bytes(unprobed(settings).max_datagram_bytes - overhead)
        self.ends: list[Session] = [
            make_session(1, settings, traits=traits),
            make_session(2, settings, traits=traits, peer=make_hello(1, settings)),
        ]

    @property
    def sender(self) -> Session:
        return self.ends[0]

    def next_deadline(self) -> int | None:
        """When one of its ends wants to be woken, unless it is already waiting for its turn."""
        waking = [end for end, turn_ns in zip(self.ends, self._turn_at_ns, strict=True) if turn_ns is None]
        return min((at for end in waking if (at := end.next_deadline()) is not None), default=None)

    def turn(self) -> None:
        """Let both ends say what they have to."""
        now_ns = self.link.now_ns
        for way, end in enumerate(self.ends):
            if not self._has_turn(way, now_ns):
                continue
            for arrived in self._arrived[way]:
                self._take(end, arrived)
            self._arrived[way].clear()
            end.handle_timer(now_ns)
            if way == 0 and self.sends:
                self._fill(end, now_ns)
            while end.events:
                event = end.events.pop(0)
                if isinstance(event, PacketArrived) and not event.duplicate:
                    self.delivered_bytes += len(event.content)
            while isinstance(transmit := end.poll_transmit(now_ns, by_run=False), Transmit):
                self.link.carry(self, way, transmit)

    def _has_turn(self, way: int, now_ns: int) -> bool:
        """Whether an end has anything to do, and the processor to do it."""
        turn_ns = self._turn_at_ns[way]
        if turn_ns is None and self.late_ns:
            deadline_ns = self.ends[way].next_deadline()
            if not self._arrived[way] and (deadline_ns is None or deadline_ns > now_ns):
                return False
            wait_ns = round(self._random.expovariate(1 / self.late_ns))
            turn_ns = self._turn_at_ns[way] = now_ns + wait_ns
            self.link.later(wait_ns, lambda: None)
        if turn_ns is not None and turn_ns > now_ns:
            return False
        self._turn_at_ns[way] = None
        return True

    def _fill(self, end: Session, now_ns: int) -> None:
        if not self.gap_ns:
            while end.room:
                end.send_packet(Delivery.EXPRESS, self._content, None)
        elif end.room and now_ns >= self._ready_at_ns:
            self._ready_at_ns = now_ns + self.gap_ns
            end.send_packet(Delivery.EXPRESS, self._content, None)
            self.link.later(self.gap_ns, lambda: None)

    def arrive(self, end: int, transmit: Transmit) -> None:
        self._arrived[end].append(transmit)

    def _take(self, session: Session, transmit: Transmit) -> None:
        if transmit.kind is TransmitKind.DATA:
            session.handle_datagram(transmit.payload, transmit.counter, self.link.now_ns)
        else:
            session.handle_hello(BINARY.decode_hello(transmit.payload), self.link.now_ns)


class Bottleneck:
    """A link and the flows over it.

    Attributes:
        world: its clock.
        flows: one for each of the settings.
    """

    def __init__(self, faults: Faults, *flows: SessionSettings, traits: PathTraits = UDP) -> None:
        self.world = World(1, 0)
        self.become(faults)
        self.flows: list[Flow] = []
        for settings in flows:
            self.flows.append(Flow(self, settings, traits))

    @property
    def now_ns(self) -> int:
        return self.world.now_ns

    def later(self, wait_ns: int, action: Callable[[], None]) -> None:
        self.world.at(wait_ns, action)

    def carry(self, flow: Flow, way: int, transmit: Transmit) -> None:
        datagram = bytes(len(transmit.payload) + OVERHEAD_BYTES)
        for delay_ns, _ in self._ways[way].decide(self._faults, datagram, now_ns=self.now_ns):
            self.later(delay_ns, lambda: flow.arrive(1 - way, transmit))

    def run(self, for_ns: int) -> list[int]:
        """Let time pass. Returns the bits a second that each flow delivered in it."""
        until_ns, before = self.now_ns + for_ns, [flow.delivered_bytes for flow in self.flows]
        for flow in self.flows:
            flow.turn()
        while self._step(until_ns):
            for flow in self.flows:
                flow.turn()
        self.world.run(until_ns - self.now_ns)
        done = [flow.delivered_bytes - so_far for flow, so_far in zip(self.flows, before, strict=True)]
        return [size_bytes * BITS * SECOND // for_ns for size_bytes in done]

    def _step(self, until_ns: int) -> bool:
        moments = [at for flow in self.flows if (at := flow.next_deadline()) is not None]
        at_ns = min((*moments, self.world.next_event_ns() or until_ns), default=until_ns)
        if at_ns >= until_ns:
            return False
        self.world.run(max(at_ns - self.now_ns, 0))
        return True

    def become(self, faults: Faults) -> None:
        self._faults = faults
        self._ways = [Fates(lambda _, way=way: Random(f"1 {way} {self.now_ns}")) for way in range(2)]  # type: ignore[misc]
