"""Datagrams of one conversation that came together, before its session gets them."""

from triack.base.datagram import Opened
from triack.queues.peers.link import Conversation


class Burst:
    """Opened datagrams of one conversation that came together.

    Attributes:
        newest: the greatest counter of those that have opened: only then it is authentic.
        payloads, counters: of each datagram.
        size_bytes: of all datagrams.
    """

    __slots__ = ("conversation", "counters", "newest", "payloads", "size_bytes")

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self.newest = -1
        self.payloads: list[bytes] = []
        self.counters: list[int] = []
        self.size_bytes = 0

    def add(self, opened: Opened, overhead_bytes: int) -> None:
        """Add opened datagrams, each ``overhead_bytes`` longer than its payload."""
        self.payloads += opened.payloads
        self.counters += opened.counters
        self.size_bytes += sum(map(len, opened.payloads)) + overhead_bytes * len(opened.payloads)
        self.newest = max(self.newest, *opened.counters, -1)
