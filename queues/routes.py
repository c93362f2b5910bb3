"""Routes: by which neighbour messages for a node go, when this node holds no session with that node itself.

They are static, as in MSMQ without a directory. A route names destinations by a pattern, and neighbours: the first that
answers is used (``triack.queues.ways``). Each relay on the way decides by its own routes.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal

from triack.base.checks import check_kind, check_settings
from triack.base.errors import UsageError
from triack.base.names import check_name, composed
from triack.base.peers import Directory
from triack.base.units import SECOND
from triack.ordering.onward import OnwardSettings

BY_HAND = "@"
"""In a destination ``plant-b@hub``: to plant-b by way of hub, whatever the routes say. No name has it."""
PATTERN_LETTERS_MAX = 256
"""Twice as many as in a name."""
ONWARD_INTERVAL_S = 0.5
"""Between two reports of what was passed on: as long as an order ack waits for others by default."""
SWITCH_AFTER_S = 10.0
"""Longer than a restart of a process, and than the connect timeout; short beside the minutes of a relay's failure."""
WAYS_MAX = 8
"""Neighbours of one route: each that comes before the one in use is called continuously."""
LinkName = Literal["async", "sync"]
"""How a link frees packets, by its name."""


@dataclass(frozen=True, slots=True)
class Route:
    """One route.

    Attributes:
        to: the destinations that it is for: a name, or a pattern as of ``fnmatch``. ``*`` is for all of them, and makes
            a default route when it comes last.
        via: the neighbour that takes the messages, a peer of this node. Of a list of them the first is used; while that
            is silent, the next.
        rename: how that neighbour calls the destination; empty when it uses the same name. Only for a ``to`` that is a
            name.
        link: ``async``: this node lets go of a recoverable message when the neighbour has stored it, as MSMQ does.
            ``sync``: when the neighbour has passed it on, and the node behind it has stored it, or the one behind that
            if that link is synchronous, too. All routes by one neighbour say the same.
        downgrade_after_s: a synchronous link is asynchronous when its oldest message has waited for longer, until the
            oldest has waited for half of that. It has no default, as only its owner knows how long senders may wait.
            Too small: a short pause makes the link asynchronous; too large: senders wait that long for a node that is
            gone.
        grace_s: for that long after its start the node does not downgrade the link. Too small: each start of a relay
            makes the link asynchronous; too large: senders wait after a start for a node that is gone.
        onward_interval_s: how long this node gathers what it has passed on by this link before it tells those that wait
            for that. Too small: more of these reports travel; too large: senders wait for longer.
        seal: whether messages of this node that go by it are sealed for their destinations. Not with ``rename``.
        switch_after_s: with several neighbours: the next one is used when the one in use has been silent for that long,
            and an earlier one again when it has been back for that long. Too small: a short pause sends messages by the
            other way; too large: they wait for a neighbour that is gone.

    Raises:
        UsageError, AddressError: a name or a pattern is not valid, or what is said of the link.
    """

    to: str
    via: str | Sequence[str]
    rename: str = ""
    link: LinkName = "async"
    downgrade_after_s: float | None = None
    grace_s: float = 0.0
    onward_interval_s: float = ONWARD_INTERVAL_S
    seal: bool = False
    switch_after_s: float = SWITCH_AFTER_S

    def __post_init__(self) -> None:
        check_kind("Route: to", self.to, str)
        if not 0 < len(self.to) <= PATTERN_LETTERS_MAX or not self.to.isprintable():
            raise UsageError(f"Route: to is {self.to!r}, no name of a node and no pattern of names, such as plant-*")
        if BY_HAND in self.to or "/" in self.to:
            raise UsageError(f"Route: to is {self.to!r}: a route is for nodes, without queues and without {BY_HAND}")
        for name, value in (("to", composed(self.to)), ("via", _check_via(self.via))):
            object.__setattr__(self, name, value)
        if self.rename:
            object.__setattr__(self, "rename", check_name(self.rename))
            if self.is_pattern:
                raise UsageError(
                    f"Route: rename is {self.rename!r}, and to is a pattern: many nodes cannot have one name"
                )
        check_kind("Route: seal", self.seal, bool)
        if self.seal and self.rename:
            raise UsageError(f"Route: rename is {self.rename!r}: messages that are sealed keep the name of their node")
        self._check_link()

    def _check_link(self) -> None:
        if self.link not in ("async", "sync"):
            raise UsageError(f"Route: link is {self.link!r}: write async or sync")
        check_settings(self, may_be_zero=("grace_s",))
        for name in ("grace_s", "onward_interval_s", "switch_after_s"):
            check_kind(f"Route: {name}", getattr(self, name), int | float)
        if self.link == "async":
            for name in ("downgrade_after_s", "grace_s"):
                if getattr(self, name):
                    raise UsageError(f"Route: {name} is for a link that is sync, and this one is async")
        elif self.downgrade_after_s is None:
            raise UsageError(
                "Route: link is sync, and downgrade_after_s, which has no default, does not say how long its oldest "
                "message may wait"
            )

    @property
    def ways(self) -> tuple[str, ...]:
        """The neighbours, the preferred one first."""
        return (self.via,) if isinstance(self.via, str) else tuple(self.via)

    @property
    def about_link(self) -> tuple[object, ...]:
        """What it says of the link: the same in all routes by one neighbour."""
        return self.link, self.downgrade_after_s, self.grace_s, self.onward_interval_s

    @property
    def sync(self) -> OnwardSettings | None:
        """The bounds of a synchronous link; None of an asynchronous one."""
        after_s = self.downgrade_after_s
        if self.link == "async" or after_s is None:
            return None
        below_s = after_s / 2  # far enough below it that the link does not change to and fro
        return OnwardSettings(*(round(seconds * SECOND) for seconds in (after_s, below_s, self.grace_s)))

    @property
    def is_pattern(self) -> bool:
        """Whether it is for more than one name."""
        return any(char in self.to for char in "*?[")


