"""The long run: everything in this package, at full size, with figures."""

import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from proof.real import faults, namespace
from proof.real.kills import kill_loop
from proof.real.network import cross, outage, weather
from proof.real.restart import restart
from triack.base.errors import UsageError
from triack.tools.sim.faults import SHARES, Faults

PARTS = ("crossings", "outages", "namespaces", "kills", "faults", "restarts")
CHANCE = ("crossings", "namespaces", "kills")
SCHEMES = ("udp", "tcp")
KILLS_A_LOOP = 250
LOSS_PERCENT = 30
NAMESPACE_MESSAGES, NAMESPACE_BYTES, NAMESPACE_LIMIT_S = 500, 100, 300.0
SAY_EVERY = 20
OUTAGES_S = (1.0, 5.0, 15.0)
# The faults of the network, and how many messages of 1,000 bytes go through it: 10 MB, or as many as last so long.
CROSSINGS = (
    (weather(loss=0.02), 10_000),
    (weather(loss=0.1), 10_000),
    (weather(loss=0.3), 10_000),
    (weather(loss=0.3, duplicate=0.1, reorder=0.1, corrupt=0.1), 2_000),
    (weather(loss=0.5), 1_000),
    (weather(loss=0.5, duplicate=0.1, reorder=0.1, corrupt=0.05), 500),
)
CROSSING_BYTES, CROSSING_LIMIT_S = 1_000, 300.0
# A session lives for a round trip here and there: most of the time goes into connecting.
HOPELESS = (weather(loss=0.9), 100, 20, 1_800.0)
RESTART_BYTES = (100, 1_000)


@dataclass(slots=True)
class RealResult:
    """The results of a run."""

    kills: int = 0
    killed: dict[str, int] = field(default_factory=dict)
    killed_messages: int = 0
    crossings: list[dict[str, Any]] = field(default_factory=list)
    outages: list[dict[str, Any]] = field(default_factory=list)
    namespace_runs: int = 0
    namespace_packets: int = 0
    namespace_dropped: int = 0
    faults: int = 0
    fault_ends: dict[str, int] = field(default_factory=dict)
    restarts: list[dict[str, Any]] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """One object with all figures."""
        return asdict(self)


def run(
    kills: int = 1_000,
    *,
    namespace_runs: int = 100,
    messages: int = 1_000_000,
    minutes: float = 0.0,
    seed: int = 1,
    parts: Collection[str] = PARTS,
    say: Callable[[str], None] = lambda _line: None,
) -> RealResult:
    """Run every part once; those that depend on chance again, with other seeds, until the time is up."""
    if unknown := sorted(set(parts) - set(PARTS)):
        raise UsageError(f"there is no part {unknown[0]}; there are {', '.join(PARTS)}")
    result, start = RealResult(), time.monotonic()
    work = _Work(result, say, seed)
    todo: dict[str, Callable[[], None]] = {
        "crossings": work.run_crossings,
        "outages": work.run_outages,
        "namespaces": lambda: work.run_namespaces(namespace_runs),
        "kills": lambda: work.run_kills(kills),
        "faults": work.run_faults,
        "restarts": lambda: work.run_restarts(messages),
    }
    chosen = [part for part in PARTS if part in parts]
    while chosen:
        for part in chosen:
            todo[part]()
        work.seed += 1
        result.seconds = time.monotonic() - start
        in_time = result.seconds < 60 * minutes
        chosen = [part for part in chosen if in_time and part in CHANCE and part not in result.skipped]
    return result


