"""A few seconds of the worst, and figures that no good node has."""

import pytest

from proof.neighbour import BESIDE_BYTES, PEER_MEMORY_BYTES, Neighbour, neighbour


@pytest.mark.slow
def test_the_worst_neighbour_leaves_another_one_going_and_the_memory_small() -> None:
    """``make neighbour`` gives it ten minutes, and each kind of packets its turns."""
    told: list[str] = []
    found = neighbour(6, told.append, alone_s=1.0)
    assert found.alone > 0
    assert found.beside
    assert sum(found.packets.values()) > 0
    assert found.growth_bytes <= PEER_MEMORY_BYTES + BESIDE_BYTES
    assert len(told) == 1 + len(found.beside)


def test_what_breaks_a_promise_is_found() -> None:
    limit_bytes = PEER_MEMORY_BYTES + BESIDE_BYTES
    good = Neighbour(400.0, [300.0, 340.0], limit_bytes, {"streams": 9}, 1.0)
    slow, large = good._replace(beside=[300.0, 98.0]), good._replace(growth_bytes=limit_bytes + 1)
    assert [it.violations for it in (good, slow, large)] == [0, 1, 1]
    assert (good.kept, good.to_json()["kept"]) == (0.8, 0.8)
