"""The demo: its processes, its bad network, its report."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from select import select
from types import SimpleNamespace
from typing import Any, Self

import pytest

from tests.machine import PATIENCE_S
from triack.base.errors import TriackError, WaitTimeout
from triack.node.control.tasks import first_of
from triack.tools.cli import main
from triack.tools.demo import child, run
from triack.tools.demo.bodies import SIZE_MIN, Bodies
from triack.tools.demo.receiver import Receiver
from triack.tools.demo.run import Plan, Transfer, transfer


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("pyspark", "needs PySpark: pip install 'triack[spark]'"),
        ("java", "needs Java 17 or later, and JAVA_HOME is {home}, which has no bin/java: install it"),
    ],
)
def test_what_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], missing: str, said: str
) -> None:
    for package in ("matplotlib", "pyspark"):
        pytest.importorskip(package)
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SystemExit) as ended:
        main(["demo", "--engine", "spark", "--keep", str(tmp_path / "kept")])
    told = f"triack: replay on Spark {said.format(home=tmp_path)}, or use --engine local\n"
    assert (ended.value.code, capsys.readouterr().err) == (1, told)
    assert not (tmp_path / "kept").exists()


MANY = 1_000_000

Processes = list[asyncio.subprocess.Process]


def plan(messages: int) -> Plan:
    return Plan(messages, 100, loss=0, duplicate=0, reorder=0, seed=1, transport="udp", timeout=PATIENCE_S)


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Processes:
    started: Processes = []
    start = asyncio.create_subprocess_exec

    async def note(*arguments: Any, **options: Any) -> asyncio.subprocess.Process:
        started.append(await start(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", note)
    return started


async def until_it_runs(progress: Transfer) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not progress.delivered:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)


@pytest.mark.gate
async def test_a_node_that_cannot_open_is_reported(tmp_path: Path, processes: Processes) -> None:
    (tmp_path / "receiver").write_text("no directory")
    with pytest.raises(TriackError, match=rf"^the receiver failed: .*{tmp_path}/receiver"):
        await transfer(plan(1), tmp_path, Transfer())
    assert len(processes) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "said"),
    [
        (lambda receiver, _: receiver.kill(), "the receiver ended with code -9"),
        (lambda _, sender: sender.kill(), "the sender ended with code -9"),
        # In good order, as it does at the end of its input; but not everything has arrived.
        (lambda receiver, _: receiver.stdin.close(), "the receiver ended too early"),
    ],
)
async def test_a_process_that_ends_is_reported(
    tmp_path: Path, processes: Processes, end: Callable[..., None], said: str
) -> None:
    progress = Transfer()
    work = asyncio.create_task(transfer(plan(MANY), tmp_path, progress))
    await until_it_runs(progress)
    end(*processes)
    with pytest.raises(TriackError, match=f"^{said}$"):
        await work
    assert [process.returncode for process in processes] == [0 if "early" in said else -9, -9]


@pytest.mark.slow
async def test_a_hanging_process_is_ended(
    tmp_path: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "END_S", 0)
    with pytest.raises(WaitTimeout, match=r"^the sender did not close within 0 s$"):
        await transfer(plan(1), tmp_path, Transfer())
    assert [process.returncode is None for process in processes] == [False, False]


WORK = """
from triack.tools.demo.child import run_child, tell

async def work(options, stopping):
    tell(options)
    await stopping.wait()
    tell({"stopped": True})

