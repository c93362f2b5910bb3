"""Additions to the plans of seeds since these were first drawn.

Addresses of both transports, narrow paths, slow links, changing permissions, middle boxes that forget, second openers
of a store, clocks that are set between two starts, messages that kill, dead letters beside little quotas, many names,
priorities, paused queues, answers to senders that ask for them, and bodies that are sent in parts.

Each draws from another random stream, so that a seed keeps its old plan, and gets the addition.
"""

from dataclasses import replace
from random import Random

from triack.base.delivery import LABELS, PRIORITY_MAX
from triack.base.units import MS, SECOND
from triack.queues.node_settings import LargeBodies, Quota, Redelivery
from triack.tools.chaos.pausing import OUTGOING
from triack.tools.chaos.plan import LASTING_MS, LETTERS, Fault, Plan, StreamPlan
from triack.tools.chaos.rarities import HELD_FEW

ANSWERS_CHANCE = 0.25
"""Of the streams of honest plans: most plans have none of them, so that others stay as they were."""
LETTERS_CHANCE = 0.15
_ACKS = (1, 2, 3, 14, 15)
STREAMED_SHARE = 1 / 6
"""Of the honest plans: a block of 250 seeds has large bodies about forty times."""
RELAYED_SHARE = 1 / 2
PARTS_BYTES = (300, 900, 3_000)
LOW_SHARE = 1 / 2
LOW_ROOM_BYTES = (-1, 100, 3_000, 20_000)
"""Beside the reserve: the disk is low, or has room for no body, for a small one, or for one at a time."""
LOWS_MAX = 3
STREAMED_QUOTA_BYTES = 15_000
"""Of some of their queues, beside the room for one body: a second one waits for the reader of the first."""
MIXED_SHARE = 0.6
NARROW_SHARE = 1 / 4
NARROWS_MAX = 2
WANTED_BYTES = (1_200, 9_000, 32_000, 65_535)
"""Ends that do not agree are among them, and one that probes nothing."""
CARRIED_BYTES = (0, 1_200, 1_300, 1_472, 5_000, 8_972, 40_000)
"""0 for no limit; never less than the base."""
SLOW_SHARE = 1 / 10
RATES_BPS = (16_000, 64_000, 500_000)
"""From a large datagram in more than half a second, beyond the timeouts of some, to hardly a wait."""
QUEUES_BYTES = (0, 1_500, 6_000)
"""Before a slow link: 0 for no limit, one large datagram, and a small window of them."""
HIDDEN_SHARE = 1 / 8
"""Of the plans over UDP: a block of 250 seeds has it nearly thirty times."""
HIDES_MAX = 3
FLOW_LIVES_MS = (100, 1_000, 5_000, 30_000)
"""Shorter than a session's waits, as long as they are, and those of real middle boxes."""
WAVERING_SHARE = 1 / 12
WAVERS_MAX = 3
POISON_SHARE = 1 / 12
POISON_MAX = 2
"""Messages of a stream that kill: each of them costs as many starts as it has tries."""
LETTERS_SHARE = 1 / 2
"""Of the plans in which messages have to be received in time: few enough as it is."""
LETTERS_QUOTA_BYTES = 2_000
"""Of one peer, in all queues: twenty small messages, or one packet of them. Dead letters must not count for it."""

PRIORITY_SHARE = 1 / 2
PRIORITIES_MAX = 4
"""Of one stream: each is another outgoing stream."""
PAUSED_SHARE = 1 / 8
PAUSES_MAX = 4
VISITED_SHARE = 1 / 6
VISITS_MAX = 4
SET_SHARE = 1 / 10
SETS_MAX = 3
ONCE_SHARE = 1 / 5
"""Of the plans that can have it: streams end in each block of 250 seeds in some fifty ways."""
ONCE_NAMES = (4, 12, 24)
LIVE_MAX = (2, 4, 4_096)
"""Live streams of a peer: with few of them nearly each has to wait for its place."""
RETIRE_S = (0.01, 0.3, 3.0)
"""How long a stream is idle before it ends: while its packets are still in flight, or hardly before the faults do."""


def mix_transports(plan: Plan, random: Random) -> Plan:
    """Machines that move are sought at addresses of both transports, and go from one to the other."""
    if not any(host.others for host in plan.hosts) or random.random() >= MIXED_SHARE:
        return plan
    hosts = tuple(replace(host, others=tuple(_either(other, random) for other in host.others)) for host in plan.hosts)
    return replace(plan, hosts=hosts)


def narrow(plan: Plan, random: Random) -> Plan:
    """Paths with a largest datagram, each way another one, which changes; and nodes that want longer ones."""
    if plan.hosts[0].address.startswith("tcp:") or random.random() >= NARROW_SHARE:
        return plan
    hosts = tuple(
        host.having(session=replace(host.settings.session, max_datagram_bytes=random.choice(WANTED_BYTES)))
        for host in plan.hosts
    )
    faults = [
        Fault(at_ns=at_ns, kind="narrow", host=one, other=other, after=random.choice(CARRIED_BYTES))
        for one in range(len(hosts))
        for other in range(len(hosts))
        for at_ns in (0, *(random.randrange(plan.faults_end_ns) for _ in range(random.randint(0, NARROWS_MAX))))
        if one != other
    ]
    return replace(plan, hosts=hosts).plus(faults)


