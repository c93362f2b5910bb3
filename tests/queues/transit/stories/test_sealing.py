"""Messages that relays pass on and cannot read, and relays that lie about them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from tests.queues.relays import ALL, Relays, dead, line, post
from tests.queues.world import SimNode, numbered
from tests.sure import sure
from triack.base.commit import HEAD_BYTES
from triack.base.delivery import DURABLE, Delivery
from triack.base.reasons import DropReason
from triack.base.units import MS, SECOND
from triack.ordering import wire
from triack.queues.body_head import is_sealed
from triack.queues.mailboxes.queued_packet import Lease
from triack.queues.messages import Outgoing, Properties
from triack.queues.node_settings import NodeSettings
from triack.queues.packing import pack
from triack.queues.routes import Route
from triack.stats.troubles import find_troubles
from triack.tools.sim.residents import draw_key, public_of

SECRET = b"the valve opens at nine"


def sealed_line(names: str = "arb", seed: int = 1, **at_ends: Any) -> Relays:
    """A line whose ends know each other's keys, without addresses."""
    net = line(names, seed)
    if len(names) == 2:
        return net
    first, last = names[0], names[-1]
    for one, other in ((first, last), (last, first)):
        net[one].know(replace(net[other].peer, addresses=(), **at_ends))
    return net


def bodies_at(relay: SimNode) -> list[bytes]:
    """What a relay has in memory of packets that wait there."""
    entries = [it for stream in relay.live.transits.streams for it in stream.sequence.entries.values()]
    return [it.body or b"" for it in entries]


class Read(NamedTuple):
    """A message that was read."""

    body: bytes
    properties: Properties
    sealed: bool


def read(node: SimNode, queue: str) -> list[Read]:
    """Read a queue until it is empty."""
    found: list[Read] = []

    def note(lease: Lease, _got: list[bytes]) -> None:
        content = lease.packet.open()
        properties = content.properties[lease.index] if content.properties else {}
        found.append(Read(lease.body, properties, content.sealed))

    node._note = note  # type: ignore[assignment, method-assign]  # noqa: SLF001 - it sees whole leases
    node.read_all(queue)
    return found


def lie(relay: SimNode, change: Callable[[wire.RelayedHeader], dict[str, Any]]) -> None:
    """Let a relay change fields of the packets that it passes on from now on."""
    transits = relay.live.transits
    honest = transits.contents_of

    def contents_of(stream: Any, run: Any, arrives_ns: int) -> Any:
        contents, contexts, asks = honest(stream, run, arrives_ns)
        changed = []
        for content in contents:
            header = wire.decode(content)
            assert isinstance(header, wire.RelayedHeader)
            header = replace(header, **change(header))
            packet = wire.RelayedPacket(
                header.number, header.previous, header.left_ms, header.ack_requested, header.body
            )
            changed += wire.encode_relayed_run(header, header.final, header.from_name, [packet], trace=header.trace)
        return changed, contexts, asks

    transits.contents_of = contents_of  # type: ignore[method-assign]


def say(relay: SimNode, to: str, packet: wire.RelayedOrderAck | wire.RelayedReject | wire.RelayedEnd) -> None:
    """Let a relay say something to a neighbour, whatever it knows."""
    conversation = sure(relay.live.handshakes.index.open_with(to))
    relay.act(lambda: conversation.say(packet))
    relay.world.run(SECOND)


def under_way(net: Relays, *bodies: bytes, delivery: Delivery = Delivery.TRANSACTIONAL) -> tuple[bytes, int, int, int]:
    """Sealed messages, in a packet each, that wait at the relay: origin, stream, sequence and number of the last."""
    net.world.cut(net["r"], net["b"])
    for body in bodies:
        post(net["a"], "b", body, delivery=delivery, seal=True)
        net.world.run(5 * MS)
    assert net.world.run(10 * SECOND, lambda: net.waiting("r") == len(bodies))
    (stream,) = net["r"].live.transits.streams
    return *stream.id, stream.sequence.sequence, stream.sequence.highest


