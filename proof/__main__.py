"""``python -m proof``: the proofs that only Triack's makers run. The Makefile has a target for each."""

import asyncio
import json
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape

from proof.bridges import OUTAGE_S, RATE, WAYS, away, outage
from proof.disk.run import prove_all
from proof.figures import everything
from proof.flood import DATAGRAMS, flood
from proof.hundred import PEERS, ROUNDS, SECONDS
from proof.hundred import hundred as measure_hundred
from proof.lies.characters import SAME, tell_slips
from proof.lies.engines import Compared
from proof.lies.engines import compare as compare_engines
from proof.lies.run import Told, tell_all
from proof.neighbour import SECONDS as NEIGHBOUR_S
from proof.neighbour import neighbour
from proof.planted.catalogue import BUGS, bug_named
from proof.planted.run import SEEDS_MAX, Found, hunt_all
from proof.planted.tested import failing_tests
from proof.real.run import run
from proof.search.run import STATES, run_all
from proof.search.run import as_json as figures_of
from proof.teeth import changes, known_seeds, teeth_of
from proof.teeth import read as read_teeth
from proof.teeth import write as write_teeth
from triack.tools.commands.common import verbose_option

EXIT_FAIL = 1
LIES = 20_000
TEETH_LIES = 6_000
BOTH = 600
"""How many of them both engines judge, in one replay: a few minutes of Spark. Some cannot be read, 500 can."""
CHARACTERS = 4_000

_COUNT = click.IntRange(min=1)
_json_option = click.option("--json", "as_json", is_flag=True, help="End with the figures as one line of JSON.")
_jobs_option = click.option(
    "--jobs", type=click.IntRange(min=0), default=0, metavar="J", help="Processes; 0: one per core."
)
_console = Console(stderr=True, highlight=False, soft_wrap=True)


@click.group()
def main() -> None:
    """Known bugs, all states of small worlds, broken disks, floods, bad peers, figures, and the real thing."""


@main.command()
@click.argument("names", nargs=-1, type=click.Choice([bug.name for bug in BUGS]), metavar="[BUG]...")
@click.option("--seeds", type=_COUNT, default=SEEDS_MAX, show_default=True, metavar="N", help="Tried for each bug.")
@click.option("--tests", is_flag=True, help="See which quick tests find each bug, too.")
@_jobs_option
@verbose_option
def teeth(names: tuple[str, ...], seeds: int, jobs: int, *, tests: bool) -> None:
    """Plant known bugs, and tell lies: write down what finds each in proof/teeth.json, and say what has changed.

    With names of bugs only these are planted, and no lies are told. It fails when a bug is not found by all that must
    find it. Lies that nothing finds are named; ``lies`` fails for them.
    """

    def say(found: Found) -> None:
        _console.print(f"{'' if found.whole else '[red]not found:[/] '}{found.bug.name}: {escape(found.told)}")

    before, bugs = read_teeth(), [bug_named(name) for name in names] or list(BUGS)
    # Lies are told one after the other: beside the bugs, they cost a core and hardly any time.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as teller:
        telling = None if names else teller.submit(tell_all, TEETH_LIES)
        results = hunt_all(bugs, seeds_max=seeds, known=known_seeds(before), jobs=jobs, say=say)
        tested = failing_tests(bugs, jobs) if tests else {}
        told = telling.result() if telling else None
    after = teeth_of(before, results, tested, told)
    for line in changes(before, after):
        _console.print(escape(line))
    for missed in told.missed if told else ():
        _console.print(f"[red]missed:[/] {escape(missed)}")
    write_teeth(after)
    found = sum(result.whole for result in results)
    lies = f"; {told.lies} lies of {len(told.finders)} kinds, {len(told.missed)} missed" if told else ""
    _console.print(f"{found} of {len(results)} planted bugs found{lies}")
    sys.exit(0 if found == len(results) else EXIT_FAIL)


