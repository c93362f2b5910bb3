"""Older copies of stores, clones and lying disks: both sides say so and exchange nothing; a lawful crash is none."""

from collections.abc import Callable
from functools import partial

import pytest

from tests.queues.hostile import open_datagram
from tests.queues.rollbacks import arrived, both_know, deliver, pair, put_back, roll_back
from tests.queues.world import PlainWorld, SimNode, numbered, two
from triack.base.commit import Commit
from triack.base.datagram import Kind
from triack.base.delivery import Delivery
from triack.base.units import MS, SECOND
from triack.queues.stages import STAGES, Stage
from triack.session.protocol.binary import BINARY
from triack.tools.sim.faults import Faults

EXPRESS, RECOVERABLE, TRANSACTIONAL = Delivery


@pytest.mark.parametrize("lives", [1, 4])
@pytest.mark.parametrize("delivery", [RECOVERABLE, TRANSACTIONAL])
@pytest.mark.parametrize("victim", ["sender", "receiver"])
@pytest.mark.parametrize("other_restarts", [False, True])
def test_an_older_copy_is_noticed_by_both(victim: str, delivery: Delivery, lives: int, other_restarts: bool) -> None:
    """Of the sender or of the receiver, after restarts of either; nothing more arrives, nothing is dropped."""
    world, a, b = pair()
    deliver(world, a, b, 1, 2, delivery=delivery)
    rolled, other = (a, b) if victim == "sender" else (b, a)
    for _ in range(lives):
        rolled.restart()
    copy = rolled.copy_store()
    deliver(world, a, b, 3, 4, delivery=delivery)
    for _ in range(lives - 1):
        rolled.restart()
        deliver(world, a, b, 5, delivery=delivery)
    if other_restarts:
        for _ in range(lives):
            other.restart()
    put_back(rolled, copy, lives)
    before = arrived(b)
    a.send(b, "q", b"new", delivery=delivery)
    both_know(world, rolled, other)
    world.run(60 * SECOND)
    assert (arrived(b), a.busy) == (before, True)
    assert [len(node.log("rollback_detected")) for node in (a, b)] == [1, 1]


@pytest.mark.parametrize("victim", ["sender", "receiver"])
def test_an_older_copy_is_noticed_although_the_peer_was_away(victim: str) -> None:
    """It lived on and worked with others meanwhile, so that its serials are far ahead of what is remembered."""
    world, a, b = pair()
    c = world.node("c")
    deliver(world, a, b, 1)
    rolled, other = (a, b) if victim == "sender" else (b, a)
    copy = rolled.copy_store()
    deliver(world, a, b, 2)
    other.crash()
    put_back(rolled, copy)
    for life in range(5):
        deliver(world, rolled, c, *range(10))
        if life % 2:
            rolled.restart()
    other.start()
    a.send(b, "q", b"new")
    both_know(world, rolled, other)
    assert c.rollbacks == []


def test_express_alone_is_remembered_as_long_as_both_live() -> None:
    """Nothing on any disk depends on it, yet a repeated incarnation would be taken for duplicates."""
    world, a, b = pair()
    a.restart()
    copy = a.copy_store()
    a.restart()
    a.send(b, "q", b"1", delivery=EXPRESS)
    world.run(SECOND)
    put_back(a, copy, 2)
    a.send(b, "q", b"2", delivery=EXPRESS)
    both_know(world, a, b)
    assert b.store.load(b"x" * 16, 1).peers == {}


@pytest.mark.parametrize("victim", ["sender", "receiver"])
@pytest.mark.parametrize("lost", [1, 2, 3, 8])
def test_a_disk_that_lied_is_noticed(victim: str, lost: int) -> None:
    """Its last commits had returned, were spoken of, and are gone after the power was."""
    world, a, b = pair(lost)
    rolled, other = (a, b) if victim == "sender" else (b, a)
    copies = {rolled.stored: rolled.copy_store()}
    for number in range(10):
        a.send(b, "q", b"%d" % number)
        world.run(37 * MS)
        copies[rolled.stored] = rolled.copy_store()
    # Acks that wait for company have left.
    world.run(SECOND)
    put_back(rolled, list(copies.values())[-1 - lost])
    a.send(b, "q", b"new")
    both_know(world, rolled, other)