def test_a_relay_sees_nothing_of_a_sealed_message() -> None:
    net = sealed_line()
    net.world.cut(net["r"], net["b"])
    outgoing = net["a"].live.outgoing_stream("b", "q", Delivery.TRANSACTIONAL, seal=True)
    net["a"].live.submit(outgoing, Outgoing(SECRET, {"label": "hush"}), len(SECRET))
    net["a"].drain()
    assert net.world.run(10 * SECOND, lambda: net.waiting("r") == 1)
    (body,) = bodies_at(net["r"])
    assert is_sealed(body)
    assert SECRET not in body
    assert b"hush" not in body
    net.world.heal()
    assert net.world.run(60 * SECOND, lambda: net.is_done("a"))
    assert net["b"].read_all("q") == [SECRET]


@pytest.mark.gate
def test_large_sealed_messages_arrive_whole() -> None:
    net = sealed_line()
    body = bytes(range(256)) * 1_200
    post(net["a"], "b", body, b"small", seal=True)
    assert net.world.run(60 * SECOND, lambda: net.is_done("a"))
    assert net["b"].read_all("q") == [body, b"small"]


def test_a_reader_is_told_that_a_message_came_sealed_and_by_whom() -> None:
    net = sealed_line()
    post(net["a"], "b", SECRET, seal=True)
    post(net["a"], "b", b"open", delivery=Delivery.RECOVERABLE)
    assert net.world.run(20 * SECOND, lambda: net.is_done("a"))
    assert {(it.body, it.sealed) for it in read(net["b"], "q")} == {(SECRET, True), (b"open", False)}
    assert net["b"].live.name_of(net["a"].live.node_id) == "a@r"


@pytest.mark.parametrize("names", ["ab", "arb"])
def test_what_is_said_of_a_peer_seals_all_messages_for_it(names: str) -> None:
    net = sealed_line(names)
    net["a"].know(replace(net["b"].peer, addresses=() if names == "arb" else net["b"].peer.addresses, seal=True))
    post(net["a"], "b", b"1")
    assert net.world.run(20 * SECOND, lambda: net.is_done("a"))
    assert [it.sealed for it in read(net["b"], "q")] == [True]


@pytest.mark.parametrize(
    "change",
    [
        lambda header: {"body": header.body[:-1] + bytes([header.body[-1] ^ 1])},
        lambda header: {"body": header.body[: HEAD_BYTES - 10] + b"\x01" + header.body[HEAD_BYTES - 9 :]},
        lambda header: {"queue": "p"},
    ],
    ids=["body", "time", "queue"],
)
def test_a_packet_that_a_relay_has_changed_goes_back_to_its_origin(change: Any) -> None:
    """Nothing of it is taken; what it said of the delivery is not certain, as a relay may be who said so."""
    net = sealed_line()
    lie(net["r"], change)
    post(net["a"], "b", SECRET, seal=True)
    assert net.world.run(60 * SECOND, lambda: net["a"].length("dead-letter") == 1)
    (letter,) = read(net["a"], "dead-letter")
    assert letter.body == SECRET
    assert letter.properties["dead_reason"] == "bad-seal"
    assert letter.properties["dead_maybe_delivered"] is True
    assert (net["b"].length("q"), net["b"].length("p")) == (0, 0)


def test_a_packet_that_a_relay_gives_another_number_is_not_taken() -> None:
    net = sealed_line()
    lie(net["r"], lambda header: {"number": header.number + 1, "previous": header.number})
    post(net["a"], "b", SECRET, seal=True)
    net.world.run(60 * SECOND)
    assert net["b"].length("q") == 0
    assert net["a"].busy
    net["r"].restart()
    assert net.world.run(7_200 * SECOND, lambda: net.is_done("a"))
    assert net["b"].read_all("q") == [SECRET]


