"""The don't-fragment bit: on datagrams longer than the base, and on no others; with the system's own sockets."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from triack.base.reasons import DropReason
from triack.session.path.path_mtu import STEP_BYTES
from triack.session.protocol.settings import SessionSettings
from triack.tools.bench.namespace import wrapped
from triack.transport.fragmenting import IP_MTU_DISCOVER, IPV6_MTU_DISCOVER, PMTUDISC_DONT, PMTUDISC_PROBE, Fragmenting

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux is told which datagrams may be cut")

ROOT = Path(__file__).parents[2]


def why_not() -> str:
    """Why no namespace with a loopback of another MTU can be made here, or an empty string."""
    try:
        tried = subprocess.run([*wrapped(), "ip", "link", "set", "lo", "mtu", "1400", "up"], capture_output=True)  # noqa: PLW1510 - our own
    except OSError as error:
        return str(error)
    return tried.stderr.decode().strip()


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_only_what_is_longer_than_the_base_must_stay_whole(family: int) -> None:
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        fragmenting = Fragmenting(sock)
        for longest, expected in (
            (1_200, PMTUDISC_DONT),
            (1_201, PMTUDISC_PROBE),
            (60_000, PMTUDISC_PROBE),
            (40, PMTUDISC_DONT),
        ):
            fragmenting.choose(longest)
            assert sock.getsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER) == expected
            if family == socket.AF_INET6:
                assert sock.getsockopt(socket.IPPROTO_IPV6, IPV6_MTU_DISCOVER) == expected


NODES = """
import asyncio, sys, triack

async def main(least, host, portable):
    settings = triack.NodeSettings(udp="portable" if portable else "batched")
    async with (
        triack.open("a", data=None, insecure=True, settings=settings) as a,
        triack.open("b", data=None, listen=f"udp://{host}:0", insecure=True, settings=settings) as b,
    ):
        bodies = [bytes([number]) * 3_000 for number in range(40)]
        async with b.receive("q") as arriving:
            for body in bodies:
                await a.send(f"{b.address}/q", body)
            async with asyncio.timeout(60):
                for body in bodies:
                    message = await anext(arriving)
                    assert message.body == body
                size = 0
                while size < int(least):
                    await asyncio.sleep(0.01)
                    (session,) = a.stats().sessions
                    size = session.datagram_bytes
        print(size, a.stats().drops)

asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3] == "portable"))
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["batched", "portable"])
@pytest.mark.parametrize(
    ("mtu", "host"), [(1_400, "127.0.0.1"), (9_000, "127.0.0.1"), (1_400, "[::1]"), (65_536, "127.0.0.1")]
)
def test_nodes_find_the_mtu_of_a_real_path(mtu: int, host: str, kind: str) -> None:
    """A loopback of that MTU: the kernel refuses what is longer, which is counted, and everything arrives."""
    most = min(mtu - (48 if ":" in host else 28), SessionSettings().max_datagram_bytes)
    least = most - (STEP_BYTES if most < SessionSettings().max_datagram_bytes else 0)
    if problem := why_not():
        pytest.skip(f"no network namespace here: {problem}")
    script = f'ip link set lo mtu {mtu} up && exec "$@"'
    command = [*wrapped(), "sh", "-c", script, "sh", sys.executable, "-c", NODES, str(least), host, kind]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    size, _, drops = done.stdout.strip().partition(" ")
    assert least <= int(size) <= most
    assert (DropReason.TOO_LARGE.value in drops) == (mtu < 65_536)
