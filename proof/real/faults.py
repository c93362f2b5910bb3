"""Errors of the kernel, one at a time: the N-th call on the store's files fails, or the process dies in it.

strace injects the error into a real process at a real file. Afterwards the store is opened again without faults, and
must hold every reported commit and none in part.
"""

import asyncio
import functools
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import triack
from proof.real.children import Child, Work, read_reports
from proof.real.ledger import BIG_BYTES, QUEUE, TAKE_BEHIND, keep, write
from proof.real.nodes import HANG_S, body, queue_numbers, quick
from triack.store.folder import STORE_FILE

SERIES = {
    "write": {"count": 6, "size_bytes": 0},
    "write-big": {"count": 14, "size_bytes": BIG_BYTES},
    "keep": {"count": 6},
}
UNCLEAN_AT = 4
"""How many commits a process has made that leaves an unclean store behind."""
TRACER_TRIES = 3
"""Tries: a tracer that once reported something odd on a busy machine can still trace."""
_CALL = re.compile(r' (?P<call>\w+)\((AT_FDCWD<[^>]*>, )?(\d+<(?P<open>[^>]*)>|"(?P<named>[^"]*)")')
_SYNC = re.compile(r" (?P<at>[\d.]+) (fsync|fdatasync)\(\d+<(?P<path>.*?)>\) ")


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault: the call that it hits, and its effect."""

    call: str
    effect: str
    forever: bool = False

    def __str__(self) -> str:
        return f"{self.call} {self.effect}{' forever' if self.forever else ''}"


EVERY_FAULT = [
    Fault("fdatasync", "error=EIO"),
    Fault("fdatasync", "error=EIO", forever=True),
    Fault("fdatasync", "error=ENOSPC"),
    Fault("fdatasync", "signal=SIGKILL"),
    Fault("fsync", "error=EIO"),
    Fault("fsync", "signal=SIGKILL"),
    Fault("pwrite64", "error=EIO"),
    Fault("pwrite64", "error=EIO", forever=True),
    Fault("pwrite64", "error=ENOSPC"),
    Fault("pwrite64", "error=ENOSPC", forever=True),
    Fault("pwrite64", "signal=SIGKILL"),
    Fault("pread64", "error=EIO"),
    Fault("pread64", "signal=SIGKILL"),
    Fault("openat", "error=EIO"),
    Fault("openat", "error=ENOSPC"),
    Fault("openat", "error=EMFILE"),
    Fault("openat", "signal=SIGKILL"),
    Fault("ftruncate", "error=EIO"),
    Fault("ftruncate", "signal=SIGKILL"),
    Fault("unlink", "error=EIO"),
    Fault("unlink", "signal=SIGKILL"),
    Fault("mkdir", "error=ENOSPC"),
]


@dataclass(slots=True)
class Outcome:
    """The result of one fault."""

    struck: str = ""
    failed: str = ""
    code: int | None = None
    said: list[tuple[float, str]] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Faults:
    """The results of a sweep."""

    struck: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def add(self, fault: Fault, nth: int, outcome: Outcome) -> None:
        """Count one outcome."""
        self.violations += [f"{fault} at {nth}, {outcome.struck}: {text}" for text in outcome.violations]
        if outcome.struck:
            self.struck[str(fault)] += 1
            self.ends[outcome.failed.partition(":")[0] or ("killed" if outcome.code else "unharmed")] += 1


@functools.cache
def missing() -> str | None:
    """Return why the kernel's faults cannot be injected here, or None."""
    if not sys.platform.startswith("linux") or shutil.which("strace") is None:
        return "faults of the kernel need strace, on Linux (Debian: apt-get install strace)"
    said = ""
    for _ in range(TRACER_TRIES):
        with tempfile.TemporaryDirectory(prefix="triack-trace-") as folder:
            outcome = inject(Fault("unlink", "error=EIO"), 1_000, Path(folder, "data"))
        if not outcome.violations:
            return None
        said = outcome.violations[0]
    return f"strace may not trace here: {said}"


