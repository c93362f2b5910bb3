"""Order acks and rejections on their way back."""

from collections import Counter

import pytest

from tests.queues.relays import Relays, dead, line, post
from tests.queues.stories.test_paused import pause
from tests.queues.world import SimNode, numbered
from triack.base.delivery import Delivery
from triack.base.reasons import DropReason, FreedReason, HoldReason
from triack.base.units import MS, SECOND
from triack.ordering.wire import RelayedOrderAck, RelayedReject, encode_relayed_order_ack, encode_relayed_reject
from triack.queues.peers.control import Control
from triack.queues.streams.transit_stream import TransitStream
from triack.queues.transit.transit_room import TransitRoom


def say(node: SimNode, content: bytes, key: int = 0) -> None:
    """Let a node say something to the neighbour with which it has a session."""
    conversation = next(iter(node.live.handshakes.conversations.values()))
    node.act(lambda: conversation.put_control((1, -9 - key), Control(content)))


def backlog(net: Relays) -> TransitStream:
    """Five messages of ``a`` wait at ``r``, which has said so."""
    for body in numbered(0, 5):
        post(net["a"], "b", body)
        net.world.run(100 * MS)
    assert net.world.run(30 * SECOND, lambda: bool(net["a"].log("onward_received")))
    (stream,) = net["r"].live.transits.streams
    return stream


def test_an_order_ack_that_is_lost_comes_again_with_the_next_session() -> None:
    """And not only after the resend tier of the origin, half a minute later."""
    net = line("arb")
    a, r = net["a"], net["r"]
    post(a, "b", b"1")
    assert net.world.run(5 * SECOND, lambda: bool(r.log("transit_committed")))
    net.world.cut(a, r)
    assert net.world.run(8 * SECOND, lambda: bool(r.log("control_relayed")))
    net.world.run(4 * SECOND)
    assert a.busy
    net.world.heal()
    before = net.world.now_ns
    assert net.world.run(20 * SECOND, lambda: not a.busy)
    assert net.world.now_ns - before < 15 * SECOND


def test_nobody_but_the_next_hop_speaks_about_a_stream() -> None:
    """A neighbour to which nothing of it has gone is not believed."""
    net = Relays("ar rb rc", {"a": [("b", "r")]})
    a, r, c = (net[name] for name in "arc")
    net.world.cut(r, net["b"])
    post(a, "b", *numbered(0, 5))
    c.send(r, "q", b"1")
    assert net.world.run(5 * SECOND, lambda: net.waiting("r") > 0 and not c.busy)
    origin = a.live.node_id
    say(c, encode_relayed_order_ack(RelayedOrderAck(origin, 1, 1, 1, 0, c.live.node_id)))
    say(c, encode_relayed_reject(RelayedReject(origin, 1, 1, 1, "no-route", 0, c.live.node_id)))
    net.world.run(2 * SECOND)
    assert r.live.drops[DropReason.NOT_OUR_PACKET] > 0
    assert a.busy
    assert net.waiting("r") > 0


def test_a_rejection_without_a_session_waits_for_one() -> None:
    """The origin hears of it as soon as it is back, and not only when its tier runs out."""
    net = line("arb")
    a, r = net["a"], net["r"]
    net.allow("b", "r", relays_for=())
    net.world.cut(r, net["b"])
    post(a, "b", b"1")
    assert net.world.run(5 * SECOND, lambda: net.waiting("r") == 1)
    net.world.cut(a, r)
    for conversation in list(r.live.handshakes.with_peer(a.live.node_id)):
        r.live.handle_path_lost(conversation.path, net.world.now_ns)
    net.world.heal()
    net.world.cut(a, r)
    assert net.world.run(20 * SECOND, lambda: net.waiting("r") == 0)
    net.world.heal()
    assert net.world.run(20 * SECOND, lambda: not a.busy)
    assert dead(a) == ([b"1"], {"access-denied": 1})


def test_a_newer_order_ack_takes_the_place_of_an_older() -> None:
    """An older one that comes late is not passed on."""
    net = line("arb")
    post(net["a"], "b", *numbered(0, 3))
    assert net.world.run(20 * SECOND, lambda: not net["a"].busy)
    passed = [record["number"] for record in net["r"].log("control_relayed")]
    assert passed == sorted(passed)


