"""The applications of a simulated world: they send, read, forward and remember, and tell the history what they saw."""

from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import Protocol

from triack.base.delivery import Delivery
from triack.base.reasons import RejectReason
from triack.base.units import MS, SECOND
from triack.node.shell.prepared import MESSAGE_OVERHEAD_BYTES
from triack.queues.admin_acks import class_in, write_request
from triack.queues.mailboxes.large_bodies import SIZE_BYTES
from triack.queues.mailboxes.mailbox import Lease, Mailbox
from triack.queues.mailboxes.redelivery import Return
from triack.queues.mailboxes.system_queues import DEAD_LETTER_QUEUE
from triack.queues.manager.engine import Engine
from triack.queues.message_classes import Acks, MessageClass
from triack.queues.messages import ADMIN, DEAD_LETTER, DEAD_PART, JOURNAL, LargeMessage, Outgoing, Properties
from triack.queues.stages import STAGES, Stage
from triack.tools.chaos.away_subscribers import AwaySubscriber
from triack.tools.chaos.history import Batch, History, Part, StreamHistory, body_of, identify
from triack.tools.chaos.host import Host
from triack.tools.chaos.journaling import JournalReader, QueueReader, journals_of, what_is_kept
from triack.tools.chaos.plan import LASTING_MS, LETTERS, AwayPlan, StreamPlan, SubscriberPlan, is_limited
from triack.tools.chaos.sealing import SUSPECTED
from triack.tools.chaos.subscribers import Subscriber
from triack.tools.chaos.topics import EVERYTHING
from triack.tools.sim.bodies import BodySender, read_body
from triack.tools.sim.disk import ProcessCrashed
from triack.tools.sim.world import World

CLASSES = {delivery.label: delivery for delivery in Delivery}
DELAYS_MS = (0, 10, 200)
"""A failed message is redelivered immediately, soon, or after a wait that a crash interrupts now and then."""
READ_MOST = (1, 10, 1_000)
PAIR_CHANCE = 0.2
LARGE_EVERY = 16
STREAMED_EVERY, STREAMED_AT = 5, 2
"""In a stream with messages in parts, one in this many is; neither the first nor the last of a few."""
TORN_CHANCE = 0.15
"""How often the source of a large body ends early, and its application tries again."""
TORN_NS = 200 * MS
GIVEN_UP_MAX = 16
"""A sender that has given up one body this number of times continues with the next message: on a slow path none may
arrive in time, and a relay may be away for days."""
"""Until then, at most: some parts have arrived, or all."""
PART_GAPS_NS = (1, 1, 20 * MS, 300 * MS)
"""Between two parts that a reader reads: one of them is slow."""
LAST_GAP_NS = 300 * MS
MISSED_MOST = 2_000
"""If its node has been away for this many turns, a sender checks less often: nodes may be away for days."""
MISSED_NS = 5 * SECOND
ANSWERS_QUEUE = "acks"
ANSWERS_GAP_NS = 20 * MS
CLAIM_CHANCE = 0.3


