"""Positions on this disk of the ordered streams of every origin. An accept tells them to an origin before it sends.

Promise: each position is what an order ack could say at that moment, so that a session that follows a lost one
retransmits nothing that is stored. Positions that do not fit in an accept follow in order acks, once the session is
open.
"""

from collections import OrderedDict
from itertools import islice

from triack.queues.peers.introduction import StreamPosition
from triack.queues.streams.arrival_records import Record, record_order_ack
from triack.queues.streams.incoming_stream import IncomingStream


class Positions:
    """The ordered streams that arrive at a node."""

    __slots__ = ("_record", "_streams")

    def __init__(self, record: Record) -> None:
        self._record = record
        self._streams: dict[bytes, OrderedDict[IncomingStream, None]] = {}

    def handle_committed(self, stream: IncomingStream) -> None:
        """The position of a stream is on the disk, newly or since before the start."""
        streams = self._streams.get(stream.origin)
        if streams is None:
            streams = self._streams[stream.origin] = OrderedDict()
        streams[stream] = None
        streams.move_to_end(stream)

    def forget(self, stream: IncomingStream) -> None:
        """A stream has ended."""
        streams = self._streams.get(stream.origin, OrderedDict())
        streams.pop(stream, None)
        if not streams:
            self._streams.pop(stream.origin, None)

    def tell(self, origin: bytes, limit: int, now_ns: int) -> tuple[StreamPosition, ...]:
        """The positions of at most ``limit`` streams of an origin, the one that moved last first.

        Each is logged once: a stranger can repeat a connect, and must not fill the log.
        """
        told: list[StreamPosition] = []
        for stream in islice(reversed(self._streams.get(origin, OrderedDict())), limit):
            claimable = stream.claimable
            if not claimable[1]:
                continue
            if claimable != stream.acked:
                stream.acked = claimable
                record_order_ack(self._record, stream, origin, now_ns)
            told.append(StreamPosition(stream.number, *claimable))
        return tuple(told)
