"""What replay knows by name, and the verdict."""

import json

import pytest

from tests.tools.replay.faults import FAULTS, LOG_CHECKS, RESEND_CHECKS, SESSION_CHECKS, STREAM_CHECKS, ready
from triack.base.session_log import COMMON, FIELDS
from triack.session.states import FAILURES
from triack.tools.replay.schema import (
    CHECKS,
    COLUMNS,
    FAILURE_REASONS,
    UNREAD,
    Verdict,
    Violation,
    record_schema,
    tier_of,
)


def test_every_check_has_a_fault() -> None:
    """No check is without a test that sees it fail; and each belongs to one of the modules that check."""
    assert {check for plant in FAULTS.values() for check, *_ in plant(ready())} == set(CHECKS)
    assert sorted((*SESSION_CHECKS, *STREAM_CHECKS, *RESEND_CHECKS, *LOG_CHECKS)) == sorted(CHECKS)


def test_failures_are_what_the_sessions_call_so() -> None:
    """Replay has a list of its own, as a judge should; it must be the same one."""
    assert sorted(FAILURE_REASONS) == sorted(reason.value for reason in FAILURES)


def test_every_field_of_a_log_is_read_or_left_out_by_name() -> None:
    assert set(COLUMNS) | set(UNREAD) == set(COMMON | FIELDS)
    assert not set(COLUMNS) & set(UNREAD)


def test_spark_reads_each_field_as_what_it_is() -> None:
    """And has a column for lines that do not parse."""
    pytest.importorskip("pyspark")
    types = {field.name: field.dataType.simpleString() for field in record_schema()}
    assert list(types) == [*COLUMNS, "damaged"]
    assert (types["node"], types["n"], types["resend"], types["ranges"]) == (
        "string",
        "bigint",
        "boolean",
        "array<array<bigint>>",
    )


def test_resend_attempts_fall_into_tiers() -> None:
    assert [tier_of(attempt) for attempt in range(12)] == [1, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4]


@pytest.mark.parametrize("broken", ["lost", "duplicates_delivered", "out_of_order"])
def test_what_must_be_zero_fails_the_verdict(broken: str) -> None:
    assert Verdict(resends=1, duplicates_on_wire=1, pending=1, sessions_closed=1, torn_lines=1).verdict == "pass"
    verdict = Verdict()
    setattr(verdict, broken, 1)
    assert verdict.verdict == "fail"


def test_a_verdict_sums_up_its_findings() -> None:
    """Findings are sorted and counted; the span gives the rate, and JSON has all but the single findings."""
    verdict = Verdict(delivered=30)
    verdict.conclude(
        [Violation("window", number=2), Violation("order"), Violation("window", number=1)], (10**9, 10**10)
    )
    assert [(it.check, it.number) for it in verdict.findings] == [("order", -1), ("window", 1), ("window", 2)]
    data = json.loads(json.dumps(verdict.to_json()))
    assert (data["violations"], data["verdict"]) == ({"order": 1, "window": 2}, "fail")
    assert (data["seconds"], data["messages_per_second"]) == (9.0, 3.3)
    assert "findings" not in data


@pytest.mark.parametrize("span", [None, (5, 5), (6, 5)])
def test_without_a_span_there_is_no_rate(span: tuple[int, int] | None) -> None:
    """Nothing was delivered, all at once, or a clock was set back."""
    verdict = Verdict(delivered=30)
    verdict.conclude([], span)
    assert (verdict.seconds, verdict.messages_per_second, verdict.verdict) == (0, 0, "pass")


def test_the_evidence_does_not_tell_findings_apart() -> None:
    """Two judges say the same thing in other words."""
    one, other = (Violation("lost", "n", "s", "o", 1, 5, 7, said) for said in ("so", "thus"))
    assert one.identity == other.identity == ("lost", "n", "s", "o", 1, 5, 7)
