"""Mistakes of relays: ``ordering/transit.py``, ``ordering/departing.py`` and ``queues/transit/``."""

from functools import partial
from typing import Any

from proof.planted.bug import Bugs, Patch
from proof.planted.lying_relay import LIES
from proof.planted.stories import Story
from proof.search.relay import RELAY_SCOPES, RelayScope, search_relay
from triack.base.delivery import FREED_BY, Ack, Delivery, Role
from triack.base.names import StreamId
from triack.ordering.slow_start import SlowStart
from triack.ordering.transit import Taken, TransitPacket, TransitSequence
from triack.ordering.wire import RelayedPacket
from triack.queues.peers import sealing
from triack.queues.peers.link import Conversation
from triack.queues.streams import transit_stream
from triack.queues.streams.departing_stream import DepartingContext
from triack.queues.streams.transit_stream import TransitStream
from triack.queues.transit.relay_acks import RelayAcks
from triack.queues.transit.transits import Transits
from triack.tools.chaos.topologies import RELAYED_FROM

BUGS = Bugs(first=RELAYED_FROM)

STATES = 4_000
"""Each of these bugs shows within a thousand states; a third of the others are tried to their good end."""


def _search(scope: RelayScope) -> str:
    """Search every course of events at a relay, as far as its bugs need."""
    return search_relay(scope, STATES, fair_runs=STATES // 3).violation or ""


_SCOPE = next(scope for scope in RELAY_SCOPES if scope.delivery is Delivery.RECOVERABLE)
_RECOVERABLE = Story(_SCOPE.name, partial(_search, _SCOPE))
ALL = (_RECOVERABLE, LIES)


@BUGS.by_search("a relay says of unordered packets that nothing before them is wanted", _RECOVERABLE, "packet 1")
def _previous_passed_through(patch: Patch) -> None:
    """As an origin would that has freed all of these; the relay's copies of them are still in transit."""
    patch.setattr(
        TransitSequence, "previous_of", lambda self, entry: entry.previous if self.ordered else entry.number - 1
    )


@BUGS.by_seeds("a relay acknowledges duplicates by their number alone", TransitSequence, "judge")
def _by_number(judge: Any, self: TransitSequence, sequence: int, number: int, hops: int) -> Taken:
    here = sequence == self.sequence and self.find(number) is not None
    return Taken.DUPLICATE if here else judge(self, sequence, number, hops)


@BUGS.by_seeds("a relay forgets durable packets by the session ack")
def _session_ack(patch: Patch) -> None:
    for delivery in (Delivery.RECOVERABLE, Delivery.TRANSACTIONAL):
        patch.setitem(FREED_BY, (delivery, Role.TRANSIT), Ack.SESSION)


@BUGS.by_seeds("a relay does not raise the hop count")
def _hops(patch: Patch) -> None:
    def packet(number: int, previous: int, hops: int, *more: Any) -> RelayedPacket:
        return RelayedPacket(number, previous, hops - 1, *more)

    def context(stream: TransitStream, entry: TransitPacket, previous: int, hops: int) -> DepartingContext:
        return DepartingContext(stream, entry, previous, hops - 1)

    patch.setattr(transit_stream, "RelayedPacket", packet)
    patch.setattr(transit_stream, "DepartingContext", context)


@BUGS.by_seeds("a relay passes the end of a stream on before its packets")
def _end_overtakes(patch: Patch) -> None:
    patch.setattr(Transits, "_has_packets", lambda self, stream_id: False)


@BUGS.by_seeds("order acks and rejections go on to the next hop", RelayAcks, "_upstream")
def _wrong_neighbour(_right: Any, self: RelayAcks, stream: StreamId, but: Conversation | None) -> Conversation | None:
    del but
    back = self.ways.of(stream)
    return next(filter(None, map(self.open_with, () if back is None else back.downstreams)), None)


@BUGS.by_seeds("what a next hop has taken lets nothing more leave in a slow start")
def _never_faster(patch: Patch) -> None:
    patch.setattr(SlowStart, "handle_taken", lambda self, packets=1: None)


@BUGS.by_search("proofs of order acks are not checked", LIES, "let go of a message", sealing.Sealing, "_is_proved")
def _unproved(_right: Any, self: sealing.Sealing, outgoing: Any, conversation: Any, packet: Any, said: bytes) -> bool:
    """A relay may say that the destination of sealed messages has them."""
    del self, outgoing, conversation, packet, said
    return True


@BUGS.by_search("sealed packets are not bound to their sequence", LIES, "never began")
def _unbound(patch: Patch) -> None:
    bound = sealing._bound

    def loose(  # noqa: PLR0917 - as the one that it replaces
        delivery: Delivery,
        origin: bytes,
        stream: int,
        sequence: int,
        number: int,
        previous: int,
        queue: str,
        head: bytes,
    ) -> bytes:
        return bound(delivery, origin, stream, 0 * sequence, number, previous, queue, head)

    patch.setattr(sealing, "_bound", loose)
