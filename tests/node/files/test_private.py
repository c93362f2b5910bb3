"""Files that are private, and whose they are."""

import asyncio
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.machine import PATIENCE_S
from tests.node.users import OTHER, OWNER, commons, make_folder, needs_users, run_as
from triack.base.errors import IdentityError, KeyUnreadable
from triack.node.files import keys, ownership, private_files
from triack.node.files.keys import IDENTITY_FILE, Identity, KeyKind, decode_key, encode_key, open_identity
from triack.node.files.ownership import (
    check_private,
    check_private_folder,
    close_to_group,
    open_plain,
    read_named,
    trusted_users,
)
from triack.node.files.private_files import Files, MemoryFiles, PrivateFiles

__all__ = ["commons"]

# Files that are their owner's alone, and changes that are whole or not there.

CANARY = b"canary"


@pytest.fixture(params=["disk", "memory"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    return PrivateFiles(tmp_path / "data") if request.param == "disk" else MemoryFiles()


def test_a_change_is_made_to_what_the_last_one_left(files: Files) -> None:
    assert files.read("f") is None
    assert files.change("f", lambda now: b"1" if now is None else b"no") == b"1"
    assert files.change("f", lambda now: (now or b"") + b"2") == b"12"
    assert files.read("f") == b"12"


def test_a_change_that_fails_changes_nothing(files: Files) -> None:
    files.change("f", lambda _: b"1")
    stamp = files.stamp("f")
    with pytest.raises(ZeroDivisionError):
        files.change("f", lambda _: bytes(1 // 0))
    assert (files.read("f"), files.stamp("f")) == (b"1", stamp)


async def test_a_change_is_noticed(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the first one, and one that leaves the size as it was."""
    monkeypatch.setattr(private_files, "POLL_SECONDS", 0.001)
    stamp = files.stamp("f")
    assert stamp is None
    for content in (b"1", b"2"):
        waiting = asyncio.create_task(files.changed("f", stamp))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        files.change("f", lambda _, new=content: new)  # type: ignore[misc]
        stamp = await asyncio.wait_for(waiting, PATIENCE_S)
        assert stamp == files.stamp("f")


def test_a_new_file_is_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        PrivateFiles(tmp_path / "data").change("f", lambda _: CANARY)
    finally:
        os.umask(before)
    assert (tmp_path / "data/f").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700


def link(path: Path) -> None:
    path.rename(path.with_name("other"))
    path.symlink_to("other")


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir(0o700)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda path: path.chmod(0o640), "mode 0640"),
        (lambda path: path.chmod(0o604), "mode 0604"),
        (lambda path: path.chmod(0o602), "mode 0602"),
        (link, "symbolic link"),
        (lambda path: path.with_name("twin").hardlink_to(path), "hard link"),
        (pipe, "no regular file"),
        (folder, "no regular file"),
        (lambda path: path.parent.chmod(0o777), "directory"),
        (lambda path: os.truncate(path, private_files.FILE_BYTES_MAX + 1), "over"),
    ],
)
def test_what_is_not_private_is_refused_by_name(tmp_path: Path, spoil: Callable[[Path], None], why: str) -> None:
    """Neither is it read nor replaced; and no error says what is in it."""
    files = PrivateFiles(tmp_path)
    files.change("f", lambda _: CANARY)
    spoil(tmp_path / "f")
    for is_change in (False, True):
        with pytest.raises(IdentityError, match=why) as caught:
            files.change("f", lambda _: b"") if is_change else files.read("f")
        assert str(tmp_path / "f") in str(caught.value)
        assert CANARY.decode() not in repr(caught.value)


def test_a_file_that_is_replaced_while_it_is_read_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was opened is read whole, although it has no name left; and no second one either."""
    files = PrivateFiles(tmp_path)
    files.change("f", lambda _: CANARY)

    def replaced(opened: int) -> os.stat_result:
        monkeypatch.undo()
        files.change("f", lambda _: b"new")
        return os.fstat(opened)

    monkeypatch.setattr(os, "fstat", replaced)
    assert (files.read("f"), files.read("f")) == (CANARY, b"new")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give files away")
def test_other_peoples_files(tmp_path: Path) -> None:
    """A stranger's file is refused; what root changes for a node stays the node's user's."""
    files = PrivateFiles(tmp_path)
    files.change("f", lambda _: CANARY)
    os.chown(tmp_path / "f", 65_534, 65_534)
    with pytest.raises(IdentityError, match="another user"):
        files.read("f")
    os.chown(tmp_path, 65_534, 65_534)
    assert files.change("f", lambda now: (now or b"") + b"!") == CANARY + b"!"
    assert (tmp_path / "f").stat().st_uid == 65_534


def test_a_disk_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = PrivateFiles(tmp_path)
    files.change("f", lambda _: b"1")

    def fail(_fd: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(IdentityError, match="No space left"):
            files.change("f", lambda _: b"2")
    assert (files.read("f"), [path.name for path in tmp_path.iterdir()]) == (b"1", ["f"])


def test_what_a_killed_process_left_does_not_disturb(tmp_path: Path) -> None:
    (tmp_path / "f.new").write_bytes(b"half")
    assert PrivateFiles(tmp_path).change("f", lambda _: b"1") == b"1"
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


COUNT = """
import sys
from pathlib import Path
from triack.node.files.private_files import PrivateFiles
for _ in range(100):
    PrivateFiles(Path(sys.argv[1])).change("f", lambda now: b"%d" % (int(now or b"0") + 1))
"""


@pytest.mark.slow
def test_processes_do_not_undo_each_others_changes(tmp_path: Path) -> None:
    children = [subprocess.Popen([sys.executable, "-c", COUNT, str(tmp_path)]) for _ in range(3)]
    assert [child.wait(60) for child in children] == [0, 0, 0]
    assert PrivateFiles(tmp_path).read("f") == b"300"


def test_a_locked_directory_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_files, "LOCK_SECONDS", 0.01)
    files = PrivateFiles(tmp_path)

    def inside(_now: bytes | None) -> bytes:
        with pytest.raises(IdentityError, match=f"{tmp_path}: another process has it locked"):
            files.change("g", lambda _: b"")
        return b""

    files.change("f", inside)


# A file that another user of the machine has put somewhere is never taken for our own.


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (pipe, "is no regular file"),
        (link, "is a symbolic link"),
        (lambda path: path.chmod(0o620), r"\(mode 0620\)"),
        (lambda path: path.chmod(0o602), r"\(mode 0602\)"),
        (lambda path: path.chmod(0o666), r"\(mode 0666\)"),
    ],
)
def test_a_file_of_ours_is_opened_and_what_others_may_have_written_is_refused_by_name(
    tmp_path: Path, spoil: Callable[[Path], None], why: str
) -> None:
    """A pipe that nobody writes to would be waited for without end."""
    path = tmp_path / "note"
    path.write_bytes(b"x")
    path.chmod(0o644)
    with os.fdopen(open_plain(path, trusted_users()), "rb") as opened:
        assert opened.read() == b"x"
    spoil(path)
    with pytest.raises(PermissionError, match=f"{path} {why}"):
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


KEY = bytes(range(32))
ONE = Identity.make(lambda _: KEY)
PUBLIC = ONE.public[0]
PRIVATE_TEXT = encode_key(KeyKind.PRIVATE, KEY)
LOW_ORDER = [bytes(32), b"\1" + bytes(31), b"\xec" + b"\xff" * 30 + b"\x7f"]


@pytest.mark.parametrize("kind", KeyKind)
def test_a_key_survives_its_text(kind: KeyKind) -> None:
    """In any case, and with the space that copying brings along."""
    text = encode_key(kind, PUBLIC)
    assert text.startswith(f"triack-{kind}-")
    assert decode_key(kind, f"  {text.upper()}\n") == PUBLIC


def test_every_typo_in_a_letter_is_noticed() -> None:
    """Each letter replaced by each other one, and each pair of neighbours exchanged."""
    text = encode_key(KeyKind.PUBLIC, PUBLIC)
    start = len("triack-public-")
    typos = {
        text[:place] + letter + text[place + 1 :]
        for place in range(start, len(text))
        for letter in "abcdefghijklmnopqrstuvwxyz234567"
    }
    typos |= {text[:place] + text[place + 1] + text[place] + text[place + 2 :] for place in range(start, len(text) - 1)}
    typos.discard(text)
    assert len(typos) > 1700
    for typo in typos:
        with pytest.raises(KeyUnreadable, match="mistyped"):
            decode_key(KeyKind.PUBLIC, typo)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "begins with triack-public-"),
        (PUBLIC.hex(), "begins with triack-public-"),
        (PRIVATE_TEXT, "this is a private one"),
        (encode_key(KeyKind.PUBLIC, PUBLIC)[:-1], "56 letters"),
        ("triack-public-" + "1" * 56, "56 letters"),
        (PRIVATE_TEXT.replace("private", "public"), "mistyped"),
        *((encode_key(KeyKind.PUBLIC, point), "no private key belongs to it") for point in LOW_ORDER),
    ],
)
def test_a_bad_public_key_is_rejected_without_repeating_it(text: str, why: str) -> None:
    """It may be a secret in the wrong place."""
    with pytest.raises(KeyUnreadable, match=why) as caught:
        decode_key(KeyKind.PUBLIC, text)
    assert PRIVATE_TEXT[20:30] not in str(caught.value)


