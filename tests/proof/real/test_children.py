"""Processes that are killed at any time: what they reported, they had done."""

import asyncio
from typing import Any

import pytest

import triack
from proof.real.children import Child, Report, Work, read_reports

pytestmark = pytest.mark.slow


async def count(options: dict[str, Any], report: Report) -> None:
    """Say some numbers, then fail, or wait longer than the test."""
    for number in range(options["count"]):
        report(f"{number}")
    if options.get("fails"):
        raise triack.UsageError("as told")
    await asyncio.sleep(60)


def said(child: Child, until: str) -> list[str]:
    """What a child says up to and with a line."""
    lines: list[str] = []
    while until not in lines:
        found = [line for _, line in read_reports([child], 20)]
        assert found, f"nothing after {lines}"
        lines += found
    return lines


def run(work: Work, **options: Any) -> Child:
    return Child(work, options)


def test_what_a_killed_child_has_said_outlives_it() -> None:
    """Whole lines, in order, then that it has ended."""
    child = run(count, count=50)
    assert said(child, "49") == ["began", *map(str, range(50))]
    child.kill()
    assert said(child, "ended") == ["ended"]
    assert child.wait() == -9
    child.close()


def test_a_child_ends_well_when_asked_and_says_why_it_failed() -> None:
    """With code 0, or 1 and the error's name."""
    child = run(count, count=1)
    said(child, "0")
    child.ask_to_stop()
    assert child.wait() == 0
    child.close()
    failing = run(count, count=0, fails=True)
    assert said(failing, "ended") == ["began", "failed UsageError: as told", "ended"]
    assert failing.wait() == 1
    failing.close()
