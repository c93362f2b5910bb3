"""Streams and queues without end: each is memory, and rows on the disk."""

import pytest

from tests.queues.hostile import (
    ORIGIN,
    batch,
    still_works,
    victim,
)
from triack.base.delivery import Delivery
from triack.base.units import MS, SECOND
from triack.ordering.wire import SequenceHeader
from triack.queues.node_settings import STREAM_BYTES, Limits, NodeSettings


def test_invented_origins_do_not_make_streams_without_end() -> None:
    """Streams are memory and rows on the disk: a session makes a limited number of them."""
    world, node, evil = victim(NodeSettings(max_streams=16))
    for number in range(500):
        evil.frames(evil.message(1, origin=number.to_bytes(16, "big")))
        if number % 50 == 0:
            world.run(20 * MS)
    world.run(SECOND)
    assert len(node.store.load(b"x" * 16, 1).positions) <= 64
    still_works(world, node)


def test_queues_do_not_grow_without_end() -> None:
    """One peer makes at most half of ``max_queues``, none with a name that is not one."""
    world, node, evil = victim(NodeSettings(max_queues=18))
    for number in range(50):
        evil.frames(evil.message(1, stream=number + 1, queue=f"q{number}"))
    for queue in ("", ".hidden", "a b", "\x00", "x" * 200):
        evil.frames(evil.message(1, stream=900 + evil.packets, queue=queue))
    world.run(SECOND)
    names = set(node.live.queues.mailboxes)
    assert len(names) == 10
    assert names - {"dead-letter"} <= {f"q{number}" for number in range(50)}


@pytest.mark.parametrize("field", ["sequence", "number"])
@pytest.mark.parametrize("delivery", list(Delivery))
@pytest.mark.parametrize("value", [2**63 - 1, 2**63, 2**64 - 1])
def test_enormous_numbers_reach_no_disk_that_cannot_hold_them(field: str, delivery: Delivery, value: int) -> None:
    """They fit on the wire, not into SQLite: the node must not die of them."""
    world, node, evil = victim()
    header = SequenceHeader(ORIGIN, 1, 1, 1, 0, "q", False, batch(b"x"))
    setattr(header, field, value)
    evil.frames(evil.packet(header.encode(), delivery))
    world.run(SECOND)
    node.read_all("q")
    node.restart()
    still_works(world, node)


def test_streams_are_a_quarter_of_what_a_peer_has_in_memory() -> None:
    """Beyond it, further ones have to wait; after a restart it is as full as it was."""
    settings = NodeSettings(limits=Limits(peer_memory_bytes=4 * 20 * STREAM_BYTES))
    world, node, evil = victim(settings)
    for stream in range(1, 31):
        evil.frames(evil.message(1, stream=stream, queue=f"q{stream}", delivery=Delivery.RECOVERABLE))
    world.run(SECOND)
    refused = [record["reason"] for record in node.log("rejected")]
    assert refused == ["held-back"] * 10
    assert len(node.live.queues.mailboxes) == 21
    node.restart()
    assert node.live.inbox.admission.streams.of(ORIGIN) == 20 * STREAM_BYTES
    still_works(world, node)
