"""The queues of a node: quotas, names, the system's own."""

import pytest

from tests.queues.world import PlainWorld, single
from tests.spies import watch
from triack.base.commit import Commit
from triack.base.errors import UsageError
from triack.base.units import SECOND
from triack.queues.mailboxes import lookup
from triack.queues.mailboxes.lookup import Lookup, Wanted
from triack.queues.mailboxes.mailbox import Mailbox
from triack.queues.mailboxes.queued_packet import QueuedPacket
from triack.queues.mailboxes.quotas import Account, Fill, Level
from triack.queues.mailboxes.resolver import local_queue
from triack.queues.mailboxes.system_queues import (
    DEAD_LETTER_QUEUE,
    REPLY_QUEUE,
    STANDING_QUEUES,
    SUBSCRIPTIONS_QUEUE,
    SYSTEM_QUEUES,
    is_subscribed,
    subscribed_queue,
    system_queue,
)
from triack.queues.node_settings import DeadLetters, Limits, NodeSettings, Quota, WhenLettersFull
from triack.queues.packing import Unpacked


@pytest.mark.plain
def test_queues_at_rest_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    world, node = single()
    for number in range(50):
        node.send(node, f"q{number}", b"x")
    world.run(SECOND)
    looked = watch(monkeypatch, Mailbox, "take_changes", "take_runs", "poll_fetch")
    node.drain()
    assert looked == []
    node.read("q7")
    world.run(SECOND)
    assert [box.name for box in looked] == ["q7", "q7"]


def test_a_queue_that_nobody_uses_makes_room_and_comes_back_under_a_new_number() -> None:
    """Its rows under the old one may still have to go."""
    world = PlainWorld(1)
    node = world.node("a", NodeSettings(max_queues=3))
    node.send(node, "one", b"x")
    world.run(SECOND)
    first = node.live.queues.mailboxes["one"].queue_id
    assert node.read_all("one") == [b"x"]
    for name in ("two", "three", "one"):
        node.send(node, name, b"y")
        world.run(SECOND)
    assert node.live.queues.mailboxes["one"].queue_id > first
    node.restart()
    assert {name: node.length(name) for name in ("one", "two", "three")} == {"one": 1, "two": 1, "three": 1}


def test_the_node_s_own_queue_is_there_from_the_start_and_makes_no_room() -> None:
    node = PlainWorld(1).node("a", NodeSettings(max_queues=1))
    queues = node.live.queues
    queues.make_queue("orders", Commit())
    assert set(queues.mailboxes) == {DEAD_LETTER_QUEUE, "orders"}


def test_another_quota_holds_at_once_for_queues_that_exist() -> None:
    """A sender that waits for room goes on when there is more; nothing is lost when there is less."""
    world = PlainWorld(1)
    a = world.node("a", NodeSettings(messages_per_packet=1))
    b = world.node("b", NodeSettings(limits=Limits(quota=Quota(messages=2))))
    for number in range(5):
        a.send(b, "q", b"%d" % number)
    world.run(60 * SECOND)
    assert b.live.queues.mailboxes["q"].length < 5
    b.live.handle_settings(NodeSettings(limits=Limits(queue_quota={"q": Quota(messages=50)})))
    world.run(60 * SECOND)
    assert b.live.queues.mailboxes["q"].length == 5
    b.live.handle_settings(NodeSettings(limits=Limits(quota=Quota(messages=1))))
    assert b.live.queues.mailboxes["q"].fill.is_full
    assert b.read_all("q") == [b"%d" % number for number in range(5)]


# The index of a queue by ids and correlation ids.

A, B = b"a" * 16, b"b" * 16


def packet(origin: bytes, place: int, count: int) -> QueuedPacket:
    return QueuedPacket((), origin, 1, 1, place, 2, count, 9, [b""], first_place=place)


def content(first_ordinal: int, *correlation_ids: str) -> Unpacked:
    properties = [{"correlation_id": it} if it else {} for it in correlation_ids]
    return Unpacked(first_ordinal, 0, 0, [b""] * len(properties), properties)


def add(index: Lookup, origin: bytes, place: int, ordinal: int, *correlation_ids: str) -> None:
    index.add(packet(origin, place, len(correlation_ids)), content(ordinal, *correlation_ids))


