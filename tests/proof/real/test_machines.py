"""Two machines are enrolled with the commands of docs/security.md, and a listener on the cable learns nothing."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import triack
from proof.real.machines import Frame, Machine, missing, read_capture, two_machines
from tests.pages import ROOT, read_blocks
from tests.tools.processes import SECONDS, TRIACK, wait_until

pytestmark = pytest.mark.slow

PORTS = {"a": 7801, "b": 7802}
SECRETS = [b"12 valves", b"orders", b"plant-a", b"plant-b"]
"""The secrets: a payload, a queue, and the names of nodes."""
JUNK = (
    "import os, socket, sys; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('0.0.0.0', 9999));"
    "[s.sendto(os.urandom(1 + 11 * n) if n % 2 else bytes([n % 9, 2]) + os.urandom(n * 7), (sys.argv[1], 7802))"
    " for n in range(100)]"
)
"""Bytes that ``nc -u`` could send: any, some of them with the header of a datagram."""


@pytest.fixture(autouse=True)
def machines_can_be() -> None:
    if (reason := missing()) is not None:
        pytest.skip(reason)


class Plant:
    def __init__(self, folder: Path, a: Machine, b: Machine, stack: ExitStack) -> None:
        self.folder = folder
        self._machines = {"a": a, "b": b}
        self._stack = stack
        (folder / "bin").mkdir()
        script = folder / "bin" / "triack"
        script.write_text(f'#!/bin/sh\nexec {" ".join(TRIACK)} "$@"\n')
        script.chmod(0o755)

    def machine(self, data: str) -> Machine:
        return self._machines[data]

    def run(self, where: str, command: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            self._shell(where, command), cwd=self.folder, input=stdin, capture_output=True, timeout=SECONDS, check=False
        )

    def start(self, where: str, command: str) -> None:
        """Let it run until the test ends, and wait until it has said something."""
        process = subprocess.Popen(
            self._shell(where, command),
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._stack.callback(_end, process)
        assert process.stdout is not None
        assert process.stdout.readline(), command

    def type_page(self) -> None:
        """Do what the page says: each command on the machine that has its data."""
        page = next(text for kind, text in read_blocks(ROOT / "docs" / "security.md") if "enrol join" in text)
        commands = re.findall(r"^\$ (.*)$", page, re.MULTILINE)
        assert len(commands) == 4
        for shown in commands:
            where, command = re.findall(r"--data (\w)", shown)[0], shown
            for data, machine in self._machines.items():
                command = command.replace(f"127.0.0.1:{PORTS[data]}", f"{machine.host}:{PORTS[data]}")
            if command.endswith("&"):
                self.start(where, command.removesuffix("&"))
            else:
                done = self.run(where, command)
                assert done.returncode == 0, done.stderr

    def _shell(self, where: str, command: str) -> list[str]:
        return [*self._machines[where].enter, "bash", "-c", f'PATH="{self.folder}/bin:$PATH"; {command}']


def _end(process: subprocess.Popen[bytes]) -> None:
    """And what it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    process.communicate(timeout=SECONDS)


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[Plant]:
    with ExitStack() as stack:
        machines = stack.enter_context(two_machines())
        yield Plant(tmp_path, *machines, stack)


def steady(stats: triack.NodeStats) -> dict[str, Any]:
    """The statistics that only change when something happens."""
    found = asdict(stats)
    sessions = [(it["peer"], it["node_id"]) for it in found["sessions"]]
    moving = ("drops", "room_bytes", "sessions", "links", "queues", "streams")
    return {name: value for name, value in found.items() if name not in moving} | {
        "sessions": sessions,
        "queues": {name: queue["messages"] for name, queue in found["queues"].items()},
    }


def answered(frames: list[Frame], port: int) -> list[Frame]:
    """What was sent to that port of the first machine."""
    return [frame for frame in frames if frame.receiver is not None and frame.receiver[1] == port]


