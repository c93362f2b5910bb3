"""Measuring a row: its runs, and those of a peer in turns with them."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from operator import attrgetter
from typing import Any

from triack.tools.bench import namespace, process
from triack.tools.bench.backlog import measure_backlog
from triack.tools.bench.bridging import measure_bridge
from triack.tools.bench.calls import measure_calls
from triack.tools.bench.figures import Result
from triack.tools.bench.idle import measure_idle
from triack.tools.bench.link import measure_cable, measure_link
from triack.tools.bench.options import Meter, Options
from triack.tools.bench.policy_nodes import measure_policies, measure_strategies
from triack.tools.bench.replaying import measure_growth, measure_replay
from triack.tools.bench.rows import Row
from triack.tools.bench.run import Outcome, run_once
from triack.tools.bench.servers import running
from triack.tools.bench.systems.catalogue import System, system_of
from triack.tools.bench.work import Work
from triack.tools.replay.run import missing_of_spark

Measure = Callable[[Row, Options, Meter, Result], Awaitable[None]]


async def measure(row: Row, options: Options, meter: Meter) -> Result:
    """Measure a row. One that cannot run on this machine has no figures, and a note that says why."""
    result = Result.of(row)
    if options.versus and row.versus:
        result.note(f"no {options.versus} beside it: {row.versus}")
    why = _NEEDS[row.kind]() if row.kind in _NEEDS else None
    if why is None:
        await _KINDS[row.kind](row, options, meter, result)
    else:
        result.note(f"not run: {why}")
    return result


async def _transfer(row: Row, options: Options, meter: Meter, result: Result) -> None:
    """The throughput of messages, or the time of each: rows of two processes on loopback."""
    work, own = options.shaped(row.work), system_of("triack")
    peer = system_of(options.versus) if options.versus else None
    if peer is not None:
        peer.check()
        result.versus = peer.name
    async with running(options.versus, options.folder / "server") as server:
        for number in range(options.runs):
            outcome = await _one(own, row, number, work, options, meter, {})
            result.handle(outcome)
            _take(result, "triack", outcome)
            if peer is not None:
                outcome = await _one(peer, row, number, work, options, meter, server)
                _handle_peer(result, peer, outcome)
                _take(result, peer.name, outcome)


def _handle_peer(result: Result, peer: System, outcome: Outcome) -> None:
    result.versus_verified = outcome.verified and result.versus_verified is not False
    result.versus_guarantee = outcome.guarantee
    if outcome.flaw:
        result.note(f"{peer.name}: {outcome.flaw}")


async def _one(
    system: System,
    row: Row,
    number: int,
    work: Work,
    options: Options,
    meter: Meter,
    server: dict[str, Any],
    *,
    relayed: bool = False,
) -> Outcome:
    name = f"{row.name} {system.name} {number + 1}/{options.runs}"
    meter.begin(name, work)
    outcome = await run_once(system, work, options.folder_of(name), server, meter.watch, relayed=relayed)
    meter.say(outcome.summed_up(name))
    return outcome


def _take(result: Result, name: str, outcome: Outcome) -> None:
    values = {"": outcome.rate}
    if outcome.latencies:
        values = {"p50": outcome.latencies["p50_ms"], "p99": outcome.latencies["p99_ms"]}
        histogram = result.histograms.setdefault(name, {})
        for edge, count in outcome.latencies["histogram"]:
            histogram[edge] = histogram.get(edge, 0) + count
    for figure, value in values.items():
        found = result.figures[figure]
        (found.values if name == "triack" else found.versus_values).append(value)


async def _curve(row: Row, options: Options, meter: Meter, result: Result) -> None:
    for name, work in row.points.items():
        goal = result.figures[name].goal
        point = Result.of(replace(row, name=f"{row.name} {name}", goals=(replace(goal, name=""),)))
        await _transfer(replace(point.row, work=work), options, meter, point)
        result.figures[name] = replace(point.headline, goal=goal)
        is_first = name == next(iter(row.points))
        result.verified = point.verified and (is_first or result.verified)
        result.guarantee = [said for said in point.guarantee if is_first or said in result.guarantee]
        result.versus, result.versus_guarantee = point.versus, point.versus_guarantee
        for note in point.notes:
            result.note(f"{name}: {note}")


async def _in_turns(
    row: Row,
    options: Options,
    meter: Meter,
    result: Result,
    plain: Work,
    names: tuple[str, str],
    *,
    relayed: bool = False,
) -> AsyncIterator[tuple[int, Outcome, Outcome]]:
    """Number the runs of a row's work, each with one of the plain work after it."""
    own, (named, plain_row) = system_of("triack"), (replace(row, name=f"{row.name} {it}".rstrip()) for it in names)
    for number in range(options.runs):
        outcome = await _one(own, named, number, options.shaped(row.work), options, meter, {}, relayed=relayed)
        result.handle(outcome)
        alone = await _one(own, plain_row, number, options.shaped(plain), options, meter, {})
        if alone.flaw:
            result.verified = False
            result.note(alone.flaw)
        yield number, outcome, alone


