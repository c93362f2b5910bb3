"""Lies before the judges: both engines, topics, a second count."""

import json
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from proof.lies.engines import save_lies, unlike
from proof.lies.harmless import reason_for
from proof.lies.logs import expiring_files, files_of, honest_logs, records_of
from proof.lies.mutate import Lie, Log, lies_about
from proof.lies.recount import Counted, recount
from proof.lies.run import ANY, RIGHT, Told, found_by, tell, tell_all
from proof.lies.topics import ABOUT_TOPICS
from tests.tools.replay.builder import CLASS_STREAMS, PER_PACKET, SEQUENCE, Record, World
from tests.tools.replay.faults import TX
from tests.tools.replay.harmless import HARMLESS
from tests.tools.replay.judging import verdict_of
from tests.tools.replay.telling import happens
from triack.base.session_log import EVENTS
from triack.tools.chaos.drawing import draw
from triack.tools.chaos.topics import TOPICS_FROM
from triack.tools.replay.checks.catalogue import CHECKS
from triack.tools.replay.engines.local_engine import replay_local
from triack.tools.replay.judges.judge import Judge
from triack.tools.replay.log.files import find_logs, parse_records

# Many lies in one directory; tests/tools/replay/engines/test_spark_engine.py has both engines judge them.


@pytest.mark.gate
def test_each_lie_has_a_log_of_its_own(tmp_path: Path) -> None:
    """So that what is found in one says nothing of another, and what cannot be read stops no replay."""
    world = HARMLESS["healthy"]()
    world.number()
    start = (world.beta.node, world.beta.incarnation)
    log = {start: [record for record in world.beta.records if record["incarnation"] == world.beta.incarnation]}
    lies = [lie for lie in lies_about(log, start, 4) if lie.kind in ("drop", "raise", "repeat")]
    saved = save_lies(lies, tmp_path)
    files = [path.name for path in tmp_path.iterdir()]
    assert len(files) == saved == len({name[:4] for name in files}) > 2
    verdict = replay_local(find_logs([tmp_path]))
    assert {it.node[:4] for it in verdict.findings} <= {name[:4] for name in files}
    other = replay_local(find_logs([tmp_path]))
    assert unlike(verdict, other) == []
    other.sent += 1
    other.findings[0].evidence = "another"
    assert [it.partition(":")[0] for it in unlike(verdict, other)] == ["sent", "only on Spark"]


# Lies about topics: those that change what a subscription gets are found, and the others say why they do not.

LIES = 40


@pytest.fixture(scope="module")
def log() -> Log:
    return records_of(files_of(draw(TOPICS_FROM + 2)))


@pytest.fixture(scope="module")
def away() -> Log:
    """Messages are passed on to a subscription of another node."""
    return records_of(files_of(draw(TOPICS_FROM + 55)))


def lies(log: Log, about: tuple[str, ...]) -> list[Lie]:
    random = Random(1)
    places = [(start, at) for start, some in log.items() for at, it in enumerate(some) if it["event"] in about]
    return [random.choice(list(lies_about(log, *random.choice(places)))) for _ in range(LIES)]


@pytest.mark.slow
@pytest.mark.parametrize("about", [ABOUT_TOPICS, ("placed",), ("dispatched", "assigned"), ("handed", "settled")])
def test_a_lie_is_found_or_harmless(log: Log, about: tuple[str, ...]) -> None:
    for lie in lies(log, about):
        checks = found_by(lie)
        late = {"none_rule", "slowest_rule", "ack_wait", "topic_lost"} if lie.kind == "shift" else set()
        right = lie.kind == "swap" or checks & (RIGHT[lie.event] | ANY | late)
        assert right if checks else reason_for(lie, log), (lie.kind, lie.event, lie.field, lie.start, lie.at, checks)


@pytest.mark.slow
@pytest.mark.parametrize("about", [("passed_on",), ("subscribed", "unsubscribed"), ("queued",)])
def test_a_lie_about_subscriptions_of_other_nodes_is_found_or_harmless(away: Log, about: tuple[str, ...]) -> None:
    assert any(record["event"] == "passed_on" for records in away.values() for record in records)
    test_a_lie_is_found_or_harmless(away, about)


