"""The cost of the channel is measured on real work; a channel that costs too much, or breaks a message, is found."""

from dataclasses import replace

import pytest

from proof import channel as module
from proof.channel import Cost, compare
from tests.machine import PATIENCE_S
from triack.tools.demo.run import Plan, Transfer

PLAN = Plan(messages=300, size=100, loss=0, duplicate=0, reorder=0, seed=1, transport="udp", timeout=PATIENCE_S)
SECOND_NS = 1_000_000_000


@pytest.mark.slow
def test_both_kinds_do_all_of_the_work() -> None:
    """In turns, the other one first each time; so few messages say nothing of the cost."""
    said: list[str] = []
    found = compare(replace(PLAN, messages=100), 2, said.append)
    assert [line.partition(":")[0] for line in said] == ["without keys", "with keys", "with keys", "without keys"]
    assert all("100 messages" in line for line in said)
    assert min(found.secured + found.insecure) > 0
    assert found.ratio == pytest.approx(sum(found.secured) / sum(found.insecure), rel=0.001)


def compare_runs(monkeypatch: pytest.MonkeyPatch, *, secured_s: float, **wrong: int) -> Cost:
    """The result for runs that take a second without keys, and this long with them."""

    def run(plan: Plan) -> Transfer:
        done = Transfer(sent=300, ordered=300, delivered=300, first_ns=0)
        done.last_ns = int(SECOND_NS * (1 if plan.insecure else secured_s))
        for name, value in wrong.items():
            setattr(done, name, value)
        return done

    monkeypatch.setattr(module, "_run", run)
    return compare(PLAN, 3, lambda _: None)


@pytest.mark.parametrize(("secured_s", "violations"), [(0.9, 0), (1.33, 0), (1.34, 1), (3, 1)])
def test_a_channel_that_costs_more_than_a_quarter_is_found(
    secured_s: float, violations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = compare_runs(monkeypatch, secured_s=secured_s)
    assert found.violations == violations
    assert found.ratio == pytest.approx(1 / secured_s, abs=0.001)


@pytest.mark.parametrize("wrong", ["duplicates", "out_of_order", "corrupt", "delivered", "ordered"])
def test_work_that_was_not_done_well_does_not_count(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compare_runs(monkeypatch, secured_s=1, **{wrong: 299}).violations == 6
