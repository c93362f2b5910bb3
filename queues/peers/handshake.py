"""How conversations begin, and with which peers none may begin: those whose store, or ours, was rolled back.

    CONNECT   where my store is, and what I remember of yours   --->  is that in my history?
    is that in my history?   <---   where my store is, what I remember of yours, and what I have checked   ACCEPT
    open; the first datagram                                    --->  open

A node that dials an address for the first time does not know which node will answer. If the accept names a node that it
remembers, it connects once more with what it remembers, and opens when that was checked. Otherwise this costs no more
round trips.

Only a node itself can find that something is not in its history. It then suspends the peer and tells it: an acceptor by
refusing every connect, an initiator by connecting until it is refused. A suspended peer gets nothing more; the rest of
the node continues, as a peer may lie. An initiator's claim of a rollback counts only if it knows the id of our present
start, which a late copy of an older connect does not.

A connect that may be a copy (``freshness``) is answered only after its sender has proved its address, and displaces no
others: a replay has no effect on an honest peer.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from triack.base.commit import Commit, StoreContent
from triack.base.datagram import Channel, Channels, Header, Kind
from triack.base.errors import ProtocolError
from triack.base.paths import address_in
from triack.base.peers import Directory
from triack.base.reasons import DeadReason, DropReason
from triack.base.session_log import Record
from triack.ordering.order_ack import AckWait
from triack.queues.node_settings import NodeSettings, store_survives
from triack.queues.peers.conversations import Conversations
from triack.queues.peers.freshness import Freshness, Moment
from triack.queues.peers.history import History, Peers, covers
from triack.queues.peers.introduction import HistoryPoint, Introduction, RolledBack, StreamPosition
from triack.queues.peers.link import Conversation, Link, Links
from triack.queues.peers.reach import Reach
from triack.queues.peers.relayed_histories import RelayedHistories
from triack.queues.peers.session_settings import SessionMaker
from triack.queues.peers.suspended_peers import SuspendedPeers
from triack.session.protocol.binary import BINARY
from triack.session.protocol.codec import Codec
from triack.session.protocol.frames import Hello
from triack.session.protocol.states import CloseReason, SessionState

if TYPE_CHECKING:
    from random import Random

SESSIONS_OF_ONE_MAX = 8
"""Open sessions of one peer: it needs one, two when both ends connect at once, and some while it moves or restarts."""


class Connect(NamedTuple):
    """A connect that has arrived; ``name`` is this node's name for its sender, ``repeats`` whether it may be a copy."""

    hello: Hello
    peer: Introduction
    name: str
    channel: Channel
    counter: int
    sender: str
    repeats: bool


