"""How much memory a process has, as the system sees it."""

import gc
import os
from pathlib import Path

__all__ = ["missing", "resident_bytes"]

_STATM = Path("/proc/self/statm")


def missing() -> str | None:
    """Why memory cannot be told here, or None."""
    return None if _STATM.exists() else f"what a process has resident is read from {_STATM}, which is Linux's"


def resident_bytes() -> int:
    """What this process has resident, when everything that is garbage is gone."""
    gc.collect()
    return int(_STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
