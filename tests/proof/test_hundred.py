"""Four peers instead of a hundred, and figures that no good node has."""

import pytest

from proof.hundred import GROWTH_MAX_BYTES, Beside, Hundred, hundred


@pytest.mark.slow
def test_a_bad_peer_leaves_the_others_going_and_the_memory_small() -> None:
    """``make hundred`` has ninety nine of them, and time to measure."""
    found = hundred(0.1, peers=3, rounds=1)
    assert all(rate > 0 for bad in (found.unread, found.stopped, found.pinging) for rate in (*bad.alone, *bad.beside))
    assert found.unread.growth_bytes <= GROWTH_MAX_BYTES


def test_what_breaks_a_promise_is_found() -> None:
    """A throughput that falls, a memory that grows."""
    good, slow = Beside([100.0, 120.0], [110.0, 90.0], 0), Beside([100.0, 100.0], [100.0, 79.0], 0)
    large = Beside([100.0], [100.0], GROWTH_MAX_BYTES + 1)
    found = [
        Hundred(unread, stopped, pinging, 1.0)
        for unread, stopped, pinging in (
            (good, good, good),
            (slow, good, good),
            (good, slow, good),
            (large, good, good),
            (good, good, slow),
        )
    ]
    assert [one.violations for one in found] == [0, 1, 1, 1, 1]
    assert found[1].to_json() == {
        "messages_a_second": 107,
        "unread_kept": 0.895,
        "unread_growth_bytes": 0,
        "stopped_kept": 0.909,
        "pinging_kept": 0.909,
        "violations": 1,
        "seconds": 1.0,
    }
