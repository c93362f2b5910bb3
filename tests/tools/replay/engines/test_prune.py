"""Old segments are removed, and a replay of what is left says what it said before."""

import base64
import errno
import hashlib
import json
import os
import pickle
import zlib
from functools import cache
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

from proof.lies.logs import honest_logs
from tests.tools.replay.builder import ALPHA, BETA, healthy, ready
from tests.tools.replay.cutting import Segments, cut, past_of, random_cuts, told, write_segments
from tests.tools.replay.faults import faulty
from triack.base.errors import ReplayError
from triack.store.folder import sync_folder
from triack.tools.replay.engines.local_engine import judge_records, replay_local
from triack.tools.replay.engines.prune import Pruned, prune
from triack.tools.replay.engines.summary import LAYOUT, Summary, decode, encode, load_summaries
from triack.tools.replay.judges.past import Kept, Past
from triack.tools.replay.log.compact import compact
from triack.tools.replay.log.files import LogFile, find_logs
from triack.tools.replay.log.listing import SUMMARY, Listed, Listing
from triack.tools.replay.log.schema import Verdict
from triack.tools.replay.run import replay

PRUNING = "triack.tools.replay.engines.prune"
ALL = 1 << 62
"""A time before which every segment ended that another one follows."""


class Killed(BaseException):
    """The process ends here."""


def write_logs(folder: Path) -> list[Path]:
    return write_segments(honest_segments(), folder)


@cache
def honest_segments() -> Segments:
    """An honest log of two nodes, each of which has something to remove and something to keep."""
    for _, log in honest_logs(4):
        nodes = {start[0] for start in log}
        for seed in range(20 if len(nodes) == 2 else 0):
            before, behind = cut([record for start in log.values() for record in start], random_cuts(log, Random(seed)))
            if nodes == {it[0]["node"] for it in before} == {it[0]["node"] for it in behind}:
                return [*before, *behind]
    raise AssertionError("no log that two nodes wrote in several segments")


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    write_logs(folder)
    return folder


@pytest.fixture
def whole(logs: Path) -> dict[str, Any]:
    verdict = told(replay([logs], engine="local"))
    assert verdict["verdict"] == "pass"
    return verdict


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*.jsonl*")}


def change(path: Path, event: str, field: str) -> None:
    """Raise a number of the last record of an event by 1."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    last = next(line for line in reversed(lines) if line["event"] == event)
    last[field] += 1
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def having(folder: Path, event: str) -> Path:
    return next(path for path in sorted(folder.rglob("*.jsonl")) if f'"event": "{event}"' in path.read_text())


@pytest.mark.gate
def test_replays_say_the_same_after_a_prune(logs: Path, whole: dict[str, Any]) -> None:
    """And a second one goes on from the first."""
    before = names(logs)
    nodes = {json.loads(path.read_text().splitlines()[0])["node"] for path in logs.glob("*.jsonl")}
    for node in sorted(nodes):
        done = prune(logs, ALL, nodes=[node])
        assert {path.name for path in done.removed} == before - names(logs) != set()
        before = names(logs)
        assert told(replay([logs], engine="local")) == whole
    assert prune(logs, ALL).removed == []
    assert told(replay([logs], engine="local")) == whole


def test_a_changed_record_in_what_is_left_is_found(logs: Path, whole: dict[str, Any]) -> None:
    prune(logs, ALL)
    change(having(logs, "packet_sent"), "packet_sent", "packet")
    verdict = replay([logs], engine="local")
    assert whole["verdict"] == "pass" != verdict.verdict == "fail"


def test_without_the_summary_nothing_is_proved_and_nobody_accused(logs: Path) -> None:
    prune(logs, ALL)
    (logs / SUMMARY).unlink()
    verdict = replay([logs], engine="local")
    assert (verdict.verdict, verdict.violations) == ("incomplete", {})
    assert verdict.missing


def test_a_changed_summary_is_refused_by_name(logs: Path) -> None:
    path = prune(logs, ALL).summary
    assert path is not None
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"state":"', b'"State":"'))
    verdict = replay([logs], engine="local")
    assert verdict.verdict == "incomplete"
    assert "changed after it was written" in verdict.unread[str(path)]
    with pytest.raises(ReplayError, match="changed after it was written"):
        prune(logs, ALL)


def test_what_breaks_a_promise_is_kept_as_evidence(logs: Path) -> None:
    change(having(logs, "packet_sent"), "packet_sent", "packet")
    before = names(logs)
    done = prune(logs, ALL)
    assert done.refused
    assert done.verdict is not None
    assert (bool(done.verdict.violations), names(logs)) == (True, before)
    assert not prune(logs, ALL, accept=True).refused
    assert replay([logs], engine="local").verdict == "fail"


def test_a_dry_run_changes_nothing_and_young_segments_stay(logs: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in logs.rglob("*")}
    assert prune(logs, ALL, dry_run=True).removed
    assert {path: path.stat().st_mtime_ns for path in logs.rglob("*")} == before
    assert prune(logs, 0).removed == []


def kill_at(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Let the process die just before its n-th change of the disk, or in the midst of a write."""
    steps = count()

    def stepping(name: str, real: Any) -> Any:
        def act(*args: Any, **kwargs: Any) -> Any:
            if next(steps) == step:
                raise Killed(name)
            return real(*args, **kwargs)

        return act

    for name in ("unlink", "replace"):
        monkeypatch.setattr(Path, name, stepping(name, getattr(Path, name)))
    for name in ("open", "fsync"):
        monkeypatch.setattr(os, name, stepping(name, getattr(os, name)))
    monkeypatch.setattr(f"{PRUNING}.sync_folder", stepping("sync", sync_folder))


