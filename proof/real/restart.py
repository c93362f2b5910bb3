"""A large store after an unclean end: how soon it is ready, and that nothing is lost when recovery is interrupted."""

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import triack
from proof.real.children import Child, Work, read_reports
from proof.real.nodes import HANG_S, queue_numbers, quick
from proof.real.workers import FILLED, filler, opener


@dataclass(slots=True)
class Restart:
    """How a store came back."""

    messages: int = 0
    store_bytes: int = 0
    fill_seconds: float = 0.0
    nested: int = 0
    ready_seconds: float = 0.0
    violations: list[str] = field(default_factory=list)


class _Life:
    """One process from its start to its end, and its reports."""

    def __init__(self, work: Work, options: dict[str, Any]) -> None:
        self._child = Child(work, options)
        self.reported = 0
        self.began_at = 0.0
        self.opened_at = 0.0
        self.ended = False

    def read(self, timeout_s: float) -> None:
        """Read its reports within a time."""
        for _, line in read_reports([self._child], timeout_s):
            word, _, number = line.partition(" ")
            if word == "began":
                self.began_at = time.monotonic()
            elif word in ("opened", "committed"):
                self.opened_at = self.opened_at or time.monotonic()
                self.reported = int(number)
            else:
                self.ended = True

    def wait_for(self, committed: int, limit_s: float) -> bool:
        """Read until it has opened the store and reported a number of messages. Returns whether it has."""
        end = time.monotonic() + limit_s
        while not self.ended and time.monotonic() < end and not (self.opened_at and self.reported >= committed):
            self.read(0.1)
        return bool(self.opened_at) and self.reported >= committed

    def kill(self) -> None:
        """Kill it, and read its last reports."""
        self._child.kill()
        while not self.ended:
            self.read(0)
        self._child.close()


def restart(
    folder: Path, *, messages: int, size_bytes: int, nested: int = 5, kill_after_s: float = 0.02, limit_s: float = 600.0
) -> Restart:
    """Fill a store until a process that fills it is killed, kill its recovery, open it, and look."""
    found, data = Restart(), folder / "filler"
    options = {"data": data, "log": None, "size_bytes": size_bytes}
    start = time.monotonic()
    life = _Life(filler, options)
    filled = life.wait_for(messages, limit_s)
    life.kill()
    found.fill_seconds = time.monotonic() - start
    found.store_bytes = sum(file.stat().st_size for file in data.iterdir())
    committed = life.reported
    if not filled:
        found.violations.append(f"{committed} of {messages} messages after {limit_s:g} s")
    for turn in range(nested):
        life = _Life(opener, options)
        while not life.began_at and not life.ended:
            life.read(0.1)
        life.read(kill_after_s * (turn + 1))
        life.kill()
        found.nested += not life.opened_at
    life = _Life(opener, options)
    if not life.wait_for(committed, HANG_S):
        found.violations.append(f"{committed} were reported committed, {life.reported} are recalled")
    found.ready_seconds = life.opened_at - life.began_at
    life.kill()
    asyncio.run(_check(data, size_bytes, life.reported, found))
    return found


async def _check(data: Path, size_bytes: int, committed: int, found: Restart) -> None:
    async with triack.open("filler", data=data, insecure=True, settings=quick()) as node:
        numbers = await queue_numbers(node, FILLED, size_bytes)
    found.messages = len(numbers)
    if numbers != list(range(committed)):
        found.violations.append(f"{len(numbers)} messages in the queue, {committed} were committed")
