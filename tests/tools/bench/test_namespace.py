"""A link between two devices, here two sockets that keep packets whole."""

import shutil
import socket
import time

import pytest

from triack.tools.bench import namespace
from triack.tools.bench.namespace import Emulator, missing, wrapped
from triack.tools.sim.faults import Faults

FAST = Faults(rate_bps=1_000_000_000, delay_ns=10_000_000)


def carried(faults: Faults, packets: list[bytes]) -> tuple[list[bytes], float, list[dict[str, int]]]:
    """What comes out, how long the first took, and the counters."""
    pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2)]
    for _, inner in pairs:
        inner.setblocking(False)
    (here, first), (there, second) = pairs
    emulator = Emulator((first.fileno(), second.fileno()), faults, 1)
    emulator.start()
    began, found, took_s = time.monotonic(), list[bytes](), 0.0
    for packet in packets:
        here.send(packet)
    there.settimeout(0.5)
    try:
        while len(found) < len(packets):
            found.append(there.recv(2_000))
            took_s = took_s or time.monotonic() - began
    except TimeoutError:
        pass
    emulator.end()
    for pair in pairs:
        for end in pair:
            end.close()
    return found, took_s, emulator.counts()


def test_packets_arrive_in_order_and_not_before_their_time() -> None:
    packets = [b"packet %d" % number for number in range(50)]
    found, took_s, (there, back) = carried(FAST, packets)
    assert found == packets
    assert took_s >= 0.01
    assert (there, back) == ({"sent": 50}, {"sent": 0})


def test_losses_are_counted_and_not_delivered() -> None:
    packets = [b"%d" % number for number in range(100)]
    found, _, (there, _) = carried(Faults(delay_ns=0, loss=0.5), packets)
    assert 0 < len(found) < 100
    assert there == {"sent": 100, "lost": 100 - len(found)}


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    missing.cache_clear()
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    try:
        assert missing() in (
            "there is no unshare here (Debian: apt-get install util-linux)",
            "network namespaces need Linux",
        )
    finally:
        missing.cache_clear()


def test_everything_ends_with_the_namespaces() -> None:
    assert "--kill-child" in wrapped()
    assert namespace.RECEIVER_HOST != namespace.SENDER_HOST
