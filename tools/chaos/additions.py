"""What seeds have got since they were drawn first: both transports, narrow paths, permissions that change, many names.

Each draws from a chance of its own, so that a seed does what it always did, and the addition besides.
"""

from dataclasses import replace
from random import Random

from triack.base.delivery import LABELS
from triack.base.units import MS
from triack.tools.chaos.plan import DISHONEST, Fault, HostPlan, Plan, StreamPlan

__all__ = ["mix_transports", "name_once", "narrow", "waver"]

MIXED_SHARE = 0.6
"""Of the plans in which somebody moves."""
NARROW_SHARE = 1 / 4
"""Of the plans over UDP."""
NARROWS_MAX = 2
"""Times that a path changes, each way."""
WANTED_BYTES = (1_200, 9_000, 32_000, 65_535)
"""Ends that do not agree are among them, and one that probes nothing."""
CARRIED_BYTES = (0, 1_200, 1_300, 1_472, 5_000, 8_972, 40_000)
"""0 for whatever comes; never less than the base."""
WAVERING_SHARE = 1 / 12
"""Of the plans that can have it: a block of 250 seeds has it more than ten times."""
WAVERS_MAX = 3
"""Times that a permission is taken away."""
ONCE_SHARE = 1 / 5
"""Of the plans that can have it: streams end in each block of 250 seeds in some fifty ways."""
ONCE_NAMES = (4, 12, 24)
"""Queues that get a few messages each, one after the other or at once."""
LIVE_MAX = (2, 4, 4_096)
"""Live streams of a peer: with so few of them nearly each has to wait for its place."""
RETIRE_S = (0.01, 0.3, 3.0)
"""How long a stream is idle before it ends: while its packets are still under way, or hardly before the faults do."""


def mix_transports(plan: Plan, random: Random) -> Plan:
    """Who moves is looked for at addresses of both transports, and goes from one to the other."""
    if not any(host.others for host in plan.hosts) or random.random() >= MIXED_SHARE:
        return plan
    hosts = tuple(replace(host, others=tuple(_either(other, random) for other in host.others)) for host in plan.hosts)
    return replace(plan, hosts=hosts)


def narrow(plan: Plan, random: Random) -> Plan:
    """Paths that carry only so long datagrams, each way its own, and others later; and nodes that want longer ones."""
    if plan.hosts[0].address.startswith("tcp:") or random.random() >= NARROW_SHARE:
        return plan
    hosts = tuple(_wants(host, random.choice(WANTED_BYTES)) for host in plan.hosts)
    faults = [
        Fault(at_ns=at_ns, kind="narrow", host=one, other=other, after=random.choice(CARRIED_BYTES))
        for one in range(len(hosts))
        for other in range(len(hosts))
        for at_ns in (0, *(random.randrange(plan.faults_end_ns) for _ in range(random.randint(0, NARROWS_MAX))))
        if one != other
    ]
    by_time = tuple(sorted((*plan.faults, *faults), key=lambda fault: fault.at_ns))
    return replace(plan, hosts=hosts, faults=by_time)


def _wants(host: HostPlan, most_bytes: int) -> HostPlan:
    session = replace(host.settings.session, max_datagram_bytes=most_bytes)
    return replace(host, settings=replace(host.settings, session=session))


def _either(address: str, random: Random) -> str:
    return f"{random.choice(['udp', 'tcp'])}:{address.partition(':')[2]}"


def waver(plan: Plan, random: Random) -> Plan:
    """A stream whose sender may send there, and then may not, and then may again."""
    is_honest = not any(fault.kind in DISHONEST for fault in plan.faults)
    if not plan.is_secure or not is_honest or random.random() >= WAVERING_SHARE:
        return plan
    forwarded = {stream.source for stream in plan.streams}
    own = [index for index, stream in enumerate(plan.streams) if stream.source < 0 and index not in forwarded]
    own = [index for index in own if not plan.streams[index].forbidden]
    if not own:
        return plan
    index = random.choice(own)
    stream = plan.streams[index]
    streams = [replace(one, wavers=one is stream) for one in plan.streams]
    faults = [
        Fault(
            at_ns=random.randrange(plan.faults_end_ns // 20, plan.faults_end_ns),
            kind="forbid",
            host=stream.receiver,
            other=stream.sender,
            after=index,
            for_ns=random.randrange(1, plan.faults_end_ns // 2),
        )
        for _ in range(random.randint(1, WAVERS_MAX))
    ]
    by_time = tuple(sorted((*plan.faults, *faults), key=lambda fault: fault.at_ns))
    return replace(plan, streams=tuple(streams), faults=by_time)


def name_once(plan: Plan, random: Random) -> Plan:
    """Many queues for a few messages each, machines whose streams end soon, and of which each peer may have few."""
    is_honest = not any(fault.kind in DISHONEST for fault in plan.faults)
    if not is_honest or random.random() >= ONCE_SHARE:
        return plan
    live_max, retire_s = random.choice(LIVE_MAX), random.choice(RETIRE_S)
    hosts = tuple(_ends_soon(host, live_max, retire_s) for host in plan.hosts)
    sender, receiver = random.sample(range(len(hosts)), 2)
    names = [
        StreamPlan(
            sender=sender,
            receiver=receiver,
            queue=f"once{number}",
            delivery=random.choice(list(LABELS.values())),
            count=random.choice([1, 1, 4]),
            size_bytes=100,
            batch=2,
            gap_ns=random.choice([20 * MS, plan.faults_end_ns // 2]),
        )
        for number in range(random.choice(ONCE_NAMES))
    ]
    return replace(plan, hosts=hosts, streams=(*plan.streams, *names))


def _ends_soon(host: HostPlan, live_max: int, retire_s: float) -> HostPlan:
    return replace(host, settings=replace(host.settings, max_streams=live_max, retire_after_s=retire_s))
