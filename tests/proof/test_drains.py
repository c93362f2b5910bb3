"""The benchmark of idle and busy polls, at a size that fits the suite: its figures are its own, its rows are not."""

import pytest

from proof import drains
from proof.drains import COUNTS, KINDS, measure
from tests.spies import watch
from triack.queues.manager.engine import Engine


def test_every_kind_is_measured_at_every_count() -> None:
    """They come in order, each with a report; the first of a kind is what the others are compared with."""
    said: list[str] = []
    rows = measure(said.append, counts=(1, 3), rounds=3)
    assert [(row["kind"], row["count"]) for row in rows] == [(kind, count) for kind in KINDS for count in (1, 3)]
    assert [row["ratio"] for row in rows if row["count"] == 1] == [1.0] * len(KINDS)
    for row in rows:
        assert row["idle_us"] > 0
        assert row["busy_us"] > 0
    assert len(said) == len(rows)


@pytest.mark.parametrize("kind", KINDS)
def test_there_are_as_many_of_a_kind_as_it_says(kind: str) -> None:
    """All of them at rest in one engine."""
    book: dict[str, drains._Node] = {}
    node, peer = drains._Node(0, book), drains._Node(1, book)  # noqa: SLF001 - what it makes is the question
    KINDS[kind](node, peer, 5)
    node.settle()
    engine = node.engine
    there = {
        "queues": len(engine.queues.mailboxes) - 1,
        "outgoing queues": len(engine.outbox.streams),
        "incoming streams": len([name for name in engine.queues.mailboxes if name.startswith("q")]),
        "sessions": len(engine.handshakes.conversations),
    }
    assert there[kind] == 5


def test_idle_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """A poll that is timed as idle finds nothing to do, and there is one for each round."""
    polls = watch(monkeypatch, Engine, "next_deadline")
    found: list[int] = []
    real = Engine.poll

    def poll(self: Engine, now_ns: int) -> list[object]:
        effects = real(self, now_ns)
        found.append(len(effects))
        return list(effects)

    monkeypatch.setattr(Engine, "poll", poll)
    monkeypatch.setattr(drains, "KINDS", {"queues": KINDS["queues"]})
    measure(lambda _line: None, counts=(2,), rounds=7)
    assert len(polls) == 7
    runs = "".join("0" if count == 0 else "1" for count in found)
    assert "0" * 7 in runs


def test_the_benchmark_goes_up_to_ten_thousand() -> None:
    """What the promise speaks of."""
    assert (COUNTS[0], COUNTS[-1]) == (1, 10_000)
