"""Whole nodes in a line, with faults at every moment of the course of three messages."""

import pytest

from proof.search.chain import CHAIN_SCOPES, ChainRun, ChainScope, Course, search_chain
from triack.base.delivery import FREED_BY, Ack, Delivery, Role
from triack.queues.transit.transit_onward import TransitOnward

NAMES = [scope.name for scope in CHAIN_SCOPES]


@pytest.mark.slow
@pytest.mark.parametrize("scope", CHAIN_SCOPES, ids=NAMES)
def test_no_pair_of_faults_breaks_a_promise(scope: ChainScope) -> None:
    """One pair in each four hundred; ``make exhaustive`` has all."""
    result = search_chain(scope, 300, every=400)
    assert (result.violation, result.trace) == (None, ())
    assert result.states > 10


@pytest.mark.slow
@pytest.mark.gate
def test_deaths_that_count_as_one_end_in_the_same_way() -> None:
    """What all three nodes record after them is the same, byte for byte; but a store in the making draws other ids."""
    calm = run(Course())
    by_state: dict[object, list[int]] = {}
    for effect, (sent, left) in enumerate(calm.nodes["r"].states, 1):
        if sent:
            by_state.setdefault(left, []).append(effect)
    same = [effects for effects in by_state.values() if len(effects) > 1]
    assert len(same) >= 2
    for effects in same:
        first, last = (run(Course(effect)) for effect in (effects[0], effects[-1]))
        assert [node.records for node in first.nodes.values()] == [node.records for node in last.nodes.values()]


def run(course: Course) -> ChainRun:
    made = ChainRun(CHAIN_SCOPES[0], course)
    assert made.end() == ""
    made.close()
    return made


def test_without_faults_all_ends_well() -> None:
    result = search_chain(CHAIN_SCOPES[0], 0)
    assert (result.states, result.violation) == (1, None)
    assert min(result.node_states) > 10


@pytest.mark.slow
def test_a_packet_that_is_freed_too_early_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the session ack: the log of a run without faults says so."""
    monkeypatch.setitem(FREED_BY, (Delivery.RECOVERABLE, Role.TRANSIT), Ack.SESSION)
    found = search_chain(CHAIN_SCOPES[1], 100)
    assert found.violation is not None


@pytest.mark.slow
def test_a_relay_that_tells_nobody_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over a synchronous link its neighbour would keep everything for good."""
    monkeypatch.setattr(TransitOnward, "handle_passed", lambda *_: None)
    found = search_chain(CHAIN_SCOPES[2], 1)
    assert found.violation == "it does not end"


def test_a_course_is_told_in_a_sentence() -> None:
    assert str(Course()) == "the relay lives"
    assert str(Course(7, 3, again=True)) == "the relay dies before effect 7, datagram 3 comes again"
    assert str(Course(0, 3)) == "the relay lives, datagram 3 is lost"
