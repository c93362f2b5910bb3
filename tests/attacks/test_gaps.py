"""Gaps that are never filled: what came early waits for them, and what is known of them is remembered."""

from random import Random

import pytest

from tests.queues.hostile import ORIGIN, still_works, victim
from triack.base.delivery import Delivery
from triack.base.ranges import NumberSet
from triack.base.units import SECOND
from triack.queues.node_settings import Limits, NodeSettings
from triack.queues.streams.incoming_stream import GAP_BYTES, HELD_BYTES

SMALL = NodeSettings(limits=Limits(peer_memory_bytes=256 * 1024))
"""A peer of this node has 64 KiB for what is out of order."""


@pytest.mark.slow
@pytest.mark.gate
@pytest.mark.parametrize("delivery", [Delivery.EXPRESS, Delivery.RECOVERABLE])
def test_a_peer_leaves_a_limited_number_of_gaps_in_all_its_streams(delivery: Delivery) -> None:
    """A packet that would make one more is not taken; one that fills a gap is, and the peer goes on."""
    world, node, evil = victim(SMALL)
    for number in range(2, 2_002, 2):
        evil.frames(evil.message(number, stream=1 + number // 2 % 4, previous=0, delivery=delivery))
        if number % 100 == 0:
            node.read_all("q")
    world.run(SECOND)
    early = node.live.inbox.admission.early
    assert 32 * 1024 < early.of(ORIGIN) <= 65 * 1024
    before = len(node.read_all("q"))
    assert before <= 65 * 1024 // GAP_BYTES
    evil.frames(evil.message(1, stream=1, previous=0, delivery=delivery))
    world.run(SECOND)
    assert len(node.read_all("q")) == before + 1
    still_works(world, node)


def test_a_restart_remembers_what_gaps_cost() -> None:
    """They are on the disk, and in memory again."""
    world, node, evil = victim(SMALL)
    for number in range(2, 202, 2):
        evil.frames(evil.message(number, previous=0, delivery=Delivery.RECOVERABLE))
    world.run(SECOND)
    before = node.live.inbox.admission.early.of(ORIGIN)
    node.restart()
    assert node.live.inbox.admission.early.of(ORIGIN) == before == 100 * GAP_BYTES


def test_packets_of_one_byte_count_for_the_memory_that_they_take() -> None:
    """Held for one before them that never comes."""
    world, node, evil = victim(SMALL)
    for stream in range(1, 5):
        for number in range(2, 102):
            evil.frames(evil.message(number, stream=stream))
    world.run(SECOND)
    held = sum(stream.sequence.held for stream in node.live.inbox.order_acks.streams)
    assert 0 < held <= 65 * 1024 // HELD_BYTES
    still_works(world, node)


@pytest.mark.slow
@pytest.mark.gate
def test_a_packet_costs_the_same_however_many_gaps_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is taken, and nobody looks at all gaps for one packet."""
    _, node, evil = victim()
    for number in range(2, 4_002, 2):
        evil.frames(evil.message(number, previous=0, delivery=Delivery.EXPRESS))

    def look(_: NumberSet) -> None:
        pytest.fail("somebody looks at all gaps")

    monkeypatch.setattr(NumberSet, "ranges", property(look))
    for number in Random(1).sample(range(5_001, 9_001, 2), 100):
        evil.frames(evil.message(number, previous=2, delivery=Delivery.EXPRESS))
    assert len(node.read_all("q")) == 2_000 + 100
