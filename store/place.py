"""Where the files of an open store are, and whether they are still there.

Promise: ``fault`` finds a file that was deleted, renamed or replaced since it was opened. Later writes would go into a
file without a name, where no one would find them.
"""

import os
from collections.abc import Iterable
from pathlib import Path

BLOCK_BYTES = 512
"""The unit of ``st_blocks``, whatever the block size of the file system."""


class Place:
    """The files of a store: their names, and their inodes when they were opened. Raises OSError: one is gone."""

    __slots__ = ("_files",)

    def __init__(self, paths: Iterable[str]) -> None:
        # Absolute, so that a process may change its working directory.
        absolute = [str(Path(path).absolute()) for path in paths]
        found = map(os.stat, absolute)
        self._files = [(path, (it.st_dev, it.st_ino)) for path, it in zip(absolute, found, strict=True)]

    def fault(self) -> str | None:
        """The fault of the first file that is not where it was, or None."""
        for path, identity in self._files:
            try:
                found = os.stat(path)  # noqa: PTH116 - every commit asks, and a Path costs as much as the call
                if (found.st_dev, found.st_ino) != identity:
                    return f"{Path(path).name} in its directory is another file now"
            except OSError as error:
                return f"{Path(path).name} is not in its directory any more ({error.strerror})"
        return None

    @property
    def owed_bytes(self) -> int:
        """How many bytes of the files need no room on the disk yet; 0 if the system does not tell. Raises OSError."""
        found = [os.stat(path) for path, _ in self._files]  # noqa: PTH116 - as above
        return sum(max(0, it.st_size - getattr(it, "st_blocks", it.st_size) * BLOCK_BYTES) for it in found)