def test_a_key_is_made_once(tmp_path: Path) -> None:
    """The second start finds the first one's, whatever chance says; its file is private."""
    files = PrivateFiles(tmp_path / "data")
    first = open_identity(files, os.urandom)
    assert open_identity(files, os.urandom).public == first.public
    assert (tmp_path / "data" / IDENTITY_FILE).stat().st_mode & 0o777 == 0o600
    assert open_identity(MemoryFiles(), os.urandom).public != first.public


def test_keys_change_without_a_gap() -> None:
    """Add one, put it first, take the old one out: there always is one to call with, and it is the first."""
    both = ONE.with_new(os.urandom)
    new = both.public[1]
    assert both.public == (PUBLIC, new)
    turned = both.with_first(new)
    assert turned.public == (new, PUBLIC)
    last = turned.without(PUBLIC)
    assert last.public == (new,)
    assert Identity.decode(turned.encode(), "f").public == turned.public
    with pytest.raises(IdentityError, match="no other"):
        last.without(new)
    with pytest.raises(IdentityError, match="no key of this node"):
        last.with_first(PUBLIC)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "there is no key in it"),
        (b"# only a comment\n\n", "there is no key in it"),
        (b"# one\n" + PRIVATE_TEXT.encode()[:-1] + b"\n", "line 2: after triack-private- come 56 letters"),
        (PRIVATE_TEXT[:-1].encode() + b"7\n", "line 1: the checksum does not fit"),
        (encode_key(KeyKind.PUBLIC, PUBLIC).encode(), "line 1: a private key is wanted, and this is a public one"),
        (b"\xff\x00", "line 1: a private key begins with"),
        (f"{PRIVATE_TEXT}\n{PRIVATE_TEXT}\n".encode(), "twice"),
        (b"\n".join(encode_key(KeyKind.PRIVATE, bytes([n]) * 32).encode() for n in range(9)), "9 keys"),
    ],
)
def test_a_damaged_file_is_named_with_its_line(content: bytes, why: str) -> None:
    """And nothing of the line is repeated."""
    files = MemoryFiles()
    files.change(IDENTITY_FILE, lambda _: content)
    with pytest.raises(IdentityError) as caught:
        open_identity(files, os.urandom)
    assert f"{caught.value}".startswith("read identity in memory")
    assert why in str(caught.value)
    assert PRIVATE_TEXT[20:30] not in str(caught.value)


def test_nothing_that_shows_an_identity_shows_its_private_keys() -> None:
    both = ONE.with_new(os.urandom)
    shown = f"{both!r} {both} {both.keys!r} {vars(keys)}"
    assert encode_key(KeyKind.PUBLIC, PUBLIC) in shown
    assert not [form for form in (PRIVATE_TEXT, KEY.hex(), repr(KEY)) if form in shown]
