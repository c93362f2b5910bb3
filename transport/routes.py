"""Where the addresses are that an endpoint sends to: numbers immediately, names after a lookup in the background.

A name may have several addresses, and its host may move. The route keeps an address that has answered; otherwise it
tries the next one after a second. Every minute it looks the name up again, and the addresses must answer anew.
"""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass

from triack.base.errors import AddressError
from triack.transport.address import Address
from triack.transport.resolve import SocketAddress, address_of, lookup, lookup_numeric

ROUTES_MAX = 4_096
"""Remembered addresses, each way: anyone can send from any address, so there must be a limit."""
NAME_LIFETIME_SECONDS = 60.0
"""After this time a name is looked up again, as its host may have moved; resolvers do not return its TTL."""
TRY_SECONDS = 1.0
"""By then a second connect has been sent (``session/protocol/opening.py``), and a connect has time for several
addresses."""


@dataclass(slots=True)
class _Route:
    """Where one address is.

    Attributes:
        options: the socket addresses of its name; just one for a number.
        expires_at_seconds: when to look the name up again.
        look_at_seconds: when there is something to do, at the earliest.
    """

    options: list[SocketAddress]
    chosen: SocketAddress
    since_seconds: float = 0.0
    expires_at_seconds: float = math.inf
    look_at_seconds: float = math.inf


class Routes:
    """The ways from one endpoint."""

    def __init__(self, scheme: str, on_lookup: Callable[[str, OSError | None], None]) -> None:
        self._scheme = scheme
        self._on_lookup = on_lookup
        self._routes: dict[str, _Route] = {}
        self._names: dict[SocketAddress, str] = {}
        self._pending: dict[str, asyncio.Task[None]] = {}

    @property
    def tasks(self) -> list["asyncio.Task[None]"]:
        """The lookups that are under way, for the closing of the endpoint."""
        return list(self._pending.values())

    # ---- receiving

    def name_of(self, sockaddr: SocketAddress) -> str:
        """The address of a sender at that socket address."""
        return self._names.get(sockaddr) or self._name(sockaddr)

    def _name(self, sockaddr: SocketAddress) -> str:
        if len(self._names) >= ROUTES_MAX:
            self._names.clear()
        name = self._names[sockaddr] = address_of(self._scheme, sockaddr)
        return name

    # ---- sending

    def find(self, to: str) -> SocketAddress | None:
        """Return where ``to`` is; None while a lookup runs, which calls ``on_lookup`` when it ends.

        Raises:
            AddressError: it is of another scheme.
            OSError: it is a number that has no meaning on this machine.
        """
        route = self._routes.get(to)
        if route is None:
            return self._begin(to)
        if route.look_at_seconds != math.inf:
            self._look_after(to, route, asyncio.get_running_loop().time())
        return route.chosen

    def is_fixed(self, to: str) -> bool:
        """Whether ``to`` is a number that ``find`` has found: it never moves."""
        route = self._routes.get(to)
        return route is not None and route.look_at_seconds == math.inf and route.expires_at_seconds == math.inf

    def _begin(self, to: str) -> SocketAddress | None:
        if to in self._pending:
            return None
        address = Address.parse(to)
        if address.scheme != self._scheme:
            raise AddressError(f"cannot send to {to!r}: it is no {self._scheme} address")
        sockaddr = lookup_numeric(address)
        if sockaddr is None:
            self._start_lookup(to, address)
        else:
            self._remember(to, _Route([sockaddr], sockaddr))
        return sockaddr

    def _remember(self, to: str, route: _Route) -> None:
        if len(self._routes) >= ROUTES_MAX:
            self._routes.clear()  # those in use come back with their next datagram
        self._routes[to] = route

    def _look_after(self, to: str, route: _Route, now_seconds: float) -> None:
        if now_seconds < route.look_at_seconds:
            return
        if now_seconds >= route.expires_at_seconds:
            route.expires_at_seconds = math.inf  # until the lookup ends
            self._start_lookup(to, Address.parse(to))
        is_heard = address_of(self._scheme, route.chosen) in self._names.values()
        if not is_heard and now_seconds >= route.since_seconds + TRY_SECONDS:
            index = route.options.index(route.chosen) + 1
            route.chosen, route.since_seconds = route.options[index % len(route.options)], now_seconds
        has_choice = len(route.options) > 1 and not is_heard
        route.look_at_seconds = min(route.expires_at_seconds, now_seconds + TRY_SECONDS if has_choice else math.inf)

    def _start_lookup(self, to: str, address: Address) -> None:
        self._pending[to] = asyncio.create_task(self._look_up(to, address))

    async def _look_up(self, to: str, address: Address) -> None:
        problem = None
        try:
            self._take(to, await lookup(address))
        except OSError as error:
            problem = error
            if (route := self._routes.get(to)) is not None:  # the last result is the best we have
                route.expires_at_seconds = asyncio.get_running_loop().time() + NAME_LIFETIME_SECONDS
                route.look_at_seconds = min(route.look_at_seconds, route.expires_at_seconds)
        finally:
            del self._pending[to]
        self._on_lookup(to, problem)

    def _take(self, to: str, options: list[SocketAddress]) -> None:
        now_seconds = asyncio.get_running_loop().time()
        before = self._routes.get(to)
        chosen = before.chosen if before is not None and before.chosen in options else options[0]
        heard = address_of(self._scheme, chosen)
        for sockaddr in [sockaddr for sockaddr, name in self._names.items() if name == heard]:
            del self._names[sockaddr]
        expires_at_seconds = now_seconds + NAME_LIFETIME_SECONDS
        self._remember(to, _Route(options, chosen, now_seconds, expires_at_seconds, now_seconds + TRY_SECONDS))
