"""Topics and their subscriptions."""

import re
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.queues.topics.bench import Bench
from tests.sure import sure
from triack.base.delivery import Delivery
from triack.base.errors import StoreDamaged, SubscriptionMismatch
from triack.base.news import AckWaitOver, MessagesDiscarded
from triack.base.reasons import DeadReason
from triack.base.units import SECOND
from triack.queues.mailboxes.priority_queue import PACKET_BYTES, Cache
from triack.queues.mailboxes.queued_packet import QueuedPacket
from triack.queues.mailboxes.redelivery import Return
from triack.queues.node_settings import NodeSettings, Strategy, Topic
from triack.queues.topics.contents import DEAD_MAX, Contents
from triack.queues.topics.dispatch_times import GRAINS, DispatchTimes
from triack.queues.topics.release_backlog import ReleaseBacklog
from triack.queues.topics.strategies import room_of
from triack.queues.topics.subscriber_cache import SubscriberCache
from triack.queues.topics.subscription import Subscription
from triack.queues.topics.trie import Trie, stands_for


def test_the_same_name_finds_the_same_durable_subscription_and_another_pattern_is_refused() -> None:
    bench = Bench()
    audit = bench.subscribe("Games.*", durable="audit")
    assert bench.subscribe("Games.*", durable="audit") is audit
    with pytest.raises(SubscriptionMismatch, match="unsubscribe audit first"):
        bench.subscribe("Games.#", durable="audit")
    with pytest.raises(SubscriptionMismatch):
        bench.subscribe("Games.*", durable="audit", shared=True)


def test_a_subscription_without_a_holder_ends_unless_it_is_durable() -> None:
    bench = Bench()
    one, audit = bench.subscribe(), bench.subscribe(durable="audit")
    for subscription in (one, audit):
        subscription.mailbox.listeners.append(print)
        subscription.mailbox.leave(print)
    bench.step()
    assert (one.mailbox.has_ended, audit.mailbox.has_ended) == (True, False)
    assert bench.of("unsubscribed") == [{"topic": "Games", "subscription": "$1", "reason": "closed"}]


def test_the_log_has_each_step_of_a_message_in_order() -> None:
    bench = Bench(50)
    one = bench.subscribe(max_unacked=2)
    bench.publish(3, delivery=Delivery.TRANSACTIONAL)
    bench.read(one)
    told = [name for name, _ in bench.records]
    assert told[:4] == ["topic_opened", "subscribed", "placed", "dispatched"]
    assert bench.of("topic_opened") == [
        {"topic": "Games", "strategy": "discard_none", "delivery_timeout_ns": 60 * SECOND, "first": 1}
    ]
    (placed,) = bench.of("placed")
    assert (placed["below"], placed["counts"], placed["at_place"]) == ("Cricket", [[1, 3]], 1)
    assert [(it["first"], it["last"]) for it in bench.of("dispatched")] == [(1, 2), (3, 3)]
    assert [it["count"] for it in bench.of("assigned")] == [2, 1]
    assert [it["ranges"] for it in bench.of("handed")] == [it["ranges"] for it in bench.of("settled")]
    assert bench.of("content_freed") == [{"topic": "Games", "ranges": [(1, 3)], "reason": "all"}]


def story_of(bench: Bench) -> list[tuple[str, int]]:
    """The records of places and subscriptions, with the last place of each."""
    found: list[tuple[str, int]] = []
    for name, fields in bench.records:
        if name == "placed":
            found.append((name, fields["at_place"] - 1 + sum(packets * each for packets, each in fields["counts"])))
        elif "subscri" in name:
            found.append((f"{name} {fields['subscription']}", fields.get("after", 0)))
    return found


