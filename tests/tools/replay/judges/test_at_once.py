"""Judging where it is read: what is left of a segment, and what is dealt out, make the same verdict as all of it."""

import pytest

from tests.tools.replay.harmless import HARMLESS
from tests.tools.replay.judges.test_parting import segments_of, told, units_of, whole, world_of
from tests.tools.replay.judging import PLANTED
from triack.tools.replay.checks.findings import DisorderError, Output, Record
from triack.tools.replay.judges import at_once
from triack.tools.replay.judges.at_once import AtOnce
from triack.tools.replay.judges.journal import Journal, Unit
from triack.tools.replay.judges.judge import order_of
from triack.tools.replay.judges.parting import Part

Parts = dict[Unit, dict[str, Part]]


def read_at_once(name: str, size: int) -> tuple[Parts, list[tuple[Unit, Record]]]:
    """Every segment of a world judged where it is read: what is left of the first of each unit, and what is dealt."""
    parts: Parts = {}
    dealt: list[tuple[Unit, Record]] = []
    for segment in segments_of(world_of(name), size):
        reading = AtOnce(Journal("", Output()))
        dealt += reading.read(segment)
        for unit, (_, part) in reading.parts.items():
            known = parts.setdefault(unit, {})
            if segment[0]["node"] in known:
                raise DisorderError
            known[segment[0]["node"]] = part
    return parts, dealt


def go_on(parts: Parts, dealt: list[tuple[Unit, Record]], kind: str) -> list[Record]:
    """Let the parts of a kind go on with what was dealt out; return the facts."""
    for unit, record in sorted(dealt, key=lambda it: order_of(it[1])):
        if unit[0] == kind:
            part = parts.setdefault(unit, {}).setdefault(record["node"], Part(unit))
            if (record["incarnation"], record["n"]) <= part.until:
                raise DisorderError
            part.see([record])
    return [fact for unit, mine in parts.items() if unit[0] == kind for it in mine.values() for fact in it.out.facts]


@pytest.mark.slow
@pytest.mark.parametrize(("size", "block"), [(40, 7), (10_000, 2_048)])
def test_what_is_judged_at_once_is_judged_like_the_rest(size: int, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of whole starts and of starts in many segments; worlds that are out of order say so, and are few."""
    monkeypatch.setattr(at_once, "BLOCK_RECORDS", block)
    disordered = 0
    for name in (*PLANTED, *HARMLESS):
        try:
            parts, dealt = read_at_once(name, size)
            facts = go_on(parts, dealt, "session")
            go_on(parts, [*dealt, *((("stream", it["origin"], str(it["stream"])), it) for it in facts)], "stream")
        except DisorderError:
            disordered += 1
            continue
        assert_alike(name, size, parts)
    assert disordered < len(PLANTED) / 5


def assert_alike(name: str, size: int, parts: Parts) -> None:
    """See that joined parts say what one judge of everything does."""
    facts: list[Record] = []
    for kind in ("session", "stream"):
        found: list[Record] = []
        for unit, records in units_of(segments_of(world_of(name), size), kind, facts).items():
            (one,) = whole(unit, records)
            mine = [part for _, part in sorted(parts[unit].items())]
            for other in mine[1:]:
                mine[0].join(other)
            mine[0].finish()
            assert told([part.out for part in mine])[0] == told([one])[0], (name, unit)
            assert told([part.out for part in mine])[1:] == told([one])[1:], (name, unit)
            found += one.facts
        facts = found


def test_a_log_out_of_order_is_not_judged_where_it_is_read() -> None:
    world = HARMLESS["healthy"]()
    world.number()
    records = [record for record in world.alpha.records if record["incarnation"] == 1]
    for wrong in ([records[1], records[0]], [records[0], {**records[1], "node": "ff" * 16}]):
        with pytest.raises(DisorderError):
            list(AtOnce(Journal("", Output())).read(wrong))
