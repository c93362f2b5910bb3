"""One seed: a world is built, broken, healed and judged."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from random import Random
from traceback import extract_tb

from triack.base.delivery import Delivery
from triack.base.errors import StoreInUse, TriackError
from triack.base.log_lines import segments_in
from triack.base.names import StreamId
from triack.base.printable import counted
from triack.base.reasons import RejectReason
from triack.base.units import MS, SECOND
from triack.queues.mailboxes.large_bodies import BodyState
from triack.queues.routes import Route
from triack.queues.streams.inbox import Inbox
from triack.session.protocol.states import CloseReason
from triack.tools.chaos.drawing import draw
from triack.tools.chaos.host import Host
from triack.tools.chaos.pausing import Pausing
from triack.tools.chaos.plan import DISHONEST, STRANGE, Fault, HostPlan, Plan, RoutePlan, is_limited
from triack.tools.chaos.sealing import FINDINGS, HOSTILE, Hostile
from triack.tools.chaos.strangers import Strangers
from triack.tools.chaos.trust import Trust
from triack.tools.chaos.verdict import judge_logs
from triack.tools.chaos.workload import LAST_GAP_NS, Workload
from triack.tools.replay.log.files import parse_records
from triack.tools.sim.disk import Disk, FailAt, ProcessCrashed, Snapshot
from triack.tools.sim.faults import Faults
from triack.tools.sim.network import Network
from triack.tools.sim.nonces import Nonces
from triack.tools.sim.standstill import Standstill
from triack.tools.sim.storms import Storms, accepted_in
from triack.tools.sim.world import START_NS, WALL_NS, Livelock, World

LIVENESS_NS = 30 * SECOND
"""After the faults everything that can be reached is on its destination's disk within this time (promise L5)."""
REST_NS = 120 * SECOND
"""And acknowledged in order, read and forgotten within this: lost order acks wait for their resend tier."""
DEATHS_SHARE = 4
"""A message kills its reader four times at most, and each death may come when the last wait has ended."""
LONG_AWAY_NS = 3_600 * SECOND
AWAY_EVENTS = 8
"""Times as many events, while others seek a node that is away for days."""
LONG_PATIENCE = 80
"""What all relays have lost, its origin resends with a later tier, after half an hour."""
TIGHT_PATIENCE = 4
"""A relay with room for 4 KiB passes some six packets a second on, as acknowledgements wait for that long."""
PLENTY_BYTES = 2**40
SLICE_NS = 100 * MS
CALM_DELAY_NS = 5 * MS
"""One way, after the faults: a window of one packet must still move within the 30 seconds."""
REFUSALS = (*RejectReason, CloseReason.REVOKED)
EVENTS_MAX = 500_000


@dataclass(slots=True)
class Outcome:
    """The result of a run."""

    plan: Plan
    violations: list[tuple[str, str]]
    virtual_ns: int
    events: int
    trace: str
    logs: dict[str, bytes]
    seen: Counter[str] = field(default_factory=Counter)


def run_seed(seed: int) -> Outcome:
    """Draw a plan and run it."""
    return run_plan(draw(seed))


def run_plan(plan: Plan) -> Outcome:
    """Run a plan: faults for a while, then none, then the verdict."""
    scene = _Scene(plan)
    try:
        scene.play()
    except Livelock:
        scene.judge_effort()
        scene.violations.append(("liveness", f"more than {EVENTS_MAX} events: something goes on without end"))
    except Exception as error:  # noqa: BLE001 - whatever it is, this seed shows it, and others are still to be run
        scene.violations.append(("crash", _located(error)))
    try:
        return scene.outcome()
    finally:
        scene.close()


def _located(error: Exception) -> str:
    last = extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error}, in {last.name} ({Path(last.filename).name}:{last.lineno})"


