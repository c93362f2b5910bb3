"""What one stream promises, over all nodes that its packets pass: nothing lost, repeated, reordered or made up.

Fed with all records of the stream and with facts from its sessions, each node's in its order. ``Outgoing``,
``Incoming`` and, of a relay, ``Passing`` judge what one node shows; this judges what only several nodes show together.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any, ClassVar, Final, TypeVar

from triack.base.printable import counted
from triack.base.printable import printable as _shown
from triack.base.session_log import SETTINGS
from triack.tools.replay.causes.engine import Causes, Sides
from triack.tools.replay.causes.table import CAUSES_OF, FACTS_BY
from triack.tools.replay.checks import stories
from triack.tools.replay.checks.commits import Commit, Commits
from triack.tools.replay.checks.findings import (
    EVER,
    DisorderError,
    Due,
    LaneReporter,
    Output,
    Record,
    given,
    of_origin,
    settled,
    whole,
)
from triack.tools.replay.checks.incoming_check import Incoming, Receiver
from triack.tools.replay.checks.journal_check import Copies
from triack.tools.replay.checks.latencies import Latencies
from triack.tools.replay.checks.outgoing_check import Outgoing
from triack.tools.replay.checks.side import by_event
from triack.tools.replay.checks.stories import UNDONE, Story
from triack.tools.replay.judges.admin_judge import Asking
from triack.tools.replay.log.messages import block
from triack.tools.replay.log.ranges import RangeSet, Span, size
from triack.tools.replay.log.schema import (
    AT_RELAY,
    CLASS_CODES,
    DEAD,
    EXPRESS,
    OF_SYSTEM,
    RECOVERABLE,
    TRANSACTIONAL,
    is_system,
    priority_in,
)
from triack.tools.replay.topics.passing_check import QUEUE as REMOTE
from triack.tools.replay.transit.transit_check import Passing

Value = TypeVar("Value")
_See = Callable[["StreamJudge", Record], object]
_Find = Callable[["StreamJudge", str], Any]

BY_NODE: Final = ("_senders", "_receivers", "_relays", "_asking", "_copies", "_starts", "_lives", "_last")
"""What a judge of a stream knows of single nodes, by their ids."""
SETS: Final = ("_recovering", "_named", "_hops", "_brought", "_told", "_answered", "_ended")
"""What else it joins as sets; all but the first two were said by no single node."""
WORDS: Final = ("order-ack", "reject")
"""What a relay passes on of a packet."""
DEAD_LETTER_STREAM: Final = 0
"""A node puts dead letters into their queue itself; they were in no stream."""
LEAVING: Final = ("bridge_drew", "handed", "settled", "journaled", "returned", "purged", "expired")
"""Events of messages in a queue, dead letters among them."""
NAMELESS: Final = ("admin_ack_asked", "bridge_drew", "bridge_took", "journal_asked", "journaled", "rerouted")
"""Events that say nothing of the names of a stream."""
NAMES: Final = ("class", "queue", "final", "peer_name", "priority", "sealed")
"""What all nodes say alike of a stream."""
TELLS_PRIORITY: Final = ("queued", "committed", "handed")
"""Events that say which priority the messages of a stream have."""


def _by_side(*sides: tuple[_Find, Mapping[str, Any]]) -> dict[str, list[tuple[_Find, Any]]]:
    """Return by event what the sides do that look at it; each is given with how it is found, and what it looks at."""
    events = {event for _, sees in sides for event in sees}
    return {event: [(find, sees[event]) for find, sees in sides if event in sees] for event in events}


class StreamJudge(LaneReporter):
    """Judges one stream of one origin; if it ``forgets``, it keeps what is settled as sums only."""

    def __init__(self, origin: str, stream: int, out: Output, *, forgets: bool = False) -> None:
        super().__init__(origin, stream, out)
        self._forgets = forgets
        # Whether it goes on from a summary: what is settled in that can never be judged again.
        self._goes_on = False
        self._senders: dict[str, Outgoing] = {}
        self._receivers: dict[str, Incoming] = {}
        self._relays: dict[str, Passing] = {}
        self._asking: dict[str, Asking] = {}
        self._copies: dict[str, Copies] = {}
        self._causes = Causes(origin, stream, out)
        self._stories: defaultdict[int, Story] = defaultdict(Story)
        self._starts: dict[str, int] = {}
        self._lives: dict[str, Record] = {}
        self._last: dict[str, Record] = {}
        self._latencies: defaultdict[int, Latencies] = defaultdict(Latencies)
        # (node, peer) of the sessions that carried the stream, as the node knows, and as the peer does.
        self._hops: set[tuple[str, str]] = set()
        self._brought: set[tuple[str, str]] = set()
        self._removals: list[Record] = []
        # (node, peer) -> the first order ack for that peer.
        self._answered: dict[tuple[str, str], Record] = {}
        # (relay, peer) -> the first word passed on to that peer.
        self._told: dict[tuple[str, str], Record] = {}
        # (name, sequence) -> node -> value -> the first record that has it.
        self._said: defaultdict[tuple[str, int], dict[str, dict[object, Record]]] = defaultdict(dict)
        # All names of a record together; most records repeat known ones.
        self._named: set[tuple[str | int | None, ...]] = set()
        # The sequences that their origin has ended, and the first record of each that its destination has forgotten.
        self._ended: set[int] = set()
        self._forgotten: dict[int, Record] = {}
        # Nodes that say what they found at a start.
        self._recovering: set[str] = set()

    def _of(self, node: str, known: dict[str, Value], side: Callable[[str, str, int, Output], Value]) -> Value:
        """Return what is known of a node, which is nothing at first."""
        mine = known.get(node)
        if mine is None:
            mine = known[node] = side(node, self._origin, self._stream, self._out)
        return mine

    def _sender(self, node: str) -> Outgoing:
        return self._senders.get(node) or self._of(node, self._senders, Outgoing)

    def _receiver(self, node: str) -> Incoming:
        return self._receivers.get(node) or self._of(node, self._receivers, Incoming)

    def _ask(self, node: str) -> Asking:
        return self._of(node, self._asking, Asking)

    def _copies_of(self, node: str) -> Copies:
        is_new, copies = node not in self._copies, self._of(node, self._copies, Copies)
        if is_new and node in self._lives:
            copies.handle_started(self._lives[node])
        if is_new and node not in self._recovering:
            copies.handle_other(self._lives.get(node, {}))
        return copies

    def _relay(self, node: str) -> Passing:
        is_new, relay = node not in self._relays, self._of(node, self._relays, Passing)
        if is_new and node in self._recovering:
            relay.handle_started(self._lives[node])
        if is_new and node in self._lives:
            relay.handle_life(self._lives[node])
        return relay

    def see(self, record: Record) -> None:
        """Look at the next record."""
        node, event = record["node"], record["event"]
        if self._causes.waiting:
            self._causes.handle_time(node, record["at_ns"], self._sides)
        if event == "life":
            self._on_life(record)
            return
        self._last[node] = record
        if self._stream == DEAD_LETTER_STREAM:
            if event not in LEAVING:
                self._at(record, "claims", f"{event} in the stream of dead letters")
            return
        if event[0] != "~":
            self._note_names(record)
            if node in self._recovering:
                self._end_recovery(record)
        if event in CAUSES_OF:
            self._causes.judge(record, self._sides)
        if event == "packet_sent" and node != self._origin and node not in self._relays:
            self._at(record, "queue", "sent by another node", number=record["number"])
            return
        self._tell(node, event, record)
        if event in FACTS_BY:
            self._causes.note(record)
        if node == self._origin:
            self._sender(node).look(record)

    def _tell(self, node: str, event: str, record: Record) -> None:
        """Let the stream look at a record, and the sides of its node."""
        if event in self._SEES:
            self._SEES[event](self, record)
        for find, handle in self._TELLS.get(event, ()):
            side = find(self, node)
            if side is not None:
                handle(side, record)

    def _sides(self) -> Sides:
        return Sides(self._receivers, self._relays, self._senders)

    def _end_recovery(self, record: Record) -> None:
        """A start has reported all that it found once it logs anything else."""
        if record["event"] != "position_recovered" and not record.get("recovered"):
            node = record["node"]
            self._recovering.discard(node)
            for side in self._sides_of(node):
                side.handle_other(record)
            if node in self._copies:
                self._copies[node].handle_other(record)

    def _sides_of(self, node: str) -> list[Outgoing | Incoming | Passing]:
        return [self._sender(node), self._receiver(node), *_only(node, self._relays).values()]

    def _note_names(self, record: Record) -> None:
        get = record.get
        if record["event"] == "rerouted" and record["node"] == self._origin:
            # The node that it goes to may have another name by its new way.
            self._said.pop(("peer_name", record["sequence"]), None)
        # At a relay the name of a peer is that of a neighbour.
        peer_name, seal = (get("peer_name"), get("sealed")) if record["event"] == "queued" else (None, None)
        priority = priority_in(record) if record["event"] in TELLS_PRIORITY else None
        names = record["node"], record["sequence"], get("class"), get("queue"), get("final"), peer_name, priority, seal
        if names in self._named or record["event"] in NAMELESS:
            # What is asked for is written before the commit that begins the stream, which may never be; what is copied
            # may be in another queue, and so is an old name.
            return
        story = self._stories.get(record["sequence"])
        if record["event"] == "stream_ended" and (story is None or not story.queued):
            # Nothing of it was ever on the disk, so another stream gets its number if the process dies now.
            return
        self._named.add(names)
        for name, value in zip(NAMES, names[2:], strict=True):
            if value is not None:
                self._said[(name, record["sequence"])].setdefault(record["node"], {}).setdefault(value, record)

    def _judge_names(self) -> None:
        """Check that all nodes have the same class, queue, destination, address and priority for the stream."""
        for (name, sequence), by_node in self._said.items():
            said = [(value, record) for node in sorted(by_node) for value, record in by_node[node].items()]
            for value, record in said[1:]:
                if value != said[0][0]:
                    self._at(record, "claims", f"{name} {value!r}, elsewhere {said[0][0]!r}", sequence=sequence)

    def _on_life(self, record: Record) -> None:
        node, start = record["node"], record["incarnation"]
        before = self._starts.get(node)
        self._starts[node] = start
        if before == start:
            known = self._lives[node]
            for name in SETTINGS:
                if name in record and name in known and record[name] != known[name]:
                    self._at(record, "claims", f"{name} {record[name]}, and {known[name]} in an earlier segment")
            record = {**known, **record}
        self._lives[node] = record
        if before != start:
            self._recovering.add(node)
            if node in self._copies:
                self._copies[node].handle_started(record)
        for side in self._sides_of(node):
            if before is not None and start > before + 1:
                side.finish_start(Due("started", node, before + 1, end_ns=start - 1))
            if before != start:
                side.handle_started(record)
            side.handle_life(record)

    # ---- single records

    def _story(self, record: Record) -> Story:
        story = self._stories[record["sequence"]]
        cls = record.get("class", TRANSACTIONAL)
        if story.cls != cls:
            # A stream has one class; if records disagree, take the one with the strongest promises.
            story.cls = max(story.cls, cls, key=CLASS_CODES.__getitem__)
        return story

    def _on_queued(self, record: Record) -> None:
        story = self._story(record)
        story.since = story.since or record["incarnation"]
        span = record["first"], record["last"], record["count"]
        (story.recovered if record.get("recovered") else story.fresh).append(span)
        if record.get("recovered"):
            self._undo_removals(record)
        story.queued.add(record["first"], record["last"])
        if record["first"] == record["last"]:
            self._put(story, record["first"], record["last"], record["count"])
        if not record.get("recovered"):
            self._latencies[record["sequence"]].queued(record, self._out)
        self._out.begin(record["wall_ns"])

    def _undo_removals(self, record: Record) -> None:
        """A start has found what was given up before it: the process died before the commit of the dead letters."""
        sequence, span = record["sequence"], (record["first"], record["last"])
        for at, removal in enumerate(self._removals):
            if removal["sequence"] == sequence and removal["incarnation"] < record["incarnation"]:
                left = RangeSet((first, last) for first, last, _ in stories.left_of(removal))
                if found := left.overlap(*span):
                    self._removals[at] = {**removal, UNDONE: [*removal.get(UNDONE, ()), *found]}

    def _on_removed(self, record: Record) -> None:
        story, first, last, count = self._story(record), record["first"], record["last"], record["count"]
        story.removed.append((first, last, count))
        self._removals.append(record)
        if first == last and story.weights.get(first) is None:
            # It may never have left: then no other record tells what it holds.
            self._put(story, first, last, count)

    def _weigh(self, record: Record) -> None:
        story, number = self._story(record), record["number"]
        for packets, messages in record["counts"]:
            self._put(story, number, number + packets - 1, messages)
            number += packets

    def _put(self, story: Story, first: int, last: int, messages: int) -> None:
        others = story.weights.put(first, last, messages)
        if not others:
            return
        if self._forgets and not (self._goes_on and story.counted.numbers.overlap(first, last)):
            raise DisorderError
        story.raised.join(others)

    def _on_packet_sent(self, record: Record) -> None:
        node = record["node"]
        if node == self._origin:
            if record.get("hops", 0):
                evidence = f"its origin sent it with hop count {record['hops']}"
                self._at(record, "hops_step", evidence, number=record["number"])
            if "hops" in record and node in self._copies:
                self._copies[node].is_relayed = True
        self._weigh(record)

    def _on_packet_received(self, record: Record) -> None:
        self._weigh(record)
        if "hops" in record:
            self._relay(record["node"]).handle_received(record)

    def _on_transit_committed(self, record: Record) -> None:
        self._story(record)
        self._relay(record["node"])

    def _on_control_relayed(self, record: Record) -> None:
        """A relay passed an order ack, a rejection or the end of the stream on."""
        node = record["node"]
        if record["kind"] in ("end", "forgotten"):
            # It may have come by a way that no packet has taken.
            if record["kind"] == "end" and node in self._relays:
                self._relays[node].handle_end_passed(record)
            return
        if record["kind"] not in WORDS:
            self._at(record, "claims", f"passed on {record['kind']!r}, which is no word")
        self._told.setdefault((node, record["peer"]), record)

    def _on_word_refused(self, record: Record) -> None:
        """The origin of sealed packets got a word about them that their destination had not proved."""
        if record["kind"] not in WORDS:
            self._at(record, "claims", f"refused {record['kind']!r}, which is no word")

    def _on_rerouted(self, record: Record) -> None:
        node, sequence = record["node"], record["sequence"]
        if node != self._origin and not (node in self._relays and self._relays[node].has_had(sequence)):
            due = settled(node, last=record["incarnation"])
            self._at(record, "claims", "switched to another neighbour, and nothing of it had come", due)

    def _on_onward_sent(self, record: Record) -> None:
        self._told.setdefault((record["node"], record["peer"]), record)
        if record["here"]:
            self._relay(record["node"]).handle_onward_sent(record)

    def _on_onward_ack_sent(self, record: Record) -> None:
        self._told.setdefault((record["node"], record["peer"]), record)
        self._relay(record["node"]).tells_onward = True

    def _on_onward_ack_received(self, record: Record) -> None:
        if record["node"] != self._origin:
            self._relay(record["node"])

    def _on_committed(self, record: Record) -> None:
        first, last, count = record["first"], record["last"], record["count"]
        if first <= last:
            self._story(record).commits[record["node"]].add(first, last, count)
        self._out.end(record["wall_ns"])
        self._out.chart("committed", record["wall_ns"], count)
        self._latencies[record["sequence"]].committed(record, self._out)

    def _on_position_recovered(self, record: Record) -> None:
        covered = self._story(record).covered
        for first, last in [(1, record["number"])] if "number" in record else record["ranges"]:
            # A first start has found nothing, whatever it says.
            covered.add(first, last if record["incarnation"] > 1 else 0)

    def _on_order_ack_sent(self, record: Record) -> None:
        self._answered.setdefault((record["node"], record["peer"]), record)

    def _on_order_ack_received(self, record: Record) -> None:
        sequence = record["sequence"]
        story = self._stories[sequence]
        if record["node"] in self._copies:
            self._copies[record["node"]].handle_freed(record, story.acked + 1, record["number"])
        story.forget(record["number"], record["incarnation"], record["n"])
        if record["node"] != self._origin:
            self._at(record, "claims", "an order ack that arrived at another node", number=record["number"])

    def _on_hold_received(self, record: Record) -> None:
        if record["node"] != self._origin and record["node"] not in self._relays:
            self._at(record, "claims", "word of a full queue that arrived at another node")

    def _on_admin_ack_queued(self, record: Record) -> None:
        known = self._receiver(record["node"]).sequences.get(record["sequence"])
        self._ask(record["node"]).handle_told(record, known or Receiver())

    def _on_journaled(self, record: Record) -> None:
        known = self._receiver(record["node"]).sequences.get(record["sequence"])
        self._copies_of(record["node"]).handle_journaled(record, known or Receiver())

    def _on_settled(self, record: Record) -> None:
        if "journaled" in record or record["node"] in self._copies:
            self._copies_of(record["node"]).handle_settled(record)

    def _on_stream_ended(self, record: Record) -> None:
        self._ended.add(record["sequence"])

    def _on_stream_forgotten(self, record: Record) -> None:
        self._forgotten.setdefault(record["sequence"], record)

    # ---- facts from sessions

    def _told_stored(self, record: Record) -> None:
        if record["class"] == RECOVERABLE and record["node"] == self._origin:
            self._stories[record["sequence"]].store(record)
            if record["node"] in self._copies:
                self._copies[record["node"]].handle_stored(record, self._stories[record["sequence"]].weights)

    def _told_carried(self, record: Record) -> None:
        self._hops.add((record["node"], record["peer"]))

    def _told_taking(self, record: Record) -> None:
        self._brought.add((record["peer"], record["node"]))

    # ---- the whole stream

    def go_on(self, *, forgets: bool) -> None:
        """Go on from a summary, and forget what is settled from now on, or not."""
        self._goes_on, self._forgets = True, forgets

    def join(self, other: StreamJudge) -> None:
        """Merge another judge of the stream, of nodes that follow this one's in order."""
        self._causes.join(other._causes)
        for known in (*BY_NODE, *SETS):
            mine = getattr(self, known)
            mine |= getattr(other, known)
        for sequence, story in other._stories.items():
            self._stories[sequence].join(story)
        for sequence, latencies in other._latencies.items():
            self._latencies[sequence].join(latencies, self._out)
        self._removals += other._removals
        self._forgotten = {**other._forgotten, **self._forgotten}
        for name, by_node in other._said.items():
            self._said[name] |= by_node

    def split(self, _heard: Mapping[str, tuple[int, int]]) -> dict[str, StreamJudge]:
        """Return a judge for each node; ``join`` puts them together again. How long messages took is left out.

        What no single node has said, such as what was queued and acknowledged, goes to the origin's judge; if the
        origin is not known, to that of the first node.
        """
        nodes = sorted({node for name in BY_NODE for node in getattr(self, name)})
        teller = self._origin if self._origin in nodes else next(iter(nodes), "")
        parts: dict[str, StreamJudge] = {}
        for node in nodes:
            parts[node] = StreamJudge(self._origin, self._stream, self._out, forgets=self._forgets)
            parts[node].take_from(self, node, common=node == teller)
        return parts

    def take_from(self, whole: StreamJudge, node: str, *, common: bool) -> None:
        """Take over what a judge of all nodes knows of one, and perhaps what no single node has said."""
        for known in BY_NODE:
            setattr(self, known, _only(node, getattr(whole, known)))
        self._causes.only(node, whole._causes)
        self._recovering = whole._recovering & {node}
        self._named = {names for names in whole._named if names[0] == node}
        for name, by_node in whole._said.items():
            self._said[name] = _only(node, by_node)
        for sequence, story in whole._stories.items():
            self._stories[sequence] = story.part(node, common=common)
        for known in (*SETS[2:], "_removals", "_forgotten") if common else ():
            setattr(self, known, getattr(whole, known))

    def finish(self) -> None:
        """Judge what only all records of all nodes show; more of them may follow."""
        if self._stream == DEAD_LETTER_STREAM:
            return
        for node, sender in self._senders.items():
            sender.finish(self._later(node))
        for node, receiver in self._receivers.items():
            receiver.finish(self._later(node), self._given_up)
            self._judge_receiver(receiver)
        for node, relay in self._relays.items():
            relay.finish(self._later(node))
        for node, copies in self._copies.items():
            if node in self._last:
                peers = {peer for sender, peer in self._hops if sender == node}
                copies.finish(self._last[node], self._later(node), peers, self._behind())
        self._causes.finish(self._sides(), self._tellers)
        self._judge_names()
        self._judge_ends()
        self._judge_removals()
        self._judge_order_acks()
        self._judge_words()
        self._count_ways()
        asked = self._asking[self._origin].asked if self._origin in self._asking else {}
        for asking in self._asking.values():
            asking.judge_told(asked)
        for node in sorted(self._receivers.keys() & self._last.keys()) if asked else ():
            self._ask(node).judge_untold(self._receivers[node], asked, self._last[node], self._given_up)
        removals = defaultdict[int, list[Record]](list)
        for removal in self._removals:
            removals[removal["sequence"]].append(removal)
        since_ns = [self._judge_story(sequence, story, removals[sequence]) for sequence, story in self._stories.items()]
        self._count_flow(min(filter(None, since_ns), default=0))

    def _behind(self) -> dict[int, list[tuple[RangeSet, int]]]:
        """What relays have passed on of each sequence, and when; nothing if one tells its neighbour of it."""
        behind = defaultdict[int, list[tuple[RangeSet, int]]](list)
        for relay in self._relays.values() if not any(it.tells_onward for it in self._relays.values()) else ():
            for sequence, known in relay.sequences.items():
                behind[sequence].append((known.onward, known.onward_ns))
        return behind

    def _judge_ends(self) -> None:
        """Check that nothing was forgotten that its origin had not ended."""
        for sequence, record in self._forgotten.items():
            if sequence not in self._ended:
                dues = given(self._origin), *of_origin(self._origin, record)
                self._at(record, "claims", "forgotten, and its origin has not ended it", *dues, sequence=sequence)

    def _judge_removals(self) -> None:
        """Check that what was given up holds as many messages as its packets."""
        for record in self._removals:
            first, last, count = record["first"], record["last"], record["count"]
            packets, messages = self._stories[record["sequence"]].weights.total(first, last)
            if packets == last - first + 1 and messages != count:
                evidence = f"{counted(count, 'message')} removed, their packets hold {messages}"
                self._at(record, "claims", evidence, number=first, last=last)

    def _given_up(self, sequence: int) -> RangeSet:
        return self._stories[sequence].given_up

    def _later(self, node: str) -> Due:
        return Due("started", node, self._starts.get(node, 0), end_ns=EVER)

    def _judge_receiver(self, receiver: Incoming) -> None:
        for sequence, known in receiver.sequences.items():
            story = self._stories[sequence]
            if receiver.node != self._origin:
                self._judge_arrived(known, story)
            self._judge_commits(receiver.node, sequence, known, story)
            if receiver.node == self._origin:
                # A crash may take the record of what it queued for itself; that is in its queue all the same.
                continue
            for first, last in known.recovered:
                for low, high in story.queued.missing(first, last):
                    record = self._last[receiver.node]
                    dues = of_origin(self._origin, record)
                    self._at(
                        record, "queue", "recovered but not queued", *dues, sequence=sequence, number=low, last=high
                    )
        for record, sequence in receiver.reused:
            if 0 < self._stories[sequence].since == self._stories[record["sequence"]].since:
                evidence = f"not forgotten, and stream {record['sequence']} of the same life came in its stream"
                self._at(record, "claims", evidence, sequence=sequence)
        for record, first, last in receiver.holes:
            self._judge_hole(record, first, last, receiver.sequences[record["sequence"]])
        for record, (low, high) in receiver.early_store_acks:
            evidence = "store-acked before its commit"
            more = {"session": record["session"], "number": low, "last": high}
            self._at(record, "store_ack_before_commit", evidence, **more)

    def _judge_arrived(self, known: Receiver, story: Story) -> None:
        removed = story.given_up
        for record, (first, last) in known.unarrived:
            # The origin may have given up numbers before the end of a range.
            ends = last == record["last"] or known.cls != TRANSACTIONAL
            dues = () if ends else of_origin(self._origin, record)
            self._each(record, "queue", "committed, and had not arrived", removed.missing(first, last), *dues)

    def _judge_commits(self, node: str, sequence: int, known: Receiver, story: Story) -> None:
        """Check that commits hold what was queued, and as many messages as their packets."""
        removed = story.given_up
        unsettled = Commits()
        for commit in known.commits:
            first, last, record = commit.first, commit.last, commit.record(node)
            unqueued = story.queued.missing(first, last)
            for low, high in unqueued:
                evidence = "committed but not queued"
                dues = of_origin(self._origin, record)
                self._at(record, "queue", evidence, *dues, sequence=sequence, number=low, last=high)
            packets, messages = known.counts.total(first, last)
            agrees = packets == last - first + 1 and messages == commit.messages
            if packets == last - first + 1 and not agrees and not removed.overlap(first, last):
                evidence = f"{counted(commit.messages, 'message')} committed, their packets hold {messages}"
                # The origin may have given up some numbers between its ends.
                dues = of_origin(self._origin, record) if known.cls == TRANSACTIONAL and last > first + 1 else ()
                self._at(record, "claims", evidence, *dues, sequence=sequence, number=first, last=last)
            elif not agrees and known.cls == TRANSACTIONAL and node != self._origin:
                self._judge_bounds(node, sequence, known, commit, removed)
            if (
                not self._forgets
                or unqueued
                or not agrees
                or (known.cls != EXPRESS and bool(known.out.fresh.missing(*block(first, last))))
            ):
                unsettled.add(commit)
            else:
                known.read = max(known.read, commit.at)
        known.commits = unsettled

    def _judge_bounds(self, node: str, sequence: int, known: Receiver, commit: Commit, removed: RangeSet) -> None:
        """Check that a commit that passes numbers holds what arrived of the others, and no more than arrived at all."""
        given_up = RangeSet(removed)
        given_up.join(known.refused_ever)
        wanted = given_up.missing(commit.first, commit.last)
        least = sum(known.counts.total(*span)[1] for span in wanted)
        most = known.counts.total(commit.first, commit.last)[1]
        if not least <= commit.messages <= most:
            several = f"{least}" if least == most else f"{least} to {most}"
            evidence = f"{counted(commit.messages, 'message')} committed, what arrived of it holds {several}"
            record = commit.record(node)
            dues = of_origin(self._origin, record)
            self._at(record, "claims", evidence, *dues, sequence=sequence, number=commit.first, last=commit.last)

    def _judge_hole(self, record: Record, first: int, last: int, known: Receiver) -> None:
        sequence = record["sequence"]
        story = self._stories[sequence]
        removed = story.given_up
        removed.join(known.refused_ever)
        wanted = [part for span in story.queued.overlap(first, last) for part in removed.missing(*span)]
        if wanted:
            missing = counted(size(wanted), "packet")
            evidence = f"{missing} from {wanted[0][0]} on not committed before {record['first']}"
            dues = of_origin(self._origin, record, story.since)
            self._at(record, "gaps", evidence, *dues, number=record["first"])
            return
        previous = known.previous.get(record["first"], record["first"] - 1)
        behind = max([first - 1, *(high for _, high in known.refused_ever.overlap(first, last))])
        if record["first"] in known.arrived and previous > behind:
            evidence = f"{record['first']} was accepted behind {behind}, its previous is {previous}"
            self._at(record, "previous", evidence, number=record["first"])

    def _judge_order_acks(self) -> None:
        for (node, peer), record in self._answered.items():
            if peer != self._origin and (peer, node) not in self._brought | self._hops:
                evidence = f"an order ack for packets of {self._origin}, for {peer or 'nobody'}"
                due = settled(node, last=record["incarnation"])
                self._at(record, "claims", evidence, due, number=record["number"])
            senders = {sender for sender, taker in self._hops if taker == node}
            if senders and peer not in senders:
                evidence = f"an order ack for {peer}, from whom no packet came"
                dues = given(peer), whole(peer, record)
                self._at(record, "claims", evidence, *dues, number=record["number"])

    def _judge_words(self) -> None:
        """Check that relays tell neighbours that it concerns."""
        for (node, peer), record in self._told.items():
            if (peer, node) not in self._brought | self._hops:
                evidence = f"told {peer or 'nobody'} of a stream of which no packet came from there"
                dues = settled(node, last=record["incarnation"]), given(peer), whole(peer, record)
                number = record.get("number", -1)
                self._at(record, "word_astray", evidence, *dues, number=number)

    def _count_ways(self) -> None:
        """Count the hops of a stream that relays pass on."""
        passed = (known for relay in self._relays.values() for known in relay.sequences.values())
        if any(known.taken or known.held or known.given_up for known in passed):
            for node, peer in self._hops | self._brought:
                self._out.count(f"way\t{self._origin}\t{self._stream}\t{node}\t{peer}", 1)

    def _tellers(self, record: Record) -> tuple[Due, ...]:
        """The dues that no log of a node behind that of a record lacks what it had told by then.

        A destination repeats from its disk what a start of it answered, whose log may lack that.
        """
        senders = {node for node, _ in self._hops}
        next_hops = sorted(peer for node, peer in self._hops if node == record["node"] and peer in senders)
        takers = sorted({peer for _, peer in self._hops} - senders)
        return *self._takers(record), *(whole(peer, record) for peer in next_hops), *map(settled, takers)

    def _takers(self, record: Record, *, found: int | None = None) -> tuple[Due, ...]:
        """The dues that no log of a destination lacks what precedes a record of the origin.

        ``found``: a sequence, if a start of a destination that found it on its disk covers all starts before that.
        """
        senders = {node for node, _ in self._hops}
        takers = sorted({peer for _, peer in self._hops} - senders)
        heard = [
            self._heard(taker, record, found) if found is not None else (whole(taker, record),)
            for taker in takers
            if not self._relays or (record["node"], taker) in self._hops
        ]
        return (*map(given, takers), *chain(*heard), *self._beyond(record)) or (Due("peers_given", self._origin),)

    def _beyond(self, record: Record) -> list[Due]:
        """The dues that no log lacks what was done behind the node of a record: nothing of it reaches that node."""
        hops = [(node, peer) for node, peer in sorted(self._hops) if record["node"] not in (node, peer)]
        relays = sorted({node for node, _ in self._hops} - {record["node"], self._origin})
        return [*map(given, relays), *(whole(peer, self._last[node]) for node, peer in hops)]

    def _heard(self, taker: str, record: Record, sequence: int) -> tuple[Due, ...]:
        """A destination's last start found on its disk what the node had of a sequence before a record of the origin.

        If it did not, and the origin had not ended the stream by then, the destination had nothing of it.
        """
        known = self._receivers[taker].sequences.get(sequence) if taker in self._receivers else None
        found, last = known.found_in if known else 1, self._starts.get(taker, 1)
        if found == last or sequence in self._ended:
            return (whole(taker, record, found),)
        begin = {"node": taker, "incarnation": last, "n": 1}
        return whole(taker, record, last), *of_origin(self._origin, begin, self._stories[sequence].since)

    def _judge_story(self, sequence: int, story: Story, removals: list[Record]) -> int:
        """Count the messages: whole ranges by their counts, then what single packets correct; and find what is lost.

        Returns when the first of those that wait was queued, by the wall clock; 0 if none waits, or no record shows it.
        """
        passed = [relay.sequences[sequence] for relay in self._relays.values() if sequence in relay.sequences]
        story.in_transit = RangeSet(span for known in passed for span in known.held)
        story.stopped = RangeSet(span for known in passed for span in known.given_up)
        self._judge_queued_counts(sequence, story)
        if story.cls != EXPRESS:
            self._judge_repeats(sequence, story)
        removed = [(part, _shown(str(removal["reason"]))) for removal in removals for part in stories.left_of(removal)]
        gone = RangeSet((first, last) for (first, last, _), _ in removed)
        counts = Counter[str]()
        for part, reason in removed:
            counts[f"{DEAD}{reason}"] += part[2]
            counts["unqueued"] += sum(stories.even_share(*span, part) for span in story.queued.missing(*part[:2]))
        dead, dead_delivered = sum(part[2] for part, _ in removed), stories.given_up_and_delivered(story, gone)
        sent = story.counted.count + sum(span[2] for span in story.fresh)
        delivered = sum(commits.count for commits in story.commits.values())
        lost = list[Span]()
        for it in stories.segments(story, [part for part, _ in removed]):
            weight = story.weigh_all([(it.first, it.last)])
            sent += it.sent * weight
            delivered += it.delivered * weight
            counts["unqueued"] += it.unqueued * weight
            counts[f"{DEAD}{AT_RELAY}"] += it.stopped * weight
            dead += it.stopped * weight
            if it.lost:
                lost.append((it.first, it.last))
        rest = sent + counts["unqueued"] + dead_delivered - delivered - dead
        counts.update(sent=sent, delivered=delivered, dead_delivered=dead_delivered)
        counts["unkept"] = rest if story.cls == EXPRESS else 0
        self._count_messages(sequence, counts)
        for first, last in RangeSet(lost):
            self._report_lost(sequence, story, first, last)
        if story.cls == EXPRESS or rest <= 0:
            return 0
        self._flow("forgotten", story.weigh_all(lost))
        left = stories.waiting(story, gone, RangeSet(lost))
        self._flow("at_relays", story.weigh_all([span for part in left for span in story.in_transit.overlap(*part)]))
        return self._latencies[sequence].oldest(left) if sequence in self._latencies else 0

    def _count_messages(self, sequence: int, counts: Counter[str]) -> None:
        """Add the messages of a sequence to those of the verdict: of the system's own queues apart from all others."""
        queues = {str(queue) for values in self._said.get(("queue", sequence), {}).values() for queue in values}
        if any(queue.startswith(REMOTE) for queue in queues):
            self._out.count("passed_on", counts["sent"])
        whose = OF_SYSTEM if any(map(is_system, queues)) else ""
        for what, value in counts.items():
            if value:
                self._out.count(f"{whose}{what}", value)
                self._flow(what, value)

    def _flow(self, what: str, value: int) -> None:
        """Count something of this stream for the report."""
        self._out.count(f"flow\t{self._origin}\t{self._stream}\t{what}", value)

    def _count_flow(self, since_ns: int) -> None:
        """Count what the report tells of the stream as a whole: its ends, its class, its delays, what waits longest."""
        self._flow("class", max((CLASS_CODES[story.cls] for story in self._stories.values()), default=0))
        self._flow("since_ns", since_ns)
        self._flow("longest_ns", max((times.longest_ns for times in self._latencies.values()), default=0))
        for times in self._latencies.values():
            for bucket, messages in times.delays.items():
                self._flow(f"took {bucket}", messages)
        for sequence, story in self._stories.items():
            for node in story.commits:
                self._flow(f"to {node}", 1)
            for value in self._said.get(("peer_name", sequence), {}).get(self._origin, ()):
                self._flow(f"called {_shown(str(value))}", 1)

    def _origins_last(self) -> Record:
        """The origin's last record, or what there is instead."""
        return self._last.get(self._origin) or next(iter(self._last.values()))

    def _report_lost(self, sequence: int, story: Story, first: int, last: int) -> None:
        weight = story.weigh_all([(first, last)])
        record = {**self._origins_last(), "node": ""}
        evidence = f"acknowledged at its origin, committed nowhere; messages: {weight}"
        start, n = story.forgotten_at(last)
        forgotten = {"node": self._origin, "incarnation": start, "n": n}
        dues = settled(self._origin, story.since), *self._takers(forgotten, found=sequence)
        self._at(record, "lost", evidence, *dues, sequence=sequence, number=first, last=last, value=weight)

    def _judge_queued_counts(self, sequence: int, story: Story) -> None:
        for first, last in story.raised:
            evidence = f"records differ on the messages in them; {self._messages_of(sequence, story, first, last)}"
            self._at(self._origins_last(), "claims", evidence, sequence=sequence, number=first, last=last)
        fresh, story.fresh = story.fresh, []
        for first, last, count in fresh:
            packets, messages = story.weights.total(first, last)
            if self._forgets and packets == last - first + 1 and messages == count:
                story.counted.add(first, last, count)
                continue
            story.fresh.append((first, last, count))
            if packets == last - first + 1 and messages != count:
                evidence = f"{counted(count, 'message')} queued in {first}..{last}, their packets hold {messages}"
                self._at(self._origins_last(), "claims", evidence, sequence=sequence, number=first, last=last)

    def _messages_of(self, sequence: int, story: Story, first: int, last: int) -> str:
        """Say how many messages packets had wherever they arrived, and at most."""
        said = []
        for node, receiver in sorted(self._receivers.items()):
            known = receiver.sequences.get(sequence)
            if known is not None and (messages := known.counts.total(first, last)[1]):
                said.append(f"{messages} arrived at {node}, ")
        return f"{''.join(said)}and {story.weights.total(first, last)[1]} is the most"

    def _judge_repeats(self, sequence: int, story: Story) -> None:
        """Report packets that one destination committed more than once."""
        for node, commits in story.commits.items():
            self._out.count("duplicates_delivered", story.weigh_all(commits.again))
            for first, last in RangeSet(commits.again):
                evidence = f"committed again; messages: {story.weigh_all([(first, last)])}"
                self._at(self._last[node], "duplicates_delivered", evidence, sequence=sequence, number=first, last=last)

    # What a record says of the stream as a whole, or with which a side begins.
    _SEES: ClassVar[dict[str, _See]] = {
        **by_event(vars()),
        "transit_freed": lambda self, record: self._relay(record["node"]),
        "admin_ack_asked": lambda self, record: self._ask(record["node"]),
        "journal_asked": lambda self, record: self._copies_of(record["node"]),
    }
    # By event, how the sides of a node are found that look at its records, and what they do then.
    _TELLS: ClassVar[dict[str, list[tuple[_Find, Callable[[Any, Record], object]]]]] = _by_side(
        (lambda self, node: self._relays.get(node), Passing.SEES),
        (lambda self, node: self._asking.get(node), Asking.SEES),
        (lambda self, node: self._copies.get(node), Copies.SEES),
        (_sender, Outgoing.SEES),
        (_receiver, Incoming.SEES),
    )


def _only(node: str, known: Mapping[str, Value]) -> dict[str, Value]:
    """Return what is known of a node, if anything is."""
    return {node: known[node]} if node in known else {}
