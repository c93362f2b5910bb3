"""The pytest plugin, as a user's project has it: in a folder of its own, in a process of its own."""

import re
from pathlib import Path

import pytest

from tests.tools.testing.projects import run_pytest

pytestmark = pytest.mark.slow


def run(folder: Path, tests: str, *options: str) -> tuple[int, str]:
    (folder / "test_it.py").write_text(tests)
    return run_pytest(folder, "-rA", *options)


def outcomes(output: str) -> dict[str, str]:
    return {name: word for word, name in re.findall(r"^(PASSED|FAILED|ERROR) test_it\.py::(\S+)", output, re.MULTILINE)}


MODES = {
    "auto": ["-o", "asyncio_mode=auto"],
    "strict": ["-o", "asyncio_mode=strict"],
    "without pytest-asyncio": ["-p", "no:asyncio", "-o", "addopts=", "-W", "ignore::pytest.PytestConfigWarning"],
}

ALL_KINDS = """
import asyncio
import time
import pytest

YEAR = 31_536_000

async def test_coroutine(triack_world):
    await asyncio.sleep(YEAR)

async def test_parameters(triack_world, number):
    await asyncio.sleep(number * YEAR)

class TestClass:
    async def test_method(self, triack_world):
        self.x = 1
        await asyncio.sleep(YEAR)

    async def test_another(self, triack_world):
        assert not hasattr(self, "x")

@pytest.mark.usefixtures("triack_world")
async def test_indirectly():
    await asyncio.sleep(YEAR)

@pytest.fixture
def machine(triack_world):
    return triack_world.machine("a")

async def test_by_another_fixture(machine):
    assert await machine.run(asyncio.sleep(YEAR, "x")) == "x"

def test_without_a_coroutine(triack_world):
    assert triack_world.run(asyncio.sleep(YEAR, "x")) == "x"

def pytest_generate_tests(metafunc):
    if "number" in metafunc.fixturenames:
        metafunc.parametrize("number", [1, 2])
"""

IN_REAL_TIME = """
async def test_in_real_time():
    began = time.monotonic()
    await asyncio.sleep(0.05)
    assert time.monotonic() - began >= 0.05
"""


@pytest.mark.parametrize("mode", MODES)
def test_coroutine_tests_run_in_virtual_time_in_every_mode(tmp_path: Path, mode: str) -> None:
    rest = "" if mode == "without pytest-asyncio" else IN_REAL_TIME
    marked = "\n@pytest.mark.asyncio" * (mode == "strict")
    tests = (ALL_KINDS + rest).replace("\nasync def test_", f"{marked}\nasync def test_")
    code, output = run(tmp_path, tests, *MODES[mode])
    names = {"test_coroutine", "test_parameters[1]", "test_parameters[2]", "TestClass::test_method"}
    names |= {"TestClass::test_another", "test_indirectly", "test_by_another_fixture", "test_without_a_coroutine"}
    names |= {"test_in_real_time"} if rest else set()
    assert code == 0, output
    assert outcomes(output) == dict.fromkeys(names, "PASSED")
    assert "is marked with" not in output, "tests of both kinds may be marked for pytest-asyncio"


def test_a_failure_prints_its_seed_and_its_story(tmp_path: Path) -> None:
    tests = """
async def test_it(triack_world):
    triack_world.cut(triack_world.machine("a"), triack_world.machine("b"), one_way=True)
    await triack_world.advance(2)
    assert triack_world.seed == 8
"""
    code, output = run(tmp_path, tests, "--triack-seed=7")
    assert code == 1
    assert re.search(r"^seed 7, 2\.000 s of virtual time, trace [0-9a-f]{32}$", output, re.MULTILINE), output
    assert "    0.000000 s  network: cut a -> b\nto run it again: --triack-seed=7" in output
    assert "plugin.py" not in output
    assert run(tmp_path, tests, "--triack-seed=8")[0] == 0


