"""When two nodes are the same: everything that they hold counts, and nothing else."""

from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pytest

from proof.planted.worlds import PLAIN
from proof.search.host import Host
from proof.search.identity import DIGEST_BYTES, digest, freeze, short, thaw
from tests.proof.search.hosts import DELIVER, opened, started
from triack.queues.node_settings import NodeSettings


class Colour(Enum):
    """Two of them."""

    RED = 1
    BLUE = 2


@dataclass
class Plain:
    """With a dictionary of attributes."""

    one: object = 0
    two: object = 0


class Slotted:
    """With slots, some of them its parent's."""

    __slots__ = ("a",)

    def __init__(self, a: object) -> None:
        self.a = a


class Child(Slotted):
    """With one more."""

    __slots__ = ("b",)

    def __init__(self, a: object, b: object) -> None:
        super().__init__(a)
        self.b = b


SHARED = Plain(1)
PAIRS = [
    (1, 2),
    (1, "1"),
    (b"1", "1"),
    (True, 1),
    (None, False),
    ([1, 2], [2, 1]),
    ({"a": 1}, {"a": 2}),
    ({"a": 1}, {"b": 1}),
    ({1, 2}, {1, 3}),
    (Colour.RED, Colour.BLUE),
    (Plain(1), Plain(2)),
    (Slotted(1), Slotted(2)),
    (Child(1, 2), Child(1, 3)),
    (Child(1, 2), Child(2, 2)),
    (deque([1]), deque([1, 1])),
    ([Plain(1), Plain(1)], [SHARED, SHARED]),
]


@pytest.mark.parametrize(("one", "other"), PAIRS, ids=lambda value: type(value).__name__)
def test_what_differs_is_not_the_same(one: Any, other: Any) -> None:
    """The type of a number, the order of a list, who shares what."""
    assert len(digest(one)) == DIGEST_BYTES
    assert digest(one) != digest(other)
    assert digest([one]) != digest([other])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({3, 1, 2}, {2, 3, 1}),
        (Plain([1], {"a": b"x"}), Plain([1], {"a": b"x"})),
        (Child({1}, Colour.RED), Child({1}, Colour.RED)),
        (NodeSettings(), NodeSettings(max_queues=3)),
        (Plain(1).__init__, Plain(2).__init__),  # type: ignore[misc]
    ],
)
def test_what_would_do_the_same_is_the_same(one: Any, other: Any) -> None:
    """However it came to be; settings never change in a search, so they do not count."""
    assert digest(one) == digest(other)


def test_a_loop_has_an_end() -> None:
    """An object that holds itself is the same as one that does so in the same way."""

    def loop(length: int) -> Plain:
        first = last = Plain()
        for _ in range(length - 1):
            last.one = Plain()
            last = last.one
        last.one = first
        return first

    assert digest(loop(2)) == digest(loop(2)) != digest(loop(3))


@pytest.mark.plain
def test_a_copy_is_the_same_and_goes_its_own_way() -> None:
    """A thawed node does what the other would do, and changes nothing of it."""
    _, second, packets = opened(PLAIN)
    frozen, before = freeze(second), digest(second)
    copy: Host = thaw(frozen)
    assert digest(copy) == before
    assert copy.act(DELIVER, packets[0])
    assert digest(copy) != before
    assert digest(second) == before
    assert second.act(DELIVER, packets[0])
    assert digest(copy) == digest(second)
    assert thaw(frozen).engine.settings is copy.engine.settings


@pytest.mark.plain
def test_a_field_of_any_machine_counts() -> None:
    """Deep inside, and new ones too."""
    host = started(PLAIN)[0]
    before = digest(host)
    (queue,) = host.engine.outbox.streams
    queue.sequence.next_number += 1
    assert digest(host) != before
    queue.sequence.next_number -= 1
    assert digest(host) == before


def test_short_is_short() -> None:
    """And tells bytes apart."""
    assert len({short(b""), short(b"x"), short(b"x" * 1_000)}) == 3
    assert {len(short(data)) for data in (b"", b"x" * 1_000)} == {DIGEST_BYTES}
