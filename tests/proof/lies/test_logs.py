"""The logs that lies are told about."""

import pytest

from proof.lies.logs import honest_logs, is_honest, wide_logs, widened
from triack.tools.chaos.drawing import draw
from triack.tools.replay.local_engine import judge_records


@pytest.mark.slow
def test_they_break_no_promise() -> None:
    """And those of long ranges have records of a hundred packets and more."""
    for _, log in (*honest_logs(2), *wide_logs(1)):
        assert judge_records([record for some in log.values() for record in some]) == []
    ((_, log),) = wide_logs(1)
    packets = [record["packets"] for some in log.values() for record in some if "packets" in record]
    assert max(packets) > 100
    assert sum(map(len, log.values())) < sum(packets)


def test_who_stands_still_is_not_taken() -> None:
    """A process that wakes late keeps no limit of time, so its log would be found to lie without any lie."""
    plans = [draw(seed) for seed in range(30)]
    assert {is_honest(plan) for plan in plans} == {True, False}
    assert not any(fault.kind == "pause" for plan in plans if is_honest(plan) for fault in plan.faults)
    assert all(host.address.startswith("tcp:") for plan in plans for host in widened(plan).hosts)
