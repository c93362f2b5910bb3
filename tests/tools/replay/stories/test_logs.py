"""Logs that are cut, missing, or of many years and starts."""

import asyncio
import json
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import pytest

import triack
from proof.lies.logs import honest_logs
from tests.tools.replay.builder import ALPHA, BETA, Log, Record, World
from tests.tools.replay.cutting import told
from tests.tools.replay.faults import restarted
from tests.tools.replay.harmless import HARMLESS
from tests.tools.replay.judging import plant, verdict_of
from tests.tools.replay.telling import happens
from triack.base.log_lines import LineReader
from triack.testing import World as SimWorld
from triack.tools.chaos.topologies import RELAYED_FROM
from triack.tools.replay.engines.local_engine import judge_segments
from triack.tools.replay.engines.prune import prune
from triack.tools.replay.log.listing import SUMMARY
from triack.tools.replay.log.schema import Verdict
from triack.tools.replay.run import replay

# Logs that lack their ends, as a loss of power or a copy leaves them: they accuse nobody, and are named.


def cut(log: Log, start: int, kept: int) -> None:
    """Power is lost in a start: the first records of it are left, and the next start is another boot's."""
    mine = [record for record in log.records if record["incarnation"] == start]
    gone = mine[kept:]
    log.records = [record for record in log.records if not any(record is it for it in gone)]
    for record in log.all("start_before"):
        if record["incarnation"] > start:
            record["boot"] = "another"


