"""What a sequence promises over all sessions, and what its messages add to the verdict."""

import pytest

from tests.tools.replay.builder import ALPHA, BETA, CLASS_LANES, PER_PACKET, SEQUENCE, place
from tests.tools.replay.faults import FAULTS, HARMLESS, STREAM_CHECKS, TX, breaking, ready
from tests.tools.replay.judging import assert_found, verdict_of
from triack.tools.replay.local_streams import Segment, Story, Streams, even_share, repeats, segments
from triack.tools.replay.schema import Violation


@pytest.mark.parametrize("name", breaking(*STREAM_CHECKS))
def test_a_planted_fault_is_found(name: str) -> None:
    assert_found(name)


def test_lost_messages_fail_the_verdict() -> None:
    """One forgotten packet costs its ten messages."""
    world = ready()
    FAULTS["lost_transactional"](world)
    verdict = verdict_of(world)
    assert (verdict.verdict, verdict.sent, verdict.delivered, verdict.lost) == ("fail", 20, 10, 10)


def test_messages_that_wait_are_pending() -> None:
    """What is queued and neither delivered nor forgotten is pending, to the message, sent or not."""
    world = ready()
    world.send(TX, world.queue(TX, 3)[:2])
    world.commit(TX, range(1, 2))
    world.alpha.one("queued")["count"] = 27
    verdict = verdict_of(world)
    assert (verdict.sent, verdict.delivered, verdict.pending) == (27, 10, 17)


def test_recovered_ranges_count_only_what_is_new() -> None:
    """A restart repeats what still waits; only packets that no record had before are added."""
    world = ready()
    world.queue(TX, 4)
    world.alpha.start()
    world.queued(TX, 3, 6, recovered=True)
    world.alpha.start()
    world.queued(TX, 5, 6, recovered=True)
    assert verdict_of(world).sent == 6 * PER_PACKET


def test_a_commit_whose_record_was_lost_is_delivered() -> None:
    """What the recovered position covers is on disk, although no record says committed."""
    world = ready()
    world.send(TX, world.queue(TX, 2))
    world.beta.start()
    world.beta.write("position_recovered", **place(TX), number=2, cls=TX)
    world.order_ack(2)
    verdict = verdict_of(world)
    assert (verdict.verdict, verdict.delivered, verdict.lost) == ("pass", 20, 0)


def test_recovered_ranges_without_a_record_are_delivered() -> None:
    """What beta's duplicate filter knew at the start is delivered, each message once, whatever a record adds."""
    verdict = verdict_of(HARMLESS["recovered_ranges"]())
    assert (verdict.verdict, verdict.sent, verdict.delivered, verdict.pending) == ("pass", 40, 40, 0)


def test_what_is_removed_and_delivered_all_the_same_was_sent() -> None:
    """Alpha gives packet 2 up, but it is on its way; the one that never arrives counts nowhere."""
    world = ready()
    numbers = world.queue(TX, 3)
    world.alpha.write("removed", cls=TX, **place(TX), first=2, last=3, count=2 * PER_PACKET, reason="expired")
    world.commit(TX, numbers[:2])
    verdict = verdict_of(world)
    assert (verdict.sent, verdict.delivered, verdict.pending, verdict.lost) == (20, 20, 0, 0)


def test_repeated_messages_are_counted() -> None:
    """A packet that is committed three times is delivered once, and its messages were repeated twice."""
    world = ready()
    world.deliver("recoverable", 3)
    for _ in range(2):
        world.commit("recoverable", range(2, 3))
    verdict = verdict_of(world)
    assert (verdict.sent, verdict.delivered, verdict.duplicates_delivered) == (30, 30, 20)
    assert [it.evidence for it in verdict.findings] == ["committed 3 times; messages: 10"]


def test_express_messages_are_in_no_number() -> None:
    world = ready()
    world.deliver("express", 3)
    world.commit("express", range(1, 2))
    verdict = verdict_of(world)
    assert (verdict.sent, verdict.delivered, verdict.pending, verdict.findings) == (0, 0, 0, [])


def test_what_was_queued_in_no_log_is_not_pending() -> None:
    """Only beta's log is given: what it committed was delivered, and nothing waits for less than nothing."""
    world = ready()
    world.deliver(TX, 3)
    world.alpha.records.clear()
    verdict = verdict_of(world)
    assert (verdict.sent, verdict.delivered, verdict.pending, verdict.verdict) == (0, 30, 0, "pass")


def test_a_node_settles_what_is_on_its_own_disk() -> None:
    """Not what another one has, nor another class's stream."""
    world = ready()
    found: list[Violation] = []
    streams = Streams(found.append)
    streams.handle_committed(world.commit(TX, range(3, 5)))
    streams.handle_recovered(
        world.beta.write("position_recovered", cls="recoverable", **place("recoverable"), ranges=[[1, 1], [3, 4]])
    )
    lane = CLASS_LANES[TX]
    held = [number for number in range(1, 6) if streams.settled(BETA, (TX, ALPHA, lane, SEQUENCE, number))]
    filtered = [number for number in range(1, 6) if streams.settled(BETA, ("recoverable", ALPHA, 2, SEQUENCE, number))]
    assert (held, filtered) == ([3, 4], [1, 3, 4])
    assert not streams.settled(ALPHA, (TX, ALPHA, lane, SEQUENCE, 3))


def test_shares_are_even_and_add_up() -> None:
    assert [even_share(number, 4, 6, 10) for number in (4, 5, 6)] == [3, 3, 4]
    assert even_share(7, 7, 7, 10) == 10
    assert sum(even_share(number, 1, 7, 5) for number in range(1, 8)) == 5


def test_a_packet_weighs_what_its_own_record_says() -> None:
    """Else the smallest share of a range that has it, and nothing if none has."""
    story = Story()
    story.fresh.append((1, 2, 10))
    story.commits.append((BETA, 2, 2, 4))
    assert [story.weigh(number) for number in (1, 2, 3)] == [5, 4, 0]
    story.weights[2] = 7
    assert story.weigh(2) == 7


def test_repetitions_are_found_in_any_order() -> None:
    assert list(repeats([(5, 9), (1, 4), (10, 10)])) == []
    assert list(repeats([(1, 10), (3, 4), (8, 12), (11, 11), (12, 15)])) == [
        (3, 4),
        (8, 10),
        (11, 11),
        (12, 12),
    ]


def test_only_doubtful_parts_of_a_stream_are_looked_at() -> None:
    """Of nine packets, 1 to 3 are in order; 4 is lost, 5 was recovered, 6 removed but delivered, and 7 came twice."""
    story = Story()
    story.cls = TX
    story.fresh.append((1, 8, 80))
    story.commits += [(BETA, 1, 3, 30), (BETA, 6, 7, 20), (BETA, 7, 7, 10), (BETA, 9, 9, 10)]
    story.covered.add(5, 5)
    story.removed.append((6, 6, 10))
    story.acked = 7
    assert list(segments(story)) == [
        Segment(4, 4, sent=0, delivered=0, unqueued=0, lost=True, suspect=False),
        Segment(5, 5, sent=0, delivered=1, unqueued=0, lost=False, suspect=False),
        Segment(6, 6, sent=1, delivered=0, unqueued=0, lost=False, suspect=False),
        Segment(7, 7, sent=0, delivered=-1, unqueued=0, lost=False, suspect=False),
        Segment(9, 9, sent=0, delivered=0, unqueued=1, lost=False, suspect=False),
    ]
