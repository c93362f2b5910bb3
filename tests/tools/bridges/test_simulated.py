"""Bridges between a simulated node and brokers that keep the promises of their protocols, and die, as the node does."""

import pytest

from proof.planted.bridged import run_bridge
from triack.tools.replay.engines.local_engine import verdict_on
from triack.tools.replay.log.files import parse_records


@pytest.mark.gate
@pytest.mark.parametrize("first", range(0, 30, 10))
def test_whatever_dies_each_message_passes_and_the_logs_show_it(first: int) -> None:
    for seed in range(first, first + 10):
        logs = run_bridge(seed)
        timeline = verdict_on(record for data in logs.values() for record in parse_records(data)).timeline
        assert timeline is not None
        (counts,) = timeline.bridges.values()
        # A crash may take the record of what it took; then that comes again, and is known.
        assert min(counts["taken"] + counts.get("known", 0), counts["given"], counts["acked"]) >= 60