class _Scene:
    """The world of one run, and all that breaks it."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.world = World(plan.seed)
        was_away = any(fault.for_ns >= LONG_AWAY_NS for fault in plan.faults)
        self.world.events_max = EVENTS_MAX * (AWAY_EVENTS if was_away else 1)
        self.network = Network(self.world, plan.network)
        keys = None if plan.is_secure else ()
        self.hosts = [Host(self.world, self.network, host, keys=keys) for host in plan.hosts]
        self.storms, self.standstill = Storms(), Standstill()
        for each in self.hosts:
            each.storms, each.standstill = self.storms, self.standstill
        self.clones: list[Host] = []
        self.hostile: list[Hostile] = []
        self.nonces = Nonces()
        for index, each in enumerate(self.hosts):
            each.identity.suite = self.nonces.suite
            each.on_power_loss = lambda index=index: self._lose_notes(index)  # type: ignore[misc]
        for index, each in enumerate(self.hosts):
            each.routes = self._routes_of(index, plan.routes)
        low = frozenset(fault.host for fault in plan.faults if fault.kind == "disk-low")
        self.work = Workload(plan.streams, self.hosts, self.world, plan.subscribers, plan.away, low)
        self.trust = Trust(plan, self.hosts, self.world)
        self.pausing = Pausing(plan, self.hosts, self.world)
        strange = any(fault.kind in STRANGE for fault in plan.faults)
        self.strangers = Strangers(self.world, self.network, self.hosts) if strange else None
        self.violations: list[tuple[str, str]] = []
        self.seen: Counter[str] = Counter()
        self.tainted: set[int] = set()
        self._random = self.world.chance("scene")

    def _routes_of(self, host: int, routes: Iterable[RoutePlan]) -> tuple[Route, ...]:
        """The routes of a host; one for any destination comes last."""
        mine = sorted((route for route in routes if route.host == host), key=lambda route: route.to < 0)
        names = [host.name for host in self.plan.hosts]
        return tuple(
            self._route(
                host,
                names[route.to] if route.to >= 0 else "*",
                [names[via] for via in (route.via, *route.others)],
                route.switch_s,
            )
            for route in mine
        )

    def _route(self, host: int, to: str, via: str | list[str], switch_s: float = 1.0) -> Route:
        sync = self.plan.sync
        route = Route(to, via, onward_interval_s=sync.interval_s, switch_after_s=switch_s)
        return replace(route, link="sync", downgrade_after_s=sync.age_s) if host in sync.hosts else route

    def _lose_notes(self, index: int) -> None:
        """A machine was without power: which messages were leased there is unknown."""
        for stream in self._read_at(index):
            self.work.history.lost_power(stream)

    # ---- the two phases

    def play(self) -> None:
        """Safety with faults, then liveness without."""
        for host in self.hosts:
            host.start()
        self._cut_dead_path()
        self.trust.begin()
        self.work.begin()
        for fault in self.plan.faults:
            self.world.at(fault.at_ns, lambda fault=fault: self._strike(fault))  # type: ignore[misc]
        self.world.run(self.plan.faults_end_ns)
        self._heal()
        lasts = self.trust.heal(self.work.history)
        self._converge()
        if lasts:
            # Messages that a revoked peer did not get are not lost: they wait.
            self.trust.forgive()
            self._converge()
        self._judge()

    def _heal(self) -> None:
        self.network.faults = Faults(delay_ns=min(self.plan.network.delay_ns, CALM_DELAY_NS))
        self.network.heal()
        self._cut_dead_path()
        for host in self.hosts:
            host.heal()
        self.pausing.heal()
        for clone in self.clones:
            # The last messages go to the original: a node that meets only one of the two notices nothing.
            clone.crash_after(down_ns=2 * (LIVENESS_NS + REST_NS))
        self.work.finish()

    def _cut_dead_path(self) -> None:
        if self.plan.dead_path is not None:
            one, other = (self.plan.hosts[index] for index in self.plan.dead_path)
            for sender, to in product(one.addresses, other.addresses):
                self.network.cut(sender, to)

    def _converge(self) -> None:
        """Within 30 s everything accepted has arrived, and soon after nothing is left to do.

        A message that kills its reader is a fault after all others: the times begin anew with each death.
        """
        start_ns = self.world.now_ns
        self.world.run(2 * LAST_GAP_NS)
        self._wait_for(self._arrived, LIVENESS_NS * self._patience)
        self.seen["heal-ms"] = (self.world.now_ns - start_ns) // MS
        if not self._arrived():
            self._explain("not everything arrived within 30 s after the faults")
        self._wait_for(self._idle, (REST_NS - LIVENESS_NS) * self._patience)
        if not self._idle():
            self._explain("not everything was at rest within 120 s after the faults")

    @property
    def _patience(self) -> int:
        """How many times as long things may last.

        A node that was out of reach for days is tried only now and then. What a hostile relay has kept back is resent
        with a later tier. Relays with little room accept a few packets in each round of acknowledgement delays, as does
        a destination that holds one packet until those before it arrive, if some of them go by another relay.
        """
        if any(fault.for_ns >= LONG_AWAY_NS or fault.kind == HOSTILE for fault in self.plan.faults):
            return LONG_PATIENCE
        return TIGHT_PATIENCE if self.plan.links and any(_is_tight(host) for host in self.plan.hosts) else 1

    def _wait_for(self, state: Callable[[], bool], most_ns: int) -> None:
        """Let time pass until a state is reached, or this much has passed since the last death of a process.

        Deaths come to an end, too: all ends after ``DEATHS_SHARE`` times as long, and sooner when a promise breaks.
        """
        since_ns, deaths = self.world.now_ns, self._deaths
        until_ns = since_ns + DEATHS_SHARE * most_ns
        while not state() and self.world.now_ns < min(since_ns + most_ns, until_ns):
            self.world.run(SLICE_NS)
            if self._deaths > deaths and not self.work.history.violations:
                since_ns, deaths = self.world.now_ns, self._deaths

    @property
    def _deaths(self) -> int:
        return sum(len(host.ends) for host in self.hosts)

    def _explain(self, sentence: str) -> None:
        left = {seen.name: len(self.work.history.missing(i)) for i, seen in enumerate(self.work.history.streams)}
        states = {host.name: "up" if host.is_up else str(host.lost or host.ends[-1:]) for host in self.hosts}
        self.violations.append(("liveness", f"{sentence}; missing {left}, hosts {states}"))

    def _arrived(self) -> bool:
        history = self.work.history
        for host in self.hosts:
            self.work.read_dead_letters(host)
        return all(
            self._excuse(index) or not seen.durable or not history.missing(index)
            for index, seen in enumerate(history.streams)
        )

    def _idle(self) -> bool:
        if not self._arrived():
            return False
        for index, host in enumerate(self.hosts):
            if index in self.tainted or host.lost is not None:
                continue
            engine = host.engine
            if engine is None or engine.failure is not None or engine.busy_storing:
                return False
            # If a relay is halted, what can still move is unknown.
            if self.plan.links and self.tainted:
                continue
            if any(stream.durable and not stream.sequence.is_empty for stream in engine.transits.streams):
                return False
            if any(
                outgoing.durable and outgoing.busy and self._reaches(index, outgoing.peer)
                for outgoing in engine.outbox.streams
            ):
                return False
        return not any(self.work.read_journals(host) for host in self.hosts)

    def _reaches(self, index: int, peer: str) -> bool:
        """Whether the path from a host to a peer, by its name or its address, and back can carry acknowledgements."""
        pair = {index, next((i for i, host in enumerate(self.hosts) if peer in (host.name, host.address)), index)}
        dead = self.plan.dead_path is not None and pair == set(self.plan.dead_path)
        apart = self.trust.apart(min(pair), max(pair))
        return not dead and not apart and not pair & self.tainted and all(self.hosts[i].lost is None for i in pair)

    # ---- excuses

    def _excuse(self, stream: int) -> str:
        """Why a stream need not be complete: a path that is dead for good, or damage that was noticed and named."""
        plan = self.plan.streams[stream]
        ends = {plan.sender, plan.receiver}
        if self.plan.dead_path is not None and ends == set(self.plan.dead_path):
            return "dead path"
        if self.trust.apart(plan.sender, plan.receiver):
            return "revoked"
        # Any relay may be on the way.
        for index in self.tainted if self.plan.links else ends & self.tainted:
            if self._noticed(index):
                return "damage noticed"
        if plan.source >= 0:
            return self._excuse(plan.source)
        return ""

    def _noticed(self, index: int) -> str:
        """How the damage of a tainted host was noticed, or why it cannot be; empty if it should have been."""
        if self.hosts[index].lost is not None:
            return "store-damaged"
        if any("StoreDamaged" in end for end in self.hosts[index].ends):
            return "damaged-read"
        if any(host.told for host in [*self.hosts, *self.clones]):
            return "rollback"
        engine = self.hosts[index].engine
        if self.plan.links and engine is not None and not any(link.sessions for link in engine.outbox.links.values()):
            # No route leads by it any more, so what a relay has lost cannot be noticed.
            return "met nobody"
        return ""

    # ---- faults

    def _strike(self, fault: Fault) -> None:
        self.seen[fault.kind] += 1
        host = self.hosts[fault.host]
        if fault.kind in DISHONEST:
            self._deceive(fault)
        elif fault.kind in ("kill", "power-loss"):
            power = fault.kind == "power-loss"
            host.crash_after(fault.after, power=power, down_ns=fault.for_ns, again=fault.again)
        elif fault.kind == "pause":
            host.pause(fault.for_ns)
        elif fault.kind == "stop":
            host.stop(fault.for_ns)
        elif fault.kind in ("wall-jump", "clock-set", "second-opener", "pause-queue", "disk-low"):
            self._mishandle(host, fault)
        elif fault.kind == "disk-error":
            host.disk.fail_at = FailAt(host.disk.calls + 1 + fault.after, fault.call, fault.forever)
            self.world.at(fault.for_ns, host.disk.calm)
        elif fault.kind == "disk-full":
            host.disk.faults.full = 1.0
            self.world.at(fault.for_ns, host.disk.calm)
        elif fault.kind in STRANGE:
            if self.strangers is not None:
                self.strangers.attack(fault)
        elif fault.kind in ("move", "reroute", HOSTILE):
            self._lead_elsewhere(host, fault)
        elif fault.kind in ("rotate", "revoke", "forbid"):
            {"rotate": self.trust.rotate, "revoke": self.trust.revoke, "forbid": self.trust.rights.forbid}[fault.kind](
                fault
            )
        else:
            self._break_path(fault)

    def _give_room(self, host: Host, room_bytes: int) -> None:
        """The room on a host's disk was measured; a start knows nothing of it."""
        host.act(lambda: host.live.inbox.admission.disk_room.handle_room(room_bytes))

    def _lead_elsewhere(self, host: Host, fault: Fault) -> None:
        """A host moves, or lies from now on, or has another way to a destination, now and for later starts."""
        if fault.kind == HOSTILE:
            random, until_ns = Random(fault.after), self.world.now_ns + fault.for_ns
            host.act(lambda: self.hostile.append(Hostile(host.live, until_ns, random)))
            return
        if fault.kind == "move":
            host.move(host.plan.addresses[fault.after], fault.for_ns)
            return
        to, via = (self.plan.hosts[index].name for index in (fault.after, fault.other))
        kept = [known for known in host.routes if known.to != to]
        routes = host.routes = (self._route(fault.host, to, via), *kept)
        host.act(lambda: host.live.set_routes(routes, self.world.now_ns))

    def _mishandle(self, host: Host, fault: Fault) -> None:
        """What people do to a machine, most of it by mistake."""
        if fault.kind == "wall-jump":
            host.wall_offset_ns += fault.for_ns
        elif fault.kind == "clock-set":
            host.wall_offset_ns = 0 if host.wall_offset_ns else WALL_NS
            host.crash_after(down_ns=fault.for_ns)
        elif fault.kind == "pause-queue":
            self.pausing.pause(fault)
        elif fault.kind == "disk-low":
            self._give_room(host, host.settings.limits.disk_reserve_bytes + fault.after)
            self.world.at(fault.for_ns, lambda: self._give_room(host, PLENTY_BYTES))
        else:
            self._open_again(host)

    def _open_again(self, host: Host) -> None:
        """Another process opens the store of a running node: it is refused, and the node continues."""
        if host.engine is None:
            return
        try:
            host.open_store()
        except TriackError as error:
            self.seen["refused" if isinstance(error, StoreInUse) else "no-second"] += 1
        except ProcessCrashed:
            host.die()
        else:
            self.violations.append(("one-owner", f"a second process has opened the store of {host.name}"))

    def _break_path(self, fault: Fault) -> None:
        one, other = self.hosts[fault.host].address, self.hosts[fault.other].address
        if fault.kind == "rebind":
            self.network.rebind(one)
            return
        if fault.kind == "narrow":
            self.network.narrow(one, other, fault.after)
            return
        if fault.kind == "hide":
            self.network.hide(one, fault.after * MS)
            self.world.at(fault.for_ns, lambda: self.network.hide(one, 0))
            return
        if fault.kind == "clog":
            self.network.clog(one, other)
            self.world.at(fault.for_ns, lambda: self.network.unclog(one, other))
            return
        self.network.cut(one, other)
        if fault.kind == "cut":
            self.network.cut(other, one)
        self.world.at(fault.for_ns, self._mend_paths)

    def _mend_paths(self) -> None:
        self.network.heal()
        self._cut_dead_path()

    def _deceive(self, fault: Fault) -> None:
        """Faults that a single store cannot notice; from here on the host's data may be wrong."""
        host = self.hosts[fault.host]
        self.tainted.add(fault.host)
        # Before the last messages, which make every pair meet again: only data on which a peer depends can be missed.
        for_ns = min(fault.for_ns, START_NS + self.plan.faults_end_ns - 1 - self.world.now_ns)
        if fault.kind == "lie":
            host.disk.faults.lies = 1.0
            sent = self._sent_at(fault.host)
            host.on_power_loss = lambda: self._take_back_history(fault.host, {}, sent)
            self.world.at(for_ns, lambda: self._take_back(fault.host, None, {}, sent))
        elif fault.kind == "rot":
            host.disk.rot(1 + fault.after // 20)
            for stream in self._sent_at(fault.host):
                self.work.history.doubt_last(stream)
            for stream in self._read_at(fault.host):
                self.work.history.take_back_reader(stream, None)
        elif fault.kind == "old-copy":
            snapshot = host.disk.snapshot()
            marks = {stream: self.work.history.handed_out(stream) for stream in self._read_at(fault.host)}
            sent = self._sent_at(fault.host)
            self.world.at(for_ns, lambda: self._take_back(fault.host, snapshot, marks, sent))
        else:
            self._clone(fault.host)

    def _read_at(self, index: int) -> list[int]:
        return [stream for stream, plan in enumerate(self.plan.streams) if plan.receiver == index]

    def _sent_at(self, index: int) -> dict[int, int]:
        plans = enumerate(self.plan.streams)
        return {stream: self.work.history.accepted_up_to(stream) for stream, plan in plans if plan.sender == index}

    def _take_back(
        self, index: int, snapshot: Snapshot | None, marks: dict[int, dict[int, int]], sent: dict[int, int]
    ) -> None:
        """The machine stops and restarts with older data."""
        host = self.hosts[index]
        host.crash_after(power=True, down_ns=300 * MS)
        host.on_power_loss = lambda: None
        if snapshot is not None:
            host.disk.restore(snapshot)
        host.disk.faults.lies = 0.0
        self._take_back_history(index, marks, sent)

    def _take_back_history(self, index: int, marks: dict[int, dict[int, int]], sent: dict[int, int]) -> None:
        for stream in self._read_at(index):
            self.work.history.take_back_reader(stream, marks.get(stream))
        for stream, first in sent.items():
            self.work.history.take_back_sender(stream, first)

    def _clone(self, index: int) -> None:
        """A second process on a copy of the data, with the same identity, at another address."""
        original = self.hosts[index]
        plan = replace(original.plan, name=f"{original.name}2", address=original.address.replace(":1", ":2"))
        disk = Disk(self.world.chance("disk of the clone"))
        clone = Host(self.world, self.network, plan, disk, original.identity.keys)
        clone.directory.replace(original.directory)
        clone.identity.suite = self.nonces.suite
        clone.storms, clone.standstill = self.storms, self.standstill
        disk.restore(original.disk.snapshot())
        self.clones.append(clone)
        clone.start()

    # ---- the verdict

    def _judge(self) -> None:
        history = self.work.history
        for index, seen in enumerate(history.streams):
            seen.excused = self._excuse(index)
        history.finish()
        self.trust.judge(history)
        self._judge_bodies()
        if self.nonces.repeated:
            repeated = counted(self.nonces.repeated, "datagram")
            self.violations.append(("nonce", f"sealed with a nonce of another: {repeated}"))
        self.violations += history.violations + self.trust.violations
        self.violations += self.strangers.violations if self.strangers is not None and self.plan.is_secure else []
        self.judge_effort()
        if not self.tainted:
            self._judge_records()

    def _judge_bodies(self) -> None:
        """A stored body belongs to a message of a queue, and no longer reserves room; all others were freed."""
        revoked = any(fault.kind == "revoke" for fault in self.plan.faults)
        if self.tainted or revoked or self.plan.dead_path is not None or not self._idle():
            return
        on_its_way = self._on_their_way()
        # A process that begins again knows nothing of its express messages: their pieces stay until it returns.
        died = {host.engine.node_id for host in self.hosts if host.engine is not None and host.ends}
        for host in self.hosts:
            if host.engine is None:
                continue
            bodies = host.engine.queues.bodies
            left = sum(body.state is not BodyState.CLAIMED for body in bodies.by_id.values())
            if left or bodies.held.total_bytes or bodies.unclaimed.total_bytes or bodies.coming_bytes:
                room = f"room is taken for {bodies.held.total_bytes} bytes, {bodies.coming_bytes} are to come"
                self.violations.append(("bodies", f"{host.name}: {left} bodies have no message, and {room}"))
            awaited = on_its_way | _awaited(host.engine.inbox, has_died=bool(host.ends))
            self.violations += [
                ("bodies", f"{host.name}: queue {name} is empty and counts {mailbox.fill.bytes.value} bytes")
                for name, mailbox in host.engine.queues.mailboxes.items()
                if mailbox.fill.bytes.value and not mailbox.length and not name.startswith("$journal")
                if awaited.isdisjoint(mailbox.partials.streams)
                and died.isdisjoint(origin for origin, _ in mailbox.partials.streams)
            ]

    def _on_their_way(self) -> set[StreamId]:
        """The streams with packets, or the end, in flight: express ones are not awaited."""
        alive = [host.engine for host in self.hosts if host.engine is not None]
        found = {stream for engine in alive for stream in engine.transits.ends.unanswered}
        for engine in alive:
            busy = [it.stream_number for it in engine.outbox.streams if it.sequence.entries]
            found |= {StreamId(engine.node_id, it) for it in (*busy, *engine.outbox.retirement.unanswered)}
        return found

    def judge_effort(self) -> None:
        """No node has done much more than its packets needed; a log that was cut does not say how many there were."""
        logs = self._logs()
        for host in () if self.tainted else self.hosts:
            if not host.boots:
                mine = [log for name, log in logs.items() if name.startswith(f"{host.name}-")]
                accepted = sum(accepted_in(parse_records(log)) for log in mine)
                self.storms.judge(host.name, accepted, self.world.now_ns - START_NS)

    def _judge_records(self) -> None:
        for finding in judge_logs(self._logs()):
            if self.hostile and finding.check in FINDINGS:
                self.seen["lie-seen"] += 1
                continue
            self.violations.append((finding.check, f"{finding.node[:8]} {finding.session} {finding.evidence}"))

    def outcome(self) -> Outcome:
        """Everything about the run that outlives it."""
        for host in [*self.hosts, *self.clones]:
            self.seen.update(end.partition(":")[0] for end in host.ends)
        for name, count in self.network.counts.items():
            self.seen[f"net-{name}"] += count
        for host in self.hosts:
            for word in REFUSALS:
                self.seen[word] += sum(records.count(f'"{word}"'.encode()) for records in host.records)
        self.seen = +self.seen
        world, violations = self.world, self.violations + self.storms.violations + self.standstill.violations
        return Outcome(self.plan, violations, world.now_ns, world.events, world.trace, self._logs(), self.seen)

    def _logs(self) -> dict[str, bytes]:
        """The segments of each process, as the driver writes them."""
        return {
            f"{host.name}-{number:06d}-{segment:06d}.jsonl": lines
            for host in self.hosts
            for number, records in enumerate(host.records, start=1)
            for segment, lines in enumerate(segments_in(bytes(records)), start=1)
            if lines
        }

    def close(self) -> None:
        for host in [*self.hosts, *self.clones]:
            host.disk.close()


def _is_tight(host: HostPlan) -> bool:
    return is_limited(host.settings.limits) or host.settings.order.max_held_packets == 1


def _awaited(inbox: Inbox, *, has_died: bool) -> set[StreamId]:
    """Streams with stored pieces of messages that wait for the next packet or the end of the stream.

    A relay may still have the rest of a message whose stream has ended: its destination awaits it for a week. The rest
    may be a dead letter of a relay, or have died with one, with its origin behind relays or, of an express one, with an
    earlier process of this node. A message is dead if a part of it was refused. Its origin says all this with the next
    packet.
    """
    awaited = set(inbox.ends.awaited.ends)
    for stream in inbox.streams:
        if stream.rejections or stream.relay or (stream.delivery is Delivery.EXPRESS and has_died):
            awaited.add(stream.id)
    return awaited
