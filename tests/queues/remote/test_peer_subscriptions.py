"""What a hostile peer may try with subscriptions, and what an operator sees of it."""

import json
from dataclasses import replace

import pytest

from tests.queues.hubs import Away, HubWorld
from tests.queues.relays import ALL, Relays, post
from tests.queues.world import SimNode, judged
from tests.sure import sure
from triack.base.delivery import Delivery
from triack.base.peers import Peer
from triack.base.reasons import DropReason, RefusalReason, Trouble
from triack.base.units import SECOND
from triack.queues.messages import Outgoing
from triack.queues.remote.remote_subscriptions import RemoteState
from triack.queues.remote.requests import Live, Unsubscribe
from triack.stats.topic_stats import gather_remote
from triack.stats.troubles import TroubleStats, find_troubles


@pytest.mark.parametrize("body", [b"{", b"\xff" * 50, json.dumps({"do": "subscribe"}).encode(), b"[" * 10_000])
def test_a_request_that_cannot_be_read_is_counted_and_taken(body: bytes) -> None:
    it = HubWorld("sub")
    it.nodes["sub"].send(it.hub, "$subscriptions", body)
    it.run()
    assert it.hub.live.drops[DropReason.BAD_REQUEST] == 1
    assert it.hub.length("$subscriptions") == 0


@pytest.mark.parametrize("pattern", ["", "#", "*.x", "Games..x", "Games.#.x", "Games.\x00"])
def test_a_pattern_that_is_none_is_refused(pattern: str) -> None:
    it = HubWorld("sub")
    away = it.begun("sub", pattern)
    assert away.state is RemoteState.OVER
    assert it.hub.live.topics.subscriptions == {}
    assert it.hub.live.drops[DropReason.SUBSCRIPTION_REFUSED] == 1


def test_a_node_that_may_not_subscribe_cannot_even_ask() -> None:
    """Its own subscriptions end; no queue is made for its requests."""
    it = HubWorld("sub")
    it.allow("sub")
    away = it.begun(durable=None)
    assert away.state is RemoteState.OVER
    assert "$subscriptions" not in it.hub.live.queues.mailboxes


def test_an_answer_that_nobody_asked_for_changes_nothing() -> None:
    it = HubWorld("sub", "evil")
    away = it.away("sub")
    found = away.begin()
    it.run()
    told = {"do": "ended", "name": "audit", "number": found.ask.number, "reason": "", "why": ""}
    it.nodes["evil"].send(it.nodes["sub"], "$subscriptions", json.dumps(told).encode())
    it.run()
    assert away.state is RemoteState.LIVE


class Ways:
    """A subscriber ``s`` that reaches the hub ``h`` by the relays ``g`` and ``k``, or directly.

    Another node, ``x``, reaches it by ``g`` alone.
    """

    def __init__(self, first: str, durable: str | None = "audit") -> None:
        self.net = Relays("sg gh sk kh sh xg", {"s": [("h", first)] if first != "h" else [], "x": [("h", "g")]})
        self.hub, self.world = self.net["h"], self.net.world
        for name in "sgk":
            self.know(name)
        self.away = Away(self.net["s"], "h", durable=durable)
        self.away.begin()
        self.run()
        self.sent = 0

    def know(self, name: str, *may_subscribe: str) -> None:
        peer = self.net[name].peer
        rights = may_subscribe or ("Games.#",)
        self.hub.know(replace(peer, may_relay=ALL, relays_for=ALL, may_subscribe=rights))

    def run(self, seconds: float = 5) -> None:
        self.world.run(round(seconds * SECOND))

    def go_by(self, way: str) -> None:
        self.net.reroute("s", *([("h", way)] if way != "h" else []))

    def publish(self, count: int = 10) -> None:
        engine = self.hub.live
        engine.make_queue("topic:Games")
        outgoing = engine.outgoing_stream("", "topic:Games", Delivery.TRANSACTIONAL)
        for _ in range(count):
            engine.submit(outgoing, Outgoing(b"%d" % self.sent, topic="A"), 3)
            self.sent += 1
        self.hub.drain()

    @property
    def titles(self) -> list[str]:
        return list(self.hub.live.topics.subscriptions)

    def all_came(self) -> bool:
        return self.away.read() == [b"%d" % number for number in range(self.sent)]


