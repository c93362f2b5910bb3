"""A UDP endpoint survives every fault of a datagram, with both families of addresses and both kinds of socket."""

import asyncio
import errno
import socket
import subprocess
import sys

import pytest

from tests.machine import PATIENCE_S
from tests.transport.endpoints import Opener, dropped, received
from triack.base.reasons import DropReason
from triack.transport.endpoint import Endpoint
from triack.transport.turns import Received
from triack.transport.udp import WAITING_MAX

pytestmark = pytest.mark.usefixtures("socket_kind")


def port_of(endpoint: Endpoint) -> int:
    return int(endpoint.address.rpartition(":")[2])


async def test_unresolved(opened: Opener) -> None:
    endpoint = await opened("udp")
    await endpoint.send([b"1", b"2"], "udp://no-such-host.invalid:1")
    assert await dropped(endpoint, DropReason.UNRESOLVED) == 2


async def test_survives_refusal(opened: Opener) -> None:
    here, there, gone = await opened("udp", loopback_only=False), await opened("udp"), await opened("udp")
    await gone.close()
    for address in (gone.address, "udp://255.255.255.255:9", "udp://[fe80::1%nowhere]:9"):
        await here.send([b"x"] * 3, address)
    await here.send([b"y"], there.address)
    assert await received(there, 1) == [Received(b"y", here.address)]
    assert here.drops[DropReason.WRONG_FAMILY] == 3
    assert here.drops[DropReason.SEND_ERROR] > 0


async def test_without_ipv6_that_is_the_reason(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.socket

    def old_machine(family: int, *more: int) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        return real(family, *more)

    here = await opened("udp")
    monkeypatch.setattr("triack.transport.resolve.socket.socket", old_machine)
    await here.send([b"x"] * 3, "udp://[::1]:9")
    assert here.drops == {"wrong-family": 3}


@pytest.mark.parametrize("listen", [None, "udp://127.0.0.1:0", "udp://[::1]:0", "udp://0.0.0.0:0", "udp://[::]:0"])
@pytest.mark.parametrize("loopback_only", [True, False])
async def test_both_families_are_reached_from_everywhere(
    opened: Opener, listen: str | None, loopback_only: bool
) -> None:
    """And answer; a node that listens is known by the address at which it does, if the other one can reach that."""
    here = await opened("udp", listen, loopback_only=loopback_only)
    for place in ("udp://127.0.0.1:0", "udp://[::1]:0"):
        there = await opened("udp", place)
        await here.send([b"x"], there.address)
        ((data, sender),) = await received(there, 1)
        await there.send([b"y"], sender)
        assert (data, await received(here, 1)) == (b"x", [Received(b"y", there.address)])
        if listen in (place, "udp://[::]:0"):
            assert sender.endswith(f":{port_of(here)}")
    assert not here.drops


async def test_without_keys_nothing_leaves_the_machine(opened: Opener) -> None:
    """Whatever is listened at; nor does an address that only looks like a name."""
    for listen in (None, "udp://127.0.0.1:0", "udp://0.0.0.0:0"):
        here = await opened("udp", listen)
        for host in ("192.0.2.1", "[2001:db8::1]", "[::ffff:192.0.2.1]", "255.255.255.255", "0.0.0.0"):
            await here.send([b"x"], f"udp://{host}:9")
        assert here.drops == {"not-loopback": 5}


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system chooses")
@pytest.mark.parametrize("listen", ["udp://0.0.0.0:0", "udp://[::]:0"])
async def test_an_answer_leaves_from_the_address_that_was_called(opened: Opener, listen: str) -> None:
    """By itself or in a run, for as long as anybody knows the path: a firewall lets in no other."""
    here = await opened("udp", listen)
    port = port_of(here)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as caller:
        caller.bind(("127.0.0.1", 0))
        caller.settimeout(PATIENCE_S)
        for host in ("127.0.0.1", "127.0.0.2", "127.0.0.3"):
            caller.sendto(b"call", (host, port))
            ((_, path),) = await received(here, 1)
            burst = [b"answer", b"answer", b"end"]
            await here.send(burst, path)
            assert [caller.recvfrom(10) for _ in burst] == [(said, (host, port)) for said in burst]
    assert not here.drops


async def test_one_caller_at_two_addresses_has_two_paths(opened: Opener) -> None:
    """So no sender of forged datagrams makes an answer to the caller leave from elsewhere."""
    here = await opened("udp", "udp://0.0.0.0:0")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as caller:
        caller.bind(("127.0.0.1", 0))
        address = f"udp://127.0.0.1:{caller.getsockname()[1]}"
        for host in ("127.0.0.1", "127.0.0.2"):
            caller.sendto(b"call", (host, port_of(here)))
    assert [path for _, path in await received(here, 2)] == [address, f"{address}?at=127.0.0.2"]


FAULTS = """
import asyncio, resource, sys
from triack.transport import udp
from triack.transport.address import Address

if sys.argv[1] == "portable":
    udp.offers_batches = lambda sock: False

async def main():
    listen = Address.parse("udp://127.0.0.1:0", listening=True)
    here, there = [await udp.UdpEndpoint.open(listen, loopback_only=True) for _ in range(2)]
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


def test_to_receive_does_not_go_to_the_system_for_memory(socket_kind: str) -> None:
    """Not for each datagram: a thousand of them make fewer page faults than that.

    In a process of its own, as what a process did before decides what its memory does next.
    """
    command = [sys.executable, "-c", FAULTS, socket_kind]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    assert int(done.stdout) < 500


async def test_a_name_is_not_looked_up_without_end(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a resolver is silent, what waits has a bound, and closing does not wait for it."""

    async def never(_address: object) -> list[object]:
        await asyncio.Event().wait()
        return []

    monkeypatch.setattr("triack.transport.routes.lookup", never)
    endpoint = await opened("udp")
    await endpoint.send([b"x"] * (WAITING_MAX - 1), "udp://plant:1")
    await endpoint.send([b"x"] * 3, "udp://plant:1")
    assert endpoint.drops == {"unresolved": 2}
    async with asyncio.timeout(PATIENCE_S):
        await endpoint.close()


@pytest.mark.parametrize("listen", ["udp://127.0.0.1:0", "udp://[::1]:0", "udp://[::]:0"])
@pytest.mark.parametrize("place", ["udp://127.0.0.1:0", "udp://[::1]:0"])
async def test_a_burst_of_all_sizes_keeps_its_order(opened: Opener, listen: str, place: str) -> None:
    """Whatever of it leaves together, from every kind of address to every other."""
    here, there = await opened("udp", listen), await opened("udp", place)
    sizes = [1, 1200, 1200, 700, 1200, 1200, 1201, 1200, 60_000, 60_000, 1, 2, 3, 3, *[1200] * 70]
    burst = [bytes([number]) * size for number, size in enumerate(sizes)]
    await here.send(burst, there.address)
    assert [data for data, _ in await received(there, len(burst))] == burst
    assert (here.drops, there.drops) == ({}, {})


async def test_an_empty_datagram_means_nothing(opened: Opener) -> None:
    """Anyone can send one; the endpoint says so of a path that is gone, and must not say it for them."""
    there = await opened("udp")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.sendto(b"", ("127.0.0.1", port_of(there)))
        assert await dropped(there, DropReason.EMPTY) == 1
