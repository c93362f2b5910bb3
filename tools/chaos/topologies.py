"""Plans of machines with relays between them: lines of three and of five, a diamond, and a ring.

Only neighbours know each other. These faults hit relays: kills at any effect, a store that is restored from an older
copy, an absence of three days, a tiny quota for what is in transit, a route that is switched.
"""

from dataclasses import dataclass, replace
from random import Random
from typing import Final

from triack.base.units import MS, SECOND
from triack.queues.node_settings import Limits, Quota
from triack.session.protocol.settings import SessionSettings
from triack.tools.chaos.machines import draw_disk_faults, draw_host, draw_stream
from triack.tools.chaos.plan import Fault, HostPlan, Plan, RoutePlan, StreamPlan, SyncPlan, by_time
from triack.tools.sim.faults import Faults

RELAYED_FROM: Final = 1_000_000
"""Seeds from here on draw relays; those below keep their plans."""
DAY_NS: Final = 86_400 * SECOND
AWAY_NS: Final = 3 * DAY_NS
AWAY_SHARE: Final = 1 / 12
EAGER_S: Final = 600.0
AWAY_MOST_S: Final = 900.0
"""Below the 1,200 seconds that a run may need to come to rest after an absence (``run.LONG_PATIENCE``)."""
OLD_COPY_SHARE: Final = 1 / 10
QUOTA_SHARE: Final = 1 / 4
SYNC_SHARE: Final = 1 / 3
KIND_SHARE: Final = 1 / 2
QUOTA_BYTES: Final = 4_096
"""Some dozens of messages: less than what most streams have in transit when a hop is away. Not where routes lead in a
circle: full relays wait for each other there."""
COUNT_MAX: Final = 40
RETIRE_S: Final = (0.01, 0.3, 3.0)
SWITCH_S: Final = (0.05, 0.5, 2.0)
_ENDS_S = (2, 4, 4, 8)
_CRASHES = ("kill", "kill", "power-loss")


@dataclass(frozen=True, slots=True)
class Topology:
    """Machines and their neighbours."""

    hosts: int
    links: tuple[tuple[int, int], ...]
    routes: tuple[RoutePlan, ...]
    ends: tuple[tuple[int, int], ...]
    relays: tuple[int, ...]
    switches: tuple[RoutePlan, ...] = ()
    lost: tuple[tuple[int, int], ...] = ()
    gateways: tuple[int, ...] = ()


def _line(hosts: int) -> Topology:
    last = hosts - 1
    routes = [RoutePlan(host, last, host + 1) for host in range(last - 1)]
    routes += [RoutePlan(host, 0, host - 1) for host in range(2, hosts)]
    return Topology(
        hosts, tuple((host, host + 1) for host in range(last)), tuple(routes), ((0, last), (last, 0)),
        tuple(range(1, last)),
    )  # fmt: skip


def _diamond() -> Topology:
    """0 reaches 3 by 1, and by 2 after the switch; answers go the other way."""
    return Topology(
        4, ((0, 1), (0, 2), (1, 3), (2, 3)), (RoutePlan(0, 3, 1), RoutePlan(3, 0, 2)), ((0, 3), (3, 0)), (1, 2),
        switches=(RoutePlan(0, 3, 2), RoutePlan(0, 3, 1), RoutePlan(3, 0, 1)), gateways=(1, 2),
    )  # fmt: skip


def _ring() -> Topology:
    """0 sends by 1, and the default routes of 1, 2 and 3 lead in a circle; no route leads to 4."""
    routes = (
        RoutePlan(0, 2, 1), RoutePlan(0, -1, 1), RoutePlan(1, -1, 2), RoutePlan(2, 0, 1), RoutePlan(2, -1, 3),
        RoutePlan(3, -1, 1),
    )  # fmt: skip
    links = ((0, 1), (1, 2), (2, 3), (1, 3))
    return Topology(5, links, routes, ((0, 2), (2, 0)), (1, 2, 3), lost=((0, 4),))


