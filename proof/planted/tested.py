"""Which quick tests find a planted bug: those of its room that fail when it is planted, and pass when it is not.

``python -m proof.planted.tested FOLDER JOBS [BUG]...`` writes them there, a file for each bug. The tests are collected
once; a fork of that process plants a bug and runs them.
"""

import os
import signal
import sys
import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from subprocess import DEVNULL, run
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import pytest

from proof.planted.bug import Bug, ForGood
from proof.planted.catalogue import BUGS, bug_named
from triack.base.errors import ChaosError

ENOUGH = 5
LONGEST_S = 30.0
"""Processor time for the tests of a bug. Those of its own module come first; most bugs need a second or two."""
HANGS_S = 30
"""A quick test needs a quarter of a second of one core: one that has not ended by then waits for what never comes."""
ELSEWHERE = 3


class _Changed:
    """A patch that changes nothing: it notes the modules that have what a bug changes."""

    def __init__(self) -> None:
        self.modules: set[str] = set()

    def setattr(self, target: object, name: str, value: object, /) -> None:
        del name, value
        home = getattr(target, "__module__", None) or target.__name__  # type: ignore[attr-defined]
        self.modules |= {home} if home.startswith("triack.") else _holders(target)

    def setitem(self, table: Mapping[Any, Any], key: Any, value: Any, /) -> None:
        del key, value
        self.modules |= _holders(table)


def _holders(thing: object) -> set[str]:
    modules = [(name, module) for name, module in sys.modules.items() if name.startswith("triack.")]
    return {name for name, module in modules if any(value is thing for value in vars(module).values())}


def modules_of(bug: Bug) -> set[str]:
    """The modules that a bug changes."""
    changed = _Changed()
    bug.plant(changed)
    return changed.modules


def room_of(module: str) -> str:
    """The tests of a module's room: ``tests/session`` for ``triack.session.path.path_mtu``.

    Packages for users, as ``triack.testing``, are rooms of ``tools``.
    """
    first, *others = module.split(".")[1:]
    if first == "tools":
        return "/".join(["tests", first, *others[:1]])
    room = f"tests/{first}"
    return room if Path(room).is_dir() else f"tests/tools/{first}"


def nearness(test: str, modules: Iterable[str]) -> int:
    """How near a test is to modules: 0 in the file of one, 1 in its folder, 2 in its room; else ELSEWHERE."""
    nearest = ELSEWHERE
    for module in modules:
        *folders, name = module.split(".")[1:]
        folder = "/".join(["tests", *folders])
        places = (f"{folder}/test_{name}.py::", f"{folder}/", f"{room_of(module)}/")
        nearest = min([nearest, *(at for at, place in enumerate(places) if test.startswith(place))])
    return nearest


def failing_tests(bugs: Collection[Bug] = BUGS, jobs: int = 0) -> dict[str, list[str]]:
    """The ids of some tests that find each bug, by its name."""
    with TemporaryDirectory(prefix="triack-tested-") as folder:
        names = [bug.name for bug in bugs]
        command = [sys.executable, "-m", "proof.planted.tested", folder, str(jobs or os.cpu_count() or 1), *names]
        status = run(command, check=False, stdin=DEVNULL, stdout=sys.stderr).returncode
        if status:
            raise ChaosError(f"collect the tests of {len(bugs)} bugs: status {status}; `make check` says what is wrong")
        return {name: (Path(folder) / name).read_text().splitlines() for name in names}


class _Planter:
    """A plugin of pytest that runs tests once for each bug, in separate processes."""

    def __init__(self, folder: Path, jobs: int, bugs: list[tuple[Bug, set[str]]]) -> None:
        self._folder = folder
        self._jobs = jobs
        self._bugs = bugs
        self._out = folder
        self._now = ""
        self._failed: list[str] = []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Let the bugs' tests run, and then those that have failed without any bug."""
        if session.testsfailed:
            raise session.Failed("there are errors in the tests")
        for at, (bug, modules) in enumerate(self._bugs):
            if at >= self._jobs:
                _wait()
            if os.fork() == 0:
                near = {item: nearness(item.nodeid, modules) for item in session.items}
                items = sorted((item for item in session.items if near[item] < ELSEWHERE), key=near.__getitem__)
                bug.plant(ForGood())
                self._run(bug.name, items, ENOUGH, LONGEST_S)
        for _ in self._bugs[: self._jobs]:
            _wait()
        files = [self._folder / bug.name for bug, _ in self._bugs]
        found = {test for file in files for test in file.read_text().splitlines()}
        if os.fork() == 0:
            self._run("no bug", [item for item in session.items if item.nodeid in found], len(found) + 1, float("inf"))
        _wait()
        wrong = set((self._folder / "no bug").read_text().splitlines())
        for file in files:
            file.write_text("".join(f"{test}\n" for test in file.read_text().splitlines() if test not in wrong))
        return True

    def _run(self, name: str, items: list[pytest.Item], enough: int, longest_s: float) -> NoReturn:
        """Run tests in this process, until enough failed, and end it."""
        self._out = self._folder / name
        self._out.touch()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        signal.signal(signal.SIGALRM, self._handle_hanging)
        end = time.process_time() + longest_s
        # What failing tests leave behind is removed with the process.
        with TemporaryDirectory(dir=self._folder) as root:
            os.environ["PYTEST_DEBUG_TEMPROOT"] = root
            for item, following in zip(items, [*items[1:], None], strict=False):
                self._now = item.nodeid
                signal.alarm(HANGS_S)
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if len(self._failed) >= enough or time.process_time() > end:
                    break
        os._exit(0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record a test that fails, once, while others still run: their outcome is open."""
        if report.failed and report.nodeid not in self._failed:
            self._failed.append(report.nodeid)
            with self._out.open("a") as out:
                out.write(f"{report.nodeid}\n")

    def _handle_hanging(self, _signal: int, _frame: object) -> None:
        """A test that never ends has failed, too, and nothing of this process can be trusted any more."""
        with self._out.open("a") as out:
            out.write(f"{self._now}\n")
        os._exit(0)


def _wait() -> None:
    process, status = os.wait()
    if status:
        raise ChaosError(f"run tests with a bug: process {process} ended with status {status}")


if __name__ == "__main__":
    known = [(bug, modules_of(bug)) for bug in map(bug_named, sys.argv[3:])]
    rooms = sorted({room_of(module) for _, modules in known for module in modules})
    plain = [
        "--rootdir=.", "-o", "addopts=", "-p", "no:terminal", "-p", "no:cacheprovider", "--assert=plain",
        "--capture=no",
    ]  # fmt: skip
    planter = _Planter(Path(sys.argv[1]), int(sys.argv[2]), known)
    sys.exit(pytest.main([*plain, "-n", "0", "-m", "not slow", *rooms], plugins=[planter]))
