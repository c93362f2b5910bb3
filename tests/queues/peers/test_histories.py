"""Histories of stores: rolled back, cloned, suspended, resumed."""

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.queues.relays import Relays, post
from tests.queues.world import PlainWorld, SimNode, World, drain
from triack.base.commit import Commit, PeerRow, StoreContent
from triack.base.delivery import Delivery
from triack.base.errors import GapDetected, UsageError
from triack.base.news import GapFound
from triack.base.peers import Directory, Peer
from triack.base.reasons import DropReason
from triack.base.units import SECOND
from triack.ordering.wire import EARLIER_MAX, StoreWord
from triack.queues.node_settings import Gap, NodeSettings, Reconnect
from triack.queues.peers import history
from triack.queues.peers.history import History, Peers
from triack.queues.peers.introduction import NO_POINT, HistoryPoint, Introduction, RolledBack
from triack.queues.peers.link import Link
from triack.queues.peers.relayed_histories import NODES_MAX, RelayedHistories
from triack.queues.peers.suspended_peers import SuspendedPeers
from triack.queues.stages import STAGES
from triack.session.protocol.settings import SessionSettings

# What is in a store's history, what is remembered of a peer's, and when it is written down.

A, B = b"a" * 16, b"b" * 16


@pytest.mark.gate
@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=12), st.data())
def test_no_crash_is_a_rollback_and_every_older_copy_is(lives: list[tuple[int, bool]], data: st.DataObject) -> None:
    """A store that lives, with whatever was told of it, has all of that; a copy lacks what was told after it."""
    store = StoreContent(A, 1, start=1)
    told: list[HistoryPoint] = []
    copies: list[tuple[StoreContent, int]] = []
    for commits, crash in lives:
        copies.append((StoreContent(A, 1, store.start, store.serial, dict(store.starts)), len(told)))
        own = History(store)
        for _ in range(commits):
            commit = Commit()
            own.number(commit)
            own.handle_committed(commit)
            told.append(own.point)
        serial = own.committed
        if crash:
            own.number(Commit())
            serial += data.draw(st.integers(0, 1), label="the last commit was done, and not told")
        store.starts[store.start] = serial
        store.start, store.serial = store.start + 1, serial
    assert all(History(store).has(point) for point in told)
    for copy, known in copies:
        copy.starts[copy.start] = copy.serial
        copy.start = 1_000
        again = History(copy)
        assert all(again.has(point) for point in told[:known])
        assert not any(again.has(point) for point in told[known:])


def test_only_what_a_commit_depends_on_is_written_and_only_once() -> None:
    """A peer that was merely met costs no row, nor does one that has not moved on."""
    peers = Peers([PeerRow(B, 5, 50)])
    a, b = peers.meet(A, HistoryPoint(1, 1), ""), peers.meet(B, HistoryPoint(5, 51), "")
    assert sealed(peers) == {}
    peers.depend(b)
    b.handle_serial(52)
    assert sealed(peers) == {B: PeerRow(B, 5, 52)}
    peers.depend(b)
    assert sealed(peers) == {}
    b.handle_serial(53)
    peers.depend(b)
    peers.depend(a)
    assert sealed(peers) == {B: PeerRow(B, 5, 53), A: PeerRow(A, 1, 1)}
    b.handle_serial(54)
    assert sealed(peers) == {}


def sealed(peers: Peers) -> dict[bytes, PeerRow]:
    commit = Commit()
    peers.write_down(commit)
    return commit.peers


def test_strangers_are_forgotten_only_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never one that something durable depends on, or that the next commit will."""
    monkeypatch.setattr(history, "STRANGERS_MAX", 3)
    peers = Peers([PeerRow(B, 5, 50)])
    ids = [bytes([number]) * 16 for number in range(4)]
    met = [peers.meet(node_id, HistoryPoint(1, 1), "") for node_id in ids]
    peers.depend(met[0])
    for node_id in (B, *ids, b"?" * 16):
        peers.part(node_id)
    assert [peers.of(node_id) != NO_POINT for node_id in (B, *ids)] == [True, True, False, False, True]


def test_a_peer_that_claims_to_be_many_nodes_fills_its_own_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a start as well; a node that has its place moves on in it, until it proves another name."""
    monkeypatch.setattr(history, "NODES_OF_ONE_MAX", 3)
    peers = Peers([PeerRow(B, 5, 50, "evil")])
    claimed = [bytes([number]) * 16 for number in range(9)]
    for node_id in claimed:
        peers.depend(peers.meet(node_id, HistoryPoint(1, 1), "evil", b"k" * 32))
    peers.depend(peers.meet(A, HistoryPoint(7, 7), "honest"))
    assert list(sealed(peers)) == [*claimed[:2], A]
    peers.depend(peers.meet(B, HistoryPoint(5, 51), "evil"))
    assert sealed(peers) == {B: PeerRow(B, 5, 51, "evil")}
    for node_id, name in ((B, "honest"), (claimed[2], "evil"), (claimed[3], "honest"), (claimed[4], "honest")):
        peers.depend(peers.meet(node_id, HistoryPoint(5, 52), name))
    assert list(sealed(peers)) == [B, claimed[2], claimed[3]]


