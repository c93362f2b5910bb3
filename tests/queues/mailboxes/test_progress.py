"""What is kept on the disk of a packet that is partly done."""

import pytest

from triack.base.errors import StoreDamaged
from triack.queues.mailboxes.progress import Progress, Setbacks
from triack.queues.mailboxes.redelivery import Wait

WAIT = Wait(500, 50, keep_order=True)


def test_progress_survives_a_restart() -> None:
    """What was acknowledged, how often something failed, and what has to wait, no longer than before."""
    progress = Progress(0b101, Setbacks({1: 3, 3: 1}, {3: 1}, {1: WAIT}))
    assert Progress.decode(progress.encode(), 1, 480) == progress
    assert Progress.decode(progress.encode(), 1, 10).setbacks.waits == {1: WAIT._replace(until_ms=60)}


@pytest.mark.parametrize("damaged", [b"", b"{}", b'["0x1", {}, {}]', b'["", {}, {}, {}]', b'["0x1", {}, {}, {"0": 5}]'])
def test_damaged_progress_is_refused(damaged: bytes) -> None:
    with pytest.raises(StoreDamaged, match="progress of packet 7 "):
        Progress.decode(damaged, 7, 0)


def test_a_death_is_a_failure_as_well() -> None:
    setbacks = Setbacks()
    assert [setbacks.count_failure(4), setbacks.count_death(4), setbacks.count_death(5)] == [1, 2, 1]
    assert (setbacks.failures, setbacks.deaths) == ({4: 2, 5: 1}, {4: 1, 5: 1})


def test_a_wait_keeps_a_message_back_until_it_ends() -> None:
    setbacks = Setbacks(waits={4: WAIT})
    assert [setbacks.wait_of(4, 499), setbacks.wait_of(4, 500), setbacks.wait_of(5, 499)] == [WAIT, None, None]


def test_a_part_has_the_indices_of_its_messages() -> None:
    """Nothing is taken of those before it and behind it; another owner may number them as it likes."""
    setbacks = Setbacks({9: 1, 10: 2, 13: 1}, {13: 1}, {10: WAIT, 14: WAIT})
    part = setbacks.part(range(10, 14))
    assert part == Setbacks({0: 2, 3: 1}, {3: 1}, {0: WAIT})
    other = Setbacks({1: 1})
    other.add_part(20, part)
    assert other == Setbacks({1: 1, 20: 2, 23: 1}, {23: 1}, {20: WAIT})
    other.forget(range(20, 24))
    assert other == Setbacks({1: 1})