@pytest.mark.gate
@pytest.mark.parametrize("ways", ["gk", "gh", "ghk", "gkg", "hgk", "gkhg"])
@pytest.mark.parametrize("dies", [False, True])
def test_a_subscriber_is_its_node_whatever_the_way(ways: str, dies: bool) -> None:
    it = Ways(ways[0])
    it.publish()
    it.run()
    before = ways[0]
    for way in ways[1:]:
        if dies and before != "h":
            it.net[before].end()
        it.publish()
        it.run()
        it.go_by(way)
        it.publish()
        it.run(30)
        assert it.all_came()
        if dies and before != "h":
            it.net[before].start()
            it.run(30)
        it.publish()
        it.run()
        assert it.all_came()
        before = way
    it.away.unsubscribe()
    it.run()
    assert it.titles == []
    it.hub.restart()
    it.run()
    assert it.titles == []
    assert not judged(*it.world.made)


def test_a_subscription_goes_on_by_another_way_after_a_restart_of_each_end() -> None:
    it = Ways("g")
    it.publish()
    it.run()
    it.hub.restart()
    it.go_by("k")
    it.publish()
    it.run(30)
    assert it.all_came()
    (title,) = it.titles
    it.hub.restart()
    it.publish()
    it.run(30)
    assert it.all_came()
    assert it.titles == [title]


def test_a_name_that_a_relay_gives_has_no_rights_of_a_peer() -> None:
    """The hub lets ``s`` subscribe, and no relay: what ``g`` calls ``s`` proves nothing."""
    it = Ways("g")
    it.publish()
    it.run()
    it.know("s", "Games.#")
    it.know("g", "Other.#")
    it.publish()
    it.run()
    assert it.away.read() == [b"%d" % number for number in range(10)]
    other = Away(it.net["s"], "h", durable="other")
    other.begin()
    it.run()
    assert other.state is RemoteState.OVER
    it.go_by("h")  # with its key
    it.run()
    assert it.all_came()


@pytest.mark.parametrize("durable", ["audit", None])
def test_a_subscription_follows_its_node_while_the_session_before_is_not_known_to_be_dead(durable: str | None) -> None:
    """The request says the way, also that of a peer whose session with the hub is still open there."""
    it = Ways("h", durable)
    it.publish()
    it.run()
    it.world.cut(it.net["s"], it.hub)
    it.go_by("g")
    it.run(1)
    it.publish()
    it.run(60)
    assert it.all_came()


class Moved(Ways):
    """The subscriber has proved its key to the hub, and comes by ``g`` since, which may have nothing of ``Games``."""

    def __init__(self) -> None:
        super().__init__("h", durable=None)
        self.know("s", "Games.#")
        self.know("g", "Other.#")
        self.world.cut(self.net["s"], self.hub)
        self.go_by("g")
        self.run()
        self.away = Away(self.net["s"], "h")
        self.away.begin()
        self.run(100)
        self.publish()
        self.run()
        assert self.all_came()

    def change(self, name: str, *peers: Peer) -> None:
        """Let a node know these peers in the place of those that have their names or keys."""
        node, gone = self.net[name], {key for peer in peers for key in peer.keys} | {peer.name for peer in peers}
        kept = [peer for peer in node.directory if peer.name not in gone and not gone & {*peer.keys}]
        node.directory.replace([*kept, *peers])
        node.act(lambda: node.live.handle_directory_changed(self.world.now_ns))


@pytest.mark.gate
@pytest.mark.parametrize("asked", [Unsubscribe("audit", 1), Live({"audit": 1}), Live({}), None])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_node_that_a_relay_calls_as_another_one_ends_nothing_of_it(
    asked: Unsubscribe | Live | None, restarts: bool
) -> None:
    """Nor does it take it over, as a new store of that node would."""
    it = Moved()
    it.net["s"].end()
    it.change("g", replace(it.net["x"].peer, name="s", may_relay=ALL, relays_for=ALL))
    if restarts:
        it.hub.restart()
    other = Away(it.net["x"], "h")
    if asked is None:
        other.begin()
    else:
        post(it.net["x"], "h", asked.encode(), queue="$subscriptions")
    it.run(30)
    assert asked is not None or other.state is RemoteState.OVER
    it.change("g", replace(it.net["s"].peer, may_relay=ALL, relays_for=ALL))
    it.net["s"].start()
    it.publish()
    it.run(60)
    assert it.all_came()
    assert len(it.titles) == 1


