"""The measure of the proofs: what finds each planted bug and each kind of lie, and what finds it no longer."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from click.testing import CliRunner

from proof import __main__ as commands
from proof.lies.run import Told
from proof.planted.bug import Bug
from proof.planted.catalogue import BUGS, bug_named
from proof.planted.run import Found
from proof.teeth import changes, known_seeds, read, teeth_of, write

WINDOW = bug_named("the window is off by one")
BOTH = Found(WINDOW, seed=7, rule="window", sentence="it broke", said=f"two packets beyond {WINDOW.says}")
QUIET = bug_named("a quiet peer is not asked")
TOLD = Told(finders={"swap handed": {"harmless: label"}, "drop committed": {"lost", "gaps"}})
TESTS = {WINDOW.name: ["tests/session/test_it.py::test_it"]}
KNOWN = teeth_of({}, [BOTH], TESTS, TOLD)


def test_teeth_say_what_found_each() -> None:
    """By the seed and the rule that it broke, by the world of the search, by tests, and by checks."""
    assert {
        "planted": {WINDOW.name: ["seed 7: window", f"search: {WINDOW.scope.name}"]},  # type: ignore[union-attr]
        "tests": TESTS,
        "lies": {"drop committed": ["gaps", "lost"], "swap handed": ["harmless: label"]},
    } == KNOWN
    assert known_seeds(KNOWN) == {WINDOW.name: 7}


def test_what_was_not_looked_for_is_kept() -> None:
    """Of bugs that there are, in the order of the catalogue."""
    more = teeth_of(KNOWN | {"tests": {**TESTS, "no such bug": []}}, [Found(QUIET, said=QUIET.says)], {})
    assert list(more["planted"].items()) == [
        (WINDOW.name, KNOWN["planted"][WINDOW.name]),
        (QUIET.name, [f"story: {QUIET.scope.name}"]),  # type: ignore[union-attr]
    ]
    assert (more["tests"], more["lies"]) == (TESTS, KNOWN["lies"])


def test_what_has_changed_is_told(tmp_path: Path) -> None:
    path = tmp_path / "teeth.json"
    assert read(path) == {}
    write(KNOWN, path)
    assert read(path) == KNOWN
    lies = Told(finders={"swap handed": {"harmless: label", "order"}})
    after = teeth_of(KNOWN, [BOTH._replace(seed=3, rule="order")], {WINDOW.name: []}, lies)
    assert changes(read(path), after) == [
        "lies: drop committed: -gaps -lost",
        "lies: swap handed: +order",
        f"planted: {WINDOW.name}: -seed 7: window +seed 3: order",
        f"tests: {WINDOW.name}: -{TESTS[WINDOW.name][0]}",
    ]
    assert changes(after, after) == []


def test_the_command_fails_when_a_bug_is_not_found_by_all_that_must(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What found it before stays written down, and its seed is tried first."""
    results: list[Found] = []
    tried: list[dict[str, int]] = []

    def hunt(bugs: Iterable[Bug], *, known: dict[str, int], **_options: object) -> list[Found]:
        assert [*bugs] == [WINDOW]
        tried.append(known)
        return results

    path = tmp_path / "teeth.json"
    monkeypatch.setattr(commands, "hunt_all", hunt)
    monkeypatch.setattr(commands, "failing_tests", lambda _bugs, _jobs: TESTS)
    monkeypatch.setattr(commands, "read_teeth", lambda: read(path))
    monkeypatch.setattr(commands, "write_teeth", lambda teeth: write(teeth, path))
    for found, status, options in ((BOTH, 0, ()), (Found(WINDOW), 1, ("--tests",)), (BOTH._replace(seed=-1), 1, ())):
        results[:] = [found]
        assert CliRunner().invoke(commands.main, ["teeth", WINDOW.name, *options]).exit_code == status
        assert read(path)["planted"] == KNOWN["planted"]
    assert tried == [{}, {WINDOW.name: 7}, {WINDOW.name: 7}]
    assert read(path)["tests"] == TESTS
    assert CliRunner().invoke(commands.main, ["teeth", "no such bug"]).exit_code == 2


def test_what_is_written_down_is_of_bugs_that_there_are() -> None:
    planted = read()["planted"]
    assert list(planted) == [bug.name for bug in BUGS]
    for name, finders in planted.items():
        assert len(finders) == bug_named(name).seeds + (bug_named(name).scope is not None), name
    assert set(known_seeds(read())) == {name for name in planted if bug_named(name).seeds}
