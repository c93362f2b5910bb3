"""All proofs about a store on its disk, shared out among processes."""

from dataclasses import replace

import pytest

from proof.disk import run as store_proofs
from proof.disk.errors import prove_errors
from proof.disk.power import PowerProof, prove_power


@pytest.mark.slow
def test_parts_of_the_proofs_make_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shares of the processes add up to what one alone would have tried."""
    lines = [("failing", prove_errors, {}), ("power", prove_power, {}), ("power", prove_power, {"powersafe": False})]
    monkeypatch.setattr(store_proofs, "PROOFS", lines)
    said: list[str] = []
    found, _ = store_proofs.prove_all(said.append, 2, every=800)
    whole = prove_errors(every=800)
    assert found["failing"] == replace(whole, seconds=found["failing"].seconds)
    parts = [prove_power(every=800), prove_power(every=800, powersafe=False)]
    power = found["power"]
    assert isinstance(power, PowerProof)
    assert (power.moments, power.states) == (sum(p.moments for p in parts), sum(p.states for p in parts))
    assert len(said) == 12
