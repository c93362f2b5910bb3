"""One table of records for all tests of it."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tools.replay.faults import faulty

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="package")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two nodes' logs with one lie in them, in a folder whose name is a pattern to those who take patterns."""
    world = faulty("order_ack_too_early")
    folder = tmp_path_factory.mktemp("frames") / "[a]"
    world.save(folder)
    return folder


@pytest.fixture(scope="package")
def records(spark: "SparkSession", logs: Path) -> "DataFrame":
    from triack import replay

    return replay.load(spark, str(logs)).cache()