@main.command()
@click.option("--count", "lies", type=_COUNT, default=LIES, show_default=True, metavar="N", help="How many.")
@click.option("--seed", type=int, default=1, show_default=True, metavar="S", help="Which ones.")
@click.option(
    "--both",
    type=click.IntRange(min=0),
    default=BOTH,
    show_default=True,
    metavar="N",
    help="For both engines; 0: none.",
)
@click.option(
    "--characters",
    type=click.IntRange(min=0),
    default=CHARACTERS,
    show_default=True,
    metavar="N",
    help="Of single characters, beside them; 0: none.",
)
@_json_option
@verbose_option
def lies(lies: int, seed: int, both: int, characters: int, *, as_json: bool) -> None:
    """Tell lies about session logs, record by record, and see each one found out or proved harmless."""
    told = tell_all(lies, seed)
    _say_told("lies", told)
    slips = tell_slips(characters, seed) if characters else Told()
    _say_told("changes of a character", slips)
    compared = _compare_engines(both, seed) if both else None
    if as_json:
        engines = asdict(compared) if compared else None
        figures = {**asdict(told), "characters": asdict(slips), "engines": engines}
        click.echo(json.dumps(figures, default=sorted))
    sys.exit(EXIT_FAIL if told.missed or slips.missed or (compared and compared.different) else 0)


def _say_told(what: str, told: Told) -> None:
    for missed in told.missed:
        _console.print(f"[red]missed:[/] {escape(missed)}")
    same, harmless = told.harmless[SAME], sum(told.harmless.values())
    alike = f" or none ({same})" if same else ""
    _console.print(f"{told.lies} {what}: {len(told.missed)} missed, {harmless} harmless{alike}, all others found")


def _compare_engines(lies: int, seed: int) -> Compared:
    from triack.tools.replay.engines.spark_session import open_spark

    spark = open_spark(None)
    try:
        with tempfile.TemporaryDirectory() as directory:
            compared = compare_engines(spark, lies, seed, Path(directory))
    finally:
        spark.stop()
    for said in compared.different:
        _console.print(f"[red]the engines disagree:[/] {escape(said)}")
    agree = "disagree" if compared.different else "agree"
    _console.print(
        f"both engines on {compared.lies:,} of them in one replay, {compared.records:,} records, "
        f"{compared.violations:,} violations: they {agree}"
    )
    return compared


@main.command()
@_json_option
@verbose_option
def figures(*, as_json: bool) -> None:
    """Measure: lost packets, handshakes, transfers, outages, replays."""
    found = everything(lambda name, result: _console.print(f"{name}: {result}"))
    if as_json:
        click.echo(json.dumps(found))


@main.command()
@click.option("--states", type=_COUNT, default=STATES, show_default=True, metavar="N", help="Of each world, at most.")
@_jobs_option
@_json_option
@verbose_option
def exhaustive(states: int, jobs: int, *, as_json: bool) -> None:
    """Search every state of small worlds."""
    start = time.monotonic()
    results = run_all(states, _console.print, jobs)
    found = {
        "states": sum(result.states for result in results),
        "violations": sum(result.violation is not None for result in results),
        "seconds": round(time.monotonic() - start, 1),
        "scopes": [figures_of(result) for result in results],
    }
    _conclude(found, as_json=as_json)


@main.command()
@click.option("--every", type=_COUNT, default=1, show_default=True, metavar="N", help="Take one case of N.")
@_jobs_option
@_json_option
@verbose_option
def disk(every: int, jobs: int, *, as_json: bool) -> None:
    """Break a store at every call to its disk, in every way: loss of power, failing calls, every kind of damage."""
    proofs, seconds = prove_all(_console.print, jobs, every=every)
    for name, proof in proofs.items():
        _console.print(f"{name}: {proof}")
    found = {name: asdict(proof) for name, proof in proofs.items()} | {
        "violations": sum(len(proof.violations) for proof in proofs.values()),
        "seconds": round(seconds, 1),
    }
    _conclude(found, as_json=as_json)


