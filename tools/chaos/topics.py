"""Plans of machines with topics: publishers, and subscribers that are slow, do nothing, or leave and return.

One durable subscription gets everything and is read like a queue, so the promises of queues judge it. The others make
trouble: they have the strategy stop, drop or continue, and pin what the quota counts. Most faults hit the machine with
the topics, before any effect: that is at each step of a commit, too.
"""

from dataclasses import dataclass, replace
from random import Random
from typing import Final, get_args

from triack.base.names import TOPIC_PREFIX
from triack.base.units import MS, SECOND
from triack.queues.node_settings import Limits, Quota, Strategy, Topic
from triack.tools.chaos.away_subscribers import draw_away
from triack.tools.chaos.machines import draw_disk_faults, draw_host, draw_stream
from triack.tools.chaos.plan import Fault, HostPlan, Plan, StreamPlan, SubscriberPlan, by_time
from triack.tools.sim.faults import Faults

TOPICS_FROM: Final = 2_000_000
"""Seeds from here on draw topics; those below keep their plans."""
GAMES: Final = "Games"
EVERYTHING: Final = "all"
"""The durable subscription that gets everything, and tells the history."""
NAMES: Final = ("", "Chess", "Chess.Blitz", "Go")
PATTERNS: Final = (f"{GAMES}.#", f"{GAMES}.#", f"{GAMES}.*", f"{GAMES}.Chess.#", f"{GAMES}.Go", f"{GAMES}.*.Blitz")
KINDS: Final = ("quick", "slow", "dead", "flapping")
MORE_KINDS: Final = ("failing", "holding", "pausing")
"""It fails with most messages, leases some for long and then leaves with them, or pauses."""
MORE_SHARE: Final = 1 / 2
LIMITS: Final = (1, 3, 20, 1_000)
QUOTA_BYTES: Final = 4_000
"""Some dozens of messages: less than what a dead subscriber pins."""
QUOTA_SHARE: Final = 1 / 3
FAULT_SHARE: Final = 2 / 3
DISK_SHARE: Final = 1 / 2
"""Of the seeds: those in which disks fail or are full, also those of machines that subscribe to another one."""
DISK_FAULTS_MAX: Final = 4
COUNT_MAX: Final = 60
_ENDS_S = (2, 4, 4, 8)
_CRASHES = ("kill", "kill", "kill", "power-loss", "stop")


@dataclass(frozen=True, slots=True)
class _Shape:
    """How many machines there are, and which of them has the topics: it publishes, too."""

    hosts: int
    hub: int


def draw_topics(seed: int, random: Random) -> Plan:
    """The plan of a seed, which never changes."""
    shape = random.choice([_Shape(1, 0), _Shape(2, 1), _Shape(2, 1), _Shape(3, 2)])
    hosts = [draw_host(random, "abc"[index], "udp") for index in range(shape.hosts)]
    hosts[shape.hub] = _with_topics(hosts[shape.hub], random)
    end_ns = random.choice(_ENDS_S) * SECOND
    faults = _draw_faults(shape, end_ns, random) if random.random() < FAULT_SHARE else []
    plan = Plan(
        seed, tuple(hosts), _draw_streams(shape, random), _draw_network(random),
        by_time(faults), end_ns, subscribers=_draw_subscribers(shape, random),
        away=draw_away(Random(f"away {seed}"), shape.hosts, shape.hub, PATTERNS),
    )  # fmt: skip
    more = Random(f"{seed}: times, failures and shared subscriptions")
    plan = _with_more(plan, shape.hub, more) if more.random() < MORE_SHARE else plan
    disks = Random(f"{seed}: disks")
    return _with_disk_faults(plan, shape, disks) if disks.random() < DISK_SHARE else plan


def _with_disk_faults(plan: Plan, shape: _Shape, random: Random) -> Plan:
    moments = [random.randrange(plan.faults_end_ns) for _ in range(random.randint(1, DISK_FAULTS_MAX))]
    drawn = draw_disk_faults(random, moments, (shape.hub, *range(shape.hosts)))
    return plan.plus(drawn)


