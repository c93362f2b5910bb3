"""Whether the tables of ``triack log tables`` have all of their logs, found out without Spark, which takes seconds."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from triack.base.printable import escaped
from triack.tools.replay.log.listing import complete, is_remote, list_logs, local_path

TABLES_VERSION: Final = 3
"""Of the tables' columns and of the layout of their files; a directory of another version is refused."""


def violations_of_all(paths: Sequence[str], out: str) -> int | None:
    """Return how many violations the tables have, if no log has anything new; None if one has, or only Spark can tell.

    The paths are those of the command, and so is ``out``.
    """
    try:
        import pyarrow.parquet as pq
        from pyarrow import ArrowException
    except ImportError:
        return None
    if is_remote(out) or any(is_remote(path) or glob.has_magic(path) for path in paths):
        return None
    place = Path(local_path(out))
    try:
        files = pq.read_table(place / "files").to_pylist()
        made = pq.read_table(place / "made").to_pylist()
        violations: int = pq.read_table(place / "violations", columns=["check"]).num_rows
    except (OSError, ArrowException):  # there are none as yet, or somebody is writing them
        return None
    taken = {(row["file"], row["size_bytes"]) for row in files if row["version"] == TABLES_VERSION}
    listing = list_logs(map(local_path, paths))
    known = all((escaped(complete(it.path)), it.size) in taken for it in listing.logs)
    is_made = [row["batches"] for row in made] == [1 + max(row["batch"] for row in files)]
    return violations if known and is_made and not listing.unread else None