def test_messages_are_found_by_id_and_by_correlation_id_in_the_order_of_the_queue() -> None:
    """Whatever the order of their arrival; a packet that cannot be read is passed over."""
    index = Lookup()
    add(index, A, 1, 100, "x", "", "y")
    add(index, B, 4, 7, "x", "")
    add(index, A, 6, 50, "")
    found = [index.find(Wanted(*it)) for it in ((A, 102), (A, 50), (B, 8), (B, 9), (A, 103), (A, 0), (b"c" * 16, 7))]
    assert found == [[3], [6], [5], [], [], [], []]
    assert [index.find(Wanted.by_correlation_id(it)) for it in "xz"] == [[1, 4], []]
    assert index.indexed_to == 6
    index.add(packet(A, 7, 3), None)
    assert (index.indexed_to, index.find(Wanted(A, 1))) == (9, [])


def test_what_is_done_takes_no_memory_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "COMPACT_MIN", 4)
    index = Lookup()
    for place in range(1, 11):
        add(index, A, place, place, f"c{place}")
    index.compact(lambda place: place < 10)
    assert (index.find(Wanted(A, 10)), index.find(Wanted.by_correlation_id("c10"))) == ([10], [10])
    assert (index.find(Wanted(A, 9)), index.find(Wanted.by_correlation_id("c9"))) == ([], [])


@pytest.mark.parametrize("id", [None, 7, "", "x-1", "a" * 32, f"{'g' * 32}-1", f"{'a' * 32}--1", f"{'a' * 30}-1"])
def test_what_is_no_id_of_a_message_is_refused(id: object) -> None:  # noqa: A002 - as users name it
    with pytest.raises(UsageError, match="no id of a message"):
        Wanted.by_id(id)


@pytest.mark.parametrize("correlation_id", [None, 7, ""])
def test_a_correlation_id_is_text(correlation_id: object) -> None:
    with pytest.raises(UsageError, match="must be text"):
        Wanted.by_correlation_id(correlation_id)


HERE, THERE, ELSEWHERE = "udp://127.0.0.1:1", "udp://127.0.0.1:2", "udp://127.0.0.1:3"


def test_what_peers_may_send_to_is_in_the_names() -> None:
    takes = {name: local_queue(name).takes_from_peers for name in ("q", "$q", "q$", REPLY_QUEUE, DEAD_LETTER_QUEUE)}
    assert takes == {"q": True, "$q": False, "q$": True, REPLY_QUEUE: True, DEAD_LETTER_QUEUE: False}


def test_dead_letters_stand_apart_with_a_quota_of_their_own() -> None:
    letters = SYSTEM_QUEUES[DEAD_LETTER_QUEUE]
    assert (letters.takes_from_peers, letters.is_apart, letters.gives_up) == (False, True, False)
    quota = letters.quota(Limits(dead_letters=DeadLetters(messages=3, size_bytes=4_000)))
    assert (quota.messages, quota.size_bytes) == (3, 4_000)
    assert STANDING_QUEUES == (DEAD_LETTER_QUEUE,)


def test_peers_may_write_replies_and_what_is_about_subscriptions() -> None:
    written = [queue.name for queue in SYSTEM_QUEUES.values() if queue.takes_from_peers]
    assert written == [REPLY_QUEUE, SUBSCRIPTIONS_QUEUE]
    of_one = system_queue(subscribed_queue("audit"))
    assert of_one is not None
    assert (of_one.name, of_one.takes_from_peers, of_one.gives_up) == ("$sub.audit", True, True)
    assert is_subscribed("$sub.audit")
    assert not is_subscribed("sub.audit")


@pytest.mark.parametrize(
    ("when_full", "said"),
    [
        ("keep", ": new letters are lost until somebody reads them"),
        ("drop oldest", ": the oldest letters are lost until somebody reads them"),
    ],
)
def test_the_operator_hears_which_letters_are_lost(when_full: WhenLettersFull, said: str) -> None:
    """Of no other queue messages are lost when it is full: their senders wait."""
    limits = Limits(dead_letters=DeadLetters(when_full=when_full))
    assert [queue.overflow(limits) for queue in SYSTEM_QUEUES.values()] == [said, "", ""]


def test_what_is_full_stays_so_until_a_quarter_is_free() -> None:
    """Nobody stops and goes with every message."""
    level, full = Level(100), []
    for change in (99, 1, -24, -1):
        level.add(change)
        full.append(level.is_full)
    assert full == [False, True, True, False]


