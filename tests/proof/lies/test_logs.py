"""The logs that the lies are about."""

import pytest

from proof.lies.logs import honest_logs, is_honest, is_whole, wide_logs, widened
from triack.tools.chaos.drawing import draw
from triack.tools.replay.engines.local_engine import judge_records


@pytest.mark.slow
def test_they_break_no_promise() -> None:
    """And those of long ranges have records of a hundred packets and more."""
    for _, log in (*honest_logs(2), *wide_logs(1)):
        assert judge_records([record for some in log.values() for record in some]) == []
    ((_, log),) = wide_logs(1)
    packets = [record["packets"] for some in log.values() for record in some if "packets" in record]
    assert max(packets) > 100
    assert sum(map(len, log.values())) < sum(packets)


def test_those_of_which_a_start_is_missing_are_not_taken() -> None:
    """A node that was killed before it wrote anything leaves no file of that start."""
    names = [f"{name}-{start:06d}-000001.jsonl" for name, start in (("a-b", 1), ("a-b", 2), ("c", 1), ("c", 3))]
    assert is_whole(dict.fromkeys(names[:3], b""))
    assert not is_whole(dict.fromkeys(names, b""))


def test_who_stands_still_is_not_taken() -> None:
    """A process that wakes late keeps no limit of time, so its log would be found to lie without any lie."""
    plans = [draw(seed) for seed in range(30)]
    assert {is_honest(plan) for plan in plans} == {True, False}
    assert not any(fault.kind == "pause" for plan in plans if is_honest(plan) for fault in plan.faults)
    assert all(host.address.startswith("tcp:") for plan in plans for host in widened(plan).hosts)