@pytest.mark.gate
def test_a_relay_that_may_not_bring_a_node_any_more_gets_nothing_for_it() -> None:
    it = Moved()
    relay = replace(it.net["g"].peer, may_relay=ALL, may_subscribe=("Games.#",))
    it.change("h", replace(relay, relays_for=("other",)))
    it.publish()
    it.run(60)
    assert len(it.away.read()) == 10
    it.change("h", replace(relay, relays_for=("s",)))
    it.run(60)
    assert it.all_came()


@pytest.mark.gate
def test_a_node_that_trusts_no_key_any_more_lets_none_subscribe() -> None:
    it = Moved()
    known = list(it.hub.directory)
    it.hub.directory.replace([])
    it.hub.act(lambda: it.hub.live.handle_directory_changed(it.world.now_ns))
    it.publish()
    it.run()
    for subscription in it.hub.live.topics.subscriptions.values():
        pump = sure(it.hub.live.remote.of_peers.pump_of(subscription))
        assert not pump.is_allowed
    told = [row for row in find_troubles(it.hub.live, it.world.now_ns) if row.trouble == Trouble.MAY_NOT_SUBSCRIBE]
    assert [(row.about, "Games.#" in row.cause) for row in told] == [(title, True) for title in it.titles]
    it.change("h", *known)
    it.run(60)
    assert it.all_came()
    assert not it.hub.live.remote.of_peers.denied


@pytest.mark.gate
@pytest.mark.parametrize("restarts", [False, True])
def test_a_right_of_a_name_is_none_of_the_key_that_had_it_before(restarts: bool) -> None:
    """Whatever the relay is that brings the node now: the hub has given the name to another machine."""
    it = Moved()
    it.net["k"].end()
    it.change("h", replace(it.net["k"].peer, name="s", may_subscribe=("Games.#",)))
    if restarts:
        it.hub.restart()
    it.publish()
    it.run(60)
    other = Away(it.net["s"], "h", durable="other")
    other.begin()
    it.run(60)
    assert other.state is RemoteState.OVER
    assert len(it.away.read()) == 10
    it.change("h", replace(it.net["s"].peer, may_relay=ALL, relays_for=ALL, may_subscribe=("Games.#",)))
    it.run(60)
    assert it.all_came()


def test_of_two_nodes_with_two_keys_under_one_name_the_second_is_refused() -> None:
    """As their names are one, it would be the first that gets the answer, and the messages."""
    net = Relays("xh yh", {})
    hub, first, second = net["h"], net["x"], net["y"]
    keys = (*first.peer.keys, *second.peer.keys)
    hub.directory.replace([Peer("n", keys, may_subscribe=("Games.#",))])
    hub.act(lambda: hub.live.handle_directory_changed(net.world.now_ns))
    for durable in ("audit", None):
        asked = [Away(node, "h", durable=durable) for node in (first, second)]
        for away in asked:
            away.begin()
            net.world.run(5 * SECOND)
        assert [away.state for away in asked] == [RemoteState.LIVE, RemoteState.OVER]
        assert asked[1].found is not None
        assert asked[1].found.error is not None
        assert asked[1].found.error.reason == RefusalReason.ACCESS_DENIED
    assert hub.live.drops[DropReason.SUBSCRIPTION_REFUSED] > 0


@pytest.mark.parametrize("seal", [False, True])
def test_what_comes_unsealed_by_a_relay_has_no_rights_of_the_peer_that_seals(seal: bool) -> None:
    """The relay may have written it: it sees the id of the node whose sealed messages it passes on."""
    net = Relays("sg gh", {"s": [("h", "g")]})
    hub, node = net["h"], net["s"]
    hub.know(replace(node.peer, addresses=(), may_subscribe=("Games.#",)))
    node.know(replace(hub.peer, addresses=(), seal=seal))
    post(node, "h", b"sealed", seal=True)
    net.world.run(5 * SECOND)
    assert hub.live.inbox.sealing.sealer_of(node.live.node_id) == "s"
    away = Away(node, "h")
    away.begin()
    net.world.run(5 * SECOND)
    assert away.state is (RemoteState.LIVE if seal else RemoteState.OVER)