class _Traced:
    """A process under strace, and the lines that it reports; made within the event loop that reads them."""

    def __init__(self, work: Work, options: dict[str, Any], strace: list[str]) -> None:
        self.said: list[tuple[float, str]] = []
        self.spoke = asyncio.Event()
        self.ended = asyncio.Event()
        self._child = Child(work, {"traced": True, **options})
        self._tracer = subprocess.Popen([*strace, "-p", str(self._child.pid)], stderr=subprocess.PIPE)
        asyncio.get_running_loop().add_reader(self._child.pipe.fileno(), self._read)

    def _read(self) -> None:
        for _, line in read_reports([self._child], 0):
            first, _, rest = line.partition(" ")
            if line == "ended":
                asyncio.get_running_loop().remove_reader(self._child.pipe.fileno())
                self.ended.set()
            elif line != "began":
                # Its own lines carry the time; the line that reports its failure has none.
                self.said.append((0.0, line) if first == "failed" else (float(first), rest))
            if self.said or self.ended.is_set():
                self.spoke.set()

    def ask_to_stop(self) -> None:
        """Let it end in good order."""
        self._child.ask_to_stop()

    async def finish(self, outcome: Outcome) -> None:
        """Read everything that it reports until it ends."""
        try:
            async with asyncio.timeout(HANG_S):
                await self.ended.wait()
        except TimeoutError:
            outcome.violations.append("it hangs")
        else:
            outcome.code = self._child.wait()
        outcome.said = self.said

    def close(self) -> str:
        """Drop it. Returns what strace complained about."""
        asyncio.get_running_loop().remove_reader(self._child.pipe.fileno())
        self._child.close()
        return self._tracer.communicate(timeout=HANG_S)[1].decode().strip()


def _strace(fault: Fault, nth: int, data: Path, trace: Path) -> list[str]:
    files = [data.parent, data, *(data / f"{STORE_FILE}{suffix}" for suffix in ("", "-wal", "-journal"))]
    return [
        *("strace", "-f", "-qq", "-y", "-ttt", "-o", str(trace), "-e", f"trace={fault.call}"),
        *(word for file in files for word in ("-P", str(file))),
        *("-e", f"inject={fault.call}:{fault.effect}:when={nth}{'+' if fault.forever else ''}"),
    ]


def inject(fault: Fault, nth: int, data: Path, *, task: str = "write") -> Outcome:
    """Run one process with one fault, and check what is left."""
    with tempfile.TemporaryDirectory(prefix="triack-trace-") as folder:
        trace = Path(folder, "trace")
        outcome = asyncio.run(_run(_strace(fault, nth, data, trace), data, task))
        traced = trace.read_text().splitlines() if trace.exists() else []
    # A killed process leaves its last call without a result.
    killed = outcome.code == -signal.SIGKILL
    ends = (" = ?", "<unfinished ...>") if killed else ("(INJECTED)",)
    struck = [line for line in traced if line.endswith(ends)]
    if struck:
        call = _CALL.search(struck[-1 if killed else 0])
        outcome.struck = f"{call['call']}({Path(call['open'] or call['named']).name})" if call else fault.call
    _judge_end(outcome)
    if struck and not killed and (sync := _SYNC.search(struck[0])):
        _judge_sync(outcome, sync, traced)
    return outcome


async def _run(strace: list[str], data: Path, task: str) -> Outcome:
    outcome = Outcome()
    if task == "keep":
        traced = _Traced(keep, {"data": data, "listen": "udp://127.0.0.1:0"}, strace)
    else:
        traced = _Traced(write, {"data": data, **SERIES[task]}, strace)
    try:
        if task == "keep":
            await _keep(traced, data, outcome)
        else:
            await _write(traced, data, outcome, SERIES[task]["size_bytes"])
    except triack.TriackError as error:
        outcome.violations.append(f"afterwards: {type(error).__name__}: {error}")
    finally:
        complaints = traced.close()
    if complaints:
        outcome.violations.append(f"strace: {complaints}")
    return outcome


def _judge_end(outcome: Outcome) -> None:
    """Check that a process may end like this."""
    last = outcome.said[-1][1] if outcome.said else ""
    outcome.failed = last.removeprefix("failed ") if last.startswith("failed ") else ""
    named = outcome.failed.startswith("Store")
    # A process that has already failed may still get the signal to stop.
    good = {0: not outcome.failed, 1: named, -signal.SIGTERM: named, -signal.SIGKILL: bool(outcome.struck)}
    if outcome.code is not None and not good.get(outcome.code):
        outcome.violations.append(f"it ended with code {outcome.code} and {last!r}")


