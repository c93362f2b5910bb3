"""Lies about what was passed on to a subscription of another node."""

from typing import Any

import pytest

from tests.queues.hubs import HubWorld
from triack.queues.node_settings import NodeSettings
from triack.tools.replay.engines.local_engine import judge_records
from triack.tools.replay.log.files import parse_records

Record = dict[str, Any]


def logs() -> list[list[Record]]:
    """The records of each start: a durable subscription of another node gets thirty messages."""
    it = HubWorld("sub", settings=NodeSettings(messages_per_packet=10))
    away = it.away("sub")
    away.begin()
    it.run()
    for first in range(0, 30, 10):
        it.publish(*(b"%d" % number for number in range(first, first + 10)))
        it.settle(away)
    it.run(60)
    it.hub.send(it.nodes["sub"], "other", b"the log of the hub goes on")
    it.run()
    return [list(parse_records(bytes(log))) for node in it.world.made for log in node.records]


def told(starts: list[list[Record]]) -> set[tuple[str, str]]:
    """What is found, once serials are as a liar would have them."""
    for start in starts:
        for serial, record in enumerate(start, start=1):
            record["n"] = serial
    found = judge_records([record for start in starts for record in start])
    return {(violation.check, violation.subscription) for violation in found}


def test_the_truth_accuses_nobody() -> None:
    assert told(logs()) == set()


@pytest.mark.parametrize("event", ["passed_on", "queued"])
@pytest.mark.parametrize("which", [0, 1])
def test_a_record_that_is_missing_names_the_subscription(event: str, which: int) -> None:
    starts = logs()
    hub = next(start for start in starts if any(record["event"] == "passed_on" for record in start))
    mine = [record for record in hub if record["event"] == event and "topic" in record]
    hub.remove(mine[which])
    assert any(name == "sub/audit" for check, name in told(starts) if check in ("topic_lost", "topic_twice"))


def test_what_is_passed_on_twice_is_found() -> None:
    starts = logs()
    hub = next(start for start in starts if any(record["event"] == "passed_on" for record in start))
    at = next(index for index, record in enumerate(hub) if record["event"] == "queued" and "topic" in record)
    passed = next(record for record in hub if record["event"] == "passed_on")
    hub.insert(at + 1, {**passed, "at_ns": hub[at]["at_ns"], "wall_ns": hub[at]["wall_ns"]})
    assert ("topic_twice", "sub/audit") in told(starts)


def test_a_message_that_is_passed_on_twice_before_its_packet_is_found() -> None:
    """Also where the log ends soon after."""
    starts = logs()
    hub = next(start for start in starts if any(record["event"] == "passed_on" for record in start))
    at = max(index for index, record in enumerate(hub) if record["event"] == "passed_on")
    hub.insert(at + 1, dict(hub[at]))
    del hub[at + 2 :]
    assert ("topic_twice", "sub/audit") in told(starts)


def test_what_is_passed_on_by_a_stream_of_another_node_is_found() -> None:
    starts = logs()
    hub = next(start for start in starts if any(record["event"] == "passed_on" for record in start))
    passed = next(record for record in hub if record["event"] == "passed_on")
    passed["origin"] = passed["origin"][::-1]
    assert ("claims", "sub/audit") in told(starts)
