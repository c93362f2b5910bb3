"""Spark elsewhere: a standalone cluster with a master and two workers, as docs/replay.md shows it, and Spark Connect.

What Spark is told by ``SPARK_CONF_DIR`` holds.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.machine import PATIENCE_S
from tests.tools.replay.faults import FAULTS, ready
from triack.tools.ports import free_port
from triack.tools.replay.run import replay

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BIN = Path(sys.executable).parent
HERE = {
    **os.environ,
    "SPARK_LOCAL_IP": "127.0.0.1",
    "PYSPARK_PYTHON": sys.executable,
}
"""All of it on loopback."""
SETTINGS = """
spark.ui.enabled false
spark.log.level ERROR
spark.sql.shuffle.partitions 2
spark.sql.adaptive.enabled false
"""


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
    """See that Spark there says what the local engine says here."""
    world = ready()
    FAULTS["order_ack_too_early"](world)
    world.save(folder / "logs")
    command = [sys.executable, "-m", "triack", "replay", str(folder / "logs"), "--master", master, "--json"]
    done = subprocess.run(command, env=HERE | settings, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 1, done.stderr
    found, local = json.loads(done.stdout.splitlines()[-1]), replay(folder / "logs", engine="local").to_json()
    assert {**found, "engine": "local"} == local


def test_two_workers_say_what_one_machine_says(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    port, deploy = str(free_port()), "org.apache.spark.deploy"
    address = f"spark://127.0.0.1:{port}"
    commands = [[f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", port, "--webui-port", "0"]]
    for name in ("one", "two"):
        folder = ["--work-dir", str(tmp_path / name), "--webui-port", "0"]
        commands.append([f"{deploy}.worker.Worker", "--cores", "1", "--memory", "1g", *folder, address])
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(SETTINGS)
    with running(tmp_path / "cluster.log", commands, "Successfully registered with master", times=2):
        assert_same(tmp_path, address, {"SPARK_CONF_DIR": str(tmp_path / "conf")})
    worked = {path.parts[-3] for path in tmp_path.glob("*/app-*/*") if path.is_dir()}
    assert worked == {"one", "two"}


def test_spark_connect_needs_no_java_here(tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    port = str(free_port())
    binding = {"spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": port}
    told = dict(line.split(" ", 1) for line in SETTINGS.strip().splitlines() if "log.level" not in line)
    settings = [part for item in (binding | told).items() for part in ("--conf", "=".join(item))]
    server = "org.apache.spark.sql.connect.service.SparkConnectServer"
    submit = ["org.apache.spark.deploy.SparkSubmit", "--class", server, "--master", "local[2]", *settings]
    with running(tmp_path / "server.log", [[*submit, "spark-internal"]], "Spark Connect server started", times=1):
        assert_same(tmp_path, f"sc://127.0.0.1:{port}", {"JAVA_HOME": str(tmp_path)})
