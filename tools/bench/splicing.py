"""The log of a long run, made from that of a short one: the events between begin and end, repeated.

At the end of a run everything has arrived and is acknowledged, as it was at its begin. So the events between may follow
once more, with all numbers and times increased, and the two nodes might have written this log.
"""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from triack.base.log_lines import SEGMENT_BEGIN, LineWriter
from triack.base.session_log import COMMON
from triack.tools.replay.log.files import find_logs, read_records

Record = dict[str, Any]

BEGINS = ("node_started", "start_before", "session_opened")
ENDS = ("session_closed", "node_stopped")
"""Events that begin a run are only in the first round, and those that end it in the last."""
OWN = ("packet_sent", "ack_received", "store_ack_received")
"""Events whose packets are numbered by the recording node; in others they are numbered by the peer."""
NUMBERS = ("number", "previous", "first", "last")
"""Fields that count packets of a stream. ``packet``, ``cumulative`` and ``ranges`` count those of the session."""
TIMES = ("at_ns", "since_ns")
PAUSE_NS = 1_000_000
BLOCK_RECORDS = 10_000


def lengthen(logs: Path, to: Path, times: int) -> None:
    """Write the logs of a run of two nodes, one session and one stream as those of a longer run."""
    to.mkdir(parents=True)
    runs = [list(read_records(log)) for log in find_logs([logs])]
    sent = {run[0]["node"]: _highest(run, "packet_sent") for run in runs}
    numbers = max(record["last"] for run in runs for record in run if record["event"] == "queued")
    round_ns = max(run[-1]["at_ns"] - run[0]["at_ns"] for run in runs) + PAUSE_NS
    for run in runs:
        node = run[0]["node"]
        (theirs,) = (packets for other, packets in sent.items() if other != node)
        _write(run, to, _repeated(run, times, (sent[node], theirs, numbers, round_ns)))


def _highest(run: list[Record], event: str) -> int:
    return max((it["packet"] + it["packets"] - 1 for it in run if it["event"] == event), default=0)


def _repeated(run: list[Record], times: int, steps: tuple[int, int, int, int]) -> Iterator[Record]:
    for round_ in range(times):
        left_out = (BEGINS if round_ else ()) + (ENDS if round_ < times - 1 else ())
        for record in run:
            if record["event"] not in left_out:
                yield _moved(record, *(round_ * step for step in steps))


def _moved(record: Record, own: int, theirs: int, numbers: int, time_ns: int) -> Record:
    moved = {**record, **{name: record[name] + time_ns for name in TIMES if name in record}}
    packets = own if record["event"] in OWN else theirs
    for names, step in ((NUMBERS, numbers), (("packet", "cumulative"), packets)):
        for name in names:
            if name in record:
                moved[name] = record[name] + step
    if "ranges" in record:
        moved["ranges"] = [[first + packets, last + packets] for first, last in record["ranges"]]
    return moved


def _write(run: list[Record], to: Path, records: Iterator[Record]) -> None:
    first, segments = run[0], list[Path]()
    writer = LineWriter(bytes.fromhex(first["node"]), first["incarnation"], first["wall_ns"] - first["at_ns"])
    while block := list(islice(records, BLOCK_RECORDS)):
        for record in block:
            fields = {name: value for name, value in record.items() if name not in COMMON}
            writer.add(record["event"], record["at_ns"], fields)
        lines = writer.take()
        if lines.startswith(SEGMENT_BEGIN):
            segments.append(to / f"{first['name']}-{first['incarnation']:06}-{len(segments) + 1:06}.jsonl")
        with segments[-1].open("ab") as file:
            file.write(lines)
