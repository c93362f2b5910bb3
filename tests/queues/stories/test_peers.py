"""Peers are names, wherever they are: several addresses, none, another after a restart, both ends at once."""

import gc

import pytest

from tests.queues.keyed import key_of, peer
from tests.queues.relays import post
from tests.queues.world import PlainWorld, SimNode, World, numbered, two
from triack.base.datagram import Kind, read_header
from triack.base.delivery import Delivery
from triack.base.peers import Peer
from triack.base.reasons import DropReason
from triack.base.units import MS, SECOND
from triack.queues.node_settings import NodeSettings
from triack.queues.peers.dialer import WaitsFor
from triack.queues.peers.link import Conversation
from triack.tools.sim.faults import Faults
from triack.transport.handshake_load import Admission

A, A2, B, B2, DEAD = "udp://a:1", "udp://a:2", "udp://b:1", "udp://b:2", "udp://dead:1"


class Named(SimNode):
    """A node with a key, which knows its peers by name."""

    def __init__(self, world: World, name: str, settings: NodeSettings | None = None) -> None:
        super().__init__(world, name, settings)
        self.identity.keys = (key_of(name),)

    def tell(self, *peers: Peer) -> None:
        """Know these from now on."""
        self.directory.replace(peers)
        self.act(lambda: self.live.handle_directory_changed(self.world.now_ns))

    def post(self, name: str, *bodies: bytes, queue: str = "q", delivery: Delivery = Delivery.TRANSACTIONAL) -> None:
        post(self, name, *bodies, queue=queue, delivery=delivery)

    def reappear(self, address: str, *, listens: bool = True) -> None:
        """Crash, and start again at another address."""
        self.crash()
        self.address, self.listens = address, listens
        self.start()


def named(world: World, name: str, *peers: Peer, listens: bool = True) -> Named:
    node = Named(world, name)
    node.directory.replace(peers)
    node.listens = listens
    node.start()
    return node


def couple(
    seed: int = 1, faults: Faults | None = None, *, at_a: tuple[str, ...] = (A,), at_b: tuple[str, ...] = (B,)
) -> tuple[World, Named, Named]:
    """Two nodes, and the address that each has of the other."""
    world = PlainWorld(seed, faults)
    return world, named(world, "a", peer("b", *at_b)), named(world, "b", peer("a", *at_a))


def opened(node: SimNode) -> int:
    return len(node.log("session_opened"))


def test_an_address_and_the_name_of_a_peer_are_one_stream() -> None:
    """Whatever the application calls it by; logs say the name."""
    world, a, b = couple(at_b=(B, B2))
    for number, where in enumerate(("b", B, B2) * 3):
        a.post(where, b"%d" % number)
    assert world.run(5 * SECOND, lambda: not a.busy)
    assert b.read_all("q") == [b"%d" % number for number in range(9)]
    assert (len(a.outbox.streams), opened(a), opened(b)) == (1, 1, 1)
    assert {record["peer_name"] for record in a.log("queued", "session_opened")} == {"b"}
    assert [record["peer_name"] for record in b.log("session_opened")] == ["a"]


@pytest.mark.parametrize("seed", range(8))
def test_order_holds_when_a_peer_restarts_on_another_port(seed: int) -> None:
    """Messages that waited for the old one go to the new, before anything newer."""
    world, a, b = couple(seed, Faults(loss=0.1, reorder=0.2), at_b=(B, B2))
    for round_ in range(4):
        a.post("b", *numbered(20 * round_, 20 * round_ + 10))
        world.run(world.random.randrange(300 * MS))
        b.reappear(B2 if b.address == B else B)
        a.post("b", *numbered(20 * round_ + 10, 20 * round_ + 20))
    assert world.run(60 * SECOND, lambda: not a.busy)
    assert b.read_all("q") == numbered(0, 80)