def slow(plan: Plan, random: Random) -> Plan:
    """Links with a rate, each path another one, and a queue before it that overflows."""
    if random.random() >= SLOW_SHARE:
        return plan
    rate_bps, queue_bytes = random.choice(RATES_BPS), random.choice(QUEUES_BYTES)
    return replace(plan, network=replace(plan.network, rate_bps=rate_bps, queue_bytes=queue_bytes))


def hide(plan: Plan, random: Random) -> Plan:
    """A host that cannot be called for a while: it is behind a middle box, which lets in only answers."""
    if plan.hosts[0].address.startswith("tcp:") or random.random() >= HIDDEN_SHARE:
        return plan
    host = random.randrange(len(plan.hosts))
    faults = []
    for _ in range(random.randint(1, HIDES_MAX)):
        at_ns = random.randrange(plan.faults_end_ns)
        for_ns = random.randrange(1, plan.faults_end_ns - at_ns + 1)
        faults.append(Fault(at_ns, "hide", host, after=random.choice(FLOW_LIVES_MS), for_ns=for_ns))
    return plan.plus(faults)


def _either(address: str, random: Random) -> str:
    return f"{random.choice(['udp', 'tcp'])}:{address.partition(':')[2]}"


def waver(plan: Plan, random: Random) -> Plan:
    """A stream whose sender may send there, and then may not, and then may again."""
    if not plan.is_secure or not plan.is_honest or random.random() >= WAVERING_SHARE:
        return plan
    own = [index for index in plan.ends if not plan.streams[index].forbidden]
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
    return replace(plan, streams=tuple(streams)).plus(faults)


def visit(plan: Plan, random: Random) -> Plan:
    """A second process opens the store of a running node by mistake."""
    if random.random() >= VISITED_SHARE:
        return plan
    moments = [random.randrange(plan.faults_end_ns) for _ in range(random.randint(1, VISITS_MAX))]
    faults = [Fault(at_ns, "second-opener", random.randrange(len(plan.hosts))) for at_ns in moments]
    return plan.plus(faults)


