"""A standalone cluster of Spark: a master and two workers, each a process of its own, as docs/replay.md shows it.

What Spark is told by ``SPARK_CONF_DIR`` holds.
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.replay.faults import FAULTS, ready
from triack.tools.replay.run import replay

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BIN = Path(sys.executable).parent
SHORT_LIFE = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Virtual machines that live for seconds are not worth much compiling."""
HERE = {
    **os.environ,
    "SPARK_LOCAL_IP": "127.0.0.1",
    "PYSPARK_PYTHON": sys.executable,
    "SPARK_DAEMON_JAVA_OPTS": SHORT_LIFE,
}
"""All of it on loopback."""
SETTINGS = f"""
spark.ui.enabled false
spark.log.level ERROR
spark.sql.shuffle.partitions 2
spark.driver.extraJavaOptions {SHORT_LIFE}
spark.executor.extraJavaOptions {SHORT_LIFE}
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """The address of its master."""
    pytest.importorskip("pyspark")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"spark://127.0.0.1:{port}"
    deploy = "org.apache.spark.deploy"
    commands = [[f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]]
    for name in ("one", "two"):
        folder = ["--work-dir", str(tmp_path / name), "--webui-port", "0"]
        commands.append([f"{deploy}.worker.Worker", "--cores", "1", "--memory", "1g", *folder, address])
    log = tmp_path / "cluster.log"
    start = [BIN / "spark-class"]
    with log.open("wb") as out:
        processes = [subprocess.Popen([*start, *command], env=HERE, stdout=out, stderr=out) for command in commands]
    try:
        until_s = time.monotonic() + 240
        while log.read_text().count("Successfully registered with master") < 2:
            assert time.monotonic() < until_s, log.read_text()[-2000:]
            time.sleep(0.2)
        yield address
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(60)


def test_two_workers_say_what_one_machine_says(cluster: str, tmp_path: Path) -> None:
    world = ready()
    FAULTS["order_ack_too_early"](world)
    world.save(tmp_path / "logs")
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(SETTINGS)
    command = [sys.executable, "-m", "triack", "replay", str(tmp_path / "logs"), "--master", cluster, "--json"]
    settings = HERE | {"SPARK_CONF_DIR": str(tmp_path / "conf")}
    done = subprocess.run(command, env=settings, capture_output=True, text=True, timeout=540, check=False)
    assert done.returncode == 1, done.stderr
    found, local = json.loads(done.stdout.splitlines()[-1]), replay(tmp_path / "logs", engine="local").to_json()
    assert {**found, "engine": "local"} == local
    worked = {path.parts[-3] for path in tmp_path.glob("*/app-*/*") if path.is_dir()}
    assert worked == {"one", "two"}