def test_a_peer_that_moved_calls_and_is_answered_where_it_is() -> None:
    """Nobody knows the new address: the node says so itself, and is called there after the session has ended."""
    world, a, b = couple()
    a.post("b", b"1")
    world.run(3 * SECOND)
    b.reappear(B2)
    a.post("b", b"2")
    world.run(20 * SECOND)
    assert b.length("q") == 1
    b.post("a", b"hello")
    assert world.run(5 * SECOND, lambda: b.length("q") == 2 and a.length("q") == 1)
    world.run(3 * SECOND)
    for path in (B, B2):
        a.live.handle_path_lost(path, world.now_ns)
    assert not [one for one in a.live.handshakes.conversations.values() if one.is_open]
    a.post("b", b"3")
    assert world.run(10 * SECOND, lambda: b.length("q") == 3)
    assert b.read_all("q") == [b"1", b"2", b"3"]


@pytest.mark.parametrize("seed", range(4))
def test_order_holds_when_both_call_at_once_and_one_in_vain(seed: int) -> None:
    """Each calls the other, at addresses where one is no more: neither waits for its own call to be answered."""
    world, a, b = couple(seed, Faults(loss=0.1), at_a=(A,), at_b=(DEAD,))
    first, second = (a, b) if a.live.node_id > b.live.node_id else (b, a)
    if first is b:
        a.tell(peer("b", B))
        b.tell(peer("a", DEAD))
    first.post(second.name, *numbered(0, 20))
    world.run(100 * MS)
    second.post(first.name, *numbered(0, 20))
    assert world.run(5 * SECOND, lambda: first.length("q") == second.length("q") == 20)
    assert first.read_all("q") == second.read_all("q") == numbered(0, 20)


def test_when_both_call_at_once_one_session_serves_both() -> None:
    world, a, b = couple(faults=Faults(delay_ns=20 * MS))
    a.post("b", b"1")
    b.post("a", b"1")
    assert world.run(SECOND, lambda: a.length("q") == b.length("q") == 1)
    assert (opened(a), opened(b)) == (1, 1)


def test_a_node_that_does_not_listen_gets_what_is_sent_to_it() -> None:
    """In the session that it opened, whichever side has something to say first; and again when that has ended."""
    world = PlainWorld(1)
    a, b = named(world, "a", peer("b")), named(world, "b", peer("a", A), listens=False)
    a.post("b", b"1")
    world.run(10 * SECOND)
    b.post("a", b"hello")
    assert world.run(2 * SECOND, lambda: b.length("q") == 1)
    a.post("b", b"2")
    assert world.run(SECOND, lambda: b.length("q") == 2)
    a.restart()
    a.post("b", b"3")
    assert world.run(30 * SECOND, lambda: b.length("q") == 3)
    world.run(1_000 * SECOND)
    a.post("b", b"4")
    assert world.run(SECOND, lambda: b.length("q") == 4)
    assert b.read_all("q") == [b"1", b"2", b"3", b"4"]


def test_a_named_node_without_keys_is_found_by_its_own_name() -> None:
    """On loopback it proves nothing: it says its name, and the directory has no address for that."""
    world = PlainWorld(1)
    a, b = world.node("a"), SimNode(world, "b")
    a.directory.replace([Peer("b")])
    b.listens = False
    b.start()
    post(a, "b", b"1")
    b.send(a, "q", b"hello")
    assert world.run(SECOND, lambda: b.length("q") == 1)


def test_a_node_id_is_one_peers_also_after_a_restart() -> None:
    """A copy of its store in another peer's hands is refused, until the first peer is known no more."""
    world = PlainWorld(1)
    b = named(world, "b", peer("a"), peer("thief"))
    a = named(world, "a", peer("b", B))
    a.post("b", b"1")
    assert world.run(SECOND, lambda: not a.busy)
    a.crash()
    b.restart()
    thief = Named(world, "thief")
    thief.directory.replace([peer("b", B)])
    thief.disk.restore(a.disk.snapshot())
    thief.start()
    thief.post("b", b"2")
    world.run(5 * SECOND)
    assert b.live.drops[DropReason.FOREIGN_NODE_ID] > 0
    assert b.length("q") == 1
    b.tell(peer("thief"))
    assert world.run(5 * SECOND, lambda: b.length("q") == 2)


