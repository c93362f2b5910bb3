"""Checks of administration messages: honest logs of nodes, and lies in them."""

from collections.abc import Callable
from functools import cache

import pytest

from tests.queues.admin import ask
from tests.queues.world import World, numbered
from tests.tools.replay.two_nodes import Log, checks, logs_of, renumbered
from triack.base.units import SECOND
from triack.tools.replay.checks.findings import Output
from triack.tools.replay.checks.incoming_check import Receiver
from triack.tools.replay.judges.admin_judge import Asking


@cache
def honest(*, restarts: bool = False) -> tuple[Log, Log]:
    """The logs of two nodes, of which one asks for everything and the other tells."""
    world = World(3)
    a, b = world.node("a"), world.node("b")
    ask(a, "b", *numbered(0, 30))
    world.run(2 * SECOND)
    b.read("q", 10)
    world.run(2 * SECOND)
    if restarts:
        b.restart()
        world.run(30 * SECOND)
    ask(a, "b", bytes(50_000))
    world.run(5 * SECOND)
    b.read_all("q")
    world.run(5 * SECOND)
    return logs_of(a, b)


@pytest.mark.parametrize("restarts", [False, True])
def test_honest_logs_accuse_nobody(*, restarts: bool) -> None:
    a, b = honest(restarts=restarts)
    assert checks(a, b) == set()
    assert {record["message_class"] for record in b if record["event"] == "admin_ack_queued"} == {2, 0x4000}


def without(log: Log, event: str, **said: int) -> Log:
    """A log without the first such record."""
    at = next(at for at, it in enumerate(log) if it["event"] == event and all(it[key] == said[key] for key in said))
    return renumbered(log[:at] + log[at + 1 :])


def repeated(log: Log, event: str, **said: int) -> Log:
    """A log with the first such record twice."""
    at = next(at for at, it in enumerate(log) if it["event"] == event and all(it[key] == said[key] for key in said))
    return renumbered(log[: at + 1] + log[at:])


@pytest.mark.parametrize(
    ("lie", "check"),
    [
        (lambda a, b: (a, without(b, "admin_ack_queued", message_class=2)), "admin_ack_missing"),
        (lambda a, b: (a, without(b, "admin_ack_queued", message_class=0x4000)), "admin_ack_missing"),
        (lambda a, b: (a, repeated(b, "admin_ack_queued", message_class=2)), "admin_ack_twice"),
        (lambda a, b: (a, repeated(b, "admin_ack_queued", message_class=0x4000)), "admin_ack_twice"),
        (lambda a, b: (without(a, "admin_ack_asked"), b), "admin_ack_made_up"),
        (
            lambda a, b: ([{**it, "acks": 12} if it["event"] == "admin_ack_asked" else it for it in a], b),
            "admin_ack_made_up",
        ),
        (lambda a, b: (a, renumbered([it for it in b if it["event"] != "handed"])), "admin_ack_made_up"),
        (
            lambda a, b: (a, [{**it, "message_class": 7} if it["event"] == "admin_ack_queued" else it for it in b]),
            "claims",
        ),
    ],
)
def test_a_lie_is_found(lie: Callable[[Log, Log], tuple[Log, Log]], check: str) -> None:
    assert check in checks(*lie(*honest()))


def test_a_second_telling_in_a_later_start_is_found() -> None:
    """Its cause was on the disk with the first one."""
    a, b = honest(restarts=True)
    told = next(it for it in b if it["event"] == "admin_ack_queued")
    at = next(at for at, it in enumerate(b) if it["incarnation"] == 2 and it["event"] == "session_opened")
    later = {**told, "incarnation": 2, "at_ns": b[at]["at_ns"], "wall_ns": b[at]["wall_ns"]}
    assert checks(a, renumbered([*b[: at + 1], later, *b[at + 1 :]])) == {"admin_ack_twice"}


@pytest.mark.parametrize("takes", [False, True])
def test_a_relay_tells_of_each_copy_that_it_has_taken(*, takes: bool) -> None:
    """Its neighbour died before it had forgotten the first one, and sends it again."""
    out = Output()
    asking, receiver = Asking("r", "a", 1, out), Receiver()
    told = {"node": "r", "incarnation": 1, "n": 1, "wall_ns": 0, "sequence": 1, "number": 5, "place": 0, "count": 1}
    told |= {"class": "recoverable", "message_class": 0x8005}
    asking.handle_told(told, receiver)
    if takes:
        asking.handle_transit({"sequence": 1, "first": 4, "last": 6})
    asking.handle_told(told, receiver)
    assert [found.violation.check for found in out.findings] == ([] if takes else ["admin_ack_twice"])
