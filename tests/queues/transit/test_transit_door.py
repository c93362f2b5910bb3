"""What a relay does with a packet: deliver it, pass it on, or refuse it for a named reason."""

import pytest

from tests.queues.relays import Relays
from triack.base.errors import ProtocolError
from triack.base.peers import Peer
from triack.base.reasons import RejectReason
from triack.base.units import SECOND
from triack.ordering.wire import HOPS_MAX, RelayedHeader
from triack.queues.peers.link import Conversation
from triack.queues.routes import Route, Way
from triack.queues.transit.transit_door import TransitDoor


def header(origin: bytes, final: str, hops: int = 0) -> RelayedHeader:
    return RelayedHeader(origin, 1, 1, 1, 0, "q", False, b"", hops, 0, final, "" if not hops else "far")


class Gate:
    """The door of r, which has a and b as neighbours, and an open session with a."""

    def __init__(self) -> None:
        self.net = Relays("ar rb", {"r": [("up", "a"), ("down", "b")]})
        a, r = self.net["a"], self.net["r"]
        a.send(r, "q", b"1")
        assert self.net.world.run(5 * SECOND, lambda: not a.busy)
        self.origin = a.live.node_id
        self.engine = r.live
        self.conversation: Conversation = next(iter(r.live.handshakes.conversations.values()))
        self.door: TransitDoor = r.live.transits._door  # noqa: SLF001

    def judge(self, final: str, hops: int = 0, origin: bytes = b"") -> Way | RejectReason:
        return self.door.judge(self.conversation, header(origin or self.origin, final, hops))


def test_a_packet_is_here_when_it_names_nobody_else() -> None:
    """The last relay leaves the name out; others may use this node's own."""
    gate = Gate()
    finals = ("", "r", "b", "r@b")
    assert [gate.door.is_here(header(gate.origin, final)) for final in finals] == [True, True, False, False]


@pytest.mark.parametrize(
    ("final", "hops", "judged"),
    [
        ("b", 0, "b"),
        ("down", HOPS_MAX - 1, "b"),
        ("down", HOPS_MAX, RejectReason.HOP_COUNT_EXCEEDED),
        ("nowhere", 0, RejectReason.NO_ROUTE),
        ("udp://127.0.0.1:1", 0, RejectReason.NO_ROUTE),
        ("up", 0, RejectReason.ROUTE_LOOP),
        ("x@b", 0, "b"),
    ],
)
def test_each_refusal_has_its_reason(final: str, hops: int, judged: str) -> None:
    """No stranger lets this node call an address."""
    found = Gate().judge(final, hops)
    assert (found.via if isinstance(found, Way) else found) == judged


def test_what_comes_back_to_its_origin_went_in_a_circle() -> None:
    gate = Gate()
    assert gate.judge("b", 3, gate.engine.node_id) is RejectReason.ROUTE_LOOP


def test_nothing_is_passed_on_by_default() -> None:
    """A neighbour needs the right to relay, and learns nothing of routes without it."""
    gate = Gate()
    gate.net.allow("r", "a", may_relay=())
    assert {gate.judge(final) for final in ("b", "nowhere", "up")} == {RejectReason.ACCESS_DENIED}


def test_nobody_speaks_for_a_peer_without_the_right_to() -> None:
    """The node of b has proved here to be b's: a may bring its packets only if it relays for b."""
    gate = Gate()
    net = gate.net
    net["b"].send(net["r"], "q", b"1")
    assert net.world.run(5 * SECOND, lambda: not net["b"].busy)
    gate.net.allow("r", "a", relays_for=("x",))
    with pytest.raises(ProtocolError, match="foreign-origin"):
        gate.judge("down", 1, net["b"].live.node_id)
    gate.net.allow("r", "a", relays_for=("b",))
    assert isinstance(gate.judge("down", 1, net["b"].live.node_id), Way)


def test_routes_apply_as_they_are_now() -> None:
    """And rights: both can change while the node runs."""
    gate = Gate()
    gate.engine.set_routes([Route("nowhere", "b")], gate.net.world.now_ns)
    assert isinstance(gate.judge("nowhere"), Way)
    assert gate.judge("down") is RejectReason.NO_ROUTE
    assert Peer("x", may_relay=("plant-*",)).may_relay_to("plant-b@plant-c")
    assert not Peer("x", may_relay=("plant-*",)).may_relay_to("plant-b@hub")


def test_nobody_gives_others_a_name_without_the_right_to() -> None:
    """The next hops go by the name that the first relay gives: a neighbour must not invent one."""
    gate = Gate()
    invented = header(b"x" * 16, "down", 1)
    invented.from_name = "boss"
    gate.net.allow("r", "a", relays_for=("sensor-*",))
    assert gate.door.judge(gate.conversation, invented) is RejectReason.ACCESS_DENIED
    invented.from_name = "sensor-1"
    assert isinstance(gate.door.judge(gate.conversation, invented), Way)
    invented.from_name = ""
    assert gate.door.judge(gate.conversation, invented) is RejectReason.ACCESS_DENIED
