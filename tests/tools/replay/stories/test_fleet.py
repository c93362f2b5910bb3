"""A fleet on Spark: what a replay finds of it, and that the driver holds no more of a large one than of a small one."""

import gc
import os
import re
import tracemalloc
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tools.replay.builder import World
from triack.tools.replay.engines.local_engine import replay_local
from triack.tools.replay.log.files import find_logs
from triack.tools.replay.log.schema import Verdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SESSIONS = 20
"""Of a pair of nodes."""
FEW, SOME, MANY = 10, 50, int(os.environ.get("TRIACK_FLEET_PAIRS", "100"))
"""Pairs of nodes; 5,000 are 10,000 starts and 100,000 sessions, which take some five minutes of a processor."""
KEPT = 40
"""Things of a kind that the driver takes here: fewer than some pairs have."""
MORE_BYTES = 256 << 10
FILE_BYTES = 6 << 10
"""What the driver may hold of many pairs beyond that of few, and for each file of these: its name, in the listing and
the verdict. The forty ends of sessions of a pair would be more."""
IDS = re.compile(rb'"([0-9a-f]{32}|[0-9a-f]{16})"')


def save_fleet(directory: Path, pairs: int) -> None:
    """Write the logs of pairs of nodes with many short sessions; each receiver acknowledges once what it has not."""
    world = World()
    world.alpha.start()
    world.beta.start()
    for number in range(SESSIONS):
        world.open()
        if number == SESSIONS - 1:
            world.deliver("transactional", 1)
            world.order_ack(99)
        world.close()
    world.end()
    world.number()
    logs = {log.name: log for log in world.logs}
    template = directory / "template"
    for log in logs.values():
        log.save(template)
    contents = {
        name: b"".join(part.read_bytes() for part in sorted(template.glob(f"{name}-*"))) for name in sorted(logs)
    }
    for part in template.iterdir():
        part.unlink()
    template.rmdir()
    ids = {name: sorted(set(IDS.findall(content))) for name, content in contents.items()}
    for pair in range(pairs):
        folder = directory / f"{pair // 100:03}"
        folder.mkdir(exist_ok=True)
        for name, of_template in contents.items():
            content = of_template
            for one in ids[name]:
                other = sha256(b"%d " % pair + one).hexdigest()[: len(one)].encode()
                content = content.replace(b'"%b"' % one, b'"%b"' % other)
            (folder / f"{name}{pair:05}-000001-000001.jsonl").write_bytes(content)


def measured(spark: "SparkSession", directory: Path) -> tuple[Verdict, int]:
    """Replay logs; return the verdict, and the most bytes that this process had meanwhile and for it."""
    from triack.tools.replay.engines.spark_engine import replay_spark

    gc.collect()
    tracemalloc.start()
    try:
        verdict = replay_spark(spark, [str(directory)])
        return verdict, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_page_gets_the_first_of_each_kind_and_the_verdict_is_of_all(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from triack.tools.replay.engines import spark_conclusion

    save_fleet(tmp_path, SOME)
    monkeypatch.setattr(spark_conclusion, "KEPT_MAX", KEPT)
    verdict, _ = measured(spark, tmp_path)
    local = replay_local(find_logs([tmp_path]))
    assert local.violations == {"ack_unreceived": SOME, "order_ack_before_commit": SOME}
    assert verdict.timeline is not None
    left = verdict.timeline.left_out
    assert len(verdict.timeline.sessions) == len(verdict.timeline.starts) == KEPT
    assert left["ends of sessions"] == 2 * SOME * SESSIONS - KEPT
    assert left["starts of nodes"] == 2 * SOME - KEPT
    assert left["streams"] == SOME - KEPT
    verdict.timeline = local.timeline = None
    verdict.engine = local.engine
    assert verdict == local


def test_the_driver_holds_no_more_of_many_sessions(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of both it takes as much for a page, so that the rest shows: the names of files, and the list of them."""
    from triack.tools.replay.engines import spark_conclusion

    monkeypatch.setattr(spark_conclusion, "KEPT_MAX", KEPT)
    few, many = tmp_path / "few", tmp_path / "many"
    for folder, pairs in ((few, FEW), (many, MANY)):
        folder.mkdir()
        save_fleet(folder, pairs)
    measured(spark, few)
    (_, before), (verdict, peak) = measured(spark, few), measured(spark, many)
    assert (verdict.starts, verdict.nodes) == (2 * MANY, 2 * MANY)
    assert verdict.violations == {"ack_unreceived": MANY, "order_ack_before_commit": MANY}
    assert peak < before + MORE_BYTES + 2 * MANY * FILE_BYTES
