"""Sessions with their paths (conversations), and all that goes to one peer (links)."""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from triack.base.datagram import Channel, Header, Kind, Opened, counters_of, open_each
from triack.base.delivery import FREED_BY, Ack, Delivery, Role
from triack.base.errors import GapDetected, ProtocolError, RollbackDetected
from triack.base.peers import Peer
from triack.base.reasons import DropReason
from triack.base.units import end_ns
from triack.ordering.order_ack import AckWait
from triack.ordering.wire import Answer, EndPacket
from triack.queues.deadlines import Deadlines
from triack.queues.node_settings import Reconnect
from triack.queues.peers.control import Control, ControlKey, key_of
from triack.queues.peers.dialer import ANSWER_NS, Dialer, WaitsFor
from triack.queues.peers.history import KnownPeer
from triack.queues.peers.introduction import NO_NODE, Introduction
from triack.queues.peers.path import Paths
from triack.queues.peers.reconnect import Patience
from triack.queues.peers.resuming import Resuming
from triack.queues.peers.turns import LOWEST_SHARE_PACKETS, Sending, Turns
from triack.queues.streams.outgoing_stream import OutgoingStream
from triack.queues.ways import Contact, Ways
from triack.session.protocol.settings import WINDOW_MAX
from triack.session.protocol.states import CloseReason, SessionState
from triack.session.session import Session

if TYPE_CHECKING:
    from random import Random

__all__ = ["Conversation", "Link", "Links", "Sending"]

CONTROL_MAX = 8_192
"""Order acks and rejections that wait to be sent to one peer: twice its limit of streams."""
REFUSING_MAX = 2 * WINDOW_MAX
"""Packets that these may refuse before the peer acknowledges them: more than a session ever has in flight."""
HELLOS = frozenset({Kind.CONNECT, Kind.ACCEPT, Kind.RETRY})
"""Kinds whose counters are not those of their direction."""
_LIVE = (SessionState.OPEN, SessionState.DRAINING)
"""States in which anything may flow."""
PENDING_MAX = 32
"""Connects of one session whose answers may still be in flight: no fewer than an initiator remembers. It accepts the
first answer that arrives, however many connects it has sent by then."""


