"""Lies are what they say: one record is different, and serials have no gap."""

from collections import Counter

from proof.lies.mutate import Log, lies_about, splices

BASE = {"v": 1, "node": "aa", "incarnation": 1}


def record(n: int, event: str, **fields: object) -> dict[str, object]:
    return {**BASE, "n": n, "event": event, "at_ns": n * 10, "wall_ns": n * 10 + 7, **fields}


LOG: Log = {
    ("aa", 1): [
        record(1, "node_started", name="alpha"),
        record(2, "packet_sent", session="5e", packet=1, resend=False),
        record(3, "ack_received", session="5e", ranges=[[1, 1]]),
    ]
}


def test_every_kind_of_lie_is_told() -> None:
    kinds = Counter(lie.kind for lie in lies_about(LOG, ("aa", 1), 1))
    assert kinds == {"drop": 1, "lost": 1, "repeat": 1, "swap": 1, "shift": 6, "raise": 1, "lower": 1, "other": 2}
    assert {lie.field for lie in lies_about(LOG, ("aa", 1), 2) if lie.kind == "raise"} == {"ranges"}


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
