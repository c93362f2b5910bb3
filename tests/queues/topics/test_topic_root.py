"""What each strategy does with a fast subscription A and a slow one B: the same for any number of messages a packet."""

import gc
import tracemalloc
from typing import Any

import pytest

from tests.queues.topics.bench import Bench
from tests.sure import sure
from triack.base.commit import Commit
from triack.base.delivery import Delivery
from triack.base.units import MS, SECOND
from triack.queues.mailboxes.redelivery import Return
from triack.queues.topics import topic_root, topics
from triack.queues.topics.subscription import Subscription
from triack.queues.topics.trie import Trie

PER_PACKET = pytest.mark.parametrize("per_packet", [1, 50])
HOUR = 3_600 * SECOND


class Unrecorded(Bench):
    """Neither a store nor a log: all memory that is counted is that of topics."""

    def _apply(self, commit: Commit) -> None:
        """Keep nothing."""

    def _record(self, event: str, now_ns: int, **fields: Any) -> None:
        """Write nothing."""

    def live_bytes(self, packets: int) -> int:
        """Publish packets, which the quick subscription reads, and see what is in memory then."""
        (quick, *_) = self.root.subscriptions
        for _ in range(packets // 100):
            self.now_ns += 100 * MS
            self.publish(100 * self.per_packet, delivery=Delivery.TRANSACTIONAL)
            while (lease := self.take(quick)) is not None:
                quick.mailbox.acknowledge(lease)
            self.step()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]


