"""The resend tiers on a link that is quiet for hours: sessions come and go, the attempts go on."""

from collections.abc import Iterable
from itertools import pairwise

import pytest

from tests.queues.world import SimNode, World, numbered
from triack.base.units import MS, SECOND
from triack.queues.settings import NodeSettings
from triack.session.settings import SessionSettings
from triack.tools.sim.faults import Faults

MINUTE, HOUR = 60 * SECOND, 3_600 * SECOND
TIERS = [30 * SECOND] * 3 + [5 * MINUTE] * 3 + [30 * MINUTE] * 3 + [6 * HOUR] * 2


def pair(cleanup: tuple[float, float] = (300.0, 300.0)) -> tuple[World, SimNode, SimNode]:
    """Two nodes; the second never says how far it has accepted anything."""
    world = World(7, Faults(delay_ns=5 * MS))
    a, b = (
        world.node(name, NodeSettings(session=SessionSettings(cleanup_interval_s=interval_s)))
        for name, interval_s in zip("ab", cleanup, strict=True)
    )
    withhold(b)
    return world, a, b


def withhold(node: SimNode) -> None:
    """No order ack leaves, whatever asks for it, and no accept says the same."""
    node.tell_no_positions()
    node.live.inbox.send_order_acks = lambda route, now_ns: None  # type: ignore[method-assign]


def waits(node: SimNode) -> list[int]:
    """How long it waited before each resend, by the clock."""
    resends = node.log("resend_scheduled")
    begun = next(record["at_ns"] for record in node.log("packet_sent") if "lane" in record)
    at = [begun, *(record["at_ns"] for record in resends)]
    return [later - earlier for earlier, later in pairwise(at)]


def attempts(node: SimNode) -> list[int]:
    return [record["attempt"] for record in node.log("resend_scheduled")]


def reasons(node: SimNode) -> set[str]:
    return {record["reason"] for record in node.log("session_closed")}


@pytest.mark.parametrize("cleanup", [(300.0, 300.0), (20.0, 300.0), (300.0, 20.0), (10_000.0, 10_000.0)], ids=str)
@pytest.mark.plain
def test_a_quiet_link_sees_every_tier(cleanup: tuple[float, float]) -> None:
    """30 s three times, 5 min three times, 30 min three times, then every 6 h; whoever closes sessions as idle."""
    world, a, b = pair(cleanup)
    a.send(b, "q", *numbered(0, 3))
    world.run(14 * HOUR)
    assert waits(a) == TIERS
    assert attempts(a) == list(range(1, 12))
    assert reasons(a) <= {"idle"}
    # Each resend is one packet, and nothing leaves in between: a session that was idle has not failed.
    assert len([record for record in a.log("packet_sent") if "lane" in record]) == 12


@pytest.mark.plain
def test_what_is_new_does_not_wait_for_what_waits() -> None:
    """A message that is sent between two attempts leaves at once, by itself, and changes no wait."""
    world, a, b = pair()
    a.send(b, "q", *numbered(0, 1))
    world.run(HOUR)
    before = len(a.log("packet_sent"))
    a.send(b, "q", *numbered(1, 2))
    world.run(MINUTE)
    sent = [record["number"] for record in a.log("packet_sent")[before:] if "lane" in record]
    assert sent == [2]
    world.run(13 * HOUR)
    assert waits(a) == TIERS
    assert b.read_all("q") == numbered(0, 2)


@pytest.mark.plain
def test_progress_starts_the_first_tier_again() -> None:
    """The order ack that leaves after two hours frees everything; the next message waits 30 s again."""
    world, a, b = pair()
    a.send(b, "q", *numbered(0, 1))
    world.run(2 * HOUR)
    del b.live.inbox.send_order_acks
    world.run(7 * HOUR)
    assert not a.busy
    withhold(b)
    a.send(b, "q", *numbered(1, 2))
    world.run(MINUTE)
    assert attempts(a)[-1] == 1


@pytest.mark.parametrize("how", ["failed", "restarted"])
@pytest.mark.plain
def test_only_a_failed_session_or_a_restart_begins_again(how: str) -> None:
    """What waited goes out at once in the next session, and the attempts count from 1."""
    world, a, b = pair()
    a.send(b, "q", *numbered(0, 1))
    world.run(2 * HOUR)
    assert attempts(a)[-1] == 9
    if how == "restarted":
        a.restart()
    else:
        a.send(b, "q", *numbered(1, 2))
        world.run(SECOND)
        world.cut(a, b)
        a.send(b, "q", *numbered(2, 3))
        world.run(3 * MINUTE)
        world.heal()
    world.run(MINUTE)
    again: Iterable[int] = attempts(a)[attempts(a).index(9) + 1 :]
    assert list(again) == [1]
    assert b.read_all("q")[:1] == numbered(0, 1)
