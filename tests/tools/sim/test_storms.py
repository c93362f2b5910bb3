"""Nodes that do much while nothing comes of it are found."""

from triack.base.commit import Commit, OutgoingRow
from triack.base.units import SECOND
from triack.tools.sim.storms import MINUTES, MOST, Storms

MINUTE = 60 * SECOND
PROGRESS = Commit(outgoing=[OutgoingRow(1, 1, 0, b"")])


def test_many_datagrams_in_some_minutes_are_a_storm() -> None:
    """It is told of once for each node."""
    storms = Storms()
    for minute in range(MINUTES + 2):
        assert len(storms.violations) == (2 if minute > MINUTES else 0)
        for host in "ab":
            storms.handle_sent(host, MOST + 1, minute * MINUTE)
    assert [rule for rule, _ in storms.violations] == ["storm", "storm"]
    assert storms.violations[0][1].startswith(f"a: more than {MOST} datagrams sent in each of {MINUTES} minutes")


def test_many_wakes_for_nothing_are_one_too() -> None:
    storms = Storms()
    for minute in range(MINUTES + 1):
        for _ in range(MOST + 1):
            storms.handle_woken("a", minute * MINUTE)
    assert [sentence[:2] for _, sentence in storms.violations] == ["a:"]


def test_a_backlog_that_goes_out_again_is_none() -> None:
    """A session has failed; the minute after that is quiet."""
    storms = Storms()
    for minute in range(4 * MINUTES):
        storms.handle_sent("a", MOST + 1 if minute % MINUTES else 1, minute * MINUTE)
    assert storms.violations == []


def test_with_each_message_that_comes_or_goes_it_begins_anew() -> None:
    """A commit of anything else is no progress."""
    for commit, storm in ((PROGRESS, False), (Commit(outgoing_deletes=[(1, 1)]), False), (Commit(serial=7), True)):
        storms = Storms()
        for minute in range(MINUTES + 1):
            storms.handle_sent("a", MOST + 1, minute * MINUTE)
            if minute == 1:
                storms.handle_commit(commit, minute * MINUTE + 1)
        assert bool(storms.violations) is storm