def test_express_and_recoverable_streams_have_no_order_acks() -> None:
    net = line("arb")
    for delivery in (Delivery.EXPRESS, Delivery.RECOVERABLE):
        post(net["a"], "b", *numbered(0, 3), delivery=delivery)
    net.world.run(20 * SECOND + MS)
    assert Counter(record["event"] for record in net["r"].log("control_relayed")) == {}


@pytest.mark.slow
@pytest.mark.gate
def test_a_circle_of_which_a_relay_starts_again_comes_to_an_end() -> None:
    """A relay that has started again does not know how far its neighbours are from the origin, until it hears of it."""
    net = Relays("ab bc cd bd", {"a": [("e", "b")], "b": [("e", "c")], "c": [("e", "d")], "d": [("e", "b")]})
    a, b = net["a"], net["b"]
    post(a, "e", b"1")
    assert net.world.run(60 * SECOND, lambda: not a.busy)
    b.restart()
    post(a, "e", b"2")
    assert net.world.run(120 * SECOND, lambda: not a.busy)


def test_a_relay_that_lacks_a_packet_does_not_say_that_the_others_wait() -> None:
    """Its destination has given that back, as one before it is missing: the origin has to close the gap."""
    net = line("arb")
    a, r, b = (net[name] for name in "arb")
    net.world.cut(r, b)
    stream, transits = backlog(net), r.live.transits
    lowest = stream.sequence.entries[1]
    turn = r.live.jobs.turn(net.world.now_ns)
    r.act(lambda: transits._let_go(stream, [lowest], FreedReason.LET_GO, turn))  # noqa: SLF001
    net.world.run(25 * SECOND)
    assert [word["waits"] for word in a.log("onward_received")] == [True, False]
    net.world.heal()
    assert net.world.run(20 * SECOND, lambda: b.length("q") == 5)
    assert b.read_all("q") == numbered(0, 5)


def test_a_relay_that_has_no_room_for_a_packet_does_not_say_that_those_behind_it_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its origin would not send that one again, and the others would wait for it."""
    net = line("arb")
    a, r, b = (net[name] for name in "arb")
    net.world.cut(r, b)
    stream, transits = backlog(net), r.live.transits
    lowest = stream.sequence.entries[1]
    r.act(lambda: transits._forget_entries(stream, [lowest], net.world.now_ns))  # noqa: SLF001 - as if it had not come
    monkeypatch.setattr(TransitRoom, "lacks", lambda *_: HoldReason.TRANSIT_FULL)
    monkeypatch.setattr(TransitRoom, "lets_ahead", lambda *_: False)
    a.crash()
    a.restart()
    net.world.run(25 * SECOND)
    assert [word["waits"] for word in a.log("onward_received")][-2:] == [True, False]
    monkeypatch.undo()
    net.world.heal()
    assert net.world.run(60 * SECOND, lambda: b.length("q") == 5)
    assert b.read_all("q") == numbered(0, 5)


def test_a_relay_behind_which_a_packet_is_missing_does_not_say_that_the_others_wait() -> None:
    """It had died before it passed on that the packet was refused; the destination asks for it again and again."""
    net = line("arb")
    a, r, b = (net[name] for name in "arb")
    post(a, "b", b"opens")
    assert net.world.run(10 * SECOND, lambda: net.is_done("a"))
    r.act(lambda: pause(r, "b/"))
    stream, transits = backlog(net), r.live.transits
    refused = stream.sequence.entries[2]
    r.act(lambda: transits._forget_entries(stream, [refused], net.world.now_ns))  # noqa: SLF001 - as after such a death
    post(b, "r", b"has a session")
    for at in range(3):
        assert [word["waits"] for word in a.log("onward_received")] == [True]
        say(b, encode_relayed_order_ack(RelayedOrderAck(*stream.id, 1, 1, 0, b.live.node_id)), key=at)
        net.world.run(SECOND)
    assert [word["waits"] for word in a.log("onward_received")] == [True, False]
    assert net.world.run(60 * SECOND, lambda: [word["waits"] for word in a.log("onward_received")][2:] == [True])
    assert min(stream.sequence.entries) == 2
