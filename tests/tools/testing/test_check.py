"""The session logs of a world are judged: errors name the broken promise; a machine that stood still may be late."""

import json

import pytest

from tests.tools.chaos.test_verdict import logs_of
from tests.tools.replay.builder import MS
from tests.tools.replay.faults import ready
from tests.tools.testing.test_world import exchange
from triack.testing import PromiseBroken
from triack.testing.check import FINDINGS_MAX, check_logs
from triack.tools.replay.log.files import parse_records


@pytest.mark.slow
@pytest.mark.gate
def test_a_broken_promise_is_found() -> None:
    """The logs of a good run, but for one commit that the receiver did not write down."""
    world = exchange(4)
    logs = {log.name: bytes(log.records) for log in world.logs}
    check_logs(logs)
    name, records = next((name, records) for name, records in logs.items() if name.startswith("b-"))
    lines = whole_lines(records)
    at = max(index for index, line in enumerate(lines) if b'"event": "committed"' in line)
    with pytest.raises(PromiseBroken, match=r"the session logs show .* broken promises:\n.*check="):
        check_logs(logs | {name: b"".join(lines[:at] + lines[at + 1 :])})


def whole_lines(log: bytes) -> list[bytes]:
    """The records of a log, each with all of its fields."""
    return [json.dumps(record).encode() + b"\n" for record in parse_records(log)]


@pytest.mark.slow
@pytest.mark.gate
def test_no_more_is_listed_than_can_be_read() -> None:
    """The report has the number of all."""
    logs = {log.name: bytes(log.records) for log in exchange(4).logs}
    without = {
        name: b"".join(line for line in whole_lines(records) if b'"event": "committed"' not in line)
        for name, records in logs.items()
    }
    with pytest.raises(PromiseBroken) as broken:
        check_logs(without)
    first, *listed = str(broken.value).splitlines()
    assert len(listed) == FINDINGS_MAX
    assert int(first.split()[4]) > FINDINGS_MAX


def test_a_process_that_stood_still_need_not_be_in_time() -> None:
    """Beta acknowledges late: only that it was stopped itself, and says so, is an excuse."""
    for stopped in (None, "alpha", "beta"):
        world = ready()
        arrived = world.send("express", world.queue("express", 1))
        if stopped is None:
            world.clock.tick(4_000 * MS)
        else:
            getattr(world, stopped).stand_still(4_000 * MS)
        world.ack(arrived, store=False)
        world.number()
        if stopped == "beta":
            check_logs(logs_of(world))
            continue
        with pytest.raises(PromiseBroken, match=r"show 1 broken promises:\n.*check='idle_delay'"):
            check_logs(logs_of(world))
