"""What seeds have got since they were drawn first: addresses of both transports, and permissions that come and go.

Each draws from a chance of its own, so that a seed does what it always did, and the addition besides.
"""

from dataclasses import replace
from random import Random

from triack.tools.chaos.plan import DISHONEST, Fault, Plan

__all__ = ["mix_transports", "waver"]

MIXED_SHARE = 0.6
"""Of the plans in which somebody moves."""
WAVERING_SHARE = 1 / 12
"""Of the plans that can have it: a block of 250 seeds has it more than ten times."""
WAVERS_MAX = 3
"""Times that a permission is taken away."""


def mix_transports(plan: Plan, random: Random) -> Plan:
    """Who moves is looked for at addresses of both transports, and goes from one to the other."""
    if not any(host.others for host in plan.hosts) or random.random() >= MIXED_SHARE:
        return plan
    hosts = tuple(replace(host, others=tuple(_either(other, random) for other in host.others)) for host in plan.hosts)
    return replace(plan, hosts=hosts)


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
