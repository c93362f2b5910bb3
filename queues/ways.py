"""Which of the neighbours of a route gets its messages: the first that answers.

Promise: a neighbour that has been silent for the time of the route is replaced by the next. It gets its messages back
when it has been well for as long. So one that comes and goes more often than that changes nothing, and no route changes
more often than once in that time, unless the neighbour in use is silent and another one answers.

    USED --silent for the time--> LEFT (called continuously) --well for the time--> USED

A neighbour is silent while this node wants a session with it and has none. If this node does not want to talk to one,
nothing is known of it, and it counts as one that may answer. What is behind a neighbour does not matter: one that
answers, and cannot pass anything on, is not silent.

Nothing of this outlives the process: a start begins with the first neighbour.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from triack.base.news import WayChanged
from triack.base.units import SECOND
from triack.queues.routes import RouteChoice, Routes
from triack.queues.schedule import Schedule


@dataclass(slots=True)
class Contact:
    """What this node knows of a neighbour: whether it answers.

    Attributes:
        well_since_ns: since when each session with it was good, or ended because there was nothing to send; or None.
        silent_since_ns: since when a session with it is wanted and there is none; None if there is one, or none is
            wanted.
        heard_at_ns: when something last arrived from it.
    """

    well_since_ns: int | None = None
    silent_since_ns: int | None = None
    heard_at_ns: int = 0

    def handle_opened(self, now_ns: int) -> None:
        """A session is open."""
        self.silent_since_ns, self.heard_at_ns = None, now_ns
        if self.well_since_ns is None:
            self.well_since_ns = now_ns

    def handle_lost(self, since_ns: int) -> None:
        """A session has ended, and not because there was nothing to send; or a call got no answer."""
        self.well_since_ns = None
        if self.silent_since_ns is None:
            self.silent_since_ns = since_ns

    def handle_wanted(self, now_ns: int, *, wanted: bool) -> None:
        """There is no session with it; ``wanted``: whether there should be."""
        if not wanted:
            self.silent_since_ns = None
        elif self.silent_since_ns is None:
            self.silent_since_ns = now_ns

    def is_silent(self, after_ns: int, now_ns: int) -> bool:
        """Whether it has been silent for that long."""
        return self.silent_since_ns is not None and now_ns - self.silent_since_ns >= after_ns

    def is_well(self, after_ns: int) -> bool:
        """Whether it has answered for that long, and not only been silent without notice."""
        since_ns = self.well_since_ns
        return since_ns is not None and self.silent_since_ns is None and self.heard_at_ns - since_ns >= after_ns


ASKS = 4
"""Questions in the time that counts: a neighbour that comes and goes within it fails to answer one."""
_UNKNOWN = Contact()


def choose(index: int, contacts: Sequence[Contact], after_ns: int, now_ns: int) -> int:
    """The index of the neighbour to use next. ``contacts``: the preferred one first; ``index``: the one in use."""
    for earlier in range(index):
        if contacts[earlier].is_well(after_ns):
            return earlier
    if not contacts[index].is_silent(after_ns, now_ns):
        return index
    for other, contact in enumerate(contacts):
        if contact.is_well(0):
            return other
    # All before it are called already, without success.
    for later in range(index + 1, len(contacts)):
        if not contacts[later].is_silent(after_ns, now_ns):
            return later
    return index


@dataclass(eq=False, repr=False)
class Ways:
    """The neighbours in use of all routes that have several.

    Args:
        contact_of: what is known of a neighbour; None for nothing.
        call: from now on, call these neighbours, and no others, even if there is nothing to send to them.
        ask: ask a neighbour whether it is still there, if there is a session with it.
        on_changed: called with the time when another neighbour is in use of some route.
        is_open: whether this node says anything of its own.
    """

    routes: Routes
    contact_of: Callable[[str], Contact | None]
    call: Callable[[Collection[str]], None]
    ask: Callable[[str], None]
    on_changed: Callable[[int], None]
    is_open: Callable[[], bool]

    def __post_init__(self) -> None:
        self._looked_ns = 0
        self.news: list[WayChanged] = []

    def register(self, schedule: Schedule) -> None:
        """Register when neighbours are looked at."""
        schedule.timer(self.handle_timer, needs=(self.routes.choices,))
        schedule.deadline(self.next_deadline, self.routes.choices)
        schedule.tell(self.news)

    def handle_routes_changed(self) -> None:
        """The routes have changed: call only the neighbours that are preferred to those in use."""
        choices = self.routes.choices.values()
        self.call({via for choice in choices for via in choice.ways[: choice.index]})

    def handle_timer(self, turn: Any) -> None:
        """Check all, unless the node says nothing of its own."""
        if self.is_open() and self.handle_time(turn.now_ns):
            self.on_changed(turn.now_ns)

    def handle_time(self, now_ns: int) -> bool:
        """Check all. Returns whether another neighbour is in use of some route."""
        changed, self._looked_ns = False, now_ns
        for choice in self.routes.choices.values():
            index = choose(choice.index, self._contacts(choice), choice.after_ns, now_ns)
            if index != choice.index:
                before, choice.index = choice.via, index
                self.news.append(WayChanged(choice.ways, choice.via, before))
                changed = True
            if choice.index and now_ns >= choice.ask_at_ns:
                choice.ask_at_ns = now_ns + choice.after_ns // ASKS
                for via in choice.ways[: choice.index]:
                    self.ask(via)
        if changed:
            self.handle_routes_changed()
        return changed

    def next_deadline(self) -> int | None:
        """When ``handle_time`` must be called at the latest, or None."""
        earliest: int | None = None
        if not self.is_open():
            return earliest
        for choice in self.routes.choices.values():
            contacts = self._contacts(choice)
            silent_ns = contacts[choice.index].silent_since_ns
            over_ns = 0 if silent_ns is None else silent_ns + choice.after_ns
            for at_ns in (over_ns, choice.ask_at_ns if choice.index else 0):
                if at_ns > self._looked_ns:
                    earliest = at_ns if earliest is None else min(earliest, at_ns)
        return earliest

    def _contacts(self, choice: RouteChoice) -> list[Contact]:
        return [self.contact_of(via) or _UNKNOWN for via in choice.ways]

    def explain(self, choice: RouteChoice, now_ns: int) -> str:
        """Why this neighbour is in use."""
        contacts = self._contacts(choice)
        told = [_say(via, it, choice.after_ns, now_ns) for via, it in zip(choice.ways, contacts, strict=True)]
        if choice.index:
            return ", ".join(told[: choice.index])
        return told[0] if contacts[0].silent_since_ns is not None else f"{choice.via} comes first"


def _say(via: str, contact: Contact, after_ns: int, now_ns: int) -> str:
    if contact.silent_since_ns is not None:
        return f"{via} has been silent for {(now_ns - contact.silent_since_ns) / SECOND:.0f} s"
    if contact.well_since_ns is not None:
        back_s = (contact.heard_at_ns - contact.well_since_ns) / SECOND
        return f"{via} has been back for {back_s:.0f} s of {after_ns / SECOND:g} s"
    return f"{via} has not answered yet"