class Sender:
    """The source of one stream. The world's memory has its next number, as a list of a user would."""

    def __init__(self, index: int, plan: StreamPlan, host: Host, to: Host, world: World, history: History) -> None:
        self.index = index
        self.plan = plan
        self.host = host
        self.to = to
        self.where = "" if to is host else to.name if to.identity.keys else to.address
        self.next = 0
        self.siblings: list[Sender] = []
        self._waits = False
        self._missed = 0
        self._upload: BodySender | None = None
        self._given_up = 0
        self.delivery = CLASSES[plan.delivery]
        self._random: Random = world.chance(f"sender {index}")
        self._world = world
        self._history = history
        self._properties: Properties | None = {
            **({ADMIN: write_request(ANSWERS_QUEUE, Acks(plan.acks))} if plan.acks else {}),
            **({DEAD_LETTER: plan.letters} if plan.letters else {}),
            **({JOURNAL: True} if plan.journal else {}),
        } or None

    def begin(self) -> None:
        """Submit batches until all is sent."""
        if self.next < self.plan.count and not self._waits:
            self._waits = True
            gap_ns = self._random.randrange(1, self.plan.gap_ns)
            self._world.at(gap_ns if self._missed < MISSED_MOST else MISSED_NS, self._turn)

    def lift_limits(self) -> None:
        """Let no message die any more where there is a reader: the last ones must make every pair meet again."""
        self.plan = replace(self.plan, live_ms=0, read_ms=0 if self.plan.is_read else self.plan.read_ms)

    def finish(self) -> None:
        """Send one more message, of an ordinary size, and then no other."""
        gap_ns = min(self.plan.gap_ns, LAST_GAP_NS)
        self.plan = replace(self.plan, count=self.next + 1, gap_ns=gap_ns, streamed_bytes=0)
        if self._upload is not None:
            self.host.act(self._upload.give_up)
            self._upload = None
        self.begin()

    def _turn(self) -> None:
        self._waits = False
        engine = self.host.engine
        sends_body = self._upload is not None and self._upload.is_under_way
        if self.host.is_up and engine is not None and not engine.draining and not sends_body:
            self._missed = 0
            self.host.act(lambda: self._submit(engine))
        else:
            self._missed += 1
        self.begin()

    @property
    def _ordinary(self) -> int:
        left = self.plan.count - self.next
        return min(left, (STREAMED_AT - self.next) % STREAMED_EVERY) if self.plan.streamed_bytes else left

    def _submit(self, engine: Engine) -> None:
        if self.plan.streamed_bytes and self.next < self.plan.count and not self._ordinary:
            self._stream()
            return
        senders = [self]
        if self.siblings and self._random.random() < PAIR_CHANCE:
            senders.append(self._random.choice(self.siblings))
        parts = []
        for sender in senders:
            outgoing = engine.outgoing_stream(sender.where, sender.plan.queue, sender.delivery, seal=sender.plan.sealed)
            count = min(self._random.randint(1, sender.plan.batch), sender._ordinary)  # noqa: SLF001 - of its own kind
            if count > 0 and engine.outbox.room_bytes(outgoing) > 0:
                parts.append(Part(sender.index, sender.next, sender.next + count))
                sender.next += count
        self.give(engine, parts, senders)

    def _stream(self) -> None:
        """Begin to send the next message in parts, unless its process does already."""
        if self._upload is not None and self._upload.is_under_way:
            return
        plan, number = self.plan, self.next
        if self._given_up >= GIVEN_UP_MAX:
            self._given_up, self.next = 0, number + 1
            return
        body = body_of(self.index, number, plan.streamed_bytes)

        def skip(_reason: str) -> None:
            self.next = max(self.next, number + 1)

        upload = BodySender(self.host, self.where, plan.queue, body, lambda _: self._stand_for(upload, number), skip)
        self._upload = upload
        by_ns = [plan.live_ms * MS] if plan.live_ms else []
        if self._random.random() < TORN_CHANCE:
            by_ns.append(self._random.randrange(1, TORN_NS))
        if by_ns:
            self.host.later(min(by_ns), lambda: self._tear(upload))
        upload.go_on()

    def _tear(self, upload: BodySender) -> None:
        """The program that sends a body ends, or the time of its message does."""
        if upload.is_under_way:
            self._given_up += 1
            upload.give_up()

    def _stand_for(self, upload: BodySender, number: int) -> None:
        """All parts are at their destination: submit the message that represents them."""
        engine, plan = self.host.live, self.plan
        if engine.draining:
            return
        priority = plan.priority_of(number)
        outgoing = engine.outgoing_stream(self.where, plan.queue, self.delivery, priority, seal=plan.sealed)
        self.next = number + 1
        batch = self._history.submitted([Part(self.index, number, number + 1)])
        self._history.sized(self.index, number, len(upload.body))
        message = self._message(engine, number, b"")
        expiry = message if isinstance(message, Outgoing) else Outgoing(b"")
        stands = LargeMessage(
            len(upload.body).to_bytes(SIZE_BYTES),
            # If it dies before it arrives, its body does not identify it.
            {**(expiry.properties or {}), "label": body_of(self.index, number, 0).decode()},
            expiry.reach_by_ms,
            receive_by_ms=expiry.receive_by_ms,
            ordinal=upload.ordinal,
        )
        ticket = engine.submit(outgoing, stands, SIZE_BYTES + MESSAGE_OVERHEAD_BYTES)
        upload.finished()
        if self._random.random() < CLAIM_CHANCE:
            stage = STAGES[self.delivery]
            engine.await_stage(outgoing, ticket, stage, lambda reason: self._note_claim(number, stage, reason))
        engine.await_commit(lambda error: self._note_commit(batch, error))

    def give(self, engine: Engine, parts: list[Part], senders: list["Sender"]) -> None:
        """Submit messages of these senders to one commit."""
        if not parts:
            return
        by_index = {sender.index: sender for sender in senders}
        batch = self._history.submitted(parts)
        for part in parts:
            by_index[part.stream].put(engine, part)
        engine.await_commit(lambda error: self._note_commit(batch, error))

    def _note_commit(self, batch: Batch, error: Exception | None) -> None:
        if error is None:
            self._history.accepted(batch)

    def put(self, engine: Engine, part: Part) -> None:
        """Submit messages of this stream; some ask for a receipt."""
        plan = self.plan
        outgoing = engine.outgoing_stream(self.where, plan.queue, self.delivery, seal=plan.sealed)
        ticket = -1
        if plan.journal:
            engine.outbox.copies.asking[outgoing] = None
        for number in range(part.first, part.end):
            if plan.priorities:
                priority = plan.priority_of(number)
                outgoing = engine.outgoing_stream(self.where, plan.queue, self.delivery, priority, seal=plan.sealed)
            size_bytes = plan.large_bytes if plan.large_bytes and number % LARGE_EVERY == 0 else plan.size_bytes
            body = body_of(self.index, number, size_bytes)
            self._history.sized(self.index, number, len(body))
            message = self._message(engine, number, body)
            ticket = engine.submit(outgoing, message, len(body) + MESSAGE_OVERHEAD_BYTES)
        if self._random.random() < CLAIM_CHANCE:
            stage, last = STAGES[self.delivery], part.end - 1
            engine.await_stage(outgoing, ticket, stage, lambda reason: self._note_claim(last, stage, reason))

    def _message(self, engine: Engine, number: int, body: bytes) -> bytes | Outgoing:
        live_ms, read_ms, now_ms = self.plan.live_ms, self.plan.read_ms, engine.wall.ms(self._world.now_ns)
        if read_ms:
            self._history.limited(self.index, number, now_ms + read_ms)
        below = self.plan.below
        if not (live_ms or read_ms or below or self._properties):
            return body
        return Outgoing(
            body,
            self._properties,
            now_ms + live_ms if live_ms else 0,
            receive_by_ms=now_ms + read_ms if read_ms else 0,
            topic=below[number % len(below)] if below else None,
        )

    def _note_claim(self, number: int, stage: Stage, reason: str | None) -> None:
        if reason is None:
            self._history.claimed(self.index, number, stage.name.lower())


