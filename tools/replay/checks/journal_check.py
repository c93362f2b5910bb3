"""What journals promise: a message that they are to keep is copied once, or a record says that it is not.

These are the messages that readers took from a queue with a journal, and those whose sender asked for a copy.
``Copies`` is what one node says about copies of the messages of one stream, fed with its records in their order. A copy
is made by the commit that deletes the message. So a copy of what readers took is judged with the record of that commit.
A copy of what was sent is judged at the next start of the sender: what is not found on its disk then was deleted there.
In the last start it is judged where the commit must have begun: the node was awake long enough after the
acknowledgement, and its session went on, so its store had not failed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import ClassVar, Final

from triack.tools.replay.checks.findings import UNSENT_NS, Due, LaneReporter, Output, Record, awake, settled
from triack.tools.replay.checks.incoming_check import Receiver
from triack.tools.replay.checks.side import by_event
from triack.tools.replay.log.messages import last_of, part
from triack.tools.replay.log.ranges import RangeSet
from triack.tools.replay.log.schema import EXPRESS, RECOVERABLE
from triack.tools.replay.log.weights import Weights

SENT_JOURNAL: Final = "$journal"
"""The queue that records of copies of sent messages name."""

Behind = Mapping[int, Collection[tuple[RangeSet, int]]]
"""By sequence, packets that a relay has passed on, and when it did so last, by the wall clock."""
BODY_NS: Final = 1_000_000_000
"""Within this time a node has read the body of a packet from its disk, which a copy may have to wait for."""

Packet = tuple[int, int]
"""A sequence, and a number in it."""


class Copies(LaneReporter):
    """Copies of the messages of one stream at one node.

    Attributes:
        asked: at the origin: of which messages of a packet a copy is wanted, and the start that said so.
        said: by queue and packet: messages of which a record says whether they are copied.
        copied: the start that said so of a packet last, what that said, and what earlier ones did.
        is_relayed: whether relays pass its packets on.
    """

    def __init__(self, node: str, origin: str, stream: int, out: Output) -> None:
        super().__init__(origin, stream, out)
        self._node = node
        self.asked: dict[Packet, tuple[int, RangeSet]] = {}
        self.said: dict[tuple[str, int, int], RangeSet] = {}
        self.copied: dict[tuple[str, int, int], tuple[int, RangeSet, RangeSet]] = {}
        # Packets that ask, that are on the disk of their origin, and that it sends; those that this start has found
        # there, while it says what it finds, and its number.
        self._there: set[Packet] = set()
        self._found: set[Packet] | None = None
        self.is_relayed = False
        self._begin_start(0)
        # Whether a relay answers for packets: what ends there is freed here without a copy.
        self._excused = False

    # ---- starts of the node

    def handle_started(self, record: Record) -> None:
        """A new start of the node."""
        self._begin_start(record["incarnation"])
        self._found = set()

    def _begin_start(self, start: int) -> None:
        self._start = start
        # By sequence, what this start has found on the disk, also where the log that says what asks for a copy has lost
        # its end: the commit that had deleted it did not return, whatever ends it now.
        self._recovered: dict[int, RangeSet] = {}
        # Packets with a copy of which this start has settled messages: then the commit of that copy did not return.
        self._settled_now: set[tuple[str, int, int]] = set()
        # Packets that an acknowledgement has freed in this start, by its record; and store acks of a relay, which
        # may free them.
        self._freed: dict[Packet, Record] = {}
        self._stored: list[Record] = []

    def handle_other(self, record: Record) -> None:
        """The start has said all that it found."""
        found, self._found = self._found, None
        if found is not None:
            gone, self._there = self._there - found, self._there & found
            self._judge_gone(record, gone, settled(self._node, 1, self._start))

    def finish(self, record: Record, later: Due, peers: Collection[str], behind: Behind) -> None:
        """Judge what a later start did not find, if there is one, and what the last one freed; more records may follow.

        Args:
            record: the last one of the node.
            later: holds if the node has started again after it.
            peers: the nodes to which it has sent packets.
            behind: what relays have passed on.
        """
        for it in self._stored:
            # Relays have passed on what a store ack is about, and said nothing of it: the link is not synchronous.
            for numbers, wall_ns in behind.get(it["sequence"], ()):
                at_ns = max(it["at_ns"], wall_ns - it["wall_ns"] + it["at_ns"])
                for span in numbers.overlap(it["first"], it["last"]):
                    self.handle_freed({**it, "at_ns": at_ns, "passed": True}, *span)
        # Of several peers it is not known whose session says that the store has not failed.
        peer = next(iter(peers)) if len(peers) == 1 else ""
        for (sequence, number), freed in (self._freed or {}).items() if not self._excused else ():
            if (sequence, number) in self._there and self._is_silent(sequence, number):
                self._judge_silent(freed, sequence, number, peer)
        if self._found is not None:
            self._judge_gone(record, self._there - self._found, later, settled(self._node, 1, self._start))
        # A later start, which has no record of the stream, has found nothing of it, unless its log has lost its end.
        later = later._replace(incarnation=later.incarnation + 1)
        self._judge_gone(record, self._there, later, settled(self._node))

    def _judge_silent(self, freed: Record, sequence: int, number: int, peer: str) -> None:
        """Nothing is said of a copy of what was freed: it must be said in time, and before a stop in good order."""
        begin_ns, own = freed["at_ns"], (self._node, self._start)
        stopped = Due("stopped", *own), Due("log", *own, end_ns=begin_ns + BODY_NS)
        had = Due("open", *own, peer, begin_ns, begin_ns + UNSENT_NS), awake(freed, begin_ns, begin_ns + UNSENT_NS)
        # That a link waits for no word of its relay is known when none has come in all that time.
        ways = (*((had,) if peer else ()), *(() if freed.get("passed") else (stopped,)))
        for way in ways:
            evidence = "freed long ago, and its sender asked for a copy, of which nothing is said"
            dues = *way, settled(self._node, self._start, self._start)
            self._at(freed, "journal_complete", evidence, *dues, sequence=sequence, number=number)

    def _judge_gone(self, record: Record, gone: set[Packet], *dues: Due) -> None:
        """Packets are not on the disk of their origin any more: their copies are in its journal."""
        for sequence, number in sorted(gone) if not self._excused else ():
            if self._is_silent(sequence, number):
                evidence = "freed, and its sender asked for a copy, of which nothing is said"
                self._at(record, "journal_complete", evidence, *dues, sequence=sequence, number=number)

    # ---- what was sent

    def _on_journal_asked(self, record: Record) -> None:
        """Messages of a packet that is about to be queued ask for a copy."""
        sequence, number, start = record["sequence"], record["number"], record["incarnation"]
        if self._node != self._origin:
            self._at(record, "claims", "asked for copies of another node's messages", number=number)
            return
        before, wanted = self.asked.get((sequence, number), (0, RangeSet()))
        if before != start:
            self._forget(sequence, number)
            wanted = RangeSet()
        first, last = record["place"], record["place"] + record["count"] - 1
        if wanted.overlap(first, last):
            self._at(record, "claims", "asked twice for copies of the same messages", number=number)
        wanted.add(first, last)
        self.asked[sequence, number] = start, wanted

    def _forget(self, sequence: int, number: int) -> None:
        """The number is used again: the commit of the start before never returned."""
        self.asked.pop((sequence, number), None)
        self.said.pop((SENT_JOURNAL, sequence, number), None)
        self.copied.pop((SENT_JOURNAL, sequence, number), None)

    def _that_ask(self, record: Record) -> list[Packet]:
        """Those of the record's packets that ask for copies. A new packet asks if the start that queues it said so."""
        sequence, numbers = record["sequence"], range(record["first"], record["last"] + 1)
        asking = [(sequence, number) for number in numbers if (sequence, number) in self.asked] if self.asked else []
        if record.get("recovered"):
            return asking
        for packet in [packet for packet in asking if self.asked[packet][0] != record["incarnation"]]:
            self._forget(*packet)
            asking.remove(packet)
        return asking

    def _on_queued(self, record: Record) -> None:
        """Packets are on the disk of the origin, or were found there."""
        if record["class"] == EXPRESS or not record["peer_name"]:
            return
        found = self._found if record.get("recovered") else None
        if found is not None:
            self._recovered.setdefault(record["sequence"], RangeSet()).add(record["first"], record["last"])
        for packet in self._that_ask(record):
            self._there.add(packet)
            if found is not None:
                found.add(packet)

    def _on_removed(self, record: Record) -> None:
        """The origin gave packets up: they become dead letters."""
        for number in range(record["first"], record["last"] + 1) if self.asked else ():
            self._there.discard((record["sequence"], number))

    def handle_freed(self, record: Record, first: int, last: int) -> None:
        """An acknowledgement frees packets at their origin: the next commit deletes them, and holds their copies."""
        sequence = record["sequence"]
        if not self._there:
            return
        freed = self._freed = self._freed or {}
        # The packets of a lie may be too many to look at one by one.
        few = last - first < len(self._there)
        for packet in ((sequence, number) for number in range(first, last + 1)) if few else self._there:
            if packet in self._there and packet[0] == sequence and first <= packet[1] <= last:
                freed.setdefault(packet, record)

    def handle_stored(self, record: Record, weights: Weights) -> None:
        """A store ack frees recoverable packets. That of a relay may not, nor that of a part."""
        first, last = record["first"], record["last"]
        if weights.get(first - 1) == 0:
            return
        if self.is_relayed:
            self._stored.append(record)
        else:
            self.handle_freed(record, first, last)

    def _free_stored(self, record: Record) -> None:
        """A store ack of a relay has freed what is copied now, so the link waits for no more, and all others are."""
        for it in self._stored:
            if it["sequence"] == record["sequence"]:
                self.handle_freed(record, it["first"], it["last"])
        self._stored = [it for it in self._stored if it["sequence"] != record["sequence"]]

    def _is_silent(self, sequence: int, number: int) -> bool:
        """Whether nothing is said of a copy that a message of a packet asks for."""
        _, wanted = self.asked[sequence, number]
        said = self.said.get((SENT_JOURNAL, sequence, number), RangeSet())
        return any(said.missing(*span) for span in wanted)

    def _on_onward_ack_received(self, _record: Record) -> None:
        """A relay answers for packets from now on."""
        self._excused = self._excused or self._node == self._origin

    def _on_committed(self, record: Record) -> None:
        """Packets for a queue of the node itself are there: the same commit holds their copies."""
        if record["class"] == EXPRESS or self._node != self._origin:
            return
        for sequence, number in self._that_ask(record):
            if self._is_silent(sequence, number):
                evidence = "in its queue, and its sender asked for a copy, of which nothing is said"
                self._at(record, "journal_complete", evidence, sequence=sequence, number=number)

    # ---- copies

    def handle_journaled(self, record: Record, receiver: Receiver) -> None:
        """The commit that begins copies messages, or says that it does not."""
        queue, sequence, number, place = record["queue"], record["sequence"], record["number"], record["place"]
        is_sent = queue == SENT_JOURNAL
        if is_sent and self._node != self._origin:
            self._at(record, "claims", "copied another node's messages as sent by itself", number=number)
        elif is_sent and record["kept"] and record["class"] == RECOVERABLE and self._stored:
            self._free_stored(record)
        for packets, messages in record["counts"]:
            for each in range(number, number + packets):
                span = place, place + messages - 1
                if is_sent and self._node == self._origin:
                    self._judge_wish(record, each, span)
                self.said.setdefault((queue, sequence, each), RangeSet()).add(*span)
                self._copy(record, receiver, each, span)
                place = 0
            number += packets

    def _judge_wish(self, record: Record, number: int, span: tuple[int, int]) -> None:
        """A copy of what was sent is one that its sender asked for, in this start or an earlier one."""
        _, wanted = self.asked.get((record["sequence"], number), (0, RangeSet()))
        if wanted.missing(*span):
            evidence = "in the journal of what was sent, or left out for want of room, and its sender asked for no copy"
            self._at(record, "claims", evidence, settled(self._node, 1, record["incarnation"]), number=number)

    def _copy(self, record: Record, receiver: Receiver, number: int, span: tuple[int, int]) -> None:
        queue, sequence, start = record["queue"], record["sequence"], record["incarnation"]
        before, copied, earlier = self.copied.get((queue, sequence, number), (start, RangeSet(), RangeSet()))
        if before != start:
            earlier, copied = RangeSet([*earlier, *copied]), RangeSet()
        again = copied.overlap(*span)
        if not again and self._is_sure(record, receiver, number, span):
            again = earlier.overlap(*span)
        if again:
            how = "copied into" if record["kept"] else "left out of"
            evidence = f"message {again[0][0]} of the packet is {how} a journal again"
            self._at(record, "journal_twice", evidence, number=number)
        copied.add(*span)
        self.copied[queue, sequence, number] = start, copied, earlier

    def _is_sure(self, record: Record, receiver: Receiver, number: int, span: tuple[int, int]) -> bool:
        """Whether the commit of an earlier start, which made a copy, is known to have returned."""
        if record["class"] == EXPRESS:
            return False  # the copy is in memory, as the message is, and that comes again
        if record["queue"] == SENT_JOURNAL:
            sequence = record["sequence"]
            is_there = (sequence, number) in self._there or number in self._recovered.get(sequence, RangeSet())
            return bool(record["origin"] == self._node and not is_there)
        settled_now = (record["queue"], record["sequence"], number) in self._settled_now
        return not settled_now and receiver.settling.are_done(part(number, *span, None))

    def handle_settled(self, record: Record) -> None:
        """The commit that begins takes the last messages of packets out of a journaled queue: it holds the copies."""
        queue, sequence, number, place = record["queue"], record["sequence"], record["number"], record["place"]
        if not record.get("journaled"):
            if self.copied:
                numbers = range(number, last_of(record) + 1)
                self._settled_now |= {(queue, sequence, each) for each in numbers} & self.copied.keys()
            return
        for packets, messages in record["counts"]:
            for each in range(number, number + packets):
                said = self.said.get((queue, sequence, each), RangeSet())
                if said.missing(0, place + messages - 1):
                    evidence = "out of its queue, which has a journal, and nothing is said of a copy"
                    self._at(record, "journal_complete", evidence, number=each)
                place = 0
            number += packets

    SEES: ClassVar[dict[str, Callable[[Copies, Record], None]]] = by_event(vars())
