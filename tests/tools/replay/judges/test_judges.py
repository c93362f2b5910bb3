"""The judges of sessions, streams, queues and starts."""

from functools import cache
from typing import Any

import pytest

from tests.queues.admin import ask
from tests.queues.world import World as SimWorld
from tests.queues.world import numbered
from tests.tools.replay.builder import BETA, ready
from tests.tools.replay.harmless import HARMLESS
from tests.tools.replay.judging import plant, verdict_of, without
from tests.tools.replay.telling import happens
from tests.tools.replay.two_nodes import Log, checks, logs_of, renumbered
from triack.base.errors import ReplayError
from triack.base.units import SECOND
from triack.tools.replay.checks.findings import EVER, Opening, Output
from triack.tools.replay.checks.incoming_check import Receiver
from triack.tools.replay.engines.local_engine import judge_segments
from triack.tools.replay.judges.admin_judge import Asking
from triack.tools.replay.judges.journal import Journal, Segment, join_segments
from triack.tools.replay.judges.judge import order_of
from triack.tools.replay.judges.queue_judge import QueueJudge, is_judged
from triack.tools.replay.judges.starts import Starts

# The judge: what is unusual but right passes, and the numbers are those of the messages.


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_unusual_but_right_passes(name: str) -> None:
    verdict = verdict_of(HARMLESS[name]())
    assert verdict.violations == {}
    assert verdict.verdict == "pass"


def test_the_numbers_are_those_of_the_messages() -> None:
    verdict = verdict_of(HARMLESS["healthy"]())
    assert str(verdict) == "1,510 sent = 1,500 delivered + 10 dead (10 expired)"
    assert (verdict.sent, verdict.delivered, verdict.pending, verdict.lost) == (1510, 1500, 0, 0)
    assert (verdict.resends, verdict.duplicates_on_wire, verdict.sessions_closed) == (3, 1, 2)
    assert verdict.seconds > 0


def test_what_the_next_start_finds_queued_was_not_given_up() -> None:
    """Alpha died before the commit with the dead letters of 2 and 3. Later it gives up 3 for good."""
    world = happens("queue tx 3; remove tx 2-3 expired; alpha start; queued tx 1 3 recovered=true")
    assert str(verdict_of(world)) == "30 sent = 0 delivered + 30 pending"
    happens("remove tx 3 purged; alpha start; queued tx 1 2 recovered=true", world)
    assert str(verdict_of(world)) == "30 sent = 0 delivered + 20 pending + 10 purged"


def test_a_missing_log_is_not_a_loss() -> None:
    """Alpha's log alone proves nothing of what beta has: the verdict is a third one, and names beta."""
    world = ready()
    world.deliver("transactional", 5)
    verdict = without(world, BETA)
    missing = [f"node {BETA}"]
    assert (verdict.verdict, verdict.missing, verdict.lost, verdict.violations) == ("incomplete", missing, 0, {})


def test_a_start_that_is_missing_is_named() -> None:
    several = ready()
    for _ in range(2):
        several.beta.start()
    for world, log, start in ((several, several.beta, 2), (healthy := HARMLESS["healthy"](), healthy.alpha, 1)):
        log.records = [record for record in log.records if record["incarnation"] != start]
        verdict = verdict_of(world)
        assert (verdict.verdict, verdict.missing) == ("incomplete", [f"start {start} of node {log.node}"])


def test_records_are_sorted_by_their_node_and_serial() -> None:
    """A life before the record that it goes with, a fact behind it."""
    common = {"node": "a", "incarnation": 1, "n": 4}
    events = [{**common, "event": event} for event in ("~acked", "ack_received", "life")]
    assert [it["event"] for it in sorted(events, key=order_of)] == ["life", "ack_received", "~acked"]


def test_judging_changes_nothing() -> None:
    """A log that grows is judged again and again."""
    world, _ = plant("lost_transactional")
    judge = judge_segments(lambda: [(log.name, 1, log.records) for log in world.logs])
    assert judge.finish() == judge.finish()


# What a start of a node promises of its record.


def test_records_go_to_who_judges_them() -> None:
    """A packet to its session and stream, an ack to its session, and a life before the first of each."""
    out = Output()
    world = ready()
    world.ack(world.send("express", world.queue("express", 1)), store=False)
    world.number()
    journal = Journal("here", out)
    dealt = {unit[0]: [record["event"] for record in pile] for unit, pile in journal.deal(world.alpha.records).items()}
    assert dealt == {
        "session": ["life", "session_opened", "packet_sent", "ack_received"],
        "stream": ["life", "queued", "packet_sent"],
        "sending": ["life", "queued"],
    }
    segment = journal.segment()
    assert segment is not None
    assert (segment.path, segment.first_n, segment.last_n, segment.begins, segment.stops) == ("here", 1, 6, True, False)
    assert Journal("", out).segment() is None