@pytest.mark.parametrize("per_packet", [1, 10])
def test_a_subscription_gets_nothing_of_a_commit_that_has_not_returned(per_packet: int) -> None:
    bench = Bench(per_packet)
    audit = bench.subscribe(durable="audit")
    bench.accept(2)
    bench.accept(1, delivery=Delivery.EXPRESS)
    one, late = bench.subscribe(), bench.subscribe(durable="late", max_unacked=3)
    bench.accept(2)
    last = bench.subscribe("Games.Cricket")
    bench.subscribe(durable="late", max_unacked=5)
    bench.subscribe(durable="brief")
    bench.topics.end(bench.topics.subscriptions["brief"], "unsubscribed", bench.now_ns)
    bench.step()
    bench.publish(1)
    assert bench.read(audit) == [0, 1, 2, 3, 4, 5]
    assert bench.read(one) == bench.read(late) == [3, 4, 5]
    assert bench.read(last) == [5]
    assert story_of(bench) == [
        ("subscribed audit", 0),
        ("placed", 2),
        ("placed", 3),
        ("subscribed $1", 3),
        ("subscribed late", 3),
        ("subscription_changed late", 0),
        ("placed", 5),
        ("subscribed $2", 5),
        ("subscribed brief", 5),
        ("unsubscribed brief", 0),
        ("placed", 6),
    ]


def test_messages_that_a_crash_takes_leave_their_places_empty() -> None:
    """A durable subscription that began behind them misses nothing that comes in the next process."""
    bench = Bench()
    bench.accept(3, delivery=Delivery.EXPRESS)
    bench.subscribe(durable="late")
    bench.step()
    again = bench.restart()
    again.publish(2, delivery=Delivery.TRANSACTIONAL)
    assert again.read(again.topics.subscriptions["late"]) == [3, 4]


def test_no_place_comes_twice_when_a_root_is_removed_and_made_again() -> None:
    bench = Bench()
    one = bench.subscribe()
    bench.publish(3)
    bench.topics.end(one, "closed", bench.now_ns)
    bench.step()
    bench.queues.make_room()
    assert not bench.topics.roots
    assert bench.subscribe().after >= 3


def test_another_strategy_and_another_delivery_timeout_are_in_force_at_once() -> None:
    bench = Bench(strategy="slowest_sub_rate", max_unacked=1)
    one, other = bench.subscribe(), bench.subscribe()
    bench.publish(3)
    assert bench.read(one) == [0]
    bench.topics.handle_settings(NodeSettings(topics={"Games": Topic("discard_none", 1)}))
    bench.step()
    assert bench.read(one) == [1, 2]
    bench.now_ns = 5 * SECOND
    bench.topics.handle_settings(NodeSettings(topics={"Games": Topic("discard_allowed", delivery_timeout_s=5)}))
    bench.step()
    assert (other.mailbox.length, other.discarded) == (0, 3)
    told = [it["strategy"] for it in bench.of("topic_opened")]
    assert told == ["slowest_sub_rate", "discard_none", "discard_allowed"]


def test_dropped_and_overdue_messages_are_reported_at_most_once_a_second() -> None:
    bench = Bench(strategy="discard_allowed", max_unacked=1, delivery_timeout_s=1)
    fast, _ = bench.subscribe(), bench.subscribe()
    bench.publish(1)
    bench.read(fast)
    news = []
    for tenth in range(20, 40):
        bench.now_ns = tenth * SECOND // 10
        bench.publish(1)
        bench.read(fast)
        news += bench.news()
    assert len(news) == 2
    assert all(isinstance(it, MessagesDiscarded) and it == MessagesDiscarded("Games", "$2", it.messages) for it in news)
    lease = bench.take(fast)
    assert lease is None
    bench.publish(1)
    lease = sure(bench.take(fast))
    way = Return(failed=True, delay_ms=0, reason=DeadReason.HAND_OVER_TIMEOUT)
    bench.queues.give_back(fast.mailbox, lease, way, bench.turn())
    bench.step()
    assert AckWaitOver("Games", "$1", 1) in bench.news()
    assert bench.of("returned")[0]["overdue"] is True


# One subscription: memory, what comes back, and what the store keeps of it.

NOW = Return(failed=True, delay_ms=0)


def test_messages_for_others_leave_no_gaps_in_what_is_done() -> None:
    """One range, although nine of ten messages are for others. A row that cannot be read is damage."""
    bench = Bench(1)
    chess, _ = bench.subscribe("Games.Chess"), bench.subscribe("Games.#", durable="all")
    for _ in range(50):
        bench.publish(9)
        bench.publish(1, "Chess")
        assert len(bench.read(chess)) == 1
    assert chess.mailbox.reader.done.gaps == 0
    row = chess.row()
    assert len(row.progress) < 200
    with pytest.raises(StoreDamaged, match="cannot be read"):
        Subscription.restore(row._replace(progress=b"[1]"), bench.root, bench.queues.notices)


