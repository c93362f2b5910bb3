"""The ways back of streams that have passed: to which neighbours their order acks and rejections go.

All of it is in memory. If it is lost, the origin sends a packet again when its resend tier runs out, and the
destination acknowledges that.
"""

from collections import OrderedDict

from triack.base.names import StreamId
from triack.ordering.wire import RelayedEnd, RelayedOrderAck, RelayedReject

__all__ = ["Back", "WaysBack"]

STREAMS_MAX = 65_536
"""Streams remembered, the ones that passed last: about 40 MB, and more than the live streams of sixteen neighbours."""
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


class WaysBack:
    """The ways back of all streams."""

    __slots__ = ("_backs", "_by_upstream")

    def __init__(self) -> None:
        self._backs: OrderedDict[StreamId, Back] = OrderedDict()
        self._by_upstream: dict[str, dict[StreamId, None]] = {}

    def of(self, stream: StreamId) -> Back | None:
        """The way back of a stream, or None."""
        return self._backs.get(stream)

    def note(self, stream: StreamId, via: str, hops: int, downstream: str) -> None:
        """Packets of a stream came by a neighbour after that many hops, and go on to another one (empty: to none)."""
        back = self._backs.get(stream)
        if back is None:
            back = self._backs[stream] = Back()
            if len(self._backs) > STREAMS_MAX:
                self._forget(*self._backs.popitem(last=False))
        self._backs.move_to_end(stream)
        back.upstreams[via] = min(hops, back.upstreams.get(via, hops))
        self._by_upstream.setdefault(via, {})[stream] = None
        if downstream:
            back.downstreams[downstream] = None

    def brought_by(self, upstream: str) -> list[Back]:
        """The ways back of the streams that a neighbour has brought."""
        return [self._backs[stream] for stream in self._by_upstream.get(upstream, ())]

    def _forget(self, stream: StreamId, back: Back) -> None:
        for upstream in back.upstreams:
            streams = self._by_upstream[upstream]
            del streams[stream]
            if not streams:
                del self._by_upstream[upstream]
