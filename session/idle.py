"""When a session has had nothing to do for long enough to end.

Promise: it ends if no packet went either way for the cleanup interval (MSMQ ``CleanupInterval``, [MS-MQQB] 3.1.6.2);
acks and pings are no packets.
"""


class Idle:
    """How long a session has been idle. ``since_ns``: when a packet last left or came."""

    __slots__ = ("interval_ns", "since_ns")

    def __init__(self, interval_ns: int, now_ns: int) -> None:
        self.interval_ns = interval_ns
        self.since_ns = now_ns

    def is_over(self, now_ns: int) -> bool:
        """Whether the whole interval has passed."""
        return now_ns >= self.since_ns + self.interval_ns

    def look_again_ns(self, now_ns: int) -> int:
        """When to ask again: at the end of the interval, or, if that has passed, half of one from now."""
        over_ns = self.since_ns + self.interval_ns
        return over_ns if over_ns > now_ns else now_ns + self.interval_ns // 2
