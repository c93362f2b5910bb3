"""A folder in memory is distinguished from one on a disk."""

from pathlib import Path

import pytest

from triack.tools.bench.disk import is_memory

MOUNTS = """/dev/vda / ext4 rw 0 0
tmpfs /tmp tmpfs rw 0 0
/dev/vdb /tmp/on\\040disk xfs rw 0 0
"""


@pytest.mark.parametrize(
    ("folder", "memory"), [("/", False), ("/var/x", False), ("/tmp/x", True), ("/tmp/on disk/x", False)]
)
def test_the_nearest_mount_decides(tmp_path: Path, folder: str, memory: bool) -> None:
    (tmp_path / "mounts").write_text(MOUNTS)
    assert is_memory(Path(folder), tmp_path / "mounts") == memory


def test_where_nobody_tells_it_is_a_disk(tmp_path: Path) -> None:
    assert not is_memory(tmp_path, tmp_path / "nothing")