# The second count: by hand, and beside the judge's over logs of real nodes whose messages expire on their way.

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


@pytest.mark.parametrize("early", [0, 2], ids=["none arrived", "some arrived before"])
def test_a_commit_passes_what_was_given_up(early: int) -> None:
    came = [(number, number - 1) for number in (*range(1, 2 + early), *range(8, 12))]
    assert recount([commit_past(1, 11, 6 + early, *came, (7, 1))]) == Counted(11, 6 + early, 5, early, 0)


def expired(*, arrived: int) -> World:
    """Of eleven packets five expire in the middle; ``arrived`` of these have arrived before."""
    world = happens(
        f"queue tx 11; send tx 1-{1 + arrived}; remove tx 2-6 expired; send tx 7 previous=1; send tx 8-11;"
        f"commit tx 1-11; ack 1-{6 + arrived}; order_ack 11"
    )
    world.beta.one("committed")["count"] = (6 + arrived) * PER_PACKET
    return world


@pytest.mark.parametrize("arrived", [0, 2, 5])
def test_the_judge_counts_the_same(arrived: int) -> None:
    """11 were sent, 5 expired, and 6 arrived; what arrived before it expired is dead and delivered."""
    verdict, messages = verdict_of(expired(arrived=arrived)), (6 + arrived) * PER_PACKET
    assert verdict.violations == {}
    assert (verdict.sent, verdict.delivered, verdict.pending) == (11 * PER_PACKET, messages, 0)
    assert (verdict.dead, verdict.dead_delivered) == ({"expired": 5 * PER_PACKET}, arrived * PER_PACKET)


@pytest.mark.parametrize("messages", [5, 7])
def test_a_commit_holds_what_arrived(messages: int) -> None:
    """Its range has packets that nobody wants any more, and its count is judged all the same."""
    world = expired(arrived=0)
    world.beta.one("committed")["count"] = messages * PER_PACKET
    assert verdict_of(world).violations == {"claims": 1}


@pytest.mark.slow
def test_logs_of_real_nodes_are_counted_alike() -> None:
    for _, files in islice(expiring_files(), 40):
        judge = Judge()
        for name, content in files.items():
            judge.read(name, parse_records(content))
        verdict = judge.finish()
        accounts = verdict, verdict.system
        assert recount(files.values()) == Counted(
            sent=sum(it.sent for it in accounts),
            delivered=sum(it.delivered for it in accounts),
            dead=sum(it.dead_sum + it.purged for it in accounts),
            dead_delivered=sum(it.dead_delivered for it in accounts),
            waiting=sum(it.pending + it.lost + it.unkept for it in accounts),
        )


# Hundreds of lies about logs of real nodes: each is found out by a check that is about it, or harmless by name.

LIES_TOLD = 60
LOGS = 4
WIDE = 2


@pytest.mark.slow
def test_no_lie_is_missed() -> None:
    told = tell_all(LIES_TOLD, seed=3, logs=LOGS, wide=WIDE)
    assert told.missed == []
    assert told.lies > LIES_TOLD
    assert len(told.caught) > 15


def test_the_right_checks_are_known() -> None:
    assert {check for checks in RIGHT.values() for check in checks} <= set(CHECKS)
    assert set(RIGHT) == set(EVENTS) - {"rollback_detected"}


@pytest.mark.slow
def test_a_miss_is_reported() -> None:
    """A lie that no check is about, and that is of no harmless kind."""
    ((_, log),) = honest_logs(1)
    start, records = next((start, records) for start, records in log.items() if len(records) > 20)
    at = next(at for at, record in enumerate(records) if record["event"] == "packet_sent")
    (lie,) = [it for it in lies_about(log, start, at) if it.kind == "raise" and it.field == "packet"]
    told = Told()
    tell(lie, log, told, "here")
    assert (told.missed, "wire" in found_by(lie)) == ([], True)
    unfound = type(lie)(**{name: getattr(lie, name) for name in lie.__slots__} | {"records": records[:0]})
    tell(unfound, log, told, "here")
    assert told.missed[0].startswith(f"here, start {start[1]} of {start[0][:6]}, record {at + 1}: raise packet_sent")
