"""Events of a relay for its operator: destinations that no route leads to, and quotas that are full."""

from triack.base.news import NoRoute, TransitOverQuota
from triack.queues.transit.transit_room import TransitRoom

UNKNOWN_MAX = 256
"""Destinations without a route that are remembered: a neighbour that makes names up must not fill the memory."""


class TransitNews:
    """Gathers events. Each is reported once until its cause has changed."""

    def __init__(self) -> None:
        self.news: list[NoRoute | TransitOverQuota] = []
        self._unknown: dict[tuple[str, str], None] = {}
        self._full: set[str] = set()

    def handle_no_route(self, final: str, came_by: str) -> None:
        """Nothing says where a destination is, for which a neighbour has brought messages."""
        if (final, came_by) not in self._unknown and len(self._unknown) < UNKNOWN_MAX:
            self._unknown[final, came_by] = None
            self.news.append(NoRoute(final, came_by))

    def handle_routes_changed(self) -> None:
        """There may be ways now."""
        self._unknown.clear()

    def handle_full(self, came_by: str, room: TransitRoom) -> None:
        """A packet of a neighbour has found no room."""
        if came_by not in self._full:
            self._full.add(came_by)
            size_bytes = room.disk.of(came_by.encode())
            self.news.append(TransitOverQuota(came_by, room.messages.value, size_bytes, room.disk.total_bytes))

    def handle_room(self, room: TransitRoom) -> None:
        """What a neighbour had brought may have left: then it has room again, and not only for a packet or two."""
        if self._full:
            self._full = {came_by for came_by in self._full if room.disk.of(came_by.encode())}
