"""Features of only some seeds: more machines, moves, strangers, keys that change, revoked peers, queues full or unread.

Each costs more than an average seed, and is so rare that all of them together cost little. The rest of a plan does not
depend on them: they draw from another random stream.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from triack.base.delivery import Delivery
from triack.base.units import MS, SECOND
from triack.queues.mailboxes.quotas import NO_LIMIT
from triack.queues.node_settings import Limits, Quota
from triack.tools.chaos.machines import draw_host, draw_stream
from triack.tools.chaos.plan import STRANGE, Fault, HostPlan, Plan

SHARE = 0.4
"""Of the seeds: a hundred of them meet each rarity several times."""
NAMES = "abcde"
"""A crowd has no more machines: each pair of them has other streams and paths."""
LIMITED_COUNT = 40
"""Messages of a stream to a queue with a quota: each of them may have to wait for a reader."""
LIMITED_GAP_NS = 10 * MS
HELD_FEW = 8
"""Packets: a node that holds no more early packets has no room for the rest of a large message."""
QUICK_TIER_S = 0.3
"""Packets refused for that are resent by the tiers, a few each time; with 5 s that lasts for minutes."""
SLOW_GAP_NS = 300 * MS
LATE_NS = 50 * MS
"""Its node's timers are this late: enough for expired messages to be handed out."""
CROWD_END_NS = 8 * SECOND
"""A crowd has as much to do in this time as a pair in its whole run."""


def add_rarities(plan: Plan, random: Random) -> Plan:
    """The same plan with some of them, or with none.

    A store with wrong content comes without them: the cause of a loss would be unclear.
    """
    if not plan.is_honest or random.random() >= SHARE:
        return plan
    kinds = _KINDS if plan.is_secure else _PLAIN_KINDS
    chosen = random.sample(kinds, random.choice([1, 1, 2]))
    for kind in kinds:
        if kind in chosen:
            plan = kind(plan, random)
    return plan.plus(())


