"""What records say, a row for each range."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from proof.lies.logs import honest_files, wide_files
from tests.tools.replay.builder import BETA, PER_PACKET, World, healthy
from tests.tools.replay.faults import rename
from tests.tools.replay.harmless import HARMLESS
from tests.tools.replay.judging import plant, verdict_of
from tests.tools.replay.relays import RELAY_FAULTS, Relayed
from tests.tools.replay.topic_faults import plain
from triack.tools.replay.engines.local_engine import replay_local
from triack.tools.replay.judges.conclusion import Read
from triack.tools.replay.log.files import find_logs, read_records
from triack.tools.replay.log.schema import Verdict
from triack.tools.replay.tables.counts import EVENTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_an_ack_is_a_row_for_each_range(spark: "SparkSession", tmp_path: Path) -> None:
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


def test_sessions_that_failed_are_those_that_the_judges_count(spark: "SparkSession", tmp_path: Path) -> None:
    """A row for each end; a session that failed at both ends failed once."""
    from triack import replay
    from triack.tools.replay.tables.facts import FACTS
    from triack.tools.replay.tables.summaries import summarize

    world = healthy()
    world.save(tmp_path)
    records = replay.load(spark, str(tmp_path)).cache()
    made = summarize({name: make(records) for name, make in FACTS.items()})
    sessions = made["sessions"].collect()
    opened = [record for log in world.logs for record in log.all("session_opened")]
    assert len(sessions) == len(opened)
    verdict = replay_local(find_logs([tmp_path]))
    assert len({it.session for it in sessions if it.failed}) == verdict.sessions_closed
    assert made["nodes"].where("stopped").count() == sum(len(log.all("node_stopped")) for log in world.logs)
    outages = made["outages"].collect()
    lost = {(it.node, it.session) for it in sessions if it.reason in ("ack-timeout", "path-lost")}
    assert lost
    assert lost <= {(it.node, it.session) for it in outages}
    assert all(it.since_wall_ns < it.until_wall_ns for it in outages if it.until_wall_ns)


# The second count: as the judges count, in every log that they pass; and against them when they are wrong.


def save_honest(directory: Path) -> None:
    """Logs that the judges pass: hand-made ones, and of real nodes with losses, kills, restarts, expiry and relays."""
    worlds: list[World] = [Relayed(), *(make() for make in HARMLESS.values())]
    for at, world in enumerate(worlds, start=1):
        if verdict_of(world).verdict == "pass":
            rename(world, f"{at:04x}").save(directory, number=False)
    # A run with wide windows has its seed's ids, too, so each seed is there once.
    for seed, files in {**dict(honest_files(8)), **dict(wide_files(2))}.items():
        run = directory / f"seed{seed}"
        run.mkdir()
        for name, content in files.items():
            (run / Path(name).name).write_bytes(content)
        if replay_local(find_logs([run])).verdict != "pass":
            shutil.rmtree(run)


def test_the_records_of_all_files_of_a_task_are_packed_together(spark: "SparkSession", tmp_path: Path) -> None:
    """By their events: packed file by file, eight segments had many times as many batches."""
    from triack.tools.replay.engines.spark_engine import COUNTED, deal_files
    from triack.tools.replay.engines.spark_files import list_files, tabulate_files

    healthy().save(tmp_path)
    logs = find_logs([tmp_path])
    events = {record["event"] for log in logs for record in read_records(log)} & set(EVENTS)
    files = tabulate_files(spark, list_files(spark, [str(tmp_path)])).coalesce(1)
    assert len(logs) == 8
    assert deal_files(files, 1).where(f"kind = '{COUNTED}'").count() == len(events)


@pytest.mark.parametrize("few_bytes", [0, 1 << 30])
def test_two_counts_of_every_honest_log_agree(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few_bytes: int
) -> None:
    """By one task as small logs are, and by many, which weigh packets only where a sequence is not as it should be."""
    from triack.tools.replay.engines import spark_engine

    monkeypatch.setattr(spark_engine, "COUNTED_BYTES", few_bytes)
    save_honest(tmp_path)
    local, judged = replay_local(find_logs([tmp_path])), spark_engine.replay_spark(spark, [str(tmp_path)])
    assert (local.verdict, judged.verdict, judged.violations) == ("pass", "pass", {})
    assert local.sent > 1_000
    assert local.resends > 100


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("committed_twice", "duplicates delivered: the judges count 0, Spark's expressions 10"),
        ("order_ack_too_early", "acked early: the judges count none, Spark's expressions 4"),
    ],
)
def test_a_judge_that_is_blind_is_found_out(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, said: str
) -> None:
    """Whatever the judges and their planted lies agree on wrongly: here a judge finds nothing at all."""
    from triack.tools.replay.engines import spark_engine
    from triack.tools.replay.engines.spark_conclusion import verdict_in

    plant(fault)[0].save(tmp_path)

    def blind(concluded: "DataFrame") -> tuple[Verdict, list[Read]]:
        verdict, read = verdict_in(concluded)
        verdict.violations, verdict.findings, verdict.duplicates_delivered = {}, [], 0
        return verdict, read

    monkeypatch.setattr(spark_engine, "verdict_in", blind)
    judged = spark_engine.replay_spark(spark, [str(tmp_path)])
    assert judged.verdict == "fail"
    assert said in [it.evidence for it in judged.findings if it.check == "engines_disagree"]


def test_messages_that_a_relay_takes_out_of_packets_are_seen_by_both(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where packets are weighed only if something is odd about their sequence."""
    from triack.tools.replay.engines import spark_engine
    from triack.tools.replay.tables.counts import disagreements

    monkeypatch.setattr(spark_engine, "COUNTED_BYTES", 0)
    world = Relayed()
    RELAY_FAULTS["messages_taken_out_of_a_packet_at_a_relay"](world)
    world.number()
    world.save(tmp_path)
    verdict = spark_engine.replay_spark(spark, [str(tmp_path)])
    assert (verdict.verdict, set(verdict.violations), verdict.counted["changed"]) == ("fail", {"claims"}, 1)
    assert verdict.findings == replay_local(find_logs([tmp_path])).findings
    verdict.violations.clear()
    assert disagreements(verdict, verdict.counted) == ["changed: the judges count none, Spark's expressions 1"]


def test_of_other_verdicts_the_counts_are_told(spark: "SparkSession", tmp_path: Path) -> None:
    """Broken logs, and logs of one side alone; a difference accuses nobody then."""
    from triack.tools.replay.engines.spark_engine import replay_spark

    plant("committed_twice")[0].save(tmp_path / "broken")
    broken = replay_spark(spark, [str(tmp_path / "broken")])
    assert broken.verdict == "fail"
    assert broken.counted["duplicates_delivered"] == broken.duplicates_delivered == 10
    assert "engines_disagree" not in broken.violations
    healthy().save(tmp_path)
    shutil.rmtree(tmp_path / "beta")
    alone = replay_spark(spark, [str(tmp_path / "alpha")])
    assert (alone.verdict, alone.counted["sent"]) == ("incomplete", alone.sent)
    assert alone.counted["delivered"] == 0


def test_a_range_that_cannot_be_true_is_not_written_out(spark: "SparkSession", tmp_path: Path) -> None:
    """Spark would make a row for each stretch of it."""
    from triack import replay
    from triack.tools.replay.tables.counts import COLUMNS, is_countable

    plant("committed_twice")[0].save(tmp_path)
    records = replay.load(spark, str(tmp_path), columns=COLUMNS)
    assert is_countable(records)
    assert not is_countable(records.withColumn("last", records["first"] + (1 << 40)))
