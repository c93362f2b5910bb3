"""Finding and reading session logs with Spark, wherever it can read: names of files are its own, scheme and all."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.errors import AnalysisException
from pyspark.sql import functions as f

from triack.base.errors import ReplayError
from triack.tools.replay.files import OPEN_SUFFIX, PACKED, SUFFIXES, VIOLATIONS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_PATTERN: Final = f"*{{{','.join(SUFFIXES + PACKED)}}}"
"""Of packed ones, too: whoever reads them says that it cannot. The same is true of complete ones that are empty."""
_GLOB: Final = re.compile(r"([\[\]{}*?\\])")
_FILE: Final = "file:"
"""How the names of local files begin that Spark gives."""


def find_files(spark: SparkSession, paths: Iterable[str]) -> DataFrame:
    """Return ``path``, ``length`` and ``content`` of each segment, but of those that were only just begun.

    A segment is one row, and is read as a whole by the task that judges it.

    Args:
        spark: the Spark session.
        paths: directories with logs (searched in depth), or single segments; patterns as Spark takes them.

    Raises:
        ReplayError: a path does not exist.
    """
    given = outermost(paths)
    if not given:
        raise ReplayError("no directory with session logs was given")
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true").option("pathGlobFilter", _PATTERN)
    try:
        files = reader.load([_literal(path) for path in given])
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        missing = (error.getMessageParameters() or {}).get("path", ", ".join(given)).removeprefix(_FILE)
        raise ReplayError(f"no such directory: {missing}") from error
    begun = f.col("path").endswith(OPEN_SUFFIX) & (f.col("length") == 0)
    logs = files.where(~begun).where(~f.col("path").endswith(f"/{VIOLATIONS}"))
    return logs.withColumn("path", as_given(f.col("path"), given))


def require_files(paths: Iterable[str], found: list[str]) -> None:
    """Raise if no log was found in one of the paths.

    Args:
        paths: as they were given.
        found: the files, as ``find_files`` names them.
    """
    for path in paths:
        if not found or (Path(path).exists() and not any(name.startswith(path) for name in found)):
            raise ReplayError(f"no session log (*{', *'.join(SUFFIXES)}) in {path}")


def outermost(paths: Iterable[str]) -> list[str]:
    """Return the paths without those that are in another one: each segment is read once."""
    by_name = {_resolved(path): path for path in paths}
    inside = [name for name in by_name for other in by_name if name != other and name.startswith(other + "/")]
    return [path for name, path in by_name.items() if name not in inside]


def _resolved(path: str) -> str:
    """Return one name for each file of this machine, and any other name as it is."""
    local = path.removeprefix(_FILE)
    return str(Path(local).resolve()) if Path(local).exists() else path.rstrip("/")


def _literal(path: str) -> str:
    """Return what Spark takes for a path: what is there by that name is no pattern."""
    return _GLOB.sub(r"\\\1", path) if Path(path.removeprefix(_FILE)).exists() else path


def name_of(path: Path) -> str:
    """Return how Spark calls a file of this machine; unlike ``Path.as_uri`` it writes nothing in another way."""
    return f"{_FILE}{path.absolute()}"


def as_given(path: Column, given: Iterable[str]) -> Column:
    """Return the name of a file as whoever gave a directory of this machine would write it."""
    named = []
    for root in given:
        if "://" not in root and Path(root).exists():
            begin = name_of(Path(root).resolve())
            rest = f.substr(path, f.lit(len(begin) + 1))
            named.append(f.when(path.startswith(begin), f.concat(f.lit(root), rest)))
    # Side by side, and not one within the other: a thousand directories are no deep expression.
    return f.coalesce(*reversed(named), path)