def test_a_message_that_failed_comes_again_before_younger_ones_and_then_is_dead() -> None:
    bench = Bench(1)
    audit, other = bench.subscribe(durable="audit"), bench.subscribe()
    bench.publish(2, delivery=Delivery.TRANSACTIONAL)
    for failures in range(11):
        lease = sure(bench.take(audit))
        assert (lease.body, audit.mailbox.failures_of(lease)) == (b"0", failures)
        bench.queues.give_back(audit.mailbox, lease, NOW, bench.turn())
        bench.step()
    assert bench.read(audit) == [1]
    letters = bench.queues.mailboxes["dead-letter"]
    ((packet, index),) = letters.waiting()
    found = (packet.open().properties or [])[index]
    assert found == {
        "dead_reason": DeadReason.MAX_REDELIVERIES,
        "dead_attempts": 11,
        "dead_destination": "topic:Games.Cricket",
        "dead_subscription": "audit",
    }
    assert bench.read(other) == [0, 1]  # nothing of that stops others
    assert sum(len(fields["ranges"]) for fields in bench.of("returned")) == 10


def test_failures_and_parts_of_packets_survive_a_restart() -> None:
    bench = Bench(50)
    audit = bench.subscribe(durable="audit")
    bench.publish(5, delivery=Delivery.TRANSACTIONAL)
    leases = [bench.take(audit) for _ in range(3)]
    for lease in leases:
        assert lease is not None
    audit.mailbox.acknowledge(leases[1])  # type: ignore[arg-type]
    bench.queues.give_back(audit.mailbox, leases[2], Return(failed=True, delay_ms=5_000), bench.turn())  # type: ignore[arg-type]
    bench.step()
    bench = bench.restart()
    audit = bench.topics.subscriptions["audit"]
    assert audit.mailbox.length == 4
    first = sure(bench.take(audit))
    assert (first.body, first.redelivered) == (b"0", True)
    assert bench.take(audit) is None  # message 2 keeps the order
    bench.now_ns = 6 * SECOND
    failed = sure(bench.take(audit))
    assert (failed.body, audit.mailbox.failures_of(failed)) == (b"2", 1)


def test_what_comes_too_late_is_counted_and_changes_nothing() -> None:
    bench = Bench(1, strategy="discard_allowed", max_unacked=1, delivery_timeout_s=1)
    fast, slow = bench.subscribe(), bench.subscribe()
    bench.publish(1)
    lease = sure(bench.take(slow))
    bench.read(fast)
    bench.now_ns = 5 * SECOND
    bench.publish(1)
    assert slow.discarded == 1
    bench.queues.give_back(slow.mailbox, lease, NOW, bench.turn())
    bench.step()
    assert slow.late_acks == 1
    assert bench.of("late_ack") == [{"topic": "Games", "subscription": "$2", "ranges": [(1, 1)]}]
    assert bench.read(slow) == [1]


# The contents of a topic: the youngest in memory, the others on the disk.

BODY = b"x" * 100


class Kept:
    """Contents with room for ten of them in memory."""

    def __init__(self) -> None:
        self.expiries: list[int | None] = []
        self.contents = Contents(
            Cache(10 * (PACKET_BYTES + len(BODY))), lambda _packet, at_ms: self.expiries.append(at_ms)
        )

    def add(self, number: int, delivery: Delivery = Delivery.TRANSACTIONAL, receive_by_ms: int = 0) -> QueuedPacket:
        keys = () if delivery is Delivery.EXPRESS else range(number, number + 1)
        packet = QueuedPacket(keys, b"o" * 16, 1, 1, number, delivery, 2, len(BODY), [BODY], topic="Games")
        packet.first_place, packet.receive_by_ms = 2 * number + 1, receive_by_ms
        self.contents.put(packet, 1)
        return packet

    def places(self, place: int = 0) -> list[int]:
        return [packet.first_place for packet in self.contents.walk(place)]


def test_the_youngest_are_in_memory_and_all_are_found_in_order() -> None:
    kept = Kept()
    packets = [kept.add(number) for number in range(1_000)]
    contents = kept.contents
    assert contents.share.used_bytes <= 10 * (PACKET_BYTES + len(BODY))
    assert [contents.is_ready(packet) for packet in packets].count(True) == 10
    assert kept.places() == [packet.first_place for packet in packets]
    assert kept.places(1_002) == [packet.first_place for packet in packets if packet.last_place >= 1_002]
    assert not next(contents.walk(0)).pieces
    assert packets[0].pieces  # a reader that has it in hand goes on with it


