"""``python -m tests.fuzz.run``: fuzz each target for a while, guided by which lines and comparisons are reached.

    python -m tests.fuzz.run [--seconds 60] [--work DIRECTORY] [TARGET ...]

One process for each target, one after the other. What the fuzzer keeps goes to the work directory, where the next run
goes on; the corpus in the repository is only read. Ends with 1 when a target had a finding; the input that shows it is
named, and belongs into the corpus.
"""

import argparse
import importlib
import resource
import subprocess
import sys
from pathlib import Path

SECONDS = 60
INPUT_BYTES_MAX = 4_096
"""Longer inputs make no new way through a decoder, and slow the search."""
INPUT_SECONDS_MAX = 5
"""An input that takes longer is a finding."""
MEMORY_MB_MAX = 1_024
REPORT_LETTERS = 4_000
"""The end of what a fuzzer says: the finding."""
_COUNT = "stat::number_of_executed_units:"


def main() -> int:
    """Fuzz in processes of their own; ``--one`` is what these run."""
    parser = argparse.ArgumentParser(prog="make fuzz ARGS=")
    parser.add_argument("--seconds", type=int, default=SECONDS, help=f"for each target; {SECONDS} by default")
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
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "tests.fuzz.run", "--one", "--seconds", str(chosen.seconds)]
        done = subprocess.run(
            [*command, "--work", str(chosen.work), name], stderr=subprocess.PIPE, text=True, check=False
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        found = "FINDING" if done.returncode else "no finding"
        say(f"{name}: {found}, {cpu_s:.0f} s of CPU, {inputs_of(done.stderr)} inputs")
        if done.returncode:
            failed.append(name)
            say(done.stderr[-REPORT_LETTERS:])
    return 1 if failed else 0


def inputs_of(report: str) -> str:
    """How many inputs a fuzzer says that it has tried."""
    return next((line.split()[-1] for line in report.splitlines() if line.startswith(_COUNT)), "?")


def say(text: str) -> None:
    """To whoever has called."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def fuzz(name: str, seconds: int, work: Path) -> None:
    """Fuzz one target in this process; does not return."""
    atheris = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["triack"]):
        targets = importlib.import_module("tests.fuzz.targets")
    kept = work / name
    kept.mkdir(parents=True, exist_ok=True)
    options = [f"-max_total_time={seconds}", f"-max_len={INPUT_BYTES_MAX}", f"-timeout={INPUT_SECONDS_MAX}"]
    options += [f"-rss_limit_mb={MEMORY_MB_MAX}", f"-artifact_prefix={kept}-", "-print_final_stats=1"]
    atheris.Setup([name, *options, str(kept), str(targets.CORPUS / name)], targets.TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
