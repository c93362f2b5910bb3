"""The memory and the processor time of a process, as the system counts them, and whether a folder is memory, too."""

import gc
import os
from pathlib import Path

_STATM = Path("/proc/self/statm")
_MOUNTS = Path("/proc/self/mounts")
_MEMORY = {"tmpfs", "ramfs"}
_FIRST, _LAST = 11, 15
"""The places of a process's times after its name: its own in user and system mode, and those of ended children."""


def missing() -> str | None:
    """Why memory cannot be measured here, or None."""
    return None if _STATM.exists() else f"what a process has resident is read from {_STATM}, which is Linux's"


def resident_bytes() -> int:
    """The resident memory of this process, after a garbage collection."""
    gc.collect()
    return int(_STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def peak_bytes(pid: int) -> int:
    """The peak of a process's resident memory; 0 if it has ended, or where the system does not tell."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)


def processor_s(pid: int) -> float:
    """The processor time of a process and all its descendants; 0 if it has ended, or where the system does not tell."""
    folder = Path(f"/proc/{pid}")
    try:
        times = (folder / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[_FIRST:_LAST]
        children = [
            int(child)
            for task in (folder / "task").iterdir()
            for child in (task / "children").read_text(encoding="ascii").split()
        ]
    except OSError:
        return 0.0
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK") + sum(map(processor_s, children))


def is_memory(folder: Path, mounts: Path = _MOUNTS) -> bool:
    """Whether a folder is in memory only. False where the system does not tell."""
    try:
        lines = [line.split() for line in mounts.read_text(encoding="utf-8").splitlines()]
    except OSError:
        return False
    kinds = {Path(where.replace("\\040", " ")): kind for _, where, kind, *_ in lines}
    here = folder.resolve()
    return next((kinds[place] for place in (here, *here.parents) if place in kinds), "") in _MEMORY
