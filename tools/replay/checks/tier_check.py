"""The resend tiers of one stream, judged by the settings in force and the times, never by a record's own claims.

The wait before a resend begins with the first packet that is sent and begins again with each resend. It starts at the
first tier after progress, with another way, or with a new session, unless the resend itself has opened that, as the one
before it ended as idle. A wait that ends with nothing to resend leaves no record, so a resend may come a whole number
of waits later, but at no other time.
"""

from __future__ import annotations

from triack.tools.replay.checks.findings import LATE_NS, Due, LaneReporter, Output, Record, awake
from triack.tools.replay.log.ranges import RangeSet

TIERS = ((3, "seq_resend_13_ns"), (6, "seq_resend_46_ns"), (9, "seq_resend_79_ns"), (None, "seq_resend_10_ns"))
"""The last attempt of each tier and the setting with its wait; MS-MQQB note <24>. Written down here and not taken from
the sender, because a judge that uses the code it judges proves nothing."""


class Tiers(LaneReporter):
    """Checks the resends of one stream at its origin."""

    def __init__(self, origin: str, stream: int, out: Output) -> None:
        super().__init__(origin, stream, out)
        self._settings: Record = {}
        self._attempt = 0
        # The wait began between these two: a session may have taken a packet before it let it out.
        self._earliest_ns = 0
        self._begun_ns = 0
        self._scheduled: Record | None = None
        # Packets to be sent again that have not left yet: an ack of one is for an earlier copy.
        self._to_send = RangeSet()
        # The peers of the sessions that have carried the stream: usually one.
        self._peers: set[str] = set()
        # Since when something at the next hop has waited for nothing but its order ack.
        self._arrived: Record | None = None
        # Whether nothing is on its way, as all was withdrawn from the next hop: if the wait ends meanwhile, the next
        # one begins with the next packet that goes out.
        self._rests = False
        self._held = False
        # When an order ack freed something last. If a packet that it covers was given up at that moment, it may have
        # been that one alone, which is no progress: then the next attempt is not judged.
        self._freed_ns = 0
        self._is_unsure = False
        # What is wrong with an attempt of that moment, unless the record of such a packet follows.
        self._doubted: list[tuple[Record, str, tuple[Due, ...]]] = []
        # Since when there is no session; 0 if there is one.
        self._failed_ns = 0
        # Whether any of what has arrived is on the disk there: when a session ends as idle, the rest is sent again.
        self._stored = False
        # The highest number that waits at a relay, which answers for it, and the session in which that was said.
        self._waiting, self._waiting_in = 0, ""
        # Whether a relay has ever said so: a session that carried nothing for that has begun the first tier, too.
        self._has_waited = False

    def _wait_ns(self, attempt: int) -> int | None:
        """The wait before an attempt; None where the log of the start begins without the node's settings."""
        name = next(name for last, name in TIERS if last is None or attempt <= last)
        return self._settings.get(name)

    def handle_settings(self, record: Record) -> None:
        """The node's settings."""
        self._settings = record

    def handle_restart(self) -> None:
        """A new start of the node knows of no attempt."""
        self._report_doubted()
        self._start_over(0)
        self._scheduled = None
        self._rests = self._held = False
        self._to_send = RangeSet()

    def handle_queued(self, record: Record) -> None:
        """There is something to send; if there was nothing before, the wait cannot have begun earlier."""
        if not self._begun_ns:
            self._earliest_ns = self._earliest_ns or record["at_ns"]

    def _start_over(self, now_ns: int, *, outstanding: bool = True) -> None:
        """The wait of the first tier begins, if something is outstanding."""
        self._attempt = 0
        self._begun_ns = self._earliest_ns = now_ns if outstanding else 0
        self._forget_arrived()

    def _has_opened(self, idle_ns: int) -> bool:
        """Whether a resend has opened the next session, when the one before it ended as idle then; 0: it did not."""
        return idle_ns > 0 and self._scheduled is not None and self._scheduled["at_ns"] >= idle_ns

    def handle_opened(self, peer: str, opened_ns: int, *, rerouted: bool, idle_ns: int = 0) -> None:
        """A session has sent its first packet of the stream: when it opened, it started the first tier again.

        What has happened since then stands. ``rerouted``: the stream has come to it by another way, which has started
        the first tier already. ``idle_ns``: when the session before it ended as idle; 0 if it did not.
        """
        self._peers.add(peer)
        if rerouted or self._has_opened(idle_ns) or self._earliest_ns >= opened_ns:
            return
        if 0 < self._begun_ns < opened_ns:
            self._start_over(opened_ns)
            self._to_send = RangeSet()
        self._earliest_ns = opened_ns

    def handle_taken_over(self, peer: str, ended_ns: int, carried_ns: int, *, idle_ns: int = 0) -> None:
        """A session that was open already took the stream over from one that ended, and started the first tier again.

        That one ended at ``ended_ns``; at ``idle_ns``, too, if it did so as idle. This one sent its first packet of the
        stream at ``carried_ns``.
        """
        self._peers.add(peer)
        if self._has_opened(idle_ns):
            return
        self._earliest_ns = max(self._earliest_ns, ended_ns)
        if self._begun_ns and (self._scheduled is None or self._scheduled["at_ns"] < ended_ns):
            self._attempt = 0
            self._begun_ns = carried_ns
            self._forget_arrived()
            self._to_send = RangeSet()

    def handle_sent(self, record: Record, removed: RangeSet, *, astray: bool = False) -> None:
        """Packets left; the first one begins the wait.

        What a session repeats is still the earlier sending: the resend of the tier has not left with it. So is a packet
        that names one that was ``removed`` before it, and one that went ``astray``, by a way that has been left: the
        session had it already, and another copy follows.
        """
        if astray:
            return
        if self._failed_ns:
            self._forget_arrived()
        if not record["resend"] and not self._held:
            for number in range(record["number"], record["number"] + record["packets"]):
                if (record["previous"] if number == record["number"] else number - 1) not in removed:
                    self._to_send.take(number, number)
        if not self._begun_ns or self._rests:
            self._begun_ns = record["at_ns"]
        self._rests = False

    def handle_onward(self, record: Record) -> None:
        """A relay said up to where packets wait there: no tier runs for these; or that they do not wait any more."""
        waits, self._waiting_in = record["waits"], record["session"]
        self._has_waited = self._has_waited or waits
        # Without an earlier word that they wait there, this one takes nothing back.
        ends = self._waiting > 0 and not waits
        self._waiting = record["here"] if waits else 0
        if ends:
            self._start_over(record["at_ns"], outstanding=bool(self._begun_ns))
        elif self._arrived is not None and self._arrived["first"] <= self._waiting:
            self._forget_arrived()

    def handle_closed(self, session: str) -> None:
        """A session is over, and what a relay said in it."""
        if session == self._waiting_in:
            self._waiting, self._waiting_in = 0, ""

    def handle_arrived(self, record: Record, first: int, last: int) -> None:
        """The next hop has packets; from here on only their order ack is missing."""
        if self._arrived is None and self._to_send.missing(max(first, self._waiting + 1), last):
            self._arrived = record

    def handle_stored(self, first: int, last: int) -> None:
        """The next hop has packets on its disk."""
        self._stored = self._stored or bool(self._to_send.missing(first, last))

    def handle_idle(self) -> None:
        """A session ended as idle: what is not on the next hop's disk is to be sent again, and waits for no tier."""
        if not self._stored:
            self._arrived = None

    def _forget_arrived(self) -> None:
        self._arrived = None
        self._failed_ns = 0
        self._stored = False

    def handle_progress(self, record: Record, *, outstanding: bool) -> None:
        """An order ack freed something."""
        self._report_doubted()
        self._judge_missing(record)
        self._freed_ns = record["at_ns"]
        self._start_over(record["at_ns"], outstanding=outstanding)

    def handle_removed(self, record: Record, *, outstanding: bool) -> None:
        """Forget removed packets; when nothing is left to wait for, the wait is over."""
        first, last = record["first"], record["last"]
        if record["at_ns"] == self._freed_ns:
            self._is_unsure = True
            self._doubted.clear()
        # Perhaps it was this that was stored.
        self._stored = False
        arrived = self._arrived
        if arrived is not None and arrived["first"] <= last and first <= arrived["last"]:
            self._forget_arrived()
        if not outstanding:
            self._start_over(0)

    def handle_again(self, number: int) -> None:
        """A packet is to be sent again: until then it does not wait for its order ack alone."""
        arrived = self._arrived
        if arrived is not None and arrived["first"] <= number <= arrived["last"]:
            self._forget_arrived()
        self._to_send.add(number, number)

    def handle_withdrawn(self, numbers: RangeSet, *, held: bool = False) -> None:
        """The next hop has given all back: until it is sent again nothing is on its way.

        If it has no room, what a session had taken before still leaves, and does not count.
        """
        self._forget_arrived()
        self._rests, self._held = True, held
        self._to_send.join(numbers)

    def handle_rerouted(self, now_ns: int, numbers: RangeSet) -> None:
        """Another node is the next hop: all that is not freed goes there, and the first tier begins again."""
        self.handle_withdrawn(numbers)
        self._start_over(now_ns, outstanding=bool(self._begun_ns))

    def handle_failed(self, record: Record, numbers: RangeSet) -> None:
        """The session that had carried them is over, and no other one has begun: until then nothing is on its way."""
        self._failed_ns = record["at_ns"]
        self._rests, self._held = True, False
        self._to_send.join(numbers)

    def handle_scheduled(self, record: Record) -> None:
        """Packets go out again."""
        self._report_doubted()
        attempt, now_ns = record["attempt"], record["at_ns"]
        unsure, self._is_unsure = self._is_unsure, False
        # A word that packets wait at a relay ends with the session in use, by whichever it came.
        if attempt != self._attempt + 1 and not self._has_waited and not unsure:
            due = self._reset_elsewhere(record) if attempt == 1 else ()
            self._blame(record, f"attempt {attempt} follows attempt {self._attempt}", *due)
        wait_ns = self._wait_ns(attempt)
        if wait_ns is not None:
            if record["interval_ns"] != wait_ns:
                self._blame(record, f"attempt {attempt} after {record['interval_ns']} ns, its tier has {wait_ns} ns")
            if not unsure:
                self._judge_wait(record, wait_ns)
        self._start_over(now_ns)
        self._attempt = attempt
        self._scheduled = record
        self._to_send.add(record["first"], record["last"])

    def _judge_wait(self, record: Record, wait_ns: int) -> None:
        """Judge a wait that ended: a whole number of waits after it began, which is known to some extent only."""
        if not self._begun_ns or not wait_ns or self._has_waited:
            return
        longest, shortest = record["at_ns"] - self._earliest_ns, record["at_ns"] - self._begun_ns
        waits = max(1, longest // wait_ns)
        if self._arrived is not None:
            # From here on the first wait that ended had something to send again.
            shortest = min(shortest, record["at_ns"] - self._arrived["at_ns"])
            waits = 1 if shortest == record["at_ns"] - self._begun_ns else 2
        # While the next hop has no room, a wait begins with each packet that asks for some, whenever that is.
        is_late = shortest > waits * (wait_ns + LATE_NS) and not self._held
        if longest < wait_ns or is_late:
            evidence = f"attempt {record['attempt']} came after {shortest} ns, its tier waits {wait_ns} ns"
            dues = self._reset_elsewhere(record)
            if longest >= wait_ns:
                begun_ns = record["at_ns"] - shortest
                dues = *dues, awake(record, begun_ns, begun_ns + waits * (wait_ns + LATE_NS), record["at_ns"])
            self._blame(record, evidence, *dues)

    def _reset_elsewhere(self, record: Record) -> tuple[Due, ...]:
        """A session with its peer that opened and closed before it carried the stream has reset the tier as well."""
        since = self._scheduled["at_ns"] if self._scheduled else self._begun_ns
        start, until = (record["node"], record["incarnation"]), record["at_ns"]
        return tuple(Due("not_opened", *start, peer, since, until) for peer in sorted(self._peers or {""}))

    def _judge_missing(self, record: Record) -> None:
        """Report a wait that ended, with packets that waited for their order ack, and no resend."""
        arrived, begun_ns, missed_ns = self._awaited()
        if arrived is not None and (self._failed_ns or record["at_ns"]) > missed_ns:
            due = awake(record, begun_ns, missed_ns, record["at_ns"])
            self._report_missing(arrived, *self._reset_elsewhere(record), due)

    def _awaited(self) -> tuple[Record | None, int, int]:
        """Return what waits for its order ack alone, since when, and when its resend is missing; None: nothing."""
        wait_ns = self._wait_ns(self._attempt + 1)
        if wait_ns is None or self._arrived is None or not self._begun_ns:
            return None, 0, 0
        # The packets must have arrived there before the wait ended, or there was nothing to send again.
        begun_ns = max(self._begun_ns, self._arrived["at_ns"])
        return self._arrived, begun_ns, begun_ns + wait_ns + LATE_NS

    def _report_missing(self, arrived: Record, *dues: Due) -> None:
        wait_ns = self._wait_ns(self._attempt + 1)
        self._report(arrived, f"no resend within {wait_ns} ns though packets waited for an order ack", *dues)

    def _blame(self, record: Record, evidence: str, *dues: Due) -> None:
        if record["at_ns"] == self._freed_ns:
            self._doubted.append((record, evidence, dues))
        else:
            self._report(record, evidence, *dues)

    def _report_doubted(self) -> None:
        """Nothing explains what was wrong with the last attempt."""
        for record, evidence, dues in self._doubted:
            self._report(record, evidence, *dues)
        self._doubted.clear()

    def _report(self, record: Record, evidence: str, *dues: Due) -> None:
        self._at(record, "resend_tiers", evidence, *dues, number=record.get("attempt", 0))

    def finish(self) -> None:
        """Judge the wait that runs when the record ends."""
        self._report_doubted()
        arrived, _, end_ns = self._awaited()
        if arrived is None or 0 < self._failed_ns <= end_ns:
            return
        due = Due("carried_on", arrived["node"], arrived["incarnation"], arrived["session"], arrived["at_ns"], end_ns)
        self._report_missing(arrived, due, awake(arrived, arrived["at_ns"], end_ns))
