"""The window of a session that follows its path: as many packets as the sender can use, and no more.

Promise: a sender that has more to send, and whose network takes more, does not stand still twice at the same window,
except at the largest. The packets that wait in a session are in proportion to those in flight, so that those of other
queues do not wait behind them for long.

Congestion controllers measure what the path carries. This window only ensures that a packet count is not the limit
instead:

    the sender stood still at a full window: doubled, once a round trip
    less than a quarter was used for a second: halved

between a small window and the largest that both ends have room for. Receive buffers of TCP grow in this way ("dynamic
right-sizing", Fisk and Feng 2001), there by the amount that arrives in a round trip.
"""

from triack.base.units import SECOND

LEAST_PACKETS = 16
"""The initial window: more than that of congestion controllers (10, RFC 9002 7.2), so that it does not limit them."""
IDLE_PARTS = 4
"""A window of which less than one part in this many is used is halved: twice the need is left."""
REST_NS = SECOND
"""For how long so little must have been used: bursts that come each second find the window of the last one."""


class AutoWindow:
    """One direction of one session.

    Attributes:
        packets: the window wanted now, before the bound by the largest one.
    """

    __slots__ = ("_looked_at_ns", "_round_ends", "_stood_still", "_used", "packets")

    def __init__(self) -> None:
        self._round_ends = 1
        self._stood_still = False
        self._used = 0
        self._looked_at_ns = 0
        self.packets = LEAST_PACKETS

    def handle_ack(self, in_flight: int, highest: int, highest_sent: int, now_ns: int, *, stands_still: bool) -> None:
        """An ack has come."""
        self._used = max(self._used, in_flight)
        self._stood_still = self._stood_still or stands_still
        if self._stood_still and highest >= self._round_ends:
            self.packets *= 2
            # Packets sent from now on use the new window.
            self._round_ends = highest_sent + 1
            self._stood_still = False
            self._begin(in_flight, now_ns)
        elif now_ns >= self._looked_at_ns + REST_NS:
            if IDLE_PARTS * self._used < self.packets:
                self.packets = max(self.packets // 2, LEAST_PACKETS)
            self._begin(in_flight, now_ns)

    def _begin(self, in_flight: int, now_ns: int) -> None:
        self._used, self._looked_at_ns = in_flight, now_ns
