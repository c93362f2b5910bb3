"""END at a relay: who may bring it, where it goes, and what is counted; ``stories.test_ends`` has whole courses."""

from dataclasses import replace

import pytest

from tests.queues.relays import Relays, line, post
from triack.base.delivery import DURABLE, Delivery
from triack.base.reasons import DropReason
from triack.base.units import SECOND
from triack.ordering.wire import HOPS_MAX, RelayedEnd, encode_relayed_end
from triack.queues.peers.control import Control
from triack.queues.streams.stream_state import END_KEY
from triack.queues.transit import transit_ends, ways_back


def joined() -> Relays:
    """A line whose sessions are open."""
    net = line("arb")
    post(net["a"], "b", b"x")
    post(net["b"], "a", b"x")
    assert net.world.run(30 * SECOND, lambda: net.is_done("a", "b"))
    return net


def say(net: Relays, sender: str, to: str, end: RelayedEnd) -> None:
    """A node says that a stream has ended."""
    node = net[sender]
    conversation = node.live.handshakes.open_with(to)
    assert conversation is not None
    conversation.put_control((end.stream, END_KEY), Control(encode_relayed_end(end)))
    node.drain()
    net.world.run(SECOND)


def end_of(net: Relays, name: str, final: str = "b", stream: int = 77) -> RelayedEnd:
    origin = net[name].live.node_id
    return RelayedEnd(origin, stream, 1_000, 1_000, False, 0, 0, origin, final)


def passed(net: Relays, kind: str) -> list[int]:
    return [it["stream"] for it in net["r"].log("control_relayed") if it["kind"] == kind]


def test_it_passes_and_its_answer_comes_back() -> None:
    net = joined()
    say(net, "a", "r", end_of(net, "a"))
    assert (passed(net, "end"), passed(net, "forgotten")) == ([77], [77])
    assert net["b"].live.inbox.ended.knows(net["a"].live.node_id)


def test_nobody_may_end_the_streams_of_others() -> None:
    """Neither by a relay that does not let it pass, nor at a destination that does not take it from there."""
    net = joined()
    net.allow("r", "a", relays_for=())
    say(net, "a", "r", end_of(net, "b", final="b"))
    assert net["r"].live.drops[DropReason.END_ASTRAY] + net["r"].live.drops[DropReason.FOREIGN_ORIGIN] == 1
    net.allow("r", "a", may_relay=())
    say(net, "a", "r", end_of(net, "a"))
    assert net["r"].live.drops[DropReason.END_ASTRAY] >= 1
    net.allow("r", "a")
    net.allow("b", "r", relays_for=())
    say(net, "a", "r", end_of(net, "a", stream=78))
    assert net["b"].live.drops[DropReason.END_ASTRAY] == 1
    assert not net["b"].live.inbox.ended.knows(net["a"].live.node_id)


def test_it_goes_neither_back_nor_round_for_good() -> None:
    net = joined()
    say(net, "a", "r", end_of(net, "a", final="a"))
    say(net, "a", "r", end_of(net, "a", final="nobody"))
    say(net, "a", "r", replace(end_of(net, "a"), hops=HOPS_MAX))
    assert (net["r"].live.drops[DropReason.END_ASTRAY], passed(net, "end")) == (3, [])


def test_only_the_next_hop_may_answer() -> None:
    net = joined()
    say(net, "a", "r", replace(end_of(net, "b"), answer=True))
    assert net["r"].live.drops[DropReason.NOT_OUR_PACKET] == 1
    assert passed(net, "forgotten") == []


@pytest.mark.parametrize("delivery", sorted(DURABLE))
@pytest.mark.parametrize("older", [0, 1])
def test_packets_whose_origin_answers_for_them_no_longer_go_with_the_end(delivery: Delivery, older: int) -> None:
    """Transactional ones have arrived, or are dead letters there: a gap before them is closed by nobody."""
    net = joined()
    net.world.cut(net["r"], net["b"])
    post(net["a"], "b", b"1", queue="other", delivery=delivery)
    assert net.world.run(10 * SECOND, lambda: net.waiting("r") == 1)
    (stream,) = [it for it in net["r"].live.transits.streams if it.sequence.entries]
    sequence = stream.sequence.sequence - older
    say(net, "a", "r", replace(end_of(net, "a", stream=stream.id.number), sequence=sequence, since=sequence))
    assert not net["r"].live.drops[DropReason.BAD_PACKET]
    goes = delivery is Delivery.TRANSACTIONAL and not older
    assert [it["reason"] for it in net["r"].log("transit_freed")].count("stale-sequence") == goes
    assert net.waiting("r") == 1 - goes
    net["r"].crash()
    net["r"].restart()
    assert net.waiting("r") == 1 - goes


def test_a_neighbour_drives_out_no_end_of_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may say of any number of streams that they have ended; the answer still finds its way to the other one."""
    monkeypatch.setattr(transit_ends, "STREAMS_MAX", 3)
    monkeypatch.setattr(ways_back, "STREAMS_MAX", 3)
    net = Relays("ar er rb", {"a": [("b", "r")], "e": [("b", "r")], "b": [("a", "r"), ("e", "r")]})
    for name in "ae":
        post(net[name], "b", b"x")
    post(net["b"], "a", b"x")
    assert net.world.run(30 * SECOND, lambda: net.is_done("a", "b", "e"))
    net["b"].end()
    say(net, "a", "r", end_of(net, "a"))
    for number in range(20):
        say(net, "e", "r", end_of(net, "e", stream=100 + number))
    assert len(net["r"].live.transits.ends.unanswered) <= 2 * 3
    net["b"].start()
    post(net["a"], "b", b"y")
    net.world.run(60 * SECOND)
    assert 77 in passed(net, "forgotten")
