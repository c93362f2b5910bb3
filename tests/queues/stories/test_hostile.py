"""A node and a peer that means harm: it never raises, counts what it drops, and stays small."""

from functools import partial
from random import Random
from struct import pack as struct_pack

import pytest

from tests.queues.hostile import CHANNEL, ORIGIN, POLICY, Hostile, batch, mangle, open_datagram, still_works, victim
from tests.queues.world import PlainWorld, judged, numbered, two
from triack.base.ack_trigger import AckTrigger
from triack.base.datagram import Kind, read_header
from triack.base.delivery import Delivery
from triack.base.reasons import DropReason
from triack.base.units import MS, SECOND
from triack.ordering.wire import OrderAckPacket, RejectPacket, SequenceHeader
from triack.queues.messages import Passed
from triack.queues.node_settings import NodeSettings
from triack.queues.packing import pack
from triack.queues.peers.introduction import Introduction
from triack.session.protocol.binary import BINARY
from triack.session.protocol.frames import Hello, PingFrame, StoreAckFrame
from triack.session.protocol.policy import Policy


def test_noise_is_dropped_and_counted() -> None:
    """Random bytes of every length, and every truncation of a good datagram."""
    world, node, evil = victim()
    random = Random(1)
    for length in range(200):
        evil.raw(random.randbytes(length))
    good = evil.seal(Kind.DATA, BINARY.encode(PingFrame()), evil.connection_id)
    for length in range(len(good)):
        evil.raw(good[:length])
    drops, always = node.live.drops, {"too-short", "bad-tag"}
    assert drops.total() == 200 + len(good)
    assert always <= set(drops) <= always | {"bad-version", "unknown-kind"}
    still_works(world, node)


def test_a_forged_counter_before_good_datagrams_moves_nothing() -> None:
    """They come together, and seem to come from one: what cannot be opened does not say which is the newest."""
    world, node, evil = victim()
    good = [evil.seal(Kind.DATA, evil.message(number), evil.connection_id) for number in (1, 2)]
    forged = bytearray(good[0])
    forged[12:20] = (1 << 60).to_bytes(8)
    (conversation,) = node.live.handshakes.conversations.values()
    node.live.handle_datagrams([bytes(forged), *good], evil.address, world.now_ns)
    node.drain()
    assert conversation.highest_counter == read_header(good[1]).counter
    assert node.live.drops[DropReason.BAD_TAG] == 1
    world.run(SECOND)
    assert node.read_all("q") == [b"hello"] * 2


@pytest.mark.parametrize("seed", range(6))
def test_mangled_frames_with_a_good_tag_never_raise(seed: int) -> None:
    """The insecure channel has tags that anyone can make: damage below them must do no harm either."""
    world, node, evil = victim(NodeSettings(max_queues=50, max_streams=50))
    random = Random(seed)
    for _ in range(400):
        stream, sequence, number, previous = map(random.randrange, (0, 1, 5, 0), (5, 4, 2**64, 4))
        queue = random.choice(["q", "", "x" * 200, "\x00", "ä"])
        header = SequenceHeader(
            ORIGIN, stream, sequence, number, previous, queue, bool(random.randrange(2)), batch(b"a", b"b")
        )
        contents = [
            header.encode(),
            OrderAckPacket(ORIGIN, 1, 1, 2**64 - 1).encode(),
            RejectPacket(*header.named, "x").encode(),
        ]
        frame = evil.packet(random.choice(contents), random.choice(list(Delivery)))
        evil.datagram(Kind.DATA, frame if random.random() < 0.3 else mangle(frame, random), evil.connection_id)
        if random.random() < 0.2:
            world.run(20 * MS)
        if random.random() < 0.02:
            evil = Hostile(world, node, "evil", session_id=random.getrandbits(60))
    world.run(20 * SECOND)
    still_works(world, node)


