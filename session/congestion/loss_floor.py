"""Which losses are the network's answer to too much, and which come whatever is sent.

Promise: a link that loses packets by chance is not taken for a full one, and a full one is noticed within a round trip.

What is lost while the sender *leaves room*, sending less than the path was seen to deliver, and finds no queue, is not
lost for want of room: that share is the floor. Losses count as congestion when a round has clearly more of them. BBRv3
takes 2 % of any kind for too much (draft-ietf-ccwg-bbr, section 5.5.10.2): on a radio link that is every round.
"""

from math import isqrt

__all__ = ["LossFloor"]

EXCESS_PER_MILLE = 20
"""BBRLossThresh, 2 %: so much above the floor is too much (section 2.7)."""
MEMORY_PACKETS = 512
"""Of so many packets the floor is known to about 1 %; then what was counted is halved, so that it follows the path."""
KNOWN_PACKETS = 32
"""With fewer, one loss more or less would be several percent: nothing is said about a round before that."""
DOUBT_PACKETS = 8
"""As if so many more had arrived: the first one that is lost is not a floor of 100 %."""
FLOOR_MAX_PER_MILLE = 500
"""Half. A path that loses more is not worth the third packet for one that arrives."""
DEVIATION_HALVES = 5
"""Half standard deviations of losses by chance, taken as a Poisson's, that a round may have above the rest. With four,
one round of two hundred was taken for congestion where three packets of ten are lost: each two seconds on a short path,
and until the path was probed again a quarter less was sent."""


class LossFloor:
    """Counts packets lost and acknowledged, of each round and of all that left room."""

    __slots__ = ("_acked", "_lost", "_spared_acked", "_spared_lost")

    def __init__(self) -> None:
        self._acked = self._lost = 0
        self._spared_acked = self._spared_lost = 0

    @property
    def per_mille(self) -> int:
        """Of a thousand packets, how many are lost whatever is sent."""
        known = self._spared_acked + self._spared_lost
        return min(1_000 * self._spared_lost // (known + DOUBT_PACKETS), FLOOR_MAX_PER_MILLE)

    def handle_acked(self, packets: int, *, spared: bool) -> None:
        """So many packets were acknowledged that were sent while we left room, or not."""
        self._acked += packets
        if spared:
            self._spared_acked += packets

    def handle_lost(self, *, spared: bool) -> None:
        """A packet was lost."""
        self._lost += 1
        self._spared_lost += spared

    def end_round(self, strays: int) -> bool:
        """A round trip is over. Returns whether it lost more than the floor explains, and so many ``strays``."""
        lost, total = self._lost, self._acked + self._lost
        self._acked = self._lost = 0
        known = self._spared_acked + self._spared_lost
        if known > MEMORY_PACKETS:
            self._spared_acked //= 2
            self._spared_lost //= 2
        if known < KNOWN_PACKETS:
            return False
        expected = total * self.per_mille
        allowed = expected + total * EXCESS_PER_MILLE + DEVIATION_HALVES * isqrt(1_000 * expected) // 2 + strays * 1_000
        return 1_000 * lost > allowed

    def carried(self, delivered: int) -> int:
        """What has to be sent, at any rate, for that to be delivered."""
        return delivered * 1_000 // (1_000 - self.per_mille)