class Reader:
    """Reads the queue of one stream, and perhaps forwards what it reads.

    A transactional reader keeps the number that it has done in the store, in the commit that acknowledges; any other
    only acknowledges, and gives some messages back.
    """

    def __init__(self, index: int, queue: str, host: Host, forward: Sender | None, world: World, hist: History) -> None:
        self.index = index
        self.host = host
        self._queue = queue
        self._forward = forward
        self._keeps = host.plan.transactional or forward is not None
        self._ordered = hist.streams[index].ordered
        self._poison = hist.streams[index].poison
        self._random: Random = world.chance(f"reader {index}")
        self._world = world
        self._history = hist
        self._reads_in = 0

    def begin(self) -> None:
        """Read now and then while there are messages; a reader that finds none sleeps until some arrive."""
        if self.host.has_messages(self._queue):
            self._wake()
        else:
            self.host.await_messages(self._queue, self._wake)

    def _wake(self) -> None:
        self._world.at(self._random.randrange(1, self.host.plan.read_gap_ns), self._turn)

    def _turn(self) -> None:
        engine = self.host.engine
        if engine is not None and self.host.has_messages(self._queue):
            self.host.act(lambda: self._read(engine))
        self.begin()

    def _read_large(self, engine: Engine, mailbox: Mailbox, lease: Lease) -> None:
        at_ms, life = engine.wall.ms(self._world.now_ns), self.host.lives
        self._reads_in = life

        def done(body: bytes | None) -> None:
            self._reads_in = 0
            if body is None:
                self._history.violations.append(("bodies", f"stream {self.index}: a message in hand has no body"))
                mailbox.acknowledge(lease)
                return
            number = self._look(lease, at_ms, body)
            if not self._keeps and self._random.random() < self.host.plan.failure_rate:
                way = Return(failed=True, delay_ms=self._random.choice(DELAYS_MS))
                engine.give_back(mailbox, lease, way, self._world.now_ns)
                self._history.gave_back(self.index, number)
            else:
                self._finish(engine, mailbox, [(lease, number)])

        read_body(self.host, lease, self._random.choice(PART_GAPS_NS), done)

    def _read(self, engine: Engine) -> None:
        # A process that reads a large body reads nothing else. One that stood still does several turns together.
        if self._reads_in == self.host.lives:
            return
        mailbox = engine.make_queue(self._queue)
        taken: list[tuple[Lease, int]] = []
        # Messages that are read together are leased together; a single one kills no other.
        for _ in range(1 if self._poison else self._random.choice(READ_MOST)):
            if self._forward is not None and not self._has_room(engine):
                break
            lease = engine.take(mailbox, self._world.now_ns)
            if lease is None:
                break
            if lease.packet.large:
                if taken:
                    self._finish(engine, mailbox, taken)
                self._read_large(engine, mailbox, lease)
                return
            number = self._look(lease, engine.wall.ms(self._world.now_ns), lease.body)
            if number in self._poison:
                self._history.killed(self.index, number, self.host.settings.max_redeliveries)
                raise ProcessCrashed
            if not self._keeps and self._random.random() < self.host.plan.failure_rate:
                way = Return(failed=True, delay_ms=self._random.choice(DELAYS_MS))
                engine.give_back(mailbox, lease, way, self._world.now_ns)
                self._history.gave_back(self.index, number)
                continue
            taken.append((lease, number))
        if taken:
            self._finish(engine, mailbox, taken)

    def _has_room(self, engine: Engine) -> bool:
        assert self._forward is not None
        plan = self._forward.plan
        outgoing = engine.outgoing_stream(self._forward.where, plan.queue, CLASSES[plan.delivery])
        return engine.outbox.room_bytes(outgoing) > 0

    def _look(self, lease: Lease, now_ms: int, body: bytes) -> int:
        stream, number = identify(body)
        position = int(self.host.state.get(self._key, b"-1")) if self._keeps and self._ordered else None
        self._history.handed(stream, number, body, redelivered=lease.redelivered, reader=position, at_ms=now_ms)
        if position is not None:
            self.host.state[self._key] = b"%d" % number
        return number

    @property
    def _key(self) -> str:
        return f"done/{self.index}"

    def _finish(self, engine: Engine, mailbox: Mailbox, taken: list[tuple[Lease, int]]) -> None:
        numbers = [number for _, number in taken]
        for lease, _ in taken:
            _acknowledge(engine, mailbox, lease)
        if self._keeps and self._ordered:
            engine.set_state(self._key, self.host.state[self._key])
        if self._forward is not None:
            parts = [Part(self._forward.index, number, number + 1) for number in numbers]
            self._forward.give(engine, parts, [self._forward])
        engine.await_commit(lambda error: None if error else self._history.acknowledged(self.index, numbers))