def _judge_sync(outcome: Outcome, struck: re.Match[str], traced: list[str]) -> None:
    """After a failed sync no commit is reported; but a directory that was synced as well has kept its entries."""
    late = [line for at, line in outcome.said if at > float(struck["at"]) and line.startswith("committed")]
    others = [found for line in traced if (found := _SYNC.search(line)) and line.endswith(" = 0")]
    is_folder = not Path(struck["path"]).name.startswith(STORE_FILE)
    if late and not (is_folder and any(found["path"] == struck["path"] for found in others)):
        outcome.violations.append(f"after a failed sync: {', '.join(late)}")


async def _write(traced: _Traced, data: Path, outcome: Outcome, size_bytes: int) -> None:
    """Let it commit its series; every reported commit is there when the store is opened again, and none in part."""
    await traced.finish(outcome)
    reported = [int(line.split()[1]) for _, line in outcome.said if line.startswith(("opened", "committed"))]
    async with triack.open("ledger", data=data, insecure=True, settings=quick()) as node:
        found = int(node.recall("written") or b"0")
        numbers = await queue_numbers(node, QUEUE, size_bytes)
    if reported and not reported[-1] <= found <= reported[-1] + 1:
        outcome.violations.append(f"{reported[-1]} were reported committed, {found} are there")
    if numbers != list(range(max(0, found - TAKE_BEHIND), found)):
        outcome.violations.append(f"after {found} transactions the queue has {numbers}")


async def _keep(traced: _Traced, data: Path, outcome: Outcome) -> None:
    await traced.spoke.wait()
    word, _, address = traced.said[0][1].partition(" ") if traced.said else ("", "", "")
    ordered, receipts = 0, list[triack.Receipt]()
    async with triack.open("peer", data=None, insecure=True, settings=quick()) as peer:
        ended = asyncio.create_task(traced.ended.wait())
        for number in range(SERIES["keep"]["count"] if word == "address" else 0):
            receipts.append(await peer.send(f"{address}/{QUEUE}", body(number)))
            waiting = asyncio.create_task(receipts[-1].ordered())
            await asyncio.wait([waiting, ended], timeout=HANG_S, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                waiting.cancel()
                break
            ordered = number + 1
        if word == "address":
            traced.ask_to_stop()
        await traced.finish(outcome)
        ended.cancel()
        async with triack.open("keeper", data=data, insecure=True, settings=quick()) as node:
            kept = node.queue_lengths().get(QUEUE, 0)
        if kept < ordered:
            outcome.violations.append(f"{ordered} were order-acked, {kept} are there")
        listen = address if receipts else None
        async with triack.open("keeper", data=data, listen=listen, insecure=True, settings=quick()) as node:
            for receipt in receipts:
                await receipt.ordered(HANG_S)
            numbers = await queue_numbers(node, QUEUE)
    if numbers != list(range(len(receipts))):
        outcome.violations.append(f"{len(receipts)} were sent, the queue has {numbers}")


def sweep(
    folder: Path,
    faults: Iterable[Fault] = EVERY_FAULT,
    *,
    task: str = "write",
    nths: Sequence[int] = range(1, 1_000_000),
    unclean: bool = False,
    say: Callable[[str], None] = lambda _line: None,
) -> Faults:
    """Strike every call in turn, until a run has fewer calls than that."""
    total = Faults()
    for fault in faults:
        struck = 0
        for nth in nths:
            data = folder / "data"
            shutil.rmtree(data, ignore_errors=True)
            if unclean:
                _leave_unclean(data)
            outcome = inject(fault, nth, data, task=task)
            total.add(fault, nth, outcome)
            if not outcome.struck:
                break
            struck += 1
        say(f"{task}: {fault}: {struck} calls struck")
    return total


def _leave_unclean(data: Path) -> None:
    child = Child(write, {"data": data, "traced": False, **SERIES["write"]})
    while not any(line == "ended" or line.endswith(f"committed {UNCLEAN_AT}") for _, line in read_reports([child], 1)):
        pass
    child.close()
