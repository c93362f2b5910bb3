"""A failing plan becomes small, as long as it still fails."""

from dataclasses import replace

from triack.tools.chaos.drawing import draw
from triack.tools.chaos.plan import Plan
from triack.tools.chaos.shrink import shrink
from triack.tools.sim.faults import Faults


def test_shrinking_leaves_what_the_failure_needs() -> None:
    """The one fault that matters, a calm network and little work."""
    plan = next(plan for plan in map(draw, range(100)) if sum(fault.kind == "kill" for fault in plan.faults) > 3)
    needed = [fault for fault in plan.faults if fault.kind == "kill"][2]

    def fails(smaller: Plan) -> bool:
        return needed in smaller.faults and smaller.streams[0].count >= 5

    found = shrink(plan, fails)
    assert found.faults == (needed,)
    assert found.network == Faults(delay_ns=plan.network.delay_ns)
    assert 5 <= found.streams[0].count < 10
    assert len(found.streams) == 1


def test_shrinking_stops_after_a_number_of_runs() -> None:
    """Even when it could go on."""
    runs: list[Plan] = []

    def fails(smaller: Plan) -> bool:
        runs.append(smaller)
        return True

    shrink(replace(draw(0)), fails, runs_max=7)
    assert len(runs) == 7


def test_what_does_not_fail_smaller_stays_as_it_is() -> None:
    """Everything is tried once."""
    plan, tried = draw(3), []

    def fails(smaller: Plan) -> bool:
        tried.append(smaller)
        return False

    assert shrink(plan, fails) == plan
    assert plan not in tried
    assert len(tried) > len(plan.faults)
    assert len({repr(smaller) for smaller in tried}) > 0.9 * len(tried)


def test_a_stream_that_others_forward_from_stays() -> None:
    """A plan without it would be none."""
    plan = next(plan for plan in map(draw, range(100)) if any(stream.source >= 0 for stream in plan.streams))
    found = shrink(plan, lambda smaller: any(stream.source >= 0 for stream in smaller.streams))
    forwarding = [stream for stream in found.streams if stream.source >= 0]
    assert forwarding
    assert all(stream.source < len(found.streams) for stream in forwarding)
    assert {stream.count for stream in found.streams} == {1}
    assert found.faults == ()
    assert found.dead_path is None