def set_clocks(plan: Plan, random: Random) -> Plan:
    """Machines without a battery: their clocks show 1970 or the time of day, and change with a start.

    A message with an hour to reach its queue has to arrive, as no run lasts that long. No other clock jumps then: a
    machine that was off, with a clock that may have been right, cannot know for how long.
    """
    if any(stream.read_ms for stream in plan.streams) or not plan.is_honest or random.random() >= SET_SHARE:
        return plan
    streams = tuple(replace(stream, live_ms=LASTING_MS) for stream in plan.streams)
    faults = [
        Fault(
            at_ns=random.randrange(plan.faults_end_ns // 20, plan.faults_end_ns),
            kind="clock-set",
            host=index,
            for_ns=random.randrange(1, SECOND),
        )
        for index in range(len(plan.hosts))
        for _ in range(random.randint(1, SETS_MAX))
    ]
    calm = tuple(fault for fault in plan.faults if fault.kind != "wall-jump")
    return replace(plan, streams=streams, faults=calm).plus(faults)


def prioritize(plan: Plan, random: Random) -> Plan:
    """Streams whose messages have several priorities: all of them go to one queue."""
    streams = []
    for stream in plan.streams:
        count = random.randint(2, PRIORITIES_MAX)
        drawn = tuple(random.sample(range(PRIORITY_MAX + 1), count)) if random.random() < PRIORITY_SHARE else ()
        streams.append(stream if stream.delivery == "transactional" else replace(stream, priorities=drawn))
    return replace(plan, streams=tuple(streams))


def pause_queues(plan: Plan, random: Random) -> Plan:
    """Operators pause queues, at their senders or their receivers, and resume them."""
    if not plan.is_honest or random.random() >= PAUSED_SHARE:
        return plan
    faults = []
    for _ in range(random.randint(1, PAUSES_MAX)):
        after, other = random.randrange(len(plan.streams)), random.randint(0, OUTGOING)
        stream, at_ns = plan.streams[after], random.randrange(plan.faults_end_ns)
        fault = Fault(
            at_ns,
            "pause-queue",
            stream.sender if other == OUTGOING else stream.receiver,
            other,
            after,
            for_ns=random.randrange(1, plan.faults_end_ns - at_ns + 1),
            forever=other != OUTGOING and random.random() < 1 / 2,
        )
        faults.append(fault)
    return plan.plus(faults)


def poison(plan: Plan, random: Random) -> Plan:
    """A stream some of whose messages end the process that handles them, as often as they may be tried."""
    own = [at for at in plan.ends if plan.streams[at].is_read and plan.streams[at].delivery != "express"]
    if not plan.is_honest or not own or random.random() >= POISON_SHARE:
        return plan
    index = random.choice(own)
    stream = plan.streams[index]
    killing = frozenset(random.randrange(stream.count) for _ in range(random.randint(1, POISON_MAX)))
    streams = [replace(one, poison=killing) if one is stream else one for one in plan.streams]
    hosts = [*plan.hosts]
    receiver = hosts[stream.receiver].having(
        max_redeliveries=random.choice([0, 1, 3]),
        redelivery=Redelivery(first_wait_s=random.choice([0, 0.05]), max_wait_s=0.2),
    )
    # A message that fails for another reason must not die of it.
    hosts[stream.receiver] = replace(receiver, failure_rate=0.0)
    return replace(plan, streams=tuple(streams), hosts=tuple(hosts))


def fill_with_letters(plan: Plan, random: Random) -> Plan:
    """A machine whose peers may have little in its queues, and where messages die: dead letters must stop no peer."""
    ends = [stream.receiver for stream in plan.streams if stream.read_ms]
    if not ends or random.random() >= LETTERS_SHARE:
        return plan
    hosts = [*plan.hosts]
    host = hosts[random.choice(ends)]
    limits = replace(host.settings.limits, peer_quota_bytes=LETTERS_QUOTA_BYTES)
    hosts[hosts.index(host)] = host.having(limits=limits)
    return replace(plan, hosts=tuple(hosts))


def name_once(plan: Plan, random: Random) -> Plan:
    """Many queues for a few messages each, at machines whose streams end soon, and with few streams for each peer."""
    if not plan.is_honest or random.random() >= ONCE_SHARE:
        return plan
    live_max, retire_s = random.choice(LIVE_MAX), random.choice(RETIRE_S)
    hosts = tuple(host.having(max_streams=live_max, retire_after_s=retire_s) for host in plan.hosts)
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


def ask_for_answers(plan: Plan, random: Random) -> Plan:
    """The same plan, in which some senders ask for administration messages, or want their dead letters elsewhere.

    Not where a disk lies or a store is an older copy: then the same may happen twice, and be reported twice. Nor
    between nodes without keys: no name leads back to one that has not called again since a restart.
    """
    if not plan.is_secure or not plan.is_honest:
        return plan
    streams = []
    for stream in plan.streams:
        acks = random.choice(_ACKS) if random.random() < ANSWERS_CHANCE else 0
        letters = LETTERS if random.random() < LETTERS_CHANCE else ""
        streams.append(replace(stream, acks=acks, letters=letters))
    return replace(plan, streams=tuple(streams))


def stream_bodies(plan: Plan, random: Random) -> Plan:
    """The same plan, in which some streams have messages that are sent in parts; some of their queues hold only one.

    Not where a disk lies or a store is an older copy: what a sender has given up may be stored again.
    """
    share = RELAYED_SHARE if plan.routes else STREAMED_SHARE
    if not plan.is_honest or random.random() >= share:
        return plan
    part_bytes = random.choice(PARTS_BYTES)
    large = LargeBodies(1, part_bytes, random.choice([1, 2, 4]) * part_bytes)
    hosts = [host.having(large=large) for host in plan.hosts]
    streams = list(plan.streams)
    may = [index for index, stream in enumerate(streams) if _may_stream(plan, stream)]
    for index in may:
        if index != may[0] and random.random() < 1 / 2:
            continue
        stream = streams[index]
        # At the border between one part and two, between small and any, and in the middle.
        size_bytes = random.choice([20, part_bytes, part_bytes + 1, 2 * part_bytes + 6, 5 * part_bytes + 7])
        streams[index] = replace(stream, streamed_bytes=size_bytes)
        settings = hosts[stream.receiver].settings
        limits, is_cramped = settings.limits, settings.order.max_held_packets <= HELD_FEW
        if random.random() < 1 / 3 and stream.queue not in limits.queue_quota and not is_cramped:
            quota = {**limits.queue_quota, stream.queue: Quota(size_bytes=size_bytes + STREAMED_QUOTA_BYTES)}
            hosts[stream.receiver] = hosts[stream.receiver].having(limits=replace(limits, queue_quota=quota))
    return replace(plan, hosts=tuple(hosts), streams=tuple(streams))


def lower_disks(plan: Plan, random: Random) -> Plan:
    """The same plan, in which disks have little room for a while, if it has bodies in parts."""
    if not any(stream.streamed_bytes for stream in plan.streams) or random.random() >= LOW_SHARE:
        return plan
    faults = []
    for _ in range(random.randint(1, LOWS_MAX)):
        at_ns = random.randrange(plan.faults_end_ns)
        for_ns = random.randrange(1, plan.faults_end_ns - at_ns + 1)
        host, after = random.randrange(len(plan.hosts)), random.choice(LOW_ROOM_BYTES)
        faults.append(Fault(at_ns, "disk-low", host, after=after, for_ns=for_ns))
    return plan.plus(faults)


def _may_stream(plan: Plan, stream: StreamPlan) -> bool:
    classes = ("transactional",) if plan.routes else ("transactional", "recoverable")
    is_own = stream.source < 0 and not stream.below and not stream.astray and not stream.poison
    return is_own and stream.delivery in classes and not (stream.journal or stream.sealed or stream.lied_about)
