"""The plan of one seed: every option and every fault, drawn before anything runs.

A swarm: each seed first draws which kinds of fault occur at all and how strong, so that some seeds are all loss and
some all crashes. The faults are an explicit list, so that a failing seed can be shrunk by leaving some of them out.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from triack.base.delivery import Delivery
from triack.base.units import MS, SECOND
from triack.queues.node_settings import Journal, Limits, NodeSettings
from triack.tools.sim.faults import Faults

LETTERS = "letters"
"""The queue of each host for dead letters whose senders want them there."""
DISHONEST = ("lie", "rot", "old-copy", "clone")
"""Faults against which no single store can keep its promise; they must be noticed."""

STRANGE = ("junk", "replay", "forge", "overtake")
"""The attacks of strangers: datagrams of no meaning, copies of others' datagrams, connects with a key that no host
trusts, and copies that arrive before their originals."""


LASTING_MS = 3_600_000
"""A message that lives for an hour outlives every run: only a clock that is set could end it."""


def is_limited(limits: Limits) -> bool:
    """Whether a host has its own limits, journals apart: those refuse no peer."""
    return replace(limits, queue_journal={}, journal=Journal()) != Limits()


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault at a time.

    Attributes:
        kind: ``kill`` and ``power-loss`` (after ``after`` more effects, down for ``for_ns``), ``pause``, ``stop``
            (orderly, and started again), ``cut``, ``cut-one-way``, ``clog``, ``rebind``, ``wall-jump`` (by ``for_ns``),
            ``clock-set`` (of a clock that was not set, or back to that, with a start between; down for ``for_ns``),
            ``second-opener`` (of its store, while it runs), ``disk-error`` (as ``call`` says, once or until it is
            repaired), ``disk-full``, ``disk-low`` (with room for ``after`` bytes beside the reserve), ``move`` (to the
            address of that number ``after``, down for ``for_ns``), ``rotate`` (another key within ``for_ns``),
            ``revoke`` (of the ``other`` by the host), ``forbid`` (the host forbids the ``other`` the queue of the
            stream of number ``after``), ``narrow`` (datagrams to the ``other`` have at most ``after`` bytes, 0 for any,
            from now on for good), ``reroute`` (the host sends messages for the host of number ``after`` by way of the
            ``other``), ``hide`` (behind a middle box that forgets flows after ``after`` ms), ``pause-queue`` (of the
            stream of number ``after``, at its receiver or, with ``other`` 1, at its sender; with ``forever`` nothing
            enters it, either), one of ``STRANGE`` (``after`` datagrams within ``for_ns``), or of ``DISHONEST``;
            ``hostile`` (a relay, see ``tools.chaos.sealing``).
        after: effects or calls until it strikes.
        again: effects after which the start that follows a crash is itself interrupted; -1 for not.
        call: how the disk call that follows ``after`` others fails: a kind of ``FailAt``.
        forever: whether all calls after it fail as well, or trust returns only when all else is at rest.
    """

    at_ns: int
    kind: str
    host: int
    other: int = 0
    after: int = 0
    for_ns: int = 0
    again: int = -1
    call: str = ""
    forever: bool = False


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """Messages of one class from one host to a queue of another.

    Attributes:
        size_bytes: of most messages; some have ``large_bytes``; 0 for none.
        streamed_bytes: size of messages that are sent in parts; 0 for none.
        batch: how many are submitted together, at most.
        live_ms: time to reach the queue; 0 for no limit.
        is_read: whether the queue has a reader; it has none only where messages have a time to be received.
        source: index of the stream whose messages this one forwards, exactly once; -1 for its own messages.
        astray: whether no way leads to the receiver, so that relays refuse all of its messages.
        below: of a stream to a topic, what the names of its messages have below the root, in turns.
        priorities: of its messages, one after the other; none: all have the default of their class.
        lied_about: whether a hostile relay may be on their way.
        acks: administration messages that the sender asks for, as flags.
        letters: the queue for dead letters of its messages; empty for the system's.
        journal: whether the journal of the sender keeps what was freed.
    """

    sender: int
    receiver: int
    queue: str
    delivery: str
    count: int
    size_bytes: int
    large_bytes: int = 0
    streamed_bytes: int = 0
    batch: int = 10
    gap_ns: int = 20 * MS
    live_ms: int = 0
    read_ms: int = 0
    is_read: bool = True
    source: int = -1
    forbidden: bool = False
    wavers: bool = False
    astray: bool = False
    poison: frozenset[int] = frozenset()
    below: tuple[str, ...] = ()
    acks: int = 0
    letters: str = ""
    journal: bool = False
    priorities: tuple[int, ...] = ()
    sealed: bool = False
    lied_about: bool = False

    def priority_of(self, number: int) -> int | None:
        """The priority of a message; None: the default of its class."""
        return self.priorities[number % len(self.priorities)] if self.priorities else None

    def describe(self) -> str:
        """In a short form."""
        more = " forbidden" if self.forbidden else " forbidden now and then" if self.wavers else ""
        more += " astray" if self.astray else ""
        more += " sealed" if self.sealed else ""
        more += f" {self.streamed_bytes}B in parts" if self.streamed_bytes else ""
        more += f" poison {sorted(self.poison)}" if self.poison else ""
        more += f" priorities {self.priorities}" if self.priorities else ""
        more += (f" acks {self.acks}" if self.acks else "") + (f" letters to {self.letters}" if self.letters else "")
        more += " journal" if self.journal else ""
        more += (f" read in {self.read_ms} ms" if self.read_ms else "") + ("" if self.is_read else " unread")
        return f"{self.sender}>{self.receiver} {self.delivery} x{self.count} {self.size_bytes}B{more}"


