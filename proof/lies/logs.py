"""The honest logs that lies are planted in: of real nodes in simulated worlds in which every promise was kept."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice
from typing import Any, Literal

from proof.lies.mutate import Log
from proof.planted.bridged import run_bridge
from triack.base.units import MS
from triack.ordering.order_settings import OrderSettings
from triack.queues.node_settings import NodeSettings
from triack.session.protocol.settings import SessionSettings
from triack.tools.chaos.drawing import draw
from triack.tools.chaos.plan import DISHONEST, HostPlan, Plan, StreamPlan
from triack.tools.chaos.run import run_plan
from triack.tools.chaos.topics import TOPICS_FROM
from triack.tools.replay.log.files import parse_records

Files = dict[str, bytes]

LOGS = 24
"""The number of honest runs; they include loss, kills, restarts, rejections, expiry and large messages."""
TOPIC_LOGS = 12
BRIDGE_LOGS = 6
RECORDS = range(80, 700)
"""The allowed number of records of a run: enough for everything to happen, and a verdict lasts some milliseconds."""
WIDE = 6
WIDE_RECORDS = range(300, 1_300)
"""The allowed number of records of such a run. One with more is busy resending: its ranges are short again."""


WIDE_WINDOWS: tuple[int | Literal["auto"], ...] = (1_024, "auto")


def honest_logs(most: int = LOGS, first: int = 0) -> Iterator[tuple[int, Log]]:
    """Yield (seed, log) of runs in which every promise was kept, however bad the world was; seeds begin with one."""
    logs = ((seed, records_of(files)) for seed, files in honest_files(2 * most, first))
    return islice(((seed, log) for seed, log in logs if not any(map(_is_continued, log.values()))), most)


def _is_continued(records: list[dict[str, Any]]) -> bool:
    """Whether a start has a second segment: its records are not one log that a judge reads."""
    return any(record["event"] == "node_continued" for record in records)


def honest_files(most: int = LOGS, first: int = 0) -> Iterator[tuple[int, Files]]:
    """Yield the same as the nodes wrote it."""
    runs = ((seed, files_of(plan)) for seed in count(first) if is_honest(plan := draw(seed)))
    return islice(((seed, files) for seed, files in runs if lines(files) in RECORDS and is_whole(files)), most)


def topic_logs(most: int = TOPIC_LOGS) -> Iterator[tuple[int, Log]]:
    """Yield (seed, log) of runs with topics; half of them draw times, failures, pauses and shared subscriptions.

    In a third of them, messages are passed on to subscriptions of other nodes.
    """
    others = most - most // 3
    for seed, log in _topic_logs():
        if most <= 0:
            return
        passes_on = any(record["event"] == "passed_on" for records in log.values() for record in records)
        if passes_on or others:
            others -= not passes_on
            most -= 1
            yield seed, log


def _topic_logs() -> Iterator[tuple[int, Log]]:
    runs = ((seed, files_of(plan)) for seed in count(TOPICS_FROM) if is_honest(plan := draw(seed)))
    return ((seed, records_of(files)) for seed, files in runs if lines(files) in RECORDS and is_whole(files))


def bridge_logs(most: int = BRIDGE_LOGS) -> Iterator[tuple[int, Log]]:
    """Yield (seed, log) of runs with a bridge whose broker and node die."""
    return ((seed, records_of(run_bridge(seed))) for seed in range(most))


def expiring_files() -> Iterator[tuple[int, Files]]:
    """Yield (seed, files) of runs, without end, in which messages expire before they arrive."""
    plans = ((seed, draw(seed)) for seed in count())
    return (
        (seed, files_of(plan)) for seed, plan in plans if is_honest(plan) and any(it.live_ms for it in plan.streams)
    )


def wide_logs(most: int = WIDE) -> Iterator[tuple[int, Log]]:
    """Yield (seed, log) of runs with large windows and many small messages together: records are of long ranges."""
    return ((seed, records_of(files)) for seed, files in wide_files(most))


def wide_files(most: int = WIDE) -> Iterator[tuple[int, Files]]:
    """Yield the same as the nodes wrote it."""
    runs = ((seed, files_of(widened(plan))) for seed in count() if is_honest(plan := draw(seed)) and plan.streams)
    return islice(((seed, files) for seed, files in runs if lines(files) in WIDE_RECORDS), most)


def is_honest(plan: Plan) -> bool:
    """Whether all nodes keep their promises, and in time, and their logs are whole."""
    kinds = {fault.kind for fault in plan.faults}
    return not kinds & {*DISHONEST, "pause"} and not any(host.timer_slack_ns or host.cuts_log for host in plan.hosts)


def is_whole(files: Files) -> bool:
    """Whether every process wrote something: one killed before that may explain, and so excuse, a violation."""
    last = {host: int(start) for host, start, _ in sorted(name.rsplit("-", 2) for name in files)}
    return sum(last.values()) == len(files)


def widened(plan: Plan) -> Plan:
    """The plan with two hosts, over streams, with windows of a thousand packets and bursts of hundreds."""
    order = OrderSettings(seq_resend_13_s=1)
    sessions = [
        SessionSettings(max_unacked_packet=window, ack_timeout_min_s=0.3, ack_timeout_max_s=5)
        for window in WIDE_WINDOWS
    ]
    hosts = [
        _quick(host, NodeSettings(session=session, order=order, messages_per_packet=1))
        for host, session in zip(plan.hosts, sessions, strict=False)
    ]
    streams = [_busy(stream) for stream in plan.streams if max(stream.sender, stream.receiver) < len(hosts)]
    kept = [it for it in plan.faults if it.kind in ("kill", "stop") and it.host < len(hosts) and not it.after]
    return replace(plan, hosts=tuple(hosts), streams=tuple(streams), faults=tuple(kept), dead_path=None)


def _quick(host: HostPlan, settings: NodeSettings) -> HostPlan:
    return replace(
        host, address=f"tcp://{host.name}:1", others=(), settings=settings, failure_rate=0.0, commit_ns=2 * MS,
        read_gap_ns=5 * MS, burst_ns=5 * MS,
    )  # fmt: skip


def _busy(stream: StreamPlan) -> StreamPlan:
    return replace(
        stream, count=1_500, size_bytes=50, large_bytes=0, batch=500, gap_ns=20 * MS, live_ms=0, read_ms=0,
        is_read=True, source=-1, forbidden=False, wavers=False,
    )  # fmt: skip


def files_of(plan: Plan) -> Files:
    """The files that the nodes of a run wrote, one for each start."""
    return run_plan(plan).logs


def records_of(files: Files) -> Log:
    """The records in files, start by start."""
    log: Log = {}
    for data in files.values():
        for record in parse_records(data):
            log.setdefault((record["node"], record["incarnation"]), []).append(record)
    return log


def lines(files: Files) -> int:
    """How many records there are."""
    return sum(data.count(b"\n") for data in files.values())