def test_a_relay_cannot_make_the_destination_pass_over_a_packet() -> None:
    """It drops the first of two, and says that the second one needs nothing before it."""
    net = sealed_line()
    assert under_way(net, b"1" * 1_000, b"2" * 1_000)[3] == 2
    (stream,) = net["r"].live.transits.streams
    first = stream.sequence.entries[1]
    stream.sequence.remove([first])
    lie(net["r"], lambda _: {"previous": 0})
    net.world.heal()
    net.world.run(20 * SECOND)
    assert net["b"].length("q") == 0
    assert not net["a"].live.drops[DropReason.FORGED_WORD]
    assert "bad-seal" in dead(net["a"])[1]


@pytest.mark.parametrize("word", ["no proof", "wrong proof", "queue-not-found", "too-large", "not-sealed", "made-up"])
def test_a_relay_cannot_speak_for_a_destination(word: str) -> None:
    """Neither an order ack that it has invented nor a rejection frees anything."""
    net = sealed_line()
    where = under_way(net, *numbered(0, 5))
    ack = wire.RelayedOrderAck(*where, 0, net["b"].live.node_id, mac=bytes(16) if word == "wrong proof" else b"")
    say(net["r"], "a", ack if "proof" in word else wire.RelayedReject(*where, word, 0, net["r"].live.node_id))
    assert (net["a"].live.drops[DropReason.FORGED_WORD], net["a"].busy) == (1, True)
    net.world.heal()
    assert net.world.run(60 * SECOND, lambda: net.is_done("a"))
    assert (net["b"].read_all("q"), net["a"].length("dead-letter")) == (numbered(0, 5), 0)


def test_proofs_that_a_relay_strips_free_nothing() -> None:
    net = sealed_line()
    a, r = net["a"], net["r"]
    honest = r.live.transits.handle_order_ack

    def strip(conversation: Any, packet: wire.RelayedOrderAck, turn: Any) -> None:
        packet.mac = b""
        honest(conversation, packet, turn)

    r.live.transits.handle_order_ack = strip  # type: ignore[method-assign]
    post(a, "b", *numbered(0, 5), seal=True)
    assert net.world.run(20 * SECOND, lambda: a.live.drops[DropReason.FORGED_WORD] > 0)
    assert a.busy
    r.live.transits.handle_order_ack = honest  # type: ignore[method-assign]
    assert net.world.run(3_600 * SECOND, lambda: net.is_done("a"))
    assert net["b"].read_all("q") == numbered(0, 5)


def test_a_relay_cannot_deny_access_in_the_name_of_a_destination() -> None:
    """Once the origin has heard of a destination, it knows its id; in its own name, a relay may refuse."""
    net = sealed_line()
    post(net["a"], "b", b"0", seal=True)
    assert net.world.run(20 * SECOND, lambda: net.is_done("a"))
    where = under_way(net, b"1")
    say(net["r"], "a", wire.RelayedReject(*where, "access-denied", 0, net["b"].live.node_id))
    assert net["a"].live.drops[DropReason.FORGED_WORD] == 1
    assert net["a"].busy
    say(net["r"], "a", wire.RelayedReject(*where, "access-denied", 0, net["r"].live.node_id))
    (letter,) = read(net["a"], "dead-letter")
    assert letter.properties["dead_reason"] == "relay-denied"
    assert letter.properties["dead_maybe_delivered"] is True
    assert letter.properties["dead_sealed"] is True


@pytest.mark.parametrize("delivery", sorted(DURABLE))
def test_a_destination_refuses_with_a_proof(delivery: Delivery) -> None:
    """Its queue does not take the sender: the dead letter has the message if it is its origin's."""
    net = sealed_line(may_send=("other",))
    post(net["a"], "b", SECRET, delivery=delivery, seal=True)
    owner = "a" if delivery is Delivery.TRANSACTIONAL else "r"
    net.allow("b", "r")
    net["b"].know(replace(net["r"].peer, may_relay=ALL, relays_for=ALL, may_send=("other",)))
    assert net.world.run(60 * SECOND, lambda: net[owner].length("dead-letter") == 1)
    (letter,) = read(net[owner], "dead-letter")
    assert letter.properties["dead_reason"] == "access-denied"
    assert (letter.body == SECRET) is (owner == "a")
    assert ("dead_unread" in letter.properties) is (owner == "r")
    assert not net["a"].live.drops[DropReason.FORGED_WORD]


