"""Draws the plan of a seed: machines, work, network, and which faults come when."""

from dataclasses import dataclass, field, replace
from random import Random

from triack.base.units import MS, SECOND
from triack.tools.chaos.additions import (
    ask_for_answers,
    fill_with_letters,
    hide,
    lower_disks,
    mix_transports,
    name_once,
    narrow,
    pause_queues,
    poison,
    prioritize,
    set_clocks,
    slow,
    stream_bodies,
    visit,
    waver,
)
from triack.tools.chaos.journaling import keep_journals
from triack.tools.chaos.machines import draw_host, draw_streams
from triack.tools.chaos.plan import DISHONEST, Fault, Plan, by_time
from triack.tools.chaos.rarities import add_rarities
from triack.tools.chaos.sealing import seal_some
from triack.tools.chaos.topics import TOPICS_FROM, draw_topics
from triack.tools.chaos.topologies import RELAYED_FROM, draw_relayed
from triack.tools.sim.faults import Faults
from triack.tools.sim.world import World

CUT_CHANCE = 0.3
"""Of machines whose logs are cut: missing records accuse no node, so most machines are judged in full."""
INSECURE_CHANCE = 1 / 8
"""Nodes without keys are for one machine; enough that a few hundred seeds meet every fault without them, too."""

_ENDS_S = (*[4] * 7, *[8] * 3, 16, 40)
"""When faults end: long runs take most of a campaign's time, so few seeds have them."""
_CRASHES = ("kill", "power-loss")
_FAILURES = ("eio", "full", "short", "drop")
_MESSAGES_PER_PACKET = (None, None, None, None, 1, 3)


@dataclass(slots=True)
class _Draw:
    random: Random
    hosts: int
    end_ns: int
    faults: list[Fault] = field(default_factory=list)

    def host(self) -> int:
        return self.random.randrange(self.hosts)

    def times(self, most_every_ns: int) -> list[int]:
        """Moments until the end, random, but not denser than asked."""
        moments, at_ns = [], 0
        while (at_ns := at_ns + self.random.randrange(most_every_ns // 4, 2 * most_every_ns)) < self.end_ns:
            moments.append(at_ns)
        return moments


def draw(seed: int) -> Plan:
    """The plan of a seed, which never changes."""
    world = World(seed)
    if seed >= TOPICS_FROM:
        return draw_topics(seed, world.chance("topics"))
    if seed >= RELAYED_FROM:
        plan = prioritize(draw_relayed(seed, world.chance("relays")), world.chance("priorities"))
        plan = keep_journals(ask_for_answers(plan, world.chance("answers")), world.chance("journals"))
        plan = stream_bodies(seal_some(plan, world.chance("seals")), world.chance("large bodies"))
        return slow(lower_disks(plan, world.chance("low disks")), world.chance("slow links"))
    random = world.chance("plan")
    hosts = random.choice([2, 2, 2, 3])
    scheme = "tcp" if random.random() < 0.15 else "udp"
    end_ns = random.choice(_ENDS_S) * SECOND
    drawn = _Draw(random, hosts, end_ns)
    host_plans = tuple(draw_host(random, "abc"[index], scheme) for index in range(hosts))
    streams = draw_streams(random, hosts)
    for kind in (_draw_crashes, _draw_paths, _draw_pauses, _draw_disk, _draw_clock):
        if random.random() < 0.4:
            kind(drawn)
    if random.random() < 0.12:
        _draw_dishonest(drawn)
    dead = (0, 1) if hosts == 3 and random.random() < 0.1 else None
    is_secure = random.random() >= INSECURE_CHANCE
    plan = Plan(seed, host_plans, streams, _draw_network(random), by_time(drawn.faults), end_ns, dead, is_secure)
    plan = mix_transports(add_rarities(plan, world.chance("rarities")), world.chance("transports"))
    plan = narrow(waver(plan, world.chance("wavering")), world.chance("narrow paths"))
    plan = name_once(hide(plan, world.chance("middle boxes")), world.chance("names"))
    plan = set_clocks(visit(plan, world.chance("second openers")), world.chance("clocks"))
    plan = fill_with_letters(poison(plan, world.chance("poison")), world.chance("dead letters"))
    plan = pause_queues(prioritize(plan, world.chance("priorities")), world.chance("paused queues"))
    plan = keep_journals(ask_for_answers(plan, world.chance("answers")), world.chance("journals"))
    plan = lower_disks(stream_bodies(plan, world.chance("large bodies")), world.chance("low disks"))
    plan = slow(_with_packets(plan, world.chance("packets")), world.chance("slow links"))
    return _with_logs(plan, world.chance("logs"))


def _with_logs(plan: Plan, random: Random) -> Plan:
    """The same plan, in which some machines that lose power lose the end of their session logs as well."""
    hosts = [replace(host, cuts_log=random.random() < CUT_CHANCE) for host in plan.hosts]
    return replace(plan, hosts=tuple(hosts))


def _with_packets(plan: Plan, random: Random) -> Plan:
    hosts = [host.having(messages_per_packet=random.choice(_MESSAGES_PER_PACKET)) for host in plan.hosts]
    return replace(plan, hosts=tuple(hosts))


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
