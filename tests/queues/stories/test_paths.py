"""Paths between nodes: chosen, lossy, patient."""

from collections import Counter
from random import Random

import pytest

from tests.queues.bare import Bare
from tests.queues.world import SimNode, World, judged, numbered, single, two
from tests.sure import sure
from triack.base.datagram import Kind, read_header
from triack.base.delivery import Delivery
from triack.base.reasons import DropReason
from triack.base.units import MS, SECOND
from triack.node.handles.policies import PRESETS
from triack.queues.mailboxes.mailbox import Lease
from triack.queues.mailboxes.redelivery import Return
from triack.queues.node_settings import NodeSettings
from triack.queues.peers.path import GIVE_UP_NS
from triack.session.protocol.binary import BINARY
from triack.session.protocol.frames import PingFrame
from triack.tools.sim.faults import Faults
from triack.tools.sim.network import Port
from triack.transport.insecure import InsecureChannel


def test_a_packet_that_leaves_again_keeps_its_place() -> None:
    """A peer that acknowledged a later datagram before it came would make it look lost once more."""
    world = World(3, Faults(loss=0.2, delay_ns=5 * MS))
    a, b = world.node("a"), world.node("b", queues=["q"])
    counters: dict[int, list[int]] = {}

    def look(datagram: bytes, sender: str, _to: str) -> None:
        header = read_header(datagram)
        if sender == a.address and header.kind is Kind.DATA:
            counters.setdefault(header.connection_id, []).append(header.counter)

    world.network.tap = look
    a.send(b, "q", *numbered(0, 300, 1_000))
    assert world.run(20 * SECOND, until=lambda: b.length("q") == 300)
    assert all(sent == sorted(sent) for sent in counters.values())
    assert sum(map(len, counters.values())) > 330, "some left again"


# Peers move under live sessions, and nobody else moves them: strangers get no more than thrice what they sent.

EVIL = "udp://evil:1"


