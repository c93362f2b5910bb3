"""The ways back of streams that have passed: to which neighbours their order acks and rejections go.

All of it is in memory. If it is lost, the origin sends a packet again when its resend tier runs out, and the
destination acknowledges that.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from triack.base.names import StreamId
from triack.ordering.wire import RelayedEnd, RelayedOrderAck, RelayedReject

STREAMS_MAX = 8_192
"""Streams remembered of those that a neighbour has brought, the last ones: twice as many as it may have live, and some
5 MB, a third of what one peer may fill by default."""
REJECTIONS_MAX = 8_192
"""Rejections kept for which a neighbour pays, the last ones: some 5 MB. It has sent them, or brought what this node
itself rejects. If one is lost, its packet is rejected again after the origin's next resend."""

Key = TypeVar("Key", bound=Hashable)


@dataclass(slots=True, eq=False)
class Back:
    """The way back of one stream.

    Attributes:
        upstreams: the neighbours that have brought it, the last one last.
        downstreams: the neighbours that it has gone to, who alone may speak about it.
        forgotten: that its destination has forgotten it, if that found no session to the origin.
        rejected: the last rejections that found no session to the origin, by number, and the
            neighbour that pays for each.
    """

    upstreams: dict[str, None] = field(default_factory=dict)
    downstreams: dict[str, None] = field(default_factory=dict)
    acked: RelayedOrderAck | None = None
    forgotten: RelayedEnd | None = None
    rejected: dict[int, tuple[RelayedReject, str]] = field(default_factory=dict)

    @property
    def has_words(self) -> bool:
        """Whether a neighbour upstream that is back has something to hear."""
        return self.acked is not None or self.forgotten is not None or bool(self.rejected)


class Brought(Generic[Key]):
    """What each neighbour has brought, the last ones of each.

    A neighbour drives out what it has brought itself, and nothing that others have: it may invent as many as it likes.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._by: dict[str, OrderedDict[Key, None]] = {}

    def note(self, via: str, key: Key) -> Key | None:
        """A neighbour has brought something. Returns what of it gives way, if something must."""
        its = self._by.setdefault(via, OrderedDict())
        its[key] = None
        its.move_to_end(key)
        return its.popitem(last=False)[0] if len(its) > self._most else None

    def room(self, via: str) -> int:
        """How much more a neighbour may bring before something of it gives way."""
        return self._most - len(self._by.get(via, ()))

    def by(self, via: str) -> Iterable[Key]:
        """What one neighbour has brought."""
        return self._by.get(via, ())

    def forget(self, via: str, key: Key) -> None:
        """Something of a neighbour is forgotten."""
        its = self._by.get(via)
        if its is not None:
            its.pop(key, None)
            if not its:
                del self._by[via]


class ReturnRoutes:
    """The ways back of all streams."""

    def __init__(self) -> None:
        self._backs: dict[StreamId, Back] = {}
        self._brought = Brought[StreamId](STREAMS_MAX)
        self._rejections = Brought[tuple[StreamId, int]](REJECTIONS_MAX)

    def of(self, stream: StreamId) -> Back | None:
        """The way back of a stream, or None."""
        return self._backs.get(stream)

    def note(self, stream: StreamId, via: str, downstream: str) -> None:
        """Packets of a stream came by a neighbour, and go on to another one (empty: to none)."""
        back = self._backs.get(stream)
        if back is None:
            back = self._backs[stream] = Back()
        back.upstreams.pop(via, None)
        back.upstreams[via] = None
        if downstream:
            back.downstreams[downstream] = None
        gone = self._brought.note(via, stream)
        if gone is not None and (old := self._backs.get(gone)) is not None:
            old.upstreams.pop(via, None)
            if not old.upstreams:  # no other neighbour has brought it
                self.take_rejections(old)
                del self._backs[gone]

    def brought_by(self, upstream: str) -> list[Back]:
        """The ways back of the streams that a neighbour has brought."""
        return [self._backs[stream] for stream in self._brought.by(upstream)]

    def keep(self, packet: RelayedReject, by: str) -> bool:
        """Keep a rejection until there is a session upstream; a neighbour pays. Returns False when no way is known."""
        stream = StreamId(packet.origin, packet.stream)
        back = self._backs.get(stream)
        if back is None:
            return False
        if packet.number in back.rejected:
            self._forget_rejection(back, packet.number)
        back.rejected[packet.number] = packet, by
        gone = self._rejections.note(by, (stream, packet.number))
        if gone is not None:
            del self._backs[gone[0]].rejected[gone[1]]
        return True

    def has_room(self, stream: StreamId, by: str, count: int) -> bool:
        """Whether that number of rejections of a stream can be kept, for which a neighbour pays."""
        return stream in self._backs and self._rejections.room(by) >= count

    def take_rejections(self, back: Back) -> list[tuple[RelayedReject, str]]:
        """Take the rejections that are kept of a stream, and the neighbour that pays for each."""
        return [self._forget_rejection(back, number) for number in list(back.rejected)]

    def _forget_rejection(self, back: Back, number: int) -> tuple[RelayedReject, str]:
        packet, by = back.rejected.pop(number)
        self._rejections.forget(by, (StreamId(packet.origin, packet.stream), number))
        return packet, by
