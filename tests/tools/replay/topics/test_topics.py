"""The checks of topics and their subscriptions."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.queues.hubs import HubWorld
from tests.tools.replay.builder import ALPHA, BETA, MS
from tests.tools.replay.judging import verdict_of, without
from tests.tools.replay.telling import happens
from tests.tools.replay.topic_faults import discarding, plain
from tests.tools.replay.topic_logs import FAST, KEPT, Topics
from triack.base.units import SECOND
from triack.queues.node_settings import NodeSettings
from triack.tools.replay.checks.findings import Output
from triack.tools.replay.engines.local_engine import judge_records
from triack.tools.replay.log.files import parse_records
from triack.tools.replay.run import replay
from triack.tools.replay.topics.contents import Contents
from triack.tools.replay.topics.dispatch_check import too_old, up_to
from triack.tools.replay.topics.patterns import full_name, matches
from triack.tools.replay.topics.subscription_check import Subscription

# Topics: each promise has lies that break it, honest topics break none, and a missing log accuses nobody.

STRATEGIES = ["discard_none", "slowest_sub_rate", "discard_allowed"]


def busy(seed: int) -> Topics:
    """Readers that come, go, lag and stop; publishers of two names; starts of the topic's node."""
    random = Random(seed)
    world = Topics(random.choice(STRATEGIES), timeout_ns=2_000 * MS)
    begun = 0
    for _ in range(60):
        readers = list(world.readers.values())
        reader = random.choice(readers) if readers else None
        if world.strategy == "discard_allowed":
            world.discard()
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


PASSES = {
    "a topic that starts again": (
        "publish 2; take audit 15; restart; subscribe again limit=5; publish; take audit 15 redelivered=true;"
        "settle_all audit; consume audit 100"
    ),
    # The record says that the commit begins; the start after it has the messages still.
    "a commit that a crash cut off is settled again": (
        "publish; take audit 10; say settled subscription=audit ranges=[[31,40]]; restart;"
        "take audit 10 redelivered=true; settle_all audit"
    ),
}


@pytest.mark.parametrize("steps", PASSES.values(), ids=PASSES)
def test_what_is_unusual_but_right_is_accused_of_nothing(steps: str) -> None:
    verdict = verdict_of(happens(f"{steps}; stop", plain()))
    assert (verdict.verdict, verdict.findings) == ("pass", [])
    assert verdict.timeline is not None
    assert verdict.timeline.readers["beta", "Games", "audit", "Games.#"]["settled"] == verdict.sent


@pytest.mark.parametrize("node", [ALPHA, BETA])
def test_a_missing_log_accuses_nobody(node: str) -> None:
    verdict = without(plain().stop(), node)
    assert (verdict.verdict, verdict.missing, verdict.violations) == ("incomplete", [f"node {node}"], {})


def test_a_topic_without_the_log_of_its_first_start_is_accused_of_nothing() -> None:
    """A subscription may be done with what the second start finds, as another one still wants it."""
    world = happens(
        "subscribe quick durable=true; subscribe slow durable=true; publish 2; consume quick 20; restart;"
        "consume slow 20; stop",
        Topics(),
    )
    assert verdict_of(world).verdict == "pass"
    world.beta.records[:] = [record for record in world.beta.records if record["incarnation"] > 1]
    verdict = verdict_of(world)
    assert (verdict.verdict, verdict.findings, verdict.missing) == ("incomplete", [], [f"start 1 of node {BETA}"])


def test_a_message_counts_once_however_many_subscriptions_get_it() -> None:
    verdict = verdict_of(plain().stop())
    assert (verdict.sent, verdict.delivered, verdict.pending) == (30, 30, 0)


