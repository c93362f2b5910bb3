"""One key, many node ids: a peer pays for all that comes with its key, whatever nodes it claims to be."""

import pytest

from tests.queues.keyed import KeyedChannels, peer
from tests.queues.stories.test_peers import B, Named, named
from tests.queues.world import PlainWorld, SimNode
from triack.base.delivery import Delivery
from triack.base.units import SECOND
from triack.queues.node_settings import STREAM_BYTES, Limits, NodeSettings

IDS = 10


class Claiming(Named):
    """A node of its own id, with the key of ``evil``."""

    def make_channels(self) -> KeyedChannels:
        return KeyedChannels("evil", self.directory)


def crowd(settings: NodeSettings) -> tuple[PlainWorld, Named, list[Named], Named]:
    """A node that trusts two peers: one that is honest, and one that claims to be many nodes."""
    world = PlainWorld(1)
    b = Named(world, "b", settings)
    b.directory.replace([peer("evil"), peer("honest")])
    b.start()
    evil: list[Named] = []
    for number in range(IDS):
        node = Claiming(world, f"evil{number}")
        node.directory.replace([peer("b", B)])
        node.listens = False
        node.start()
        evil.append(node)
    return world, b, evil, named(world, "honest", peer("b", B), listens=False)


def reaches(world: PlainWorld, sender: Named, receiver: SimNode, queue: str) -> bool:
    sender.post("b", b"hello", queue=queue)
    return world.run(30 * SECOND, lambda: receiver.length(queue) == 1)


@pytest.mark.slow
def test_many_ids_have_the_room_of_one_peer() -> None:
    """On the disk, where each could fill the quota of a peer."""
    world, b, evil, honest = crowd(NodeSettings(limits=Limits(peer_quota_bytes=20_000, node_quota_bytes=200_000)))
    for node in evil:
        node.post("b", *[bytes(1_000)] * 20)
    world.run(20 * SECOND)
    taken = b.live.inbox.admission.disk.total_bytes
    assert 20_000 <= taken < 20_000 + IDS * 1_100
    assert reaches(world, honest, b, "new")
    b.restart()
    assert b.live.inbox.admission.disk.of(evil[0].live.node_id) == taken


@pytest.mark.slow
@pytest.mark.gate
def test_many_ids_have_the_streams_of_one_peer() -> None:
    world, b, evil, honest = crowd(NodeSettings(max_streams=20))
    for node in evil:
        for number in range(20):
            node.post("b", b"x", queue=f"q{number}", delivery=Delivery.RECOVERABLE)
    world.run(5 * SECOND)
    assert b.live.inbox.admission.streams.total_bytes == 20 * STREAM_BYTES
    assert reaches(world, honest, b, "new")


@pytest.mark.slow
@pytest.mark.gate
def test_many_ids_leave_queues_for_others() -> None:
    """Of all there may be; and an honest peer finds room for its own, and more of it when some are gone."""
    world, b, evil, honest = crowd(NodeSettings(max_queues=40))
    for node in evil:
        for number in range(20):
            node.post("b", b"x", queue=f"q{number}-{node.name}", delivery=Delivery.RECOVERABLE)
    world.run(5 * SECOND)
    assert len(b.live.queues.mailboxes) <= 21
    assert reaches(world, honest, b, "new")
    assert all(node.length("dead-letter") == 0 for node in [honest, *evil])


def test_a_peer_that_waits_for_a_queue_gets_it_when_another_is_empty() -> None:
    """A packet that cannot be taken now is not refused."""
    world, b, _, honest = crowd(NodeSettings(max_queues=4))
    for queue in ("one", "two"):
        assert reaches(world, honest, b, queue)
    assert not reaches(world, honest, b, "three")
    assert b.read("one") == 1
    assert world.run(2 * SECOND, lambda: b.length("three") == 1)
    assert honest.length("dead-letter") == 0
