"""Sealing end to end: messages that relays pass on and cannot read, and answers that they cannot invent.

Promise: a sealed packet is accepted only as its origin made it: as that packet of that stream, with that ``previous``,
in that class, for that queue, and with the counts and times that relays see. The origin believes an order ack of a
sealed stream, or a rejection by its destination, only with a proof that the owner of the destination's key made it, or
in a session with the destination itself.

A relay can withhold, delay and lose what it passes on, and say that it does not pass it on. It cannot say anything in
the name of the destination.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple, TypeVar

from triack.base.commit import HEAD_BYTES, OWN_STATE, Commit, kept_under
from triack.base.datagram import Seals
from triack.base.delivery import Delivery
from triack.base.errors import ProtocolError
from triack.base.peers import Directory, Peer
from triack.base.reasons import DeadReason, DropReason, RejectReason
from triack.base.session_log import Record
from triack.ordering.wire import (
    OrderAckPacket,
    RejectPacket,
    RelayedEnd,
    RelayedOrderAck,
    RelayedReject,
    SequenceHeader,
)
from triack.queues.mailboxes.system_queues import is_subscribed
from triack.queues.packing import check_source, read_opened, split_to_seal
from triack.queues.peers.link import Conversation
from triack.queues.routes import BY_HAND, Routes, Way
from triack.queues.streams.outgoing_stream import OutgoingStream

Proved = TypeVar("Proved", RelayedOrderAck, RelayedReject)

_BOUND = Struct("!B16sIQQQB")
_PREFIX = f"{OWN_STATE}sealer/"
"""Of the keys of the store's values that say which peer has sealed the messages of which node."""
KEY_BYTES = 32
"""Length of a public key (RFC 7748, section 6.1)."""
NODES_MAX = 64
"""Nodes of one peer whose sealer is remembered; the oldest is forgotten first. A peer is a new node after each loss of
its store, and could claim any number of them."""

_BY_RELAYS: dict[str, str] = {
    RejectReason.NO_ROUTE: RejectReason.NO_ROUTE,
    RejectReason.ROUTE_LOOP: RejectReason.ROUTE_LOOP,
    RejectReason.HOP_COUNT_EXCEEDED: RejectReason.HOP_COUNT_EXCEEDED,
    RejectReason.RENAMED: RejectReason.RENAMED,
    RejectReason.STALE_SEQUENCE: RejectReason.STALE_SEQUENCE,
    RejectReason.BAD_SEAL: RejectReason.BAD_SEAL,
    RejectReason.ACCESS_DENIED: DeadReason.RELAY_DENIED,
    RejectReason.QUEUE_FULL: DeadReason.RELAY_DENIED,
    DeadReason.REACH_QUEUE_TIMEOUT: DeadReason.REACH_QUEUE_TIMEOUT,
    DeadReason.PURGED: DeadReason.PURGED,
}
"""The rejections of a sealed packet that are believed without a proof, with the reason of the dead letter: a relay does
not pass it on. ``bad-seal`` is among them: if a destination cannot read who sealed a packet, it can prove nothing."""
_AT_THE_DOOR = frozenset(
    {
        RejectReason.ACCESS_DENIED,
        RejectReason.BAD_SEAL,
        RejectReason.UNKNOWN_SEALER,
        RejectReason.NOT_SEALED,
        RejectReason.STALE_SEQUENCE,
        RejectReason.BAD_QUEUE_NAME,
    }
)
"""Reasons for which a destination refuses a packet without remembering it: another copy may be accepted later, and a
relay might keep this rejection until then."""


class _Bound(NamedTuple):
    """The peer whose messages a node sends, and the key that it used last."""

    name: str
    key: bytes


