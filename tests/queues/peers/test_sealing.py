"""Seals between origin and destination, and the stream of order acks."""

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from proof.search.stillness import session_of
from tests.queues.hostile import ORIGIN as EVIL
from tests.queues.hostile import Hostile, victim
from tests.sure import sure
from triack.base.commit import Commit
from triack.base.delivery import Delivery
from triack.base.peers import Directory, Peer
from triack.base.ranges import NumberSet
from triack.base.reasons import RejectReason
from triack.base.units import SECOND
from triack.ordering.wire import RelayedEnd, RelayedHeader, RelayedOrderAck, RelayedReject, StoreWord
from triack.queues.messages import Passed
from triack.queues.packing import pack, unpack
from triack.queues.peers import link
from triack.queues.routes import Route, Routes
from triack.queues.streams.departing_stream import Seal
from triack.queues.streams.sealing import NODES_MAX, Refused, Sealing
from triack.session.protocol.binary import BINARY
from triack.session.protocol.frames import AckFrame, PingFrame, StoreAckFrame
from triack.transport.noise import AESGCM_SHA256, KeyPair, Seals

# What a sealed packet is bound to, and who may have sealed it: one door, without a network.

A, B, C = (bytes([it]) * 32 for it in (1, 2, 3))
ORIGIN = b"a" * 16
DELIVERY = Delivery.TRANSACTIONAL


def public(private: bytes) -> bytes:
    return KeyPair.of(private).public


def node(private: bytes, *peers: Peer, routes: tuple[Route, ...] = (), node_id: bytes = ORIGIN) -> Sealing:
    """The seals of a node that knows these peers."""
    directory = Directory(peers)
    return Sealing(
        node_id,
        Seals(lambda count: bytes(range(count)), AESGCM_SHA256, [KeyPair.of(private)]),
        directory=directory,
        routes=Routes(directory, routes),
        owner_of=lambda _: "",
        drops=Counter(),
        record=lambda *_, **__: None,
    )


def outgoing(sealing: Sealing, peer: str = "b") -> Any:
    """A stream for b, as far as sealing needs one."""
    stream: Any = SimpleNamespace(
        peer=peer, queue="q", delivery=DELIVERY, stream_number=7, sequence=SimpleNamespace(sequence=3), way=None
    )
    stream.seal = Seal()
    assert sealing.look_at(stream)
    return stream


def conversation(name: str = "r", node_id: bytes = b"r" * 16) -> Any:
    return SimpleNamespace(peer_name=name, peer_id=node_id)


def packet(sealing: Sealing, text: bytes | Passed = b"1", number: int = 9) -> RelayedHeader:
    """A packet of a, as a relay brings it."""
    body = sealing.seal(outgoing(sealing), number, number - 1, pack([text], 1_000, 1, 50)[0][0].body)
    return RelayedHeader(ORIGIN, 7, 3, number, number - 1, "q", False, body, b"r" * 8, 0, "", "a")


ALICE, BOB = Peer("a", (public(A),)), Peer("b", (public(B),))


def opened(header: RelayedHeader, delivery: Delivery = DELIVERY, *peers: Peer) -> tuple[Refused | None, RelayedHeader]:
    """What b makes of a packet."""
    door = node(B, *(peers or (ALICE,)), node_id=b"b" * 16)
    return door.open(conversation(), header, delivery, Commit()), header


def test_a_packet_opens_as_it_was_sealed() -> None:
    """What a relay may change, as it passes it on, is not bound."""
    header = packet(node(A, BOB))
    header.trace, header.left_ms, header.from_name, header.ack_requested = b"relay--5", 77, "x", True
    refused, header = opened(header)
    assert refused is None
    assert (unpack(header.body).bodies, unpack(header.body).sealed) == ((b"1",), True)


@pytest.mark.parametrize(
    ("field", "value"),
    [("origin", b"c" * 16), ("stream", 8), ("sequence", 4), ("number", 10), ("previous", 7), ("queue", "p")],
)
def test_each_field_of_the_header_is_bound(field: str, value: Any) -> None:
    header = packet(node(A, BOB))
    setattr(header, field, value)
    assert opened(header)[0] == Refused(RejectReason.BAD_SEAL)


