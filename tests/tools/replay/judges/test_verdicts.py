"""What a verdict depends on: ends of logs, what is missing, what was before."""

from collections import Counter
from collections.abc import Iterable, Iterator
from random import Random
from typing import Any

import pytest

from proof.lies.logs import honest_logs, wide_logs
from proof.lies.mutate import lies_about
from tests.tools.replay.builder import ALPHA as ALPHA_ID
from tests.tools.replay.builder import BETA, healthy
from tests.tools.replay.builder import World as PlantedWorld
from tests.tools.replay.cutting import cut, judged, past_of, random_cuts, told
from tests.tools.replay.harmless import HARMLESS
from tests.tools.replay.judging import PLANTED, plant
from triack.base.units import SECOND
from triack.tools.replay.checks.findings import (
    Due,
    Finding,
    Opening,
    Output,
    Record,
    given,
)
from triack.tools.replay.engines.checkpoint import freeze_part, revive_part
from triack.tools.replay.engines.spark_conclusion import Told
from triack.tools.replay.judges.conclusion import Read, World, cover, decide, missing_logs, place
from triack.tools.replay.judges.endings import Endings
from triack.tools.replay.judges.journal import Segment, Unit
from triack.tools.replay.judges.judge import Judge, UnitJudge, join_parts
from triack.tools.replay.judges.past import behind
from triack.tools.replay.judges.starts import Starts
from triack.tools.replay.log.listing import Listed, Listing
from triack.tools.replay.log.schema import Verdict, Violation

# The conclusion: what depends on other logs is decided by them.


def life(
    start: int, end_ns: int = 1000, node: str = "a", *, begin_ns: int = 0, last_n: int = 0, stops: bool = True,
    **more: Any,
) -> Segment:  # fmt: skip
    """A start of a node as its whole log."""
    return Segment(node, start, "", 1, last_n, begin_ns, end_ns, 0, True, stops, True, node, 10, **more)


LIVES = [life(1), life(3, stops=False)]
OPENINGS = [
    Opening("a", 1, "b", "s1", 100, 200, "path-lost", 0),
    Opening("a", 1, "b", "s2", 300, 0, "", 0),
    Opening("a", 3, "c", "s3", 0, 0, "", 0),
]


@pytest.mark.parametrize("older_until_ns", [0, 2 * SECOND, 30 * SECOND])
def test_a_session_has_room_for_what_no_older_one_has(older_until_ns: int) -> None:
    """Streams stay in the older session as long as it is open, though it may have lost its peer."""
    end_ns = 40 * SECOND
    free = [Opening("a", 1, "b", "s2", 1 * SECOND, 0, "", 0, peer_name="b", free=[(1 * SECOND, 0)])]
    older = [Opening("a", 1, "b", "s1", 1, older_until_ns, "ack-timeout", 0, peer_name="b")] if older_until_ns else []
    world = World([life(1, end_ns)], older + free)
    assert world.holds(Due("room", "a", 1, "b", 2 * SECOND, end_ns)) == (older_until_ns < 30 * SECOND)


@pytest.mark.parametrize(("start", "peer", "holds"), [(1, "b", False), (2, "b", True), (1, "c", True)])
def test_what_waits_may_wait_for_a_paused_queue(start: int, peer: str, holds: bool) -> None:
    """A pause lasts over restarts, until an operator ends it."""
    lives = [life(it, 40 * SECOND, paused=(peer,) * (it == start)) for it in (1, 2)]
    opening = Opening("a", 1, "b", "s1", 0, 0, "", 0, peer_name="b", free=[(0, 0)])
    assert World(lives, [opening]).holds(Due("room", "a", 1, "b", 0, 40 * SECOND)) == holds


