"""The tables of docs/tables.md: of logs, and as files that a run adds to."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from tests.tools.replay.builder import ALPHA, BETA, MS, PER_PACKET, World, healthy, place, write_closed
from tests.tools.replay.relays import RHO, TX, Relayed
from tests.tools.replay.telling import happens
from triack.base.errors import ReplayError
from triack.tools.chaos.run import run_seed
from triack.tools.commands import watching
from triack.tools.commands.log import log
from triack.tools.replay.engines.local_engine import replay_local
from triack.tools.replay.log.files import find_logs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

RELAYED, TOPICS = 1_000_001, 2_000_002
"""Seeds of the simulated world in which packets are lost."""


def rows_of(table: "DataFrame") -> list[str]:
    """The rows of a table, without where its files are."""
    names = sorted(set(table.columns) - {"batch", "day"})
    return sorted(map(repr, table.select(*names).collect()))


def test_the_sums_of_the_tables_are_those_of_the_verdict(spark: "SparkSession", tmp_path: Path) -> None:
    from triack import replay

    healthy().save(tmp_path)
    verdict = replay_local(find_logs([tmp_path]))
    tables = replay.tables(replay.load(spark, str(tmp_path)).cache())
    assert set(tables) >= {
        "segments", "nodes", "sessions", "packets", "acks", "commits", "deliveries", "streams", "queues", "links",
        "resends", "violations",
    }  # fmt: skip
    (sums,) = tables.queues.selectExpr("sum(sent) sent", "sum(delivered) delivered", "sum(pending) pending").collect()
    assert (sums.sent, sums.delivered, sums.pending) == (verdict.sent, verdict.delivered, verdict.pending)
    assert tables.segments.selectExpr("sum(records)").first() == (verdict.records,)
    assert tables.nodes.count() == verdict.starts
    assert {(it.node, it.peer) for it in tables.links.collect()} == {(ALPHA, BETA), (BETA, ALPHA)}
    assert tables.violations.count() == 0
    with pytest.raises(AttributeError, match="no table 'queue'; there are segments,"):
        tables.queue  # noqa: B018


def test_the_command_says_how_far_it_is(spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del spark  # the command takes the one that is open
    monkeypatch.setattr(watching, "PLAIN_S", 0)
    healthy().save(tmp_path / "logs")
    result = CliRunner().invoke(log, ["tables", str(tmp_path / "logs"), "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert re.fullmatch(r"writing tables: step \d+, [\d,]+ of its [\d,]+ tasks done", result.stderr.splitlines()[0])


def test_a_run_with_nothing_new_needs_no_spark(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which takes longer to start than to see that; what has grown is for Spark."""
    del spark
    healthy().save(tmp_path / "logs")
    command = ["tables", str(tmp_path / "logs"), "--out", str(tmp_path / "out")]
    assert CliRunner().invoke(log, command).exit_code == 0
    monkeypatch.setattr("triack.tools.replay.run.on_spark", None)
    again = CliRunner().invoke(log, command)
    assert (again.exit_code, again.stdout) == (0, "0 files new or grown: 0 records, 0 violations in all\n")
    with max((tmp_path / "logs").rglob("*.open")).open("a") as grown:
        grown.write("\n")
    assert isinstance(CliRunner().invoke(log, command).exception, TypeError)


def test_every_table_is_the_same_of_a_frame_that_is_not_cached(spark: "SparkSession", tmp_path: Path) -> None:
    """Of runs with losses, relays and topics: each table reads the logs anew, some of them several times."""
    from triack import replay

    for seed in (RELAYED, TOPICS):
        for name, content in run_seed(seed).logs.items():
            (tmp_path / f"{seed}-{name}").write_bytes(content)
    records = replay.load(spark, str(tmp_path))
    plain, cached = replay.tables(records), replay.tables(replay.load(spark, str(tmp_path)).cache())
    assert set(plain) == set(cached)
    for name in cached:
        assert rows_of(plain[name]) == rows_of(cached[name]), name
    used = {row.change for row in cached["commits"].select("change").distinct().collect()}
    assert used >= {"queued", "relayed", "committed"}
    assert not any(cached[name].isEmpty() for name in ("placements", "dispatches", "resends", "outages"))


