"""The judge: what is unusual but right passes, and the numbers are those of the messages."""

import pytest

from tests.tools.replay.builder import World
from tests.tools.replay.faults import ready, restarted
from tests.tools.replay.harmless import HARMLESS
from tests.tools.replay.judging import plant, verdict_of
from triack.tools.replay.judges.judge import Judge, order_of


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_unusual_but_right_passes(name: str) -> None:
    verdict = verdict_of(HARMLESS[name]())
    assert verdict.violations == {}
    assert verdict.verdict == "pass"


def test_a_record_with_restarts_passes() -> None:
    """The world in which the faults are planted breaks no check."""
    assert verdict_of(restarted()).verdict == "pass"


def test_the_numbers_are_those_of_the_messages() -> None:
    verdict = verdict_of(HARMLESS["healthy"]())
    assert (verdict.sent, verdict.delivered, verdict.pending, verdict.lost) == (1020, 1020, 0, 0)
    assert (verdict.resends, verdict.duplicates_on_wire, verdict.sessions_closed) == (3, 1, 2)
    assert verdict.seconds > 0


def test_a_missing_log_is_not_a_loss() -> None:
    """Alpha's log alone proves nothing of what beta has: the verdict is a third one, and names beta."""
    world = ready()
    world.deliver("transactional", 5)
    world.beta.records.clear()
    world.beta.incarnation = 0
    verdict = verdict_of(world)
    assert (verdict.verdict, verdict.missing, verdict.lost, verdict.violations) == (
        "incomplete", [f"node {'be' * 16}"], 0, {},
    )  # fmt: skip


def test_a_start_that_is_missing_is_named() -> None:
    world = HARMLESS["healthy"]()
    world.alpha.records = [record for record in world.alpha.records if record["incarnation"] == 2]
    verdict = verdict_of(world)
    assert (verdict.verdict, verdict.missing) == ("incomplete", [f"start 1 of node {'a1' * 16}"])
    world = three_starts()
    world.beta.records = [record for record in world.beta.records if record["incarnation"] != 2]
    assert verdict_of(world).missing == [f"start 2 of node {'be' * 16}"]


def three_starts() -> World:
    world = ready()
    world.beta.start()
    world.beta.start()
    return world


def test_records_are_sorted_by_their_node_and_serial() -> None:
    """A life before the record that it goes with, a fact behind it."""
    common = {"node": "a", "incarnation": 1, "n": 4}
    events = [{**common, "event": event} for event in ("~acked", "ack_received", "life")]
    assert [it["event"] for it in sorted(events, key=order_of)] == ["life", "ack_received", "~acked"]


def test_judging_changes_nothing() -> None:
    """A log that grows is judged again and again."""
    world, _ = plant("lost_transactional")
    judge = Judge()
    for log in world.logs:
        judge.read(log.name, log.records)
    assert judge.finish() == judge.finish()