def test_two_processes_with_one_identity_as_senders() -> None:
    """Noticed when the second one meets a node that the first has met, whatever its class: all three stop."""
    for delivery in Delivery:
        world, a, b = pair()
        twin = world.clone(a, "twin")
        deliver(world, a, b, 1, delivery=delivery)
        twin.send(b, "q", b"2", delivery=delivery)
        both_know(world, twin, b)
        a.send(b, "q", b"3", delivery=delivery)
        assert world.run(10 * SECOND, lambda: bool(a.rollbacks))  # noqa: B023
        world.run(20 * SECOND)
        assert b.read_all("q") == [b"1"]


def test_two_processes_with_one_identity_as_receivers() -> None:
    """The sender reaches the second one by another address."""
    world, a, b = pair()
    twin = world.clone(b, "twin")
    deliver(world, a, b, 1)
    a.send(twin, "q", b"2")
    both_know(world, twin, a)
    a.send(b, "q", b"3")
    world.run(20 * SECOND)
    assert (b.read_all("q"), twin.length("q")) == ([b"1"], 0)


@pytest.mark.parametrize("worked", ["neither", "dialling", "dialled", "both"])
def test_two_processes_with_one_identity_that_meet(worked: str) -> None:
    """Each is the other's clone, even when one of them has done nothing since."""
    world = PlainWorld(1)
    a = world.node("a")
    a.restart()
    twin = world.clone(a, "twin")
    for node, name in ((a, "dialling"), (twin, "dialled")):
        if worked in (name, "both"):
            deliver(world, node, world.node(f"c-{name}"), 1)
    a.send(twin, "q", b"1", delivery=EXPRESS)
    both_know(world, a, twin, "own", "own")
    world.run(10 * SECOND)
    assert (a.busy, twin.length("q")) == (True, 0)
    assert len(a.log("session_opened")) == (worked in ("dialling", "both"))


@pytest.mark.gate
def test_a_clone_made_while_both_connect_for_the_first_time() -> None:
    """Neither is known when it knocks: only one gets in, the other has to knock again and is found out."""
    for seed in range(10):
        world, a, b = two(seed, Faults(delay_ns=20 * MS, reorder=0.5), make=PlainWorld)
        twin = world.clone(a, "twin")
        a.send(b, "q", b"a")
        twin.send(b, "q", b"twin")
        assert world.run(60 * SECOND, lambda: all(node.rollbacks for node in (a, b, twin)))  # noqa: B023
        assert len(b.read_all("q")) <= 1


@pytest.mark.parametrize("seed", range(4))
def test_no_datagram_speaks_of_a_commit_that_has_not_returned(seed: int) -> None:
    """A slow disk and packets all the time: what a peer hears of, a crash cannot take back."""
    world, a, b = pair(seed, Faults(loss=0.1))
    told = 0

    def check(datagram: bytes, sender: str, _to: str) -> None:
        nonlocal told
        opened = open_datagram(datagram)
        if opened.kind is Kind.DATA:
            serials = [getattr(frame, "mark", 0) for frame in BINARY.decode(opened.payload)]
        else:
            serials = [opened.introduction.point.serial]
        told = max([told, *serials])
        assert max([0, *serials]) <= world.nodes[sender].stored

    world.network.tap = check
    a.commit_ns = b.commit_ns = 30 * MS
    for at in range(60):
        a.send(b, "q", b"%d" % at)
        b.send(a, "q", b"%d" % at)
        world.run(7 * MS)
    assert world.run(30 * SECOND, lambda: not a.busy and not b.busy)
    assert told > 10


def test_a_newer_copy_in_its_place_is_the_store_itself() -> None:
    """Detected, then put right: both start again and go on as if nothing had been."""
    world, a, b = pair()
    deliver(world, a, b, 1)
    old = a.copy_store()
    deliver(world, a, b, 2)
    a.crash()
    good = a.copy_store()
    a.restore(old)
    a.start()
    a.send(b, "q", b"lost with the wrong store")
    both_know(world, a, b)
    put_back(a, good)
    a.send(b, "q", b"3")
    world.run(10 * SECOND)
    assert b.length("q") == 2
    b.restart()
    a.restart()
    deliver(world, a, b, 4)
    assert b.read_all("q") == [b"1", b"2", b"3", b"4"]


def test_an_address_that_leads_to_another_node_is_no_rollback() -> None:
    """A claim is about one node; who else answers there is not asked to confirm it."""
    world, a, b = pair()
    deliver(world, a, b, 1)
    b.crash()
    fresh = world.node("b")
    a.send(fresh, "q", b"2")
    assert world.run(30 * SECOND, lambda: not a.busy)
    assert (fresh.read_all("q"), a.rollbacks, fresh.rollbacks) == ([b"2"], [], [])