def test_the_class_and_all_that_is_seen_of_the_body_are_bound() -> None:
    assert opened(packet(node(A, BOB)), Delivery.RECOVERABLE)[0] == Refused(RejectReason.BAD_SEAL)
    for at in range(len(packet(node(A, BOB)).body)):
        header = packet(node(A, BOB))
        header.body = header.body[:at] + bytes([header.body[at] ^ 1]) + header.body[at + 1 :]
        assert opened(header)[0] == Refused(RejectReason.BAD_SEAL)


def test_neither_a_packet_for_another_node_nor_one_with_another_publisher_opens() -> None:
    """Only a subscription takes what says who published it."""
    passed = Passed(b"x", topic="Go", publisher=b"o" * 16, ordinal=1)
    for header in (packet(node(A, Peer("b", (public(C),)))), packet(node(A, BOB), passed)):
        assert opened(header)[0] == Refused(RejectReason.BAD_SEAL)


def test_the_sealer_must_be_the_peer_that_the_origin_is() -> None:
    assert opened(packet(node(A, BOB)), DELIVERY, Peer("c", (public(C),)))[0] == Refused(
        RejectReason.UNKNOWN_SEALER, public(A)
    )
    door = node(B, ALICE, Peer("c", (public(C),)), node_id=b"b" * 16)
    commit = Commit()
    assert door.open(conversation(), packet(node(A, BOB)), DELIVERY, commit) is None
    assert door.sealer_of(ORIGIN) == "a"
    refused = door.open(conversation(), packet(node(C, BOB)), DELIVERY, Commit())
    assert refused == Refused(RejectReason.UNKNOWN_SEALER, public(C))
    direct = door.open(conversation("c", ORIGIN), packet(node(A, BOB)), DELIVERY, Commit())
    assert direct == Refused(RejectReason.UNKNOWN_SEALER, public(A))
    # And so after a restart.
    later = node(B, ALICE, Peer("c", (public(C),)), node_id=b"b" * 16)
    later.restore({key: value for key, value in commit.state.items() if value is not None})
    assert later.open(conversation(), packet(node(C, BOB)), DELIVERY, Commit()) == refused


def test_a_peer_may_exchange_its_key_and_its_node() -> None:
    door = node(B, Peer("a", (public(A), public(C))), node_id=b"b" * 16)
    assert door.open(conversation(), packet(node(A, BOB)), DELIVERY, Commit()) is None
    assert door.open(conversation(), packet(node(C, BOB)), DELIVERY, Commit()) is None
    commit = Commit()
    for number in range(NODES_MAX):
        commit = Commit()
        sealing = node(A, BOB, node_id=number.to_bytes(16))
        header = replace(packet(sealing), origin=number.to_bytes(16))
        assert door.open(conversation(), header, DELIVERY, commit) is None
    assert door.sealer_of(ORIGIN) == ""
    assert None in commit.state.values()


@pytest.mark.parametrize("name", ["origin", "stream", "sequence", "number", "by", "store", "mac"])
def test_each_field_of_an_order_ack_is_proved(name: str) -> None:
    origin, door = node(A, BOB), node(B, ALICE, node_id=b"b" * 16)
    assert door.open(conversation(), packet(origin), DELIVERY, Commit()) is None
    ack = door.prove(RelayedOrderAck(ORIGIN, 7, 3, 9, 0, b"b" * 16))
    stream = outgoing(origin)
    assert origin.believes_ack(stream, conversation(), replace(ack, hops=3), 0)
    value = getattr(ack, name)
    wrong: Any = value + 1 if isinstance(value, int) else StoreWord(1, 2, 3) if name == "store" else bytes(16)
    assert not origin.believes_ack(stream, conversation(), replace(ack, **{name: wrong}), 0)
    assert origin.believes_ack(stream, conversation("b"), replace(ack, mac=b""), 0)


