"""When two states are one: what is inside of them, and their identity."""

from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pytest

from proof.planted.worlds import PLAIN
from proof.search.host import NOW_NS, Host
from proof.search.identity import DIGEST_BYTES, digest, freeze, thaw
from proof.search.inside import TimerKey, conversations, timers
from proof.search.scope import Part, Scope
from tests.proof.search.hosts import DELIVER, opened, started
from triack.queues.node_settings import NodeSettings

# Time for one timer, in any order; and what decides nothing is taken out.

EVERYTHING = Scope("all timers", "", (Part(ready=1, sessions=9, patience=9), Part(sessions=9, patience=9)))


def named(host: Host, name: str) -> TimerKey:
    (found,) = (key for key in timers(host.engine) if key[2] == name)
    return found


def names(host: Host) -> set[str]:
    return {name for _, _, name in timers(host.engine)}


def test_whatever_waits_is_known() -> None:
    first, second, (packet,) = opened(EVERYTHING)
    assert {"PROBE", "CLEANUP", "ACK_LIMIT"} <= names(first)
    assert "retry" not in names(first)
    second.act(DELIVER, packet)
    assert "idle" in names(second)
    assert [kind for kind, _, name in timers(second.engine) if name == "idle"] == ["order ack"]
    first.act(("break", None))
    assert names(first) == {"retry"}


def test_a_link_tries_again_when_its_wait_runs_out() -> None:
    first, _, _ = started(EVERYTHING)
    for _ in range(3):
        first.act(("break", None))
        assert conversations(first.engine) == {}
        (connect,) = first.act(("timer", named(first, "retry")))
        assert str(connect).startswith("CONNECT")


def test_a_packet_goes_out_again_when_its_tier_runs_out() -> None:
    first, second, (packet,) = opened(EVERYTHING)
    assert "tier" not in names(first)
    for ack in second.act(DELIVER, packet) + second.act(("disk", None)):
        first.act(DELIVER, ack)
    (again,) = first.act(("timer", named(first, "tier")))
    assert "number 1 after 0 of sequence 1, a1" in str(again)


def settled(host: Host) -> bytes:
    host.settle()
    return digest(host.engine)


@pytest.mark.plain
def test_what_was_counted_decides_nothing() -> None:
    """Drops, the order of deadlines, how long a link has waited."""
    one, other = (started(EVERYTHING)[0] for _ in range(2))
    one.engine.handle_datagram(b"noise", "memory://b", NOW_NS)
    (link,) = one.engine.outbox.links.values()
    link.patience._attempts = 5  # noqa: SLF001 - as if it had been tried
    (talk,) = conversations(one.engine).values()
    one.engine._transmitter.deadlines.set(talk, 1)  # noqa: SLF001
    assert digest(one.engine) != digest(other.engine)
    assert settled(one) == settled(other)


@pytest.mark.plain
def test_what_was_sent_decides() -> None:
    one, other = (opened(EVERYTHING)[0] for _ in range(2))
    assert settled(one) == settled(other)
    one.act(("timer", named(one, "PROBE")))
    assert settled(one) != settled(other)


# When two nodes are the same: everything that they hold counts, and nothing else.


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
    host = started(PLAIN)[0]
    before = digest(host)
    (queue,) = host.engine.outbox.streams
    queue.sequence.next_number += 1
    assert digest(host) != before
    queue.sequence.next_number -= 1
    assert digest(host) == before
