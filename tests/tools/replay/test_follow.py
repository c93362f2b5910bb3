"""Logs that grow: what is told while they do is what is said of them afterwards."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.replay.builder import World, healthy
from tests.tools.replay.faults import FAULTS, ready
from tests.tools.replay.judging import plant
from triack.base.errors import ReplayError
from triack.tools.replay.follow import Follower, follow
from triack.tools.replay.run import replay
from triack.tools.replay.schema import Timeline, Violation


def growing(world: World, directory: Path, step: int) -> Iterator[None]:
    """Write the logs of a world in the order of time, so many records at a time; a segment is renamed at its end."""
    records = sorted([*world.alpha.records, *world.beta.records], key=lambda it: it["wall_ns"])
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


def told_of(world: World, directory: Path, step: int = 7) -> set[object]:
    """What is told of a world while it goes on."""
    follower, told = Follower([directory]), list[Violation]()
    for _ in growing(world, directory, step):
        assert follower.read()
        told += follower.news()[0]
    assert len({it.identity for it in told}) == len(told), "told twice"
    return {it.identity for it in told}


def test_a_log_that_grows_is_not_accused(tmp_path: Path) -> None:
    """At no moment, though most of what is promised is still to come."""
    world = healthy()
    world.number()
    assert told_of(world, tmp_path) == set()


@pytest.mark.parametrize("name", ["order_ack_too_early", "lost_transactional", "handed_twice"])
def test_all_is_told_that_is_said_afterwards(tmp_path: Path, name: str) -> None:
    told = told_of(plant(name)[0], tmp_path)
    assert told == {it.identity for it in replay(tmp_path, engine="local").findings} != set()


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


def test_silence_ends_it(tmp_path: Path) -> None:
    """Nodes have their names while they are followed, too."""
    world = ready()
    FAULTS["order_ack_too_early"](world)
    world.save(tmp_path)
    told: list[tuple[str, Timeline]] = []
    follow([tmp_path], lambda violation, timeline: told.append((violation.check, timeline)), until_idle_s=0.1)
    assert told[0][0] == "order_ack_before_commit"
    assert set(told[0][1].names.values()) == {"alpha", "beta"}


@pytest.mark.slow
def test_one_terminal_sees_what_another_writes(tmp_path: Path) -> None:
    """The directory is empty at first; a violation is seen within ten seconds, and Ctrl-C gives the verdict."""
    command = [sys.executable, "-m", "triack", "replay", str(tmp_path), "--follow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) as process:
        assert process.stdout is not None
        time.sleep(2)
        world = ready()
        FAULTS["order_ack_too_early"](world)
        world.save(tmp_path)
        written_s = time.monotonic()
        line = process.stdout.readline()
        assert "order_ack_before_commit: node beta" in line
        assert time.monotonic() - written_s < 10
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "FAIL" in out
