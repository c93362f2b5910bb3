"""What a packet of another node is here: for a queue of this node, to be passed on, or refused."""

from dataclasses import dataclass

from triack.base.peers import Directory
from triack.base.reasons import RejectReason
from triack.ordering.wire import HOPS_MAX, RelayedEnd, RelayedHeader, has_passed
from triack.queues.body_head import is_sealed
from triack.queues.peers.link import Conversation
from triack.queues.peers.permissions import Permissions
from triack.queues.routes import Routes, Way


@dataclass(eq=False, repr=False)
class PacketClassifier:
    """Decides where relayed packets go."""

    node_id: bytes
    name: str
    directory: Directory
    routes: Routes
    permissions: Permissions

    def is_here(self, header: RelayedHeader | RelayedEnd) -> bool:
        """Whether a packet is for a queue of this node."""
        return header.final in ("", self.name)

    def judge(self, conversation: Conversation, header: RelayedHeader | RelayedEnd) -> Way | RejectReason:
        """The way of a packet, or of the end of a stream, to its destination, or why it is refused.

        Nothing is passed on for a neighbour that may not send to that destination; such a one does not learn, either,
        which destinations there are. A neighbour that brings packets of another node needs the right to speak for that,
        as the next hops go by the name that it gives.

        Raises:
            ProtocolError: ``foreign-origin``: its origin is a peer of this node for which the neighbour does not speak.
        """
        peer = self.directory.named(conversation.peer_name)
        if peer is None or not peer.may_relay_to(header.final):
            return RejectReason.ACCESS_DENIED
        if header.origin == self.node_id or has_passed(header.trace, self.node_id):
            return RejectReason.ROUTE_LOOP
        brought = header.origin != conversation.peer_id
        if brought and (reason := self.permissions.check_brought(conversation, header)) is not None:
            return reason
        return RejectReason.HOP_COUNT_EXCEEDED if header.hops >= HOPS_MAX else self._lead(conversation, header)

    def _lead(self, conversation: Conversation, header: RelayedHeader | RelayedEnd) -> Way | RejectReason:
        """The way of a packet that may be passed on, or why there is none."""
        way = None if "://" in header.final else self.routes.way(header.final)
        if way is None:
            return RejectReason.NO_ROUTE
        if way.via == conversation.link_name:
            return RejectReason.ROUTE_LOOP
        is_bound = isinstance(header, RelayedHeader) and is_sealed(header.body)
        return RejectReason.RENAMED if way.renamed and is_bound else way

    def way_of(self, final: str) -> Way | None:
        """The way to the destination of packets that are here already."""
        return self.routes.way(final)