TOPOLOGIES: Final[dict[str, Topology]] = {
    "line of 3": _line(3),
    "line of 5": _line(5),
    "diamond": _diamond(),
    "ring": _ring(),
}


def draw_relayed(seed: int, random: Random) -> Plan:
    """The plan of a seed, which never changes: one of the topologies in turn, with faults at its relays."""
    name = list(TOPOLOGIES)[seed % len(TOPOLOGIES)]
    topology = TOPOLOGIES[name]
    hosts = [draw_host(random, "abcde"[index], "udp") for index in range(topology.hosts)]
    end_ns = random.choice(_ENDS_S) * SECOND
    faults: list[Fault] = []
    for kind in (_crash, _break_paths, _fill_disks, _switch):
        if random.random() < KIND_SHARE:
            kind(topology, end_ns, faults, random)
    if random.random() < AWAY_SHARE:
        end_ns = _stay_away(topology, faults, random)
        hosts = [_patient(host) for host in hosts]
    if random.random() < OLD_COPY_SHARE:
        at_ns = random.randrange(end_ns // 2)
        faults.append(Fault(at_ns, "old-copy", random.choice(topology.relays), for_ns=random.randrange(MS, 2 * SECOND)))
    if random.random() < QUOTA_SHARE and not topology.lost:
        limits = Limits(transit_quota=Quota(size_bytes=QUOTA_BYTES), peer_transit_bytes=QUOTA_BYTES)
        hosts = [host.having(limits=limits) if at in topology.relays else host for at, host in enumerate(hosts)]
    plan = Plan(
        seed, tuple(hosts), _draw_streams(topology, random), _draw_network(random),
        by_time(faults), end_ns, routes=topology.routes, links=topology.links,
        sync=_draw_sync(topology, random),
    )  # fmt: skip
    return _draw_ways(topology, _end_soon(plan, random), random)


def _end_soon(plan: Plan, random: Random) -> Plan:
    """In half of all plans streams end as soon as they are idle; drawn last, so that the rest stays as it was."""
    if random.random() >= KIND_SHARE:
        return plan
    retire_s = random.choice(RETIRE_S)
    hosts = [host.having(retire_after_s=retire_s) for host in plan.hosts]
    return replace(plan, hosts=tuple(hosts))


def _draw_ways(topology: Topology, plan: Plan, random: Random) -> Plan:
    """In half of the plans with gateways each is a way of every route, and they die in turn; drawn last, as above."""
    if not topology.gateways or random.random() >= KIND_SHARE:
        return plan
    switch_s = random.choice(SWITCH_S)
    routes = [
        replace(it, others=tuple(one for one in topology.gateways if one != it.via), switch_s=switch_s)
        for it in plan.routes
    ]
    faults = [fault for fault in plan.faults if fault.kind != "reroute"]
    at_ns = random.randrange(SECOND)
    for turn in range(random.randint(2, 6)):
        down_ns = random.randrange(MS, 3 * SECOND)
        gateway = topology.gateways[turn % len(topology.gateways)]
        faults.append(Fault(at_ns, random.choice(_CRASHES), gateway, for_ns=down_ns))
        # The next dies before this one is back, as it comes back, or later.
        at_ns += round(down_ns * random.choice([0.5, 1.0, 2.0]))
    faults = [fault for fault in faults if fault.at_ns < plan.faults_end_ns]
    return replace(plan, routes=tuple(routes), faults=by_time(faults))


def _draw_sync(topology: Topology, random: Random) -> SyncPlan:
    """In a third of all plans, some hosts whose links are synchronous; drawn last, so that the rest stays as it was."""
    if random.random() >= SYNC_SHARE:
        return SyncPlan()
    hosts = [host for host in range(topology.hosts) if random.random() < KIND_SHARE] or [0]
    return SyncPlan(tuple(hosts), random.choice([0.2, 1.0, 5.0]), random.choice([0.01, 0.5]))


def _draw_streams(topology: Topology, random: Random) -> tuple[StreamPlan, ...]:
    streams = [
        draw_stream(random, *random.choice(topology.ends), delivery)
        for delivery in ("transactional", "recoverable", "express")
        if delivery == "transactional" or random.random() < KIND_SHARE
    ]
    for sender, receiver in topology.lost:
        delivery = random.choice(["transactional", "recoverable"])
        lost = draw_stream(random, sender, receiver, delivery)
        streams.append(replace(lost, astray=True, count=3, size_bytes=100, large_bytes=0, live_ms=0))
    return tuple(
        replace(stream, queue=f"q{index}", count=min(stream.count, COUNT_MAX), gap_ns=min(stream.gap_ns, 300 * MS))
        for index, stream in enumerate(streams)
    )


def _draw_network(random: Random) -> Faults:
    return Faults(
        loss=random.choice([0.0, 0.0, 0.02, 0.1, 0.3]),
        duplicate=random.choice([0.0, 0.0, 0.1]),
        late_duplicate=random.choice([0.0, 0.0, 0.03]),
        late_ns=random.choice([SECOND, 10 * SECOND]),
        reorder=random.choice([0.0, 0.1]),
        delay_ns=random.choice([MS // 10, 5 * MS, 20 * MS]),
        jitter_ns=random.choice([0, MS]),
    )


def _moments(end_ns: int, random: Random, most: int) -> list[int]:
    return [random.randrange(end_ns) for _ in range(random.randint(1, most))]


def _crash(topology: Topology, end_ns: int, faults: list[Fault], random: Random) -> None:
    """Relays mostly, before any effect: that is at each step of a commit, too."""
    for at_ns in _moments(end_ns, random, 6):
        host = random.choice([*topology.relays, *topology.relays, random.randrange(topology.hosts)])
        faults.append(
            Fault(
                at_ns,
                random.choice(_CRASHES),
                host,
                after=random.choice([0, random.randrange(60)]),
                for_ns=random.randrange(1, random.choice([50 * MS, SECOND])),
                again=random.choice([-1, -1, random.randrange(30)]),
            )
        )


def _break_paths(topology: Topology, end_ns: int, faults: list[Fault], random: Random) -> None:
    for at_ns in _moments(end_ns, random, 3):
        one, other = random.choice(topology.links)
        kind = random.choice(["cut", "cut-one-way", "clog", "rebind"])
        faults.append(Fault(at_ns, kind, one, other, for_ns=random.randrange(1, 2 * SECOND)))


def _fill_disks(topology: Topology, end_ns: int, faults: list[Fault], random: Random) -> None:
    faults += draw_disk_faults(random, _moments(end_ns, random, 2), topology.relays)


def _switch(topology: Topology, end_ns: int, faults: list[Fault], random: Random) -> None:
    """Another relay, ``after``, becomes the way of a destination."""
    for at_ns in _moments(end_ns, random, 3) if topology.switches else ():
        route = random.choice(topology.switches)
        faults.append(Fault(at_ns, "reroute", route.host, route.via, after=route.to))


def _stay_away(topology: Topology, faults: list[Fault], random: Random) -> int:
    """A hop is away for three days; returns when the faults end then. See ``_patient`` for the others."""
    host = random.randrange(1, topology.hosts)
    faults.append(Fault(random.randrange(SECOND), "kill", host, for_ns=AWAY_NS))
    return AWAY_NS + 5 * SECOND


def _patient(host: HostPlan) -> HostPlan:
    """A host while another is away for days.

    Its sessions have default timeouts: with fractions of a second three days have too many sessions. It calls less
    often than by default: 2,500 unanswered calls show no more than 400, and needed half of the time of all seeds.
    """
    reconnect = replace(host.settings.reconnect, eager_s=EAGER_S, away_most_s=AWAY_MOST_S)
    return host.having(session=SessionSettings(), reconnect=reconnect)
