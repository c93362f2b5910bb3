"""One packet of each stream is measured at a time, and a stream that does not move is known."""

from triack.base.units import SECOND
from triack.queues.ack_latency import AckLatency


def test_one_packet_is_measured_and_then_the_next_that_starts() -> None:
    seen = AckLatency()
    seen.handle_started("s", 1, 1 * SECOND)
    seen.handle_started("s", 2, 2 * SECOND)
    seen.handle_freed("s", {2: 0}, 4 * SECOND, busy=True)
    assert (sum(seen.durations.counts), seen.durations.sum_ns) == (1, 3 * SECOND)
    seen.handle_freed("s", {}, 5 * SECOND, busy=False)
    assert sum(seen.durations.counts) == 1
    seen.handle_started("s", 3, 6 * SECOND)
    seen.handle_freed("s", {}, 7 * SECOND, busy=False)
    assert (sum(seen.durations.counts), seen.durations.sum_ns) == (2, 4 * SECOND)


def test_a_packet_that_is_not_freed_yet_is_not_counted() -> None:
    seen = AckLatency()
    seen.handle_started("s", 2, 0)
    seen.handle_freed("s", {2: 0, 3: 0}, SECOND, busy=True)
    assert sum(seen.durations.counts) == 0


def test_a_stream_has_stalled_since_it_moved_last() -> None:
    """Or since it began to wait; one that was in the store, since the start."""
    seen = AckLatency()
    seen.start_ns = SECOND
    assert seen.stalled_ns("restored", 4 * SECOND) == 3 * SECOND
    seen.handle_started("s", 1, 2 * SECOND)
    assert seen.stalled_ns("s", 5 * SECOND) == 3 * SECOND
    seen.handle_freed("s", {9: 0}, 4 * SECOND, busy=True)
    assert seen.stalled_ns("s", 5 * SECOND) == SECOND
    seen.handle_freed("restored", {9: 0}, 3 * SECOND, busy=True)
    assert seen.stalled_ns("restored", 4 * SECOND) == SECOND


def test_nothing_is_kept_of_streams_with_nothing_to_send() -> None:
    seen = AckLatency()
    for name in ("freed", "forgotten"):
        seen.handle_started(name, 1, 0)
    seen.handle_freed("freed", {}, 1, busy=False)
    seen.forget("forgotten")
    seen.handle_freed("unknown", {}, 1, busy=False)
    assert seen._streams == {}  # noqa: SLF001 - nothing else shows it
