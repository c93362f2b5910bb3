"""Admission control of the queues: quotas, and limits on the memory that peers fill.

Who may send at all is in ``queues.peers.permissions``, how many streams and queues a peer may have in
``queues.peers.peer_limits``.

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

from collections.abc import Callable

from triack.base.commit import HEAD_BYTES
from triack.base.delivery import DURABLE
from triack.base.news import StoreLow
from triack.base.reasons import HoldReason, RejectReason
from triack.ordering.wire import SequenceHeader
from triack.queues.body_head import fragment_range, large_of
from triack.queues.mailboxes.local_queues import LocalQueues
from triack.queues.mailboxes.mailbox import EXPRESS_OVERHEAD_BYTES, Mailbox, Notices
from triack.queues.mailboxes.parts_queue import PartsQueue, announced_bytes
from triack.queues.mailboxes.quotas import Account
from triack.queues.mailboxes.resolver import local_queue
from triack.queues.mailboxes.system_queues import SUBSCRIPTIONS_QUEUE, SystemQueue, large_queue, large_target
from triack.queues.node_settings import NodeSettings
from triack.queues.peers.link import Conversation
from triack.queues.peers.peer_limits import QueuePlaces, StreamPlaces
from triack.queues.peers.permissions import Permissions
from triack.queues.streams.holds import HoldsHere
from triack.queues.streams.incoming_stream import IncomingStream

OVERTAKEN_BYTES = 16 * 1024 * 1024
"""How far beyond its quota a queue may grow for packets that a begun large message has overtaken: several windows of
the largest packets, more than a correct sender has in flight."""
STORED_SHARE = 40
"""The store was seen to add one byte to a hundred of a body, and three where datagrams are small."""


class DiskRoom:
    """The room on the disk, beside its reserve.

    Attributes:
        is_low: whether the disk is so nearly full that durable packets are not accepted.
        room_bytes: free room at the last check; None when it is unknown.
        all_bytes: the same if no messages were there; None when it is unknown.
        is_awaited: whether a large body waits for room.
    """

    def __init__(self, reserve_bytes: int, notices: Notices) -> None:
        self.is_low = False
        self.room_bytes: int | None = None
        self.all_bytes: int | None = None
        self.is_awaited = False
        self._reserve_bytes = reserve_bytes
        self._notices = notices

    def set_reserve(self, reserve_bytes: int) -> None:
        """Another reserve is in force."""
        self._reserve_bytes = reserve_bytes
        self._look()

    def handle_room(self, room_bytes: int | None) -> None:
        """The disk was checked for room. Once low, it stays low until a quarter more than the reserve is free."""
        self.room_bytes = room_bytes
        self._notices.bodies.unseen_bytes = 0
        self._look()

    def _look(self) -> None:
        room_bytes = self.room_bytes
        if room_bytes is None:
            return
        if self.is_awaited:
            self._notices.relieved[self] = None
        was_low, reserve_bytes = self.is_low, self._reserve_bytes
        self.is_low = room_bytes < reserve_bytes + (reserve_bytes // 4 if was_low else 0)
        if self.is_low != was_low:
            self._notices.news.append(StoreLow(self.is_low, room_bytes))
            self._notices.relieved[self] = None

    def is_exceeded_by(self, body_bytes: int) -> bool:
        """Whether the disk would have no room for a body if there were no messages."""
        if self.all_bytes is None or self.room_bytes is None or not self._reserve_bytes:
            return False
        # A disk may have grown since the start.
        return body_bytes > max(self.all_bytes, self.room_bytes) - self._reserve_bytes

    def fits(self, body_bytes: int) -> bool:
        """Whether the disk has room for a body now, beside the reserve and what is to come of other bodies."""
        bodies = self._notices.bodies
        if self.room_bytes is None or not self._reserve_bytes:
            return True
        free_bytes = self.room_bytes - self._reserve_bytes - _on_disk(bodies.coming_bytes) - bodies.unseen_bytes
        return not self.is_low and _on_disk(body_bytes) <= free_bytes


def _on_disk(body_bytes: int) -> int:
    """The room of bodies on the disk: their bytes, and what the store adds to the rows of their parts."""
    return body_bytes + body_bytes // STORED_SHARE


class BodyRoom:
    """The room for large bodies, in the queues that they are for and on the disk."""

    def __init__(self, queues: LocalQueues, disk: DiskRoom) -> None:
        self._queues = queues
        self._mailboxes = queues.mailboxes
        self._bodies = queues.bodies
        self._disk = disk

    def most_bytes(self, queue: str) -> int:
        """The size of the largest body that a queue ever accepts."""
        limits = self._queues.limits
        return min(self._queues.quota_of(queue).size_bytes, limits.peer_quota_bytes, limits.node_quota_bytes // 2)

    def has_room(self, queue: str, origin: bytes, total_bytes: int) -> bool:
        """Whether a queue accepts a body now."""
        target, parts = self._mailboxes.get(queue), self._mailboxes.get(large_queue(queue))
        if self._queues.notices.disk.is_full(origin) or (target is not None and not target.takes_arrivals):
            return False
        if isinstance(parts, PartsQueue):
            return parts.has_room_for(origin, total_bytes)
        return target is None or target.fill.fits(0, total_bytes)

    def refusal(self, stream: IncomingStream, body: bytes) -> RejectReason | None:
        """Why a packet of a large body is permanently rejected, or None."""
        target = large_target(stream.queue)
        quota, total_bytes = self._queues.quota_of(target), announced_bytes(body[:HEAD_BYTES], len(body))
        if not stream.ordered:
            return RejectReason.ACCESS_DENIED  # no node sends parts in another class
        if not total_bytes:
            if not self._bodies.is_coming(stream.id):
                return RejectReason.BODY_GONE
            return RejectReason.PART_TOO_SMALL if self._bodies.is_over(stream.id) else None
        if total_bytes > self.most_bytes(target):
            return RejectReason.TOO_LARGE
        if self._disk.is_exceeded_by(total_bytes):
            return RejectReason.LARGER_THAN_DISK
        full = quota.when_full == "reject" and not self.has_room(target, stream.origin, total_bytes)
        return RejectReason.QUEUE_FULL if full else None

    def lacks_disk(self, stream: IncomingStream) -> bool:
        """Whether the disk has no room now for the body that the next packet of a stream announces."""
        return stream.announces_bytes > 0 and not self._disk.fits(stream.announces_bytes)

    def lacks_room(self, stream: IncomingStream) -> bool:
        """Whether the queue of such a body has no room for it now."""
        total_bytes = stream.announces_bytes
        return total_bytes > 0 and not self.has_room(large_target(stream.queue), stream.origin, total_bytes)


class Admission:
    """Admission control of the queues of a node.

    Args:
        goes_on: whether a stream, named by origin and number, has a session that may carry more of it.

    Attributes:
        disk: bytes in the queues of the node, without express messages.
        early: out-of-order packets in memory, and the records of gaps.
        holds: the streams that wait for room here.
    """

    def __init__(
        self,
        settings: NodeSettings,
        queues: LocalQueues,
        permissions: Permissions,
        *,
        goes_on: Callable[[bytes, int], bool],
    ) -> None:
        self._queues = queues
        self._mailboxes = queues.mailboxes
        self._notices = queues.notices
        self.disk, self.express = queues.notices.disk, queues.notices.express
        self._goes_on = goes_on
        payer_of = permissions.payer_of
        quarter = (settings.limits.peer_memory_bytes // 4, settings.limits.memory_bytes // 4)
        self.early = Account(*quarter, payer_of)
        self.waiting = queues.waiting
        self.permissions = permissions
        self.stream_places = StreamPlaces(settings, queues, Account(*quarter, payer_of), payer_of)
        self.queue_places = QueuePlaces(settings, queues, payer_of)
        self.disk_room = DiskRoom(settings.limits.disk_reserve_bytes, queues.notices)
        self._bodies = queues.bodies
        self.body_room = BodyRoom(queues, self.disk_room)
        self.holds = HoldsHere[IncomingStream](self.stream_places.hold_sender)
        queues.may_leave = permissions.may_leave
        for account in self._accounts:
            account.own = permissions.node_id

    @property
    def _accounts(self) -> tuple[Account, ...]:
        places = self.stream_places.account, self.queue_places.account
        bodies = self._bodies.held, self._bodies.unclaimed
        return self.early, self.waiting, *places, self.disk, self.express, *bodies

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
            by_relay = bool(stream.relay)
            may_send = self.permissions.may_send(conversation, name, stream.origin, by_relay=by_relay)
            stream.may_send = may_send and self._queues.admits(name, stream.id, stream.sealed)
        if not stream.may_send:
            return RejectReason.ACCESS_DENIED
        target = large_target(name)
        if name in self._mailboxes or (target and target in self._mailboxes):
            return None
        if self._queues.is_fixed or isinstance(local_queue(target or name), SystemQueue):
            return RejectReason.QUEUE_NOT_FOUND
        if stream.delivery not in DURABLE and self.queue_places.lacks(stream.origin, name):
            return RejectReason.TOO_MANY_QUEUES
        return None

    def handle_forgotten(self, stream: IncomingStream) -> None:
        """A stream has ended."""
        self.forget_early(stream)
        stream.early_bytes = 0
        self.holds.forget(stream)
        self.stream_places.charge(stream.origin, -1)
        self.stream_places.freed[:] = (stream,)

    def _overfull(self, stream: IncomingStream, body: bytes) -> RejectReason | None:
        if large_target(stream.queue):
            return self.body_room.refusal(stream, body)
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

    def announces_body(self, stream: IncomingStream, body: bytes) -> bool:
        """Whether a packet announces a large body. It is accepted alone: then it is known what is left."""
        is_part = stream.ordered and bool(large_target(stream.queue))
        return is_part and announced_bytes(body[:HEAD_BYTES], len(body)) > 0

    # ---- temporary holds

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
        if self.body_room.lacks_disk(stream):
            self.disk_room.is_awaited = True
            return True
        holds = self._queues.quota_of(large_target(stream.queue)).when_full != "reject"
        return holds and self.body_room.lacks_room(stream)

    def _must_wait(self, stream: IncomingStream) -> bool:
        return (
            (self.disk_room.is_low and not self._makes_room(stream))
            or self.waiting.is_full(stream.origin)
            or self.queue_places.lacks(stream.origin, stream.queue)
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
        waits = self.disk_room.is_low or not self.waiting.takes(origin, size_bytes)
        return not waits and self.disk.takes(origin, size_bytes)

    def _is_full(self, stream: IncomingStream, mailbox: Mailbox | None) -> bool:
        if large_target(stream.queue):
            return self.body_room.lacks_disk(stream) or self.body_room.lacks_room(stream)
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
        if durable and self.disk_room.is_low:
            return HoldReason.STORE_LOW
        brings_body = bool(large_target(stream.queue))
        if brings_body and self.body_room.lacks_disk(stream):
            return HoldReason.NO_ROOM_FOR_BODY
        if brings_body and not self.disk.is_full(stream.origin) and self.body_room.lacks_room(stream):
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

    def has_room(self, mailbox: Mailbox, *, durable: bool, coming: int = 0) -> bool:
        """Whether a queue accepts one more message of this node itself, besides the ``coming`` ones."""
        if isinstance(mailbox, PartsQueue):
            return not self.disk_room.is_low
        account = self.disk if durable else self.express
        full = mailbox.fill.is_full_with(coming) and (coming > 0 or not self._is_left(mailbox))
        waits = full or account.is_full(account.own) or (durable and self.disk_room.is_low)
        return mailbox.takes_arrivals and not waits

    def stop(self, stream: IncomingStream, conversation: Conversation, refuses: tuple[int, ...] = ()) -> bool:
        """Ask an origin to wait, by the conversation of its packet: see ``HoldsHere.stop``."""
        return self.holds.stop(stream, conversation, stream.queue, self._why(stream), refuses)

    def handle_session_closed(self, conversation: Conversation) -> None:
        """Holds end with their session."""
        self.stream_places.handle_session_closed(conversation)
        self.holds.handle_session_closed(conversation)

    def stop_express(self, stream: IncomingStream, conversation: Conversation) -> None:
        """Express packets were accepted: stop their stream if there is no room for more."""
        if stream in self.holds.stopped:
            return
        if self._is_paused(stream.queue) or self._is_full(stream, self._mailboxes.get(stream.queue)):
            self.stop(stream, conversation)

    def go(self) -> None:
        """Let streams continue when there is room for them again."""
        if self.stream_places.freed:
            self.stream_places.give()
        notices, wanted = self._notices, self.queue_places.wanted
        if not (notices.relieved or (wanted and notices.idled)):
            return
        notices.relieved.clear()
        if wanted:
            wanted.clear()
        self.disk_room.is_awaited = False
        if self.holds.stopped and not self.holds.go(self._still_waits):
            notices.relieved[self] = None

    def _still_waits(self, stream: IncomingStream, _conversation: Conversation, _reason: HoldReason) -> bool:
        full = self._is_full(stream, self._mailboxes.get(stream.queue)) or self._is_paused(stream.queue)
        waits = full or (stream.delivery in DURABLE and self._must_wait(stream))
        if waits:
            self.disk_room.is_awaited = self.disk_room.is_awaited or self.body_room.lacks_disk(stream)
        return waits
