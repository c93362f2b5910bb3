"""Bridges as an operator meets them: in triack.toml, in ``triack status`` and ``top``, and by hand."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.bridges.brokers import Mosquitto, publish
from tests.tools.processes import Server, start, triack, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.gate]


def stats_of(data: Path) -> list[dict[str, object]]:
    bridges: list[dict[str, object]] = json.loads(triack("status", "--json", "--data", data).stdout)["bridges"]
    return bridges


def is_up(data: Path, name: str) -> bool:
    return any(it["name"] == name and it["is_up"] for it in stats_of(data))


def test_a_node_runs_the_bridges_of_its_file_and_takes_up_others(tmp_path: Path, broker: Mosquitto) -> None:
    file, data = tmp_path / "triack.toml", tmp_path / "gate"
    table = f'[[bridges]]\nname = "sensors"\nmqtt = "{broker.url}"\ntake = ["sensors/{{site}} -> from-{{site}}"]\n'
    file.write_text(table)
    with Server(data, "--config", file) as server:
        wait_until(lambda: is_up(data, "sensors"), "the bridge is up")
        publish(broker, "sensors/hall", "21.5")
        assert triack("receive", "from-hall", "--count", "1", "--create", "--data", data).stdout == b"21.5\n"
        shown = triack("status", "--data", data).stdout.decode()
        assert [line.split()[:6] for line in shown.splitlines() if line.startswith("sensors")] == [
            ["sensors", broker.url, "up", "1", "0", "0"]
        ]
        assert "sensors" in triack("top", "--once", "--data", data).stdout.decode()
        file.write_text(table.replace('"sensors"', '"others"').replace("from-{site}", "other-{site}"))
        assert b"in force: bridges.0.name" in triack("reload", "--data", data).stdout
        wait_until(lambda: is_up(data, "others"), "the other bridge is up")
        assert len(stats_of(data)) == 1
        file.write_text("")
        triack("reload", "--data", data)
        assert stats_of(data) == []
        assert server.stop() == 0


def test_a_broker_that_is_away_is_told_with_its_cause(tmp_path: Path, broker: Mosquitto) -> None:
    file, data = tmp_path / "triack.toml", tmp_path / "gate"
    file.write_text(f'[[bridges]]\nname = "sensors"\nmqtt = "{broker.url}"\ntake = ["# -> all"]\n')
    broker.stop()
    with Server(data, "--config", file):
        wait_until(lambda: b"trouble: bridge sensors" in triack("status", "--data", data).stdout, "it is told")
        assert b"not connected" in triack("check", "--data", data).stdout
        broker.start()
        wait_until(lambda: is_up(data, "sensors"), "it connects")
        assert b"trouble" not in triack("status", "--data", data).stdout


def test_a_bridge_by_hand_goes_on_after_the_node_was_killed(tmp_path: Path, broker: Mosquitto) -> None:
    data = tmp_path / "gate"
    with Server(data) as server:
        bridge = start("bridge", "mqtt", broker.url, "--take", "# -> all", "--qos", "2", "--data", data, "-v")
        assert bridge.stdout is not None
        assert bridge.stdout.readline().startswith(b"connected")
        publish(broker, "sensors/a", "1")
        assert triack("receive", "all", "--count", "1", "--create", "--data", data).stdout == b"1\n"
        server.kill()
        server.start()
        publish(broker, "sensors/a", "2")
        assert triack("receive", "all", "--count", "1", "--create", "--data", data).stdout == b"2\n"
        bridge.terminate()
        assert bridge.wait() == 0
        assert b"taken" in bridge.communicate()[0]


@pytest.mark.parametrize(("kind", "client"), [("mqtt", "gmqtt"), ("amqp", "aiormq")])
def test_without_its_client_a_bridge_says_what_to_install(tmp_path: Path, kind: str, client: str) -> None:
    file = tmp_path / "triack.toml"
    file.write_text(f'[[bridges]]\nname = "b"\n{kind} = "{kind}://localhost"\ntake = ["q -> all"]\n')
    code = (
        "import sys, importlib.util as util\n"
        "find = util.find_spec\n"
        f"util.find_spec = lambda name, *rest: None if name == {client!r} else find(name, *rest)\n"
        "from triack.tools.cli import main\n"
        f"main(['serve', '--config', {str(file)!r}, '--data', {str(tmp_path / 'n')!r}, '--insecure'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"pip install 'triack[{kind}]'" in done.stderr
