"""The tables of the page: their sums are the verdict's numbers, whatever happened and whatever is missing."""

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from proof.lies.logs import honest_logs
from tests.tools.replay.builder import ALPHA, BETA, World, healthy, ready
from tests.tools.replay.cutting import cut, judged, past_of, random_cuts
from tests.tools.replay.judging import PLANTED, plant, verdict_of
from tests.tools.replay.relays import through_relay
from tests.tools.replay.telling import happens
from tests.tools.replay.topic_logs import Topics
from triack.tools.chaos.run import run_seed
from triack.tools.replay.log.schema import SessionLine, StartLine, Timeline, Verdict
from triack.tools.replay.report.outages import outages_of, sessions_of
from triack.tools.replay.report.page_tables import ROWS_MAX, Table, delays_of, tables_of
from triack.tools.replay.run import replay

TX = "transactional"
COUNTS = ("sent", "unqueued", "delivered", "pending", "purged", "dead_delivered", "unkept", "lost")
SEEDS = (3, 5, 1_000_003, 1_000_011)
"""Of the simulated world: restarts, failed sessions and express; relays, and more of all that."""


def tables(verdict: Verdict) -> dict[str, Table]:
    timeline = verdict.timeline or Timeline()
    sessions = sessions_of(timeline)
    return tables_of(verdict, timeline, sessions, outages_of(timeline, sessions))


def assert_adds_up(verdict: Verdict) -> None:
    """See that every number of the verdict that a table has parts of is the sum of these."""
    found = tables(verdict)
    for names, account in ((("queues", "streams"), verdict), (("system", "system_streams"), verdict.system)):
        for name in names:
            sums = {what: found[name].sums.get(what, 0) for what in (*COUNTS, "dead")}
            assert sums == {"dead": account.dead_sum, **{what: getattr(account, what) for what in COUNTS}}, name
            added = {what: sum(row.get(what) or 0 for row in found[name].rows) for what in sums}
            assert added == sums
            for row in (*found[name].rows, found[name].sums):
                assert_row_adds_up(row)
    links, pairs, nodes = found["links"].sums, found["pairs"].sums, found["nodes"].sums
    assert links.get("resends", 0) == verdict.resends
    assert links.get("duplicates", 0) + links["duplicates_by_streams"] == verdict.duplicates_on_wire
    assert pairs.get("counted", 0) == verdict.sessions_closed
    assert nodes.get("records", 0) == sum(verdict.files.values() or [nodes.get("records", 0)]) == verdict.records
    for row in found["readers"].rows:
        ends = [row[what] for what in ("read", "expired", "taken_out", "pending", "discarded", "gone")]
        assert row["given"] == sum(ends) == sum(map(abs, ends)), row
    for table in found.values():
        assert " not the verdict's" not in table.says


def assert_row_adds_up(row: dict[str, Any]) -> None:
    """See that all that was sent is in one of the other columns; what is in two of them is in a column of its own."""
    known = Counter({what: value for what, value in row.items() if isinstance(value, int)})
    ends = sum(known[what] for what in ("delivered", "pending", "dead", "purged", "unkept", "lost"))
    assert known["sent"] + known["unqueued"] + known["dead_delivered"] == ends, row


def summed(world: World) -> tuple[Verdict, dict[str, Table]]:
    """The verdict on a world, and its tables, of which each number is seen to add up."""
    verdict = verdict_of(world)
    assert_adds_up(verdict)
    return verdict, tables(verdict)


def test_a_table_of_nothing_adds_up() -> None:
    nothing = Verdict(timeline=Timeline())
    assert_adds_up(nothing)
    assert [table for table in tables(nothing).values() if table.rows] == []


