"""When what happened to which packet, in a bounded number of entries."""

from itertools import pairwise

from triack.tools.replay.checks.moments import MOMENTS_MAX, Moment, Moments


def test_moments_are_found_by_packet() -> None:
    moments = Moments()
    moments.put(5, 8, 2, 20)
    moments.put(1, 4, 3, 30)
    assert moments.of(6) == Moment(5, 8, 2, 20)
    assert moments.of(9) is None
    known = moments.sorted()
    assert (known.of(4), known.of(9)) == (Moment(1, 4, 3, 30), None)
    assert (known.before(9), known.before(0)) == (Moment(5, 8, 2, 20), None)


def test_a_long_session_keeps_some_of_them_evenly() -> None:
    moments, count = Moments(), 20 * MOMENTS_MAX
    for packet in range(1, count + 1):
        moments.put(packet, packet, packet, packet)
    kept = [moment.first for moment in moments]
    assert MOMENTS_MAX // 2 <= len(kept) <= MOMENTS_MAX
    steps = {after - before for before, after in pairwise(kept)}
    assert len(steps) == 1
    assert kept[0] + kept[-1] >= count
