"""One subscription: memory, what comes back, and what the store keeps of it."""

import pytest

from tests.queues.topics.bench import Bench
from triack.base.delivery import Delivery
from triack.base.errors import StoreDamaged
from triack.base.reasons import DeadReason
from triack.base.units import SECOND
from triack.queues.mailboxes.redelivery import Return
from triack.queues.topics.subscription import Subscription

NOW = Return(failed=True, delay_ms=0)


def test_messages_for_others_leave_no_gaps_in_what_is_done() -> None:
    """One range, although nine of ten messages are for others."""
    bench = Bench(1)
    chess, _ = bench.subscribe("Games.Chess"), bench.subscribe("Games.#", durable="all")
    for _ in range(50):
        bench.publish(9)
        bench.publish(1, "Chess")
        assert len(bench.read(chess)) == 1
    assert chess.reader.done.gaps == 0
    assert len(chess.row().progress) < 200


def test_a_message_that_failed_comes_again_before_younger_ones_and_then_is_dead() -> None:
    bench = Bench(1)
    audit, other = bench.subscribe(durable="audit"), bench.subscribe()
    bench.publish(2, delivery=Delivery.TRANSACTIONAL)
    for failures in range(11):
        lease = bench.take(audit)
        assert lease is not None
        assert (lease.body, audit.failures_of(lease)) == (b"0", failures)
        bench.queues.give_back(audit, lease, NOW, bench.turn())
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
    audit.acknowledge(leases[1])  # type: ignore[arg-type]
    bench.queues.give_back(audit, leases[2], Return(failed=True, delay_ms=5_000), bench.turn())  # type: ignore[arg-type]
    bench.step()
    bench = bench.restart()
    audit = bench.topics.subscriptions["audit"]
    assert audit.length == 4
    first = bench.take(audit)
    assert first is not None
    assert (first.body, first.redelivered) == (b"0", True)
    assert bench.take(audit) is None  # message 2 keeps the order
    bench.now_ns = 6 * SECOND
    failed = bench.take(audit)
    assert failed is not None
    assert (failed.body, audit.failures_of(failed)) == (b"2", 1)


def test_a_row_that_cannot_be_read_is_damage() -> None:
    bench = Bench(1)
    row = bench.subscribe(durable="audit").row()
    with pytest.raises(StoreDamaged, match="subscription audit cannot be read"):
        Subscription.restore(row._replace(progress=b"[1]"), bench.root, bench.queues.notices)


def test_what_comes_too_late_is_counted_and_changes_nothing() -> None:
    bench = Bench(1, strategy="discard_allowed", max_unacked=1, delivery_timeout_s=1)
    fast, slow = bench.subscribe(), bench.subscribe()
    bench.publish(1)
    lease = bench.take(slow)
    assert lease is not None
    bench.read(fast)
    bench.now_ns = 5 * SECOND
    bench.publish(1)
    assert slow.discarded == 1
    bench.queues.give_back(slow, lease, NOW, bench.turn())
    bench.step()
    assert slow.late_acks == 1
    assert bench.of("late_ack") == [{"topic": "Games", "subscription": "$2", "ranges": [(1, 1)]}]
    assert bench.read(slow) == [1]


def test_one_content_read_in_parts_by_several_readers_of_a_shared_subscription() -> None:
    bench = Bench(50)
    shared = bench.subscribe(durable="work", shared=True)
    bench.publish(4, delivery=Delivery.TRANSACTIONAL)
    leases = [bench.take(shared) for _ in range(4)]
    assert [lease.body for lease in leases if lease is not None] == [b"0", b"1", b"2", b"3"]
    for lease in reversed(leases):
        assert lease is not None
        shared.acknowledge(lease)
    bench.step()
    assert not bench.rows
