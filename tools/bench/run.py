"""One run: two processes, their reports, and the proof in them."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from triack.base.errors import WaitTimeout
from triack.base.printable import counted
from triack.node.control.tasks import first_of
from triack.tools.bench.process import processor_s
from triack.tools.bench.systems.catalogue import System
from triack.tools.bench.work import Work
from triack.tools.demo.child import Report
from triack.tools.demo.run import Child, make_key

QUIET_S = 3.0
"""A message without a guarantee that did not arrive for this long is lost."""
STALLED_S = 60.0
LOOK_S = 0.02
AFTER_S = 0.25
"""How long a run waits for duplicates at its end."""
CHILD = "triack.tools.bench.child"

Between = Callable[[Report], Awaitable[Report]]


@dataclass(slots=True)
class Progress:
    """How far a run is; complete at its end. The names are those of the reports.

    Attributes:
        missing, late, corrupt: the receiver's wrong messages, by kind; see ``Sink``.
        first_ns, began_ns, last_ns: monotonic clock at the first call, the first delivery and the last one.
        sender_cpu_s, receiver_cpu_s: of each process; the processors' time, all threads.
        done: whether the sender has sent everything, and got all news that its system gives.
    """

    sent: int = 0
    delivered: int = 0
    missing: int = 0
    late: int = 0
    corrupt: int = 0
    first_ns: int = 0
    began_ns: int = 0
    last_ns: int = 0
    sender_cpu_s: float = 0.0
    receiver_cpu_s: float = 0.0
    sender_facts: Report = field(default_factory=dict)
    receiver_facts: Report = field(default_factory=dict)
    latencies: Report = field(default_factory=dict)
    found: Report = field(default_factory=dict)
    done: bool = False

    def handle(self, report: Report) -> None:
        """Note a report of either process."""
        for name, value in report.items():
            setattr(self, name, value)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one run, and its proof."""

    sent: int
    delivered: int
    seconds: float
    rate: float
    goodput: float
    verified: bool
    guarantee: list[str]
    flaw: str
    cpu: dict[str, float]
    facts: dict[str, Report]
    latencies: Report

    def summed_up(self, name: str) -> str:
        """One line about it."""
        cpu = ", ".join(f"{end} {share:.0%}" for end, share in self.cpu.items())
        if self.latencies:
            figure = f"p50 {self.latencies['p50_ms']:.2f} ms, p99 {self.latencies['p99_ms']:.2f} ms"
        else:
            figure = f"{self.rate:,.0f} msg/s"
        return f"{name}: {figure}; processors: {cpu}; {self.flaw or ', '.join(self.guarantee)}"


async def run_once(
    system: System,
    work: Work,
    folder: Path,
    server: Report,
    watch: Callable[[Progress], None],
    *,
    host: str = "127.0.0.1",
    between: Between | None = None,
    relayed: bool = False,
    congestion: str = "",
) -> Outcome:
    """Do the work once."""
    progress = Progress()
    watch(progress)
    common: Report = {"system": system.name, "work": work.to_json(), "server": server}
    data = {name: str(folder / name) for name in ("sender", "receiver")}
    keys = system.name == "triack" and not work.insecure
    log = {"log": str(folder / "logs")}
    async with contextlib.AsyncExitStack() as stack:
        key = make_key(folder / "sender") if keys else ""
        options: Report = {**common, **log, "role": "receiver", "data": data["receiver"], "sender_key": key}
        options |= {"host": host, "is_behind": between is not None}
        if relayed:
            options["hub_key"] = make_key(folder / "hub")
        receiver = await stack.enter_async_context(Child.running("receiver", options, CHILD))
        found = (await receiver.next_report())["found"]
        if between is not None:
            found = await between(found)
        if relayed:
            relaying = {**common, **log, "role": "hub", "data": str(folder / "hub"), "found": found, "sender_key": key}
            hub = await stack.enter_async_context(Child.running("hub", relaying, CHILD))
            found = (await hub.next_report())["found"]
        options = {**common, **log, "role": "sender", "data": data["sender"], "found": found}
        options["congestion"] = congestion
        sender = await stack.enter_async_context(Child.running("sender", options, CHILD))
        before_s = processor_s(server["pid"]) if server else 0.0
        await follow((sender, receiver), work, progress)
        broker_cpu_s = processor_s(server["pid"]) - before_s if server else None
        if work.complete:
            await sender.finish(progress.handle)
        else:  # messages in flight do not count
            await sender.end()
        await receiver.finish(progress.handle)
    return judge(work, progress, broker_cpu_s)


