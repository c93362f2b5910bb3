"""Spark is set up for one machine, or as somebody has set it up."""

from typing import TYPE_CHECKING

from triack.tools.replay.engines.spark_session import settings_for

if TYPE_CHECKING:
    pass


def test_without_a_word_it_is_this_machine() -> None:
    settings = settings_for(None, {})
    assert (settings["spark.master"], settings["spark.driver.memory"]) == ("local[*]", "2g")


def test_a_cluster_has_the_memory_that_it_has() -> None:
    settings = settings_for("spark://host:7077", {})
    assert settings["spark.master"] == "spark://host:7077"
    assert "spark.driver.memory" not in settings


def test_what_spark_submit_or_the_environment_says_holds() -> None:
    """All of it; a master that is asked for is the one exception."""
    for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_REMOTE"):
        assert settings_for(None, {name: "some"}) == {}
        assert settings_for("local[1]", {name: "some"}) == {"spark.master": "local[1]"}
