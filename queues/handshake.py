"""How conversations begin, and the peers with which none may begin: those whose store, or ours, was rolled back.

    CONNECT   where my store is, and what I remember of yours   --->  is that in my history?
    is that in my history?   <---   where my store is, what I remember of yours, and what I have checked   ACCEPT
    open; the first datagram                                    --->  open

Who dials an address for the first time does not know whom it will meet. If the accept shows a node that it remembers,
it connects once more with what it remembers, and opens when that was checked. It takes no more round trips otherwise.

Only a node itself can tell that something is not in its history. Whoever finds that out has the other halted and tells
it: an acceptor by refusing every connect, an initiator by connecting until it is refused. A halted peer is spoken to no
more; the rest of the node goes on, as a peer may lie. What an initiator says of a rollback counts only if it knows the
id of our present start: a late copy of an older connect does not.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from triack.base.commit import Commit, StoreContent
from triack.base.datagram import Channel, Channels, Header, Kind
from triack.base.errors import ProtocolError, RollbackDetected
from triack.base.reasons import DeadReason, DropReason
from triack.queues.history import History, Peers, covers
from triack.queues.introduction import NO_POINT, HistoryPoint, Introduction, RolledBack
from triack.queues.link import Conversation, Link
from triack.queues.outbox import Outbox
from triack.queues.settings import NodeSettings
from triack.session.frames import Hello
from triack.session.session import Session
from triack.session.settings import SessionSettings
from triack.session.states import CloseReason, State

if TYPE_CHECKING:
    from random import Random

__all__ = ["HALTED_MAX", "Handshakes", "session_settings"]

HALTED_MAX = 1_024
"""Halted peers that no link of ours leads to and that are remembered: anyone can invent a node id. More are refused all
the same."""

_IN_CONVERSATION = frozenset({Kind.ACCEPT, Kind.RETRY, Kind.DATA})
"""What belongs to a conversation that there is."""
_SIDES = {RolledBack.SENDER: "own", RolledBack.RECEIVER: "peer", RolledBack.UNKNOWN: "unknown"}


def session_settings(settings: NodeSettings, address: str) -> SessionSettings:
    """The settings of a session with that address."""
    if address.startswith("udp:"):
        return settings.session
    return replace(settings.session, max_datagram_bytes=settings.stream_datagram_bytes)


class Halted(NamedTuple):
    """A peer that is spoken to no more, and why."""

    rolled_back: RolledBack
    error: RollbackDetected


class Connect(NamedTuple):
    """A connect that has arrived."""

    hello: Hello
    peer: Introduction
    channel: Channel
    counter: int
    sender: str


class Handshakes:
    """All conversations of a node, from connect to open.

    Args:
        content: what the store had at the start.
        name: a label for people.
        address: where the node listens, empty when it does not.
        settings: limits and timeouts.
        channels: makes the channels of conversations.
        random: for ids.
        outbox: has the links.
        drops: counts what is dropped, by reason.
        record: writes to the session log, ``record(event, now_ns, **fields)``.
        report: called with a conversation whose session has something to report.
        awake: the conversations that have something to do; new ones are put there.

    Attributes:
        conversations: by our connection id.
        history: of this node's store.
        peers: what is remembered of others.
        halted: peers that are spoken to no more, by node id.
    """

    def __init__(
        self,
        content: StoreContent,
        *,
        name: str,
        address: str,
        settings: NodeSettings,
        channels: Channels,
        random: "Random",
        outbox: Outbox,
        drops: Counter[DropReason],
        record: Callable[..., None],
        report: Callable[[Conversation, int], None],
        awake: dict[Conversation, None],
    ) -> None:
        self.conversations: dict[int, Conversation] = {}
        self.history = History(content)
        self.peers = Peers(content.peers.values())
        self.halted: dict[bytes, Halted] = {}
        self._node_id = content.node_id
        self._name = name
        self._address = address
        self._settings = settings
        self._channels = channels
        self._random = random
        self._outbox = outbox
        self._drops = drops
        self._record = record
        self._report = report
        self._awake = awake
        self._by_peer: dict[bytes, dict[Conversation, None]] = {}
        self._accepted: dict[tuple[bytes, int], Conversation] = {}
        self._half_open: OrderedDict[Conversation, None] = OrderedDict()
        self._replies: list[tuple[str, bytes]] = []
        self._detected: list[RollbackDetected] = []

    # ---- the initiator

    def connect(self, link: Link, now_ns: int) -> None:
        """Begin a session with whoever is at the link's address."""
        own = self._introduce(link.address, link.peer_id, self.peers.of(link.peer_id))
        channel = self._channels.dial(link.address, link.address.partition(":")[0])
        session_id = self._random.getrandbits(64)
        link.conversation = self._add_session(channel, session_id, own, link.address, now_ns)
        link.conversation.link = link

    def handle_accept(self, conversation: Conversation, hello: Hello, now_ns: int) -> None:
        """Take an accept: open, ask for more to be checked, or learn of a rollback.

        Raises:
            ProtocolError: ``unexpected-accept``, for one that answers no connect of ours; ``bad-hello``.
        """
        session, peer = conversation.session, Introduction.decode(hello.introduction)
        if session.state is not State.CONNECTING or hello.session_id != session.hello.session_id:
            raise ProtocolError(DropReason.UNEXPECTED_ACCEPT)
        # A clone of our store has our id, but a start of its own: with ours, too, it is an echo of ourselves.
        own_echo = peer.node_id == self._node_id and peer.point.start == self.history.start
        if own_echo or conversation.peer_id not in (b"", peer.node_id):
            raise ProtocolError(DropReason.UNEXPECTED_ACCEPT)
        if conversation.link is not None:
            self._lead(conversation.link, peer.node_id)
        if peer.rolled_back:
            self._halt(peer, peer.rolled_back.turned, now_ns, told=True)
            session.close(CloseReason.ROLLBACK)
        elif peer.node_id in self.halted or not self._is_true(peer):
            self._halt(peer, RolledBack.SENDER, now_ns)
            start = HistoryPoint(peer.point.start, 0)
            self._connect_again(conversation, peer.node_id, start, self.halted[peer.node_id].rolled_back)
        elif self._has_enough(peer):
            conversation.peer = peer
            session.handle_hello(hello, now_ns)
        else:
            self._connect_again(conversation, peer.node_id, self.peers.of(peer.node_id), RolledBack.NONE)

    def _is_true(self, peer: Introduction) -> bool:
        """Whether this is another node than we are, and what it remembers of our store is so."""
        return peer.node_id != self._node_id and self.history.has(peer.remembered)

    def _has_enough(self, peer: Introduction) -> bool:
        """Whether the acceptor's store has all that we remember of it: it has looked, or is at a later point itself."""
        remembered = self.peers.of(peer.node_id)
        return covers(peer.checked, remembered) or covers(peer.point, remembered)

    def _connect_again(
        self, conversation: Conversation, receiver: bytes, remembered: HistoryPoint, rolled_back: RolledBack
    ) -> None:
        own = replace(conversation.own, receiver=receiver, remembered=remembered, rolled_back=rolled_back)
        conversation.introduce(own)

    # ---- the acceptor

    def handle_connect(self, datagram: bytes, header: Header, sender: str, now_ns: int) -> None:
        """Answer a connect.

        Args:
            datagram: all of it.
            header: what ``read_header`` has read.
            sender: the address that it came from.
            now_ns: the clock.

        Raises:
            ProtocolError: with the reason why there will be no session.
        """
        answer = self._channels.answer(datagram, header, sender, now_ns)
        if answer.channel is None:
            self._replies.append((sender, answer.retry))
            return
        hello = Hello.decode(answer.payload)
        peer = Introduction.decode(hello.introduction)
        # A conversation keeps the channel, and a refusal is sealed with it.
        self._handle_hello(Connect(hello, peer, answer.channel, header.counter, sender), now_ns)

    def _handle_hello(self, connect: Connect, now_ns: int) -> None:
        hello, peer = connect.hello, connect.peer
        if peer.node_id == self._node_id:
            self._handle_own_connect(connect, now_ns)
            raise ProtocolError(DropReason.OWN_NODE)
        if self._is_told(peer):
            self._halt(peer, peer.rolled_back.turned, now_ns, told=True)
            self._refuse(connect, peer.rolled_back.turned, now_ns)
        if peer.receiver == self._node_id and not self.history.has(peer.remembered):
            self._halt(peer, RolledBack.SENDER, now_ns)
            self._refuse(connect, RolledBack.SENDER, now_ns)
        if peer.node_id in self.halted:
            self._refuse(connect, self.halted[peer.node_id].rolled_back, now_ns)
        conversation = self._accepted.get((peer.node_id, hello.session_id))
        if conversation is not None:
            self._answer_again(conversation, connect, now_ns)
            return
        link = self._outbox.links.get(peer.address)
        if link is not None and link.is_connecting and self._node_id > peer.node_id:
            # Both ends connect at once: the greater node id wins, and both know it.
            raise ProtocolError(DropReason.CONNECTING_OURSELVES)
        self._make_room()
        self._add_session(connect.channel, hello.session_id, self._answer(peer), connect.sender, now_ns, connect)

    def _answer_again(self, conversation: Conversation, connect: Connect, now_ns: int) -> None:
        if conversation.session.state is not State.ACCEPTING:
            raise ProtocolError(DropReason.LATE_CONNECT)
        # A connect with nothing to check, a late copy perhaps, takes nothing back.
        conversation.introduce(self._check(conversation.own, connect.peer))
        conversation.answer(connect.channel, connect.counter, connect.sender)
        conversation.session.handle_hello(connect.hello, now_ns)
        conversation.wake()

    def _is_told(self, peer: Introduction) -> bool:
        """Whether the initiator says, having heard of our present start, that a store was rolled back."""
        return peer.rolled_back is not RolledBack.NONE and (peer.receiver, peer.remembered.start) == (
            self._node_id,
            self.history.start,
        )

    def _refuse(self, connect: Connect, rolled_back: RolledBack, now_ns: int) -> None:
        """Tell who connects that there will be no session. It needs none: each connect is answered by itself."""
        self._reply(connect, rolled_back, now_ns)
        raise ProtocolError(DropReason.ROLLBACK)

    def _reply(self, connect: Connect, rolled_back: RolledBack, now_ns: int) -> None:
        hello = Hello.of(
            self._settings.session,
            session_id=connect.hello.session_id,
            connection_id=self._connection_id(),
            sent_at_ns=connect.hello.sent_at_ns,
            introduction=replace(self._answer(connect.peer), rolled_back=rolled_back).encode(),
        )
        receiver, payload = connect.hello.connection_id, hello.encode()
        answer = connect.channel.seal(Kind.ACCEPT, receiver, connect.counter, payload, now_ns)
        self._replies.append((connect.sender, answer))

    def _handle_own_connect(self, connect: Connect, now_ns: int) -> None:
        peer = connect.peer
        if peer.point.start == self.history.start:
            self._handle_own_address(connect, now_ns)
        elif self._is_told(peer):
            self._halt(peer, RolledBack.SENDER, now_ns)
            self._refuse(connect, RolledBack.SENDER, now_ns)
        else:
            # A late copy of a connect of ours, or a clone: only the clone will answer, and say what we are.
            self._reply(connect, RolledBack.NONE, now_ns)

    def _handle_own_address(self, connect: Connect, now_ns: int) -> None:
        """We have dialled ourselves, by another name: what waits there can never be delivered."""
        link = self._outbox.links.get(connect.peer.dialled)
        if link is None or link.conversation is None:
            return
        if link.conversation.session.hello.session_id == connect.hello.session_id:
            self._outbox.give_up(link, DeadReason.OWN_ADDRESS)
            self._close(link.conversation, CloseReason.LOCAL_STOP, now_ns)

    def _make_room(self) -> None:
        if len(self.conversations) < self._settings.max_sessions:
            return
        # Connects cost a stranger nothing: they may drive out each other, but nobody who has spoken.
        for conversation in self._half_open:
            if conversation.session.state is State.ACCEPTING:
                self._forget(conversation)
                self._drops[DropReason.HALF_OPEN_OVERFLOW] += 1
                return
        raise ProtocolError(DropReason.TOO_MANY_SESSIONS)

    def confirm(self, conversation: Conversation, now_ns: int) -> None:
        """The initiator has spoken on a session that is not open yet: may it open?

        Raises:
            ProtocolError: ``outdated-accept``: since our accept, another process of that node has opened a session, and
                nobody has asked this one whether it knows of it. It has to connect again.
        """
        session = conversation.session
        remembered = self.peers.of(conversation.peer_id)
        if conversation.peer_start != remembered.start and not covers(conversation.own.remembered, remembered):
            session.close(CloseReason.SUPERSEDED)
            self._report(conversation, now_ns)
            raise ProtocolError(DropReason.OUTDATED_ACCEPT)

    # ---- both

    def _introduce(
        self, dialled: str, receiver: bytes, remembered: HistoryPoint, checked: HistoryPoint = NO_POINT
    ) -> Introduction:
        return Introduction(
            node_id=self._node_id,
            name=self._name,
            address=self._address,
            dialled=dialled,
            point=self.history.point,
            receiver=receiver,
            remembered=remembered,
            checked=checked,
        )

    def _answer(self, peer: Introduction) -> Introduction:
        return self._check(self._introduce(peer.dialled, peer.node_id, self.peers.of(peer.node_id)), peer)

    def _check(self, own: Introduction, peer: Introduction) -> Introduction:
        return replace(own, checked=peer.remembered) if peer.receiver == self._node_id else own

    def _connection_id(self) -> int:
        return self._random.getrandbits(63) + 1

    def _add_session(
        self,
        channel: Channel,
        session_id: int,
        own: Introduction,
        path: str,
        now_ns: int,
        connect: Connect | None = None,
    ) -> Conversation:
        session = Session(
            session_settings(self._settings, path),
            session_id=session_id,
            connection_id=self._connection_id(),
            introduction=own.encode(),
            peer=None if connect is None else connect.hello,
            overhead_bytes=channel.overhead_bytes,
            shares_network=path.startswith("udp:"),
            now_ns=now_ns,
        )
        conversation = Conversation(session, channel, path, self._awake, own, None if connect is None else connect.peer)
        self.conversations[session.hello.connection_id] = conversation
        conversation.wake()
        if connect is not None:
            conversation.answer(connect.channel, connect.counter, connect.sender)
            self._accepted[(connect.peer.node_id, session_id)] = conversation
            self._half_open[conversation] = None
        return conversation

    def _close(self, conversation: Conversation, reason: CloseReason, now_ns: int) -> None:
        conversation.session.close(reason)
        conversation.wake()
        self._report(conversation, now_ns)

    def handle_opened(self, conversation: Conversation, now_ns: int) -> None:
        """A session is open: it takes the place of older ones, and serves our link to the peer."""
        session, peer = conversation.session, conversation.peer
        assert peer is not None
        conversation.known = self.peers.meet(peer.node_id, peer.point)
        conversation.known.handle_serial(session.peer_mark)
        self._by_peer.setdefault(peer.node_id, {})[conversation] = None
        self._supersede(conversation, now_ns)
        if not session.initiator:
            del self._half_open[conversation]
            self._adopt(conversation, now_ns)

    def _supersede(self, newer: Conversation, now_ns: int) -> None:
        """A node that connects again to the same address has lost its older session; one that restarted, all."""
        for older in self.with_peer(newer.peer_id):
            if older is newer or older.session.is_closed:
                continue
            dead = older.peer_start != newer.peer_start
            replaced = (
                older.is_open
                and not older.session.initiator
                and not newer.session.initiator
                and older.own.dialled == newer.own.dialled
            )
            if dead or replaced:
                self._close(older, CloseReason.SUPERSEDED, now_ns)

    def _adopt(self, conversation: Conversation, now_ns: int) -> None:
        """The peer has connected first: its session serves our link to it, too."""
        peer = conversation.peer
        link = self._outbox.links.get(peer.address) if peer is not None and peer.address else None
        if link is None:
            return
        ours = link.conversation
        if ours is not None:
            if ours.is_open:
                return
            self._close(ours, CloseReason.LOCAL_STOP, now_ns)
        self._lead(link, conversation.peer_id)
        link.conversation = conversation
        conversation.link = link

    def handle_closed(self, conversation: Conversation, reason: CloseReason, now_ns: int) -> None:
        """A session is over; a peer that closed it for a rollback is halted."""
        peer = conversation.peer
        if reason is CloseReason.ROLLBACK and peer is not None and peer.node_id not in self.halted:
            self._halt(peer, RolledBack.UNKNOWN, now_ns, told=True)

    def with_peer(self, node_id: bytes) -> list[Conversation]:
        """The conversations with a node that have been open."""
        return list(self._by_peer.get(node_id, ()))

    def of(self, header: Header) -> Conversation:
        """Whose datagram it is. Raises ProtocolError ``unknown-connection``, ``unknown-kind``."""
        conversation = self.conversations.get(header.connection_id)
        if conversation is None:
            raise ProtocolError(DropReason.UNKNOWN_CONNECTION)
        if header.kind not in _IN_CONVERSATION:
            raise ProtocolError(DropReason.UNKNOWN_KIND)
        return conversation

    def has(self, conversation: Conversation) -> bool:
        """Whether a conversation is not gone."""
        return conversation.session.hello.connection_id in self.conversations

    def remove(self, conversation: Conversation) -> None:
        """A closed conversation has said its last word."""
        self._forget(conversation)
        others = self._by_peer.get(conversation.peer_id, {})
        others.pop(conversation, None)
        if not others:
            self._by_peer.pop(conversation.peer_id, None)
            if self.peers.crowded:
                self.peers.part(conversation.peer_id)

    def _forget(self, conversation: Conversation) -> None:
        del self.conversations[conversation.session.hello.connection_id]
        self._half_open.pop(conversation, None)
        self._accepted.pop((conversation.peer_id, conversation.session.hello.session_id), None)

    def number(self, commit: Commit) -> None:
        """A commit goes to the store: it says what it depends on, and gets its serial."""
        self.peers.write_down(commit)
        self.history.number(commit)

    # ---- rollbacks

    def _halt(self, peer: Introduction, rolled_back: RolledBack, now_ns: int, *, told: bool = False) -> None:
        """Speak to a peer no more, but to tell it, unless it told us."""
        node_id = peer.node_id
        if node_id == self._node_id:
            rolled_back = RolledBack.SENDER
        links = [link for link in self._outbox.links.values() if link.peer_id == node_id]
        if node_id not in self.halted:
            if len(self.halted) >= HALTED_MAX and not links:
                self._drops[DropReason.HALTED_OVERFLOW] += 1
                return
            halted = self.halted[node_id] = Halted(rolled_back, self._explain(peer, rolled_back))
            self._detected.append(halted.error)
            self._record("rollback_detected", now_ns, peer=node_id.hex(), rolled_back=halted.error.rolled_back)
            for conversation in list(self.conversations.values()):
                if conversation.peer_id == node_id:
                    self._close(conversation, CloseReason.ROLLBACK, now_ns)
        for link in links:
            link.halt(self.halted[node_id].error, told=told)

    def _explain(self, peer: Introduction, rolled_back: RolledBack) -> RollbackDetected:
        side = _SIDES[rolled_back]
        other = f"node {peer.name} ({peer.node_id.hex()})"
        if peer.node_id == self._node_id:
            what = f"another process, {peer.name}, runs on a copy of this node's store"
        elif side == "own":
            what = f"{other} depends on what this node's store does not have: it is an older copy, or runs twice"
        elif side == "peer":
            what = f"the store of {other} does not have what this node depends on: it is an older copy, or runs twice"
        else:
            what = f"{other} says that its store or this node's is an older copy, or runs twice"
        return RollbackDetected(what, peer=peer.node_id.hex(), rolled_back=side)

    def _lead(self, link: Link, node_id: bytes) -> None:
        """It has turned out to which node a link leads."""
        if link.peer_id != node_id:
            link.peer_id = node_id
            halted = self.halted.get(node_id)
            link.halt(None if halted is None else halted.error, told=False)

    # ---- outputs

    def take_replies(self) -> list[tuple[str, bytes]]:
        """Datagrams that belong to no session, with their addresses."""
        replies, self._replies = self._replies, []
        return replies

    def take_detected(self) -> list[RollbackDetected]:
        """Rollbacks found since the last call, one for each peer."""
        detected, self._detected = self._detected, []
        return detected
