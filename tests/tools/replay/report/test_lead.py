"""What the page says first: what is wrong and where, what waits and why, and what was late."""

from tests.tools.replay.builder import MS, healthy, ready
from tests.tools.replay.faults import faulty
from tests.tools.replay.judging import verdict_of
from tests.tools.replay.relays import through_relay
from triack.tools.replay.log.schema import Timeline, Verdict
from triack.tools.replay.report.lead import lead
from triack.tools.replay.report.outages import outages_of, sessions_of
from triack.tools.replay.report.page_tables import tables_of
from triack.tools.replay.report.readable import clock

TX = "transactional"


def said(verdict: Verdict) -> list[str]:
    timeline = verdict.timeline or Timeline()
    sessions = sessions_of(timeline)
    outages = outages_of(timeline, sessions)
    return lead(verdict, timeline, tables_of(verdict, timeline, sessions, outages)["streams"].rows, outages)


def test_of_kept_promises() -> None:
    """And how long the slowest message took."""
    world = ready()
    world.deliver(TX, 8)
    kept, left, late = said(verdict_of(world))
    assert kept == "Every promise was kept: nothing was lost, delivered twice or out of order."
    assert left == "No message waits."
    assert late.startswith("The slowest message took ")
    assert late.endswith(" from alpha to beta/orders; no node was away for a second.")


def test_of_what_waits_since_when_and_why() -> None:
    """Six packets of ten messages are queued for beta's queue, which was stopped, or whose log ends, or is not here."""
    world = healthy()
    world.queue(TX, 6)
    (waiting,) = [it["wall_ns"] for it in world.alpha.all("queued")[-1:]]
    begins = f"Still waiting: 60 messages: 60 from alpha to beta/orders; the oldest since {clock(waiting)} UTC: "
    assert said(verdict_of(world))[1].startswith(begins)
    world.beta.end()
    world.clock.tick(5_000 * MS)
    world.alpha.end()
    stopped = clock(world.beta.records[-1]["wall_ns"])
    why = f"beta was stopped in good order at {stopped}, and not started again."
    assert said(verdict_of(world))[1].startswith(begins + why)
    world.beta.records.clear()
    assert ": no log of b is here." in said(verdict_of(world))[1]


def test_of_what_waits_as_its_own_node_was_stopped() -> None:
    world = ready()
    world.deliver(TX, 1)
    world.queue(TX, 6)
    world.end()
    stopped = clock(world.alpha.records[-1]["wall_ns"])
    assert f": alpha was stopped in good order at {stopped}." in said(verdict_of(world))[1]


def test_of_a_broken_promise_where_and_which() -> None:
    world = faulty("window_exceeded")
    first, *_ = said(verdict_of(world))
    assert first.startswith("1 violation of 1 promise. The first of a session, number 65, at alpha, at ")
    assert "It breaks window: " in first


def test_of_what_was_lost_and_given_up() -> None:
    verdict = verdict_of(through_relay())
    row = dict.fromkeys(("longest_ns", "pending", "acknowledged", "purged"), 0) | {"queue": "q"}
    rows = [{**row, "origin": "a", "destination": f"n{at}", "lost": 1, "dead": at} for at in range(5)]
    verdict.lost, verdict.violations, verdict.dead = 5, {"lost": 5}, {"expired": 10}
    first, left = lead(verdict, verdict.timeline or Timeline(), rows, [])
    assert "Lost: 5 messages: 1 from a to n0/q, 1 from a to n1/q, 1 from a to n2/q, 2 to other queues." in first
    assert left == (
        "No message waits. Given up (expired 10): 10 messages: 4 from a to n4/q, 3 from a to n3/q, 2 from a to n2/q,"
        " 1 to other queues."
    )


def test_of_what_is_not_there() -> None:
    """A page without all logs says so first, and that what is missing may explain a violation."""
    world = healthy()
    world.beta.records.clear()
    (first, *_) = said(verdict_of(world))
    assert first.startswith("No broken promise was seen, but what is here does not prove more: no log of node b")
    verdict = Verdict(records=1, unread={"x": "y"}, violations={"lost": 2})
    first, *_ = said(verdict)
    assert first == (
        "What is missing may explain 2 violations, but what is here does not prove more: not all could be read: 1 file."
    )