async def follow(children: tuple[Child, ...], work: Work, progress: Progress) -> None:
    """Read the reports of both processes until the run has ended."""

    async def listen(child: Child) -> None:
        while True:
            progress.handle(await child.next_report())

    await first_of(_over(work, progress), *map(listen, children))


async def _over(work: Work, progress: Progress) -> None:
    moved, before = time.monotonic(), (0, 0)
    while not (progress.done and (progress.delivered >= progress.sent or not work.complete)):
        await asyncio.sleep(LOOK_S)
        state = (progress.sent, progress.delivered)
        if state != before:
            moved, before = time.monotonic(), state
        quiet_s = time.monotonic() - moved
        # As long as nothing has arrived, the other process may still be starting.
        if progress.done and progress.delivered and quiet_s > QUIET_S:
            break
        if quiet_s > STALLED_S:
            done = f"{counted(state[0], 'message')} sent, {state[1]} delivered"
            raise WaitTimeout(f"bench given up: no progress for {STALLED_S:g} s; {done}")
    await asyncio.sleep(AFTER_S)


def judge(work: Work, progress: Progress, broker_cpu_s: float | None = None) -> Outcome:
    """The verdict on a finished run."""
    seconds = max(1, progress.last_ns - progress.first_ns) / 1e9
    if not work.complete:  # a time in which nothing came at the end counts as well
        seconds = max(seconds, work.seconds)
    flaw = _flaw(work, progress)
    cpu = {"sender": progress.sender_cpu_s, "receiver": progress.receiver_cpu_s}
    if broker_cpu_s is not None:
        cpu["broker"] = broker_cpu_s
    rate = progress.delivered / seconds
    return Outcome(
        sent=progress.sent,
        delivered=progress.delivered,
        seconds=seconds,
        rate=rate,
        goodput=rate * work.size,
        verified=not flaw,
        guarantee=[] if flaw else _guarantee(work, progress),
        flaw=flaw,
        cpu={name: used_s / seconds for name, used_s in cpu.items()},
        facts={"sender": progress.sender_facts, "receiver": progress.receiver_facts},
        latencies=progress.latencies,
    )


def _flaw(work: Work, progress: Progress) -> str:
    lost = progress.missing + (progress.sent - progress.delivered if work.complete else 0)
    found = {
        f"did not come: {counted(lost, 'message')}": lost > 0,
        "nothing came": progress.delivered == 0,
        f"came again or late: {counted(progress.late, 'message')}": progress.late > 0,
        f"not what was sent: {counted(progress.corrupt, 'message')}": progress.corrupt > 0,
    }
    return "; ".join(text for text, wrong in found.items() if wrong)


def _guarantee(work: Work, progress: Progress) -> list[str]:
    ends = (progress.sender_facts, progress.receiver_facts)
    synced = [bool(end.get("synced")) for end in ends]
    says = ["every message once, in order" if work.complete else "no gap, none twice, in order"]
    if all(synced) and all(end.get("commits") for end in ends):
        says.append("synced at both ends")
    elif any(synced):
        says.append("synced once")
    if ends[0].get("looked") and not ends[0].get("plain") and not work.insecure:
        says.append("encrypted")
    if all(end.get("log_bytes") for end in ends):
        says.append("recorded")
    return says
