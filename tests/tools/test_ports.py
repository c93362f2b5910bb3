"""A port that is free, and not one that the system may give away in the next moment."""

import socket
from pathlib import Path

import pytest

from triack.tools import ports
from triack.tools.ports import PORTS, free_port


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
