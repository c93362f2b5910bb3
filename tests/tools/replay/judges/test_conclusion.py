"""The conclusion: what depends on other logs is decided by them."""

import pytest

from triack.base.units import SECOND
from triack.tools.replay.checks.findings import Due, Finding, Life, Opening, given
from triack.tools.replay.judges.conclusion import Read, World, cover, decide, missing_logs, place, unfinished_logs
from triack.tools.replay.judges.journal import Segment
from triack.tools.replay.log.listing import Listed, Listing
from triack.tools.replay.log.schema import Verdict, Violation

LIVES = [
    Life("a", 1, 0, 1000, True, "alpha", 10, True),
    Life("a", 3, 0, 1000, False, "alpha", 10, False),
]
OPENINGS = [
    Opening("a", 1, "b", "s1", 100, 200, "path-lost", 0),
    Opening("a", 1, "b", "s2", 300, 0, "", 0),
    Opening("a", 3, "c", "s3", 0, 0, "", 0),
]


@pytest.mark.parametrize("older_until_ns", [0, 2 * SECOND, 30 * SECOND])
def test_a_session_has_room_for_what_no_older_one_has(older_until_ns: int) -> None:
    """Streams stay in the older session as long as it is open, though it may have lost its peer."""
    end_ns = 40 * SECOND
    free = [Opening("a", 1, "b", "s2", 1 * SECOND, 0, "", 0, peer_name="b", free=[(1 * SECOND, 0)])]
    older = [Opening("a", 1, "b", "s1", 1, older_until_ns, "ack-timeout", 0, peer_name="b")] if older_until_ns else []
    world = World([Life("a", 1, 0, end_ns, True, "alpha", 10, True)], older + free)
    assert world.holds(Due("room", "a", 1, "b", 2 * SECOND, end_ns)) == (older_until_ns < 30 * SECOND)


@pytest.mark.parametrize(("start", "peer", "holds"), [(1, "b", False), (2, "b", True), (1, "c", True)])
def test_what_waits_may_wait_for_a_paused_queue(start: int, peer: str, holds: bool) -> None:
    """A pause lasts over restarts, until an operator ends it."""
    lives = [Life("a", it, 0, 40 * SECOND, True, "alpha", 10, True, paused=(peer,) * (it == start)) for it in (1, 2)]
    opening = Opening("a", 1, "b", "s1", 0, 0, "", 0, peer_name="b", free=[(0, 0)])
    assert World(lives, [opening]).holds(Due("room", "a", 1, "b", 0, 40 * SECOND)) == holds


@pytest.mark.parametrize(
    ("due", "holds"),
    [
        (Due("log", "a", 1, end_ns=999), True),
        (Due("log", "a", 1, end_ns=1000), False),
        (Due("log", "a", 2, end_ns=0), False),
        (Due("stopped", "a", 1), True),
        (Due("stopped", "a", 3), False),
        (given("a", 3), True),
        (given("a", 1, 1), True),
        (given("a"), False),
        (given("b"), False),
        (Due("peers_given", "a"), False),
        (Due("peers_given", "c"), True),
        (Due("told", "a", peer="s1"), True),
        (Due("told", "b", peer="s1"), False),
        (Due("started", "a", 1, end_ns=1), True),
        (Due("started", "a", 1, end_ns=9), True),
        (Due("started", "a", 2, end_ns=9), False),
        (Due("open", "a", 1, "b", 120, 180), True),
        (Due("open", "a", 1, "b", 120, 220), False),
        (Due("open", "a", 1, "b", 300, 1000), True),
        (Due("not_opened", "a", 1, "", 101, 299), True),
        (Due("not_opened", "a", 1, "", 101, 300), False),
        (Due("opened_anew", "a", 1, "", 101, 299), False),
        (Due("opened_anew", "a", 1, "", 101, 300), True),
        (Due("reopened", "a", 1, "b", 200, 600), True),
        (Due("reopened", "a", 1, "b", 200, 700), False),
        (Due("reopened", "a", 1, "c", 200, 600), False),
        (Due("carried_on", "a", 1, "s1", 0, 199), True),
        (Due("carried_on", "a", 1, "s1", 0, 200), False),
    ],
)
def test_a_due_holds_or_not(due: Due, holds: bool) -> None:
    world = World(LIVES, OPENINGS)
    assert world.holds(due) == holds
    found = decide([Finding(Violation("lost"), (given("a", 3), due))], world)
    assert len(found) == holds


def test_a_session_of_a_start_without_a_log_is_open_no_longer_than_it_says() -> None:
    """A damaged line may give a session to a start of which there is nothing else."""
    world = World(LIVES, [OPENINGS[0]._replace(incarnation=64, closed_ns=0)])
    opened_ns = OPENINGS[0].opened_ns
    assert world.holds(Due("open", "a", 64, "b", opened_ns, opened_ns))
    assert not world.holds(Due("open", "a", 64, "b", opened_ns, opened_ns + 1))


def test_missing_logs_are_named() -> None:
    assert missing_logs(World(LIVES, OPENINGS)) == ["node b", "node c", "start 2 of node a"]
    far = [*LIVES, Life("a", 10**17, 0, 1000, True, "alpha", 10, True)]
    assert missing_logs(World(far, [])) == ["start 2 of node a", f"starts 4 to {10**17 - 1} of node a"]


def test_a_node_whose_last_start_did_not_stop_is_named() -> None:
    """An earlier one that was killed is followed by what the node still knew."""
    killed = Life("b", 1, 0, 1000, False, "beta", 10, True)
    stopped = killed._replace(incarnation=2, stopped=True)
    assert unfinished_logs(World([*LIVES, killed], [])) == ["a", "b"]
    assert unfinished_logs(World([stopped, *LIVES, killed], [])) == ["a"]


def test_a_violation_is_placed_in_its_file() -> None:
    segments = [
        Segment("a", 1, name, first, first + 9, 0, 0, 0, False, False, True, "", 10)
        for name, first in (("one", 1), ("two", 11))
    ]
    violations = [Violation("lost", "a", incarnation=1, n=n) for n in (10, 12, 30)]
    place(violations, segments)
    assert [(it.file, it.line) for it in violations] == [("one", 10), ("two", 2), ("", 0)]


def test_of_all_that_was_listed_nothing_is_left_out() -> None:
    """A file that no engine mentions was not read; a name that would act on a terminal is escaped."""
    listing = Listing([Listed(name, 7) for name in ("a", "b\x1b", "c", "d")], {"e": "is packed"})
    verdict = Verdict()
    cover(verdict, listing, [Read("a", 3, torn=True), Read("b\x1b", 2), Read("c", 0, fault="line 1 is damaged")])
    assert verdict.files == {"a": 3, "b\\x1b": 2, "c": 0}
    assert verdict.unread == {"c": "line 1 is damaged", "d": "was not read", "e": "is packed"}
    assert verdict.torn_lines == 1
    assert verdict.verdict == "incomplete"
