"""A process of another user of the machine gets no answer, and none of its files is touched."""

import asyncio
import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.node.users import OTHER, OWNER, commons, make_folder, needs_users, run_as
from tests.sure import sure
from triack.base.errors import TriackError
from triack.node.control import handover, socket_file
from triack.node.control.control_frames import dial
from triack.node.control.socket_file import make_socket_path
from triack.node.files.notes import folder_of, read_note, write_note

__all__ = ["commons"]


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is about to serve any of these directories."""
    monkeypatch.setattr(handover, "SOON_S", 0.02)


@contextmanager
def listening(path: Path, user: int = 0) -> Iterator[socket.socket]:
    """A process of a user that serves a socket, and says nothing."""
    with socket.socket(socket.AF_UNIX) as end:

        def begin() -> None:
            end.bind(str(path))
            end.listen()

        run_as(user, begin) if user else begin()
        path.chmod(0o600)
        yield end


def heard(server: socket.socket) -> bytes:
    """All that was said to a server on connections that have ended."""
    server.setblocking(False)
    said = b""
    try:
        while True:
            end, _ = server.accept()
            said += end.recv(100)
            end.close()
    except BlockingIOError:
        return said


def publish_at(data: Path, control: Path) -> None:
    """A note as a process leaves it that was killed."""
    write_note(data, handover.Served(folder=folder_of(data), control=str(control), pid=1, listen=""))


async def why_not(control: Path) -> str | None:
    try:
        link = await dial(control)
    except PermissionError as error:
        return error.strerror
    await link.close()
    return None


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine on which nothing says where sockets belong, but there is a directory for temporary files."""
    monkeypatch.delenv("RUNTIME_DIRECTORY", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "none"))
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000)
    monkeypatch.setattr(socket_file, "trusted_users", lambda: {tmp_path.stat().st_uid, 0})
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("variable", ["RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR"])
def test_a_runtime_directory_is_preferred(places: Path, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    (places / "run").mkdir(0o700)
    monkeypatch.setenv(variable, str(places / "run"))
    path = make_socket_path()
    assert (path.name, path.parent.parent, path.parent.stat().st_mode & 0o777) == ("control", places / "run", 0o700)


def test_a_runtime_directory_is_enough(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a read-only root file system there may be no directory for temporary files."""

    def none() -> str:
        raise FileNotFoundError("no usable temporary directory")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    (places / "run").mkdir(0o700)
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(places / "run"))
    assert make_socket_path().parent.parent == places / "run"
    monkeypatch.delenv("RUNTIME_DIRECTORY")
    with pytest.raises(TriackError, match="set XDG_RUNTIME_DIR or TMPDIR"):
        make_socket_path()


def test_a_runtime_directory_that_others_may_write_to_is_passed_over(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (places / "run").mkdir()
    (places / "run").chmod(0o777)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(places / "run"))
    assert make_socket_path().parent.parent == places


def test_a_control_socket_that_the_system_would_refuse_is_named(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket's path holds 103 bytes; nothing is left behind."""
    long = places / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with pytest.raises(TriackError) as refused:
        make_socket_path()
    why = "the path is too long; set XDG_RUNTIME_DIR or TMPDIR"
    assert str(refused.value) == f"control socket {long}/triack-...: {why}"
    assert list(long.iterdir()) == []


async def test_what_others_may_use_is_not_spoken_to(tmp_path: Path) -> None:
    folder = tmp_path / "triack-x"
    folder.mkdir(0o700)
    with listening(folder / "control") as server:
        assert await why_not(folder / "control") is None
        folder.chmod(0o750)
        assert await why_not(folder / "control") == f"others may use {folder} (mode 0750)"
        folder.chmod(0o700)
        heard(server)
        (folder / "link").symlink_to("control")
        assert await why_not(folder / "link") == f"{folder / 'link'} is no socket"
        (tmp_path / "triack-link").symlink_to("triack-x")
        with pytest.raises(NotADirectoryError):
            await dial(tmp_path / "triack-link" / "control")
        assert heard(server) == b""


async def test_a_path_of_any_length_is_dialled(tmp_path: Path) -> None:
    """As of a socket in a container, seen from outside."""
    folder = tmp_path / "x"
    folder.mkdir(0o700)
    with listening(folder / "control"):
        long = tmp_path / ("y" * 200)
        folder.rename(long)
        assert await why_not(long / "control") is None


@needs_users
async def test_a_socket_of_another_user_in_the_place_of_ours_gets_no_byte(commons: Path) -> None:
    """The node was killed and the machine started anew. Another user has seen the path, and makes it again."""
    data = make_folder(commons / "data", OWNER)
    control = make_folder(commons / "triack-seen", OTHER, 0o755) / "control"
    run_as(OWNER, lambda: publish_at(data, control))
    refusals: list[str] = []
    with listening(control, OTHER) as server:
        control.chmod(0o777)
        find = handover.find(data, refusals.append)
        assert await asyncio.to_thread(lambda: run_as(OWNER, lambda: asyncio.run(find))) is None
        assert heard(server) == b""
    why = f"{control.parent} belongs to another user (uid {OTHER})"
    assert refusals == [f"control socket of {data} not used: {why}"]


@needs_users
async def test_a_process_of_another_user_gets_no_byte_by_whatever_socket(commons: Path) -> None:
    """Owner and mode are right, and the one who listens is not."""
    control = make_folder(commons / "triack-x", OTHER) / "control"
    with listening(control, OTHER) as server:
        os.chown(control.parent, OWNER, OWNER)
        os.chown(control, OWNER, OWNER)
        why = await asyncio.to_thread(lambda: run_as(OWNER, lambda: asyncio.run(why_not(control))))
        assert why == f"the process at its other end runs as another user (uid {OTHER})"
        assert heard(server) == b""


@needs_users
async def test_root_may_use_the_node_of_the_owner_of_a_directory(commons: Path) -> None:
    """And of nobody else: not its own either, which somebody may have named there to have it used."""
    data = make_folder(commons / "data", OWNER)
    control = make_folder(commons / "triack-x", OWNER) / "control"
    run_as(OWNER, lambda: publish_at(data, control))
    refusals: list[str] = []
    with listening(control, OWNER):
        link = sure(await handover.find(data, refusals.append))
        await link.close()
        for user, whose in ((OTHER, f"another user (uid {OTHER})"), (0, "another user (uid 0)")):
            os.chown(control.parent, user, user)
            assert await handover.find(data, refusals.append) is None
            assert refusals.pop() == f"control socket of {data} not used: {control.parent} belongs to {whose}"


@needs_users
async def test_a_note_of_another_user_is_not_acted_by(commons: Path) -> None:
    """In a directory that everybody may write to."""
    data = make_folder(commons / "data", OWNER, 0o777)
    run_as(OTHER, lambda: publish_at(data, commons / "triack-x" / "control"))
    (data / "node.json").chmod(0o644)
    refusals: list[str] = []
    assert run_as(OWNER, lambda: asyncio.run(handover.find(data, refusals.append))) is None
    assert refusals == [f"note not used: {data / 'node.json'} belongs to another user (uid {OTHER})"]


def test_what_a_killed_process_left_is_cleared_away(tmp_path: Path) -> None:
    control = make_socket_path()
    with listening(control):
        publish_at(tmp_path, control)
    publish_at_start(tmp_path)
    assert not control.parent.exists()


def publish_at_start(data: Path) -> None:
    """What a node does that begins."""
    handover.publish(data, handover.Served(folder=folder_of(data), control="/x/triack-new/control", pid=2, listen=""))


def test_a_socket_that_is_served_is_another_nodes(tmp_path: Path) -> None:
    control = make_socket_path()
    with listening(control) as server:
        publish_at(tmp_path, control)
        publish_at_start(tmp_path)
        assert control.exists()
        assert heard(server) == b""
    socket_file.remove(control)
    assert not control.parent.exists()


def test_a_socket_that_many_wait_at_is_served(tmp_path: Path) -> None:
    """Its process has not come to accept them yet."""
    control = make_socket_path()
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as first:
        server.bind(str(control))
        server.listen(0)
        first.connect(str(control))
        assert socket_file.is_served(control)
    assert not socket_file.is_served(control)
    socket_file.remove(control)


def test_nothing_behind_a_link_is_removed(tmp_path: Path) -> None:
    """Another user has put it where the folder of the socket was."""
    prey = tmp_path / "prey"
    prey.mkdir(0o700)
    with listening(prey / "control"):
        pass
    (tmp_path / "triack-x").symlink_to("prey")
    publish_at(tmp_path, tmp_path / "triack-x" / "control")
    publish_at_start(tmp_path)
    assert (prey / "control").exists()
    assert (tmp_path / "triack-x").is_symlink()


def test_only_a_socket_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "triack-x"
    folder.mkdir(0o700)
    (folder / "control").write_text("precious")
    publish_at(tmp_path, folder / "control")
    publish_at_start(tmp_path)
    assert (folder / "control").read_text() == "precious"
    assert read_note(tmp_path, handover.Served) is not None


@needs_users
async def test_a_node_does_not_listen_to_another_user(commons: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Although somebody has opened folder and socket to all."""
    import triack

    async with triack.open("a", data=commons / "a", insecure=True):
        served = sure(read_note(commons / "a", handover.Served))
        control = Path(served.control)

        def open_to_all() -> None:
            control.parent.chmod(0o755)
            control.chmod(0o666)

        def call() -> bytes:
            with socket.socket(socket.AF_UNIX) as end:
                end.connect(str(control))
                try:
                    return end.recv(1)
                except ConnectionResetError:
                    return b""

        await asyncio.to_thread(open_to_all)
        assert await asyncio.to_thread(lambda: run_as(OTHER, call)) == b""
    why = f"the process at its other end runs as another user (uid {OTHER})"
    assert f"control socket: a process was not served: {why}" in caplog.messages
