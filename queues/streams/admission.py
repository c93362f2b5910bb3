"""Admission control of the queues: permissions, quotas, and limits on the memory that peers fill.

Promise: a rejection is permanent, for a reason that stays true or because the queue is set to reject. Any other packet
without room is not accepted *now*. The node asks its origin to hold the stream back. The origin resends all of it when
it may continue, and asks by itself now and then (``ordering/hold.py``). No other stream is held back, and sessions
continue.

The rest of a large message that has begun is always accepted, so that no two halves can wait for each other. When a
queue holds nothing but unfinished messages of origins that are gone, other origins may fill it: no reader could make
room.

A large body reserves room for all its parts with its announcement. Until a message represents it, that room is taken
only from other bodies: messages of its queue never wait for it. So a body waits for readers and for bodies that have
begun, and nothing waits for a body that has not. A queue may exceed its quota by the bodies that are coming, and a peer
its limit of streams by one for each body that waits for its message. The room on the disk is shared in the same way: a
body waits while the disk has no room for all of it beside its reserve and what is to come of the others.

What makes room is always accepted, however little of it there is: that no more of a body comes, and what nodes tell
each other about subscriptions, such as that one ends. None of it stays.
"""

from collections import OrderedDict
from collections.abc import Callable

from triack.base.commit import HEAD_BYTES
from triack.base.delivery import DURABLE
from triack.base.errors import ProtocolError
from triack.base.names import StreamId
from triack.base.news import StoreLow, StreamsNearLimit
from triack.base.peers import Directory
from triack.base.reasons import DropReason, HoldReason, RejectReason
from triack.ordering.wire import RelayedEnd, RelayedHeader, SequenceHeader, encode_hold
from triack.queues.body_head import fragment_range, large_of
from triack.queues.mailboxes.local_queues import LocalQueues
from triack.queues.mailboxes.mailbox import EXPRESS_OVERHEAD_BYTES, Mailbox
from triack.queues.mailboxes.parts_queue import PartsQueue, announced_bytes
from triack.queues.mailboxes.quotas import Account, Payer, PayerOf
from triack.queues.mailboxes.resolver import local_queue
from triack.queues.mailboxes.system_queues import SUBSCRIPTIONS_QUEUE, SystemQueue, large_queue, large_target
from triack.queues.node_settings import STREAM_BYTES, NodeSettings, streams_limit
from triack.queues.peers.control import Control
from triack.queues.peers.link import Conversation
from triack.queues.peers.origins import Origins
from triack.queues.streams.holds import HeldStream, Holds
from triack.queues.streams.incoming_stream import IncomingStream
from triack.queues.streams.transit_stream import TransitStream

OVERTAKEN_BYTES = 16 * 1024 * 1024
"""How far beyond its quota a queue may grow for packets that a begun large message has overtaken: several windows of
the largest packets, more than a correct sender has in flight."""
STORED_SHARE = 40
"""The store was seen to add one byte to a hundred of a body, and three where datagrams are small."""
HOLD_KEY = -1
"""Key of a hold, in place of a number, among the control packets of a stream."""


KEPT_OUT_MAX = 256
"""Streams of one session that the node notifies when there is a place; any others ask again by themselves."""


class _KeptOut:
    """The streams of one session that are not known here because there is no place for them.

    Attributes:
        streams: those to notify when there is a place, the longest waiting first.
        turn: the greatest turn of a hold sent for any of them; even.
        overflowed: whether there were too many to remember all.
    """

    __slots__ = ("overflowed", "streams", "turn")

    def __init__(self) -> None:
        self.streams: OrderedDict[StreamId, None] = OrderedDict()
        self.turn = 0
        self.overflowed = False


