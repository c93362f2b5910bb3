"""The kernel's packet filter drops packets, in a network namespace that a process creates for itself.

Nothing outside the namespace is touched, and no privilege outside it is needed.

    python -m proof.real.namespace 30 COMMAND...    # run a command where 30 % of all packets vanish
"""

import contextlib
import functools
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from proof.real.nodes import HANG_S
from triack.base.errors import TriackError
from triack.tools.bench.namespace import ip, lacks, program

# Every packet on the loopback interface comes in once, whichever way it goes: this drops the same share each way.
_RULES = """
table inet chaos {{
    counter dropped {{}}
    counter passed {{}}
    chain input {{
        type filter hook input priority 0;
        meta l4proto {{ tcp, udp }} numgen random mod 100 < {loss} counter name dropped drop
        meta l4proto {{ tcp, udp }} counter name passed
    }}
}}
"""
_NAME = "proof.real.namespace"
_INSIDE = "--inside"


@dataclass(slots=True)
class Lossy:
    """The result of a command in the namespace."""

    code: int | None
    output: str
    complaints: str
    passed: int = 0
    dropped: int = 0


@functools.cache
def missing() -> str | None:
    """Return why such a namespace cannot be made here, or None."""
    if why := lacks("unshare", "nft", "ip"):
        return why
    tried = lossy(1, ["true"])
    return f"no network namespace with a packet filter here: {tried.complaints.strip()}" if tried.code else None


def lossy(loss_percent: int, command: list[str], limit_s: float = HANG_S) -> Lossy:
    """Run a command in a new network namespace that loses packets at random, each way."""
    # A namespace of processes, too: its children end with the command.
    wrapped = [
        program("unshare"),
        "-r",
        "-n",
        "-p",
        "-f",
        "--kill-child",
        sys.executable,
        "-m",
        _NAME,
        _INSIDE,
        _here(),
    ]
    process = subprocess.Popen([*wrapped, str(loss_percent), *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        output, complaints = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        process.kill()
        output, complaints = process.communicate()
        return Lossy(None, output.decode(), complaints.decode())
    lines, _, last = output.decode().rstrip("\n").rpartition("\n")
    if process.returncode or not last.startswith("{"):
        return Lossy(process.returncode or 1, output.decode(), complaints.decode())
    return Lossy(0, lines, complaints.decode(), **json.loads(last))


def _counters(nft: str) -> dict[str, int]:
    listed = subprocess.run([nft, "-j", "list", "counters"], capture_output=True, check=True).stdout
    found = [entry["counter"] for entry in json.loads(listed)["nftables"] if "counter" in entry]
    return {counter["name"]: counter["packets"] for counter in found}


def _here() -> str:
    return str(Path("/proc/self/ns/net").readlink())


def _lose_here(outside: str, loss_percent: int, command: list[str]) -> int:
    """Set up the namespace that this process is in, run the command, print the counters as one line of JSON."""
    if _here() == outside:
        sys.stderr.write("lose packets: this process has no network namespace of its own\n")
        return 1
    nft = program("nft")
    rules = _RULES.format(loss=loss_percent)
    try:
        ip("link", "set", "lo", "up")
        subprocess.run([nft, "-f", "-"], input=rules.encode(), check=True, stderr=subprocess.PIPE)
    except (OSError, TriackError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"{(getattr(error, 'stderr', None) or str(error).encode()).decode().strip()}\n")
        return 1
    code = subprocess.run(command, check=False).returncode
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(f"\n{json.dumps(_counters(nft))}\n")
        sys.stdout.flush()
    return code


def main() -> int:
    """Run a command where packets vanish: by hand in a new namespace, or, for ``lossy``, in the one that it made."""
    if sys.argv[1] == _INSIDE:
        return _lose_here(sys.argv[2], int(sys.argv[3]), sys.argv[4:])
    found = lossy(int(sys.argv[1]), sys.argv[2:])
    sys.stdout.write(f"{found.output}\n{found.dropped} packets dropped, {found.passed} passed\n")
    sys.stderr.write(found.complaints)
    return 1 if found.code is None else found.code


if __name__ == "__main__":
    sys.exit(main())
