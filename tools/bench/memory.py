"""How much memory a process has, as the system sees it."""

import gc
import os
from pathlib import Path

__all__ = ["missing", "peak_bytes", "resident_bytes"]

_STATM = Path("/proc/self/statm")


def missing() -> str | None:
    """Why memory cannot be measured here, or None."""
    return None if _STATM.exists() else f"what a process has resident is read from {_STATM}, which is Linux's"


def resident_bytes() -> int:
    """The resident memory of this process, after a garbage collection."""
    gc.collect()
    return int(_STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def peak_bytes(pid: int) -> int:
    """The peak of a process's resident memory; 0 if it is over, or where the system does not tell."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)
