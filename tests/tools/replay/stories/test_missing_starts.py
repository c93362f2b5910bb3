"""Logs of some starts are missing: nobody is accused, and the verdict says whose they are.

The histories are those of real nodes in bad worlds: several nodes with messages of all classes, which forward in
transactions, kills, loss, what expires and what is refused.
"""

from itertools import combinations
from random import Random

import pytest

from proof.lies.logs import honest_logs
from tests.tools.replay.builder import ALPHA, BETA, Record
from tests.tools.replay.faults import restarted
from tests.tools.replay.judging import plant, verdict_of
from triack.tools.chaos.topologies import RELAYED_FROM
from triack.tools.replay.judges.judge import Judge
from triack.tools.replay.log.schema import Verdict

LOGS = 10
"""Histories with some seconds of work; thousands of starts were left out when this was written."""
PAIRS = 5
"""The number of pairs of starts that are left out of each history."""

Start = tuple[str, int]
Log = dict[Start, list[Record]]


def judged(log: Log, *gone: Start) -> Verdict:
    judge = Judge()
    for start, records in log.items():
        if start not in gone:
            judge.read("", records)
    return judge.finish()


def was_heard(log: Log, gone: Start) -> bool:
    """Whether another node was sent something in a session of the start."""
    sessions = {record["session"] for record in log[gone] if record["event"] == "session_opened"}
    others = (record for (node, _), records in log.items() if node != gone[0] for record in records)
    return any(it["event"] == "packet_received" and it["session"] in sessions for it in others)


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, RELAYED_FROM])
def test_a_start_that_was_heard_of_is_missed_and_nobody_accused(first: int) -> None:
    for seed, log in honest_logs(LOGS, first):
        assert judged(log).verdict != "fail"
        for gone in log if len(log) > 1 else ():
            verdict = judged(log, gone)
            assert verdict.violations == {}, (seed, gone, verdict.findings)
            later = any(node == gone[0] and number > gone[1] for node, number in log)
            if later or was_heard(log, gone):
                assert any(told.endswith(f"node {gone[0]}") for told in verdict.missing), (seed, gone)


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, RELAYED_FROM])
def test_nobody_is_accused_when_several_starts_are_missing(first: int) -> None:
    """Any two, or all that a node had before its log was switched on."""
    for seed, log in honest_logs(LOGS, first):
        pairs = list(combinations(log, 2))
        before = [[it for it in log if it[0] == node and it[1] < number] for node, number in log]
        for gone in [*Random(seed).sample(pairs, min(PAIRS, len(pairs))), *before]:
            assert judged(log, *gone).violations == {}, (seed, gone)


@pytest.mark.parametrize("node", [ALPHA, BETA])
@pytest.mark.parametrize(("start", "named"), [(1, "start 1"), (2, "a start after start 1")])
def test_what_a_missing_start_may_explain_is_no_fault(node: str, start: int, named: str) -> None:
    world = restarted()
    for log in world.logs:
        if log.node == node:
            log.records = [record for record in log.records if record["incarnation"] != start]
    verdict = verdict_of(world)
    assert (verdict.verdict, verdict.violations) == ("incomplete", {})
    assert verdict.missing == [f"{named} of node {node}"]


def test_a_loss_is_said_though_the_log_of_somebody_else_is_missing() -> None:
    """The logs of both nodes of a stream are enough to prove it."""
    world, _ = plant("lost_transactional")
    opened = world.alpha.one("session_opened")
    world.alpha.repeat(opened, session="9" * 16, peer="c3" * 16, role="acceptor")
    verdict = verdict_of(world)
    assert verdict.missing == [f"node {'c3' * 16}"]
    assert (verdict.verdict, verdict.violations["lost"]) == ("fail", 1)
