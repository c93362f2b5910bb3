"""The pytest plugin: the fixture ``triack_world``, and its options and marker.

A coroutine test that uses the fixture runs in the world's virtual time, with or without other plugins for coroutine
tests; those see an ordinary function. All other tests are left alone.
"""

import argparse
import functools
import inspect
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from triack.testing.world import World

FIXTURE = "triack_world"
MARKED_FOR_ASYNCIO = "The test .* is marked with '@pytest.mark.asyncio' but it is not an async function"
"""pytest-asyncio's warning about a coroutine test that runs in a world, when a whole file is marked as its own."""
MARKER = "triack(seed=0, seeds=1, check=True, max_events=200000, trust=True): how the simulated world of a test is made"
SETTINGS: dict[str, type[Any]] = {"seed": int, "seeds": int, "check": bool, "max_events": int, "trust": bool}
LEAST = {"seed": 0, "seeds": 1, "max_events": 1}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options for seeds."""
    group = parser.getgroup("triack", "triack: services in a simulated world")
    for name, what in (
        ("seed", "the seed of simulated worlds; the first, with --triack-seeds"),
        ("seeds", "run each test in a simulated world with N seeds"),
    ):
        group.addoption(f"--triack-{name}", type=_number(name), default=None, metavar="N", help=what)


def _number(name: str) -> Callable[[str], int]:
    def convert(text: str) -> int:
        if not text.isdecimal() or int(text) < LEAST[name]:
            raise argparse.ArgumentTypeError(f"it is a whole number of at least {LEAST[name]}, not {text}")
        return int(text)

    return convert


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", MARKER)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of each seed, if there are several. A seed that is named alone runs once."""
    if FIXTURE not in metafunc.fixturenames:
        return
    count = _settings(metafunc.definition).get("seeds", 1)
    if metafunc.config.getoption("--triack-seed") is not None:
        count = 1
    count = metafunc.config.getoption("--triack-seeds") or count
    if count > 1:
        first = _seed(metafunc.definition)
        seeds = range(first, first + count)
        metafunc.parametrize(FIXTURE, seeds, ids=[f"seed{seed}" for seed in seeds], indirect=True)


def _settings(item: pytest.Item | pytest.Function) -> dict[str, Any]:
    marker = item.get_closest_marker("triack")
    if marker is None:
        return {}
    wrong = [repr(value) for value in marker.args]
    wrong += [f"{name}={value!r}" for name, value in marker.kwargs.items() if not _fits(name, value)]
    if wrong:
        pytest.fail(f"{item.nodeid}: mark triack({', '.join(wrong)}): it is {MARKER}", pytrace=False)
    return dict(marker.kwargs)


def _fits(name: str, value: Any) -> bool:
    return type(value) is SETTINGS.get(name) and value >= LEAST.get(name, value)


def _seed(item: pytest.Item) -> int:
    option = item.config.getoption("--triack-seed")
    return int(_settings(item).get("seed", 0) if option is None else option)


@pytest.fixture
def triack_world(request: pytest.FixtureRequest) -> Iterator["World"]:
    """A simulated world (``triack.testing.World``) for this test; checked and closed after it."""
    from triack.testing.world import MAX_EVENTS, World

    settings = _settings(request.node)
    seed = getattr(request, "param", None)
    world = World(
        _seed(request.node) if seed is None else seed,
        max_events=settings.get("max_events", MAX_EVENTS),
        trust=settings.get("trust", True),
    )
    request.node.stash[_WORLD] = world
    try:
        yield world
        if not world.is_checked and settings.get("check", True) and not request.node.stash.get(_FAILED, False):
            world.check()
    finally:
        world.close()


_WORLD: pytest.StashKey["World"] = pytest.StashKey()
_FAILED: pytest.StashKey[bool] = pytest.StashKey()


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_pycollect_makeitem() -> Generator[None, object, object]:
    """Turn coroutine tests of a world into functions; innermost, before any other plugin handles them."""
    made = yield
    for item in made if isinstance(made, list) else [made]:
        if isinstance(item, pytest.Function) and FIXTURE in item.fixturenames and _is_coroutine(item):
            item.obj = _in_world(item, item.obj)
            item.add_marker(pytest.mark.filterwarnings(f"ignore:{MARKED_FOR_ASYNCIO}:pytest.PytestWarning"))
    return made


def _is_coroutine(item: pytest.Function) -> bool:
    return inspect.iscoroutinefunction(item.obj)


def _in_world(item: pytest.Function, test: Callable[..., Any]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(**arguments: Any) -> None:
        __tracebackhide__ = True
        world = item.stash[_WORLD]
        world.run(test(**arguments))
        if _settings(item).get("check", True):
            world.check()

    # The attribute of asyncio's own marker of coroutine functions, if a decorator has set it.
    run.__dict__.pop("_is_coroutine_marker", None)
    return run


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the seed and the story of the world with each failure."""
    report = yield
    world = item.stash.get(_WORLD, None)
    if world is not None and report.failed:
        item.stash[_FAILED] = True
        report.sections.append(("triack world", f"{world.story()}\nto run it again: --triack-seed={world.seed}"))
    if world is not None and call.when == "teardown":
        del item.stash[_WORLD]
    return report