@pytest.mark.parametrize("seed", range(4))
def test_mangled_datagrams_of_an_honest_pair_do_no_harm(seed: int) -> None:
    """Copies of real traffic, damaged, late and sent to the wrong node: exactly once, in order, all the same."""
    world, a, b = two(seed, make=PlainWorld)
    heard, random = list[tuple[bytes, str]](), Random(seed)

    def meddle(datagram: bytes, sender: str, to: str) -> None:
        heard.append((datagram, sender))
        for node in (a, b):
            old, old_sender = random.choice(heard)
            data = mangle(old, random) if random.random() < 0.7 else old
            world.at(random.randrange(2 * SECOND), partial(node.receive, data, old_sender))

    world.network.tap = meddle
    for at in range(0, 200, 20):
        a.send(b, "q", *numbered(at, at + 20, 200))
        b.send(a, "q", *numbered(at, at + 20, 200))
        world.run(100 * MS)
    world.network.tap = None
    assert world.run(60 * SECOND, lambda: not a.busy and not b.busy)
    assert a.read_all("q") == b.read_all("q") == numbered(0, 200, 200)


def test_a_session_of_the_past_changes_nothing() -> None:
    """All datagrams of an older session, again, in the middle of a newer one."""
    world, a, b = two(make=PlainWorld)
    old: list[bytes] = []
    world.network.tap = lambda datagram, sender, to: old.append(datagram) if to == b.address else None
    a.send(b, "q", *numbered(0, 30))
    assert world.run(5 * SECOND, lambda: not a.busy)
    world.network.tap = None
    a.restart()
    a.send(b, "q", *numbered(30, 60))
    world.run(SECOND)
    for datagram in old * 2:
        b.receive(datagram, a.address)
    world.run(30 * SECOND)
    a.send(b, "q", *numbered(60, 90))
    assert world.run(30 * SECOND, lambda: not a.busy)
    assert b.read_all("q") == numbered(0, 90)


@pytest.mark.parametrize("delivery", [Delivery.RECOVERABLE, Delivery.TRANSACTIONAL])
def test_what_comes_of_an_older_sequence_is_never_called_stored(delivery: Delivery) -> None:
    """It was never on the disk, and nobody asks any more."""
    world, node, evil = victim()
    evil.each(*(evil.message(number, sequence=sequence, delivery=delivery) for number, sequence in ((1, 5), (2, 3))))
    world.run(SECOND)
    assert node.read_all("q") == [b"hello"]
    acked = [frame for _, payload in evil.heard()[1:] for frame in BINARY.decode(payload)]
    assert max(frame.cumulative for frame in acked if isinstance(frame, StoreAckFrame)) == 1
    assert not judged(node)


@pytest.mark.parametrize("late", [False, True])
def test_what_comes_behind_its_turn_need_not_be_handed_out(*, late: bool) -> None:
    """Its sender has said that nobody wants it: that is no message which was kept from its reader."""
    world, node, evil = victim()
    evil.each(evil.message(1), evil.message(4, previous=1))
    if late:
        world.run(SECOND)
    evil.frames(evil.message(3))
    world.run(SECOND)
    assert node.read_all("q") == [b"hello"] * 2
    assert not judged(node)


@pytest.mark.parametrize("is_read", [False, True])
def test_numbers_that_nobody_could_count_hold_no_replay_up(is_read: bool) -> None:
    """A peer may say that nothing between its first packet and one far away is wanted; both are in one commit."""
    world, node, evil = victim()
    evil.each(evil.message(1), evil.message(10**17, previous=1))
    world.run(SECOND)
    node.read("q", limit=is_read)
    assert not judged(node)


@pytest.mark.parametrize("delivery", Delivery)
def test_what_cannot_be_read_accuses_nobody(delivery: Delivery) -> None:
    """It has arrived, and is acknowledged: the log says both, as replay asks for both."""
    world, node, evil = victim()
    body = SequenceHeader(ORIGIN, 1, 1, 1, 0, "q", False, b"no body").encode()
    evil.each(evil.packet(b"junk", delivery), evil.packet(body, delivery), evil.message(1, delivery=delivery))
    world.run(3_600 * SECOND)
    assert node.live.drops == {"bad-packet": 1, "bad-body": 1}
    assert not judged(node)


def test_a_run_of_packets_names_no_other_publisher() -> None:
    """Only a subscription takes what says who published it: alone or with others that follow it."""
    world, node, evil = victim()
    told = [Passed(b"x", topic="Go", publisher=b"o" * 16, ordinal=at) for at in (1, 9)]
    bodies = [it.body for it in pack(told, 1_000, 1, 1)[0]]
    evil.each(*[evil.message(at, body=body) for at, body in enumerate(bodies, 1)])
    world.run(SECOND)
    assert (node.live.drops, node.read_all("q")) == ({"bad-body": 2}, [])


