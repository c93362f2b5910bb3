"""The largest datagram of a path: probes, the sizes that they prove, and the events that undo that."""

from itertools import product

import pytest

from triack.base.units import SECOND
from triack.session.path.path_mtu import (
    BLACK_HOLE_LOSSES,
    ETHERNET_BYTES,
    JUMBO_BYTES,
    MAX_PROBES,
    RAISE_NS,
    STEP_BYTES,
    TRANSITIONS,
    MtuEvent,
    MtuState,
    PathMtu,
    SizeProbe,
)

BASE = 1_200


def wanting(ceiling: int = 9_000) -> PathMtu:
    """One whose first packets have just left."""
    path = PathMtu(BASE, ceiling)
    path.handle_sending(ceiling, 0)
    return path


def search(path: PathMtu, carried: int, now_ns: int = 0) -> list[int]:
    """Let a path that carries so much answer every probe, or not. Returns the sizes that were tried."""
    tried: list[int] = []
    while (probe := path.poll_probe()) is not None:
        tried.append(probe.size_bytes)
        assert len(tried) < 200, "the search has no end"
        if probe.size_bytes <= carried:
            path.handle_answer(probe.number, now_ns)
        else:
            path.handle_timer(now_ns)
    return tried


def test_the_table_has_every_state_and_move() -> None:
    """Each is entered, and each happens; a disabled one does not move with the path."""
    assert set(TRANSITIONS) == set(MtuState)
    assert {event for row in TRANSITIONS.values() for event in row} == set(MtuEvent)
    assert {after for row in TRANSITIONS.values() for after in row.values()} == set(MtuState) - {MtuState.DISABLED}


@pytest.mark.parametrize("carried", [1_200, 1_215, 1_300, 1_452, 1_472, 8_972, 8_999, 9_000, 60_000])
@pytest.mark.parametrize("ceiling", [9_000, 1_300, 65_535])
def test_the_search_finds_what_is_carried(carried: int, ceiling: int) -> None:
    """To a few bytes, never more, and with no probe longer than is wanted."""
    path = wanting(ceiling)
    tried = search(path, carried)
    assert path.state is MtuState.SEARCH_COMPLETE
    limit = min(carried, ceiling)
    assert path.size_bytes <= limit
    assert limit - path.size_bytes < STEP_BYTES + 1
    assert tried[0] == BASE
    assert max(tried) <= ceiling


def test_ethernet_and_loopback_are_found_at_once() -> None:
    assert search(wanting(), 60_000) == [BASE, ETHERNET_BYTES, 9_000]
    path = wanting()
    assert search(path, 1_460)[:2] == [BASE, ETHERNET_BYTES]


def test_jumbo_frames_are_used_at_once() -> None:
    """And not after a search up to the most that is wanted: each size that is too large takes three seconds."""
    path = wanting(32_000)
    tried = search(path, 9_000 - 28)
    assert tried[:4] == [BASE, ETHERNET_BYTES, JUMBO_BYTES, 32_000]
    assert JUMBO_BYTES <= path.size_bytes <= 9_000 - 28
    path = wanting(32_000)
    assert search(path, ETHERNET_BYTES)[:5] == [BASE, ETHERNET_BYTES, *[JUMBO_BYTES] * MAX_PROBES]
    assert search(wanting(32_000), 60_000) == [BASE, ETHERNET_BYTES, JUMBO_BYTES, 32_000]


def test_nothing_is_probed_before_something_is_sent_nor_where_nothing_more_is_wanted() -> None:
    path = PathMtu(BASE, 9_000)
    path.handle_moved()
    path.handle_silence()
    path.handle_timer(SECOND)
    assert (path.state, path.poll_probe()) == (MtuState.DISABLED, None)
    small = wanting(1_200)
    assert (small.state, small.poll_probe(), small.size_bytes) == (MtuState.DISABLED, None, BASE)
    assert PathMtu(BASE, 576).size_bytes == 576


def test_a_size_is_in_force_only_when_a_probe_of_it_was_answered() -> None:
    """Not because one of it has left, nor because another one was answered."""
    path = wanting()
    base = path.poll_probe()
    assert base == SizeProbe(1, BASE)
    path.handle_answer(99, 0)
    assert path.state is MtuState.BASE
    path.handle_answer(1, 0)
    probe = path.poll_probe()
    assert probe == SizeProbe(2, ETHERNET_BYTES)
    path.handle_answer(1, 0)
    assert path.size_bytes == BASE
    path.handle_answer(2, 0)
    assert path.size_bytes == ETHERNET_BYTES


