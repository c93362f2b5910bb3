"""Running the demo: two processes, the relay between them, and their reports."""

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from triack.base.errors import TriackError, WaitTimeout
from triack.base.printable import written
from triack.node.control.tasks import first_of
from triack.node.files.keys import KeyKind, encode_key, open_identity
from triack.node.files.private_files import PrivateFiles
from triack.tools.demo.child import Report
from triack.tools.demo.relay import Relay, rough

STALLED_S = 60.0
END_S = 15.0
REPORT_BYTES_MAX = 64 * 1024
NS_PER_SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Plan:
    """The messages to send, and the network."""

    messages: int
    size: int
    loss: float
    duplicate: float
    reorder: float
    seed: int
    transport: str
    timeout: float
    insecure: bool = False

    @property
    def impaired(self) -> bool:
        """Whether there is a relay."""
        return bool(self.loss or self.duplicate or self.reorder)


@dataclass(slots=True)
class Transfer:
    """How far it has come; complete when ``transfer`` has returned."""

    sent: int = 0
    ordered: int = 0
    delivered: int = 0
    duplicates: int = 0
    out_of_order: int = 0
    corrupt: int = 0
    first_ns: int = 0
    last_ns: int = 0
    relay: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """From the first send to the last delivery."""
        return max(0, self.last_ns - self.first_ns) / NS_PER_SECOND

    @property
    def rate(self) -> float:
        """Messages a second over the whole transfer."""
        return self.delivered / self.seconds if self.seconds else 0.0


class Child:
    """One of the two processes."""

    def __init__(self, process: asyncio.subprocess.Process, name: str) -> None:
        self._process = process
        self._name = name

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls, name: str, options: Report, module: str | None = None) -> AsyncIterator["Child"]:
        """Run a process of the demo, or of another module that reports in the same way; at the end, end it."""
        # Another session keeps the terminal's Ctrl-C away; the end of standard input ends it in any case.
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            module or f"triack.tools.demo.{name}",
            json.dumps(options),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=REPORT_BYTES_MAX,
            start_new_session=True,
        )
        child = cls(process, name)
        try:
            yield child
        finally:
            await child.end()

    async def next_report(self) -> Report:
        """Its next report. Raises TriackError when it has failed, or ended."""
        report = await self._read()
        if report is None:
            raise TriackError(f"the {self._name} ended too early")
        return report

    async def _read(self) -> Report | None:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        report: Report | None = json.loads(line) if line else None
        if report is not None and "error" in report:
            raise TriackError(f"the {self._name} failed: {report['error']}")
        if report is None and await self._process.wait():
            raise TriackError(f"the {self._name} ended with code {self._process.returncode}")
        return report

    async def finish(self, handle: Callable[[Report], None]) -> None:
        """Let it close in good order, and read its last reports."""
        self._end_input()
        try:
            async with asyncio.timeout(END_S):
                while (report := await self._read()) is not None:
                    handle(report)
        except TimeoutError:
            raise WaitTimeout(f"the {self._name} did not close within {END_S:g} s") from None

    async def end(self) -> None:
        """End it in any state."""
        self._end_input()
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
        await self._process.wait()

    def _end_input(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()


async def transfer(plan: Plan, folder: Path, progress: Transfer) -> None:
    """Send all messages and wait until all are ordered and delivered."""

    def handle(report: Report) -> None:
        for name, value in report.items():
            setattr(progress, name, value)

    common: dict[str, Any] = {
        "messages": plan.messages,
        "size": plan.size,
        "seed": plan.seed,
        "log": str(folder / "logs"),
        "insecure": plan.insecure,
    }
    data = {name: str(folder / name) for name in ("sender", "receiver")}
    sender_key = "" if plan.insecure else make_key(folder / "sender")
    async with contextlib.AsyncExitStack() as stack:
        listen = {"listen": f"{plan.transport}://127.0.0.1:0", "is_behind_relay": plan.impaired}
        options = {**common, **listen, "data": data["receiver"], "sender_key": sender_key}
        receiver = await stack.enter_async_context(Child.running("receiver", options))
        found = await receiver.next_report()
        address = str(found.get("address"))
        relay: Relay | None = None
        if plan.impaired:
            relay = Relay(
                target=address,
                listen=f"{plan.transport}://127.0.0.1:0",
                faults=rough(loss=plan.loss, duplicate=plan.duplicate, reorder=plan.reorder),
                seed=plan.seed,
            )
            stack.push_async_callback(relay.close)
            await relay.start()
            address = relay.address
        options = {**common, "data": data["sender"], "address": address, "receiver_key": found.get("key")}
        sender = await stack.enter_async_context(Child.running("sender", options))
        await _all_arrived((sender, receiver), plan, progress, handle)
        for child in (sender, receiver):
            await child.finish(handle)
        progress.relay = relay.counters if relay is not None else {}


def make_key(data: Path) -> str:
    """The key of a node that has not started yet, so that the other one can trust it from the start."""
    return encode_key(KeyKind.PUBLIC, open_identity(PrivateFiles(data), os.urandom).public[0])


async def _all_arrived(
    children: tuple[Child, ...], plan: Plan, progress: Transfer, handle: Callable[[Report], None]
) -> None:
    arrived = asyncio.Event()

    async def listen(child: Child) -> None:
        while True:
            handle(await child.next_report())
            if progress.first_ns and progress.last_ns:
                arrived.set()

    await first_of(arrived.wait(), _patience(plan, progress), *map(listen, children))


async def _patience(plan: Plan, progress: Transfer) -> None:
    """Raises WaitTimeout when it lasts too long, or nothing moves."""
    end = time.monotonic() + plan.timeout
    moved = time.monotonic()
    before = (0, 0, 0)
    while True:
        await asyncio.sleep(min(1, plan.timeout / 10))
        now = time.monotonic()
        state = (progress.sent, progress.ordered, progress.delivered)
        if state != before:
            before, moved = state, now
        if now >= end or now - moved >= STALLED_S:
            why = f"not done after {written(plan.timeout)} s" if now >= end else f"no progress for {STALLED_S:g} s"
            counts = f"{state[0]} of {plan.messages} sent, {state[1]} ordered, {state[2]} delivered"
            raise WaitTimeout(f"demo given up: {why}; {counts}")
