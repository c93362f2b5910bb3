"""Topics: each promise has lies that break it, honest topics break none, and a missing log accuses nobody."""

from pathlib import Path
from random import Random

import pytest

from tests.tools.replay.builder import ALPHA, BETA, MS
from tests.tools.replay.judging import verdict_of
from tests.tools.replay.topic_faults import TOPIC_FAULTS, discarding, plain
from tests.tools.replay.topic_logs import FAST, KEPT, Topics
from triack.tools.replay.run import replay

STRATEGIES = ["discard_none", "slowest_sub_rate", "discard_allowed"]
CHECKS = [
    "topic_lost", "topic_before_join", "topic_astray", "topic_twice", "topic_order", "slowest_rule", "none_rule",
    "discard_rule", "content_freed_early", "subscription_forgotten", "ack_wait",
]  # fmt: skip


@pytest.mark.parametrize("check", CHECKS)
def test_each_promise_of_a_topic_has_two_lies(check: str) -> None:
    told = [name for name, tell in TOPIC_FAULTS.items() if any(found[0] == check for found in tell()[1])]
    assert len(told) >= 2


def busy(seed: int) -> Topics:
    """Readers that come, go, lag and stop; publishers of two names; starts of the topic's node."""
    random = Random(seed)
    world = Topics(random.choice(STRATEGIES), timeout_ns=2_000 * MS)
    begun = 0
    for _ in range(60):
        readers = list(world.readers.values())
        reader = random.choice(readers) if readers else None
        match random.randrange(9):
            case 0 | 1 | 2:
                world.publish(random.randint(1, 3), random.choice(["Chess", "Go"]), random.choice([KEPT, KEPT, FAST]))
            case 3:
                begun += 1
                durable, only = random.random() < 0.3, random.choice(["", "", "Chess"])
                world.subscribe(f"reader {begun}", durable=durable, limit=random.choice([3, 25, 1_000]), only=only)
            case 4 | 5 if reader is not None and not reader.hand:
                world.consume(reader, random.randint(1, 40))
            case 6 if reader is not None and not reader.hand and (fresh := world.take(reader, random.randint(1, 5))):
                world.give_back(reader)
                world.take(reader, len(fresh), redelivered=True)
                world.settle_all(reader)
            case 7 if reader is not None and random.random() < 0.3:
                world.unsubscribe(reader)
            case 8:
                world.clock.tick(random.choice([5, 500, 3_000]) * MS)
    return world.stop()


@pytest.mark.parametrize("seed", range(40))
def test_an_honest_topic_is_accused_of_nothing(seed: int) -> None:
    verdict = verdict_of(busy(seed))
    assert (verdict.verdict, verdict.findings) == ("pass", [])


def test_a_topic_that_starts_again_is_accused_of_nothing() -> None:
    world = plain()
    world.publish(2)
    world.take(world.readers["audit"], 15)
    world.restart()
    world.subscribe("again", limit=5)
    world.publish()
    audit = world.readers["audit"]
    world.take(audit, 15, redelivered=True)
    world.settle_all(audit)
    world.consume(audit, 100)
    verdict = verdict_of(world.stop())
    assert (verdict.verdict, verdict.findings) == ("pass", [])


@pytest.mark.parametrize("node", [ALPHA, BETA])
def test_a_missing_log_accuses_nobody(node: str) -> None:
    world = plain().stop()
    for log in world.logs:
        if log.node == node:
            log.records.clear()
            log.incarnation = 0
    verdict = verdict_of(world)
    assert (verdict.verdict, verdict.missing, verdict.violations) == ("incomplete", [f"node {node}"], {})


def test_a_message_counts_once_however_many_subscriptions_get_it() -> None:
    verdict = verdict_of(plain().stop())
    assert (verdict.sent, verdict.delivered, verdict.pending) == (30, 30, 0)


def test_the_report_says_what_each_subscription_got(tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    discarding().stop().save(tmp_path / "logs")
    page = tmp_path / "page.html"
    timeline = replay(tmp_path / "logs", engine="local", report=page).timeline
    assert timeline is not None
    assert timeline.readers["beta", "Games", "slow", "Games.#"] == {
        "delivered": 0,
        "settled": 0,
        "pending": 10,
        "discarded": 10,
    }
    assert "<h2>Subscriptions</h2>" in page.read_text()


def test_a_commit_that_a_crash_cut_off_may_be_settled_again() -> None:
    """The record says that the commit begins; the start after it has the messages still."""
    world = plain()
    audit = world.readers["audit"]
    world.publish()
    world.take(audit, 10)
    audit.hand, settled = [], audit.hand
    world.say("settled", subscription="audit", ranges=[[31, 40]])
    audit.hand = settled
    world.restart()
    world.take(audit, 10, redelivered=True)
    world.settle_all(audit)
    verdict = verdict_of(world.stop())
    assert (verdict.verdict, verdict.findings) == ("pass", [])
    assert verdict.timeline is not None
    assert verdict.timeline.readers["beta", "Games", "audit", "Games.#"]["settled"] == 40


def test_a_subscription_whose_end_a_crash_undoes_has_lost_its_express_messages() -> None:
    """They were deleted from memory when it ended; the process died before the commit of that."""
    world = Topics()
    audit = world.subscribe("audit", durable=True, limit=1_000)
    world.publish(cls=FAST)
    world.publish(cls=KEPT)
    kept = set(world.kept)
    world.unsubscribe(audit, "unsubscribed")
    world.readers["audit"] = audit
    world.kept = {at for at in kept if at > 10}
    audit.waiting = sorted(world.kept)
    world.restart()
    world.consume(audit, 10)
    assert verdict_of(world.stop()).violations == {}


def test_a_subscription_whose_end_a_crash_undoes_has_what_was_placed_since() -> None:
    """The process died before the commit of that end, and after messages had got their places."""
    world = Topics()
    audit = world.subscribe("audit", durable=True, limit=1_000)
    other = world.subscribe("other", durable=True, limit=1_000)
    world.publish(cls=KEPT)
    world.unsubscribe(audit, "unsubscribed")
    world.publish(cls=KEPT)
    world.readers["audit"] = audit
    audit.waiting = sorted(world.kept)
    world.restart()
    world.consume(audit, 20)
    world.consume(other, 20)
    assert verdict_of(world.stop()).violations == {}


def test_a_subscription_by_another_way_after_the_end_of_the_first_is_no_second() -> None:
    """Nor is one of that name of another node."""
    world = Topics()
    node = {"peer_name": "reports@g1", "subscriber": "5" * 32}
    first = world.subscribe("reports@g1/audit", durable=True, limit=1_000, **node)
    world.unsubscribe(first, "unsubscribed")
    world.subscribe("reports@g2/audit", durable=True, limit=1_000, **node)
    world.subscribe("others@g2/audit", durable=True, limit=1_000, **{**node, "subscriber": "6" * 32})
    assert "subscriber_twice" not in verdict_of(world.stop()).violations
