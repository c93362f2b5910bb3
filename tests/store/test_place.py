"""Files that are not where they were."""

import os
from pathlib import Path

import pytest

from triack.store.place import Place


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "data" / "store.db"
    made.parent.mkdir()
    made.write_bytes(b"x")
    return made


def test_a_file_that_stays_is_no_fault(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is written to it, and wherever the process goes."""
    monkeypatch.chdir(file.parent)
    place = Place([file.name])
    with file.open("ab") as opened:
        opened.write(b"y")
    monkeypatch.chdir("/")
    assert place.fault() is None


def test_what_was_deleted_or_renamed_is_missed(file: Path) -> None:
    place = Place([str(file)])
    file.parent.rename(file.parent.with_name("elsewhere"))
    assert place.fault() == f"store.db is not in its directory any more ({os.strerror(2)})"


def test_a_file_that_was_replaced_is_recognized(file: Path) -> None:
    """By what it is, not by what is in it."""
    place = Place([str(file)])
    copy = file.with_name("copy")
    copy.write_bytes(b"x")
    copy.replace(file)
    assert place.fault() == "store.db in its directory is another file now"
