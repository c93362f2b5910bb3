"""Spark's virtual machines start in less than half the time when they need not read and check their classes again.

``python -m tests.java FILE`` makes an archive of these classes, once for all tests until the libraries change. Java
does without it when it does not fit: to another Java, or to other libraries.
"""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

SHORT_LIFE = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Virtual machines that live for seconds are not worth much compiling."""
ARCHIVE = Path(sys.prefix, "spark.jsa")
"""Where ``make test`` puts it, and where it is looked for."""
WITHOUT_A_WORD = "-Xlog:disable -Xlog:all=error:stderr"
"""An archive that does not fit would be said on the output."""
FEW_RECORDS = " ".join(
    f"--conf {setting}"
    for setting in (
        "spark.ui.enabled=false",
        "spark.log.level=ERROR",
        "spark.sql.shuffle.partitions=2",
        "spark.sql.adaptive.enabled=false",
        "spark.sql.codegen.wholeStage=false",
        "spark.sql.codegen.factoryMode=NO_CODEGEN",
    )
)
"""Options of ``spark-submit`` for few records: to make code for a query would cost more than it saves."""
PYTHON = Path(__file__).with_name("python.sh")
"""The command that Spark starts."""


def start_quickly() -> None:
    """Let every virtual machine that is started from now on be up soon, with the archive if there is one.

    And so each Python that it starts.
    """
    _tell_java(SHORT_LIFE)
    os.environ.update(PYSPARK_PYTHON=str(PYTHON), INSTALLED_PYTHON=sys.executable)
    if ARCHIVE.exists():
        _tell_java(f"-XX:SharedArchiveFile={ARCHIVE} {WITHOUT_A_WORD}")


def _tell_java(options: str) -> None:
    os.environ["JDK_JAVA_OPTIONS"] = f"{os.environ.get('JDK_JAVA_OPTIONS', '')} {options}".strip()


def make_archive(path: Path) -> None:
    """Let Spark replay a log, and keep the classes that it had; an empty file if it cannot."""
    _tell_java(f"-XX:ArchiveClassesAtExit={path} {WITHOUT_A_WORD}")
    from pyspark import SparkContext

    from tests.tools.replay.judging import plant
    from triack import replay
    from triack.tools.replay.engines.spark_engine import replay_spark
    from triack.tools.replay.engines.spark_session import open_spark

    path.unlink(missing_ok=True)
    spark = open_spark("local[1]")
    with TemporaryDirectory() as logs:
        plant("order_ack_too_early")[0].save(Path(logs))
        replay_spark(spark, [logs])
        replay.load(spark, logs).groupBy("event").count().orderBy("event").collect()
    java = getattr(SparkContext, "_gateway").proc  # noqa: B009 - PySpark itself waits for nothing
    spark.stop()
    java.stdin.close()
    java.wait()
    path.touch()


if __name__ == "__main__":
    make_archive(Path(sys.argv[1]))