@dataclass(frozen=True, slots=True)
class HostPlan:
    """One machine.

    ``transactional`` readers keep their position in the store, others only acknowledge. It begins at ``address``, and
    others seek it at all of its ``addresses``. Where it ``cuts_log``, a loss of power loses the end of its session log.
    """

    name: str
    address: str
    settings: NodeSettings
    commit_ns: int
    page_bytes: int
    checkpoint_pages: int
    transactional: bool
    timer_slack_ns: int
    failure_rate: float
    read_gap_ns: int
    burst_ns: int = 0
    others: tuple[str, ...] = ()
    cuts_log: bool = False

    def having(self, **settings: Any) -> "HostPlan":
        """The same machine with other settings."""
        return replace(self, settings=replace(self.settings, **settings))

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where it may be, in the order in which others try."""
        return (*self.others, self.address)


@dataclass(frozen=True, slots=True)
class RoutePlan:
    """The way of one host to another, by indices: messages for ``to`` (-1: for any) go to ``via`` first.

    While ``via`` is silent for ``switch_s``, they go to the first of ``others`` that is not.
    """

    host: int
    to: int
    via: int
    others: tuple[int, ...] = ()
    switch_s: float = 1.0


@dataclass(frozen=True, slots=True)
class SubscriberPlan:
    """A subscriber of topics.

    Attributes:
        host: index of the machine with the topics.
        durable: the name of its subscription; empty if that is not durable.
        kind: see ``topics.KINDS``.
        max_unacked: its limit; None for that of the topic.
        shared: whether others read the same durable subscription.
    """

    host: int
    pattern: str
    durable: str
    kind: str
    max_unacked: int | None
    shared: bool = False

    def describe(self) -> str:
        """In a short form."""
        return f"{self.kind} {self.pattern} {self.durable}".rstrip()


@dataclass(frozen=True, slots=True)
class AwayPlan:
    """A subscriber to topics of another machine."""

    host: int
    hub: int
    pattern: str
    durable: str
    kind: str
    max_unacked: int
    delivery: Delivery

    def describe(self) -> str:
        """In a short form."""
        return f"{self.kind} {self.pattern} {self.durable}".rstrip() + f" at {self.host}"


@dataclass(frozen=True)
class SyncPlan:
    """All links of these hosts are synchronous."""

    hosts: tuple[int, ...] = ()
    age_s: float = 1.0
    interval_s: float = 1.0


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything on which a run of a seed depends.

    Attributes:
        network: how bad it is until ``faults_end_ns``.
        faults_end_ns: when the faults stop and everything must end well.
        dead_path: a directed pair of hosts that never reach each other, not even after the faults stop.
        is_secure: whether the hosts have keys, and know each other by them.
        routes: of the hosts that have some.
        links: pairs of hosts that know each other; none: all do.
        subscribers: of topics; the first gets everything.
    """

    seed: int
    hosts: tuple[HostPlan, ...]
    streams: tuple[StreamPlan, ...]
    network: Faults
    faults: tuple[Fault, ...]
    faults_end_ns: int
    dead_path: tuple[int, int] | None = None
    is_secure: bool = True
    routes: tuple[RoutePlan, ...] = ()
    links: tuple[tuple[int, int], ...] = ()
    subscribers: tuple[SubscriberPlan, ...] = ()
    sync: SyncPlan = SyncPlan()
    away: tuple[AwayPlan, ...] = ()

    @property
    def is_honest(self) -> bool:
        """Whether no store has wrong content."""
        return not any(fault.kind in DISHONEST for fault in self.faults)

    @property
    def ends(self) -> list[int]:
        """The streams with original messages that are not forwarded."""
        forwarded = {stream.source for stream in self.streams}
        return [at for at, stream in enumerate(self.streams) if stream.source < 0 and at not in forwarded]

    def plus(self, faults: Iterable[Fault]) -> "Plan":
        """The same plan with more faults, in their order of time."""
        return replace(self, faults=by_time((*self.faults, *faults)))

    def describe(self) -> dict[str, Any]:
        """The options for people, without defaults."""
        calm = asdict(Faults())
        network = {name: value for name, value in asdict(self.network).items() if value != calm[name]}
        kinds: dict[str, int] = {}
        for fault in self.faults:
            kinds[fault.kind] = kinds.get(fault.kind, 0) + 1
        return {
            "seed": self.seed,
            "hosts": [" ".join(host.addresses) for host in self.hosts],
            "limits": [host.name for host in self.hosts if is_limited(host.settings.limits)],
            "secure": self.is_secure,
            **(
                {"journals": kept}
                if (kept := [_journals_of(host) for host in self.hosts if _journals_of(host)])
                else {}
            ),
            **({"links": [f"{one}-{other}" for one, other in self.links]} if self.links else {}),
            **({"sync": list(self.sync.hosts)} if self.sync.hosts else {}),
            **({"several_ways": several} if (several := [it.host for it in self.routes if it.others]) else {}),
            "streams": [stream.describe() for stream in self.streams],
            **({"subscribers": [one.describe() for one in self.subscribers]} if self.subscribers else {}),
            **({"away": [one.describe() for one in self.away]} if self.away else {}),
            "network": network,
            "faults": kinds,
            "faults_end_s": self.faults_end_ns / SECOND,
            "dead_path": self.dead_path,
        }


def by_time(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """Faults in the order in which they come."""
    return tuple(sorted(faults, key=lambda fault: fault.at_ns))


def _journals_of(host: HostPlan) -> str:
    limits = host.settings.limits
    kept = {**limits.queue_journal, **({"$": limits.journal} if limits.journal != Journal() else {})}
    return " ".join([host.name, *(f"{queue} {journal.when_full}" for queue, journal in kept.items())]) if kept else ""
