"""Streams that have ended: no later start tells of them, so only whole logs prove that something of them is amiss."""

import pytest

from tests.tools.replay.acts import end_stream, next_stream, restart_beta, tiers
from tests.tools.replay.builder import MS, World, place
from tests.tools.replay.faults import TX, ready
from tests.tools.replay.harmless import HARMLESS
from tests.tools.replay.judging import checks_of, verdict_of
from tests.tools.replay.stories.test_cut_logs import cut


def kept_before(world: World, event: str) -> int:
    """How many records beta's first start has before the first one of an event."""
    records = [record for record in world.beta.records if record["incarnation"] == 1]
    return next(at for at, record in enumerate(records) if record["event"] == event)


@pytest.mark.parametrize("name", [name for name in HARMLESS if name.startswith(("ended", "forgotten", "streams"))])
def test_streams_that_end_break_no_promise(name: str) -> None:
    assert verdict_of(HARMLESS[name]()).violations == {}


@pytest.mark.parametrize("event", ["packet_received", "committed", "stream_forgotten"])
def test_what_a_cut_end_may_say_of_an_ended_stream_is_no_fault(event: str) -> None:
    """That its messages are on the disk, and that it was forgotten: beta's next start finds nothing, and hands out."""
    world = HARMLESS["ended_before_its_messages_were_read"]()
    cut(world.beta, 1, kept_before(world, event))
    verdict = verdict_of(world)
    assert (verdict.verdict, verdict.violations, verdict.lost) == ("incomplete", {}, 0)


@pytest.mark.parametrize(
    ("event", "checks"),
    [
        ("committed", {"lost", "order_ack_before_commit", "queue", "store_ack_before_commit"}),
        ("stream_forgotten", {"not_recovered"}),
    ],
)
def test_a_whole_log_that_does_not_say_it_is_proof(event: str, checks: set[str]) -> None:
    """Beta's process was killed and its machine has run on: its log has all that it did."""
    world = HARMLESS["ended_before_its_messages_were_read"]()
    world.beta.drop(event)
    assert checks_of(world) == checks


def test_what_is_not_found_of_a_stream_that_goes_on_is_lost() -> None:
    """The end of beta's first log may lack, but alpha's says that the stream has not ended: it would be found."""
    world = HARMLESS["ended_before_its_messages_were_read"]()
    cut(world.beta, 1, kept_before(world, "committed"))
    world.alpha.drop("stream_ended")
    world.send(TX, world.queue(TX, 1))
    world.send(TX, world.queue(TX, 1))
    world.alpha.write("ack_received", session=world.session, ranges=[[1, 1]])
    world.beta.write("ack_sent", session=world.session, cumulative=1, ranges=[], trigger="request", pending=1)
    assert "lost" in checks_of(world)


def test_an_end_that_its_origins_log_may_lack_is_allowed_for() -> None:
    """Both logs were cut when they were copied: alpha's before it ended the stream."""
    world = HARMLESS["ended_before_its_messages_were_read"]()
    cut(world.beta, 1, kept_before(world, "committed"))
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
    world = ready()
    world.deliver(TX, 2)
    end_stream(world, TX)
    restart_beta(world)
    next_stream(world, lambda: world.deliver(TX, 1))
    cut(world.beta, 1, kept_before(world, "stream_forgotten"))
    assert (verdict_of(world).verdict, verdict_of(world).violations) == ("incomplete", {})
    world.beta.all("start_before")[1].update(boot="same")
    assert verdict_of(world).violations == {"claims": 1, "not_recovered": 1}


def found(world: World, number: int) -> None:
    """Beta's next start finds a position."""
    world.beta.write("position_recovered", cls=TX, **place(TX), number=number)


def test_a_position_that_is_too_low_is_proof_of_itself() -> None:
    """Beta has acknowledged two packets, and the next start has found one, whatever it did after that."""
    world = ready()
    world.deliver(TX, 2)
    world.beta.start()
    found(world, 1)
    world.beta.start("another")
    found(world, 1)
    assert verdict_of(world).violations["not_recovered"] > 0


def test_only_ends_behind_a_position_may_tell_that_it_was_forgotten() -> None:
    """The first log lacks its end. The second start has found the stream, its log is whole, and the third has not."""
    world = ready()
    world.deliver(TX, 2)
    world.beta.start("another")
    found(world, 2)
    world.beta.start("another")
    world.open()
    next_stream(world, lambda: world.deliver(TX, 1))
    assert verdict_of(world).violations["not_recovered"] > 0


def test_a_start_that_finds_a_stream_tells_of_the_starts_before() -> None:
    """Beta hands out a packet behind the position that it found: no end of a log explains that."""
    world = HARMLESS["ended_before_its_messages_were_read"]()
    for log in world.logs:
        log.drop("stream_ended")
        log.drop("stream_forgotten")
    started = world.beta.all("start_before")[1]
    found = world.beta.write("position_recovered", cls=TX, **place(TX), number=1)
    world.beta.records.remove(found)
    world.beta.records.insert(world.beta.records.index(started) + 1, found)
    found.update(at_ns=started["at_ns"], wall_ns=started["wall_ns"])
    cut(world.beta, 1, kept_before(world, "committed"))
    assert {"queue", "lost"} <= checks_of(world)


def test_an_express_message_of_an_earlier_start_is_a_lie() -> None:
    """Express messages are gone with their process, whatever the end of its log lacks."""
    world = ready()
    world.close()
    world.beta.start("another")
    world.open()
    world.send("express", world.queue("express", 1))
    world.hand("express", range(1, 2))
    assert verdict_of(world).violations == {"queue": 1}


def test_a_stream_that_had_messages_has_one_class() -> None:
    """Its number is no other stream's, whatever dies."""
    world = ready()
    world.deliver("recoverable", 1)
    world.alpha.write("stream_ended", cls=TX, **place("recoverable"))
    world.alpha.start()
    assert checks_of(world) == {"claims"}


def test_an_end_does_not_excuse_an_order_ack_that_was_due_before() -> None:
    """Beta has withheld it for two seconds, one is allowed."""
    world = ready()
    tiers(world)
    numbers = world.queue(TX, 1)
    arrived = world.send(TX, numbers)
    world.commit(TX, numbers)
    world.ack(arrived)
    world.clock.tick(2000 * MS)
    world.alpha.write("removed", cls=TX, **place(TX), first=1, last=1, count=10, reason="expired")
    end_stream(world, TX)
    next_stream(world, lambda: world.deliver(TX, 1))
    assert verdict_of(world).violations == {"order_ack_late": 1}
