"""What a node promises about the packets of a stream that arrive: accepted once, in order, on disk before any ack.

``Incoming`` is one node's side of one stream, fed with its records in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

from triack.base.printable import counted
from triack.base.units import MS
from triack.tools.replay.checks.commits import Commits
from triack.tools.replay.checks.findings import LATE_NS, Due, Output, Record, awake, given, of_origin, settled
from triack.tools.replay.checks.runs import Carried, packets_of
from triack.tools.replay.checks.settling import Settling
from triack.tools.replay.checks.side import Side, by_event
from triack.tools.replay.checks.store_ack_check import StoreAcks
from triack.tools.replay.log.messages import (
    PLACE_BITS,
    PLACE_MASK,
    ByPacket,
    block,
    count_of,
    last_of,
    messages_of,
    numbers_of,
    size_of,
)
from triack.tools.replay.log.ranges import RangeSet, Span
from triack.tools.replay.log.schema import EXPRESS, FOR_EVER, REJECT_REASONS, ROUTE_REASONS, TRANSACTIONAL
from triack.tools.replay.log.weights import Weights

PASSED: Final = ("held-back", "stale-sequence")
"""Reasons for rejecting a packet that still allow a store ack to cover it."""
OF_ONE_COPY: Final = ("bad-seal", "not-sealed", "unknown-sealer")
"""Reasons that say nothing of other copies: a relay may have changed this one."""


@dataclass(slots=True)
class HandedOut:
    """The messages of one sequence that left the queue, as numbers (``log/messages.py``): as new, or marked.

    Attributes:
        any: packets with a message that was handed out in its turn, or came again.
        chosen: packets with a message that a reader has chosen, before its turn.
        removed: messages that were purged, or expired.
        expired, taken: those that expired in this life of the process; and those that were purged then, too.
    """

    any: RangeSet = field(default_factory=RangeSet)
    chosen: RangeSet = field(default_factory=RangeSet)
    fresh: RangeSet = field(default_factory=RangeSet)
    marked: RangeSet = field(default_factory=RangeSet)
    removed: RangeSet = field(default_factory=RangeSet)
    expired: RangeSet = field(default_factory=RangeSet)
    taken: RangeSet = field(default_factory=RangeSet)


class Receiver:
    """One sequence as a node that receives it knows it."""

    @property
    def top(self) -> int:
        """How far it has come."""
        tops = [known.lasts[-1] for known in (self.settled, self.refused) if known]
        return max(tops, default=0)

    def __init__(self) -> None:
        self.cls = EXPRESS
        self.arrived = RangeSet()
        self.again = RangeSet()
        self.recovered = RangeSet()
        # The last start that found it on its disk, or else the first start.
        self.found_in = 1
        # Why each number was rejected since it last arrived.
        self.rejections: dict[int, str] = {}
        # Of numbers that were rejected when they first arrived: how many arrivals were not rejected.
        self.kept: dict[int, int] = {}
        # The lowest previous of a packet, where it is not the number before it.
        self.previous: dict[int, int] = {}
        # Of other classes than transactional: the highest number up to which its origin wants nothing more.
        self.unwanted = 0
        self.counts = Weights()
        self.settled = RangeSet()
        self.on_disk = RangeSet()
        self.express = RangeSet()
        # Whether the next commit was to forget it, as it had ended; and what came for the first time after that.
        self.forgotten = False
        self.late = RangeSet()
        # Packets that the node asked the origin to send again when there is room, or will never ask for again as their
        # stream has ended: a store ack that covers them says nothing about them.
        self.held_back = RangeSet()
        # Packets that the node has or had to pass on to others: on its disk, too.
        self.passed_on = RangeSet()
        # Packets that were permanently rejected in this life: an ordered stream and a store ack may pass over them.
        self.refused = RangeSet()
        self.refused_ever = RangeSet()
        # The number of commits; those that are not settled, with their place among all; and up to where they were
        # handed out.
        self.committed = 0
        self.commits = Commits()
        self.read = -1
        # Commits that no order ack has covered.
        self.unanswered: list[Record] = []
        # Packets in commits that had not arrived before.
        self.unarrived: list[tuple[Record, Span]] = []
        self.out = HandedOut()
        self.settling = Settling()

    def passes_over(self, number: int) -> bool:
        """Whether a later packet arrived whose previous one is before this: its origin had given this one up."""
        return any(previous < number < later for later, previous in self.previous.items())


class Incoming(Side[Receiver]):
    """One node's receiving side of one stream.

    Attributes:
        store_acks: judges when store acks leave.
        early_store_acks: those that no commit backs.
        holes: numbers that commits went past; a number that the origin had given up is no fault.
        reused: (record, sequence) of what came in the stream of an express stream that was not forgotten; no fault when
            its origin has started again meanwhile.
    """

    def __init__(self, node: str, origin: str, stream: int, out: Output) -> None:
        super().__init__(node, origin, stream, out)
        self.store_acks = StoreAcks(origin, stream, out)
        self._top = (-1, -1)
        self._ack_top = (0, 0)
        self._handed_at: dict[str, tuple[int, int, int]] = {}
        # The sequences with something that came, or was found on the disk, in this start and was not forgotten since;
        # and the newest of all.
        self._here: set[int] = set()
        self._newest = 0
        # The first commit that no order ack has covered, and the session peer that it came from.
        self._unanswered: Record | None = None
        # By neighbour: when a session with it that carried the stream was over last.
        self._cut_ns: dict[str, int] = {}
        self.early_store_acks: list[tuple[Record, Span]] = []
        self.holes: list[tuple[Record, int, int]] = []
        self.reused: list[tuple[Record, int]] = []

    def _begin(self) -> Receiver:
        return Receiver()

    def _known(self, record: Record) -> Due:
        """Commits of an earlier start are known if that start's log is given and complete.

        A start that found the stream on its disk tells of all starts before it. No start finds a stream that has
        ended, though messages of it may wait in their queue. Express messages do not survive to a later start.
        """
        receiver, start = self._sequence(record), record["incarnation"]
        return settled(self.node, start if receiver.cls == EXPRESS else receiver.found_in, start)

    # ---- starts of the node

    def handle_started(self, record: Record) -> None:
        """A new start: what was on disk must be there again; express is gone."""
        super().handle_started(record)
        self._here.clear()
        self._unanswered = None
        self._cut_ns.clear()
        self.store_acks.handle_started()
        for receiver in self.sequences.values():
            receiver.out.expired, receiver.out.taken = RangeSet(), RangeSet()
            receiver.express = RangeSet()
            receiver.unanswered.clear()
            # The recovered records cover what is on its disk.
            receiver.refused = RangeSet()
            if receiver.cls == EXPRESS:
                left, receiver.out = receiver.out, HandedOut()
                receiver.out.removed = left.removed
            else:
                receiver.settling.start(int(record["incarnation"]) - 1)
            for span in receiver.arrived:
                for low, high in receiver.settled.missing(*span):
                    receiver.kept.update(dict.fromkeys(range(low, high + 1), 0))

    def _judge_missing(self, record: Record, found: dict[int, RangeSet], *dues: Due, final: bool = False) -> None:  # noqa: ARG002
        """What was on the disk must be recovered; what is not there stays missing, also when the start is over."""
        if self.node == self._origin:
            return
        newest = max(found, default=-1)
        for sequence, receiver in self.sequences.items():
            if sequence < newest:
                continue
            have = found.get(sequence, RangeSet())
            # The end of an earlier log may have recorded that the stream was forgotten, unless that end is there.
            ends = settled(self.node, receiver.found_in, receiver.found_in if sequence in found else dues[0].end_ns)
            evidence = f"on disk before the restart, recovered {list(have) or 'nothing'}"
            gone = [lost for span in receiver.on_disk for lost in have.missing(*span)]
            self._each(record, "not_recovered", evidence, gone, ends, *dues[1:], sequence=sequence)

    def _on_position_recovered(self, record: Record) -> None:
        receiver = self._sequence(record)
        receiver.cls = record["class"]
        receiver.forgotten, receiver.late = False, RangeSet()
        self._here.add(record["sequence"])
        receiver.found_in = record["incarnation"]
        ordered = record["class"] == TRANSACTIONAL
        found = RangeSet()
        for first, last in [(1, record["number"])] if ordered else record["ranges"]:
            found.add(first, last)
            receiver.settled.add(first, last)
        if self.node != self._origin or record["incarnation"] == 1:
            self._judge_found(record, receiver, found)
        receiver.recovered.join(found)
        self._find(record, found)
        if ordered:
            self._top = max(self._top, (record["sequence"], record["number"]))

    def _judge_found(self, record: Record, receiver: Receiver, found: RangeSet) -> None:
        """Check that what a start found had been here before: it had arrived, or its origin no longer wanted it."""
        known = RangeSet([*receiver.arrived, *receiver.recovered, (1, receiver.unwanted)])
        for number, previous in receiver.previous.items():
            known.add(previous + 1, number - 1)
        due = settled(self.node, last=record["incarnation"])
        for first, last in found:
            evidence = "found at a start, and had not arrived before"
            self._each(record, "recovered_from_nowhere", evidence, known.missing(first, last), due)

    # ---- arrivals and commits

    def _on_packet_received(self, record: Record) -> None:
        if record["sequence"] > self._newest:
            self._judge_lane(record)
        receiver = self._sequence(record)
        self.store_acks.handle_record()
        receiver.cls = record["class"]
        first, last = record["number"], record["number"] + record["packets"] - 1
        if record["class"] != TRANSACTIONAL:
            receiver.unwanted = max(receiver.unwanted, record["previous"])
        if receiver.forgotten:
            receiver.late.join(receiver.arrived.missing(first, last))
        else:
            self._here.add(record["sequence"])
        if receiver.rejections or receiver.kept or receiver.arrived.overlap(first, last):
            self._receive_again(record, receiver)
            return
        receiver.arrived.add(first, last)
        self.store_acks.handle_arrived(record, first, last, [])
        if record["class"] == TRANSACTIONAL and record["previous"] != first - 1:
            receiver.previous.setdefault(first, record["previous"])
        for packets, messages in record["counts"]:
            receiver.counts.put(first, first + packets - 1, messages)
            first += packets
        if receiver.cls != EXPRESS:
            self.store_acks.handle_run(record)

    def _judge_lane(self, record: Record) -> None:
        """Check that the previous stream was forgotten: an origin uses a stream again only after this node says so."""
        before = self.sequences.get(self._newest)
        if before is not None and before.on_disk:
            due = settled(self.node, before.found_in, record["incarnation"])
            evidence = f"not forgotten, and stream {record['sequence']} came in its stream"
            self._at(record, "claims", evidence, due, sequence=self._newest)
        elif before is not None and before.express and self._newest in self._here:
            self.reused.append((record, self._newest))
        self._newest = record["sequence"]

    def _receive_again(self, record: Record, receiver: Receiver) -> None:
        """Packets arrived, some of which may have done so before."""
        is_fresh = receiver.cls != EXPRESS
        for begin, end, packet in packets_of(record):
            first, last = packet.number, packet.number + end - begin
            receiver.counts.put(first, last, packet.messages)
            known = receiver.arrived.overlap(first, last)
            receiver.arrived.add(first, last)
            self.store_acks.handle_arrived(record, first, last, known)
            is_fresh = is_fresh and not known
            for number in _keys_within(receiver.rejections, first, last):
                del receiver.rejections[number]
            for number in _keys_within(receiver.kept, first, last):
                receiver.kept[number] += 1
            receiver.again.join(known)
            if receiver.cls == TRANSACTIONAL:
                self._note_previous(receiver, packet, known)
        if is_fresh:
            self.store_acks.handle_run(record)

    def _note_previous(self, receiver: Receiver, packet: Carried, known: list[Span]) -> None:
        """Only the first packet of a run, or a duplicate, may name a previous packet other than the one before it."""
        for first, last in known:
            for number in range(first, last + 1):
                before = receiver.previous.get(number, number - 1)
                previous = packet.plus(number - packet.number).previous
                if previous < before:
                    receiver.previous[number] = previous
        if packet.previous != packet.number - 1:
            receiver.previous.setdefault(packet.number, packet.previous)

    def _on_rejected(self, record: Record) -> None:
        """A packet was rejected: as a duplicate only if it is here already, or is held for those before it."""
        receiver, number = self._sequence(record), record["number"]
        reason, sequence = record["reason"], record["sequence"]
        before = receiver.rejections.get(number)
        receiver.rejections[number] = reason
        # A copy of a held packet is rejected at once, for now or as a duplicate; the held one may be rejected when its
        # turn comes. That is before the copy's turn if the copy came in one run with what the held one waited for. A
        # copy with a bad seal may be rejected while a good one is held.
        after = before not in FOR_EVER or before in OF_ONE_COPY or reason == "duplicate"
        held = after and before != reason and number in receiver.again
        if before is not None and not held:
            self._at(record, "rejected", "rejected again, and did not arrive again", number=number)
        if number in receiver.kept:
            receiver.kept[number] -= 1
        elif number not in receiver.again:
            # Even as a duplicate: what follows a commit that went past it.
            receiver.kept[number] = 0
        if reason not in REJECT_REASONS:
            self._at(record, "claims", f"unknown reason {reason!r}", number=number)
        elif reason == "duplicate":
            self._out.count("duplicates_on_wire", 1)
            self._out.count(f"flow\t{self._origin}\t{self._stream}\tduplicates", 1)
            # A packet that was passed over is a duplicate, too; in other classes only their filter knows.
            unknown = number > receiver.top and number not in receiver.again and not receiver.passes_over(number)
            unknown = unknown and number not in receiver.passed_on
            if record["class"] == TRANSACTIONAL and unknown:
                self._at(record, "rejected", "a duplicate of what was not accepted and came once", number=number)
        elif receiver.forgotten and reason in OF_ONE_COPY:
            # A copy that was changed on its way says no more than that, not even that its stream has ended. A
            # store ack may cover it, as its relay has the answer.
            receiver.held_back.add(number, number)
        elif reason != "stale-sequence" and number in receiver.settled and record["class"] != EXPRESS:
            self._at(record, "claims", f"{reason}, but it is on disk", number=number)
        elif reason in PASSED:
            receiver.held_back.add(number, number)
        elif reason in FOR_EVER:
            receiver.refused.add(number, number)
            receiver.refused_ever.add(number, number)
            self.store_acks.handle_refused(sequence, number)

    def _on_committed(self, record: Record) -> None:
        """Packets are on disk (express: in the queue)."""
        receiver = self._sequence(record)
        receiver.cls = record["class"]
        first, last = record["first"], record["last"]
        evidence = "came after its stream was forgotten, and was committed"
        self._each(record, "claims", evidence, receiver.late.overlap(first, last))
        if last < first:
            self._at(record, "claims", f"committed {first}..{last}", number=first)
            return
        receiver.commits.note(receiver.committed, record)
        receiver.committed += 1
        if record["class"] == TRANSACTIONAL and self.node != self._origin:
            receiver.unanswered.append(record)
        receiver.unarrived += [(record, span) for span in receiver.arrived.missing(first, last)]
        if record["class"] == EXPRESS:
            self._each(record, "express_twice", "entered the queue again", receiver.express.overlap(first, last))
            receiver.express.add(first, last)
        elif record["class"] == TRANSACTIONAL:
            self._judge_place(record, receiver)
        receiver.settled.add(first, last)
        if record["class"] != EXPRESS:
            if not receiver.forgotten:
                # Otherwise the commit after this one forgets it.
                receiver.on_disk.add(first, last)
            self.store_acks.handle_committed(record)

    def _on_transit_committed(self, record: Record) -> None:
        """Packets are here to be passed on: a store ack covers them as it does those for a queue of this node."""
        receiver = self._sequence(record)
        receiver.passed_on.add(record["first"], record["last"])
        if record["class"] != EXPRESS and not record.get("recovered"):
            self.store_acks.handle_committed(record)

    def _on_route_refused(self, record: Record) -> None:
        receiver, first, last = self._sequence(record), record["first"], record["last"]
        if record["reason"] not in (*ROUTE_REASONS, "access-denied", "purged"):
            self._at(record, "claims", f"unknown reason {record['reason']!r}", number=first)
        receiver.refused.add(first, last)
        receiver.refused_ever.add(first, last)

    def _judge_place(self, record: Record, receiver: Receiver) -> None:
        """Judge where in its sequence a commit is."""
        sequence, first, last = record["sequence"], record["first"], record["last"]
        before = receiver.settled.lasts[-1] if receiver.settled else 0
        if (sequence, first) <= self._top:
            self._out.count("out_of_order", record["count"])
            self._at(record, "order", f"committed {first}..{last} after {self._top[0]}/{self._top[1]}", number=first)
        if first > before + 1:
            self.holes.append((record, before + 1, first - 1))
        self._top = max(self._top, (sequence, last))
        if self._unanswered is None and self.node != self._origin and not receiver.forgotten:
            self._unanswered = record

    def _on_stream_forgotten(self, record: Record) -> None:
        """Its origin has ended the stream: nothing of it is on the disk after the next commit, nor accepted again."""
        receiver = self._sequence(record)
        # The stream may hold packets of an earlier life of its origin, which numbers express streams anew.
        gone = {sequence for sequence in self._here if sequence <= record["sequence"]}
        self._here -= gone
        if not gone or self.node == self._origin:
            evidence = "forgotten, and nothing of it had come or been found since the node started or forgot it"
            self._at(record, "claims", evidence)
        receiver.on_disk = RangeSet()
        receiver.forgotten = True
        # An origin that has ended its stream waits for no order ack: every debt ends here.
        waiting = self._unanswered
        if waiting is not None and waiting["sequence"] == record["sequence"]:
            self._judge_delay(waiting, record["at_ns"], self._origin, "none before its stream ended, after")
            self._unanswered = None
        receiver.unanswered.clear()

    # ---- acks

    def _on_order_ack_sent(self, record: Record) -> None:
        receiver, sequence, number = self._sequence(record), record["sequence"], record["number"]
        if number > receiver.top:
            evidence = f"order ack up to {number}, committed up to {receiver.top}"
            self._at(record, "order_ack_before_commit", evidence, number=number)
        elif not receiver.forgotten:
            receiver.on_disk.add(1, number)
        if (sequence, number) < self._ack_top:
            evidence = f"order ack {number} follows {self._ack_top[1]}"
            self._at(record, "ack_taken_back", evidence, number=number)
        self._ack_top = max(self._ack_top, (sequence, number))
        self._answer(record)

    def _answer(self, record: Record) -> None:
        """Judge how long the first commit that this order ack covers had to wait."""
        receiver = self._sequence(record)
        receiver.unanswered = [it for it in receiver.unanswered if it["first"] > record["number"]]
        waiting = self._unanswered
        if waiting is None or (record["sequence"], record["number"]) < (waiting["sequence"], waiting["first"]):
            return
        self._judge_delay(waiting, record["at_ns"], record["peer"], "after")
        self._unanswered = min(receiver.unanswered, key=lambda it: it["at_ns"], default=None)

    def _judge_delay(self, waiting: Record, now_ns: int, peer: str, what: str) -> None:
        limit_ns = self._life.get("seq_max_ack_delay_ns")
        receiver = self._sequence(waiting)
        if limit_ns is None or any(receiver.refused_ever.overlap(1, waiting["last"])):
            # After a rejected packet the origin must first show that it knows, if it still wants anything. A start
            # remembers what earlier ones have rejected.
            return
        if any(at_ns > waiting["at_ns"] for other, at_ns in self._cut_ns.items() if other != peer):
            # The neighbour that had brought it is gone: the order ack waits until another one brings the stream.
            return
        took_ns = now_ns - waiting["at_ns"]
        if took_ns > limit_ns + LATE_NS:
            due = Due(
                "open", self.node, waiting["incarnation"], peer, waiting["at_ns"], waiting["at_ns"] + limit_ns + LATE_NS
            )
            evidence = f"order ack {what} {took_ns // MS} ms, {limit_ns // MS} ms are allowed"
            dues: tuple[Due, ...] = due, awake(waiting, waiting["at_ns"], due.end_ns, now_ns, peer)
            if receiver.recovered:
                dues = *dues, settled(self.node, 1, waiting["incarnation"])
            self._at(waiting, "order_ack_late", evidence, *dues, number=waiting["first"])

    def _told_store_acked(self, record: Record) -> None:
        self.store_acks.handle_store_acked(record)
        if record["class"] == EXPRESS:
            return
        receiver = self._sequence(record)
        for span in receiver.settled.missing(record["first"], record["last"]):
            for left in receiver.passed_on.missing(*span):
                for unheld in receiver.held_back.missing(*left):
                    self.early_store_acks += [(record, early) for early in receiver.refused.missing(*unheld)]

    def _told_taking(self, record: Record) -> None:
        """A session carries packets of the stream: store acks for them become due there."""
        self.store_acks.handle_taking(record)

    def _told_taken(self, record: Record) -> None:
        """That session is over, or its log is."""
        self.store_acks.handle_taken(record)
        if record["closed"]:
            self._cut_ns[record["peer"]] = record["at_ns"]

    # ---- handing out

    def _on_handed(self, record: Record) -> None:
        """Messages reach the application: in order, and once unless marked."""
        receiver, number, last, chosen = self._sequence(record), record["number"], last_of(record), "chosen" in record
        receiver.cls = record["class"]
        spans, out = self._messages_of(record, receiver, "handed out"), receiver.out
        if record["class"] != EXPRESS:
            again = receiver.settling.hand_out(record, spans, fresh=bool(out.any.missing(number, last)), chosen=chosen)
            self._report_again(record, again, "handed out after its reader was done with it")
        if record["redelivered"]:
            out.marked.join(spans)
        else:
            unmarked = [some for span in spans for some in out.marked.overlap(*span)]
            self._each(record, "unmarked", "handed out as new after a redelivery", numbers_of(unmarked))
            again = [some for span in spans for some in out.fresh.overlap(*span)]
            self._report_again(record, again, "handed out again without being marked")
            out.fresh.join(spans)
        (out.chosen if chosen else out.any).add(number, last)
        # An expired message is on its way to the dead-letter queue, and no reader gets it any more.
        late = [some for span in spans for some in out.expired.overlap(*span)]
        self._each(record, "expired", "handed out after they had expired", numbers_of(late))
        if record["class"] == TRANSACTIONAL and not chosen:
            self._judge_handed_order(record, last)

    def _messages_of(self, record: Record, receiver: Receiver, what: str) -> list[Span]:
        """Return the messages of a record; check that they were committed, and that their packets have them."""
        if missing := receiver.settled.missing(record["number"], last_of(record)):
            self._each(record, "queue", f"{what} but not committed", missing, self._known(record))
        spans = messages_of(record, receiver.counts)
        for first, last in spans:
            number, place = last >> PLACE_BITS, last & PLACE_MASK
            count = receiver.counts.get(number) if place != PLACE_MASK else None
            if count is not None and place >= max(count, 1):
                evidence = f"messages {first & PLACE_MASK}..{place} of a packet with {count}"
                self._at(record, "claims", evidence, number=number)
        return spans

    def _report_again(self, record: Record, again: list[Span], evidence: str) -> None:
        if again:
            messages = size_of(again, self._sequence(record).counts)
            self._out.count("duplicates_delivered", messages)
            self._each(record, "duplicates_delivered", f"{counted(messages, 'message')} {evidence}", numbers_of(again))

    def _on_settled(self, record: Record) -> None:
        """The commit that begins takes messages out of their queue for good."""
        receiver, number, last, start = self._sequence(record), record["number"], last_of(record), record["incarnation"]
        spans, out = self._messages_of(record, receiver, "settled"), receiver.out
        if record.get("recovered"):
            # Readers of an earlier process were done with them; its log may lack that they were handed out.
            if start == 1:
                evidence = "settled by readers of an earlier process, and this is the first one"
                self._at(record, "claims", evidence, number=number)
            out.removed.join(spans)
        if receiver.settling.settle(spans, record["at_ns"]):
            self._at(record, "claims", "settled, and was before", number=number, last=last)
        for low, high in out.any.missing(number, last):
            left = [some for span in out.chosen.missing(low, high) for some in ByPacket(out.removed).missing(*span)]
            evidence, known = "settled, and never handed out, purged or expired", given(self.node, last=start)
            self._each(record, "claims", evidence, left, known)

    def _on_returned(self, record: Record) -> None:
        receiver = self._sequence(record)
        receiver.settling.release(self._messages_of(record, receiver, "returned"))

    def _on_expired(self, record: Record) -> None:
        early_ns = record["receive_by_ms"] * MS - record["wall_ns"]
        if early_ns > 0:
            evidence = f"expired {-(-early_ns // MS)} ms before their time to be received had ended"
            self._at(record, "claims", evidence, number=record["number"])
        self._sequence(record).out.expired.join(self._on_purged(record))

    def _on_purged(self, record: Record) -> list[Span]:
        """Messages left their queue unread. If the node dies before that is on disk, they are there again."""
        receiver = self._sequence(record)
        spans, out = self._messages_of(record, receiver, record["event"]), receiver.out
        receiver.settling.release(spans)
        gone = [some for span in spans for some in out.taken.overlap(*span)]
        self._each(record, "claims", f"{record['event']}, and was not there any more", numbers_of(gone))
        for span in spans:
            out.removed.add(*span)
            out.taken.add(*span)
        return spans

    def _judge_handed_order(self, record: Record, last: int) -> None:
        before = self._handed_at.get(record["queue"])
        counts, begin = record["counts"], record["place"]
        place = counts[-1][1] - 1 + (begin if last == record["number"] else 0)
        here, end = (record["sequence"], record["number"], begin), (record["sequence"], last, place)
        if before is not None and here <= before and not record["redelivered"]:
            self._out.count("out_of_order", count_of(record))
            evidence = (
                f"messages from {here[1]} message {begin} to {last} message {place} handed out after "
                f"{before[0]}/{before[1]} message {before[2]}"
            )
            self._at(record, "order", evidence, sequence=here[0], number=here[1], last=last)
        if before is None or end > before:
            self._handed_at[record["queue"]] = end

    # ---- the end

    def finish(self, later: Due, removed: Callable[[int], RangeSet]) -> None:
        """Judge what only the whole record of this node shows; more of it may follow.

        Args:
            later: holds if the node has started again after the last record seen here.
            removed: the packets of a sequence that its origin gave up.
        """
        self._finish_starts(later)
        for sequence, receiver in self.sequences.items():
            if receiver.cls != EXPRESS:
                self._judge_unread(sequence, receiver, removed(sequence))
                self._judge_lost_reads(sequence, receiver)
        self.store_acks.finish()

    def _judge_unread(self, sequence: int, receiver: Receiver, removed: RangeSet) -> None:
        """Report messages that were passed over when those of a later commit were handed out."""
        read = (it.at for it in receiver.commits if any(receiver.out.any.overlap(it.first, it.last)))
        last_read = max([receiver.read, *read])
        for commit in receiver.commits:
            if commit.at > last_read:
                break
            top = receiver.out.any.lasts[-1] - 1 if commit.at == last_read else commit.last
            for number in self._unread(receiver, commit.first, min(commit.last, top)):
                if number in removed:
                    # The packet that it waited for was given up, too, and the commit went past: a dead letter there.
                    continue
                evidence = "committed and neither handed out, purged nor expired, though later ones were handed out"
                dues = [settled(self.node, commit.incarnation)]
                is_part = receiver.counts.get(number - 1) == 0
                if receiver.cls == TRANSACTIONAL and (commit.first < number < commit.last or is_part):
                    # Its origin may have given it up; of a large message, as an earlier part of it was refused.
                    dues += of_origin(self._origin, commit.record(self.node))
                self._at(commit.record(self.node), "not_handed", evidence, *dues, sequence=sequence, number=number)

    def _judge_lost_reads(self, sequence: int, receiver: Receiver) -> None:
        """Report what was in hands when its node died, and did not come again before what was never handed out."""
        for record, since, number in receiver.settling.lost():
            evidence = "in the hands of a reader when its node ended, and not handed out again before younger ones"
            self._at(record, "not_handed", evidence, settled(self.node, since), sequence=sequence, number=number)

    def _unread(self, receiver: Receiver, first: int, last: int) -> Iterator[int]:
        """Yield the packets with a message that was neither handed out, purged nor expired."""
        left = [block(first, last)]
        for known in (receiver.out.fresh, receiver.out.marked, receiver.out.removed):
            left = [part for span in left for part in known.missing(*span)]
        for low, high in left:
            number, place = low >> PLACE_BITS, low & PLACE_MASK
            # What is left of a packet may be the rest of its block alone.
            number += 0 < (receiver.counts.get(number) or 0) <= place
            # A commit may go past a huge range of numbers for which no packet came.
            for begin, end, count in receiver.counts.within(number, high >> PLACE_BITS):
                for each in range(begin, end + 1) if count else ():
                    # If a packet was rejected each time it came, its origin gave it up: the commit went past it.
                    if receiver.kept.get(each, 1) > 0 and not self._lacks_parts(receiver, each):
                        yield each

    def _lacks_parts(self, receiver: Receiver, number: int) -> bool:
        """Whether a packet ends a large message whose earlier part never came: its origin gave that up."""
        number -= 1
        while receiver.counts.get(number) == 0 and number in receiver.settled:
            number -= 1
        return number > 0 and number not in receiver.settled

    SEES: ClassVar[dict[str, Callable[[Incoming, Record], object]]] = by_event(vars())


def _keys_within(counts: Mapping[int, object], first: int, last: int) -> list[int]:
    """Which of the numbers from first to last are in a dictionary; usually it is empty."""
    return [number for number in range(first, last + 1) if number in counts] if counts else []
