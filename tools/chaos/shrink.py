"""Makes a failing plan small: the fewest faults, the calmest network and the least work that still fail."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from triack.tools.chaos.plan import Plan
from triack.tools.sim.faults import SHARES, Faults

RUNS_MAX = 400
"""Well within a minute or two; by then the plan hardly becomes smaller."""
_LEAST: dict[str, Any] = {"large_bytes": 0, "streamed_bytes": 0, "live_ms": 0, "read_ms": 0, "priorities": ()}
"""The fields of a stream that make its work more than small messages at once, and what each is without that."""


def shrink(plan: Plan, fails: Callable[[Plan], bool], *, runs_max: int = RUNS_MAX) -> Plan:
    """The smallest plan found that still fails."""
    left = [runs_max]
    smaller = True
    while smaller and left[0] > 0:
        smaller = False
        for candidate in _candidates(plan):
            if left[0] <= 0:
                break
            left[0] -= 1
            if fails(candidate):
                plan, smaller = candidate, True
                break
    return plan


def _candidates(plan: Plan) -> Iterator[Plan]:
    """Plans that are a little less than this one, the boldest first."""
    yield from _fewer_faults(plan)
    yield from _calmer(plan)
    yield from _less_work(plan)


def _fewer_faults(plan: Plan) -> Iterator[Plan]:
    faults = plan.faults
    size = len(faults)
    while size > 0:
        for start in range(0, len(faults), size):
            yield replace(plan, faults=faults[:start] + faults[start + size :])
        size //= 2
    if plan.dead_path is not None:
        yield replace(plan, dead_path=None)


def _calmer(plan: Plan) -> Iterator[Plan]:
    calm = Faults(delay_ns=plan.network.delay_ns)
    if plan.network != calm:
        yield replace(plan, network=calm)
    for name in (*SHARES, "jitter_ns", "rate_bps"):
        if getattr(plan.network, name):
            yield replace(plan, network=replace(plan.network, **{name: 0}))


def _less_work(plan: Plan) -> Iterator[Plan]:
    # No stream forwards messages of a later one, so the last one is never missed.
    last = len(plan.streams) - 1
    if last:
        of_streams = ("forbid", "pause-queue")
        faults = tuple(fault for fault in plan.faults if not (fault.kind in of_streams and fault.after == last))
        yield replace(plan, streams=plan.streams[:-1], faults=faults)
    for index, stream in enumerate(plan.streams):
        if stream.count > 1:
            yield _with_stream(plan, index, count=stream.count // 2)
        for name, nothing in _LEAST.items():
            if getattr(stream, name):
                yield _with_stream(plan, index, **{name: nothing})


def _with_stream(plan: Plan, index: int, **changes: Any) -> Plan:
    streams = list(plan.streams)
    streams[index] = replace(streams[index], **changes)
    return replace(plan, streams=tuple(streams))