def test_what_begins_in_a_later_segment_is_judged_by_the_settings() -> None:
    """A segment that goes on says them again; it does so first, and never otherwise."""
    out = Output()
    common = {"v": 6, "node": "n", "incarnation": 1, "at_ns": 5, "wall_ns": 6}
    again = {**common, "event": "node_continued", "n": 7, "name": "alpha", "seq_resend_13_ns": 30}
    acked = {**common, "event": "order_ack_received", "n": 8, "origin": "n", "stream": 1, "sequence": 1, "number": 1}
    ((life, _),) = Journal("", out).deal([again, acked]).values()
    assert (life["event"], life["seq_resend_13_ns"]) == ("life", 30)
    assert out.findings == []
    assert Journal("", out).deal([{**again, "n": 6}, again]) == {}
    assert [it.violation.check for it in out.findings] == ["node_life"]


def test_segments_are_joined_to_lives() -> None:
    first = Segment("n", 1, "a", 1, 5, 10, 20, 7, True, False, True, "name", 5)
    second = first._replace(path="b", first_n=6, last_n=9, begin_ns=21, end_ns=30, begins=False, stops=True, records=4)
    out = Output()
    (life,) = join_segments([second, first], out)
    assert (life.begin_ns, life.end_ns, life.stops, life.records, out.findings) == (10, 30, True, 9, [])
    join_segments([first, second._replace(first_n=7)], out)
    join_segments([first, second._replace(begin_ns=3)], out)
    join_segments([first, second._replace(offset_ns=3)], out)
    join_segments([first._replace(stops=True), second], out)
    assert [it.violation.check for it in out.findings] == ["log_gap", "clock", "clock", "node_life"]


def test_a_segment_that_is_there_twice_is_no_finding() -> None:
    """Giving a segment and its copy, or its columns, is a mistake of the caller; not so a start that ran twice."""
    one = Segment("n", 1, "logs/a", 1, 5, 10, 20, 7, True, False, True, "name", 5)
    out = Output()
    with pytest.raises(ReplayError, match=r"^logs/a and kept/b begin with the same record: give only one of them$"):
        join_segments([one, one._replace(path="kept/b", last_n=4, records=4)], out)
    join_segments([one, one._replace(path="clone/a", begin_ns=12)], out)
    assert [it.violation.check for it in out.findings] == ["log_gap", "clock"]


# The starts of nodes: which of them are missing, and what of them is known by what their peers heard.

KNOWN = [("a", 1), ("b", 2), ("b", 3), ("b", 6)]


def ends(*starts: int | None, heard: bool = True) -> list[Opening]:
    """Sessions of a with b, one behind the other: with which start of b, or None if b tells of none."""
    mine = [Opening("a", 1, "b", f"s{at}", at, 0, "", 0, heard) for at, _ in enumerate(starts)]
    return mine + [Opening("b", start, "a", f"s{at}", 0, 0, "", 0) for at, start in enumerate(starts) if start]


@pytest.mark.parametrize(
    ("first", "last", "given"), [(1, 1, False), (2, 3, True), (2, 4, False), (5, 5, False), (6, EVER, True)]
)
def test_a_start_is_given_or_not(first: int, last: int, given: bool) -> None:
    assert Starts(KNOWN, []).are_given("b", first, last) == given
    assert not Starts(KNOWN, []).are_given("c", first, last)


def test_those_that_are_missing_are_named() -> None:
    assert Starts(KNOWN, []).missing() == ["start 1 of node b", "starts 4 to 5 of node b"]


def test_a_session_behind_the_last_one_is_of_a_start_that_is_missing() -> None:
    """If something came in it: a node that was killed before its peer's answer came wrote nothing of it."""
    starts = Starts(KNOWN, ends(2, 6, None))
    assert starts.missing()[-1] == "a start after start 6 of node b"
    assert not starts.are_given("b", 6, EVER)
    assert starts.are_given("b", 6, 6)
    assert not starts.would_tell("b", "s2")
    unheard = Starts(KNOWN, ends(2, 6, None, heard=False))
    assert unheard.are_given("b", 6, EVER)
    assert not unheard.would_tell("b", "s2")


