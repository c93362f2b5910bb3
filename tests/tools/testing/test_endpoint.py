"""Endpoints on the simulated network have the limits of real ones, and an address belongs to one machine at a time."""

import asyncio
from collections.abc import Callable

import pytest

import triack
from tests.tools.testing.services import B, collect, feed
from triack.base.errors import AddressError, TransportError
from triack.base.reasons import DropReason
from triack.testing import World
from triack.testing.endpoint import Links, SimEndpoint
from triack.transport.address import Address
from triack.transport.frames import FRAME_BYTES_MAX
from triack.transport.udp import MAX_DATAGRAM_BYTES


async def test_a_cut_holds_for_addresses_to_come(triack_world: World) -> None:
    got: list[bytes] = []
    triack_world.machine("b")
    triack_world.cut("b")
    triack_world.machine("a").start(feed, 1)
    triack_world.cut("b", "a")
    triack_world.machine("b").start(collect, got)
    await triack_world.advance(10)
    assert got == []
    triack_world.calm()
    await triack_world.until(lambda: got == [b"0"], timeout=2)


async def test_addresses_are_shared_by_all_machines(triack_world: World) -> None:
    """As on one real host: the second node at an address is refused, and port 0 takes a free one."""
    a, b = triack_world.machine("a"), triack_world.machine("b")
    with a:
        one = await triack.open("one", data="one", listen="udp://127.0.0.1:7801", insecure=True).start()
        free = await triack.open("free", data="free", listen="tcp://127.0.0.1:0", insecure=True).start()
    assert free.address.startswith("tcp://127.0.0.1:49")
    with b:
        two = triack.open("two", data="one", listen="udp://localhost:7801", insecure=True)
        with pytest.raises(triack.TransportError, match="address already in use on machine a"):
            await two.start()
        other = await triack.open("other", data="one", insecure=True).start()
        await (await other.send("udp://localhost:7801/q", b"by name")).ordered(timeout=5)
    assert one.queue_lengths()["q"] == 1
    for node in (one, free, other):
        await node.close()


@pytest.fixture
def open_end(triack_world: World) -> Callable[..., SimEndpoint]:
    """Opens an endpoint on a machine; its datagrams are effects that happen."""

    def open_it(machine: str, scheme: str, listen: str | None = None) -> SimEndpoint:
        address = None if listen is None else Address.parse(listen, listening=True)
        return SimEndpoint(triack_world.links, machine, scheme, address, lambda: True)

    return open_it


@pytest.mark.parametrize(("scheme", "limit_bytes"), [("udp", MAX_DATAGRAM_BYTES), ("tcp", FRAME_BYTES_MAX)])
async def test_what_a_real_endpoint_drops_is_dropped(
    open_end: Callable[..., SimEndpoint], scheme: str, limit_bytes: int
) -> None:
    """And counted by the same reasons."""
    one, other = open_end("a", scheme), open_end("b", scheme)
    await one.send([bytes(limit_bytes), bytes(limit_bytes + 1)], other.address)
    assert [len(data) for data, _ in await other.receive()] == [limit_bytes]
    await one.close()
    await one.send([b"x"], other.address)
    assert one.drops == {DropReason.TOO_LARGE: 1, DropReason.CLOSED: 1}
    await other.close()


async def test_an_endpoint_sends_to_its_own_kind_only(open_end: Callable[..., SimEndpoint]) -> None:
    endpoint = open_end("a", "udp")
    with pytest.raises(AddressError, match="it is not a udp address"):
        await endpoint.send([b"x"], "tcp://10.0.0.2:1")
    await endpoint.close()


async def test_who_waits_learns_that_an_endpoint_is_closed(open_end: Callable[..., SimEndpoint]) -> None:
    """Its address is free again; of one that vanishes nobody learns anything."""
    endpoint = open_end("a", "udp", B)
    waiting = asyncio.create_task(endpoint.receive())
    await asyncio.sleep(0)
    await endpoint.close()
    with pytest.raises(TransportError):
        await waiting
    again = open_end("b", "udp", B)
    waiting = asyncio.create_task(again.receive())
    again.vanish()
    await asyncio.sleep(10)
    assert not waiting.done()
    waiting.cancel()
    open_end("a", "udp", B).vanish()


async def test_of_a_process_that_ends_nothing_more_is_sent(triack_world: World) -> None:
    """Datagram by datagram."""
    left = iter([True, True, False])
    endpoint = SimEndpoint(triack_world.links, "a", "udp", None, lambda: next(left))
    await endpoint.send([b"1", b"2", b"3"], B)
    assert triack_world.network.counts["sent"] == 2
    endpoint.vanish()


@pytest.mark.parametrize("scheme", ["udp", "tcp", "memory"])
def test_free_addresses_are_all_different(triack_world: World, scheme: str) -> None:
    links = Links(triack_world.network)
    assert len({str(links.free(scheme, "127.0.0.1")) for _ in range(100)}) == 100


def test_names_of_machines_mean_their_one_address(triack_world: World) -> None:
    """Other names are no business of the world's."""
    links = triack_world.links
    links.hosts.add("a")
    routes = [links.route(Address.parse(f"udp://{host}:7")) for host in ("a", "localhost", "127.0.0.1", "example.org")]
    assert routes == ["udp://127.0.0.1:7"] * 3 + ["udp://example.org:7"]


async def test_what_is_clogged_arrives_after_it(triack_world: World, open_end: Callable[..., SimEndpoint]) -> None:
    """Between addresses of one kind; those that are opened meanwhile are clogged, too."""
    triack_world.links.clog("a", "b")
    one, other = open_end("a", "udp"), open_end("b", "udp")
    await one.send([b"held"], other.address)
    await other.send([b"free"], one.address)
    assert [data for data, _ in await one.receive()] == [b"free"]
    waiting = asyncio.create_task(other.receive())
    await asyncio.sleep(100)
    assert not waiting.done()
    triack_world.links.heal()
    assert [data for data, _ in await waiting] == [b"held"]
    assert triack_world.links.routes_of("a") == [one.address]
    await one.close()
    await other.close()