@dataclass(slots=True, eq=False)
class Conversation:
    """A session, and the path of its datagrams.

    Every connect of a session is another handshake. So an acceptor has a channel for each connect that it has answered,
    until the initiator uses the keys of one of them.

    Attributes:
        channel: protects its datagrams; for an acceptor, that of the newest connect.
        path: the address to send to. When the peer moves and has answered from there, it follows (``paths``).
        peer: the other node's introduction; None for an initiator that has no answer yet.
        control: order acks, rejections and other words that wait for room; None for none.
        refusing: number of packets that these refuse, including answers that the peer has not acknowledged yet.
        highest_counter: newest datagram seen, so that an old copy does not move the path.
        paths: validation of another path; None when there is nothing to validate or answer.
        pending: an acceptor's channels before the initiator has sent data, and the address of each accept; newest last.
        accepted_at: the address of the accept whose keys the initiator uses.
        connect_counter: that of the newest connect, for the accept that answers it.
        known: what this node remembers of the peer; None before the session was open.
    """

    session: Session
    channel: Channel
    path: str
    peer_name: str
    awake: dict["Conversation", None]
    own: Introduction
    peer: Introduction | None = None
    link: "Link | None" = None
    control: OrderedDict[ControlKey, Control] | None = None
    refusing: int = 0
    highest_counter: int = 0
    paths: Paths | None = None
    pending: tuple[tuple[Channel, str], ...] = ()
    accepted_at: str = ""
    connect_counter: int = 0
    known: KnownPeer | None = None
    label: str = field(init=False)

    def __post_init__(self) -> None:
        self.label = f"{self.session.session_id:016x}"

    def wake(self) -> None:
        """The session has changed: it must be served before the node rests."""
        self.awake[self] = None

    def answer(self, channel: Channel, counter: int, sender: str) -> None:
        """Answer the connect with that counter, by its channel, to its sender's address."""
        self.pending = (*self.pending[1 - PENDING_MAX :], (channel, sender))
        self.channel, self.connect_counter = channel, counter

    def open(self, datagram: bytes, header: Header, now_ns: int) -> bytes:
        """The payload of a datagram. The first one of an initiator decides the channel and the path.

        A sender that uses a channel's keys has received the accept that made them, so it is at that accept's address.

        Raises ProtocolError as ``Channel.open`` does, and ``not-open``: only data decides.
        """
        if not self.pending:
            return self.channel.open(datagram, header, now_ns)
        if header.kind is not Kind.DATA:
            raise ProtocolError(DropReason.NOT_OPEN, "the initiator has not spoken yet")
        error = ProtocolError(DropReason.BAD_TAG)
        for channel, path in reversed(self.pending):
            try:
                payload = channel.open(datagram, header, now_ns)
            except ProtocolError as cause:
                error = cause
            else:
                self.channel = channel
                self.accepted_at = path
                self.pending = ()
                return payload
        raise error

    def open_run(self, burst: list[bytes], header: Header, now_ns: int) -> tuple[Opened, int]:
        """Open data that came together: the datagrams with the first one's header, except for its counter.

        Returns the results, and the number of datagrams.
        """
        counters = [header.counter] if self.pending or len(burst) == 1 else counters_of(burst)
        taken = len(counters)
        datagrams = burst[:taken]
        if not self.pending:
            return self.channel.open_run(datagrams, counters, header, now_ns), taken
        return open_each(lambda datagram, _counter: self.open(datagram, header, now_ns), datagrams, counters), 1

    def withhold(self, delivery: Delivery, packet: int) -> None:
        """A packet is refused. If a session ack would free it, hold that ack back until the rejection."""
        if FREED_BY[delivery, Role.ORIGIN] is Ack.SESSION:
            self.session.withhold(packet)

    def handle_rejections_known(self, numbers: tuple[int, ...]) -> None:
        """The peer has the rejections of these packets of the session."""
        self.refusing -= len(numbers)
        self.session.handle_rejections_known(numbers)

    def has_control_room(self, count: int) -> bool:
        """Whether this many further order acks and rejections may wait. Half of the room stays free for others."""
        return not self.control or len(self.control) + count <= CONTROL_MAX // 2

    def say(self, packet: Answer | EndPacket, refuses: tuple[int, ...] = ()) -> bool:
        """Queue what this node has to say of a stream; a newer one replaces an older (``key_of``).

        ``refuses``: the session's numbers of the packets that it refuses. Returns False when too much waits: it is
        dropped, and these packets will be retransmitted.
        """
        key = key_of(packet)
        waiting = OrderedDict() if self.control is None else self.control
        older = waiting.get(key)
        full = older is None and len(waiting) >= CONTROL_MAX
        if full or (refuses and self.refusing + len(refuses) > REFUSING_MAX):
            for number in refuses:
                self.session.handle_unanswered(number)
            self.wake()
            return False
        if refuses:
            self.refusing += len(refuses)
        waiting[key] = Control(packet.encode(), refuses if older is None else refuses + older.refuses)
        self.control = waiting
        self.wake()
        return True

    def handle_arrived(
        self, counter: int, sender: str, size_bytes: int, draw: Callable[[int], bytes], now_ns: int
    ) -> None:
        """An authentic datagram, none of ``HELLOS``, came from an address; see ``Paths.handle_datagram``.

        Before the session is open, connects find the peer's path, not this.
        """
        if self.session.state not in _LIVE:
            return
        newest = counter > self.highest_counter
        if newest:
            self.highest_counter = counter
        if sender != self.path or self.paths is not None:
            paths = self.look_around()
            paths.handle_datagram(self.path, sender, size_bytes, newest=newest, draw=draw, now_ns=now_ns)

    def look_around(self) -> Paths:
        """The validation of another path, begun if needed."""
        self.paths = self.paths or Paths()
        return self.paths

    def take_control(self) -> Control:
        """Remove and return the order ack or rejection that has waited longest; there must be one."""
        assert self.control is not None
        _, control = self.control.popitem(last=False)
        self.control = self.control or None
        return control

    def next_deadline(self) -> int | None:
        """When it must be served again, or None."""
        at_ns = self.session.next_deadline()
        other_ns = None if self.paths is None else self.paths.next_deadline()
        return at_ns if other_ns is None else other_ns if at_ns is None else min(at_ns, other_ns)

    @property
    def peer_label(self) -> str:
        """Label for people: the peer's name, or the name that its node announces when it has none here."""
        if self.peer is None or (self.peer_name and "://" not in self.peer_name):
            return self.peer_name
        return self.peer.name

    @property
    def link_name(self) -> str:
        """The peer's name among links: this node's name for it, or its id when it has none here."""
        return self.peer_name or self.peer_id.hex()

    @property
    def peer_id(self) -> bytes:
        """The other node, empty while unknown."""
        return self.peer.node_id if self.peer is not None else b""

    @property
    def peer_start(self) -> int:
        """Id of the start of the other node's store, 0 while unknown."""
        return self.peer.point.start if self.peer is not None else 0

    @property
    def ack_wait(self) -> AckWait | None:
        """How long order acks of the other node's own streams may wait; None when it has not said."""
        return self.peer.ack_wait if self.peer is not None else None

    def keep_essence(self) -> None:
        """The session is open and both introductions were handled: keep only their essence."""
        self.own = self.own.essence
        if self.peer is not None:
            self.peer = self.peer.essence

    def introduce(self, own: Introduction) -> None:
        """Change this node's introduction, if it differs."""
        if own != self.own:
            self.own = own
            self.session.introduce(own.encode())
            self.wake()

    @property
    def is_open(self) -> bool:
        """Whether packets may flow."""
        return self.session.state is SessionState.OPEN

    @property
    def is_live(self) -> bool:
        """Whether anything may flow: it is open, or drains."""
        return self.session.state in _LIVE


