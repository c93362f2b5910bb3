"""What the engine has to tell about the ways to other nodes, until the next poll takes it."""

from triack.base.news import LinkDown, LinkUp, NodeEvent, PeerSilent
from triack.queues.effects import Tell
from triack.queues.link import Conversation, Link
from triack.session.states import CloseReason

__all__ = ["News"]

_UNANSWERED = (CloseReason.CONNECT_TIMEOUT, CloseReason.PATH_LOST)


class News:
    """Gathers events in the order in which they happened.

    Args:
        links: those of the node, by address.
    """

    __slots__ = ("_events", "_links")

    def __init__(self, links: dict[str, Link]) -> None:
        self._links = links
        self._events: list[NodeEvent] = []

    def handle_opened(self, conversation: Conversation) -> None:
        """A session is open."""
        assert conversation.peer is not None
        self._events.append(LinkUp(conversation.path, conversation.peer.name, conversation.peer_id.hex()))

    def look_at(self, conversation: Conversation) -> None:
        """Time has passed for a session."""
        if conversation.link is not None and conversation.session.is_unanswered:
            self._be_silent(conversation.link)

    def handle_closed(self, conversation: Conversation, reason: CloseReason) -> None:
        """A session has ended, or could not be opened."""
        link = conversation.link
        if conversation.known is not None:
            assert conversation.peer is not None
            peer = conversation.peer
            self._events.append(LinkDown(conversation.path, peer.name, peer.node_id.hex(), reason.value))
        elif not conversation.peer_id and link is not None and reason in _UNANSWERED:
            self._be_silent(link)

    def _be_silent(self, link: Link) -> None:
        self.handle_trouble(link.address, f"no answer from {link.address}")

    def handle_trouble(self, address: str, cause: str) -> None:
        """Nothing reaches an address. Told once, until somebody answers there; and not of addresses nobody wants."""
        link = self._links.get(address)
        if link is None or link.silent or (link.conversation is not None and link.conversation.is_open):
            return
        link.silent = True
        self._events.append(PeerSilent(address, cause))

    def take(self) -> list[Tell]:
        """Everything since the last call."""
        events, self._events = self._events, []
        return [Tell(event) for event in events]
