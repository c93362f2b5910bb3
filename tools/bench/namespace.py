"""A run whose two ends are each in a network namespace, with a cable or an emulated link between them.

    python -m triack.tools.bench.namespace OPTIONS

enters new namespaces by ``unshare``, so it needs no privilege, and touches nothing outside them. The cable is a pair of
the kernel's Ethernet devices (veth). For an emulated link each end has a tunnel device (tun): a thread reads every IP
packet from one, keeps it for as long as the link would, and gives it to the other, unless it is lost. UDP and TCP are
the kernel's own.
"""

import asyncio
import contextlib
import ctypes
import functools
import os
import select
import shutil
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from dataclasses import asdict
from pathlib import Path
from random import Random

from triack.base.errors import TriackError
from triack.tools.bench.run import Progress, run_once
from triack.tools.bench.systems.catalogue import system_of
from triack.tools.bench.work import Work
from triack.tools.demo.child import Report, run_child, tell, tell_regularly
from triack.tools.sim.faults import Fates, Faults

PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
_PACKAGES = {"unshare": "util-linux", "nsenter": "util-linux", "ip": "iproute2", "nft": "nftables"}
_TUN = Path("/dev/net/tun")
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000  # linux/if_tun.h
_CLONE_NEWNET = 0x40000000  # linux/sched.h
_DEVICE, _OTHER_DEVICE = "bench0", "bench1"
_NAMESPACE = "/proc/thread-self/ns/net"
RECEIVER_HOST, SENDER_HOST = "10.91.0.1", "10.91.0.2"
"""Private addresses (RFC 1918), which are invisible outside the namespaces."""
MTU_BYTES = 1_500
DEVICE_QUEUE_PACKETS = 10_000
"""Before the thread has read: far more than come in a turn of it, so that only the link's own queue overflows."""
BURST_PACKETS = 64
IDLE_S = 0.05
TRY_S = 20.0


def program(name: str) -> str:
    """Where a program is; its name if it is not there."""
    return shutil.which(name, path=PATH) or name


def lacks(*programs: str) -> str | None:
    """Why this machine has no network namespaces, or not one of these programs; None if it has all."""
    if not sys.platform.startswith("linux"):
        return "network namespaces need Linux"
    absent = [name for name in programs if shutil.which(name, path=PATH) is None]
    return f"there is no {absent[0]} here (Debian: apt-get install {_PACKAGES[absent[0]]})" if absent else None


@functools.cache
def missing() -> str | None:
    """Why there can be no such link here, or None."""
    if why := lacks("unshare", "nsenter", "ip"):
        return why
    if not os.access(_TUN, os.R_OK | os.W_OK):
        return f"{_TUN} cannot be opened"
    tried = subprocess.run([*wrapped(), "true"], capture_output=True, timeout=TRY_S, check=False)  # noqa: S603 - our own
    return f"no network namespace here: {tried.stderr.decode().strip()}" if tried.returncode else None


def wrapped() -> list[str]:
    """The prefix of a command that lets it run in new namespaces; all its processes end with it."""
    return [program("unshare"), "-r", "-n", "-p", "-f", "--kill-child"]


class Emulator(threading.Thread):
    """The link."""

    def __init__(self, ends: tuple[int, int], faults: Faults, seed: int) -> None:
        super().__init__(name="triack-link", daemon=True)
        self._ends = ends
        self._over = threading.Event()
        self._waiting: tuple[deque[tuple[int, bytes]], ...] = (deque(), deque())
        self._faults = faults
        self._sent = [0, 0]
        # A packet of a device has its headers already.
        self._fates = tuple(Fates(lambda _, way=way: Random(f"{seed} {way}"), 0) for way in range(2))  # type: ignore[misc]

    def run(self) -> None:
        """Carry packets until ``end``."""
        while not self._over.is_set():
            heads = [waiting[0][0] for waiting in self._waiting if waiting]
            wait_s = min([IDLE_S, *((head - time.monotonic_ns()) / 1e9 for head in heads)])
            ready, _, _ = select.select(self._ends, [], [], max(0.0, wait_s))
            for way, end in enumerate(self._ends):
                if end in ready:
                    self._take(way, end)
                self._give(way, self._ends[1 - way])

    def _take(self, way: int, end: int) -> None:
        waiting = self._waiting[way]
        for _ in range(BURST_PACKETS):
            try:
                packet = os.read(end, MTU_BYTES)
            except BlockingIOError:
                return
            self._sent[way] += 1
            now_ns = time.monotonic_ns()
            arriving = self._fates[way].decide(self._faults, packet, now_ns=now_ns)
            waiting.extend((now_ns + delay_ns, data) for delay_ns, data in arriving)

    def _give(self, way: int, end: int) -> None:
        waiting, now_ns = self._waiting[way], time.monotonic_ns()
        while waiting and waiting[0][0] <= now_ns:
            with contextlib.suppress(OSError):  # the device of an end that has gone
                os.write(end, waiting.popleft()[1])

    def end(self) -> None:
        """Stop."""
        self._over.set()
        self.join()

    def counts(self) -> list[dict[str, int]]:
        """Of both directions: the packets that came, and how many of them were lost, by reason."""
        return [{"sent": sent, **fates.counts} for sent, fates in zip(self._sent, self._fates, strict=True)]


