"""``kill -9`` in a loop: two nodes in two processes, killed while they work and while they start.

The sender commits numbers in transactions; the receiver reads them and passes them on within a transaction. Every
commit that a process reported must be there when it is started again, and at the end every number that was ever
committed must have been passed on once, in order.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import triack
from proof.real.children import Child, Work, read_reports
from proof.real.nodes import HANG_S, queue_numbers, quick
from proof.real.workers import receiver, sender
from triack.base.paths import UdpSockets
from triack.tools.replay.run import replay

STARTING_SHARE = 0.3
"""The share of kills that hit a process while it starts, and so while it recovers from the previous kill."""
STARTING_MAX_S = 0.02
WORKING_MAX_S = 0.03


@dataclass(slots=True)
class Killing:
    """The results of a loop."""

    kills: Counter[str] = field(default_factory=Counter)
    messages: int = 0
    seconds: float = 0.0
    restart_seconds: float = 0.0
    records: int = 0
    violations: list[str] = field(default_factory=list)


class _Actor:
    """One of the two nodes, through all its lives."""

    def __init__(self, name: str, work: Work, folder: Path, seed: int) -> None:
        self.name = name
        self.child: Child | None = None
        self.options: dict[str, Any] = {"data": folder / name, "log": folder / "logs", "seed": seed, "finish": False}
        self.committed = 0
        self.is_open = False
        self.killed = False
        self.commits_in_life = 0
        self.started_at = 0.0
        self._work = work

    def start(self) -> None:
        self.is_open = self.killed = False
        self.commits_in_life = 0
        self.started_at = time.monotonic()
        self.options["seed"] += 2
        self.child = Child(self._work, self.options)

    def kill(self) -> None:
        if self.child is not None:
            self.killed = True
            self.child.kill()

    def end(self) -> None:
        if self.child is not None:
            self.child.close()
            self.child = None


class _Loop:
    """The parent of both: it kills, starts, and keeps the books."""

    def __init__(self, folder: Path, seed: int, scheme: str, udp: UdpSockets | None) -> None:
        self.random = Random(seed)
        self.found = Killing()
        self.sender = _Actor("sender", sender, folder, 2 * seed)
        self.receiver = _Actor("receiver", receiver, folder, 2 * seed + 1)
        self.receiver.options["listen"] = f"{scheme}://127.0.0.1:0"
        for actor in (self.sender, self.receiver):
            actor.options["udp"] = udp

    def start(self) -> None:
        """Start the receiver, and when its address is known the sender."""
        self.receiver.start()
        self.wait_for(lambda: self.receiver.is_open, "the receiver opens")
        self.sender.start()

    def read(self, timeout_s: float) -> None:
        """Read the reports of the processes within a time."""
        actors = [actor for actor in (self.sender, self.receiver) if actor.child is not None]
        for child, line in read_reports([actor.child for actor in actors if actor.child is not None], timeout_s):
            self._handle(next(actor for actor in actors if actor.child is child), line)

    def _handle(self, actor: _Actor, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "opened":
            actor.is_open = True
            self.found.restart_seconds = max(self.found.restart_seconds, time.monotonic() - actor.started_at)
            if int(rest) < actor.committed:
                self.violate(f"the {actor.name} had committed {actor.committed} and recalls {rest}")
            actor.committed = int(rest)
        elif word == "committed":
            actor.committed = int(rest)
            actor.commits_in_life += 1
        elif word == "address":
            actor.options["listen"] = rest
            self.sender.options["to"] = f"{rest}/orders"
        elif word != "began" and not (word == "ended" and actor.killed):
            self.violate(f"the {actor.name} {line}")

    def violate(self, text: str) -> None:
        self.found.violations.append(text)

    def wait_for(self, holds: Callable[[], bool], what: str, limit_s: float = HANG_S) -> None:
        """Read until a condition holds; if it never does, that is a violation."""
        end = time.monotonic() + limit_s
        while not holds() and not self.found.violations:
            self.read(0.1)
            if time.monotonic() > end:
                self.violate(f"not within {limit_s:g} s: {what}")

    def kill(self) -> None:
        """One round: kill one process or both, while they work or while they start."""
        actors = self.random.choice([[self.sender], [self.receiver], [self.sender, self.receiver]])
        starting = self.random.random() < STARTING_SHARE
        working = [] if starting else actors
        self.wait_for(lambda: all(actor.commits_in_life for actor in working), "those to be killed work again")
        self._let_pass(self.random.random() * (STARTING_MAX_S if starting else WORKING_MAX_S))
        for actor in actors:
            when = "working" if actor.is_open else "starting"
            self.found.kills[f"{actor.name} {when}"] += 1
        self._restart(actors)

    def _restart(self, actors: list[_Actor]) -> None:
        for actor in actors:
            actor.kill()
        self.read(0)  # their reports from before they died count
        for actor in actors:
            actor.end()
            actor.start()

    def _let_pass(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.read(left)

    def finish(self) -> None:
        """Let everything arrive, and close both in good order."""
        self.wait_for(lambda: self.sender.is_open and self.receiver.is_open, "both open again")
        self.sender.options["finish"] = True
        self._restart([self.sender])
        self.wait_for(
            lambda: self.sender.is_open and self.receiver.committed == self.sender.committed, "everything arrives"
        )
        for actor in (self.sender, self.receiver):
            assert actor.child is not None
            actor.child.ask_to_stop()
            code = actor.child.wait()
            if code != 0:
                self.violate(f"the {actor.name} ended with code {code}")


def kill_loop(
    folder: Path, *, kills: int, seed: int = 1, scheme: str = "udp", udp: UdpSockets | None = None
) -> Killing:
    """Kill and start again, ``kills`` times."""
    loop = _Loop(folder, seed, scheme, udp)
    found = loop.found
    begin = time.monotonic()
    try:
        loop.start()
        while found.kills.total() < kills and not found.violations:
            loop.kill()
        if not found.violations:
            loop.finish()
    finally:
        loop.sender.end()
        loop.receiver.end()
    if not found.violations:
        asyncio.run(_check(folder, loop.sender.committed, found))
        verdict = replay([folder / "logs"], engine="local")
        found.records = verdict.records
        found.violations += [f"the record: {verdict.violations}"] if verdict.violations else []
        # A start that is killed before its first record leaves no log.
        if len(verdict.missing) > sum(count for key, count in found.kills.items() if key.endswith("starting")):
            found.violations.append(f"no log of {verdict.missing}")
    found.seconds = time.monotonic() - begin
    return found


async def _check(folder: Path, count: int, found: Killing) -> None:
    async with triack.open("receiver", data=folder / "receiver", insecure=True, settings=quick()) as node:
        lengths = {queue: length for queue, length in node.queue_lengths().items() if length and queue != "done"}
        passed_on = await queue_numbers(node, "done")
    if lengths:
        found.violations.append(f"left in queues: {lengths}")
    if passed_on != list(range(count)):
        at = next((at for at, number in enumerate(passed_on) if at != number), len(passed_on))
        found.violations.append(f"{len(passed_on)} passed on of {count}; the first wrong one is {at}")
    found.messages = len(passed_on)
