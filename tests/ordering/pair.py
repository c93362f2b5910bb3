"""A stream from one node to another, over bad sessions, a slow disk and crashes."""

from collections import Counter

from triack.base.delivery import Ack, Delivery
from triack.base.units import MS
from triack.ordering.incoming import IncomingSequence, Outcome, Position
from triack.ordering.order_settings import OrderSettings
from triack.ordering.outgoing import OutgoingSequence, StreamPacket
from triack.ordering.wire import SequenceHeader, decode
from triack.tools.sim.faults import Faults
from triack.tools.sim.network import Network, Port
from triack.tools.sim.world import World

DEFAULTS = OrderSettings()
ORIGIN = b"o" * 16


CLEAR = Faults(delay_ns=10 * MS)
SENDER, RECEIVER, ACKED = "udp:sender", "udp:receiver", "udp:acked"
"""Where session and store acks arrive, packets, and order acks."""


def make_entry(number: int) -> StreamPacket:
    """A packet whose body is its number."""
    return StreamPacket(number, b"%d" % number, 1, 1, number - 1, 1)


def make_header(number: int, previous: int, sequence: int = 1, *, ack_requested: bool = False) -> SequenceHeader:
    """A packet of a stream."""
    return SequenceHeader(ORIGIN, 1, sequence, number, previous, "orders", ack_requested, b"%d" % number)


class StreamPair:
    """One stream. ``delivered`` is what the receiver committed; what it had only accepted goes with a crash."""

    def __init__(
        self,
        settings: OrderSettings = DEFAULTS,
        *,
        weather: Faults = CLEAR,
        seed: int = 0,
        commit_ns: int = MS,
        lose_order_acks: bool = False,
    ) -> None:
        self.settings = settings
        self.world = World(seed, 0)
        self.random = self.world.chance("test")
        self.network = Network(self.world, weather)
        for address, receive in ((RECEIVER, self._arrive), (SENDER, self._acknowledge), (ACKED, self._free)):
            self.network.attach(address, Port(receive, lambda _address: None))
        self.commit_ns = commit_ns
        self.lose_order_acks = lose_order_acks
        self.out = OutgoingSequence(Delivery.TRANSACTIONAL, 1, 1, settings)
        self.incoming: IncomingSequence[bytes] = IncomingSequence(settings)
        self.delivered: list[bytes] = []
        self.outcomes: Counter[Outcome] = Counter()
        self.sent: list[tuple[int, int, int]] = []
        self.order_acks: list[tuple[int, int]] = []
        self._accepted: list[bytes] = []
        self._session = 0
        self._life = 0
        self._still = 0
        self._on_the_way: list[tuple[int, StreamPacket]] = []

    def append(self, packets: int) -> None:
        """The application sends."""
        for _ in range(packets):
            self.out.append([make_entry(self.out.next_number)])
        self.drain()

    def new_session(self) -> None:
        """The session ends with all its acks, and the next one begins."""
        self._session += 1
        self.out.handle_session_closed()
        self.out.handle_session_opened(self.now_ns)
        self.drain()

    def crash_receiver(self) -> None:
        """Only what was committed is left, and the sessions are gone."""
        self._life += 1
        self._accepted.clear()
        self.incoming = IncomingSequence(self.settings, self.incoming.committed)
        self.new_session()

    @property
    def now_ns(self) -> int:
        """The clock."""
        return self.world.now_ns

    def drain(self) -> None:
        """Send what may be sent, both ways."""
        while (entry := self.out.peek()) is not None:
            previous = self.out.previous_of(entry)
            header = make_header(entry.number, previous, self.out.sequence, ack_requested=self.out.poll_ask(entry))
            self.out.handle_sent([entry], self.now_ns)
            self.sent.append((self.now_ns, entry.number, previous))
            self._carry(header.encode(), entry)
        if self.incoming.ack.due and self.incoming.committed == self.incoming.position:
            sequence, number = self.incoming.committed
            self.incoming.ack.handle_sent()
            self.order_acks.append((self.now_ns, number))
            if not self.lose_order_acks:
                self.network.send(b"%d %d" % (sequence, number), RECEIVER, ACKED)

    def step(self, until_ns: int) -> bool:
        """Jump to the next thing that happens; False when that is later than ``until_ns`` or never."""
        moments = [self.out.tier.deadline_ns, self.incoming.ack.deadline_ns, self.world.next_event_ns()]
        at_ns = min((moment for moment in moments if moment is not None), default=None)
        if at_ns is None or at_ns > until_ns:
            return False
        self._still = self._still + 1 if at_ns <= self.now_ns else 0
        assert self._still < 1_000, "time stands still"
        self.world.run(max(0, at_ns - self.now_ns))
        self.out.handle_timer(self.now_ns)
        self.incoming.ack.handle_timer(self.now_ns)
        self.drain()
        return True

    def run(self, for_ns: int) -> None:
        """Let time pass."""
        until_ns = self.now_ns + for_ns
        while self.step(until_ns):
            pass
        self.world.run(until_ns - self.now_ns)

    def _carry(self, content: bytes, entry: StreamPacket) -> None:
        """A packet in flight knows its session and its entry, as a session does."""
        self._on_the_way.append((self._session, entry))
        self.network.send(b"%d " % (len(self._on_the_way) - 1) + content, SENDER, RECEIVER)

    def _arrive(self, datagram: bytes, _sender: str) -> None:
        place, content = datagram.split(b" ", 1)
        header = decode(content)
        assert isinstance(header, SequenceHeader)
        outcome, accepted = self.incoming.handle_packet(header, header.body, self.now_ns)
        self.outcomes[outcome] += 1
        self._accepted += [token for _, token in accepted]
        if accepted:
            life, position = self._life, self.incoming.position
            self.world.at(self.commit_ns, lambda: self._commit(life, position))
        self.network.send(place, RECEIVER, SENDER)

    def _commit(self, life: int, position: Position) -> None:
        if life != self._life:
            return
        while self._accepted and int(self._accepted[0]) <= position[1]:
            self.delivered.append(self._accepted.pop(0))
        self.incoming.handle_committed(position)

    def _acknowledge(self, place: bytes, _sender: str) -> None:
        session, entry = self._on_the_way[int(place)]
        if session == self._session:
            self.out.handle_ack([entry], Ack.SESSION)
            self.out.handle_ack([entry], Ack.STORE)

    def _free(self, datagram: bytes, _sender: str) -> None:
        sequence, number = map(int, datagram.split())
        assert number <= self.incoming.committed[1], "an order ack ran ahead of the disk"
        self.out.handle_order_ack(sequence, number, self.now_ns)
