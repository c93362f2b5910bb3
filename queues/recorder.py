"""Writes down what happens, as lines of the session log (docs/session-log.md).

Formatting only: the driver does the I/O. Records that come with every packet are formatted by hand, which costs a
third of what the JSON encoder takes; every text in them is hexadecimal or a name of ours.
"""

import json
from typing import Any

from triack.base.ranges import Range, as_ranges
from triack.ordering.wire import OrderAckPacket, RejectPacket, SequenceHeader
from triack.queues.outbox import PacketContext
from triack.queues.packing import completes
from triack.session.events import PacketArrived, Transmit
from triack.session.sending import SessionPacket

__all__ = ["Recorder"]

SCHEMA_VERSION = 1


class Recorder:
    """Collects records until ``take`` fetches them as bytes.

    Args:
        node_id: the recording node.
        incarnation: which start of it.
        wall_offset_ns: wall clock minus monotonic clock.
    """

    __slots__ = ("_lines", "_n", "_node", "_prefix", "_wall_offset_ns")

    def __init__(self, node_id: bytes, incarnation: int, wall_offset_ns: int) -> None:
        self._node = node_id.hex()
        self._prefix = f'{{"v":{SCHEMA_VERSION},"node":"{self._node}","incarnation":{incarnation},"n":'
        self._wall_offset_ns = wall_offset_ns
        self._n = 0
        self._lines: list[str] = []

    def add(self, event: str, now_ns: int, fields: dict[str, Any]) -> None:
        """Record an event."""
        self._append(event, now_ns, _encode(fields)[1:-1])

    def _append(self, event: str, now_ns: int, fields: str) -> None:
        self._n += 1
        comma = "," if fields else ""
        times = f'"at_ns":{now_ns},"wall_ns":{now_ns + self._wall_offset_ns}'
        self._lines.append(f'{self._prefix}{self._n},"event":"{event}",{times}{comma}{fields}}}')

    def add_transmit(self, session: str, transmit: Transmit, now_ns: int) -> None:
        """Record what one datagram carries."""
        ack, stored, sent = transmit.ack, transmit.store_ack, transmit.packet
        if ack is not None:
            self._append(
                "ack_sent",
                now_ns,
                f'"session":"{session}","cumulative":{ack.cumulative},"ranges":{_ranges(ack.ranges)},'
                f'"trigger":"{ack.trigger}","pending":{ack.pending}',
            )
        if stored is not None:
            fields = f'"session":"{session}","cumulative":{stored.cumulative},"ranges":{_ranges(stored.ranges)}'
            self._append("store_ack_sent", now_ns, fields)
        if sent is not None:
            self._append("packet_sent", now_ns, self._packet_fields(session, sent))

    def _packet_fields(self, session: str, sent: SessionPacket) -> str:
        fields = (
            f'"session":"{session}","packet":{sent.number},"class":"{sent.delivery.label}",'
            f'"resend":{_BOOLS[sent.sends > 1]},"size":{sent.size_bytes}'
        )
        context = sent.context
        if not isinstance(context, PacketContext):
            return fields
        lane, entry = context.lane, context.entry
        return (
            f'{fields},"origin":"{self._node}","lane":{lane.lane},"sequence":{lane.sequence.sequence},'
            f'"number":{entry.number},"previous":{context.previous},"count":{entry.completes}'
        )

    def add_received(
        self, session: str, event: PacketArrived, packet: SequenceHeader | OrderAckPacket | RejectPacket, now_ns: int
    ) -> None:
        """Record a packet that arrived."""
        fields = (
            f'"session":"{session}","packet":{event.number},"class":"{event.delivery.label}",'
            f'"duplicate":{_BOOLS[event.duplicate]},"size":{len(event.content)}'
        )
        if isinstance(packet, SequenceHeader):
            fields += (
                f',"origin":"{packet.origin.hex()}","lane":{packet.lane},"sequence":{packet.sequence},'
                f'"number":{packet.number},"previous":{packet.previous},"count":{completes(packet.body)}'
            )
        self._append("packet_received", now_ns, fields)

    def add_numbers(self, event: str, session: str, packets: list[SessionPacket], now_ns: int) -> None:
        """Record which packets an ack newly covers."""
        ranges = as_ranges(sorted(sent.number for sent in packets))
        self._append(event, now_ns, f'"session":"{session}","ranges":{_ranges(ranges)}')

    def take(self) -> bytes:
        """All records since the last call, each line ended."""
        if not self._lines:
            return b""
        lines, self._lines = self._lines, []
        lines.append("")
        return "\n".join(lines).encode()


def _ranges(ranges: list[Range]) -> str:
    return "[" + ",".join(f"[{first},{last}]" for first, last in ranges) + "]"


_BOOLS = ("false", "true")
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
