"""A child reports to its parent, and ends with it."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from select import select

import pytest

from tests.machine import PATIENCE_S
from triack.node.control.tasks import first_of
from triack.tools.demo import child

WORK = """
from triack.tools.demo.child import run_child, tell

async def work(options, stopping):
    tell(options)
    await stopping.wait()
    tell({"stopped": True})

run_child(work)
"""


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.gate
def test_a_process_that_fails_reports_it_and_ends_with_1(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("no directory")
    work = {"messages": 1, "size": 100, "seed": 1, "log": None, "data": f"{tmp_path}/data"}
    options = json.dumps({**work, "insecure": True, "address": "udp://127.0.0.1:1"})
    ended = subprocess.run(
        [sys.executable, "-m", "triack.tools.demo.sender", options],
        input=b"",
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (1, b"")
    assert ended.stdout.startswith(b'{"error": "')
    assert f"{tmp_path}/data".encode() in ended.stdout


async def test_progress_is_reported_from_time_to_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each time as it is then, a line each."""
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