def _acknowledge(engine: Engine, mailbox: Mailbox, lease: Lease) -> None:
    """As a reader does. It may have an answer; if not, the quick way does the same."""
    if lease.packet.cares:
        engine.acknowledge(mailbox, [(lease.packet, 1 << lease.index)])
    else:
        mailbox.acknowledge(lease)


class AnswerReader(QueueReader):
    """Reads the administration messages of a host: none comes twice, unless it is marked.

    The session logs show what is missing.
    """

    def __init__(self, host: Host, history: History, plans: list[StreamPlan]) -> None:
        super().__init__(host, ANSWERS_QUEUE, ANSWERS_GAP_NS)
        self._history = history
        # A crash does not repeat an express message: a later one is another message.
        self._durable = all(plan.delivery != "express" for plan in plans if plan.acks)
        # While a store ack is in flight, the origin and a relay have a message. Either may give it up, and say so.
        self._two_have_it = bool(host.routes) and any(plan.acks and plan.delivery == "recoverable" for plan in plans)
        self._seen: set[tuple[object, MessageClass]] = set()

    def look_at(self, lease: Lease) -> None:
        """Note an answer that came twice."""
        properties = lease.packet.open().properties or [{}] * (lease.index + 1)
        about = properties[lease.index].get("correlation_id"), class_in(properties, lease.index)
        may_repeat = lease.redelivered or not self._durable or (self._two_have_it and about[1].is_negative)
        if about in self._seen and not may_repeat:
            self._history.violations.append(("answers", f"{about[1].label} of {about[0]} came twice"))
        self._seen.add(about)