def _check_via(via: object) -> str | tuple[str, ...]:
    if isinstance(via, str) or not isinstance(via, Sequence):
        return check_name(via)
    names = tuple(map(check_name, via))
    if not 0 < len(names) <= WAYS_MAX or len(set(names)) < len(names):
        raise UsageError(f"Route: via is {via!r}: name 1 to {WAYS_MAX} neighbours, each once")
    return names if len(names) > 1 else names[0]


def check_routes(operation: str, routes: object) -> tuple[Route, ...]:
    """The routes of a caller. Raises UsageError when these are no routes."""
    if not isinstance(routes, Iterable) or isinstance(routes, str | bytes):
        raise UsageError(f"{operation}: routes must be a list of Route, not {routes!r}")
    found = tuple(routes)
    for route in found:
        check_kind(f"{operation}: a route", route, Route)
    first: dict[str, Route] = {}
    for route in found:
        for via in route.ways:
            other = first.setdefault(via, route)
            if other.about_link != route.about_link:
                raise UsageError(
                    f"{operation}: the routes to {other.to} and to {route.to} go by {via}, "
                    "and say different things of that link"
                )
    return found


@dataclass(slots=True)
class RouteChoice:
    """Which of several neighbours is in use; all routes with the same ones share it.

    Attributes:
        ways: the neighbours, the preferred one first.
        after_ns: the time that counts, as ``Route.switch_after_s``.
        index: of the one in use.
        ask_at_ns: when to ask those before it whether they are still there.
    """

    ways: tuple[str, ...]
    after_ns: int
    index: int = 0
    ask_at_ns: int = 0

    @property
    def via(self) -> str:
        """The one in use."""
        return self.ways[self.index]


@dataclass(frozen=True, slots=True)
class Way:
    """The way to a destination.

    Attributes:
        via: the neighbour that gets the messages, by name or address.
        final: how that neighbour is to resolve the destination; empty when it is the destination itself.
        renamed: whether the neighbour calls the destination by another name, as the route says.
        seal: whether the route seals messages of this node.
        choice: which of several neighbours is in use.
    """

    via: str
    final: str
    why: str
    renamed: bool = False
    seal: bool = False
    choice: RouteChoice | None = field(default=None, compare=False)

    @property
    def is_direct(self) -> bool:
        """Whether no relay is on the way."""
        return not self.final


