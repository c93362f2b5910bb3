"""The catalogue: every check has a lie that it must catch, and every machine has its checks."""

from pathlib import Path

import pytest

from tests.tools.replay.builder import brief
from tests.tools.replay.judging import PLANTED, plant
from triack.tools.replay.checks.catalogue import CHECKS, MACHINES
from triack.tools.replay.engines.local_engine import judge_records

ROOT = Path(__file__).parents[4]
SILENT = {
    "ordering/order_settings", "ordering/slow_start", "ordering/wire", "session/acknowledgements/ack_sender",
    "session/congestion/bbr", "session/congestion/congestion", "session/congestion/delivery_rate",
    "session/datagram_builder", "session/departing", "session/protocol/events", "session/protocol/frames",
    "session/keep_alive", "session/congestion/loss_floor", "session/protocol/opening", "session/congestion/pacing",
    "session/congestion/path_model", "session/acknowledgements/probing", "session/congestion/rtt",
    "session/protocol/settings", "session/congestion/stream_window", "session/protocol/timers",
    "session/congestion/undecided", "session/snapshot",
}  # fmt: skip
"""Modules of sessions and sequences that promise nothing a record could show: layouts, settings, estimates."""


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name: str) -> None:
    """As what it is, and where it is."""
    world, expected = plant(name)
    found = brief(judge_records([record for log in world.logs for record in log.records]))
    assert found >= expected, found


def test_every_check_has_a_planted_lie() -> None:
    """No check without a test that sees it fail, and no lie of an unknown check.

    `engines_disagree` is found by Spark alone, of judges that lie: `tests/tools/replay/tables/test_counts.py`.
    """
    assert {check for name in PLANTED for check, *_ in plant(name)[1]} == set(CHECKS) - {"engines_disagree"}


def test_every_check_is_explained() -> None:
    for check in CHECKS.values():
        assert all(check)
        assert check.sentence.endswith(".")
        assert check.why.endswith(".")


def test_every_machine_is_watched() -> None:
    """Each machine has a check that watches it, or promises nothing of its own."""
    machines = {f"{room}/{file.stem}" for room in ("session", "ordering") for file in (ROOT / room).glob("[a-z]*.py")}
    assert machines - SILENT <= set(MACHINES)
    assert all((ROOT / f"{machine}.py").exists() for machine in MACHINES)
    assert {check for checks in MACHINES.values() for check in checks} <= set(CHECKS)
