"""From what is known at a cut the rest is judged as if it were the whole."""

from collections import Counter
from random import Random

import pytest

from proof.lies.logs import honest_logs, wide_logs
from proof.lies.mutate import lies_about
from tests.tools.replay.builder import ALPHA, BETA, healthy
from tests.tools.replay.cutting import cut, judged, past_of, random_cuts, told
from triack.tools.replay.judges.past import NO_CUTS, Past, behind

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
    for node, other in ((ALPHA, BETA), (BETA, ALPHA)):
        total = sum(count for (whose, _), count in starts.items() if whose == node)
        for at in sorted({*range(0, total + 1, STEP), *range(starts[node, 1], starts[node, 1] + AROUND)}):
            first = min(at, starts[node, 1])
            removed, left = cut(records, {(node, 1): first, (node, 2): at - first, (other, 1): starts[other, 1]})
            assert told(judged(left, past_of(removed))) == told(judged([*removed, *left])), (node, at)


def test_the_begin_of_a_log_may_be_missing_and_nobody_is_accused() -> None:
    world = healthy()
    world.number()
    _, left = cut([*world.alpha.records, *world.beta.records], {(ALPHA, 1): 40, (BETA, 1): 25})
    verdict = judged(left)
    assert (verdict.verdict, verdict.violations) == ("incomplete", {})
    assert verdict.missing == [
        f"the begin, before record 41, of start 1 of node {ALPHA}",
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
    removed, left = cut(records, {(ALPHA, 1): at + 4})
    past = past_of(removed)
    for segment in left:
        for record in segment:
            if record["event"] in ("packet_sent", "packet_received") and record.get("number") == 9:
                record["counts"] = [[1, 99]]
    found = [it.evidence for it in judged(left, past).findings if it.check == "claims"]
    assert "they hold more messages than when they were counted" in found


def test_records_before_the_cut_are_known() -> None:
    records = [{"node": "a", "incarnation": 2, "n": n} for n in (1, 2, 3)]
    assert list(behind(records, {"a": (2, 2)})) == records[2:]
    assert list(behind(records, {"b": (2, 2)})) == records == list(behind(records, NO_CUTS))


def test_nothing_is_known_of_nothing() -> None:
    assert Past().cuts == {}
