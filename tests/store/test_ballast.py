"""A file that is laid down on disks with plenty of room, and given up on those without."""

import os
from pathlib import Path

import pytest

from triack.store import ballast
from triack.store.ballast import BALLAST_FILE, Ballast, free_bytes

SIZE_BYTES = 1_000_000


def test_it_takes_real_room_and_gives_it_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Laid down once, kept while there is room, removed when the disk has less than its size."""
    one = Ballast(tmp_path, SIZE_BYTES)
    assert one.missing_bytes == SIZE_BYTES
    one.lay()
    assert (tmp_path / BALLAST_FILE).stat().st_blocks * 512 >= SIZE_BYTES
    assert (tmp_path / BALLAST_FILE).stat().st_mode & 0o777 == 0o600
    assert one.missing_bytes == 0
    one.release()
    assert one.missing_bytes == 0
    monkeypatch.setattr(ballast, "free_bytes", lambda _folder: SIZE_BYTES - 1)
    one.release()
    assert one.missing_bytes == SIZE_BYTES


def test_a_small_disk_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not the ballast that fills it."""
    monkeypatch.setattr(ballast, "free_bytes", lambda _folder: 4 * SIZE_BYTES - 1)
    one = Ballast(tmp_path, SIZE_BYTES)
    one.lay()
    assert list(tmp_path.iterdir()) == []


def test_a_disk_of_another_world_has_none() -> None:
    """Nothing is made, nothing is missing."""
    one = Ballast(None, SIZE_BYTES)
    one.lay()
    one.release()
    assert one.missing_bytes == 0


def test_a_directory_that_is_gone_is_no_trouble(tmp_path: Path) -> None:
    """The store that is opened there says what is wrong."""
    one = Ballast(tmp_path / "none", SIZE_BYTES)
    one.lay()
    one.release()
    assert one.missing_bytes == SIZE_BYTES
    assert free_bytes(tmp_path) > 0


@pytest.mark.skipif(os.name != "posix", reason="other systems have no such files")
def test_a_pipe_in_its_place_stops_nobody(tmp_path: Path) -> None:
    """It has no other end. There is no ballast then, and as much is kept free."""
    os.mkfifo(tmp_path / BALLAST_FILE, 0o600)
    one = Ballast(tmp_path, SIZE_BYTES)
    one.lay()
    assert one.missing_bytes == SIZE_BYTES
