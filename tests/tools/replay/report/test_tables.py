"""The tables of the page."""

from operator import attrgetter

import pytest

from triack.tools.replay.log.schema import SessionLine, StartLine, Timeline
from triack.tools.replay.report.outages import FAILED, IN_ORDER, OPEN, RESTART, Outage, outages_of, sessions_of
from triack.tools.replay.report.report_tables import (
    fill_tables,
    join_links,
    latency_totals,
    percentile_ms,
    percentiles_over_time,
)


def filled(numbers: dict[str, int]) -> Timeline:
    timeline = Timeline(sessions=[SessionLine("a", "s", 0, 1, "path-lost", "b"), SessionLine("b", "s", 0, 0, "", "a")])
    fill_tables(timeline, numbers)
    return timeline


POLICY = "50\t16\t0\t1000000000\t16\t0\t1000000000\t2000000000\t120000000000"
FILLED: dict[str, tuple[dict[str, int], dict[str, object]]] = {
    "a link is what one end sent and the other got": (
        {"sent": 9, "link\ta\ts\tsent": 3, "link\tb\ts\treceived": 2, "link\tb\ts\tack gap": 1},
        {"links": {("a", "b"): {"sent": 3, "received": 2, "ack gap": 1}, ("b", "a"): {}}},
    ),
    # Its messages count under it, though the peer has its address; a node without logs keeps what it is called.
    "a node has the name that it gives itself": (
        {"alias\tb\tudp://127.0.0.1:1": 1, "name\tb\tbeta": 1, "alias\tc\tgamma": 1, "queue\thanded 3\tb\torders": 3,
         "flow\ta\t1\tcalled udp://127.0.0.1:1": 1},
        {"names": {"b": "beta", "c": "gamma"}, "queues": {("beta", "orders"): {"handed 3": 3}},
         "flows.takers": {("a", 1): {"b"}}},
    ),
    "streams have a priority, and subscriptions are called by their node": (
        {"name\tb\tbeta": 1, "priority\ta\t7\t5": 2, "hand\tb\tGames\taudit\thanded": 3},
        {"priorities": {("a", 7): 5}, "hands": {("beta", "Games", "audit"): {"handed": 3}}},
    ),
    "an alias of two nodes is neither": (
        {"alias\tb\tx": 1, "alias\tc\tx": 1, "flow\ta\t1\tcalled x": 1}, {"flows.takers": {("a", 1): {"x"}}},
    ),
    "a stream has its queue": ({"stream\ta\t7\torders": 3}, {"streams": {("a", 7): "orders"}}),
    "a policy counts the sessions in which it was in force": (
        {f"policy\ta\t{POLICY}\tb": 2, "policy\tb\t64\t0\t9\t5\t0\t0\t0\t0\t0\todd": 1},
        {"policies": {
            ("a", "b"): {(50, 16, 0, 10**9, 16, 0, 10**9, 2 * 10**9, 120 * 10**9): 2},
            ("b", "odd"): {(64, 0, 9, 5, 0, 0, 0, 0, 0): 1},
        }},
    ),
    "a round trip is one of the end that sent": (
        {"link\ta\ts\ttrip 7": 2, "between\ta\tb\ttrip 7": 1}, {"trips": {("a", "b"): {7: 3}}},
    ),
    "a stream has its counts and delays, and the nodes that took it": (
        {"flow\ta\t1\tsent": 5, "flow\ta\t1\ttook 9": 4, "flow\ta\t1\tto b": 1, "flow\ta\t1\tcalled x": 1},
        {"flows.counts": {("a", 1): {"sent": 5}}, "flows.delays": {("a", 1): {9: 4}},
         "flows.takers": {("a", 1): {"b"}}},
    ),
    # A queue of the node itself has no name of a peer; a name that nobody has stays one.
    "a stream that nobody took is for the node that its origin calls so": (
        {"alias\tb\tplant": 1, "flow\ta\t1\tcalled plant": 1, "flow\ta\t2\tcalled ": 1, "flow\ta\t3\tcalled far": 1},
        {"flows.takers": {("a", 1): {"b"}, ("a", 2): {"a"}, ("a", 3): {"far"}}},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("numbers", "told"), FILLED.values(), ids=FILLED)
def test_tables_are_filled_with_numbers(numbers: dict[str, int], told: dict[str, object]) -> None:
    timeline = filled(numbers)
    assert {name: attrgetter(name)(timeline) for name in told} == told


def test_percentiles_are_ends_of_buckets() -> None:
    """Bucket 23 ends at 1 ms, bucket 31 at 10 ms."""
    counts = {31: 10, 23: 90}
    assert [percentile_ms(counts, share) for share in (0.5, 0.9, 0.91, 1.0)] == [1, 1, 10, 10]
    assert percentile_ms({}, 0.5) == 0


def test_percentiles_go_over_time() -> None:
    timeline = Timeline(series={"latency 23": {0: 1, 5: 1}, "latency 31": {5: 9}})
    assert percentiles_over_time(timeline, 0.5) == {0: 1, 5: 10}
    assert latency_totals(timeline) == {23: 2, 31: 9}


def test_numbers_of_sessions_are_added_up_by_peer() -> None:
    """The table of links stays as it was."""
    numbers = {"link\ta\ts1\tsent": 3, "link\ta\ts2\tsent": 4, "link\ta\ts3\tsent": 5, "name\ta\tplant": 1}
    joined = join_links(numbers, {("a", "s1"): "b", ("a", "s2"): "b"})
    assert joined == {"between\ta\tb\tsent": 7, "link\ta\ts3\tsent": 5, "name\ta\tplant": 1}
    sessions = [SessionLine("a", name, 0, 0, "", "b") for name in ("s1", "s2", "s3")]
    before, after = Timeline(sessions=sessions), Timeline(sessions=sessions)
    fill_tables(before, numbers)
    fill_tables(after, joined)
    assert after.links == before.links != {}


# When something was away, and why: a restart is not a failure, and an outage begins with the last word.

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
    assert [it.end for it in sessions_of(world([SessionLine("a", "s", 1, 30, "ack-timeout", "b")], *starts))] == [
        FAILED
    ]


def test_two_nodes_are_parted_from_the_last_word_until_their_next_session() -> None:
    """Without a next one, until the logs end. One that another replaced leaves no gap."""
    lost, next_ = SessionLine("a", "s1", 1, 30, "ack-timeout", "b", heard_ns=10), SessionLine("a", "s2", 50, 0, "", "b")
    assert outages(world([lost, next_])) == [Outage("a", "b", 10, 50, True, "ack-timeout")]
    assert outages(world([lost])) == [Outage("a", "b", 10, 100, False, "ack-timeout")]
    assert outages(world([SessionLine("a", "s1", 1, 51, "superseded", "b"), next_])) == []


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
        (30, "paused"), (10, "queue-full"), (20, "queue-full"), (50, ""), (90, "store-low"),
    ]  # fmt: skip
    timeline.pauses[("a", "b/")] = [(60, "paused"), (70, "")]
    stream, its = "stream 3 to beta/orders", "its destination"
    assert outages(timeline) == [
        Outage("a", "", 10, 30, True, f"{its} has no room: queue-full", stream),
        Outage("a", "", 30, 50, True, f"{its} is paused by an operator", stream),
        Outage("a", "", 60, 70, True, "paused by an operator here", "all queues to b"),
        Outage("a", "", 90, 100, False, f"{its} has no room: store-low", stream),
    ]
