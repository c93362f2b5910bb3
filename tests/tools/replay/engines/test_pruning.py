"""Which logs may be removed, and what a replay continues from."""

import base64
import hashlib
import json
import pickle
import zlib
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from tests.tools.replay.builder import ALPHA, BETA, healthy
from tests.tools.replay.cutting import past_of
from tests.tools.replay.faults import FAULTS, ready
from triack.base.errors import ReplayError
from triack.tools.replay.checks.findings import Record
from triack.tools.replay.engines.dealing import CHUNK_RECORDS, HELD_RECORDS, Chunk, deal, in_order, unpack_chunk
from triack.tools.replay.engines.local_engine import judge_records, replay_local
from triack.tools.replay.engines.summary import LAYOUT, Summary, decode, encode, load_summaries
from triack.tools.replay.log.files import find_logs
from triack.tools.replay.log.listing import SUMMARY, Listed, Listing

# What a prune leaves: readable, checked, and nothing of it is believed that does not belong there.


@cache
def summary() -> bytes:
    world = healthy()
    world.number()
    records = [*world.alpha.records, *world.beta.records]
    starts = {(it["node"], it["incarnation"]) for it in records}
    segments = [[it for it in records if (it["node"], it["incarnation"]) == start] for start in sorted(starts)]
    return encode(Summary(past_of(segments), ["0" * 64], told={"sent": 7}))


def changed(**parts: Any) -> bytes:
    """A summary in which parts say something else, with the digest of that."""
    lines = [json.loads(line) for line in summary().splitlines()[:-1]]
    for line in lines:
        line.update(parts.get(line.get("part", "head"), {}))
    content = b"".join(json.dumps(line).encode().replace(b'{"summary": ', b'{"summary":') + b"\n" for line in lines)
    return content + b'{"digest":"%s"}\n' % hashlib.sha256(content).hexdigest().encode()


def test_what_was_written_is_read() -> None:
    found = decode(summary())
    assert (found.replaces, found.told) == (["0" * 64], {"sent": 7})
    assert found.past.cuts.keys() == {ALPHA, BETA}
    assert {kept.unit[0] for kept in found.past.kept} == {"session", "stream"}
    again = Summary(found.past, found.replaces, told=found.told)
    assert encode(again).splitlines()[1:-1] == summary().splitlines()[1:-1]


def test_people_can_read_how_far_each_node_had_come() -> None:
    lines = [json.loads(line) for line in summary().splitlines()]
    places = {line["name"]: (line["incarnation"], line["n"]) for line in lines if line.get("part") == "position"}
    assert places == {"alpha": decode(summary()).past.cuts[ALPHA], "beta": decode(summary()).past.cuts[BETA]}


def test_any_changed_character_is_noticed() -> None:
    content = summary()
    for at in range(12, len(content) - 1, 97):
        other = bytes([content[at] ^ 1])
        with pytest.raises(ReplayError):
            decode(content[:at] + other + content[at + 1 :])


@pytest.mark.parametrize("end", [0, 5, 100, 5_000])
def test_a_part_of_one_is_none(end: int) -> None:
    with pytest.raises(ReplayError, match=r"was changed after it was written|is no summary"):
        decode(summary()[:end])


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("owned",)


def one_state(value: object) -> dict[str, Any]:
    """A part with a single state, which is that."""
    state = pickle.dumps(value)
    packed = base64.b64encode(zlib.compress(state)).decode()
    return {"of": [["5e" * 8]], "sizes": [len(state)], "state": packed}


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"head": {"summary": LAYOUT + 1}}, f"is of layout {LAYOUT + 1}, and this version reads layout {LAYOUT}"),
        ({"session": one_state(Evil())}, "print does not belong into it"),
        ({"session": one_state({"a": 1})}, "the state of a session that is none"),
        ({"session": one_state(Path("/etc"))}, "the state of a session that is none"),
        ({"session": {"sizes": []}}, "is no summary of removed logs"),
        ({"stream": {"state": "!"}}, "is no summary of removed logs"),
        ({"stream": {"state": base64.b64encode(zlib.compress(b"x")[:-1]).decode()}}, "a state that does not end"),
        ({"segment": {"value": [1]}}, "is no summary of removed logs"),
        ({"numbers": {"value": 7}}, "is no summary of removed logs"),
    ],
)
def test_what_does_not_belong_there_is_refused(parts: dict[str, Any], reason: str) -> None:
    with pytest.raises(ReplayError, match=reason):
        decode(changed(**parts))


def listing(*paths: Path) -> Listing:
    return Listing(summaries=[Listed(str(path), path.stat().st_size) for path in paths])


