"""What the timers of whole nodes do together for hours: no session flaps, and nobody is asked for ever."""

import pytest

from tests.queues.world import SimNode, World, numbered
from triack.base.delivery import Delivery
from triack.base.units import MS, SECOND
from triack.queues.quotas import Limits, Quota
from triack.queues.settings import NodeSettings
from triack.session.settings import SessionSettings
from triack.tools.replay.files import parse_records
from triack.tools.replay.local_engine import judge_records
from triack.tools.replay.schema import Violation
from triack.tools.sim.faults import Faults

HOUR = 3_600 * SECOND
KINDS = ("udp", "tcp")


def judged(*nodes: SimNode) -> list[Violation]:
    """What replay finds wrong with the logs of all of these."""
    return judge_records(parse_records(b"".join(record for node in nodes for record in node.records)))


def reasons(node: SimNode) -> list[str]:
    return [record["reason"] for record in node.log("session_closed")]


# A stream that waits for room.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("mine_s", "its_s"), [(1.0, 1.0), (5.0, 300.0), (300.0, 2.0)])
@pytest.mark.parametrize("delivery", list(Delivery))
def test_a_stream_that_waits_for_room_keeps_its_session(
    kind: str, mine_s: float, its_s: float, delivery: Delivery
) -> None:
    """However short the cleanup interval of either end is: whoever would end the session asks, or says, once more."""
    world = World(1, Faults(delay_ns=5 * MS))
    a, b = (
        world.node(
            name, NodeSettings(session=SessionSettings(cleanup_interval_s=cleanup_s), limits=limits), scheme=kind
        )
        for name, cleanup_s, limits in (
            ("a", mine_s, Limits()),
            ("b", its_s, Limits(queue_quota={"q": Quota(2, 1024**2)})),
        )
    )
    # What asks for room is taken in the class that is on no disk.
    messages, length_ns = (200, 100 * SECOND) if delivery is Delivery.EXPRESS else (20, HOUR // 4)
    for body in numbered(0, messages, 900):
        a.send(b, "q", body, delivery=delivery)
        world.run(10 * MS)
    world.run(length_ns)
    assert a.busy
    assert len(a.log("session_opened")) == 1
    assert world.network.counts["sent"] < 8 * length_ns // round(min(mine_s, its_s, 5) * SECOND) + 100
    assert world.run(60 * SECOND, lambda: b.read("q") == 0 and not a.busy)
    assert b.read_all("q") == numbered(0, messages, 900)
    world.run(HOUR)
    assert reasons(a) == reasons(b) == ["idle"]
    assert judged(a, b) == []
