"""Hundreds of lies about logs of real nodes: each is found out by a check that is about it, or harmless by name."""

import pytest

from proof.lies.logs import honest_logs
from proof.lies.mutate import lies_about
from proof.lies.run import RIGHT, Told, found_by, tell, tell_all
from triack.base.session_log import EVENTS
from triack.tools.replay.checks.catalogue import CHECKS

LIES = 60
LOGS = 4
WIDE = 2


@pytest.mark.slow
def test_no_lie_is_missed() -> None:
    told = tell_all(LIES, seed=3, logs=LOGS, wide=WIDE)
    assert told.missed == []
    assert told.lies > LIES
    assert len(told.caught) > 15


def test_the_right_checks_are_known() -> None:
    assert {check for checks in RIGHT.values() for check in checks} <= set(CHECKS)
    assert set(RIGHT) == set(EVENTS) - {"rollback_detected"}


@pytest.mark.slow
def test_a_miss_is_reported() -> None:
    """A lie that no check is about, and that is of no harmless kind."""
    ((_, log),) = honest_logs(1)
    start, records = next((start, records) for start, records in log.items() if len(records) > 20)
    at = next(at for at, record in enumerate(records) if record["event"] == "packet_sent")
    (lie,) = [it for it in lies_about(log, start, at) if it.kind == "raise" and it.field == "packet"]
    told = Told()
    tell(lie, log, told, "here")
    assert (told.missed, "wire" in found_by(lie)) == ([], True)
    unfound = type(lie)(**{name: getattr(lie, name) for name in lie.__slots__} | {"records": records[:0]})
    tell(unfound, log, told, "here")
    assert told.missed[0].startswith(f"here, start {start[1]} of {start[0][:6]}, record {at + 1}: raise packet_sent")
