"""The processor time of a process and its children, as the system counts it."""

import os
from pathlib import Path

__all__ = ["processor_s"]

_FIRST, _LAST = 11, 15
"""The places of a process's times after its name: its own in user and system mode, and those of ended children."""


def processor_s(pid: int) -> float:
    """The processor time of a process and all its descendants; 0 if it is over, or where the system does not tell.

    Args:
        pid: which process. A descendant's time is lost when it ends and nobody waits for it.
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