@pytest.mark.parametrize(
    ("due", "holds"),
    [
        (Due("log", "a", 1, end_ns=999), True),
        (Due("log", "a", 1, end_ns=1000), False),
        (Due("log", "a", 2, end_ns=0), False),
        (Due("stopped", "a", 1), True),
        (Due("stopped", "a", 3), False),
        (given("a", 3), True),
        (given("a", 1, 1), True),
        (given("a"), False),
        (given("b"), False),
        (Due("peers_given", "a"), False),
        (Due("peers_given", "c"), True),
        (Due("told", "a", peer="s1"), True),
        (Due("told", "b", peer="s1"), False),
        (Due("started", "a", 1, end_ns=1), True),
        (Due("started", "a", 1, end_ns=9), True),
        (Due("started", "a", 2, end_ns=9), False),
        (Due("open", "a", 1, "b", 120, 180), True),
        (Due("open", "a", 1, "b", 120, 220), False),
        (Due("open", "a", 1, "b", 300, 1000), True),
        (Due("not_opened", "a", 1, "", 101, 299), True),
        (Due("not_opened", "a", 1, "", 101, 300), False),
        (Due("reopened", "a", 1, "b", 200, 600), True),
        (Due("reopened", "a", 1, "b", 200, 700), False),
        (Due("reopened", "a", 1, "c", 200, 600), False),
        (Due("carried_on", "a", 1, "s1", 0, 199), True),
        (Due("carried_on", "a", 1, "s1", 0, 200), False),
    ],
)
def test_a_due_holds_or_not(due: Due, holds: bool) -> None:
    world = World(LIVES, OPENINGS)
    assert world.holds(due) == holds
    found = decide([Finding(Violation("lost"), (given("a", 3), due))], world)
    assert len(found) == holds


def test_a_session_of_a_start_without_a_log_is_open_no_longer_than_it_says() -> None:
    """A damaged line may give a session to a start of which there is nothing else."""
    world = World(LIVES, [OPENINGS[0]._replace(incarnation=64, closed_ns=0)])
    opened_ns = OPENINGS[0].opened_ns
    assert world.holds(Due("open", "a", 64, "b", opened_ns, opened_ns))
    assert not world.holds(Due("open", "a", 64, "b", opened_ns, opened_ns + 1))


def test_missing_logs_are_named() -> None:
    assert missing_logs(World(LIVES, OPENINGS)) == ["node b", "node c", "start 2 of node a"]
    far = [*LIVES, life(10**17)]
    assert missing_logs(World(far, [])) == ["start 2 of node a", f"starts 4 to {10**17 - 1} of node a"]


def test_a_violation_is_placed_in_its_file() -> None:
    segments = [
        Segment("a", 1, name, first, first + 9, 0, 0, 0, False, False, True, "", 10)
        for name, first in (("one", 1), ("two", 11))
    ]
    violations = [Violation("lost", "a", incarnation=1, n=n) for n in (10, 12, 30)]
    place(violations, segments)
    assert [(it.file, it.line) for it in violations] == [("one", 10), ("two", 2), ("", 0)]


def test_of_all_that_was_listed_nothing_is_left_out() -> None:
    """A file that no engine mentions was not read; a name that would act on a terminal is escaped."""
    listing = Listing([Listed(name, 7) for name in ("a", "b\x1b", "c", "d")], {"e": "is packed"})
    verdict = Verdict()
    cover(verdict, listing, [Read("a", 3, torn=True), Read("b\x1b", 2), Read("c", 0, fault="line 1 is damaged")])
    assert verdict.files == {"a": 3, "b\\x1b": 2, "c": 0}
    assert verdict.unread == {"c": "line 1 is damaged", "d": "was not read", "e": "is packed"}
    assert verdict.torn_lines == 1
    assert verdict.verdict == "incomplete"


# Which logs may lack their ends, and how far they are known to go.

KILLED = life(1, node="b", stops=False, last_n=50, boot="one")
NEXT = life(2, 3000, "b", begin_ns=2000, last_n=9, boot="one", known=50)
ALPHA = life(1, 3000, last_n=90, boot="other")


def endings(*lives: Segment, openings: tuple[Opening, ...] = ()) -> Endings:
    by_start = {(life.node, life.incarnation): life for life in (ALPHA, *lives)}
    return Endings(by_start, openings, Starts(by_start, openings))


@pytest.mark.parametrize(
    ("lives", "lacks"),
    [
        ((KILLED, NEXT), False),
        ((KILLED._replace(stops=True),), False),
        ((KILLED,), True),
        ((KILLED, NEXT._replace(boot="two")), True),
        ((KILLED, NEXT._replace(known=51)), True),
        ((KILLED._replace(boot=""), NEXT._replace(boot="")), True),
    ],
)
def test_a_log_is_whole_or_may_lack_its_end(lives: tuple[Segment, ...], lacks: bool) -> None:
    """It stopped, or the next start knows of the same boot and of no more records."""
    assert endings(*lives).lacking(Due("seen", "b", 1, "a", 1, 10)) == ({("b", 1)} if lacks else set())


