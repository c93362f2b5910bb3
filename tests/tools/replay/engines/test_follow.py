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
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import pytest

from tests.machine import PATIENCE_S
from tests.tools.processes import wait_until
from tests.tools.replay.builder import MS, World, close_segments, fit, healthy
from tests.tools.replay.faults import TX, faulty
from tests.tools.replay.judging import PLANTED, plant
from tests.tools.replay.telling import happens
from triack.base.errors import ReplayError
from triack.base.session_log import COMMON
from triack.tools.chaos.drawing import draw
from triack.tools.chaos.run import run_plan
from triack.tools.replay.engines import checkpoint
from triack.tools.replay.engines import follow as module
from triack.tools.replay.engines.checkpoint import load, save
from triack.tools.replay.engines.follow import Follower, follow
from triack.tools.replay.engines.local_engine import judge_segments
from triack.tools.replay.judges.judge import Judge
from triack.tools.replay.log.files import parse_records
from triack.tools.replay.log.listing import Listed, Listing, complete, list_growing
from triack.tools.replay.log.schema import Timeline, Violation
from triack.tools.replay.run import replay

REAL_SEED = 5
"""A simulated world in which every promise is kept, and no clock is wrong."""


def growing(world: World, directory: Path, step: int) -> Iterator[None]:
    """Write the logs of a world in the order of time, ``step`` records at a time; a segment is renamed at its end."""
    records = list(heapq.merge(*(log.records for log in world.logs), key=itemgetter("wall_ns")))
    directory.mkdir(exist_ok=True)
    for begin in range(0, len(records), step):
        for at, record in enumerate(records[begin : begin + step], begin):
            stem = f"{record['node'][:4]}-{record['incarnation']:06}"
            before, path = (directory / f"{stem}-00000{part}.jsonl.open" for part in (1, 2))
            if at < len(records) // 2:
                path = before
            elif before.exists():
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
    directory.mkdir(exist_ok=True)
    for at, (_, name, line) in enumerate(sorted(lines, key=itemgetter(0)), 1):
        with (directory / f"{name}.open").open("ab") as file:
            file.write(line)
        if at in (len(lines), at // step * step):
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
    _, beta = healthy().save(tmp_path / "logs")
    (late := tmp_path / "late").mkdir()
    for log in beta.glob("*-000001-*"):
        log.rename(late / log.name)
    follower = Follower([tmp_path / "logs"])
    follower.read()
    follower.news()
    for log in late.iterdir():
        log.rename(beta / log.name)
    assert follower.read()
    assert follower.verdict() == replay(tmp_path / "logs", engine="local")
    assert follower.verdict().verdict == "pass"


@pytest.mark.slow
def test_what_is_settled_takes_no_memory(tmp_path: Path) -> None:
    """One session after the other: of those that are over some numbers are kept, and of 30 KB of messages nothing."""
    kept = []
    for sessions in (5, 20):
        world = happens(
            "close;" + "wait 100000; open; deliver tx 30; deliver kept 30; deliver fast 30; close;" * sessions
        )
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
    world = happens(
        "deliver tx 3; close; wait 100000; open; deliver tx 3; close; wait 100000; open; deliver tx 3; close"
    )
    received = fit(world.beta.one("packet_received"))
    again = {name: value for name, value in received.items() if name not in (*COMMON, "class")}
    world.clock.tick(100_000 * MS)
    world.beta.write("packet_received", cls=TX, **{**again, "duplicate": True})
    world.number()
    assert [found[0] for found in told_of(world, tmp_path, step=9)] == ["silent_end"]


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


NONSENSE = "{nonsense\n"


def test_damage_ends_it(tmp_path: Path) -> None:
    healthy().save(tmp_path)
    (log,) = tmp_path.glob("beta/*-000001-000002.jsonl.open")
    log.write_text(log.read_text() + NONSENSE)
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
    log.write_text(log.read_text() + NONSENSE)
    with pytest.raises(ReplayError, match=r"line \d+ is damaged"):
        follower.read()


def test_a_single_segment_is_followed_to_its_end_and_what_was_read_may_be_packed(tmp_path: Path) -> None:
    """By whatever rotates files, while they are followed."""
    healthy().save(tmp_path)
    (log,) = tmp_path.glob("beta/*-000001-000002.jsonl.open")
    one, both = Follower([log]), Follower([tmp_path])
    assert (one.read(), both.read()) == (True, True)
    before = both.verdict()
    for path in tmp_path.glob("alpha/*.jsonl"):
        path.rename(f"{path}.gz")
    assert not both.read()
    assert both.verdict() == before
    close_segments(tmp_path)
    assert not one.read()


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


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A file in which a judge is kept."""
    save(tmp_path / "kept", judged())
    return tmp_path / "kept"


def judged() -> Judge:
    records = healthy().all_records()
    return judge_segments(
        lambda: [("", 1, list(mine)) for _, mine in groupby(records, key=itemgetter("node", "incarnation"))]
    )


def test_what_is_kept_is_there_again(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole, and alone in its folder. One of another version is not taken, and where there is none there is none."""
    again = load(kept, Judge)
    assert again is not None
    assert again.finish() == judged().finish()
    assert [it.name for it in kept.parent.iterdir()] == ["kept"]
    assert load(kept.with_name("none"), Judge) is None
    monkeypatch.setattr(checkpoint, "_HEAD", b"triack replay checkpoint, version 99\n")
    assert load(kept, Judge) is None


@pytest.mark.parametrize("data", [b"", b"something else\n"])
def test_another_file_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "kept").write_bytes(data)
    with pytest.raises(ReplayError, match="no checkpoint"):
        load(tmp_path / "kept", Judge)


@pytest.mark.parametrize("data", [b"", b"\x80\x05", b"\x80\x05.", b"\x80\x05h\x00.", b"\x80\x05]]s.", b"\x80\x05]}b."])
def test_a_state_that_nobody_wrote_is_refused(kept: Path, data: bytes) -> None:
    """Under a digest that fits."""
    head, newline, _ = kept.read_bytes().partition(b"\n")
    kept.write_bytes(head + newline + hashlib.sha256(data).digest() + data)
    with pytest.raises(ReplayError, match="kept is no checkpoint of triack replay: "):
        load(kept, Judge)


def test_damage_is_reported(kept: Path) -> None:
    data = bytearray(kept.read_bytes())
    data[-9] ^= 1
    kept.write_bytes(data)
    with pytest.raises(ReplayError, match="damaged"):
        load(kept, Judge)
    with pytest.raises(ReplayError, match="cannot read"):
        load(kept.parent, Judge)
    with pytest.raises(ReplayError, match="cannot write"):
        save(kept.parent / "nowhere" / "kept", judged())


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
    forged = b"\x80\x04\x8c\x17triack.tools.replay.run\x8c\x09os.system\x93."
    monkeypatch.setattr(pickle, "dumps", lambda state, protocol: forged)
    save(tmp_path / "kept", judged())
    with pytest.raises(ReplayError, match=r"run\.os\.system does not belong"):
        load(tmp_path / "kept", Judge)


def test_what_another_user_may_have_written_is_not_believed(kept: Path) -> None:
    """It would say what was found before."""
    kept.chmod(0o666)
    with pytest.raises(ReplayError, match=f"cannot read {kept}: others may write to {kept} "):
        load(kept, Judge)
