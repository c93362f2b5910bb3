"""Nodes that do much while nothing comes of it are found."""

import pytest

from triack.base.commit import Commit, OutgoingRow
from triack.base.units import SECOND
from triack.tools.sim.storms import BEGUN, EACH, MINUTES, MOST, Storms, accepted_in

MINUTE = 60 * SECOND
TO = "udp:10.0.0.2:1"
PROGRESS = Commit(outgoing=[OutgoingRow(1, 1, 0, b"")])


def test_many_datagrams_in_some_minutes_are_a_storm() -> None:
    """It is told of once for each node."""
    storms = Storms()
    for minute in range(MINUTES + 2):
        assert len(storms.violations) == (2 if minute > MINUTES else 0)
        for host in "ab":
            storms.handle_sent(host, TO, MOST + 1, minute * MINUTE)
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
        storms.handle_sent("a", TO, MOST + 1 if minute % MINUTES else 1, minute * MINUTE)
    assert storms.violations == []


def test_with_each_message_that_comes_or_goes_it_begins_anew() -> None:
    """A commit of anything else is no progress."""
    for commit, storm in ((PROGRESS, False), (Commit(outgoing_deletes=[(1, 1)]), False), (Commit(serial=7), True)):
        storms = Storms()
        for minute in range(MINUTES + 1):
            storms.handle_sent("a", TO, MOST + 1, minute * MINUTE)
            if minute == 1:
                storms.handle_commit("a", commit, minute * MINUTE + 1)
        assert bool(storms.violations) is storm


@pytest.mark.parametrize("what", EACH)
def test_a_run_may_do_so_much_for_each_packet_and_second(what: str) -> None:
    """One more is told of, with the node, the figure, its bound, and where and when most of it was."""
    most = EACH[what] * (30 + 10 + BEGUN)
    storms = Storms()
    for number in range(most):
        now_ns = (5 if number % 3 else 6) * SECOND
        if what == "datagrams sent":
            storms.handle_sent("a", TO if number % 4 else "udp:other:1", 1, now_ns)
        elif what == "commits":
            storms.handle_commit("a", Commit(state={"k": b"v"}) if number % 4 else PROGRESS, now_ns)
        else:
            storms.handle_woken("a", now_ns)
    storms.judge("a", 30, 10 * SECOND)
    assert storms.violations == []
    storms.judge("b", 0, 0)
    assert storms.violations == []
    storms.judge("a", 29, 10 * SECOND)
    there = most if what == "wakes for nothing" else sum(number % 4 > 0 for number in range(most))
    then = sum(number % 3 > 0 for number in range(most))
    ((rule, sentence),) = storms.violations
    assert rule == "effort"
    assert sentence.startswith(f"a: {most} {what}, at most {most - EACH[what]} for 29 packets in 10 s; {there} ")
    assert sentence.endswith(f", {then} in second 5")


def test_commits_are_named_by_what_is_in_them() -> None:
    """Nothing is written for one that is empty; but the node waits for it all the same."""
    others = Commit(state={"k": b"v"})
    for commit, kind in ((PROGRESS, "of messages"), (others, "of other rows"), (Commit(), "of nothing")):
        storms = Storms()
        for _ in range(EACH["commits"] * BEGUN + 1):
            storms.handle_commit("a", commit, 0)
        storms.judge("a", 0, 0)
        assert [sentence.split("; ")[1] for _, sentence in storms.violations] == [f"121 {kind}, 121 in second 0"]


def test_packets_are_accepted_of_applications_for_queues_here_and_to_pass_on() -> None:
    """Those that a start finds on the disk are not accepted again, and nothing else counts."""
    accepted = [{"event": event, "first": 3, "last": 5} for event in ("queued", "committed", "transit_committed")]
    assert accepted_in(accepted) == 9
    assert accepted_in([record | {"recovered": True} for record in accepted]) == 0
    assert accepted_in([{"event": "packet_sent", "first": 1, "last": 9}, {"v": 1}]) == 0
