"""Index of all conversations of a node: by connection, by node, by peer, by path.

Promise: a datagram, a connect or a lost path needs no search through all of them. Half-open conversations cost a peer
nothing, so their number is limited, in all and from one source. At the limit the oldest is dropped, but never one whose
initiator has sent data.
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import TypeVar

from triack.base.datagram import Channel, Header, Kind
from triack.base.errors import ProtocolError
from triack.base.reasons import DropReason
from triack.queues.peers.kept_connections import KeptConnections
from triack.queues.peers.link import Conversation

HALF_OPEN_MAX = 1_024
"""Most accepted conversations whose initiator has not sent data yet: at a thousand connects a second, each has a second
for its round trip. They need some 8 MB."""
HALF_OPEN_OF_ONE_MAX = 16
"""The same for one peer, or one address when peers have no keys. An honest peer has one, or two after a restart in the
middle of it. Connects that may be copies have as many other places."""
Source = tuple[str, bool]
"""The peer or address that has caused a conversation, and whether its connect may be a copy of an earlier one."""

_IN_CONVERSATION = frozenset({Kind.ACCEPT, Kind.RETRY, Kind.DATA, Kind.CHALLENGE, Kind.RESPONSE})
"""The kinds of datagrams that name a conversation."""

Key = TypeVar("Key", bound=Hashable)
Group = dict[Key, Conversation | dict[Conversation, None]]
"""Most groups have one member, stored without a dictionary, which would cost a quarter of a kilobyte."""


class Conversations:
    """The conversations of one node; ``by_connection``: all of them, by our connection id."""

    def __init__(self) -> None:
        self.by_connection: dict[int, Conversation] = {}
        self.kept_connections = KeptConnections()
        self._accepted: dict[tuple[bytes, int], Conversation] = {}
        self._by_node: Group[bytes] = {}
        self._by_name: Group[str] = {}
        self._by_path: Group[str] = {}
        self._by_source: Group[Source] = {}
        self._half_open: OrderedDict[Conversation, Source] = OrderedDict()

    def add(self, conversation: Conversation) -> None:
        """Add a conversation."""
        self.by_connection[conversation.session.connection_id] = conversation
        _put(self._by_path, conversation.path, conversation)

    def remove(self, conversation: Conversation) -> None:
        """Remove a conversation."""
        del self.by_connection[conversation.session.connection_id]
        self.forget_half_open(conversation)
        self._accepted.pop((conversation.peer_id, conversation.session.session_id), None)
        _take(self._by_path, conversation.path, conversation)
        if conversation.known is not None:
            self.kept_connections.remove(conversation.path)
        _take(self._by_node, conversation.peer_id, conversation)
        _take(self._by_name, conversation.link_name, conversation)

    def handle_opened(self, conversation: Conversation) -> None:
        """A conversation is open: index it by its node and name."""
        self.forget_half_open(conversation)
        self.kept_connections.add(conversation.path)
        _put(self._by_node, conversation.peer_id, conversation)
        _put(self._by_name, conversation.link_name, conversation)

    def move(self, conversation: Conversation, path: str) -> None:
        """Move a conversation to another path."""
        if path != conversation.path:
            _take(self._by_path, conversation.path, conversation)
            if conversation.known is not None:
                self.kept_connections.remove(conversation.path)
                self.kept_connections.add(path)
            conversation.path = path
            _put(self._by_path, path, conversation)

    def handle_response(self, conversation: Conversation, answer: bytes, sender: str) -> None:
        """The peer has answered a challenge from its new address. Raises ProtocolError ``unexpected-response``."""
        conversation.look_around().handle_response(answer, sender)
        self.move(conversation, sender)
        conversation.session.handle_moved()

    # ---- those that accept

    def add_accepted(self, conversation: Conversation, source: Source) -> list[Conversation]:
        """Add an accepting conversation that was added before: it is half open and found by its session from now on.

        Returns those that must be dropped: if the source has too many, its oldest, of the same node if there is one.
        """
        self._accepted[(conversation.peer_id, conversation.session.session_id)] = conversation
        crowd = _members(self._by_source, source)
        own = [one for one in crowd if one.peer_id == conversation.peer_id]
        oldest = (own or crowd)[:1] if len(crowd) >= HALF_OPEN_OF_ONE_MAX else []
        if not oldest and len(self._half_open) >= HALF_OPEN_MAX:
            oldest = [next(iter(self._half_open))]
        self._half_open[conversation] = source
        _put(self._by_source, source, conversation)
        return oldest

    def accepted(self, node_id: bytes, session_id: int) -> Conversation | None:
        """The accepting conversation for a node and session."""
        return self._accepted.get((node_id, session_id))

    def answer(self, conversation: Conversation, channel: Channel, counter: int, sender: str) -> None:
        """Answer a connect: by its channel, and to its sender's address."""
        conversation.answer(channel, counter, sender)
        self.move(conversation, sender)

    def forget_half_open(self, conversation: Conversation) -> None:
        """A conversation is no longer half open."""
        source = self._half_open.pop(conversation, None)
        if source is not None:
            _take(self._by_source, source, conversation)

    @property
    def oldest_half_open(self) -> Conversation | None:
        """The first to be dropped, or None."""
        return next(iter(self._half_open), None)

    # ---- lookups

    def with_node(self, node_id: bytes) -> list[Conversation]:
        """Those with a node that have been open."""
        return _members(self._by_node, node_id)

    def of_node(self, node_id: bytes) -> list[Conversation]:
        """All with a node, whether they have been open or not."""
        half_open = [conversation for conversation in self._half_open if conversation.peer_id == node_id]
        return self.with_node(node_id) + half_open

    def with_peer(self, name: str) -> list[Conversation]:
        """Those with a peer that have been open."""
        return _members(self._by_name, name)

    def open_with(self, name: str) -> Conversation | None:
        """An open one with a peer, by its name among links; None when there is none."""
        return next((one for one in self.with_peer(name) if one.is_open), None)

    def of(self, header: Header) -> Conversation:
        """The one that a datagram belongs to. Raises ProtocolError ``unknown-connection``, ``unknown-kind``."""
        if header.connection_id not in self.by_connection:
            raise ProtocolError(DropReason.UNKNOWN_CONNECTION)
        if header.kind not in _IN_CONVERSATION:
            raise ProtocolError(DropReason.UNKNOWN_KIND)
        return self.by_connection[header.connection_id]

    def at(self, path: str) -> list[Conversation]:
        """Those whose datagrams go to an address."""
        return _members(self._by_path, path)


def _put(group: Group[Key], key: Key, conversation: Conversation) -> None:
    present = group.setdefault(key, conversation)
    if isinstance(present, dict):
        present[conversation] = None
    elif present is not conversation:
        group[key] = {present: None, conversation: None}


def _take(group: Group[Key], key: Key, conversation: Conversation) -> None:
    present = group.get(key)
    if isinstance(present, dict):
        present.pop(conversation, None)
    if present is conversation or present == {}:
        del group[key]


def _members(group: Group[Key], key: Key) -> list[Conversation]:
    """Oldest first."""
    present = group.get(key, {})
    return list(present) if isinstance(present, dict) else [present]
