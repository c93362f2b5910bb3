"""Writes the lines of the session log (docs/session-log.md).

Formatting only: the host does the I/O. Successive packets that leave or arrive at the same moment share one record, so
that a packet costs a few comparisons.
"""

from collections import Counter
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Any

from triack.base.ack_trigger import longest_delay_ns
from triack.base.delivery import LABELS, Delivery
from triack.base.log_lines import LineWriter
from triack.base.ranges import as_ranges
from triack.base.reasons import DropReason
from triack.base.units import MS, in_ns
from triack.ordering.wire import Packet, RelayedHeader, SequenceHeader
from triack.queues.body_head import messages_in
from triack.queues.mailboxes.incoming_run import IncomingRun
from triack.queues.mailboxes.system_queues import counted_in
from triack.queues.node_settings import NodeSettings, store_survives
from triack.queues.peers.session_settings import largest_window
from triack.queues.streams.departing_stream import NO_RELAY, DepartingContext
from triack.session.protocol.events import PacketArrived, Transmit
from triack.session.protocol.packets import SessionPacket

_TRANSACTIONAL = Delivery.TRANSACTIONAL  # its own name, as every packet is compared with it
DROPS_EVERY_NS = 1_000_000_000
"""A flood of bad datagrams must not become a flood of records: drops are recorded once a second."""
WOKE_LATE_NS = 50 * MS
"""Delay from which it is recorded: a third of what replay adds to every time limit for a busy machine, so that a pause
that breaks a limit is on record, and longer than the pauses of a busy loop."""

_NUMBER_OF = attrgetter("number")
_Stream = tuple[Delivery, bytes, int, int, int]


@dataclass(slots=True, eq=False)
class _Run:
    """Packets with successive numbers that left or arrived at one moment."""

    event: str
    at_ns: int
    session: str
    flag: bool
    packet: int
    stream: _Stream | None
    packets: int = 1
    size: int = 0
    number: int = 0
    previous: int = 0
    counts: list[list[int]] = field(default_factory=list)