class Handshakes:
    """All conversations of a node, from connect to open.

    Args:
        address: where the node listens, empty when it does not.
        on_served: called when a link gets a session that its peer has opened.
        give_up: called with a link that leads to this node itself, and the reason: what waits on it never arrives.
        positions: of streams of a node, at most that many, for an accept at that time.
        report: called with a conversation whose session has something to report.

    Attributes:
        conversations: all of them, by our connection id; ``index`` finds them by node, name and address.
        replies: datagrams that belong to no session, with their addresses.
    """

    def __init__(
        self,
        content: StoreContent,
        *,
        name: str,
        address: str,
        settings: NodeSettings,
        channels: Channels,
        directory: Directory,
        random: "Random",
        links: Links,
        on_served: Callable[[Link, int], None],
        give_up: Callable[[Link, DeadReason], None],
        positions: Callable[[bytes, int, int], tuple[StreamPosition, ...]],
        drops: Counter[DropReason],
        record: Record,
        report: Callable[[Conversation], None],
    ) -> None:
        self.index = Conversations()
        self.conversations = self.index.by_connection
        self.codec: Codec = BINARY
        self.history = History(content)
        self.peers = Peers(content.peers.values(), content.addresses, content.state)
        self.peers.handle_directory(directory)
        self.reach = Reach(channels, directory, self.peers, self.index)
        self.sessions = SessionMaker(
            Introduction(
                content.node_id,
                name,
                address,
                dialled="",
                survives=store_survives(settings),
                incarnation=content.incarnation,
                ack_wait=AckWait.stated(settings.order),
            ),
            settings,
            directory,
            random,
            links,
            self.history,
            self.peers,
            self.codec,
        )
        self.suspended = SuspendedPeers(content.node_id, directory, drops, record)
        self.told = RelayedHistories(record)
        self.told.restore(content.state)
        self._node_id = content.node_id
        self._freshness = Freshness()
        self._settings = settings
        self.channels = channels
        self._directory = directory
        self._links = links
        self._on_served, self._give_up = on_served, give_up
        self._positions = positions
        self._drops = drops
        self._record = record
        self._report = report
        self.awake: dict[Conversation, None] = {}
        self.replies: list[tuple[str, bytes]] = []

    # ---- the initiator

    def connect(self, link: Link, now_ns: int) -> None:
        """Give a link a session: one that its peer has opened, or a new one."""
        there = self.index.open_with(link.peer)
        if there is not None and link.suspended is None:
            self._serve(link, there)
            self._on_served(link, now_ns)
            return
        link.dialer.known = self._directory.named(link.peer)
        if not self.channels.knows(link.peer):
            self._drops[DropReason.NO_KEY] += 1
            return
        addresses = self.reach.ways_to(link.peer)
        if addresses:
            self._call(link, addresses, now_ns)

    def _call(self, link: Link, addresses: tuple[str, ...], now_ns: int) -> None:
        try_ns = link.dialer.choose(addresses, now_ns)
        path = link.dialer.address
        channel = self.channels.dial(link.peer, path.partition(":")[0])
        own = self.sessions.introduce(link.peer, link.peer_id)
        named, spacing_ns = (link.peer, path), link.dialer.spacing_ns(now_ns)
        session = self.sessions.make(own, named, link.peer_id, channel, now_ns, try_ns=try_ns, spacing_ns=spacing_ns)
        link.conversation = Conversation(session, channel, path, link.peer, self.awake, own)
        link.conversation.link = link
        self.index.add(link.conversation)
        link.conversation.wake()

    def handle_accept(self, conversation: Conversation, hello: Hello, now_ns: int) -> None:
        """Handle an accept: open, connect again for another check, or learn of a rollback.

        Raises ProtocolError ``unexpected-accept``, if it answers no connect of ours, or ``bad-hello``.
        """
        session, peer = conversation.session, Introduction.decode(hello.introduction)
        if session.state is not SessionState.CONNECTING or hello.session_id != session.session_id:
            raise ProtocolError(DropReason.UNEXPECTED_ACCEPT)
        # A clone of our store has our id, but another start. If the start is ours, too, it is our own echo.
        own_echo = peer.node_id == self._node_id and peer.point.start == self.history.start
        if own_echo or conversation.peer_id not in (b"", peer.node_id):
            raise ProtocolError(DropReason.UNEXPECTED_ACCEPT)
        self._check_owner(peer.node_id, conversation.channel.peer)
        remembered = self.peers.of(peer.node_id)
        if conversation.link is not None:
            self.suspended.lead(conversation.link, peer.node_id)
        if peer.rolled_back:
            self._halt(peer, conversation.peer_name, peer.rolled_back.turned, now_ns, told=True)
            session.close(CloseReason.ROLLBACK)
        elif peer.node_id in self.suspended or peer.node_id == self._node_id or not self.history.has(peer.remembered):
            self._halt(peer, conversation.peer_name, RolledBack.SENDER, now_ns)
            start = HistoryPoint(peer.point.start, 0)
            self._connect_again(conversation, peer.node_id, start, self.suspended.rolled_back(peer.node_id))
        elif covers(peer.checked, remembered) or covers(peer.point, remembered):
            # The acceptor's store has all that we remember of it: it has checked, or is at a later point.
            conversation.peer = peer
            session.handle_hello(hello, now_ns)
        else:
            self._connect_again(conversation, peer.node_id, remembered, RolledBack.NONE)

    def _connect_again(
        self, conversation: Conversation, receiver: bytes, remembered: HistoryPoint, rolled_back: RolledBack
    ) -> None:
        own = replace(conversation.own, receiver=receiver, remembered=remembered, rolled_back=rolled_back)
        conversation.introduce(own)

    # ---- the acceptor

    def handle_connect(self, datagram: bytes, header: Header, sender: str, now_ns: int) -> None:
        """Answer a connect from an address: a whole datagram, with the header that ``read_header`` found.

        Raises ProtocolError with the reason if there will be no session.
        """
        answer = self.channels.answer(datagram, header, sender, now_ns)
        if answer.channel is None:
            self.replies.append((sender, answer.retry))
            return
        hello = self.codec.decode_hello(answer.payload)
        peer = Introduction.decode(hello.introduction)
        proved = answer.channel.peer
        self._check_owner(peer.node_id, proved)
        # Without keys any sender could claim to be any node, so only a proved peer's connects are compared.
        repeats = proved != "" and not self._freshness.take(
            proved, peer.node_id, Moment(peer.incarnation, hello.sent_at_ns)
        )
        if repeats and answer.retry:
            self._drops[DropReason.REPEATED_CONNECT] += 1
            self.replies.append((sender, answer.retry))
            return
        name = proved or self.reach.name_by(peer)
        # A conversation keeps the channel, and a refusal is sealed with it.
        self._handle_hello(Connect(hello, peer, name, answer.channel, header.counter, sender, repeats), now_ns)

    def _check_owner(self, node_id: bytes, name: str) -> None:
        """Check that a node belongs to the peer that first proved to be it, as long as that peer is known."""
        owner = self.peers.holder(node_id)
        if name and owner not in ("", name) and self._directory.named(owner) is not None:
            raise ProtocolError(DropReason.FOREIGN_NODE_ID, f"{name} says that it is a node of {owner}")

    def _handle_hello(self, connect: Connect, now_ns: int) -> None:
        hello, peer = connect.hello, connect.peer
        if peer.node_id == self._node_id:
            self._handle_own_connect(connect, now_ns)
            raise ProtocolError(DropReason.OWN_NODE)
        if self._is_told(peer):
            self._halt(peer, connect.name, peer.rolled_back.turned, now_ns, told=True)
            self._refuse(connect, peer.rolled_back.turned, now_ns)
        if peer.receiver == self._node_id and not self.history.has(peer.remembered):
            self._halt(peer, connect.name, RolledBack.SENDER, now_ns)
            self._refuse(connect, RolledBack.SENDER, now_ns)
        if peer.node_id in self.suspended:
            self._refuse(connect, self.suspended.rolled_back(peer.node_id), now_ns)
        conversation = self.index.accepted(peer.node_id, hello.session_id)
        if conversation is not None:
            self._answer_again(conversation, connect, now_ns)
            return
        link = self._links.get(connect.name)
        if link is not None and link.insists(now_ns) and self._node_id > peer.node_id:
            # Both ends connect at the same time: the greater node id wins at both ends.
            raise ProtocolError(DropReason.CONNECTING_OURSELVES)
        self._make_room()
        self._accept(connect, now_ns)

    def _accept(self, connect: Connect, now_ns: int) -> None:
        link = self._links.get(connect.name)
        if link is not None:
            link.handle_call(now_ns)
        channel, hello, own = connect.channel, connect.hello, self.sessions.answer(connect.peer)
        own = replace(own, positions=self._positions(connect.peer.node_id, own.room, now_ns))
        named = connect.name, connect.sender
        session = self.sessions.make(own, named, connect.peer.node_id, channel, now_ns, peer=hello)
        conversation = Conversation(session, channel, connect.sender, connect.name, self.awake, own, connect.peer)
        self.index.add(conversation)
        conversation.wake()
        conversation.answer(channel, connect.counter, connect.sender)
        source = channel.peer or address_in(connect.sender)
        for oldest in self.index.add_accepted(conversation, (source, connect.repeats)):
            self._give_way(oldest)

    def _answer_again(self, conversation: Conversation, connect: Connect, now_ns: int) -> None:
        if conversation.session.state is not SessionState.ACCEPTING:
            raise ProtocolError(DropReason.LATE_CONNECT)
        # A connect with nothing to check, perhaps a late copy, does not undo an earlier check.
        conversation.introduce(self.sessions.check(conversation.own, connect.peer))
        self.index.answer(conversation, connect.channel, connect.counter, connect.sender)
        conversation.session.handle_hello(connect.hello, now_ns)
        conversation.wake()

    def _is_told(self, peer: Introduction) -> bool:
        """Whether the initiator, which knows our present start, says that a store was rolled back."""
        return peer.rolled_back is not RolledBack.NONE and (peer.receiver, peer.remembered.start) == (
            self._node_id,
            self.history.start,
        )

    def _refuse(self, connect: Connect, rolled_back: RolledBack, now_ns: int) -> None:
        """Tell an initiator that there will be no session. Each connect gets its own answer, without a session."""
        self._reply(connect, rolled_back, now_ns)
        raise ProtocolError(DropReason.ROLLBACK)

    def _reply(self, connect: Connect, rolled_back: RolledBack, now_ns: int) -> None:
        hello = Hello.of(
            self._settings.session,
            session_id=connect.hello.session_id,
            connection_id=self.sessions.connection_id(),
            sent_at_ns=connect.hello.sent_at_ns,
            introduction=replace(self.sessions.answer(connect.peer), rolled_back=rolled_back).encode(),
        )
        receiver, payload = connect.hello.connection_id, self.codec.encode_hello(hello)
        answer = connect.channel.seal(Kind.ACCEPT, receiver, connect.counter, payload, now_ns)
        self.replies.append((connect.sender, answer))

    def _handle_own_connect(self, connect: Connect, now_ns: int) -> None:
        peer = connect.peer
        if peer.point.start == self.history.start:
            self._handle_own_address(connect)
        elif self._is_told(peer):
            self._halt(peer, connect.name, RolledBack.SENDER, now_ns)
            self._refuse(connect, RolledBack.SENDER, now_ns)
        else:
            # A late copy of a connect of ours, or a clone: only the clone will answer, and then say so.
            self._reply(connect, RolledBack.NONE, now_ns)

    def _handle_own_address(self, connect: Connect) -> None:
        """We have dialled ourselves by another name: what waits on that link can never be delivered."""
        link = self._links.get(connect.peer.dialled)
        if link is None or link.conversation is None:
            return
        if link.conversation.session.session_id == connect.hello.session_id:
            self._give_up(link, DeadReason.OWN_ADDRESS)
            self._close(link.conversation, CloseReason.LOCAL_STOP)

    def _make_room(self) -> None:
        if len(self.conversations) < self._settings.max_sessions:
            return
        oldest = self.index.oldest_half_open
        if oldest is None:
            raise ProtocolError(DropReason.TOO_MANY_SESSIONS)
        self._give_way(oldest)

    def _give_way(self, half_open: Conversation) -> None:
        """Drop a half-open conversation. A connect costs its sender nothing, so it may displace only these."""
        self.index.remove(half_open)
        self._drops[DropReason.HALF_OPEN_OVERFLOW] += 1

    def confirm(self, conversation: Conversation) -> None:
        """The initiator has sent data on a session that is not open yet: check whether it may open.

        Raises ProtocolError ``outdated-accept`` if another process of that node has opened a session since our accept,
        and this initiator has not checked that point in its history. It has to connect again.
        """
        session = conversation.session
        self.index.move(conversation, conversation.accepted_at)
        remembered = self.peers.of(conversation.peer_id)
        if conversation.peer_start != remembered.start and not covers(conversation.own.remembered, remembered):
            session.close(CloseReason.SUPERSEDED)
            self._report(conversation)
            raise ProtocolError(DropReason.OUTDATED_ACCEPT)

    # ---- both

    def _close(self, conversation: Conversation, reason: CloseReason) -> None:
        conversation.session.close(reason)
        conversation.wake()
        self._report(conversation)

    def handle_opened(self, conversation: Conversation, commit: Commit) -> None:
        """A session is open: it takes the place of older ones, and serves our link to the peer."""
        session, peer, proved = conversation.session, conversation.peer, conversation.channel.peer
        assert peer is not None
        conversation.known = self.peers.meet(peer.node_id, peer.point, proved, conversation.channel.peer_key)
        conversation.known.handle_serial(session.peer_commit_serial)
        self.index.handle_opened(conversation)
        self._supersede(conversation)
        self._end_oldest(conversation)
        if not session.initiator:
            self._adopt(conversation)
        if proved and peer.address not in self.reach.addresses_of(proved):
            self.peers.learn(proved, peer.address, commit)
        elif not proved and conversation.peer_name:
            self.peers.learn_name(peer.node_id, conversation.peer_name, commit)

    def _supersede(self, newer: Conversation) -> None:
        """Close older sessions that a peer has lost: by restarting, or by connecting although it had one."""
        for older in self.index.with_node(newer.peer_id):
            if older is newer or older.session.is_closed:
                continue
            if older.peer_start != newer.peer_start or _has_lost(older, newer):
                self._close(older, CloseReason.SUPERSEDED)

    def _end_oldest(self, conversation: Conversation) -> None:
        """Limit the sessions of a peer: it may have or claim many nodes, and each may have many names for this one."""
        name = conversation.channel.peer
        crowd = self.index.with_peer(name) if name else self.index.with_node(conversation.peer_id)
        left = [one for one in crowd if not one.session.is_closed]
        for oldest in left[:-SESSIONS_OF_ONE_MAX]:
            self._close(oldest, CloseReason.SUPERSEDED)

    def _adopt(self, conversation: Conversation) -> None:
        link = self._links.get(conversation.link_name)
        if link is None:
            return
        ours = link.conversation
        if ours is not None:
            if ours.is_open:
                return
            self._close(ours, CloseReason.LOCAL_STOP)
        self._serve(link, conversation)

    def _serve(self, link: Link, conversation: Conversation) -> None:
        self.suspended.lead(link, conversation.peer_id)
        link.conversation = conversation
        conversation.link = link

    def handle_closed(self, conversation: Conversation, reason: CloseReason, now_ns: int) -> None:
        """A session has ended. If the peer closed it for a rollback, suspend the peer."""
        peer, known, session = conversation.peer, conversation.known, conversation.session
        if known is not None and self._settings.session.ack_timeout_s is not None:
            ended, unheard = session.stats(), reason is CloseReason.ACK_TIMEOUT
            known.handle_waited(ended.probe_ns, ended.policy.ack_timeout_max_ns, unheard=unheard)
        self.index.forget_half_open(conversation)
        if reason is CloseReason.ROLLBACK and peer is not None and peer.node_id not in self.suspended:
            self._halt(peer, conversation.peer_name, RolledBack.UNKNOWN, now_ns, told=True)

    def remove(self, conversation: Conversation) -> None:
        """Remove a closed conversation after its last datagram."""
        self.index.remove(conversation)
        if self.peers.crowded and not self.index.with_node(conversation.peer_id):
            self.peers.part(conversation.peer_id)

    def handle_directory_changed(self, now_ns: int) -> None:
        """The directory has changed: close sessions of peers that are no longer trusted, and redial changed peers."""
        self._freshness.forget(lambda peer: self._directory.named(peer) is not None)
        for conversation in list(self.conversations.values()):
            channel = conversation.channel
            if channel.peer and not self._directory.trusts(channel.peer, channel.peer_key):
                self._close(conversation, CloseReason.REVOKED)
        self._links.keep_touch(self._directory)
        for link in self._links.values():
            ours, changed = link.conversation, link.dialer.known != self._directory.named(link.peer)
            if changed:
                link.dialer.handle_moved()
            if ours is not None and ours.session.initiator:
                ours.session.keep_alive(self.sessions.keep_alive_ns(link, ours.path), now_ns)
                ours.wake()
            if ours is not None and link.is_connecting and changed:
                self._close(ours, CloseReason.LOCAL_STOP)
            if link.conversation is None:
                link.retry_at_ns = now_ns
                link.wake()

    def number(self, commit: Commit) -> None:
        """Complete a commit that goes to the store: add what it depends on, and its serial."""
        if self.peers.needed:
            self.peers.write_down(commit)
        if self.told.unwritten:
            self.told.write_down(commit)
        if self._links.resuming.unwritten:
            self._links.resuming.write_down(commit)
        self.history.number(commit)

    # ---- rollbacks

    def _halt(self, peer: Introduction, name: str, rolled_back: RolledBack, now_ns: int, *, told: bool = False) -> None:
        """Suspend a peer. From now on it is only notified, unless it told us (``told``)."""
        if self.suspended.add(peer, name, rolled_back, now_ns):
            for conversation in self.index.of_node(peer.node_id):
                self._close(conversation, CloseReason.ROLLBACK)
        self.suspended.stop_links(peer.node_id, told=told)


def _has_lost(older: Conversation, newer: Conversation) -> bool:
    if newer.session.initiator or not older.is_open:
        return False
    if not older.session.initiator:
        return older.own.dialled == newer.own.dialled
    # A proved peer has no other name for us. If both called at the same time, ours carries something by now.
    return newer.channel.peer != "" and not older.session.stats().unacked
