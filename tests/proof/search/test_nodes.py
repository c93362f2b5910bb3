"""The simulated nodes of the search."""

from dataclasses import replace
from pathlib import Path
from random import Random
from shutil import copytree

import pytest

from proof.planted.catalogue import bug_named
from proof.planted.worlds import PLAIN, READING, RECEIVER_DIES
from proof.search.datagrams import Datagrams, describe_packet
from proof.search.disk import Disk
from proof.search.host import Host
from proof.search.identity import thaw
from proof.search.nodes import Nodes
from proof.search.relay import RELAY_SCOPES, RelayScope, World, search_relay
from proof.search.scope import Part
from proof.search.witness import Violation
from tests.proof.search.hosts import DELIVER, opened, started
from triack.base.commit import (
    Commit,
    MessageRow,
    OutgoingRow,
    OutgoingStreamRow,
    PeerRow,
    PositionRow,
    Read,
    StoreContent,
    key_of,
)
from triack.base.delivery import FREED_BY, Ack, Delivery, Role
from triack.base.names import StreamId
from triack.ordering.transit import TransitSequence
from triack.ordering.wire import OrderAckPacket
from triack.queues.manager.engine import Engine
from triack.queues.packing import pack
from triack.queues.streams.group_commit import GroupCommit
from triack.session.protocol.frames import CloseFrame, Frame, PingFrame, StoreAckFrame
from triack.session.protocol.states import CloseReason, SessionState
from triack.store.store import Store

# One node of a search: what can happen to it, and what then does.


def names(host: Host) -> set[str]:
    return {name for name, _ in host.choices()}


def test_what_can_happen_is_bounded_by_the_scope() -> None:
    scope = replace(PLAIN, parts=(Part(sends=2, crashes=1, stops=1, breaks=1, sessions=3), Part()))
    host = started(scope)[0]
    assert names(host) == {"submit", "drain", "crash"}
    host.act(("submit", None))
    assert names(host) == {"submit", "disk", "drain", "crash"}
    host.act(("disk", None))
    assert "break" in names(host)
    host.act(("break", None))
    assert "break" not in names(host)
    host.act(("submit", None))
    assert "submit" not in names(host)
    host.act(("crash", False))
    assert "crash" not in names(host)
    host.act(("drain", None))
    assert "stop" in names(host)
    assert "drain" not in names(host)
    host.act(("stop", None))
    assert not {"stop", "drain"} & names(host)


def test_a_commit_in_hand_is_lost_in_a_crash_or_not() -> None:
    """Both are tried; without one there is nothing to choose."""
    scope = replace(PLAIN, parts=(Part(sends=1, crashes=1, sessions=2), Part()))
    for applied in (False, True):
        host = started(scope)[0]
        assert [what for name, what in host.choices() if name == "crash"] == [False]
        host.act(("submit", None))
        assert isinstance(host.job, GroupCommit)
        assert [what for name, what in host.choices() if name == "crash"] == [False, True]
        host.act(("crash", applied))
        assert host.job is None
        assert host.witness.queued == [b"a1"] * applied


def test_timers_that_stand_still_do_not_run_out() -> None:
    """And those that only repeat themselves do so a few times."""
    first, _, _ = opened(PLAIN)
    assert {key[2] for name, key in first.choices() if name == "timer" and isinstance(key, tuple)} <= {
        "LOSS",
        "PACING",
        "ACK_DELAY",
    }
    patient = opened(replace(PLAIN, parts=(Part(ready=2, patience=1), Part())))[0]
    probes = [key for name, key in patient.choices() if name == "timer" and "PROBE" in str(key)]
    assert len(probes) == 1
    assert patient.act(("timer", probes[0]))
    assert not [key for name, key in patient.choices() if name == "timer" and "PROBE" in str(key)]


