"""What every test shares: how Hypothesis searches, and what must run beside what."""

import gc
import logging
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadGroupScheduling  # type: ignore[import-untyped]

from tests.java import start_quickly
from triack.node.files import operator_log
from triack.tools.compiled import is_compiled

TOGETHER = {
    "spark": re.compile(
        r"tests/tools/(replay/((stories|engines)/)?test_spark_\w+|replay/tables/test_\w+|frames/test_\w+)\.py"
    ),
    "wheel": re.compile(r"test_pages\.py::test_(the_commands_of_the_readme|a_plain_installation)"),
}
"""Work that only one process does: it costs seconds."""

SPREAD = re.compile(r"test_campaign|test_pages")
"""Files whose tests take so long that several processes share them."""

LONG_TESTS = re.compile(
    rf"{TOGETHER['spark'].pattern}|two_thousand_seeds_keep|few_and_many_are_replayed|test_cluster|tests/test_pages\.py"
)
"""Tests of tens of seconds: one that begins last keeps everybody waiting."""

GC_THRESHOLD = (100_000, 20, 100)
"""A world that is built for a test makes many objects that live as long as it does: with Python's 700 they are looked
through again and again. How soon garbage is found decides nothing in any test."""

# Commands of tests use no context of the user who runs them.
os.environ["XDG_CONFIG_HOME"] = str(Path(tempfile.gettempdir(), "triack-tests-have-no-contexts"))

# The same examples on every run, and no deadline, so that a slow machine never fails a test. To look further:
# make test ARGS=--hypothesis-profile=search
settings.register_profile("steady", max_examples=50, derandomize=True, deadline=None)
settings.register_profile("search", max_examples=2000, deadline=None)
settings.load_profile("steady")


class Together(LoadGroupScheduling):  # type: ignore[misc]
    """The tests of a file go to one process, as they share what is dear to make; so do all those with Spark.

    By name, as the group marks of xdist do not reach its scheduler under pytest 9.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        one = nodeid if SPREAD.search(file) else file
        return next((group for group, tests in TOGETHER.items() if tests.search(nodeid)), one)


def pytest_configure() -> None:
    """Spark is started by workers, and by what they start."""
    start_quickly()


@pytest.hookimpl
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let tests be dealt out by ``Together``, in the order that they have, and not the files with most tests first."""
    config.option.loadscopereorder = False
    return Together(config, log) if config.getoption("dist") == "loadgroup" else None


@pytest.hookimpl
def pytest_xdist_auto_num_workers() -> int:
    """More workers than there are cores, as some wait and compute nothing. Each collects the tests in five seconds."""
    return len(os.sched_getaffinity(0)) + 2


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What is marked for the gate is slow, too: this comes before ``-m`` chooses.

    With several processes what takes long begins first, and what takes no time fills the gaps at the end.
    """
    for item in items:
        if item.get_closest_marker("gate") is not None:
            item.add_marker(pytest.mark.slow)
    for item in items if is_compiled() else ():
        if item.get_closest_marker("plain") is not None:
            item.add_marker(
                pytest.mark.skip(reason="puts its own in the place of product code, which is compiled here")
            )
    if hasattr(config, "workerinput"):
        items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    if item.get_closest_marker("slow") is None:
        return 2
    return 0 if LONG_TESTS.search(item.nodeid) else 1


@pytest.fixture(scope="module", autouse=True)
def no_old_objects() -> None:
    """Let no test that collects its garbage pay for what others brought along: that is looked at once."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLD)


@pytest.fixture(autouse=True)
def log_of_its_own() -> Iterator[None]:
    """The log lines of one test, and where a command that it runs sends its lines, do not concern the next one."""
    log = logging.getLogger(operator_log.NAME)
    before = list(log.handlers), log.level
    # Each place that logs may say a limited number of lines a second.
    log.filters[:] = [type(limit)() for limit in log.filters if isinstance(limit, logging.Filter)]
    yield
    log.handlers[:] = before[0]
    log.setLevel(before[1])
