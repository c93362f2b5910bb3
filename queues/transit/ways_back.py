"""The ways back of streams that have passed: to which neighbours their order acks and rejections go.

All of it is in memory. If it is lost, the origin sends a packet again when its resend tier runs out, and the
destination acknowledges that.
"""

from collections import OrderedDict
from collections.abc import Iterable

from triack.base.names import StreamId
from triack.ordering.wire import RelayedEnd, RelayedOrderAck, RelayedReject

__all__ = ["Back", "Brought", "WaysBack"]

STREAMS_MAX = 8_192
"""Streams remembered of those that a neighbour has brought, the last ones: twice as many as it may have live, and some
5 MB, a third of what one peer may fill by default."""
REJECTIONS_MAX = 256
"""Rejections kept of one stream. If one is lost, its packet is rejected again after the origin's next resend."""


class Back:
    """The way back of one stream.

    Attributes:
        upstreams: the neighbours that have brought it, and the fewest hops that each has brought.
        downstreams: the neighbours that it has gone to, who alone may speak about it.
        acked: the last order ack for it.
        forgotten: that its destination has forgotten it, if that found no session to the origin.
        rejected: the last rejections that found no session to the origin, by number.
    """

    __slots__ = ("acked", "downstreams", "forgotten", "rejected", "upstreams")

    def __init__(self) -> None:
        self.upstreams: dict[str, int] = {}
        self.downstreams: dict[str, None] = {}
        self.acked: RelayedOrderAck | None = None
        self.forgotten: RelayedEnd | None = None
        self.rejected: OrderedDict[int, RelayedReject] = OrderedDict()

    @property
    def nearest(self) -> list[str]:
        """The neighbours upstream that are nearest to the origin: by any other one a word might go in a circle."""
        fewest = min(self.upstreams.values(), default=0)
        return [name for name, hops in self.upstreams.items() if hops == fewest]

    def keep(self, packet: RelayedReject) -> None:
        """Keep a rejection until there is a session again."""
        self.rejected[packet.number] = packet
        if len(self.rejected) > REJECTIONS_MAX:
            self.rejected.popitem(last=False)


class Brought:
    """The streams that each neighbour has brought, the last ones of each.

    A neighbour drives out what it has brought itself, and nothing that others have: it may invent as many as it likes.
    """

    __slots__ = ("_streams",)

    def __init__(self) -> None:
        self._streams: dict[str, OrderedDict[StreamId, None]] = {}

    def note(self, via: str, stream: StreamId) -> StreamId | None:
        """A neighbour has brought a stream. Returns the one of it that gives way, if one must."""
        streams = self._streams.setdefault(via, OrderedDict())
        streams[stream] = None
        streams.move_to_end(stream)
        return streams.popitem(last=False)[0] if len(streams) > STREAMS_MAX else None

    def by(self, via: str) -> Iterable[StreamId]:
        """Those of one neighbour."""
        return self._streams.get(via, ())

    def forget(self, via: str, stream: StreamId) -> None:
        """One of a neighbour is forgotten."""
        streams = self._streams.get(via)
        if streams is not None:
            streams.pop(stream, None)
            if not streams:
                del self._streams[via]


class WaysBack:
    """The ways back of all streams."""

    __slots__ = ("_backs", "_brought")

    def __init__(self) -> None:
        self._backs: dict[StreamId, Back] = {}
        self._brought = Brought()

    def of(self, stream: StreamId) -> Back | None:
        """The way back of a stream, or None."""
        return self._backs.get(stream)

    def note(self, stream: StreamId, via: str, hops: int, downstream: str) -> None:
        """Packets of a stream came by a neighbour after that many hops, and go on to another one (empty: to none)."""
        back = self._backs.get(stream)
        if back is None:
            back = self._backs[stream] = Back()
        back.upstreams[via] = min(hops, back.upstreams.get(via, hops))
        if downstream:
            back.downstreams[downstream] = None
        gone = self._brought.note(via, stream)
        if gone is not None and (old := self._backs.get(gone)) is not None:
            old.upstreams.pop(via, None)
            if not old.upstreams:  # no other neighbour has brought it
                del self._backs[gone]

    def brought_by(self, upstream: str) -> list[Back]:
        """The ways back of the streams that a neighbour has brought."""
        return [self._backs[stream] for stream in self._brought.by(upstream)]