run_child(work)
"""


@pytest.mark.gate
def test_a_child_works_until_its_input_ends() -> None:
    """Not when something comes in: only the end says that the parent is gone. It closes in good order then."""
    with subprocess.Popen(
        [sys.executable, "-c", WORK, '{"messages": 3}'],
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert select([process.stdout], [], [], 30)[0], "nothing was told in 30 s"
        assert process.stdout.readline() == b'{"messages": 3}\n'
        process.stdin.write(b"not the end")
        process.stdin.flush()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.1)
        process.stdin.close()
        assert json.loads(process.stdout.read()) == {"stopped": True}
        assert process.wait(timeout=PATIENCE_S) == 0


async def test_progress_is_reported(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(child, "REPORT_S", 0.001)
    done = asyncio.Event()
    reports = 0

    def progress() -> child.Report:
        nonlocal reports
        reports += 1
        if reports == 3:
            done.set()
        return {"sent": reports}

    await first_of(child.tell_regularly(progress), done.wait())
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line) for line in lines[:3]] == [{"sent": 1}, {"sent": 2}, {"sent": 3}]


BODIES = Bodies(100, seed=3)


class Node:
    """Hands these bodies out, two at a time."""

    def __init__(self, *bodies: bytes) -> None:
        self._messages = [SimpleNamespace(body=body) for body in bodies]

    def receive(self, queue: str) -> Self:
        assert queue == "demo"
        return self

    async def get_many(self) -> list[SimpleNamespace]:
        if not self._messages:
            raise asyncio.CancelledError
        taken, self._messages = self._messages[:2], self._messages[2:]
        return taken


async def receive(count: int, *bodies: int | bytes) -> dict[str, Any]:
    """What the receiver has seen in the end, without the time."""
    receiver = Receiver({"messages": count, "size": 100, "seed": 3})
    node: Any = Node(*(BODIES.make(body) if isinstance(body, int) else body for body in bodies))
    with pytest.raises(asyncio.CancelledError):
        await receiver.receive(node)
    seen = receiver.progress()
    assert (seen.pop("last_ns") > 0) == (seen["delivered"] == count)
    return seen


@pytest.mark.parametrize(
    ("bodies", "seen"),
    [
        ((0, 1, 2, 3), (4, 0, 0, 0)),
        ((0, 1, 2), (3, 0, 0, 0)),
        ((0, 1, 1, 2, 0, 3, 3), (4, 3, 0, 0)),
        ((0, 2, 1, 3), (4, 0, 1, 0)),
        ((3, 2, 1, 0), (4, 0, 3, 0)),
        ((0, 3, 1, 2), (4, 0, 2, 0)),
        ((0, 1, 3), (3, 0, 0, 0)),
        ((0, 1, 2, 3, 4), (4, 0, 0, 1)),
        ((0, b"", 1, b"x" * 100, BODIES.make(2)[:-1], 2, Bodies(100, seed=4).make(3), 3), (4, 0, 0, 4)),
    ],
    ids=["all", "one-lacks", "repeated", "overtaken", "backwards", "two-overtaken", "gap", "one-too-many", "corrupt"],
)
async def test_what_is_seen_is_counted(bodies: tuple[int | bytes, ...], seen: tuple[int, int, int, int]) -> None:
    """Different ones, repeated ones, ones behind a later one, and ones that nobody sent."""
    names = ("delivered", "duplicates", "out_of_order", "corrupt")
    assert await receive(4, *bodies) == dict(zip(names, seen, strict=True))


async def test_the_last_one_is_reported_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    """The clock stops with it; what comes after it is still seen, but told with the next report."""
    await receive(2, 1, 0, 0)
    (line,) = capsys.readouterr().out.splitlines()
    told = json.loads(line)
    assert (told["delivered"], told["duplicates"], told["out_of_order"]) == (2, 0, 1)


@pytest.mark.parametrize("size", [SIZE_MIN, SIZE_MIN + 1, 100, 5000])
def test_a_body_has_its_size_and_its_index(size: int) -> None:
    bodies = Bodies(size, seed=7)
    for index in (0, 1, 99_999, 10**SIZE_MIN - 1):
        body = bodies.make(index)
        assert len(body) == size
        assert bodies.index_of(body) == index


def test_both_ends_make_the_same() -> None:
    """From the same seed; every index has its own body, and every seed its own noise."""
    assert Bodies(100, 1).make(5) == Bodies(100, 1).make(5)
    assert Bodies(100, 1).make(5) != Bodies(100, 1).make(6)
    assert Bodies(100, 1).make(5)[:SIZE_MIN] == Bodies(100, 2).make(5)[:SIZE_MIN]
    assert Bodies(100, 1).make(5) != Bodies(100, 2).make(5)


@pytest.mark.parametrize("body", [b"", b"7", b"0" * (SIZE_MIN - 1), b"0" * (SIZE_MIN - 1) + b"x", b" " * SIZE_MIN])
def test_a_body_of_somebody_else_has_no_index(body: bytes) -> None:
    assert Bodies.index_of(body) is None
