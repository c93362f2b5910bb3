"""What one session promises, checked record by record: the window, the acks, their timing, commits before store acks.

Fed with the records of one node after the other, each node's in its own order. Knows nothing of other nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from triack.tools.replay.files import Record
from triack.tools.replay.schema import (
    ACK_BURST_PACKETS,
    ACK_RANGE_PACKETS_MAX,
    EXPRESS,
    IDLE_ACK_TOLERANCE_NS,
    RECOVERABLE,
    Violation,
)

Packet = tuple[str, str, int, int, int]
"""A sequence packet, as (class, origin, lane, sequence, number)."""
SessionId = tuple[str, str]
"""One end of a session: node and session id."""

CLOSED_BY_NOBODY: Final = 1 << 62
"""Later than any clock tells."""


class Link:
    """One end of one session: what it sent and received, and which of it was acknowledged."""

    __slots__ = (
        "ack_covered",
        "ack_cumulative",
        "acked",
        "closed_at",
        "doubtful_runs",
        "early_sends",
        "fresh",
        "fresh_at",
        "fresh_packet",
        "incarnation",
        "received",
        "sent",
        "store_covered",
        "store_cumulative",
        "stored",
        "threshold",
        "unacked",
        "wait_ns",
        "window",
    )

    def __init__(self) -> None:
        self.window: int | None = None
        self.threshold: int | None = None
        self.wait_ns: int | None = None
        self.incarnation = 0
        self.closed_at = CLOSED_BY_NOBODY
        # The sending side.
        self.sent: dict[int, Packet | None] = {}
        self.acked: set[int] = set()
        self.stored: set[int] = set()
        self.unacked = 0
        # First sends before the window is known, as (packet, unacknowledged with it).
        self.early_sends: list[tuple[int, int]] = []
        # The receiving side.
        self.received: dict[int, Packet | None] = {}
        self.ack_cumulative = 0
        self.ack_covered: set[int] = set()
        self.store_cumulative = 0
        self.store_covered: set[int] = set()
        # New packets since the last ack: how many, when the first came, the lowest number.
        self.fresh = 0
        self.fresh_at = 0
        self.fresh_packet = 0
        # Runs that were long, ended late or not at all: (first_at, ack_at or none, lowest packet, packets).
        self.doubtful_runs: list[tuple[int, int | None, int, int]] = []


class Sessions:
    """The checks of sessions.

    Args:
        report: called with each violation.
        settled: says whether a node has committed or recovered a packet so far.
        freed: called with (node, packet) when the ack that frees the packet's class has arrived.
    """

    def __init__(
        self,
        report: Callable[[Violation], None],
        settled: Callable[[str, Packet], bool],
        freed: Callable[[str, Packet], None],
    ) -> None:
        self._report = report
        self._settled = settled
        self._freed = freed
        self._early: list[Violation] = []
        self.links: dict[SessionId, Link] = {}

    def link(self, record: Record) -> Link:
        """Return the end of the record's session at the record's node."""
        key = (record["node"], record["session"])
        link = self.links.get(key)
        if link is None:
            link = self.links[key] = Link()
            link.incarnation = record["incarnation"]
        return link

    def handle_opened(self, record: Record) -> None:
        """Note the session's window and ack settings, which hold for the whole session."""
        link = self.link(record)
        if link.window is not None:
            return
        link.window = record["window"]
        link.threshold = record["ack_threshold"]
        link.wait_ns = record["idle_ack_delay_ns"]
        for number, unacked in link.early_sends:
            self._judge_send(link, number, unacked, record)

    def handle_closed(self, record: Record) -> None:
        """Note when the session ended; no ack is due after that."""
        link = self.link(record)
        link.closed_at = min(link.closed_at, record["at_ns"])

    def handle_sent(self, link: Link, number: int, packet: Packet | None, record: Record) -> bool:
        """Count a packet's first send against the window; return whether it counts.

        A packet that was acknowledged before is no burden to the window; that it was, is a finding of its own.
        """
        if number in link.sent:
            return False
        link.sent[number] = packet
        if number in link.stored:
            self._free_stored(record["node"], packet)
        if number in link.acked:
            self._free_acked(record["node"], packet)
            return False
        link.unacked += 1
        if link.window is None:
            link.early_sends.append((number, link.unacked))
        else:
            self._judge_send(link, number, link.unacked, record)
        return True

    def _judge_send(self, link: Link, number: int, unacked: int, record: Record) -> None:
        if link.window is not None and unacked > link.window:
            evidence = f"{unacked} packets unacknowledged, the window is {link.window}"
            self._report(_at("window", record, number, evidence))

    def handle_received(self, link: Link, number: int, packet: Packet | None, record: Record) -> None:
        """Note a packet's arrival; a new one makes an ack due."""
        link.received.setdefault(number, packet)
        if record.get("duplicate"):
            return
        if link.fresh == 0:
            link.fresh_at = record["at_ns"]
            link.fresh_packet = number
        link.fresh += 1
        link.fresh_packet = min(link.fresh_packet, number)

    def handle_ack_received(self, record: Record) -> None:
        """Take packets out of the window; each must have been sent."""
        link = self.link(record)
        for number in _numbers(record["ranges"]):
            if number in link.acked:
                continue
            link.acked.add(number)
            if number not in link.sent:
                self._report(_at("ack_unreceived", record, number, "acknowledged but not sent before"))
                continue
            link.unacked -= 1
            self._free_acked(record["node"], link.sent[number])

    def handle_store_ack_received(self, record: Record) -> None:
        """A store ack frees recoverable packets, and transactional ones at a node that only passed them on."""
        link = self.link(record)
        for number in _numbers(record["ranges"]):
            if number in link.stored:
                continue
            link.stored.add(number)
            self._free_stored(record["node"], link.sent.get(number))

    def _free_acked(self, node: str, packet: Packet | None) -> None:
        if packet is not None and packet[0] == EXPRESS:
            self._freed(node, packet)

    def _free_stored(self, node: str, packet: Packet | None) -> None:
        if packet is not None and (packet[0] == RECOVERABLE or packet[1] != node):
            self._freed(node, packet)

    def handle_ack_sent(self, record: Record) -> None:
        """Every packet that the ack newly covers must have arrived; the run of new packets ends."""
        link = self.link(record)
        ranges = _covered(link.ack_cumulative, record)
        link.ack_cumulative = max(link.ack_cumulative, record["cumulative"])
        for number in _numbers(ranges):
            if number not in link.ack_covered:
                link.ack_covered.add(number)
                if number not in link.received:
                    self._report(_at("ack_unsent", record, number, "acknowledged but not received before"))
        _end_run(link, record["at_ns"])

    def handle_store_ack_sent(self, record: Record) -> None:
        """Every durable packet that the store ack newly covers must be on disk; forwarders are not known yet."""
        link = self.link(record)
        ranges = _covered(link.store_cumulative, record)
        link.store_cumulative = max(link.store_cumulative, record["cumulative"])
        for number in _numbers(ranges):
            if number in link.store_covered:
                continue
            link.store_covered.add(number)
            packet = link.received.get(number)
            if packet is None or packet[0] == EXPRESS or self._settled(record["node"], packet):
                continue
            evidence = f"session packet {number} was store-acked before its commit"
            where = (record["node"], record["session"], *packet[1:])
            self._early.append(Violation("store_ack_before_commit", *where, evidence))

    def finish(self, log_ends: dict[tuple[str, int], int], forwarders: set[tuple[str, str, int]]) -> None:
        """Judge what only the end of the record decides.

        Args:
            log_ends: (node, incarnation) -> `at_ns` of its last record.
            forwarders: (node, origin, lane) of nodes that passed the lane on, without a record of what they stored.
        """
        for early in self._early:
            if (early.node, early.origin, early.lane) not in forwarders:
                self._report(early)
        for (node, session), link in self.links.items():
            if link.fresh:
                _end_run(link, None)
            if link.wait_ns is not None:
                limit = link.wait_ns + IDLE_ACK_TOLERANCE_NS
                self._judge_runs(node, session, link, limit, log_ends[(node, link.incarnation)])

    def _judge_runs(self, node: str, session: str, link: Link, limit: int, log_end: int) -> None:
        for first_at, ack_at, packet, fresh in link.doubtful_runs:
            if link.threshold and fresh >= link.threshold + ACK_BURST_PACKETS:
                evidence = f"{fresh} new packets without an ack, the threshold is {link.threshold}"
                self._report(Violation("half_window", node, session, number=packet, evidence=evidence))
            deadline = first_at + limit
            if link.closed_at <= deadline or log_end <= deadline or (ack_at is not None and ack_at <= deadline):
                continue
            waited = "never" if ack_at is None else f"after {(ack_at - first_at) // 1_000_000} ms"
            evidence = f"acknowledged {waited}, at most {limit // 1_000_000} ms are allowed"
            self._report(Violation("idle_delay", node, session, number=packet, evidence=evidence))


def _end_run(link: Link, ack_at: int | None) -> None:
    """Keep a run of new packets if it may have been too long, or have waited too long for its ack."""
    if link.fresh and (
        ack_at is None or ack_at - link.fresh_at > IDLE_ACK_TOLERANCE_NS or link.fresh >= ACK_BURST_PACKETS
    ):
        link.doubtful_runs.append((link.fresh_at, ack_at, link.fresh_packet, link.fresh))
    link.fresh = 0


def _at(check: str, record: Record, number: int, evidence: str) -> Violation:
    return Violation(check, record["node"], record["session"], number=number, evidence=evidence)


def _covered(cumulative: int, record: Record) -> list[list[int]]:
    """Return what an ack covers beyond an earlier cumulative number."""
    ranges: list[list[int]] = record.get("ranges") or []
    if record["cumulative"] > cumulative:
        return [[cumulative + 1, record["cumulative"]], *ranges]
    return ranges


def _numbers(ranges: list[list[int]] | None) -> Iterator[int]:
    for first, last in ranges or ():
        yield from range(first, min(last, first + ACK_RANGE_PACKETS_MAX - 1) + 1)
