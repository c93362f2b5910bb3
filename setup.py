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
PURE_ROOMS = ("base", "ordering", "session", "queues")
INTERPRETED = {"triack/base/errors.py"}
"""Exceptions, which inherit from Python's own; mypyc cannot."""


def stage() -> list[str]:
    """Lay the folders out as the packages that they are, as mypyc takes a module's name from its path."""
    rmtree(STAGE, ignore_errors=True)
    folders = loads((HERE / "pyproject.toml").read_text())["tool"]["setuptools"]["package-dir"]
    for package, folder in sorted(folders.items()):
        target = STAGE / package.replace(".", "/")
        target.mkdir(parents=True, exist_ok=True)
        for file in sorted((HERE / folder).glob("*.py")):
            copyfile(file, target / file.name)
    pure = (file for room in PURE_ROOMS for file in sorted((STAGE / "triack" / room).glob("*.py")))
    return [str(file) for file in pure if str(file.relative_to(STAGE)) not in INTERPRETED]


def extensions() -> list[Extension]:
    """Say what is to be compiled: nothing, or the pure rooms."""
    if environ.get("TRIACK_COMPILED") != "1":
        return []
    from mypyc.build import mypycify

    return mypycify(["--strict", *stage()], opt_level="2", debug_level="0", multi_file=True, target_dir="build/mypyc")


setup(ext_modules=extensions())
