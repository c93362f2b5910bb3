"""Two sessions and a bad network between them, under a clock that jumps straight to the next event."""

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import replace

from proof.search import stillness
from triack.base.checks import DATAGRAM_BASE_BYTES
from triack.base.delivery import DURABLE, Delivery
from triack.base.errors import ProtocolError
from triack.base.units import MS, SECOND
from triack.session.protocol import events
from triack.session.protocol.binary import BINARY
from triack.session.protocol.codec import Codec
from triack.session.protocol.frames import CloseFrame, Hello
from triack.session.protocol.path_traits import MEMORY, UDP, PathTraits
from triack.session.protocol.settings import SessionSettings
from triack.session.protocol.states import CloseReason, SessionState
from triack.session.protocol.timers import Timer
from triack.session.session import Session
from triack.tools.sim.faults import Faults
from triack.tools.sim.network import Network, Port
from triack.tools.sim.world import World

DEFAULTS = SessionSettings()
RTT_NS = 20 * MS
Lose = Callable[[str, events.Transmit], bool]
CLEAR = Faults(delay_ns=RTT_NS // 2)
KIND_AND_COUNTER_BYTES = 9
OVERHEAD_BYTES = 36
"""The overhead of the channel in a datagram; a session takes any value."""


def unprobed(settings: SessionSettings) -> SessionSettings:
    """The same without probes of the path, unless a test names a size: most tests count datagrams."""
    is_default = settings.max_datagram_bytes == DEFAULTS.max_datagram_bytes
    return replace(settings, max_datagram_bytes=DATAGRAM_BASE_BYTES) if is_default else settings


def make_hello(node: int, settings: SessionSettings = DEFAULTS, sent_at_ns: int = 0) -> Hello:
    """The hello of node 1 (initiator) or 2 (acceptor); the connection id is the node's number."""
    said = b"node-%d" % node
    return Hello.of(unprobed(settings), session_id=7, connection_id=node, sent_at_ns=sent_at_ns, introduction=said)


def make_session(
    node: int,
    settings: SessionSettings = DEFAULTS,
    *,
    peer: Hello | None = None,
    traits: PathTraits = UDP,
    codec: Codec = BINARY,
    now_ns: int = 0,
) -> Session:
    """One end of session 7; it accepts when it has a peer's hello."""
    return Session(
        unprobed(settings),
        codec,
        session_id=7,
        connection_id=node,
        introduction=b"node-%d" % node,
        peer=peer,
        overhead_bytes=OVERHEAD_BYTES,
        traits=traits,
        now_ns=now_ns,
    )


def _traits(udp: bool) -> PathTraits:
    """A test that is not about the network has its sessions in memory."""
    return UDP if udp else MEMORY


def transmit_of(session: Session, now_ns: int) -> events.Transmit:
    """The next datagram of a session that is polled for single packets."""
    leaving = session.poll_transmit(now_ns, by_run=False)
    assert isinstance(leaving, events.Transmit)
    return leaving


def transmits_of(session: Session, now_ns: int) -> list[events.Transmit]:
    """All that leaves a session now, none of it by the run."""
    found: list[events.Transmit] = []
    while (leaving := session.poll_transmit(now_ns)) is not None:
        assert isinstance(leaving, events.Transmit)
        found.append(leaving)
    return found


def run_of(session: Session, now_ns: int) -> events.TransmitRun:
    """The next packets that leave together."""
    leaving = session.poll_transmit(now_ns)
    assert isinstance(leaving, events.TransmitRun)
    return leaving


class Pair:
    """Initiator ``a`` and acceptor ``b``. All that ``b`` gets of a durable class is committed ``store_ns`` later.

    With ``by_run`` packets leave by the run where they can; ``longest_run`` tells how many at most.
    """

    def __init__(
        self,
        settings: SessionSettings = DEFAULTS,
        *,
        peer_settings: SessionSettings | None = None,
        weather: Faults = CLEAR,
        seed: int = 0,
        udp: bool = True,
        store_ns: int | None = 0,
        lose: Lose | None = None,
        by_run: bool = False,
        codec: Codec = BINARY,
    ) -> None:
        self.world = World(seed, 0)
        self.network = Network(self.world, weather)
        for name in "ab":
            self.network.attach(_address(name), self._port(name))
        self.store_ns = store_ns
        self.lose = lose
        self.by_run = by_run
        self.codec = codec
        self.a = make_session(1, settings, traits=_traits(udp), codec=codec)
        self.ends: dict[str, Session] = {"a": self.a}
        self.events: dict[str, list[events.Event]] = {"a": [], "b": []}
        self.sent: dict[str, list[tuple[int, events.Transmit]]] = {"a": [], "b": []}
        self.backlog: dict[str, deque[tuple[Delivery, bytes]]] = {"a": deque(), "b": deque()}
        self.unacked: dict[str, set[int]] = {"a": set(), "b": set()}
        self.most_unacked = self.longest_run = 0
        self.drops: Counter[str] = Counter()
        self._peer_settings = peer_settings or settings
        self._udp = udp
        self._still = 0
        self.drain()

    @classmethod
    def opened(
        cls,
        settings: SessionSettings = DEFAULTS,
        *,
        peer_settings: SessionSettings | None = None,
        udp: bool = True,
        store_ns: int | None = 0,
        rtt_ns: int = RTT_NS,
    ) -> "Pair":
        """A pair that is open at both ends, at the moment at which the acceptor opened: 3/2 round trips from 0."""
        weather = Faults(delay_ns=rtt_ns // 2)
        pair = cls(settings, peer_settings=peer_settings, weather=weather, udp=udp, store_ns=store_ns)
        pair.run(3 * rtt_ns // 2)
        assert pair.a.state is pair.b.state is SessionState.OPEN
        return pair

    def confirm(self) -> None:
        """Let the initiator hear that the acceptor has opened, too."""
        self.b.ping()
        self.run_until(lambda: Timer.CONNECT_LIMIT not in stillness.timers_of(self.a))

    @property
    def b(self) -> Session:
        return self.ends["b"]

    def send(
        self, end: str, packets: int, delivery: Delivery = Delivery.EXPRESS, *, ack_requested: bool = False
    ) -> list[int]:
        """Hand over packets whose content and context are their own number, and let out what may go."""
        session = self.ends[end]
        numbers = []
        for _ in range(packets):
            number = session.window.next_number
            numbers.append(session.send_packet(delivery, b"%d" % number, number, ack_requested=ack_requested))
        self.drain()
        return numbers

    @property
    def now_ns(self) -> int:
        return self.world.now_ns

    def drain(self) -> None:
        """Give the sessions what waits, and take all they have to say."""
        for name, session in list(self.ends.items()):
            waiting = self.backlog[name]
            while waiting and session.room:
                session.send_packet(*waiting.popleft(), None)
            while session.events:
                event = session.events.pop(0)
                self._take(name, event)
            for transmit in self._transmits(session):
                assert transmit.payload, "an empty datagram"
                self.sent[name].append((self.now_ns, transmit))
                if transmit.packet is not None:
                    self.unacked[name].add(transmit.packet.number)
                    self.most_unacked = max(self.most_unacked, len(self.unacked[name]))
                self._carry(name, transmit)

    def _transmits(self, session: Session) -> Iterator[events.Transmit]:
        """Yield what a session sends now, in order."""
        while (leaving := session.poll_transmit(self.now_ns, by_run=self.by_run)) is not None:
            if isinstance(leaving, events.Transmit):
                yield leaving
                continue
            self.longest_run = max(self.longest_run, len(leaving.packets))
            is_cut = len(leaving.packets) < len(leaving.payloads)
            packets = leaving.packets * len(leaving.payloads) if is_cut else leaving.packets
            for counter, (payload, packet) in enumerate(zip(leaving.payloads, packets, strict=True), leaving.counter):
                yield events.Transmit(events.TransmitKind.DATA, leaving.connection_id, counter, payload, packet)

    def step(self, until_ns: int) -> bool:
        """Jump to the next thing that happens; False when that is later than ``until_ns`` or never."""
        deadlines = [session.next_deadline() for session in self.ends.values()]
        moments = [at_ns for at_ns in (*deadlines, self.world.next_event_ns()) if at_ns is not None]
        at_ns = min(moments, default=None)
        if at_ns is None or at_ns > until_ns:
            return False
        self._still = self._still + 1 if at_ns <= self.now_ns else 0
        assert self._still < 1_000, "time stands still"
        self.world.run(max(0, at_ns - self.now_ns))
        for session in list(self.ends.values()):
            session.handle_timer(self.now_ns)
        self.drain()
        return True

    def run(self, for_ns: int) -> None:
        until_ns = self.now_ns + for_ns
        while self.step(until_ns):
            pass
        self.world.run(until_ns - self.now_ns)

    def run_until(self, done: Callable[[], bool], limit_ns: int = 1_000 * SECOND) -> None:
        self.drain()
        while not done():
            assert self.step(limit_ns), "nothing more happens"

    def packets(self, end: str) -> list[tuple[int, int]]:
        return [(at_ns, sent.packet.number) for at_ns, sent in self.sent[end] if sent.packet is not None]

    def acks(self, end: str) -> list[tuple[int, str, int]]:
        """When a session ack was sent, why, and how many new packets it covers."""
        return [(at_ns, sent.ack.trigger, sent.ack.pending) for at_ns, sent in self.sent[end] if sent.ack is not None]

    def fresh(self, end: str) -> list[bytes]:
        """The content of everything that arrived for the first time."""
        arrived = [event for event in self.events[end] if isinstance(event, events.PacketArrived)]
        return [event.content for event in arrived if not event.duplicate]

    def _take(self, name: str, event: events.Event) -> None:
        self.events[name].append(event)
        if isinstance(event, events.PacketsAcked):
            self.unacked[name].difference_update(packet.number for packet in event.packets)
        elif isinstance(event, events.SessionIdle):
            self.ends[name].close(CloseReason.IDLE)
        elif isinstance(event, events.PacketArrived) and event.delivery in DURABLE and self.store_ns is not None:
            number = event.number
            self.world.at(self.store_ns, lambda: self.ends[name].handle_stored([number], self.world.now_ns))

    def _carry(self, name: str, transmit: events.Transmit) -> None:
        if self.lose is None or not self.lose(name, transmit):
            datagram = bytes([transmit.kind]) + transmit.counter.to_bytes(KIND_AND_COUNTER_BYTES - 1) + transmit.payload
            self.network.send(datagram, _address(name), _address("b" if name == "a" else "a"))

    def _port(self, name: str) -> Port:
        return Port(lambda datagram, _sender: self._arrive(name, datagram), lambda _address: None)

    def _arrive(self, target: str, datagram: bytes) -> None:
        head, payload = datagram[:KIND_AND_COUNTER_BYTES], datagram[KIND_AND_COUNTER_BYTES:]
        self.deliver(target, events.Transmit(events.TransmitKind(head[0]), 0, int.from_bytes(head[1:]), payload))

    def inject(self, target: str, payload: bytes) -> None:
        """A datagram of the test's own making arrives; its counter is older than any."""
        self.ends[target].handle_datagram(payload, 0, self.now_ns)

    def deliver(self, target: str, transmit: events.Transmit) -> None:
        if transmit.kind is events.TransmitKind.DATA:
            try:
                self.ends[target].handle_datagram(transmit.payload, transmit.counter, self.now_ns)
            except ProtocolError as error:
                self.drops[error.reason] += 1
            return
        hello = self.codec.decode_hello(transmit.payload)
        if target in self.ends:
            self.ends[target].handle_hello(hello, self.now_ns)
            return
        traits = _traits(self._udp)
        self.ends["b"] = make_session(
            2, self._peer_settings, peer=hello, traits=traits, codec=self.codec, now_ns=self.now_ns
        )


def _address(name: str) -> str:
    return f"udp:{name}"


def closes(pair: Pair, end: str = "a") -> list[events.SessionClosed]:
    return [event for event in pair.events[end] if isinstance(event, events.SessionClosed)]


def reasons(pair: Pair, end: str = "a") -> list[CloseReason]:
    return [event.reason for event in closes(pair, end)]


def goodbyes(pair: Pair, end: str) -> list[CloseReason]:
    told = [sent for _, sent in pair.sent[end] if sent.kind is events.TransmitKind.DATA]
    frames = [frame for sent in told for frame in BINARY.decode(sent.payload)]
    return [frame.reason for frame in frames if isinstance(frame, CloseFrame)]


def cut(pair: Pair) -> None:
    pair.lose = lambda _end, _sent: True
