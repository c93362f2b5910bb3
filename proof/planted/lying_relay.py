"""A relay between two nodes that lies about sealed messages: in a small world of virtual time."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from proof.planted.stories import Story
from triack.base.delivery import Delivery
from triack.base.peers import Directory, Peer
from triack.base.units import SECOND
from triack.ordering import wire
from triack.queues.routes import Route
from triack.tools.sim.host import SimHost
from triack.tools.sim.network import Network
from triack.tools.sim.residents import draw_key
from triack.tools.sim.world import World

ALL = ("*",)


class _Line(NamedTuple):
    """Origin, relay and destination; the destination is not started yet."""

    world: World
    origin: SimHost
    relay: SimHost
    destination: SimHost


def _known(host: SimHost) -> Peer:
    return replace(host.peer, may_relay=ALL, relays_for=ALL)


@contextmanager
def _line() -> Iterator[_Line]:
    world = World(0)
    network = Network(world)
    a, r, b = (SimHost(world, network, it, f"udp://{it}:1", keys=(draw_key(world, it),)) for it in "arb")
    a.identity.directory = Directory([_known(r), replace(b.peer, addresses=())])
    b.identity.directory = Directory([_known(r), replace(a.peer, addresses=())])
    r.identity.directory = Directory([_known(a), _known(b)])
    a.routes, b.routes = (Route("b", "r"),), (Route("a", "r"),)
    try:
        a.start()
        r.start()
        yield _Line(world, a, r, b)
    finally:
        for host in (a, r, b):
            if host.engine is not None:
                host.end()
            host.disk.close()


def _run() -> str:
    """The relay says that a destination has what it never got, and then gives a packet another sequence."""
    with _line() as line:
        outgoing = line.origin.live.outgoing_stream("b", "q", Delivery.TRANSACTIONAL, seal=True)
        line.origin.live.submit(outgoing, b"sealed", 6)
        line.origin.drain()
        line.world.run(5 * SECOND)
        (stream,) = line.relay.live.transits.streams
        neighbour = line.relay.live.handshakes.index.open_with("a")
        if neighbour is None or stream.sequence.is_empty:
            return "nothing waits at the relay"
        word = wire.RelayedOrderAck(*stream.id, stream.sequence.sequence, 1, 0, b"b" * 16, mac=bytes(wire.MAC_BYTES))
        neighbour.say(word)
        line.relay.drain()
        line.world.run(5 * SECOND)
        if not outgoing.busy:
            return "an origin has let go of a message that its destination never got"
        _renumber(line.relay)
        line.destination.start()
        line.world.run(60 * SECOND)
        length = line.destination.live.make_queue("q").length
        return f"{length} packets of a sequence that their origin never began were taken" if length else ""


def _renumber(relay: SimHost) -> None:
    """Let a relay pass packets on in the sequence after theirs."""
    transits: Any = relay.live.transits
    honest = transits.contents_of

    def contents_of(stream: Any, run: Any, arrives_ns: int) -> Any:
        contents, contexts, asks = honest(stream, run, arrives_ns)
        return [_in_next_sequence(content) for content in contents], contexts, asks

    transits.contents_of = contents_of


def _in_next_sequence(content: bytes) -> bytes:
    header = wire.decode(content)
    assert isinstance(header, wire.RelayedHeader)
    header.sequence += 1
    packet = wire.RelayedPacket(header.number, header.previous, header.left_ms, header.ack_requested, header.body)
    return wire.encode_relayed_run(header, header.final, header.from_name, [packet], trace=header.trace)[0]


LIES = Story("a relay that lies about sealed messages", _run)
