"""Small worlds with one course of events each: peers with rights, queues with quotas, datagrams that are repeated.

They find the bugs that neither the seeds nor the search can. Each returns what is wrong at its end, or nothing. Time is
virtual; the disk holds a real store.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from proof.window import compare
from triack.base.ack_trigger import terms_of
from triack.base.checks import DATAGRAM_BASE_BYTES
from triack.base.delivery import Delivery
from triack.base.peers import Directory, Peer
from triack.base.units import MS, SECOND
from triack.node.handles.policies import AMPS, HORNETQ, SOLACE
from triack.ordering.order_settings import OrderSettings
from triack.ordering.wire import SequenceHeader
from triack.queues.messages import Outgoing
from triack.queues.node_settings import Limits, NodeSettings, Quota, Reconnect, WhenFull
from triack.queues.stages import Stage
from triack.queues.streams.ack_events import AckEvents
from triack.session.congestion.congestion import INITIAL_WINDOW_PACKETS
from triack.session.protocol.settings import SessionSettings
from triack.tools.replay.engines.local_engine import judge_records
from triack.tools.replay.log.files import parse_records
from triack.tools.sim.faults import Faults
from triack.tools.sim.host import SimHost
from triack.tools.sim.network import Network
from triack.tools.sim.world import WALL_NS, World

if TYPE_CHECKING:
    from collections.abc import Iterator

QUOTA = 10
BODIES = [b"%03d" % number + bytes(900) for number in range(3 * QUOTA)]
"""Three times the quota; no two of them share a packet."""
COUNTERS = 20_000


class Story(NamedTuple):
    """One course of events."""

    name: str
    run: Callable[[], str]


class _Pair(NamedTuple):
    """Two nodes."""

    world: World
    network: Network
    sender: SimHost
    receiver: SimHost

    def send(self, queue: str, bodies: list[bytes]) -> None:
        """Messages for a queue of the receiver, each in another packet."""
        for body in bodies:
            outgoing = self.sender.live.outgoing_stream(self.receiver.address, queue, Delivery.TRANSACTIONAL)
            self.sender.live.submit(outgoing, body, len(body))
            self.sender.drain()
            self.world.run(MS)

    def read(self, host: SimHost, queue: str) -> list[bytes]:
        """All messages in a queue."""
        mailbox = host.live.make_queue(queue)
        bodies = []
        for _ in range(10 * len(BODIES)):
            lease = host.live.take(mailbox, self.world.now_ns)
            if lease is not None:
                bodies.append(lease.body)
                mailbox.acknowledge(lease)
            host.drain()
            self.world.run(MS)
        return bodies


def _pair(when_full: WhenFull, may_send: tuple[str, ...] = ("*",)) -> AbstractContextManager[_Pair]:
    return _hosts(NodeSettings(), NodeSettings(limits=Limits(quota=Quota(QUOTA, 1024**2, when_full))), may_send)


@contextmanager
def _hosts(
    of_sender: NodeSettings, of_receiver: NodeSettings, may_send: tuple[str, ...] = ("*",), scheme: str = "udp"
) -> "Iterator[_Pair]":
    world = World(0)
    network = Network(world)
    sender = SimHost(world, network, "a", f"{scheme}://a:1", settings=of_sender, keys=())
    receiver = SimHost(world, network, "b", f"{scheme}://b:1", settings=of_receiver, keys=())
    receiver.identity.directory = Directory([Peer("a", addresses=(sender.address,), may_send=may_send)])
    for host in (sender, receiver):
        host.start()
    try:
        yield _Pair(world, network, sender, receiver)
    finally:
        for host in (sender, receiver):
            host.end()
            host.disk.close()


def _forbidden() -> str:
    """A peer sends to a queue that it may send to, and to one that it may not."""
    with _pair("hold", ("open",)) as pair:
        pair.send("closed", BODIES[:3])
        pair.send("open", BODIES[3:6])
        pair.world.run(10 * SECOND)
        if pair.read(pair.receiver, "open") != BODIES[3:6]:
            return "what was allowed has not arrived"
        arrived = len(pair.read(pair.receiver, "closed"))
        return f"{arrived} messages are in a queue that their sender may not send to" if arrived else ""


def _full() -> str:
    """A peer sends three times as much as a queue may hold, without a reader."""
    with _pair("hold") as pair:
        pair.send("q", BODIES)
        pair.world.run(30 * SECOND)
        length = pair.receiver.live.make_queue("q").length
        return "" if length == QUOTA else f"{length} messages are in a queue whose quota is {QUOTA}"


def _refused() -> str:
    """The same, to a queue that refuses what does not fit: each is delivered or a dead letter, and none is both."""
    with _pair("reject") as pair:
        pair.send("q", BODIES)
        pair.world.run(30 * SECOND)
        delivered, dead = pair.read(pair.receiver, "q"), pair.read(pair.sender, "dead-letter")
        if both := set(delivered) & set(dead):
            return f"{len(both)} messages are delivered, and dead letters as well"
        return "" if sorted(delivered + dead) == BODIES else "messages are neither delivered nor dead letters"


def _overtaken() -> str:
    """Express messages to a queue that refuses them all, on a path that delays some datagrams, and loses some."""
    told: list[str | None] = []
    with _pair("hold", ("open",)) as pair:
        pair.network.faults = Faults(delay_ns=5 * MS, loss=0.2, reorder=0.3)
        sender = pair.sender.live
        outgoing = sender.outgoing_stream(pair.receiver.address, "closed", Delivery.EXPRESS)
        for body in BODIES:
            ticket = sender.submit(outgoing, body, len(body))
            sender.await_stage(outgoing, ticket, Stage.RECEIVED, told.append)
            pair.sender.drain()
            pair.world.run(MS)
        pair.world.run(60 * SECOND)
        received = sum(reason is None for reason in told)
        if received:
            return f"{received} messages were told as received, and each was refused"
        return "" if len(told) == len(BODIES) else "nobody said what became of a message"


def _late() -> str:
    settings = NodeSettings(retire_after_s=1.0)
    with _hosts(settings, settings) as pair:
        live, to = pair.sender.live, pair.receiver.address
        outgoing = live.outgoing_stream(to, "q", Delivery.TRANSACTIONAL)
        live.submit(outgoing, BODIES[0], len(BODIES[0]))
        pair.sender.drain()
        while not outgoing.sequence.entries:
            pair.world.run(MS)
        entry = outgoing.sequence.entries[1]
        packet = SequenceHeader(
            live.node_id, outgoing.stream_number, outgoing.sequence.sequence, 1, 0, "q", False, entry.body or b""
        )
        pair.world.run(10 * SECOND)
        (conversation,) = live.handshakes.conversations.values()
        conversation.session.send_packet(Delivery.TRANSACTIONAL, packet.encode(), None)
        conversation.wake()
        pair.sender.drain()
        pair.world.run(SECOND)
        arrived = len(pair.read(pair.receiver, "q"))
        return "" if arrived == 1 else f"{arrived} messages came of one whose stream has ended"


def _passed_over() -> str:
    """A datagram is lost, its content is too late and given up, and its session brings it after the next one."""
    with _hosts(NodeSettings(), NodeSettings()) as pair:
        world, live = pair.world, pair.sender.live
        outgoing = live.outgoing_stream(pair.receiver.address, "q", Delivery.RECOVERABLE)

        def send(body: bytes, reach_by_ms: int = 0) -> None:
            live.submit(outgoing, Outgoing(body, reach_by_ms=reach_by_ms), len(body))
            pair.sender.drain()

        send(b"opens")
        world.run(2 * SECOND)
        pair.network.cut(pair.sender.address, pair.receiver.address)
        send(b"late", (world.now_ns + WALL_NS) // MS + 15)
        world.run(40 * MS)
        pair.network.heal()
        send(b"next")
        world.run(10 * SECOND)
        ends = [parse_records(bytes(host.records[-1])) for host in (pair.sender, pair.receiver)]
        assert any(record["event"] == "rejected" for record in ends[1]), "the late packet never came"
        return ", ".join(found.evidence for found in judge_records([record for end in ends for record in end]))


def _replayed() -> str:
    """Counters come in any order, and repeatedly, to a window and to an oracle that forgets none."""
    found = compare(COUNTERS)
    return f"the window was wrong of {found.violations} of {found.counters} counters" if found.violations else ""


def _acks(of_sender: NodeSettings, of_receiver: NodeSettings, *bursts: int) -> list[tuple[str, int, int]]:
    """How the receiver acknowledges bursts of packets, each two seconds and a half after the one before.

    Over TCP: over UDP a sender that is blocked by its congestion window asks, and gets an ack before its policy says.
    Returns for each session ack its cause, its number of packets, and how many milliseconds after its burst it left.
    """
    with _hosts(of_sender, of_receiver, scheme="tcp") as pair:
        pair.send("q", [b"opens"])
        pair.world.run(10 * SECOND)
        starts: list[int] = []
        for packets in bursts:
            starts.append(pair.world.now_ns)
            pair.send("q", [b"%d" % number for number in range(packets)])
            pair.world.run(5 * SECOND // 2)
        return [
            (record["trigger"], record["pending"], (at_ns - max(s for s in starts if s <= at_ns)) // MS)
            for record in parse_records(bytes(pair.receiver.records[-1]))
            if record["event"] == "ack_sent" and (at_ns := record["at_ns"]) >= starts[0]
        ]


def _policies() -> str:
    """An interval twice, a third of a window, and two nodes of which one has a shorter timeout."""
    for what, settings, bursts, expected in (
        ("an interval of a second", (AMPS, AMPS), (3, 2), [("delay", 3, 1_005), ("delay", 2, 1_005)]),
        ("a third of 50 packets", (SOLACE, SOLACE), (16,), [("count", 16, 20)]),
        ("two seconds for who has patience for two", (HORNETQ, SOLACE), (5,), [("delay", 5, 1_005)]),
    ):
        found = _acks(*settings, *bursts)
        if found != expected:
            return f"{what}: acknowledged {found}, and not {expected}"
    return ""


def _events() -> str:
    """Five messages, the third too late: an interval reports two, then the third alone, then two."""
    with _hosts(AMPS, AMPS) as pair:
        engine, now_ms = pair.sender.live, (pair.world.now_ns + WALL_NS) // MS
        outgoing = engine.outgoing_stream(pair.receiver.address, "q", Delivery.TRANSACTIONAL)
        assert AMPS.ack_events is not None
        events = AckEvents(terms_of(AMPS.ack_events, 1), 0, lambda: None)
        engine.watching.begin(outgoing, events)
        for reach_by_ms in (0, 0, now_ms - 1, 0, 0):
            engine.submit(outgoing, Outgoing(b"x", reach_by_ms=reach_by_ms), 1)
        pair.sender.drain()
        pair.world.run(10 * SECOND)
        told = []
        while (event := events.poll()) is not None:
            told.append(event.last if event.reason is None else -event.last)
        return "" if told == [2, -3, 5] else f"five messages, the third too late: told {told}, and not [2, -3, 5]"


def _lost() -> str:
    """A session is lost: what the next node has stored stays, what is in doubt is handed back, and nothing is both."""
    patient = SessionSettings(ack_timeout_s=2.0, store_ack_timeout_s=4.0)
    late = OrderSettings(order_ack_idle_s=3_600, seq_max_ack_delay_s=3_600, order_ack_every=1_000)
    hands_back = NodeSettings(session=patient, order=late, reconnect=Reconnect(after_session_lost="hand back"))
    with _hosts(hands_back, NodeSettings(session=patient, order=late)) as pair:
        pair.send("q", BODIES[:5])
        pair.world.run(SECOND)
        pair.network.cut(pair.sender.address, pair.receiver.address)
        pair.send("q", BODIES[5:7])
        pair.world.run(20 * SECOND)
        back = sorted(pair.read(pair.sender, "dead-letter"))
        pair.network.heal()
        pair.world.run(60 * SECOND)
        delivered = pair.read(pair.receiver, "q")
        expected = BODIES[5:7]
        if back != expected:
            return f"{len(back)} messages were handed back, and {len(expected)} were in doubt"
        return "" if delivered == BODIES[:5] else f"{len(delivered)} messages were delivered, and 5 were stored"


def _replaced() -> str:
    """A peer is replaced by an empty node while messages wait, and its sender is set to pass over no gap."""
    quick = SessionSettings(cleanup_interval_s=5.0)
    with _hosts(NodeSettings(session=quick, reconnect=Reconnect(gap="error")), NodeSettings(session=quick)) as pair:
        pair.send("q", BODIES[:3])
        pair.world.run(20 * SECOND)
        pair.receiver.end()
        pair.sender.end()
        pair.sender.start()
        pair.send("q", BODIES[3:6])
        other = SimHost(pair.world, pair.network, "c", pair.receiver.address, keys=())
        other.start()
        try:
            pair.world.run(60 * SECOND)
            arrived = other.live.make_queue("q").length
            return f"{arrived} messages went to a node without those before them" if arrived else ""
        finally:
            other.end()
            other.disk.close()


def _died() -> str:
    """A peer dies when it owes nothing but an order ack, and restarts immediately."""
    slow = NodeSettings(order=OrderSettings(order_ack_idle_s=1.0))
    with _hosts(slow, slow) as pair:
        pair.send("q", BODIES[:3])
        pair.world.run(800 * MS)
        pair.receiver.end()
        pair.receiver.start()
        pair.world.run(10 * SECOND)
        waits = any(outgoing.busy for outgoing in pair.sender.live.outbox.streams)
        return "ten seconds after its peer died, the sender still waits" if waits else ""


def _narrow() -> str:
    """A path that carries little more than the base, and loses nothing else."""
    with _hosts(NodeSettings(), NodeSettings()) as pair:
        pair.network.narrow(pair.sender.address, pair.receiver.address, 1_300)
        pair.send("q", BODIES)
        pair.world.run(60 * SECOND)
        (conversation,) = pair.sender.live.handshakes.conversations.values()
        window_bytes = conversation.session.stats().congestion_window_bytes
        assert window_bytes is not None
        least_bytes = INITIAL_WINDOW_PACKETS * DATAGRAM_BASE_BYTES
        return f"the window is {window_bytes} bytes, though no packet was lost" if window_bytes < least_bytes else ""


FORBIDDEN = Story("a queue for others", _forbidden)
FULL = Story("a full queue", _full)
REFUSED = Story("a full queue that refuses", _refused)
OVERTAKEN = Story("refusals on a bad path", _overtaken)
PASSED_OVER = Story("a packet that was given up before it came", _passed_over)
REPLAYED = Story("a replay window", _replayed)
POLICIES = Story("policies", _policies)
EVENTS = Story("acknowledgement events", _events)
LOST = Story("a lost session", _lost)
REPLACED = Story("a replaced peer", _replaced)
DIED = Story("a peer that died", _died)
NARROW = Story("a narrow path", _narrow)
LATE = Story("a packet that comes late", _late)
ALL = (FORBIDDEN, FULL, REFUSED, OVERTAKEN, PASSED_OVER, REPLAYED, POLICIES, EVENTS, LOST, REPLACED, DIED, NARROW, LATE)