class _Worker(Protocol):
    def begin(self) -> None:
        """Begin to work."""


class Workload:
    """All senders and readers of a world."""

    def __init__(
        self,
        plans: tuple[StreamPlan, ...],
        hosts: list[Host],
        world: World,
        subscribers: tuple[SubscriberPlan, ...] = (),
        away: tuple[AwayPlan, ...] = (),
        low: frozenset[int] = frozenset(),
    ) -> None:
        self.history = History([_history_of(index, plan, plans, hosts, low) for index, plan in enumerate(plans)])
        self.senders = [
            Sender(index, plan, hosts[plan.sender], hosts[plan.receiver], world, self.history)
            for index, plan in enumerate(plans)
        ]
        own = [sender for sender in self.senders if sender.plan.source < 0]
        for sender in own:
            sender.siblings = [other for other in own if other.host is sender.host and other is not sender]
        forwards = {plan.source: self.senders[index] for index, plan in enumerate(plans) if plan.source >= 0}
        self.readers = [
            Reader(index, plan.queue, hosts[plan.receiver], forwards.get(index), world, self.history)
            for index, plan in enumerate(plans)
            if plan.is_read
        ]
        self._own = own
        asking = {hosts[plan.sender]: None for plan in plans if plan.acks}
        self._subscribers = [
            Subscriber(plan, hosts[plan.host], world, f"subscriber {index}", None if index else self.history)
            for index, plan in enumerate(subscribers)
        ]
        self._away = [AwaySubscriber(plan, hosts, world, f"away {index}") for index, plan in enumerate(away)]
        self._journals = [
            JournalReader(host, name, self.history) for host in hosts for name in journals_of(host, plans, hosts)
        ]
        self._answers = [
            AnswerReader(host, self.history, [plan for plan in plans if hosts[plan.sender] is host]) for host in asking
        ]

    def begin(self) -> None:
        """Let all work; publishers once the subscription that gets everything exists."""
        for sender in self._own:
            if sender.plan.below:
                self._subscribers[0].await_ready(sender.begin)
            else:
                sender.begin()
        workers: list[_Worker] = [*self._subscribers, *self._away, *self.readers, *self._answers, *self._journals]
        for worker in workers:
            worker.begin()

    def finish(self) -> None:
        """Every host sends a last message, so that each pair meets once more; read messages are still forwarded."""
        for subscriber in self._subscribers:
            subscriber.heal()
        for away in self._away:
            away.heal()
        for sender in self.senders:
            sender.lift_limits()
        for sender in self._own:
            sender.finish()

    def read_dead_letters(self, host: Host) -> None:
        """Report a host's dead letters to the history."""
        engine = host.engine
        if engine is None or not host.is_up:
            return
        mailboxes = [found for name in (DEAD_LETTER_QUEUE, LETTERS) if (found := engine.queues.mailboxes.get(name))]
        if any(mailbox.length for mailbox in mailboxes):
            # Only then: a node that moves because it is asked must not pass for one that moves by itself.
            host.act(lambda: self._bury(engine, mailboxes, host.world.now_ns))

    def read_journals(self, host: Host) -> bool:
        """Report what is left in a host's journals to the history. Returns whether there was anything."""
        return any(journal.read() for journal in self._journals if journal.host is host and host.is_up)

    def _bury(self, engine: Engine, mailboxes: Iterable[Mailbox], now_ns: int) -> None:
        for mailbox in mailboxes:
            self._bury_all(engine, mailbox, now_ns)

    def _bury_all(self, engine: Engine, mailbox: Mailbox, now_ns: int) -> None:
        while (lease := engine.take(mailbox, now_ns)) is not None:
            why = (lease.packet.open().properties or [{}])[lease.index]
            if why.get("dead_subscription", EVERYTHING) != EVERYTHING or DEAD_PART in why:
                # The session log is judged for what others get. A part is no message: the whole one must be elsewhere.
                mailbox.acknowledge(lease)
                continue
            body = self._body_of(lease)
            stream, number = identify(body)
            reason, maybe = str(why.get("dead_reason", "")), bool(why.get("dead_maybe_delivered"))
            self.history.buried(stream, number, body, reason, maybe_delivered=maybe)
            mailbox.acknowledge(lease)

    def _body_of(self, lease: Lease) -> bytes:
        """The body of a dead letter; the beginning of a large one, which may have died before it arrived."""
        if not lease.packet.large:
            return lease.body
        return str((lease.packet.open().properties or [{}])[lease.index].get("label", "")).encode()


