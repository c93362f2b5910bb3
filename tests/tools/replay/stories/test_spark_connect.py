"""Spark Connect: Spark runs elsewhere, and the machine that replays needs no Java."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tools.replay.stories.test_cluster import assert_same
from triack.tools.ports import free_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def server(spark: "SparkSession") -> Iterator[str]:
    """The address of a server within the Java that all tests have, as its plugin for Spark would start it."""
    pytest.importorskip("grpc")
    java, context = spark.sparkContext._jvm, spark.sparkContext._jsc.sc()  # noqa: SLF001 - no other way to its Java
    assert java is not None
    port, none = str(free_port()), java.scala.Option.empty()
    settings = context.conf().set("spark.connect.grpc.binding.address", "127.0.0.1")
    settings.set("spark.connect.grpc.binding.port", port)
    service = java.org.apache.spark.sql.connect.service.SparkConnectService
    service.start(context)
    yield f"sc://127.0.0.1:{port}"
    service.stop(none, none)


def test_spark_connect_needs_no_java_here(server: str, tmp_path: Path) -> None:
    assert_same(tmp_path, server, {"JAVA_HOME": str(tmp_path)})
