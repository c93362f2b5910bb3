"""Lies are what they say: one record is different, and serials have no gap."""

from collections import Counter

from proof.lies.mutate import Log, claims, lies_about, slowed, splices

BASE = {"v": 6, "node": "aa", "incarnation": 1}


def record(n: int, event: str, **fields: object) -> dict[str, object]:
    return {**BASE, "n": n, "event": event, "at_ns": n * 10, "wall_ns": n * 10 + 7, **fields}


LOG: Log = {
    ("aa", 1): [
        record(1, "node_started", name="alpha"),
        record(2, "packet_sent", session="5e", packet=1, resend=False),
        record(3, "ack_received", session="5e", ranges=[[1, 1]]),
    ]
}


def test_there_are_lies_of_every_kind() -> None:
    kinds = Counter(lie.kind for lie in lies_about(LOG, ("aa", 1), 1))
    assert kinds == {"drop": 1, "lost": 1, "repeat": 1, "swap": 1, "shift": 6, "raise": 1, "lower": 1, "other": 2}
    assert {lie.field for lie in lies_about(LOG, ("aa", 1), 2) if lie.kind == "raise"} == {"ranges"}


def test_a_hole_is_the_middle_packet() -> None:
    """All packets of a range but one, and all messages but those of that one."""
    stream = {"class": "transactional", "number": 7, "previous": 6, "counts": [[2, 1], [3, 4]]}
    sent = record(1, "packet_sent", packet=20, packets=5, **stream)
    (lie,) = [it for it in lies_about({("aa", 1): [sent]}, ("aa", 1), 0) if it.kind == "hole"]
    told = [(it["packet"], it["packets"], it["number"], it["previous"], it["counts"]) for it in lie.records]
    assert told == [(20, 2, 7, 6, [[2, 1]]), (23, 2, 10, 9, [[2, 4]])]
    committed = record(1, "committed", first=3, last=7, count=10)
    (lie,) = [it for it in lies_about({("aa", 1): [committed]}, ("aa", 1), 0) if it.kind == "hole"]
    assert [(it["first"], it["last"], it["count"]) for it in lie.records] == [(3, 4, 4), (6, 7, 4)]


def test_a_liar_renumbers() -> None:
    for lie in lies_about(LOG, ("aa", 1), 1):
        serials = [record["n"] for record in lie.records]
        assert serials == ([1, 3] if lie.kind == "lost" else list(range(1, len(serials) + 1)))
        assert lie.records != LOG["aa", 1]


def test_a_splice_is_half_of_each_run() -> None:
    (lie,) = splices(LOG, {("bb", 1): LOG["aa", 1]})
    assert [it["n"] for it in lie.records] == [1, 2, 3]
    assert [it["event"] for it in lie.records] == ["node_started", "packet_sent", "ack_received"]
    times = [it["at_ns"] for it in lie.records]
    assert times == sorted(times)


def test_a_first_start_claims_what_it_takes_later() -> None:
    stream = {"class": "transactional", "origin": "bb", "stream": 1, "sequence": 1}
    log: Log = {
        ("aa", 1): [
            record(1, "node_started", name="alpha"),
            record(2, "start_before", records=0),
            record(3, "committed", **stream, first=1, last=4, count=4),
        ]
    }
    (lie,) = claims(log)
    assert [it["event"] for it in lie.records] == ["node_started", "start_before", "position_recovered", "committed"]
    assert (lie.said["number"], lie.said["at_ns"], [it["n"] for it in lie.records]) == (4, 20, [1, 2, 3, 4])


def test_a_clock_loses_a_quarter() -> None:
    (lie,) = slowed(LOG)
    assert [it["at_ns"] for it in lie.records] == [10, 18, 25]
    assert {it["wall_ns"] - it["at_ns"] for it in lie.records} == {7}
