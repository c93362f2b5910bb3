"""A PostgreSQL server of the system's packages, for one run of the tests: in a folder of its own, on a socket alone."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

PLACES = "/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin"
"""Where Debian, Fedora and a build from source put the programs of the server."""
MISSING = "no PostgreSQL server on this machine (Debian: apt-get install postgresql)"


class Postgres:
    """A server that can be killed and started again.

    Args:
        programs: the folder of its programs.
        folder: the folder of its data and its socket.
        user: the user that runs it; None: this one.
    """

    def __init__(self, programs: Path, folder: Path, user: str | None) -> None:
        self._programs = programs
        self._folder = folder
        self._user = user
        self._databases = 0
        self._run("initdb", "--no-sync", "--auth=trust", "--username=tests", "--encoding=UTF8", "--locale=C")
        self.start()

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), f"--pgdata={self._folder / 'data'}", *arguments]
        log = self._folder / "programs.log"
        with log.open("ab") as output:
            done = subprocess.run(command, user=self._user, cwd=self._folder, stdout=output, stderr=output, check=False)
        assert done.returncode == 0, log.read_text()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = f"-c listen_addresses='' -c unix_socket_directories={self._folder}"
        self._run("pg_ctl", "start", "--wait", f"--log={self._folder / 'server.log'}", f"--options={options}")

    def kill(self) -> None:
        """End all its processes at once, as a crash does."""
        self._run("pg_ctl", "stop", "--mode=immediate")

    def conninfo(self) -> str:
        """A new, empty database, as psycopg reaches it."""
        self._databases += 1
        name = f"tests{self._databases}"
        with psycopg.connect(f"host={self._folder} user=tests dbname=postgres", autocommit=True) as db:
            db.execute(f"CREATE DATABASE {name}".encode())
        return f"host={self._folder} user=tests dbname={name}"


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    """A server, as a user that is not root, as it refuses to run as that. Skips the test when there are no programs."""
    programs = next(
        (it for place in PLACES for it in sorted(Path("/").glob(place[1:])) if (it / "initdb").exists()), None
    )
    if programs is None:
        pytest.skip(MISSING)
    folder = Path(tempfile.mkdtemp(prefix="pg"))  # outside of tmp_path, which is closed to other users
    user = None
    if os.geteuid() == 0:
        user = next(name for name in ("postgres", "nobody") if _is_user(name))
        shutil.chown(folder, user)
        folder.chmod(0o755)
    server = None
    try:
        server = Postgres(programs, folder, user)
        yield server
    finally:
        if server is not None:
            server.kill()
        shutil.rmtree(folder)


def _is_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def connected(conninfo: str) -> Any:
    """A connection; ``Any``, as sqlite3's has the same methods."""
    return psycopg.connect(conninfo)