def test_one_that_another_holds_is_left_out(tmp_path: Path) -> None:
    old, new = tmp_path / "old" / SUMMARY, tmp_path / SUMMARY
    old.parent.mkdir()
    old.write_bytes(summary())
    past = decode(summary())
    new.write_bytes(encode(Summary(past.past, [past.digest])))
    loaded = load_summaries(listing(old, new))
    assert (list(loaded.digests), loaded.replaced) == ([str(new)], {str(old): past.digest})


def test_one_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / SUMMARY
    path.write_text("{}\n")
    found = listing(path)
    with pytest.raises(ReplayError, match="is no summary of removed logs"):
        load_summaries(found).require(found)
    path.unlink()
    with pytest.raises(ReplayError, match="cannot be read: No such file"):
        load_summaries(Listing(summaries=[Listed(str(path), 1)]))


# Chunks: what is dealt out comes to its judge in order, whatever came between.

STREAM = ("stream", "a1", "1")


def record(n: int, event: str = "queued", node: str = "a") -> Record:
    return {"event": event, "node": node, "incarnation": 1, "n": n}


def opened(chunks: list[Chunk]) -> list[tuple[tuple[str, int, int], list[Record]]]:
    """As Spark brings them: sorted by their places."""
    found = [((chunk.node, chunk.incarnation, chunk.n), unpack_chunk(chunk.data)) for chunk in chunks]
    return sorted(found, key=lambda it: it[0])


def test_a_chunk_is_of_one_unit_and_one_node_and_no_larger_than_it_may_be() -> None:
    records = [record(n, node="ab"[n % 2]) for n in range(2 * CHUNK_RECORDS + 2)]
    chunks = list(deal((STREAM, it) for it in records))
    assert [(chunk.node, chunk.n, len(unpack_chunk(chunk.data))) for chunk in chunks] == [
        ("a", 0, CHUNK_RECORDS), ("b", 1, CHUNK_RECORDS),
        ("a", 2 * CHUNK_RECORDS, 1), ("b", 2 * CHUNK_RECORDS + 1, 1),
    ]  # fmt: skip


def test_what_many_units_hold_back_is_bounded() -> None:
    """Each of them has too little for a chunk of its own."""
    units = HELD_RECORDS // 8
    dealt = ((("session", str(n % units)), record(n)) for n in range(10**9))
    chunks = deal(dealt)
    first = next(chunks)
    assert len(unpack_chunk(first.data)) == 8


def test_facts_find_their_places_between_the_records() -> None:
    """Behind the record that they are about, however the chunks overlap."""
    records = [record(n) for n in range(3 * CHUNK_RECORDS)]
    facts = [record(n, "~acked") for n in range(0, 3 * CHUNK_RECORDS, 7)]
    late = [record(n, "~carried") for n in (5, 5000)]
    chunks = list(chain(*(deal((STREAM, it) for it in some) for some in (records, facts, late))))
    merged = list(chain(*in_order(opened(chunks))))
    wanted = sorted([*records, *facts, *late], key=lambda it: (it["n"], it["event"][0] == "~"))
    assert merged == wanted


def test_records_whose_serials_fall_are_sorted() -> None:
    chunks = list(deal((STREAM, record(n)) for n in (3, 1, 2)))
    assert [it["n"] for it in chain(*in_order(opened(chunks)))] == [1, 2, 3]


# The local engine: files to verdicts, with the place of every violation.


def test_a_violation_names_its_file_and_line(tmp_path: Path) -> None:
    world = ready()
    FAULTS["order_ack_too_early"](world)
    world.save(tmp_path)
    (found,) = [it for it in replay_local(find_logs([tmp_path])).findings if it.check == "order_ack_before_commit"]
    line = Path(found.file).read_text().splitlines()[found.line - 1]
    assert '"event": "order_ack_sent"' in line
    assert f'"wall_ns": {found.wall_ns}' in line


def test_records_in_memory_are_judged_alike(tmp_path: Path) -> None:
    world = ready()
    FAULTS["lost_transactional"](world)
    records = world.all_records()
    world.save(tmp_path)
    one, other = judge_records(records), replay_local(find_logs([tmp_path])).findings
    assert [it.identity for it in one] == [it.identity for it in other]


def test_progress_is_reported(tmp_path: Path) -> None:
    ready().save(tmp_path)
    logs, told = find_logs([tmp_path]), list[str]()
    assert replay_local(logs, told.append) == replay_local(logs)
    assert told == [f"file {at} of {len(logs)}, 0 records of it judged" for at in range(1, len(logs) + 1)]
