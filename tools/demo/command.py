"""``triack demo``: send, receive, and prove it."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from triack.base.printable import counted
from triack.queues.messages import MAX_BODY_BYTES
from triack.tools.commands.common import FloatRange, console_on, run, verbose_option
from triack.tools.demo.bodies import SIZE_MIN
from triack.tools.demo.progress import shown
from triack.tools.demo.run import Plan, Transfer, transfer

if TYPE_CHECKING:
    from rich.console import Console

    from triack.tools.replay.log.schema import Verdict

REPORT_FILE = "triack-demo-report.html"
_SHARE = FloatRange(0, 0.9)


@dataclass(frozen=True, slots=True)
class _Outcome:
    """Everything that is known at the end."""

    plan: Plan
    transfer: Transfer
    verdict: Verdict
    replay_seconds: float

    @property
    def broken(self) -> list[str]:
        """The promises that were not kept, as the application and the record saw it."""
        seen, verdict, count = self.transfer, self.verdict, self.plan.messages
        found = {
            f"not delivered: {counted(count - seen.delivered, 'message')}": count - seen.delivered,
            f"delivered again: {counted(seen.duplicates, 'message')}": seen.duplicates,
            f"delivered out of order: {counted(seen.out_of_order, 'message')}": seen.out_of_order,
            f"not what was sent: {counted(seen.corrupt, 'message')}": seen.corrupt,
            f"the record has {verdict.sent} sent and {verdict.delivered} delivered messages, not {count}": (
                verdict.sent != count or verdict.delivered != count
            ),
            "the record shows a broken promise": verdict.verdict != "pass",
        }
        return [text for text, count in found.items() if count]

    def to_json(self) -> dict[str, Any]:
        """One object with all numbers."""
        seen, verdict = self.transfer, self.verdict
        return {
            "sent": seen.sent,
            "ordered": seen.ordered,
            "delivered": seen.delivered,
            "lost": max(self.plan.messages - seen.delivered, verdict.lost),
            "duplicates_delivered": max(seen.duplicates, verdict.duplicates_delivered),
            "out_of_order": max(seen.out_of_order, verdict.out_of_order),
            "corrupt": seen.corrupt,
            "duplicates_on_wire": verdict.duplicates_on_wire,
            "resends": verdict.resends,
            "sessions_closed": verdict.sessions_closed,
            "seconds": round(seen.seconds, 6),
            "messages_per_second": round(seen.rate, 1),
            "replay_seconds": round(self.replay_seconds, 3),
            "relay": seen.relay,
            "engine": verdict.engine,
            "violations": verdict.violations,
            "broken": self.broken,
            "verdict": "fail" if self.broken else "pass",
            "report": verdict.report,
        }


@click.command()
@click.option(
    "--messages", type=click.IntRange(min=1), default=100_000, show_default=True, metavar="N", help="How many."
)
@click.option(
    "--size",
    type=click.IntRange(SIZE_MIN, MAX_BODY_BYTES),
    default=100,
    show_default=True,
    metavar="B",
    help=f"Bytes of each, {SIZE_MIN} to {MAX_BODY_BYTES}.",
)
@click.option("--loss", type=_SHARE, default=0.1, show_default=True, metavar="P", help="Share of packets that vanish.")
@click.option("--duplicate", type=_SHARE, default=0.02, show_default=True, metavar="P", help="Share that comes twice.")
@click.option("--reorder", type=_SHARE, default=0.05, show_default=True, metavar="P", help="Share that is overtaken.")
@click.option("--seed", type=int, default=7, show_default=True, metavar="S", help="Repeats the network's decisions.")
@click.option(
    "--transport", type=click.Choice(["udp", "tcp"]), default="udp", show_default=True, help="Between the nodes."
)
@click.option(
    "--engine", type=click.Choice(["auto", "spark", "local"]), default="auto", show_default=True, help="For the replay."
)
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help=f"Where the page goes.  [default: {REPORT_FILE}, in the --keep directory if there is one]",
)
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep data and session logs there; it must be empty or new.",
)
@click.option(
    "--timeout", type=FloatRange(min=1), default=600.0, show_default=True, metavar="S", help="Give up after S seconds."
)
@click.option("--insecure", is_flag=True, help="Without keys: nothing is encrypted. For comparison.")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON and nothing else.")
@verbose_option
def demo(
    *,
    messages: int,
    size: int,
    loss: float,
    duplicate: float,
    reorder: float,
    seed: int,
    transport: str,
    engine: str,
    report: Path | None,
    keep: Path | None,
    timeout: float,
    insecure: bool,
    as_json: bool,
) -> int:
    """Send messages over a bad network, and prove that they all arrived, once and in order.

    Two nodes in two processes, with their default settings, keys, session logs and stores on disk; between them a relay
    that loses, doubles and reorders packets in both directions (none if all three shares are 0). The sender sends
    transactional messages, up to 8 MiB ahead of the last order ack; the receiver checks number, order and content of
    each. Then the session logs are replayed. Ends with 0 only if every promise was kept.
    """
    from triack.tools.replay.report.report import make_way
    from triack.tools.replay.run import require_spark

    if engine == "spark":
        # Missing libraries are reported before the work.
        require_spark()
    page = report or (keep or Path()) / REPORT_FILE
    plan = Plan(messages, size, loss, duplicate, reorder, seed, transport, timeout, insecure)
    console = None if as_json else console_on()
    with _folder(keep) as folder:
        make_way(page)
        progress = Transfer()
        code = run(_transfer(plan, folder, progress, console))
        if code:
            return code
        outcome = _replay(plan, progress, folder, engine, page, console)
    _show(outcome, console)
    return 1 if outcome.broken else 0


async def _transfer(plan: Plan, folder: Path, progress: Transfer, console: Console | None) -> int:
    async with shown(progress, plan.messages, console):
        await transfer(plan, folder, progress)
    return 0


def _replay(plan: Plan, progress: Transfer, folder: Path, engine: str, page: Path, console: Console | None) -> _Outcome:
    from triack.tools.replay.run import replay

    if console is not None:
        console.print(
            f"{counted(progress.delivered, 'message')} in {progress.seconds:.2f} s: {progress.rate:,.0f} a second; "
            "now replaying the session logs" + ("" if engine == "auto" else f", engine {engine}"),
            soft_wrap=True,
        )
    start = time.monotonic()
    verdict = replay([folder / "logs"], engine=engine, report=page)
    return _Outcome(plan, progress, verdict, time.monotonic() - start)


def _show(outcome: _Outcome, console: Console | None) -> None:
    if console is None:
        click.echo(json.dumps(outcome.to_json()))
        return
    from triack.tools.replay.command import show

    for direction, counters in outcome.transfer.relay.items():
        counts = ", ".join(f"{name} {count:,}" for name, count in counters.items())
        console.print(f"relay {direction.replace('_', ' ')}: {counts}", soft_wrap=True)
    show(outcome.verdict, console)
    for text in outcome.broken:
        console.print(f"[bold red]broken:[/] {text}")
    if not outcome.broken:
        console.print("[bold green]every message was delivered once, in order and unchanged[/]")


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="triack-demo-") as name:
            yield Path(name)
        return
    keep.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(keep.iterdir()):
        raise click.UsageError(f"--keep {keep}: the directory is not empty")
    yield keep