def test_a_sealer_whom_the_destination_does_not_know_is_refused_by_name() -> None:
    net = sealed_line()
    net["b"].forget("a")
    post(net["a"], "b", SECRET, seal=True)
    assert net.world.run(60 * SECOND, lambda: net["a"].length("dead-letter") == 1)
    assert dead(net["a"])[1] == {"unknown-sealer": 1}


@pytest.mark.parametrize("whose", ["a", "r"])
def test_messages_that_must_come_sealed(whose: str) -> None:
    net = sealed_line()
    peer = net["a"].peer if whose == "a" else net["r"].peer
    net["b"].know(replace(peer, may_relay=ALL, relays_for=ALL, sealed_only=True))
    post(net["a"], "b", b"open")
    post(net["a"], "b", SECRET, seal=True)
    assert net.world.run(60 * SECOND, lambda: net.is_done("a") and net["a"].length("dead-letter") == 1)
    assert dead(net["a"]) == ([b"open"], {"not-sealed": 1})
    assert net["b"].read_all("q") == [SECRET]


def test_what_a_relay_invents_is_not_taken_into_a_sealed_stream() -> None:
    net = sealed_line()
    a, r, b = net["a"], net["r"], net["b"]
    origin, stream, sequence, _ = under_way(net, b"1")
    invented = wire.RelayedPacket(1, 0, 0, False, pack([b"lie"], 1_000, 1, 1)[0][0].body)
    first = wire.SequenceHeader(origin, stream, sequence, 1, 0, "q", False, b"")
    net.world.heal()
    net.world.run(2 * SECOND, lambda: r.live.handshakes.index.open_with("b") is not None)
    (content,) = wire.encode_relayed_run(first, "", "a", [invented])
    conversation = sure(r.live.handshakes.index.open_with("b"))
    conversation.session.send_packet(Delivery.TRANSACTIONAL, content, None)
    r.drain()
    post(a, "b", b"2", seal=True)
    assert net.world.run(120 * SECOND, lambda: net.is_done("a"))
    got = read(b, "q")
    assert [it.body for it in got if it.sealed] == [b"1", b"2"]
    conversation = sure(r.live.handshakes.index.open_with("b"))
    later = wire.RelayedPacket(3, 2, 0, False, pack([b"lie"], 1_000, 9, 1)[0][0].body)
    conversation.session.send_packet(Delivery.TRANSACTIONAL, wire.encode_relayed_run(first, "", "a", [later])[0], None)
    r.drain()
    net.world.run(10 * SECOND)
    assert b.length("q") == 0


@pytest.mark.parametrize("delivery", sorted(DURABLE))
def test_a_sealed_stream_ends_when_its_origin_says_so_and_no_relay(delivery: Delivery) -> None:
    """An end that a relay has invented would have the destination refuse what comes after it."""
    net = Relays("ar rb", {"a": [("b", "r")], "b": [("a", "r")]}, settings={"a": NodeSettings(retire_after_s=4)})
    a, b = net["a"], net["b"]
    for one, other in ((a, b), (b, a)):
        one.know(replace(other.peer, addresses=()))
    post(a, "b", b"1", delivery=delivery, seal=True)
    assert net.world.run(20 * SECOND, lambda: b.length("q") == 1 and net.is_done("a"))
    (stream,) = b.live.inbox.streams
    end = wire.RelayedEnd(*stream.id, stream.begun, 1, False, 1, b"r" * 8, a.live.node_id, "", "a")
    say(net["r"], "b", end)
    assert b.live.drops[DropReason.FORGED_WORD] == 1
    post(a, "b", b"2", delivery=delivery, seal=True)
    assert net.world.run(20 * SECOND, lambda: b.length("q") == 2 and net.is_done("a"))
    assert net.world.run(60 * SECOND, lambda: not b.live.inbox.streams)


