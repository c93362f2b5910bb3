"""What the judges found, as it comes home from Spark: a verdict's numbers whole, and of what a page shows the first.

The driver's memory does not grow with nodes, sessions, streams or violations: Spark adds up, joins and sorts, and the
driver takes ``KEPT_MAX`` of each kind of thing. It holds a line for each file, which it has listed, and for each log
that is missing or lacks its end, as the verdict names them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f
from pyspark.sql.window import Window

from triack.tools.replay.checks.findings import Life, Opening
from triack.tools.replay.engines import spark_dues as dues
from triack.tools.replay.engines.arrow_rows import each
from triack.tools.replay.judges.conclusion import Read, count, cover, draw
from triack.tools.replay.log.schema import FAILURE_REASONS, Timeline, Verdict
from triack.tools.replay.log.series import Series

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from triack.tools.replay.log.listing import Listing

KEPT_MAX: Final = 2_000
"""Sessions, starts, streams and so on that the driver takes for the page: forty times what a page shows of a table, and
some tens of megabytes however large the fleet is."""
_LINK: Final = "link\t"
"""How a number begins that was counted for a session whose peer its segment does not tell."""
_OF_STREAM: Final = ("flow", "stream", "way", "dwell", "priority")
"""Numbers of these kinds are of a stream: their second and third part."""
_ROW: Final = "what string, name string, n bigint, data binary"
"""A row of detail for the page."""
_ENDS: Final = "ends of sessions"
_STARTS: Final = "starts of nodes"


class Found:
    """The findings of all judges, in Spark, and on the driver what every verdict needs.

    ``short``: starts whose logs surely lack their ends, and a sentence that says so.
    """

    def __init__(self, rows: DataFrame, kept: list[DataFrame]) -> None:
        self._rows = rows
        plain = _plain(rows)
        self.files = [Read(*json.loads(row["data"])) for row in plain if row["unit"] == "file"]
        self._numbers = {row["unit"]: row["n"] for row in plain if row["unit"] != "file"}
        findings = bool(self._numbers.get("finding"))
        self._known = dues.ask(rows, findings=findings).persist()
        kept.append(self._known)
        told = _told(self._known)
        self.any = findings or any(row["what"] == dues.OWN for row in told)
        self.violations = dues.violations(self._known)
        self.short = {(row["whose"], row["at"]): _text(row) for row in told if row["what"] == dues.SHORT}
        self._missing = sorted((_text(row), row["whose"], row["at"]) for row in told if row["what"] == dues.MISSING)
        self._unfinished = sorted(row["whose"] for row in told if row["what"] == dues.UNFINISHED)
        self._counts = {row["what"]: row["n"] for row in told if row["what"] in dues.COUNTS}

    def summarize(self, verdict: Verdict, listing: Listing) -> None:
        """Fill in all but the violations."""
        cover(verdict, listing, self.files)
        verdict.timeline = self._draw()
        for what in dues.COUNTS:
            setattr(verdict, what, self._counts.get(what, 0))
        count(verdict, {name.removeprefix("number "): n for name, n in self._numbers.items()})
        # Nodes of which there is no log come first, as the local engine has it.
        unknown = [said for said, whose, _ in self._missing if said == f"node {whose}"]
        parts = sorted((whose, at, said) for said, whose, at in self._missing if said != f"node {whose}")
        verdict.missing = unknown + [said for _, _, said in parts]
        verdict.unfinished = self._unfinished
        verdict.time(self._numbers.get("begin") or 0, self._numbers.get("end") or 0)

    def _draw(self) -> Timeline:
        detail = _detail(self._rows, self._known).toArrow()
        columns = [detail.column(name).to_pylist() for name in ("what", "name", "n", "data")]
        openings, lives = list[Opening](), list[Life]()
        numbers, series, left = dict[str, int](), dict[str, Series](), dict[str, int]()
        for what, name, n, data in zip(*columns, strict=True):
            if what == "opening":
                openings.append(Opening(*json.loads(data)))
            elif what == dues.LIFE:
                lives.append(Life(*json.loads(data)))
            elif what == "series":
                series[name] = _series(data)
            elif what == "left":
                left[name] = n
            else:
                numbers[name] = n
        timeline = draw(series, sorted(openings), numbers, lives)
        ends, starts = self._numbers.get("opening", 0) or 0, self._counts.get("starts", 0)
        left |= {_ENDS: max(ends - KEPT_MAX, 0), _STARTS: max(starts - KEPT_MAX, 0)}
        timeline.left_out = {name: n for name, n in sorted(left.items()) if n}
        return timeline


def _text(row: Any) -> str:
    return bytes(row["data"]).decode()


def _plain(rows: DataFrame) -> list[Any]:
    """Return the files, the numbers of the verdict, and how much there is of all else."""
    unit = f.col("unit")
    total = f.sum(f.when(unit.startswith("number "), f.col("n")))
    value = f.when(unit == "begin", f.min("n")).when(unit == "end", f.max("n"))
    value = value.when(unit.isin("finding", "opening"), f.count("*")).otherwise(total)
    mine = rows.where(~unit.contains("\t") & ~unit.isin("segment", "series"))
    # Of a follower's table the same file may be there twice.
    data = f.when(unit == "file", f.col("data")).alias("data")
    return mine.groupBy("unit", data).agg(value.alias("n")).collect()


def _told(known: DataFrame) -> list[Any]:
    """Return what nodes tell of themselves, with the counts added up."""
    named = f.col("what").isin(dues.MISSING, dues.UNFINISHED, dues.SHORT)
    keys = [
        f.when(named, f.col(name)).alias(alias) for name, alias in (("whose", "whose"), ("n", "at"), ("data", "data"))
    ]
    mine = known.where(named | f.col("what").isin(dues.OWN, *dues.COUNTS))
    return mine.groupBy("what", *keys).agg(f.sum("n").alias("n")).collect()


def _detail(rows: DataFrame, known: DataFrame) -> DataFrame:
    """Return what the page shows, as ``_ROW``: at most ``KEPT_MAX`` things of each kind."""
    text = f.col("data").cast("string")
    ends = rows.where("unit = 'opening'").select("data", f.get_json_object(text, "$[0]").alias("node"),
        f.get_json_object(text, "$[2]").alias("peer"), f.get_json_object(text, "$[3]").alias("session"),
        f.get_json_object(text, "$[6]").isin(*FAILURE_REASONS).alias("failed")).distinct()  # fmt: skip
    first = ends.orderBy(f.col("failed").desc(), "session", "node").limit(KEPT_MAX)
    lives = known.where(f.col("what") == dues.LIFE).orderBy("whose", "n").limit(KEPT_MAX)
    numbers = _numbers(rows, ends)
    series = rows.where("unit = 'series'").select(f.get_json_object(text, "$[0]").alias("name"), "data")
    merged = series.repartition("name").sortWithinPartitions("name").mapInArrow(each(_merge_each, _ROW), _ROW)
    is_session = f.col("name").startswith("unacked ")
    busiest = merged.where(is_session).orderBy(f.length("data").desc(), "name").limit(KEPT_MAX // 4)
    return (
        numbers.unionByName(_rows("opening", first))
        .unionByName(_rows(dues.LIFE, lives))
        .unionByName(merged.where(~is_session))
        .unionByName(busiest)
    )


def _rows(what: str, frame: DataFrame) -> DataFrame:
    none = f.lit(0).cast("bigint").alias("n")
    return frame.select(f.lit(what).alias("what"), f.lit("").alias("name"), none, "data")


def _numbers(rows: DataFrame, ends: DataFrame) -> DataFrame:
    """Return the numbers of links, queues, streams and so on, and of how many of a kind there are more."""
    numbers = rows.where(f.col("unit").contains("\t")).select(f.expr("substring(unit, 8)").alias("name"), "n")
    peers = ends.groupBy("node", "session").agg(f.max("peer").alias("peer"))
    of_links = numbers.where(f.col("name").startswith(_LINK))
    part = f.split("name", "\t")
    joined = of_links.join(peers, (part[1] == f.col("node")) & (part[2] == f.col("session")), "left")
    between = f.concat_ws("\t", f.lit("between"), "node", "peer", part[3])
    of_links = joined.select(f.when(f.col("peer").isNull(), f.col("name")).otherwise(between).alias("name"), "n")
    all_ = numbers.where(~f.col("name").startswith(_LINK)).unionByName(of_links)
    summed = all_.groupBy("name").agg(f.sum("n").alias("n"))
    ranked = summed.select("name", "n", part[0].alias("kind"), _thing(part).alias("thing"))
    ranked = ranked.withColumn("nth", f.dense_rank().over(Window.partitionBy("kind").orderBy("thing")))
    none = f.lit(None).cast("binary").alias("data")
    mine = ranked.where(f.col("nth") <= KEPT_MAX).select(f.lit("number").alias("what"), "name", "n", none)
    most = ranked.groupBy("kind").agg(f.max("nth").alias("nth")).where(f.col("nth") > KEPT_MAX)
    left = (f.col("nth") - KEPT_MAX).cast("bigint").alias("n")
    return mine.unionByName(most.select(f.lit("left").alias("what"), _plural().alias("name"), left, none))


def _thing(part: Column) -> Column:
    """Return what a number is about, in the order in which the first are taken; sessions in that of their ends."""
    of_stream = f.concat_ws("\t", part[1], part[2])
    return f.when(part[0].isin(*_OF_STREAM), of_stream).when(part[0] == "heard", part[2]).otherwise(f.col("name"))


def _plural() -> Column:
    """Return what the page calls the things of a kind."""
    words = {"flow": "streams", "queue": "counts of queues", "between": "counts of links"}
    named = f.concat(f.lit("counts of kind "), f.col("kind"))
    for kind, word in words.items():
        named = f.when(f.col("kind") == kind, word).otherwise(named)
    return named


def _merge_each(rows: Iterable[dict[str, Any]]) -> Iterator[tuple[Any, ...]]:
    """Merge series of the same name."""
    for name, mine in groupby(rows, key=lambda row: row["name"]):
        yield "series", name, 0, _merged(row["data"] for row in mine)


def _merged(parts: Iterable[bytes]) -> bytes:
    whole: Series | None = None
    name = ""
    for data in parts:
        name, *_ = json.loads(data)
        part = _series(data)
        if whole is None:
            whole = part
        else:
            whole.merge(part)
    assert whole is not None, "a group has a row"
    return json.dumps([name, whole.mode, whole.bits, list(whole.buckets.items())]).encode()


def _series(data: bytes) -> Series:
    _, mode, bits, buckets = json.loads(data)
    series = Series(mode, bits)
    series.buckets = dict(buckets)
    return series
