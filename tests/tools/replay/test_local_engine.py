"""The local engine over records in memory: each promise is broken once and found, and files make no difference."""

from collections import Counter
from pathlib import Path

import pytest

from tests.tools.replay.builder import healthy
from tests.tools.replay.faults import FAULTS, HARMLESS, ready
from triack.session.states import FAILURES
from triack.tools.replay.files import find_logs
from triack.tools.replay.local_engine import judge_records, replay_local
from triack.tools.replay.schema import CHECKS, FAILURE_REASONS


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str) -> None:
    """The fault is found as what it is, once, and nothing else is."""
    world = ready()
    expected = FAULTS[name](world)
    found = judge_records(world.all_records(lacking=name == "records_missing"))
    assert Counter((it.check, it.lane, it.sequence, it.number) for it in found) == Counter(expected)


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_unusual_but_right_passes(name: str) -> None:
    """Crashes, resends, removals, forwarding and waiting packets break no promise."""
    assert judge_records(HARMLESS[name]().all_records()) == []


def test_every_check_has_a_fault() -> None:
    """No check is without a test that sees it fail."""
    assert {check for plant in FAULTS.values() for check, *_ in plant(ready())} == set(CHECKS)


@pytest.mark.parametrize("name", ["window_exceeded", "lost_transactional", "idle_delay_exceeded"])
def test_records_and_files_are_judged_alike(name: str, tmp_path: Path) -> None:
    """The same findings, evidence and all."""
    world = ready()
    FAULTS[name](world)
    verdict, _ = replay_local(find_logs(world.save(tmp_path)), timeline=False)
    assert verdict.findings
    assert judge_records(world.all_records()) == verdict.findings


def test_the_order_of_nodes_does_not_matter() -> None:
    """Only each node's own order counts: all of one first, or both as the clock has them."""
    world = ready()
    FAULTS["lost_transactional"](world)
    records = world.all_records()
    found = judge_records(records)
    assert judge_records(sorted(records, key=lambda record: record["at_ns"])) == found
    assert judge_records([*world.beta.records, *world.alpha.records]) == found


def test_a_record_that_lacks_a_field_is_an_error() -> None:
    """A judge that guesses proves nothing."""
    world = healthy()
    del world.alpha.one("packet_sent")["packet"]
    with pytest.raises(KeyError, match="packet"):
        judge_records(world.all_records())


def test_failures_are_what_the_sessions_call_so() -> None:
    """Replay has a list of its own, as a judge should; it must be the same one."""
    assert sorted(FAILURE_REASONS) == sorted(reason.value for reason in FAILURES)
