"""``triack chaos`` as a user runs it."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from triack.base.errors import UsageError
from triack.tools.chaos.command import chaos

FIGURES = {"seeds", "violations", "seconds", "seeds_per_second", "virtual_seconds", "trace"}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(chaos, arguments, standalone_mode=False, catch_exceptions=False)


def figures(result: Result) -> dict[str, object]:
    found = json.loads(result.stdout.splitlines()[-1])
    assert isinstance(found, dict)
    return found


@pytest.mark.slow
@pytest.mark.gate
def test_one_seed_says_what_it_drew_and_what_came_of_it() -> None:
    """The seed first, the figures last; the same trace each time."""
    results = [run("--seed", "7", "--json", *more) for more in ((), ("-v",))]
    assert results[0].return_value == 0
    assert results[0].stderr.startswith("seed 7\n")
    assert figures(results[0]).keys() >= FIGURES
    assert figures(results[0])["trace"] == figures(results[1])["trace"]


@pytest.mark.slow
def test_many_seeds_on_one_core_and_on_two_are_the_same() -> None:
    """Only the time differs."""
    one, two = (figures(run("--seeds", "3", "--jobs", jobs, "--json")) for jobs in "12")
    assert (one["seeds"], one["violations"]) == (3, 0)
    assert {name: one[name] for name in ("trace", "events", "virtual_seconds")} == {
        name: two[name] for name in ("trace", "events", "virtual_seconds")
    }


@pytest.mark.slow
def test_minutes_end_a_campaign() -> None:
    """After the seed that is under way."""
    found = figures(run("--minutes", "0.02", "--jobs", "1", "--json"))
    assert isinstance(found["seeds"], int)
    assert found["seeds"] >= 1


@pytest.mark.slow
@pytest.mark.gate
def test_the_logs_are_written_for_the_replay(tmp_path: Path) -> None:
    """One file for each process of each host."""
    run("--seed", "7", "--log", str(tmp_path / "logs"))
    assert all(path.name.endswith("-000001.jsonl") for path in (tmp_path / "logs").iterdir())
    assert len(list((tmp_path / "logs").iterdir())) >= 2


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ("--seed 1 --seeds 2", "--seeds does not go with --seed"),
        ("--shrink", "--shrink does not go with a run of many seeds"),
        ("--log x", "--log does not go with a run of many seeds"),
        ("--seed 1 --minutes 2", "--minutes does not go with --seed"),
    ],
)
def test_options_that_do_not_go_together(arguments: str, named: str) -> None:
    """Nothing that was asked for is silently ignored."""
    with pytest.raises(UsageError, match=named):
        run(*arguments.split())