class Recorder:
    """Collects records until ``take`` fetches them as bytes.

    Args:
        wall_offset_ns: wall clock minus monotonic clock.

    Attributes:
        due_ns: until when the host, which has just asked for that, waits for an input; None: without a deadline.
    """

    def __init__(self, node_id: bytes, incarnation: int, wall_offset_ns: int, now_ns: int) -> None:
        self.lines = LineWriter(node_id, incarnation, wall_offset_ns)
        self._drops: Counter[DropReason] = Counter()
        self._drops_at_ns = now_ns
        self._seen_ns = now_ns
        self.due_ns: int | None = now_ns
        # Records that may still grow: packets, and after them the express packets among them that entered their queue.
        self._run: _Run | None = None
        self._entered: tuple[int, dict[str, Any]] | None = None

    def add(self, event: str, now_ns: int, /, **fields: Any) -> None:
        """Record an event."""
        if event == "committed" and self._enter(now_ns, fields):
            return
        if self._run is not None or self._entered is not None:
            self._end_run()
        self.lines.add(event, now_ns, fields)

    def _enter(self, now_ns: int, fields: dict[str, Any]) -> bool:
        """Join express packets that enter a queue as they arrive; durable ones come in ranges already."""
        if fields["class"] != LABELS[Delivery.EXPRESS]:
            return False
        if self._entered is not None:
            at_ns, before = self._entered
            follows = {**fields, "first": before["first"], "count": before["count"], "last": fields["first"] - 1}
            if at_ns == now_ns and follows == before:
                before["last"] = fields["last"]
                before["count"] += fields["count"]
                return True
            self._end_run()
        self._entered = now_ns, dict(fields)
        return True

    def add_drops(self, drops: Counter[DropReason], now_ns: int) -> None:
        """Record drops since the last time."""
        for reason, count in (drops - self._drops).items():
            self.add("dropped", now_ns, reason=reason, count=count)
        self._drops = Counter(drops)
        self._drops_at_ns = now_ns

    def handle_time(self, now_ns: int) -> None:
        """The host has called: record that if the call is late, and nothing has been recorded since it was due.

        The host calls a busy engine without delay, and a waiting one at its deadline. If the call comes much later, the
        process was stopped, its machine was suspended, or its event loop was blocked. No timer can show that while it
        lasts, so each reading of the clock is checked.
        """
        since_ns, seen_ns = self.due_ns, self._seen_ns
        self.due_ns = self._seen_ns = now_ns
        if since_ns is None or now_ns - since_ns < WOKE_LATE_NS or now_ns - seen_ns < WOKE_LATE_NS:
            return
        self._end_run()
        since_ns = max(since_ns, seen_ns, self.lines.at_ns)
        if now_ns - since_ns >= WOKE_LATE_NS:
            self.lines.add("woke_late", now_ns, {"since_ns": since_ns})

    def add_transmit(self, session: str, transmit: Transmit, now_ns: int) -> None:
        """Record the content of one datagram."""
        sent = transmit.packet
        for event, ack in (("ack_sent", transmit.ack), ("store_ack_sent", transmit.store_ack)):
            if ack is not None:
                covered = {"cumulative": ack.cumulative, "ranges": ack.ranges}
                self.add(event, now_ns, session=session, **covered, trigger=ack.trigger, pending=ack.pending)
        if transmit.ping:
            self.add("ping_sent", now_ns, session=session)
        if sent is not None:
            self._add_sent(session, sent, now_ns)

    def add_run_sent(self, session: str, run: list[SessionPacket], now_ns: int) -> None:
        """Record packets that left together."""
        open_run, before, counts_any, open_way = None, None, 0, tuple[int, ...]()
        for sent in run:
            context: object = sent.context
            owner = context.stream if type(context) is DepartingContext else None
            if open_run is not None and owner is before and type(context) is DepartingContext:
                entry = context.entry
                named = entry.number - 1 if sent.delivery is _TRANSACTIONAL else open_run.previous
                follows = entry.number == open_run.number + open_run.packets and context.previous == named
                if follows and open_way == (context.sequence, context.hops):
                    open_run.packets += 1
                    open_run.size += sent.size_bytes
                    _count(open_run.counts, entry.messages if counts_any else 0)
                    continue
            self._add_sent(session, sent, now_ns)
            open_run, before = self._run, owner
            open_way = () if open_run is None or open_run.stream is None else open_run.stream[3:]
            if sent is not run[-1]:
                counts_any = 0 if owner is None else counted_in(owner.queue, 1)

    def _add_sent(self, session: str, sent: SessionPacket, now_ns: int) -> None:
        context, resend = sent.context, sent.sends > 1
        if type(context) is not DepartingContext:
            self._add_packet("packet_sent", now_ns, session, resend, sent.number, None).size += sent.size_bytes
            return
        passing, entry = context.stream, context.entry
        stream = sent.delivery, *passing.id, context.sequence, context.hops
        carries = entry.number, context.previous, counted_in(passing.queue, entry.messages)
        run = self._add_packet("packet_sent", now_ns, session, resend, sent.number, stream, *carries)
        run.size += sent.size_bytes

    def add_received(self, session: str, event: PacketArrived, packet: Packet | None, now_ns: int) -> None:
        """Record a packet that arrived; ``packet`` is None if it cannot be read."""
        duplicate, number, size = event.duplicate, event.number, len(event.content)
        if not isinstance(packet, SequenceHeader):
            self._add_packet("packet_received", now_ns, session, duplicate, number, None).size += size
            return
        stream = event.delivery, packet.origin, packet.stream, packet.sequence, _hops_of(packet)
        carries = packet.number, packet.previous, counted_in(packet.queue, messages_in(packet.body))
        self._add_packet("packet_received", now_ns, session, duplicate, number, stream, *carries).size += size

    def add_run(self, session: str, arrived: IncomingRun, delivery: Delivery, now_ns: int) -> None:
        """Record packets that arrived for the first time."""
        header = arrived.header
        stream = delivery, header.origin, header.stream, header.sequence, _hops_of(header)
        counts = arrived.counts if counted_in(header.queue, 1) else [0] * len(arrived.counts)
        carries = header.number, header.previous, counts[0]
        run = self._add_packet("packet_received", now_ns, session, False, arrived.packet, stream, *carries)
        run.size += arrived.size_bytes
        run.packets += len(counts) - 1
        for messages, alike in groupby(counts[1:]):
            _count(run.counts, messages, len(list(alike)))

    def _add_packet(  # noqa: PLR0917 - once for each packet, and names cost
        self,
        event: str,
        at_ns: int,
        session: str,
        flag: bool,
        packet: int,
        stream: _Stream | None,
        number: int = 0,
        previous: int = 0,
        messages: int = 0,
    ) -> _Run:
        """Add a packet to the run, or begin one with it."""
        run = self._run
        if (
            run is not None
            and packet == run.packet + run.packets
            and stream == run.stream
            and at_ns == run.at_ns
            and flag is run.flag
            and event is run.event
            and session == run.session
        ):
            if stream is None:
                run.packets += 1
                return run
            named = number - 1 if stream[0] is _TRANSACTIONAL else run.previous
            if number == run.number + run.packets and previous == named:
                run.packets += 1
                _count(run.counts, messages)
                return run
        if run is not None or self._entered is not None:
            self._end_run()
        run = self._run = _Run(event, at_ns, session, flag, packet, stream)
        run.number, run.previous = number, previous
        run.counts.append([1, messages])
        return run

    def _end_run(self) -> None:
        run, self._run = self._run, None
        entered, self._entered = self._entered, None
        if run is not None:
            fields: dict[str, Any] = {"session": run.session, "packet": run.packet, "packets": run.packets}
            if run.stream is None:
                fields["class"] = LABELS[Delivery.EXPRESS]
            else:
                delivery, origin, stream, sequence, hops = run.stream
                fields["class"], fields["origin"] = LABELS[delivery], origin.hex()
                fields["stream"], fields["sequence"] = stream, sequence
                fields["number"], fields["previous"], fields["counts"] = run.number, run.previous, run.counts
                if hops != NO_RELAY:
                    fields["hops"] = hops
            fields["resend" if run.event == "packet_sent" else "duplicate"] = run.flag
            fields["size"] = run.size
            self.lines.add(run.event, run.at_ns, fields)
        if entered is not None:
            self.lines.add("committed", *entered)

    def add_numbers(self, event: str, session: str, packets: list[SessionPacket], now_ns: int) -> None:
        """Record which packets an ack newly covers."""
        ranges = as_ranges(sorted(map(_NUMBER_OF, packets)))
        self.add(event, now_ns, session=session, ranges=ranges)

    def take(self, drops: Counter[DropReason], now_ns: int) -> bytes:
        """All records since the last call, each line ended; ``drops`` as ``add_drops``."""
        if now_ns - self._drops_at_ns >= DROPS_EVERY_NS:
            self.add_drops(drops, now_ns)
        if self._run is not None or self._entered is not None:
            self._end_run()
        return self.lines.take() if self.lines.lines else b""


