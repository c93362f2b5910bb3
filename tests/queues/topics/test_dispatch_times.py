"""When messages of a topic were dispatched."""

from triack.base.units import SECOND
from triack.queues.topics.dispatch_times import GRAINS, DispatchTimes


def test_a_message_is_as_old_as_the_moment_when_it_went() -> None:
    times = DispatchTimes(60 * SECOND)
    times.add(4, 0)
    times.add(5, 61 * SECOND)
    assert [times.of(place) for place in (1, 4, 5)] == [0, 0, 61 * SECOND]


def test_no_message_looks_older_than_it_is_and_the_memory_has_a_bound() -> None:
    times = DispatchTimes(60 * SECOND)
    went = {}
    for place in range(1, 50_000):
        went[place] = place * SECOND // 50
        times.add(place, went[place])
    assert len(times._lasts) <= 2 * GRAINS + 1  # noqa: SLF001 - the promise is about memory
    now_ns = went[49_999]
    for place in range(1, 50_000, 7):
        known, real = now_ns - times.of(place), now_ns - went[place]
        assert known <= real
        assert known > 60 * SECOND or real - known <= 60 * SECOND // GRAINS