def test_a_destination_that_has_restarted_proves_what_it_says() -> None:
    """It remembers who seals for which node, and that the stream is sealed."""
    net = sealed_line()
    post(net["a"], "b", *numbered(0, 5), seal=True)
    assert net.world.run(20 * SECOND, lambda: net["b"].length("q") == 5)
    net["b"].restart()
    net["r"].restart()
    assert net.world.run(3_600 * SECOND, lambda: net.is_done("a"))
    assert not net["a"].live.drops[DropReason.FORGED_WORD]


def test_an_exchange_of_keys_loses_no_sealed_message() -> None:
    """The ends exchange theirs one after the other, as docs/keys.md says, while messages go on."""
    net = sealed_line()
    a, b = net["a"], net["b"]
    sent = 0
    for node, other in ((a, b), (b, a)):
        old = node.identity.keys
        new = draw_key(net.world, f"new {node.name}")
        both = (*old, new)
        for keys, known in ((both, both), ((new, *old), both), ((new,), both), ((new,), (new,))):
            node.identity.use_keys(keys)
            other.know(replace(node.peer, keys=tuple(map(public_of, known)), addresses=()))
            net["r"].know(replace(net.peer(node.name), keys=tuple(map(public_of, known))))
            post(a, "b", *numbered(sent, sent + 5), seal=True)
            sent += 5
            assert net.world.run(3_600 * SECOND, lambda: net.is_done("a"))
    assert b.read_all("q") == numbered(0, sent)
    assert a.length("dead-letter") == 0


def test_messages_wait_for_the_key_of_their_destination() -> None:
    net = sealed_line()
    a = net["a"]
    a.forget("b")
    post(a, "b", SECRET, seal=True)
    net.world.run(5 * SECOND)
    assert net.waiting("r") == 0
    (trouble,) = [it for it in find_troubles(a.live, net.world.now_ns) if it.trouble == "cannot-seal"]
    assert trouble.about == "b"
    a.know(replace(net["b"].peer, addresses=()))
    assert net.world.run(20 * SECOND, lambda: net.is_done("a"))
    assert net["b"].read_all("q") == [SECRET]


def test_a_relay_does_not_pass_sealed_messages_on_under_another_name() -> None:
    net = sealed_line("arsb")
    r = net["r"]
    r.routes = (Route("b", "s", rename="c"),)
    r.act(lambda: r.live.set_routes(r.routes, net.world.now_ns))
    post(net["a"], "b", SECRET, seal=True)
    assert net.world.run(20 * SECOND, lambda: net["a"].length("dead-letter") == 1)
    assert dead(net["a"]) == ([SECRET], {"renamed": 1})


@pytest.mark.gate
def test_a_changed_previous_comes_with_the_body_that_was_sealed_for_it() -> None:
    """The relay has the second of two packets when the first one expires at the origin, which sends it again."""
    net = sealed_line()
    a, r, b = net["a"], net["r"], net["b"]
    net.world.cut(r, b)
    outgoing = a.live.outgoing_stream("b", "q", Delivery.TRANSACTIONAL, seal=True)
    a.live.submit(outgoing, Outgoing(bytes(1_000), reach_by_ms=net.world.now_ms + 5_000), 1_000)
    a.drain()
    a.live.submit(outgoing, b"2" * 1_000, 1_000)
    a.drain()
    assert net.world.run(4 * SECOND, lambda: net.waiting("r") == 2)
    net.world.run(90 * SECOND)
    net.world.heal()
    assert net.world.run(7_200 * SECOND, lambda: net.is_done("a"))
    assert b.read_all("q")[-1:] == [b"2" * 1_000]
    assert "bad-seal" not in dead(a)[1]