class Stranger:
    """Sees every datagram, sends copies of them from its own address, and gets what is sent there."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.sends = True
        self.sent_bytes = 0
        self.got_bytes = 0
        self.got: Counter[Kind] = Counter()
        world.network.attach(EVIL, Port(self._receive, lambda _address: None))
        world.network.tap = self._copy

    def _copy(self, datagram: bytes, sender: str, to: str) -> None:
        if self.sends and EVIL not in (sender, to):
            self.sent_bytes += len(datagram)
            # It arrives before the original.
            self.world.at(MS, lambda: self._inject(datagram, to))

    def _inject(self, datagram: bytes, to: str) -> None:
        node = self.world.nodes.get(to)
        if node is not None:
            node.receive(datagram, EVIL)

    def _receive(self, datagram: bytes, _sender: str) -> None:
        self.got_bytes += len(datagram)
        self.got[read_header(datagram).kind] += 1


def couple(seed: int = 1, loss: float = 0.0, mtu_bytes: int = 0) -> tuple[World, SimNode, SimNode]:
    return two(seed, Faults(loss=loss, delay_ns=10 * MS, mtu_bytes=mtu_bytes))


@pytest.mark.slow
@pytest.mark.parametrize("mover", ["sender", "receiver"])
def test_a_peer_that_moves_five_times_a_second_stays_in_its_session(mover: str) -> None:
    """2.5 MB, whichever of the two moves: the one that dialled, or the one that was dialled.

    The last to move has something to say: where somebody went who only listens, nobody can know.
    """
    world, a, b = couple(loss=0.02, mtu_bytes=1_200)
    bodies = numbered(0, 2_500, 1_000)
    a.send(b, "q", *bodies)
    moves = 0
    world.run(SECOND // 5)
    while b.length("q") < len(bodies):
        world.network.rebind((a if mover == "sender" else b).address)
        moves += 1
        assert moves < 60
        world.run(SECOND // 5)
    world.run(SECOND)
    assert not a.busy
    assert moves > 3
    assert b.read_all("q") == bodies
    assert [len(node.log("session_opened")) for node in (a, b)] == [1, 1]


@pytest.mark.parametrize("seed", range(3))
def test_who_forwards_from_another_address_and_cannot_answer_takes_nothing_away(seed: int) -> None:
    """Its copies are the first to arrive, all the time: it gets challenges, for no more than thrice what it sent."""
    world, a, b = couple(seed)
    evil = Stranger(world)
    a.send(b, "q", *numbered(0, 300))
    b.send(a, "q", *numbered(0, 300))
    assert world.run(60 * SECOND, lambda: not a.busy and not b.busy)
    assert (a.read_all("q"), b.read_all("q")) == (numbered(0, 300), numbered(0, 300))
    assert evil.got[Kind.DATA] == 0
    assert evil.got[Kind.CHALLENGE] > 0
    assert evil.got_bytes <= 3 * evil.sent_bytes
    for node in (a, b):
        assert all(one.path != EVIL for one in node.live.handshakes.conversations.values())


def test_an_old_path_that_goes_on_injecting_brings_nobody_back() -> None:
    """All that ever came by the old path comes again, after each move: it has come before."""
    world, a, b = couple()
    kept: list[tuple[bytes, str]] = []
    world.network.tap = lambda datagram, sender, to: kept.append((datagram, sender)) if to == b.address else None
    for move in range(10):
        a.send(b, "q", *numbered(10 * move, 10 * move + 10))
        # Nothing is under way then that would come from there for the first time.
        world.run(900 * MS)
        (conversation,) = b.live.handshakes.conversations.values()
        path = conversation.path
        for datagram, _ in kept:
            b.receive(datagram, a.address)
            b.receive(datagram, EVIL)
        world.run(10 * MS)
        assert conversation.path == path
        assert conversation.paths is None or not conversation.paths.candidate
        world.network.rebind(a.address)
    assert b.read_all("q") == numbered(0, 100)
    assert b.live.drops[DropReason.REPLAYED] > 0
    assert len(b.log("session_opened")) == 1


def test_a_connect_that_is_sent_on_from_elsewhere_does_not_take_the_session_there() -> None:
    """Its accept goes where it came from; but the session is where the accept went that the initiator has read."""
    world, a, b = couple()
    evil = Stranger(world)
    a.send(b, "q", b"1")
    world.run(SECOND)
    evil.sends = False
    assert evil.got[Kind.ACCEPT] >= 1
    assert evil.got[Kind.DATA] == 0
    assert b.read_all("q") == [b"1"]


def test_who_is_not_connected_yet_looks_for_its_peer_nowhere_else() -> None:
    """The session that opens then comes of an accept that did not suffice: no timer stands still."""
    a = Bare()
    a.submit("memory://b", b"1")
    a.poll()
    a.finish_job()
    a.poll()
    (conversation,) = a.engine.handshakes.conversations.values()
    ours = conversation.session.connection_id
    data = InsecureChannel().seal(Kind.DATA, ours, 1, BINARY.encode(PingFrame()), a.now_ns)
    a.engine.handle_datagram(data, "memory://elsewhere", a.now_ns)
    assert a.engine.drops == {DropReason.NOT_OPEN: 1}
    for _ in range(10):
        a.poll(GIVE_UP_NS)
        deadline_ns = a.engine.next_deadline()
        assert deadline_ns is None or deadline_ns > a.now_ns


# Messages that are taken before their turn, given back and acknowledged in any order, over crashes.


def test_a_message_of_a_low_priority_is_chosen_before_a_high_one() -> None:
    """Which is no mistake in the log, and changes nothing for the others."""
    world, node = single(NodeSettings(messages_per_packet=1))
    for body, priority in ((b"low", 1), (b"high", 7), (b"chosen", 1), (b"last high", 7)):
        outgoing = node.live.outgoing_stream(node.address, "q", Delivery.RECOVERABLE, priority)
        node.live.submit(outgoing, body, len(body))
        node.drain()
        world.run(100 * MS)
    mailbox = node.live.queues.mailboxes["q"]
    run = sure(node.live.choose(mailbox, 3, (), world.now_ns))
    assert run.lease(run.first).body == b"chosen"
    node.drain()
    world.run(SECOND)
    node.give_back(run.lease(run.first), Return(failed=False))
    node.drain()
    assert node.read_all("q") == [b"high", b"last high", b"low", b"chosen"]
    world.run(SECOND)
    assert not judged(node)


@pytest.mark.parametrize("seed", range(12))
def test_each_message_is_done_once_and_the_others_keep_their_order(seed: int) -> None:
    """The log of it is as it should be: nothing is passed over, repeated or out of order."""
    world, node = single(NodeSettings(messages_per_packet=1 + seed % 7, body_cache_bytes=20_000), seed=seed)
    random = world.random
    node.send(node, "q", *numbered(0, 60))
    assert world.run(SECOND, lambda: node.length("q") == 60)
    held, done = list[Lease](), list[bytes]()
    for _ in range(300):
        engine, mailbox = node.live, node.live.make_queue("q")
        what = random.random()
        if what < 0.25:
            run = engine.choose(mailbox, random.randint(1, mailbox.last_place), (), world.now_ns)
            held += [] if run is None else [run.lease(run.first)]
        elif what < 0.5:
            lease = engine.take(mailbox, world.now_ns)
            held += [] if lease is None else [lease]
        elif what < 0.75 and held:
            lease = held.pop(random.randrange(len(held)))
            done.append(lease.body)
            node.acknowledge(lease)
            node.drain()
            world.run(30 * MS)
        elif what < 0.95 and held:
            lease = held.pop(random.randrange(len(held)))
            node.give_back(lease, Return(failed=False, delay_ms=random.choice((None, 5))))
        elif what > 0.98:
            held.clear()
            node.restart()
        node.drain()
    for lease in held:
        node.give_back(lease, Return(failed=False))
    node.drain()
    world.run(200 * SECOND)  # readers that died let their messages wait
    left = node.read_all("q")
    assert sorted([*done, *left]) == numbered(0, 60)
    assert left == sorted(left)
    world.run(SECOND)
    assert not judged(node)


# A path that loses most of what is sent carries what it can: nobody waits for longer than it takes to be heard.

LOSSY_MESSAGES = 1_000
SEEDS = 6


class Bursts:
    """Datagrams that leave together are lost together, as where the system or a packet filter carries them as one.

    Attributes:
        loss: the share that is lost.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.loss = 0.0
        self._chance = Random()
        send = SimNode.send_datagrams

        def lose(node: SimNode, address: str, datagrams: list[bytes]) -> None:
            if self._chance.random() >= self.loss:
                send(node, address, datagrams)

        monkeypatch.setattr(SimNode, "send_datagrams", lose)

    def begin(self, seed: int) -> None:
        """Lose nothing at first, and then what that seed says."""
        self.loss = 0.0
        self._chance.seed(seed)