def test_a_peer_has_a_limit_of_its_own_and_the_node_itself_may_have_half() -> None:
    account = Account(100, 1_000)
    account.own = b"me"
    for peer, size_bytes in ((b"a", 100), (b"b", 99), (b"me", 300)):
        account.add(peer, size_bytes)
    assert [account.is_full(peer) for peer in (b"a", b"b", b"c", b"me")] == [True, False, False, False]
    account.add(b"a", -100)
    assert (account.is_full(b"a"), account.of(b"a"), account.total_bytes) == (False, 0, 399)
    account.add(b"b", -99)
    account.add(b"me", 199)
    assert not account.is_full(b"me")
    account.add(b"me", 1)
    assert account.is_full(b"me")


def test_who_has_little_is_not_stopped_by_who_has_much() -> None:
    """When half of all is used, nobody may have more than an equal share of it; all together never more than all."""
    account = Account(400, 1_000)
    for peer in (b"a", b"b"):
        account.add(peer, 250)
    account.add(b"c", 10)
    assert (account.is_full(b"a"), account.is_full(b"c")) == (True, False)
    for number in range(1_000):
        peer = b"%d" % (number % 40)
        if not account.is_full(peer):
            account.add(peer, 1)
    assert account.total_bytes <= 1_000


def test_what_stays_within_twice_the_limit_is_known_before() -> None:
    account = Account(100, 1_000)
    assert (account.stays_within(b"a", 199), account.stays_within(b"a", 200)) == (True, False)
    account.add(b"a", 150)
    assert (account.stays_within(b"a", 49), account.stays_within(b"a", 50)) == (True, False)
    account.add(b"b", 800)
    assert not account.stays_within(b"c", 50)


@pytest.mark.parametrize("wrong", [{"messages": 0}, {"size_bytes": -1}, {"when_full": "drop"}])
def test_a_quota_that_cannot_be_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        Quota(**wrong)  # type: ignore[arg-type]


def test_what_comes_counts_as_if_it_were_there() -> None:
    fill = Fill(Quota(messages=10))
    fill.messages.add(6)
    assert (fill.is_full_with(3), fill.is_full_with(4), fill.is_full) == (False, True, False)
    fill.messages.add(4)
    fill.messages.add(-1)
    assert fill.is_full_with(0)


def test_what_is_taken_at_once_never_fills_a_level() -> None:
    """Of several peers each may have no more than if it came bit by bit."""
    level = Level(10)
    assert (level.takes(9), level.takes(10)) == (True, False)
    level.add(10)
    level.add(-1)
    assert not level.takes(0)
    account = Account(peer_bytes=10, all_bytes=30)
    assert (account.takes(b"a", 9), account.takes(b"a", 10)) == (True, False)
    for peer in (b"a", b"b"):
        account.add(peer, 7)
    assert (account.takes(b"a", 0), account.takes(b"a", 1), account.takes(b"c", 1)) == (True, False, False)


def test_who_proves_to_be_a_node_pays_for_it() -> None:
    """For all nodes that it claims to be, from then on and for what was there; the charged peer gets it back."""
    owners: dict[bytes, str] = {}
    account = Account(100, 1_000, lambda node_id: owners.get(node_id, "") or node_id)
    account.add(b"a", 60)
    owners |= {b"a": "evil", b"b": "evil"}
    account.add(b"a", -10)
    assert (account.of(b"a"), account.of(b"b")) == (50, 0)
    account.handle_proved(b"a")
    account.handle_proved(b"b")
    account.add(b"b", 50)
    assert (account.of(b"a"), account.of(b"b"), account.of(b"c")) == (100, 100, 0)
    assert (account.is_full(b"a"), account.has_enough(b"b"), account.is_full(b"c")) == (True, True, False)
    account.add(b"a", -1)
    assert (account.is_full(b"b"), account.has_enough(b"b")) == (True, False)
    owners.clear()
    account.add(b"a", -49)
    account.add(b"b", -50)
    assert (account.of(b"a"), account.of(b"b"), account.total_bytes) == (0, 0, 0)


def test_another_limit_counts_as_if_it_had_always_been_there() -> None:
    """Lower than what is there, it is full; higher, there is room at once: of a queue, and of an account."""
    fill, account = Fill(Quota(messages=10, size_bytes=100)), Account(100, 1_000)
    fill.messages.add(5)
    account.add(b"a", 50)
    for messages, peer_bytes, full in ((5, 50, True), (6, 200, False)):
        fill.set_quota(Quota(messages=messages, size_bytes=100))
        account.set_limits(peer_bytes, 1_000)
        assert (fill.is_full, account.is_full(b"a"), account.takes(b"b", 60)) == (full, full, not full)
