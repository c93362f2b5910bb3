"""What a node promises about the packets of a stream that it sends: queued first, none skipped, none forgotten.

``Outgoing`` is one node's side of one stream, fed with its records in their order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import ClassVar, Final

from triack.base.units import MS
from triack.tools.replay.checks.findings import EVER, LATE_NS, UNSENT_NS, Due, Output, Record, awake, settled
from triack.tools.replay.checks.side import Side, by_event
from triack.tools.replay.checks.tier_check import Tiers
from triack.tools.replay.log.ranges import RangeSet, Span, size
from triack.tools.replay.log.schema import EXPRESS, FAILURE_REASONS, RECOVERABLE, TRANSACTIONAL

RESEND_LATE_NS: Final = 10_000_000_000
"""A session that has been open for this long has sent what the session before it left behind, whatever else waits."""

SWITCHED_NS: Final = 50_000_000_000
"""For this long a stream keeps to the way that it was switched to: a relay forgets one that is idle for a minute, and
then it may go another way again, without a word."""


class Sender:
    """One sequence as its sender knows it."""

    def __init__(self) -> None:
        self.cls = EXPRESS
        self.queued = RangeSet()
        self.wanted = RangeSet()
        self.removed = RangeSet()
        self.sent = RangeSet()
        # Wanted numbers that a session passed over: (the record that did, session, first, last).
        self.skipped: list[tuple[Record, str, Span]] = []
        self.acked = 0
        # Up to which number a relay says that they wait there.
        self.waiting = 0
        # The highest of these by session: if the relay takes its word back, a resend tier sends them, not the session.
        self.waited: dict[str, int] = {}
        # Packets that had left when their destination was full, by session: when an ack arrives there, no record says
        # whether it is for that sending, which no longer counts, or for a later one.
        self.passed: defaultdict[str, RangeSet] = defaultdict(RangeSet)

    def take_passed(self, first: int, last: int, *, but_of: str = "") -> bool:
        """Forget that these numbers were passed over, but in one session; return whether any was."""
        sessions = [session for session in self.passed if session != but_of]
        taken = [self.passed[session].take(first, last) for session in sessions]
        for session in sessions:
            if not self.passed[session]:
                del self.passed[session]
        return any(taken)


class Outgoing(Side[Sender]):
    """One node's sending side of one stream."""

    def __init__(self, node: str, origin: str, stream: int, out: Output) -> None:
        super().__init__(node, origin, stream, out)
        self._tiers = Tiers(origin, stream, out)
        # The name of the peer, and the other ends of sessions that carried the stream. Where a route was switched there
        # are several, each with its own sessions: which of them goes on with what another one has left is not known.
        self._peer_name = ""
        self._peers: set[str] = set()
        self._begin_start()

    def _begin_start(self) -> None:
        """Set what a process knows when it starts."""
        # What the session in use has sent: session -> sequence -> numbers; the older ones are over.
        self._carried: dict[str, dict[int, RangeSet]] = {}
        # When its route changed last: sessions that were open then have begun no wait.
        self._rerouted_ns = 0
        # Those of them with a neighbour by which the stream went before.
        self._former: set[str] = set()
        # The neighbour by which the stream goes since then, and the other ends of its sessions.
        self._way, self._ends = "", dict[str, tuple[str, str]]()
        # Its sequence then, and what of that was to be sent from then on: another one may go another way again.
        self._switched, self._news = 0, RangeSet()
        # The last session that failed, and by sequence what failed sessions carried and no later one did.
        self._last_failed: Record | None = None
        self._last_ended: Record | None = None
        self._left: defaultdict[int, RangeSet] = defaultdict(RangeSet)
        # What the next hop had when a session ended as idle, by sequence: it waits for its resend tier.
        self._parked: dict[int, RangeSet] = {}
        # Whether the peer has no room, and the record since which something unsent has waited with nothing of the
        # stream on its way; None if nothing does.
        self._held = False
        self._unsent: tuple[Record, int] | None = None
        # The sequences that were ended, and the last one that something was put into.
        self._ended: set[int] = set()
        self._used: int | None = None

    @property
    def is_origin(self) -> bool:
        """Whether these are the node's own messages."""
        return self.node == self._origin

    def _begin(self) -> Sender:
        return Sender()

    def look(self, record: Record) -> None:
        """Check after a record of the origin whether something waits that nothing keeps from leaving."""
        number = None if self._held or not self._peer_name else self._first_unsent()
        if self._unsent is not None and number != self._unsent[1]:
            self._judge_unsent(record["at_ns"])
            self._unsent = None
        if number is not None and self._unsent is None:
            self._unsent = record, number

    def _first_unsent(self) -> int | None:
        """Return the first packet that is wanted, if it was never sent: then nothing of the stream is on its way."""
        if not self.sequences:
            return None
        sender = self.sequences[max(self.sequences)]
        first = sender.wanted.lowest if sender.wanted else None
        return None if first is None or first in sender.sent else first

    def _judge_unsent(self, until_ns: int) -> None:
        """Report what has waited for too long; the peer's log tells whether a session had room."""
        assert self._unsent is not None
        record, number = self._unsent
        begin_ns = record["at_ns"]
        if until_ns - begin_ns > UNSENT_NS + LATE_NS:
            due = Due("room", self.node, record["incarnation"], self._peer_name, begin_ns, until_ns)
            dues = due, awake(record, begin_ns, begin_ns + UNSENT_NS + LATE_NS, until_ns, self._peer_name)
            evidence = f"queued, and not sent within {UNSENT_NS // MS} ms though a session had nothing to do"
            self._at(record, "unsent", evidence, *dues, number=number)

    # ---- starts of the node

    def handle_life(self, record: Record) -> None:
        """The node's settings, at the begin of each start and of each segment."""
        super().handle_life(record)
        self._tiers.handle_settings(record)

    def handle_started(self, record: Record) -> None:
        """A new start of the node: what is wanted must be queued again, express is gone."""
        super().handle_started(record)
        self._begin_start()
        self._tiers.handle_restart()
        for sender in self.sequences.values():
            if sender.cls == EXPRESS:
                sender.wanted = RangeSet()

    def _judge_missing(self, record: Record, found: dict[int, RangeSet], *dues: Due, final: bool = False) -> None:
        """What was wanted must be queued again."""
        for number, sender in self.sequences.items() if self.is_origin else ():
            if sender.cls == EXPRESS:
                continue
            there = found.get(number, RangeSet())
            gone = [lost for span in sender.wanted for lost in there.missing(*span)]
            evidence = "neither acknowledged nor removed, and not queued again after the restart"
            self._each(record, "forgotten", evidence, gone, *dues, sequence=number)
            sender.wanted.cut(gone if final else ())

    # ---- what there is to send

    def _on_queued(self, record: Record) -> None:
        if record["node"] != record["origin"]:
            self._at(record, "queue", "queued by another node", number=record["first"])
        self._judge_lane(record)
        sender, first, last = self._sequence(record), record["first"], record["last"]
        sender.cls, self._peer_name = record["class"], record["peer_name"]
        if record.get("recovered"):
            self._find(record, [(first, last)])
            news = sender.queued.missing(first, last)
        else:
            self.handle_other(record)
            if record["sequence"] in self._ended:
                self._at(record, "claims", "queued after its stream had ended", number=first)
            self._each(record, "queue", "queued again", sender.queued.overlap(first, last))
            news = [(first, last)]
            self._on_transit_committed(record)
        sender.queued.add(first, last)
        sender.wanted.join([(first, last)] if record.get("recovered") else news)
        self._tiers.handle_queued(record)

    def _on_transit_committed(self, record: Record) -> None:
        """There are packets to be sent: by the neighbour to which the stream was switched before that, if it was."""
        is_soon = record["at_ns"] - self._rerouted_ns < SWITCHED_NS
        if self._way and is_soon and record["sequence"] == self._switched and not record.get("recovered"):
            self._news.add(record["first"], record["last"])

    def _judge_way(self, record: Record, first: int, last: int) -> None:
        """Packets left in a session: with the neighbour to which the stream was switched before they were there."""
        name = self._ends.get(record["session"], ("", self._way))[1]
        evidence = f"sent to {name}, and its stream was switched to {self._way} before it was there"
        self._each(record, "claims", evidence, self._news.overlap(first, last) if name != self._way else ())

    def _on_removed(self, record: Record) -> None:
        sender, first, last = self._sequence(record), record["first"], record["last"]
        evidence = "given up again"
        self._each(record, "claims", evidence, sender.removed.overlap(first, last) if sender.cls == EXPRESS else ())
        # Of a large message some parts may have arrived already, the last one among them.
        passed = sender.take_passed(first, last)
        if sender.cls != EXPRESS and not passed and not sender.wanted.overlap(first, last):
            evidence = "given up, and was not wanted any more"
            self._at(record, "claims", evidence, number=first, last=last)
        sender.wanted.take(first, last)
        sender.removed.add(first, last)
        self._tiers.handle_removed(record, outstanding=bool(sender.wanted))
        following = sender.wanted.next(last + 1)
        if sender.cls == TRANSACTIONAL and following is not None:
            # It goes out again, as it names another previous packet.
            self._tiers.handle_again(following)

    def _on_committed(self, record: Record) -> None:
        """What the origin committed to its own queue, nobody acknowledges."""
        if self.is_origin:
            self._sequence(record).wanted.take(record["first"], record["last"])

    # ---- sending

    def _on_packet_sent(self, record: Record) -> None:
        sender, sequence, session = self._sequence(record), record["sequence"], record["session"]
        sender.cls = record["class"]
        carried = self._carried.setdefault(session, {}).get(sequence)
        if carried is None:
            carried = self._carried[session][sequence] = RangeSet()
        if not record["resend"] and not self._is_astray(session):
            self._former.discard(session)
        first, last = record["number"], record["number"] + record["packets"] - 1
        again = last - first + 1 - size(sender.sent.put(first, last))
        if again:
            self._out.count("resends", again)
            self._out.count(f"link\t{self.node}\t{session}\tagain", again)
            self._out.chart("resends", record["wall_ns"], again)
        if self.is_origin:
            self._judge_send(record, sender, last, carried)
        carried.add(first, last)
        if self._news and sequence == self._switched:
            self._judge_way(record, first, last)
        if sequence in self._left:
            self._left[sequence].take(first, last)
        if self.is_origin and record["class"] == TRANSACTIONAL:
            self._tiers.handle_sent(record, sender.removed, astray=self._is_astray(session))

    def _is_astray(self, session: str) -> bool:
        """Whether a session is with a neighbour by which the stream goes no more: it sends what it had taken before."""
        return bool(self._way) and self._way not in self._ends.get(session, (self._way,))

    def _judge_send(self, record: Record, sender: Sender, last: int, carried: RangeSet) -> None:
        sequence, session, first, previous = record["sequence"], record["session"], record["number"], record["previous"]
        if missing := sender.queued.missing(first, last):
            self._each(record, "queue", "sent but not queued", missing, session=session)
        if previous >= first:
            self._at(record, "previous", f"{first} names {previous} as its previous", number=first)
        if sender.cls == TRANSACTIONAL and previous < first - 1:
            sender.skipped += [(record, "", span) for span in sender.wanted.overlap(previous + 1, first - 1)]
        top = carried.lasts[-1] if carried else 0
        if first > top + 1 and len(self._peers) < 2:  # noqa: PLR2004 - several
            for low, high in sender.wanted.overlap(sender.waited.get(session, 0) + 1, first - 1):
                for begin, end in carried.missing(low, high):
                    parked = self._parked.get(sequence, RangeSet())
                    sender.skipped += [(record, session, span) for span in parked.missing(begin, end)]

    # ---- what frees

    def _told_stored(self, record: Record) -> None:
        """A session ack or a store ack reached the sender."""
        sender, cls = self._sequence(record), record["class"]
        stored = record["event"] == "~stored"
        if (cls == EXPRESS and not stored) or (stored and (cls == RECOVERABLE or not self.is_origin)):
            sender.wanted.take(record["first"], record["last"])
            sender.take_passed(record["first"], record["last"], but_of=record["session"])
        if cls != TRANSACTIONAL or not self.is_origin:
            return
        for first, last in sender.wanted.overlap(record["first"], record["last"]):
            if stored:
                self._tiers.handle_stored(first, last)
            else:
                self._tiers.handle_arrived(record, first, last)

    def _on_order_ack_received(self, record: Record) -> None:
        sender, number = self._sequence(record), record["number"]
        if sender.queued and number > sender.queued.lasts[-1]:
            evidence = f"order ack of {number}, queued only up to {sender.queued.lasts[-1]}"
            self._at(record, "ack_unreceived", evidence, settled(self.node, last=record["incarnation"]), number=number)
        sender.acked = max(sender.acked, number)
        freed = sender.wanted.take(1, number)
        if freed:
            self._tiers.handle_progress(record, outstanding=bool(sender.wanted))

    def _on_hold_received(self, record: Record) -> None:
        """The destination has no room, or has room again: it gets everything again that it has not order-acked."""
        if not self.is_origin:
            return
        self._held = record["stop"]
        sender = self._sequence(record)
        if record["class"] == TRANSACTIONAL:
            self._tiers.handle_withdrawn(sender.wanted, held=self._held)
        elif record["class"] == RECOVERABLE:
            # Packets that have left count as not accepted, whatever ack of them is on its way.
            for session, carried in self._carried.items():
                for first, last in carried.get(record["sequence"], ()):
                    sender.passed[session].join(sender.wanted.overlap(first, last))

    def _on_rerouted(self, record: Record) -> None:
        """The stream goes by another neighbour from now on, where all of it goes out again."""
        if self._used is not None and self._used not in (record["sequence"], *self._ended):
            evidence = f"not ended, and stream {record['sequence']} of its stream was switched to another neighbour"
            self._at(record, "claims", evidence, sequence=self._used)
        self._held, self._rerouted_ns = False, record["at_ns"]
        self._former.update(self._carried)
        self._way = record["peer_name"]
        self._switched, self._news = record["sequence"], RangeSet()
        if self.is_origin and record["class"] == TRANSACTIONAL:
            self._tiers.handle_rerouted(record["at_ns"], self._sequence(record).wanted)

    def _on_onward_received(self, record: Record) -> None:
        """A relay said that packets wait there, or do so no longer: the others alone are sent again."""
        sender, session = self._sequence(record), record["session"]
        sender.waiting = record["here"] if record["waits"] else 0
        sender.waited[session] = max(sender.waited.get(session, 0), sender.waiting)
        if sender.waiting:
            # If its session ends as idle, these stay until their tier runs out, as if that had carried them.
            self._parked.setdefault(record["sequence"], RangeSet()).add(1, sender.waiting)
        self._tiers.handle_onward(record)

    def _on_resend_scheduled(self, record: Record) -> None:
        # What waits at a relay was perhaps sent by an earlier start.
        sender, due = self._sequence(record), settled(self.node, last=record["incarnation"])
        for number in (record["first"], record["last"]):
            if number not in sender.wanted or number not in sender.sent:
                evidence = f"resend of {record['first']}..{record['last']}, {number} is not waiting for an ack"
                self._at(record, "resend_tiers", evidence, due, number=record["attempt"])
        self._tiers.handle_scheduled(record)

    def _on_stream_ended(self, record: Record) -> None:
        """The origin ends a stream: nothing of it may be outstanding."""
        sender, sequence = self._sequence(record), record["sequence"]
        if not self.is_origin:
            self._at(record, "claims", "a stream that another node ends")
        evidence = "its stream has ended, and it was neither acknowledged nor removed"
        self._each(record, "forgotten", evidence, sender.wanted)
        if sequence in self._ended:
            self._at(record, "claims", "ended again")
        self._ended.add(sequence)

    def _judge_lane(self, record: Record) -> None:
        """Check that a stream is used again only when the stream before has ended."""
        before, self._used = self._used, record["sequence"]
        if before is not None and before != self._used and before not in self._ended:
            self._at(record, "claims", f"not ended, and its stream has stream {self._used}", sequence=before)

    # ---- sessions

    def _told_carried(self, record: Record) -> None:
        self._peers.add(record["peer"])
        self._ends[record["session"]] = record["peer"], record["peer_name"]
        if not self.is_origin:
            return
        before, is_rerouted = self._last_ended, record["opened_ns"] < self._rerouted_ns
        idle_ns = before["at_ns"] if before is not None and before["reason"] == "idle" else 0
        hands_over = before is not None and (idle_ns > 0 or before["reason"] in FAILURE_REASONS)
        if before is not None and hands_over and before["at_ns"] > record["opened_ns"] and not is_rerouted:
            self._tiers.handle_taken_over(record["peer"], before["at_ns"], record["at_ns"], idle_ns=idle_ns)
        else:
            self._tiers.handle_opened(record["peer"], record["opened_ns"], rerouted=is_rerouted, idle_ns=idle_ns)

    def _told_closed(self, record: Record) -> None:
        carried = self._carried.pop(record["session"], {})
        self._former.discard(record["session"])
        self._ends.pop(record["session"], None)
        is_idle = record["reason"] == "idle"
        self._last_ended = record
        self._tiers.handle_closed(record["session"])
        if is_idle:
            self._tiers.handle_idle()
        else:
            self._parked.clear()
            self._withdraw(record, carried)
        for sequence, numbers in carried.items() if is_idle else ():
            parked = self._parked.setdefault(sequence, RangeSet())
            parked.join(numbers)
        if record["reason"] in FAILURE_REASONS:
            self._last_failed = record
            for sequence, numbers in carried.items():
                self._left[sequence].join(numbers)
                # The next one may have begun before the end of this one.
                for others in self._carried.values():
                    self._left[sequence].cut(others.get(sequence, ()))

    def _withdraw(self, record: Record, carried: dict[int, RangeSet]) -> None:
        """All that a session carried goes out again in the next one, if that has not begun yet."""
        for sequence in carried if self.is_origin else ():
            sender = self.sequences[sequence]
            others = [numbers for session, numbers in self._carried.items() if session not in self._former]
            if sender.cls == TRANSACTIONAL and not any(sequence in numbers for numbers in others):
                self._tiers.handle_failed(record, sender.wanted)

    # ---- the end

    def finish(self, later: Due) -> None:
        """Judge what only the whole record shows; more of it may follow."""
        if not self.is_origin:
            return
        self._finish_starts(later)
        for number, sender in self.sequences.items():
            self._judge_skipped(number, sender)
        self._judge_left_behind()
        if self._unsent is not None:
            self._judge_unsent(EVER)
        self._tiers.finish()

    def _judge_skipped(self, sequence: int, sender: Sender) -> None:
        """Report what a session passed over, unless it turned out to be given up."""
        told = RangeSet()
        for record, session, (first, last) in sender.skipped:
            for low, high in sender.removed.missing(first, last):
                for begin, end in told.missing(low, high):
                    told.add(begin, end)
                    check = "previous"
                    evidence = f"wanted, but {record['number']} names {record['previous']} as its previous"
                    if session:
                        evidence = f"unacknowledged when its session failed, and passed over by session {session}"
                        check = "close_without_full_resend"
                    self._at(record, check, evidence, sequence=sequence, number=begin, last=end, session=session)

    def _judge_left_behind(self) -> None:
        """Report what a failed session sent and no later session sent again, though one had enough time."""
        closed = self._last_failed
        if closed is None or self._carried or len(self._peers) > 1:
            return
        for sequence, sender in self.sequences.items():
            for first, last in sender.wanted:
                for low, high in self._left[sequence].overlap(max(first, sender.waiting + 1), last):
                    # Express packets are gone with the process that had them.
                    again = "reopened_alive" if sender.cls == EXPRESS else "reopened"
                    start = self.node, closed["incarnation"]
                    dues = Due(again, *start, closed["peer"], closed["at_ns"], RESEND_LATE_NS), settled(*start)
                    evidence = "unacknowledged when its session ended, and not sent by the next one"
                    self._at(
                        closed, "close_without_full_resend", evidence, *dues,
                        sequence=sequence, number=low, last=high, session=closed["session"],
                    )  # fmt: skip

    SEES: ClassVar[dict[str, Callable[[Outgoing, Record], None]]] = {**by_event(vars()), "~acked": _told_stored}