def test_a_log_is_known_as_far_as_its_peer_shows() -> None:
    """Alpha's record 40 has left a trace in beta's log, its record 41 none; and before record 5 they had not met."""
    here = Opening("a", 1, "b", "s", 10, 0, "", 0, True, n=5, reached=40)
    there = Opening("b", 1, "a", "s", 11, 0, "", 0, True, n=3)
    known = endings(KILLED, openings=(here, there))
    for kind in ("seen", "whole"):
        assert known.lacking(Due(kind, "b", 1, "a", 1, 40)) == set()
        assert known.lacking(Due(kind, "b", 1, "a", 1, 41)) == {("b", 1)}
    assert known.lacking(Due("whole", "b", 1, "a", 1, 4)) == set()


def test_a_later_start_has_left_the_end_behind() -> None:
    """Records of alpha after it met beta's next start have no cause in the end of the one before."""
    openings = (
        Opening("a", 1, "b", "s", 10, 20, "", 0, True, n=5, reached=8),
        Opening("b", 1, "a", "s", 11, 0, "", 0, True, n=3),
        Opening("a", 1, "b", "t", 30, 0, "", 0, True, n=60, reached=70),
        Opening("b", 2, "a", "t", 31, 0, "", 0, True, n=3),
    )
    known = endings(KILLED, NEXT._replace(boot="two"), openings=openings)
    assert known.lacking(Due("whole", "b", 1, "a", 1, 59)) == {("b", 1)}
    assert known.lacking(Due("whole", "b", 1, "a", 1, 61)) == set()


# From what is known at a cut the rest is judged as if it were the whole.

RUNS = 6
TRIES = 4
LIES = 4
STEP = 10
"""Records between two cuts: neighbours are alike."""
AROUND = 12
"""Records behind a start at each of which there is a cut."""


@pytest.mark.slow
def test_a_prune_at_any_cut_gives_the_verdict_of_the_whole() -> None:
    for seed, log in [*honest_logs(RUNS), *wide_logs(1)]:
        for attempt in range(TRIES):
            cuts = random_cuts(log, Random(seed * TRIES + attempt))
            removed, left = cut((record for start in log.values() for record in start), cuts)
            assert told(judged(left, past_of(removed))) == told(judged([*removed, *left])), (seed, cuts)


@pytest.mark.slow
def test_a_lie_in_what_is_left_is_found_as_in_the_whole() -> None:
    for seed, log in honest_logs(RUNS):
        random = Random(seed)
        cuts = random_cuts(log, random)
        places = [(start, at) for start, mine in log.items() for at in range(max(1, cuts[start]), len(mine))]
        for start, at in random.sample(places, min(LIES, len(places))):
            # A class that there is not ends the reading of a file.
            lie = random.choice([lie for lie in lies_about(log, start, at) if lie.field != "class"])
            removed, left = cut(lie.records, cuts)
            whole, rest = judged([*removed, *left]), judged(left, past_of(removed))
            assert (rest.verdict, rest.violations) == (whole.verdict, whole.violations), (seed, cuts, lie.kind)


@pytest.mark.slow
def test_wherever_a_node_is_cut_that_was_killed_and_started_again() -> None:
    """In the midst of what it finds at a start, too."""
    world = healthy()
    world.number()
    records = [*world.alpha.records, *world.beta.records]
    starts = Counter((record["node"], record["incarnation"]) for record in records)
    for node, other in ((ALPHA_ID, BETA), (BETA, ALPHA_ID)):
        total = sum(count for (whose, _), count in starts.items() if whose == node)
        for at in sorted({*range(0, total + 1, STEP), *range(starts[node, 1], starts[node, 1] + AROUND)}):
            first = min(at, starts[node, 1])
            removed, left = cut(records, {(node, 1): first, (node, 2): at - first, (other, 1): starts[other, 1]})
            assert told(judged(left, past_of(removed))) == told(judged([*removed, *left])), (node, at)