def test_express_contents_stay_in_memory_whole_and_those_on_the_disk_expire() -> None:
    kept = Kept()
    for number in range(50):
        kept.add(number, Delivery.EXPRESS)
    assert all(packet.pieces == [BODY] for packet in kept.contents.walk(0))
    for number in range(50, 150):
        kept.add(number, receive_by_ms=1_000 if number < 55 else 0)
    assert kept.expiries[-1] == 1_000
    assert [packet.number for packet in kept.contents.poll_expired(1_000, 100)] == [50, 51, 52, 53, 54]


def test_what_is_removed_anywhere_is_found_no_more_and_leaves_nothing() -> None:
    kept = Kept()
    packets = [kept.add(number) for number in range(2_000)]
    for packet in packets[::2]:
        assert kept.contents.remove(packet)
        assert not kept.contents.remove(packet)
    assert kept.places() == [packet.first_place for packet in packets[1::2]]
    for packet in packets[1::2]:
        assert kept.contents.remove(packet)
    assert kept.places() == []
    assert kept.contents.share.used_bytes == 0
    assert len(kept.contents.wanted) == 0
    # Of the blocks on the shelf only the one that grows is left.
    assert len(kept.contents._backlog.blocks) <= 1  # noqa: SLF001 - the promise is about memory
    assert len(kept.contents._places) <= DEAD_MAX + 1  # noqa: SLF001 - as above


def test_what_only_subscriptions_behind_want_is_kept_on_the_disk_alone() -> None:
    kept = Kept()
    packets = [kept.add(number) for number in range(8)]
    kept.contents.wanted[packets[5].first_place] = 3
    kept.contents.trim(1, packets[3].last_place)
    assert [kept.contents.is_ready(packet) for packet in packets] == 4 * [False] + 4 * [True]
    kept.contents.trim(1, packets[7].last_place)
    assert [kept.contents.is_ready(packet) for packet in packets] == 5 * [False] + 3 * [True]
    assert kept.places() == [packet.first_place for packet in packets]


# Patterns of topics, against a model that compares each pattern with each name.

LEVELS = st.lists(st.sampled_from(["a", "b", "c"]), max_size=3)
PATTERNS = st.builds(
    lambda root, levels, last: ".".join([root, *levels, *last]),
    st.sampled_from(["a", "b"]),
    st.lists(st.sampled_from(["a", "b", "*"]), max_size=3),
    st.sampled_from([[], ["#"], ["*"]]),
)
NAMES = st.builds(lambda root, levels: ".".join([root, *levels]), st.sampled_from(["a", "b"]), LEVELS)


def is_match(pattern: str, name: str) -> bool:
    """The rules as a regular expression."""
    base, below = (pattern.removesuffix(".#"), r"(\..+)?") if pattern.endswith(".#") else (pattern, "")
    return re.fullmatch(re.escape(base).replace(r"\*", r"[^.]+") + below, name) is not None


def found(trie: Trie[str], name: str) -> list[str]:
    return [value for values in trie.match(name) for value in values]


@pytest.mark.gate
@given(st.lists(PATTERNS, max_size=12, unique=True), st.lists(NAMES, min_size=1, max_size=8), st.data())
def test_a_trie_finds_what_comparing_each_pattern_finds(
    patterns: list[str], names: list[str], data: st.DataObject
) -> None:
    trie = Trie[str]()
    for pattern in patterns:
        trie.add(pattern, pattern)
    gone = data.draw(st.sets(st.sampled_from(patterns))) if patterns else set()
    for pattern in gone:
        trie.remove(pattern, pattern)
    left = [pattern for pattern in patterns if pattern not in gone]
    for name in names:
        assert sorted(found(trie, name)) == sorted(pattern for pattern in left if is_match(pattern, name))


@given(PATTERNS, NAMES)
def test_one_pattern_stands_for_what_its_regular_expression_does(pattern: str, name: str) -> None:
    assert stands_for(pattern, name) == is_match(pattern, name)


