"""The search itself: what it leaves out hides nothing, and its traces can be read."""

import pytest

from proof.planted.catalogue import bug_named
from proof.planted.worlds import PLAIN
from proof.search.identity import digest, thaw
from proof.search.search import Search
from triack.ordering.incoming import IncomingSequence

FIRST = "[session ack to 0, packet 1: number 1 after 0 of sequence 1, a1]"


def reached(search: Search) -> set[tuple[bytes, bytes]]:
    """Which states of one node were met together with which of the other."""
    first, second = ([digest(thaw(node.frozen)) for node in nodes.known] for nodes in search.nodes)
    return {(first[pair & 0xFFFFFF], second[pair >> 24]) for pair in search.pairs}


@pytest.mark.slow
def test_what_is_left_out_hides_nothing() -> None:
    """With and without, the nodes come into the same states together; without, there are far more networks."""
    pruned, whole = Search(PLAIN), Search(PLAIN, prune=False)
    few, many = pruned.run(200_000), whole.run(200_000)
    assert few.complete
    assert many.complete
    assert 2 * few.states < many.states
    assert reached(pruned) == reached(whole)


@pytest.mark.plain
def test_a_trace_tells_a_story(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line a step: who does what, what it sends, and at last what is wrong."""
    bug_named("the order ack speaks of what is not yet committed").plant(monkeypatch)
    result = Search(PLAIN).run(1_000)
    assert [line.replace("DATA of session a01 ", "") for line in result.trace] == [
        "a starts and sends CONNECT of session a01",
        "b starts and sends nothing",
        "b gets CONNECT of session a01, and sends ACCEPT of session a01",
        f"a gets ACCEPT of session a01, and sends {FIRST}; [packet 2: number 2 after 1 of sequence 1, a2]",
        f"b gets {FIRST}, and sends [session ack to 1]",
        "b: timer idle of order ack 1 runs out: order ack to 1 left, and number 1 is not on disk",
    ]
    assert result.violation == "order ack to 1 left, and number 1 is not on disk"


@pytest.mark.parametrize(
    ("limit", "last"), [(1_000, "a1]: RuntimeError: planted"), (1, "from here on nothing is lost")]
)
@pytest.mark.plain
def test_an_engine_that_fails_is_found_in_the_search_and_when_the_faults_stop(
    monkeypatch: pytest.MonkeyPatch, limit: int, last: str
) -> None:
    """Whatever it raises is reported with the steps that lead there."""

    def fail(*_: object) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(IncomingSequence, "_judge", fail)
    result = Search(PLAIN).run(limit, fair_runs=1)
    assert result.violation == "RuntimeError: planted"
    assert result.trace[-1].endswith(last)


@pytest.mark.plain
def test_a_promise_that_breaks_when_the_faults_stop_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence is that of the promise, and no error's name."""
    bug_named("the order ack speaks of what is not yet committed").plant(monkeypatch)
    result = Search(PLAIN).run(1, fair_runs=1)
    assert result.violation is not None
    assert result.violation.startswith("order ack to ")
    assert result.trace[-1] == "from here on nothing is lost"