def _with_more(plan: Plan, hub: int, random: Random) -> Plan:
    """Messages that expire or fail, readers that keep them for too long, and several readers of one subscription."""
    hosts, streams = list(plan.hosts), plan.streams
    topic = replace(hosts[hub].settings.topics[GAMES], ack_wait_s=random.choice([None, 0.1, 0.5]))
    hosts[hub] = hosts[hub].having(topics={GAMES: topic}, max_redeliveries=random.choice([0, 2, 10]))
    if random.random() < 1 / 2:
        streams = tuple(replace(one, read_ms=random.choice([0, 50, 300, 2_000])) for one in streams)
    work = SubscriberPlan(hub, f"{GAMES}.#", "work", "holding", random.choice([None, 3]), shared=True)
    shared = [replace(work, kind=random.choice(["quick", "failing", "holding"])) for _ in range(2)]
    others = [
        SubscriberPlan(
            hub, random.choice(PATTERNS), "kept" if random.random() < 1 / 4 else "", random.choice(MORE_KINDS), None
        )
        for _ in range(random.choice([1, 2]))
    ]
    subscribers = (*plan.subscribers, *(shared if random.random() < 1 / 2 else ()), *_of_one_name(others))
    return replace(plan, hosts=tuple(hosts), streams=streams, subscribers=subscribers)


def _of_one_name(plans: list[SubscriberPlan]) -> list[SubscriberPlan]:
    """Durable subscriptions of one name have one pattern, and one reader unless they are shared."""
    return [replace(one, durable=one.durable and f"{one.durable}{at}") for at, one in enumerate(plans)]


def _with_topics(host: HostPlan, random: Random) -> HostPlan:
    topic = Topic(
        strategy=random.choice(get_args(Strategy)),
        max_unacked=random.choice(LIMITS),
        delivery_timeout_s=random.choice([0.2, 1.0, 60.0]),
        quota=Quota(size_bytes=QUOTA_BYTES) if random.random() < QUOTA_SHARE else None,
    )
    return host.having(topics={GAMES: topic}, limits=Limits())


def _draw_streams(shape: _Shape, random: Random) -> tuple[StreamPlan, ...]:
    streams: list[StreamPlan] = []
    for delivery in ("transactional", "recoverable", "express", "transactional"):
        if not streams or random.random() < FAULT_SHARE:
            plan = draw_stream(random, random.randrange(shape.hosts), shape.hub, delivery)
            below = tuple(random.choice(NAMES) for _ in range(random.choice([1, 1, 4])))
            gap_ns, count = min(plan.gap_ns, 300 * MS), min(plan.count, COUNT_MAX)
            large_bytes, size_bytes = min(plan.large_bytes, QUOTA_BYTES // 4), min(plan.size_bytes, 100)
            plan = replace(plan, large_bytes=large_bytes, size_bytes=size_bytes, live_ms=0, is_read=False)
            streams.append(replace(plan, gap_ns=gap_ns, count=count, below=below))
    return tuple(replace(stream, queue=f"{TOPIC_PREFIX}{GAMES}") for stream in streams)


def _draw_subscribers(shape: _Shape, random: Random) -> tuple[SubscriberPlan, ...]:
    first = SubscriberPlan(shape.hub, f"{GAMES}.#", EVERYTHING, "quick", 1_000)
    others = [
        SubscriberPlan(
            shape.hub,
            random.choice(PATTERNS),
            f"durable{number}" if random.random() < 1 / 3 else "",
            random.choice(KINDS),
            random.choice([None, *LIMITS]),
        )
        for number in range(random.choice([1, 2, 2, 3, 5]))
    ]
    return (first, *others)


def _draw_network(random: Random) -> Faults:
    return Faults(
        loss=random.choice([0.0, 0.0, 0.1]),
        duplicate=random.choice([0.0, 0.1]),
        reorder=random.choice([0.0, 0.1]),
        delay_ns=random.choice([MS // 10, 5 * MS]),
        jitter_ns=random.choice([0, MS]),
    )


def _draw_faults(shape: _Shape, end_ns: int, random: Random) -> list[Fault]:
    return [
        Fault(
            random.randrange(end_ns),
            random.choice(_CRASHES),
            random.choice([shape.hub, shape.hub, random.randrange(shape.hosts)]),
            after=random.choice([0, random.randrange(60)]),
            for_ns=random.randrange(1, random.choice([50 * MS, SECOND])),
            again=random.choice([-1, -1, random.randrange(30)]),
        )
        for _ in range(random.randint(1, 6))
    ]
