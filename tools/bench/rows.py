"""The rows of the table: their work and their goals."""

from dataclasses import dataclass, field, replace
from typing import get_args

from triack.base.checks import DATAGRAM_BASE_BYTES
from triack.base.errors import UsageError
from triack.base.names import nearest
from triack.node.handles.policies import BETWEEN_NODES
from triack.queues.node_settings import Strategy
from triack.tools.bench.work import Work

WINDOW = 1_024
"""Packets: enough to fill a path of some milliseconds. The default is MSMQ's, 64."""
STREAM_DATAGRAM_BYTES = 65_535
"""As large as a packet's length field lets it be."""
MIB = 1024 * 1024
PLAIN, PARQUET, LOSSY, GIANT = "clean", "clean, Parquet", "10 % loss", "one giant session"
"""Logs that are replayed: of many sessions and of one, as they were written and as columns."""
GROWN = (5, 10, 20, 50)


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure of a row, and its target.

    Attributes:
        name: the measured quantity, "" when the row names it.
        goal, floor: to reach, and to keep in any case; None where there is none.
        is_cost: whether less is better.
    """

    name: str
    unit: str
    goal: float | None
    floor: float | None
    is_cost: bool = False


def _rate(goal: float, floor: float) -> tuple[Goal, ...]:
    return (Goal("", "msg/s", goal, floor),)


@dataclass(frozen=True, slots=True)
class Row:
    """One row.

    Attributes:
        goals: the measured figures, the headline first.
        work: of one run; rows of another kind change parts of it.
        kind: how it is measured: see ``measure``.
        versus: whether peers can do it; else why not.
        points: of a curve: the work of each, by the name of its goal.
    """

    name: str
    text: str
    goals: tuple[Goal, ...]
    work: Work = field(default_factory=Work)
    kind: str = "transfer"
    versus: str = ""
    points: dict[str, Work] = field(default_factory=dict)


_T1 = Work(window=WINDOW)
READERS = 10
"""Subscriptions of a topic that are measured; groups of readers at Redis, subscribers at NATS."""
LOSSES = (1, 5, 10, 30)
SHARE_LOSS_MAX, RATIO_LOSS_MIN = 10, 5
"""Losses up to which the link must be filled, and from which on Triack must be faster than TCP."""
SIZES = (20, 100, 300, 1_024, 4_096, 16_384, 65_536)
WINDOWS = (4, 16, 64, 256, 1_024, 4_096)


def _link_goals() -> tuple[Goal, ...]:
    unit = "% of (1 - loss) x link"
    shares = [Goal(f"{loss} % loss", unit, *((90, 45) if loss <= SHARE_LOSS_MAX else (None, None))) for loss in LOSSES]
    ratios = [
        Goal(f"{loss} % loss, times TCP", "x", *((10, 5) if loss >= RATIO_LOSS_MIN else (None, None)))
        for loss in LOSSES
    ]
    beside = ("messages of 1 KiB", "NewReno", "TCP with BBR")
    others = [Goal(f"{loss} % loss, {who}", unit, None, None) for who in beside for loss in LOSSES]
    return (*shares, *ratios, *others)


def _cable(name: str, what: str, work: Work) -> Row:
    text = f"{what} over a cable between two network namespaces, with packets of 1,500 B; beside the outbox in turns"
    return Row(name, text, (Goal("", "msg/s", None, None),), work, "cable", "the outbox is always beside it")


def _curve(name: str, text: str, points: dict[int, Work]) -> Row:
    named = {f"{point:,}": work for point, work in points.items()}
    return Row(name, text, tuple(Goal(point, "msg/s", None, None) for point in named), kind="curve", points=named)


ROWS = {
    row.name: row
    for row in (
        Row("T1", f"transactional, 100 B, UDP, window of {WINDOW:,}", _rate(500_000, 250_000), _T1),
        Row("T2", f"transactional, 1 KiB, UDP, window of {WINDOW:,}", _rate(120_000, 80_000), replace(_T1, size=1_024)),
        Row("T3", "transactional, 100 B, UDP, window of 64", _rate(300_000, 150_000), replace(_T1, window=64)),
        Row(
            "T4",
            "transactional, 100 B, UDP, 2,000 a second: from send to delivered",
            (Goal("p50", "ms", 0.8, 1.0, is_cost=True), Goal("p99", "ms", 1.3, 2.0, is_cost=True)),
            replace(_T1, mode="paced", rate=2_000),
            "latency",
        ),
        Row(
            "T5",
            "transactional, 100 B, UDP, each waits for ordered()",
            _rate(1_800, 1_200),
            replace(_T1, mode="single"),
        ),
        Row(
            "T6",
            f"express, 100 B, UDP, window of {WINDOW:,}",
            _rate(700_000, 400_000),
            replace(_T1, delivery="express"),
        ),
        Row(
            "T7",
            f"transactional, 100 B, TCP, packets of 64 KiB, window of {WINDOW:,}",
            _rate(500_000, 300_000),
            replace(_T1, transport="tcp", datagram_bytes=STREAM_DATAGRAM_BYTES),
        ),
        Row(
            "T8",
            "transactional messages of 16 KiB over a link of 100 Mbit/s, 10 ms round trip, random loss each way: "
            "goodput with BBR, of messages of 1 KiB, with NewReno, and of TCP",
            _link_goals(),
            replace(_T1, size=16_384, in_flight_bytes=2 * MIB, complete=False, seconds=10),
            "link",
            "TCP on the same link is always beside it",
        ),
        Row(
            "T9",
            "idle sessions in one node",
            (Goal("memory a session", "KiB", 4, 8, is_cost=True), Goal("processor", "% of a core", 1, 3, is_cost=True)),
            replace(_T1, messages=10_000),
            "idle",
            "what a connection costs a broker is another question",
        ),
        Row(
            "T10",
            "what recording the session log takes of T1",
            (Goal("", "% of the rate", 5, 10, is_cost=True),),
            _T1,
            "recording",
            "no peer has a session log",
        ),
        Row(
            "T11",
            "triack replay on Spark, local[2], all checks, logs of a run with packets of 1,200 B",
            (
                Goal(PLAIN, "records/s", 700_000, 400_000),
                Goal(PARQUET, "records/s", 1_000_000, 600_000),
                Goal(LOSSY, "records/s", 300_000, 150_000),
                Goal(GIANT, "of many", 1, 0.5),
            ),
            replace(_T1, datagram_bytes=DATAGRAM_BASE_BYTES),
            "replay",
            "no peer has a session log",
        ),
        Row(
            "T12",
            "a backlog on disk for a node that is away",
            (
                Goal("memory above idle", "MiB", 64, 128, is_cost=True),
                Goal("drained", "msg/s", 500_000, 250_000),
                Goal("opened again", "s", None, None, is_cost=True),
            ),
            replace(_T1, messages=200_000),
            "backlog",
            "peers keep their backlogs in a broker",
        ),
        Row(
            "T13",
            "T1 through a relay, a third process; beside a direct run in turns",
            (Goal("of direct", "% of the rate", 60, 40), Goal("rate", "msg/s", None, None)),
            _T1,
            "relayed",
            "what a broker passes on is its only way",
        ),
        Row(
            "T14",
            f"T1 to a topic with {READERS} subscriptions, each of which gets every message; beside T1 in turns",
            (
                Goal("in sum", "msg/s", 1_500_000, 750_000),
                Goal("of T1", "x", 3, 2),
                Goal("stored", "x of the bodies", 1.2, 1.5, is_cost=True),
            ),
            replace(_T1, readers=READERS),
            "fanned out",
        ),
        Row(
            "T15",
            "T1, and the sender reads two administration messages about every message; beside T1 in turns",
            (Goal("of plain", "% of the rate", 60, 40), Goal("rate", "msg/s", None, None)),
            replace(_T1, messages=100_000, acks=True),
            "answered",
            "no peer tells a sender of the reader",
        ),
        Row(
            "T16",
            "T1, and a journal keeps all that is read; beside T1 in turns",
            (Goal("of plain", "% of the rate", 70, 50), Goal("rate", "msg/s", None, None)),
            replace(_T1, journal=True),
            "journaled",
            "no peer has a journal of a queue",
        ),
        Row(
            "T17",
            "T1 on asyncio-dgram, as on systems without batches; beside T1 in turns",
            (Goal("of plain", "% of the rate", None, None), Goal("rate", "msg/s", None, None)),
            replace(_T1, udp="portable"),
            "portable",
            "peers have the sockets of their system",
        ),
        _cable("T18", "T2", replace(_T1, size=1_024)),
        _cable("T19", "T1", _T1),
        _cable("T20", "1 GiB in messages of 64 KiB", replace(_T1, size=64 * 1_024, messages=16 * 1_024)),
    )
}

POLICY_LINKS = ("LAN", "50 ms", "5 % loss")
POLICY_METRICS = (
    Goal("rate", "msg/s", None, None),
    Goal("acks", "a message", None, None, is_cost=True),
    Goal("told, p50", "ms", None, None, is_cost=True),
    Goal("told, p99", "ms", None, None, is_cost=True),
    Goal("held", "KiB", None, None, is_cost=True),
    Goal("again", "messages", None, None, is_cost=True),
)
"""For each policy on each link: the throughput, and datagrams of acks for it; when the application learns of an ack at
100 messages a second, the most that is held until then, and messages redelivered after a lost session."""


def policy_figure(link: str, policy: str, metric: Goal) -> str:
    """The name of a figure of ``POLICIES``."""
    return f"{link}, {policy}: {metric.name}"


STRATEGY_NAMES: tuple[Strategy, ...] = get_args(Strategy)
STRATEGY_METRICS = (
    Goal("fast", "msg/s", None, None),
    Goal("fast, p99", "ms", None, None, is_cost=True),
    Goal("slow", "msg/s", None, None),
    Goal("slow, p99", "ms", None, None, is_cost=True),
    Goal("waiting", "messages", None, None, is_cost=True),
    Goal("pending", "messages", None, None, is_cost=True),
    Goal("lost", "messages", None, None, is_cost=True),
)
"""For each strategy of WSO2 MB: what a fast and a slow subscriber acknowledge, and how old it is then; and at the end
what the topic has not dispatched, what the slow one has not acknowledged, and what was acknowledged in its place."""


def strategy_figure(strategy: str, metric: Goal) -> str:
    """The name of a figure of ``STRATEGIES``."""
    return f"{strategy}: {metric.name}"


def growth_figure(form: str, millions: int) -> str:
    """The name of a figure of ``GROWTH``."""
    return f"{form}, {millions} million"


GROWTH = Row(
    "GROWTH",
    "how long T11 takes, with Spark's start, for more and more records",
    tuple(
        Goal(growth_figure(form, millions), "s", None, None, is_cost=True)
        for form in (PLAIN, GIANT, LOSSY)
        for millions in GROWN
    ),
    replace(_T1, datagram_bytes=DATAGRAM_BASE_BYTES),
    "growth",
    "no peer has a session log",
)

COUNTS = ("polls", "turns", "commits", "datagrams")
"""What a lone message costs besides calls: polls of an engine, turns of the loop, jobs of the disks."""

CALLS = Row(
    "CALLS",
    "Python calls of a transactional message, and of two idle nodes, both ends in one process",
    (
        Goal("lone, 100 B", "calls", 1_200, 1_800, is_cost=True),
        *(Goal(f"lone, {name}", "", goal, None, is_cost=True) for name, goal in zip(COUNTS, (4, 6, 2, 2), strict=True)),
        Goal("one of many, 1 KiB", "calls", 60, 100, is_cost=True),
        Goal("idle", "calls a minute", None, None, is_cost=True),
    ),
    replace(_T1, datagram_bytes=DATAGRAM_BASE_BYTES),
    "calls",
    "another system makes calls of other kinds",
)

BRIDGE = Row(
    "BRIDGE",
    "QoS 1, 100 B, mosquitto to a queue and back, 100 in flight; beside gmqtt alone in turns",
    (
        Goal("in, of gmqtt", "% of the rate", 60, 40),
        Goal("out, of gmqtt", "% of the rate", 60, 40),
        Goal("in, rate", "msg/s", None, None),
        Goal("out, rate", "msg/s", None, None),
    ),
    kind="bridged",
    versus="the client of the bridge is always beside it",
)

POLICIES = Row(
    "POLICIES",
    "the acknowledgements of five systems, on the same links",
    tuple(
        replace(metric, name=policy_figure(link, policy, metric))
        for link in POLICY_LINKS
        for policy in BETWEEN_NODES
        for metric in POLICY_METRICS
    ),
    kind="policies",
    versus="other systems' own acknowledgements are what it compares",
)

STRATEGIES = Row(
    "STRATEGIES",
    "WSO2 MB's strategies: a topic with 200 messages a second, a fast subscriber, and one that takes 20",
    tuple(
        replace(metric, name=strategy_figure(strategy, metric))
        for strategy in STRATEGY_NAMES
        for metric in STRATEGY_METRICS
    ),
    kind="strategies",
    versus="another system has no such strategies",
)

CURVES = {
    row.name: row
    for row in (
        _curve("SIZES", "T1 by the size of messages in bytes", {size: replace(_T1, size=size) for size in SIZES}),
        _curve("WINDOWS", "T1 by the window in packets", {size: replace(_T1, window=size) for size in WINDOWS}),
    )
}


def rows_of(names: tuple[str, ...]) -> list[Row]:
    """The rows and curves with these names; all rows for none."""
    wanted = [name.upper() for name in names] or list(ROWS)
    known = {**ROWS, **CURVES, **{row.name: row for row in (BRIDGE, CALLS, POLICIES, STRATEGIES, GROWTH)}}
    for name in wanted:
        if name not in known:
            meant = nearest(name, known)
            advice = f"did you mean {_typed(meant)}?" if meant else f"there are {', '.join(map(_typed, known))}"
            raise UsageError(f"bench: no row {_typed(name)}; {advice}")
    return [known[name] for name in wanted]


def _typed(name: str) -> str:
    return name if name[1:].isdecimal() else name.lower()
