"""Parts: a session or a stream that is judged node by node, and joined, is judged as it is as a whole."""

from collections import Counter
from collections.abc import Iterable, Iterator

import pytest

from tests.tools.replay.builder import World
from tests.tools.replay.harmless import HARMLESS
from tests.tools.replay.judging import PLANTED, plant
from triack.tools.replay.checks.findings import Output, Record
from triack.tools.replay.engines.checkpoint import freeze, revive
from triack.tools.replay.judges.journal import Journal, Unit
from triack.tools.replay.judges.judge import judge_unit, order_of
from triack.tools.replay.judges.parting import Part

Units = dict[Unit, list[Record]]


def segments_of(world: World, size: int = 1 << 30) -> Iterator[list[Record]]:
    """The records of each start, cut into segments as a node cuts them."""
    for log in world.logs:
        for start in range(1, log.incarnation + 1):
            records = [record for record in log.records if record["incarnation"] == start]
            yield from (records[begin : begin + size] for begin in range(0, len(records), size))


def units_of(segments: Iterable[list[Record]], kind: str, facts: Iterable[Record]) -> Units:
    """The records of a world by whom they go to, sorted as judges want them."""
    units: Units = {}
    for records in segments:
        for unit, record in Journal("", Output()).read(records):
            if unit[0] == kind:
                units.setdefault(unit, []).append(record)
    for fact in facts:
        units.setdefault(("stream", fact["origin"], str(fact["stream"])), []).append(fact)
    return {unit: sorted(records, key=order_of) for unit, records in units.items()}


def world_of(name: str) -> World:
    world = HARMLESS[name]() if name in HARMLESS else plant(name)[0]
    if name in HARMLESS:
        world.number()
    return world


def whole(unit: Unit, records: list[Record]) -> list[Output]:
    out = Output()
    judge_unit(unit, records, out)
    return [out]


def parts(unit: Unit, records: list[Record]) -> list[Output]:
    """Each part has been elsewhere before it is joined."""
    made = []
    for node in sorted({record["node"] for record in records}):
        part = Part(unit)
        part.see(record for record in records if record["node"] == node)
        made.append(revive(freeze(part), Part))
    for other in made[1:]:
        made[0].join(other)
    made[0].finish()
    return [part.out for part in made]


def told(outs: list[Output]) -> tuple[list[str], Counter[str], Counter[str], list[object]]:
    """What a verdict is made of."""
    numbers, series = Counter[str](), Counter[str]()
    for out in outs:
        numbers.update(out.numbers)
        series.update({name: sum(one.buckets.values()) for name, one in out.series.items()})
    findings = sorted(str(finding) for out in outs for finding in out.findings)
    return findings, numbers, series, [opening for out in outs for opening in out.openings]


@pytest.mark.parametrize("name", [*PLANTED, *HARMLESS])
def test_parts_are_judged_like_the_whole(name: str) -> None:
    world = world_of(name)
    facts: list[Record] = []
    for kind in ("session", "stream"):
        more: list[Record] = []
        for unit, records in units_of(segments_of(world), kind, facts).items():
            one, several = whole(unit, records), parts(unit, records)
            assert told(several) == told(one)
            tellings = [sorted((fact for out in outs for fact in out.facts), key=order_of) for outs in (one, several)]
            assert tellings[0] == tellings[1]
            more += tellings[0]
        facts = more
