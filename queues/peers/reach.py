"""How peers are reached: at which addresses and by which names, and what is missing before a session with one."""

from dataclasses import dataclass

from triack.base.datagram import Channels
from triack.base.peers import Directory
from triack.queues.peers.conversations import Conversations
from triack.queues.peers.dialer import WaitsFor
from triack.queues.peers.history import Peers
from triack.queues.peers.introduction import Introduction
from triack.queues.peers.link import Link


@dataclass(eq=False, repr=False)
class Reach:
    """The names and addresses of all peers: those of the directory, and those that peers have stated."""

    channels: Channels
    directory: Directory
    peers: Peers
    conversations: Conversations

    def addresses_of(self, peer: str) -> tuple[str, ...]:
        """The addresses of a peer in the directory, or its name if that is an address."""
        known = self.directory.named(peer)
        return known.addresses if known is not None else (peer,) if "://" in peer else ()

    def ways_to(self, peer: str) -> tuple[str, ...]:
        """The same, and the address that it has stated itself."""
        addresses, learned = self.addresses_of(peer), self.peers.addresses.get(peer)
        return (*addresses, learned) if learned and learned not in addresses else addresses

    def waits_for(self, link: Link) -> WaitsFor | None:
        """What a link needs before it can send what it has; None when it needs nothing."""
        return self.waits_for_session(link) if link.is_sending else None

    def waits_for_session(self, link: Link) -> WaitsFor | None:
        """What a link needs before it has a session; None when it has one."""
        if link.conversation is not None and link.conversation.is_open:
            return None
        if link.suspended is not None:
            return WaitsFor.RESTART
        if not self.channels.knows(link.peer):
            return WaitsFor.KEY
        return WaitsFor.ANSWER if self.ways_to(link.peer) else WaitsFor.ADDRESS

    def name_by(self, peer: Introduction) -> str:
        """The name of a peer without a key, as it introduces itself; empty when that says none that leads to it."""
        if peer.address:
            there = self.directory.at(peer.address)
            return peer.address if there is None else there.name
        named = self.directory.named(peer.name)
        return named.name if named is not None and not named.addresses else ""

    def name_of(self, node_id: bytes) -> str:
        """The name by which messages go back to a node: its peer's name, or its id when it has none here."""
        there = next((one.peer_name for one in self.conversations.with_node(node_id) if one.peer_name), "")
        return self.peers.owner(node_id) or there or self.peers.name_of(node_id) or node_id.hex()

    def renamed(self, link: Link) -> str:
        """The name that the node of a link has proved since then; empty if that is the same, or unknown."""
        name = self.peers.owner(link.peer_id)
        return "" if name == link.peer else name
