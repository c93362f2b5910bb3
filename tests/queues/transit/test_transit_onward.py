"""What neighbours are told of packets that were passed on."""

from collections import Counter
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from tests.queues.relays import Relays, line, post
from tests.queues.transit.stories.test_ends import ended
from tests.queues.transit.stories.test_sync_links import make_sync
from tests.queues.world import numbered
from triack.base.delivery import Delivery
from triack.base.reasons import DropReason
from triack.base.units import MS, SECOND
from triack.ordering.wire import RANGES_MAX
from triack.queues.node_settings import NodeSettings
from triack.queues.transit import transit_onward
from triack.queues.transit.transit_onward import TransitOnward


def test_words_are_gathered_for_the_interval() -> None:
    """However many packets pass in it; what was told twice is told once."""
    net = line("arb")
    make_sync(net, "a")
    r = net["r"]
    post(net["a"], "b", *numbered(0, 200, 400), delivery=Delivery.RECOVERABLE)
    assert net.world.run(5 * SECOND, lambda: net["b"].length("q") == 200)
    assert net.world.run(5 * SECOND, lambda: net.is_done("a"))
    words = r.log("onward_ack_sent")
    assert len(words) <= 3
    last = max(record["number"] for record in net["b"].log("packet_received") if "number" in record)
    told = [number for word in words for first, end in word["ranges"] for number in range(first, end + 1)]
    assert sorted(told) == list(range(1, last + 1))


def test_nobody_is_told_who_does_not_wait() -> None:
    """Over asynchronous links there is no word at all."""
    net = line("arb")
    post(net["a"], "b", *numbered(0, 20), delivery=Delivery.RECOVERABLE)
    assert net.world.run(5 * SECOND, lambda: net.is_done("a"))
    net.world.run(2 * SECOND)
    assert net["r"].log("onward_ack_sent") == []


@pytest.mark.slow
@pytest.mark.gate
def test_many_gaps_are_told_in_several_words() -> None:
    """A word holds as many ranges as fit any datagram."""
    net = line("arb")
    make_sync(net, "a")
    a, r = net["a"], net["r"]
    for body in numbered(0, 200):
        post(a, "b", body, delivery=Delivery.RECOVERABLE)
        net.world.run(MS)
    assert net.world.run(20 * SECOND, lambda: net.is_done("a"))
    (stream,) = r.live.transits.streams
    stream.awaited = True
    r.live.transits.sync.onward.handle_passed(
        stream, [(number, number) for number in range(1, 201, 2)], net.world.now_ns
    )
    words = len(r.log("onward_ack_sent"))
    r.drain()
    net.world.run(3 * SECOND)
    sizes = [len(record["ranges"]) for record in r.log("onward_ack_sent")[words:]]
    assert sizes == [RANGES_MAX, 100 - RANGES_MAX]


def test_an_older_sequence_is_not_told_of_under_the_name_of_the_next() -> None:
    """A stream ends before its relay has said what it passed on, and the next one numbers its packets from 1 again."""
    net = line("arb", settings=dict.fromkeys("arb", NodeSettings(retire_after_s=0.1)))
    make_sync(net, "a")
    a, r = net["a"], net["r"]
    for body in numbered(0, 20):
        post(a, "b", body, delivery=Delivery.TRANSACTIONAL)
        net.world.run(10 * MS)
    assert net.world.run(SECOND, lambda: ended(net))
    net.world.run(100 * MS)
    post(a, "b", b"again", delivery=Delivery.TRANSACTIONAL)
    assert net.world.run(20 * SECOND, lambda: bool(r.log("onward_ack_sent")))
    assert {(word["sequence"], *map(tuple, word["ranges"])) for word in r.log("onward_ack_sent")} == {(2, (1, 1))}


def test_each_neighbour_is_told_of_what_it_has_sent_when_the_way_to_a_relay_changes() -> None:
    """Word of the first message is still due when the second comes by the other neighbour."""
    edges, by = "ar as rh sh hb", {name: [("b", "h")] for name in "rs"}
    net = Relays(edges, {"a": [("b", "r")], **by})
    make_sync(net, "r", "s")
    a, b, h = net["a"], net["b"], net["h"]
    post(a, "b", b"by r", delivery=Delivery.RECOVERABLE)
    assert net.world.run(SECOND, lambda: b.length("q") == 1 and net.waiting("h") == 0)
    net.reroute("a", ("b", "s"))
    post(a, "b", b"by s", delivery=Delivery.RECOVERABLE)
    assert net.world.run(20 * SECOND, lambda: net.is_done("a"))
    names = {net[name].live.node_id.hex(): name for name in "rs"}
    told = {(names[word["peer"]], *map(tuple, word["ranges"])) for word in h.log("onward_ack_sent")}
    assert told == {("r", (1, 1)), ("s", (2, 2))}


def test_a_neighbour_that_invents_streams_is_remembered_for_the_last_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each gets its word; of the first ones it is said again when they come again."""
    monkeypatch.setattr(transit_onward, "STREAMS_MAX", 3)
    conversation: Any = Mock(peer_id=b"e" * 16, put_control=lambda *_: True)
    records: Any = SimpleNamespace(told_ends_here=lambda *_: None)
    onward = TransitOnward(
        open_with=lambda _: None, interval_ns=lambda _: 0, records=records, drops=Counter[DropReason]()
    )
    for number in range(1_000):
        header: Any = SimpleNamespace(awaited=True, origin=b"%016d" % number, stream=1, sequence=1)
        onward.handle_arrived(conversation, header, Delivery.TRANSACTIONAL, 0)
    assert len(onward._ended[conversation]) == 3  # noqa: SLF001 - what is kept is not seen from outside
    onward.handle_session_closed(conversation)
    assert not onward._ended  # noqa: SLF001
