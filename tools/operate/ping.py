"""``triack ping``: how long a peer takes to answer, and what is known of the way to it."""

import asyncio
from dataclasses import asdict
from pathlib import Path
from statistics import fmean

import click

import triack
from triack.base.errors import WaitTimeout
from triack.tools.commands.common import (
    FloatRange,
    existing_data_option,
    json_line,
    json_option,
    peer_option,
    read_peers,
    run,
    suite_option,
    verbose_option,
)
from triack.tools.commands.visiting import Host, calling

EXIT_UNANSWERED = 1


@click.command()
@verbose_option
@click.argument("peer", metavar="PEER")
@click.option("-n", "times", type=click.IntRange(min=1), default=4, metavar="N", help="Ask N times.  [default: 4]")
@click.option("--every", "every_s", type=FloatRange(min=0), default=1.0, metavar="S", help="Wait S seconds in between.")
@click.option(
    "--timeout", type=FloatRange(min=0, min_open=True), default=5.0, metavar="S", help="Wait S seconds for each answer."
)
@peer_option
@suite_option
@json_option
@existing_data_option
def ping(
    *,
    peer: str,
    times: int,
    every_s: float,
    timeout: float,
    peers: tuple[str, ...],
    suite: str,
    data: Path,
    as_json: bool,
) -> int:
    """Ask PEER for answers: the handshake, round trips, the size of datagrams, and how far its clock differs.

    If messages for PEER go by a relay, the relay is asked, and each answer says so. Works through the process that runs
    the node; without one, the command opens the directory itself. The exit code is 1 if no answer came.
    """
    return run(_ping(data, peer, times, every_s, timeout, read_peers(peers), suite, as_json=as_json))


async def _ping(
    data: Path,
    peer: str,
    times: int,
    every_s: float,
    timeout: float,
    peers: dict[str, str],
    suite: str,
    *,
    as_json: bool,
) -> int:
    async with calling(data, peers, suite) as node:
        return await _ask(node, peer, times, every_s, timeout, as_json=as_json)


async def _ask(node: Host, peer: str, times: int, every_s: float, timeout: float, *, as_json: bool) -> int:
    answers: list[triack.PingAnswer] = []
    told = False
    for number in range(1, times + 1):
        try:
            answer = await node.ping(peer, timeout=timeout)
        except WaitTimeout as error:
            click.echo(json_line({"n": number, "error": str(error)}) if as_json else f"{number}: {error}")
        else:
            answers.append(answer)
            if answer.by and not told and not as_json:
                click.echo(f"messages for {peer} go by {answer.by}, which answers; a ping goes no further")
                told = True
            click.echo(json_line({"n": number, **asdict(answer)}) if as_json else f"{number}: {_told(answer)}")
        if number < times:
            await asyncio.sleep(every_s)
    summary = _summary(times, answers)
    click.echo(json_line(summary) if as_json else _as_text(peer, summary))
    return 0 if answers else EXIT_UNANSWERED


def _told(answer: triack.PingAnswer) -> str:
    handshake = "" if answer.handshake_s is None else f", handshake {_ms(answer.handshake_s)}"
    size = f"datagrams up to {answer.datagram_bytes} bytes"
    by = f"{answer.by} at " if answer.by else ""
    return f"{by}{answer.address}, round trip {_ms(answer.round_trip_s)}{handshake}, {size}, {_clock(answer)}"


def _clock(answer: triack.PingAnswer) -> str:
    side = "ahead of" if answer.clock_ahead_s >= 0 else "behind"
    return f"its clock is {_ms(abs(answer.clock_ahead_s))} {side} this one"


def _ms(seconds: float) -> str:
    return f"{seconds * 1_000:.3g} ms"


def _summary(times: int, answers: list[triack.PingAnswer]) -> dict[str, float | int | None]:
    trips = [it.round_trip_s for it in answers]
    return {
        "asked": times,
        "answered": len(answers),
        "min_s": min(trips, default=None),
        "mean_s": fmean(trips) if trips else None,
        "max_s": max(trips, default=None),
    }


def _as_text(peer: str, summary: dict[str, float | int | None]) -> str:
    asked, answered = summary["asked"] or 0, summary["answered"] or 0
    lost = f"{peer}: {asked} asked, {answered} answered, {100 * (asked - answered) / asked:.0f} % lost"
    if not answered:
        return lost
    trips = "/".join(f"{(summary[name] or 0) * 1_000:.3g}" for name in ("min_s", "mean_s", "max_s"))
    return f"{lost}; round trip min/mean/max {trips} ms"
