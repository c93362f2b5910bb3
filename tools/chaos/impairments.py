"""What a bad network does to a datagram, as a pure function of a seed and the number of datagrams so far."""

from random import Random

__all__ = ["Impairments", "Plan"]

HELD_BACK_MIN_NS = 500_000
HELD_BACK_MAX_NS = 5_000_000

# What arrives, and how much later than it would have.
Plan = list[tuple[int, bytes]]


class Impairments:
    """Decides the fate of each datagram of one direction.

    Args:
        loss: the share of datagrams that vanish, 0 to 1.
        duplicate: the share that comes twice.
        reorder: the share that is held back for 0.5 to 5 ms, so that later ones overtake it.
        seed: the same seed plans the same for the same datagrams.

    Raises:
        ValueError: a share that is not between 0 and 1.
    """

    def __init__(self, *, loss: float = 0.0, duplicate: float = 0.0, reorder: float = 0.0, seed: int | str = 0) -> None:
        for name, share in (("loss", loss), ("duplicate", duplicate), ("reorder", reorder)):
            if not 0 <= share <= 1:
                raise ValueError(f"{name} must be between 0 and 1, not {share}")
        self.loss = loss
        self.duplicate = duplicate
        self.reorder = reorder
        self._random = Random(seed)

    def plan(self, datagram: bytes, now_ns: int) -> Plan:  # noqa: ARG002 - for impairments that depend on time
        """Return what arrives of ``datagram``: nothing, or copies of it with their delays.

        Args:
            datagram: what was sent.
            now_ns: the time; no impairment depends on it yet.
        """
        draw = self._random.random
        # Every datagram costs the same draws, so that changing one share leaves the rest of the plan as it was.
        lost, doubled, late, lateness = draw(), draw(), draw(), draw()
        if lost < self.loss:
            return []
        delay_ns = 0
        if late < self.reorder:
            delay_ns = HELD_BACK_MIN_NS + int(lateness * (HELD_BACK_MAX_NS - HELD_BACK_MIN_NS))
        if doubled < self.duplicate:
            return [(0, datagram), (delay_ns, datagram)]
        return [(delay_ns, datagram)]