def test_only_who_reads_reads() -> None:
    """When there is something, and not while it is on its way from the disk."""
    for scope, reads in ((READING, True), (RECEIVER_DIES, False)):
        _, second, (packet,) = opened(scope)
        second.act(DELIVER, packet)
        assert not second.can_read
        second.act(("disk", None))
        assert second.can_read is reads
        if reads:
            second.act(("read", None))
            assert second.witness.read == [b"a1"]
            assert not second.can_read


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_message_arrives_in_either_order(order: tuple[int, int]) -> None:
    first, second, packets = opened(PLAIN)
    for index in order:
        second.act(DELIVER, packets[index])
        while second.job is not None:
            second.act(("disk", None))
    assert second.witness.kept == first.witness.queued == [b"a1", b"a2"]
    assert {talk.state for talk in second.witness.talks.values()} == {SessionState.OPEN}


# The states of one node: met once, and each step from them taken once.


def test_a_state_has_one_number() -> None:
    nodes = Nodes(PLAIN, 0, Datagrams())
    states = [started(PLAIN)[0], started(PLAIN)[0], opened(PLAIN)[0], started(PLAIN)[0]]
    assert ([nodes.number(state) for state in states], len(nodes.known)) == ([0, 0, 1, 0], 2)


def on_its_way() -> tuple[Nodes, Datagrams, int, list[int]]:
    """The states of the second node, its number in a session, and the packets that are on their way to it."""
    _, second, packets = opened(PLAIN)
    datagrams = Datagrams()
    nodes = Nodes(PLAIN, 1, datagrams)
    return nodes, datagrams, nodes.number(second), [datagrams.number(packet) for packet in packets]


@pytest.mark.plain
def test_a_step_is_taken_once() -> None:
    nodes, datagrams, number, (packet, _) = on_its_way()
    step = nodes.hear(number, packet)
    assert step is not None
    assert step.node != number
    sent = [str(datagrams.known[bit]) for bit in range(8) if step.sent >> bit & 1]
    assert sent == ["DATA of session a01 [session ack to 1]"]
    assert nodes.steps == 1
    assert nodes.hear(number, packet) is step
    own, steps = nodes.own_steps(number), nodes.steps
    assert nodes.own_steps(number) is own
    assert nodes.steps == steps


@pytest.mark.plain
def test_what_changes_nothing_is_no_step() -> None:
    """A copy of an acknowledgement; and it can never do anything again."""
    first, second, packets = opened(PLAIN)
    datagrams = Datagrams()
    nodes = Nodes(PLAIN, 0, datagrams)
    (ack,) = second.act(("deliver", None), packets[0])
    before, heard = nodes.number(first), datagrams.number(ack)
    assert nodes.live(before, 1 << heard) == 1 << heard
    step = nodes.hear(before, heard)
    assert step is not None
    assert nodes.hear(step.node, heard) is None
    assert nodes.live(step.node, 1 << heard) == 0
    keeping = Nodes(replace(PLAIN, keeps=True), 0, datagrams)
    number = keeping.number(thaw(nodes.known[step.node].frozen))
    assert keeping.live(number, 1 << heard) == 1 << heard


@pytest.mark.plain
def test_what_leaves_the_scope_is_no_step() -> None:
    """The search does not go there: neither for what comes by itself nor for what arrives."""
    _, second, packets = opened(PLAIN)
    datagrams = Datagrams()
    for packets_max, goes in ((8, True), (-1, False)):
        second.scope = replace(PLAIN, packets=packets_max)
        nodes = Nodes(second.scope, 1, datagrams)
        assert (nodes.hear(nodes.number(second), datagrams.number(packets[0])) is not None) is goes


@pytest.mark.plain
def test_a_broken_promise_and_a_broken_engine_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes, _, number, (packet, next_packet) = on_its_way()
    with monkeypatch.context() as patch:
        bug_named("the order ack speaks of what is not yet committed").plant(patch)
        step = nodes.hear(number, packet)
        assert step is not None
        idle = [step.broken for _, step in nodes.own_steps(step.node) if step.broken]
        assert idle == ["order ack to 1 left, and number 1 is not on disk"]

    def fail(*_: object) -> None:
        raise Violation("planted")

    monkeypatch.setattr(Engine, "handle_datagram", fail)
    broken = nodes.hear(number, next_packet)
    assert broken is not None
    assert (broken.node, broken.sent, broken.broken) == (number, 0, "planted")


