"""``triack check``: a node's state in one line and an exit code, as monitoring plug-ins have them.

The form is that of the Monitoring Plugins Development Guidelines: ``TRIACK OK - sentence | performance data``, and exit
code 0 for OK, 1 for WARNING, 2 for CRITICAL, 3 for UNKNOWN. As it runs every few seconds, it loads no part of a node
before one has answered.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any, TypeVar

import click

import triack
from triack.base.errors import NodeClosed, TriackError
from triack.base.printable import counted, printable, written
from triack.node.control import handover
from triack.queues.mailboxes.system_queues import DEAD_LETTER_QUEUE, awaits_reader
from triack.tools.commands.common import FloatRange, data_option_of, run
from triack.tools.operate.amounts import age_of

F = TypeVar("F", bound=Callable[..., Any])

HUNG_S = 10.0
"""As of ``/healthz``: a store with a job of this length does not work."""


class Level(IntEnum):
    """How bad it is: the exit code."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3

    @property
    def rank(self) -> int:
        """Decides when several apply: a known trouble outranks something unknown."""
        return (Level.OK, Level.UNKNOWN, Level.WARNING, Level.CRITICAL).index(self)


@dataclass(frozen=True, slots=True)
class Limits:
    """From which value on something is a warning, and from which it is critical."""

    warning: float
    critical: float

    @classmethod
    def parse(cls, text: str) -> "Limits":
        """Read ``WARNING,CRITICAL``. Raises ValueError."""
        warning, critical = map(float, text.split(","))
        if not 0 <= warning <= critical < float("inf"):
            raise ValueError(text)
        return cls(warning, critical)

    def level(self, value: float) -> Level:
        """How bad a value is."""
        return Level.CRITICAL if value >= self.critical else Level.WARNING if value >= self.warning else Level.OK


class _LimitsType(click.ParamType[Any]):
    """The limits of an option; with ``named``, after the name of a queue and a colon."""

    name = "limits"

    def __init__(self, *, named: bool = False) -> None:
        self._named = named

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The limits, or the name and the limits."""
        if isinstance(value, Limits | tuple):
            return value
        name, _, limits = str(value).rpartition(":")
        try:
            found = Limits.parse(limits)
        except ValueError:
            found = None
        if found is None or bool(name) != self._named:
            form = "NAME:WARNING,CRITICAL" if self._named else "WARNING,CRITICAL"
            self.fail(f"{value}: it must be {form}, two numbers of which the first is not the larger", param, ctx)
        return (name, found) if self._named else found


@dataclass(slots=True)
class Report:
    """What was found."""

    level: Level = Level.OK
    problems: list[tuple[Level, str]] = field(default_factory=list)
    data: list[str] = field(default_factory=list)

    def add(self, level: Level, sentence: str) -> None:
        """Add a problem; nothing happens for OK."""
        if level is not Level.OK:
            self.problems.append((level, sentence))
            self.level = max(self.level, level, key=lambda it: it.rank)

    def measure(self, label: str, value: float, limits: Limits | None, sentence: str, unit: str = "") -> None:
        """Add a value, and a problem if it is beyond its limits."""
        quoted = label.replace("'", "''")
        bounds = ("", "") if limits is None else (written(limits.warning), written(limits.critical))
        self.data.append(f"'{quoted}'={written(round(value, 3))}{unit};{bounds[0]};{bounds[1]};0;")
        if limits is not None:
            self.add(limits.level(value), sentence)

    def line(self, well: str) -> str:
        """The line; ``well`` is the sentence when there is no problem."""
        told = [sentence for _, sentence in sorted(self.problems, key=lambda it: -it[0].rank)]
        text = printable(f"TRIACK {self.level.name} - {'; '.join(told) or well}".replace("|", "/"))
        return f"{text} | {' '.join(self.data)}" if self.data else text


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the options ask for."""

    depth: Limits | None
    queues: tuple[tuple[str, Limits], ...]
    oldest: Limits | None
    dead: Limits | None
    stalled: Limits | None
    links: tuple[str, ...]
    troubles: bool


def judge(stats: "triack.NodeStats", wanted: Wanted) -> Report:
    """Compare a node's stats with the limits."""
    report = Report()
    _judge_queues(report, stats, wanted)
    _judge_links(report, stats, wanted)
    if wanted.troubles:
        for it in stats.troubles:
            report.add(Level.WARNING, it.cause)
    if stats.store_low:
        report.add(Level.CRITICAL, "the disk has less room than the reserve")
    if stats.store_busy_s is not None and stats.store_busy_s >= HUNG_S:
        report.add(Level.CRITICAL, f"the disk has not answered for {age_of(stats.store_busy_s)}")
    return report