@pytest.mark.slow
def test_a_kill_at_any_step_loses_nothing_and_the_next_run_goes_on(tmp_path: Path) -> None:
    for step in count():
        folder = tmp_path / str(step)
        write_logs(folder)
        whole = told(replay([folder], engine="local"))
        with pytest.MonkeyPatch.context() as monkeypatch:
            kill_at(monkeypatch, step)
            try:
                prune(folder, ALL)
                break
            except Killed:
                pass
        assert told(replay([folder], engine="local")) == whole
        prune(folder, ALL)
        assert told(replay([folder], engine="local")) == whole
        assert prune(folder, ALL).removed == []
    assert step > 6


def test_a_full_disk_loses_nothing(logs: Path, whole: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = names(logs)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(ReplayError, match="nothing was removed: No space left"):
            prune(logs, ALL)
    assert names(logs) == before
    assert not list(logs.glob(f"{SUMMARY}*"))
    prune(logs, ALL)
    assert told(replay([logs], engine="local")) == whole


def test_a_file_that_cannot_be_removed_is_named_and_does_no_harm(
    logs: Path, whole: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.unlink

    def refused(path: Path, *, missing_ok: bool = False) -> None:
        if path.suffix == ".jsonl":
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(path))
        real(path, missing_ok=missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refused)
        with pytest.raises(ReplayError, match=r"cannot remove .*\.jsonl: Operation not permitted; .*next run"):
            prune(logs, ALL)
    assert told(replay([logs], engine="local")) == whole
    assert prune(logs, ALL).removed
    assert told(replay([logs], engine="local")) == whole


def test_two_runs_at_once_do_not_meet(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def meanwhile(summary: Any) -> bytes:
        with pytest.raises(ReplayError, match="another run prunes"):
            prune(logs, ALL)
        return encode(summary)

    monkeypatch.setattr(f"{PRUNING}.encode", meanwhile)
    assert prune(logs, ALL).removed


def test_a_node_that_writes_meanwhile_keeps_its_last_segment(logs: Path) -> None:
    last = max(logs.glob("*.jsonl"))
    last.rename(last.with_name(last.name + ".open"))
    prune(logs, ALL)
    assert any(name.endswith(".open") for name in names(logs))


def test_summaries_of_two_directories_are_one_after_a_prune_of_both(tmp_path: Path) -> None:
    for path in write_logs(tmp_path / "logs"):
        (tmp_path / "logs" / path.name[:8]).mkdir(exist_ok=True)
        path.rename(tmp_path / "logs" / path.name[:8] / path.name)
    logs = tmp_path / "logs"
    whole = told(replay([logs], engine="local"))
    for folder in sorted(logs.iterdir()):
        prune(folder, ALL)
    assert len(list(logs.rglob(SUMMARY))) == 2
    assert told(replay([logs], engine="local")) == whole
    # Another segment each, so that there is something to remove.
    done = prune_last(logs)
    assert [path.parent for path in logs.rglob(SUMMARY)] == [logs]
    assert done.summary == logs / SUMMARY
    assert told(replay([logs], engine="local")) == whole


def prune_last(logs: Path) -> Pruned:
    """Cut the last segment of each node in two, and prune the first half."""
    for path in sorted(logs.rglob("*.jsonl")):
        lines = path.read_text().splitlines(keepends=True)
        if len(lines) > 4:
            half = len(lines) // 2
            (path.parent / f"{path.stem}a.jsonl").write_text("".join(lines[:half]))
            (path.parent / f"{path.stem}b.jsonl").write_text("".join(lines[half:]))
            path.unlink()
    return prune(logs, ALL)


def test_two_summaries_of_one_node_are_refused(logs: Path, tmp_path: Path) -> None:
    path = prune(logs, ALL).summary
    assert path is not None
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / SUMMARY).write_bytes(path.read_bytes())
    verdict: Verdict = replay([logs, tmp_path / "copy"], engine="local")
    assert verdict.verdict == "incomplete"
    assert any("give only one" in why for why in verdict.unread.values())


@pytest.mark.gate
def test_copies_of_logs_are_not_pruned(logs: Path) -> None:
    compact(logs, logs.parent / "compact")
    (part,) = (logs.parent / "compact").rglob("*.parquet")
    part.rename(logs / part.name)
    with pytest.raises(ReplayError, match="is a copy of logs"):
        prune(logs, ALL)


@pytest.mark.parametrize("when", ["before", "after"])
def test_compacted_logs_have_the_summary(logs: Path, whole: dict[str, Any], when: str) -> None:
    output = logs.parent / "compact"
    if when == "before":
        compact(logs, output)
    prune(logs, ALL)
    compact(logs, output)
    assert told(replay([output], engine="local")) == whole


def test_a_node_that_is_not_there_is_named(logs: Path) -> None:
    name = json.loads(having(logs, "node_started").read_text().splitlines()[0])["name"]
    with pytest.raises(ReplayError, match=rf"there is no log of a node {name}x; .*{name}"):
        prune(logs, ALL, nodes=[f"{name}x"])
    assert prune(logs, ALL, nodes=["0" * 32]).removed == []
    assert prune(logs, ALL, nodes=[name]).removed


# What a prune leaves: readable, checked, and nothing of it is believed that does not belong there.


@cache
def summary() -> bytes:
    world = healthy()
    world.number()
    records = [*world.alpha.records, *world.beta.records]
    starts = {(it["node"], it["incarnation"]) for it in records}
    segments = [[it for it in records if (it["node"], it["incarnation"]) == start] for start in sorted(starts)]
    return encode(Summary(past_of(segments), ["0" * 64], told={"sent": 7}))


def changed(at: int, **parts: Any) -> bytes:
    """A summary in which a line says something else, with the digest of that."""
    lines = [json.loads(line) for line in summary().splitlines()[:-1]]
    lines[at].update(parts)
    content = b"".join(json.dumps(line).encode().replace(b'{"summary": ', b'{"summary":') + b"\n" for line in lines)
    return content + b'{"digest":"%s"}\n' % hashlib.sha256(content).hexdigest().encode()


def test_what_was_written_is_read() -> None:
    """People can read how far each node had come, too."""
    found = decode(summary())
    assert (found.replaces, found.told) == (["0" * 64], {"sent": 7})
    assert {kept.unit[0] for kept in found.past.kept} == {"session", "stream", "queue", "sending"}
    again = Summary(found.past, found.replaces, told=found.told)
    assert decode(encode(again)).past == found.past
    lines = [json.loads(line) for line in summary().splitlines()[1:-1]]
    places = {line["name"]: (line["incarnation"], line["n"]) for line in lines}
    assert found.past.cuts == {ALPHA: places["alpha"], BETA: places["beta"]}


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


def packed(value: object) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(value))).decode()


