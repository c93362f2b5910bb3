"""Events about links to other nodes, until the next poll takes them."""

from collections.abc import Callable

from triack.base.news import LinkDown, LinkUp, NodeEvent, PeerSilent, PeerUnknown
from triack.base.paths import address_in
from triack.queues.peers.dialer import WaitsFor
from triack.queues.peers.link import Conversation, Link
from triack.session.protocol.states import CloseReason

_UNKNOWN = {
    WaitsFor.KEY: "this node trusts no {}, or has no key of it",
    WaitsFor.ADDRESS: "this node knows no address of {}, which does not call",
}
_UNANSWERED = (CloseReason.CONNECT_TIMEOUT, CloseReason.PATH_LOST)


class News:
    """Gathers events in their order. ``at``: the conversations whose datagrams go to an address."""

    def __init__(self, at: Callable[[str], list[Conversation]]) -> None:
        self._at = at
        self.news: list[NodeEvent] = []

    def handle_opened(self, conversation: Conversation) -> None:
        """A session is open."""
        assert conversation.peer is not None
        address = address_in(conversation.path)
        self.news.append(LinkUp(address, conversation.peer_label, conversation.peer_id.hex()))

    def look_at(self, conversation: Conversation) -> None:
        """A session's timers ran: check whether its peer still does not answer."""
        if conversation.link is not None and conversation.session.is_unanswered:
            self._be_silent(conversation.link)

    def handle_closed(self, conversation: Conversation, reason: CloseReason) -> None:
        """A session has ended, or could not be opened."""
        link = conversation.link
        if conversation.known is not None:
            address, node_id = address_in(conversation.path), conversation.peer_id.hex()
            self.news.append(LinkDown(address, conversation.peer_label, node_id, reason.value))
        elif not conversation.peer_id and link is not None and reason in _UNANSWERED:
            self._be_silent(link)

    def handle_called(self, link: Link, missing: WaitsFor | None) -> None:
        """A link needed a session; ``missing`` says why it has none, or none yet."""
        unknown = missing if missing in _UNKNOWN else None
        if unknown is not None and link.missing is not unknown:
            self.news.append(PeerUnknown(link.peer, _UNKNOWN[unknown].format(link.peer)))
        link.missing = unknown

    def handle_trouble(self, address: str, cause: str) -> None:
        """An address is unreachable: report it once until a peer answers there, and only if a link uses it."""
        for conversation in self._at(address):
            if conversation.link is not None and not conversation.is_open:
                self._be_silent(conversation.link, cause)

    def _be_silent(self, link: Link, cause: str = "") -> None:
        """A peer does not answer at its last address: report it once it was called at all of its addresses."""
        if not link.silent and link.dialer.is_last:
            link.silent = cause or f"no answer from {link.peer}"
            self.news.append(PeerSilent(link.dialer.address, link.silent))
