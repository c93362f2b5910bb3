"""Mistakes of relays: ``ordering/transit.py``, ``ordering/departing.py`` and ``queues/transit/``."""

from functools import partial
from typing import Any

from proof.planted.bug import Always, Bugs, Patch
from proof.planted.circle import CIRCLE
from proof.planted.lying_relay import LIES
from proof.planted.stories import Story
from proof.search.relay import RELAY_SCOPES, RelayScope, search_relay
from triack.base.delivery import FREED_BY, Ack, Delivery, Role
from triack.base.names import StreamId
from triack.base.reasons import RejectReason
from triack.ordering.slow_start import SlowStart
from triack.ordering.transit import TransitSequence
from triack.ordering.wire import RelayedHeader, passing
from triack.queues.peers.link import Conversation
from triack.queues.streams import sealing, transit_stream
from triack.queues.streams.transit_stream import TransitStream
from triack.queues.transit import packet_classifier
from triack.queues.transit.return_routes import ReturnRoutes
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
ALL = (_RECOVERABLE, CIRCLE, LIES)


@BUGS.by_search("a relay says of unordered packets that nothing before them is wanted", _RECOVERABLE, "packet 1")
def _previous_passed_through(patch: Patch) -> None:
    """As an origin would that has freed all of these; the relay's copies of them are still in transit."""
    patch.setattr(
        TransitSequence, "previous_of", lambda self, entry: entry.previous if self.ordered else entry.number - 1
    )


BUGS.by_search("a relay acknowledges duplicates by their number alone", CIRCLE, "no relay has")(
    Always(True, TransitStream, "comes_as")
)


@BUGS.by_search(
    "a copy is a duplicate if the same neighbour brings it", CIRCLE, "no relay has", TransitStream, "comes_as"
)
def _by_neighbour(_right: Any, self: TransitStream, conversation: Conversation, header: RelayedHeader) -> bool:
    del header
    return self.came_by == conversation.link_name


@BUGS.by_seeds("a relay does not look for itself in the trace")
def _unseen(patch: Patch) -> None:
    patch.setattr(packet_classifier, "has_passed", lambda trace, node_id: False)


@BUGS.by_seeds("a relay has another name in the trace than it looks for")
def _misnamed(patch: Patch) -> None:
    patch.setattr(transit_stream, "passing", lambda trace, node_id: passing(trace, node_id[::-1]))


@BUGS.by_seeds("that a packet has met a relay again is not told", ReturnRoutes, "refuse")
def _not_told(
    refuse: Any, self: ReturnRoutes, conversation: Conversation, packet: int, header: RelayedHeader, reason: str
) -> bool:
    return reason == RejectReason.ROUTE_LOOP or refuse(self, conversation, packet, header, reason)


@BUGS.by_seeds("a relay forgets durable packets by the session ack")
def _session_ack(patch: Patch) -> None:
    for delivery in (Delivery.RECOVERABLE, Delivery.TRANSACTIONAL):
        patch.setitem(FREED_BY, (delivery, Role.TRANSIT), Ack.SESSION)


@BUGS.by_seeds("a relay does not add itself to the trace")
def _untraced(patch: Patch) -> None:
    patch.setattr(transit_stream, "passing", lambda trace, node_id: trace)


BUGS.by_seeds("a relay passes the end of a stream on before its packets")(Always(False, Transits, "_has_packets"))


@BUGS.by_seeds("order acks and rejections go on to the next hop", ReturnRoutes, "_upstream")
def _wrong_neighbour(
    _right: Any, self: ReturnRoutes, stream: StreamId, but: Conversation | None
) -> Conversation | None:
    del but
    back = self.backs.get(stream)
    return next(filter(None, map(self.open_with, () if back is None else back.downstreams)), None)


BUGS.by_seeds("what a next hop has taken lets nothing more leave in a slow start")(
    Always(None, SlowStart, "handle_taken")
)
# A relay may say that the destination of sealed messages has them.
BUGS.by_search("proofs of order acks are not checked", LIES, "let go of a message")(
    Always(True, sealing.Sealing, "_is_proved")
)


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