class Link:
    """All outgoing streams to one peer, and the session that serves them, if there is one.

    It reconnects after growing waits (``Patience``), which begin small again after a session that lasted. After each
    unanswered attempt it tries the peer's next address, later if the peer has been away for long (``Dialer``).

    Args:
        calls: whether this node does not listen, so that it must keep in touch with the peer.
        lowest_share: the lowest priority gets one packet of this many of a destination queue, see ``turns``.

    Attributes:
        is_awaited: whether a route waits until the peer is back, so that it is called even if nothing is sent.
        peer_id: the node that was found there last, so that the next connect can name what is remembered of it.
        suspended: why nothing may be sent to that node any more, or None.
        silent: why the peer does not answer, once the operator was notified of that; empty before.
        missing: the key or the address, once the operator was notified that this node does not know it; None before.
        idle: whether the last open session ended because there was nothing to send, and none has opened since.
        pings: number of pings of the peer that wait for their answers, so that a session must be open for them.
        keeps_touch: whether the peer cannot call this node, so that a session must be open even if nothing is sent.
    """

    def __init__(
        self,
        peer: str,
        reconnect: Reconnect,
        random: "Random",
        awake: dict["Link", None] | None = None,
        *,
        calls: bool = False,
        lowest_share: int = LOWEST_SHARE_PACKETS,
        away: set[Dialer] | None = None,
    ) -> None:
        self.peer = peer
        self.contact = Contact()
        self.is_awaited = False
        self.dialer = Dialer(reconnect, away)
        self.streams: list[OutgoingStream] = []
        self.conversation: Conversation | None = None
        self.peer_id = NO_NODE
        self.suspended: RollbackDetected | None = None
        self.retry_at_ns = 0
        self.silent = ""
        self.missing: WaitsFor | None = None
        self.idle = False
        self.sessions = 0
        self.resends = 0
        self.patience = Patience(reconnect, random)
        self.pings = 0
        self.keeps_touch = calls
        self._awake = {} if awake is None else awake
        self.turns = Turns(lowest_share)
        self._told = False

    @property
    def busy(self) -> bool:
        """Whether there is a reason to connect.

        That is something to send, a ping, a peer that cannot call or that a route waits for, or a rollback that the
        peer may not know of yet.
        """
        if self.suspended is not None:
            return not self._told
        return self.keeps_touch or self.is_awaited or self.pings > 0 or self.is_sending

    @property
    def is_sending(self) -> bool:
        """Whether there is something to send."""
        return self.turns.next() is not None

    @property
    def awaits_order_ack(self) -> bool:
        """Whether a stream waits for an order ack of the peer."""
        return any(outgoing.sequence.awaits_order_ack for outgoing in self.streams)

    @property
    def is_connecting(self) -> bool:
        """Whether we are connecting."""
        return self.conversation is not None and self.conversation.session.state is SessionState.CONNECTING

    @property
    def datagram_bytes(self) -> int | None:
        """The largest datagram of the open session; None when there is none."""
        conversation = self.conversation
        return None if conversation is None or not conversation.is_open else conversation.session.stats().datagram_bytes

    def wake(self) -> None:
        """There may be something to do: to send, or to connect."""
        if self.conversation is not None:
            self.conversation.wake()
        else:
            self._awake[self] = None

    def add(self, outgoing: OutgoingStream) -> None:
        """Add an outgoing stream to the peer."""
        self.streams.append(outgoing)
        outgoing.stages.halt(self.suspended)
        if self.keeps_touch:
            self.wake()

    def remove(self, outgoing: OutgoingStream) -> None:
        """An outgoing stream has ended."""
        self.streams.remove(outgoing)
        self.turns.withdraw(outgoing)

    def offer(self, outgoing: Sending) -> None:
        """A stream, outgoing or in transit, has something to send: its turn comes after all that wait."""
        self.turns.offer(outgoing)
        self.wake()

    def next_turn(self) -> tuple[Sending, int] | None:
        """The stream whose turn it is, and how many packets it may give; None for a suspended peer."""
        return None if self.suspended is not None else self.turns.next()

    def halt(self, error: RollbackDetected | None, *, told: bool) -> None:
        """Send nothing more, and notify all waiters; None: continue. ``told``: the peer knows."""
        self._told = told or (self._told and error is self.suspended)
        self.suspended = error
        for outgoing in self.streams:
            outgoing.stages.halt(error)
        self.wake()

    def insists(self, now_ns: int) -> bool:
        """Whether we are connecting, and may well get an answer."""
        return self.is_connecting and self.dialer.is_fresh(now_ns)

    def handle_call(self, now_ns: int) -> None:
        """The peer has called. If its session does not open because our answer is lost, ours soon does."""
        if self.dialer.spacing_ns(now_ns) <= ANSWER_NS:
            return
        self.dialer.hasten(now_ns)
        if self.conversation is None:
            self.retry_at_ns = min(self.retry_at_ns, now_ns + ANSWER_NS)
            self.wake()
        elif self.is_connecting:
            self.conversation.session.hasten(ANSWER_NS, now_ns)
            self.wake()

    def handle_opened(self, now_ns: int) -> None:
        """A session is open."""
        self.patience.handle_opened(now_ns)
        self.dialer.handle_opened()
        self.contact.handle_opened(now_ns)
        self.silent = ""
        self.idle = False
        self.sessions += 1

    def handle_closed(self, reason: CloseReason, now_ns: int) -> None:
        """The session is gone; wait a little longer each time in a row, unless it had ended as idle.

        After a connect timeout its attempts were a wait already, and a peer that returns must not wait for ours.
        """
        idle = reason is CloseReason.IDLE
        settled, spacing_ns, spaced_ns, heard_ns = idle, 0, now_ns, now_ns
        if self.conversation is not None:
            ended = self.conversation.session.stats()
            self.resends += ended.resends
            # A peer may call a session idle although it has not seen all our packets.
            settled = idle and not ended.unacked
            if reason is CloseReason.ACK_TIMEOUT:
                heard_ns -= ended.policy.ack_timeout_ns(ended.probe_ns or 0)
            if self.conversation.known is None:
                spacing_ns = self.dialer.spacing_ns(now_ns)
                spaced_ns = self.conversation.session.said_at_ns + spacing_ns
                self.dialer.handle_missed()
            else:
                self.idle = idle
        self.conversation = None
        if not settled:
            self.contact.handle_lost(heard_ns)
        wait_ns = self.patience.handle_closed(
            now_ns,
            unanswered=reason is CloseReason.CONNECT_TIMEOUT,
            settled=settled,
            not_stored=reason is CloseReason.STORE_ACK_TIMEOUT,
        )
        self.retry_at_ns = end_ns(max(now_ns + wait_ns, spaced_ns), spacing_ns)
        if not self.busy:
            self.dialer.handle_unwanted()
        self.wake()


