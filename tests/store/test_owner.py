"""One process has a data directory: whatever reads its files, deletes them, or forks; and the one that lost it says so.

The second openers are processes of their own.
"""

import errno
import fcntl
import os
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copytree

import pytest

from tests.machine import PATIENCE_S
from triack.base.commit import Commit
from triack.base.errors import StoreDamaged, StoreError, StoreInUse, StoreLost
from triack.store.folder import STORE_FILE
from triack.store.owner import OWNER_FILE
from triack.store.store import Store

NODE_ID = b"n" * 16
SECOND = """
import sys
from pathlib import Path
from triack.base.commit import Commit
from triack.base.errors import TriackError
from triack.store import owner
from triack.store.store import Store
if "--no-locks" in sys.argv:
    owner.fcntl.flock = lambda *_: None
    owner.fcntl.fcntl = lambda *_: None
try:
    store = Store(Path(sys.argv[1]))
    print(*sorted(store.load(b"n" * 16, 2).state))
    store.apply(Commit(state={"second": b"1"}))
except TriackError as error:
    print(type(error).__name__, error)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def store(folder: Path) -> Iterator[Store]:
    found = Store(folder)
    found.load(NODE_ID, 1)
    put(found, "first")
    yield found
    found.close()


def put(store: Store, key: str) -> None:
    store.apply(Commit(state={key: b"1"}))


def open_second(folder: Path, *options: str) -> str:
    command = [sys.executable, "-c", SECOND, str(folder), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    return done.stdout.strip()


def states(folder: Path) -> list[str]:
    store = Store(folder)
    found = store.load(NODE_ID, 9).state
    store.close()
    return sorted(found)


def _query(folder: Path) -> None:
    for name in (str(folder / STORE_FILE), f"file:{folder / STORE_FILE}?mode=ro"):
        database = sqlite3.connect(name, uri=True, timeout=0)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            database.execute("SELECT * FROM state").fetchall()
        database.close()


def _fork(_folder: Path) -> None:
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)


def _delete_lock(folder: Path) -> None:
    (folder / OWNER_FILE).unlink()


def _replace_lock(folder: Path) -> None:
    _delete_lock(folder)
    (folder / OWNER_FILE).touch(mode=0o600)


HARMLESS: dict[str, Callable[[Path], object]] = {
    "read": lambda folder: [path.read_bytes() for path in folder.iterdir()],
    "copy": lambda folder: copytree(folder, folder.with_name("copy")),
    "query": _query,
    "fork": _fork,
    "delete the lock": _delete_lock,
    "replace the lock": _replace_lock,
    "empty the lock": lambda folder: os.truncate(folder / OWNER_FILE, 0),
}


@pytest.mark.gate
@pytest.mark.parametrize("harm", HARMLESS)
def test_nothing_that_innocent_code_does_lets_a_second_process_in(store: Store, folder: Path, harm: str) -> None:
    """Each of these took SQLite's own locks away, or would take a lock away that is a file. The first goes on."""
    HARMLESS[harm](folder)
    assert open_second(folder).startswith(f"StoreInUse open store {folder / STORE_FILE}: in use by another node: ")
    put(store, "after")
    assert open_second(folder).startswith("StoreInUse")
    store.close()
    assert states(folder) == ["after", "first"]


def test_a_second_process_learns_which_process_has_it(store: Store, folder: Path) -> None:
    del store
    told = open_second(folder)
    assert f"in use by another node: process {os.getpid()} on {os.uname().nodename}; " in told
    assert told.endswith(f"another process uses that node by triack.connect({str(folder)!r}), and a command by --data")


@pytest.mark.gate
def test_other_names_of_a_directory_lead_to_the_same_lock(store: Store, folder: Path, tmp_path: Path) -> None:
    """A link to it; and one where only the store is the same file is refused as what it is."""
    del store
    (tmp_path / "link").symlink_to(folder)
    (tmp_path / "hard").mkdir(mode=0o700)
    (tmp_path / "hard" / STORE_FILE).hardlink_to(folder / STORE_FILE)
    assert open_second(tmp_path / "link").startswith("StoreInUse")
    assert "it has another name, too (a hard link)" in open_second(tmp_path / "hard")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_another_mount_of_the_directory_leads_to_the_same_lock(store: Store, folder: Path, tmp_path: Path) -> None:
    """As a container has it that is given the same volume: a mount, in a namespace of its own."""
    del store
    (tmp_path / "mount").mkdir()
    script = f'mount --bind "{folder}" "{tmp_path}/mount" && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", script, "sh", sys.executable, "-c", SECOND, str(tmp_path / "mount")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    if done.returncode:
        pytest.skip(f"this machine lets nobody mount: {done.stderr.strip()}")
    assert done.stdout.startswith("StoreInUse")


@pytest.mark.gate
def test_a_process_that_lost_the_store_tells_nobody_that_anything_is_durable(store: Store, folder: Path) -> None:
    """Where locks do not reach: the second has all that was reported, and the first ends before it writes anything."""
    assert open_second(folder, "--no-locks") == "first"
    files = folder / STORE_FILE, folder / f"{STORE_FILE}-wal"
    written = [file.read_bytes() for file in files]
    why = rf"commit store .*{STORE_FILE}: it belongs to another process now: process \d"
    for _ in range(2):
        with pytest.raises(StoreLost, match=why):
            put(store, "lost")
    with pytest.raises(StoreLost):
        store.check()
    store.close()
    assert [file.read_bytes() for file in files] == written
    assert states(folder) == ["first", "second"]