def test_the_end_of_a_sealed_stream_is_proved_by_its_origin() -> None:
    origin, door = node(A, BOB), node(B, ALICE, node_id=b"b" * 16)
    assert door.open(conversation(), packet(origin), DELIVERY, Commit()) is None
    end = origin.prove_end(outgoing(origin), RelayedEnd(ORIGIN, 7, 3, 2, False, 9, b"", ORIGIN, "b"))
    assert door.believes_end(replace(end, trace=b"relay--4", final="", from_name="a"))
    for name, wrong in {"stream": 8, "sequence": 4, "since": 1, "last": 8, "mac": b""}.items():
        changed: Any = {name: wrong}
        assert not door.believes_end(replace(end, **changed))


def test_a_rejection_is_certain_only_if_its_destination_remembers_it() -> None:
    origin, door = node(A, BOB), node(B, ALICE, node_id=b"b" * 16)
    assert door.open(conversation(), packet(origin), DELIVERY, Commit()) is None
    for reason, certain in (("queue-not-found", True), ("access-denied", False)):
        word = door.prove(RelayedReject(ORIGIN, 7, 3, 9, reason, 0, b"b" * 16))
        verdict = sure(origin.judge_reject(outgoing(origin), conversation(), word, 0))
        assert (verdict.reason, verdict.certain) == (reason, certain)
        assert origin.judge_reject(outgoing(origin), conversation(), replace(word, reason="too-large"), 0) is None


def test_why_nothing_can_be_sealed() -> None:
    assert node(A, BOB).missing("b", None) == ""
    assert node(A, BOB).missing("b@hub", None) == ""
    assert node(A, BOB).missing("x@hub", None) == "it has no key of x"
    assert "nobody can have" in node(A, Peer("b", (bytes(32),))).missing("b", None)
    renamed = node(A, BOB, routes=(Route("b", "hub", rename="bb"),))
    assert renamed.missing("b", Routes(Directory([BOB]), [Route("b", "hub", rename="bb")]).way("b")) == (
        "its route calls it bb"
    )


def test_what_is_said_of_peer_and_route() -> None:
    assert not node(A, BOB).is_wanted("b")
    assert node(A, replace(BOB, seal=True)).is_wanted("b@hub")
    assert node(A, BOB, routes=(Route("b", "hub", seal=True),)).is_wanted("b")


# Answers on their way: what they refuse is passed over when the origin has them, and no sooner.


def stored(evil: Hostile) -> StoreAckFrame:
    frames = [frame for _, payload in evil.heard()[1:] for frame in BINARY.decode(payload)]
    return [frame for frame in frames if isinstance(frame, StoreAckFrame)][-1]


def test_store_acks_pass_what_is_refused_when_its_origin_knows() -> None:
    """Before, the number is a gap: nobody may take it for stored."""
    world, node, evil = victim(queues=["q"])
    evil.frames(evil.message(1, queue="q", stream=1))
    evil.frames(evil.message(1, queue="nope", stream=2))
    evil.frames(evil.message(2, queue="q", stream=1))
    world.run(SECOND)
    assert (stored(evil).cumulative, stored(evil).ranges) == (1, [(3, 3)])
    sent = session_of(node.live.handshakes.index.with_node(EVIL)[0]).window.highest_sent
    evil.frames(BINARY.encode(AckFrame.of(NumberSet(sent), 64, 0, 0)), BINARY.encode(PingFrame()))
    world.run(SECOND)
    assert (stored(evil).cumulative, stored(evil).ranges) == (3, [])


def test_an_express_packet_that_gets_no_answer_is_acknowledged_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named as refused only as long as a rejection is to follow."""
    monkeypatch.setattr(link, "REFUSING_MAX", 1)
    world, _, evil = victim(queues=["q"])
    for number in (1, 2):
        evil.frames(
            evil.message(number, previous=0, queue="nope", stream=2, delivery=Delivery.EXPRESS),
            BINARY.encode(PingFrame()),
        )
        world.run(SECOND)
    frames = [frame for _, payload in evil.heard()[1:] for frame in BINARY.decode(payload)]
    acks = [(frame.cumulative, list(frame.refused)) for frame in frames if isinstance(frame, AckFrame)]
    assert acks[-1] == (2, [(1, 1)])