def test_where_a_peer_listens_is_kept_when_it_is_new() -> None:
    peers, kept = Peers([], {"b": "udp://b:1"}), []
    for name, address in (("b", "udp://b:1"), ("b", "udp://b:2"), ("b", "udp://b:2"), ("c", ""), ("b", "")):
        commit = Commit()
        peers.learn(name, address, commit)
        kept.append(commit.addresses)
    assert kept == [{}, {"b": "udp://b:2"}, {}, {}, {"b": ""}]
    assert peers.addresses == {"b": ""}


def test_a_name_is_none_of_a_node_once_it_belongs_to_other_keys() -> None:
    old, new = bytes(32), b"k" * 32
    peers = Peers([])
    peers.depend(peers.meet(B, HistoryPoint(1, 1), "b", old))
    commit = Commit()
    peers.write_down(commit)
    later = Peers(commit.peers.values(), state={key: value for key, value in commit.state.items() if value is not None})
    for one in (peers, later):
        assert one.handle_directory(Directory([Peer("b", (old, new))])) == []
        assert one.owner(B) == "b"
        assert one.handle_directory(Directory([Peer("b", (new,))])) == [B]
        assert (one.owner(B), one.holder(B)) == ("", "b")
        assert one.handle_directory(Directory([Peer("b", (old,))])) == [B]
        assert one.owner(B) == "b"
        assert one.handle_directory(Directory([])) == []
        assert one.owner(B) == "b"


# What relays tell of the stores of destinations, late and in any order: only a store that went back is accused.

NODE = b"d" * 16
HOUR = 3_600 * SECOND


def histories() -> RelayedHistories:
    return RelayedHistories(lambda _event, _now_ns, **_fields: None)


def accused(*words: StoreWord) -> bool:
    told = histories()
    for word in words:
        told.handle_word(NODE, "d", word, 0)
    return bool(drain(told.detected))


@pytest.mark.parametrize(
    ("words", "is_copy"),
    [
        ((StoreWord(71, 10, 1), StoreWord(72, 10, 2, ((71, 10),))), False),
        ((StoreWord(71, 10, 1), StoreWord(72, 11, 2, ((71, 9),))), True),
        ((StoreWord(71, 10, 1), StoreWord(71, 30, 1), StoreWord(73, 40, 3, ((71, 20), (72, 30)))), True),
        ((StoreWord(72, 20, 2, ((71, 10),)), StoreWord(82, 12, 2, ((71, 10),))), True),
        ((StoreWord(72, 20, 2, ((71, 10),)), StoreWord(83, 30, 3, ((71, 10), (82, 20)))), True),
        ((StoreWord(73, 30, 3, ((71, 10), (72, 20))), StoreWord(82, 12, 2, ((71, 10),))), True),
        ((StoreWord(73, 30, 3, ((71, 10), (72, 20))), StoreWord(74, 40, 4, ((71, 10), (72, 19), (73, 30)))), True),
        ((StoreWord(71, 10, 1), StoreWord(71, 7, 1)), False),
        ((StoreWord(71, 10, 1), StoreWord(72, 15, 2, ((71, 12),)), StoreWord(71, 12, 1)), False),
        ((StoreWord(71, 10, 1), StoreWord(99, 9, 20, ((98, 8),))), False),
    ],
    ids=[
        "a later start", "an end too early", "the same of the newest", "a start in the place of another",
        "the same, later", "the same, earlier", "two ends of one start", "a late word", "late after a later start",
        "nothing in common",
    ],
)  # fmt: skip
def test_a_store_that_went_back_is_told_from_a_word_that_comes_late(words: list[StoreWord], is_copy: bool) -> None:
    assert accused(*words) is is_copy


