"""Whether a folder is on a disk at all."""

from pathlib import Path

__all__ = ["is_memory"]

_MOUNTS = Path("/proc/self/mounts")
_MEMORY = {"tmpfs", "ramfs"}
"""File systems in memory, where a sync makes nothing durable."""


def is_memory(folder: Path, mounts: Path = _MOUNTS) -> bool:
    """Whether a folder is in memory only. False where the system does not tell.

    Args:
        folder: which; it need not exist yet.
        mounts: the mounts, as Linux lists them.
    """
    try:
        lines = [line.split() for line in mounts.read_text(encoding="utf-8").splitlines()]
    except OSError:
        return False
    kinds = {Path(where.replace("\\040", " ")): kind for _, where, kind, *_ in lines}
    here = folder.resolve()
    return next((kinds[place] for place in (here, *here.parents) if place in kinds), "") in _MEMORY
