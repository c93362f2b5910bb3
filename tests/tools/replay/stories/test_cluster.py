"""Spark elsewhere: a standalone cluster with a master and two workers, as docs/replay-on-spark.md shows it.

Spark takes its options from ``PYSPARK_SUBMIT_ARGS``: with a ``SPARK_CONF_DIR`` on its path Java would not take the
archive of its classes (``tests/java.py``).
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.java import FEW_RECORDS
from tests.machine import PATIENCE_S
from tests.tools.replay.faults import faulty
from triack.tools.ports import free_port
from triack.tools.replay.run import replay

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BIN = Path(sys.executable).parent
HERE = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
"""All of it on loopback."""


@contextmanager
def running(log: Path, commands: list[list[str]], said: str, times: int) -> Iterator[None]:
    """Programs of Spark that run until the end of the block; it begins when they have said so."""
    start = [BIN / "spark-class"]
    with log.open("wb") as out:
        processes = [subprocess.Popen([*start, *command], env=HERE, stdout=out, stderr=out) for command in commands]
    try:
        until_s = time.monotonic() + PATIENCE_S
        while log.read_text().count(said) < times:
            assert time.monotonic() < until_s, log.read_text()[-2000:]
            time.sleep(0.2)
        yield
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(PATIENCE_S)


def assert_same(folder: Path, master: str, settings: dict[str, str]) -> None:
    """See that Spark there says what the local engine says here; workers have other working directories."""
    faulty("order_ack_too_early").save(folder / "logs")
    command = [sys.executable, "-m", "triack", "replay", str(folder / "logs"), "--master", master, "--json"]
    run = partial(
        subprocess.run, env=HERE | settings, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    done = run(command)
    assert done.returncode == 1, done.stderr
    command[4] = "logs"
    assert run(command).stdout == done.stdout
    found, local = json.loads(done.stdout.splitlines()[-1]), replay(folder / "logs", engine="local").to_json()
    assert found["counted"]["sent"] == found["sent"]
    assert {**found, "engine": "local", "chosen": "", "counted": {}} == local


def test_two_workers_say_what_one_machine_says(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    port, deploy = str(free_port()), "org.apache.spark.deploy"
    address = f"spark://127.0.0.1:{port}"
    commands = [[f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", port, "--webui-port", "0"]]
    for name in ("one", "two"):
        folder = ["--work-dir", str(tmp_path / name), "--webui-port", "0"]
        commands.append([f"{deploy}.worker.Worker", "--cores", "1", "--memory", "1g", *folder, address])
    with running(tmp_path / "cluster.log", commands, "Successfully registered with master", times=2):
        assert_same(tmp_path, address, {"PYSPARK_SUBMIT_ARGS": f"{FEW_RECORDS} pyspark-shell"})
    worked = {path.parts[-3] for path in tmp_path.glob("*/app-*/*") if path.is_dir()}
    assert worked == {"one", "two"}
