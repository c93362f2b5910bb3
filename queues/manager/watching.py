"""Readers of the acknowledgement events of outgoing streams, fed by the streams and by the clock."""

from triack.queues.schedule import Phase, Schedule
from triack.queues.streams.ack_events import AckEvents
from triack.queues.streams.group_commit import Turn
from triack.queues.streams.outgoing_stream import OutgoingStream


class Watching:
    """The readers of a node. Costs nothing while there are none."""

    def __init__(self) -> None:
        self.readers: list[tuple[OutgoingStream, AckEvents]] = []

    def register(self, schedule: Schedule) -> None:
        """Register when readers get their events."""
        schedule.step(Phase.WATCH, self.handle_time, self.readers)
        schedule.deadline(self.next_deadline, self.readers)

    def begin(self, outgoing: OutgoingStream, events: AckEvents) -> None:
        """Feed a reader from now on, beginning with the oldest unsettled message.

        Some messages after it may be settled: in classes without order, and by failures.
        """
        for tickets, reason in outgoing.settled_early():
            if reason is None:
                events.handle_acked(tickets.start, len(tickets), 0)
            else:
                events.handle_failed(tickets.start, len(tickets), reason)
        outgoing.readers.append(events)
        self.readers.append((outgoing, events))

    def handle_time(self, turn: Turn) -> None:
        """Let every reader gather the outcomes since the last call; forget readers that have ended."""
        for outgoing, events in self.readers:
            if events.ended:
                outgoing.readers.remove(events)
            else:
                events.handle_time(turn.now_ns)
        self.readers[:] = [reader for reader in self.readers if not reader[1].ended]

    def end(self) -> None:
        """End all readers: there will be no more outcomes."""
        for _, events in self.readers:
            events.end()

    def next_deadline(self) -> int | None:
        """When ``handle_time`` must be called, or None."""
        deadlines = [events.next_deadline() for _, events in self.readers]
        return min((at_ns for at_ns in deadlines if at_ns is not None), default=None)
