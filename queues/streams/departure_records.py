"""Session log records of outgoing queues (docs/session-log.md). Formatting only."""

from triack.base.delivery import Delivery
from triack.base.reasons import EXPIRED, HoldReason
from triack.ordering.outgoing import StreamPacket
from triack.ordering.wire import OnwardAckPacket
from triack.queues.mailboxes.handed import said_priority
from triack.queues.mailboxes.system_queues import counted_in
from triack.queues.streams.arrival_records import Record
from triack.queues.streams.outgoing_stream import OutgoingStream

__all__ = ["DepartureRecords"]


class DepartureRecords:
    """Writes the records of one node.

    Args:
        record: to the session log.
        node_id: of the node.

    Attributes:
        topics: the roots of the topics of which streams pass messages on, see ``queues.remote.pump``, by their numbers.
    """

    __slots__ = ("_origin", "_record", "topics")

    def __init__(self, record: Record, node_id: bytes) -> None:
        self._record = record
        self._origin = node_id.hex()
        self.topics: dict[int, str] = {}

    def queued(
        self, outgoing: OutgoingStream, entries: list[StreamPacket], now_ns: int, *, recovered: bool = False
    ) -> None:
        """Packets are committed, or in memory if express; ``recovered``: they were found on the disk."""
        more: dict[str, object] = {"queue": outgoing.queue, "peer_name": outgoing.peer, **_priority_of(outgoing)}
        if recovered:
            more["recovered"] = True
        elif outgoing.stream_number in self.topics:
            more["topic"] = self.topics[outgoing.stream_number]
        for first, last, count in _runs(outgoing, entries):
            self._write("queued", outgoing, first, last, now_ns, count=count, **more)

    def local(self, outgoing: OutgoingStream, entries: list[StreamPacket], now_ns: int) -> None:
        """Packets for a queue of this node are committed at their destination in the same moment."""
        for first, last, count in _runs(outgoing, entries):
            more = {"queue": outgoing.queue, **_priority_of(outgoing)}
            self._write("committed", outgoing, first, last, now_ns, count=count, **more)

    def recovered(self, outgoing: OutgoingStream, now_ns: int) -> None:
        """A stream to a queue of this node was found on the disk; a crash may have lost its earlier records."""
        last = outgoing.sequence.next_number - 1
        if outgoing.peer or not last:
            return
        ordered = outgoing.delivery is Delivery.TRANSACTIONAL
        where: dict[str, object] = {"number": last} if ordered else {"ranges": [[1, last]]}
        self._record(
            "position_recovered",
            now_ns,
            origin=self._origin,
            stream=outgoing.stream_number,
            sequence=outgoing.sequence.sequence,
            **where,
            **{"class": outgoing.delivery.label},
        )

    def resend(self, outgoing: OutgoingStream, again: list[StreamPacket], now_ns: int) -> None:
        """Packets wait to be resent because no order ack came."""
        tier = outgoing.sequence.tier
        wait_ns = tier.interval_of(tier.attempt)
        first, last = again[0].number, again[-1].number
        self._write("resend_scheduled", outgoing, first, last, now_ns, attempt=tier.attempt, interval_ns=wait_ns)

    def ended(self, outgoing: OutgoingStream, now_ns: int) -> None:
        """A stream has nothing outstanding, and ends."""
        said = {
            "stream": outgoing.stream_number,
            "sequence": outgoing.sequence.sequence,
            "class": outgoing.delivery.label,
        }
        self._record("stream_ended", now_ns, origin=self._origin, **said)

    def removed(self, outgoing: OutgoingStream, entries: list[StreamPacket], reason: str, now_ns: int) -> None:
        """A message was given up."""
        count = counted_in(outgoing.queue, sum(entry.messages for entry in entries))
        first, last = entries[0].number, entries[-1].number
        said = "expired" if reason in EXPIRED else reason
        self._write("removed", outgoing, first, last, now_ns, count=count, reason=said)

    def order_ack(self, stream: int, sequence: int, number: int, now_ns: int) -> None:
        """The destination has a sequence up to ``number``."""
        self._record("order_ack_received", now_ns, origin=self._origin, stream=stream, sequence=sequence, number=number)

    def hold(self, outgoing: OutgoingStream, now_ns: int, reason: HoldReason | None) -> None:
        """The destination has no room for a stream, for this reason; None: it has room again."""
        said = {
            "stream": outgoing.stream_number,
            "sequence": outgoing.sequence.sequence,
            "class": outgoing.delivery.label,
        }
        why = {} if reason is None else {"reason": reason.value}
        self._record("hold_received", now_ns, origin=self._origin, **said, stop=reason is not None, **why)

    def rerouted(self, outgoing: OutgoingStream, now_ns: int) -> None:
        """A stream goes by another neighbour, or another kind of link, from now on."""
        said = {
            "stream": outgoing.stream_number,
            "sequence": outgoing.sequence.sequence,
            "class": outgoing.delivery.label,
        }
        self._record("rerouted", now_ns, origin=self._origin, **said, peer_name=outgoing.via)

    def onward(self, outgoing: OutgoingStream, here: int, session: str, now_ns: int, *, waits: bool) -> None:
        """A relay has said how far it has a stream, and whether that waits there."""
        said = {
            "stream": outgoing.stream_number,
            "sequence": outgoing.sequence.sequence,
            "class": outgoing.delivery.label,
        }
        self._record("onward_received", now_ns, origin=self._origin, **said, here=here, waits=waits, session=session)

    def onward_acked(self, outgoing: OutgoingStream, packet: OnwardAckPacket, session: str, now_ns: int) -> None:
        """A relay has passed packets on, or has said that its store acks are enough."""
        said = {
            "stream": outgoing.stream_number,
            "sequence": outgoing.sequence.sequence,
            "class": outgoing.delivery.label,
        }
        told = {"ranges": [list(span) for span in packet.ranges], "is_async": packet.is_async}
        self._record("onward_ack_received", now_ns, origin=self._origin, **said, **told, session=session)

    def _write(self, event: str, outgoing: OutgoingStream, first: int, last: int, now_ns: int, **more: object) -> None:
        self._record(
            event,
            now_ns,
            origin=self._origin,
            stream=outgoing.stream_number,
            sequence=outgoing.sequence.sequence,
            first=first,
            last=last,
            **more,
            **{"class": outgoing.delivery.label},
        )


def _priority_of(outgoing: OutgoingStream) -> dict[str, object]:
    return said_priority(outgoing.delivery, outgoing.priority)


def _runs(outgoing: OutgoingStream, entries: list[StreamPacket]) -> list[tuple[int, int, int]]:
    """First number, last number and messages of each run of successive packets; parts of messages are none."""
    runs: list[tuple[int, int, int]] = []
    counts_any = counted_in(outgoing.queue, 1)
    for entry in entries:
        messages = entry.messages if counts_any else 0
        if runs and runs[-1][1] + 1 == entry.number:
            runs[-1] = (runs[-1][0], entry.number, runs[-1][2] + messages)
        else:
            runs.append((entry.number, entry.number, messages))
    return runs