def with_kept(state: object) -> Past:
    """What is known of a node, of which a judge is that."""
    return Past(kept=[Kept(("session", "5e" * 8), ALPHA, pickle.dumps(state))])


@pytest.mark.parametrize(
    ("at", "parts", "reason"),
    [
        (0, {"summary": LAYOUT + 1}, f"is of layout {LAYOUT + 1}, and this version reads layout {LAYOUT}"),
        (1, {"state": packed(Evil())}, "print does not belong into it"),
        (1, {"state": packed({"a": 1})}, "a dict, and no Past"),
        (1, {"state": packed(Path("/etc"))}, "a PosixPath, and no Past"),
        (1, {"state": packed(LogFile(Path("/etc")))}, "LogFile does not belong into it"),
        (1, {"state": packed(with_kept(Evil()))}, "print does not belong into it"),
        (1, {"state": packed(with_kept({"a": 1}))}, "the state of a node that is none"),
        (1, {"state": packed(Past(segments=[1]))}, "the state of a node that is none"),  # type: ignore[list-item]
        (1, {"state": packed(Past(kept=7))}, "is no summary of removed logs"),  # type: ignore[arg-type]
        (1, {"state": "!"}, "is no summary of removed logs"),
        (1, {"state": base64.b64encode(zlib.compress(b"x")[:-1]).decode()}, "a state that does not end"),
    ],
)
def test_what_does_not_belong_there_is_refused(at: int, parts: dict[str, Any], reason: str) -> None:
    with pytest.raises(ReplayError, match=reason):
        decode(changed(at, **parts))


