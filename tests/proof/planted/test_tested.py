"""Which tests find a bug: the nearest first, and none that fails without it."""

from pathlib import Path

import pytest

from proof.planted.catalogue import BUGS, bug_named
from proof.planted.tested import ELSEWHERE, failing_tests, modules_of, nearness, room_of
from triack.base.errors import ChaosError

WINDOW = bug_named("the window is off by one")
FILE = "tests/session/congestion/test_send_window.py"
TESTS = """
import pytest
from triack.session.congestion.rtt import RoundTrip
from triack.session.congestion.send_window import SendWindow

def room():
    return SendWindow(3, RoundTrip(), None).room

def test_passes():
    pass

def test_fails_always():
    raise ValueError

def test_fails_with_the_bug():
    assert room() == 3

@pytest.mark.parametrize("number", range(9))
def test_fails_with_it_often(number):
    assert room() == 3
"""


def test_a_bug_changes_modules() -> None:
    assert modules_of(WINDOW) == {"triack.session.congestion.send_window"}
    assert "triack.store.store" in modules_of(bug_named("nothing is synced"))
    freed = modules_of(bug_named("recoverable messages are freed by the session ack"))
    assert {"triack.base.delivery", "triack.ordering.departing"} <= freed
    for bug in BUGS:
        assert modules_of(bug)
        assert all(Path(room_of(module)).is_dir() for module in modules_of(bug))


def test_tests_are_near_or_far() -> None:
    """In the file of the module, in its folder, in its room, elsewhere; the nearest module counts."""
    modules = {"triack.session.congestion.send_window"}
    near = [
        f"{FILE}::test_it",
        "tests/session/congestion/test_windows.py::test_it",
        "tests/session/test_session.py::test_it",
    ]
    assert [nearness(test, modules) for test in [*near, "tests/store/test_store.py::test_it"]] == [0, 1, 2, ELSEWHERE]
    assert nearness("tests/store/test_store.py::test_it", {*modules, "triack.store.store"}) == 0
    assert room_of("triack.tools.sim.disk_file") == "tests/tools/sim"


@pytest.mark.slow
def test_tests_that_fail_with_a_bug_alone_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A handful of them. Tests that cannot be collected are an error."""
    monkeypatch.setenv("PYTHONPATH", str(Path.cwd()))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ChaosError, match="collect the tests of 1 bugs: status 4"):
        failing_tests([WINDOW])
    Path(FILE).parent.mkdir(parents=True)
    Path(FILE).write_text(TESTS)
    often = [f"{FILE}::test_fails_with_it_often[{number}]" for number in range(3)]
    assert failing_tests([WINDOW], jobs=1) == {WINDOW.name: [f"{FILE}::test_fails_with_the_bug", *often]}
