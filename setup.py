"""What pyproject.toml cannot say: builds that are the same bit by bit, and a wheel with machine code.

The same files give the same archives, wherever, whenever and by whom they are built: times are ``SOURCE_DATE_EPOCH``
(reproducible-builds.org), owners root, modes 0644 and 0755, names in order. ``TRIACK_COMPILED=1`` makes C extensions of
the pure rooms with mypyc; docs/decisions/0034 says why and what it gives.
"""

import tarfile
from gzip import GzipFile
from os import environ, umask
from pathlib import Path
from shutil import copyfile, rmtree
from tomllib import loads
from typing import Any

from setuptools import Extension, setup
from setuptools.command.sdist import sdist

HERE = Path(__file__).parent
STAGE = Path("build/compiled")
EPOCH = "315532800"
"""1980, the first year of a wheel, which is a zip file; where nothing says when the sources are of."""
MODE, PROGRAM_MODE = 0o644, 0o755
ROOMS = ("base", "ordering", "session", "queues")
BESIDES = ("node/handles/in_flight.py", "transport/data_keys.py")
"""What is asked per packet or message in rooms that are otherwise the event loop's."""
INTERPRETED = {
    "base/errors.py",  # exceptions inherit from Python's own, which mypyc cannot
    "base/ack_trigger.py",  # what users write is refused by its own checks, by name; so are all settings here
    "base/reasons.py",  # members of its enums are made by their own __new__, which mypyc refuses
    "base/news.py",  # what users read keeps its docstrings; so do all others here
    "ordering/order_settings.py",
    "queues/streams/accepted_keys.py",
    "queues/streams/ack_events.py",
    "queues/blocking.py",
    "queues/manager/browse.py",
    "queues/mailboxes/quotas.py",
    "queues/peers/reconnect.py",
    "queues/mailboxes/redelivery.py",
    "queues/node_settings.py",
    "queues/remote/requests.py",  # mypyc gives a default to a field that __init__ does not take
    "queues/routes.py",
    "session/protocol/policy.py",
    "session/protocol/settings.py",
}


def stage() -> list[str]:
    """Lay the folders out as the packages that they are, as mypyc takes a module's name from its path."""
    rmtree(STAGE, ignore_errors=True)
    folders = loads((HERE / "pyproject.toml").read_text())["tool"]["setuptools"]["package-dir"]
    for package, folder in sorted(folders.items()):
        target = STAGE / package.replace(".", "/")
        target.mkdir(parents=True, exist_ok=True)
        for file in sorted((HERE / folder).glob("*.py")):
            copyfile(file, target / file.name)
    root = STAGE / "triack"
    pure = [file for room in ROOMS for file in sorted((root / room).rglob("*.py"))]
    return [
        str(file) for file in [*pure, *map(root.joinpath, BESIDES)] if str(file.relative_to(root)) not in INTERPRETED
    ]


def extensions() -> list[Extension]:
    """Say what is to be compiled: nothing, or the pure rooms."""
    if environ.get("TRIACK_COMPILED") != "1":
        return []
    from mypyc.build import mypycify  # noqa: PLC0415 - a plain wheel is built without it

    return mypycify(["--strict", *stage()], opt_level="2", debug_level="0", multi_file=True, target_dir="build/mypyc")


class SameArchive(sdist):
    """The source archive, with nothing in it that the next build would have otherwise."""

    def make_archive(self, base_name: str, format: str, *_: Any, base_dir: Any, **__: Any) -> str:  # noqa: A002 - its name there
        """Write it, in the one format that package indexes take. Returns its path."""
        assert format == "gztar", "pyproject.toml asks for no other"
        path, epoch = Path(f"{base_name}.tar.gz"), int(environ["SOURCE_DATE_EPOCH"])
        path.parent.mkdir(parents=True, exist_ok=True)
        with (
            path.open("wb") as file,
            GzipFile("", "wb", fileobj=file, mtime=epoch) as zipped,
            tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            for member in sorted([Path(base_dir), *Path(base_dir).rglob("*")]):
                archive.add(member, recursive=False, filter=lambda found: _plain(found, epoch))
        return str(path)


def _plain(found: tarfile.TarInfo, epoch: int) -> tarfile.TarInfo:
    found.uid = found.gid = 0
    found.uname = found.gname = "root"
    found.mtime = epoch
    found.mode = PROGRAM_MODE if found.isdir() or found.mode & 0o100 else MODE
    return found


environ.setdefault("SOURCE_DATE_EPOCH", EPOCH)
umask(0o022)  # of what setuptools writes into a wheel
setup(ext_modules=extensions(), cmdclass={"sdist": SameArchive})