def listed(path: Path) -> Listed:
    return Listed(str(path), path.stat().st_size)


def test_one_that_another_holds_is_left_out(tmp_path: Path) -> None:
    old, new = tmp_path / "old" / SUMMARY, tmp_path / SUMMARY
    old.parent.mkdir()
    old.write_bytes(summary())
    known = decode(summary())
    new.write_bytes(encode(Summary(known.past, [known.digest])))
    loaded = load_summaries(Listing(summaries=[listed(old), listed(new)]))
    assert (list(loaded.digests), loaded.replaced) == ([str(new)], {str(old): known.digest})


def test_one_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / SUMMARY
    path.write_text("{}\n")
    found = Listing(summaries=[listed(path)])
    with pytest.raises(ReplayError, match="is no summary of removed logs"):
        load_summaries(found).require(found)
    path.unlink()
    with pytest.raises(ReplayError, match="cannot be read: No such file"):
        load_summaries(Listing(summaries=[Listed(str(path), 1)]))


# The local engine: files to verdicts, with the place of every violation.


def test_a_violation_names_its_file_and_line(tmp_path: Path) -> None:
    faulty("order_ack_too_early").save(tmp_path)
    (found,) = [it for it in replay_local(find_logs([tmp_path])).findings if it.check == "order_ack_before_commit"]
    record = json.loads(Path(found.file).read_text().splitlines()[found.line - 1])
    assert (record["event"], record["wall_ns"]) == ("order_ack_sent", found.wall_ns)


def test_records_in_memory_are_judged_alike(tmp_path: Path) -> None:
    world = faulty("lost_transactional")
    records = world.all_records()
    world.save(tmp_path)
    one, other = judge_records(records), replay_local(find_logs([tmp_path])).findings
    assert [it.identity for it in one] == [it.identity for it in other]


def test_progress_is_reported(tmp_path: Path) -> None:
    ready().save(tmp_path)
    logs, told = find_logs([tmp_path]), list[str]()
    assert replay_local(logs, told.append) == replay_local(logs)
    assert told == [f"file {at} of {len(logs)}, 0 records of it judged" for at in range(1, len(logs) + 1)]
