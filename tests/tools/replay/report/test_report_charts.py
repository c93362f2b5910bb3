"""What the report gathers from records."""

import pytest

from triack.tools.replay.checks.findings import Output
from triack.tools.replay.log.series import delay_bucket
from triack.tools.replay.report.report_charts import TIERS, Charts, tier_of

MS = 1_000_000


def charted(*records: dict[str, object]) -> Output:
    out = Output()
    charts = Charts(out)
    for at, record in enumerate(records):
        charts.see({"node": "a", "session": "s", "at_ns": at * MS, "wall_ns": 1 + at * MS, **record})
    return out


def sent(packet: int, *, resend: bool = False) -> dict[str, object]:
    return {"event": "packet_sent", "packet": packet, "packets": 1, "resend": resend, "size": 10, "counts": [[1, 3]]}


def acked(*ranges: list[int]) -> dict[str, object]:
    return {"event": "ack_received", "ranges": list(ranges)}


@pytest.mark.parametrize(("attempt", "tier"), [(1, 1), (3, 1), (4, 2), (6, 2), (7, 3), (9, 3), (10, 4), (99, 4)])
def test_attempts_belong_to_tiers(attempt: int, tier: int) -> None:
    assert tier_of(attempt) == TIERS[tier]


def test_a_round_trip_ends_at_the_ack_of_its_packet() -> None:
    """An ack answers the last packet that it covers: 1 ms after packet 3."""
    out = charted(sent(1), sent(2), sent(3), acked([1, 3]))
    assert out.numbers[f"link\ta\ts\ttrip {delay_bucket(MS)}"] == 1
    assert out.numbers["link\ta\ts\tmessages"] == 9


def test_a_packet_that_left_twice_measures_nothing() -> None:
    """Nobody knows which of the two the ack is for. Nor does an ack of what nobody sent, however much it says."""
    out = charted(sent(1), sent(1, resend=True), acked([1, 1]), sent(2), acked([3, 10**15]))
    assert not [name for name in out.numbers if "trip" in name]
    assert out.numbers["link\ta\ts\tsent"] == 3
    assert out.numbers["link\ta\ts\tmessages"] == 6


def test_resends_and_duplicates_say_why() -> None:
    out = charted(
        {"event": "resend_scheduled", "attempt": 4, "first": 1, "last": 5, "interval_ns": 7},
        {"event": "packet_received", "packets": 1, "duplicate": True},
        {"event": "packet_received", "packets": 2, "duplicate": False},
        {"event": "rejected", "reason": "duplicate"},
        {"event": "rejected", "reason": "queue-full"},
        {"event": "ack_sent", "trigger": "gap"},
    )
    sums = {name: sum(series.buckets.values()) for name, series in out.series.items()}
    causes = {"causes known to the session": 1, "causes duplicate": 1}
    assert sums == {"tiers tier 4-6": 5, "resend_wait": 7, "acks gap": 1, **causes}


def test_queues_count_messages() -> None:
    """Messages that a start found on its disk were queued before."""
    what = {"class": "recoverable", "origin": "a", "stream": 1, "queue": "q"}
    out = charted(
        {"event": "queued", "peer_name": "b", **what, "count": 4},
        {"event": "queued", "peer_name": "b", **what, "count": 4, "recovered": True},
        {"event": "committed", **what, "count": 4},
        {
            "event": "handed",
            **what,
            "place": 0,
            "counts": [[1, 4]],
            "redelivered": True,
        },
    )
    assert out.numbers == {
        "queue\tqueued\tb\tq": 4,
        "queue\tcommitted\ta\tq": 4,
        "queue\thanded again 3\ta\tq": 4,
        "stream\ta\t1\tq": 3,
        "priority\ta\t1\t3": 3,
    }


def test_a_subscription_counts_what_it_was_handed() -> None:
    handed = {"event": "handed", "topic": "t", "subscription": "audit", "ranges": [[1, 4], [6, 6]]}
    out = charted({**handed, "redelivered": False}, {**handed, "ranges": [[6, 6]], "redelivered": True})
    assert out.numbers == {"hand\ta\tt\taudit\thanded": 5, "hand\ta\tt\taudit\thanded again": 1}


def test_what_a_node_queues_for_itself_counts_beside_what_it_commits() -> None:
    """Such a queue has no peer's name."""
    what = {"class": "transactional", "origin": "a", "stream": 1, "queue": "q", "count": 4}
    out = charted({"event": "queued", "peer_name": "", **what}, {"event": "committed", **what})
    assert out.numbers == {
        "queue\tqueued\ta\tq": 4,
        "queue\tcommitted\ta\tq": 4,
        "stream\ta\t1\tq": 2,
        "priority\ta\t1\t0": 2,
    }


def test_the_limits_of_the_ack_timeout_are_charted_when_a_session_opens() -> None:
    """An older log gives none."""
    opened = {"event": "session_opened", "peer": "b", "peer_name": "b", "window": 64}
    out = charted(opened, {**opened, "ack_timeout_min_ns": 2, "ack_timeout_max_ns": 120})
    told = {name: list(it.buckets.values()) for name, it in out.series.items() if name.startswith("ack_timeout")}
    assert told == {"ack_timeout least": [2], "ack_timeout longest": [120]}


def test_numbers_of_a_session_whose_peer_is_known_are_those_of_the_two_nodes() -> None:
    """So that there are no more of them with each session."""
    opened = {"event": "session_opened", "peer": "b", "peer_name": "b", "window": 64}
    out = charted(opened, sent(1), {**opened, "session": "t"}, {**sent(1), "session": "t"})
    assert out.numbers["between\ta\tb\tsent"] == 2
    assert not [name for name in out.numbers if name.startswith("link")]


def test_of_a_session_that_failed_it_is_told_when_the_peer_was_heard_last() -> None:
    """An outage begins there, and not when a timeout tells of it."""
    heard = {"event": "packet_received", "packets": 1, "duplicate": False}
    out = charted(sent(1), heard, sent(2), {"event": "session_closed", "reason": "ack-timeout"})
    assert out.numbers["heard\ta\ts"] == 1 + MS
    out = charted(heard, {"event": "session_closed", "reason": "idle"})
    assert "heard\ta\ts" not in out.numbers
