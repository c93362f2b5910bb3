"""What a prune leaves: readable, checked, and nothing of it is believed that does not belong there."""

import base64
import hashlib
import json
import pickle
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.tools.replay.builder import ALPHA, BETA, healthy
from tests.tools.replay.cutting import past_of
from triack.base.errors import ReplayError
from triack.tools.replay.engines.summary import LAYOUT, Summary, decode, encode, load_summaries
from triack.tools.replay.log.listing import SUMMARY, Listed, Listing


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
