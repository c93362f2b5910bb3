"""What a relay promises about the packets of a stream that it passes on: kept until the next hop has them, unchanged.

``Passing`` is a relay's side of one stream, fed with its records in their order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import ClassVar, Final

from triack.tools.replay.checks.findings import Due, Output, Record, settled
from triack.tools.replay.checks.side import Side, by_event
from triack.tools.replay.log.ranges import RangeSet
from triack.tools.replay.log.schema import EXPRESS, FREED_REASONS, RECOVERABLE, TRANSACTIONAL
from triack.tools.replay.log.series import latency_bucket
from triack.tools.replay.transit.brought import Brought

HOPS_MAX: Final = 29
"""The most relays that a packet passes (MSMQ's UserHeader.RC has five bits). Written down here and not taken from the
relay, because a judge that uses the code it judges proves nothing."""
GIVEN_UP: Final = ("rejected", "expired", "purged")
"""Reasons for which a packet goes no further: it is a dead letter at the relay, or at its origin."""
ACKED: Final = ("store-ack", "session-ack", "onward-ack")


class Passed:
    """One sequence as a relay knows it.

    Attributes:
        brought: what has arrived.
        taken: what was here at any time in this start.
        held: what is here.
        given_up: what goes no further from here.
        onward: what is stored behind here, in this start.
        onward_ns: when that was known last, by the wall clock.
        heard: what the next hop of a synchronous link has passed on, in this start.
    """

    def __init__(self) -> None:
        self.cls = EXPRESS
        self.brought = Brought()
        self.taken = RangeSet()
        self.held = RangeSet()
        self.given_up = RangeSet()
        self.onward = RangeSet()
        self.onward_ns = 0
        self.heard = RangeSet()
        # By session: what it carried to the next hop, and of which the ack has come that frees.
        self.sent: defaultdict[str, RangeSet] = defaultdict(RangeSet)
        self.acked: defaultdict[str, RangeSet] = defaultdict(RangeSet)
        # Since when what is here has been here: first, last, wall time.
        self.since: list[tuple[int, int, int]] = []

    def restart(self) -> None:
        """The process is gone: what it had in memory, too."""
        self.taken, self.onward, self.heard = RangeSet(), RangeSet(), RangeSet()
        self.sent.clear()
        self.acked.clear()
        if self.cls == EXPRESS:
            self.held, self.since = RangeSet(), []

    def drop(self, first: int, last: int) -> list[tuple[int, int, int]]:
        """Packets are here no longer; return how many of them had been here since when, as first, last, wall time."""
        self.held.take(first, last)
        left, gone = [], []
        for begin, end, since_ns in self.since:
            low, high = max(begin, first), min(end, last)
            if low > high:
                left.append((begin, end, since_ns))
                continue
            gone.append((low, high, since_ns))
            left += [(begin, low - 1, since_ns)] if begin < low else []
            left += [(high + 1, end, since_ns)] if end > high else []
        self.since = left
        return gone


class Passing(Side[Passed]):
    """A relay's side of one stream."""

    def __init__(self, node: str, origin: str, stream: int, out: Output) -> None:
        super().__init__(node, origin, stream, out)
        # The sessions that packets came by in this start, each with the name of the neighbour, if that is known.
        self._came_by: dict[str, str] = {}
        # Whether it has told a neighbour what is stored behind it, as it does over synchronous links alone.
        self.tells_onward = False

    def _begin(self) -> Passed:
        return Passed()

    def has_had(self, sequence: int) -> bool:
        """Whether any packet of a sequence has come, or was found here."""
        known = self.sequences.get(sequence)
        return known is not None and bool(known.brought.numbers or known.taken)

    # ---- starts of the node

    def handle_started(self, record: Record) -> None:
        """A new start: what was on disk must be there again; express is gone."""
        super().handle_started(record)
        self._came_by.clear()
        for known in self.sequences.values():
            known.restart()

    def _judge_missing(self, record: Record, found: dict[int, RangeSet], *dues: Due, final: bool = False) -> None:
        """What was in transit must be found."""
        for sequence, known in self.sequences.items():
            if known.cls == EXPRESS:
                continue
            there = found.get(sequence, RangeSet())
            gone = [lost for span in known.held for lost in there.missing(*span)]
            evidence = "in transit before the restart, not freed, and not found again"
            self._each(record, "transit_forgotten", evidence, gone, *dues, sequence=sequence)
            for lost in gone if final else ():
                known.drop(*lost)

    # ---- what comes

    def handle_received(self, record: Record) -> None:
        """Packets arrived."""
        known = self._sequence(record)
        known.cls = record["class"]
        known.brought.take(record)
        self._came_by.setdefault(record["session"], "")

    def _told_taking(self, record: Record) -> None:
        self._came_by[record["session"]] = record["peer_name"]

    def _on_transit_committed(self, record: Record) -> None:
        """Packets are in transit here, on the disk (express: in memory)."""
        known, first, last = self._sequence(record), record["first"], record["last"]
        known.cls = record["class"]
        if record.get("recovered"):
            self._find(record, [(first, last)])
        else:
            if record["peer_name"] not in self._came_by.values() and "" not in self._came_by.values():
                evidence = f"said to have come by {record['peer_name']}, and no session with that has brought any"
                self._at(record, "claims", evidence, number=first, last=last)
            self._each(record, "claims", "taken into transit, and was there", known.held.overlap(first, last))
        known.since += [(low, high, record["wall_ns"]) for low, high in known.held.missing(first, last)]
        known.taken.add(first, last)
        known.held.add(first, last)

    # ---- what leaves

    def _on_packet_sent(self, record: Record) -> None:
        if self.node == self._origin:
            return
        known, first, last = self._sequence(record), record["number"], record["number"] + record["packets"] - 1
        evidence = "sent by another node than its origin, and was not in transit there"
        self._each(record, "queue", evidence, known.taken.missing(first, last))
        known.sent[record["session"]].add(first, last)
        self._judge_hops(record, known, first, last)
        if not record["resend"]:
            self._judge_previous(record, known, first, last)

    def _judge_hops(self, record: Record, known: Passed, first: int, last: int) -> None:
        hops = record.get("hops", 0)
        if hops > HOPS_MAX:
            evidence = f"passed on by relay {hops}, {HOPS_MAX} are allowed"
            self._at(record, "hop_limit", evidence, number=first, last=last)
        due = settled(self.node, last=record["incarnation"])
        evidence = f"passed on with hop count {hops}, and did not come with {hops - 1}"
        self._each(record, "hops_step", evidence, known.brought.came_by(hops - 1, first, last), due)

    def _judge_previous(self, record: Record, known: Passed, first: int, last: int) -> None:
        previous, due = record["previous"], settled(self.node, last=record["incarnation"])
        if known.cls == TRANSACTIONAL:
            evidence = "passed on with a previous packet that it did not name when it came"
            self._each(record, "previous_raised", evidence, known.brought.named(first, last, previous), due)
            return
        if previous > known.brought.unwanted:
            evidence = f"says that nothing up to {previous} is wanted, its origin said up to {known.brought.unwanted}"
            self._at(record, "previous_raised", evidence, due, number=first, last=last)
        elif known.held and known.held.lowest <= previous:
            evidence = f"says that nothing up to {previous} is wanted, and {known.held.lowest} was in transit here"
            self._at(record, "previous_raised", evidence, number=first, last=last)

    # ---- what frees

    def _told_stored(self, record: Record) -> None:
        """A session ack of express packets, or a store ack, came from the next hop."""
        known = self._sequence(record)
        if (record["event"] == "~acked") == (record["class"] == EXPRESS):
            known.acked[record["session"]].add(record["first"], record["last"])

    def _on_transit_freed(self, record: Record) -> None:
        """The relay answers for packets no longer."""
        known, first, last, reason = self._sequence(record), record["first"], record["last"], record["reason"]
        if reason not in FREED_REASONS:
            self._at(record, "claims", f"unknown reason {reason!r}", number=first, last=last)
        if said := self._fault_of(known.cls, reason, is_sync=record.get("sync", False)):
            self._at(record, "freed_too_early", said, number=first, last=last)
        elif reason == "onward-ack":
            # The word names a number. Only the store ack says that the next hop has this copy of it.
            self._judge_ack(record, known)
        elif reason in ACKED:
            self._judge_ack(record, known)
            if not record.get("sync"):
                known.onward.add(first, last)
                known.onward_ns = record["wall_ns"]
        if reason in GIVEN_UP:
            known.given_up.add(first, last)
        for low, high, since_ns in known.drop(first, last):
            if reason in ACKED:
                bucket = latency_bucket(record["wall_ns"] - since_ns)
                self._out.count(f"dwell\t{self._origin}\t{self._stream}\t{self.node}\t{bucket}", high - low + 1)

    def handle_end_passed(self, record: Record) -> None:
        """The relay told the next hop that a stream has ended."""
        for sequence, known in self.sequences.items():
            if sequence <= record["sequence"] and known.held:
                first, last = known.held.lowest, max(end for _, end in known.held)
                evidence = "the end of the stream was passed on, and they were in transit here"
                self._at(record, "end_overtakes", evidence, sequence=sequence, number=first, last=last)

    def _on_onward_ack_received(self, record: Record) -> None:
        """The next hop of a synchronous link has passed packets on."""
        if self.node == self._origin:
            return
        known = self._sequence(record)
        for first, last in record["ranges"]:
            known.heard.add(first, last)
            known.onward.add(first, last)

    def handle_onward_sent(self, record: Record) -> None:
        """The relay told a neighbour how far it has a sequence."""
        known, here = self._sequence(record), record["here"]
        if here > max([0, *known.brought.numbers.lasts[-1:], *known.taken.lasts[-1:]]):
            due = settled(self.node, last=record["incarnation"])
            self._at(record, "claims", "told to be here, and had never come", due, number=here)

    @staticmethod
    def _fault_of(delivery: str, reason: str, *, is_sync: bool) -> str:
        """Why a class is not freed for a reason, or an empty string."""
        if reason == "session-ack" and delivery != EXPRESS:
            return f"{delivery}, and freed by a session ack"
        if reason == "store-ack" and delivery == RECOVERABLE and is_sync:
            return f"{delivery}, and freed by a store ack of a synchronous link"
        if reason == "onward-ack" and delivery != RECOVERABLE:
            return f"{delivery}, and freed as it was passed on"
        if reason == "store-ack" and delivery == EXPRESS:
            return f"{delivery}, and freed by a store ack"
        if reason in ("let-go", "stale-sequence") and delivery == RECOVERABLE:
            return f"{delivery}, and let go ({reason}) though its origin need not have it any more"
        return ""

    def _judge_ack(self, record: Record, known: Passed) -> None:
        session = record.get("session", "")
        carried, acked = known.sent[session], known.acked[session]
        for first, last in known.held.overlap(record["first"], record["last"]):
            evidence = f"freed by a {record['reason'].replace('-', ' ')}"
            unsent = carried.missing(first, last)
            self._each(
                record, "transit_unsent", f"{evidence} of a session that did not carry it", unsent, session=session
            )
            unheard = [part for span in carried.overlap(first, last) for part in acked.missing(*span)]
            self._each(record, "freed_too_early", f"{evidence} that had not come", unheard, session=session)

    # ---- the end

    def finish(self, later: Due) -> None:
        """Judge what only the whole record of this node shows; more of it may follow."""
        self._finish_starts(later)

    SEES: ClassVar[dict[str, Callable[[Passing, Record], None]]] = {**by_event(vars()), "~acked": _told_stored}