@pytest.mark.slow
def test_a_path_that_loses_whole_bursts_does_not_wait_for_its_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three seconds for a thousand packets. With a wait that doubled after each lost probe it was ten."""
    bursts, settings = Bursts(monkeypatch), NodeSettings(messages_per_packet=1)
    took_ns = 0
    for seed in range(SEEDS):
        bursts.begin(seed)
        world, a, b = two(seed, Faults(delay_ns=5 * MS), both=settings)
        a.send(b, "q", b"first")
        world.run(SECOND)
        bursts.loss = 0.6
        a.send(b, "q", *numbered(0, LOSSY_MESSAGES))
        start_ns = world.now_ns
        assert world.run(60 * SECOND, lambda b=b: b.length("q") > LOSSY_MESSAGES)  # type: ignore[misc]
        took_ns += world.now_ns - start_ns
        bursts.loss = 0.0
        assert b.read_all("q") == [b"first", *numbered(0, LOSSY_MESSAGES)]
    assert took_ns < SEEDS * 5 * SECOND


# What the page on policies says of each preset, seen from outside: over UDP, on a path that nobody knows yet.

GIVEN_UP_S = {"DEFAULT": 2, "MSMQ": 20, "SOLACE": 2, "HORNETQ": 30, "AMPS": 2, "WSO2": 2}
"""``a silent peer is given up after``, on a short path."""


def given_up_after_ns(settings: NodeSettings, delivery: Delivery) -> int:
    """How long a session lasts whose peer falls silent with one message on its way."""
    world, a, b = two(1, Faults(delay_ns=10 * MS), both=settings)
    a.send(b, "q", b"1")
    assert world.run(60 * SECOND, lambda: not a.busy)
    a.send(b, "q", b"2", delivery=delivery)
    world.run(MS)
    world.cut(a, b)
    silent_ns = world.now_ns
    assert world.run(600 * SECOND, lambda: bool(a.log("session_closed")))
    return world.now_ns - silent_ns


@pytest.mark.parametrize("delivery", Delivery)
@pytest.mark.parametrize("name", PRESETS)
def test_a_silent_peer_is_given_up_when_the_page_says_so(name: str, delivery: Delivery) -> None:
    """Whatever class of messages is on its way: a disk may be slow for a while, and silence is another matter."""
    taken_ns = given_up_after_ns(PRESETS[name], delivery)
    assert GIVEN_UP_S[name] * SECOND - 2 * SECOND < taken_ns <= GIVEN_UP_S[name] * SECOND + 50 * MS