@pytest.mark.parametrize("letter", ["x", "é", "\u4e2d", "\U0001f600"])
def test_large_properties_reach_the_dead_letter_queue_and_end_there(letter: str) -> None:
    """A message that came too late, with as many properties as a packet takes, is one dead letter that can be read."""
    world, node, evil = victim()
    for size_bytes in (1_000, 11_000, 16_200, 16_384, 40_000):
        text = letter * (size_bytes // len(letter.encode()))
        raw = f'{{"label":"{text}"}}'.encode()
        body = struct_pack("!BHQQQHH", 1, 1, 1, 1, 1, 1, len(raw)) + raw + b"hi"
        header = SequenceHeader(ORIGIN, 1, 1, evil.packets + 1, 0, "q", False, body)
        evil.frames(evil.packet(header.encode()))
    world.run(SECOND)
    node.read("q")
    world.run(SECOND)
    waiting = node.length("dead-letter")
    assert waiting >= 2
    assert len(node.read_all("dead-letter")) == waiting
    assert node.length("q") == 0


def test_a_node_does_not_take_its_own_connect_for_an_answer() -> None:
    """Sent back to it as an accept; the real answer still counts."""
    world, a, b = two(make=PlainWorld)
    echoes: list[bytes] = []

    def reflect(datagram: bytes, _sender: str, _to: str) -> None:
        opened = open_datagram(datagram)
        if opened.kind is Kind.CONNECT:
            echoes.append(CHANNEL.seal(Kind.ACCEPT, opened.connection_id, opened.counter, opened.payload, 0))

    world.network.tap = reflect
    a.send(b, "q", b"x")
    assert world.run(SECOND, lambda: bool(echoes))
    a.receive(echoes[0], b.address)
    assert a.live.drops == {"unexpected-accept": 1}
    assert world.run(SECOND, lambda: b.length("q") == 1)


def test_odd_hellos_are_refused_or_harmless() -> None:
    """Every field at its limits, names that are no text, and our own id."""
    world, node, _ = victim()
    top = 2**64 - 1
    limit = Policy(65_535, POLICY.session_ack, POLICY.store_ack, top, top, top, top)
    least = Policy(1, AckTrigger(delay_s=0.0), AckTrigger(delay_s=0.0), 1, 1, 1, 1)
    odd, empty = Introduction(b"n" * 16, "\U0001f600" * 80, "udp://", "\x00\n"), Introduction(b"m" * 16, "", "", "")
    hellos = [
        Hello(top, top, top, 2**32 - 1, limit, odd.encode()),
        Hello(0, 1, 0, 576, least, empty.encode()),
        Hello(5, 6, 0, 1_200, POLICY, Introduction(node.live.node_id, "me", node.address, node.address).encode()),
    ]
    for hello in hellos:
        data = BINARY.encode_hello(hello)
        for payload in (data, data[:-1], data + b"x", b""):
            node.receive(CHANNEL.seal(Kind.CONNECT, 6, 1, payload, 0), "udp://x:1")
    world.run(30 * SECOND)
    still_works(world, node)


def test_a_stream_cannot_change_its_queue_or_class() -> None:
    """That would deliver the same number twice; an express stream may, with a newer sequence: a new life."""
    world, node, evil = victim()
    evil.frames(evil.message(1))
    evil.frames(evil.message(2, queue="other"))
    header = SequenceHeader(ORIGIN, 1, 1, 3, 0, "q", False, batch(b"x"))
    evil.frames(evil.packet(header.encode(), Delivery.RECOVERABLE))
    assert node.live.drops == {"bad-packet": 2}
    for queue, sequence in (("one", 5), ("two", 5), ("two", 4), ("three", 6)):
        express = SequenceHeader(ORIGIN, 9, sequence, 1, 0, queue, False, batch(b"x"))
        evil.frames(evil.packet(express.encode(), Delivery.EXPRESS))
    world.run(SECOND)
    assert node.live.drops == {"bad-packet": 4}
    assert (node.length("one"), node.length("two"), node.length("three")) == (1, 0, 1)