async def _recording(row: Row, options: Options, meter: Meter, result: Result) -> None:
    """The same with the log and without it, in turns."""
    names = "with log", "without log"
    async for _, outcome, alone in _in_turns(row, options, meter, result, replace(row.work, log=False), names):
        result.headline.values.append(100 * (1 - outcome.rate / alone.rate))


def _beside_plain(name: str = "", rate: Callable[[Outcome], float] = attrgetter("rate"), **plain: Any) -> Measure:
    """How to measure, in turns, a row whose work differs from that of a plain run by these values."""

    async def measure(row: Row, options: Options, meter: Meter, result: Result) -> None:
        names = name, "plain"
        async for _, outcome, alone in _in_turns(row, options, meter, result, replace(row.work, **plain), names):
            share = 100 * rate(outcome) / alone.rate if alone.rate else 0.0
            result.figures["of plain"].values.append(share)
            result.figures["rate"].values.append(rate(outcome))

    return measure


def _answered_rate(outcome: Outcome) -> float:
    rate: float = outcome.sent / max(outcome.facts["sender"]["answered_s"], outcome.seconds)
    return rate


async def _relayed(row: Row, options: Options, meter: Meter, result: Result) -> None:
    """The same through a relay and directly, in turns."""
    if options.insecure:
        result.note("secured all the same: relays know their neighbours by keys")
    secured, names = replace(options, insecure=False), ("through a relay", "direct")
    async for _, outcome, alone in _in_turns(row, secured, meter, result, row.work, names, relayed=True):
        result.figures["of direct"].values.append(100 * outcome.rate / alone.rate if alone.rate else 0.0)
        result.figures["rate"].values.append(outcome.rate)


async def _fanned_out(row: Row, options: Options, meter: Meter, result: Result) -> None:
    """Each message to several readers; and T1, whose message has one, in turns."""
    work, names = options.shaped(row.work), ("", "one reader")
    peer = system_of(options.versus) if options.versus else None
    if peer is not None and not peer.fans_out:
        result.note(f"no {peer.name} beside it: here it sends each message to one reader")
        peer = None
    if peer is not None:
        peer.check()
        result.versus = peer.name
    async with running(peer.name if peer is not None else "", options.folder / "server") as server:
        plain = replace(row.work, readers=0)
        async for number, outcome, alone in _in_turns(row, options, meter, result, plain, names):
            in_sum = work.readers * outcome.rate
            stored = outcome.facts["receiver"].get("stored_bytes", 0)
            result.figures["in sum"].values.append(in_sum)
            result.figures["of T1"].values.append(in_sum / alone.rate if alone.rate else 0.0)
            result.figures["stored"].values.append(stored / (work.size * max(1, outcome.sent)))
            if peer is not None:
                theirs = await _one(peer, row, number, work, options, meter, server)
                _handle_peer(result, peer, theirs)
                result.figures["in sum"].versus_values.append(work.readers * theirs.rate)


_KINDS: dict[str, Measure] = {
    "transfer": _transfer,
    "latency": _transfer,
    "curve": _curve,
    "recording": _recording,
    "relayed": _relayed,
    "fanned out": _fanned_out,
    "answered": _beside_plain("answered", _answered_rate, acks=False),
    "journaled": _beside_plain(journal=False),
    "portable": _beside_plain(udp=None),
    "link": measure_link,
    "cable": measure_cable,
    "policies": measure_policies,
    "strategies": measure_strategies,
    "idle": measure_idle,
    "replay": measure_replay,
    "growth": measure_growth,
    "backlog": measure_backlog,
    "calls": measure_calls,
    "bridged": measure_bridge,
}
_NEEDS: dict[str, Callable[[], str | None]] = {
    **dict.fromkeys(("link", "cable"), namespace.missing),
    **dict.fromkeys(("replay", "growth"), missing_of_spark),
    **dict.fromkeys(("idle", "backlog"), process.missing),
}
"""By the kind of a row: why it cannot be measured here, or None."""
