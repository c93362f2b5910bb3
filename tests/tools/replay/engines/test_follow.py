"""Logs that grow: the findings while they do are the findings of them afterwards."""

import hashlib
import heapq
import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from tests.machine import PATIENCE_S
from tests.tools.processes import wait_until
from tests.tools.replay.builder import CLASS_STREAMS, MS, World, close_segments, healthy
from tests.tools.replay.faults import faulty
from tests.tools.replay.judging import PLANTED, plant
from triack.base.errors import ReplayError
from triack.tools.chaos.drawing import draw
from triack.tools.chaos.run import run_plan
from triack.tools.replay.engines import checkpoint
from triack.tools.replay.engines import follow as module
from triack.tools.replay.engines.checkpoint import load, save
from triack.tools.replay.engines.follow import Follower, follow
from triack.tools.replay.judges.judge import Judge
from triack.tools.replay.log.files import parse_records
from triack.tools.replay.log.listing import Listed, Listing, complete, list_growing
from triack.tools.replay.log.schema import Timeline, Violation
from triack.tools.replay.run import replay

REAL_SEED = 5
"""A simulated world in which every promise is kept, and no clock is wrong."""


def growing(world: World, directory: Path, step: int) -> Iterator[None]:
    """Write the logs of a world in the order of time, ``step`` records at a time; a segment is renamed at its end."""
    records = list(heapq.merge(*(log.records for log in world.logs), key=lambda it: it["wall_ns"]))
    directory.mkdir(exist_ok=True)
    halves = {id(record) for record in records[: len(records) // 2]}
    for at in range(0, len(records), step):
        for record in records[at : at + step]:
            first = id(record) in halves
            path = directory / f"{record['node'][:4]}-{record['incarnation']:06}-{1 if first else 2:06}.jsonl.open"
            if not first and (before := path.with_name(path.name.replace("-000002.", "-000001."))).exists():
                before.rename(before.with_suffix(""))
            with path.open("a") as file:
                file.write(json.dumps(record) + "\n")
        yield


def lines_growing(files: dict[str, bytes], directory: Path, step: int) -> Iterator[None]:
    """Write logs of real nodes in the order of time, ``step`` lines at a time."""
    lines = [
        (record["wall_ns"], name, line)
        for name, data in files.items()
        for record, line in zip(parse_records(data), data.splitlines(keepends=True), strict=True)
    ]
    lines.sort(key=itemgetter(0))
    directory.mkdir(exist_ok=True)
    for at in range(0, len(lines), step):
        for _, name, line in lines[at : at + step]:
            with (directory / f"{name}.open").open("ab") as file:
                file.write(line)
        yield


def told_of(world: World, directory: Path, step: int = 7, checkpoint: Path | None = None) -> set[tuple[object, ...]]:
    """The findings of a world while it goes on; with a checkpoint each look is that of another process."""
    return told_while(growing(world, directory, step), directory, checkpoint)


def told_while(pieces: Iterator[None], directory: Path, checkpoint: Path | None = None) -> set[tuple[object, ...]]:
    """The findings while logs are written piece by piece."""
    follower, told = Follower([directory]), list[Violation]()
    for _ in pieces:
        assert follower.read()
        told += follower.news()[0]
        if checkpoint is not None:
            save(checkpoint, follower)
            kept = load(checkpoint, Follower)
            assert kept is not None
            assert kept.is_of([directory])
            follower = kept
    assert len({it.identity for it in told}) == len(told), "told twice"
    said = replay(directory, engine="local")
    assert follower.verdict() == said
    return {it.identity for it in told}


@pytest.mark.gate
def test_a_log_that_grows_is_not_accused(tmp_path: Path) -> None:
    """At no moment, though most of what is promised is still to come."""
    world = healthy()
    world.number()
    assert told_of(world, tmp_path) == set()


@pytest.mark.parametrize("name", [name for name in PLANTED if name != "records_missing"])
def test_all_is_reported_that_is_found_afterwards(tmp_path: Path, name: str) -> None:
    """Whatever is wrong; and the verdict is that of the batch, with all its numbers."""
    told = told_of(plant(name)[0], tmp_path, step=23)
    assert told >= {it.identity for it in replay(tmp_path, engine="local").findings} != set()


@pytest.mark.parametrize("name", ["order_ack_too_early", "lost_transactional", "handed_twice"])
def test_a_restart_goes_on_where_it_was(tmp_path: Path, name: str) -> None:
    """Nothing is reported again, nothing is missed, and the verdict is the same."""
    world, logs = plant(name)[0], tmp_path / "logs"
    logs.mkdir()
    told = told_of(world, logs, step=40, checkpoint=tmp_path / "kept")
    assert told == {it.identity for it in replay(logs, engine="local").findings} != set()


@pytest.mark.gate
def test_lines_of_real_nodes_go_on_after_a_restart(tmp_path: Path) -> None:
    """They refer to what lines before them say, which each process has from the one before it."""
    logs, files = tmp_path / "logs", run_plan(draw(REAL_SEED)).logs
    assert b"\n[" in b"".join(files.values())
    assert told_while(lines_growing(files, logs, 100), logs, tmp_path / "kept") == set()
    assert replay(logs, engine="local").verdict == "pass"


def test_logs_that_were_exchanged_are_read_anew(tmp_path: Path) -> None:
    """What is not the same as it was when it was judged."""
    healthy().save(tmp_path)
    kept = Follower([tmp_path])
    kept.read()
    assert kept.is_of([tmp_path])
    assert not kept.is_of([tmp_path / "beta"])
    (log,) = tmp_path.glob("beta/*-000002-000002.jsonl.open")
    log.rename(log.with_suffix(""))
    assert kept.is_of([tmp_path])
    log.with_suffix("").write_text("{}\n")
    assert not kept.is_of([tmp_path])


@pytest.mark.gate
def test_a_start_that_is_found_late_is_judged_in_its_place(tmp_path: Path) -> None:
    healthy().save(tmp_path / "logs")
    late = tmp_path / "late"
    for log in (tmp_path / "logs" / "beta").glob("*-000001-*"):
        late.mkdir(exist_ok=True)
        log.rename(late / log.name)
    follower = Follower([tmp_path / "logs"])
    follower.read()
    follower.news()
    for log in late.iterdir():
        log.rename(tmp_path / "logs" / "beta" / log.name)
    assert follower.read()
    assert follower.verdict() == replay(tmp_path / "logs", engine="local")
    assert follower.verdict().verdict == "pass"


@pytest.mark.slow
def test_what_is_settled_takes_no_memory(tmp_path: Path) -> None:
    """One session after the other: of those that are over some numbers are kept, and of 30 KB of messages nothing."""
    kept = []
    for sessions in (5, 20):
        world = World()
        world.alpha.start()
        world.beta.start()
        for _ in range(sessions):
            world.clock.tick(100_000 * MS)
            world.open()
            for cls in CLASS_STREAMS:
                world.deliver(cls, 30)
            world.close()
        world.number()
        logs = tmp_path / str(sessions)
        told_of(world, logs, step=500)
        follower = Follower([logs])
        follower.read()
        assert follower.news()[0] == []
        kept.append(len(pickle.dumps(follower)))
    assert kept[1] - kept[0] < 15 * 1_500


def test_a_record_of_what_was_forgotten_is_judged_all_the_same(tmp_path: Path) -> None:
    """An end speaks long after its goodbye."""
    world = World()
    world.alpha.start()
    world.beta.start()
    for _ in range(3):
        world.open()
        world.deliver("transactional", 3)
        world.close()
        world.clock.tick(100_000 * MS)
    late: dict[str, Any] = {
        **world.beta.one("ack_sent"),
        "at_ns": world.clock.now_ns,
        "wall_ns": world.beta.records[-1]["wall_ns"],
    }
    late["wall_ns"] += late["at_ns"] - world.beta.records[-1]["at_ns"]
    received = world.beta.one("packet_received", session=late["session"], number=1)
    world.beta.records.append({**received, "at_ns": late["at_ns"], "wall_ns": late["wall_ns"], "duplicate": True})
    world.number()
    told = told_of(world, tmp_path, step=9)
    assert [found[0] for found in told] == ["silent_end"]


def test_what_was_read_too_early_is_looked_at_again(tmp_path: Path) -> None:
    """One node's log is read, then both go on, then the other's is read: what arrived seems never to have left."""
    healthy().save(tmp_path)
    (log,) = tmp_path.glob("alpha/*-000001-000002.jsonl.open")
    whole = log.read_text()
    for rest, accused in (("", True), (whole[len(whole) // 2 :], False)):
        log.write_text(whole[: len(whole) // 2].rpartition("\n")[0] + "\n")
        follower = Follower([tmp_path])
        follower.read()
        if rest:
            log.write_text(whole)
        assert bool(follower.news()[0]) == accused


def test_half_a_line_waits_for_its_end(tmp_path: Path) -> None:
    healthy().save(tmp_path)
    (log,) = tmp_path.glob("beta/*-000002-000002.jsonl.open")
    whole = log.read_text()
    log.write_text(whole[:-9])
    follower = Follower([tmp_path])
    assert follower.read()
    assert not follower.read()
    log.write_text(whole)
    assert follower.read()
    assert follower.news()[0] == []


def test_damage_ends_it(tmp_path: Path) -> None:
    healthy().save(tmp_path)
    (log,) = tmp_path.glob("beta/*-000001-000002.jsonl.open")
    with log.open("a") as file:
        file.write("{nonsense\n")
    with pytest.raises(ReplayError, match=r"beta-000001-000002\.jsonl\.open line \d+ is damaged"):
        follow([tmp_path], lambda violation, timeline: None)


def test_a_segment_may_be_renamed_or_removed_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A renamed one is read at once, and what is damaged in it is reported; one that is gone ends nothing."""
    healthy().save(tmp_path / "logs")
    (log,) = tmp_path.glob("logs/beta/*-000002-000002.jsonl.open")
    late: list[Listed] = []

    def listing(paths: list[Path], known: set[str]) -> Listing:
        found = list_growing(paths, known)
        found.logs += late
        close_segments(tmp_path)
        return found

    monkeypatch.setattr(module, "list_growing", listing)
    follower = Follower([tmp_path / "logs"])
    assert follower.read()
    judged, wanted = follower.verdict(), replay(tmp_path / "logs", engine="local")
    assert [*map(complete, judged.files)] == [*wanted.files]
    judged.files = wanted.files
    assert judged == wanted
    late.append(Listed(str(tmp_path / "logs" / "gone.jsonl.open"), 7))
    assert not follower.read()
    log.with_suffix("").rename(log)
    with log.open("a") as file:
        file.write("{nonsense\n")
    with pytest.raises(ReplayError, match=r"line \d+ is damaged"):
        follower.read()


def test_a_single_segment_is_followed_to_its_end(tmp_path: Path) -> None:
    healthy().save(tmp_path)
    (log,) = tmp_path.glob("beta/*-000001-000002.jsonl.open")
    follower = Follower([log])
    assert follower.read()
    close_segments(tmp_path)
    assert not follower.read()


def test_what_was_read_may_be_packed(tmp_path: Path) -> None:
    """By whatever rotates files, while they are followed."""
    healthy().save(tmp_path)
    follower = Follower([tmp_path])
    assert follower.read()
    before = follower.verdict()
    for path in tmp_path.glob("alpha/*.jsonl"):
        path.rename(f"{path}.gz")
    assert not follower.read()
    assert follower.verdict() == before


def test_silence_ends_it(tmp_path: Path) -> None:
    """Nodes have their names while they are followed, too."""
    faulty("order_ack_too_early").save(tmp_path)
    told: list[tuple[str, Timeline]] = []
    follow([tmp_path], lambda violation, timeline: told.append((violation.check, timeline)), until_idle_s=0.1)
    assert told[0][0] == "order_ack_before_commit"
    assert set(told[0][1].names.values()) == {"alpha", "beta"}


@pytest.mark.slow
def test_one_terminal_sees_what_another_writes(tmp_path: Path) -> None:
    """The directory is empty at first; a violation is seen while the logs grow, and Ctrl-C gives the verdict.

    A process that is killed in between is followed by one that goes on where it was.
    """
    logs = tmp_path / "logs"
    logs.mkdir()
    command = [sys.executable, "-m", "triack", "replay", str(logs), "--follow", "--checkpoint", str(tmp_path / "kept")]
    command += ["--until-idle", str(PATIENCE_S)]  # it ends, whatever happens here
    world = plant("order_ack_too_early")[0]
    pieces = growing(world, logs, 5)
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=dict(os.environ)) as killed:
        for _ in range(2):
            next(pieces)
        wait_until((tmp_path / "kept").exists, "a checkpoint is there")
        killed.kill()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) as process:
        assert process.stdout is not None
        for _ in pieces:
            pass
        assert "order_ack_before_commit: node beta" in process.stdout.readline()
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert "FAIL" in out


# A checkpoint is kept whole or not at all, and nothing in its file is run.


def judged() -> Judge:
    judge = Judge()
    world = healthy()
    world.number()
    for log in world.logs:
        judge.read(log.name, log.records)
    return judge


def test_what_is_kept_is_there_again(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    assert load(path, Judge) is None
    save(path, judged())
    kept = load(path, Judge)
    assert kept is not None
    assert kept.finish() == judged().finish()
    assert [it.name for it in tmp_path.iterdir()] == ["kept"]


def test_another_version_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kept"
    save(path, judged())
    monkeypatch.setattr(checkpoint, "_HEAD", b"triack replay checkpoint, version 99\n")
    assert load(path, Judge) is None


@pytest.mark.parametrize(("data", "said"), [(b"", "no checkpoint"), (b"something else\n", "no checkpoint")])
def test_another_file_is_refused(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "kept"
    path.write_bytes(data)
    with pytest.raises(ReplayError, match=said):
        load(path, Judge)


@pytest.mark.parametrize("data", [b"", b"\x80\x05", b"\x80\x05.", b"\x80\x05h\x00.", b"\x80\x05]]s.", b"\x80\x05]}b."])
def test_a_state_that_nobody_wrote_is_refused(tmp_path: Path, data: bytes) -> None:
    """Under a digest that fits."""
    path = tmp_path / "kept"
    save(path, judged())
    head, newline, _ = path.read_bytes().partition(b"\n")
    path.write_bytes(head + newline + hashlib.sha256(data).digest() + data)
    with pytest.raises(ReplayError, match="kept is no checkpoint of triack replay: "):
        load(path, Judge)


def test_damage_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    save(path, judged())
    data = bytearray(path.read_bytes())
    data[-9] ^= 1
    path.write_bytes(data)
    with pytest.raises(ReplayError, match="damaged"):
        load(path, Judge)
    with pytest.raises(ReplayError, match="cannot read"):
        load(tmp_path, Judge)
    with pytest.raises(ReplayError, match="cannot write"):
        save(tmp_path / "nowhere" / "kept", judged())


class Runs:
    """What a forger would put in."""

    def __reduce__(self) -> tuple[object, ...]:
        return print, ("it ran",)


@pytest.mark.parametrize("state", [Runs(), [judged, "x"], Judge, 7])
def test_nothing_in_it_runs(tmp_path: Path, state: object, capsys: pytest.CaptureFixture[str]) -> None:
    """Only plain data and replay's own classes are taken, and only as what is asked for."""
    path = tmp_path / "kept"
    save(path, state)
    with pytest.raises(ReplayError, match="no checkpoint"):
        load(path, Judge)
    assert capsys.readouterr().out == ""


def test_names_with_dots_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They reach from a module of ours to anything."""
    path = tmp_path / "kept"
    monkeypatch.setattr(
        pickle, "dumps", lambda state, protocol: b"\x80\x04\x8c\x17triack.tools.replay.run\x8c\x09os.system\x93."
    )
    save(path, judged())
    with pytest.raises(ReplayError, match=r"run\.os\.system does not belong"):
        load(path, Judge)


def test_what_another_user_may_have_written_is_not_believed(tmp_path: Path) -> None:
    """It would say what was found before."""
    path = tmp_path / "kept"
    save(path, judged())
    path.chmod(0o666)
    with pytest.raises(ReplayError, match=f"cannot read {path}: others may write to {path} "):
        load(path, Judge)
