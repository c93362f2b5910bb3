"""A stream from one node to another, with bad sessions, a slow disk and crashes in its way."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from random import Random

from triack.base.delivery import Delivery
from triack.base.units import MS
from triack.ordering.incoming import IncomingSequence, Outcome, Position
from triack.ordering.outgoing import Entry, OutgoingSequence
from triack.ordering.settings import OrderSettings
from triack.ordering.wire import SequenceHeader, decode

DEFAULTS = OrderSettings()
ORIGIN = b"o" * 16


@dataclass(frozen=True, slots=True)
class Weather:
    """Chances from 0 to 1, and a delay of ``delay_ns`` to ``delay_ns + jitter_ns``, which reorders."""

    loss: float = 0.0
    duplicate: float = 0.0
    delay_ns: int = 10 * MS
    jitter_ns: int = 0


CLEAR = Weather()


def make_entry(number: int) -> Entry:
    """A packet whose body is its number."""
    return Entry(number, b"%d" % number, 1, 1, number - 1, 1)


def make_header(number: int, previous: int, sequence: int = 1, *, asks: bool = False) -> SequenceHeader:
    """A packet of a stream."""
    return SequenceHeader(ORIGIN, 1, sequence, number, previous, "orders", asks, b"%d" % number)


class StreamPair:
    """One stream. ``delivered`` is what the receiver committed; what it had only accepted goes with a crash."""

    def __init__(
        self,
        settings: OrderSettings = DEFAULTS,
        *,
        weather: Weather = CLEAR,
        seed: int = 0,
        commit_ns: int = MS,
        lose_order_acks: bool = False,
    ) -> None:
        self.now_ns = 0
        self.settings = settings
        self.weather = weather
        self.random = Random(seed)
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
        self._ties = count()
        self._future: list[tuple[int, int, Callable[[], None]]] = []

    def append(self, packets: int) -> None:
        """The application sends."""
        for _ in range(packets):
            self.out.append(make_entry(self.out.next_number))
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

    def crash_sender(self) -> None:
        """The disk has every packet that was not freed, and the next number."""
        again = OutgoingSequence(Delivery.TRANSACTIONAL, self.out.sequence, self.out.next_number, self.settings)
        for number in self.out.entries:
            again.append(make_entry(number))
        self.out = again
        self.new_session()

    def after(self, delay_ns: int, job: Callable[[], None]) -> None:
        """Do something later."""
        heappush(self._future, (self.now_ns + delay_ns, next(self._ties), job))

    def drain(self) -> None:
        """Send what may be sent, both ways."""
        while (entry := self.out.peek()) is not None:
            previous = self.out.previous_of(entry)
            header = make_header(entry.number, previous, self.out.sequence, asks=self.out.poll_ask(entry))
            self.out.handle_sent(entry, self.now_ns)
            self.sent.append((self.now_ns, entry.number, previous))
            self._carry(header.encode(), entry)
        if self.incoming.ack.due and self.incoming.committed == self.incoming.position:
            sequence, number = self.incoming.committed
            self.incoming.ack.handle_sent()
            self.order_acks.append((self.now_ns, number))
            if not self.lose_order_acks and self.random.random() >= self.weather.loss:
                self.after(self._delay_ns(), lambda: self._free(sequence, number))

    def step(self, until_ns: int) -> bool:
        """Jump to the next thing that happens; False when that is later than ``until_ns`` or never."""
        moments = [self.out.tier.deadline_ns, self.incoming.ack.deadline_ns, *(at for at, _, _ in self._future[:1])]
        at_ns = min((moment for moment in moments if moment is not None), default=None)
        if at_ns is None or at_ns > until_ns:
            return False
        self._still = self._still + 1 if at_ns <= self.now_ns else 0
        assert self._still < 1_000, "time stands still"
        self.now_ns = max(self.now_ns, at_ns)
        while self._future and self._future[0][0] <= self.now_ns:
            heappop(self._future)[2]()
        self.out.handle_timer(self.now_ns)
        self.incoming.ack.handle_timer(self.now_ns)
        self.drain()
        return True

    def run(self, for_ns: int) -> None:
        """Let time pass."""
        until_ns = self.now_ns + for_ns
        while self.step(until_ns):
            pass
        self.now_ns = until_ns

    def _delay_ns(self) -> int:
        return self.weather.delay_ns + self.random.randint(0, self.weather.jitter_ns)

    def _carry(self, content: bytes, entry: Entry) -> None:
        if self.random.random() < self.weather.loss:
            return
        session = self._session
        for _ in range(2 if self.random.random() < self.weather.duplicate else 1):
            self.after(self._delay_ns(), lambda: self._arrive(content, entry, session))

    def _arrive(self, content: bytes, entry: Entry, session: int) -> None:
        header = decode(content)
        assert isinstance(header, SequenceHeader)
        outcome, accepted = self.incoming.handle_packet(header, header.body, self.now_ns)
        self.outcomes[outcome] += 1
        self._accepted += [token for _, token in accepted]
        if accepted:
            life, position = self._life, self.incoming.position
            self.after(self.commit_ns, lambda: self._commit(life, position))
        if self.random.random() >= self.weather.loss:
            self.after(self._delay_ns(), lambda: self._acknowledge(entry, session))

    def _commit(self, life: int, position: Position) -> None:
        if life != self._life:
            return
        while self._accepted and int(self._accepted[0]) <= position[1]:
            self.delivered.append(self._accepted.pop(0))
        self.incoming.handle_committed(position)

    def _acknowledge(self, entry: Entry, session: int) -> None:
        if session == self._session:
            self.out.handle_session_ack(entry)
            self.out.handle_store_ack(entry)

    def _free(self, sequence: int, number: int) -> None:
        assert number <= self.incoming.committed[1], "an order ack ran ahead of the disk"
        self.out.handle_order_ack(sequence, number, self.now_ns)
