"""When an end of a session sends a ping only to keep its path open.

Firewalls and address translators forget a UDP flow without outbound traffic, many of them after half a minute
(RFC 4787, section 4.3; RFC 8085, section 3.5). A peer behind one cannot be called, so datagrams to it are lost from
then on. Such a peer sends a ping whenever it has sent nothing for its interval. The ping is answered, so that a
middlebox which wants traffic in both directions sees it, and a lost peer is noticed.

A ping is no packet: a session with nothing but keep-alives is idle, and ends as one ([MS-MQQB] 3.1.6.2).
"""


class KeepAlive:
    """The keep-alives of one end. ``interval_ns`` is how long it may send nothing; 0: no limit."""

    __slots__ = ("interval_ns", "sent_at_ns")

    def __init__(self, interval_ns: int) -> None:
        self.interval_ns = interval_ns
        self.sent_at_ns = 0

    def is_due(self, now_ns: int) -> bool:
        """Whether it is time to send something."""
        return now_ns >= self.sent_at_ns + self.interval_ns

    def look_again_ns(self, now_ns: int) -> int:
        """When to check again; if a ping is due now, it leaves now."""
        return (now_ns if self.is_due(now_ns) else self.sent_at_ns) + self.interval_ns