def test_many_starts_and_words_in_any_order_accuse_only_a_copy() -> None:
    for seed in range(50):
        random, serial, ends = Random(seed), 0, list[tuple[int, int]]()
        words: list[StoreWord] = []
        for start in range(1, 100):
            for _ in range(random.randrange(4)):
                serial += random.randrange(3)
                words.append(StoreWord(start + 1_000, serial, start, tuple(ends[-EARLIER_MAX:])))
            ends.append((start + 1_000, serial))
        order = [words[min(len(words) - 1, at + random.randrange(20))] for at in range(len(words))]
        assert not accused(*order), seed


def test_a_point_outlives_a_restart_and_invented_nodes_fill_no_memory() -> None:
    """It is reported once: what follows is compared with the store as it is now."""
    told, commit = histories(), Commit()
    told.handle_word(NODE, "d", StoreWord(71, 10, 1), 0)
    for number in range(NODES_MAX + 10):
        told.handle_word(number.to_bytes(16, "big"), "d", StoreWord(1, 1, 1), 0)
    told.write_down(commit)
    assert len(commit.state) == NODES_MAX
    again = histories()
    again.restore({name: word for name, word in commit.state.items() if word is not None})
    again.handle_word(NODE, "d", StoreWord(72, 11, 2, ((71, 9),)), 0)
    (error,) = drain(again.detected)
    assert (error.peer, error.rolled_back) == (NODE.hex(), "peer")
    again.handle_word(NODE, "d", StoreWord(72, 12, 2, ((71, 9),)), 0)
    assert drain(again.detected) == []


def test_an_origin_hears_by_another_relay_that_its_destination_went_back() -> None:
    """The relay that knew the destination's store is on the way no more; the new one has never met it."""
    routes = {"a": [("b", "r")], "b": [("a", "r")]}
    net = Relays("ar as rb sb", routes)
    a, b = net["a"], net["b"]
    post(a, "b", b"1")
    assert net.world.run(60 * SECOND, lambda: net.is_done("a"))
    b.crash()
    copy = b.copy_store()
    b.start()
    post(a, "b", b"2")
    assert net.world.run(60 * SECOND, lambda: net.is_done("a"))
    assert a.log("rollback_detected") == []
    b.crash()
    b.restore(copy)
    net.world.cut(net["r"], b)
    b.start()
    net.reroute("a", ("b", "s"))
    net.reroute("b", ("a", "s"))
    post(a, "b", b"3", queue="other")
    assert net.world.run(HOUR, lambda: bool(a.log("rollback_detected")))
    (found,) = a.log("rollback_detected")
    assert (found["peer"], found["peer_name"], found["rolled_back"]) == (b.live.node_id.hex(), "b", "peer")
    assert found["contradicts"] == 2


OWN, OTHER = b"a" * 16, b"b" * 16

SESSION = SessionSettings(ack_timeout_s=2.0, cleanup_interval_s=5.0)
SETTINGS = NodeSettings(session=SESSION)
DURABLE = [Delivery.TRANSACTIONAL, Delivery.RECOVERABLE]
ONE, STRANGER = b"1" * 16, b"2" * 16


class Scenario:
    """Suspended peers, and what was written down."""

    def __init__(self) -> None:
        self.drops: Counter[DropReason] = Counter()
        self.records: list[dict[str, Any]] = []
        self.suspended = SuspendedPeers(OWN, Directory(), self.drops, self._record)

    def _record(self, event: str, now_ns: int, **fields: Any) -> None:
        self.records.append({"event": event, "at_ns": now_ns, **fields})

    def add(self, node_id: bytes = OTHER, rolled_back: RolledBack = RolledBack.RECEIVER) -> bool:
        return self.suspended.add(Introduction(node_id, "b", "", ""), "b", rolled_back, 5)


def link() -> Link:
    return Link("b", Reconnect(), Random(1))


def test_a_rollback_is_reported_once() -> None:
    scene = Scenario()
    assert [scene.add(), scene.add()] == [True, False]
    (error,) = drain(scene.suspended.detected)
    assert str(error) == (
        f"the store of node b ({OTHER.hex()}) does not have what this node depends on: "
        "it is an older copy, or runs twice"
    )
    assert drain(scene.suspended.detected) == []
    assert scene.records == [
        {"event": "rollback_detected", "at_ns": 5, "peer": OTHER.hex(), "peer_name": "b", "rolled_back": "peer"}
    ]
    assert scene.suspended.sides == {OTHER.hex(): "peer"}


def test_who_has_our_own_id_runs_on_a_copy() -> None:
    """Whatever it says of itself."""
    scene = Scenario()
    assert scene.add(OWN, RolledBack.UNKNOWN)
    assert scene.suspended.rolled_back(OWN) is RolledBack.SENDER
    assert str(drain(scene.suspended.detected)[0]) == "another process runs on a copy of this node's store"