def test_what_was_found_follows_what_becomes_of_the_patterns() -> None:
    """Except for a pattern that had no value: ``add`` says so. Nothing is left of removed ones."""
    trie = Trie[int]()
    assert trie.add("Games.*.x", 1)
    (values,) = trie.match("Games.Cricket.x")
    assert not trie.add("Games.*.x", 2)
    assert list(values) == [1, 2]
    trie.remove("Games.*.x", 1)
    assert list(values) == [2]
    assert trie.add("Games.#", 1)
    trie.remove("Games.*.x", 2)
    trie.remove("Games.#", 1)
    assert trie._top.is_empty  # noqa: SLF001 - nothing else shows it


def test_each_content_is_released_once_for_all_that_ended_alike() -> None:
    bench, released = Bench(1), list[tuple[int, int]]()
    alike = [bench.subscribe(durable=None) for _ in range(3)]
    further, chess = bench.subscribe(durable=None), bench.subscribe("Games.Chess")
    bench.publish(4, delivery=Delivery.TRANSACTIONAL)
    bench.publish(1, "Chess", delivery=Delivery.TRANSACTIONAL)
    bench.read(further, 3)

    def release(packet: QueuedPacket, subscriptions: int) -> int:
        released.append((packet.first_place, subscriptions))
        return 1

    leaving = ReleaseBacklog(bench.root.contents, release)
    for one in (*alike, further, chess):
        leaving.add(one)
    leaving.go(3)
    assert len(released) == 2, "each takes two steps"
    leaving.add(alike[0])  # those that are like it have begun
    while leaving:
        leaving.go(1)
    first = alike[0].after + 1
    assert sorted(released) == sorted(
        [
            *((first + at, times) for at in range(5) for times in (3, 1)),
            *((first + at, 1) for at in (3, 4)),
            (first + 4, 1),
        ]
    )


# What each strategy lets go, against a model that puts one message at a time.

STRATEGIES = get_args(Strategy)

PENDING = st.lists(st.tuples(st.integers(0, 8), st.integers(1, 5)), max_size=4)


@given(st.sampled_from(STRATEGIES), PENDING, st.integers(1, 20))
def test_messages_at_once_go_as_they_would_one_by_one(
    strategy: Strategy, pending: list[tuple[int, int]], most: int
) -> None:
    values, gone = [value for value, _ in pending], 0
    rule = all if strategy == "slowest_sub_rate" else any
    while gone < most and (
        not values or rule(value < limit for value, (_, limit) in zip(values, pending, strict=True))
    ):
        gone += 1
        values = [value + 1 for value in values]
    assert room_of(strategy, pending, most) == gone


def test_what_is_remembered_of_a_name_follows_the_subscriptions() -> None:
    bench, takers = Bench(1), SubscriberCache()
    one, other = (bench.subscribe("Games.*") for _ in range(2))
    kept, all_below = bench.subscribe("Games.*", durable="kept"), bench.subscribe("Games.#")

    def of(topic: str) -> tuple[list[Subscription], list[Subscription]]:
        found = takers.of(topic)
        assert found.number == len([*found.durable, *found.others])
        return list(found.durable), list(found.others)

    assert of("Games.Go") == ([], [])
    takers.add(one)
    assert of("Games.Go") == ([], [one])
    takers.add(other)
    takers.add(kept)
    takers.add(all_below)
    assert of("Games.Go") == ([kept], [all_below, one, other])
    assert of("Games") == ([], [all_below])
    takers.remove(one)
    assert of("Games.Go") == ([kept], [all_below, other])
    assert takers.takes(other, "Games.Go")
    assert takers.takes(kept, "Games.Chess"), "a name that is not remembered"
    assert not takers.takes(one, "Games.Go")
    assert not takers.takes(other, "Games")


def test_no_message_looks_older_than_it_is_and_the_memory_has_a_bound() -> None:
    times = DispatchTimes(60 * SECOND)
    times.add(4, 0)
    times.add(5, 61 * SECOND)
    assert [times.of(place) for place in (1, 4, 5)] == [0, 0, 61 * SECOND]
    went = {}
    for place in range(6, 50_000):
        went[place] = 61 * SECOND + place * SECOND // 50
        times.add(place, went[place])
    assert len(times._lasts) <= 2 * GRAINS + 1  # noqa: SLF001 - the promise is about memory
    now_ns = went[49_999]
    for place in range(6, 50_000, 7):
        known, real = now_ns - times.of(place), now_ns - went[place]
        assert known <= real
        assert known > 60 * SECOND or real - known <= 60 * SECOND // GRAINS