def test_the_report_says_what_each_subscription_got(tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    discarding().stop().save(tmp_path / "logs")
    page = tmp_path / "page.html"
    timeline = replay(tmp_path / "logs", engine="local", report=page).timeline
    assert timeline is not None
    told = {"given": 20, "gone": 0, "delivered": 0, "settled": 0, "pending": 10, "discarded": 10}
    assert timeline.readers["beta", "Games", "slow", "Games.#"] == told
    assert "<h2>Subscriptions</h2>" in page.read_text()


@pytest.mark.parametrize(
    ("before", "after", "left"),
    [
        ("publish cls=fast; publish", "", range(11, 21)),
        ("subscribe other durable=true; publish", "publish", range(1, 21)),
    ],
    ids=["lost its express messages", "has what was placed since"],
)
def test_a_subscription_whose_end_a_crash_undoes_has_what_is_left(before: str, after: str, left: range) -> None:
    """The process died before the commit of that end. Express messages were deleted from memory when it ended."""
    world = Topics()
    audit = world.subscribe("audit", durable=True, limit=1_000)
    happens(f"{before}; unsubscribe audit unsubscribed; {after}", world)
    world.readers["audit"], world.kept, audit.waiting = audit, {*left}, [*left]
    happens("restart; " + "; ".join(f"consume {name} 20" for name in world.readers), world)
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


COMMON = {
    "node": "a" * 32,
    "incarnation": 1,
    "n": 1,
    "wall_ns": 0,
    "at_ns": 0,
    "topic": "Games",
    "subscription": "audit",
}


def begun(ack_wait_ns: int = 0) -> tuple[Subscription, Output]:
    out = Output()
    fields = {"pattern": "Games.#", "durable": True, "after": 4, "max_unacked": 3, "ack_wait_ns": ack_wait_ns}
    subscription = Subscription(COMMON | fields, out)
    subscription.take(5, 14)
    return subscription, out


def said(first: int, last: int, at_ns: int = 1, **more: Any) -> dict[str, Any]:
    return {**COMMON, "at_ns": at_ns, "ranges": [[first, last]], "redelivered": False, "overdue": False, **more}


def checks(out: Output) -> list[str]:
    return [found.violation.check for found in out.findings]


def test_a_crash_may_undo_only_what_no_later_commit_follows() -> None:
    subscription, out = begun()
    subscription.handle_handed(said(5, 6), 14)
    subscription.handle_settled(said(5, 5, at_ns=2), 14)
    subscription.handle_settled(said(6, 6, at_ns=3), 14)
    subscription.handle_commit(3)
    subscription.restart([])
    assert subscription.handle_handed(said(5, 6, redelivered=True), 14) == [("", (5, 5))]
    assert checks(out) == []
    assert (subscription.settled, subscription.pending) == (1, 9)


def test_a_message_in_hand_comes_back_in_time() -> None:
    subscription, out = begun(ack_wait_ns=1_000)
    subscription.handle_handed(said(5, 6), 14)
    subscription.handle_returned(said(5, 5, at_ns=1_001, overdue=True))
    assert subscription.handle_time(said(5, 6, at_ns=1_002))
    assert checks(out) == []
    assert not subscription.handle_time(said(5, 6, at_ns=1_000_000_000))
    assert [(it.violation.check, it.violation.number) for it in out.findings] == [("ack_wait", 6)]


def test_a_subscription_that_stalls_takes_the_memory_of_one_range() -> None:
    subscription, _ = begun()
    for place in range(15, 100_015):
        subscription.take(place, place)
    assert (subscription.pending, len(subscription.open.firsts)) == (100_010, 1)


def test_a_late_acknowledgement_of_what_was_handed_out_again_accuses_nobody() -> None:
    """It is of the first time, or of another reader; without a first time it was in hand, and got lost."""
    subscription, out = begun()
    subscription.handle_handed(said(5, 6), 14)
    subscription.handle_returned(said(5, 5))
    subscription.handle_handed(said(5, 5, redelivered=True), 14)
    subscription.handle_late(said(5, 5))
    assert checks(out) == []
    subscription.handle_late(said(6, 6))
    assert checks(out) == ["topic_lost"]


def test_what_has_expired_for_a_durable_subscription_was_not_passed_over() -> None:
    """Although it ends before that is settled."""
    subscription, out = begun()
    subscription.handle_expired(said(5, 6, receive_by_ms=0), 14)
    subscription.handle_handed(said(7, 7), 14)
    subscription.end()
    assert checks(out) == []


# Lies about what was passed on to a subscription of another node.

Record = dict[str, Any]


def logs() -> tuple[list[list[Record]], list[Record]]:
    """The records of each start, and of the hub's: a durable subscription of another node gets thirty messages."""
    it = HubWorld("sub", settings=NodeSettings(messages_per_packet=10))
    away = it.away("sub")
    away.begin()
    it.run()
    for first in range(0, 30, 10):
        it.publish(*(b"%d" % number for number in range(first, first + 10)))
        it.settle(away)
    it.run(60)
    it.hub.send(it.nodes["sub"], "other", b"the log of the hub goes on")
    it.run()
    starts = [list(parse_records(bytes(log))) for node in it.world.made for log in node.records]
    return starts, next(start for start in starts if any(record["event"] == "passed_on" for record in start))


def told(starts: list[list[Record]]) -> set[tuple[str, str]]:
    """What is found, once serials are as a liar would have them."""
    found = judge_records([{**it, "n": serial} for start in starts for serial, it in enumerate(start, start=1)])
    return {(violation.check, violation.subscription) for violation in found}


def test_the_truth_accuses_nobody() -> None:
    assert told(logs()[0]) == set()


@pytest.mark.parametrize("event", ["passed_on", "queued"])
@pytest.mark.parametrize("which", [0, 1])
def test_a_record_that_is_missing_names_the_subscription(event: str, which: int) -> None:
    starts, hub = logs()
    mine = [record for record in hub if record["event"] == event and "topic" in record]
    hub.remove(mine[which])
    assert any(name == "sub/audit" for check, name in told(starts) if check in ("topic_lost", "topic_twice"))


def test_a_message_that_is_passed_on_twice_before_its_packet_is_found() -> None:
    """Also where the log ends soon after."""
    starts, hub = logs()
    at = max(index for index, record in enumerate(hub) if record["event"] == "passed_on")
    hub.insert(at + 1, dict(hub[at]))
    del hub[at + 2 :]
    assert ("topic_twice", "sub/audit") in told(starts)


def test_what_is_passed_on_by_a_stream_of_another_node_is_found() -> None:
    starts, hub = logs()
    passed = next(record for record in hub if record["event"] == "passed_on")
    passed["origin"] = passed["origin"][::-1]
    assert ("claims", "sub/audit") in told(starts)


def reader(pending: int, limit: int = 3) -> Subscription:
    fields = {"subscription": f"of {pending}", "pattern": "Games.#", "durable": False, "max_unacked": limit}
    subscription = Subscription({**COMMON, **fields, "after": 0, "ack_wait_ns": 0}, Output())
    subscription.take(1, pending)
    return subscription


@pytest.mark.parametrize(
    ("strategy", "pending", "most"),
    [
        ("discard_none", (0, 3), 3),
        ("discard_none", (2, 9), 1),
        ("discard_none", (3, 9), 0),
        ("discard_allowed", (2, 9), 1),
        ("slowest_sub_rate", (0, 2), 1),
        ("slowest_sub_rate", (0, 3), 0),
        ("slowest_sub_rate", (), None),
        ("discard_none", (), None),
    ],
)
def test_as_many_may_go_as_there_is_room(strategy: str, pending: tuple[int, ...], most: int | None) -> None:
    assert up_to(strategy, [reader(count) for count in pending], {}) == most


def test_what_it_gets_at_this_moment_takes_room() -> None:
    one = reader(1)
    assert up_to("discard_none", [one], {one.name: 2}) == 0


@pytest.mark.parametrize(
    ("dispatched_s", "now_s", "lost"),
    [
        ([0, 0, 0, 59], 59, []),
        ([0, 0, 0, 59], 60, [(1, 3)]),
        ([0, 1, 2, 59, 61], 61, [(1, 1), (2, 2)]),
        ([0], 61, [(1, 1)]),
    ],
)
def test_what_is_as_old_as_the_timeout_is_lost(
    dispatched_s: list[int], now_s: int, lost: list[tuple[int, int]]
) -> None:
    contents = Contents()
    for place, second in enumerate(dispatched_s, 1):
        contents.dispatch(place, place, second * SECOND)
    assert too_old(reader(len(dispatched_s)), contents, now_s * SECOND, 60 * SECOND) == lost


def filled() -> Contents:
    contents = Contents()
    contents.put(1, 10, "Chess", "recoverable")
    contents.put(11, 12, "Go", "express")
    contents.put(13, 20, "Go", "express")
    contents.next = 21
    return contents


def test_what_is_known_from_the_start_before_is_not_doubled() -> None:
    contents = filled()
    contents.put(1, 10, "Chess", "recoverable")
    assert list(contents.named(1, 20)) == [(1, 10, "Chess"), (11, 20, "Go")]
    contents.put(18, 24, "Go", "express")
    assert list(contents.named(1, 30)) == [(1, 10, "Chess"), (11, 24, "Go")]


def test_each_message_knows_when_it_was_dispatched() -> None:
    contents = filled()
    for first, last, at_ns in ((1, 4, 7), (5, 8, 7), (9, 20, 30)):
        contents.dispatch(first, last, at_ns)
    assert list(contents.dates(3, 9)) == [(3, 8, 7), (9, 9, 30)]
    assert contents.dispatched == 20


def test_express_messages_end_with_their_process() -> None:
    contents = filled()
    assert contents.restart() == [(11, 20)]
    assert list(contents.kept) == [(1, 10)]


@pytest.mark.parametrize(
    ("pattern", "name", "does"),
    [
        ("Games.Cricket", "Games.Cricket", True),
        ("Games.Cricket", "Games.Cricket.Scores", False),
        ("Games.*", "Games.Cricket", True),
        ("Games.*", "Games", False),
        ("Games.*", "Games.Cricket.Scores", False),
        ("Games.*.Scores", "Games.Cricket.Scores", True),
        ("Games.#", "Games", True),
        ("Games.#", "Games.Cricket.Scores", True),
        ("Games.#", "Gamesome.Cricket", False),
        ("*.Cricket.#", "Games.Cricket", True),
        ("#", "Games.Cricket", True),
        ("*", "Games", True),
    ],
)
def test_a_pattern_matches_level_by_level(pattern: str, name: str, does: bool) -> None:
    assert matches(pattern, name) is does


def test_a_name_begins_with_its_topic() -> None:
    assert full_name("Games", "") == "Games"
    assert full_name("Games", "Cricket.Scores") == "Games.Cricket.Scores"
