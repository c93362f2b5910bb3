"""A UDP socket outlives everything that may happen to a datagram, and both families of addresses."""

import subprocess
import sys

import pytest

from tests.transport.endpoints import Opener, dropped, received
from triack.base.reasons import DropReason
from triack.transport.endpoint import Received


@pytest.mark.asyncio
async def test_unresolved(opened: Opener) -> None:
    """Datagrams to a name that does not exist are counted."""
    endpoint = await opened("udp")
    await endpoint.send([b"1", b"2"], "udp://no-such-host.invalid:1")
    assert await dropped(endpoint, DropReason.UNRESOLVED) == 2


@pytest.mark.asyncio
async def test_survives_refusal(opened: Opener) -> None:
    """Neither nobody at home nor a forbidden address ends the endpoint."""
    here, there, gone = await opened("udp"), await opened("udp"), await opened("udp")
    await gone.close()
    for address in (gone.address, "udp://255.255.255.255:9", "udp://[::1]:9"):
        await here.send([b"x"] * 3, address)
    await here.send([b"y"], there.address)
    assert await received(there, 1) == [Received(b"y", here.address)]
    assert here.drops[DropReason.WRONG_FAMILY] == 3
    assert here.drops[DropReason.SEND_ERROR] > 0


@pytest.mark.asyncio
async def test_ipv6(opened: Opener) -> None:
    """IPv6 addresses work, brackets and all."""
    here, there = await opened("udp", "udp://[::1]:0"), await opened("udp", "udp://[::1]:0")
    await here.send([b"x"], there.address)
    assert await received(there, 1) == [Received(b"x", here.address)]


@pytest.mark.asyncio
async def test_both_families_on_one_socket(opened: Opener) -> None:
    """A socket for all addresses answers an IPv4 peer by its IPv4 address."""
    here, there = await opened("udp"), await opened("udp", "udp://[::]:0")
    await here.send([b"x"], there.address.replace("[::]", "127.0.0.1"))
    assert await received(there, 1) == [Received(b"x", here.address)]
    await there.send([b"y"], here.address)
    assert [data for data, _ in await received(here, 1)] == [b"y"]


FAULTS = """
import asyncio, resource
from triack.transport.address import Address
from triack.transport.udp import UdpEndpoint

async def main():
    here, there = [await UdpEndpoint.open(Address.parse("udp://127.0.0.1:0", listening=True)) for _ in range(2)]
    for round in range(200):
        if round == 100:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        await here.send([bytes(1_200)] * 10, there.address)
        count = 0
        while count < 10:
            count += len(await there.receive())
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    await here.close()
    await there.close()

asyncio.run(main())
"""


def test_to_receive_does_not_go_to_the_system_for_memory() -> None:
    """Not for each datagram: a thousand of them make fewer page faults than that.

    In a process of its own, as what a process did before decides what its memory does next.
    """
    done = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True, timeout=60)
    assert int(done.stdout) < 500
