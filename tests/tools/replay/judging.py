"""Worlds before the local engine, which is quick."""

from collections import Counter

from tests.tools.replay.builder import World
from tests.tools.replay.faults import FAULTS, ready
from triack.tools.replay.local_engine import LocalReplay
from triack.tools.replay.schema import Verdict


def verdict_of(world: World, *, lacking: bool = False) -> Verdict:
    replay = LocalReplay(timeline=False)
    for record in world.all_records(lacking=lacking):
        replay.see(record)
    return replay.finish()[0]


def assert_found(name: str) -> None:
    """See that a planted fault is found as what it is, once, and nothing else is."""
    world = ready()
    expected = FAULTS[name](world)
    found = verdict_of(world, lacking=name == "records_missing").findings
    assert Counter((it.check, it.lane, it.sequence, it.number) for it in found) == Counter(expected)
