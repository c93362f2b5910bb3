"""Which losses mean congestion, and which occur at any rate.

Promise: a link that loses packets by chance is not taken for a full one, and a full one is noticed within a round trip.

While the sender *leaves room* (it sends less than the path has delivered, and finds no queue) losses are not due to
congestion: their share is the floor. Losses count as congestion when a round has clearly more of them. BBRv3 takes 2 %
of any kind for congestion (draft-ietf-ccwg-bbr, section 5.5.10.2): on a radio link that is every round.
"""

from math import isqrt

EXCESS_PER_MILLE = 20
"""BBRLossThresh, 2 %: losses this far above the floor are congestion (section 2.7)."""
MEMORY_PACKETS = 512
"""Beyond this number the counts are halved, so that the floor follows the path; it is then known to about 1 %."""
KNOWN_PACKETS = 32
"""With fewer packets, a single loss would be several percent: no round is judged before that."""
DOUBT_PACKETS = 8
"""Extra packets counted as delivered, so that a first loss does not make a floor of 100 %."""
FLOOR_MAX_PER_MILLE = 500
"""Half. A path that loses more is not worth the third packet for one that arrives."""
DEVIATION_HALVES = 7
"""Half standard deviations of chance losses (Poisson) that a round may have above the rest. With five, one round in two
hundred was taken for congestion where three packets in ten are lost: each second on a short path, and the sender sent a
quarter less, or half while it probed, until it probed the path again."""


class LossFloor:
    """Counts packets lost and acknowledged, of each round and of all that left room."""

    __slots__ = ("_acked", "_lost", "_spared_acked", "_spared_lost")

    def __init__(self) -> None:
        self._acked = self._lost = 0
        self._spared_acked = self._spared_lost = 0

    @property
    def per_mille(self) -> int:
        """Packets in a thousand that are lost at any rate."""
        if not self._spared_lost:
            return 0
        known = self._spared_acked + self._spared_lost
        return min(1_000 * self._spared_lost // (known + DOUBT_PACKETS), FLOOR_MAX_PER_MILLE)

    def handle_acked(self, packets: int, *, spared: bool) -> None:
        """Packets were acknowledged; ``spared``: they were sent while we left room."""
        self._acked += packets
        if spared:
            self._spared_acked += packets

    def handle_lost(self, *, spared: bool) -> None:
        """A packet was lost."""
        self._lost += 1
        self._spared_lost += spared

    def end_round(self, strays: int) -> bool:
        """A round trip is over. Returns whether it lost more than the floor and ``strays`` further losses explain."""
        lost, total = self._lost, self._acked + self._lost
        self._acked = self._lost = 0
        known = self._spared_acked + self._spared_lost
        if known > MEMORY_PACKETS:
            self._spared_acked //= 2
            self._spared_lost //= 2
        if known < KNOWN_PACKETS:
            return False
        expected = total * self.per_mille
        # The round deviates from the floor by chance, and the floor, of few packets, from what it will be.
        deviation = isqrt(1_000 * expected + 1_000_000 * total * total * (self._spared_lost + 1) // known**2)
        allowed = expected + total * EXCESS_PER_MILLE + DEVIATION_HALVES * deviation // 2 + strays * 1_000
        return 1_000 * lost > allowed

    def carried(self, delivered: int) -> int:
        """How much must be sent, given the floor, for ``delivered`` to arrive."""
        return delivered * 1_000 // (1_000 - self.per_mille) if self._spared_lost else delivered