class Admission:
    """Admission control of the queues of a node.

    Args:
        goes_on: whether a stream, named by origin and number, has a session that may carry more of it.
        payer_of: the payer that is charged for what a node sends.
        owner_of: the peer that has proved to be a node; empty when none has.
        origins: the nodes whose messages relays bring.
        keyless: whether this node has no keys: then nodes that are not in the directory may send.

    Attributes:
        disk: bytes in the queues of the node, without express messages.
        early: out-of-order packets in memory, and the records of gaps.
        streams: the streams themselves, in memory.
        queues: the number of queues that peers have created since the start and that still exist.
        store_low: whether the disk is so nearly full that durable packets are not accepted.
        room_bytes: free room on the disk at the last check; None when it is unknown.
        disk_bytes: the same if no messages were there; None when it is unknown.
        awaits_room: whether a large body waits for room on the disk.
        places: whether streams have ended since the last check for streams that may have their places.
        wants_queues: whether some stream waits because its queue may not be created: any queue that becomes idle makes
            room for it.
    """

    def __init__(
        self,
        settings: NodeSettings,
        queues: LocalQueues,
        directory: Directory,
        *,
        goes_on: Callable[[bytes, int], bool],
        payer_of: PayerOf,
        owner_of: Callable[[bytes], str],
        origins: Origins,
        keyless: bool,
    ) -> None:
        self._settings = settings
        self._queues = queues
        self._mailboxes = queues.mailboxes
        self._directory = directory
        self._notices = queues.notices
        self.disk, self.express = queues.notices.disk, queues.notices.express
        self._goes_on = goes_on
        quarter = (settings.limits.peer_memory_bytes // 4, settings.limits.memory_bytes // 4)
        self.early = Account(*quarter, payer_of)
        self.waiting = queues.waiting
        self.streams = Account(*quarter, payer_of)
        self.queues = Account(settings.limits.max_peer_queues, settings.max_queues, payer_of)
        self.store_low = False
        self.room_bytes: int | None = None
        self.disk_bytes: int | None = None
        self.awaits_room = False
        self._bodies = queues.bodies
        self.news = queues.notices.news
        self._payer_of = payer_of
        self._owner_of = owner_of
        self._origins = origins
        self._keyless = keyless
        # Peers near their limit of streams, and whether some of their streams had to wait.
        self._told_limit: dict[Payer, bool] = {}
        self._kept_out: dict[Conversation, _KeptOut] = {}
        # The greatest turn of a hold of any stream that was forgotten, or one more: even.
        self._past_turn = 0
        self.places = False
        self._stopped: dict[IncomingStream, Conversation] = {}
        self.holds = Holds(here=True)
        self._makers: dict[str, bytes] = {}
        queues.on_removed = self.handle_removed
        queues.may_leave = self._may_leave
        self.wants_queues = False

    def handle_start(self, node_id: bytes) -> None:
        """Set this node's own id: it is not a peer of itself."""
        for account in self._accounts:
            account.own = node_id

    @property
    def _accounts(self) -> tuple[Account, ...]:
        bodies = self._bodies.held, self._bodies.unclaimed
        return self.early, self.waiting, self.streams, self.queues, self.disk, self.express, *bodies

    def check_invariants(self) -> None:
        """Assert that each account adds up."""
        for account in self._accounts:
            account.check_invariants()

    def handle_proved(self, node_id: bytes) -> None:
        """A peer has proved to be a node, perhaps not the same peer as before: charge it for what that node sent."""
        for account in self._accounts:
            account.handle_proved(node_id)

    # ---- permanent rejections

    def refusal(self, stream: IncomingStream, conversation: Conversation, body: bytes) -> RejectReason | None:
        """Why a packet whose turn has come is permanently rejected, or None."""
        reason = self._forbidden(stream, conversation) or self._overfull(stream, body)
        return None if reason is not None and self._frees_body(stream, body) else reason

    def _frees_body(self, stream: IncomingStream, body: bytes) -> bool:
        """Whether a packet only says that no more of a large body comes: a node that may send no more may say so.

        It is accepted although its queue is paused, the disk is low or a quota is full, as it makes room.
        """
        if not large_target(stream.queue) or stream.queue not in self._mailboxes or not stream.ordered:
            return False
        return bool(large_of(body)) and not announced_bytes(body[:HEAD_BYTES], len(body))

    def _makes_room(self, stream: IncomingStream) -> bool:
        if large_target(stream.queue):
            return not (self._bodies.is_coming(stream.id) or stream.announces_bytes)
        return stream.queue == SUBSCRIPTIONS_QUEUE

    def _forbidden(self, stream: IncomingStream, conversation: Conversation) -> RejectReason | None:
        name = stream.queue
        if stream.may_send is None:
            may_send = self._may_bring_to(stream, conversation)
            stream.may_send = may_send and self._queues.admits(name, stream.id, stream.sealed)
        if not stream.may_send:
            return RejectReason.ACCESS_DENIED
        target = large_target(name)
        if name in self._mailboxes or (target and target in self._mailboxes):
            return None
        if self._queues.is_fixed or isinstance(local_queue(target or name), SystemQueue):
            return RejectReason.QUEUE_NOT_FOUND
        if stream.delivery not in DURABLE and self._lacks_queue(stream):
            return RejectReason.TOO_MANY_QUEUES
        return None

    def _lacks_queue(self, stream: IncomingStream) -> bool:
        if stream.queue in self._mailboxes or not self._is_crowded(stream.origin):
            return False
        self._queues.make_room()
        lacks = self._is_crowded(stream.origin)
        self.wants_queues = self.wants_queues or lacks
        return lacks

    def _is_crowded(self, origin: bytes) -> bool:
        return len(self._mailboxes) >= self._settings.max_queues or self.queues.has_enough(origin)

    def has_streams_enough(self, origin: bytes, queue: str = "") -> bool:
        """Whether a peer may have no more streams.

        A stream to a queue may begin beyond the limit for each body that waits there for a message: the body has room
        that the streams within the limit may wait for. The stream may bring that message, or say that it does not come.
        So may the one that says which subscriptions end.
        """
        if not self._has_streams(origin, 0):
            return False
        parts = self._mailboxes.get(large_queue(large_target(queue) or queue)) if queue else None
        beyond = int(queue == SUBSCRIPTIONS_QUEUE) if parts is None else self._bodies.awaiting(origin, parts.fill)
        return not beyond or self._has_streams(origin, STREAM_BYTES * beyond)

    def _has_streams(self, origin: bytes, more_bytes: int) -> bool:
        all_bytes = STREAM_BYTES * self._settings.max_streams + more_bytes
        return self.streams.of(origin) >= all_bytes or self.streams.has_enough(origin, more_bytes)

    def add_stream(self, origin: bytes) -> None:
        """Charge a peer for one more stream, or for the record of the ended streams of one of its nodes."""
        self.streams.add(origin, STREAM_BYTES)
        self._tell_limit(origin)

    def handle_forgotten(self, stream: IncomingStream) -> None:
        """A stream has ended."""
        self.forget_early(stream)
        stream.early_bytes = 0
        self._stopped.pop(stream, None)
        self._note_turn(stream)
        self.streams.add(stream.origin, -STREAM_BYTES)
        self.places = True
        self._tell_limit(stream.origin)

    def handle_place(self, stream: TransitStream) -> None:
        """A stream that passed through this node is forgotten, and so is the charge for it."""
        self._note_turn(stream)
        self.streams.add(stream.came_by.encode(), -STREAM_BYTES)
        self.places = True

    def _note_turn(self, stream: IncomingStream | TransitStream) -> None:
        """Its origin may begin the stream again in the same session, and ignores holds that are older than the last."""
        self._past_turn = max(self._past_turn, stream.turn + (stream.turn & 1))

    def _tell_limit(self, origin: bytes, *, is_full: bool = False) -> None:
        """Tell the operator, once each, that a peer is near its limit of streams, or that some have to wait."""
        payer, limit = self._payer_of(origin), streams_limit(self._settings)
        streams, told = self.streams.of(origin) // STREAM_BYTES, self._told_limit.get(payer)
        if is_full > bool(told) or (told is None and 4 * streams >= 3 * limit):
            self._told_limit[payer] = is_full
            name = payer if isinstance(payer, str) else payer.hex()
            self.news.append(StreamsNearLimit(name, streams, limit, incoming=True, is_full=is_full))
        elif told is not None and 2 * streams <= limit:
            del self._told_limit[payer]

    @property
    def near_limit(self) -> list[tuple[str, bool]]:
        """The peers near their limit of streams, and whether some of their streams had to wait."""
        return [(it if isinstance(it, str) else it.hex(), is_full) for it, is_full in self._told_limit.items()]

    def handle_made(self, origin: bytes, queue: str) -> None:
        """A queue was created for a peer."""
        self._makers[queue] = origin
        self.queues.add(origin, 1)

    def handle_removed(self, queue: str) -> None:
        """An unused queue was removed, which makes room for others."""
        origin = self._makers.pop(queue, None)
        if origin is not None:
            self.queues.add(origin, -1)

    def _may_send(self, conversation: Conversation, queue: str) -> bool:
        queue = large_target(queue) or queue
        target = local_queue(queue)
        if not target.takes_from_peers:
            return False
        peer = self._directory.named(conversation.peer_name)
        if peer is None:
            # Without keys, addresses that are not in the directory may send. A key that is not in it may not.
            return not conversation.channel.peer_key
        return isinstance(target, SystemQueue) or peer.may_send_to(queue)

    def _may_leave(self, origin: bytes, queue: str) -> bool:
        """Whether a node may have its dead letters put into a queue here: as if it, and its relay, sent them there."""
        if self._keyless or origin == self.disk.own:
            return True
        brought = self._origins.of(origin)
        names = self._owner_of(origin), "" if brought is None else brought.via
        peers = [self._directory.named(name) for name in names if name]
        return bool(peers) and all(peer is not None and peer.may_send_to(queue) for peer in peers)

    def check_brought(self, conversation: Conversation, header: RelayedHeader | RelayedEnd) -> RejectReason | None:
        """Why a neighbour may not bring a packet of another node, or None. It is for this node, or to be passed on.

        Raises ProtocolError ``foreign-origin`` if its origin is a peer of this node for which the neighbour does not
        speak.
        """
        owner, peer = self._owner_of(header.origin), self._directory.named(conversation.peer_name)
        name = owner or header.from_name
        if peer is not None and name and peer.may_bring(name):
            return None
        if owner:
            raise ProtocolError(DropReason.FOREIGN_ORIGIN, f"{conversation.peer_label} may not speak for {owner}")
        return RejectReason.ACCESS_DENIED

    def _may_bring_to(self, stream: IncomingStream, conversation: Conversation) -> bool:
        """Whether the neighbour and, if it is a peer, the origin of a stream may send to its queue."""
        if not self._may_send(conversation, stream.queue):
            return False
        owner = self._directory.named(self._owner_of(stream.origin)) if stream.relay else None
        queue = large_target(stream.queue) or stream.queue
        is_system = isinstance(local_queue(queue), SystemQueue)
        return owner is None or is_system or owner.may_send_to(queue)

    def may_bring_more(self, stream: IncomingStream) -> bool:
        """Whether the peer that brings a large body may still send to its queue, as far as that peer is known."""
        payer = stream.relay or self._payer_of(stream.origin)
        if not isinstance(payer, str):
            return True
        peer = self._directory.named(payer)
        return peer is not None and peer.may_send_to(large_target(stream.queue))

    def _overfull(self, stream: IncomingStream, body: bytes) -> RejectReason | None:
        if target := large_target(stream.queue):
            return self._overfull_by_body(stream, target, body)
        fragment = fragment_range(body[:HEAD_BYTES], len(body))
        quota = self._queues.quota_of(stream.queue)
        if fragment is not None and fragment[3] > quota.size_bytes:
            return RejectReason.TOO_LARGE
        mailbox = self._mailboxes.get(stream.queue)
        if stream.delivery not in DURABLE and self.express.is_over(stream.origin):
            full = True
        else:
            full = quota.when_full == "reject" and self._is_full(stream, mailbox)
        begun = mailbox is not None and fragment and mailbox.partials.expects(stream.origin, stream.number, fragment[0])
        return None if begun or not full else RejectReason.QUEUE_FULL

    def _overfull_by_body(self, stream: IncomingStream, target: str, body: bytes) -> RejectReason | None:
        quota, total_bytes = self._queues.quota_of(target), announced_bytes(body[:HEAD_BYTES], len(body))
        if not stream.ordered:
            return RejectReason.ACCESS_DENIED  # no node sends parts in another class
        if not total_bytes:
            if not self._bodies.is_coming(stream.id):
                return RejectReason.BODY_GONE
            return RejectReason.PART_TOO_SMALL if self._bodies.is_over(stream.id) else None
        if total_bytes > self.most_body_bytes(target):
            return RejectReason.TOO_LARGE
        if self.exceeds_disk(total_bytes):
            return RejectReason.LARGER_THAN_DISK
        full = quota.when_full == "reject" and not self.has_room_for_body(target, stream.origin, total_bytes)
        return RejectReason.QUEUE_FULL if full else None

    def most_body_bytes(self, queue: str) -> int:
        """The size of the largest body that a queue ever accepts."""
        limits = self._settings.limits
        return min(self._queues.quota_of(queue).size_bytes, limits.peer_quota_bytes, limits.node_quota_bytes // 2)

    def announces_body(self, stream: IncomingStream, body: bytes) -> bool:
        """Whether a packet announces a large body. It is accepted alone: then it is known what is left."""
        is_part = stream.ordered and bool(large_target(stream.queue))
        return is_part and announced_bytes(body[:HEAD_BYTES], len(body)) > 0

    def exceeds_disk(self, total_bytes: int) -> bool:
        """Whether the disk would have no room for a body if there were no messages."""
        reserve = self._settings.limits.disk_reserve_bytes
        if self.disk_bytes is None or self.room_bytes is None or not reserve:
            return False
        # A disk may have grown since the start.
        return total_bytes > max(self.disk_bytes, self.room_bytes) - reserve

    def has_disk_for_body(self, total_bytes: int) -> bool:
        """Whether the disk has room for a body now, beside the reserve and what is to come of other bodies."""
        reserve, bodies = self._settings.limits.disk_reserve_bytes, self._bodies
        if self.room_bytes is None or not reserve:
            return True
        free_bytes = self.room_bytes - reserve - _on_disk(bodies.coming_bytes) - bodies.unseen_bytes
        return not self.store_low and _on_disk(total_bytes) <= free_bytes

    def has_room_for_body(self, queue: str, origin: bytes, total_bytes: int) -> bool:
        """Whether a queue accepts a body now."""
        target, parts = self._mailboxes.get(queue), self._mailboxes.get(large_queue(queue))
        if self.disk.is_full(origin) or (target is not None and not target.takes_arrivals):
            return False
        if isinstance(parts, PartsQueue):
            return parts.has_room_for(origin, total_bytes)
        return target is None or target.fill.fits(0, total_bytes)

    # ---- temporary holds

    @property
    def is_behind(self) -> bool:
        """Whether half of one peer's memory share waits for the disk: more packets would soon be refused and resent."""
        return self.waiting.total_bytes >= self._settings.limits.peer_memory_bytes // 8

    def count_early(self, stream: IncomingStream) -> None:
        """A packet has arrived: update the charge for its stream's out-of-order memory."""
        size_bytes = stream.out_of_order_bytes
        if size_bytes != stream.early_bytes:
            self.early.add(stream.origin, size_bytes - stream.early_bytes)
            stream.early_bytes = size_bytes

    def forget_early(self, stream: IncomingStream) -> None:
        """Drop the charge for this stream's out-of-order memory: it ends, or another stream replaces it."""
        self.early.add(stream.origin, -stream.early_bytes)

    def must_wait(self, stream: IncomingStream, header: SequenceHeader) -> bool:
        """Whether there is no room now for a new packet of a durable stream."""
        if large_target(stream.queue):
            return self._must_wait_with_body(stream, header.body)
        if self._must_wait(stream):
            return True
        mailbox = self._mailboxes.get(stream.queue)
        if not self._is_full(stream, mailbox) or self._queues.quota_of(stream.queue).when_full == "reject":
            return False
        if mailbox is None:
            return True
        origin, number = stream.origin, stream.number
        fragment = fragment_range(header.body[:HEAD_BYTES], len(header.body))
        if fragment is not None and mailbox.partials.expects(origin, number, fragment[0]):
            return False
        # Its origin sends it before the rest of the large message: refusing it would be a deadlock.
        comes_first = not stream.ordered and mailbox.partials.awaits_beyond(origin, number, header.number)
        return not comes_first or mailbox.fill.bytes.value >= mailbox.fill.bytes.limit + OVERTAKEN_BYTES

    def _must_wait_with_body(self, stream: IncomingStream, body: bytes) -> bool:
        """The same for a packet of a large body. The parts of a body that has its room do not wait for more."""
        if self._frees_body(stream, body):
            stream.announces_bytes = 0
            return False
        stream.announces_bytes = announced_bytes(body[:HEAD_BYTES], len(body))
        if self._must_wait(stream):
            return True
        if self._lacks_disk(stream):
            self.awaits_room = True
            return True
        target = large_target(stream.queue)
        return self._queues.quota_of(target).when_full != "reject" and self._waits_with_body(stream, target)

    def _lacks_disk(self, stream: IncomingStream) -> bool:
        return stream.announces_bytes > 0 and not self.has_disk_for_body(stream.announces_bytes)

    def _waits_with_body(self, stream: IncomingStream, target: str) -> bool:
        """Whether a queue has no room now for the body that the next packet of a stream announces."""
        total_bytes = stream.announces_bytes
        return total_bytes > 0 and not self.has_room_for_body(target, stream.origin, total_bytes)

    def _must_wait(self, stream: IncomingStream) -> bool:
        return (
            (self.store_low and not self._makes_room(stream))
            or self.waiting.is_full(stream.origin)
            or self._lacks_queue(stream)
            or self._is_paused(stream.queue)
        )

    def _is_paused(self, queue: str) -> bool:
        mailbox = self._mailboxes.get(queue)
        return mailbox is not None and bool(mailbox.pause or mailbox.holder) and not mailbox.takes_arrivals

    def takes_run(self, stream: IncomingStream, mailbox: Mailbox, packets: int, messages: int, size_bytes: int) -> bool:
        """Whether a stream can accept all of a run: no packet would be refused, or have to wait, if it came singly."""
        origin = stream.origin
        if stream.may_send is not True or stream.rejections.refused or not mailbox.fill.takes(messages, size_bytes):
            return False
        if (mailbox.pause or mailbox.holder) and not mailbox.takes_arrivals:
            return False
        if stream.delivery not in DURABLE:
            size_bytes += packets * EXPRESS_OVERHEAD_BYTES
            # Packets in flight when their sender is asked to stop are accepted, unless the queue rejects when full.
            refuses = self._queues.quota_of(stream.queue).when_full == "reject"
            return (self.express.takes if refuses else self.express.stays_within)(origin, size_bytes)
        waits = self.store_low or not self.waiting.takes(origin, size_bytes)
        return not waits and self.disk.takes(origin, size_bytes)

    def _is_full(self, stream: IncomingStream, mailbox: Mailbox | None) -> bool:
        if target := large_target(stream.queue):
            return self._lacks_disk(stream) or self._waits_with_body(stream, target)
        durable = stream.delivery in DURABLE
        if not durable and mailbox is not None and mailbox.partials.awaits_beyond(stream.origin, stream.number, 0):
            # A stream that is stopped in the middle of a large message would never make room.
            return False
        account = self.disk if durable else self.express
        full = mailbox is not None and mailbox.fill.is_full and not self._is_left(mailbox)
        # What is apart does not count for its origin, whose other messages are no reason to let it wait.
        is_apart = mailbox is not None and mailbox.is_apart
        return full or (not is_apart and account.is_full(stream.origin))

    def _why(self, stream: IncomingStream) -> HoldReason:  # noqa: PLR0911 - a reason each
        durable, mailbox = stream.delivery in DURABLE, self._mailboxes.get(stream.queue)
        if mailbox is not None and not mailbox.takes_arrivals:
            return HoldReason.JOURNAL_FULL if mailbox.is_held_by_journal else HoldReason.PAUSED
        if durable and self.store_low:
            return HoldReason.STORE_LOW
        target = large_target(stream.queue)
        if target and self._lacks_disk(stream):
            return HoldReason.NO_ROOM_FOR_BODY
        if target and not self.disk.is_full(stream.origin) and self._waits_with_body(stream, target):
            return HoldReason.PEER_QUOTA if self._bodies.is_full(stream.origin) else HoldReason.QUEUE_FULL
        if mailbox is not None and mailbox.fill.is_full and not self._is_left(mailbox):
            return HoldReason.QUEUE_FULL
        account = self.disk if durable else self.express
        if not account.is_full(stream.origin):
            return HoldReason.STORE_BUSY
        if not durable:
            return HoldReason.PEER_MEMORY
        return HoldReason.PEER_QUOTA if account.has_share(stream.origin) else HoldReason.NODE_QUOTA

    def _is_left(self, mailbox: Mailbox) -> bool:
        """Whether a queue holds only unfinished messages of origins that are gone, so that no reader can make room."""
        begun = mailbox.partials
        return mailbox.fill.messages.value == len(begun) and not any(self._goes_on(*one) for one in begun.streams)

    def handle_settings(self, settings: NodeSettings) -> None:
        """Other quotas, and another reserve of the disk, are in force."""
        self._settings = settings
        self._look_at_room()

    def handle_room(self, room_bytes: int | None) -> None:
        """The disk was checked for room. Once low, it stays low until a quarter more than the reserve is free."""
        self.room_bytes = room_bytes
        self._bodies.unseen_bytes = 0
        self._look_at_room()

    def _look_at_room(self) -> None:
        room_bytes = self.room_bytes
        if room_bytes is None:
            return
        self._notices.relieved = self._notices.relieved or self.awaits_room
        was_low, reserve = self.store_low, self._settings.limits.disk_reserve_bytes
        self.store_low = room_bytes < reserve + (reserve // 4 if was_low else 0)
        if self.store_low != was_low:
            self.news.append(StoreLow(self.store_low, room_bytes))
            self._notices.relieved = True

    def has_room(self, mailbox: Mailbox, *, durable: bool, coming: int = 0) -> bool:
        """Whether a queue accepts one more message of this node itself, besides the ``coming`` ones."""
        if isinstance(mailbox, PartsQueue):
            return not self.store_low
        account = self.disk if durable else self.express
        full = mailbox.fill.is_full_with(coming) and (coming > 0 or not self._is_left(mailbox))
        return mailbox.takes_arrivals and not (full or account.is_full(account.own) or (durable and self.store_low))

    def stop(self, stream: IncomingStream, conversation: Conversation, refuses: tuple[int, ...] = ()) -> bool:
        """Ask an origin to wait, by the conversation of its packet.

        ``refuses``: the session's numbers of the packets that were not accepted. Returns False when too many other
        answers wait. The packet stays unanswered then, and its session retransmits it.
        """
        turn = stream.turn
        if not stream.stopped:
            stream.turn += 1
        elif refuses:
            # That is news; without it the turn is that of the hold that is repeated.
            stream.turn += 2
        told = self._tell(stream, conversation, refuses)
        if told:
            self._stopped[stream] = conversation
            held = HeldStream(conversation.peer_label, stream.queue, stream.delivery, self._why(stream))
            self.holds.hold(stream, held)
        else:
            stream.turn = turn
        return told

    # ---- streams for which there is no place

    def keep_out(self, conversation: Conversation, header: SequenceHeader, packet: int) -> bool:
        """Ask an origin to wait with an unknown stream, for which there is no place. Returns as ``stop``."""
        self._tell_limit(header.origin, is_full=True)
        kept = self._kept_out.setdefault(conversation, _KeptOut())
        kept.turn = max(kept.turn, self._past_turn) + 2
        content = encode_hold(
            header.origin, header.stream, kept.turn - 1, stop=True, reason=HoldReason.TOO_MANY_STREAMS
        )
        stream = StreamId(header.origin, header.stream)
        if not conversation.put_control((conversation.name_of(stream), HOLD_KEY), Control(content, (packet,))):
            return False
        kept.streams[stream] = None
        kept.streams.move_to_end(stream)
        if len(kept.streams) > KEPT_OUT_MAX:
            # Its origin asks by itself, now and then.
            kept.streams.popitem(last=False)
            kept.overflowed = True
        return True

    def let_in(self, conversation: Conversation, stream: IncomingStream | TransitStream) -> None:
        """A stream is known now: let it continue if it was kept out before in this session."""
        kept = self._kept_out.get(conversation)
        # Holds sent for it from now on must be newer than those sent before.
        stream.turn = max(stream.turn, self._past_turn)
        if kept is None:
            return
        stream.turn = kept.turn = max(stream.turn, kept.turn)
        known = stream.id in kept.streams
        kept.streams.pop(stream.id, None)
        if known or kept.overflowed:
            self._say_go(conversation, stream.id, kept)
            stream.turn = kept.turn

    def _say_go(self, conversation: Conversation, stream: StreamId, kept: "_KeptOut") -> None:
        kept.turn += 2
        key = conversation.name_of(stream), HOLD_KEY
        # It replaces a stop that has not left: its origin learns by the reason that packets were not accepted.
        unsent = conversation.control is not None and key in conversation.control
        reason = HoldReason.TOO_MANY_STREAMS if unsent else ""
        conversation.put_control(key, Control(encode_hold(*stream, kept.turn, stop=False, reason=reason)))

    def _let_ask(self) -> None:
        """For each free place, let one stream that was kept out ask again, the longest waiting first."""
        for conversation, kept in self._kept_out.items():
            origin = conversation.peer_id
            places = streams_limit(self._settings) - self.streams.of(origin) // STREAM_BYTES
            while kept.streams and places > 0 and not self.has_streams_enough(origin):
                stream, _ = kept.streams.popitem(last=False)
                self._say_go(conversation, stream, kept)
                places -= 1

    def stop_again(self, conversation: Conversation) -> bool:
        """Repeat the hold of one stream that a conversation has stopped. Returns False when there is none."""
        for stream, told_by in self._stopped.items():
            if told_by is conversation:
                return self._tell(stream, conversation, ())
        return False

    def handle_session_closed(self, conversation: Conversation) -> None:
        """Holds end with their session: its stopped streams are stopped anew if there is still no room."""
        self._kept_out.pop(conversation, None)
        for stream in [stream for stream, told_by in self._stopped.items() if told_by is conversation]:
            stream.turn += 1
            del self._stopped[stream]
            self.holds.free(stream)

    def stop_express(self, stream: IncomingStream, conversation: Conversation) -> None:
        """Express packets were accepted: stop their stream if there is no room for more."""
        if stream.stopped:
            return
        if self._is_paused(stream.queue) or self._is_full(stream, self._mailboxes.get(stream.queue)):
            self.stop(stream, conversation)

    def go(self) -> None:
        """Let streams continue when there is room for them again."""
        if self.places:
            self.places = False
            self._let_ask()
        if not (self._notices.relieved or (self.wants_queues and self._notices.idled)):
            return
        self._notices.relieved = self.wants_queues = self.awaits_room = False
        for stream, conversation in sorted(self._stopped.items(), key=_priority_of, reverse=True):
            durable = stream.delivery in DURABLE
            full = self._is_full(stream, self._mailboxes.get(stream.queue)) or self._is_paused(stream.queue)
            if full or (durable and self._must_wait(stream)):
                self.awaits_room = self.awaits_room or self._lacks_disk(stream)
                continue
            stream.turn += 1
            if self._tell(stream, conversation, ()):
                del self._stopped[stream]
                self.holds.free(stream)
            else:
                stream.turn -= 1
                self._notices.relieved = True

    def _tell(self, stream: IncomingStream, conversation: Conversation, refuses: tuple[int, ...]) -> bool:
        if conversation.session.is_closed:
            # The hold ends with its session.
            return True
        reason = self._why(stream) if stream.stopped else ""
        content = encode_hold(stream.origin, stream.number, stream.turn, stop=stream.stopped, reason=reason)
        return conversation.put_control((stream.key, HOLD_KEY), Control(content, refuses))


def _priority_of(stopped: tuple[IncomingStream, Conversation]) -> int:
    return stopped[0].priority


def _on_disk(body_bytes: int) -> int:
    """The room of bodies on the disk: their bytes, and what the store adds to the rows of their parts."""
    return body_bytes + body_bytes // STORED_SHARE
