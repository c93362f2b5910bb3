"""Streams that ended, what was never sent, nodes that stood still."""

import pytest

from tests.tools.replay.acts import restart_beta
from tests.tools.replay.builder import World, place
from tests.tools.replay.faults import TX
from tests.tools.replay.harmless import HARMLESS
from tests.tools.replay.judging import checks_of, verdict_of
from tests.tools.replay.stories.test_logs import cut
from tests.tools.replay.telling import happens

# Streams that have ended: no later start tells of them, so only whole logs prove that something of them is amiss.


def kept_before(world: World, event: str) -> int:
    """How many records beta's first start has before the first one of an event."""
    records = [record for record in world.beta.records if record["incarnation"] == 1]
    return next(at for at, record in enumerate(records) if record["event"] == event)


def ended_and_cut(event: str) -> World:
    """Alpha has ended a stream before its messages were read; beta's first log ends before an event."""
    world = HARMLESS["ended_before_its_messages_were_read"]()
    cut(world.beta, 1, kept_before(world, event))
    return world


@pytest.mark.parametrize("event", ["packet_received", "committed", "stream_forgotten"])
def test_what_a_cut_end_may_say_of_an_ended_stream_is_no_fault(event: str) -> None:
    """That its messages are on the disk, and that it was forgotten: beta's next start finds nothing, and hands out."""
    verdict = verdict_of(ended_and_cut(event))
    assert (verdict.verdict, verdict.violations, verdict.lost) == ("incomplete", {}, 0)


def test_what_is_not_found_of_a_stream_that_goes_on_is_lost() -> None:
    """The end of beta's first log may lack, but alpha's says that the stream has not ended: it would be found."""
    world = ended_and_cut("committed")
    happens(
        "drop alpha stream_ended; queue tx 1; send tx 3; queue tx 1; send tx 4; alpha ack_received here ranges=[[1,1]];"
        "beta ack_sent here cumulative=1 ranges=[] trigger=request pending=1",
        world,
    )
    assert "lost" in checks_of(world)


def test_an_end_that_its_origins_log_may_lack_is_allowed_for() -> None:
    """Both logs were cut when they were copied: alpha's before it ended the stream."""
    world = ended_and_cut("committed")
    cut(world.alpha, 1, next(at for at, it in enumerate(world.alpha.records) if it["event"] == "stream_ended"))
    verdict = verdict_of(world)
    assert (verdict.verdict, verdict.violations) == ("incomplete", {})


@pytest.mark.parametrize(("boot", "expected"), [("another", {}), ("same", {"not_recovered": 1})])
@pytest.mark.parametrize("silent", [0, 1])
def test_a_stream_of_which_no_later_start_tells(silent: int, boot: str, expected: dict[str, int]) -> None:
    """A whole log has to say that it was forgotten, the end of a cut one may have. The next starts have read it all."""
    world = HARMLESS["ended_before_its_messages_were_read"]()
    world.beta.drop("handed", number=2)
    for _ in range(silent):
        restart_beta(world)
        world.hand(TX, range(2, 3))
    cut(world.beta, 1, kept_before(world, "stream_forgotten"))
    for record in world.beta.all("start_before")[1:]:
        record["boot"] = boot
    assert verdict_of(world).violations == expected


def test_the_end_of_a_cut_log_may_say_that_a_stream_was_forgotten() -> None:
    """The next stream in its stream comes to beta's second start. Where the first log is whole, it has to say so."""
    world = happens("deliver tx 2; end_stream tx; restart_beta; next [deliver tx 1]")
    cut(world.beta, 1, kept_before(world, "stream_forgotten"))
    assert (verdict_of(world).verdict, verdict_of(world).violations) == ("incomplete", {})
    world.beta.all("start_before")[1].update(boot="same")
    assert verdict_of(world).violations == {"claims": 1, "not_recovered": 1}


def test_a_position_that_is_too_low_is_proof_of_itself() -> None:
    """Beta has acknowledged two packets, and the next start has found one, whatever it did after that."""
    found = "beta position_recovered tx number=1"
    world = happens(f"deliver tx 2; beta.start same; {found}; beta.start another; {found}")
    assert verdict_of(world).violations["not_recovered"] > 0


def test_a_start_that_finds_a_stream_tells_of_the_starts_before() -> None:
    """Beta hands out a packet behind the position that it found: no end of a log explains that."""
    world = ended_and_cut("committed")
    for log in world.logs:
        log.drop("stream_ended")
        log.drop("stream_forgotten")
    started = world.beta.all("start_before")[1]
    found = world.beta.write("position_recovered", cls=TX, **place(TX), number=1)
    world.beta.move_before(found, started)
    world.beta.move_before(started, found)
    assert {"queue", "lost"} <= checks_of(world)


# A process that stood still is late and breaks nothing; one that did not, or wrote something meanwhile, is no such.


def told(steps: str) -> tuple[dict[str, int], dict[str, int], str]:
    """What is found when beta acknowledges express packets late."""
    verdict = verdict_of(happens(f"queue fast 2; send fast 1; {steps}"))
    return verdict.violations, verdict.late, verdict.verdict


@pytest.mark.parametrize("stopped_ms", [1_000, 4_000, 60_000])
def test_what_a_stopped_process_owes_is_late(stopped_ms: int) -> None:
    assert told(f"beta.stand_still {stopped_ms}000000; wait 600; ack 1 store=false") == ({}, {"idle_delay": 1}, "pass")


def test_nobody_stands_still_and_writes() -> None:
    """Beta claims four seconds in which it took a packet."""
    steps = "wait 2000; send fast 2; wait 2000; beta woke_late since_ns=10000000; ack 1-2 store=false"
    assert told(steps) == ({"claims": 1, "idle_delay": 1}, {}, "fail")
