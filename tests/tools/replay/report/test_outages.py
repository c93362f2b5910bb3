"""When something was away, and why: a restart is not a failure, and an outage begins with the last word."""

from triack.tools.replay.log.schema import SessionLine, StartLine, Timeline
from triack.tools.replay.report.outages import FAILED, IN_ORDER, OPEN, RESTART, Outage, outages_of, sessions_of

NAMES = {"a": "alpha", "b": "beta"}


def world(sessions: list[SessionLine], *starts: StartLine) -> Timeline:
    """The log of a third node goes on to 100."""
    other = StartLine("z", 1, 0, 100, stopped=True, records=2)
    return Timeline(names=NAMES, sessions=sessions, starts=[*starts, other])


def outages(timeline: Timeline) -> list[Outage]:
    return outages_of(timeline, sessions_of(timeline))


def test_both_ends_of_a_session_are_one() -> None:
    """It has the number that it is of its two nodes, whichever of them tells."""
    ends = [SessionLine("b", "s1", 1, 9, "idle", "a"), SessionLine("a", "s1", 2, 8, "peer-closed", "b")]
    one, two = sessions_of(world([*ends, SessionLine("a", "s2", 20, 0, "", "b")]))
    assert (one.number, one.node, one.peer, one.opened_ns, one.closed_ns, one.end) == (1, "a", "b", 1, 9, IN_ORDER)
    assert (two.number, two.end, two.failed) == (2, OPEN, False)


def test_a_restart_of_a_node_ends_its_sessions_without_a_failure() -> None:
    """Its peer learns of that by the next connect, or by a timeout; the verdict counts it as closed all the same."""
    starts = [StartLine("b", 1, 0, 10, stopped=False, records=5), StartLine("b", 2, 20, 90, stopped=True, records=5)]
    (one,) = sessions_of(world([SessionLine("a", "s", 1, 21, "superseded", "b")], *starts))
    assert (one.end, one.reason, one.failed) == (RESTART, "superseded", True)
    (two,) = sessions_of(world([SessionLine("a", "s", 25, 40, "ack-timeout", "b")], *starts))
    assert (two.end, two.failed) == (FAILED, True)


def test_a_failure_of_the_network_before_a_restart_is_one() -> None:
    starts = [StartLine("b", 1, 0, 50, stopped=True, records=5), StartLine("b", 2, 60, 90, stopped=True, records=5)]
    (one,) = sessions_of(world([SessionLine("a", "s", 1, 30, "ack-timeout", "b")], *starts))
    assert one.end == FAILED


def test_two_nodes_are_parted_from_the_last_word_until_their_next_session() -> None:
    """Without a next one, until the logs end."""
    lost = SessionLine("a", "s1", 1, 30, "ack-timeout", "b", heard_ns=10)
    assert outages(world([lost, SessionLine("a", "s2", 50, 0, "", "b")])) == [
        Outage("a", "b", 10, 50, True, "ack-timeout")
    ]
    assert outages(world([lost])) == [Outage("a", "b", 10, 100, False, "ack-timeout")]


def test_a_session_that_another_one_replaced_leaves_no_gap() -> None:
    replaced = SessionLine("a", "s1", 1, 51, "superseded", "b")
    assert outages(world([replaced, SessionLine("a", "s2", 50, 0, "", "b")])) == []


def test_a_node_is_away_between_two_starts_and_its_peers_learn_why() -> None:
    starts = [
        StartLine("b", 1, 0, 10, stopped=False, records=5),
        StartLine("b", 2, 20, 30, stopped=True, records=5),
        StartLine("b", 4, 40, 90, stopped=True, records=5),
    ]
    lost = SessionLine("a", "s1", 1, 15, "path-lost", "b", heard_ns=9)
    told = outages(world([lost, SessionLine("a", "s2", 22, 0, "", "b")], *starts))
    assert [(it.node, it.begin_ns, it.end_ns, it.cause) for it in told] == [
        ("a", 9, 22, "path-lost: beta was away or stood still"),
        ("b", 10, 20, "killed, and started again"),
        ("b", 30, 40, "no log of the starts in between"),
    ]


def test_a_process_that_stood_still_was_away() -> None:
    start = StartLine("a", 1, 0, 90, stopped=True, records=5, stood=[(10, 15)])
    assert outages(world([], start)) == [Outage("a", "", 10, 15, True, "its process stood still")]


def test_a_held_stream_and_a_paused_queue_wait_though_both_nodes_are_there() -> None:
    """The reason of a hold may change; said twice it is one hold, and one that is not over goes to the end."""
    timeline = world([])
    timeline.streams[("a", 3)] = "orders"
    timeline.flows.takers[("a", 3)] = {"b"}
    timeline.holds[("a", "a", 3)] = [
        (30, "paused"),
        (10, "queue-full"),
        (20, "queue-full"),
        (50, ""),
        (90, "store-low"),
    ]
    timeline.pauses[("a", "b/")] = [(60, "paused"), (70, "")]
    stream, its = "stream 3 to beta/orders", "its destination"
    assert outages(timeline) == [
        Outage("a", "", 10, 30, True, f"{its} has no room: queue-full", stream),
        Outage("a", "", 30, 50, True, f"{its} is paused by an operator", stream),
        Outage("a", "", 60, 70, True, "paused by an operator here", "all queues to b"),
        Outage("a", "", 90, 100, False, f"{its} has no room: store-low", stream),
    ]
