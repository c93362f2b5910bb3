"""How long packets wait for the ack that frees them, and streams that do not move.

It measures one packet of each stream at a time, as TCP without timestamps measures round trips (RFC 6298, section 3):
so each commit and each ack costs the same, however many packets it holds.
"""

from collections.abc import Container
from dataclasses import dataclass

from triack.queues.histogram import LATENCY_BOUNDS_S, Histogram


@dataclass(slots=True)
class _Measured:
    """A stream with unacknowledged packets.

    Attributes:
        number: the packet that is measured; 0 for none.
        began_ns: when it could first be sent.
        moved_ns: when the stream began to wait, or packets of it were last freed.
    """

    number: int
    began_ns: int
    moved_ns: int


class AckLatency:
    """The ack latency of the outgoing streams of a node; ``durations`` are those of the measured packets."""

    def __init__(self) -> None:
        self.durations = Histogram(LATENCY_BOUNDS_S)
        self._streams: dict[object, _Measured] = {}

    def handle_restored(self, stream: object, sent_ns: int) -> None:
        """A stream had packets in the store; ``sent_ns`` is when the first of them was sent.

        When others of it were last freed, before the start, is unknown.
        """
        self._streams[stream] = _Measured(0, sent_ns, sent_ns)

    def handle_started(self, stream: object, number: int, now_ns: int) -> None:
        """Packets of a stream, up to this number, may be sent."""
        measured = self._streams.get(stream)
        if measured is None:
            self._streams[stream] = _Measured(number, now_ns, now_ns)
        elif not measured.number:
            measured.number, measured.began_ns = number, now_ns

    def handle_freed(self, stream: object, left: Container[int], now_ns: int, *, busy: bool) -> None:
        """Packets of a stream were freed; ``left`` are the numbers that it still has. ``busy``: it has some."""
        measured = self._streams.get(stream)
        if measured is None:
            if busy:
                self._streams[stream] = _Measured(0, now_ns, now_ns)
            return
        measured.moved_ns = now_ns
        if measured.number and measured.number not in left:
            self.durations.observe(now_ns - measured.began_ns)
            measured.number = 0
        if not busy:
            del self._streams[stream]

    def forget(self, stream: object) -> None:
        """A stream has nothing left, and not because of acks."""
        self._streams.pop(stream, None)

    def stalled_ns(self, stream: object, now_ns: int) -> int:
        """How long a stream with unacknowledged packets has not moved."""
        measured = self._streams.get(stream)
        return 0 if measured is None else now_ns - measured.moved_ns