@pytest.mark.parametrize(
    ("before", "after", "tells"), [(2, 2, True), (2, 3, True), (3, 6, False), (None, 2, False), (6, 6, True)]
)
def test_a_session_between_two_others_is_of_a_start_between_theirs(before: int | None, after: int, tells: bool) -> None:
    """If there is a log of each of these, it should be in one of them."""
    starts = Starts(KNOWN, ends(before, None, after))
    assert starts.would_tell("b", "s1") == tells
    assert starts.would_tell("b", "s2")
    assert not starts.would_tell("c", "s1")


def test_a_start_whose_log_has_no_begin_is_not_given() -> None:
    starts = Starts([("a", 1), ("a", 2)], [], {("a", 2): 17})
    assert not starts.are_given("a", 1, 2)
    assert starts.are_given("a", 1, 1)
    assert starts.missing() == ["the begin, before record 17, of start 2 of node a"]


# What a queue of one node promises over its streams: the higher priority is handed out first.


class Case:
    """A judge, and records of its queue; every record has a moment of its own."""

    def __init__(self, steps: str) -> None:
        self.out = Output()
        self.judge = QueueJudge(BETA, self.out)
        self.n = self.start = 0
        self.begin()
        for verb, *numbers in map(str.split, steps.split(";")):
            getattr(self, verb)(*map(int, numbers))

    def begin(self) -> None:
        self.start += 1
        self._see("life")

    def come(self, priority: int, first: int, last: int) -> None:
        self._see("committed", **self._of(priority), first=first, last=last, count=last - first + 1, queue="q")

    def hand(self, priority: int, number: int, again: int = 0, at_ns: int = 0) -> None:
        fields = {**self._of(priority), "number": number, "place": 0, "counts": [[1, 1]], "redelivered": bool(again)}
        self._see("handed", at_ns, **fields)

    def draw(self, priority: int, number: int) -> None:
        """Records of what was drawn are written later, in one batch."""
        self.hand(priority, number, at_ns=100)

    def take_back(self, priority: int, number: int) -> None:
        # Such a record does not say the priority.
        self._see("returned", **{**self._of(priority), "priority": None}, number=number, place=0, counts=[[1, 1]])

    def _of(self, priority: int) -> dict[str, Any]:
        return {"origin": "a1" * 16, "stream": priority, "sequence": 1, "class": "recoverable", "priority": priority}

    def _see(self, event: str, at_ns: int = 0, **fields: Any) -> None:
        self.n += 1
        common = {"event": event, "node": BETA, "incarnation": self.start, "n": self.n, "wall_ns": self.n}
        said = {name: value for name, value in fields.items() if value is not None}
        self.judge.see({**common, "at_ns": at_ns or self.n, **said})


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        ("come 7 1 1; come 0 1 3; hand 0 1; hand 0 2; hand 0 3; hand 7 1", {(7, 1)}),
        ("come 0 1 3; come 7 1 1; draw 0 1; draw 0 2; draw 0 3; draw 7 1", set()),
        # The others of its priority may have to wait with it.
        ("come 7 1 2; come 0 1 3; hand 7 1; take_back 7 1; hand 0 1; hand 0 2; hand 0 3; hand 7 1 1; hand 7 2", set()),
        # Its reader may have died with it. A priority that is new is judged.
        ("come 7 1 1; hand 7 1; begin; come 7 2 2; come 5 1 1; come 0 1 3; hand 0 1; hand 0 2; hand 0 3; hand 7 2",
         set()),
        ("come 7 1 1; hand 7 1; begin; come 7 2 2; come 5 1 1; come 0 1 3; hand 0 1; hand 0 2; hand 0 3; hand 5 1",
         {(5, 1)}),
        # That may be one in its middle.
        ("come 7 1 1; come 7 3 3; come 0 1 3; hand 0 1; hand 0 2; come 7 2 2; hand 0 3; hand 7 3", set()),
    ],
    ids=[
        "passed by lower ones", "drawn before the commit", "waits for its next attempt",
        "handed out by an earlier start", "new in this start", "waits since its last packet came",
    ],
)  # fmt: skip
def test_a_high_priority_that_is_passed_by_lower_ones_is_found(steps: str, found: set[tuple[int, int]]) -> None:
    """Once for the message that waited."""
    told = [it.violation for it in Case(steps).out.findings]
    assert [(it.check, it.stream, it.number) for it in told] == [("priority_order", *it) for it in found]