def _moments(plan: Plan, random: Random, most: int) -> list[int]:
    return [random.randrange(plan.faults_end_ns // 20, plan.faults_end_ns) for _ in range(random.randint(1, most))]


def _crowd(plan: Plan, random: Random) -> Plan:
    scheme = plan.hosts[0].address.partition(":")[0]
    names = NAMES[len(plan.hosts) : random.randint(3, len(NAMES))]
    hosts = (*plan.hosts, *(draw_host(random, name, scheme) for name in names))
    streams = list(plan.streams)
    for index in range(2, len(hosts)):
        delivery = random.choice(list(Delivery)).label
        ends = random.choice([(index, random.randrange(index)), (random.randrange(index), index)])
        stream = draw_stream(random, *ends, delivery)
        streams.append(replace(stream, queue=f"q{len(streams)}", count=min(stream.count, LIMITED_COUNT)))
    end_ns = min(plan.faults_end_ns, CROWD_END_NS)
    faults = tuple(fault for fault in plan.faults if fault.at_ns < end_ns)
    return replace(plan, hosts=hosts, streams=tuple(streams), faults=faults, faults_end_ns=end_ns)


def _move(plan: Plan, random: Random) -> Plan:
    """Machines that others seek at several addresses, and that go from one to another."""
    faults, hosts = [], list(plan.hosts)
    for index in random.sample(range(len(hosts)), random.randint(1, 2)):
        base = hosts[index].address.rpartition(":")[0]
        others = tuple(f"{base}:{port}" for port in random.sample(range(2, 6), random.randint(1, 3)))
        hosts[index] = replace(hosts[index], others=others)
        for at_ns in _moments(plan, random, 3):
            to, down_ns = random.randrange(len(others) + 1), random.randrange(1, random.choice([50 * MS, 2 * SECOND]))
            faults.append(Fault(at_ns, "move", index, after=to, for_ns=down_ns))
    return replace(plan, hosts=tuple(hosts), faults=(*plan.faults, *faults))


def _strangers(plan: Plan, random: Random) -> Plan:
    kinds = STRANGE if plan.is_secure else STRANGE[:1]
    faults = []
    for at_ns in _moments(plan, random, 4):
        kind, count = random.choice(kinds), random.choice([10, 40, 150])
        host, for_ns = random.randrange(len(plan.hosts)), random.choice([100 * MS, SECOND, 4 * SECOND])
        faults.append(Fault(at_ns, kind, host, after=count, for_ns=for_ns))
    return replace(plan, faults=(*plan.faults, *faults))


def _rotate(plan: Plan, random: Random) -> Plan:
    faults = []
    for at_ns in _moments(plan, random, 2):
        for_ns = random.choice([200 * MS, 2 * SECOND, 10 * SECOND])
        host = random.randrange(len(plan.hosts))
        faults.append(Fault(at_ns, "rotate", host, for_ns=min(for_ns, plan.faults_end_ns - at_ns)))
    return replace(plan, faults=(*plan.faults, *faults))


def _revoke(plan: Plan, random: Random) -> Plan:
    """Peers that are not trusted for a while, mostly senders."""
    faults = []
    for at_ns in _moments(plan, random, 3):
        stream = random.choice(plan.streams)
        host, other = random.choice([(stream.receiver, stream.sender)] * 3 + [(stream.sender, stream.receiver)])
        for_ns = random.randrange(1, random.choice([500 * MS, 10 * SECOND]))
        faults.append(Fault(at_ns, "revoke", host, other, for_ns=for_ns, forever=random.random() < 0.3))
    return replace(plan, faults=(*plan.faults, *faults))


def _fill(plan: Plan, random: Random) -> Plan:
    """Queues that are full now and then: their senders wait, or are refused."""
    limited = [index for index in range(len(plan.hosts)) if index == 1 or random.random() < 0.3]
    hosts = tuple(_limited(host, random) if index in limited else host for index, host in enumerate(plan.hosts))
    streams = tuple(
        replace(stream, count=LIMITED_COUNT) if stream.receiver in limited else stream for stream in plan.streams
    )
    cramped = {index for index in limited if hosts[index].settings.order.max_held_packets <= HELD_FEW}
    senders = {stream.sender for stream in streams if stream.receiver in cramped}
    hosts = tuple(
        host.having(order=replace(host.settings.order, seq_resend_13_s=QUICK_TIER_S)) if index in senders else host
        for index, host in enumerate(hosts)
    )
    return replace(plan, hosts=hosts, streams=streams)


def _limited(host: HostPlan, random: Random) -> HostPlan:
    quota = Quota(random.choice([3, 20, NO_LIMIT]), random.choice([8_000, 40_000]), random.choice(["hold", "reject"]))
    limits = Limits(quota, peer_memory_bytes=random.choice([50_000, 16 * 1024 * 1024]))
    return replace(host.having(limits=limits), read_gap_ns=min(host.read_gap_ns, LIMITED_GAP_NS))


def _expire(plan: Plan, random: Random) -> Plan:
    """Streams whose messages have to be received in time, with a slow reader or none. All clocks agree then."""
    streams, hosts, own = list(plan.streams), list(plan.hosts), plan.ends
    for index in random.sample(own, min(random.choice([1, 2]), len(own))):
        read_ms, is_read, receiver = random.choice([50, 300, 2_000]), random.random() < 0.6, streams[index].receiver
        streams[index] = replace(streams[index], read_ms=read_ms, is_read=is_read)
        slack_ns = max(hosts[receiver].timer_slack_ns, random.choice([0, LATE_NS]))
        hosts[receiver] = replace(hosts[receiver], read_gap_ns=SLOW_GAP_NS, timer_slack_ns=slack_ns)
    faults = tuple(fault for fault in plan.faults if fault.kind != "wall-jump")
    return replace(plan, hosts=tuple(hosts), streams=tuple(streams), faults=faults)


def _hand_back(plan: Plan, random: Random) -> Plan:
    """A machine that resends nothing on another session, but hands it back."""
    hosts = list(plan.hosts)
    at = random.choice(plan.streams).sender
    hosts[at] = hosts[at].having(reconnect=replace(hosts[at].settings.reconnect, after_session_lost="hand back"))
    return replace(plan, hosts=tuple(hosts))


def _forbid(plan: Plan, random: Random) -> Plan:
    streams, own = list(plan.streams), plan.ends
    for index in random.sample(own, min(1, len(own))):
        streams[index] = replace(streams[index], forbidden=True)
    return replace(plan, streams=tuple(streams))


Kind = Callable[[Plan, Random], Plan]

_KINDS: tuple[Kind, ...] = (_crowd, _move, _strangers, _rotate, _revoke, _fill, _expire, _hand_back, _forbid)
"""In an order in which each may change the results of those before it."""
_PLAIN_KINDS: tuple[Kind, ...] = (_crowd, _strangers, _fill, _expire, _hand_back)
"""Without keys an address is a peer, and no stranger can seal a datagram."""