def test_one_test_with_many_seeds(tmp_path: Path) -> None:
    """By the option, which counts more than the mark, or by the mark."""
    tests = """
import pytest

async def test_plain(triack_world):
    assert triack_world.seed != 12

@pytest.mark.triack(seeds=2, seed=5)
async def test_marked(triack_world, tmp_path):
    assert triack_world.seed != 6

@pytest.mark.triack(seeds=1000)
async def test_much(triack_world):
    assert triack_world.seed != 7
"""
    code, output = run(tmp_path, tests, "--triack-seed=7", "-k", "much")
    assert (code, outcomes(output)) == (1, {"test_much": "FAILED"}), "alone, and not with 999 behind it"
    _, output = run(tmp_path, tests, "-k", "not much")
    assert outcomes(output) == {"test_plain": "PASSED", "test_marked[seed5]": "PASSED", "test_marked[seed6]": "FAILED"}
    assert "to run it again: --triack-seed=6" in output
    _, output = run(tmp_path, tests, "--triack-seed=11", "--triack-seeds=3", "-k", "plain")
    assert outcomes(output) == {f"test_plain[seed{seed}]": "PASSED" for seed in (11, 13)} | {
        "test_plain[seed12]": "FAILED"
    }


def test_the_world_is_checked_after_the_test(tmp_path: Path) -> None:
    """Whether the test is a coroutine or not, unless it says otherwise."""
    tests = """
import asyncio
import pytest

async def fail():
    raise LookupError("no such order")

async def test_coroutine(triack_world):
    triack_world.machine("a").start(fail)
    await triack_world.advance(1)

def test_function(triack_world):
    triack_world.machine("a").start(fail)
    triack_world.run(asyncio.sleep(1))

@pytest.mark.triack(check=False)
async def test_unchecked(triack_world):
    triack_world.machine("a").start(fail)
    await triack_world.advance(1)

@pytest.mark.triack(max_events=10)
async def test_short(triack_world):
    while True:
        await asyncio.sleep(1)
"""
    _, output = run(tmp_path, tests)
    found = re.findall(r"^(FAILED|ERROR|PASSED) test_it\.py::(\w+)", output, re.MULTILINE)
    assert sorted(set(found)) == [
        ("ERROR", "test_function"),
        ("FAILED", "test_coroutine"),
        ("FAILED", "test_short"),
        ("PASSED", "test_function"),
        ("PASSED", "test_unchecked"),
    ]
    assert output.count("fail on a died: LookupError: no such order") >= 2


def test_the_plugin_costs_a_project_little(tmp_path: Path) -> None:
    """Where nobody asks for a world, nothing of it is loaded."""
    tests = """
import sys

def test_it():
    assert "triack.testing.plugin" in sys.modules
    assert "triack.testing.world" not in sys.modules
    assert "triack.tools.replay.run" not in sys.modules
"""
    code, output = run(tmp_path, tests)
    assert code == 0, output


WRONG_MARK = """
import pytest

@pytest.mark.triack(7, seeed=7, seed="7")
async def test_it(triack_world):
    pass

@pytest.mark.triack(seeds=0, seed=3, max_events=-1)
async def test_none(triack_world):
    pass
"""


def test_a_mark_that_says_something_else_is_named(tmp_path: Path) -> None:
    """And not passed over: the test would run, and be another one. No seeds would be no test."""
    code, output = run(tmp_path, WRONG_MARK, "-k", "test_it")
    wrong = "test_it.py::test_it: mark triack(7, seeed=7, seed='7'): it is triack(seed=0, seeds=1"
    assert (code, wrong in output) == (2, True), output
    code, output = run(tmp_path, WRONG_MARK.replace('(7, seeed=7, seed="7")', "()"))
    assert (code, "test_it.py::test_none: mark triack(seeds=0, max_events=-1): it is" in output) == (2, True), output
    for option, why in (
        ("--triack-seeds=0", "argument --triack-seeds: it is a whole number of at least 1, not 0"),
        ("--triack-seed=-1", "argument --triack-seed: it is a whole number of at least 0, not -1"),
    ):
        code, output = run(tmp_path, WRONG_MARK, option)
        assert (code, why in output) == (4, True), output


def test_a_fixture_in_real_time_does_not_wait_for_the_world(tmp_path: Path) -> None:
    """An hour of it would be an hour, and what it waits for would never come."""
    tests = """
import asyncio

import pytest

def test_it(triack_world):
    machine = triack_world.machine("a")
    for coroutine in (
        triack_world.advance(3600),
        triack_world.until(lambda: False),
        machine.run(asyncio.sleep(3600)),
        machine.stop(),
    ):
        with pytest.raises(NotImplementedError, match="real event loop, as that of .*, of asyncio.run or of a plugin"):
            asyncio.run(coroutine)
    triack_world.run(triack_world.advance(3600))
"""
    code, output = run(tmp_path, tests)
    assert code == 0, output