def test_where_a_peer_said_that_it_is_outlives_a_restart() -> None:
    """Of a peer that called once and is not called by anything that it sends; the newest is what counts."""
    world = PlainWorld(1)
    a, b = named(world, "a", peer("b", B)), named(world, "b", peer("a"))
    a.post("b", b"1", delivery=Delivery.EXPRESS)
    assert world.run(SECOND, lambda: b.length("q") == 1)
    a.reappear(A2)
    a.post("b", b"2", delivery=Delivery.EXPRESS)
    assert world.run(5 * SECOND, lambda: b.length("q") == 2)
    world.run(SECOND)
    a.crash()
    b.restart()
    b.post("a", b"3")
    world.run(5 * SECOND)
    a.start()
    assert world.run(5 * SECOND, lambda: a.length("q") == 1)


def test_a_revoked_peer_is_cut_off_and_its_messages_wait() -> None:
    """Its session ends at once, in both directions; when it is trusted again everything arrives, in order."""
    world, a, b = couple()
    a.post("b", b"1")
    b.post("a", b"1")
    assert world.run(SECOND, lambda: not a.busy and not b.busy)
    b.tell()
    assert b.live.closes["revoked"] == 1
    assert not [one for one in b.live.handshakes.conversations.values() if one.is_open]
    a.post("b", b"2")
    b.post("a", b"2")
    world.run(20 * SECOND)
    assert (a.length("q"), b.length("q")) == (1, 1)
    assert b.live.drops[DropReason.NO_KEY] == 1
    assert b.live.handshakes.reach.waits_for(b.live.outbox.links["a"]) == WaitsFor.KEY
    b.tell(peer("a", A))
    assert world.run(5 * SECOND, lambda: (a.length("q"), b.length("q")) == (2, 2))


def test_new_addresses_are_tried_at_once() -> None:
    """A link that calls in vain begins again when the directory changes; others are left alone."""
    world, a, b = couple(at_b=(DEAD,))
    c = named(world, "c", peer("a", A))
    a.tell(peer("b", DEAD), peer("c", c.address))
    a.post("c", b"x")
    a.post("b", b"1")
    world.run(SECOND)
    a.tell(peer("b", B), peer("c", c.address))
    assert world.run(300 * MS, lambda: b.length("q") == 1)
    assert opened(c) == 1


def test_a_connect_is_said_again_when_the_peer_asks_for_that(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is under load, and wants to know that the caller is where it says: the next connect leaves at once."""
    monkeypatch.setattr(Admission, "is_loaded", lambda *_: True)
    world, a, b = couple()
    heard: list[Kind] = []
    world.network.tap = lambda datagram, *_: heard.append(read_header(datagram).kind)
    a.post("b", b"x")
    assert world.run(100 * MS, lambda: b.length("q") == 1)
    assert heard[:4] == [Kind.CONNECT, Kind.RETRY, Kind.CONNECT, Kind.ACCEPT]


@pytest.mark.parametrize(("delay_ms", "jitter_ms"), [(800, 0), (2_000, 0), (4_000, 0), (400, 300)])
def test_a_session_opens_over_a_long_way(delay_ms: int, jitter_ms: int) -> None:
    """By the time the first accept is back there are many connects that were answered; accepts overtake each other."""
    world, a, b = couple(faults=Faults(delay_ns=delay_ms * MS, jitter_ns=jitter_ms * MS))
    a.post("b", b"x")
    assert world.run(4 * (delay_ms + jitter_ms) * MS, lambda: b.length("q") == 1)
    assert opened(b) == 1


@pytest.mark.parametrize("delivery", list(Delivery))
def test_of_a_peer_that_has_gone_no_session_is_kept(delivery: Delivery) -> None:
    """Its streams are kept, permanently, and each would hold one; when it comes back they find their way again."""
    world, a, b = two(1, Faults(delay_ns=5 * MS))
    for turn in range(2):
        a.send(b, "q", *numbered(turn, turn + 1), delivery=delivery)
        world.run(400 * SECOND)
        labels = {record["session"] for record in b.log("session_closed")}
        assert (a.busy, len(labels)) == (False, turn + 1)
        gc.collect()
        kept = [one.label for one in gc.get_objects() if isinstance(one, Conversation)]
        assert labels.isdisjoint(kept)
    assert b.read_all("q") == numbered(0, 2)
