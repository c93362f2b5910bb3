"""What replay knows by name, and the verdict."""

import json

import pytest

from triack.base.reasons import FreedReason, HoldReason, RejectReason
from triack.session.protocol.states import FAILURES, CloseReason
from triack.tools.replay.log.schema import (
    CLOSE_REASONS,
    FAILURE_REASONS,
    FREED_REASONS,
    HOLD_REASONS,
    REJECT_REASONS,
    Verdict,
    Violation,
)


def test_failures_are_what_the_sessions_call_so() -> None:
    """Replay has a list of its own, as a judge should; it must be the same one."""
    assert sorted(FAILURE_REASONS) == sorted(reason.value for reason in FAILURES)


def test_a_verdict_is_one_of_three() -> None:
    """A broken promise outweighs a missing log, not one that is there; without a record there is nothing to go by."""
    assert Verdict().verdict == "incomplete"
    assert Verdict(records=1).verdict == "pass"
    assert Verdict(records=1, resends=1, duplicates_on_wire=1, pending=1, sessions_closed=1).verdict == "pass"
    assert Verdict(records=1, torn_lines=1).verdict == "pass"
    assert Verdict(missing=["node b"]).verdict == "incomplete"
    assert Verdict(missing=["node b"], violations={"lost": 1}).verdict == "fail"
    assert Verdict(records=1, unread={"a.jsonl.gz": "is packed"}).verdict == "incomplete"
    assert Verdict(records=1, unread={"a.jsonl.gz": "is packed"}, violations={"lost": 1}).verdict == "incomplete"


def test_json_has_all_but_the_single_findings() -> None:
    verdict = Verdict(delivered=30, findings=[Violation("window")], violations={"window": 1})
    verdict.time(10**9, 10**10)
    data = json.loads(json.dumps(verdict.to_json()))
    assert (data["violations"], data["verdict"]) == ({"window": 1}, "fail")
    assert (data["seconds"], data["messages_per_second"]) == (9.0, 3.3)
    assert not {"findings", "timeline"} & data.keys()


@pytest.mark.parametrize("span", [(0, 5), (5, 5), (6, 5)])
def test_without_a_span_there_is_no_rate(span: tuple[int, int]) -> None:
    """Nothing was delivered, all at once, or a clock was set back."""
    verdict = Verdict(delivered=30)
    verdict.time(*span)
    assert (verdict.seconds, verdict.messages_per_second) == (0, 0)


def test_reasons_are_those_of_the_machines() -> None:
    """Replay has lists of its own, as a judge should; they must be the same."""
    assert sorted(CLOSE_REASONS) == sorted(reason.value for reason in CloseReason)
    assert sorted(REJECT_REASONS) == sorted(reason.value for reason in RejectReason)
    assert sorted(FREED_REASONS) == sorted(reason.value for reason in FreedReason)
    assert sorted(HOLD_REASONS) == sorted(reason.value for reason in HoldReason)


def test_the_evidence_does_not_tell_findings_apart() -> None:
    """Two judges say the same thing in other words."""
    one, other = (Violation("lost", "n", "s", "o", 1, 5, 7, evidence=said) for said in ("so", "thus"))
    assert one.identity == other.identity == ("lost", "n", "s", "o", 1, 5, 7, "", "")
