"""``triack chaos``: break everything, check everything, and report the findings."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from triack.base.errors import UsageError
from triack.base.printable import counted
from triack.tools.commands.common import FloatRange, console_on, given_options, verbose_option

if TYPE_CHECKING:
    from rich.console import Console

    from triack.tools.chaos.campaign import Campaign
    from triack.tools.chaos.plan import Plan
    from triack.tools.chaos.run import Outcome

SEEDS = 200
"""Enough to meet every kind of fault many times."""
EXIT_FAIL = 1
PLAIN_EVERY_S = 5.0
"""Without a terminal, a line now and then shows progress."""
SHOWN_FAILURES = 10
"""Each is a line; more failures than these usually have one cause."""

_COUNT = click.IntRange(min=1)

_MANY = {"--seeds", "--first", "--minutes", "--jobs", "--fail-fast"}
_ONE = {"--seed", "--shrink", "--log"}
_ALWAYS = {"--json", "-v"}


@click.command()
@click.option("--seed", type=click.IntRange(min=0), metavar="S", help="Run this one seed.")
@click.option("--seeds", type=_COUNT, metavar="N", help=f"Run this many seeds.  [default: {SEEDS}]")
@click.option("--first", type=click.IntRange(min=0), default=0, show_default=True, metavar="S", help="Where to start.")
@click.option("--minutes", type=FloatRange(min=0, min_open=True), metavar="M", help="Stop after so long.")
@click.option("--jobs", type=_COUNT, metavar="J", help="Processes.  [default: one per core]")
@click.option("--fail-fast", is_flag=True, help="Stop at the first seed that breaks a promise.")
@click.option("--shrink", "small", is_flag=True, help="With --seed: find the smallest fault schedule that still fails.")
@click.option("--log", type=click.Path(path_type=Path), metavar="DIR", help="With --seed: write its session logs.")
@click.option("--json", "as_json", is_flag=True, help="End the output with the figures as one line of JSON.")
@verbose_option
def chaos(
    *,
    seed: int | None,
    seeds: int | None,
    first: int,
    minutes: float | None,
    jobs: int | None,
    fail_fast: bool,
    small: bool,
    log: Path | None,
    as_json: bool,
) -> int:
    """Run whole nodes in a simulated world that breaks everything, and check that every promise was kept.

    Each seed draws its own faults: of the network, the disks, the processes, the clocks. The same seed does the same,
    byte for byte. The exit status is 0 if every promise was kept and 1 if one was broken.
    """
    _check_options()
    console = console_on(stderr=True)
    if seed is not None:
        return _one(seed, console, small=small, log=log, as_json=as_json)
    count = SEEDS if seeds is None and minutes is None else seeds
    return _many(first, count, minutes, jobs or 0, console, fail_fast=fail_fast, as_json=as_json)


def _check_options() -> None:
    given = given_options()
    kind, allowed = ("--seed", _ONE) if "--seed" in given else ("a run of many seeds", _MANY)
    for option in given:
        if option not in allowed | _ALWAYS:
            raise UsageError(f"chaos: {option} does not go with {kind}")


# ---- one seed


def _one(seed: int, console: Console, *, small: bool, log: Path | None, as_json: bool) -> int:
    from triack.tools.chaos.drawing import draw
    from triack.tools.chaos.run import run_plan

    plan = draw(seed)
    console.print(f"seed {seed}", highlight=False)
    console.print_json(json.dumps(plan.describe()))
    start = time.monotonic()
    outcome = run_plan(plan)
    seconds = time.monotonic() - start
    for rule, sentence in outcome.violations:
        console.print(f"[red]{rule}[/] {sentence}", highlight=False)
    if log is not None:
        _write_logs(outcome, log)
    if small and outcome.violations:
        _shrink(plan, outcome, console)
    figures = _figures(outcome, seconds)
    _show(figures, console)
    if as_json:
        click.echo(json.dumps(figures))
    return EXIT_FAIL if outcome.violations else 0


def _figures(outcome: Outcome, seconds: float) -> dict[str, Any]:
    from triack.tools.chaos.campaign import Campaign, Report

    campaign = Campaign(seconds=seconds)
    campaign.add(Report.of(outcome))
    return campaign.summary() | {"trace": outcome.trace}


def _write_logs(outcome: Outcome, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, records in outcome.logs.items():
        (folder / name).write_bytes(records)


def _shrink(plan: Plan, outcome: Outcome, console: Console) -> None:
    from triack.tools.chaos.run import run_plan
    from triack.tools.chaos.shrink import shrink

    rule = outcome.violations[0][0]
    with console.status(f"looking for a smaller plan that breaks {rule}"):
        found = shrink(plan, lambda smaller: any(rule == broken for broken, _ in run_plan(smaller).violations))
    console.print(f"smallest plan found that still breaks {rule}:")
    console.print_json(json.dumps(found.describe()))
    for fault in found.faults:
        console.print(f"  {fault}", highlight=False)
    for broken, sentence in run_plan(found).violations:
        console.print(f"  [red]{broken}[/] {sentence}", highlight=False)


# ---- many seeds


def _many(
    first: int, seeds: int | None, minutes: float | None, jobs: int, console: Console, *, fail_fast: bool, as_json: bool
) -> int:
    from triack.tools.chaos.campaign import run_campaign

    columns = (
        TextColumn("chaos"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        bar = bars.add_task("seeds", total=seeds, rate="")
        shown = _Shown(console)

        def progress(campaign: Campaign) -> None:
            rate = f"{campaign.seeds / max(campaign.seconds, 1e-9):.1f} seeds/s"
            bars.update(bar, completed=campaign.seeds, rate=rate)
            shown.update(campaign, rate)

        campaign = run_campaign(first, seeds, minutes=minutes, jobs=jobs, fail_fast=fail_fast, progress=progress)
    _show(campaign.summary(), console)
    if as_json:
        click.echo(json.dumps(campaign.summary()))
    return EXIT_FAIL if campaign.failures else 0


class _Shown:
    """Prints failures as they come, and without a terminal a line now and then."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._failures = 0
        self._at = time.monotonic()

    def update(self, campaign: Campaign, rate: str) -> None:
        """After each run."""
        for failure in campaign.failures[self._failures : SHOWN_FAILURES]:
            rule, sentence = failure.violations[0]
            text = f"[red]seed {failure.seed}[/] {rule}: {sentence}  (triack chaos --seed {failure.seed} --shrink)"
            self._console.print(text, highlight=False)
        self._failures = len(campaign.failures)
        now = time.monotonic()
        if not self._console.is_terminal and now - self._at >= PLAIN_EVERY_S:
            self._at = now
            self._console.print(f"{counted(campaign.seeds, 'seed')}  {rate}  {self._failures} failed", highlight=False)


def _show(figures: dict[str, Any], console: Console) -> None:
    verdict = "[green]every promise was kept[/]" if not figures["violations"] else "[red]promises were broken[/]"
    console.print(
        f"{counted(figures['seeds'], 'seed')} in {figures['seconds']:,} s ({figures['seeds_per_second']:,} seeds/s), "
        f"{figures['virtual_seconds']:,} virtual seconds ({figures['virtual_per_real']:,} per real second), "
        f"{counted(figures['events'], 'event')}, {counted(figures['violations'], 'seed')} with violations: {verdict}",
        highlight=False,
        soft_wrap=True,
    )
    console.print(f"trace {figures['trace']}", highlight=False)