def test_a_run_adds_what_is_new_and_a_run_that_died_is_made_again(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a segment that has grown and was renamed, the records behind those that are there."""
    from triack import replay

    logs, out, whole = tmp_path / "logs", tmp_path / "out", tmp_path / "whole"
    healthy().save(whole)
    for file in sorted(whole.rglob("*.jsonl*")):
        part = logs / file.relative_to(whole)
        part.parent.mkdir(parents=True, exist_ok=True)
        if file.name.endswith(".open"):
            part.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:5]))
        else:
            part.write_bytes(file.read_bytes())
    first = replay.write(spark, [str(logs)], str(out))
    assert first.files == len(list(logs.rglob("*.jsonl*")))
    for part in logs.rglob("*.open"):
        part.with_suffix("").write_bytes((whole / part.relative_to(logs)).read_bytes())
        part.unlink()
    with monkeypatch.context() as dying:
        dying.setattr("triack.replay.table_set._FILES", "no schema")
        with pytest.raises(Exception, match="UNSUPPORTED_DATATYPE"):
            replay.write(spark, [str(logs)], str(out))
    second = replay.write(spark, [str(logs)], str(out))
    assert second.records == replay_local(find_logs([whole])).records - first.records
    streams = replay.read_tables(spark, str(out)).streams
    files = {*out.glob("*/*.parquet")}
    assert replay.write(spark, [str(logs)], str(out)) == (0, 0, second.violations)
    assert files == {*out.glob("*/*.parquet")}
    assert streams.count() > 0
    kept, fresh = replay.read_tables(spark, str(out)), replay.tables(replay.load(spark, str(logs)).cache())
    for name in ("nodes", "sessions", "packets", "acks", "commits", "deliveries", "streams", "queues", "links"):
        assert [row.replace(".open'", "'") for row in rows_of(kept[name])] == rows_of(fresh[name])


def test_tables_of_another_version_are_refused(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from triack import replay

    healthy().save(tmp_path / "logs")
    rows = [("a", 1, 0)]
    spark.createDataFrame(rows, "file string, size_bytes bigint, version int").write.parquet(
        str(tmp_path / "out/files/batch=0")
    )
    with pytest.raises(ReplayError, match="has tables of version 0, and this Triack writes 3: name another directory"):
        replay.write(spark, [str(tmp_path / "logs")], str(tmp_path / "out"))


def test_tables_among_the_logs_are_refused(spark: "SparkSession", tmp_path: Path) -> None:
    """The next replay would find files that look like logs, and are none."""
    from triack import replay

    healthy().save(tmp_path)
    with pytest.raises(ReplayError, match=f"{tmp_path}/alpha/out is within {tmp_path}, where a replay would take"):
        replay.write(spark, [str(tmp_path)], str(tmp_path / "alpha" / "out"))
    assert not (tmp_path / "alpha" / "out").exists()


def test_the_code_of_the_page(spark: "SparkSession", tmp_path: Path) -> None:
    """Each block of it runs, one behind the other, on logs of nodes that had lost each other for a while."""
    healthy().save(tmp_path / "logs")
    page = (Path(__file__).parents[3] / "docs/tables.md").read_text()
    # Spark's workers may have another working directory than this test.
    page = page.replace('"logs"', repr(str(tmp_path / "logs"))).replace('"tables")', f"{str(tmp_path / 'tables')!r})")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    known: dict[str, object] = {"spark": spark}
    for block in blocks[:-1]:
        exec(block, known)
    from triack import replay

    replay.write(spark, [str(tmp_path / "logs")], str(tmp_path / "tables"))
    exec(blocks[-1], known)
    assert len(blocks) == 8


def answer(spark: "SparkSession", question: str) -> list[tuple[object, ...]]:
    """What the query of the page behind a question finds, all of it: which of equals a limit leaves out is open."""
    page = (Path(__file__).parents[3] / "docs/tables.md").read_text()
    query = re.search(re.escape(question) + r'.*?spark\.sql\("""(.*?)"""\)', page, re.DOTALL)
    assert query is not None
    return [tuple(row) for row in spark.sql(query[1].removesuffix(" limit 5")).collect()]


def test_the_questions_of_the_page_are_answered_for_each_hop_and_session(spark: "SparkSession", tmp_path: Path) -> None:
    """Beta is slow, and a tier of the sequence runs out in one of two sessions of a start."""
    from triack import replay

    world = Relayed()
    world.deliver(TX, 2)
    tier = {"cls": TX, **place(TX), "first": 1, "last": 2, "attempt": 1, "interval_ns": 1}
    world.alpha.write("resend_scheduled", **tier)
    with_tier, world.first = world.first.session, world.hop(world.alpha, world.rho)
    world.deliver(TX, 1)
    for record in world.beta.all("packet_received"):
        record["wall_ns"] += 4 * MS
    world.number()
    world.save(tmp_path)
    replay.tables(replay.load(spark, str(tmp_path)).cache()).register()
    assert answer(spark, "How long did each hop take") == [(RHO, BETA, 5.0), (ALPHA, RHO, 1.0)]
    resent = {(row[0], row[1]): row[-1] for row in answer(spark, "Which session resent most") if row[0] == ALPHA}
    assert resent == {(ALPHA, with_tier): 1, (ALPHA, world.first.session): 0}


def away_of(world: World, spark: "SparkSession", logs: Path) -> list[tuple[object, ...]]:
    """What waited while beta was away, which its peers call b: why it was, the packets, and seconds."""
    from triack import replay

    for record in world.beta.all("node_started"):
        record["name"] = "b"
    world.number()
    world.save(logs)
    replay.tables(replay.load(spark, str(logs)).cache()).register()
    return [(row[1], *row[4:]) for row in answer(spark, "Which messages waited while a peer was away")]


def test_what_waited_while_a_peer_was_stopped_in_good_order(spark: "SparkSession", tmp_path: Path) -> None:
    """Two packets had come before; of the others one was queued 60 s before the peer came back, and one meanwhile."""
    world = happens(
        "deliver tx 2; queue tx 1; close; beta.end; wait 30000; queue tx 1; wait 30000; beta start; open; send tx 3-4;"
        "commit tx 3-4; queue tx 1; end"
    )
    stopped_ns, back_ns = world.beta.one("node_stopped")["wall_ns"], world.beta.all("node_started")[1]["wall_ns"]
    queued_ns = world.alpha.one("queued", first=4)["wall_ns"]
    assert away_of(world, spark, tmp_path) == [
        ("stopped", 3, 3, PER_PACKET, pytest.approx((back_ns - stopped_ns) / 1e9)),
        ("stopped", 4, 4, PER_PACKET, pytest.approx((back_ns - queued_ns) / 1e9)),
        # It has stopped once more, and not come back.
        ("stopped", 5, 5, PER_PACKET, None),
    ]


def test_what_waited_at_a_relay_while_the_peer_behind_it_was_away(spark: "SparkSession", tmp_path: Path) -> None:
    """The relay has the packet long before; a killed peer is told of twice, as its session failed, too."""
    world = Relayed()
    happens("deliver tx 2; bring tx 1; wait 3000", world)
    write_closed(world.rho, world.second.session, BETA, "b", "ack-timeout")
    happens("wait 3000; beta start; call second rho beta; pass_on tx 3", world)
    for record in world.rho.all("session_opened", peer=BETA):
        record["peer_name"] = "b"
    found = away_of(world, spark, tmp_path)
    assert [(why, first, messages) for why, first, _, messages, _ in found] == [
        ("killed", 3, PER_PACKET), ("ack-timeout", 3, PER_PACKET),
    ]  # fmt: skip
    assert found[0][-1] == pytest.approx(6, abs=0.1)
    assert found[1][-1] == pytest.approx(3, abs=0.1)


def test_a_timestamp_follows_each_wall_time_and_days_are_those_of_utc(
    spark: "SparkSession", records: "DataFrame", tmp_path: Path
) -> None:
    """Whatever time zone the session shows timestamps in: here one in which another day has begun."""
    from triack import replay
    from triack.replay.table_set import append

    healthy().save(tmp_path / "logs")
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Pacific/Auckland")
    try:
        append(spark, [str(tmp_path / "logs")], str(tmp_path / "tables"))
        made, kept = replay.tables(records), replay.read_tables(spark, str(tmp_path / "tables"))
        for table, wall in ((made.packets, ""), (kept.packets, ""), (made.sessions, "opened_")):
            same = f"unix_micros({wall}timestamp) = {wall}wall_ns div 1000"
            assert table.count() == table.where(same).count() > 0
        assert [row["day"].isoformat() for row in kept.packets.select("day").distinct().collect()] == ["2023-11-14"]
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))


def test_the_page_has_every_table_and_column(spark: "SparkSession", records: "DataFrame") -> None:
    from triack import replay

    page = (Path(__file__).parents[3] / "docs/tables.md").read_text()
    tables = replay.tables(records)
    for name in set(tables) - {"violations", "starts", "openings"}:
        (row,) = (line for line in page.splitlines() if line.startswith(f"| `{name}` |"))
        named = set(re.findall(r"`(\w+)`", row)) | {"node", "start", "n", "at_ns", "wall_ns", "file", "line", "peer"}
        named |= {"origin", "stream", "sequence", "session", "queue", "peer_name", *messages_of(name)}
        named |= {it.replace("wall_ns", "timestamp") for it in named}
        assert set(tables[name].columns) <= named, name


def messages_of(name: str) -> set[str]:
    """Columns of a table that its row calls those of another one."""
    ends = {"delivered", "pending", "dead", "purged", "unkept", "lost"}
    streams = {"sent", "unqueued", *ends, "dead_delivered", "duplicates_delivered", "out_of_order"}
    sessions = {
        "sent_packets", "resent_packets", "received_packets", "duplicate_packets", "sent_bytes", "received_bytes",
    }  # fmt: skip
    return {"queues": streams, "links": sessions}.get(name, set())
