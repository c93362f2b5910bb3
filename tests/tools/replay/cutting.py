"""Honest logs cut in two: what a prune removes, and what it leaves."""

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

from proof.lies.mutate import Log, Record
from triack.base.session_log import EVENTS
from triack.tools.replay.engines.checkpoint import freeze_part
from triack.tools.replay.engines.local_engine import begin_judge, judge_segments
from triack.tools.replay.judges.past import Past
from triack.tools.replay.log.schema import Verdict

Segments = list[list[Record]]
Cuts = dict[tuple[str, int], int]
"""How many records of each start of each node come before its cut."""


def random_cuts(log: Log, random: Random) -> Cuts:
    """A cut of each node, anywhere: perhaps before its first record, or behind its last one."""
    starts: defaultdict[str, list[int]] = defaultdict(list)
    for node, start in sorted(log):
        starts[node].append(start)
    cuts: Cuts = {}
    for node, mine in starts.items():
        left = random.randrange(sum(len(log[node, start]) for start in mine) + 1)
        for start in mine:
            cuts[node, start] = min(left, len(log[node, start]))
            left -= cuts[node, start]
    return cuts


def cut(records: Iterable[Record], cuts: Cuts) -> tuple[Segments, Segments]:
    """The segments before the cuts, and those behind: a start that is cut goes on in another segment."""
    starts: defaultdict[tuple[str, int], list[Record]] = defaultdict(list)
    for record in records:
        starts[record["node"], record["incarnation"]].append(record)
    before, behind = Segments(), Segments()
    for key, mine in starts.items():
        at = cuts.get(key, 0)
        if 0 < at < len(mine):
            first, next_ = mine[0], mine[at]
            common = {name: next_[name] for name in ("v", "node", "incarnation", "n", "at_ns", "wall_ns")}
            settings = {name: first[name] for name in EVENTS["node_continued"].fields}
            before.append(mine[:at])
            rest = [{**record, "n": record["n"] + 1} for record in mine[at:]]
            behind.append([{**common, "event": "node_continued", **settings}, *rest])
        else:
            (before if at else behind).append(mine)
    return before, behind


def in_order(segments: Segments) -> Segments:
    return sorted(segments, key=lambda it: (it[0]["node"], it[0]["incarnation"], it[0]["n"]))


def judged(segments: Segments, past: Past | None = None) -> Verdict:
    """The verdict of the local engine."""
    return judge_segments(lambda: [("", 1, segment) for segment in in_order(segments)], past).finish()


def past_of(segments: Segments, before: Past | None = None) -> Past:
    """What a prune keeps of segments."""
    judge = begin_judge(before, forgets=True)
    for segment in in_order(segments):
        judge.read("", segment)
    return judge.past(freeze_part)


def told(verdict: Verdict) -> dict[str, Any]:
    """A verdict with its findings, apart from what only the report draws, and where a record was."""
    data = asdict(verdict)
    for name in ("timeline", "files", "engine", "report"):
        data.pop(name, None)
    places = ("file", "line")
    data["findings"] = [{k: v for k, v in it.items() if k not in places} for it in data["findings"]]
    return {"verdict": verdict.verdict, **data}


def write_segments(segments: Segments, folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    counts: defaultdict[tuple[str, int], int] = defaultdict(int)
    paths = []
    for segment in in_order(segments):
        key = segment[0]["node"], segment[0]["incarnation"]
        counts[key] += 1
        path = folder / f"{key[0][:8]}-{key[1]:06d}-{segment[0]['n']:06d}.jsonl"
        path.write_text("".join(json.dumps(record) + "\n" for record in segment))
        paths.append(path)
    return paths
