"""Large messages that never become one: begun without end, in tiny pieces, or none at all."""

from random import Random
from struct import pack as struct_pack

import pytest

from tests.queues.hostile import (
    ORIGIN,
    Hostile,
    still_works,
    victim,
)
from triack.base.commit import HEAD_BYTES
from triack.base.delivery import Delivery
from triack.base.units import SECOND
from triack.queues.mailboxes import partials
from triack.queues.mailboxes.mailbox import EXPRESS_OVERHEAD_BYTES
from triack.queues.node_settings import Limits, NodeSettings
from triack.queues.packing import PIECE_MIN_BYTES, Outgoing, pack


def test_a_large_message_that_is_none_is_a_dead_letter() -> None:
    """Each piece of it was sound. A reader of the queue gets what follows; a restart changes nothing."""
    world, node, evil = victim()
    pieces = [bytearray(packed.body) for packed in pack([Outgoing(b"x" * 3_000)], 1_000, 5, 1)[0]]
    pieces[0][HEAD_BYTES : HEAD_BYTES + 4] = b"\xff" * 4
    for number, piece in enumerate(pieces, 1):
        evil.frames(evil.message(number, body=bytes(piece)))
    evil.frames(evil.message(len(pieces) + 1))
    world.run(SECOND)
    node.restart()
    assert node.read_all("q") == [b"hello"]
    world.run(SECOND)
    assert node.length("dead-letter") == 1
    assert node.read_all("dead-letter") == [b"".join(pieces)]


def pieces_of(evil: Hostile, ordinal: int, piece_bytes: int, total_bytes: int, delivery: Delivery) -> None:
    """Send a large message but for its last piece, in pieces of that size."""
    for offset in range(0, total_bytes - piece_bytes, piece_bytes):
        body = struct_pack("!BHQQQII", 3, 0, ordinal, 1, 0, total_bytes, offset) + bytes(piece_bytes)
        evil.frames(evil.message(evil.packets + 1, previous=0, body=body, delivery=delivery))


def test_tiny_pieces_are_no_pieces() -> None:
    """Each would take a hundred times its own memory."""
    world, node, evil = victim()
    pieces_of(evil, 1, 1, 200, Delivery.EXPRESS)
    assert node.live.drops == {"bad-body": 199}
    assert node.live.inbox.admission.express.total_bytes == 0
    still_works(world, node)


@pytest.mark.slow
@pytest.mark.gate
def test_pieces_count_for_the_memory_that_they_take() -> None:
    """Express messages that are begun and never finished: at twice what a peer may have they are refused."""
    world, node, evil = victim(NodeSettings(limits=Limits(peer_memory_bytes=1024**2)))
    for ordinal in range(1, 30):
        pieces_of(evil, ordinal, PIECE_MIN_BYTES, 40 * PIECE_MIN_BYTES, Delivery.EXPRESS)
        world.run(SECOND // 100)
    taken = sum(record["count"] for record in node.log("committed"))
    assert 256 * 1024 < node.live.inbox.admission.express.of(ORIGIN) <= 600 * 1024
    rows = sum(record["last"] - record["first"] + 1 for record in node.log("committed"))
    assert taken == 0
    assert rows * (PIECE_MIN_BYTES + EXPRESS_OVERHEAD_BYTES) <= 600 * 1024
    still_works(world, node)


def test_what_is_unfinished_leaves_memory_to_what_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Durable pieces wait on the disk beyond their share; the message is whole all the same when the rest comes."""
    monkeypatch.setattr(partials, "UNFINISHED_BYTES", 10_000)
    world, node, evil = victim()
    body = Random(1).randbytes(60_000)
    packed = pack([Outgoing(body)], 1_000, 5, 1)[0]
    for number, piece in enumerate(packed[:-1], 1):
        evil.frames(evil.message(number, body=piece.body))
    world.run(SECOND)
    assert 0 < node.live.queues.mailboxes["q"].cached_bytes <= 11_000
    evil.frames(evil.message(len(packed), body=packed[-1].body))
    world.run(SECOND)
    assert node.read_all("q") == [body]
    assert node.live.queues.mailboxes["q"].cached_bytes == 0
