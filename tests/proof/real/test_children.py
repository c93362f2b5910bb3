"""Real children: their homes, and kills."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import triack
from proof.real.children import Child, Report, Work, read_reports
from proof.real.homes import HOMES
from proof.real.kills import kill_loop
from proof.real.namespace import lossy, missing
from tests.machine import PATIENCE_S
from triack.base.paths import UDP_SOCKETS, UdpSockets

pytestmark = pytest.mark.slow

# A node with several addresses is reached at each of them, through a firewall that lets in answers and no more.


@pytest.mark.parametrize("listen", ["udp://0.0.0.0:7801", "udp://[::]:7801"])
def test_each_address_answers(listen: str) -> None:
    """Strangers' handshakes and sessions alike: IPv4, IPv6, and link-local addresses with their scope."""
    if (reason := missing()) is not None:
        pytest.skip(reason)
    found = lossy(0, [sys.executable, "-m", "proof.real.homes", listen], limit_s=PATIENCE_S)
    assert found.code == 0, found.complaints
    homes = [host for host in HOMES if "[" in listen or ":" not in host]
    assert json.loads(found.output) == dict.fromkeys(homes, "ordered")


# Processes that are killed at any time: what they reported, they had done.


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
    child = run(count, count=50)
    assert said(child, "49") == ["began", *map(str, range(50))]
    child.kill()
    assert said(child, "ended") == ["ended"]
    assert child.wait() == -9
    child.close()


def test_a_child_ends_well_when_asked_and_says_why_it_failed() -> None:
    child = run(count, count=1)
    said(child, "0")
    child.ask_to_stop()
    assert child.wait() == 0
    child.close()
    failing = run(count, count=0, fails=True)
    assert said(failing, "ended") == ["began", "failed UsageError: as told", "ended"]
    assert failing.wait() == 1
    failing.close()


# ``kill -9`` again and again: what was committed stays, and everything is passed on once, in order.

KILLS = 20


@pytest.mark.parametrize(("scheme", "udp"), [*(("udp", kind) for kind in UDP_SOCKETS), ("tcp", None)])
def test_nodes_that_are_killed_while_they_work_and_while_they_start(
    tmp_path: Path, scheme: str, udp: UdpSockets | None
) -> None:
    found = kill_loop(tmp_path, kills=KILLS, seed=1, scheme=scheme, udp=udp)
    assert found.violations == []
    assert found.kills.total() >= KILLS
    assert {key.split()[1] for key in found.kills} == {"working", "starting"}
    assert found.messages > 20 * KILLS
    assert found.records > found.messages / 10