@pytest.mark.gate
def test_a_store_that_is_lost_within_a_commit_is_found_before_the_commit_counts(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other process came between the look before the commit and its end."""
    write = store._write_meta  # noqa: SLF001

    def write_later() -> None:
        write()
        assert open_second(folder, "--no-locks") == "first"

    monkeypatch.setattr(store, "_write_meta", write_later)
    with pytest.raises(StoreLost):
        put(store, "lost")


@pytest.mark.gate
def test_without_locks_of_open_files_the_deleted_lock_is_taken_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on systems other than Linux: SQLite's own locks then keep others out, and ``owner`` is made anew."""
    monkeypatch.setattr("triack.store.owner._SET_OPEN_FILE_LOCK", None)
    store = Store(folder)
    store.load(NODE_ID, 1)
    _delete_lock(folder)
    put(store, "first")
    assert open_second(folder).startswith("StoreInUse")
    _delete_lock(folder)
    with (folder / OWNER_FILE).open("wb") as other:
        (folder / OWNER_FILE).chmod(0o600)
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(StoreLost, match="another process has locked a new owner"):
            put(store, "second")
    store.close()


def test_a_forked_child_has_no_part_in_the_store(store: Store, folder: Path) -> None:
    """It commits nothing, its end removes nothing, and it does not keep the directory when its parent is gone."""
    put(store, "before")
    ready, told = os.pipe()
    child = os.fork()
    if not child:
        try:
            put(store, "child")
        except StoreLost as error:
            os.write(told, str(error).encode())
        store.close()
        os.read(ready, 0)
        os._exit(0)
    os.close(told)
    assert b"this process was forked from the one that has it" in os.read(ready, 1_000)
    os.waitpid(child, 0)
    put(store, "after")
    store.close()
    assert states(folder) == ["after", "before", "first"]


@pytest.mark.gate
def test_a_child_that_lives_on_does_not_keep_the_directory(folder: Path) -> None:
    """The process that had it was killed; its child knows nothing of a store."""
    script = (
        "import os, sys, time\nfrom pathlib import Path\nfrom triack.store.store import Store\n"
        "store = Store(Path(sys.argv[1]))\nstore.load(b'n' * 16, 1)\nchild = os.fork()\n"
        "if not child:\n    print(os.getpid(), flush=True)\n    os.close(1)\n    sys.stdin.read()\n    os._exit(0)\n"
        "os._exit(0)\n"
    )
    command = [sys.executable, "-c", script, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.wait(PATIENCE_S)
        os.kill(child, 0)
        assert states(folder) == []


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_locks_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """By name: nothing would keep a second process out. Nothing is made there."""

    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(StoreError, match=rf"{folder}: its file system has no locks \({os.strerror(code)}\)"):
        Store(folder)
    assert [path.name for path in folder.iterdir()] == [OWNER_FILE]


@contextmanager
def no_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.gate
def test_a_process_without_a_descriptor_left_has_not_lost_its_store(store: Store, folder: Path) -> None:
    """It goes on, and still sees that another one has taken it."""
    with no_descriptors():
        with pytest.raises(OSError, match="Too many open files"):
            os.open(folder, os.O_RDONLY)
        put(store, "second")
    assert open_second(folder, "--no-locks") == "first second"
    with no_descriptors(), pytest.raises(StoreLost):
        put(store, "third")


def test_what_was_no_store_leaves_no_owner(folder: Path) -> None:
    """A database of somebody else's is refused, and when it is gone the directory is a new one."""
    folder.mkdir(mode=0o700)
    (folder / STORE_FILE).write_bytes(b"x" * 1_000)
    (folder / STORE_FILE).chmod(0o600)
    with pytest.raises(StoreDamaged):
        Store(folder)
    (folder / STORE_FILE).unlink()
    assert states(folder) == []


def test_two_stores_of_one_process_are_two(store: Store, folder: Path) -> None:
    del store
    with pytest.raises(StoreInUse, match=f"process {os.getpid()} on"):
        Store(folder)


def test_a_damaged_record_says_that_there_was_a_store(folder: Path) -> None:
    Store(folder).close()
    (folder / OWNER_FILE).write_bytes(b"\xff" * 512)
    assert states(folder) == []
    (folder / OWNER_FILE).write_bytes(b"\xff" * 512)
    (folder / STORE_FILE).unlink()
    with pytest.raises(StoreDamaged, match="it is gone, but node of unknown name kept its messages in it"):
        Store(folder)


OVERLAYS = """
set -e
mkdir low up one two first second
mount -t overlay one -o lowerdir=low,upperdir=up,workdir=one first
mount -t overlay two -o lowerdir=low,upperdir=up,workdir=two second
exec "$@"
"""
BOTH = """
import subprocess, sys
from pathlib import Path
from triack.base.commit import Commit
from triack.base.errors import StoreLost
from triack.store.store import Store
store = Store(Path("first/data"))
store.load(b"n" * 16, 1)
store.apply(Commit(state={"first": b"1"}))
print(subprocess.run([sys.executable, "-c", sys.argv[1], "second/data"], capture_output=True, text=True).stdout.strip())
try:
    store.apply(Commit(state={"lost": b"1"}))
except StoreLost:
    print("lost")
"""


@pytest.mark.gate
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_where_locks_do_not_reach_from_mount_to_mount_the_first_finds_out(tmp_path: Path) -> None:
    """As two containers have it whose file systems lie over one another's: each kernel object has locks of its own."""
    command = ["unshare", "--mount", "sh", "-c", OVERLAYS, "sh", sys.executable, "-c", BOTH, SECOND]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    if "mount" in done.stderr:
        pytest.skip(f"this machine mounts no overlay: {done.stderr.strip()}")
    assert done.stdout.split() == ["first", "lost"], done.stderr
