"""The planted bugs: each still changes something, has a name and somewhere to be found, and does what it says."""

import pickle
import re
from collections import Counter
from types import MappingProxyType

import apsw
import pytest

from proof.planted import relays
from proof.planted.bridged import BRIDGES
from proof.planted.bug import Bug, Bugs, ForGood, Patch
from proof.planted.catalogue import BUGS, bug_named
from proof.planted.lying_relay import LIES
from proof.planted.run import Found
from proof.planted.stories import ALL as STORIES
from proof.planted.stories import Story
from proof.planted.transport import EVERY
from proof.planted.worlds import ALL as WORLDS
from proof.planted.worlds import PLAIN
from proof.search.scope import Scope
from proof.search.search import Search
from tests.proof.planted.changes import changes_of
from triack.base.commit import Commit
from triack.base.datagram import Kind, read_header
from triack.base.delivery import FREED_BY, Ack, Delivery, Role
from triack.base.errors import ChaosError, StoreFailed
from triack.ordering.order_settings import OrderSettings
from triack.ordering.tiers import ResendTimer
from triack.queues.mailboxes.mailbox import Mailbox, Notices, QueuedPacket
from triack.queues.packing import Outgoing, pack_one
from triack.session.congestion.rtt import RoundTrip
from triack.session.congestion.send_window import SendWindow
from triack.store.store import Store
from triack.tools.chaos.topics import TOPICS_FROM
from triack.tools.chaos.topologies import RELAYED_FROM
from triack.transport.data_keys import SealingKeys
from triack.transport.noise import AESGCM_SHA256

MOST = {"bodies": 2, "relays": 2}
"""Rooms with bugs that change two things; those of all others change one."""

FIRST = {"relays": RELAYED_FROM, "storms": RELAYED_FROM, "topics": TOPICS_FROM, "remote": TOPICS_FROM}
"""From which seed on the bugs of a room are looked for: where there are relays, or topics."""

