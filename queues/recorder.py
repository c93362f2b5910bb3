"""Writes down what happens, as lines of the session log (docs/session-log.md).

Formatting only: the host does the I/O. Records that come with every packet are formatted by hand, which costs a
third of what the JSON encoder takes; every text in them is hexadecimal or a name of ours.
"""

import json
from collections import Counter
from typing import Any

from triack.base.ranges import Range, as_ranges
from triack.base.reasons import DropReason
from triack.base.session_log import SCHEMA_VERSION
from triack.ordering.wire import HoldPacket, OrderAckPacket, RejectPacket, SequenceHeader
from triack.queues.outbox import PacketContext
from triack.queues.packing import messages_in
from triack.queues.settings import NodeSettings
from triack.session.events import PacketArrived, Transmit
from triack.session.sending import SessionPacket

__all__ = ["Recorder", "start_record"]

DROPS_EVERY_NS = 1_000_000_000
"""A flood of bad datagrams must not become a flood of records: drops are written down once a second."""


class Recorder:
    """Collects records until ``take`` fetches them as bytes.

    Args:
        node_id: the recording node.
        incarnation: which start of it.
        wall_offset_ns: wall clock minus monotonic clock.
        now_ns: the monotonic clock.
    """

    __slots__ = ("_drops", "_drops_at_ns", "_lines", "_n", "_node", "_prefix", "_wall_offset_ns")

    def __init__(self, node_id: bytes, incarnation: int, wall_offset_ns: int, now_ns: int) -> None:
        self._node = node_id.hex()
        self._prefix = f'{{"v":{SCHEMA_VERSION},"node":"{self._node}","incarnation":{incarnation},"n":'
        self._wall_offset_ns = wall_offset_ns
        self._n = 0
        self._lines: list[str] = []
        self._drops: Counter[DropReason] = Counter()
        self._drops_at_ns = now_ns

    def add(self, event: str, now_ns: int, fields: dict[str, Any]) -> None:
        """Record an event."""
        self._append(event, now_ns, _encode(fields)[1:-1])

    def add_drops(self, drops: Counter[DropReason], now_ns: int, *, last: bool) -> None:
        """Record what was dropped since the last time; at most once a second, unless it is the ``last`` time."""
        if not last and now_ns - self._drops_at_ns < DROPS_EVERY_NS:
            return
        for reason, count in (drops - self._drops).items():
            self.add("dropped", now_ns, {"reason": reason, "count": count})
        self._drops = Counter(drops)
        self._drops_at_ns = now_ns

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
            self._append(
                "store_ack_sent",
                now_ns,
                f'"session":"{session}","cumulative":{stored.cumulative},"ranges":{_ranges(stored.ranges)},'
                f'"trigger":"{stored.trigger}","pending":{stored.pending}',
            )
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
        outgoing, entry = context.outgoing, context.entry
        return (
            f'{fields},"origin":"{self._node}","lane":{outgoing.lane},"sequence":{outgoing.sequence.sequence},'
            f'"number":{entry.number},"previous":{context.previous},"count":{entry.messages}'
        )

    def add_received(
        self,
        session: str,
        event: PacketArrived,
        packet: SequenceHeader | OrderAckPacket | RejectPacket | HoldPacket,
        now_ns: int,
    ) -> None:
        """Record a packet that arrived."""
        fields = (
            f'"session":"{session}","packet":{event.number},"class":"{event.delivery.label}",'
            f'"duplicate":{_BOOLS[event.duplicate]},"size":{len(event.content)}'
        )
        if isinstance(packet, SequenceHeader):
            fields += (
                f',"origin":"{packet.origin.hex()}","lane":{packet.lane},"sequence":{packet.sequence},'
                f'"number":{packet.number},"previous":{packet.previous},"count":{messages_in(packet.body)}'
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


def start_record(address: str, settings: NodeSettings) -> dict[str, Any]:
    """Where a node listens, and the settings that it keeps to (``base.session_log.SETTINGS``)."""
    session, order = settings.session, settings.order
    return {
        **({"address": address} if address else {}),
        "max_unacked_packet": session.max_unacked_packet,
        "idle_ack_delay_ns": session.trigger.longest_ns,
        "ack_threshold": session.trigger.threshold(session.max_unacked_packet) or 0,
        "ack_timeout_min_ns": session.ack_timeout_min_ns if session.ack_timeout_ns is None else session.ack_timeout_ns,
        "seq_max_ack_delay_ns": order.seq_max_ack_delay_ns,
        "seq_resend_13_ns": order.seq_resend_13_ns,
        "seq_resend_46_ns": order.seq_resend_46_ns,
        "seq_resend_79_ns": order.seq_resend_79_ns,
        "seq_resend_10_ns": order.seq_resend_10_ns,
    }


def _ranges(ranges: list[Range]) -> str:
    return "[" + ",".join(f"[{first},{last}]" for first, last in ranges) + "]"


_BOOLS = ("false", "true")
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