def test_a_size_is_too_large_after_three_probes_and_a_late_answer_counts_all_the_same() -> None:
    path = wanting()
    for _ in range(2):
        probe = path.poll_probe()
        assert probe is not None
        path.handle_answer(probe.number, 0)
    numbers = []
    for _ in range(MAX_PROBES):
        probe = path.poll_probe()
        assert probe is not None
        assert probe.size_bytes == 9_000
        numbers.append(probe.number)
        path.handle_timer(0)
    smaller = path.poll_probe()
    assert smaller is not None
    assert smaller.size_bytes < 9_000
    path.handle_answer(numbers[0], 0)
    assert path.size_bytes == 9_000


def test_a_peer_that_answers_nothing_is_asked_again_after_ten_minutes_of_use() -> None:
    path = wanting()
    assert search(path, 0) == [BASE] * MAX_PROBES
    assert (path.state, path.size_bytes) == (MtuState.ERROR, BASE)
    path.handle_sending(0, RAISE_NS - 1)
    assert path.poll_probe() is None
    path.handle_sending(0, RAISE_NS)
    assert path.state is MtuState.BASE
    search(path, 9_000, RAISE_NS)
    assert path.size_bytes == 9_000


def test_a_path_that_carries_more_later_is_found_out_when_it_is_used() -> None:
    path = wanting()
    search(path, 1_472)
    path.handle_sending(0, RAISE_NS - 1)
    assert path.poll_probe() is None
    path.handle_sending(0, RAISE_NS)
    assert search(path, 9_000) == [9_000]
    assert (path.state, path.size_bytes) == (MtuState.SEARCH_COMPLETE, 9_000)
    path.handle_sending(0, 3 * RAISE_NS)
    assert path.poll_probe() is None, "there is nothing more to find"


def test_large_ones_that_are_lost_in_a_row_are_a_black_hole() -> None:
    """Small ones that are lost say nothing, and one large one that arrives proves the path."""
    path = wanting()
    search(path, 9_000)
    for _ in range(BLACK_HOLE_LOSSES - 1):
        path.handle_lost(9_000)
    for _ in range(BLACK_HOLE_LOSSES):
        path.handle_lost(BASE)
        path.handle_acked(BASE)
    assert path.is_suspect
    path.handle_acked(5_000)
    assert not path.is_suspect
    for _ in range(BLACK_HOLE_LOSSES):
        assert path.size_bytes == 9_000
        path.handle_lost(8_000)
    assert (path.state, path.size_bytes) == (MtuState.BASE, BASE)
    assert search(path, 1_472)[:2] == [BASE, ETHERNET_BYTES]


def test_what_left_in_pieces_says_nothing_of_large_datagrams() -> None:
    path = wanting()
    search(path, 1_472)
    for _ in range(2 * BLACK_HOLE_LOSSES):
        path.handle_lost(5_000)
    assert path.state is MtuState.SEARCH_COMPLETE


@pytest.mark.parametrize(("again", "carried"), list(product(["moved", "silence"], [1_200, 9_000])))
def test_another_path_is_searched_from_the_base(again: str, carried: int) -> None:
    """Answers to what was sent before prove nothing of it."""
    path = wanting()
    path.handle_answer(1, 0)
    path.poll_probe()
    path.handle_answer(2, 0)
    old = path.poll_probe()
    assert old is not None
    (path.handle_moved if again == "moved" else path.handle_silence)()
    assert (path.state, path.size_bytes) == (MtuState.BASE, BASE)
    path.handle_answer(old.number, 0)
    assert path.state is MtuState.BASE
    search(path, carried)
    assert path.size_bytes == carried


def test_silence_on_a_path_of_the_base_is_no_black_hole() -> None:
    path = wanting()
    path.handle_silence()
    assert path.poll_probe() == SizeProbe(1, BASE)


def test_no_probe_is_longer_than_all_that_was_sent_before_it() -> None:
    """It waits for more, and is not taken for lost meanwhile."""
    path = PathMtu(BASE, 9_000)
    sent = 0
    for size_bytes in (BASE, ETHERNET_BYTES, 9_000):
        path.handle_sending(size_bytes - 1 - sent, 0)
        assert path.poll_probe() is None
        path.handle_timer(RAISE_NS)
        path.handle_sending(1, 0)
        sent = size_bytes
        probe = path.poll_probe()
        assert probe is not None
        assert probe.size_bytes == size_bytes
        path.handle_answer(probe.number, 0)
    assert path.size_bytes == 9_000
