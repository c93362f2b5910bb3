"""The second count: by hand, and beside the judge's over logs of real nodes whose messages expire on their way."""

import json
from itertools import islice

import pytest

from proof.lies.logs import expiring_files
from proof.lies.recount import Counted, recount
from tests.tools.replay.builder import CLASS_STREAMS, PER_PACKET, SEQUENCE, Record, World, place
from tests.tools.replay.faults import TX, ready
from triack.tools.replay.judges.judge import Judge
from triack.tools.replay.log.files import parse_records

STREAM = {"class": TX, "origin": "a" * 32, "stream": CLASS_STREAMS[TX], "sequence": SEQUENCE}


def lines(*records: Record) -> bytes:
    return b"".join(json.dumps({"v": 6, "node": "b" * 32, "incarnation": 1, **it}).encode() + b"\n" for it in records)


def commit_past(first: int, last: int, count: int, *arrivals: tuple[int, int]) -> bytes:
    """Eleven packets of one message each; those from 2 to 6 were given up, and some arrived, each with its previous."""
    return lines(
        {"event": "queued", **STREAM, "first": 1, "last": 11, "count": 11},
        {"event": "removed", **STREAM, "first": 2, "last": 6, "count": 5},
        *(
            {"event": "packet_received", **STREAM, "number": number, "previous": previous, "counts": [[1, 1]]}
            for number, previous in arrivals
        ),
        {"event": "committed", **STREAM, "first": first, "last": last, "count": count},
    )


def test_a_commit_passes_what_was_given_up() -> None:
    arrivals = [(1, 0), (7, 1), *((number, number - 1) for number in range(8, 12))]
    assert recount([commit_past(1, 11, 6, *arrivals)]) == Counted(6, 6, 0)


def test_what_was_given_up_may_have_arrived_before() -> None:
    arrivals = [(1, 0), (2, 1), (3, 2), (7, 1), *((number, number - 1) for number in range(8, 12))]
    assert recount([commit_past(1, 11, 8, *arrivals)]) == Counted(8, 8, 0)


def expired(*, arrived: int) -> World:
    """Of eleven packets five expire in the middle; ``arrived`` of these have arrived before."""
    world = ready()
    numbers = world.queue(TX, 11)
    first = world.send(TX, numbers[: 1 + arrived])
    gone = {"first": 2, "last": 6, "count": 5 * PER_PACKET, "reason": "expired"}
    world.alpha.write("removed", cls=TX, **place(TX), **gone)
    world.send(TX, numbers[6:7], previous=1)
    rest = world.send(TX, numbers[7:])
    commit = world.commit(TX, numbers)
    commit["count"] = (6 + arrived) * PER_PACKET
    world.ack([*first, rest[0] - 1, *rest])
    world.order_ack(11)
    return world


@pytest.mark.parametrize("arrived", [0, 2, 5])
def test_the_judge_counts_the_same(arrived: int) -> None:
    """11 accepted, 5 expired, 6 arrived: 6 were sent and 6 delivered; what arrived before it expired counts as both."""
    world, judge = expired(arrived=arrived), Judge()
    world.number()
    for log in world.logs:
        judge.read(log.name, log.records)
    verdict, messages = judge.finish(), (6 + arrived) * PER_PACKET
    assert verdict.violations == {}
    assert (verdict.sent, verdict.delivered, verdict.pending) == (messages, messages, 0)


@pytest.mark.parametrize("messages", [5, 7])
def test_a_commit_holds_what_arrived(messages: int) -> None:
    """Its range has packets that nobody wants any more, and its count is judged all the same."""
    world, judge = expired(arrived=0), Judge()
    world.beta.one("committed")["count"] = messages * PER_PACKET
    world.number()
    for log in world.logs:
        judge.read(log.name, log.records)
    assert judge.finish().violations == {"claims": 1}


@pytest.mark.slow
def test_logs_of_real_nodes_are_counted_alike() -> None:
    for _, files in islice(expiring_files(), 40):
        judge = Judge()
        for name, content in files.items():
            judge.read(name, parse_records(content))
        verdict = judge.finish()
        assert recount(files.values()) == (verdict.sent, verdict.delivered, verdict.pending)