class _Work:
    """Runs the parts, and records their results."""

    def __init__(self, result: RealResult, say: Callable[[str], None], seed: int) -> None:
        self.result = result
        self.say = say
        self.seed = seed

    def run_crossings(self) -> None:
        """Through the seeded relay."""
        for scheme in SCHEMES:
            for bad, messages in CROSSINGS:
                self._cross(scheme, bad, messages, CROSSING_BYTES, CROSSING_LIMIT_S)
            self._cross(scheme, *HOPELESS)

    def _cross(self, scheme: str, bad: Faults, messages: int, size_bytes: int, limit_s: float) -> None:
        shares = ", ".join(f"{name} {share:.0%}" for name in SHARES if (share := getattr(bad, name)))
        name = f"{messages} x {size_bytes} bytes over {scheme}, {shares}"
        with _folder() as folder:
            found = asyncio.run(
                cross(
                    folder,
                    bad,
                    scheme=scheme,
                    messages=messages,
                    size_bytes=size_bytes,
                    seed=self.seed,
                    limit_s=limit_s,
                )
            )
        figures = {"loss": bad.loss, "overhead": round(found.overhead, 3), "seconds": round(found.seconds, 2)}
        self.result.crossings.append({"what": name, **figures, "damaged": found.damaged})
        self._note(name, f"{found.seconds:.1f} s, {found.overhead:.3f} bytes sent a byte", found.violations)

    def run_outages(self) -> None:
        """Cut both ways, and one way."""
        for scheme in SCHEMES:
            for both in (True, False):
                for seconds in OUTAGES_S:
                    name = f"{seconds:g} s without a way {'either way' if both else 'back'}, over {scheme}"
                    with _folder() as folder:
                        found = asyncio.run(outage(folder, scheme=scheme, seconds=seconds, both=both))
                    self.result.outages.append({"what": name, "first_delivery_s": round(found.first_delivery_s, 3)})
                    self._note(name, f"first delivery after {found.first_delivery_s:.3f} s", found.violations)

    def run_namespaces(self, runs: int) -> None:
        """Through the kernel's packet filter."""
        if self._skip("namespaces", namespace.missing()):
            return
        dropped, passed, violations = 0, 0, list[str]()
        for number in range(runs):
            scheme = SCHEMES[number % len(SCHEMES)]
            sizes = [str(NAMESPACE_MESSAGES), str(NAMESPACE_BYTES), str(NAMESPACE_LIMIT_S)]
            command = [sys.executable, "-m", "proof.real.network", scheme, *sizes]
            found = namespace.lossy(LOSS_PERCENT, command, 2 * NAMESPACE_LIMIT_S)
            said = json.loads(found.output) if not found.code and found.output else {"violations": [found.complaints]}
            violations += [f"run {number}, {scheme}: {text}" for text in said["violations"]]
            dropped, passed = dropped + found.dropped, passed + found.passed
            if (number + 1) % SAY_EVERY == 0:
                self.say(f"{number + 1} of {runs} transfers, {len(violations)} failed")
        self.result.namespace_runs += runs
        self.result.namespace_packets += passed
        self.result.namespace_dropped += dropped
        name = f"{runs} transfers, each in a network namespace that loses {LOSS_PERCENT} % each way"
        self._note(name, f"{dropped} of {dropped + passed} packets dropped", violations)

    def run_kills(self, kills: int) -> None:
        """``kill -9``, in loops of some hundred, over both transports."""
        left, turn = kills, 0
        while left > 0:
            scheme = SCHEMES[turn % len(SCHEMES)]
            with _folder() as folder:
                found = kill_loop(folder, kills=min(left, KILLS_A_LOOP), seed=1_000 * self.seed + turn, scheme=scheme)
            done = found.kills.total()
            self.result.kills += done
            self.result.killed = dict(Counter(self.result.killed) + found.kills)
            self.result.killed_messages += found.messages
            figures = f"{found.messages} messages, restart at most {found.restart_seconds:.2f} s, {found.seconds:.1f} s"
            self._note(f"{done} kills over {scheme}", figures, found.violations)
            left, turn = left - max(done, 1), turn + 1

    def run_faults(self) -> None:
        """Every call on the store's files, in turn."""
        if self._skip("faults", faults.missing()):
            return
        syncs = [fault for fault in faults.EVERY_FAULT if "sync" in fault.call]
        sweeps = (
            ("write", faults.EVERY_FAULT, False),
            ("write", faults.EVERY_FAULT, True),
            ("write-big", syncs, False),
            ("keep", faults.EVERY_FAULT, False),
        )
        for task, kinds, unclean in sweeps:
            with _folder() as folder:
                found = faults.sweep(folder, kinds, task=task, unclean=unclean, say=self.say)
            self.result.faults += found.struck.total()
            self.result.fault_ends = dict(Counter(self.result.fault_ends) + found.ends)
            name = f"{found.struck.total()} faults in {task}, {'an unclean' if unclean else 'a new'} store"
            self._note(name, ", ".join(f"{end} {times}" for end, times in found.ends.items()), found.violations)

    def run_restarts(self, messages: int) -> None:
        """Large stores after an unclean end."""
        for size_bytes in RESTART_BYTES:
            with _folder() as folder:
                found = restart(folder, messages=messages, size_bytes=size_bytes)
            self.result.restarts.append(asdict(found))
            name = f"{found.messages} messages, {found.store_bytes / 1e6:.0f} MB, {found.nested} recoveries killed"
            self._note(name, f"ready after {found.ready_seconds:.2f} s", found.violations)

    def _skip(self, part: str, reason: str | None) -> bool:
        if reason is not None:
            self.result.skipped[part] = reason
            self.say(f"skipped {part}: {reason}")
        return reason is not None

    def _note(self, name: str, figures: str, violations: list[str]) -> None:
        self.say(f"{'FAIL' if violations else 'pass'}  {name}: {figures}")
        for text in violations:
            self.say(f"      {text}")
        self.result.violations += [f"{name}: {text}" for text in violations]


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="triack-real-") as name:
        yield Path(name)
