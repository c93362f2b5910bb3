"""A network that is a dictionary."""

import pytest

from triack.transport.endpoint import Received
from triack.transport.memory import MemoryNetwork


@pytest.mark.asyncio
async def test_filter() -> None:
    """The network's hook may drop, repeat and change what passes."""
    network = MemoryNetwork(lambda data, sender, to: [data, data] if data == b"twice" else [])
    a, b = network.endpoint("a"), network.endpoint("b")
    await a.send([b"never", b"twice"], b.address)
    await a.send([b"x"], "memory://nobody")
    assert await b.receive() == [Received(b"twice", "memory://a")] * 2
    assert a.drops == {"unreachable": 1}


@pytest.mark.asyncio
async def test_unnamed_endpoints_and_names_that_are_free_again() -> None:
    """Two of one network never share an address; what a closed one leaves can be taken."""
    network = MemoryNetwork()
    one, two = network.endpoint(), network.endpoint()
    assert one.address != two.address
    await one.close()
    again = network.endpoint(one.address.removeprefix("memory://"))
    await two.send([b"x"], one.address)
    assert await again.receive() == [Received(b"x", two.address)]
    assert MemoryNetwork().endpoint("a").address == MemoryNetwork().endpoint("a").address
