"""Which queues are paused, and what the store keeps of it."""

import pytest

from triack.base.commit import Commit
from triack.base.errors import StoreDamaged
from triack.queues.pauses import Pause, Pauses


def test_a_pause_outlives_the_process_and_keeps_its_beginning() -> None:
    """Pausing again changes what is paused, and not since when."""
    pauses, commit = Pauses(), Commit()
    pauses.pause("orders", arrivals=False, now_ms=5_000, commit=commit)
    pauses.pause("orders", arrivals=True, now_ms=9_000, commit=commit)
    after = Pauses()
    after.restore({key: value for key, value in commit.state.items() if value is not None} | {"my own": b"1"})
    assert after.by_name == {"orders": Pause(5_000, arrivals=True)}


def test_a_resumed_queue_leaves_nothing_in_the_store() -> None:
    """Resuming a queue that is not paused does nothing."""
    pauses, commit = Pauses(), Commit()
    pauses.pause("orders", arrivals=False, now_ms=1, commit=commit)
    assert pauses.resume("orders", commit)
    assert list(commit.state.values()) == [None]
    assert not pauses.resume("orders", commit)


def test_an_outgoing_queue_is_paused_by_itself_or_with_its_peer() -> None:
    """A queue of this node has another name than any outgoing one."""
    pauses, commit = Pauses(), Commit()
    pauses.pause("b/orders", arrivals=False, now_ms=1, commit=commit)
    pauses.pause("c/", arrivals=False, now_ms=2, commit=commit)
    pauses.pause("orders", arrivals=False, now_ms=3, commit=commit)
    assert [pauses.of_stream(*it) for it in (("b", "orders"), ("b", "other"), ("c", "orders"), ("", "orders"))] == [
        Pause(1, arrivals=False),
        None,
        Pause(2, arrivals=False),
        None,
    ]
    assert pauses.of_queue("orders") == Pause(3, arrivals=False)


def test_a_damaged_pause_is_named() -> None:
    """The store says which row cannot be read."""
    with pytest.raises(StoreDamaged, match="paused queue orders: wrong length"):
        Pauses().restore({"$paused:orders": b"?"})