class Refused(NamedTuple):
    """Why a packet is not accepted. ``key``: of its sealer, if that is known."""

    reason: RejectReason
    key: bytes = b""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the origin believes of a rejection: the reason, and whether the packet was certainly not delivered."""

    reason: str
    certain: bool


@dataclass(eq=False, repr=False)
class Sealing:
    """The sealed messages of a node, in both directions.

    Args:
        owner_of: the peer that has proved to be a node; empty when none has.
    """

    node_id: bytes
    seals: Seals | None
    directory: Directory
    routes: Routes
    owner_of: Callable[[bytes], str]
    drops: Counter[DropReason]
    record: Record

    def __post_init__(self) -> None:
        self._bound: dict[bytes, _Bound] = {}

    def restore(self, state: Mapping[str, bytes]) -> None:
        """Restore which peers have sealed the messages of which nodes."""
        for node_id, value in kept_under(state, _PREFIX):
            self._bound[bytes.fromhex(node_id)] = _Bound(value[KEY_BYTES:].decode(), value[:KEY_BYTES])

    # ---- at the origin

    def is_wanted(self, peer: str) -> bool:
        """Whether messages for a destination are sealed whatever their senders say."""
        known = self._destination(peer)
        return (known is not None and known.seal) or (bool(self.routes.all) and self.routes.way_of(peer).seal)

    def missing(self, peer: str, way: Way | None) -> str:
        """Why messages for a destination cannot be sealed, for people; empty if they can."""
        known = self._destination(peer)
        if self.seals is None:
            return "it runs without keys"
        if known is None or not known.keys:
            return f"it has no key of {peer.partition(BY_HAND)[0]}"
        if way is not None and way.renamed:
            return f"its route calls it {way.final}"
        try:
            self.seals.mac(known.keys[-1], b"")
        except ProtocolError:
            return f"nobody can have the key that it has of {known.name}"
        return ""

    def look_at(self, outgoing: OutgoingStream) -> bool:
        """Find the key for a sealed stream, as peers and routes are now. Returns whether it may leave."""
        seal = outgoing.seal
        if seal is None:
            return True
        known = self._destination(outgoing.peer)
        seal.missing = self.missing(outgoing.peer, outgoing.way)
        if not seal.missing and known is not None:
            # The newest: a node that exchanges its keys keeps that one longest.
            seal.key = known.keys[-1]
        return not seal.missing

    def _destination(self, peer: str) -> Peer | None:
        return self.directory.named(peer.partition(BY_HAND)[0])

    def seal(self, outgoing: OutgoingStream, number: int, previous: int, body: bytes) -> bytes:
        """The body of a packet that leaves now."""
        assert self.seals is not None
        assert outgoing.seal is not None
        head, text = split_to_seal(body)
        stream = self.node_id, outgoing.stream_number, outgoing.sequence.sequence
        bound = _bound(outgoing.delivery, *stream, number, previous, outgoing.queue, head)
        return head + self.seals.seal(outgoing.seal.key, text, bound)

    def believes_ack(
        self, outgoing: OutgoingStream, conversation: Conversation, packet: OrderAckPacket, now_ns: int
    ) -> bool:
        """Whether an order ack is the destination's. If not, it is counted, and frees nothing."""
        proved = self._is_proved(outgoing, conversation, packet)
        if not proved:
            self._refuse_word("order-ack", outgoing, conversation, packet, now_ns)
        return proved

    def judge_reject(
        self, outgoing: OutgoingStream, conversation: Conversation, packet: RejectPacket, now_ns: int
    ) -> Verdict | None:
        """What to believe of a rejection; None for nothing, and then it is counted."""
        seal = outgoing.seal
        if seal is None:
            return Verdict(packet.reason, certain=True)
        if self._is_proved(outgoing, conversation, packet):
            return Verdict(packet.reason, certain=packet.reason not in _AT_THE_DOOR)
        in_its_name = isinstance(packet, RelayedReject) and packet.by == seal.by
        if in_its_name or packet.reason not in _BY_RELAYS:
            self._refuse_word("reject", outgoing, conversation, packet, now_ns)
            return None
        return Verdict(_BY_RELAYS[packet.reason], certain=False)

    def _is_proved(
        self, outgoing: OutgoingStream, conversation: Conversation, packet: OrderAckPacket | RejectPacket
    ) -> bool:
        seal, known = outgoing.seal, self._destination(outgoing.peer)
        if seal is None:
            return True
        if known is None or self.seals is None:
            return False
        if self.speaks_itself(outgoing, conversation):
            return True
        if not isinstance(packet, RelayedOrderAck | RelayedReject) or not packet.mac:
            return False
        proved = self.seals.fits(known.keys, packet.said, packet.mac)
        seal.by = packet.by if proved else seal.by
        return proved

    def speaks_itself(self, outgoing: OutgoingStream, conversation: Conversation) -> bool:
        """Whether a session is with the destination of a stream, so that its answers need no proof."""
        known = self._destination(outgoing.peer)
        return known is not None and bool(known.keys) and conversation.peer_name == known.name

    def _refuse_word(
        self,
        kind: str,
        outgoing: OutgoingStream,
        conversation: Conversation,
        packet: OrderAckPacket | RejectPacket,
        now_ns: int,
    ) -> None:
        self.drops[DropReason.FORGED_WORD] += 1
        self.record(
            "word_refused",
            now_ns,
            kind=kind,
            origin=self.node_id.hex(),
            stream=outgoing.stream_number,
            sequence=packet.sequence,
            number=packet.number,
            peer=conversation.peer_id.hex(),
        )

    # ---- at the destination

    def demands(self, conversation: Conversation, header: SequenceHeader) -> bool:
        """Whether messages of an origin, or those that a neighbour brings as a relay, must come sealed."""
        if header.origin == conversation.peer_id:
            return False
        known, bound = self.directory.named(conversation.peer_name), self._bound.get(header.origin)
        name = self.owner_of(header.origin) or ("" if bound is None else bound.name)
        origin = self.directory.named(name or getattr(header, "from_name", ""))
        return any(peer is not None and peer.sealed_only for peer in (known, origin))

    def open(
        self, conversation: Conversation, header: SequenceHeader, delivery: Delivery, commit: Commit
    ) -> Refused | None:
        """Open a sealed packet in place. Returns why it is not accepted, or None when it is.

        The next commit notes which peer has sealed the messages of its origin.
        """
        body, seals = header.body, self.seals
        bound = _bound(delivery, *header.named, header.previous, header.queue, body[:HEAD_BYTES])
        if seals is None:
            return Refused(RejectReason.BAD_SEAL)
        try:
            key, text = seals.open(body[HEAD_BYTES:], bound)
            opened = read_opened(body[:HEAD_BYTES], text)
            check_source(opened, is_subscribed(header.queue))
        except ProtocolError:
            return Refused(RejectReason.BAD_SEAL)
        sealer = self.directory.with_key(key)
        if sealer is None or not self._may_seal_for(sealer, key, conversation, header):
            return Refused(RejectReason.UNKNOWN_SEALER, key)
        self._bind(header.origin, sealer.name, key, commit)
        header.body = opened
        return None

    def _may_seal_for(self, sealer: Peer, key: bytes, conversation: Conversation, header: SequenceHeader) -> bool:
        """Whether, as far as is known, the peer that has sealed a packet is the one whose node sends it."""
        if header.origin == conversation.peer_id and sealer.name != conversation.peer_name:
            return False
        owner, bound = self.owner_of(header.origin), self._bound.get(header.origin)
        if owner and owner != sealer.name:
            return False
        others = bound is not None and bound.key != key and bound.name != sealer.name
        return not others or bound is None or self.directory.named(bound.name) is None

    def _bind(self, origin: bytes, name: str, key: bytes, commit: Commit) -> None:
        if self._bound.get(origin) == (name, key):
            return
        self._bound.pop(origin, None)
        same = [node_id for node_id, bound in self._bound.items() if bound.name == name]
        for node_id in same[: len(same) - NODES_MAX + 1] if len(same) >= NODES_MAX else ():
            del self._bound[node_id]
            commit.state[_PREFIX + node_id.hex()] = None
        self._bound[origin] = _Bound(name, key)
        commit.state[_PREFIX + origin.hex()] = key + name.encode()

    def sealer_of(self, origin: bytes) -> str:
        """The peer whose key has sealed messages of a node; empty when none has, or no peer has that key now."""
        bound = self._bound.get(origin)
        peer = None if bound is None else self.directory.with_key(bound.key)
        return "" if peer is None else peer.name

    def prove(self, packet: Proved, key: bytes = b"") -> Proved:
        """Add the proof that this node says so, for the origin of sealed messages.

        ``key`` is that of the sealer, or empty for the last one that is known.
        """
        packet.mac = self._mac(packet.origin, key, packet.said)
        return packet

    def prove_end(self, outgoing: OutgoingStream, packet: RelayedEnd) -> RelayedEnd:
        """If a stream is sealed, add for its destination the proof that this node says that it has ended."""
        known = self._destination(outgoing.peer)
        if outgoing.seal is not None and self.seals is not None and known is not None and known.keys:
            packet.mac = self._mac(b"", known.keys[-1], packet.said)
        return packet

    def believes_end(self, packet: RelayedEnd) -> bool:
        """Whether the origin of sealed streams itself says that they have ended."""
        bound = self._bound.get(packet.origin)
        keys = () if bound is None else (bound.key, *self._keys_of(bound.name))
        return bool(packet.mac) and self.seals is not None and self.seals.fits(keys, packet.said, packet.mac)

    def _keys_of(self, name: str) -> tuple[bytes, ...]:
        known = self.directory.named(name)
        return () if known is None else known.keys

    def _mac(self, origin: bytes, key: bytes, said: bytes) -> bytes:
        bound = self._bound.get(origin)
        key = key or (b"" if bound is None else bound.key)
        if self.seals is None or not key:
            return b""
        try:
            return self.seals.mac(key, said)
        except ProtocolError:
            return b""


def _bound(  # noqa: PLR0917 - the fields in the order of their bytes
    delivery: Delivery, origin: bytes, stream: int, sequence: int, number: int, previous: int, queue: str, head: bytes
) -> bytes:
    """What a sealed packet is bound to: all of its header that no relay may change."""
    name = queue.encode()
    return _BOUND.pack(delivery, origin, stream, sequence, number, previous, len(name)) + name + head