class Links(dict[str, Link]):
    """The links of a node by peer, each created at its first use.

    Args:
        calls: whether no peer can call this node, so that it must keep in touch with every peer that has a link.

    Attributes:
        resuming: the nodes that have the acknowledged messages.
        ways: which neighbours are in use of routes that have several; the engine sets it.
    """

    ways: Ways

    def __init__(
        self, reconnect: Reconnect, random: "Random", *, calls: bool, lowest_share: int = LOWEST_SHARE_PACKETS
    ) -> None:
        super().__init__()
        self._lowest_share = lowest_share
        self.awake: dict[Link, None] = {}
        self.resuming = Resuming(reconnect.gap)
        self._reconnect = reconnect
        self._random = random
        self._away: set[Dialer] = set()
        self.calls = calls

    def leads(self, outgoing: OutgoingStream, peer_id: bytes) -> bool:
        """Whether a node is a neighbour that has got a stream, in this process: only such a one may answer for it."""
        return any(name in self and self[name].peer_id == peer_id for name in (outgoing.via, *outgoing.next_hop.former))

    def carrier_to(self, peer: str) -> Conversation | None:
        """What carries packets to a peer now, or None."""
        link = self.get(peer)
        return None if link is None else link.conversation

    def keep_touch(self, peers: Iterable[Peer]) -> None:
        """Keep in touch with those of these peers that want it, and with all if no peer can call this node."""
        wanted = {peer.name for peer in peers if peer.wants_touch}
        for peer in wanted:
            self[peer].wake()
        for name, link in self.items():
            link.keeps_touch = self.calls or name in wanted

    def call(self, peers: Collection[str]) -> None:
        """Routes wait until these peers are back, and for no others."""
        for peer in peers:
            self[peer].wake()
        for name, link in self.items():
            link.is_awaited = name in peers

    def poll_wanting(self, deadlines: Deadlines[Any], now_ns: int) -> list[Link]:
        """The links that want a session now; ``deadlines`` gets when others may try again."""
        awake = list(self.awake)
        self.awake.clear()
        wanting: list[Link] = []
        for link in awake:
            if link.conversation is not None:
                link.conversation.wake()
                continue
            link.contact.handle_wanted(now_ns, wanted=link.busy or link.suspended is not None)
            if link.busy and now_ns >= link.retry_at_ns:
                wanting.append(link)
            else:
                deadlines.set(link, link.retry_at_ns if link.busy else None)
        return wanting

    def contact_of(self, peer: str) -> Contact | None:
        """What is known of a peer; None if there is no link to it."""
        link = self.get(peer)
        if link is None:
            return None
        if link.conversation is not None and link.conversation.is_open:
            link.contact.heard_at_ns = link.conversation.session.heard_at_ns
        return link.contact

    def ask(self, peer: str) -> None:
        """Ask a peer whether it is still there, if a session is open."""
        conversation = self[peer].conversation
        if conversation is not None and conversation.is_open:
            conversation.session.ping()
            conversation.wake()

    def handle_opened(self, link: Link, now_ns: int) -> None:
        """A session serves a link. If its node lacks acknowledged messages and the setting is "error", suspend it."""
        link.handle_opened(now_ns)
        queues = (outgoing.queue for outgoing in link.streams if outgoing.has_let_go)
        gap = self.resuming.handle_opened(link.peer, link.peer_id, queues)
        if gap is not None and gap.halts:
            link.halt(GapDetected(gap.cause, peer=gap.node_id, rolled_back="peer"), told=True)

    def __missing__(self, peer: str) -> Link:
        link = self[peer] = Link(
            peer,
            self._reconnect,
            self._random,
            self.awake,
            calls=self.calls,
            lowest_share=self._lowest_share,
            away=self._away,
        )
        return link