def _judge_queues(report: Report, stats: "triack.NodeStats", wanted: Wanted) -> None:
    limits_of = dict(wanted.queues)
    for missing in limits_of.keys() - stats.queues.keys():
        report.add(Level.UNKNOWN, f"there is no queue {missing}")
    unread = 0
    for name, queue in stats.queues.items():
        is_read = awaits_reader(name)
        unread += queue.messages if is_read else 0
        limits = limits_of.get(name, wanted.depth if is_read else None)
        if limits is not None:
            report.measure(
                f"messages {name}", queue.messages, limits, f"{name} has {counted(queue.messages, 'message')}"
            )
    ages = {name: it.oldest_s or 0.0 for name, it in stats.queues.items() if awaits_reader(name)}
    for out in stats.outgoing:
        name = f"{out.peer}/{out.queue}"
        ages[name] = max(ages.get(name, 0.0), out.oldest_s or 0.0)
    for it in stats.transit:
        name = f"{it.final}/{it.queue} from {it.came_by}"
        ages[name] = max(ages.get(name, 0.0), it.oldest_s)
    oldest = max(ages, key=lambda name: ages[name], default="")
    age_s = ages.get(oldest, 0.0)
    report.measure("unread", unread, None, "")
    report.measure("oldest", age_s, wanted.oldest, f"the oldest message of {oldest} is {age_of(age_s)} old", "s")
    letters = stats.queues[DEAD_LETTER_QUEUE].messages
    report.measure("dead", letters, wanted.dead, f"{counted(letters, 'dead letter')}: triack queue show dead-letter")


def _judge_links(report: Report, stats: "triack.NodeStats", wanted: Wanted) -> None:
    waiting = [it for it in stats.outgoing if it.stalled_s is not None]
    slowest = max(waiting, key=lambda it: it.stalled_s or 0.0, default=None)
    stalled_s = 0.0 if slowest is None else slowest.stalled_s or 0.0
    where = "" if slowest is None else f"{slowest.peer}/{slowest.queue}"
    report.measure("stalled", stalled_s, wanted.stalled, f"nothing has arrived at {where} for {age_of(stalled_s)}", "s")
    report.measure(
        "outgoing", sum(it.messages for it in stats.outgoing) + sum(it.messages for it in stats.transit), None, ""
    )
    for peer in wanted.links:
        link = stats.links.get(peer)
        is_well = link is not None and link.state in ("up", "idle")
        if not is_well and all(it.peer != peer for it in stats.sessions):
            why = f", it waits for the {link.waits_for}" if link is not None and link.waits_for else ""
            report.add(Level.CRITICAL, f"no session with {peer}{why}")
    report.measure("links", len(stats.sessions), None, "")


def _limits(option: str, default: str | None, what: str) -> Callable[[F], F]:
    shown = f"  [default: {default}]" if default else ""
    return click.option(option, type=_LimitsType(), default=default, metavar="W,C", help=f"{what}{shown}")


class _Mistake(click.UsageError):
    """A mistaken call: 2 would say that the node is in trouble."""

    exit_code = int(Level.UNKNOWN)


class _PlugIn(click.Command):
    """A command whose mistaken call is UNKNOWN."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Read the options. Raises UsageError."""
        try:
            return super().make_context(*args, **kwargs)
        except click.UsageError as error:
            raise _Mistake(error.format_message(), error.ctx) from error


@click.command(cls=_PlugIn)
@_limits("--depth", None, "Messages in any queue but dead-letter.")
@click.option(
    "--queue", "queues", type=_LimitsType(named=True), multiple=True, metavar="NAME:W,C", help="Messages in one queue."
)
@_limits("--oldest", None, "Age of the oldest message in this node, those on their way included, in seconds.")
@_limits("--dead", "1,100", "Messages in the queue dead-letter.")
@_limits("--stalled", "60,300", "Seconds in which messages to a queue wait and none arrives.")
@click.option("--link", "links", multiple=True, metavar="PEER", help="Its link must be up or idle; may be repeated.")
@click.option("--troubles/--no-troubles", default=True, help="Each trouble of `triack status` is a warning.")
@click.option("--expect-running", is_flag=True, help="CRITICAL, and not UNKNOWN, when no process runs the node.")
@click.option(
    "--timeout", type=FloatRange(min=0, min_open=True), default=5.0, metavar="S", help="Wait S seconds.  [default: 5]"
)
@data_option_of(click.Path(path_type=Path), "Data directory of the node.")
def check(*, expect_running: bool, timeout: float, data: Path, **options: Any) -> int:
    """Say in one line how a node is, for monitoring: exit code 0 is OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.

    W,C are two numbers: from W on it is a warning, from C on it is critical.
    """
    return run(_check(data, Wanted(**options), timeout, Level.CRITICAL if expect_running else Level.UNKNOWN))


async def _check(data: Path, wanted: Wanted, timeout: float, down: Level) -> int:
    try:
        async with asyncio.timeout(timeout):
            return await _ask(data, wanted, down)
    except TimeoutError:
        return _end(Level.CRITICAL, f"the process that runs {data} has not answered for {timeout:g} s")
    except NodeClosed:
        return _end(down, f"the process that ran {data} has just ended")
    except (TriackError, OSError) as error:
        return _end(Level.UNKNOWN, str(error))


async def _ask(data: Path, wanted: Wanted, down: Level) -> int:
    refused: list[str] = []
    link = await handover.attempt(data, refused.append)
    if link is None:
        return _end(down, "; ".join([f"no process runs {data}", *refused]))
    await link.close()
    async with triack.connect(data) as node:
        stats, name = await node.stats(), node.name
    report = judge(stats, wanted)
    click.echo(report.line(_well(name, stats)))
    return int(report.level)


def _well(name: str, stats: "triack.NodeStats") -> str:
    unread = sum(it.messages for queue, it in stats.queues.items() if awaits_reader(queue))
    return f"{name} runs, {unread} unread, {counted(len(stats.sessions), 'session')}"


def _end(level: Level, sentence: str, data: Iterable[str] = ()) -> int:
    click.echo(Report(level, [(level, sentence)], list(data)).line(""))
    return int(level)
