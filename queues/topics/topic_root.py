"""The topics below one root: the queue in which their messages arrive, and from which subscriptions read.

Promise: a content is kept once, however many subscriptions want it. The commit in which the last of them is done with
it deletes it. Messages have their places in the order in which they arrived, and are dispatched in that order.

    arrives -> in a commit (express: in memory) -> has its place: durable subscriptions have it
    -> dispatched: the others that match have it -> no subscription wants it any more: deleted with the next commit

Quotas, unfinished large messages and charges are those of a queue (``Mailbox``).
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator
from itertools import chain
from typing import Any, NamedTuple

from triack.base.delivery import DURABLE
from triack.base.names import LEVEL_END, TOPIC_PREFIX
from triack.base.ranges import Range
from triack.base.units import in_ns
from triack.queues.mailboxes.mailbox import Mailbox, Notices, QueuedPacket
from triack.queues.node_settings import Quota, Topic
from triack.queues.packing import topic_of
from triack.queues.topics.contents import Contents, OneLine
from triack.queues.topics.dispatch_times import DispatchTimes
from triack.queues.topics.release_backlog import ReleaseBacklog
from triack.queues.topics.strategies import room_of
from triack.queues.topics.subscriber_cache import Found, SubscriberCache
from triack.queues.topics.subscription import Subscription

TURN_ASSIGNED = 30_000
"""Contents that are dispatched in one turn, times the subscriptions that get them: a tenth of a second of work. Each
turn writes a record for each subscription to the session log, so less work in a turn would be more records."""
TURN_RELEASED = 2_000
"""Contents that ended subscriptions release in one turn: some milliseconds."""
ASKED_PER_STEP = 16
"""Subscriptions that are asked whether they want a content in the time of one such release."""

LOOK_MESSAGES = 1_000
"""After this many messages a root checks which subscriptions are behind: as many as may be pending by default, and the
check costs little beside them."""


class _Behind(NamedTuple):
    """How many subscriptions were far behind when the youngest message had this place."""

    subscriptions: int
    looked_at: int


class Dispatch(NamedTuple):
    """Messages that were dispatched together, for the session log: their places, and how many each subscription got."""

    first: int
    last: int
    assigned: dict[Subscription, int]


class Discarded(NamedTuple):
    """A message that was acknowledged in place of a subscription, for the session log: its place and age.

    ``pending``: how many the subscription has then.
    """

    subscription: Subscription
    place: int
    age_ns: int
    pending: int


class TopicRoot:
    """The topics below one root.

    Args:
        after: the last place that the store has reserved: none up to it may be given again.
        stir: called when something may be dispatched, or is to be recorded.
        grow: called when more places must be reserved with the next commit.

    Attributes:
        mailbox: the queue of its name, where its messages arrive; it has their number and size.
        placed: contents that have got their places, until the session log has them.
        unsaid: by subscriptions that began while messages before them had no record yet, what happened to these since,
            and the place behind which the session log has it.
        reserved: the last place that the store has reserved, or will have with the next commit.
        freed: places of contents that no subscription wants any more, and whether any did, until then.
        discard_at_ns: when ``discard`` must be called; None while nothing can be too old.
        restoring: whether it is being restored: a large message that began in an earlier process may be whole later.
        goes_on: whether more may be dispatched, or released, in another turn.
    """

    def __init__(
        self,
        queue_id: int,
        name: str,
        notices: Notices,
        quota: Quota,
        settings: Topic,
        *,
        after: int,
        stir: Callable[["TopicRoot"], None],
        grow: Callable[["TopicRoot"], None],
    ) -> None:
        self.contents = Contents(notices.cache, self._handle_expiry)
        lines = OneLine(self.contents)
        self.mailbox = Mailbox(queue_id, name, notices, quota, in_arrival_order=True, lines=lines, sink=self)
        self.topic = name.removeprefix(TOPIC_PREFIX)
        self.settings = settings
        self.last_place = self.dispatched = after
        self.next_place = after + 1
        self.reserved = after
        self.subscriptions: dict[Subscription, None] = {}
        self.placed: list[QueuedPacket] = []
        self.unsaid: dict[Subscription, tuple[int, list[tuple[str, dict[str, Any]]]]] = {}
        self.freed: dict[str, list[Range]] = {}
        self.unheard = self.discarded = 0
        self.discard_at_ns: int | None = None
        self.restoring = False
        self._stir, self._grow = stir, grow
        self._subscriber_cache = SubscriberCache()
        self._times = DispatchTimes(in_ns(settings.delivery_timeout_s))
        # The places of durable contents whose commit has not returned, ascending, and of express ones behind them.
        self._awaited: deque[int] = deque()
        self._early: deque[QueuedPacket] = deque()
        # First places of contents that expired before their dispatch, and that durable subscriptions still want.
        self._skipped: set[int] = set()
        self._behind = _Behind(0, after)
        self._release_backlog = ReleaseBacklog(self.contents, self._release_all)
        self.goes_on = False

    def set_settings(self, settings: Topic) -> None:
        """Another strategy is in force, from the next turn on."""
        if settings.delivery_timeout_s != self.settings.delivery_timeout_s:
            self._times.set_timeout(in_ns(settings.delivery_timeout_s))
        self.settings = settings
        self.discard_at_ns = 0  # what is pending may be too old now
        self.stir()

    def stir(self) -> None:
        """Something may be dispatched, or is to be recorded."""
        self._stir(self)

    # ---- subscriptions

    def enter(self, subscription: Subscription) -> None:
        """A subscription begins."""
        if not self.subscriptions:
            self.mailbox.listeners.append(self._handle_pause)
        subscription.handle_pause()
        self.subscriptions[subscription] = None
        self._subscriber_cache.add(subscription)

    def end(self, subscription: Subscription) -> None:
        """A subscription ends: contents that only it wanted are deleted soon, see ``dispatch``."""
        self._release_backlog.add(subscription)
        del self.subscriptions[subscription]
        self._subscriber_cache.remove(subscription)
        subscription.end()
        if not self.subscriptions:
            self.mailbox.leave(self._handle_pause)
        self.stir()

    def _handle_pause(self) -> None:
        for one in self.subscriptions:
            one.handle_pause()

    def resume(self, subscription: Subscription) -> None:
        """A suspended subscription continues with what is dispatched from now on."""
        head = subscription.resume()
        if head is not None and head.first_place in self.contents.wanted:
            self.contents.wanted[head.first_place] += 1
        subscription.handle_pause()

    def takes(self, subscription: Subscription, topic: str) -> bool:
        """Whether a subscription's pattern matches a topic."""
        return self._subscriber_cache.takes(subscription, topic)

    # ---- arriving

    def _handle_expiry(self, packet: QueuedPacket | None, at_ms: int | None) -> None:
        self.mailbox.set_deadline(packet, at_ms)

    def handle_charged(self, packet: QueuedPacket, *, begins: bool, ends: bool) -> None:
        """See ``Sink``. From here on a message has its place, in the order of the commits."""
        if begins and not packet.topic and packet.pieces:
            below = topic_of(packet.pieces[0])
            packet.topic = LEVEL_END.join([self.topic, below]) if below else self.topic
        if ends:
            self._place(packet, packet.count if begins else 1)

    def _place(self, packet: QueuedPacket, messages: int) -> None:
        """A message is whole with this packet: give it its place, unless an earlier process did."""
        if packet.first_place:
            self.next_place = max(self.next_place, packet.first_place + messages)
            return
        packet.first_place = self.next_place
        self.next_place += messages
        if self.next_place > self.reserved:
            self._grow(self)
        if packet.delivery in DURABLE and not packet.restored:
            self._awaited.append(packet.first_place)

    def handle_put(self, packet: QueuedPacket) -> None:
        """See ``Sink``."""
        awaited, early = self._awaited, self._early
        if packet.keys and awaited and awaited[0] == packet.first_place:
            awaited.popleft()
        while early and not (awaited and awaited[0] < early[0].first_place):
            self.add(early.popleft())

    def add(self, packet: QueuedPacket) -> None:
        """See ``Sink``."""
        if not packet.keys and self._awaited and self._awaited[0] < packet.first_place:
            self._early.append(packet)  # durable messages came before it, and their commit has not returned
            return
        self.last_place = packet.last_place
        self.mailbox.length += packet.count
        self.mailbox.size_bytes += packet.size_bytes
        durable = [one for one in self._subscriber_cache.of(packet.topic).durable if one.after < packet.first_place]
        self.placed.append(packet)
        if self.restoring:
            self._restore(packet, durable)
            return
        for one in durable:
            one.assign(packet, packet.count, first=True)
        self.contents.put(packet, len(durable) + 1)
        for one in durable:
            one.mailbox.wake()
        self.stir()

    def _restore(self, packet: QueuedPacket, durable: list[Subscription]) -> None:
        """A content of an earlier process: only durable subscriptions are left, whatever that had dispatched."""
        self.dispatched = self.last_place
        wanting = sum([one.pending(packet) for one in durable])
        self.contents.put(packet, wanting)
        if not wanting:
            self.free(packet, "all" if durable else "nobody")

    # ---- dispatching

    def dispatch(self, now_ns: int) -> Dispatch | None:
        """Dispatch what the strategy allows, and release what ended subscriptions wanted. Returns what was dispatched.

        Work that exceeds one turn is left for another one, see ``goes_on``.
        """
        if self._release_backlog:
            self._release_backlog.go(TURN_RELEASED)
        self.goes_on, left = bool(self._release_backlog), TURN_ASSIGNED
        first, assigned = self.dispatched + 1, dict[Subscription, int]()
        if self.last_place - self._behind.looked_at >= LOOK_MESSAGES:
            behind = sum([one.look_behind() for one in self.subscriptions])
            self._behind = _Behind(behind, self.last_place)
        for packet in self.contents.walk(first):
            if packet.last_place > self.last_place:
                break
            if left <= 0:
                self.goes_on = True
                break
            if not self._dispatch_content(packet, assigned, now_ns):
                break
            left -= self._subscriber_cache.of(packet.topic).number
        else:
            self.dispatched = self.last_place
        for one in assigned:
            one.mailbox.wake()
        return Dispatch(first, self.dispatched, assigned) if self.dispatched >= first else None

    def _dispatch_content(self, packet: QueuedPacket, assigned: dict[Subscription, int], now_ns: int) -> bool:
        """Dispatch as many messages of the next content as may go. Returns whether all of them have gone."""
        place, settings = packet.first_place, self.settings
        found = self._subscriber_cache.of(packet.topic)
        takers = [one for one in found.others if one.suspended_at is None and one.wants(packet)]
        begin = max(place, self.dispatched + 1)
        if begin > place and packet.receive_by_ms:
            takers = [one for one in takers if one.lacks(packet, begin - place, packet.count - begin + place)]
        count = room_of(
            settings.strategy, [(one.mailbox.length, one.max_unacked) for one in takers], packet.last_place - begin + 1
        )
        if not count:
            self.dispatched = begin - 1
            return False
        is_first = begin == place
        if is_first and place in self.contents.wanted:
            self.contents.wanted[place] += len(takers)
        self.dispatched = begin + count - 1
        self._times.add(self.dispatched, now_ns)
        if not is_first:
            for one in found.others:
                if one.suspended_at is not None and one.wants(packet):
                    one.miss(packet, begin - place, count)
        for one in takers:
            one.assign(packet, count, first=is_first)
            assigned[one] = assigned.get(one, 0) + count
        if self.discard_at_ns is None and takers and settings.strategy == "discard_allowed":
            self.discard_at_ns = now_ns + in_ns(settings.delivery_timeout_s)
        if self.dispatched < packet.last_place:
            return False
        if place in self._skipped:
            self._skipped.discard(place)
            return True
        if is_first and not takers and not any(one.after < place for one in found.durable):
            self.unheard += packet.count
            self.free(packet, "nobody")
        else:
            self.release(packet)
        return True

    def discard(self, now_ns: int) -> list[Discarded]:
        """Acknowledge in place of subscriptions what they have not acknowledged within the timeout, the oldest first.

        Work that exceeds one turn is left for the next one: it is due then.
        """
        discarded: list[Discarded] = []
        if self.discard_at_ns is None or now_ns < self.discard_at_ns:
            return discarded
        self.discard_at_ns = None
        if self.settings.strategy == "discard_allowed":
            due_ns = [self._discard_for(one, discarded, now_ns) for one in self.subscriptions if not one.durable]
            self.discard_at_ns = min((at_ns for at_ns in due_ns if at_ns is not None), default=None)
            self.discarded += len(discarded)
        return discarded

    def _discard_for(self, one: Subscription, discarded: list[Discarded], now_ns: int) -> int | None:
        timeout_ns = in_ns(self.settings.delivery_timeout_s)
        while (eldest := one.eldest()) is not None:
            packet, index = eldest
            place = packet.first_place + index
            if place > one.limit:
                break  # of its content no more was dispatched
            age_ns = now_ns - self._times.of(place)
            if age_ns < timeout_ns or len(discarded) >= TURN_ASSIGNED:
                return now_ns + max(0, timeout_ns - age_ns)
            one.discard(packet, index)
            discarded.append(Discarded(one, place, age_ns, one.mailbox.length))
        return None

    # ---- leaving

    def _release_all(self, packet: QueuedPacket, subscriptions: int) -> int:
        is_ready = packet.first_place in self.contents.wanted
        self.release(packet, subscriptions)
        if is_ready:
            return 1
        return 1 + self._subscriber_cache.of(packet.topic).number // ASKED_PER_STEP

    def release(self, packet: QueuedPacket, subscriptions: int = 1) -> None:
        """Some subscriptions no longer want a content, or it was dispatched."""
        place, wanted = packet.first_place, self.contents.wanted
        left = wanted.get(place)
        if left is None:
            if packet.last_place > self.dispatched or self._is_wanted(packet):
                return
        elif left > subscriptions:
            wanted[place] = left - subscriptions
            if left - subscriptions <= self._behind.subscriptions:
                self.contents.trim(self._behind.subscriptions, self.dispatched)
            return
        self.free(packet, "all")

    def _is_wanted(self, packet: QueuedPacket) -> bool:
        found = self._subscriber_cache.of(packet.topic)
        return any(one.wants(packet) for one in chain(found.others, found.durable))

    def free(self, packet: QueuedPacket, reason: str) -> None:
        """Delete a content with the next commit."""
        if not self.contents.remove(packet):
            return
        self._skipped.discard(packet.first_place)
        mailbox = self.mailbox
        mailbox.length -= packet.count
        mailbox.left += packet.count
        mailbox.size_bytes -= packet.size_bytes
        mailbox.discard(packet)
        mailbox.release(packet, packet.count, packet.charged_bytes)
        ranges = self.freed.setdefault(reason, [])
        if ranges and ranges[-1][1] + 1 == packet.first_place:
            ranges[-1] = ranges[-1][0], packet.last_place
        else:
            ranges.append((packet.first_place, packet.last_place))
        self.stir()

    def keeps(self, packet: QueuedPacket) -> bool:
        """See ``Sink``."""
        return self.contents.is_ready(packet)

    def expire(self, packets: Collection[QueuedPacket]) -> Iterator[tuple[Mailbox, QueuedPacket]]:
        """Let contents expire for each subscription that has not leased them. See ``Sink``."""
        for packet in packets:
            takers = self._subscriber_cache.of(packet.topic)
            for one in takers.durable:
                if one.wants(packet):
                    yield one.mailbox, packet
            if packet.first_place > self.dispatched:
                self._skip(packet, takers)
                continue
            for one in takers.others:
                if one.wants(packet):
                    yield one.mailbox, packet
                elif packet.last_place > self.dispatched:
                    one.lose(packet, self.dispatched + 1 - packet.first_place)

    def _skip(self, packet: QueuedPacket, takers: Found) -> None:
        for one in takers.others:
            one.lose(packet, 0)
        if packet.first_place in self.contents.wanted:
            # It counts as dispatched from now on, although it is processed here once more.
            self._skipped.add(packet.first_place)
            self.release(packet)