def test_the_begin_of_a_log_may_be_missing_and_nobody_is_accused() -> None:
    world = healthy()
    world.number()
    _, left = cut([*world.alpha.records, *world.beta.records], {(ALPHA_ID, 1): 40, (BETA, 1): 25})
    verdict = judged(left)
    assert (verdict.verdict, verdict.violations) == ("incomplete", {})
    assert verdict.missing == [
        f"the begin, before record 41, of start 1 of node {ALPHA_ID}",
        f"the begin, before record 26, of start 1 of node {BETA}",
    ]


def test_more_messages_in_a_packet_than_were_counted_are_a_lie() -> None:
    """Its first sending was removed; it says something else when it is sent again."""
    world = healthy()
    world.number()
    records = [*world.alpha.records, *world.beta.records]
    at = next(n for n, it in enumerate(world.alpha.records) if it["event"] == "packet_sent" and it.get("number") == 9)
    again = [it for it in world.alpha.records[at + 1 :] if it["event"] == "packet_sent" and it.get("number") == 9]
    assert again
    removed, left = cut(records, {(ALPHA_ID, 1): at + 4})
    past = past_of(removed)
    for segment in left:
        for record in segment:
            if record["event"] in ("packet_sent", "packet_received") and record.get("number") == 9:
                record["counts"] = [[1, 99]]
    found = [it.evidence for it in judged(left, past).findings if it.check == "claims"]
    assert any(
        it.startswith("records differ on the messages in them") and it.endswith("and 99 is the most") for it in found
    )


def test_records_before_the_cut_are_known() -> None:
    records = [{"node": "a", "incarnation": 2, "n": n} for n in (1, 2, 3)]
    assert list(behind(records, {"a": (2, 2)})) == records[2:]
    assert list(behind(records, {"b": (2, 2)})) == records == list(behind(records, {}))


# Parts: what is judged node by node, and joined, is judged as it is as a whole.


def world_of(name: str) -> PlantedWorld:
    world = HARMLESS[name]() if name in HARMLESS else plant(name)[0]
    if name in HARMLESS:
        world.number()
    return world


def segments_of(world: PlantedWorld, size: int = 1 << 30) -> Iterator[list[Record]]:
    """The records of each start, cut into segments as a node cuts them."""
    for log in world.logs:
        for start in range(1, log.incarnation + 1):
            records = [record for record in log.records if record["incarnation"] == start]
            yield from (records[begin : begin + size] for begin in range(0, len(records), size))


def told_of(out: Output) -> tuple[object, ...]:
    """What a verdict is made of; what is judged first decides which of several findings alike comes first."""
    series = {name: dict(sorted(one.buckets.items())) for name, one in out.series.items()}
    return sorted(map(str, out.findings)), out.numbers, series, sorted(out.openings), out.begin_ns, out.end_ns


def parted(segments: Iterable[list[Record]]) -> Told:
    """What judges of single nodes find; their parts have been elsewhere before they are joined."""
    told, nodes, parts = Told(), dict[str, Judge](), dict[Unit, list[bytes]]()
    for records in segments:
        nodes.setdefault(records[0]["node"], Judge()).read("", records)
    for _, judge in sorted(nodes.items()):
        for out in judge.found:
            told.take(out)
        for unit, data in judge.parts(freeze_part):
            parts.setdefault(unit, []).append(data)
    for mine in parts.values():
        first, *others = (revive_part(data, told.out) for data in mine)
        assert isinstance(first, UnitJudge)
        for other in others:
            join_parts(first, other)
        first.finish()
    return told


@pytest.mark.parametrize("size", [40, 10_000])
@pytest.mark.parametrize("name", [*PLANTED, *HARMLESS])
def test_parts_are_judged_like_the_whole(name: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of whole starts and of starts in many segments, in blocks of any size."""
    whole = Judge()
    for records in segments_of(world_of(name), size):
        whole.read("", records)
    told = Told()
    for out in whole.found:
        told.take(out)
    for _, data in whole.parts(freeze_part):
        judge = revive_part(data, told.out)
        assert isinstance(judge, UnitJudge)
        judge.finish()
    monkeypatch.setattr("triack.tools.replay.judges.judge.BLOCK_RECORDS", 7)
    assert told_of(parted(segments_of(world_of(name), size)).out) == told_of(told.out)