@pytest.mark.slow
def test_sums_are_the_verdicts_with_each_planted_fault() -> None:
    """Messages of topics, too: what a subscription is done with was read, or has its reason."""
    for name in PLANTED:
        summed(plant(name)[0])


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_sums_are_the_verdicts_after_restarts_over_relays_and_of_a_cut_log(tmp_path: Path, seed: int) -> None:
    """Of whole logs, of logs of which one ends in its middle, and without that one."""
    for name, content in run_seed(seed).logs.items():
        (tmp_path / name).write_bytes(content)
    assert_adds_up(replay(tmp_path, engine="local"))
    logs = sorted(tmp_path.iterdir())
    cut = logs[len(logs) // 2]
    lines = cut.read_bytes().splitlines(keepends=True)
    cut.write_bytes(b"".join(lines[: len(lines) // 2]))
    assert_adds_up(replay(tmp_path, engine="local"))
    cut.unlink()
    assert_adds_up(replay(tmp_path, engine="local"))


@pytest.mark.slow
def test_sums_are_the_verdicts_after_a_prune() -> None:
    """What was removed is in them, too, wherever the logs were cut."""
    for seed, log in honest_logs(3):
        records = [record for start in log.values() for record in start]
        removed, left = cut(records, random_cuts(log, Random(seed)))
        verdict = judged(left, past_of(removed))
        assert_adds_up(verdict)
        whole = judged([*removed, *left])
        for name in ("queues", "streams", "pairs"):
            assert tables(verdict)[name].sums == {**tables(whole)[name].sums, **_of_what_is_left(verdict, name)}, name


def _of_what_is_left(verdict: Verdict, name: str) -> dict[str, object]:
    """How long messages have waited is not in a summary."""
    sums = tables(verdict)[name].sums
    return {"waits_ns": sums["waits_ns"]} if "waits_ns" in sums else {}


def last_queued_ns(world: World) -> int:
    return int(world.alpha.all("queued", cls=TX)[-1]["wall_ns"])


def test_what_waits_says_whose_it_is_and_for_how_long() -> None:
    """Six are queued for beta's queue; nothing of them has left."""
    world = healthy()
    world.queue(TX, 6)
    world.end()
    verdict, found = summed(world)
    last = max(record["wall_ns"] for log in world.logs for record in log.records)
    waits = (ALPHA, BETA, TX, verdict.pending, last - last_queued_ns(world))
    assert [
        it for it in rows_of(found["streams"], "origin_id", "destination_ids", "class", "pending", "waits_ns") if it[3]
    ] == [waits]


def test_acknowledged_messages_of_a_destination_without_a_log_are_explained() -> None:
    """They are pending, and nobody waits for them; what is not acknowledged waits. It has the name that alpha gives."""
    world = healthy()
    world.queue(TX, 6)
    world.beta.records.clear()
    verdict, found = summed(world)
    streams = found["streams"]
    assert {row["destination"] for row in streams.rows} == {"b"}
    assert 0 < streams.sums["acknowledged"] < verdict.pending
    assert "the log that would show them delivered is missing" in streams.says
    (row,) = [row for row in streams.rows if row["class"] == TX]
    assert (row["pending"] - row["acknowledged"], row["since_ns"]) == (60, last_queued_ns(world))


def test_delivered_messages_of_an_origin_without_a_log_are_explained() -> None:
    world = healthy()
    world.alpha.records.clear()
    verdict, found = summed(world)
    assert found["streams"].sums["unqueued"] == verdict.delivered > 0
    assert "of which no record shows that they were sent" in found["streams"].says
    assert "unqueued" in labels(found["streams"])


def test_express_messages_are_in_the_rows_and_add_up_too() -> None:
    world = healthy()
    express = sum(record["count"] for record in world.beta.all("committed", cls="express"))
    rows = rows_of(tables(verdict_of(world))["streams"], "class", "sent", "delivered")
    assert [row for row in rows if row[0] == "express"] == [("express", express, express)]


def rows_of(table: Table, *names: str) -> list[tuple[object, ...]]:
    return [tuple(row[name] for name in names) for row in table.rows]


def labels(table: Table) -> set[str]:
    return {column.name for column in table.columns}


def test_a_queue_has_a_row_for_each_priority_if_several_were_used() -> None:
    """The highest first. A transactional message has 0, a recoverable one 3; one more stream has 7."""
    world = ready()
    world.deliver("recoverable", 3)
    before = tables(verdict_of(world))
    assert before["priorities"].rows == []
    assert rows_of(before["queues"], "queue", "sent", "handed") == [("orders", 30, 30)]
    world.deliver(TX, 2)
    _, after = summed(world)
    assert "priority" not in labels(after["queues"])
    assert rows_of(after["queues"], "queue", "sent", "delivered", "handed") == [("orders", 50, 50, 50)]
    of_each = rows_of(after["priorities"], "queue", "priority", "sent", "delivered", "handed")
    assert of_each == [("orders", 3, 30, 30, 30), ("orders", 0, 20, 20, 20)]


def test_the_numbers_of_a_subscription_add_up() -> None:
    """Both get all ten messages: one has read six and has one in hand again, the other was handed none."""
    world = happens(
        "subscribe quick durable=true; subscribe slow durable=true; publish; consume quick 6; take quick 1;"
        "give_back quick; take quick 1 redelivered=true",
        Topics(),
    )
    _, found = summed(world)
    assert rows_of(found["queues"], "queue", "topic", "sent", "delivered") == [("topic:Games", "Games", 10, 10)]
    names = ("given", "read", "expired", "taken_out", "pending", "discarded", "gone", "handed", "again")
    assert rows_of(found["readers"], "subscription", *names) == [
        ("quick", 10, 6, 0, 0, 4, 0, 0, 7, 1),
        ("slow", 10, 0, 0, 0, 10, 0, 0, 0, 0),
    ]
    assert not {"expired", "taken_out", "discarded"} & labels(found["readers"])


def test_an_outage_below_a_second_is_apart() -> None:
    stood = [StartLine("a", 1, 0, 9_000_000_000, stopped=True, records=5, stood=[(0, 999), (10, 2_000_000_010)])]
    found = tables(Verdict(records=5, timeline=Timeline(starts=stood)))
    assert [row["lasted_ns"] for row in found["outages"].rows] == [2_000_000_000]
    assert [row["lasted_ns"] for row in found["short_outages"].rows] == [999]


def test_each_queue_has_its_latency() -> None:
    """All that was delivered was measured, or the table says that it was not: crashes took three records of it."""
    world = ready()
    world.deliver(TX, 8)
    latency = tables(verdict_of(world))["latency"]
    assert [row["measured"] for row in latency.rows] == [latency.sums["measured"]] == [80]
    assert latency.says == "All 80 that were delivered were measured."
    after = tables(verdict_of(healthy()))["latency"]
    assert after.says.startswith("1,500 messages were delivered, 1,470 were measured: of the others no record shows")


def test_percentiles_are_at_most_the_slowest() -> None:
    told = delays_of({0: 90, 96: 10}, longest_ns=1_010_000)
    assert (told["measured"], told["slowest_ns"]) == (100, 1_010_000)
    assert told["median_ns"] == told["p90_ns"] == pytest.approx(1_075, rel=0.01)
    assert told["p99_ns"] == told["p999_ns"] == 1_010_000


def test_a_relay_says_for_how_long_packets_stayed() -> None:
    _, found = summed(through_relay())
    rows = found["ways"].rows
    assert {(row["way"], row["relay"]) for row in rows} == {("alpha → rho → beta", "rho")}
    assert all(row["packets"] > 0 and 0 < row["median_ns"] <= row["p99_ns"] for row in rows)


def test_a_restart_is_told_apart_from_a_failure() -> None:
    starts = [StartLine("b", 1, 0, 10, stopped=False, records=5), StartLine("b", 2, 20, 90, stopped=True, records=4)]
    lines = [SessionLine("a", "s1", 1, 21, "superseded", "b"), SessionLine("a", "s2", 30, 60, "path-lost", "b")]
    found = tables(Verdict(sessions_closed=2, records=9, timeline=Timeline(sessions=lines, starts=starts)))
    assert rows_of(found["pairs"], "sessions", "restart", "failed", "counted") == [(2, 1, 1, 2)]
    ends = [("failed", "path-lost"), ("by a restart", "superseded")]
    assert rows_of(found["sessions"], "end", "reason") == ends
    assert rows_of(found["nodes"], "ended") == [("killed: another start follows",), ("stopped in good order",)]


def test_numbers_that_do_not_add_up_are_not_passed_over() -> None:
    found = tables(Verdict(sent=3, resends=4, sessions_closed=1, timeline=Timeline(links={("a", "b"): {"sent": 1}})))
    assert "The sums are not the verdict's numbers" in found["streams"].says
    assert "The verdict counts 4 resends" in found["links"].says
    assert "The verdict counts 1 sessions closed" in found["pairs"].says


def test_a_long_table_adds_up_what_it_leaves_out() -> None:
    verdict = Verdict(files={f"f{at:04}": 2 for at in range(ROWS_MAX + 5)}, records=2 * (ROWS_MAX + 5))
    files = tables(verdict)["files"]
    assert len(files.shown) == ROWS_MAX + 1
    assert files.shown[-1] == {"file": "and 5 rows more", "records": 10}
    assert len(files.to_json()["rows"]) == ROWS_MAX + 5
