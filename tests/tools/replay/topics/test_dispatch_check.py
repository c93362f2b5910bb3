"""The rules of the strategies, counted along."""

import pytest

from triack.tools.replay.checks.findings import Output
from triack.tools.replay.topics.contents import Contents
from triack.tools.replay.topics.dispatch_check import to_drop, up_to
from triack.tools.replay.topics.subscription_check import Subscription

SECOND_NS = 1_000_000_000


def reader(pending: int, limit: int = 3) -> Subscription:
    fields = {"topic": "Games", "subscription": f"of {pending}", "pattern": "Games.#", "durable": False}
    record = {**fields, "after": 0, "max_unacked": limit, "ack_wait_ns": 0, "incarnation": 1, "node": "a", "at_ns": 0}
    subscription = Subscription(record, Output())
    subscription.take(1, pending)
    return subscription


@pytest.mark.parametrize(
    ("strategy", "pending", "most"),
    [
        ("discard_none", (0, 3), 3),
        ("discard_none", (2, 9), 1),
        ("discard_none", (3, 9), 0),
        ("discard_allowed", (2, 9), 1),
        ("slowest_sub_rate", (0, 2), 1),
        ("slowest_sub_rate", (0, 3), 0),
        ("slowest_sub_rate", (), None),
        ("discard_none", (), None),
    ],
)
def test_as_many_may_go_as_there_is_room(strategy: str, pending: tuple[int, ...], most: int | None) -> None:
    assert up_to(strategy, [reader(count) for count in pending], {}) == most


def test_what_it_gets_at_this_moment_takes_room() -> None:
    one = reader(1)
    assert up_to("discard_none", [one], {one.name: 2}) == 0


@pytest.mark.parametrize(
    ("dispatched_s", "got", "now_s", "lost"),
    [
        # The cases of the table: four within a minute, the fifth after it.
        ([0, 0, 0, 59], 1, 59, []),
        ([0, 1, 2, 59, 61], 1, 61, [(1, 1)]),
        # At most one for each message that it gets, and only old ones.
        ([0, 0, 0, 0, 0, 61], 1, 61, [(1, 1)]),
        ([0, 0, 0, 0, 50, 61], 3, 61, [(1, 3)]),
        ([0, 50, 50, 50, 61], 2, 61, [(1, 1)]),
        # Exactly as old as the limit is not older.
        ([0, 0, 0, 60], 1, 60, []),
    ],
)
def test_the_eldest_is_lost_when_it_is_old(
    dispatched_s: list[int], got: int, now_s: int, lost: list[tuple[int, int]]
) -> None:
    contents = Contents()
    for place, second in enumerate(dispatched_s, 1):
        contents.dispatch(place, place, second * SECOND_NS)
    drop = to_drop(reader(len(dispatched_s)), got, contents, now_s * SECOND_NS, 60 * SECOND_NS)
    places = [place for first, last in drop.may for place in range(first, last + 1)]
    assert places == [place for first, last in lost for place in range(first, last + 1)]
    assert drop.must == len(places)


def test_an_age_may_be_too_small_by_a_thousandth_of_the_timeout() -> None:
    contents = Contents()
    for place, at_ns in enumerate((0, 0, 0, 0, 60 * SECOND_NS), 1):
        contents.dispatch(place, place, at_ns)
    drop = to_drop(reader(5), 1, contents, 60 * SECOND_NS + SECOND_NS // 20, 60 * SECOND_NS)
    assert (drop.may, drop.must) == ([(1, 1)], 0)
    assert drop.take([(1, 1)])
    assert not drop.take([(2, 2)])
