"""Two honest nodes, and a network, two disks and two clocks that do what the input says: every message arrives once.

What seeds draw by chance is searched here by what it reaches. An input is a list of steps of two bytes: what happens,
and to which of those that it may happen to.
"""

from collections import Counter
from collections.abc import Callable

from tests.queues.bare import Bare
from triack.base.delivery import Delivery
from triack.base.units import MS, SECOND
from triack.queues.effects import Send, WriteRecords
from triack.queues.packing import Outgoing
from triack.queues.quotas import Limits, Quota
from triack.queues.redelivery import Return
from triack.queues.settings import NodeSettings
from triack.session.settings import SessionSettings
from triack.tools.replay.files import parse_records
from triack.tools.replay.local_engine import judge_records

__all__ = ["STEPS", "schedule"]

STEPS_MAX = 150
ROUNDS_MAX = 1_000
"""Far more than two nodes that hear each other need to be done."""
WAY_MAX = 40
"""Datagrams on their way; the eldest of more are lost."""
NARROW = NodeSettings(
    SessionSettings(max_unacked_packet=2, max_datagram_bytes=576, cleanup_interval_s=2.0),
    limits=Limits(queue_quota={"q": Quota(2, 1_000)}),
)
"""Beside one with room: two ends are never configured alike."""
WIDE = NodeSettings(SessionSettings(cleanup_interval_s=20.0))
WAITS_NS = (MS, 20 * MS, 200 * MS, SECOND, 5 * SECOND, 31 * SECOND)
"""Up to a packet's first resend, and beyond what either end calls idle."""


def schedule(data: bytes) -> None:
    """Whatever happens on the way, all is well when the network is."""
    pair = Pair()
    for at in range(0, min(len(data) - 1, 2 * STEPS_MAX), 2):
        STEPS[data[at] % len(STEPS)](pair, data[at + 1])
        pair.poll()
    pair.heal()
    assert all(pair.read[body] == 1 for body, delivery in pair.sent.items() if delivery is not Delivery.EXPRESS)
    assert all(pair.read[body] <= 1 for body in pair.sent)
    log = b"".join(it.data for node in pair.nodes for it in node.effects if isinstance(it, WriteRecords))
    assert not judge_records(parse_records(log))


class Pair:
    """Both nodes, and what is on its way between them.

    Attributes:
        sent: all messages.
        read: how often each was read.
    """

    def __init__(self) -> None:
        self.nodes = Bare("a", WIDE), Bare("b", NARROW)
        self.sent: dict[bytes, Delivery] = {}
        self.read: Counter[bytes] = Counter()
        self._way: list[tuple[int, bytes]] = []

    def poll(self) -> None:
        """Both do what they want to do now."""
        for place, node in enumerate(self.nodes):
            for effect in node.poll():
                if isinstance(effect, Send):
                    self._way += [(1 - place, datagram) for datagram in effect.datagrams]
        del self._way[:-WAY_MAX]

    # ---- steps

    def deliver(self, which: int) -> None:
        """A datagram arrives."""
        if self._way:
            self._arrive(*self._way.pop(which % len(self._way)))

    def drop(self, which: int) -> None:
        """A datagram is lost."""
        if self._way:
            del self._way[which % len(self._way)]

    def repeat(self, which: int) -> None:
        """A datagram arrives, and will do so again."""
        if self._way:
            self._arrive(*self._way[which % len(self._way)])

    def deliver_all(self, _: int) -> None:
        """Everything arrives, in order."""
        way, self._way = self._way, []
        for to, datagram in way:
            self._arrive(to, datagram)

    def wait(self, which: int) -> None:
        """Time passes, and whatever has its time in it happens."""
        self._pass(self.nodes[0].now_ns + WAITS_NS[which % len(WAITS_NS)])

    def disk(self, which: int) -> None:
        """A disk is done."""
        node = self.nodes[which % 2]
        if node.job is not None:
            node.finish_job()

    def send(self, which: int) -> None:
        """One sends the other a message."""
        node, other = self.nodes[which % 2], self.nodes[1 - which % 2]
        delivery = tuple(Delivery)[which // 2 % len(Delivery)]
        body = b"%d" % len(self.sent) * (1 + which // 8 * 20)
        self.sent[body] = delivery
        outgoing = node.engine.outgoing_queue(other.address, "q", delivery)
        node.engine.submit(outgoing, Outgoing(body), len(body))

    def take(self, which: int) -> None:
        """One reads its queue: the first message, or gives it back."""
        node = self.nodes[which % 2]
        mailbox = node.engine.make_queue("q")
        lease = node.engine.take(mailbox, node.now_ns)
        if lease is None:
            return
        if which // 2 % 4 == 3:
            node.engine.give_back(mailbox, lease, Return(failed=False, delay_ms=0), node.now_ns)
            return
        self.read[lease.body] += 1
        mailbox.acknowledge(lease)

    # ---- the end

    def heal(self) -> None:
        """The network, the disks and the programs do their work until nothing is left to do."""
        for _ in range(ROUNDS_MAX):
            self.poll()
            before = len(self.read), len(self._way)
            self.deliver_all(0)
            for place in (0, 1):
                self.disk(place)
                self.take(place)
            self.poll()
            if before == (len(self.read), 0) and not self._way and not any(node.job for node in self.nodes):
                due = [at for node in self.nodes if (at := node.engine.next_deadline()) is not None]
                if not due:
                    return
                self._set(max(self.nodes[0].now_ns, min(due)))
        raise AssertionError("they never come to rest")

    def _pass(self, until_ns: int) -> None:
        while True:
            self.poll()
            due = [at for node in self.nodes if (at := node.engine.next_deadline()) is not None and at <= until_ns]
            if not due:
                break
            self._set(max(self.nodes[0].now_ns, min(due)))
        self._set(until_ns)

    def _set(self, now_ns: int) -> None:
        for node in self.nodes:
            node.now_ns = now_ns

    def _arrive(self, to: int, datagram: bytes) -> None:
        node, sender = self.nodes[to], self.nodes[1 - to]
        node.engine.handle_datagram(datagram, sender.address, node.now_ns)


STEPS: tuple[Callable[[Pair, int], None], ...] = (
    Pair.deliver,
    Pair.deliver_all,
    Pair.drop,
    Pair.repeat,
    Pair.wait,
    Pair.disk,
    Pair.send,
    Pair.take,
)
"""What the first byte of a step stands for."""
