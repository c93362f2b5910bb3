"""Two honest nodes, and a network, two disks, two programs and kills that do what the input says.

What seeds draw by chance is searched here by what it reaches. An input is a list of steps of two bytes: what happens,
and to which of those that it may happen to.
"""

from collections import Counter
from collections.abc import Callable
from random import Random

from proof.search.disk import Disk
from triack.base.delivery import Delivery
from triack.base.peers import Directory
from triack.base.units import MS, SECOND
from triack.queues.mailboxes.redelivery import Return
from triack.queues.manager.effects import Job, Send, StartJob, WriteRecords
from triack.queues.manager.engine import Engine
from triack.queues.messages import Outgoing
from triack.queues.node_settings import Limits, NodeSettings, Quota
from triack.queues.stages import Stage
from triack.queues.streams.group_commit import GroupCommit
from triack.session.protocol.settings import SessionSettings
from triack.tools.replay.engines.local_engine import judge_records
from triack.tools.replay.log.files import parse_records
from triack.transport.insecure import InsecureChannels

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
    assert pair.safe <= pair.read.keys()
    assert max(pair.read.values(), default=1) == 1
    assert not judge_records(parse_records(b"".join(node.log for node in pair.nodes)))


class Node:
    """One node, and what a kill leaves of it.

    Attributes:
        job: what its disk has in hand.
        log: its session log.
    """

    def __init__(self, name: str, settings: NodeSettings) -> None:
        self.address = f"memory://{name}"
        self.now_ns = SECOND
        self.log = b""
        self._name = name
        self._settings = settings
        self._disk = Disk(name.encode() * 16)
        self.start()

    def start(self) -> None:
        start = self._disk.incarnation + 1
        self.job: Job | None = None
        self.engine = Engine(
            self._disk.load(start),
            name=self._name,
            address=self.address,
            settings=self._settings,
            queues=None,
            channels=InsecureChannels(),
            directory=Directory(),
            random=Random(f"{self._name}{start}"),
            now_ns=self.now_ns,
            wall_offset_ns=0,
            recording=True,
        )

    def poll(self) -> list[bytes]:
        """Do what is to be done now. Returns the datagrams that leave."""
        sent: list[bytes] = []
        for effect in self.engine.poll(self.now_ns):
            if isinstance(effect, WriteRecords):
                self.log += effect.data
            elif isinstance(effect, StartJob):
                self.job = effect.job
            elif isinstance(effect, Send):
                sent += effect.datagrams
        return sent

    @property
    def is_busy(self) -> bool:
        """Whether its disk or its program has something to do."""
        return self.job is not None or self.engine.make_queue("q").length > 0

    def write(self) -> None:
        """The disk has done what it has in hand, and nobody has heard of it yet."""
        if isinstance(self.job, GroupCommit):
            self._disk.apply(self.job.commit)
        elif self.job is not None:
            self._disk.read(self.job)

    def finish_job(self) -> None:
        if self.job is not None:
            self.write()
            job, self.job = self.job, None
            self.engine.handle_done(job, self.now_ns)


class Pair:
    """Both nodes, and what is on its way between them.

    Attributes:
        safe: durable messages that a program was told to be so.
        read: how often each durable one was read as new.
    """

    def __init__(self) -> None:
        self.nodes = Node("a", WIDE), Node("b", NARROW)
        self.safe: set[bytes] = set()
        self.read: Counter[bytes] = Counter()
        self._sent = 0
        self._way: list[tuple[int, bytes]] = []

    def poll(self) -> None:
        """Both do what they want to do now."""
        for place, node in enumerate(self.nodes):
            self._way += [(1 - place, datagram) for datagram in node.poll()]
        del self._way[:-WAY_MAX]

    # ---- steps

    def deliver(self, which: int) -> None:
        if self._way:
            self._arrive(*self._way.pop(which % len(self._way)))

    def drop(self, which: int) -> None:
        if self._way:
            del self._way[which % len(self._way)]

    def repeat(self, which: int) -> None:
        if self._way:
            self._arrive(*self._way[which % len(self._way)])

    def deliver_all(self, _: int) -> None:
        way, self._way = self._way, []
        for to, datagram in way:
            self._arrive(to, datagram)

    def wait(self, which: int) -> None:
        """Time passes, and whatever has its time in it happens."""
        self._pass(self.nodes[0].now_ns + WAITS_NS[which % len(WAITS_NS)])

    def disk(self, which: int) -> None:
        self.nodes[which % 2].finish_job()

    def kill(self, which: int) -> None:
        """A node is killed and starts again; what its disk had in hand was written, or not."""
        node = self.nodes[which % 2]
        if which // 2 % 2:
            node.write()
        node.start()

    def send(self, which: int) -> None:
        node, other = self.nodes[which % 2], self.nodes[1 - which % 2]
        delivery = tuple(Delivery)[which // 2 % len(Delivery)]
        self._sent += 1
        body = b"%d." % self._sent * (1 + which // 8 * 20)
        outgoing = node.engine.outgoing_stream(other.address, "q", delivery)
        ticket = node.engine.submit(outgoing, Outgoing(body), len(body))
        if delivery is not Delivery.EXPRESS:
            node.engine.await_stage(outgoing, ticket, Stage.QUEUED, lambda _: self.safe.add(body))

    def take(self, which: int) -> None:
        node = self.nodes[which % 2]
        mailbox = node.engine.make_queue("q")
        lease = node.engine.take(mailbox, node.now_ns)
        if lease is None:
            return
        if which // 2 % 4 == 3:
            node.engine.give_back(mailbox, lease, Return(failed=False, delay_ms=0), node.now_ns)
            return
        # Express messages come once in a life of their reader, which may have been killed since.
        if lease.packet.delivery is not Delivery.EXPRESS and not (lease.redelivered and self.read[lease.body]):
            self.read[lease.body] += 1
        mailbox.acknowledge(lease)

    # ---- the end

    def heal(self) -> None:
        """The network, the disks and the programs do their work until nothing is left to do."""
        for _ in range(ROUNDS_MAX):
            self.poll()
            self.deliver_all(0)
            for place in (0, 1):
                self.disk(place)
                self.take(place)
            self.poll()
            if not self._way and not any(node.is_busy for node in self.nodes):
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
    Pair.kill,
)
"""What the first byte of a step stands for."""