def _hops_of(header: SequenceHeader) -> int:
    return header.hops if type(header) is RelayedHeader else NO_RELAY


def _count(counts: list[list[int]], messages: int, packets: int = 1) -> None:
    last = counts[-1]
    if last[1] == messages:
        last[0] += packets
    else:
        counts.append([packets, messages])


def start_record(address: str, settings: NodeSettings) -> dict[str, Any]:
    """A node's address, and its settings for the log (``base.session_log.SETTINGS``)."""
    session, order, window = settings.session, settings.order, largest_window(settings)
    return {
        **({"address": address} if address else {}),
        **({"survives": store_survives(settings)} if store_survives(settings) != "power loss" else {}),
        "max_unacked_packet": window,
        "idle_ack_delay_ns": longest_delay_ns(session.ack_trigger),
        "ack_threshold": session.ack_trigger.threshold(window) or 0,
        "ack_timeout_min_ns": in_ns(session.ack_timeout_s or session.ack_timeout_min_s),
        "seq_max_ack_delay_ns": in_ns(order.seq_max_ack_delay_s),
        "seq_resend_13_ns": in_ns(order.seq_resend_13_s),
        "seq_resend_46_ns": in_ns(order.seq_resend_46_s),
        "seq_resend_79_ns": in_ns(order.seq_resend_79_s),
        "seq_resend_10_ns": in_ns(order.seq_resend_10_s),
    }