def _open_device(host: str, other: str) -> int:
    import fcntl  # the other systems have none

    device = os.open(_TUN, os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", _DEVICE.encode(), _IFF_TUN | _IFF_NO_PI))
    _put_up(_DEVICE, host, other)
    return device


def _put_up(device: str, host: str, other: str) -> None:
    ip("addr", "add", host, "peer", other, "dev", device)
    ip("link", "set", device, "mtu", str(MTU_BYTES), "txqueuelen", str(DEVICE_QUEUE_PACKETS), "up")
    ip("link", "set", "lo", "up")


def ip(*words: str, within: int | None = None, files: tuple[int, ...] = ()) -> None:
    """Run iproute2's command, which gets these open files, in this network namespace or in that of one of them."""
    prefix = [] if within is None else [program("nsenter"), f"--net=/proc/self/fd/{within}"]
    done = subprocess.run([*prefix, program("ip"), *words], capture_output=True, check=False, pass_fds=files)  # noqa: S603 - our own
    if done.returncode:
        raise TriackError(f"bench: ip {' '.join(words)}: {done.stderr.decode().strip()}")


class _Cable:
    """A pair of devices, first both in the namespace of the receiver."""

    def __init__(self) -> None:
        ip("link", "add", _DEVICE, "type", "veth", "peer", "name", _OTHER_DEVICE)
        _put_up(_DEVICE, RECEIVER_HOST, SENDER_HOST)
        self._first = os.open(_NAMESPACE, os.O_RDONLY)

    def plug_in(self) -> None:
        """Have the other end in the namespace of this thread."""
        second = os.open(_NAMESPACE, os.O_RDONLY)
        files = self._first, second
        ip("link", "set", _OTHER_DEVICE, "netns", f"/proc/self/fd/{second}", within=self._first, files=files)
        for file in files:
            os.close(file)
        _put_up(_OTHER_DEVICE, SENDER_HOST, RECEIVER_HOST)


def _enter_another() -> None:
    """Move this thread into a new network namespace; its open files stay in the old one."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET):
        number = ctypes.get_errno()
        raise TriackError(f"bench: no second network namespace: {os.strerror(number)}")


async def _work(options: Report, stopping: asyncio.Event) -> None:
    system, work = system_of(options["system"]), Work(**options["work"])
    progress = Progress()
    first = _Cable() if options["link"] is None else _open_device(RECEIVER_HOST, SENDER_HOST)
    emulators: list[Emulator] = []

    async def between(found: Report) -> Report:
        _enter_another()
        if isinstance(first, _Cable):
            first.plug_in()
            return found
        ends = _open_device(SENDER_HOST, RECEIVER_HOST), first
        emulators.append(Emulator(ends, Faults(**options["link"]), options["seed"]))
        emulators[0].start()
        return found

    def watch(its: Progress) -> None:
        nonlocal progress
        progress = its

    reporting = asyncio.create_task(tell_regularly(lambda: {"sent": progress.sent, "delivered": progress.delivered}))
    outcome = await run_once(
        system,
        work,
        Path(options["folder"]),
        {},
        watch,
        host=RECEIVER_HOST,
        between=between,
        congestion=options["congestion"],
    )
    reporting.cancel()
    for emulator in emulators:
        emulator.end()
    tell({"outcome": asdict(outcome)})
    await stopping.wait()


if __name__ == "__main__":
    if os.environ.get("TRIACK_BENCH_INSIDE") is None:
        os.environ["TRIACK_BENCH_INSIDE"] = "1"
        command = [*wrapped(), sys.executable, "-m", "triack.tools.bench.namespace", *sys.argv[1:]]
        os.execv(command[0], command)  # noqa: S606 - the same program, in its namespaces
    run_child(_work)
