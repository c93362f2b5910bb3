"""A file that another user of the machine has put somewhere is never taken for our own."""

import os
import stat
from pathlib import Path

import pytest

from tests.node.users import OTHER, OWNER, commons, make_folder, needs_users, run_as
from triack.node.files import ownership
from triack.node.files.ownership import (
    check_private,
    check_private_folder,
    close_to_group,
    open_plain,
    read_named,
    trusted_users,
)

__all__ = ["commons"]


def test_a_file_of_ours_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "note"
    path.write_bytes(b"x")
    path.chmod(0o644)
    with os.fdopen(open_plain(path, trusted_users()), "rb") as opened:
        assert opened.read() == b"x"


def test_what_is_no_plain_file_is_refused_by_name(tmp_path: Path) -> None:
    """A pipe that nobody writes to would be waited for without end."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name, why in (("pipe", "is no regular file"), ("link", "is a symbolic link")):
        with pytest.raises(PermissionError) as refused:
            open_plain(tmp_path / name, trusted_users())
        assert refused.value.strerror == f"{tmp_path / name} {why}"


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "note"
    path.touch()
    path.chmod(mode)
    with pytest.raises(PermissionError, match=f"others may write to .*note \\(mode 0{mode:o}\\)"):
        open_plain(path, trusted_users())


@pytest.mark.parametrize("mode", [0o710, 0o701, 0o755])
def test_what_others_may_use_is_not_private(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    with pytest.raises(PermissionError, match=f"others may use it \\(mode 0{mode:o}\\)"):
        check_private("it", tmp_path.stat(), trusted_users())


def test_where_others_may_replace_things_is_no_place_for_them(tmp_path: Path) -> None:
    """As in a directory for temporary files without its sticky bit."""
    for mode in (0o755, 0o1777, 0o1770):
        tmp_path.chmod(mode)
        check_private_folder(tmp_path, tmp_path.stat(), trusted_users())
    for mode in (0o777, 0o770):
        tmp_path.chmod(mode)
        with pytest.raises(PermissionError, match=f"others may write to {tmp_path}"):
            check_private_folder(tmp_path, tmp_path.stat(), trusted_users())
    tmp_path.chmod(0o700)


@needs_users
def test_root_alone_acts_by_what_is_the_owners_of_a_directory(commons: Path) -> None:
    data = make_folder(commons / "data", OWNER)
    assert trusted_users(data) == {0, OWNER}
    assert run_as(OTHER, lambda: trusted_users(data)) == {0, OTHER}


@needs_users
def test_users_that_a_container_does_not_know_are_not_taken_for_each_other(
    commons: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They all look like one."""
    monkeypatch.setattr(ownership, "UNKNOWN_FILE", commons / "none")
    assert trusted_users(make_folder(commons / "data", ownership.UNKNOWN)) == {0}


@needs_users
def test_a_file_of_another_user_is_refused(commons: Path) -> None:
    path = commons / "note"
    path.touch(0o644)
    os.chown(path, OTHER, OTHER)
    with pytest.raises(PermissionError, match=f"note belongs to another user \\(uid {OTHER}\\)"):
        run_as(OWNER, lambda: open_plain(path, trusted_users()))


def test_a_file_that_a_person_names_is_read_by_links_and_never_waited_for(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    assert read_named(tmp_path / "link", 5) == b"12345"
    for path, why in (
        (tmp_path / "file", "it has more than 4 bytes"),
        (tmp_path / "pipe", "it is no regular file"),
        (tmp_path, "it is no regular file"),
        (Path("/dev/zero"), "it is no regular file"),
    ):
        with pytest.raises(PermissionError) as refused:
            read_named(path, 4)
        assert refused.value.strerror == why


@needs_users
def test_a_file_that_a_person_names_is_ours_or_roots(commons: Path) -> None:
    path = commons / "triack.toml"
    path.touch(0o644)
    assert run_as(OWNER, lambda: read_named(path, 9)) == b""
    os.chown(path, OTHER, OTHER)
    with pytest.raises(PermissionError, match=f"it belongs to another user \\(uid {OTHER}\\)"):
        run_as(OWNER, lambda: read_named(path, 9))


def test_what_is_ours_is_closed_to_a_group_and_nothing_else_is_touched(tmp_path: Path) -> None:
    """The kubelet opens every file to the group of a pod. What everybody can use is refused elsewhere."""
    modes = {"grouped": 0o660, "read": 0o640, "everybody": 0o666, "fine": 0o600, "linked": 0o660, "apart": 0o660}
    for name, mode in modes.items():
        (tmp_path / name).touch()
        (tmp_path / name).chmod(mode)
    (tmp_path / "other").hardlink_to(tmp_path / "linked")
    (tmp_path / "link").symlink_to("apart")
    names = ["grouped", "read", "everybody", "fine", "linked", "link", "gone"]
    assert close_to_group(tmp_path, names) == ["grouped", "read"]
    found = {name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in modes}
    assert found == {**modes, "grouped": 0o600, "read": 0o600}


@needs_users
def test_a_file_of_another_user_stays_open_to_its_group(commons: Path) -> None:
    (commons / "owner").touch()
    (commons / "owner").chmod(0o660)
    os.chown(commons / "owner", OTHER, OTHER)
    assert run_as(OWNER, lambda: close_to_group(commons, ["owner"])) == []
    assert close_to_group(commons, ["owner"]) == []
