"""Which stream of a link sends next.

Promise: the destination queues of a link have turns of equal length, whatever the priorities of their messages are.
Within one destination queue the highest waiting priority is first, as in MSMQ. But one packet in ``lowest_share``
belongs to the lowest waiting one, so that a flood of a high priority delays the others and does not stop them.
"""

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from typing import Protocol, TypeVar

QUEUE_TURN_PACKETS = 16
"""Packets of one destination queue in a turn: a quarter of a window, so that a few queues share each window."""
LOWEST_SHARE_PACKETS = 64
"""The lowest waiting priority of a destination queue gets one packet of this many: about one in a window."""


_Key = TypeVar("_Key", bound=Hashable)


class _Peekable(Protocol):
    def peek(self) -> object | None:
        """The packet that goes next, or None."""


class Sending(Protocol):
    """What has turns on a link: an outgoing stream, or a stream of another node that passes through this one."""

    @property
    def sequence(self) -> _Peekable:
        """Its packets."""

    @property
    def turn_key(self) -> Hashable:
        """Its destination queue: streams with the same key share their turns."""

    @property
    def priority(self) -> int:
        """The priority of its messages."""

    def __hash__(self) -> int:
        """By identity."""


class _Group:
    """The streams of one destination queue that have something to send.

    Attributes:
        streams: by priority; those of one priority in the order of their turns.
        high: how many packets of higher priorities may go before the next one of the lowest.
    """

    __slots__ = ("high", "streams")

    def __init__(self, high: int) -> None:
        self.streams: dict[int, OrderedDict[Sending, None]] = {}
        self.high = high

    def remove(self, stream: Sending) -> bool:
        """Remove a stream. Returns whether it was waiting."""
        some = self.streams.get(stream.priority)
        if some is None or stream not in some:
            return False
        del some[stream]
        if not some:
            del self.streams[stream.priority]
        return True


class Turns:
    """The streams of one link that have something to send. ``lowest_share``: 0 for none.

    Attributes:
        groups: by destination queue, whose turn it is first.
    """

    __slots__ = ("_lowest_share", "_turn_packets", "groups")

    def __init__(self, lowest_share: int = LOWEST_SHARE_PACKETS) -> None:
        # Ordered: the first key of a plain dictionary is found after all keys that were removed before it.
        self.groups: OrderedDict[Hashable, _Group] = OrderedDict()
        self._lowest_share = lowest_share
        self._turn_packets = QUEUE_TURN_PACKETS

    def offer(self, stream: Sending) -> None:
        """A stream has something to send: its turn comes after all that wait."""
        key = stream.turn_key
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = _Group(self._lowest_share - 1)
        group.streams.setdefault(stream.priority, OrderedDict())[stream] = None

    def withdraw(self, stream: Sending) -> None:
        """A stream has nothing to send, or must not: it has no turn until it is offered again."""
        key = stream.turn_key
        group = self.groups.get(key)
        if group is None or not group.remove(stream) or group.streams:
            return
        if _first(self.groups) == key:
            self._turn_packets = QUEUE_TURN_PACKETS
        del self.groups[key]

    def __contains__(self, stream: Sending) -> bool:
        """Whether a turn of the stream will come."""
        group = self.groups.get(stream.turn_key)
        return group is not None and stream in group.streams.get(stream.priority, ())

    def next(self) -> tuple[Sending, int] | None:
        """The stream whose turn it is, and how many packets it may give; None when there is none."""
        while self.groups:
            stream, limit = self._next()
            if stream.sequence.peek() is not None:
                return stream, limit
            self.withdraw(stream)
        return None

    def _next(self) -> tuple[Sending, int]:
        # Loops, as ``next(iter(...))`` would be two calls, and this is asked for each packet.
        group = self.groups[_first(self.groups)]
        streams = group.streams
        if len(streams) == 1:
            for waiting in streams.values():
                for stream in waiting:
                    return stream, self._turn_packets
        if not self._lowest_share:
            return _first(streams[max(streams)]), self._turn_packets
        if not group.high:
            return _first(streams[min(streams)]), 1
        return _first(streams[max(streams)]), min(group.high, self._turn_packets)

    def handle_given(self, stream: Sending, packets: int) -> None:
        """The current stream has given packets; at the end of a turn its queue moves behind the others."""
        key = stream.turn_key
        group = self.groups[key]
        if len(group.streams) > 1:
            group.high = group.high - packets if group.high > 0 else self._lowest_share - 1
        self._turn_packets -= packets
        if not self._turn_packets:
            self.groups.move_to_end(key)
            group.streams[stream.priority].move_to_end(stream)
            self._turn_packets = QUEUE_TURN_PACKETS


def _first(some: Mapping[_Key, object]) -> _Key:
    """As ``next(iter(some))``, by one call instead of two: it is asked for each packet."""
    for key in some:
        return key
    raise KeyError("there is none")
