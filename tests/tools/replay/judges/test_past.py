"""From what is known at a cut the rest is judged as if it were the whole."""

from random import Random

import pytest

from proof.lies.logs import honest_logs, wide_logs
from proof.lies.mutate import lies_about
from tests.tools.replay.cutting import cut, judged, past_of, random_cuts, told
from triack.tools.replay.judges.past import NO_CUTS, Past, behind

RUNS = 6
TRIES = 4
LIES = 4


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
            lie = random.choice(list(lies_about(log, start, at)))
            removed, left = cut(lie.records, cuts)
            whole, rest = judged([*removed, *left]), judged(left, past_of(removed))
            assert (rest.verdict, rest.violations) == (whole.verdict, whole.violations), (seed, cuts, lie.kind)


def test_records_before_the_cut_are_known() -> None:
    records = [{"node": "a", "incarnation": 2, "n": n} for n in (1, 2, 3)]
    assert list(behind(records, {"a": (2, 2)})) == records[2:]
    assert list(behind(records, {"b": (2, 2)})) == records == list(behind(records, NO_CUTS))


def test_nothing_is_known_of_nothing() -> None:
    assert Past().cuts == {}
