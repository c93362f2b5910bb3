"""What is in a store's history, what is remembered of a peer's, and when it is written down."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triack.base.commit import Commit, PeerRow, StoreContent
from triack.base.peers import Directory, Peer
from triack.queues.peers import history
from triack.queues.peers.history import History, KnownPeer, Peers, covers
from triack.queues.peers.introduction import NO_POINT, HistoryPoint

A, B = b"a" * 16, b"b" * 16
CONTENT = StoreContent(A, 4, start=40, serial=9, starts={10: 0, 20: 7, 30: 9})


@pytest.mark.parametrize(
    ("point", "there"),
    [
        (NO_POINT, True),
        (HistoryPoint(0, 5), True),
        (HistoryPoint(10, 0), True),
        (HistoryPoint(10, 1), False),
        (HistoryPoint(20, 3), True),
        (HistoryPoint(20, 7), True),
        (HistoryPoint(20, 8), False),
        (HistoryPoint(30, 9), True),
        (HistoryPoint(30, 10), False),
        (HistoryPoint(40, 0), True),
        (HistoryPoint(40, 9), True),
        (HistoryPoint(40, 10), False),
        (HistoryPoint(50, 0), False),
    ],
)
def test_a_point_is_in_the_history_or_not(point: HistoryPoint, there: bool) -> None:
    """Up to the end of each earlier start, up to the newest commit of this one, and nothing of any other."""
    assert History(CONTENT).has(point) is there


def test_a_commit_is_spoken_of_when_it_has_returned() -> None:
    """Serials go on where the last start ended; only a commit that is on the disk is in the history."""
    own = History(CONTENT)
    first, second = Commit(), Commit()
    own.number(first)
    own.number(second)
    assert (first.serial, second.serial, own.point) == (10, 11, HistoryPoint(40, 9))
    own.handle_committed(first)
    assert own.point == HistoryPoint(40, 10)
    assert not own.has(HistoryPoint(40, 11))
    own.handle_committed(second)
    own.handle_committed(Commit())
    assert own.point == HistoryPoint(40, 11)


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


def test_a_peer_is_known_by_the_latest_point() -> None:
    """The serial grows within a start; another start takes its place, whatever its serial."""
    peers = Peers([PeerRow(B, 5, 50)])
    assert (peers.of(A), peers.of(B)) == (NO_POINT, HistoryPoint(5, 50))
    known = peers.meet(B, HistoryPoint(5, 40), "")
    assert peers.of(B) == HistoryPoint(5, 50)
    known.handle_serial(60)
    known.handle_serial(55)
    assert peers.of(B) == HistoryPoint(5, 60)
    assert peers.meet(B, HistoryPoint(6, 3), "") is known
    assert peers.of(B) == HistoryPoint(6, 3)


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
    """After a start as well; a node that has its place moves on in it, and other peers have theirs."""
    monkeypatch.setattr(history, "NODES_OF_ONE_MAX", 3)
    peers = Peers([PeerRow(B, 5, 50, "evil")])
    claimed = [bytes([number]) * 16 for number in range(9)]
    for node_id in claimed:
        peers.depend(peers.meet(node_id, HistoryPoint(1, 1), "evil", b"k" * 32))
    peers.depend(peers.meet(A, HistoryPoint(7, 7), "honest"))
    assert list(sealed(peers)) == [*claimed[:2], A]
    peers.depend(peers.meet(B, HistoryPoint(5, 51), "evil"))
    assert sealed(peers) == {B: PeerRow(B, 5, 51, "evil")}


def test_a_node_that_proves_another_name_takes_a_place_of_that_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """And leaves the one that it had."""
    monkeypatch.setattr(history, "NODES_OF_ONE_MAX", 1)
    peers = Peers([PeerRow(B, 5, 50, "old")])
    for node_id, name in ((B, "new"), (A, "old"), (b"c" * 16, "new")):
        peers.depend(peers.meet(node_id, HistoryPoint(5, 51), name))
    assert list(sealed(peers)) == [B, A]


@pytest.mark.parametrize(
    ("checked", "remembered", "enough"),
    [
        (NO_POINT, NO_POINT, True),
        (HistoryPoint(1, 1), NO_POINT, True),
        (NO_POINT, HistoryPoint(1, 1), False),
        (HistoryPoint(1, 1), HistoryPoint(1, 1), True),
        (HistoryPoint(1, 2), HistoryPoint(1, 1), True),
        (HistoryPoint(1, 1), HistoryPoint(1, 2), False),
        (HistoryPoint(2, 9), HistoryPoint(1, 1), False),
    ],
)
def test_what_was_checked_covers_what_is_remembered(
    checked: HistoryPoint, remembered: HistoryPoint, enough: bool
) -> None:
    """A later commit of the same start does; one of another start says nothing."""
    assert covers(checked, remembered) is enough


def test_what_is_known_begins_with_nothing() -> None:
    """A peer that was never met has no point."""
    assert KnownPeer(A).point == NO_POINT


def test_where_a_peer_listens_is_kept_when_it_is_new() -> None:
    """Also that it listens nowhere any more; and that it never did needs no commit."""
    peers, kept = Peers([], {"b": "udp://b:1"}), []
    for name, address in (("b", "udp://b:1"), ("b", "udp://b:2"), ("b", "udp://b:2"), ("c", ""), ("b", "")):
        commit = Commit()
        peers.learn(name, address, commit)
        kept.append(commit.addresses)
    assert kept == [{}, {"b": "udp://b:2"}, {}, {}, {"b": ""}]
    assert peers.addresses == {"b": ""}


def test_a_name_is_none_of_a_node_once_it_belongs_to_other_keys() -> None:
    """Also after a restart; nobody else may say that it is that node, and its own key proves it again."""
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
