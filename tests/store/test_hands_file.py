"""The file with the messages in hand, for the next process on the same system."""

import os
from pathlib import Path

import pytest

from triack.base.in_hand import LIVE_AT
from triack.store import hands_file
from triack.store.hands_file import HANDS_FILE, HandsFile


def hold(words: memoryview | None, key: int) -> None:
    assert words is not None
    at = words[LIVE_AT]
    for step, word in enumerate((key, 1, 0b11, 0b10)):
        words[at + step] = word


def test_what_a_process_wrote_is_read_without_a_word_of_it(tmp_path: Path) -> None:
    """Nobody has closed or synced the file."""
    left, words = HandsFile(tmp_path).begin(0, 1)
    assert left == {}
    hold(words, 7)
    assert HandsFile(tmp_path).begin(1, 2)[0] == {7: (0b01, 0b10)}
    assert (tmp_path / HANDS_FILE).stat().st_mode & 0o777 == 0o600


def test_what_nobody_has_told_a_commit_of_is_handed_on(tmp_path: Path) -> None:
    """The second process dies before its first commit."""
    _, words = HandsFile(tmp_path).begin(0, 1)
    hold(words, 7)
    HandsFile(tmp_path).begin(1, 2)
    assert HandsFile(tmp_path).begin(2, 3)[0] == {7: (0b01, 0b10)}
    assert HandsFile(tmp_path).begin(9, 4)[0] == {}


def test_an_orderly_end_leaves_the_file_for_what_there_is_to_tell(tmp_path: Path) -> None:
    hands = HandsFile(tmp_path)
    hands.begin(0, 1)
    hands.end()
    assert not list(tmp_path.iterdir())
    hold(hands.begin(1, 2)[1], 7)
    hands.end()
    assert HandsFile(tmp_path).begin(2, 3)[0] == {7: (0b01, 0b10)}


def test_another_boot_of_the_machine_reads_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was synced, so nobody knows what of it is true."""
    _, words = HandsFile(tmp_path).begin(0, 1)
    hold(words, 7)
    monkeypatch.setattr(hands_file, "boot_id", lambda: b"another".ljust(16))
    assert HandsFile(tmp_path).begin(1, 2)[0] == {}


def test_a_system_that_cannot_tell_its_boots_keeps_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hands_file, "boot_id", lambda: b"")
    assert HandsFile(tmp_path).begin(0, 1) == ({}, None)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_file_is_passed_over(tmp_path: Path, make) -> None:  # type: ignore[no-untyped-def]
    """A pipe, a directory, a link: the start neither waits nor fails."""
    make(tmp_path / HANDS_FILE)
    left, _ = HandsFile(tmp_path).begin(0, 1)
    assert left == {}


@pytest.mark.parametrize("content", [b"", b"x" * 100, b"\0" * 4_096])
def test_a_damaged_file_says_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / HANDS_FILE).write_bytes(content)
    left, words = HandsFile(tmp_path).begin(0, 1)
    assert left == {}
    hold(words, 7)


def test_a_directory_that_takes_no_file_costs_the_notes_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_file: int, _content: bytes) -> int:
        return 0

    monkeypatch.setattr(os, "write", full)
    assert HandsFile(tmp_path).begin(0, 1) == ({}, None)
