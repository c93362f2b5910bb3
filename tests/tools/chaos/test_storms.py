"""Nodes that do much while nothing comes of it are found."""

from triack.base.commit import Commit, OutgoingRow
from triack.base.units import SECOND
from triack.tools.chaos.storms import DATAGRAMS_MAX, WAKES_MAX, Storms

PROGRESS = Commit(outgoing=[OutgoingRow(1, 1, 0, b"")])


def test_many_datagrams_in_a_minute_are_a_storm() -> None:
    """It is told of once for each node."""
    storms = Storms()
    storms.handle_sent("a", DATAGRAMS_MAX, 0)
    assert storms.violations == []
    for _ in range(2):
        storms.handle_sent("a", 1, 30 * SECOND)
    storms.handle_sent("b", DATAGRAMS_MAX + 1, 30 * SECOND)
    assert [rule for rule, _ in storms.violations] == ["storm", "storm"]
    assert storms.violations[0][1].startswith(f"a: more than {DATAGRAMS_MAX} datagrams sent within 30.0 s")


def test_many_wakes_for_nothing_are_one_too() -> None:
    storms = Storms()
    for _ in range(WAKES_MAX + 1):
        storms.handle_woken("a", SECOND)
    assert [sentence[:2] for _, sentence in storms.violations] == ["a:"]


def test_with_each_message_that_comes_or_goes_the_minute_begins_anew() -> None:
    """Ten seconds later, when what was left has gone out again. A commit of anything else is no progress."""
    for commit, storm in ((PROGRESS, False), (Commit(outgoing_deletes=[(1, 1)]), False), (Commit(serial=7), True)):
        storms = Storms()
        storms.handle_sent("a", DATAGRAMS_MAX, 0)
        storms.handle_commit(commit, SECOND)
        storms.handle_sent("a", DATAGRAMS_MAX + 1, 10 * SECOND)
        assert bool(storms.violations) is storm
        storms.handle_sent("a", DATAGRAMS_MAX + 1, 11 * SECOND)
        assert storms.violations


def test_after_a_minute_it_begins_anew() -> None:
    storms = Storms()
    storms.handle_sent("a", DATAGRAMS_MAX, 0)
    storms.handle_sent("a", 1, 60 * SECOND)
    assert storms.violations == []