@pytest.mark.slow
@pytest.mark.parametrize("name", HARMLESS)
def test_a_cut_log_accuses_nobody(name: str) -> None:
    sizes = {
        (log.name, start): sum(record["incarnation"] == start for record in log.records)
        for log in HARMLESS[name]().logs
        for start in range(1, log.incarnation + 1)
    }
    for (node, start), size in sizes.items():
        for kept in range(1, size, max(1, size // 12)):
            world = HARMLESS[name]()
            cut(next(log for log in world.logs if log.name == node), start, kept)
            verdict = verdict_of(world)
            assert verdict.violations == {}, f"{node} start {start} cut behind {kept} of {size}: {verdict.findings[0]}"


def delivered() -> World:
    """Beta has 200 packets, of which alpha has forgotten all."""
    return happens("deliver tx 8;" * 25)


def test_a_log_that_ends_early_is_named() -> None:
    """Beta's log was cut when it was copied: what it lacks is not lost."""
    world = delivered()
    cut(world.beta, 1, 100)
    verdict = verdict_of(world)
    assert (verdict.verdict, verdict.lost, verdict.violations) == ("incomplete", 0, {})
    end = "ends at record 100 without its end record; what is missing after that may be there"
    assert verdict.cut == [f"the log of start 1 of node {BETA} {end}"]
    assert verdict.pending == verdict.sent - verdict.delivered > 0


def test_what_the_next_start_found_is_delivered() -> None:
    """After a loss of power beta starts on its store, which was synced. All is delivered, and nobody is accused."""
    world = delivered()
    cut(world.beta, 1, 100)
    happens("beta.start another; beta position_recovered tx number=200", world)
    verdict = verdict_of(world)
    assert (verdict.verdict, verdict.violations, verdict.delivered, verdict.sent) == ("incomplete", {}, 2_000, 2_000)
    assert verdict.cut[0].startswith(f"the log of start 1 of node {BETA} ends at record 100 without its end record")


def test_a_log_with_fewer_records_than_its_store_knows_of_is_named() -> None:
    """Nothing else shows that something is gone: what was not read is never taken for good."""
    verdict = verdict_of(happens("deliver tx 8; close; beta start; change beta start_before[-1] records=1000"))
    assert (verdict.verdict, verdict.violations) == ("incomplete", {})
    (named,) = verdict.cut
    assert named.endswith("and its node had written 1,000 when its last commit was begun")


def test_a_lie_shows_in_a_cut_log() -> None:
    """Alpha has an ack that beta never sent. Beta's log goes on behind it: it has what alpha sent later."""
    world = happens("deliver tx 8; queue tx 2; send tx 9-10; alpha store_ack_received here ranges=[[9,9]]")
    verdict = verdict_of(world)
    assert (verdict.verdict, verdict.violations) == ("incomplete", {}), "the ack may be in what is missing"
    assert verdict_of(happens("queue tx 1; send tx 11", world)).violations == {"ack_from_nowhere": 1}


def test_an_ack_of_what_was_never_sent_needs_no_other_log() -> None:
    """An ack that the sender's own log shows to be a lie is one, whatever its peer's log lacks."""
    world = happens("deliver tx 8; alpha ack_received here ranges=[[9,9]]")
    cut(world.beta, 1, 5)
    assert "ack_unreceived" in verdict_of(world).violations


@pytest.mark.parametrize("kept", range(3, 40, 4))
def test_both_ends_may_be_cut(kept: int) -> None:
    world = delivered()
    for log in world.logs:
        cut(log, 1, kept)
    assert verdict_of(world).violations == {}
    assert len([record for log in world.logs for record in log.records]) == 2 * kept


# Logs of some starts are missing: nobody is accused, and the verdict says whose they are. The histories are those of
# real nodes in bad worlds: several nodes with messages of all classes, which forward in transactions, kills, loss,
# what expires and what is refused.

LOGS = 10
"""Histories with some seconds of work; thousands of starts were left out when this was written."""
PAIRS = 5
"""The number of pairs of starts that are left out of each history."""

Start = tuple[str, int]
RealLog = dict[Start, list[Record]]


def judged(log: RealLog, *gone: Start) -> Verdict:
    return judge_segments(lambda: [("", 1, records) for start, records in log.items() if start not in gone]).finish()


def was_heard(log: RealLog, gone: Start) -> bool:
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


# A year of logs, in virtual time: pruned to a month they prove what they proved before.

HOUR_S = 3_600
DAY_NS = 24 * HOUR_S * 10**9
DAYS = 365
EVERY_S = 12 * HOUR_S
"""Between two messages; a session ends as idle meanwhile."""
STARTS = 12
"""How often each node starts in that year."""
MESSAGES = DAYS * 24 * HOUR_S // EVERY_S // STARTS * STARTS


async def send_some(count: int) -> None:
    async with triack.open("a", data="a", listen="udp://127.0.0.1:7801", peers={"b": "udp://b:7802"}) as node:
        for _ in range(count):
            await node.send("b/orders", b"order")
            await asyncio.sleep(EVERY_S)


async def read_all() -> None:
    async with (
        triack.open("b", data="b", listen="udp://127.0.0.1:7802", queues=["orders"]) as node,
        node.receive("orders") as consumer,
    ):
        async for message in consumer:
            message.ack()


@pytest.fixture(scope="module")
def year(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The logs of two nodes over a year."""
    folder = tmp_path_factory.mktemp("year")
    with SimWorld(1, max_events=10_000_000) as world:

        async def run() -> None:
            a, b = world.machine("a"), world.machine("b")
            b.start(read_all)
            for start in range(STARTS):
                await a.run(send_some(MESSAGES // STARTS))
                if start % 3 == 1:
                    b.crash()
                    b.restart()
            await b.stop()

        world.run(run())
        world.write_logs(folder)
    return folder


def last_ns(folder: Path) -> int:
    """The time of the first record of the youngest segment."""
    return max(int(json.loads(path.read_text().partition("\n")[0])["wall_ns"]) for path in folder.glob("*.jsonl"))


def change(path: Path, event: str, field: str) -> None:
    """Raise a number of the last record of an event by 1, as a liar would."""
    reader = LineReader()
    records: list[dict[str, Any]] = [reader.read(json.loads(line)) for line in path.read_text().splitlines()]
    next(record for record in reversed(records) if record["event"] == event)[field] += 1
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


@pytest.mark.slow
def test_a_year_pruned_to_a_month_is_a_pass_and_one_changed_record_a_fail(year: Path) -> None:
    whole = replay([year], engine="local")
    assert (whole.verdict, whole.sent, whole.delivered) == ("pass", MESSAGES, MESSAGES)
    before = sum(path.stat().st_size for path in year.iterdir())
    done = prune(year, last_ns(year) - 30 * DAY_NS)
    rest = replay([year], engine="local")
    assert told(rest) == told(whole)
    assert done.bytes > before * 10 / 12.5
    assert (year / SUMMARY).stat().st_size < done.bytes / 10
    change(max(year.glob("*-b-*.jsonl")), "committed", "count")
    assert replay([year], engine="local").verdict == "fail"