# The search of a relay: nothing breaks, and a mistake of the relay is found with the steps to it.

KEPT = RELAY_SCOPES[1]


@pytest.mark.slow
@pytest.mark.parametrize("scope", RELAY_SCOPES, ids=lambda scope: scope.name)
def test_no_promise_breaks_in_the_first_states(scope: RelayScope) -> None:
    result = search_relay(scope, 1_000, fair_runs=60)
    assert (result.scope, result.violation) == (scope.name, None)
    assert result.states >= 1_000
    assert result.fair_runs >= 60


@pytest.mark.gate
def test_a_small_world_is_searched_to_its_end() -> None:
    for delivery in (Delivery.RECOVERABLE, Delivery.TRANSACTIONAL):
        result = search_relay(RelayScope("one", "one", delivery, packets=1), 10_000, fair_runs=20)
        assert (result.complete, result.violation) == (True, None)
        assert result.states > 50


@pytest.mark.gate
def test_a_relay_that_frees_too_early_loses_a_packet(monkeypatch: pytest.MonkeyPatch) -> None:
    send = TransitSequence.handle_sent

    def forget(self: TransitSequence, run: list[object], now_ns: int, *, packet: int = 0) -> list[int]:
        before = send(self, run, now_ns, packet=packet)  # type: ignore[arg-type]
        self.remove(run)  # type: ignore[arg-type]
        return before

    monkeypatch.setattr(TransitSequence, "handle_sent", forget)
    result = search_relay(RelayScope("one", "one", Delivery.RECOVERABLE, packets=1), 10_000, fair_runs=10_000)
    assert result.violation is not None
    assert result.trace


def test_a_packet_that_is_nowhere_is_missed() -> None:
    """By the search itself: the table of acknowledgements says what may free one."""
    assert FREED_BY[Delivery.RECOVERABLE, Role.TRANSIT] is Ack.STORE
    world = World.begin(KEPT)
    world.origin.remove(world.origin.entries[1])
    with pytest.raises(Exception, match="packet 1 is nowhere"):
        world.act(("send", 0, 0))


# The disk that the search uses, held against the store that ships: the same commits, the same content.

NODE = b"n" * 16
NODES = [bytes([number]) * 16 for number in range(3)]
BODIES = [pack([b"x" * size_bytes], 2_000, 1, 1)[0][0].body for size_bytes in (1, 40, 1_500)]
STARTS, COMMITS = 6, 25