def troubles(node: SimNode) -> list[TroubleStats]:
    """Those of a node's own subscriptions."""
    own = (Trouble.SUBSCRIPTION_DENIED, Trouble.ANSWER_REFUSED)
    return [row for row in find_troubles(node.live, node.world.now_ns) if row.trouble in own]


@pytest.mark.parametrize("left", ["Other.#", ""])
def test_a_right_that_is_taken_back_is_a_trouble_at_the_subscriber_until_it_is_given_again(left: str) -> None:
    it = HubWorld("sub")
    away = it.begun()
    it.allow("sub", *filter(None, [left]))
    it.publish(b"1")
    it.run(20)
    (row,) = troubles(away.node)
    assert (row.trouble, row.about) == (Trouble.SUBSCRIPTION_DENIED, "audit")
    assert "sub may not subscribe to Games.# any more (access-denied)" in row.cause
    assert "--may-subscribe" in row.remedy
    assert row.since_s == pytest.approx(20, abs=1)
    (seen,) = gather_remote(away.node.live.remote.own, it.world.now_ns)
    assert (seen.state, seen.waits_for, seen.since_s) == ("live", "may_subscribe", row.since_s)
    it.allow("sub", "Games.#")
    it.settle(away)
    assert away.read() == [b"1"]
    assert troubles(away.node) == []


@pytest.mark.parametrize("left", ["Other.#", ""])
def test_it_is_known_also_after_a_restart_of_either_node(left: str) -> None:
    it = HubWorld("sub")
    away = it.begun()
    it.hub.end()
    it.allow("sub", *filter(None, [left]))
    it.hub.start()
    it.run(20)
    assert len(troubles(away.node)) == 1
    away.node.restart()
    it.run(20)
    assert len(troubles(away.node)) == 1
    it.hub.end()
    it.allow("sub", "Games.#")
    it.hub.start()
    it.publish(b"1")
    it.run(20)
    assert troubles(away.node) == []


@pytest.mark.parametrize("mended", [False, True])
def test_an_answer_that_this_node_refuses_is_named_and_asked_for_again_when_it_may_come(mended: bool) -> None:
    """The hub seals for a node that has no key of it."""
    net = Relays("sg gh", {"s": [("h", "g")]})
    hub, node = net["h"], net["s"]
    hub.know(replace(net["g"].peer, may_relay=ALL, relays_for=ALL, may_subscribe=("Games.#",)))
    hub.know(replace(node.peer, addresses=(), seal=True, may_subscribe=("Games.#",)))
    away = Away(node, "h")
    away.begin()
    net.world.run(20 * SECOND)
    assert away.state is RemoteState.ASKED
    (row,) = troubles(node)
    assert (row.trouble, row.about) == (Trouble.ANSWER_REFUSED, "audit")
    assert "(unknown-sealer)" in row.cause
    (seen,) = gather_remote(node.live.remote.own, net.world.now_ns)
    assert seen.waits_for == "answer-refused"
    if mended:
        node.know(replace(hub.peer, addresses=()))
        net.world.run(20 * SECOND)
        assert [away.state] == [RemoteState.LIVE]
        assert troubles(node) == []


def test_a_relay_that_may_not_bring_the_answer_is_named() -> None:
    net = Relays("sg gh", {"s": [("h", "g")]})
    hub, node = net["h"], net["s"]
    hub.know(replace(net["g"].peer, may_relay=ALL, relays_for=ALL, may_subscribe=("Games.#",)))
    node.know(replace(net["g"].peer, relays_for=("other",)))
    away = Away(node, "h")
    away.begin()
    net.world.run(20 * SECOND)
    (row,) = troubles(node)
    assert row.trouble == Trouble.ANSWER_REFUSED
    assert "(access-denied)" in row.cause
    assert "--relays-for" in row.remedy


def test_a_request_that_the_hub_refuses_by_its_seal_says_what_that_is() -> None:
    net = Relays("sg gh", {"s": [("h", "g")]})
    node = net["s"]
    node.know(replace(net["h"].peer, addresses=(), seal=True))
    away = Away(node, "h")
    found = away.begin()
    net.world.run(20 * SECOND)
    assert away.state is RemoteState.OVER
    assert "unknown-sealer): It was sealed with a key of no peer" in str(found.error)
