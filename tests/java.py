"""Spark's virtual machines start in less than half the time when they need not read and check their classes again.

``python -m tests.java FILE`` makes an archive of these classes, once for all tests until the libraries change. Java
does without it when it does not fit: to another Java, or to other libraries.
"""

import os
import sys
from pathlib import Path

SHORT_LIFE = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Virtual machines that live for seconds are not worth much compiling."""
ARCHIVE = Path(sys.prefix, "spark.jsa")
"""Where ``make test`` puts it, and where it is looked for."""
WITHOUT_A_WORD = "-Xlog:disable -Xlog:all=error:stderr"
"""An archive that does not fit would be said on the output."""


def start_quickly() -> None:
    """Let every virtual machine that is started from now on be up soon, with the archive if there is one."""
    _tell_java(SHORT_LIFE)
    if ARCHIVE.exists():
        _tell_java(f"-XX:SharedArchiveFile={ARCHIVE} {WITHOUT_A_WORD}")


def _tell_java(options: str) -> None:
    os.environ["JDK_JAVA_OPTIONS"] = f"{os.environ.get('JDK_JAVA_OPTIONS', '')} {options}".strip()


def make_archive(path: Path) -> None:
    """Let Spark do some of what a replay does, and keep the classes that it had; an empty file if it cannot."""
    _tell_java(f"-XX:ArchiveClassesAtExit={path} {WITHOUT_A_WORD}")
    from pyspark import SparkContext

    from triack.tools.replay.spark_session import open_spark

    path.unlink(missing_ok=True)
    spark = open_spark("local[1]")
    numbers = spark.range(9).mapInArrow(lambda batches: batches, "id bigint").persist()
    numbers.join(numbers.groupBy("id").count(), "id", "left_semi").orderBy("id").collect()
    java = getattr(SparkContext, "_gateway").proc  # noqa: B009 - PySpark itself waits for nothing
    spark.stop()
    java.stdin.close()
    java.wait()
    path.touch()


if __name__ == "__main__":
    make_archive(Path(sys.argv[1]))
