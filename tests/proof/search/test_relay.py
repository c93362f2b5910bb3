"""The search of a relay: nothing breaks, and a mistake of the relay is found with the steps to it."""

import pytest

from proof.search.relay import RELAY_SCOPES, RelayScope, World, search_relay
from triack.base.delivery import FREED_BY, Ack, Delivery, Role
from triack.ordering.transit import TransitSequence

KEPT = RELAY_SCOPES[1]


@pytest.mark.slow
@pytest.mark.parametrize("scope", RELAY_SCOPES, ids=lambda scope: scope.name)
def test_no_promise_breaks_in_the_first_states(scope: RelayScope) -> None:
    """``make exhaustive`` goes on."""
    result = search_relay(scope, 1_000, fair_runs=60)
    assert (result.scope, result.violation) == (scope.name, None)
    assert result.states >= 1_000
    assert result.fair_runs >= 60


@pytest.mark.slow
@pytest.mark.gate
def test_a_small_world_is_searched_to_its_end() -> None:
    """One packet, and the relay dies: every order of events."""
    for delivery in (Delivery.RECOVERABLE, Delivery.TRANSACTIONAL):
        result = search_relay(RelayScope("one", "one", delivery, packets=1), 10_000, fair_runs=20)
        assert (result.complete, result.violation) == (True, None)
        assert result.states > 50


def test_a_relay_that_frees_too_early_loses_a_packet(monkeypatch: pytest.MonkeyPatch) -> None:
    """It deletes what is on its way."""
    send = TransitSequence.handle_sent

    def forget(self: TransitSequence, run: list[object], now_ns: int, *, packet: int = 0) -> list[int]:
        before = send(self, run, now_ns, packet=packet)  # type: ignore[arg-type]
        self.remove(run)  # type: ignore[arg-type]
        return before

    monkeypatch.setattr(TransitSequence, "handle_sent", forget)
    result = search_relay(RelayScope("one", "one", Delivery.RECOVERABLE, packets=1), 10_000, fair_runs=10_000)
    assert result.violation is not None
    assert result.trace


@pytest.mark.slow
def test_a_relay_that_claims_too_much_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says that nothing before an unordered packet is wanted, and the destination takes what comes late for old."""
    monkeypatch.setattr(TransitSequence, "previous_of", lambda _self, entry: entry.number - 1)
    result = search_relay(KEPT, 3_000, fair_runs=1_000)
    assert result.violation is not None
    assert "pass on" in result.trace


def test_a_packet_that_is_nowhere_is_missed() -> None:
    """By the search itself: the table of acknowledgements says what may free one."""
    assert FREED_BY[Delivery.RECOVERABLE, Role.TRANSIT] is Ack.STORE
    world = World.begin(KEPT)
    world.origin.remove(world.origin.entries[1])
    with pytest.raises(Exception, match="packet 1 is nowhere"):
        world.act(("send", 0, 0))