def test_a_fresh_node_in_the_place_of_a_rolled_back_one_is_served() -> None:
    """It is found while its predecessor, which never answered, was still to be told."""
    world, a, b = pair()
    roll_back(world, a, b)
    said = a.watch(a.send(b, "q", b"3"), Stage.ORDERED)
    assert world.run(SECOND, lambda: bool(said))
    b.crash()
    fresh = world.node("b")
    assert world.run(30 * SECOND, lambda: not a.busy)
    said = a.watch(a.send(fresh, "q", b"4"), Stage.ORDERED)
    assert world.run(SECOND, lambda: said == [None])
    assert fresh.read_all("q") == [b"3", b"4"]


@pytest.mark.parametrize("delivery", list(Delivery))
def test_receipts_say_so_and_nothing_is_lost(delivery: Delivery) -> None:
    """Those who wait and those who begin to; what is queued stays so, on the disk too; other peers are served."""
    world, a, b = pair()
    c = world.node("c")
    roll_back(world, a, b)
    sent = a.send(b, "q", b"3", delivery=delivery)
    waits = [a.watch(sent, stage) for stage in Stage if Stage.QUEUED < stage <= STAGES[delivery]]
    both_know(world, a, b)
    world.run(SECOND)
    later = a.send(b, "later", b"4", delivery=delivery)
    waits.append(a.watch(later, STAGES[delivery]))
    queued = a.watch(later, Stage.QUEUED)
    world.run(SECOND)
    (error,) = a.told
    assert (waits, queued) == ([[str(error)]] * len(waits), [None])
    assert (error.peer, error.rolled_back) == (b.live.node_id.hex(), "own")
    assert f"node {b.address} ({error.peer})" in str(error)
    assert a.live.rollbacks == {error.peer: "own"}
    deliver(world, c, b, 5)
    assert world.run(SECOND, lambda: not c.busy)
    a.restart()
    kept = sum(len(outgoing.sequence.entries) for outgoing in a.outbox.streams)
    assert kept == (0 if delivery is EXPRESS else 2)
    assert a.length("dead-letter") == 0


class Notary:
    """Looks at every commit of two nodes: what it depends on must be remembered in it or before it."""

    def __init__(self, a: SimNode, b: SimNode) -> None:
        self.made: dict[int, int] = {}
        self.taken: dict[int, int] = {}
        self.known = {"a": 0, "b": 0}
        self.checks = 0
        for node, check in ((a, self._check_sender), (b, self._check_receiver)):
            node.apply = partial(self._watch, node.name, node.apply, check)  # type: ignore[method-assign]

    def _watch(self, name: str, apply: Callable[[Commit], None], check: Callable[[Commit], None], it: Commit) -> None:
        apply(it)
        self.known[name] = max([self.known[name], *(row.serial for row in it.peers.values())])
        check(it)

    def _check_sender(self, commit: Commit) -> None:
        self.made.update({row.key: commit.serial for row in commit.outgoing})
        for first, last in commit.outgoing_deletes:
            for key in range(first, last + 1):
                self.checks += 1
                assert self.known["a"] >= self.taken[key]

    def _check_receiver(self, commit: Commit) -> None:
        for row in (packet for several in commit.messages for packet in several.packets()):
            key = row.stream << 40 | row.number
            self.taken.setdefault(key, commit.serial)
            self.checks += 1
            assert self.known["b"] >= self.made[key]


@pytest.mark.parametrize("delivery", [RECOVERABLE, TRANSACTIONAL])
@pytest.mark.parametrize("seed", range(6))
def test_every_commit_remembers_what_it_depends_on(seed: int, delivery: Delivery) -> None:
    """Deletes at the sender depend on the receiver's commit, messages at the receiver on the sender's."""
    world, a, b = pair(seed, Faults(loss=0.2, duplicate=0.2, reorder=0.3))
    notary = Notary(a, b)
    b.commit_ns = world.random.choice([MS // 4, 3 * MS, 40 * MS])
    for at in range(60):
        a.send(b, "q", *numbered(at, at + 1, 200), delivery=delivery)
        world.run(world.random.randrange(30 * MS))
        if world.random.random() < 0.05:
            world.random.choice([a, b]).restart()
    assert world.run(60 * SECOND, lambda: not a.busy)
    # Two for each message, but for a few that have shared a packet.
    assert notary.checks >= 110