@main.command()
@click.option("--seconds", type=click.FloatRange(min=1), default=OUTAGE_S, help="For which the link is down.")
@click.option("--rate", type=_COUNT, default=RATE, help="Messages a second.")
@click.option("--away", "messages", type=_COUNT, metavar="N", help="Only measure a gateway that cannot send them.")
def bridges(seconds: float, rate: int, messages: int | None) -> None:
    """Count what gets lost while a link is down: by mosquitto's own bridge, and by Triack's."""
    if messages is not None:
        asyncio.run(away(messages, click.echo))
        return
    for way in WAYS:
        it = asyncio.run(outage(way, rate, seconds))
        click.echo(f"{way}: lost {it.lost:,} of {it.acknowledged:,}, {it.repeated:,} repeats")


@main.command(name="flood")
@click.option("--datagrams", type=_COUNT, default=DATAGRAMS, show_default=True, metavar="N", help="How many.")
@_json_option
def flood_command(datagrams: int, *, as_json: bool) -> None:
    """Junk and spoofed connects, and a peer that must get in meanwhile."""
    found = flood(datagrams)
    _console.print(
        f"{found.datagrams:,} datagrams of strangers, {found.answered:,} answered with {found.amplification} of their"
        f" length at most; memory grew by {found.memory_bytes:,} bytes;"
        f" {found.peers_tried - found.peers_failed:,} of {found.peers_tried:,} connects of a peer got in"
    )
    _conclude(found._asdict(), as_json=as_json)


@main.command()
@click.option(
    "--seconds", type=click.FloatRange(min=0.1), default=SECONDS, show_default=True, help="Of each measurement."
)
@click.option("--rounds", type=_COUNT, default=ROUNDS, show_default=True, metavar="N", help="Of measurements.")
@_json_option
@verbose_option
def hundred(seconds: float, rounds: int, *, as_json: bool) -> None:
    """One bad peer of a hundred: what the others keep of their throughput, and what it costs in memory."""
    found = measure_hundred(seconds, PEERS, rounds)
    _console.print(
        f"beside one whose messages nobody reads: {found.unread.kept:.1%} kept, {found.unread.growth_bytes:,} bytes"
        f" more memory; beside one that has stopped: {found.stopped.kept:.1%} kept; beside one that floods with pings:"
        f" {found.pinging.kept:.1%} kept"
    )
    _conclude(found.to_json(), as_json=as_json)


@main.command(name="neighbour")
@click.option(
    "--seconds", type=click.FloatRange(min=1), default=NEIGHBOUR_S, show_default=True, help="How long it is there."
)
@_json_option
@verbose_option
def neighbour_command(seconds: float, *, as_json: bool) -> None:
    """A neighbour with a key that sends the worst it may: what an honest one keeps, and how the node's memory grows."""
    found = neighbour(seconds, _console.print)
    _console.print(
        f"beside one that sends the worst: {found.kept:.1%} of {found.alone:,.0f} messages a second kept,"
        f" {found.growth_bytes:,} bytes more memory; it sent {sum(found.packets.values()):,} packets"
    )
    _conclude(found.to_json(), as_json=as_json)


@main.command()
@click.option("--kills", type=_COUNT, default=1_000, show_default=True, metavar="N", help="How many.")
@click.option("--minutes", type=click.FloatRange(min=0), default=0.0, metavar="M", help="Stop after so long.")
@_json_option
@verbose_option
def real(kills: int, minutes: float, *, as_json: bool) -> None:
    """Real sockets, namespaces, kills, failing system calls and large stores."""
    result = run(kills, minutes=minutes, say=_console.print)
    _conclude(result.to_json() | {"violations": len(result.violations), "found": result.violations}, as_json=as_json)


def _conclude(found: dict[str, Any], *, as_json: bool) -> None:
    verdict = "[red]promises were broken[/]" if found["violations"] else "[green]every promise was kept[/]"
    _console.print(f"{found['violations']} violations in {found['seconds']:,.1f} s: {verdict}")
    if as_json:
        click.echo(json.dumps(found))
    sys.exit(EXIT_FAIL if found["violations"] else 0)


if __name__ == "__main__":
    main(prog_name="python -m proof")
