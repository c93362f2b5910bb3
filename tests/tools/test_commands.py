"""The command line as a whole: entry, ports, and what is compiled."""

import re
import socket
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.house import project
from tests.machine import PATIENCE_S
from triack.ordering import incoming
from triack.queues.manager import engine
from triack.session import session
from triack.tools import ports
from triack.tools.compiled import is_compiled
from triack.tools.entry import HINT, LIBRARIES
from triack.tools.ports import PORTS, free_port

WITHOUT = """
import sys
for name in {missing!r}:
    sys.modules[name] = None
sys.argv = ["triack", "--version"]
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name: None if name in {missing!r} else found(name)
from triack.tools.entry import main
main()
"""


def run(*missing: str) -> tuple[int, str, str]:
    program = WITHOUT.format(missing=missing)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
def test_a_plain_installation_says_in_one_line_what_the_command_needs() -> None:
    for name in LIBRARIES:
        assert run(name) == (1, "", HINT)
    code, said, complaints = run()
    assert (code, complaints) == (0, "")
    assert said.startswith("triack ")


def test_the_libraries_are_those_of_the_extra() -> None:
    extra = project()["project"]["optional-dependencies"]["cli"]
    assert tuple(re.split(r"\W", wanted)[0] for wanted in extra) == LIBRARIES
    assert "'triack[cli]'" in HINT


IMPORT = """
import sys
import time
began_s = time.process_time()
import triack
{first_use}
print(time.process_time() / began_s, *sys.modules)
"""
HEAVY = {
    *("pygments", "rich", "structlog", "click", "jinja2"),  # the command line and its pages
    *("matplotlib", "numpy", "pandas", "pyspark", "pytest"),  # extras, and what only tests need
    *("bz2", "lzma", "shutil", "tempfile", "difflib"),  # what only one path needs
}
FOR_A_NODE = {
    *("apsw", "asyncio", "asyncio_dgram", "concurrent", "cryptography", "dataclasses", "hashlib", "inspect"),
    *("ipaddress", "json", "logging", "pathlib", "random", "socket", "ssl", "subprocess", "threading", "urllib"),
    *(f"triack.{room}" for room in ("node", "ordering", "queues", "session", "store", "sync", "transport")),
}
STARTS = 5
"""Of the interpreter: the processor time that a script or a command of one line can bear, that start included."""


def loaded_by(first_use: str) -> tuple[float, set[str]]:
    """Processor time of a program that imports triack, in starts of the interpreter, and which modules it has then."""
    program = IMPORT.format(first_use=first_use)
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    spent, *loaded = done.stdout.split()
    return float(spent), set(loaded)


@pytest.mark.gate
def test_the_import_is_light() -> None:
    """It takes little time, as nothing comes with it that only a node needs."""
    _, loaded = loaded_by(first_use="")
    assert not (HEAVY | FOR_A_NODE) & loaded
    assert min(loaded_by(first_use="")[0] for _ in range(3)) < STARTS


@pytest.mark.slow
def test_a_node_needs_no_library_of_the_command_line() -> None:
    for first_use in ("triack.open, triack.connect", "triack.sync.open, triack.sync.connect"):
        _, loaded = loaded_by(first_use)
        assert not HEAVY & loaded
        assert loaded > {"asyncio", "triack.node.node", "triack.node.client.client"}


@pytest.mark.parametrize("kind", [socket.SOCK_DGRAM, socket.SOCK_STREAM])
def test_what_somebody_has_is_not_free(monkeypatch: pytest.MonkeyPatch, kind: socket.SocketKind) -> None:
    with socket.socket(socket.AF_INET, kind) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        monkeypatch.setattr(ports, "PORTS", range(port, port + 1))
        with pytest.raises(OSError, match="none of 1 ports of loopback is free"):
            free_port()


def test_what_nobody_has_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    monkeypatch.setattr(ports, "PORTS", range(port, port + 1))
    assert free_port() == port


def test_the_system_does_not_give_these_away() -> None:
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert max(PORTS) < first


def test_all_pure_rooms_are_compiled_or_none_is() -> None:
    rooms: tuple[ModuleType, ...] = (engine, session, incoming)
    assert {not str(room.__file__).endswith(".py") for room in rooms} == {is_compiled()}
