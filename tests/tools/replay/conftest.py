"""One Spark replay for all tests that look at what Spark found."""

from typing import TYPE_CHECKING

import pytest

from tests.tools.replay.planted import Planted, judge

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def planted(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Planted:
    return judge(spark, tmp_path_factory.mktemp("planted"))