class Life:
    """Commits as an engine makes them, drawn by chance: keys of packets are new, deletions are ranges."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._serial = 0
        self._next_key = 1
        self._queues = 0

    def commit(self) -> Commit:
        chance = self._random
        self._serial += 1
        commit = Commit(serial=self._serial if chance.random() < 0.9 else 0)
        for _ in range(chance.randrange(4)):
            chance.choice([self._send, self._arrive, self._delete, self._remember])(commit)
        return commit

    def _keys(self) -> list[int]:
        first, self._next_key = self._next_key, self._next_key + self._random.randrange(1, 4)
        return [key_of(self._random.choice([1, 2]), number) for number in range(first, self._next_key)]

    def _send(self, commit: Commit) -> None:
        stream = self._random.choice([1, 2])
        commit.streams[stream] = OutgoingStreamRow(stream, "udp://b:1", "q", Delivery.RECOVERABLE, 1, self._next_key)
        commit.outgoing += [OutgoingRow(key, 1, 0, self._random.choice(BODIES)) for key in self._keys()]

    def _arrive(self, commit: Commit) -> None:
        self._queues += 1
        origin, stream = self._random.choice(NODES), self._random.choice([1, 2])
        commit.queues.append((self._queues, f"q{self._queues}"))
        keys = self._keys()
        commit.messages += [MessageRow(key, origin, stream, 1, key, (self._random.choice(BODIES),)) for key in keys]
        commit.progress[keys[0]] = self._random.randbytes(3)
        number = self._random.randrange(100)
        commit.positions[StreamId(origin, stream)] = PositionRow(
            origin, stream, Delivery.TRANSACTIONAL, "q", 1, number, b""
        )

    def _delete(self, commit: Commit) -> None:
        group, first = self._random.choice([1, 2]), self._random.randrange(1, self._next_key + 1)
        span = (key_of(group, first), key_of(group, first + self._random.randrange(4)))
        self._random.choice([commit.outgoing_deletes, commit.message_deletes]).append(span)

    def _remember(self, commit: Commit) -> None:
        commit.state[self._random.choice("abc")] = self._random.choice([None, b"1", b"2"])
        peer = self._random.choice(NODES)
        commit.peers[peer] = PeerRow(peer, 1, self._serial)


def bodies(disk: Disk | Store, content: StoreContent) -> list[dict[int, bytes]]:
    """What all the rows hold, and that one which is not there holds nothing."""
    reads = [
        Read("outgoing", [*(row.key for row in content.outgoing), key_of(9, 9)]),
        Read("messages", [*(row.key for row in content.messages), key_of(9, 9)]),
    ]
    for read in reads:
        disk.read(read)
    return [read.bodies for read in reads]


@pytest.mark.gate
@pytest.mark.parametrize("seed", range(4))
def test_it_keeps_what_the_store_keeps(tmp_path: Path, seed: int) -> None:
    life, disk, sizes = Life(seed), Disk(NODE), []
    for start in range(1, STARTS + 1):
        folder = tmp_path / f"{start}"
        store = Store(folder, checkpoint_pages=8)
        try:
            # How much room there is, and what is in hand, only a real disk can say.
            content = replace(store.load(NODE, start), room_bytes=None, disk_bytes=None, leases=None)
            messages, transit = list(content.messages), list(content.transit)
            # The beginning of a body is that of the first packet of a row, and a disk of rows has one packet in each.
            outgoing = [replace(index, head=b"") for index in content.outgoing]
            content = replace(content, outgoing=outgoing, messages=messages, transit=transit)
            assert disk.load(start) == content
            assert bodies(disk, content) == bodies(store, content)
            sizes.append(len(outgoing) + len(messages) + len(content.peers))
            for _ in range(COMMITS):
                commit = life.commit()
                disk.apply(commit)
                store.apply(commit)
            if start % 2:
                # As a process leaves it that is killed here.
                copytree(folder, tmp_path / f"{start + 1}")
        finally:
            store.close()
        if not start % 2:
            folder.rename(tmp_path / f"{start + 1}")
    assert max(sizes) > COMMITS


# What was said: every different datagram once, and who could take it.


def test_bits_say_who_could_take_what() -> None:
    """A connect can always be taken; all else only where its connection is."""
    first, second, (connect,) = started(PLAIN)
    (accept,) = second.act(DELIVER, connect)
    data, _ = first.act(DELIVER, accept)
    (ack,) = second.act(DELIVER, data)
    known = Datagrams()
    for datagram in (connect, accept, data, ack):
        known.number(datagram)
    assert (known.to, known.connects, known.acks) == ([0b1010, 0b0101], [0, 0b0001], 0b1000)
    alive = [known.live(1, ()), known.live(1, (data.connection,)), known.live(0, (accept.connection,))]
    assert [*alive, known.live(0, (777,))] == [0b0001, 0b0101, 0b1010, 0]


def test_everything_can_be_told_in_words() -> None:
    first, second, (connect,) = started(PLAIN)
    assert str(connect) == "CONNECT of session a01"
    (accept,) = second.act(DELIVER, connect)
    one, _ = first.act(DELIVER, accept)
    frames: list[Frame] = [PingFrame(), CloseFrame(CloseReason.IDLE), StoreAckFrame(3, [(5, 6), (9, 9)])]
    assert str(replace(one, frames=frames)) == "DATA of session a01 [ping, goodbye: idle, store ack to 3 and 5-6 9-9]"
    assert describe_packet(OrderAckPacket(b"o" * 16, 1, 1, 7).encode()) == "order ack to 7"
    assert describe_packet(b"\xff\xff") == "unreadable"
