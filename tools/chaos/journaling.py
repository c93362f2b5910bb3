"""Journals of a run: which hosts keep what their readers acknowledged, or what they sent; and who reads the copies.

Each journal is read now and then, so that one that holds its senders releases them. What is read there goes into the
history, which knows which copies must be there.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from random import Random

from triack.base.units import MS
from triack.queues.mailboxes.mailbox import Lease
from triack.queues.mailboxes.quotas import NO_LIMIT
from triack.queues.mailboxes.system_queues import SENT_JOURNAL, journal_of
from triack.queues.manager.engine import Engine
from triack.queues.node_settings import Journal, WhenJournalFull
from triack.tools.chaos.history import READ, SENT, History, identify
from triack.tools.chaos.host import Host
from triack.tools.chaos.plan import HostPlan, Plan, StreamPlan

SENT_CHANCE = 0.25
"""Of the streams of honest plans: most have none, so that others stay as they were."""
READ_CHANCE = 0.25
WHEN_FULL: tuple[WhenJournalFull, ...] = ("drop oldest", "stop", "hold")
MESSAGES = (3, 20, NO_LIMIT, NO_LIMIT)
"""The most in a journal: soon full, now and then, or never; only the last has to have all copies."""
GAP_NS = 200 * MS


def keep_journals(plan: Plan, random: Random) -> Plan:
    """The same plan, in which some queues have journals, and some senders ask for copies.

    Not where a disk lies or a store is an older copy: then the same may happen twice, and be copied twice.
    """
    if not plan.is_honest:
        return plan
    # A disk without room gets no copies.
    sizes = MESSAGES[:2] if any(fault.kind == "disk-full" for fault in plan.faults) else MESSAGES
    hosts, streams = list(plan.hosts), list(plan.streams)
    for index, stream in enumerate(streams):
        if stream.below or stream.astray:
            continue
        if random.random() < SENT_CHANCE:
            streams[index] = replace(stream, journal=True)
            hosts[stream.sender] = _with(hosts[stream.sender], "", sizes, random)
        if random.random() < READ_CHANCE:
            hosts[stream.receiver] = _with(hosts[stream.receiver], stream.queue, sizes, random)
    return replace(plan, hosts=tuple(hosts), streams=tuple(streams))


def _with(host: HostPlan, queue: str, sizes: Sequence[int], random: Random) -> HostPlan:
    """A host with a journal of a queue; empty for the journal of what it sends."""
    # Without a time limit: clocks are set, by years.
    journal = Journal(random.choice(sizes), NO_LIMIT, random.choice(WHEN_FULL), keep_s=None)
    limits = host.settings.limits
    if queue:
        limits = replace(limits, queue_journal={**limits.queue_journal, queue: journal})
    else:
        limits = replace(limits, journal=journal)
    return host.having(limits=limits)


def journals_of(host: Host, plans: tuple[StreamPlan, ...], hosts: list[Host]) -> list[str]:
    """The journals of a host."""
    kept = [journal_of(queue) for queue in host.settings.limits.queue_journal]
    return kept + [SENT_JOURNAL] * any(plan.journal and hosts[plan.sender] is host for plan in plans)


def what_is_kept(plan: StreamPlan, host: Host, to: Host, low: frozenset[int]) -> frozenset[str]:
    """Which journals, if they have no limit, must have all messages of a stream that belong there."""
    kept = to.settings.limits.queue_journal.get(plan.queue)
    kinds = {READ} if kept is not None and kept.messages == NO_LIMIT and plan.receiver not in low else set()
    if plan.journal and host.settings.limits.journal.messages == NO_LIMIT and plan.sender not in low:
        kinds.add(SENT)
    return frozenset(kinds)


class QueueReader(ABC):
    """Reads all of a queue of a host, some time after something arrives."""

    def __init__(self, host: Host, name: str, gap_ns: int) -> None:
        self.host = host
        self._name = name
        self._gap_ns = gap_ns

    def begin(self) -> None:
        """Read whenever there is something."""
        self.host.await_messages(self._name, self._wake)

    def _wake(self) -> None:
        self.host.world.at(self._gap_ns, self._turn)

    def _turn(self) -> None:
        self.read()
        self.begin()

    def read(self) -> bool:
        """Read all that is there. Returns whether there was anything."""
        engine = self.host.engine
        if engine is None or not self.host.has_messages(self._name):
            return False
        self.host.act(lambda: self._read(engine))
        return True

    def _read(self, engine: Engine) -> None:
        mailbox = engine.make_queue(self._name)
        while (lease := engine.take(mailbox, self.host.world.now_ns)) is not None:
            self.look_at(lease)
            mailbox.acknowledge(lease)

    @abstractmethod
    def look_at(self, lease: Lease) -> None:
        """Check what a message says."""


class JournalReader(QueueReader):
    """Reads a journal of a host into the history."""

    def __init__(self, host: Host, name: str, history: History) -> None:
        super().__init__(host, name, GAP_NS)
        self._kind = SENT if name == SENT_JOURNAL else READ
        self._history = history

    def look_at(self, lease: Lease) -> None:
        """Tell of a copy."""
        body = lease.body
        if lease.packet.large:
            body = str((lease.packet.open().properties or [{}])[lease.index].get("label", "")).encode()
        stream, number = identify(body)
        self._history.copied(stream, number, body, self._kind, redelivered=lease.redelivered)
