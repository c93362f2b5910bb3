"""``python -m tests.fuzz.run``: fuzz each target for a while, guided by which lines and comparisons are reached.

    python -m tests.fuzz.run [--seconds 60] [--work DIRECTORY] [TARGET ...]

One process for each target, one after the other, and again until the target had its seconds of processor time, which
says what was tried where a clock says how busy the machine was. What the fuzzer keeps goes to the work directory, where
the next run goes on; the corpus in the repository is only read. Ends with 1 when a target had a finding; the input that
shows it is named, and belongs into the corpus.
"""

import argparse
import importlib
import math
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SECONDS = 60
INPUT_BYTES_MAX = 4_096
"""Longer inputs make no new way through a decoder, and slow the search."""
INPUT_SECONDS_MAX = 600
"""By the clock; longer is a finding. A busy machine stands still for minutes; what time a decoder takes is counted in
the suite."""
MEMORY_MB_MAX = 1_024
PROCESSES_MAX = 100
"""On a machine so busy that this many do not come to their processor time, a target ends with less, and says so."""
REPORT_LETTERS = 4_000
"""The end of what a fuzzer says: the finding."""
_COUNT = "stat::number_of_executed_units:"


def main() -> int:
    """Fuzz in processes of their own; ``--one`` is what these run."""
    parser = argparse.ArgumentParser(prog="make fuzz ARGS=")
    parser.add_argument("--seconds", type=int, default=SECONDS, help=f"processor time of each; {SECONDS} by default")
    parser.add_argument("--work", type=Path, default=Path("build/fuzz"), help="where inputs are kept")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("targets", nargs="*", help="all by default")
    chosen = parser.parse_args()
    if chosen.one:
        fuzz(chosen.targets[0], chosen.seconds, chosen.work)
    # Only after the fuzzer has had its chance to watch the imports.
    from tests.fuzz.targets import TARGETS

    failed = []
    for name in chosen.targets or TARGETS:
        spent = try_out(name, chosen.seconds, chosen.work)
        found = "FINDING" if spent.finding else "no finding"
        say(f"{name}: {found}, {spent.cpu_s:.0f} s of CPU, {spent.inputs} inputs")
        if spent.finding:
            failed.append(name)
            say(spent.finding)
    return 1 if failed else 0


@dataclass
class Spent:
    """What has gone into a target: processor time, inputs, and how it ended if that was badly."""

    cpu_s: float = 0.0
    inputs: int = 0
    finding: str = ""


def try_out(name: str, seconds: int, work: Path) -> Spent:
    """Fuzz one target in processes of its own until it had its processor time, or has a finding."""
    spent = Spent()
    for _ in range(PROCESSES_MAX):
        left_s = math.ceil(seconds - spent.cpu_s)
        if left_s <= 0 or spent.finding:
            break
        command = [sys.executable, "-m", "tests.fuzz.run", "--one", "--seconds", str(left_s), "--work", str(work), name]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.cpu_s += after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        spent.inputs += inputs_of(done.stderr)
        if done.returncode:
            spent.finding = done.stderr[-REPORT_LETTERS:]
    return spent


def inputs_of(report: str) -> int:
    """How many inputs a fuzzer says that it has tried."""
    return sum(int(line.split()[-1]) for line in report.splitlines() if line.startswith(_COUNT))


def say(text: str) -> None:
    """Write a line for the caller."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def fuzz(name: str, seconds: int, work: Path) -> None:
    """Fuzz one target in this process; does not return."""
    atheris = importlib.import_module("atheris")
    read_json_in_python()
    with atheris.instrument_imports(include=["triack", "json"]):
        targets = importlib.import_module("tests.fuzz.targets")
    kept = work / name
    kept.mkdir(parents=True, exist_ok=True)
    options = [f"-max_total_time={seconds}", f"-max_len={INPUT_BYTES_MAX}", f"-timeout={INPUT_SECONDS_MAX}"]
    options += [f"-rss_limit_mb={MEMORY_MB_MAX}", f"-artifact_prefix={kept}-", "-print_final_stats=1"]
    atheris.Setup([name, *options, str(kept), str(targets.CORPUS / name)], targets.TARGETS[name])
    atheris.Fuzz()


def read_json_in_python() -> None:
    """From the next import of json on, in this process: into its reader in C no fuzzer sees."""
    for name in [name for name in sys.modules if name.split(".")[0] == "json"]:
        del sys.modules[name]
    sys.modules["_json"] = None  # type: ignore[assignment]  # which is how an import is forbidden


if __name__ == "__main__":
    sys.exit(main())
