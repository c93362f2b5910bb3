"""One direction of a link: a rate, a queue before it, a delay, losses by chance. Pure."""

from dataclasses import dataclass
from random import Random

__all__ = ["LinkPlan", "Pipe"]

NS = 1_000_000_000
BITS = 8


@dataclass(frozen=True, slots=True)
class LinkPlan:
    """A link, the same both ways.

    Attributes:
        rate_bps: bits a second, headers of IP included.
        round_trip_ns: there and back, without queues.
        queue_bytes: the longest queue; packets beyond it are lost.
        loss: share of the packets that is lost by chance, after they have taken their time on the link.
        seed: repeats the same chances.
    """

    rate_bps: int = 100_000_000
    round_trip_ns: int = 10_000_000
    queue_bytes: int = 125_000
    loss: float = 0.0
    seed: int = 1


class Pipe:
    """One direction.

    Args:
        plan: of the link.
        random: decides the losses.

    Attributes:
        offered, passed, lost, overflowed: packets: that came, went on, were lost by chance, found the queue full.
        passed_bytes: of those that went on.
    """

    def __init__(self, plan: LinkPlan, random: Random) -> None:
        self._plan = plan
        self._random = random
        self._free_ns = 0
        self.offered = self.passed = self.lost = self.overflowed = self.passed_bytes = 0

    def offer(self, size_bytes: int, now_ns: int) -> int | None:
        """A packet comes.

        Returns:
            When it arrives at the other end, in the order of the calls; None if it never does.
        """
        plan = self._plan
        self.offered += 1
        starts_ns = max(self._free_ns, now_ns)
        if (starts_ns - now_ns) * plan.rate_bps > plan.queue_bytes * BITS * NS:
            self.overflowed += 1
            return None
        self._free_ns = starts_ns + size_bytes * BITS * NS // plan.rate_bps
        if self._random.random() < plan.loss:
            self.lost += 1
            return None
        self.passed += 1
        self.passed_bytes += size_bytes
        return self._free_ns + plan.round_trip_ns // 2