def test_system_queues_are_read_in_the_order_of_arrival() -> None:
    handed = {"event": "handed", "node": BETA}
    assert [is_judged({**handed, "queue": queue}) for queue in ("dead-letter", "$journal", "q")] == [False, False, True]
    assert not is_judged({**handed, "queue": "q", "event": "settled"})


BESIDE = "queued beside stream 2, which is for the same queue, class and priority"


@pytest.mark.parametrize(
    ("before", "more", "found"),
    [
        ("", {}, [("claims", BESIDE)]),
        ("", {"priority": 5}, []),
        ("", {"sealed": True}, []),
        ("alpha stream_ended kept", {}, []),
        ("alpha rerouted kept peer_name=c", {}, []),
        # Which of two streams that a start found has the name is not known.
        ("alpha start; queued kept 1 1 recovered=true", {}, []),
    ],
    ids=["none", "priority", "seal", "behind an end", "behind another way", "found by a start"],
)
def test_a_queue_has_one_stream_of_a_class_and_priority(
    before: str, more: dict[str, Any], found: list[tuple[str, str]]
) -> None:
    """Alpha puts something into a second stream of the queue of its recoverable one."""
    world = happens(f"queue kept 1; {before}")
    world.queued("recoverable", 1, 1, **more)["stream"] = 9
    assert [(it.check, it.evidence) for it in verdict_of(world).findings if it.stream == 9] == found


def test_a_stream_is_sealed_or_not() -> None:
    world = happens("queue kept 1; queued kept 2 2 sealed=true")
    assert [it.evidence for it in verdict_of(world).findings] == ["sealed True, elsewhere False"]


def test_two_streams_of_a_log_that_does_not_say_what_is_sealed_are_no_fault() -> None:
    world = happens("queue kept 1")
    world.queued("recoverable", 1, 1)["stream"] = 9
    for record in world.alpha.records:
        record.pop("sealed", None)
    assert verdict_of(world).findings == []


# Checks of administration messages: honest logs of nodes, and lies in them.


@cache
def honest(*, restarts: bool = False) -> tuple[Log, Log]:
    """The logs of two nodes, of which one asks for everything and the other tells."""
    world = SimWorld(3)
    a, b = world.node("a"), world.node("b")
    ask(a, "b", *numbered(0, 30))
    world.run(2 * SECOND)
    b.read("q", 10)
    world.run(2 * SECOND)
    if restarts:
        b.restart()
        world.run(30 * SECOND)
    ask(a, "b", bytes(50_000))
    world.run(5 * SECOND)
    b.read_all("q")
    world.run(5 * SECOND)
    return logs_of(a, b)


@pytest.mark.parametrize("restarts", [False, True])
def test_honest_logs_accuse_nobody(*, restarts: bool) -> None:
    a, b = honest(restarts=restarts)
    assert checks(a, b) == set()
    assert {record["message_class"] for record in b if record["event"] == "admin_ack_queued"} == {2, 0x4000}


def test_a_second_telling_in_a_later_start_is_found() -> None:
    """Its cause was on the disk with the first one."""
    a, b = honest(restarts=True)
    told = next(it for it in b if it["event"] == "admin_ack_queued")
    at = next(at for at, it in enumerate(b) if it["incarnation"] == 2 and it["event"] == "session_opened")
    later = {**told, "incarnation": 2, "at_ns": b[at]["at_ns"], "wall_ns": b[at]["wall_ns"]}
    assert checks(a, renumbered([*b[: at + 1], later, *b[at + 1 :]])) == {"admin_ack_twice"}


@pytest.mark.parametrize("takes", [False, True])
def test_a_relay_tells_of_each_copy_that_it_has_taken(*, takes: bool) -> None:
    """Its neighbour died before it had forgotten the first one, and sends it again."""
    out = Output()
    asking, receiver = Asking("r", "a", 1, out), Receiver()
    told = {"node": "r", "incarnation": 1, "n": 1, "wall_ns": 0, "sequence": 1, "number": 5, "place": 0, "count": 1}
    told |= {"class": "recoverable", "message_class": 0x8005}
    asking.handle_told(told, receiver)
    if takes:
        Asking.SEES["transit_committed"](asking, {"sequence": 1, "first": 4, "last": 6})
    asking.handle_told(told, receiver)
    assert [found.violation.check for found in out.findings] == ([] if takes else ["admin_ack_twice"])
