"""Streams in transit whose links are synchronous: what a change of mode does with what is here."""

from dataclasses import replace

from tests.queues.relays import Relays, line, post
from tests.queues.transit.stories.test_sync_links import make_sync
from tests.queues.world import numbered
from triack.base.delivery import Ack, Delivery
from triack.base.units import SECOND
from triack.ordering.wire import OnwardAckPacket


def test_routes_make_a_link_synchronous_and_asynchronous_again() -> None:
    """What is here waits for the other word from then on; asynchronous, it leaves as soon as the next hop has it."""
    net = line("arsb")
    r = net["r"]
    net["b"].crash()
    make_sync(net, "r")
    post(net["a"], "b", *numbered(0, 5), delivery=Delivery.RECOVERABLE)
    assert net.world.run(5 * SECOND, lambda: net.waiting("s") == 1)
    net.world.run(SECOND)
    (stream,) = r.live.transits.streams
    assert (stream.sequence.freed_by, net.waiting("r")) == (Ack.ONWARD, 1)
    r.routes = tuple(replace(it, link="async", downgrade_after_s=None) for it in r.routes)
    r.act(lambda: r.live.set_routes(r.routes, net.world.now_ns))
    assert net.world.run(5 * SECOND, lambda: not net.waiting("r"))
    assert stream.sequence.freed_by is Ack.STORE
    net["b"].start()
    assert net.world.run(30 * SECOND, lambda: net.is_done("a"))
    assert net["b"].read_all("q") == numbered(0, 5)


def test_transactional_packets_leave_a_relay_with_the_store_ack() -> None:
    """Their origin has them in any case; it hears that they were passed on when they were."""
    net = line("arsb")
    make_sync(net, "a", "r", interval_s=0.1)
    net["b"].crash()
    post(net["a"], "b", *numbered(0, 5))
    assert net.world.run(5 * SECOND, lambda: net.waiting("s") == 1 and not net.waiting("r"))
    net.world.run(2 * SECOND)
    assert net["a"].log("onward_ack_received") == []
    net["b"].start()
    assert net.world.run(30 * SECOND, lambda: bool(net["a"].log("onward_ack_received")))


def test_a_word_about_what_nobody_awaits_goes_no_further() -> None:
    """In a circle of relays it would go round without end."""
    net = line("arsb")
    make_sync(net, "a", "r", interval_s=0.1)
    post(net["a"], "b", b"m")
    assert net.world.run(10 * SECOND, lambda: bool(net["r"].log("onward_ack_sent")))
    r = net["r"].live
    (stream,) = r.transits.streams
    conversation = r.outbox.links["s"].conversation
    assert conversation is not None
    again = OnwardAckPacket(*stream.id, stream.sequence.sequence, 99, False, [(1, 1)])
    net["r"].act(lambda: r.transits.sync.handle_onward_ack(stream, conversation, again, r.jobs.turn(net.world.now_ns)))
    net.world.run(SECOND)
    assert len(net["r"].log("onward_ack_received")) == 2
    assert len(net["r"].log("onward_ack_sent")) == 1


def hear(net: Relays, name: str, number: int) -> None:
    """A node hears from the next hop that a packet was passed on."""
    node = net[name].live
    (stream,) = node.transits.streams
    conversation = node.outbox.links[stream.way.via if stream.way else ""].conversation
    assert conversation is not None
    word = OnwardAckPacket(*stream.id, stream.sequence.sequence, 99, False, [(number, number)])
    turn = node.jobs.turn(net.world.now_ns)
    net[name].act(lambda: node.transits.sync.handle_onward_ack(stream, conversation, word, turn))


def opened() -> Relays:
    """Four nodes in a line, with a message that ``s`` may have, and cannot acknowledge to ``r``."""
    net = line("arsb")
    make_sync(net, "a", "r", interval_s=0.1)
    post(net["a"], "b", b"opens", delivery=Delivery.RECOVERABLE)
    assert net.world.run(10 * SECOND, lambda: net.is_done("a"))
    net.world.cut(net["s"], net["r"], both=False)
    post(net["a"], "b", b"m", delivery=Delivery.RECOVERABLE)
    assert net.world.run(SECOND, lambda: len(net["r"].log("transit_committed")) == 2)
    return net


def test_a_packet_that_a_word_does_not_free_is_awaited_as_before() -> None:
    """In a circle of relays the word is about another copy. Were it not awaited, its link would stay synchronous."""
    net = opened()
    hear(net, "r", 2)
    assert net.world.run(15 * SECOND, lambda: bool(net["r"].log("link_downgraded")))
    assert net.waiting("r") == 1


def test_a_packet_is_awaited_no_longer_when_its_store_ack_comes_after_the_word() -> None:
    """No other word follows; and the neighbour hears of it then."""
    net = opened()
    hear(net, "r", 2)
    net.world.run(SECOND)
    assert net["r"].log("onward_ack_sent")[-1]["ranges"] == [[1, 1]]
    net.world.heal()
    assert net.world.run(5 * SECOND, lambda: net.is_done("a"))
    assert net["r"].log("onward_ack_sent")[-1]["ranges"] == [[2, 2]]
    net.world.run(10 * SECOND)
    assert net["r"].log("link_downgraded") == []


def test_a_record_names_the_session_that_has_carried_what_is_freed() -> None:
    """When both ends have called, the word about it may come by another session."""
    net = line("arsb")
    net["b"].crash()
    make_sync(net, "r")
    post(net["a"], "b", b"m", delivery=Delivery.RECOVERABLE)
    assert net.world.run(5 * SECOND, lambda: net.waiting("s") == 1)
    net.world.run(SECOND)
    r = net["r"].live
    (stream,) = r.transits.streams
    carrier = r.outbox.links["s"].conversation
    (other,) = (it for it in r.handshakes.conversations.values() if it is not carrier)
    word = OnwardAckPacket(*stream.id, stream.sequence.sequence, 99, True, [])
    net["r"].act(lambda: r.transits.sync.handle_onward_ack(stream, other, word, r.jobs.turn(net.world.now_ns)))
    (freed,) = net["r"].log("transit_freed")
    assert carrier is not None
    assert (freed["reason"], freed["session"]) == ("store-ack", carrier.label)
