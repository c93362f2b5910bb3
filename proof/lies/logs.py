"""The logs that lies are told about: of real nodes in simulated worlds in which every promise was kept."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice
from typing import Literal

from proof.lies.mutate import Log
from triack.base.units import MS
from triack.ordering.settings import OrderSettings
from triack.queues.settings import NodeSettings
from triack.session.settings import SessionSettings
from triack.tools.chaos.drawing import draw
from triack.tools.chaos.plan import DISHONEST, HostPlan, Plan, StreamPlan
from triack.tools.chaos.run import run_plan
from triack.tools.replay.files import parse_records

__all__ = ["LOGS", "WIDE", "honest_logs", "wide_logs"]

LOGS = 24
"""Runs that lies are told about: loss, kills, restarts, rejections, expiry and large messages are in them."""
RECORDS = range(80, 700)
"""Runs with so many records are taken: all that can happen does, and a verdict takes some milliseconds."""
WIDE = 6
"""Runs whose records are of hundreds of packets each."""
WIDE_RECORDS = range(300, 1_300)
"""Runs like that with more records are busy resending: their ranges are short ones again."""


WIDE_WINDOWS: tuple[int | Literal["auto"], ...] = (1_024, "auto")
"""Of two hosts."""


def honest_logs(most: int = LOGS) -> Iterator[tuple[int, Log]]:
    """Yield (seed, log) of runs in which every promise was kept, however bad the world was."""
    logs = ((seed, log_of(plan)) for seed in count() if is_honest(plan := draw(seed)))
    return islice(((seed, log) for seed, log in logs if size(log) in RECORDS), most)


def wide_logs(most: int = WIDE) -> Iterator[tuple[int, Log]]:
    """Yield the same of runs with large windows and many small messages at once: their records are of long ranges."""
    logs = ((seed, log_of(widened(plan))) for seed in count() if is_honest(plan := draw(seed)) and plan.streams)
    return islice(((seed, log) for seed, log in logs if size(log) in WIDE_RECORDS), most)


def is_honest(plan: Plan) -> bool:
    """Whether all nodes keep their promises, and in time."""
    kinds = {fault.kind for fault in plan.faults}
    return not kinds & {*DISHONEST, "pause"} and not any(host.timer_slack_ns for host in plan.hosts)


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


def log_of(plan: Plan) -> Log:
    """What the nodes of a run wrote, start by start."""
    log: Log = {}
    for data in run_plan(plan).logs.values():
        for record in parse_records(data):
            log.setdefault((record["node"], record["incarnation"]), []).append(record)
    return log


def size(log: Log) -> int:
    """How many records there are."""
    return sum(map(len, log.values()))
