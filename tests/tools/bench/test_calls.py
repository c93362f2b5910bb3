"""What a message costs in calls: counted in simulated nodes, where a count is always the same, and in real ones."""

import sys
from pathlib import Path
from types import CodeType

import pytest

from tests.queues.world import SimNode, World
from tests.tools.bench.measuring import measured
from triack.base.delivery import Delivery
from triack.base.units import MS, SECOND
from triack.queues.stages import Stage
from triack.tools.bench.calls import counted
from triack.tools.bench.rows import COUNTS
from triack.tools.sim.faults import Faults

LONE_CALLS = 1_526
"""Of sender and receiver, with their stores and logs, for one transactional message that waits for its order ack."""
IDLE_POLL_CALLS = 16
"""Of a node that has nothing to do."""
MORE = 1.05
"""What a change may add to a count. One that adds more has to say why here."""
MESSAGES = 25


def _is_ours(code: CodeType) -> bool:
    """Whether a function is the product's, and not the simulated world's."""
    _, _, place = code.co_filename.partition("site-packages/triack/")
    return bool(place) and not place.startswith("tools/")


def _send_one(sender: SimNode, receiver: SimNode) -> None:
    stream = sender.live.outgoing_stream(receiver.address, "q", Delivery.TRANSACTIONAL)
    said: list[str | None] = []
    sender.live.await_stage(stream, sender.live.submit(stream, bytes(100), 100), Stage.ORDERED, said.append)
    sender.drain()
    sender.world.run(SECOND, lambda: bool(said))
    receiver.read("q", 1)


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="another Python makes other calls")
def test_a_lone_message_costs_no_more_calls_than_it_did() -> None:
    world = World(1, Faults(delay_ns=MS // 10))
    sender, receiver = world.node("a"), world.node("b", queues=["q"])
    for _ in range(MESSAGES):
        _send_one(sender, receiver)
    world.run(SECOND)
    with counted(_is_ours) as found:
        for _ in range(MESSAGES):
            _send_one(sender, receiver)
    assert found.calls / MESSAGES <= MORE * LONE_CALLS


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="another Python makes other calls")
def test_a_poll_of_an_idle_node_costs_no_more_calls_than_it_did() -> None:
    world = World(1, Faults(delay_ns=MS // 10))
    sender, receiver = world.node("a"), world.node("b", queues=["q"])
    _send_one(sender, receiver)
    world.run(10 * SECOND)
    with counted(_is_ours) as found:
        assert sender.live.poll(world.now_ns) == []
        sender.live.next_deadline()
    assert found.named["polls"] == 1
    assert found.calls <= MORE * IDLE_POLL_CALLS


@pytest.mark.slow
async def test_real_nodes_are_counted(tmp_path: Path) -> None:
    """A message takes a commit and a datagram of each end at least."""
    result = await measured("CALLS", tmp_path, None)
    medians = [figure.median or 0 for figure in result.figures.values()]
    assert (len(COUNTS), result.verified) == (4, True)
    assert None not in [figure.median for figure in result.figures.values()]
    lone, _, _, commits, datagrams, bulk, _ = medians
    assert min(commits, datagrams) > 1.9
    assert lone > bulk > 0
