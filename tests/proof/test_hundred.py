"""Ten peers instead of a hundred, and figures that no good node has."""

import pytest

from proof.hundred import GROWTH_MAX_BYTES, Beside, Hundred, hundred


@pytest.mark.slow
def test_a_bad_peer_leaves_the_others_going_and_the_memory_small() -> None:
    """``make hundred`` has ninety nine of them, and time to measure."""
    found = hundred(0.5, peers=9, rounds=1)
    for beside in (found.unread, found.stopped):
        assert min(beside.alone + beside.beside) > 0
        assert beside.growth_bytes <= GROWTH_MAX_BYTES


def test_what_breaks_a_promise_is_found() -> None:
    """A throughput that falls, a memory that grows."""
    good, slow, large = (
        Beside([100.0, 120.0], [110.0, 90.0], 0),
        Beside([100.0, 100.0], [100.0, 79.0], 0),
        Beside([100.0], [100.0], GROWTH_MAX_BYTES + 1),
    )
    assert [beside.violations for beside in (good, slow, large)] == [0, 1, 1]
    assert Hundred(slow, large, 1.0).to_json() == {
        "unread_kept": 0.895,
        "unread_growth_bytes": 0,
        "stopped_kept": 1.0,
        "stopped_growth_bytes": GROWTH_MAX_BYTES + 1,
        "messages_a_second": 100,
        "violations": 2,
        "seconds": 1.0,
    }
