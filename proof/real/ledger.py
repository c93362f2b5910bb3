"""The work of a process whose disk is made to fail: it reports each commit of its store immediately, with the time.

``write`` commits a fixed series of transactions; ``keep`` is a node that receives messages until it is stopped. Both
wait until strace traces them.
"""

import ctypes
import time
from pathlib import Path
from typing import Any

import triack
from proof.real.children import Report
from proof.real.nodes import HANG_S, body, quick

QUEUE = "ledger"
TAKE_BEHIND = 3
"""From its fourth transaction on the writer also reads the oldest message: the series deletes as well."""
BIG_BYTES = 3 * 1024 * 1024
"""So large that a dozen bodies make the store bring its log into the database in the middle of the series."""
_PR_SET_PTRACER, _PR_SET_PTRACER_ANY = 0x59616D61, -1  # prctl(2)


def _wait_for_tracer() -> None:
    # Some kernels let only the parent trace, unless the process allows more; the others refuse the request.
    ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_long(_PR_SET_PTRACER_ANY))
    end = time.monotonic() + HANG_S
    while "TracerPid:\t0\n" in Path("/proc/self/status").read_text():
        if time.monotonic() > end:
            raise triack.WaitTimeout(f"not traced after {HANG_S:g} s")
        time.sleep(0.001)


def _timed(report: Report) -> Report:
    return lambda line: report(f"{time.time():.6f} {line}")


async def write(options: dict[str, Any], report: Report) -> None:
    """Commit ``count`` numbers, one in each transaction."""
    say, size_bytes = _timed(report), options["size_bytes"]
    if options["traced"]:
        _wait_for_tracer()
    async with triack.open("ledger", data=options["data"], insecure=True, settings=quick()) as node:
        start = int(node.recall("written") or b"0")
        say(f"opened {start}")
        for number in range(start, start + options["count"]):
            async with node.transaction() as tx:
                await tx.send(QUEUE, body(number, size_bytes))
                if number >= TAKE_BEHIND:
                    await tx.receive(QUEUE, HANG_S)
                tx.remember("written", b"%d" % (number + 1))
            say(f"committed {number + 1}")


async def keep(options: dict[str, Any], report: Report) -> None:
    """Receive messages, until stopped or the store fails."""
    say = _timed(report)
    if options["traced"]:
        _wait_for_tracer()
    async with triack.open(
        "keeper", data=options["data"], listen=options["listen"], insecure=True, settings=quick(), queues=[QUEUE]
    ) as node:
        say(f"address {node.address}")
        raise await node.failed()
