"""The resend tiers on a link that is quiet for hours: sessions come and go, the attempts go on."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.queues.world import SimNode, World, numbered
from triack.base.units import MS, SECOND
from triack.node.handles.policies import PRESETS
from triack.ordering.order_settings import OrderSettings
from triack.queues.node_settings import NodeSettings
from triack.session.protocol.settings import SessionSettings
from triack.tools.replay.engines.local_engine import judge_records
from triack.tools.replay.log.files import parse_records
from triack.tools.sim.faults import Faults

MINUTE, HOUR = 60 * SECOND, 3_600 * SECOND
TIERS = [30 * SECOND] * 3 + [5 * MINUTE] * 3 + [30 * MINUTE] * 3 + [6 * HOUR] * 2


def pair(
    cleanup: tuple[float, float] = (300.0, 300.0), settings: NodeSettings | None = None
) -> tuple[World, SimNode, SimNode]:
    """Two nodes; the second never says how far it has accepted anything."""
    world = World(7, Faults(delay_ns=5 * MS))
    a, b = (
        world.node(name, settings or NodeSettings(session=SessionSettings(cleanup_interval_s=interval_s)))
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
    begun = next(record["at_ns"] for record in node.log("packet_sent") if "stream" in record)
    at = [begun, *(record["at_ns"] for record in resends)]
    return [later - earlier for earlier, later in pairwise(at)]


def attempts(node: SimNode) -> list[int]:
    return [record["attempt"] for record in node.log("resend_scheduled")]


def judged(*nodes: SimNode) -> set[str]:
    """The checks that replay finds broken in the logs of all of these."""
    records = parse_records(b"".join(record for node in nodes for record in node.records))
    return {violation.check for violation in judge_records(records)}


def reasons(node: SimNode) -> set[str]:
    return {record["reason"] for record in node.log("session_closed")}


@pytest.mark.parametrize("cleanup", [(300.0, 300.0), (20.0, 300.0), (300.0, 20.0), (10_000.0, 10_000.0)], ids=str)
@pytest.mark.plain
def test_a_quiet_link_sees_every_tier(cleanup: tuple[float, float]) -> None:
    """30 s, 5 min and 30 min three times each, then every 6 h, whichever end closes sessions as idle."""
    world, a, b = pair(cleanup)
    a.send(b, "q", *numbered(0, 3))
    world.run(14 * HOUR)
    assert waits(a) == TIERS
    assert attempts(a) == list(range(1, 12))
    assert reasons(a) <= {"idle"}
    # Each resend is one packet, and nothing leaves in between: a session that was idle has not failed.
    assert len([record for record in a.log("packet_sent") if "stream" in record]) == 12


@pytest.mark.parametrize("policy", PRESETS)
@pytest.mark.plain
def test_each_attempt_sends_all_that_has_no_order_ack(policy: str) -> None:
    """Sixteen packets, as MSMQ and Solace send them ([MS-MQQB] 3.1.6.5), and the log says so."""
    world, a, b = pair(settings=replace(PRESETS[policy], messages_per_packet=1))
    a.send(b, "q", *numbered(0, 16))
    world.run(2 * MINUTE)
    resends = a.log("resend_scheduled")
    assert len(resends) >= 3
    assert {(record["first"], record["last"]) for record in resends} == {(1, 16)}
    sent = [record["number"] for record in a.log("packet_sent") if "stream" in record]
    assert sent == list(range(1, 17)) * (1 + len(resends))
    assert judged(a, b) <= {"order_ack_late"}


@pytest.mark.plain
def test_a_probe_alone_may_be_set() -> None:
    """The log says that one packet leaves; the order ack that answers it frees all."""
    order = OrderSettings(seq_resend="first")
    world, a, b = pair(settings=NodeSettings(order=order, messages_per_packet=1))
    a.send(b, "q", *numbered(0, 16))
    world.run(MINUTE + SECOND)
    assert [(record["first"], record["last"]) for record in a.log("resend_scheduled")] == [(1, 1)] * 2
    del b.live.inbox.send_order_acks
    world.run(MINUTE)
    assert not a.busy
    assert b.read_all("q") == numbered(0, 16)
    assert judged(a, b) <= {"order_ack_late"}


def test_the_tiers_of_a_paused_queue_go_on() -> None:
    """What is due meanwhile leaves when the queue is resumed: replay sees every attempt in its time."""
    world, a, b = pair()
    a.send(b, "q", *numbered(0, 3))
    world.run(SECOND)
    a.live.pause(f"{b.name}/q", arrivals=False, now_ns=world.now_ns)
    a.drain()
    world.run(10 * MINUTE)
    assert (attempts(a), len([record for record in a.log("packet_sent") if "stream" in record])) == ([1], 1)
    del b.live.inbox.send_order_acks
    a.live.resume(f"{b.name}/q", world.now_ns)
    a.drain()
    world.run(MINUTE)
    assert (a.busy, b.read_all("q")) == (False, numbered(0, 3))
    assert judged(a, b) <= {"order_ack_late"}


@pytest.mark.plain
def test_what_is_new_does_not_wait_for_what_waits() -> None:
    """A message that is sent between two attempts leaves at once, by itself, and changes no wait."""
    world, a, b = pair()
    a.send(b, "q", *numbered(0, 1))
    world.run(HOUR)
    before = len(a.log("packet_sent"))
    a.send(b, "q", *numbered(1, 2))
    world.run(MINUTE)
    sent = [record["number"] for record in a.log("packet_sent")[before:] if "stream" in record]
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
    """Waiting packets go out at once in the next session, and the attempts count from 1."""
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