def test_links_stop_that_lead_to_a_suspended_peer() -> None:
    scene, before, later = Scenario(), link(), link()
    scene.suspended.lead(before, OTHER)
    scene.add()
    assert before.suspended is None
    scene.suspended.stop_links(OTHER, told=False)
    (error,) = drain(scene.suspended.detected)
    scene.suspended.lead(later, OTHER)
    assert before.suspended is later.suspended is error
    scene.suspended.lead(later, b"c" * 16)
    assert later.suspended is None
    scene.suspended.stop_links(OTHER, told=True)
    assert later.suspended is None


def strict(gap: Gap = "error") -> NodeSettings:
    return replace(SETTINGS, reconnect=Reconnect(gap=gap))


def replaced(gap: Gap, delivery: Delivery = Delivery.TRANSACTIONAL) -> tuple[World, SimNode, SimNode, SimNode, bytes]:
    """A sender, the node that has acknowledged its first message and is gone, and the one that is there instead.

    A second message waits when that one starts. The last is the id of the one before.
    """
    world = PlainWorld(1)
    a, old = world.node("a", strict(gap)), world.node("b", SETTINGS)
    a.send(old, "q", b"1", delivery=delivery)
    world.run(10 * SECOND)
    assert not a.busy
    old_id = old.live.node_id
    old.crash()
    a.send(old, "q", b"2", delivery=delivery)
    world.run(5 * SECOND)
    return world, a, old, world.node("b", SETTINGS), old_id


def gaps_of(node: SimNode) -> list[GapFound]:
    """All events of gaps that its program got."""
    return [event for event in node.news if isinstance(event, GapFound)]


@pytest.mark.parametrize("delivery", DURABLE)
def test_a_warning_comes_once_and_the_stream_goes_on(delivery: Delivery) -> None:
    world, a, _, new, old_id = replaced("warn", delivery)
    world.run(20 * SECOND)
    (gap,) = gaps_of(a)
    assert (gap.peer, gap.queues, gap.halts) == (new.address, ("q",), False)
    assert (gap.before, gap.node_id) == (old_id.hex(), new.live.node_id.hex())
    assert gap.cause.endswith(f"acknowledged messages for q before, {old_id.hex()}, and has none of them")
    a.restart()
    a.send(new, "q", b"3", delivery=delivery)
    world.run(20 * SECOND)
    assert sorted(new.read_all("q")) == [b"2", b"3"]
    assert (gaps_of(a), a.outbox.links.resuming.gaps) == ([gap], {})


@pytest.mark.parametrize("delivery", DURABLE)
def test_an_error_sends_nothing_and_every_waiter_hears_of_it(delivery: Delivery) -> None:
    world, a, old, new, _ = replaced("error", delivery)
    for _ in range(2):
        said = a.watch(a.send(old, "q", b"3", delivery=delivery), STAGES[delivery])
        world.run(20 * SECOND)
        assert said == [gaps_of(a)[-1].cause]
        assert isinstance(a.outbox.links[new.address].suspended, GapDetected)
        a.restart()
    new.send(a, "back", b"4")
    world.run(20 * SECOND)
    assert (new.length("q"), a.read_all("back"), [gap.halts for gap in gaps_of(a)]) == (0, [b"4"], [True] * 3)


def test_the_node_before_goes_on_where_it_was() -> None:
    world, a, old, new, _ = replaced("error")
    world.run(20 * SECOND)
    new.crash()
    old.start()
    old.send(a, "back", b"hello")
    world.run(20 * SECOND)
    assert old.read_all("q") == [b"1", b"2"]
    assert (a.busy, len(gaps_of(a))) == (False, 1)


def test_what_nobody_has_acknowledged_is_no_gap() -> None:
    """A node that is replaced before it has anything, and express messages, of which nothing is kept."""
    world = PlainWorld(1)
    a, old = world.node("a", strict()), world.node("b", SETTINGS)
    a.send(old, "q", b"1", delivery=Delivery.EXPRESS)
    world.run(10 * SECOND)
    old.crash()
    a.send(old, "q", b"2")
    new = world.node("b", SETTINGS)
    world.run(20 * SECOND)
    assert (gaps_of(a), new.read_all("q")) == ([], [b"2"])


def test_there_are_two_ways() -> None:
    with pytest.raises(UsageError, match="gap must be warn or error, not 'ignore'"):
        Reconnect(gap="ignore")  # type: ignore[arg-type]