def _history_of(
    index: int, plan: StreamPlan, plans: tuple[StreamPlan, ...], hosts: list[Host], low: frozenset[int]
) -> StreamHistory:
    host, to = hosts[plan.sender], hosts[plan.receiver]
    ttl = plan.live_ms or plan.read_ms or (plans[plan.source].live_ms if plan.source >= 0 else 0)
    return StreamHistory(
        name=f"{index} ({plan.sender}>{plan.receiver}/{plan.queue} {plan.delivery})",
        ordered=plan.delivery == "transactional",
        durable=plan.delivery != "express",
        expires=0 < ttl < LASTING_MS,
        refusals=_refusals_of(plan, to),
        forbidden=plan.forbidden or plan.astray,
        relayed=bool(hosts[0].routes),
        poison=plan.poison,
        journals=what_is_kept(plan, host, to, low),
        suspected=SUSPECTED if plan.lied_about else frozenset(),
        hands_back=host.settings.reconnect.after_session_lost == "hand back",
    )


def _refusals_of(plan: StreamPlan, to: Host) -> frozenset[str]:
    """Why the destination may refuse messages of a stream; there are no other reasons."""
    limits = to.settings.limits
    quota = to.settings.quota_of(plan.queue)
    reasons = {RejectReason.ACCESS_DENIED} if plan.forbidden or plan.wavers else set()
    if plan.astray:
        reasons |= {RejectReason.ROUTE_LOOP, RejectReason.NO_ROUTE}
    if quota.when_full == "reject" or (plan.delivery == "express" and is_limited(limits)):
        reasons.add(RejectReason.QUEUE_FULL)
    if max(plan.size_bytes, plan.large_bytes) + MESSAGE_OVERHEAD_BYTES > quota.size_bytes:
        reasons.add(RejectReason.TOO_LARGE)
    return frozenset(reasons)
