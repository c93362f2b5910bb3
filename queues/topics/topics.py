"""The topics of a node, and the subscriptions to them.

Promise: a durable subscription is on the disk before ``subscribe`` returns to its caller, and its row changes with the
commit that acknowledges its messages. What the session log has of topics is in the order in which it happened.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from struct import Struct
from typing import Any

from triack.base.commit import OWN_STATE, StoreContent, SubscriptionRow, kept_under
from triack.base.delivery import LABELS
from triack.base.errors import QueueNotFound, StoreDamaged, SubscriptionMismatch
from triack.base.names import LEVEL_END, TOPIC_PREFIX, what_else
from triack.base.news import AckWaitOver, MessagesDiscarded, NodeEvent
from triack.base.reasons import DropReason
from triack.base.session_log import Record
from triack.base.units import SECOND, in_ns
from triack.queues.clock_jumps import ClockJumps
from triack.queues.deadlines import Deadlines
from triack.queues.mailboxes.handed import settled_runs
from triack.queues.mailboxes.local_commit import LocalCommit, LocalTurn
from triack.queues.mailboxes.local_queues import LocalQueues
from triack.queues.mailboxes.mailbox import Mailbox, Notices, QueuedPacket
from triack.queues.node_settings import NodeSettings, Topic
from triack.queues.schedule import Phase, Restore, Schedule
from triack.queues.topics.subscription import Peer, Subscription, ranges_of
from triack.queues.topics.topic_root import Discarded, Dispatch, TopicRoot

PLACES = 1 << 20
"""Places that a commit reserves for a root: enough that few commits do. No place is used twice."""
TURN_ENDS = 200
"""Subscriptions without holders that end in one turn: some milliseconds, or some more with thousands of names."""
_KEY = f"{OWN_STATE}places:"
_PLACE = Struct("!Q")


class Topics:
    """All topics of a node, whose roots are among ``queues``.

    Attributes:
        on_end: called with each subscription that ends.
        pack: called before a subscription begins: what was accepted until then gets its place.
    """

    def __init__(self, settings: NodeSettings, queues: LocalQueues, drops: Counter[DropReason], record: Record) -> None:
        self._settings = settings
        self._queues = queues
        self._drops = drops
        self._record = record
        self.subscriptions: dict[str, Subscription] = {}
        main = queues.notices
        # A reader that dies with leases does not count for a subscription: a note has room for one reader.
        self._notices = Notices(
            drops,
            cache=main.cache,
            wall=main.wall,
            wanting=main.wanting,
            expiring=main.expiring,
            resuming=main.resuming,
            on_left=self._handle_left,
        )
        self._stirred: dict[TopicRoot, None] = {}
        # Roots with more to do than one turn did, and when the last turn was, if anything is left of that.
        self._going_on: dict[TopicRoot, None] = {}
        self._turn_ns: int | None = None
        self._opened: list[TopicRoot] = []
        self._next_row = 1
        self._numbered = 0
        self._deleted: list[int] = []
        self._growing: dict[TopicRoot, None] = {}
        # Of the store: subscriptions by the queue of their root, and the last place that was reserved, by root.
        self._rows: dict[int, list[SubscriptionRow]] = {}
        self._reserved: dict[str, int] = {}
        self._left: list[Subscription] = []
        # Messages that were dropped, or overdue, and not yet reported; and when that was last reported.
        self._dropped = Counter[Subscription]()
        self._overdue = Counter[Subscription]()
        self._told_ns: dict[tuple[Subscription, bool], int] = {}
        self.news: list[NodeEvent] = []
        self._restoring = True
        # When a message is too old for a subscription, by its root.
        self._too_old = Deadlines[TopicRoot]()
        self.on_end: Callable[[Subscription], None] = lambda _: None
        self.pack: Callable[[], None] = lambda: None
        queues.make_topic = self._make_root

    def register(self, schedule: Schedule) -> None:
        """Register what is done for topics, and when. ``RemoteApi.dispatch`` calls ``advance``."""
        topical = self._queues.notices.topical
        schedule.restore(Restore.RULES, self.restore)
        schedule.restore(Restore.FILLED, self._handle_restored)
        schedule.deadline(self.next_deadline, topical)
        schedule.step(Phase.ADD, self.complete, topical)
        schedule.step(Phase.NOTE, self._note_all, topical)
        schedule.tell(self.news)

    # ---- starting

    def restore(self, content: StoreContent, _turn: LocalTurn, _jumps: ClockJumps) -> None:
        """Read what the store has of topics, before its queues are restored. Raises StoreDamaged."""
        for topic, value in kept_under(content.state, _KEY):
            if len(value) != _PLACE.size:
                raise StoreDamaged(f"places of topic {topic}: wrong length")
            self._reserved[topic] = _PLACE.unpack(value)[0]
        for row in content.subscriptions:
            self._next_row = max(self._next_row, row.id + 1)
            self._rows.setdefault(row.queue, []).append(row)

    def _handle_restored(self, _content: StoreContent, turn: LocalTurn, _jumps: ClockJumps) -> None:
        """The queues are restored, and with them the contents: continue behind all places that were ever given."""
        for root in list(self._opened):
            root.last_place = root.dispatched = root.next_place - 1
            root.restoring = False
        self._restoring = False
        self._rows.clear()
        self._note_opened(turn.now_ns, recovered=True)

    def _make_root(self, queue_id: int, name: str) -> Mailbox:
        topic = name.removeprefix(TOPIC_PREFIX)
        rows = self._rows.get(queue_id, [])
        settings = self._settings
        root = TopicRoot(
            queue_id,
            name,
            self._queues.notices,
            self._queues.quota_of(name),
            settings.topic_of(topic),
            after=self._reserved.get(topic, 0),
            stir=self._handle_stirred,
            grow=self._handle_growing,
        )
        root.mailbox.pause = self._queues.pauses.of_queue(name)
        root.restoring = self._restoring
        for row in rows:
            subscription = Subscription.restore(row, root, self._notices)
            self.subscriptions[subscription.title] = subscription
            root.enter(subscription)
            highest = max(subscription.after, subscription.mailbox.reader.done.highest)
            root.last_place = root.dispatched = max(root.last_place, highest)
        root.next_place = root.last_place + 1
        self._opened.append(root)
        self._stirred[root] = None
        return root.mailbox

    def _handle_stirred(self, root: TopicRoot) -> None:
        self._stirred[root] = None

    def _handle_growing(self, root: TopicRoot) -> None:
        """Reserve more places, with the next commit. A root that is removed and made again continues behind them."""
        root.reserved = self._reserved[root.topic] = root.next_place + PLACES
        self._growing[root] = None

    def _handle_left(self, mailbox: Mailbox) -> None:
        """The last holder of a subscription has gone: one that is not durable ends soon."""
        subscription = _subscription_of(mailbox)
        if not subscription.durable:
            self._left.append(subscription)

    # ---- subscribing

    def subscribe(
        self,
        pattern: str,
        turn: LocalTurn,
        *,
        durable: str | None = None,
        shared: bool = False,
        max_unacked: int | None = None,
        ack_wait_ns: int | None = None,
        peer: Peer | None = None,
        title: str = "",
    ) -> Subscription:
        """Begin a subscription, or find the durable one of that name, which has the limits of its holder from now on.

        What was accepted before is not for it, whether or not its commit has returned. ``pattern`` was checked. One
        that is not ``durable`` (a name) ends with its holder. ``max_unacked``: how many messages may be pending before
        it has no room. ``ack_wait_ns``: how long a message may be leased; 0: without limit. ``peer``: the node to which
        it belongs, which has another name for it; None for this one. ``title``: its name here; empty for ``durable`` or
        ``peer.title``.

        Raises SubscriptionMismatch if the subscription of that name is another one, or has a holder with other limits.
        """
        topic = pattern.split(LEVEL_END, maxsplit=1)[0]
        settings = self._settings.topic_of(topic)
        max_unacked = max_unacked or settings.max_unacked
        ack_wait_ns = in_ns(settings.ack_wait_s or 0) if ack_wait_ns is None else ack_wait_ns
        title = title or (peer.title if peer is not None else durable or "")
        known = self.subscriptions.get(title) if title else None
        if known is not None:
            _require_same(known, pattern, str(durable), shared=shared)
            if (known.max_unacked, known.ack_wait_ns) != (max_unacked, ack_wait_ns):
                self._change(known, max_unacked, ack_wait_ns, turn.now_ns)
            return known
        root = self._queues.make_queue(f"{TOPIC_PREFIX}{topic}", turn.commit).sink
        assert isinstance(root, TopicRoot)
        self.pack()
        self.note(turn.now_ns)
        row_id = 0
        if durable:
            row_id, self._next_row = self._next_row, self._next_row + 1
        else:
            self._numbered += 1
        subscription = Subscription(
            root,
            self._notices,
            title or f"${self._numbered}",
            pattern,
            durable=row_id,
            shared=shared,
            peer=peer,
            after=root.next_place - 1,
            max_unacked=max_unacked,
            ack_wait_ns=ack_wait_ns,
        )
        self.subscriptions[subscription.title] = subscription
        root.enter(subscription)
        if row_id:
            turn.commit.subscriptions[row_id] = subscription.row()
        self._note_begun(subscription, turn.now_ns)
        self._stirred[root] = None
        return subscription

    def settings_of(self, pattern: str) -> Topic:
        """The settings of the topics that a pattern matches."""
        return self._settings.topic_of(pattern.split(LEVEL_END, maxsplit=1)[0])

    def _change(self, known: Subscription, max_unacked: int, ack_wait_ns: int, now_ns: int) -> None:
        """A durable subscription has other limits."""
        if known.mailbox.listeners:
            raise SubscriptionMismatch(
                f"subscribe to {known.pattern}: subscription {known.title} has a reader with max_unacked="
                f"{known.max_unacked}, ack_wait_s={known.ack_wait_ns / SECOND:g}; give the same"
            )
        self.note(now_ns)
        known.max_unacked, known.ack_wait_ns = max_unacked, ack_wait_ns
        known.note_changed()
        about = {"max_unacked": max_unacked, "ack_wait_ns": ack_wait_ns}
        self._say("subscription_changed", known, now_ns, **about)

    def named(self, name: str) -> Subscription:
        """The subscription with this name, composed, as in ``Message.queue``. Raises QueueNotFound."""
        found = self.subscriptions.get(name.rpartition("/")[2])
        if found is None or found.mailbox.name != name or found.peer is not None:
            known = [one.mailbox.name for one in self.subscriptions.values()]
            raise QueueNotFound(f"receive from {name}: a topic is read by subscribing; {what_else(name, known)}")
        return found

    def end(self, subscription: Subscription, reason: str, now_ns: int) -> None:
        """End a subscription, with the next commit if it is durable."""
        mailbox = subscription.mailbox
        self._queues.expiry.forget(mailbox)
        self.note(now_ns)
        root = subscription.root
        assert isinstance(root, TopicRoot)
        del self.subscriptions[subscription.title]
        root.end(subscription)
        for overdue in (False, True):
            self._told_ns.pop((subscription, overdue), None)
        self._notices.dirty.pop(mailbox, None)
        self._notices.wanting.pop(mailbox, None)
        self._notices.resuming.set(mailbox, None)
        if subscription.durable:
            self._deleted.append(subscription.row_id)
        self._say("unsubscribed", subscription, now_ns, reason=reason)
        self.on_end(subscription)

    def suspend(self, subscription: Subscription, now_ns: int) -> None:
        """A subscription that is not durable gets nothing, and misses what is dispatched, until ``resume``."""
        if subscription.suspended_at is None and not subscription.mailbox.has_ended:
            self.note(now_ns)
            subscription.suspend()
            self._say("subscription_suspended", subscription, now_ns)
            subscription.root.stir()

    def resume(self, subscription: Subscription, now_ns: int) -> None:
        """It gets what is dispatched from now on."""
        if subscription.suspended_at is not None and not subscription.mailbox.has_ended:
            root = subscription.root
            assert isinstance(root, TopicRoot)
            self.note(now_ns)
            root.resume(subscription)
            self._say("subscription_resumed", subscription, now_ns)
            root.stir()

    def handle_settings(self, settings: NodeSettings) -> None:
        """Other strategies are in force."""
        self._settings = settings
        for root in self.roots:
            if root.settings != settings.topic_of(root.topic):
                root.set_settings(settings.topic_of(root.topic))
                self._opened.append(root)

    @property
    def roots(self) -> list[TopicRoot]:
        """The roots of all topics."""
        sinks = (mailbox.sink for mailbox in self._queues.mailboxes.values())
        return [root for root in sinks if isinstance(root, TopicRoot)]

    # ---- going on

    def advance(self, now_ns: int) -> None:
        """Dispatch what the strategies allow, and end subscriptions whose holders have gone.

        Work that exceeds one turn continues in the next one, see ``next_deadline``.
        """
        self._turn_ns = None
        if self._left:
            left = self._left[:TURN_ENDS]
            del self._left[:TURN_ENDS]
            self._turn_ns = now_ns if self._left else None
            for subscription in left:
                if not subscription.mailbox.has_ended and not subscription.mailbox.listeners:
                    self.end(subscription, "closed", now_ns)
        if self._too_old.heap:
            self._stirred.update(dict.fromkeys(self._too_old.poll_due(now_ns)))
        if not (self._stirred or self._going_on):
            return
        stirred, self._stirred, self._going_on = self._stirred | self._going_on, {}, {}
        self.note(now_ns, stirred)
        for root in stirred:
            self._note_discarded(root.discard(now_ns), now_ns)
            dispatch = root.dispatch(now_ns)
            self._too_old.set(root, root.discard_at_ns)
            if dispatch is not None:
                self._note_dispatch(root, dispatch, now_ns)
            if root.unheard:
                self._drops[DropReason.NO_SUBSCRIBER] += root.unheard
                root.unheard = 0
            if root.goes_on:
                self._going_on[root] = None
                self._turn_ns = now_ns
            self._note_freed(root, now_ns)

    def next_deadline(self) -> int | None:
        """When ``advance`` must be called, as work is left or a message is too old; or None."""
        return self._too_old.earliest() if self._turn_ns is None and self._too_old.heap else self._turn_ns

    # ---- commits

    def complete(self, group: LocalCommit) -> None:
        """Add to a commit what was acknowledged for durable subscriptions, before it goes to the disk."""
        commit = group.commit
        for subscription in map(_subscription_of, self._notices.dirty):
            if subscription.durable:
                commit.subscriptions[subscription.row_id] = subscription.row()
        self._notices.dirty.clear()
        self._notices.idled.clear()
        for row_id in self._deleted:
            commit.subscriptions.pop(row_id, None)
        commit.subscription_deletes += self._deleted
        self._deleted = []
        for root in self._growing:
            commit.state[f"{_KEY}{root.topic}"] = _PLACE.pack(root.reserved)
        self._growing.clear()

    # ---- the session log

    def _note_all(self, turn: LocalTurn) -> None:
        """Log everything, and tell the operator: at most one event of a kind a second for one subscription."""
        now_ns = turn.now_ns
        self.note(now_ns)
        kinds: tuple[tuple[Counter[Subscription], type[MessagesDiscarded | AckWaitOver]], ...] = (
            (self._dropped, MessagesDiscarded),
            (self._overdue, AckWaitOver),
        )
        for counts, kind in kinds:
            for one in list(counts):
                told_ns = self._told_ns.get((one, kind is AckWaitOver))
                if told_ns is None or now_ns - told_ns >= SECOND:
                    if not one.mailbox.has_ended:
                        self._told_ns[one, kind is AckWaitOver] = now_ns
                    self.news.append(kind(one.root.topic, one.title, counts.pop(one)))

    def note(self, now_ns: int, roots: dict[TopicRoot, None] | None = None) -> None:
        """Log what has arrived in topics, was handed out, came back, or is settled since the last call."""
        if self._opened:
            self._note_opened(now_ns)
        for root in roots if roots is not None else self._stirred:
            self._note_placed(root, now_ns)
        notices = self._notices
        for subscription in map(_subscription_of, notices.read):
            for event, fields in subscription.records.take():
                if fields.get("overdue"):
                    self._overdue[subscription] += 1
                self._record(event, now_ns, **fields)
        notices.read.clear()
        notices.purged.clear()  # they are settled as well
        for mailbox, settled in notices.settled.items():
            if ranges := ranges_of(settled_runs(settled)):
                self._record("settled", now_ns, **_subscription_of(mailbox).records.fields, ranges=ranges)
        notices.settled.clear()

    def _note_opened(self, now_ns: int, *, recovered: bool = False) -> None:
        opened, self._opened = self._opened, []
        for root in opened:
            settings = root.settings
            timeout_ns = in_ns(settings.delivery_timeout_s)
            about = {"strategy": settings.strategy, "delivery_timeout_ns": timeout_ns, "first": root.next_place}
            self._record("topic_opened", now_ns, topic=root.topic, **about)
            if recovered:
                for subscription in root.subscriptions:
                    self._note_begun(subscription, now_ns, recovered=True)
                self._note_placed(root, now_ns, recovered=True)
                self._note_freed(root, now_ns)

    def _note_begun(self, subscription: Subscription, now_ns: int, *, recovered: bool = False) -> None:
        """Its record follows those of the messages that have places before it, even if their commit is later."""
        root = subscription.root
        assert isinstance(root, TopicRoot)
        if root.next_place - 1 > root.last_place:
            root.unsaid[subscription] = root.next_place - 1, []
        self._say(
            "subscribed",
            subscription,
            now_ns,
            pattern=subscription.pattern,
            durable=subscription.durable,
            after=subscription.after,
            max_unacked=subscription.max_unacked,
            ack_wait_ns=subscription.ack_wait_ns,
            **({} if (peer := subscription.peer) is None else {"peer_name": peer.name, "subscriber": peer.node}),
            **({"recovered": True} if recovered else {}),
        )

    def _say(self, event: str, one: Subscription, now_ns: int, **about: Any) -> None:
        """Log what happened to a subscription, once its beginning is logged."""
        root = one.root
        assert isinstance(root, TopicRoot)
        if one in root.unsaid:
            root.unsaid[one][1].append((event, {**one.records.fields, **about}))
        else:
            self._record(event, now_ns, **one.records.fields, **about)

    def _note_placed(self, root: TopicRoot, now_ns: int, *, recovered: bool = False) -> None:
        placed, root.placed = root.placed, []
        for one, (place, said) in list(root.unsaid.items()):
            if place > root.last_place:
                break
            before = sum([packet.last_place <= place for packet in placed])
            self._record_placed(root, placed[:before], now_ns)
            placed = placed[before:]
            del root.unsaid[one]
            for event, fields in said:
                self._record(event, now_ns, **fields)
        self._record_placed(root, placed, now_ns, recovered=recovered)

    def _record_placed(
        self, root: TopicRoot, placed: list[QueuedPacket], now_ns: int, *, recovered: bool = False
    ) -> None:
        for fields in placed_fields(root.topic, placed, recovered=recovered):
            self._record("placed", now_ns, **fields)

    def _note_dispatch(self, root: TopicRoot, it: Dispatch, now_ns: int) -> None:
        self._record("dispatched", now_ns, topic=root.topic, first=it.first, last=it.last)
        for one, count in it.assigned.items():
            self._record("assigned", now_ns, **one.records.fields, first=it.first, last=it.last, count=count)

    def _note_discarded(self, discarded: list[Discarded], now_ns: int) -> None:
        for one, first, last, age_ns, pending in _joined(discarded):
            self._dropped[one] += last - first + 1
            about = {"first": first, "last": last, "age_ns": age_ns, "pending": pending}
            self._record("discarded", now_ns, **one.records.fields, **about)

    def _note_freed(self, root: TopicRoot, now_ns: int) -> None:
        freed, root.freed = root.freed, {}
        for reason, ranges in freed.items():
            self._record("content_freed", now_ns, topic=root.topic, ranges=sorted(ranges), reason=reason)


def _subscription_of(mailbox: Mailbox) -> Subscription:
    assert isinstance(mailbox.owner, Subscription)
    return mailbox.owner


def _require_same(known: Subscription, pattern: str, durable: str, *, shared: bool) -> None:
    if known.pattern != pattern or known.shared != shared:
        kind = "shared" if known.shared else "not shared"
        raise SubscriptionMismatch(
            f"subscribe to {pattern}: subscription {durable} is to {known.pattern}, and {kind}; "
            f"unsubscribe {durable} first"
        )


def placed_fields(topic: str, placed: Iterable[QueuedPacket], *, recovered: bool) -> Iterator[dict[str, Any]]:
    """Yield the fields of a `placed` record for each series of packets of one name with successive numbers and places.

    ``placed`` is ordered by places. ``recovered``: whether the store had them at the start.
    """
    fields: dict[str, Any] = {}
    about: tuple[object, ...] = ()
    for packet in placed:
        stream = packet.origin, packet.stream, packet.sequence, packet.delivery, packet.topic
        goes_on = (*stream, packet.number, packet.first_place)
        if fields and goes_on == about:
            counts = fields["counts"]
            if counts[-1][1] == packet.count:
                counts[-1][0] += 1
            else:
                counts.append([1, packet.count])
        else:
            if fields:
                yield fields
            fields = {
                "class": LABELS[packet.delivery],
                "origin": packet.origin.hex(),
                "stream": packet.stream,
                "sequence": packet.sequence,
                "topic": topic,
                "below": packet.topic.partition(LEVEL_END)[2],
                "number": packet.number,
                "counts": [[1, packet.count]],
                "at_place": packet.first_place,
                **({"recovered": True} if recovered else {}),
            }
        about = (*stream, packet.number + 1, packet.last_place + 1)
    if fields:
        yield fields


def _joined(discarded: Iterable[Discarded]) -> Iterator[tuple[Subscription, int, int, int, int]]:
    """Yield successive discarded messages of one subscription as one: the first and the last place."""
    last: tuple[Subscription, int, int, int, int] | None = None
    for one, place, age_ns, pending in discarded:
        if last is not None and last[0] is one and last[2] == place - 1:
            last = one, last[1], place, age_ns, pending
            continue
        if last is not None:
            yield last
        last = one, place, place, age_ns, pending
    if last is not None:
        yield last
