"""What a peer leaves at a node: gaps, fragments, streams, sessions and requests are limited and charged to it."""

from random import Random
from struct import pack as struct_pack

import pytest

from tests.queues.hostile import CHANNEL, ORIGIN, Hostile, answers_waiting, batch, make_hello, still_works, victim
from triack.base.commit import HEAD_BYTES
from triack.base.datagram import Kind
from triack.base.delivery import Delivery
from triack.base.ranges import NumberSet
from triack.base.reasons import DropReason
from triack.base.units import MS, SECOND
from triack.ordering.order_ack import OrderAck
from triack.ordering.wire import SequenceHeader
from triack.queues.mailboxes import partials
from triack.queues.mailboxes.mailbox import EXPRESS_OVERHEAD_BYTES
from triack.queues.messages import Outgoing
from triack.queues.node_settings import STREAM_BYTES, Limits, NodeSettings
from triack.queues.packing import PIECE_MIN_BYTES, pack
from triack.queues.peers.handshake import SESSIONS_OF_ONE_MAX
from triack.queues.peers.introduction import Introduction
from triack.queues.remote import remote_api
from triack.queues.remote.peer_subscriptions import LEASE_NS
from triack.queues.remote.requests import Subscribe, Unsubscribe
from triack.queues.streams.incoming_stream import GAP_BYTES, HELD_BYTES
from triack.session.protocol.binary import BINARY
from triack.session.protocol.frames import PingFrame

# Gaps that are never filled: what came early waits for them, and what is known of them is remembered.

SMALL = NodeSettings(limits=Limits(peer_memory_bytes=256 * 1024))
"""A peer of this node has 64 KiB for what is out of order."""


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


# Large messages that never become one: begun without end, in tiny pieces, or none at all.


def test_a_large_message_that_is_none_is_a_dead_letter() -> None:
    """Each piece of it was sound. A reader of the queue gets what follows; a restart changes nothing."""
    world, node, evil = victim()
    pieces = [bytearray(packed.body) for packed in pack([Outgoing(b"x" * 3_000, {"label": "x"})], 1_000, 5, 1)[0]]
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
        body = struct_pack("!BHQQQII", 0, 0, ordinal, 1, 0, total_bytes, offset) + bytes(piece_bytes)
        evil.frames(evil.message(evil.packets + 1, previous=0, body=body, delivery=delivery))


def test_tiny_pieces_are_no_pieces() -> None:
    """Each would take a hundred times its own memory."""
    world, node, evil = victim()
    pieces_of(evil, 1, 1, 200, Delivery.EXPRESS)
    assert node.live.drops == {"bad-body": 199}
    assert node.live.inbox.admission.express.total_bytes == 0
    still_works(world, node)


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


# Streams and queues without end: each is memory, and rows on the disk.


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
    assert node.live.inbox.admission.stream_places.account.of(ORIGIN) == 20 * STREAM_BYTES
    still_works(world, node)


@pytest.mark.gate
def test_half_open_connections_do_not_shut_out_others() -> None:
    world, node, _ = victim(NodeSettings(max_sessions=20))
    for number in range(1, 500):
        hello = make_hello(Introduction(number.to_bytes(16, "big"), "x", "", node.address), number, number)
        data = CHANNEL.seal(Kind.CONNECT, 6, 1, BINARY.encode_hello(hello), 0)
        node.live.handle_datagram(data, f"udp://x{number}:1", world.now_ns)
        node.drain()
    assert node.live.drops[DropReason.HALF_OPEN_OVERFLOW] > 400
    still_works(world, node)


def test_open_sessions_are_not_given_up_for_new_ones() -> None:
    world, node, _ = victim(NodeSettings(max_sessions=3))
    friends = [world.node(f"friend{number}") for number in range(3)]
    for number, friend in enumerate(friends):
        friend.send(node, "q", b"%d" % number)
        world.run(SECOND)
    assert node.live.drops[DropReason.TOO_MANY_SESSIONS] > 0
    assert len(node.read_all("q")) == 2
    assert not node.live.closes


def test_one_peer_has_a_limited_number_of_sessions() -> None:
    """By however many names it calls this node: the oldest ends, and says why; others get in."""
    world, node, _ = victim()
    for number in range(40):
        Hostile(world, node, f"evil{number}", session_id=100 + number, dialled=f"udp://alias{number}:1")
    open_ones = [one for one in node.live.handshakes.conversations.values() if one.is_open]
    assert len(open_ones) == SESSIONS_OF_ONE_MAX
    assert set(node.live.closes) == {"superseded"}
    still_works(world, node)


# Requests without end: each is a few bytes on the wire, and must cost no more than it brings.


@pytest.mark.gate
def test_pings_do_not_pile_up_order_acks() -> None:
    world, node, evil = victim()
    evil.frames(evil.message(1))
    world.run(SECOND)
    for _ in range(2_000):
        evil.frames(BINARY.encode(PingFrame()))
    assert answers_waiting(node) <= 2


def test_pings_in_turn_ask_each_stream_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world, node, evil = victim()
    for stream in range(1, 201):
        evil.frames(evil.message(3, stream=stream))
    world.run(SECOND)
    asked: list[OrderAck] = []
    ask = OrderAck.handle_request

    def count(ack: OrderAck) -> None:
        asked.append(ack)
        ask(ack)

    monkeypatch.setattr(OrderAck, "handle_request", count)
    evil.each(*[BINARY.encode(PingFrame())] * 500)
    assert len(asked) <= 200
    still_works(world, node)


def ask(evil: Hostile, *requests: Subscribe | Unsubscribe) -> None:
    for request in requests:
        number = evil.packets + 1
        evil.frames(evil.message(number, queue="$subscriptions", body=batch(request.encode())))
        evil.world.run(20 * MS)


def test_one_that_asks_and_takes_no_answer_leaves_a_limited_number_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Further subscriptions are as if it had not asked for them. What ends one is done all the same."""
    monkeypatch.setattr(remote_api, "ANSWERS_MAX", 5)
    _, node, evil = victim()
    node.live.make_queue("topic:t")
    wanted = [Subscribe(f"s{number}", number, "t.#", True, Delivery.TRANSACTIONAL, 9) for number in range(1, 20)]
    ask(evil, *wanted)
    (link,) = node.live.outbox.links.values()
    assert sum(stream.unacknowledged for stream in link.streams) == 5
    assert len(node.live.topics.subscriptions) == 5
    ask(evil, *[Unsubscribe(it.name, it.number) for it in wanted])
    assert not node.live.topics.subscriptions
    assert sum(stream.unacknowledged for stream in link.streams) == 5
    assert node.live.drops[DropReason.CONTROL_OVERFLOW] == 19


def test_one_that_asks_for_nothing_is_not_remembered() -> None:
    """It has ended a subscription that it never had; any number of nodes could."""
    world, node, evil = victim()
    ask(evil, Unsubscribe("s", 1))
    assert node.live.remote.of_peers.leases.earliest() is None
    ask(evil, Subscribe("s", 1, "t.#", False, Delivery.TRANSACTIONAL, 9))
    assert (node.live.remote.of_peers.leases.earliest() or 0) > world.now_ns + LEASE_NS // 2