class Routes:
    """The routes of a node; one object for all readers, changed in place.

    Args:
        routes: in the order in which they are tried.

    Attributes:
        has_met: whether a peer has ever had a session with this node, as far as is known.
    """

    def __init__(self, directory: Directory, routes: Iterable[Route] = ()) -> None:
        self.has_met: Callable[[str], bool] = lambda _: True
        self._directory = directory
        self.choices: dict[tuple[tuple[str, ...], float], RouteChoice] = {}
        self.replace(routes)

    def replace(self, routes: Iterable[Route]) -> None:
        """Have these, and no others. Of neighbours that were there before, the same one stays in use."""
        self.all = tuple(routes)
        several = {(it.ways, it.switch_after_s) for it in self.all if len(it.ways) > 1}
        choices = {key: self.choices.get(key) or RouteChoice(key[0], round(key[1] * SECOND)) for key in sorted(several)}
        self.choices.clear()
        self.choices |= choices
        self._exact = {route.to: route for route in reversed(self.all) if not route.is_pattern}
        self._by_via = {via: route for route in self.all for via in route.ways}
        self._patterns = [route for route in self.all if route.is_pattern]

    def way(self, final: str) -> Way | None:
        """The way to a destination by its name, or None when nothing says where it is.

        The first of these that applies: the way in the name itself (``plant-b@hub``); a route for exactly that name; a
        peer of that name that has an address, or has had a session with this node; the first route whose pattern
        matches; any other peer of that name, such as one that is trusted so that messages can be sealed for it.
        """
        return next(self._decisions(final), None)

    def sync_link(self, via: str) -> OnwardSettings | None:
        """The bounds of the link to a neighbour, if it is synchronous; None if not."""
        route = self._by_via.get(via)
        return None if route is None else route.sync

    def onward_interval_ns(self, via: str) -> int:
        """How long this node gathers what it has passed on to a neighbour before it reports that to those that wait."""
        route = self._by_via.get(via)
        return round((ONWARD_INTERVAL_S if route is None else route.onward_interval_s) * SECOND)

    def explain(self, final: str, why_in_use: Callable[[RouteChoice], str]) -> list[str]:
        """Every rule that applies to a destination, the one that counts first."""
        ways = self._decisions(final)
        return [f"{it.why}: {why_in_use(it.choice)}" if it.choice is not None else it.why for it in ways]

    def way_of(self, final: str) -> Way:
        """The same for senders: if no rule names a destination, messages wait for a peer of that name."""
        return self.way(final) or Way(final, "", f"nothing says where {final} is: no peer has that name, and no route")

    def _decisions(self, final: str) -> Iterator[Way]:
        name, by_hand, via = final.rpartition(BY_HAND)
        if by_hand:
            yield Way(via, name, f"{final} names {via} by hand")
        elif "://" in final:
            yield Way(final, "", f"{final} is an address")
        if final in self._exact:
            yield self._by(self._exact[final], final)
        peer = self._directory.named(final)
        is_near = peer is not None and (bool(peer.addresses) or self.has_met(final))
        if is_near:
            yield Way(final, "", f"{final} is a peer")
        yield from (self._by(route, final) for route in self._patterns if fnmatchcase(final, route.to))
        if peer is not None and not is_near:
            yield Way(final, "", f"{final} is a peer without an address, which has not called yet")

    def choice_of(self, route: Route) -> RouteChoice | None:
        """Which neighbour of a route that has several is in use; None when it has one."""
        return None if isinstance(route.via, str) else self.choices[route.ways, route.switch_after_s]

    def _by(self, route: Route, final: str) -> Way:
        choice = self.choice_of(route)
        via = route.ways[0] if choice is None else choice.via
        if via == final and not route.rename:
            return Way(final, "", f"the route for {route.to} leads to it directly", seal=route.seal, choice=choice)
        called = f", which calls it {route.rename}" if route.rename else ""
        why = f"the route for {route.to} leads by {via}{called}"
        return Way(via, route.rename or final, why, bool(route.rename), route.seal, choice)
