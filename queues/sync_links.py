"""The synchronous links of a node: how far each is behind, and whether it is asynchronous for now.

A packet is awaited from when it is on this node's disk until the neighbour has passed it on. It need not be stored so
long: over a link that is asynchronous for now this node deletes it earlier.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from triack.base.news import LinkDowngraded, LinkUpgraded
from triack.base.ranges import Range
from triack.base.session_log import Record
from triack.base.units import SECOND
from triack.ordering.onward import Awaited, LinkMode, SyncLink
from triack.queues.routes import Routes, Way
from triack.queues.schedule import Schedule


@dataclass(slots=True)
class NextHop:
    """What one stream knows of the node that its packets go to.

    Attributes:
        awaited: whether the link is synchronous, by the routes, so that the node says what it has passed on.
        is_async: whether it has said, in this session, that its store acks are enough.
        turn: turn of its last statement about that.
        former: the neighbours that got the stream before, in this process, by name.
    """

    awaited: bool = False
    is_async: bool = False
    turn: int = 0
    former: tuple[str, ...] = ()

    def handle_word(self, turn: int, *, is_async: bool) -> bool:
        """It says whether its store acks are enough. Returns whether this is newer than earlier statements."""
        if turn <= self.turn:
            return False
        self.turn, self.is_async = turn, is_async
        return True

    def handle_session_closed(self) -> None:
        """What it has said ends with the session."""
        self.turn, self.is_async = 0, False


@dataclass(eq=False, repr=False)
class SyncLinks:
    """The synchronous links of a node, by its routes.

    Attributes:
        changed: the links to check, by name; while there are none, time does not matter.
        listeners: called with the neighbour of each link that has changed its mode, and the next commit.
    """

    routes: Routes
    record: Record
    start_ns: int

    def __post_init__(self) -> None:
        self._links: dict[str, SyncLink] = {}
        self.awaited: dict[Hashable, Awaited] = {}
        self._by_link: dict[str, dict[Hashable, Awaited]] = {}
        self.changed: dict[str, None] = {}
        self.news: list[LinkDowngraded | LinkUpgraded] = []
        self.listeners: list[Callable[[str, Any], None]] = []

    def register(self, schedule: Schedule) -> None:
        """Register when links are looked at."""
        schedule.timer(self.handle_timer, needs=(self.changed,))
        schedule.deadline(self.next_deadline, self.changed)
        schedule.tell(self.news)

    # ---- which links

    def awaits(self, way: Way | None) -> bool:
        """Whether packets that go by a way wait for the report that they were passed on."""
        return way is not None and not way.is_direct and self.routes.sync_link(way.via) is not None

    def is_sync(self, way: Way | None) -> bool:
        """The same, and the link is not asynchronous for now."""
        return way is not None and self.awaits(way) and self._link(way.via).mode is LinkMode.SYNC

    def mode_of(self, via: str) -> LinkMode:
        """How the link to a neighbour frees packets now."""
        return LinkMode.ASYNC if self.routes.sync_link(via) is None else self._link(via).mode

    def _link(self, via: str) -> SyncLink:
        settings, link = self.routes.sync_link(via), self._links.get(via)
        assert settings is not None
        if link is None or link.settings != settings:
            before, link = link, SyncLink(settings, self.start_ns)
            link.mode = link.mode if before is None else before.mode
            self._links[via] = link
        return link

    # ---- packets

    def add(self, way: Way | None, stream: Hashable, ranges: Iterable[Range], now_ns: int) -> None:
        """Packets of a stream that go by a way are on the disk."""
        if way is None or not self.awaits(way):
            return
        awaited = self.awaited.setdefault(stream, Awaited())
        self._by_link.setdefault(way.via, {})[stream] = awaited
        for first, last in ranges:
            awaited.add(first, last, now_ns)
        self.changed[way.via] = None

    def remove(self, way: Way | None, stream: Hashable, ranges: Iterable[Range]) -> list[Range]:
        """Packets were passed on, or are not awaited any more for another reason. Returns those that were awaited."""
        awaited = self.awaited.get(stream)
        if awaited is None or way is None:
            return []
        self.changed[way.via] = None
        return awaited.remove(ranges)

    def keep(self, stream: Hashable, ranges: list[Range]) -> None:
        """A session has ended: nothing will be heard of packets that are no longer stored."""
        awaited = self.awaited.get(stream)
        if awaited is not None:
            awaited.keep(ranges)

    def forget(self, stream: Hashable) -> None:
        """A stream has ended, or uses another way."""
        if self.awaited.pop(stream, None) is not None:
            for streams in self._by_link.values():
                streams.pop(stream, None)

    # ---- time

    def handle_timer(self, turn: Any) -> None:
        """Compare ages with bounds, and name the links that have changed their mode to all listeners."""
        for via in self.handle_time(turn.now_ns):
            for hear in self.listeners:
                hear(via, turn)

    def handle_time(self, now_ns: int) -> list[str]:
        """Compare ages with bounds. Returns the neighbours whose links have changed their mode."""
        changed: list[str] = []
        looked = list(self.changed)
        self.changed.clear()
        for via in looked:
            if self.routes.sync_link(via) is None:
                self._by_link.pop(via, None)
                continue
            link, since_ns = self._link(via), self._since_ns(via)
            if link.handle_oldest(since_ns, now_ns):
                self._tell(via, link, since_ns, now_ns)
                changed.append(via)
            if link.deadline_ns(since_ns) is not None:
                self.changed[via] = None
        return changed

    def next_deadline(self) -> int | None:
        """When ``handle_time`` must be called, or None."""
        at_ns: int | None = None
        for via in self.changed:
            if self.routes.sync_link(via) is not None:
                link_ns = self._link(via).deadline_ns(self._since_ns(via))
                at_ns = link_ns if at_ns is None else at_ns if link_ns is None else min(at_ns, link_ns)
        return at_ns

    def _since_ns(self, via: str) -> int | None:
        times = [awaited.since_ns for awaited in self._by_link.get(via, {}).values()]
        return min((since_ns for since_ns in times if since_ns is not None), default=None)

    def _tell(self, via: str, link: SyncLink, since_ns: int | None, now_ns: int) -> None:
        settings, oldest_ns = link.settings, 0 if since_ns is None else now_ns - since_ns
        packets = sum([awaited.packets for awaited in self._by_link.get(via, {}).values()])
        said = {"peer_name": via, "oldest_ns": oldest_ns, "awaited": packets}
        if link.mode is LinkMode.ASYNC:
            bounds = {"downgrade_after_ns": settings.downgrade_after_ns, "grace_ns": settings.grace_ns}
            self.record("link_downgraded", now_ns, **said, **bounds)
            self.news.append(LinkDowngraded(via, oldest_ns / SECOND, packets))
        else:
            self.record("link_upgraded", now_ns, **said, upgrade_below_ns=settings.upgrade_below_ns)
            self.news.append(LinkUpgraded(via))
