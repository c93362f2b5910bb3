"""What records say, a row for each range."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tools.replay.builder import BETA, PER_PACKET, healthy
from tests.tools.replay.topic_faults import plain
from triack.tools.replay.log.files import find_logs, read_records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_an_ack_is_a_row_for_each_range(spark: "SparkSession", tmp_path: Path) -> None:
    """And a burst has its first and its last number."""
    from triack import replay
    from triack.tools.replay.tables.facts import FACTS

    healthy().save(tmp_path)
    written = [record for log in find_logs([tmp_path]) for record in read_records(log) if record["node"] == BETA]
    records = replay.load(spark, str(tmp_path)).where(f"node = '{BETA}'").cache()
    sent = [record for record in written if record["event"] == "ack_sent"]
    expected = [[1, it["cumulative"]] for it in sent if it["cumulative"]] + [
        span for it in sent for span in it["ranges"]
    ]
    rows = FACTS["acks"](records).where("ack = 'session' and direction = 'sent'").select("first", "last").collect()
    assert sorted(map(list, rows)) == sorted(expected)
    arrived = [it for it in written if it["event"] == "packet_received" and "stream" in it]
    spans = FACTS["packets"](records).where("stream is not null").select("first", "last", "messages").collect()
    assert sorted(map(tuple, spans)) == sorted(
        (it["number"], it["number"] + it["packets"] - 1, sum(p * m for p, m in it["counts"])) for it in arrived
    )


def test_what_topics_did_has_its_subscription_and_its_places(spark: "SparkSession", tmp_path: Path) -> None:
    """So that each hand-over joins what arrived there."""
    from triack import replay
    from triack.tools.replay.tables.facts import FACTS

    world = plain()
    world.say("subscription_suspended", subscription="slow")
    world.stop().save(tmp_path)
    records = replay.load(spark, str(tmp_path)).cache()
    placed = FACTS["placements"](records).select("name", "place_first", "place_last", "messages").collect()
    assert [tuple(row) for row in placed] == [
        ("Games.Chess", 1 + at * PER_PACKET, (at + 1) * PER_PACKET, PER_PACKET) for at in range(3)
    ]
    handed = FACTS["deliveries"](records).where("delivery = 'handed' and subscription = 'audit'")
    assert [tuple(row) for row in handed.select("topic", "place", "messages", "first").collect()] == [
        ("Games", 1 + at * PER_PACKET, PER_PACKET, None) for at in range(3)
    ]
    given = FACTS["dispatches"](records).where("change = 'assigned'").groupBy("subscription").sum("messages").collect()
    assert sorted(map(tuple, given)) == [("quick", 3 * PER_PACKET), ("slow", 3 * PER_PACKET)]
    changes = FACTS["subscriptions"](records).where("subscription = 'slow'").select("change", "pattern").collect()
    assert [tuple(row) for row in changes] == [("subscribed", "Games.#"), ("suspended", None)]


def test_each_range_has_the_priority_of_its_messages(spark: "SparkSession", tmp_path: Path) -> None:
    """That of its class, where the record leaves it out."""
    from triack import replay
    from triack.tools.replay.tables.facts import FACTS

    healthy().save(tmp_path)
    records = replay.load(spark, str(tmp_path)).cache()
    queued = FACTS["commits"](records).where("change = 'queued'").select("class", "priority").distinct().collect()
    assert {tuple(row) for row in queued} <= {("transactional", 0), ("recoverable", 3), ("express", 3)}
    assert queued
    moved = FACTS["commits"](records).where("change not in ('queued', 'committed') and priority is not null")
    assert not moved.count()


def test_facts_need_no_column_but_those_that_are_read(spark: "SparkSession") -> None:
    """Spark refuses an expression of any other, also when there are no rows."""
    from triack.replay.records import TABLE
    from triack.tools.replay.tables.facts import FACTS, READ

    nothing = spark.createDataFrame([], TABLE).select(*READ)
    for make in FACTS.values():
        assert make(nothing).columns
