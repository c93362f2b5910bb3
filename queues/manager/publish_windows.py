"""Solace's publish window: how many messages of an outgoing stream may be accepted and not yet acknowledged.

Promise: no more messages of a stream are accepted than its window has places for. A message has a place until the
acknowledgement that frees its class has covered it, or until it is given up or rejected. A transaction is accepted as a
whole, so one that is larger than the window waits until all places are free.

    OPEN --the last place is taken--> CLOSED, counted --a place is free--> OPEN
"""

from collections import Counter
from collections.abc import Mapping

from triack.base.news import CanSend, NodeEvent
from triack.queues.mailboxes.quotas import NO_LIMIT
from triack.queues.mailboxes.system_queues import large_target
from triack.queues.schedule import Phase, Schedule
from triack.queues.streams.group_commit import Turn
from triack.queues.streams.outbox import Outbox
from triack.queues.streams.outgoing_stream import OutgoingStream


class PublishWindows:
    """The publish windows of one node: one for each destination, class and priority.

    Args:
        most: messages in a window; None for no limit.
        outbox: knows how much an outgoing stream accepts, whatever its window says.

    Attributes:
        closings: how often the last place of a window was taken, by the neighbour that its messages go to.
        full: the streams that had no place for a sender that does not wait: it gets an event when it need not.
        news: these events.
    """

    def __init__(self, most: int | None, outbox: Outbox) -> None:
        self._most = most
        self._outbox = outbox
        self.closings: Counter[str] = Counter()
        self.full: dict[OutgoingStream, None] = {}
        self.news: list[NodeEvent] = []

    def register(self, schedule: Schedule) -> None:
        """Register when senders hear that there are places again."""
        schedule.step(Phase.TELL, self._tell, self.full)
        schedule.tell(self.news)

    def left(self, outgoing: OutgoingStream, coming: int = 0) -> int:
        """How many more messages may be accepted, besides those that are coming; 0 or less for none."""
        if self._most is None or large_target(outgoing.queue):  # parts of a large message are no messages
            return NO_LIMIT
        return self._most - outgoing.unsettled - coming

    def take(self, messages: Mapping[OutgoingStream, int]) -> bool:
        """Whether a transaction may be accepted that sends that number of messages to each queue."""
        return self._most is None or all(
            count <= self.left(outgoing) or not outgoing.unsettled for outgoing, count in messages.items()
        )

    def handle_submitted(self, outgoing: OutgoingStream, count: int) -> None:
        """Messages were accepted."""
        if self._most is not None and self.left(outgoing) <= 0 < self.left(outgoing, -count):
            self.closings[outgoing.via] += 1

    # ---- senders that do not wait

    def note_refused(self, outgoing: OutgoingStream) -> None:
        """A sender was told that it would have to wait: it gets an event when it need not."""
        self.full[outgoing] = None

    def _tell(self, _turn: Turn) -> None:
        """An event for each stream that accepts messages again, once."""
        ready = [it for it in self.full if self.left(it) > 0 and self._outbox.room_bytes(it) > 0]
        for outgoing in ready:
            del self.full[outgoing]
            self.news.append(CanSend(outgoing.destination, outgoing.delivery.label))
