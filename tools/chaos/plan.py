"""What one seed does: every option and every fault, drawn before anything runs.

A swarm: each seed first draws which kinds of fault are on at all and how strong, so that some seeds are all loss and
some all crashes. The faults are an explicit list, so that a failing seed can be shrunk by leaving some of them out.
"""

from dataclasses import asdict, dataclass, field, replace
from random import Random
from typing import Any

from triack.base.ack_trigger import AckTrigger
from triack.base.units import MS, SECOND
from triack.ordering.settings import OrderSettings
from triack.queues.settings import NodeSettings
from triack.session.settings import SessionSettings
from triack.tools.sim.faults import Faults
from triack.tools.sim.world import World

__all__ = ["DISHONEST", "Fault", "HostPlan", "Plan", "StreamPlan", "draw"]

DISHONEST = ("lie", "rot", "old-copy", "clone")
"""Faults against which no single store can keep its promise; they must be noticed."""

INSECURE_CHANCE = 1 / 8
"""Nodes without keys are for one machine; enough that a few hundred seeds meet every fault without them, too."""

_CRASHES = ("kill", "power-loss")
_FAILURES = ("eio", "full", "short", "drop")


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong at a time.

    Attributes:
        at_ns: when, from the start.
        kind: ``kill`` and ``power-loss`` (after ``after`` more effects, down for ``for_ns``), ``pause``, ``stop``
            (orderly, and started again), ``cut``, ``cut-one-way``, ``clog``, ``rebind``, ``wall-jump`` (by ``for_ns``),
            ``disk-error`` (as ``call`` says, once or until it is repaired), ``disk-full``, or one of ``DISHONEST``.
        host, other: indices of hosts.
        after: effects or calls until it strikes.
        for_ns: how long it lasts.
        again: effects after which the start that follows a crash is itself interrupted; -1 for not.
        call: how the disk call that comes after ``after`` others fails: a kind of ``FailAt``.
        forever: whether all calls after it fail as well.
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
        sender, receiver: indices of hosts.
        queue: the destination.
        delivery: label of the class.
        count: how many messages.
        size_bytes: how large; some are ``large_bytes``.
        large_bytes: see ``size_bytes``; 0 for none.
        batch: how many are submitted at once, at most.
        gap_ns: longest wait between batches.
        live_ms: time to reach the queue; 0 for no limit.
        source: index of the stream whose messages this one forwards, exactly once; -1 if it has its own.
    """

    sender: int
    receiver: int
    queue: str
    delivery: str
    count: int
    size_bytes: int
    large_bytes: int = 0
    batch: int = 10
    gap_ns: int = 20 * MS
    live_ms: int = 0
    source: int = -1


@dataclass(frozen=True, slots=True)
class HostPlan:
    """One machine. ``transactional`` readers keep their position in the store, others only acknowledge."""

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


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a run of a seed depends on.

    Attributes:
        seed: the rest of its chance.
        hosts, streams: who is there and what they do.
        network: how bad it is until ``faults_end_ns``.
        faults: what goes wrong, by time.
        faults_end_ns: when the faults stop and everything must come to a good end.
        dead_path: a directed pair of hosts that never reach each other, not even after the faults stop.
        is_secure: whether the hosts have keys, and know each other by them.
    """

    seed: int
    hosts: tuple[HostPlan, ...]
    streams: tuple[StreamPlan, ...]
    network: Faults
    faults: tuple[Fault, ...]
    faults_end_ns: int
    dead_path: tuple[int, int] | None = None
    is_secure: bool = True

    def describe(self) -> dict[str, Any]:
        """The options for people, without what is at its default."""
        calm = asdict(Faults())
        network = {name: value for name, value in asdict(self.network).items() if value != calm[name]}
        kinds: dict[str, int] = {}
        for fault in self.faults:
            kinds[fault.kind] = kinds.get(fault.kind, 0) + 1
        return {
            "seed": self.seed,
            "hosts": [host.address for host in self.hosts],
            "secure": self.is_secure,
            "streams": [f"{s.sender}>{s.receiver} {s.delivery} x{s.count} {s.size_bytes}B" for s in self.streams],
            "network": network,
            "faults": kinds,
            "faults_end_s": self.faults_end_ns / SECOND,
            "dead_path": self.dead_path,
        }


