"""The long run, kept short."""

import json

import pytest

import triack
from proof.real.run import run


@pytest.mark.slow
def test_a_run_of_some_parts_counts_and_says_what_it_does() -> None:
    said: list[str] = []
    result = run(kills=3, parts=["kills", "restarts"], messages=2_000, say=said.append)
    assert result.violations == []
    assert result.kills >= 3
    assert [found["messages"] >= 2_000 for found in result.restarts] == [True, True]
    assert sum(line.startswith("pass") for line in said) == 3
    assert json.loads(json.dumps(result.to_json()))["kills"] == result.kills


def test_a_part_that_does_not_exist() -> None:
    with pytest.raises(triack.UsageError, match="there is no part storms; there are crossings, outages"):
        run(parts=["storms"])
