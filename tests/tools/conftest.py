"""One Spark for all tests of replay and of what must agree with it; starting it is what takes time."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    pytest.importorskip("pyspark")
    from triack.tools.replay.engines.spark_session import open_spark

    session = open_spark(None)
    # Each partition of a few records costs what one of many would.
    session.conf.set("spark.sql.shuffle.partitions", "2")
    # So does each task that reads: hundreds of small files are not shared out as if each had 4 MB more.
    session.conf.set("spark.sql.files.openCostInBytes", "0")
    yield session
    session.stop()
