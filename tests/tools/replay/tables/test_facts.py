"""What records say, a row for each range."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tools.replay.builder import BETA, healthy
from triack.tools.replay.log.files import find_logs, read_records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_an_ack_is_a_row_for_each_range(spark: "SparkSession", tmp_path: Path) -> None:
    """And a burst has its first and its last number."""
    from triack import replay
    from triack.tools.replay.tables import facts

    healthy().save(tmp_path)
    written = [record for log in find_logs([tmp_path]) for record in read_records(log) if record["node"] == BETA]
    records = replay.load(spark, str(tmp_path)).where(f"node = '{BETA}'").cache()
    sent = [record for record in written if record["event"] == "ack_sent"]
    expected = [[1, it["cumulative"]] for it in sent if it["cumulative"]] + [
        span for it in sent for span in it["ranges"]
    ]
    rows = facts.acks(records).where("ack = 'session' and direction = 'sent'").select("first", "last").collect()
    assert sorted(map(list, rows)) == sorted(expected)
    arrived = [it for it in written if it["event"] == "packet_received" and "stream" in it]
    spans = facts.packets(records).where("stream is not null").select("first", "last", "messages").collect()
    assert sorted(map(tuple, spans)) == sorted(
        (it["number"], it["number"] + it["packets"] - 1, sum(p * m for p, m in it["counts"])) for it in arrived
    )
