"""Reading logs into a frame: what is left out, what is numbered, what is called damaged."""

import json
from typing import TYPE_CHECKING

import pytest

from tests.tools.replay.builder import ALPHA, BETA, World
from tests.tools.replay.faults import ready
from triack.tools.replay.files import LogFile, find_logs
from triack.tools.replay.schema import POSITION_SHIFT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

Read = tuple[World, list[LogFile], "DataFrame"]


@pytest.fixture(scope="module")
def read(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Read:
    """The lines of two logs: beta's ends in half a record, alpha's in a whole one that lacks its newline."""
    from triack.tools.replay.spark_records import read_lines

    directory = tmp_path_factory.mktemp("lines")
    world = ready()
    for cls in ("transactional", "express"):
        world.deliver(cls, 1)
    world.alpha.start()
    world.alpha.write("queued", count="many")
    world.save(directory)
    for name, text in (
        ("beta/beta-000001-000002.jsonl.open", '{"v": 1, "ev'),
        ("alpha/alpha-000002-000002.jsonl.open", json.dumps({**world.alpha.records[-1], "n": 3, "count": 1})),
    ):
        with (directory / name).open("a") as file:
            file.write(text)
    logs = find_logs([directory])
    return world, logs, read_lines(spark, logs)


def test_records_are_read_without_torn_ones(read: Read) -> None:
    """Ids are numbers, what is absent stays absent, classes have their rank, and a node's records their order."""
    from triack.tools.replay.spark_records import encode

    world, logs, lines = read
    every = encode(lines, logs).collect()
    assert len(every) == len(world.alpha.records) + len(world.beta.records)
    assert {row["cls"] for row in every} == {None, 0, 2}
    assert len({row["node"] for row in every}) == 2
    opened = [row for row in every if row["event"] == "session_opened"]
    assert {row["node"] for row in opened} == {row["peer"] for row in opened}
    assert {row["queue"] for row in opened} == {None}
    assert {row["pos"] for row in every} == {row["incarnation"] << POSITION_SHIFT | row["n"] for row in every}
    (bad,) = [row for row in every if row["damaged"]]
    assert (bad["incarnation"], bad["n"]) == (2, 2)


def test_names_are_found_again(read: Read, spark: "SparkSession") -> None:
    from pyspark.sql import functions as f

    from triack.tools.replay.spark_records import names

    (ids,) = spark.range(1).select(f.xxhash64(f.lit(ALPHA)), f.xxhash64(f.lit(BETA))).collect()
    assert names(read[2], [ids[0], 4711]) == {ids[0]: ALPHA}
    assert names(read[2], []) == {}


def test_facts_have_one_form(spark: "SparkSession") -> None:
    """A row says everything that holds of it; columns that it lacks are empty; `value` is only what is given."""
    from pyspark.sql import functions as f

    from triack.tools.replay.spark_records import FACT_TYPES, cases, facts, union

    rows = spark.sql("select * from values (1, 5, 70), (2, 50, 7), (3, 50, 70), (4, 5, 7) as t(lane, sent, value)")
    judged = cases(
        rows, ("much", f.col("sent") > 9, f.lit("sent")), ("dear", f.col("value") > 9, f.format_string("%d", "value"))
    )
    found = union([facts(judged, f.col("kind"), f.col("evidence"), number=f.col("sent")), facts(rows.limit(1), "all")])
    assert found.columns == list(FACT_TYPES)
    said = {(row["kind"], row["lane"], row["number"], row["evidence"], row["value"]) for row in found.collect()}
    assert said == {
        ("dear", 1, 5, "70", None),
        ("much", 2, 50, "sent", None),
        ("much", 3, 50, "sent", None),
        ("dear", 3, 50, "70", None),
        ("all", 1, None, None, None),
    }
