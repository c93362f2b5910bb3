"""The examples run as a user would run them, and print what they say."""

import asyncio
import importlib
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import triack
from tests.java import FEW_RECORDS
from tests.machine import PATIENCE_S
from tests.tools.testing.projects import run_pytest
from triack.testing import World
from triack.tools.ports import free_port

EXAMPLES = Path(__file__).parent.parent / "examples"

OUTPUTS = {
    "embed_in_service.py": "handled order 0\nhandled order 1\nhandled order 2\n",
    "orders_service.py": "".join(f"invoice {number + 1}: order {number}\n" for number in range(3)),
    "forward_queue.py": "".join(f"sale {number} via branch\n" for number in range(5)),
    "request_reply.py": "IS IT DURABLE?\nIS IT IN ORDER?\n",
}


def run(*command: str | Path, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def test_every_example_has_a_test() -> None:
    """An example that nobody runs goes stale."""
    programs = {path.name for path in EXAMPLES.iterdir() if path.is_file()}
    others = {"fastapi_service.py", "test_fastapi_service.py", "test_orders_service.py"}
    assert programs - set(OUTPUTS) == others | {"replay.ipynb", "replay_job.py", "tables_job.py"}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(OUTPUTS))
def test_example(name: str) -> None:
    """Each example ends well and prints exactly what it should."""
    done = run(sys.executable, EXAMPLES / name)
    assert (done.returncode, done.stdout, done.stderr) == (0, OUTPUTS[name], "")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "receiver"), [("README.md", "plant"), ("docs/package.md", "plant-b")])
def test_the_first_program_of_a_page(tmp_path: Path, name: str, receiver: str) -> None:
    """The first program that a user copies works, and prints what the page says; a second time, too."""
    page = (EXAMPLES.parent / name).read_text()
    found = re.search(r"```python\n(.*?)```.*?It prints `(.*?)`", page, re.DOTALL)
    assert found is not None
    program = found[1].replace("7802", str(free_port()))
    for _ in range(2):
        done = run(sys.executable, "-c", program, cwd=tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (0, found[2] + "\n", "")
        assert set(asyncio.run(_queue_lengths(receiver, tmp_path / receiver)).values()) == {0}


async def _queue_lengths(name: str, data: Path) -> dict[str, int]:
    async with triack.open(name, data=data, insecure=True) as node:
        return node.queue_lengths()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "passed"), [("test_orders_service.py", 17), ("test_fastapi_service.py", 1)])
def test_the_tests_of_the_order_service_and_of_the_web_shop(tmp_path: Path, name: str, passed: int) -> None:
    """They run as they say in their first lines, and pass; the endpoints of the web shop run in threads."""
    code, output = run_pytest(tmp_path, str(EXAMPLES / name))
    assert (code, f"{passed} passed" in output) == (0, True), output


@pytest.mark.slow
def test_ten_minutes_of_outage_take_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a processor, the slowest included; how busy the machine is besides does not count."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    outage = importlib.import_module("test_orders_service").test_an_outage_of_ten_minutes_loses_nothing

    began = time.process_time()
    with World() as world:
        world.run(outage(world))
    assert world.now > 600
    assert time.process_time() - began < 60


@pytest.mark.slow
def test_the_code_of_the_page_on_testing(tmp_path: Path) -> None:
    """Its tests pass, and its program prints what the page says."""
    page = (EXAMPLES.parent / "docs/testing.md").read_text()
    first, worker, program = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "test_first.py").write_text(first)
    (tmp_path / "test_worker.py").write_text(worker)
    code, output = run_pytest(tmp_path)
    assert (code, "2 passed" in output) == (0, True), output
    done = run(sys.executable, "-c", program)
    assert done.returncode == 0, done.stderr
    assert f"It prints `{done.stdout.strip()}`" in page


@pytest.mark.slow
@pytest.mark.spark
def test_the_notebook_and_the_jobs(tmp_path: Path) -> None:
    """The notebook's cells run one behind the other, and then the jobs on the logs that they wrote.

    In one submission, as it is Java's start that takes long.
    """
    pytest.importorskip("pyspark")
    notebook = json.loads((EXAMPLES / "replay.ipynb").read_text())
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    tables = f"import runpy\nrunpy.run_path({str(EXAMPLES / 'tables_job.py')!r}, run_name='__main__')\n"
    job = f"runpy.run_path({str(EXAMPLES / 'replay_job.py')!r}, run_name='__main__')\n"
    (tmp_path / "both.py").write_text("\n".join([*cells, tables, job]))
    submit = [str(Path(sys.executable).parent / "spark-submit"), "--master", "local[2]", *FEW_RECORDS.split()]
    done = run(*submit, "both.py", "logs", cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    shown = done.stdout
    assert re.search(r"^pass 1000 1000 0$", shown, re.MULTILINE)
    assert re.search(r"^\|\s*node_started\|\s*2\|$", shown, re.MULTILINE)
    assert re.search(r"^\|\s*plant\|orders\|1000\|\s*1000\|\s*0\|$", shown, re.MULTILINE)
    assert "orders: 1,000 sent, 1,000 delivered, 0 pending" in shown
    assert re.search(r"^orders .*: half within [\d.]+ ms, 99 % within [\d.]+ ms$", shown, re.MULTILINE)
    assert "pass: 1,000 messages sent, 1,000 delivered, 0 lost" in shown
