"""Logs that lack their ends, as a loss of power or a copy leaves them: they accuse nobody, and are named."""

import pytest

from tests.tools.replay.builder import ALPHA, BETA, Log, World
from tests.tools.replay.faults import TX, ready, restarted
from tests.tools.replay.harmless import HARMLESS
from tests.tools.replay.judging import verdict_of

WORLDS = {**HARMLESS, "restarted": restarted}


def cut(log: Log, start: int, kept: int) -> None:
    """Power is lost in a start: the first records of it are left, and the next start is another boot's."""
    mine = [record for record in log.records if record["incarnation"] == start]
    gone = mine[kept:]
    log.records = [record for record in log.records if not any(record is it for it in gone)]
    for record in log.all("start_before"):
        if record["incarnation"] > start:
            record["boot"] = "another"


@pytest.mark.slow
@pytest.mark.parametrize("name", WORLDS)
def test_a_cut_log_accuses_nobody(name: str) -> None:
    """Whichever start it is that lost its end, and wherever."""
    sizes = {
        (log.name, start): sum(record["incarnation"] == start for record in log.records)
        for log in WORLDS[name]().logs
        for start in range(1, log.incarnation + 1)
    }
    for (node, start), size in sizes.items():
        for kept in range(1, size, max(1, size // 12)):
            world = WORLDS[name]()
            cut(next(log for log in world.logs if log.name == node), start, kept)
            verdict = verdict_of(world)
            assert verdict.violations == {}, f"{node} start {start} cut behind {kept} of {size}: {verdict.findings[0]}"


def delivered() -> World:
    """Beta has 200 packets, of which alpha has forgotten all."""
    world = ready()
    for _ in range(25):
        world.deliver(TX, 8)
    return world


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
    world.beta.start("another")
    world.beta.write("position_recovered", cls=TX, origin=ALPHA, stream=1, sequence=5, number=200)
    verdict = verdict_of(world)
    assert (verdict.verdict, verdict.violations, verdict.delivered, verdict.sent) == ("incomplete", {}, 2_000, 2_000)
    assert verdict.cut[0].startswith(f"the log of start 1 of node {BETA} ends at record 100 without its end record")


def test_a_log_with_fewer_records_than_its_store_knows_of_is_named() -> None:
    """Nothing else shows that something is gone: what was not read is never taken for good."""
    world = ready()
    world.deliver(TX, 8)
    world.close()
    world.beta.start()
    world.beta.records[-1]["records"] = 1_000
    verdict = verdict_of(world)
    assert (verdict.verdict, verdict.violations) == ("incomplete", {})
    (named,) = verdict.cut
    assert named.endswith("and its node had written 1,000 when its last commit was begun")


def test_a_killed_process_has_a_whole_log() -> None:
    """The machine has run on, so beta's log is all there: what it does not say did not happen."""
    world = delivered()
    for record in [record for record in world.beta.all("committed") if record["first"] == 193]:
        world.beta.records.remove(record)
    world.beta.start()
    world.beta.write("position_recovered", cls=TX, origin=ALPHA, stream=1, sequence=5, number=192)
    verdict = verdict_of(world)
    assert verdict.verdict == "fail"
    assert verdict.violations["lost"] == 1


def test_a_lie_shows_in_a_cut_log() -> None:
    """Alpha has an ack that beta never sent. Beta's log goes on behind it: it has what alpha sent later."""
    world = ready()
    world.deliver(TX, 8)
    numbers = world.queue(TX, 2)
    world.send(TX, numbers)
    world.alpha.write("store_ack_received", session=world.session, ranges=[[9, 9]])
    verdict = verdict_of(world)
    assert (verdict.verdict, verdict.violations) == ("incomplete", {}), "the ack may be in what is missing"
    world.send(TX, world.queue(TX, 1))
    assert verdict_of(world).violations == {"ack_from_nowhere": 1}


def test_an_ack_of_what_was_never_sent_needs_no_other_log() -> None:
    """An ack that the sender's own log shows to be a lie is one, whatever its peer's log lacks."""
    world = ready()
    world.deliver(TX, 8)
    world.alpha.write("ack_received", session=world.session, ranges=[[9, 9]])
    cut(world.beta, 1, 5)
    assert "ack_unreceived" in verdict_of(world).violations


@pytest.mark.parametrize("kept", range(3, 40, 4))
def test_both_ends_may_be_cut(kept: int) -> None:
    world = delivered()
    for log in world.logs:
        cut(log, 1, kept)
    assert verdict_of(world).violations == {}
    assert len([record for log in world.logs for record in log.records]) == 2 * kept