@pytest.mark.slow
def test_many_stalled_subscriptions_take_four_kibibytes_each_and_their_backlog_nothing() -> None:
    bench = Unrecorded(50)
    bench.subscribe(max_unacked=10_000).mailbox.listeners.append(lambda: None)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(1_000):
            bench.subscribe()
        begun = bench.live_bytes(100)
        assert begun - before < 1_000 * 4_096
        assert bench.live_bytes(100) - begun < 64 * 1_024
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("durable", [None, "audit"])
@pytest.mark.parametrize(("per_packet", "messages"), [(1, 20_000), (50, 200_000)])
def test_a_million_messages_for_a_stalled_subscription_add_less_than_a_mebibyte(
    per_packet: int, messages: int, durable: str | None
) -> None:
    """What is alive is counted, not what the allocator keeps of what was. Fewer messages, and the same share."""
    bench = Unrecorded(per_packet)
    bench.subscribe(max_unacked=10_000).mailbox.listeners.append(lambda: None)
    stalled = bench.subscribe(durable=durable)
    tracemalloc.start()
    try:
        before = bench.live_bytes(2_000)
        added = bench.live_bytes(messages // per_packet) - before
    finally:
        tracemalloc.stop()
    assert stalled.mailbox.length == messages + 2_000 * per_packet
    assert added < 2**20 * messages / 1_000_000


def test_more_than_a_turn_takes_is_discarded_in_several(monkeypatch: pytest.MonkeyPatch) -> None:
    """And of a packet of which the strategy has let a part go, that part alone."""
    monkeypatch.setattr(topic_root, "TURN_ASSIGNED", 2)
    bench = Bench(10, strategy="discard_allowed", max_unacked=5, delivery_timeout_s=1)
    slow = bench.subscribe()
    bench.publish(10)
    bench.now_ns = SECOND
    bench.topics.advance(bench.now_ns)
    assert (slow.discarded, bench.topics.next_deadline()) == (2, SECOND)
    bench.rest()
    assert (slow.discarded, slow.mailbox.length) == (5, 5)


@PER_PACKET
@pytest.mark.parametrize("delivery", [Delivery.EXPRESS, Delivery.TRANSACTIONAL])
@pytest.mark.parametrize("first", [0, 1, 2, 3])
def test_a_packet_that_is_dispatched_in_parts_is_missed_in_parts(
    per_packet: int, first: int, delivery: Delivery
) -> None:
    bench = Bench(per_packet, strategy="slowest_sub_rate", max_unacked=1)
    quick, other = bench.subscribe(), bench.subscribe(max_unacked=100)
    bench.publish(10, delivery=delivery)
    got: list[int] = []
    for number in range(10):
        assert bench.read(quick, 1) == [number]  # then the next one is dispatched
        change = {first: bench.topics.suspend, first + 2: bench.topics.resume, 6: bench.topics.suspend}.get(number)
        if change is not None:
            change(other, bench.now_ns)
            bench.step()
        if number == 8:
            bench.topics.resume(other, bench.now_ns)
            got += bench.read(other)
    got += bench.read(other)
    missed = {*range(first + 2, first + 4), 8, 9}
    assert got == [number for number in range(10) if number not in missed]
    assert (other.mailbox.length, other.mailbox.size_bytes, bench.root.mailbox.length, len(bench.rows)) == (0, 0, 0, 0)


def test_a_suspended_subscription_that_ends_wants_nothing_of_what_it_missed() -> None:
    bench = Bench(1)
    other = bench.subscribe()
    bench.publish(2, delivery=Delivery.TRANSACTIONAL)
    bench.topics.suspend(other, bench.now_ns)
    audit = bench.subscribe(durable="audit")
    bench.publish(3, delivery=Delivery.TRANSACTIONAL)
    bench.topics.end(other, "closed", bench.now_ns)
    bench.step()
    assert len(bench.rows) == 3
    assert bench.read(audit) == [2, 3, 4]
    assert not bench.rows


def test_readers_of_a_paused_topic_wait_and_miss_nothing() -> None:
    bench = Bench(50)
    one, audit = bench.subscribe(), bench.subscribe(durable="audit")
    bench.publish(2)
    assert bench.read(one, 1) == [0]
    bench.queues.pauses.pause("topic:Games", arrivals=False, now_ms=0, commit=bench.group.commit)
    bench.queues.handle_paused("topic:Games")
    bench.publish(2)
    assert (bench.take(one), bench.take(audit)) == (None, None)
    bench.queues.pauses.resume("topic:Games", bench.group.commit)
    bench.queues.handle_paused("topic:Games")
    assert (bench.read(one), bench.read(audit)) == ([1, 2, 3], [0, 1, 2, 3])


def expire(bench: Bench) -> None:
    """All that expires within two seconds does."""
    bench.now_ns += 2 * SECOND
    bench.schedule.handle_timer(bench.turn())
    bench.queues.expiry.dead_letter_expired(bench.turn())
    bench.step()


@PER_PACKET
def test_what_expires_for_a_subscription_that_is_not_durable_is_logged(per_packet: int) -> None:
    """Also what was not dispatched to it: else its record looks as if it were lost."""
    bench = Bench(per_packet, strategy="slowest_sub_rate", max_unacked=2)
    one = bench.subscribe()
    bench.publish(4, receive_by_ms=1_000)
    expire(bench)
    gone = [place for it in bench.of("expired") for first, last in it["ranges"] for place in range(first, last + 1)]
    assert sorted(gone) == [1, 2, 3, 4]
    assert {it["subscription"] for it in bench.of("expired")} == {one.title}
    assert (one.mailbox.length, one.mailbox.size_bytes, bench.root.mailbox.length) == (0, 0, 0)
    bench.publish(3)
    assert bench.read(one) == [4, 5, 6]


@pytest.mark.parametrize("goes", [0, 2])
def test_what_expires_while_a_subscription_is_suspended_is_not_for_it_either(goes: int) -> None:
    bench = Bench(50, strategy="slowest_sub_rate", max_unacked=1)
    slow, other = bench.subscribe(), bench.subscribe(max_unacked=100)
    bench.publish(1)
    bench.publish(6, receive_by_ms=1_000)
    assert bench.read(other) == [0]
    bench.topics.suspend(other, bench.now_ns)
    assert bench.read(slow, goes) == list(range(goes))
    expire(bench)
    bench.topics.resume(other, bench.now_ns)
    bench.read(slow)
    bench.publish(2)
    assert bench.read(slow) == bench.read(other) == [7, 8]
    assert (other.mailbox.length, other.mailbox.size_bytes, bench.root.mailbox.length) == (0, 0, 0)
    gone = [it["ranges"] for it in bench.of("expired") if it["subscription"] == other.title]
    assert gone == [[(goes + 2 if goes else 2, 7)]]


def test_what_expired_for_a_subscription_that_ends_is_no_dead_letter() -> None:
    """It waits for its body from the disk when the subscription ends."""
    bench = Bench(1)
    audit = bench.subscribe(durable="audit")
    bench.publish(1, delivery=Delivery.TRANSACTIONAL, receive_by_ms=1_000)
    bench.now_ns = 2 * SECOND
    bench.schedule.handle_timer(bench.turn())
    bench.topics.end(audit, "unsubscribed", bench.now_ns)
    bench.queues.expiry.dead_letter_expired(bench.turn())
    bench.step()
    letters = bench.queues.mailboxes.get("dead-letter")
    assert letters is None or not letters.length
    told = [name for name, fields in bench.records if "subscription" in fields]
    assert told == ["subscribed", "expired", "unsubscribed"]
    assert not bench.rows


def test_what_came_back_to_a_subscription_does_not_expire_once_that_has_ended() -> None:
    bench = Bench(1)
    one, _ = bench.subscribe(), bench.subscribe()
    bench.publish(1, receive_by_ms=1_000)
    lease = sure(bench.take(one))
    bench.queues.give_back(one.mailbox, lease, Return(failed=True, delay_ms=5_000), bench.turn())
    bench.topics.end(one, "closed", bench.now_ns)
    expire(bench)
    assert {it["subscription"] for it in bench.of("expired")} == {"$2"}


def test_a_packet_that_expires_while_a_part_of_it_is_in_hand_leaves_nothing_pending() -> None:
    bench = Bench(50, strategy="slowest_sub_rate", max_unacked=2)
    one = bench.subscribe()
    bench.publish(6, receive_by_ms=1_000)
    lease = sure(bench.take(one))
    expire(bench)
    one.mailbox.acknowledge(lease)
    bench.step()
    assert (one.mailbox.length, one.mailbox.size_bytes, bench.root.mailbox.length) == (0, 0, 0)
    bench.publish(2)
    assert bench.read(one) == [6, 7]


def test_a_content_in_hand_is_kept_although_it_has_expired_before_its_dispatch() -> None:
    bench = Bench(1, strategy="slowest_sub_rate", max_unacked=1)
    slow, audit = bench.subscribe(), bench.subscribe(durable="audit")
    bench.publish(1, delivery=Delivery.TRANSACTIONAL)
    bench.publish(1, delivery=Delivery.TRANSACTIONAL, receive_by_ms=1_000)
    assert bench.read(audit, 1) == [0]
    lease = sure(bench.take(audit))
    expire(bench)
    assert bench.read(slow) == [0]
    assert len(bench.rows) == 1
    bench.queues.give_back(audit.mailbox, lease, Return(failed=True, delay_ms=0), bench.turn())
    expire(bench)
    assert bench.queues.mailboxes["dead-letter"].length == 1
    assert (audit.mailbox.length, slow.mailbox.length, bench.root.mailbox.length) == (0, 0, 0)
    told = [name for name, fields in bench.records if fields.get("ranges") == [(2, 2)]]
    assert told[-4:] == ["returned", "expired", "settled", "content_freed"]


@PER_PACKET
def test_a_content_goes_with_the_commit_of_the_last_subscription_that_wants_it(per_packet: int) -> None:
    bench = Bench(per_packet)
    fast, audit = bench.subscribe(), bench.subscribe(durable="audit")
    bench.publish(4, delivery=Delivery.TRANSACTIONAL)
    assert bench.read(fast) == [0, 1, 2, 3]
    assert bench.rows
    assert bench.read(audit, 3) == [0, 1, 2]
    assert len(bench.rows) == 1
    assert bench.read(audit) == [3]
    assert not bench.rows
    assert bench.root.mailbox.length == bench.root.mailbox.fill.bytes.value == 0


def test_thousands_of_subscriptions_that_end_at_once_match_no_name_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a process that ends with its subscriptions stops the node for seconds."""
    bench = Bench(1)
    for _ in range(300):
        bench.subscribe(durable=None)
    bench.publish(5, delivery=Delivery.TRANSACTIONAL)
    matched: list[str] = []
    match = Trie.match

    def noting(trie: Trie[Subscription], name: str) -> list[dict[Subscription, None]]:
        matched.append(name)
        return match(trie, name)

    monkeypatch.setattr(Trie, "match", noting)
    for one in list(bench.root.subscriptions):
        bench.topics.end(one, "closed", bench.now_ns)
    bench.rest()
    assert not bench.rows
    assert not matched


@pytest.mark.parametrize("same", [True, False], ids=["alike", "each another"])
def test_thousands_of_subscriptions_that_end_at_once_are_ended_in_turns(
    same: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_root, "TURN_RELEASED", 50)
    monkeypatch.setattr(topics, "TURN_ENDS", 10)
    bench = Bench(1)
    stays = bench.subscribe(durable="stays")
    some = [bench.subscribe(durable=None) for _ in range(100)]
    bench.publish(50, delivery=Delivery.TRANSACTIONAL)
    for at, one in enumerate(some):
        bench.read(one, 0 if same else at % 50)
    for one in some:
        one.mailbox.listeners.append(print)
        one.mailbox.leave(print)
    bench.topics.advance(bench.now_ns)
    assert len(bench.root.subscriptions) == 91
    assert bench.topics.next_deadline() == bench.now_ns
    bench.rest()
    assert list(bench.root.subscriptions) == [stays]
    assert len(bench.rows) == stays.mailbox.length == 50
    bench.topics.end(stays, "unsubscribed", bench.now_ns)
    bench.rest()
    assert not bench.rows


def test_a_dispatch_to_thousands_goes_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_root, "TURN_ASSIGNED", 100)
    bench = Bench(1)
    some = [bench.subscribe(durable=None) for _ in range(50)]
    bench.publish(9)
    assert [one.mailbox.length for one in some] == [4] * 50, "two turns for two packets each"
    bench.rest()
    assert [one.mailbox.length for one in some] == [9] * 50


def test_no_place_is_given_twice_after_a_restart() -> None:
    bench = Bench(1)
    bench.subscribe(durable="audit")
    bench.publish(5, delivery=Delivery.TRANSACTIONAL)
    bench.read(bench.topics.subscriptions["audit"])
    last = bench.root.last_place
    bench = bench.restart()
    bench.publish(1, delivery=Delivery.TRANSACTIONAL)
    assert bench.of("placed")[-1]["at_place"] > last


def test_an_express_message_keeps_its_place_behind_durable_ones_whose_commit_is_under_way() -> None:
    bench = Bench(1)
    reader = bench.subscribe()
    bench.publish(1, delivery=Delivery.TRANSACTIONAL)
    step, bench.step = bench.step, lambda: None  # type: ignore[method-assign]
    bench.publish(1, delivery=Delivery.TRANSACTIONAL)
    bench.publish(1)
    bench.publish(1, delivery=Delivery.TRANSACTIONAL)
    bench.step = step  # type: ignore[method-assign]
    bench.step()
    assert bench.read(reader) == [0, 1, 2, 3]


@pytest.mark.gate
def test_a_subscription_behind_reads_from_the_disk_what_others_have_in_memory_no_longer() -> None:
    bench = Bench(1)
    fast, slow = bench.subscribe(), bench.subscribe()
    bench.queues.notices.cache.limit_bytes = 5_000
    for _ in range(30):
        bench.publish(20, delivery=Delivery.TRANSACTIONAL)
        bench.read(fast)
    assert bench.root.contents.share.used_bytes <= 5_000
    assert bench.read(slow) == list(range(600))
    assert not bench.rows


def test_subscriptions_that_are_as_far_behind_read_the_disk_once() -> None:
    bench = Bench(50)
    alike = [bench.subscribe() for _ in range(3)]
    bench.queues.notices.cache.limit_bytes = 0
    bench.publish(200, delivery=Delivery.TRANSACTIONAL)
    first = [bench.take(one) for one in alike]
    assert bench.read_from_disk == 3  # the youngest packet is in memory
    ended, *others = alike
    bench.topics.end(ended, "closed", bench.now_ns)
    bench.step()
    for one, lease in zip(others, first[1:], strict=True):
        assert lease is not None
        one.mailbox.acknowledge(lease)
        assert bench.read(one) == list(range(1, 200))
    assert bench.read_from_disk == 3


def test_what_readers_take_in_turns_stays_in_memory_and_what_one_that_stalls_wants_does_not() -> None:
    bench = Bench(50)
    quick, slow, stalled = bench.subscribe(max_unacked=2_000), bench.subscribe(), bench.subscribe()
    for one in (quick, slow, stalled):
        one.mailbox.listeners.append(lambda: None)
    for number in range(11):
        bench.publish(1_500, delivery=Delivery.TRANSACTIONAL)
        for one in (quick,) if number % 2 else (quick, slow):
            while (lease := bench.take(one)) is not None:
                one.mailbox.acknowledge(lease)
        bench.step()
    assert quick.mailbox.left == slow.mailbox.left == 11 * 1_500
    assert bench.read_from_disk == 0
    assert bench.read(stalled, 1) == [0]
    assert bench.read_from_disk > 0


@PER_PACKET
def test_expired_messages_are_dead_letters_of_durable_subscriptions_alone(per_packet: int) -> None:
    bench = Bench(per_packet)
    other, audit = bench.subscribe(), bench.subscribe(durable="audit")
    bench.publish(2, delivery=Delivery.TRANSACTIONAL, receive_by_ms=1_000)
    bench.publish(1, delivery=Delivery.TRANSACTIONAL)
    expire(bench)
    assert bench.queues.mailboxes["dead-letter"].length == 2
    assert bench.read(other) == bench.read(audit) == [2]
    assert (other.mailbox.length, audit.mailbox.length) == (0, 0)