@dataclass(slots=True)
class _Draw:
    random: Random
    hosts: int
    end_ns: int
    faults: list[Fault] = field(default_factory=list)

    def host(self) -> int:
        return self.random.randrange(self.hosts)

    def times(self, most_every_ns: int) -> list[int]:
        """Moments until the end, as if by chance, but not denser than asked."""
        moments, at_ns = [], 0
        while (at_ns := at_ns + self.random.randrange(most_every_ns // 4, 2 * most_every_ns)) < self.end_ns:
            moments.append(at_ns)
        return moments


def draw(seed: int) -> Plan:
    """The plan of a seed; the same for ever."""
    random = World(seed).chance("plan")
    hosts = random.choice([2, 2, 2, 3])
    scheme = "tcp" if random.random() < 0.15 else "udp"
    end_ns = random.choice([4, 8, 16, 40]) * SECOND
    drawn = _Draw(random, hosts, end_ns)
    host_plans = tuple(_draw_host(random, "abc"[index], scheme) for index in range(hosts))
    streams = _draw_streams(random, hosts)
    for kind in (_draw_crashes, _draw_paths, _draw_pauses, _draw_disk, _draw_clock):
        if random.random() < 0.4:
            kind(drawn)
    if random.random() < 0.12:
        _draw_dishonest(drawn)
    dead = (0, 1) if hosts == 3 and random.random() < 0.1 else None
    faults = tuple(sorted(drawn.faults, key=lambda fault: fault.at_ns))
    is_secure = random.random() >= INSECURE_CHANCE
    return Plan(seed, host_plans, streams, _draw_network(random), faults, end_ns, dead, is_secure)


def _draw_network(random: Random) -> Faults:
    def some(chance: float, *values: float) -> float:
        return random.choice(values) if random.random() < chance else 0.0

    return Faults(
        loss=some(0.5, 0.02, 0.1, 0.3, 0.5),
        burst=some(0.2, 0.005, 0.02),
        burst_length=random.choice([3.0, 10.0]),
        duplicate=some(0.3, 0.02, 0.2),
        late_duplicate=some(0.3, 0.01, 0.05),
        late_ns=random.choice([SECOND, 10 * SECOND, 60 * SECOND]),
        reorder=some(0.4, 0.05, 0.3),
        spike=some(0.2, 0.01, 0.05),
        corrupt=some(0.2, 0.01, 0.1),
        truncate=some(0.15, 0.01, 0.05),
        delay_ns=random.choice([MS // 10, 5 * MS, 50 * MS]),
        jitter_ns=random.choice([0, MS, 20 * MS]),
    )


def _draw_host(random: Random, name: str, scheme: str) -> HostPlan:
    return HostPlan(
        name=name,
        address=f"{scheme}://{name}:1",
        settings=_draw_settings(random),
        commit_ns=random.choice([MS // 4, 3 * MS, 3 * MS, 80 * MS]),
        page_bytes=random.choice([512, 1_024, 4_096]),
        checkpoint_pages=random.choice([4, 30, 200]),
        transactional=random.random() < 0.5,
        timer_slack_ns=random.choice([0, 0, 0, 50 * MS, SECOND]),
        failure_rate=random.choice([0.0, 0.0, 0.02]),
        read_gap_ns=random.choice([10 * MS, 50 * MS, 300 * MS]),
    )


def _draw_trigger(random: Random) -> AckTrigger | None:
    """How an end wants to be acknowledged; no two are alike but by chance."""
    return random.choice(
        [
            None,
            None,
            AckTrigger(window_share=1 / 3, delay_s=1.0, piggyback_after=None),
            AckTrigger(count=1),
            AckTrigger(window_share=None, bytes_=random.choice([500, 20_000]), delay_s=2.0),
            AckTrigger(window_share=None, delay_s=1.0, piggyback_after=0.75),
            AckTrigger(window_share=None, delay_s=5.0, idle_s=0.1),
            AckTrigger(delay_rtts=8, delay_s=0.05, delay_max_s=2.0),
        ]
    )


def _draw_settings(random: Random) -> NodeSettings:
    window = random.choice([1, 2, 3, 8, 64, 64])
    session = SessionSettings(
        max_unacked_packet=window,
        idle_ack_delay_s=random.choice([0.001, 0.05, 0.5]),
        ack_trigger=_draw_trigger(random),
        store_ack_trigger=_draw_trigger(random),
        ack_timeout_s=random.choice([None, None, None, 0.3, 6.0]),
        store_ack_timeout_s=random.choice([None, None, 3.0]),
        ack_timeout_min_s=random.choice([0.2, 2.0]),
        ack_timeout_max_s=random.choice([5.0, 20.0]),
        connect_timeout_s=random.choice([2.0, 10.0]),
        cleanup_interval_s=random.choice([1.0, 300.0]),
        drain_timeout_s=random.choice([0.3, 5.0]),
        max_datagram_bytes=random.choice([576, 1_200, 1_200, 9_000]),
    )
    order = OrderSettings(
        order_ack_idle_s=random.choice([0.001, 0.5]),
        seq_max_ack_delay_s=random.choice([1.0, 10.0]),
        order_ack_every=random.choice([1, 5, 64]),
        max_held_packets=random.choice([1, 8, 4_096]),
        seq_resend_13_s=random.choice([0.3, 5.0]),
        seq_resend_46_s=10.0,
    )
    return NodeSettings(
        session=session,
        order=order,
        reconnect_min_s=random.choice([0.01, 0.1]),
        pending_limit_bytes=random.choice([5_000, 4 * 1024 * 1024]),
        body_cache_bytes=random.choice([0, 4_000, 32 * 1024 * 1024]),
        close_timeout_s=random.choice([0.1, 5.0]),
        max_redeliveries=1_000,
    )


def _draw_streams(random: Random, hosts: int) -> tuple[StreamPlan, ...]:
    streams = [_draw_stream(random, 0, 1, "transactional")]
    if random.random() < 0.4:
        streams.append(_draw_stream(random, 1, 0, "transactional"))
    for delivery in ("recoverable", "express", "transactional"):
        if random.random() < 0.3:
            sender, receiver = random.sample(range(hosts), 2)
            streams.append(_draw_stream(random, sender, receiver, delivery))
    if random.random() < 0.35:
        # What arrives at 1 is forwarded, received and sent in one transaction.
        first = streams[0]
        streams.append(replace(first, sender=1, receiver=(hosts - 1) if hosts == 3 else 0, queue="fw", source=0))
    return tuple(
        replace(stream, queue=stream.queue if stream.source >= 0 else f"q{index}")
        for index, stream in enumerate(streams)
    )


def _draw_stream(random: Random, sender: int, receiver: int, delivery: str) -> StreamPlan:
    size_bytes = random.choice([20, 100, 100, 3_000])
    return StreamPlan(
        sender=sender,
        receiver=receiver,
        queue="",
        delivery=delivery,
        count=random.choice([10, 40]) if size_bytes == 3_000 else random.choice([20, 60, 200]),
        size_bytes=size_bytes,
        large_bytes=random.choice([0, 0, 0, 20_000]),
        batch=random.choice([1, 10, 60]),
        gap_ns=random.choice([5 * MS, 50 * MS, 300 * MS, 3 * SECOND]),
        live_ms=random.choice([0, 0, 0, 0, 500, 30_000]),
    )


def _draw_crashes(draw_: _Draw) -> None:
    random = draw_.random
    for at_ns in draw_.times(random.choice([300 * MS, SECOND, 3 * SECOND])):
        fault = Fault(
            at_ns,
            random.choice(_CRASHES),
            draw_.host(),
            after=random.choice([0, random.randrange(10), random.randrange(200)]),
            for_ns=random.randrange(1, random.choice([50 * MS, 2 * SECOND])),
            again=random.choice([-1, -1, random.randrange(40)]),
        )
        draw_.faults.append(fault)


def _draw_paths(draw_: _Draw) -> None:
    random = draw_.random
    for at_ns in draw_.times(2 * SECOND):
        kind = random.choice(["cut", "cut-one-way", "clog", "rebind"])
        one, other = random.sample(range(draw_.hosts), 2)
        for_ns = random.randrange(1, random.choice([200 * MS, 5 * SECOND]))
        draw_.faults.append(Fault(at_ns, kind, one, other, for_ns=for_ns))


def _draw_pauses(draw_: _Draw) -> None:
    random = draw_.random
    for at_ns in draw_.times(3 * SECOND):
        kind = random.choice(["pause", "pause", "stop"])
        draw_.faults.append(Fault(at_ns, kind, draw_.host(), for_ns=random.randrange(1, 4 * SECOND)))


def _draw_disk(draw_: _Draw) -> None:
    random = draw_.random
    for at_ns in draw_.times(3 * SECOND):
        fault = Fault(
            at_ns,
            random.choice(["disk-error", "disk-error", "disk-full"]),
            draw_.host(),
            after=random.choice([0, random.randrange(30)]),
            for_ns=random.randrange(1, 2 * SECOND),
            call=random.choice(_FAILURES),
            forever=random.random() < 0.3,
        )
        draw_.faults.append(fault)


def _draw_clock(draw_: _Draw) -> None:
    random = draw_.random
    for at_ns in draw_.times(4 * SECOND):
        jump_ns = random.choice([-1, 1]) * random.choice([SECOND, 3_600 * SECOND, 86_400 * 365 * SECOND])
        draw_.faults.append(Fault(at_ns, "wall-jump", draw_.host(), for_ns=jump_ns))


def _draw_dishonest(draw_: _Draw) -> None:
    random = draw_.random
    at_ns = random.randrange(draw_.end_ns // 4, draw_.end_ns)
    kind = random.choice(DISHONEST)
    draw_.faults.append(
        Fault(at_ns, kind, draw_.host(), after=random.randrange(60), for_ns=random.randrange(2 * SECOND))
    )
