"""The two applications: one sends exactly the wanted messages, the other finds every mistake of the system between."""

import time
from collections.abc import Sequence

import pytest

from tests.machine import PATIENCE_S
from triack.tools.bench.application import Outlet, Sink, Source
from triack.tools.bench.work import RING, Work, make_ring, stamped

BODIES = make_ring(100)


class Pipe(Outlet):
    """Notes what it gets."""

    batch = 64

    def __init__(self) -> None:
        self.batches: list[list[bytes]] = []
        self.settled: list[int] = []

    async def put(self, bodies: Sequence[bytes]) -> None:
        self.batches.append(list(bodies))

    async def settle(self) -> None:
        self.settled.append(sum(map(len, self.batches)))


async def sent(work: Work) -> tuple[Pipe, Source]:
    outlet = Pipe()
    source = Source(work, outlet)
    await source.run()
    return outlet, source


async def test_the_messages_are_sent_in_batches_and_waited_for_once() -> None:
    outlet, source = await sent(Work(messages=RING + 100))
    assert [body for batch in outlet.batches for body in batch] == BODIES[: RING + 100]
    assert {len(batch) for batch in outlet.batches[:-1]} == {64}
    assert outlet.settled == [source.sent] == [RING + 100]


async def test_one_at_a_time_each_is_waited_for() -> None:
    outlet, _ = await sent(Work(messages=5, mode="single"))
    assert outlet.settled == [1, 2, 3, 4, 5, 5]


async def test_a_time_is_kept() -> None:
    began = time.monotonic()
    outlet, _ = await sent(Work(seconds=0.1))
    assert 0.1 <= time.monotonic() - began < PATIENCE_S
    assert outlet.batches


async def test_paced_messages_say_when_they_were_sent() -> None:
    """None before its turn; and the other end says how long they took."""
    work = Work(messages=5, mode="paced", rate=100)
    outlet, source = await sent(work)
    sink = Sink(work)
    for batch in outlet.batches:
        sink.take(batch)
    found = sink.latencies()
    assert time.monotonic_ns() - source.first_ns >= 4 * 10_000_000
    assert (sink.delivered, sink.missing, sink.late, sink.corrupt) == (5, 0, 0, 0)
    assert 0 < found["p50_ms"] <= found["p99_ms"] <= found["longest_ms"]
    assert sum(count for _, count in found["histogram"]) == 5


@pytest.mark.parametrize(
    ("order", "seen"),
    [
        ([0, 1, 2, 3], (4, 0, 0, 0)),
        ([0, 1, 3], (3, 1, 0, 0)),
        ([0, 1, 1, 2], (3, 0, 1, 0)),
        ([0, 2, 1, 3], (3, 1, 1, 0)),
        ([0, -1, 1], (2, 0, 0, 1)),
        (list(range(RING - 2, RING + 3)), (5, RING - 2, 0, 0)),
    ],
    ids=["all", "gap", "twice", "overtaken", "corrupt", "round"],
)
@pytest.mark.parametrize("at_once", [True, False])
def test_every_mistake_is_seen(order: list[int], seen: tuple[int, int, int, int], at_once: bool) -> None:
    """Whether messages come one by one or in a list."""
    sink = Sink(Work())
    if order[0]:  # so far everything was as it should be
        sink.take(BODIES[: RING - 2])
        seen = (RING + 3, 0, 0, 0)
    bodies = [BODIES[at] if at >= 0 else b"x" * 100 for at in order]
    for part in [bodies] if at_once else [[body] for body in bodies]:
        sink.take(part)
    assert (sink.delivered, sink.missing, sink.late, sink.corrupt) == seen


def test_another_body_of_the_right_index_is_corrupt() -> None:
    sink = Sink(Work())
    sink.take([stamped(BODIES[0], 5)])
    assert (sink.delivered, sink.corrupt) == (0, 1)
