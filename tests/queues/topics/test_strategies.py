"""What each strategy lets go, against a model that puts one message at a time."""

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from triack.queues.node_settings import Strategy
from triack.queues.topics.strategies import over_limit, room_of

STRATEGIES = get_args(Strategy)

PENDING = st.lists(st.tuples(st.integers(0, 8), st.integers(1, 5)), max_size=4)


@given(st.sampled_from(STRATEGIES), PENDING, st.integers(1, 20))
def test_messages_at_once_go_as_they_would_one_by_one(
    strategy: Strategy, pending: list[tuple[int, int]], most: int
) -> None:
    values, gone = [value for value, _ in pending], 0
    rule = all if strategy == "slowest_sub_rate" else any
    while gone < most and (
        not values or rule(value < limit for value, (_, limit) in zip(values, pending, strict=True))
    ):
        gone += 1
        values = [value + 1 for value in values]
    assert room_of(strategy, pending, most) == gone


@given(st.integers(0, 9), st.integers(1, 5), st.integers(0, 20))
def test_messages_that_find_too_many_are_those_put_above_the_limit(pending: int, limit: int, put: int) -> None:
    assert over_limit(pending, limit, put) == sum(pending + one > limit for one in range(1, put + 1))
