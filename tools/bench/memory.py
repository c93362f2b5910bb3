"""How much memory a process has, as the system sees it."""

import gc
import os
from pathlib import Path

from triack.base.errors import TriackError

__all__ = ["resident_bytes"]

_STATM = Path("/proc/self/statm")


def resident_bytes() -> int:
    """What this process has resident, when everything that is garbage is gone.

    Raises:
        TriackError: the system does not tell.
    """
    gc.collect()
    try:
        pages = int(_STATM.read_text(encoding="ascii").split()[1])
    except OSError as error:
        raise TriackError(f"bench: memory cannot be told here: {error}") from error
    return pages * os.sysconf("SC_PAGE_SIZE")
