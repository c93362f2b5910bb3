"""What one session promises, at both of its ends: the window, the acks and their timing, its begin and its end.

Fed with all records of the session, each node's in its order. When all records are in, it compares arrivals and acks
with what the other end says. It tells streams which packets an ack freed, which were store-acked, and what the session
carried when it ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice, permutations
from typing import ClassVar, Final

from triack.base.printable import counted
from triack.base.units import MS
from triack.tools.replay.checks.answer_check import Answers
from triack.tools.replay.checks.clock_check import Pair, arrivals_before, loses, pairs_of
from triack.tools.replay.checks.findings import LATE_NS, UNSENT_NS, Due, Opening, Output, Record, SessionReporter, awake
from triack.tools.replay.checks.idle_check import Quiet, judge_close, judge_open
from triack.tools.replay.checks.moments import Moments
from triack.tools.replay.checks.path_check import PathSizes, judge_sizes
from triack.tools.replay.checks.policy_check import judge_policy
from triack.tools.replay.checks.runs import Carried, Run, Runs, packets_of
from triack.tools.replay.checks.side import by_event
from triack.tools.replay.checks.silence_check import Left, Silence, judge_patience, judge_store_patience, judge_timeout
from triack.tools.replay.checks.window_check import Window
from triack.tools.replay.log.ranges import RangeSet, Span, size
from triack.tools.replay.log.schema import CLOSE_REASONS, EXPRESS, FAILURE_REASONS, RECOVERABLE

QUIET_AFTER_END: Final = (
    "session_opened", "packet_sent", "packet_received", "ack_received", "store_ack_received", "ping_sent",
    "path_size", "window_changed", "probe_received", "probe_answered", "piece_received",
)  # fmt: skip
"""Only a session that is not over does these; its last acks may leave with the goodbye."""
OVER_NS: Final = 60_000_000_000
"""Whatever was on its way when a session ended has arrived after a minute, or never will."""
MOMENTS_OF_PAST: Final = 64
"""Times of each kind that a summary keeps of an end that has closed: ten for each part of a session whose clocks are
compared (``clock_check.py``)."""
ACK_RANGES_MAX: Final = 64
"""The most ranges that an ack has room for (``session/protocol/frames.py``); one with this many may leave out later
ones."""
FREE_MAX: Final = 1_024
"""Periods in which a session had nothing to do; of a session with more of them the last ones are known."""
ACK_EVENTS: Final = {"ack": "ack", "store_ack": "store ack"}
_NOT_RECEIVED: Final = "acknowledged but not received before"


class Given:
    """The acks of one kind that an end sent: what they cover, and how far."""

    def __init__(self) -> None:
        self.covered = RangeSet()
        self.cumulative = 0

    def take(self, record: Record) -> list[Span]:
        """Note an ack and return what it newly covers."""
        # An ack covers all that earlier ones covered.
        news = self.covered.put(self.cumulative + 1, record["cumulative"])
        for first, last in record["ranges"]:
            news += self.covered.put(first, last)
        self.cumulative = max(self.cumulative, record["cumulative"])
        return news


class End:
    """One end of one session."""

    def __init__(self, incarnation: int, answers: Answers, window: Window) -> None:
        self.incarnation = incarnation
        self.life: Record = {}
        self.opened: Record | None = None
        self.closed: Record | None = None
        self.sent = Runs()
        self.received = Runs()
        # When each packet left, came, was acknowledged to the peer, and by it, for the first time.
        self.sent_at = Moments()
        self.received_at = Moments()
        self.gave = Moments()
        self.got = {"ack": Moments(), "store_ack": Moments()}
        self.last_n = 0
        # The longer periods in which nothing was unacknowledged; the last one goes on while its end is 0.
        self.free: list[Span] = []
        # Which streams it carries, by origin and stream.
        self.streams: set[tuple[str, int]] = set()
        # Which streams it brings, while it is known when its store acks are due.
        self.takes: set[tuple[str, int]] | None = set()
        self.acked = RangeSet()
        self.stored = RangeSet()
        self.given = {"ack": Given(), "store_ack": Given()}
        self.unacked = 0
        self.silence = Silence()
        self.store_silence = Silence()
        self.left = Left()
        self.path = PathSizes()
        self.quiet = Quiet()
        self.answers = answers
        self.window = window
        self.first: Record | None = None

    def begin_free(self, at_ns: int) -> None:
        """Nothing is unacknowledged from now on."""
        if not self.free or self.free[-1][1]:
            self.free.append((at_ns, 0))

    def end_free(self, at_ns: int) -> None:
        """Something is, or the session is over."""
        if self.free and not self.free[-1][1]:
            begin_ns, _ = self.free.pop()
            if at_ns - begin_ns > UNSENT_NS:
                self.free.append((begin_ns, at_ns))
                del self.free[:-FREE_MAX]

    def pairs_to(self, other: End) -> list[Pair]:
        """Return what left this end and arrived at the other one, in order: packets and acks."""
        acks = pairs_of(self.gave, other.got["ack"])
        return sorted([*pairs_of(self.sent_at, other.received_at), *acks])

    def reached(self, other: End) -> int:
        """Return the serial of the last record of this end whose effect the other end shows; 0 if there is none.

        It shows an effect of a record if it has a packet that first left with that record or later, or an ack.
        """
        sent = self.sent_at.sorted().before(other.received.last)
        top = other.acked.lasts[-1] if other.acked else 0
        gave = next((moment for moment in self.gave if moment.last >= top), None) if top else None
        return max(sent.n if sent is not None else 0, gave.n if gave is not None else 0)

    def is_past(self, start: int, at_ns: int) -> bool:
        """Whether a node that has come as far as that time of a start has nothing more to say of this end."""
        return start > self.incarnation or (self.closed is not None and at_ns > self.closed["at_ns"] + OVER_NS)

    @property
    def waits(self) -> bool:
        """Whether it is not idle: it awaits an ack or a store ack, or is to give one.

        Packets that an order ack has freed still count as waiting.
        """
        return bool(self.unacked or self.store_silence.waiting or self.quiet.owed)


class SessionJudge(SessionReporter):
    """Judges one session."""

    def __init__(self, session: str, out: Output) -> None:
        super().__init__(session, out)
        self.ends: dict[str, End] = {}

    def see(self, record: Record) -> None:
        """Look at the next record."""
        node, event = record["node"], record["event"]
        end = self.ends.get(node)
        if end is None:
            end = self._new_end(record["incarnation"])
            # By node, not by order of arrival, which differs between engines.
            self.ends = dict(sorted([*self.ends.items(), (node, end)]))
        if event != "life":
            end.last_n = record["n"]
            if end.first is None:
                end.first = record
            if record["incarnation"] != end.incarnation:
                if event == "session_closed":
                    # A late copy of an old connect, which the node gave up.
                    return
                if end.opened is not None:
                    evidence = f"{event} in start {record['incarnation']}, begun in an earlier one"
                    self._report(record, "silent_end", evidence)
                end.incarnation = record["incarnation"]
            if end.closed is not None and event in QUIET_AFTER_END:
                self._report(record, "silent_end", f"{event} after its end")
        self._SEES[event](self, end, record)

    def _new_end(self, incarnation: int) -> End:
        return End(incarnation, Answers(self._session, self._out), Window(self._session, self._out))

    # ---- begin and end

    def _on_life(self, end: End, record: Record) -> None:
        end.life = {**end.life, **record}

    def _on_session_opened(self, end: End, record: Record) -> None:
        if end.opened is not None:
            if end.closed is None:
                self._report(record, "silent_end", "opened again")
            return
        end.opened = record
        end.begin_free(record["at_ns"])
        end.answers.handle_opened(record)
        end.quiet.since_ns = record["at_ns"]
        if record["peer"] == record["node"] or record["role"] not in ("initiator", "acceptor"):
            self._report(record, "claims", f"{record['role']} of a session with {record['peer'] or 'nobody'}")
        if record["role"] == "initiator":
            end.silence.ask(record)
        own = end.life.get("max_unacked_packet", record["window"])
        if record["window"] > own:
            self._report(record, "claims", f"a window of {record['window']}, {own} is the node's setting")
        end.window.handle_opened(record)
        for origin, stream in sorted(end.streams):
            self._carried(record, record, origin, stream)

    def _on_session_closed(self, end: End, record: Record) -> None:
        if record["reason"] not in CLOSE_REASONS:
            self._report(record, "silent_end", f"unknown reason {record['reason']!r}")
        if end.opened is None:
            # It gave up connecting; a late copy of its connect may open the session all the same.
            return
        if end.closed is not None:
            self._report(record, "silent_end", "closed again")
            return
        end.closed = record
        end.end_free(record["at_ns"])
        if record["peer"] != end.opened["peer"]:
            self._report(record, "claims", f"closed with {record['peer']}, opened with {end.opened['peer']}")
        # Some of its packets may not have left yet.
        if record["unacked"] < end.unacked:
            self._report(record, "claims", f"{record['unacked']} unacknowledged when it closed, counted {end.unacked}")
        else:
            end.window.handle_closed(record)
        if record["reason"] == "drained" and end.unacked:
            self._report(record, "claims", f"closed as drained with {counted(end.unacked, 'packet')} unacknowledged")
        end.silence.measure(record)
        self._judge_quiet(end, record)
        self._judge_timeouts(end, record)
        for origin, stream in sorted(end.streams):
            why = {"session": self._session, "peer": end.opened["peer"], "reason": record["reason"]}
            self._fact("~closed", record, origin, stream, **why)
        self._end_taking(end, record)

    def _judge_timeouts(self, end: End, record: Record) -> None:
        assert end.opened is not None
        said = ""
        if record["reason"] == "ack-timeout":
            said = judge_timeout(end.silence, record, end.opened["ack_timeout_min_ns"], "ack")
        elif record["reason"] == "store-ack-timeout":
            said = judge_timeout(end.store_silence, record, end.opened["store_ack_timeout_min_ns"], "store ack")
        if said:
            self._report(record, "ack_timeout", said)

    def _take_stream(self, end: End, record: Record) -> None:
        """Tell a stream that this end brings when its store acks are due."""
        origin, stream = record["origin"], record["stream"]
        if end.opened is None or end.takes is None or (origin, stream) in end.takes:
            return
        opened = end.opened
        end.takes.add((origin, stream))
        terms = {"threshold": opened["store_ack_threshold"], "most_bytes": opened["store_ack_bytes"]}
        terms["delay_ns"] = opened["store_ack_delay_ns"]
        who = {name: opened[name] for name in ("session", "peer", "peer_name")}
        self._fact("~taking", record, origin, stream, **who, **terms)

    def _end_taking(self, end: End, record: Record) -> None:
        for origin, stream in sorted(end.takes or ()):
            peer = end.opened["peer"] if end.opened is not None else ""
            is_over = record["event"] == "session_closed"
            self._fact("~taken", record, origin, stream, session=self._session, peer=peer, closed=is_over)
        end.takes = None

    def _judge_quiet(self, end: End, record: Record) -> None:
        # An end whose ping has no answer yet waits for it, and is judged by its ack timeout.
        if end.opened is None or end.waits or end.silence.asked or end.quiet.relays:
            return
        if said := end.quiet.look(end.opened, record):
            self._report(record, "idle_open", said, end.quiet.awake(end.opened, record["at_ns"]))

    def _on_onward_sent(self, end: End, _record: Record) -> None:
        """A relay said whether packets wait there, which ends with the session: so that may stay open."""
        end.quiet.relays = True

    def _fact(self, event: str, record: Record, origin: str, stream: int, **fields: object) -> Record:
        common = {name: record[name] for name in ("node", "incarnation", "n", "at_ns", "wall_ns")}
        self._out.facts.append({"event": event, "origin": origin, "stream": stream, **common, **fields})
        return self._out.facts[-1]

    def _carried(self, record: Record, opened: Record, origin: str, stream: int) -> None:
        """A session has begun to carry a stream."""
        who = {name: opened[name] for name in ("session", "peer", "peer_name")}
        self._fact("~carried", record, origin, stream, opened_ns=opened["at_ns"], **who)

    # ---- packets

    def _on_packet_sent(self, end: End, record: Record) -> None:
        self._judge_quiet(end, record)
        end.quiet.since_ns = record["at_ns"]
        end.quiet.relays = end.quiet.relays or "hops" in record
        first, sent = record["packet"], end.sent
        if not record["resend"] and first == sent.last + 1:
            what = None
            for low, high, carried in packets_of(record):
                sent.put(low, high, carried)
                what = what or carried
            end.sent_at.put(first, sent.last, record["n"], record["at_ns"])
            if what is not None:
                self._send_first(end, record, first, sent.last, what)
            return
        for low, high, carried in packets_of(record):
            if record["resend"] and sent.has(low, high, carried):
                again = high - low + 1
            else:
                again = self._send_again(end, record, low, high, carried)
            if again and carried.stream < 0:
                self._out.count("resends", again)
                self._out.count(f"link\t{record['node']}\t{self._session}\tagain", again)
                self._out.chart("resends", record["wall_ns"], again)

    def _send_again(self, end: End, record: Record, first: int, last: int, carried: Carried) -> int:
        """Judge packets that are neither the next ones nor the same again; return how many had been sent."""
        known = list(end.sent.within(first, last))
        for low, high, before in known:
            if not record["resend"]:
                self._report(record, "wire", "a resend, and unmarked", number=low, last=high)
            elif before != carried.plus(low - first):
                self._report(record, "wire", "sent again with something else", number=low, last=high)
        for low, high in list(end.sent.lacking(first, last)):
            if record["resend"]:
                self._report(record, "wire", "a resend that is none", number=low, last=high)
            elif low != end.sent.last + 1:
                self._report(record, "wire", f"follows packet {end.sent.last}", number=low, last=high)
            end.sent.put(low, high, carried.plus(low - first))
            end.sent_at.put(low, high, record["n"], record["at_ns"])
            self._send_first(end, record, low, high, carried)
        return size((low, high) for low, high, _ in known)

    def _send_first(self, end: End, record: Record, first: int, last: int, carried: Carried) -> None:
        """Packets have left for the first time, all of them in the stream of one of them."""
        if carried.stream >= 0 and (carried.origin, carried.stream) not in end.streams:
            end.streams.add((carried.origin, carried.stream))
            if end.opened is not None:
                self._carried(record, end.opened, carried.origin, carried.stream)
        for fact, early in (("~stored", end.stored), ("~acked", end.acked)):
            if early and early.firsts[0] <= last and early.lasts[-1] >= first:
                for low, high in early.overlap(first, last):
                    self._free(record, fact, end.sent.within(low, high))
        if carried.cls != EXPRESS:
            end.left.put(first, last, record["at_ns"])
            end.store_silence.send(size(end.stored.missing(first, last)), record)
        waiting = size(end.acked.missing(first, last))
        end.silence.send(waiting, record)
        if not waiting:
            return
        end.unacked += waiting
        end.end_free(record["at_ns"])
        self._out.chart(f"unacked {record['node']} {self._session}", record["wall_ns"], end.unacked, "max")
        end.window.handle_sent(record, first, last, end.unacked)

    def _on_packet_received(self, end: End, record: Record) -> None:
        end.silence.hear(record)
        self._judge_quiet(end, record)
        end.quiet.since_ns = record["at_ns"]
        end.quiet.relays = end.quiet.relays or "hops" in record
        if record.get("stream") is not None:
            self._take_stream(end, record)
        end.answers.handle_received(record, gap=record["packet"] != end.received.last + 1)
        duplicate, received = record["duplicate"], end.received
        if not duplicate:
            end.received_at.put(
                record["packet"], record["packet"] + record["packets"] - 1, record["n"], record["at_ns"]
            )
        for first, last, carried in packets_of(record):
            if duplicate:
                if received.has(first, last, carried):
                    continue
                for low, high, before in received.within(first, last):
                    if before != carried.plus(low - first):
                        self._report(record, "wire", "arrived again with something else", number=low, last=high)
                self._each(record, "wire", "a duplicate that is none", received.lacking(first, last))
            elif first <= received.last:
                for low, high, _ in received.within(first, last):
                    self._report(record, "wire", "a duplicate, and unmarked", number=low, last=high)
            if carried.cls != EXPRESS:
                end.quiet.owed += size(received.lacking(first, last))
            received.put(first, last, carried)
        if duplicate:
            self._out.count("duplicates_on_wire", record["packets"])

    # ---- acks that leave

    def _on_ack_sent(self, end: End, record: Record) -> None:
        for first, last in self._give(end, "ack", record):
            end.gave.put(first, last, record["n"], record["at_ns"])
            self._each(record, "ack_unsent", _NOT_RECEIVED, end.received.lacking(first, last))
        end.answers.handle_sent(record)

    def _on_store_ack_sent(self, end: End, record: Record) -> None:
        for first, last in self._give(end, "store_ack", record):
            known = self._known(end.received, first, last, record, "store_ack_unsent", _NOT_RECEIVED)
            self._free(record, "~store_acked", known)
            end.quiet.owed -= size((low, high) for low, high, what in known if what.cls != EXPRESS)
            end.quiet.free_ns = record["at_ns"]
        if len(record["ranges"]) >= ACK_RANGES_MAX:
            self._end_taking(end, record)

    def _give(self, end: End, kind: str, record: Record) -> list[Span]:
        """Judge an ack that leaves; return the packets that it newly covers."""
        given = end.given[kind]
        if record["cumulative"] < given.cumulative:
            evidence = f"{ACK_EVENTS[kind]} {record['cumulative']} follows {given.cumulative}"
            self._report(record, "ack_taken_back", evidence, number=record["cumulative"])
        self._judge_ranges(record)
        return given.take(record)

    def _known(self, runs: Runs, first: int, last: int, record: Record, check: str, evidence: str) -> list[Run]:
        """Return the packets from first to last; report those that are not there."""
        self._each(record, check, evidence, runs.lacking(first, last))
        return list(runs.within(first, last))

    def _judge_ranges(self, record: Record) -> None:
        before = record.get("cumulative", 0)
        for first, last in record["ranges"]:
            if first <= before or last < first:
                self._report(record, "claims", f"ranges {record['ranges']} above {record.get('cumulative', 0)}")
                return
            before = last

    # ---- acks that arrive

    def _on_ack_received(self, end: End, record: Record) -> None:
        acked = 0
        self._judge_ranges(record)
        for first, last in self._news(end.acked, record):
            end.got["ack"].put(first, last, record["n"], record["at_ns"])
            known = self._known(end.sent, first, last, record, "ack_unreceived", "acknowledged but not sent before")
            acked += sum([high - low + 1 for low, high, _ in known])
            self._free(record, "~acked", known)
        end.unacked -= acked
        if acked and not end.unacked:
            end.begin_free(record["at_ns"])
        end.silence.hear(record, acked=acked)
        end.quiet.free_ns = record["at_ns"]

    def _on_store_ack_received(self, end: End, record: Record) -> None:
        end.silence.hear(record)
        end.quiet.free_ns = record["at_ns"]
        stored, left_ns = 0, None
        self._judge_ranges(record)
        for first, last in self._news(end.stored, record):
            end.got["store_ack"].put(first, last, record["n"], record["at_ns"])
            known = self._known(end.sent, first, last, record, "ack_unreceived", "store-acked but not sent before")
            durable = [(low, high) for low, high, what in known if what.cls != EXPRESS]
            if durable and not stored:
                left_ns = end.left.take(durable[0][0])
            stored += size(durable)
            self._free(record, "~stored", known)
        if stored:
            self._judge_store_patience(end, left_ns, record)
            end.store_silence.hear(record, acked=stored)

    def _judge_store_patience(self, end: End, left_ns: int | None, record: Record) -> None:
        if end.opened is not None and left_ns is not None:
            most_ns = end.opened["store_ack_timeout_max_ns"]
            said = judge_store_patience(end.store_silence, left_ns, record, most_ns)
            if said:
                since_ns = max(end.store_silence.since_ns, left_ns)
                due = awake(record, since_ns, since_ns + most_ns + LATE_NS, record["at_ns"])
                self._report(record, "store_silence", said, due)

    def _news(self, covered: RangeSet, record: Record) -> list[Span]:
        """Add an ack's ranges to what is covered, and return what is new; all of it should be."""
        news: list[Span] = []
        for first, last in record["ranges"]:
            fresh = covered.put(first, last)
            if fresh != [(first, last)]:
                evidence = "acknowledged as new, and was before"
                self._each(record, "claims", evidence, RangeSet(fresh).missing(first, last))
            news += fresh
        return news

    def _free(self, record: Record, fact: str, known: Iterable[Run]) -> None:
        """Tell streams which of their packets an ack is about, those of consecutive numbers together."""
        told: Record | None = None
        for low, high, (cls, origin, stream, sequence, _, number, _, _) in known:
            if stream < 0 or (cls == RECOVERABLE and fact == "~acked"):
                continue
            place = origin, stream, sequence, number
            if told and (told["origin"], told["stream"], told["sequence"], told["last"] + 1) == place:
                told["last"] = number + high - low
                continue
            where = {"class": cls, "sequence": sequence, "first": number, "last": number + high - low}
            told = self._fact(fact, record, origin, stream, session=self._session, **where)

    def _on_probe_received(self, end: End, record: Record) -> None:
        end.silence.hear(record)
        end.path.see(record)

    # ---- the whole session

    def join(self, other: SessionJudge) -> None:
        """Take over the ends that another judge of the session has seen, which are of other nodes."""
        self.ends = dict(sorted({**self.ends, **other.ends}.items()))

    def go_on(self, *, forgets: bool) -> None:
        """Go on from a summary: nothing of a session is forgotten before it is over."""

    def peers(self) -> Iterator[tuple[str, str]]:
        """Yield each node that has opened it, and the peer that it names."""
        for node, end in self.ends.items():
            if end.opened is not None:
                yield node, end.opened["peer"]

    def split(self, heard: Mapping[str, tuple[int, int]]) -> dict[str, SessionJudge]:
        """Return a judge for each node, with that node's end; ``join`` puts them together again.

        Of an end that has closed, and whose other end is not known yet, fewer times are kept: enough to see a wrong
        clock.
        """
        for node, end in self.ends.items():
            if end.is_past(*heard[node]):
                for moments in (end.sent_at, end.received_at, end.gave, *end.got.values()):
                    moments.thin(MOMENTS_OF_PAST)
        parts = {node: SessionJudge(self._session, self._out) for node in self.ends}
        for node, part in parts.items():
            part.ends[node] = self.ends[node]
        return parts

    def is_over(self, heard: Mapping[str, tuple[int, int]]) -> bool:
        """Whether no more of its records can come, or only long after its end; ``heard``: the last record of a node."""
        return len(self.ends) > 1 and all(end.is_past(*heard[node]) for node, end in self.ends.items())

    def finish(self) -> None:
        """Judge what only all records of both ends show; more of them may follow."""
        for node, end in self.ends.items():
            peer = self.ends.get(end.opened["peer"]) if end.opened else None
            self._finish_end(node, end, peer)
            if end.opened:
                self._join(end, end.opened["peer"], peer)
                if end.closed and end.closed["reason"] == "idle":
                    ends = [(it.opened, it.closed, it.quiet) for it in (end, peer) if it is not None and it.opened]
                    judge_close(self._session, ends, self._out, *self._told(end.closed, peer))
                self._judge_idle(end, peer)
                self._judge_silence(end, peer)
        self._judge_roles()
        self._judge_clocks()
        judge_policy(self._session, self.ends, self._out)
        if any(end.closed and end.closed["reason"] in FAILURE_REASONS for end in self.ends.values()):
            self._out.count("sessions_closed", 1)

    def _finish_end(self, node: str, end: End, other: End | None) -> None:
        opened, closed = end.opened, end.closed
        if opened is None:
            if end.first is not None and end.first["event"] != "session_closed":
                self._report(end.first, "silent_end", f"{end.first['event']}, and it never opened")
            return
        self._out.openings.append(
            Opening(
                node, end.incarnation, opened["peer"], self._session, opened["at_ns"],
                closed["at_ns"] if closed else 0, closed["reason"] if closed else "", opened["wall_ns"],
                bool(end.received.last or end.acked or end.stored or end.path.largest), opened["n"],
                end.reached(other) if other is not None else 0, opened["peer_name"], tuple(end.free),
            )
        )  # fmt: skip
        if closed is None:
            due = Due("stopped", node, end.incarnation)
            self._report(opened, "silent_end", "open when its node stopped", due)
        end.answers.finish(closed)
        if closed is None and not end.waits and not end.silence.asked and not end.quiet.relays:
            judge_open(self._session, opened, end.quiet, self._out)

    def _join(self, end: End, peer: str, other: End | None) -> None:
        """Compare what arrived at an end with what the other end sent."""
        assert end.opened is not None
        opened, there = end.opened, other or self._new_end(0)
        last_of_all = {**opened, "n": end.last_n}

        def told(moments: Moments, packet: int) -> tuple[Due, ...]:
            moment = moments.sorted().of(packet)
            return self._told({**opened, "n": moment.n} if moment is not None else last_of_all, other)

        for first, last, carried in end.received:
            for low, high in _unlike(first, last, carried, there.sent):
                dues, evidence = told(end.received_at, high), "arrived, but was not sent like that"
                self._report(opened, "wire", evidence, *dues, number=low, last=high)
        judge_sizes(self._session, end.path, there.path, peer, self._out, *self._told(last_of_all, other))
        for kind, got in (("ack", end.acked), ("store_ack", end.stored)):
            for first, last in got:
                for low, high in there.given[kind].covered.missing(first, last):
                    dues, evidence = told(end.got[kind], high), f"{ACK_EVENTS[kind]} that {peer} did not send"
                    self._report(opened, "ack_from_nowhere", evidence, *dues, number=low, last=high)

    def _told(self, record: Record, other: End | None) -> tuple[Due, ...]:
        """The dues before something counts as missing that the other end did before a record, which names that end."""
        peer = record["peer"]
        if other is not None and other.first is not None and other.first["event"] != "session_closed":
            at = record["node"], record["incarnation"], record["n"]
            return (Due("seen", peer, other.incarnation, *at),)
        # If its node mentions the session at all, it only says that it gave up a late connect.
        return (Due("told", peer, peer=self._session),)

    def _judge_idle(self, end: End, other: End | None) -> None:
        """An end with something unacknowledged can close as idle only after hearing that the other end was idle."""
        closed = end.closed
        if closed is None or closed["reason"] != "idle" or not end.unacked:
            return
        if other is None or other.closed is None or other.closed["reason"] != "idle":
            evidence = f"closed as idle with {counted(end.unacked, 'packet')} unacknowledged"
            self._report(closed, "claims", evidence, *self._told(closed, other))

    def _judge_silence(self, end: End, other: End | None) -> None:
        """An end that hears nothing must time out; which pings of a peer have arrived is not logged."""
        settings = end.opened
        if settings is None or other is None or other.opened is None:
            return
        if other.silence.waiting or other.store_silence.waiting or other.silence.pings:
            return
        most_ns, silence = settings["ack_timeout_max_ns"], end.silence
        if silence.longest is not None and (said := judge_patience(silence, most_ns)):
            begun_ns = silence.longest["at_ns"] - silence.longest_ns
            due = awake(silence.longest, begun_ns, begun_ns + most_ns + LATE_NS, silence.longest["at_ns"])
            known = self._told({**silence.longest, "peer": settings["peer"]}, other)
            self._report(silence.longest, "silence", said, due, *known)
        if silence.counts and end.closed is None:
            over_ns = silence.counted_ns + most_ns + LATE_NS
            dues = (
                Due("log", settings["node"], end.incarnation, end_ns=over_ns),
                awake(settings, silence.counted_ns, over_ns),
                *self._told({**settings, "n": end.last_n}, other),
            )
            evidence = f"nothing heard any more, and open beyond {most_ns // MS} ms"
            self._report(settings, "silence", evidence, *dues)

    def _judge_clocks(self) -> None:
        """Check that what the ends exchanged agrees with the clocks of both."""
        if len(self.ends) != 2 or not all(end.opened for end in self.ends.values()):  # noqa: PLR2004 - both ends
            return
        for end, other in permutations(self.ends.values()):
            out, back = end.pairs_to(other), other.pairs_to(end)
            opened = other.opened
            assert opened is not None
            for pair, by_ns in islice(arrivals_before(out, back), 1):
                at = {"n": pair.n, "wall_ns": opened["wall_ns"] + pair.came_ns - opened["at_ns"]}
                evidence = f"arrived {by_ns // MS} ms before it left, by what went back around it"
                self._report({**opened, **at}, "clocks", evidence)
            if (share := loses(out, back)) > 0:
                self._report(opened, "clocks", f"its clock loses {share:.0%} of the time of its peer's")

    def _judge_roles(self) -> None:
        opened = [end.opened for end in self.ends.values() if end.opened]
        for one in opened:
            others = [other["node"] for other in opened if other is not one]
            if others and one["peer"] not in others:
                self._report(one, "claims", f"its peer is {one['peer']}, its other end says that it is {others[0]}")
        if len(opened) == 2 and opened[0]["role"] == opened[1]["role"]:  # noqa: PLR2004 - both ends
            self._report(opened[1], "claims", f"both ends say that they are its {opened[1]['role']}")
        if len(self.ends) > 2:  # noqa: PLR2004
            self._report(opened[-1], "silent_end", f"{len(self.ends)} nodes speak of it")

    _SEES: ClassVar[dict[str, Callable[[SessionJudge, End, Record], None]]] = {
        **by_event(vars()),
        "ping_sent": lambda _, end, record: end.silence.ping(record),
        "onward_received": _on_onward_sent,
        "path_size": lambda _, end, record: end.path.see(record),
        "window_changed": lambda _, end, record: end.window.handle_changed(record, end.unacked),
        "probe_answered": lambda _, end, record: end.silence.hear(record),
        "piece_received": lambda _, end, record: end.silence.hear(record),
    }


def _unlike(first: int, last: int, carried: Carried, runs: Runs) -> Iterator[Span]:
    """Yield the parts of a run that other runs lack or have with something else in them."""
    if runs.has(first, last, carried):
        return
    yield from runs.lacking(first, last)
    for low, high, other in runs.within(first, last):
        if other != carried.plus(low - first):
            yield low, high
