"""What one topic of one node promises: each subscription gets what it is to get, and what it wants is kept for it.

Fed with the records of the topic in their order. ``subscription_check.py`` has what a single subscription is promised,
``dispatch_check.py`` the rules of the strategies.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, product
from typing import Any, ClassVar, Final

from triack.base.printable import counted, printable
from triack.tools.replay.checks.findings import EVER, LATE_NS, UNSENT_NS, Due, Output, Record, awake, settled
from triack.tools.replay.checks.side import OfNode, by_event
from triack.tools.replay.log.messages import count_of, last_of
from triack.tools.replay.log.ranges import RangeSet, Span, size
from triack.tools.replay.log.schema import EXPRESS, READER_COUNTS
from triack.tools.replay.topics.contents import Contents
from triack.tools.replay.topics.dispatch_check import ALLOWED, GRAINS, RULES, Ages, Owed, too_old, up_to
from triack.tools.replay.topics.passing_check import QUEUE as REMOTE
from triack.tools.replay.topics.passing_check import Passing
from triack.tools.replay.topics.patterns import full_name, matches
from triack.tools.replay.topics.subscription_check import Subscription

Handle = Callable[[Record, int], list[tuple[str, Span]]]
"""What a subscription does with a record, and the last place that it may have; returns what is not its own, and why."""
NAMED_MAX: Final = 8
"""Subscriptions that a finding names."""
_FOLLOWS: Final = "assigned"
"""The record that belongs to the ``dispatched`` before it."""


class TopicJudge(OfNode):
    """Judges one topic of one node."""

    def __init__(self, node: str, topic: str, out: Output) -> None:
        super().__init__(node, out)
        self._topic = topic
        self._strategy = ""
        self._timeout_ns = 0
        self._contents = Contents()
        # Those that go on, by name, and what was counted of those that ended, by name and pattern.
        self._subscriptions: dict[str, Subscription] = {}
        self._ended: dict[str, Subscription] = {}
        # By the name of such a subscription: what was placed since it ended.
        self._placed_since: dict[str, RangeSet] = {}
        self._totals: dict[tuple[str, str], dict[str, int]] = {}
        # The names of those of which something is in hand that is to come back in time.
        self._timed: set[str] = set()
        # The names of those that are suspended: they miss what is dispatched.
        self._suspended: set[str] = set()
        self._passing = Passing()
        # Levels below the topic -> the subscriptions that match; cleared when one begins or ends.
        self._matching: dict[str, list[Subscription]] = {}
        # By the id of a node and the name there: what its subscription is called.
        self._of_nodes: dict[tuple[str, str], str] = {}
        self._last: Record = {}
        # The number of the last packet that got places, by origin, stream and sequence.
        self._numbers: dict[tuple[str, int, int], int] = {}
        self._begin_start()
        self._recovering = False

    def _begin_start(self) -> None:
        """Set what a start of the node knows when it begins."""
        self._owed: Owed | None = None
        # Since when the strategy could let a message go.
        self._waits: Record = {}
        self._ages = Ages()
        # How many messages were committed, by origin, stream and sequence, that have no places yet; and when.
        self._unplaced: dict[tuple[str, int, int], int] = {}
        self._unplaced_ns = self._committed_ns = 0
        # Whether the start has opened it; and while it says what it found, the messages and the subscriptions.
        self._recovering, self._opened = True, False
        self._found, self._found_names = RangeSet(), set[str]()
        # The next place when the start before ended: what lies behind it has come with a commit without a record.
        self._seen = self._contents.next

    def see(self, record: Record) -> None:
        """Look at the next record."""
        event = record["event"]
        if record["incarnation"] != self._start:
            self._restart(record)
        if event == "life":
            return
        if self._recovering and event != "topic_opened" and not record.get("recovered"):
            self._end_recovery(record)
        if self._owed is not None and event != _FOLLOWS:
            self._require_owed(record)
        if not self._opened and event != "topic_opened":
            self._opened = True
            due = Due("given", self._node, self._start, end_ns=self._start)
            self._claim(record, f"{event}, and the topic was not opened in this start", -1, due)
        self._judge_unplaced(record)
        if self._last and record["at_ns"] > self._last["at_ns"]:
            self._judge_age(self._last, self._ages)
        self._last = record
        handle = self._OF_ONE.get(event)
        if handle is None:
            self._SEES[event](self, record)
        else:
            subscription = self._subscriptions.get(record["subscription"])
            if subscription is None:
                self._judge_unknown(record)
            else:
                handle(self, subscription, record)
        self._judge_waiting(record)
        self._passing.handle_time(record)
        for name in list(self._timed):
            subscription = self._subscriptions.get(name)
            if subscription is None or not subscription.handle_time(record):
                self._timed.discard(name)

    # ---- the whole topic

    def finish(self) -> None:
        """Judge what holds at the end of the log; more of it may follow."""
        if not self._last:
            return
        self._passing.finish()
        # Of a copy, as what follows judges the same ages again.
        self._judge_age(self._last, self._ages.copy())
        for subscription in self._subscriptions.values():
            subscription.finish(self._last)
            if subscription.durable:
                later = Due("started", self._node, self._start + 1, end_ns=EVER)
                self._report_forgotten(self._last, subscription, later)
        for (name, pattern), counts in self._counts().items():
            whose = f"{printable(self._topic)}\t{printable(name)}\t{printable(pattern)}"
            for what, count in counts.items():
                self._out.count(f"reader\t{self._node}\t{what}\t{whose}", count)

    def _counts(self) -> dict[tuple[str, str], dict[str, int]]:
        counts = {key: dict(known) for key, known in self._totals.items()}
        for subscription in self._subscriptions.values():
            _add(counts.setdefault((subscription.name, subscription.pattern), {}), subscription)
        for known in counts.values():
            kept = sum(known.get(what, 0) for what in ("settled", "pending", "discarded"))
            # What was given before a summary that does not say so is counted here.
            known["gone"] = max(known.get("given", 0) - kept, 0)
            known["given"] = kept + known["gone"]
        return counts

    def _give(self, subscription: Subscription, first: int, last: int) -> None:
        """Messages are a subscription's own from now on."""
        before = subscription.pending
        subscription.take(first, last)
        self._count(subscription, "given", subscription.pending - before)

    def _count(self, subscription: Subscription, what: str, messages: int) -> None:
        if messages:
            counts = self._totals.setdefault((subscription.name, subscription.pattern), {})
            counts[what] = counts.get(what, 0) + messages

    # ---- starts

    def _restart(self, record: Record) -> None:
        gone = self._contents.restart()
        self._forget_of_ended(gone)
        for name, subscription in list(self._subscriptions.items()):
            if subscription.durable:
                subscription.restart(gone)
            else:
                subscription.end()
                self._end(name)
        self._start = record["incarnation"]
        self._begin_start()
        self._passing.handle_restart()

    def _end_recovery(self, record: Record) -> None:
        """The start has said what it found."""
        self._recovering = False
        self._ended.clear()
        self._placed_since.clear()
        for first, last in self._found:
            for low, high, below in self._contents.named(first, last):
                for subscription in self._takers(below):
                    known = self._seen if subscription.since < self._start else 0
                    self._give(subscription, max(low, subscription.after + 1, known), high)
        for name, subscription in list(self._subscriptions.items()):
            if name not in self._found_names:
                self._report_forgotten(record, subscription)
                self._end(name)
                continue
            for first, last in subscription.missing(self._found):
                evidence = "wanted, and not there after the start of its node"
                subscription.report(record, "topic_lost", evidence, first, last)
        self._contents.kept = RangeSet(self._found)
        self._found = RangeSet()

    def _report_forgotten(self, record: Record, subscription: Subscription, *dues: Due) -> None:
        evidence = f"durable subscription to {subscription.pattern!r}, gone after a start, and nobody ended it"
        if not subscription.kept:
            return  # its commit may not have returned before its process ended
        self._out.report(
            record, "subscription_forgotten", evidence, settled(self._node, subscription.since, record["incarnation"]),
            *dues, topic=self._topic, subscription=subscription.name,
        )  # fmt: skip

    # ---- messages

    def _on_topic_opened(self, record: Record) -> None:
        self._opened = True
        self._strategy, self._timeout_ns = record["strategy"], record["delivery_timeout_ns"]
        self._ages.begin(record["at_ns"], self._timeout_ns)
        contents, first = self._contents, record["first"]
        if first < contents.next:
            if not self._recovering or contents.kept.overlap(first, contents.next):
                self._claim(record, f"the next place is {first}, and {contents.next - 1} was given before", first)
            # Those were places of express messages, which ended with their process.
            contents.cut(first)
            for subscription in self._subscriptions.values():
                subscription.cut(first)
        self._seen = min(self._seen, first)
        contents.next = first
        if self._recovering:
            # What a start finds was dispatched, or lost its subscriptions that are not durable.
            contents.dispatched = contents.next - 1
        if first < 1:
            self._claim(record, f"the next place is {first}, and they count from 1", first)
        if self._strategy not in RULES:
            self._claim(record, f"the unknown strategy {self._strategy!r}", first)

    def _on_committed(self, record: Record) -> None:
        at_ns, before_ns = record["at_ns"], self._committed_ns
        if record["class"] != EXPRESS and at_ns > before_ns:
            # One commit at a time: this one began after the one before it had returned.
            self._committed_ns = at_ns
            for subscription in self._subscriptions.values():
                if subscription.durable:
                    subscription.handle_commit(before_ns)
        key = record["origin"], record["stream"], record["sequence"]
        if record["count"]:
            self._unplaced_ns = self._unplaced_ns if self._unplaced else record["at_ns"]
            self._unplaced[key] = self._unplaced.get(key, 0) + record["count"]

    def _judge_unplaced(self, record: Record) -> None:
        """What was committed has a place soon: express messages wait for the commits of what came before them."""
        if self._unplaced and record["at_ns"] - self._unplaced_ns > UNSENT_NS:
            due = awake(record, self._unplaced_ns, self._unplaced_ns + UNSENT_NS, record["at_ns"])
            for (origin, stream, sequence), count in self._unplaced.items():
                evidence = f"committed, and in no place of the topic; {counted(count, 'message')}"
                where = {"origin": origin, "stream": stream, "sequence": sequence}
                self._report(record, "topic_lost", evidence, -1, due, **where)
            self._unplaced.clear()

    def _on_placed(self, record: Record) -> None:
        first = record["at_place"]
        last = first + count_of(record) - 1
        contents, key = self._contents, (record["origin"], record["stream"], record["sequence"])
        if record.get("recovered"):
            self._found.add(first, last)
            if any(below != record["below"] for *_, below in contents.named(first, last)):
                self._claim(record, f"found as {record['below']!r}, and placed under another name", first)
            contents.put(first, last, record["below"], record["class"])
            contents.next = max(contents.next, last + 1)
            contents.dispatched = max(contents.dispatched, last)
            return
        self._judge_place(record, first, last, key)
        contents.put(first, last, record["below"], record["class"])
        contents.next = last + 1
        for subscription in self._takers(record["below"]):
            if subscription.durable:
                self._give(subscription, max(first, subscription.after + 1), last)
        # A crash may undo the end of a durable subscription: then it has what was placed since, too.
        for subscription in self._ended.values() if record["class"] != EXPRESS else ():
            if matches(subscription.pattern, full_name(self._topic, record["below"])):
                self._placed_since.setdefault(subscription.name, RangeSet()).add(first, last)

    def _judge_place(self, record: Record, first: int, last: int, key: tuple[str, int, int]) -> None:
        contents, number = self._contents, record["number"]
        if contents.next and first != contents.next:
            self._claim(record, f"the places {first} to {last}, where {contents.next} is the next", first)
        before = self._numbers.get(key, 0)
        if record["class"] == "transactional" and number <= before:
            where = {"origin": key[0], "stream": key[1], "sequence": key[2]}
            self._report(record, "topic_order", f"packet {number} got its place behind {before}", first, **where)
        self._numbers[key] = last_of(record)
        if key in self._unplaced:
            self._unplaced[key] -= last - first + 1
            if self._unplaced[key] < 0:
                self._claim(record, f"{counted(-self._unplaced[key], 'message')} in a place, and not committed", first)
            if self._unplaced[key] <= 0:
                del self._unplaced[key]
        else:
            self._claim(record, "messages in places, and not committed", first, settled(self._node, 1, self._start))

    def _takers(self, below: str) -> list[Subscription]:
        found = self._matching.get(below)
        if found is None:
            name = full_name(self._topic, below)
            found = [it for it in self._subscriptions.values() if matches(it.pattern, name)]
            self._matching[below] = found
        return found

    def _forget_of_ended(self, spans: list[Span]) -> None:
        """Express messages are gone for good, also for a subscription whose end a crash may undo."""
        for (name, subscription), span in product(self._ended.items(), spans):
            before = subscription.pending
            subscription.forget(*span)
            self._totals[name, subscription.pattern]["pending"] -= before - subscription.pending

    def _on_content_freed(self, record: Record) -> None:
        contents = self._contents
        for first, last in record["ranges"]:
            self._forget_of_ended(contents.express(first, last) if self._ended else [])
            for low, high, below in contents.named(first, last):
                for subscription in self._takers(below):
                    self._judge_wanted(record, subscription, low, high)
            for low, high in contents.free(first, last):
                due = settled(self._node, 1, self._start)
                self._claim(record, f"deleted, and not there: {low} to {high}", low, due)

    def _judge_wanted(self, record: Record, subscription: Subscription, first: int, last: int) -> None:
        """What a subscription wants, or will get, is kept. What has expired nobody gets."""
        for low, high in subscription.open.overlap(first, last):
            evidence = f"deleted ({record['reason']}) while the subscription wants it"
            subscription.report(record, "content_freed_early", evidence, low, high)
            subscription.forget(low, high)
        if record["reason"] in ("all", "nobody") and not subscription.durable:
            begin = max(first, self._contents.dispatched + 1, subscription.after + 1)
            evidence = f"deleted ({record['reason']}) before it was dispatched to the subscription"
            subscription.report_each(record, "content_freed_early", evidence, subscription.expired.missing(begin, last))

    # ---- subscriptions

    def _on_subscribed(self, record: Record) -> None:
        name, expected = record["subscription"], self._contents.next - 1
        known = self._subscriptions.get(name)
        if record.get("recovered"):
            self._found_names.add(name)
            known = known or self._revive(name)
            if known is not None:
                known.kept = True
            if not record["durable"]:
                self._claim_of(record, "found in the store, and not durable")
            if known is not None and (known.after, known.pattern) != (record["after"], record["pattern"]):
                evidence = f"after {record['after']}, to {record['pattern']!r}; it began after {known.after}"
                self._claim_of(record, f"{evidence}, to {known.pattern!r}")
            if known is None:
                # Its record may be lost with the process that made it; so it has got nothing since.
                self._begin(record)
            return
        if known is not None:
            self._claim_of(record, "began, and had not ended")
            self._end(name)
        if self._contents.next and record["after"] != expected:
            check = "topic_before_join" if record["after"] < expected else "topic_lost"
            evidence = f"begins after {record['after']}, and {expected} is the last place that was given"
            self._report(record, check, evidence, record["after"], subscription=name)
        self._begin(record)

    def _begin(self, record: Record) -> None:
        subscription = Subscription(record, self._out)
        self._subscriptions[subscription.name] = subscription
        if node := record.get("subscriber", ""):
            key = node, subscription.name.rpartition("/")[2]
            other = self._of_nodes.get(key, subscription.name)
            if other != subscription.name and other in self._subscriptions:
                evidence = f"node {node} has the subscription {other} already, and it has not ended"
                self._report(record, "subscriber_twice", evidence, record["after"], subscription=subscription.name)
            self._of_nodes[key] = subscription.name
        self._matching.clear()

    def _revive(self, name: str) -> Subscription | None:
        """A process that died before its commit had returned has a subscription still that was to end."""
        subscription = self._ended.pop(name, None)
        if subscription is not None:
            counts = self._totals[subscription.name, subscription.pattern]
            for what in READER_COUNTS:
                counts[what] -= getattr(subscription, what)
            for first, last in self._placed_since.pop(name, ()):
                self._give(subscription, first, last)
            self._subscriptions[name] = subscription
            self._matching.clear()
        return subscription

    def _end(self, name: str) -> None:
        subscription = self._subscriptions.pop(name)
        self._suspended.discard(name)
        self._matching.clear()
        subscription.restart([])
        if not subscription.durable:
            subscription.pending = 0
        _add(self._totals.setdefault((name, subscription.pattern), {}), subscription)
        if subscription.durable:
            self._ended[name] = subscription
            self._placed_since.pop(name, None)

    def _of_unsubscribed(self, subscription: Subscription, record: Record) -> None:
        subscription.end()
        self._end(record["subscription"])

    def _of_subscription_changed(self, subscription: Subscription, record: Record) -> None:
        subscription.max_unacked, subscription.ack_wait_ns = record["max_unacked"], record["ack_wait_ns"]

    def _of_subscription_suspended(self, subscription: Subscription, record: Record) -> None:
        if subscription.durable or subscription.name in self._suspended:
            self._claim_of(record, "suspended, and it is durable, or was suspended before")
        self._suspended.add(subscription.name)

    def _of_subscription_resumed(self, subscription: Subscription, record: Record) -> None:
        if subscription.name not in self._suspended:
            self._claim_of(record, "resumed, and it was not suspended")
        self._suspended.discard(subscription.name)

    def _takes_now(self, subscription: Subscription) -> bool:
        """Whether a subscription takes part in what is dispatched now."""
        return not (subscription.durable or subscription.name in self._suspended)

    def _of_handed(self, subscription: Subscription, record: Record) -> None:
        if subscription.name in self._suspended:
            first, last = record["ranges"][0]
            subscription.report(record, "claims", "handed out while it was suspended", first, last)
        self._timed.add(subscription.name)
        self._judge_foreign(subscription, record, subscription.handle_handed, "handed out")

    def _of_settled(self, subscription: Subscription, record: Record) -> None:
        subscription.judge_passed(record)
        self._judge_foreign(subscription, record, subscription.handle_settled, "settled")

    def _of_passed_on(self, subscription: Subscription, record: Record) -> None:
        if subscription.away is None:
            self._claim_of(record, "passed on, and it is a subscription of this node")
        if record["origin"] != record["node"]:
            self._claim_of(record, "passed on by a stream of another node")
        self._passing.handle_passed(subscription, record)

    def _on_queued(self, record: Record) -> None:
        if self._passing.handle_queued(record) is not None:
            where = {"origin": record["origin"], "stream": record["stream"], "sequence": record["sequence"]}
            title = f"{record['peer_name']}/{record['queue'].removeprefix(REMOTE)}"
            evidence = f"packets {record['first']} to {record['last']} have more messages than were passed on"
            self._report(record, "topic_twice", evidence, -1, subscription=title, **where)

    def _of_expired(self, subscription: Subscription, record: Record) -> None:
        own = [part for span in record["ranges"] for part in subscription.open.overlap(*span)]
        # After a crash they may expire again.
        self._count(subscription, "expired", sum(size(subscription.expired.put(*span)) for span in own))
        self._judge_foreign(subscription, record, subscription.handle_expired, "expired")
        for first, last in record["ranges"]:
            for low, high, below in self._contents.named(first, last):
                if not matches(subscription.pattern, full_name(self._topic, below)):
                    evidence = f"expired for it, and the name does not match {subscription.pattern!r}"
                    subscription.report(record, "topic_astray", evidence, low, high)

    def _judge_foreign(self, subscription: Subscription, record: Record, handle: Handle, what: str) -> None:
        """Let a subscription look at a record; say of messages that are not its own why they are not."""
        limit = self._contents.next - 1 if subscription.durable else self._contents.dispatched
        said = {
            "topic_before_join": f"{what}, and arrived before the subscription began, after {subscription.after}",
            "discard_rule": f"{what} after it was dropped",
            "topic_order": f"{what} before it was dispatched",
            "topic_astray": f"{what}, and the name does not match {subscription.pattern!r}",
            "topic_twice": f"{what}, and the subscription was done with it",
        }
        for check, (first, last) in handle(record, limit):
            if check:
                subscription.report(record, check, said[check], first, last)
                continue
            astray = RangeSet(
                (low, high)
                for low, high, below in self._contents.named(first, last)
                if not matches(subscription.pattern, full_name(self._topic, below))
            )
            subscription.report_each(record, "topic_astray", said["topic_astray"], astray)
            subscription.report_each(record, "topic_twice", said["topic_twice"], astray.missing(first, last))

    def _judge_unknown(self, record: Record) -> None:
        """A record of a subscription that is not there. Late acknowledgements may come after its end."""
        if record["event"] != "late_ack":
            due = settled(self._node, 1, self._start)
            self._claim_of(record, f"{record['event']}, and there is no such subscription", due)

    # ---- dispatch

    def _on_dispatched(self, record: Record) -> None:
        first, last, contents = record["first"], record["last"], self._contents
        if first <= contents.dispatched:
            self._report(record, "topic_order", f"dispatched behind {contents.dispatched}", first, last=last)
        for low, high in contents.kept.overlap(contents.dispatched + 1, first - 1):
            self._report(record, "topic_order", f"passed over: {first} was dispatched before it", low, last=high)
        if last >= contents.next:
            self._claim(record, f"dispatched {first} to {last}, and {contents.next} has not arrived", first)
            last = contents.next - 1
        got: dict[str, int] = {}
        parts: list[tuple[Subscription, Span]] = []
        for low, high, below in contents.named(max(first, contents.dispatched + 1), last):
            takers = [it for it in self._takers(below) if self._takes_now(it) and it.after < high]
            edges = [edge for it in takers for span in it.expired.overlap(low, high) for edge in (span[0], span[1] + 1)]
            cuts = sorted({low, high + 1, *(it.after + 1 for it in takers if it.after >= low), *edges})
            for begin, end in pairwise(cuts):
                eligible = [it for it in takers if it.after < begin and not it.expired.overlap(begin, begin)]
                self._judge_room(record, (begin, end - 1), eligible, got)
                parts += [(it, (begin, end - 1)) for it in eligible]
        for subscription, span in parts:
            self._give(subscription, *span)
        contents.dispatch(first, last, record["at_ns"])
        self._waits = {}
        self._owed = Owed(record, got)

    def _judge_room(self, record: Record, span: Span, eligible: list[Subscription], got: dict[str, int]) -> None:
        """Messages of one name go to all that are eligible for them: count them, and find those that had to stay."""
        (first, last), most = span, up_to(self._strategy, eligible, got)
        if most is not None and last - first + 1 > most and self._strategy in RULES:
            full = [it.name for it in eligible if it.room <= got.get(it.name, 0) + most]
            evidence = f"dispatched, and without room were {', '.join(full[:NAMED_MAX])}"
            self._report(record, RULES[self._strategy], evidence, first + most, last=last)
        for subscription in eligible:
            got[subscription.name] = got.get(subscription.name, 0) + last - first + 1

    def _of_assigned(self, subscription: Subscription, record: Record) -> None:
        name, count, owed = record["subscription"], record["count"], self._owed
        if owed is None or not owed.is_of(record):
            self._claim_of(record, f"assigned {record['first']} to {record['last']}, which were not dispatched now")
            return
        due = owed.counts.pop(name, 0)
        if count == due:
            return
        check = "topic_lost" if count < due else "topic_astray"
        if count > due and record["first"] <= subscription.after:
            check = "topic_before_join"
        evidence = (
            f"{counted(count, 'message')} of {record['first']} to {record['last']} assigned, and {due} are its own"
        )
        subscription.report(record, check, evidence, record["first"], record["last"])

    def _of_discarded(self, subscription: Subscription, record: Record) -> None:
        """The eldest messages are dropped; there may be several records of one subscription."""
        first, last = record["first"], record["last"]
        may = []
        if self._strategy == ALLOWED and not subscription.durable:
            may = too_old(subscription, self._contents, record["at_ns"], self._timeout_ns)
        dropped, foreign = subscription.open.overlap(first, last), list(subscription.open.missing(first, last))
        is_eldest = bool(dropped) and dropped == subscription.eldest(size(dropped))
        last_ns = next((at_ns for *_, at_ns in self._contents.dates(last, last)), record["at_ns"])
        subscription.handle_discarded(dropped, self._contents.kept)
        if record["pending"] != subscription.pending:
            evidence = f"{record['pending']} pending after that, counted {subscription.pending}"
            subscription.report(record, "claims", evidence, first, last)
        if foreign or not is_eldest or not may or last > may[-1][1]:
            evidence = f"dropped, and by the rule it loses {_said(may)}"
            subscription.report(record, "discard_rule", evidence, first, last)
            return
        short_ns = record["at_ns"] - last_ns - record["age_ns"]
        if not 0 <= short_ns <= self._timeout_ns // GRAINS:
            evidence = f"{record['age_ns']} ns old, after {record['at_ns'] - last_ns} ns"
            subscription.report(record, "discard_rule", evidence, first, last)

    def _require_owed(self, record: Record) -> None:
        """The records that follow from a ``dispatched`` stand right behind it."""
        owed, self._owed = self._owed, None
        if owed is None:
            return
        first, last = owed.record["first"], owed.record["last"]
        for name, count in owed.counts.items():
            evidence = f"of the messages that were dispatched {count} are its own, and were not assigned to it"
            self._subscriptions[name].report(record, "topic_lost", evidence, first, last)

    def _judge_waiting(self, record: Record) -> None:
        """What the strategy lets go goes at once."""
        head = self._contents.kept.next(self._contents.dispatched + 1) if not self._recovering else None
        if head is None or not self._may_go(head):
            self._waits = {}
        elif not self._waits:
            self._waits = record
        elif record["at_ns"] - self._waits["at_ns"] > LATE_NS:
            evidence = f"not dispatched for {record['at_ns'] - self._waits['at_ns']} ns, although it may go"
            due = awake(record, self._waits["at_ns"], self._waits["at_ns"] + LATE_NS, record["at_ns"])
            self._report(record, RULES[self._strategy], evidence, head, due)

    def _may_go(self, place: int) -> bool:
        named = next(self._contents.named(place, place), None)
        if named is None or self._strategy not in RULES:
            return False
        takers = [it for it in self._takers(named[2]) if self._takes_now(it) and it.after < place]
        takers = [it for it in takers if not it.expired.overlap(place, place)]
        return up_to(self._strategy, takers, {}) != 0

    def _judge_age(self, record: Record, ages: Ages) -> None:
        """Under ``discard_allowed`` no message stays pending for longer than the timeout.

        Looked at when all is seen that was recorded at the moment of this record.
        """
        if self._strategy != ALLOWED or self._recovering or record["incarnation"] != self._start:
            return
        now_ns, late_ns = record["at_ns"], ages.late_ns
        for subscription, (first, last), since_ns in ages.overdue(self._subscriptions, self._contents, now_ns):
            evidence = f"pending for {now_ns - since_ns} ns, and after {self._timeout_ns} ns it is dropped"
            due = awake(record, since_ns, since_ns + late_ns, now_ns)
            subscription.report(record, "discard_rule", evidence, first, last, due)

    # ---- reports

    def _report(self, record: Record, check: str, evidence: str, first: int, *dues: Due, **more: Any) -> None:
        self._out.report(record, check, evidence, *dues, topic=self._topic, number=first, **more)

    def _claim(self, record: Record, evidence: str, first: int, *dues: Due) -> None:
        self._report(record, "claims", evidence, first, *dues)

    def _claim_of(self, record: Record, evidence: str, *dues: Due) -> None:
        self._report(record, "claims", evidence, -1, *dues, subscription=record["subscription"])

    _OF_ONE: ClassVar[dict[str, Callable[[TopicJudge, Subscription, Record], None]]] = {
        **by_event(vars(), "_of_"),
        "returned": lambda _, subscription, record: subscription.handle_returned(record),
        "late_ack": lambda _, subscription, record: subscription.handle_late(record),
    }
    _SEES: ClassVar[dict[str, Callable[[TopicJudge, Record], None]]] = by_event(vars())


def _said(spans: list[Span]) -> str:
    return ", ".join(f"{first} to {last}" if first < last else str(first) for first, last in spans) or "none"


def _add(counts: dict[str, int], subscription: Subscription) -> None:
    for what in READER_COUNTS:
        counts[what] = counts.get(what, 0) + getattr(subscription, what)
