"""What peers may do here, as the directory says: send to a queue, and bring messages of other nodes.

Without keys, addresses that are not in the directory may send. A node that a relay brings messages of needs the
permission, and so does the relay.
"""

from collections.abc import Callable
from dataclasses import dataclass

from triack.base.errors import ProtocolError
from triack.base.peers import Directory
from triack.base.reasons import DropReason, RejectReason
from triack.ordering.wire import RelayedEnd, RelayedHeader
from triack.queues.mailboxes.quotas import PayerOf
from triack.queues.mailboxes.resolver import local_queue
from triack.queues.mailboxes.system_queues import SystemQueue, large_target
from triack.queues.peers.link import Conversation
from triack.queues.peers.origins import Origins


@dataclass(eq=False, repr=False)
class Permissions:
    """The permissions of all peers.

    Args:
        payer_of: the payer that is charged for what a node sends.
        owner_of: the peer that has proved to be a node; empty when none has.
        origins: the nodes whose messages relays bring.
        keyless: whether this node has no keys: then nodes that are not in the directory may send.
    """

    node_id: bytes
    directory: Directory
    payer_of: PayerOf
    owner_of: Callable[[bytes], str]
    origins: Origins
    keyless: bool

    def check_brought(self, conversation: Conversation, header: RelayedHeader | RelayedEnd) -> RejectReason | None:
        """Why a neighbour may not bring a packet of another node, or None. It is for this node, or to be passed on.

        Raises ProtocolError ``foreign-origin`` if its origin is a peer of this node for which the neighbour does not
        speak.
        """
        owner, peer = self.owner_of(header.origin), self.directory.named(conversation.peer_name)
        name = owner or header.from_name
        if peer is not None and name and peer.may_bring(name):
            return None
        if owner:
            raise ProtocolError(DropReason.FOREIGN_ORIGIN, f"{conversation.peer_label} may not speak for {owner}")
        return RejectReason.ACCESS_DENIED

    def may_send(self, conversation: Conversation, queue: str, origin: bytes, *, by_relay: bool) -> bool:
        """Whether the neighbour and, if it is a peer, the origin of a stream may send to a queue."""
        queue = large_target(queue) or queue
        if not self._may_carry(conversation, queue):
            return False
        owner = self.directory.named(self.owner_of(origin)) if by_relay else None
        return owner is None or isinstance(local_queue(queue), SystemQueue) or owner.may_send_to(queue)

    def _may_carry(self, conversation: Conversation, queue: str) -> bool:
        target = local_queue(queue)
        if not target.takes_from_peers:
            return False
        peer = self.directory.named(conversation.peer_name)
        if peer is None:
            # Without keys, addresses that are not in the directory may send. A key that is not in it may not.
            return not conversation.channel.peer_key
        return isinstance(target, SystemQueue) or peer.may_send_to(queue)

    def may_continue(self, relay: str, origin: bytes, queue: str) -> bool:
        """Whether the peer that brings a large body may still send to a queue, as far as that peer is known."""
        payer = relay or self.payer_of(origin)
        if not isinstance(payer, str):
            return True
        peer = self.directory.named(payer)
        return peer is not None and peer.may_send_to(queue)

    def may_leave(self, origin: bytes, queue: str) -> bool:
        """Whether a node may have its dead letters put into a queue here: as if it, and its relay, sent them there."""
        if self.keyless or origin == self.node_id:
            return True
        brought = self.origins.of(origin)
        names = self.owner_of(origin), "" if brought is None else brought.via
        peers = [self.directory.named(name) for name in names if name]
        return bool(peers) and all(peer is not None and peer.may_send_to(queue) for peer in peers)
