"""The wheel from the same files, compiled: ``TRIACK_COMPILED=1`` makes C extensions of the pure rooms with mypyc.

Without it this file does nothing, and pyproject.toml says it all. docs/decisions/0049 says why and what it gives.
"""

from os import environ
from pathlib import Path
from shutil import copyfile, rmtree
from tomllib import loads

from setuptools import Extension, setup

HERE = Path(__file__).parent
STAGE = Path("build/compiled")
ROOMS = ("base", "ordering", "session", "queues")
BESIDES = ("node/hands.py", "transport/data_keys.py")
"""What is asked per packet or message in rooms that are otherwise the event loop's."""
INTERPRETED = {
    "base/errors.py",  # exceptions inherit from Python's own, which mypyc cannot
    "base/ack_trigger.py",  # what users write is refused by its own checks, by name; so are all settings here
    "base/news.py",  # what users read keeps its docstrings; so do all others here
    "ordering/settings.py",
    "queues/accepted_keys.py",
    "queues/ack_events.py",
    "queues/blocking.py",
    "queues/browse.py",
    "queues/quotas.py",
    "queues/reconnect.py",
    "queues/redelivery.py",
    "queues/settings.py",
    "session/policy.py",
    "session/settings.py",
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
    pure = [file for room in ROOMS for file in sorted((root / room).glob("*.py"))]
    return [
        str(file) for file in [*pure, *map(root.joinpath, BESIDES)] if str(file.relative_to(root)) not in INTERPRETED
    ]


def extensions() -> list[Extension]:
    """Say what is to be compiled: nothing, or the pure rooms."""
    if environ.get("TRIACK_COMPILED") != "1":
        return []
    from mypyc.build import mypycify  # noqa: PLC0415 - a plain wheel is built without it

    return mypycify(["--strict", *stage()], opt_level="2", debug_level="0", multi_file=True, target_dir="build/mypyc")


setup(ext_modules=extensions())
