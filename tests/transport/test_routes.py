"""Names and their addresses: several, and those that change while in use."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from triack.base.errors import AddressError
from triack.transport import routes
from triack.transport.address import Address
from triack.transport.resolve import SocketAddress
from triack.transport.routes import ROUTES_MAX, Routes

PLANT = "udp://plant:7"
ONE, TWO, THREE = ("10.0.0.1", 7), ("2001:db8::2", 7, 0, 0), ("10.0.0.3", 7)


class Names:
    """A resolver, a clock, and the routes that use them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answer: list[SocketAddress] | OSError = [ONE, TWO]
        self.asked = 0
        self.ended: list[tuple[str, OSError | None]] = []
        self.routes = Routes("udp", lambda to, problem: self.ended.append((to, problem)))
        self._now = asyncio.get_running_loop().time()
        monkeypatch.setattr(routes, "lookup", self._lookup)
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: self._now)

    async def _lookup(self, address: Address) -> list[SocketAddress]:
        self.asked += 1
        if isinstance(self.answer, OSError):
            raise self.answer
        return self.answer

    async def after(self, seconds: float) -> SocketAddress | None:
        """Where a datagram goes that is sent after a while, and one behind it, when lookups have ended."""
        self._now += seconds
        self.routes.find(PLANT)
        await asyncio.gather(*self.routes.tasks)
        return self.routes.find(PLANT)


@pytest_asyncio.fixture
async def names(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Names]:
    yield Names(monkeypatch)


async def test_numbers_are_known_at_once(names: Names) -> None:
    assert names.routes.find("udp://10.0.0.1:7") == ONE
    assert names.routes.find("udp://[2001:db8::2]:7") == TWO
    assert (names.asked, names.ended) == (0, [])
    with pytest.raises(AddressError, match="no udp address"):
        names.routes.find("tcp://10.0.0.1:7")


async def test_a_name_is_looked_up_once_however_many_ask(names: Names) -> None:
    assert [names.routes.find(PLANT) for _ in range(3)] == [None] * 3
    assert await names.after(0) == ONE
    assert (names.asked, names.ended) == (1, [(PLANT, None)])


async def test_who_does_not_answer_gives_way_to_the_next(names: Names) -> None:
    """Round and round, a second each."""
    assert await names.after(0) == ONE
    assert await names.after(0.5) == ONE
    assert await names.after(0.6) == TWO
    assert await names.after(0.9) == TWO
    assert await names.after(0.2) == ONE
    assert names.asked == 1


async def test_who_was_heard_is_kept(names: Names) -> None:
    """Until the name is looked up again: from then on it has to be heard anew."""
    assert await names.after(0) == ONE
    assert names.routes.name_of(ONE) == "udp://10.0.0.1:7"
    assert [await names.after(5) for _ in range(11)] == [ONE] * 11
    assert await names.after(10) == ONE
    assert names.asked == 2
    assert await names.after(1.1) == TWO


async def test_a_host_that_moved_is_followed(names: Names) -> None:
    """Within a minute; a resolver that fails meanwhile changes nothing."""
    assert await names.after(0) == ONE
    names.routes.name_of(ONE)
    names.answer = OSError(-3, "Temporary failure in name resolution")
    assert await names.after(61) == ONE
    names.answer = [THREE]
    assert await names.after(30) == ONE
    assert await names.after(31) == THREE


async def test_a_name_that_does_not_exist_is_reported_and_may_come_to_exist(names: Names) -> None:
    problem = names.answer = OSError(-2, "Name or service not known")
    assert names.routes.find(PLANT) is None
    await asyncio.gather(*names.routes.tasks)
    assert names.ended == [(PLANT, problem)]
    names.answer = [THREE]
    assert await names.after(0) == THREE


async def test_nobody_can_make_it_remember_without_end(names: Names) -> None:
    for port in range(1, 3 * ROUTES_MAX):
        names.routes.name_of(("10.0.0.1", port))
        names.routes.find(f"udp://10.0.0.1:{port}")
    tables = [value for value in vars(names.routes).values() if isinstance(value, dict)]
    assert len(tables) == 3
    assert max(len(table) for table in tables) <= ROUTES_MAX
