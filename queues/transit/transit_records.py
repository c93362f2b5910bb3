"""Session log records of streams in transit (docs/session-log.md). Formatting only."""

from triack.base.ranges import Range, as_ranges
from triack.base.reasons import FreedReason, RejectReason
from triack.ordering.transit import TransitPacket
from triack.ordering.wire import OnwardAckPacket, RelayedHeader
from triack.queues.peers.link import Conversation
from triack.queues.streams.arrival_records import Record
from triack.queues.streams.transit_stream import TransitStream

__all__ = ["TransitRecords"]


class TransitRecords:
    """Writes the records of one relay.

    Args:
        record: to the session log.
    """

    __slots__ = ("_record",)

    def __init__(self, record: Record) -> None:
        self._record = record

    def committed(
        self, stream: TransitStream, entries: list[TransitPacket], now_ns: int, *, recovered: bool = False
    ) -> None:
        """Packets are on the disk, or in memory if express; ``recovered``: they were found on the disk."""
        more: dict[str, object] = {"queue": stream.queue, "final": stream.final}
        if recovered:
            more["recovered"] = True
        for via in dict.fromkeys(entry.via for entry in entries):
            numbers = [entry.number for entry in entries if entry.via == via]
            for first, last in as_ranges(sorted(numbers)):
                self._write("transit_committed", stream, now_ns, first=first, last=last, peer_name=via, **more)

    def freed(
        self, stream: TransitStream, entries: list[TransitPacket], reason: FreedReason, now_ns: int, session: str = ""
    ) -> None:
        """This node answers for packets no longer; ``session`` has carried them to the next hop."""
        more: dict[str, object] = {"session": session} if session else {}
        if stream.sequence.sync:
            more["sync"] = True
        for first, last in as_ranges(sorted(entry.number for entry in entries)):
            self._write("transit_freed", stream, now_ns, first=first, last=last, reason=reason, **more)

    def rerouted(self, stream: TransitStream, via: str, now_ns: int) -> None:
        """A stream goes by another way from now on."""
        self._write("rerouted", stream, now_ns, peer_name=via)

    def relayed(self, kind: str, stream: tuple[bytes, int, int, int], peer_id: bytes, now_ns: int) -> None:
        """An order ack or a rejection was handed on to a session; ``stream`` ends with sequence and number."""
        origin, number, sequence, packet = stream
        self._record(
            "control_relayed",
            now_ns,
            kind=kind,
            origin=origin.hex(),
            stream=number,
            sequence=sequence,
            number=packet,
            peer=peer_id.hex(),
        )

    def refused(self, header: RelayedHeader, label: str, reason: str, now_ns: int) -> None:
        """A packet came that may not be passed on."""
        self._record(
            "route_refused",
            now_ns,
            origin=header.origin.hex(),
            stream=header.stream,
            sequence=header.sequence,
            first=header.number,
            last=header.number,
            final=header.final,
            reason=reason,
            **{"class": label},
        )

    def held_back(self, header: RelayedHeader, label: str, now_ns: int) -> None:
        """A packet came for which there is no room now."""
        self._record(
            "rejected",
            now_ns,
            origin=header.origin.hex(),
            stream=header.stream,
            sequence=header.sequence,
            number=header.number,
            reason=RejectReason.HELD_BACK,
            **{"class": label},
        )

    def held(self, stream: TransitStream, now_ns: int, reason: str | None) -> None:
        """The next hop has no room for a stream, for this reason; None: it has room again."""
        why = {} if reason is None else {"reason": reason}
        self._write("hold_received", stream, now_ns, stop=reason is not None, **why)

    def waits(self, stream: TransitStream, here: int, upstream: Conversation, now_ns: int, *, waits: bool) -> None:
        """A neighbour was told how far a stream is here, and whether it waits."""
        told = {"peer": upstream.peer_id.hex(), "session": upstream.label}
        self._write("onward_sent", stream, now_ns, here=here, waits=waits, **told)

    def told_onward(
        self, stream: TransitStream, ranges: list[Range], peer_id: bytes, now_ns: int, *, is_async: bool
    ) -> None:
        """A neighbour was told what was passed on, or that store acks are enough."""
        said = {"ranges": [list(span) for span in ranges], "is_async": is_async, "peer": peer_id.hex()}
        self._write("onward_ack_sent", stream, now_ns, **said)

    def told_ends_here(self, header: RelayedHeader, label: str, peer_id: bytes, now_ns: int) -> None:
        """A neighbour was told that a stream goes no further, so that store acks are enough."""
        self._record(
            "onward_ack_sent",
            now_ns,
            origin=header.origin.hex(),
            stream=header.stream,
            sequence=header.sequence,
            ranges=[],
            is_async=True,
            peer=peer_id.hex(),
            **{"class": label},
        )

    def onward_acked(self, stream: TransitStream, packet: OnwardAckPacket, session: str, now_ns: int) -> None:
        """The next hop has passed packets on, or has said that its store acks are enough."""
        ranges = [list(span) for span in packet.ranges]
        said = {"ranges": ranges, "is_async": packet.is_async, "session": session}
        self._write("onward_ack_received", stream, now_ns, **said)

    def _write(self, event: str, stream: TransitStream, now_ns: int, **more: object) -> None:
        self._record(
            event,
            now_ns,
            origin=stream.id.origin.hex(),
            stream=stream.id.number,
            sequence=stream.sequence.sequence,
            **more,
            **{"class": stream.delivery.label},
        )
