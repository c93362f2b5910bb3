"""Rows between two network namespaces: T8 over a link that loses packets, others over a cable."""

from dataclasses import asdict, replace
from pathlib import Path

from triack.base.units import MS
from triack.tools.bench.figures import Result
from triack.tools.bench.options import Meter, Options
from triack.tools.bench.rows import LOSSES, Row
from triack.tools.bench.run import Outcome, Progress
from triack.tools.bench.work import Work
from triack.tools.demo.child import Report
from triack.tools.demo.run import Child
from triack.tools.sim.faults import BITS, Faults

T8_LINK = Faults(rate_bps=100_000_000, delay_ns=5 * MS, queue_bytes=125_000)
"""100 Mbit/s and 10 ms there and back, with a queue of their product."""

QUICK_LOSSES = LOSSES[1:2]
SMALL = "1 KiB"
"""The run with messages that fill a datagram each."""
_CONTROLS = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


async def measure_link(row: Row, options: Options, meter: Meter, result: Result) -> None:
    """Triack with both of its controllers and with small messages, and TCP, in turns, for each loss."""
    work = _shaped(row, options, result, "tcp")
    result.note("TCP beside it: the kernel's, with CUBIC, which Linux uses by itself; and with BBR where there is that")
    for number in range(options.runs):
        for percent in QUICK_LOSSES if options.quick else LOSSES:
            faults = replace(T8_LINK, loss=percent / 100)
            shares: dict[tuple[str, str], float] = {}
            for system, control, its in (
                ("triack", "bbr", work),
                ("triack", SMALL, replace(work, size=1_024)),
                ("triack", "newreno", work),
                *[("tcp", it, work) for it in _controls()],
            ):
                name = f"{row.name} {percent} % {system} {control} {number + 1}/{options.runs}"
                meter.begin(name, its)
                folder = options.folder_of(name)
                used = "bbr" if control == SMALL else control
                outcome = await _one(system, used, its, faults, folder, meter, seed=number + 1)
                shares[system, control] = share(outcome, faults)
                rate = f"{outcome.goodput * BITS / 1e6:.1f} Mbit/s"
                meter.say(f"{name}: {rate}, {shares[system, control]:.1f} % of (1 - loss) x link")
                _handle(result, system, outcome, lossy=True)
            _take(result, percent, shares)


async def measure_cable(row: Row, options: Options, meter: Meter, result: Result) -> None:
    """Triack and the outbox, in turns, where packets have 1,500 bytes."""
    work = _shaped(row, options, result, "outbox")
    for number in range(options.runs):
        for system, values in (("triack", result.headline.values), ("outbox", result.headline.versus_values)):
            name = f"{row.name} {system} {number + 1}/{options.runs}"
            meter.begin(name, work)
            outcome = await _one(system, work.congestion, work, None, options.folder / name.replace("/", "-"), meter)
            meter.say(outcome.summed_up(name))
            _handle(result, system, outcome, lossy=False)
            values.append(outcome.rate)


def _shaped(row: Row, options: Options, result: Result, versus: str) -> Work:
    """The work of a row between two namespaces, beside which another system is measured."""
    result.versus, result.versus_verified = versus, True
    if options.insecure:
        result.note("secured all the same: a node without keys stays on loopback")
    return replace(options.shaped(row.work), insecure=False)


def _controls() -> list[str]:
    known = _CONTROLS.read_text(encoding="ascii").split()
    return [control for control in ("cubic", "bbr") if control in known]


def _handle(result: Result, system: str, outcome: Outcome, *, lossy: bool) -> None:
    if system == "triack":
        result.handle(outcome)
    elif outcome.delivered or not lossy:  # on the worst links nothing may arrive in time, and nothing wrong either
        result.versus_verified = bool(result.versus_verified and outcome.verified)
        result.versus_guarantee = outcome.guarantee


def _take(result: Result, percent: int, shares: dict[tuple[str, str], float]) -> None:
    figure, own = result.figures[f"{percent} % loss"], shares["triack", "bbr"]
    figure.values.append(own)
    result.figures[f"{percent} % loss, messages of 1 KiB"].values.append(shares["triack", SMALL])
    result.figures[f"{percent} % loss, NewReno"].values.append(shares["triack", "newreno"])
    cubic = shares.get(("tcp", "cubic"))
    if cubic is not None:
        figure.versus_values.append(cubic)
        if cubic:
            result.figures[f"{percent} % loss, times TCP"].values.append(own / cubic)
    if ("tcp", "bbr") in shares:
        result.figures[f"{percent} % loss, TCP with BBR"].values.append(shares["tcp", "bbr"])


def share(outcome: Outcome, faults: Faults) -> float:
    """The share of delivered bodies in the link's capacity after losses, in percent."""
    return 100 * outcome.goodput * BITS / (faults.rate_bps * (1 - faults.loss))


async def _one(
    system: str, control: str, work: Work, faults: Faults | None, folder: Path, meter: Meter, *, seed: int = 1
) -> Outcome:
    progress = Progress()
    meter.watch(progress)
    if system == "triack":
        work = replace(work, congestion=control)
    options: Report = {"system": system, "work": work.to_json(), "folder": str(folder)}
    options |= {"congestion": control, "link": None if faults is None else asdict(faults), "seed": seed}
    async with Child.running("link", options, "triack.tools.bench.namespace") as child:
        while "outcome" not in (report := await child.next_report()):
            progress.handle(report)
        await child.finish(progress.handle)
        return Outcome(**report["outcome"])