def test_two_machines_are_enrolled_and_nobody_else_hears_anything(plant: Plant) -> None:
    """Messages go both ways over addresses that are not loopback; the cable shows neither them nor any name."""
    captured = plant.folder / "captured"
    with plant.machine("b").capture(captured):
        plant.type_page()
        assert plant.run("a", "triack send plant-b/orders --data a", b"12 valves\n").returncode == 0
        assert plant.run("b", "triack receive orders --data b --count 1").stdout == b"12 valves\n"
        assert plant.run("b", "triack send plant-a/orders --data b", b"12 valves\n").returncode == 0
        assert plant.run("a", "triack receive orders --data a --count 1").stdout == b"12 valves\n"
    frames = read_capture(captured)
    hosts = [plant.machine(data).host for data in "ab"]
    for sender, receiver in (hosts, hosts[::-1]):
        there = [
            it
            for it in frames
            if it.sender and it.sender[0] == sender and it.receiver == (receiver, PORTS["ab"[hosts.index(receiver)]])
        ]
        assert len(there) >= 4
    for secret in SECRETS:
        assert not any(secret in frame.data for frame in frames), secret


def test_who_is_not_trusted_gets_silence(plant: Plant) -> None:
    """It knows the right key, and the node sees it come: not one datagram goes back."""
    plant.start("b", f"triack serve --name plant-b --listen udp://{plant.machine('b').host}:7802 --data b")
    key = plant.run("b", "triack keygen --data b").stdout.decode().strip()
    there = f"udp://{plant.machine('b').host}:7802"
    assert plant.run("a", f"triack trust add plant-b {key} --address {there} --data a").returncode == 0
    captured = plant.folder / "captured"
    with plant.machine("b").capture(captured), triack.sync.connect(plant.folder / "b") as b:
        sent = plant.run("a", "triack send plant-b/orders --data a --timeout 2", b"12 valves\n")
        assert sent.returncode == 3
        assert b.stats().drops["untrusted"] > 0
        assert b.queue_lengths() == {"dead-letter": 0}
    frames = [frame for frame in read_capture(captured) if frame.sender is not None]
    assert {frame.sender[0] for frame in frames if frame.sender} == {plant.machine("a").host}


def test_junk_changes_a_counter_and_nothing_else(plant: Plant) -> None:
    """A hundred datagrams such as `nc -u` sends them, with a session open: none is answered, each is counted."""
    plant.type_page()
    assert plant.run("a", "triack send plant-b/orders --data a", b"12 valves\n").returncode == 0
    captured, trusted = plant.folder / "captured", (plant.folder / "b" / "trust.json").read_bytes()
    with plant.machine("b").capture(captured), triack.sync.connect(plant.folder / "b") as b:
        before = b.stats()
        script = f'{sys.executable} -c "$1" {plant.machine("b").host}'
        assert plant.run("a", f'set -- "{JUNK}"; {script}').returncode == 0
        wait_until(lambda: sum(b.stats().drops.values()) >= sum(before.drops.values()) + 100, "a hundred are counted")
        after = b.stats()
        assert plant.run("a", "triack send plant-b/orders --data a", b"12 valves\n").returncode == 0
    assert steady(after) == steady(before)
    assert (plant.folder / "b" / "trust.json").read_bytes() == trusted
    assert answered(read_capture(captured), 9999) == []


def test_trust_that_is_withdrawn_ends_the_session(plant: Plant) -> None:
    """That is the reason that is given; what comes later is not let in, until there is trust again."""
    plant.type_page()
    assert plant.run("a", "triack send plant-b/orders --data a", b"12 valves\n").returncode == 0
    key = plant.run("a", "triack keygen --data a").stdout.decode().strip()
    with triack.sync.connect(plant.folder / "b") as b:
        assert [session.peer for session in b.stats().sessions] == ["plant-a"]
        assert plant.run("b", "triack trust remove plant-a --data b").returncode == 0
        wait_until(lambda: b.stats().closes.get("revoked") == 1, "the session ends")
        assert b.stats().sessions == []
        sent = plant.run("a", "triack send plant-b/orders --data a --timeout 2", b"six pumps\n")
        assert sent.returncode == 3
        assert b.queue_lengths()["orders"] == 1
        assert plant.run("b", f"triack trust add plant-a {key} --data b").returncode == 0
        wait_until(lambda: b.queue_lengths()["orders"] == 2, "what has waited arrives")


def test_a_command_that_cannot_run_fails(tmp_path: Path) -> None:
    """A command on a machine ends with it, and an interface that is not there is no capture."""
    with two_machines() as (_, b):
        assert subprocess.run([*b.enter, "false"], check=False).returncode == 1
    with pytest.raises(subprocess.CalledProcessError), b.capture(tmp_path / "captured"):
        pass