TOLD = [*STORIES, LIES]
"""The stories, and the relay that lies."""


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_each_still_changes_something(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a name that is there, and with what can be called as the right one is."""
    room = bug.plant.__module__.rpartition(".")[2]
    assert 1 <= len(changes_of(bug, monkeypatch)) <= MOST.get(room, 1)
    assert bug.first == FIRST.get(room, 0)


def test_there_are_enough() -> None:
    """85 that seeds find, 44 that the search or a story finds, and 14 of them are the same."""
    assert len({bug.name for bug in BUGS}) == len(BUGS) == 115
    assert sum(bug.seeds for bug in BUGS) == 85
    assert sum(bug.scope is not None for bug in BUGS) == 44


def test_each_must_be_found_somewhere() -> None:
    """And the search must say something of it that belongs to it."""
    for bug in BUGS:
        assert bug.seeds or bug.scope is not None
        assert bool(bug.says) == (bug.scope is not None)


def test_every_world_is_there_for_a_bug() -> None:
    """None is searched for nothing."""
    assert {bug.scope for bug in BUGS if bug.scope is not None} == {*WORLDS, *STORIES, BRIDGES, *relays.ALL}


def test_each_can_go_to_a_process_of_its_own() -> None:
    """Or ``make teeth`` would end at it."""
    for bug in BUGS:
        assert pickle.loads(pickle.dumps(bug)).name == bug.name


def test_a_bug_is_had_by_its_name() -> None:
    """And by no other."""
    assert bug_named("nothing is synced").name == "nothing is synced"
    with pytest.raises(KeyError):
        bug_named("all is well")


# How a bug is planted for good.


class Thing:
    value = 1


def plant(patch: Patch) -> None:
    patch.setattr(Thing, "value", 2)


def test_what_is_planted_for_good_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """In classes and in tables."""
    monkeypatch.setattr(Thing, "value", 1)
    table = {"a": 1}
    plant(ForGood())
    ForGood().setitem(table, "a", 2)
    assert (Thing.value, table) == (2, {"a": 2})


def test_what_is_not_there_cannot_be_changed() -> None:
    """A bug that changed nothing would be a bug that nobody can find."""
    with pytest.raises(ChaosError, match="Thing'>: it has no price"):
        ForGood().setattr(Thing, "price", 2)
    for table in ({"a": 1}, MappingProxyType({"b": 1})):
        with pytest.raises(ChaosError, match=re.escape("a table: it has no 'b'")):
            ForGood().setitem(table, "b", 2)


def test_bugs_are_listed_as_their_functions_are_defined() -> None:
    """With where each must be found; the function stays what it is."""
    bugs = Bugs()
    assert bugs.by_seeds("one")(plant) is plant
    bugs.by_search("two", PLAIN, "words")(plant)
    bugs.by_both("three", PLAIN, "words")(plant)
    assert bugs == [
        Bug("one", plant, seeds=True),
        Bug("two", plant, seeds=False, scope=PLAIN, says="words"),
        Bug("three", plant, seeds=True, scope=PLAIN, says="words"),
    ]


# The small worlds and the stories: each is sound as long as nothing is planted.


def test_each_world_has_a_name_of_its_own() -> None:
    """By which a report tells where a bug was found."""
    assert len({scope.name for scope in WORLDS}) == len(WORLDS)


@pytest.mark.slow
@pytest.mark.parametrize("scope", WORLDS, ids=lambda scope: scope.name)
def test_nothing_is_found_in_a_world_where_nothing_is_planted(scope: Scope) -> None:
    """Whatever the search says of a bug comes from the bug."""
    assert Search(scope).run(200, fair_runs=10).violation is None


@pytest.mark.parametrize("story", TOLD, ids=lambda story: story.name)
def test_nothing_is_wrong_in_a_story_where_nothing_is_planted(story: Story) -> None:
    """Whatever a story says of a bug comes from the bug."""
    assert story.run() == ""


@pytest.mark.gate
@pytest.mark.parametrize("bug", [bug for bug in BUGS if isinstance(bug.scope, Story)], ids=lambda bug: bug.name)
@pytest.mark.plain
def test_each_bug_is_found_by_its_story(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the words that it was to be found with."""
    assert isinstance(bug.scope, Story)
    bug.plant(monkeypatch)
    found = Found(bug, said=bug.scope.run())
    assert found.by_search
    assert found.told.endswith(f"story of {bug.scope.name}: {found.said}")


@pytest.mark.slow
def test_the_search_finds_its_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    assert relays.ALL[0].run() == ""
    bug = next(bug for bug in relays.BUGS if bug.scope is relays.ALL[0])
    bug.plant(monkeypatch)
    assert bug.says in relays.ALL[0].run()


# What some of them do.


def test_a_window_off_by_one_has_room_for_one_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no less than the right one has."""
    window = SendWindow(3, RoundTrip(), None)
    right = window.room
    changes_of(bug_named("the window is off by one"), monkeypatch)
    assert (right, window.room) == (3, 4)


def test_what_is_put_back_from_the_disk_is_not_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if nobody had seen it before."""
    changes_of(bug_named("messages come again after a restart without a word"), monkeypatch)
    packet = QueuedPacket([], b"", 1, 1, 1, Delivery.EXPRESS, 1, 0, [b""], restored=True)
    Mailbox(1, "q", Notices(Counter())).put(packet, pack_one(Outgoing(b"a"), 1, 0))
    assert not packet.restored


@pytest.mark.parametrize(
    ("name", "level"), [("nothing is synced", 0), ("the log is not synced at each commit", 1), ("", 2)]
)
def test_sqlite_syncs_no_more_than_the_bug_lets_it(name: str, level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is asked of it; without a bug it obeys."""
    if name:
        changes_of(bug_named(name), monkeypatch)
    connection = apsw.Connection(":memory:")
    connection.pragma("synchronous", "FULL")
    assert connection.pragma("synchronous") == level
    connection.close()


def test_a_commit_that_failed_is_ignored_and_no_failure_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """All other failures are reported, and it goes on as if nothing had been."""

    def fail(*_: object) -> None:
        raise apsw.FullError

    changes_of(bug_named("a failed write or sync is ignored"), monkeypatch)
    store = Store(None)
    with monkeypatch.context() as full:
        full.setattr(Store, "_apply", fail)
        full.setattr(Store, "_put", fail)
        store.apply(Commit())
        with pytest.raises(StoreFailed, match="the disk is full"):
            store.load(bytes(16), 1)
    assert store.load(bytes(16), 1).incarnation
    store.close()


def test_a_skipped_tier_counts_three_attempts_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """But only when something goes out again."""
    changes_of(bug_named("a resend tier is skipped"), monkeypatch)
    timer = ResendTimer(OrderSettings())
    timer.handle_expired(0, resends=False)
    assert timer.attempt == 0
    timer.handle_expired(0, resends=True)
    assert timer.attempt == 3


def test_what_frees_a_packet_is_one_entry_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others stay."""
    right = dict(FREED_BY)
    changes_of(bug_named("recoverable messages are freed by the session ack"), monkeypatch)
    assert right | {(Delivery.RECOVERABLE, Role.ORIGIN): Ack.SESSION} == FREED_BY


def test_two_datagrams_have_one_nonce(monkeypatch: pytest.MonkeyPatch) -> None:
    """Now and then, under one key."""
    changes_of(bug_named("a nonce is used twice"), monkeypatch)
    keys = SealingKeys(AESGCM_SHA256, bytes(32), 0)
    sealed = [keys.seal(Kind.DATA, 1, counter, [b"x"], 0)[0] for counter in range(EVERY - 2, EVERY + 2)]
    assert [read_header(datagram).counter for datagram in sealed] == [EVERY - 2, EVERY - 1, EVERY - 1, EVERY + 1]
