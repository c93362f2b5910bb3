"""How much processor time a process has had, with all that it started, as the system counts it."""

import os
from pathlib import Path

__all__ = ["processor_s"]

_FIRST, _LAST = 11, 15
"""Where behind a process's name its times are: its own in user and system mode, and those of children that are over."""


def processor_s(pid: int) -> float:
    """What a process and all its descendants have had of processors; 0 if it is over, or where that is not told.

    Args:
        pid: which process. What a descendant had is lost when it ends and nobody waits for it.
    """
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
