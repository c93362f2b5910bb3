"""``triack doctor``: what a node needs from its machine and its peers, each with a remedy if it lacks it."""

import asyncio
import ctypes
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import apsw
import click

import triack
from triack.base.clock import UNSET_BEFORE_NS
from triack.base.errors import AddressError, TriackError
from triack.base.printable import printable
from triack.node.control import handover
from triack.node.files.keys import IDENTITY_FILE
from triack.node.files.ownership import why_exposed
from triack.node.files.private_files import PrivateFiles
from triack.node.files.trust import TrustFile
from triack.queues.node_settings import Limits
from triack.store.folder import STORE_FILE, lacks_inodes
from triack.tools.commands.common import FloatRange, data_option_of, json_line, json_option, run, write_table
from triack.tools.commands.visiting import connected
from triack.tools.operate.amounts import size_of
from triack.transport.address import Address
from triack.transport.batched import offers_batches
from triack.transport.resolve import lookup
from triack.transport.udp import SOCKET_BUFFER_BYTES

EXIT_FAILED = 1
PYTHON_LEAST = (3, 11)
SQLITE_LEAST = (3, 51, 3)
JAVA_LEAST = 17
CLOCK_AHEAD_S = 1.0
"""More than any network delays: the two clocks differ."""
RESOLVE_S = 3.0
ANSWER_S = 3.0
NO_LOCKS = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs")
"""File systems whose locks or syncs may not be what they seem: two mounts may have separate locks."""
TIME_ERROR = 5
TIMEX_BYTES = 512


@dataclass(frozen=True, slots=True)
class Finding:
    """One line."""

    verdict: str
    what: str
    why: str
    remedy: str = ""


def _find(what: str, why: str, *, good: bool, remedy: str, bad: str = "fail") -> Finding:
    return Finding("ok", what, why) if good else Finding(bad, what, why, remedy)


@click.command()
@click.option("--listen", metavar="URL", help="Try whether a node can listen there, if none does yet.")
@click.option("--peer", "wanted", multiple=True, metavar="NAME", help="Only these peers; may be repeated.")
@click.option(
    "--timeout", type=FloatRange(min=0, min_open=True), default=3.0, metavar="S", help="Wait S seconds for each peer."
)
@json_option
@data_option_of(click.Path(path_type=Path), "Data directory of the node.")
def doctor(*, listen: str | None, wanted: tuple[str, ...], timeout: float, data: Path, as_json: bool) -> int:
    """Examine the machine, the data directory, the running node and its peers. Nothing is changed.

    Each line says ok, warn or fail, what was examined, what was found, and what to do. The exit code is 1 if any line
    says fail.
    """

    async def work() -> int:
        found = [finding async for finding in examine(data, listen, wanted, timeout)]
        if as_json:
            for finding in found:
                click.echo(json_line(asdict(finding)))
        else:
            rows = [[it.verdict, it.what, printable(it.why), printable(it.remedy) or "-"] for it in found]
            write_table(("", "WHAT", "FOUND", "TO DO"), rows)
        return EXIT_FAILED if any(it.verdict == "fail" for it in found) else 0

    return run(work())


async def examine(
    data: Path, listen: str | None = None, wanted: tuple[str, ...] = (), timeout: float = 3.0
) -> AsyncIterator[Finding]:
    """Examine everything, one finding after the other."""
    for finding in (*machine(), *await asyncio.to_thread(lambda: list(network())), *directory(data)):
        yield finding
    for peer in _peers_of(data):
        for address in peer[1]:
            yield await _resolves(peer[0], address)
    link = await handover.attempt(data)
    if link is None:
        yield Finding("warn", "process", f"no process runs {data}", "triack serve --data DIR; peers were not asked")
        if listen is not None:
            yield _listens(listen)
        return
    await link.close()
    try:
        async with connected(data, max(timeout, ANSWER_S)) as node:
            async for finding in _running(node, wanted, timeout):
                yield finding
    except TriackError as error:
        remedy = "look at its log, and start it again if it stays as it is"
        yield Finding("fail", "process", str(error), remedy)


# ---- the machine


def machine() -> Iterator[Finding]:
    """Programs and libraries, and the clock."""
    python = ".".join(map(str, sys.version_info[:3]))
    yield _find("Python", python, good=sys.version_info >= PYTHON_LEAST, remedy="install Python 3.11 or later")
    sqlite = apsw.sqlite_lib_version()
    enough = tuple(map(int, sqlite.split("."))) >= SQLITE_LEAST
    least = ".".join(map(str, SQLITE_LEAST))
    yield _find("SQLite", sqlite, good=enough, remedy=f"pip install --upgrade 'apsw>={least}'")
    java = _java()
    why = "not found" if java is None else f"version {java}"
    remedy = "install Java 17 or later; only triack replay with Spark needs it"
    yield _find("Java", why, good=java is not None and java >= JAVA_LEAST, remedy=remedy, bad="warn")
    yield _clock()


def _java() -> int | None:
    program = shutil.which("java")
    if program is None:
        return None
    try:
        done = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=10, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return None if found is None else int(found[1])


def _clock() -> Finding:
    from triack.node.shell.platform import Platform

    remedy = "run a time service, such as systemd-timesyncd or chrony"
    if Platform.wall_ns() < UNSET_BEFORE_NS:
        return Finding("fail", "clock", "it was never set", remedy)
    if sys.platform != "linux":
        return Finding("ok", "clock", "set")
    state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(TIMEX_BYTES))
    if state < 0:
        return Finding("warn", "clock", "the system does not say whether a time service sets it", remedy)
    why = "set, and no time service keeps it right" if state == TIME_ERROR else "a time service keeps it right"
    return _find("clock", why, good=state != TIME_ERROR, remedy=remedy, bad="warn")


# ---- the network


def network() -> Iterator[Finding]:
    """Buffers, batches and families of addresses."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        for option, name, key in (
            (socket.SO_RCVBUF, "UDP receive buffer", "net.core.rmem_max"),
            (socket.SO_SNDBUF, "UDP send buffer", "net.core.wmem_max"),
        ):
            sock.setsockopt(socket.SOL_SOCKET, option, SOCKET_BUFFER_BYTES)
            got = sock.getsockopt(socket.SOL_SOCKET, option) // (2 if sys.platform == "linux" else 1)
            why = f"{size_of(got)} of {size_of(SOCKET_BUFFER_BYTES)}"
            remedy = f"sysctl -w {key}={SOCKET_BUFFER_BYTES}: bursts that do not fit are lost and sent again"
            yield _find(name, why, good=got >= SOCKET_BUFFER_BYTES, remedy=remedy, bad="warn")
        batches = offers_batches(sock)
    why = "the system takes and gives runs of datagrams" if batches else "one call for each datagram"
    remedy = "Linux 5.0 or later has UDP_SEGMENT and UDP_GRO; without them a node takes more of a processor"
    yield _find("UDP offload", why, good=batches, remedy=remedy, bad="warn")
    yield _ipv6()


def _ipv6() -> Finding:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sock:
            sock.bind(("::1", 0))
    except OSError as error:
        why = f"not available: {error.strerror or error}"
        return Finding("warn", "IPv6", why, "enable IPv6, or use IPv4 addresses alone")
    return Finding("ok", "IPv6", "available")


def _listens(url: str) -> Finding:
    try:
        wanted = Address.parse(url, listening=True)
        kind = socket.SOCK_DGRAM if wanted.scheme == "udp" else socket.SOCK_STREAM
        family, _, _, _, place = socket.getaddrinfo(wanted.host, wanted.port, type=kind)[0]
        with socket.socket(family, kind) as sock:
            sock.bind(place)
    except (AddressError, OSError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return Finding("fail", f"listen at {url}", why, "choose an address and a port of this machine that are free")
    return Finding("ok", f"listen at {url}", "free")


async def _resolves(peer: str, url: str) -> Finding:
    what = f"address of {peer}"
    try:
        wanted = Address.parse(url)
        async with asyncio.timeout(RESOLVE_S):
            found = await lookup(wanted)
    except TimeoutError:
        return Finding("fail", what, f"{url}: the name service does not answer", "mend the name service")
    except (AddressError, OSError) as error:
        why = f"{url}: {error.strerror if isinstance(error, OSError) and error.strerror else error}"
        return Finding("fail", what, why, f"triack trust add {peer} --address URL, or mend the name service")
    return Finding("ok", what, f"{url} is {found[0][0]}")


# ---- the directory


def directory(data: Path) -> Iterator[Finding]:
    """The data directory, its disk and its keys."""
    if not data.is_dir():
        yield Finding("warn", "data directory", f"there is no {data}", "triack serve makes it")
        return
    kind = _file_system(data)
    remedy = "move the directory to a disk of this machine"
    yield _find("file system", kind or "unknown", good=kind not in NO_LOCKS, remedy=remedy)
    writable = os.access(data, os.W_OK | os.X_OK)
    why = "writable" if writable else "not writable for this user"
    yield _find("data directory", why, good=writable, remedy=f"run as its owner, or chown {data}", bad="warn")
    reserve = Limits().disk_reserve_bytes
    free = shutil.disk_usage(data).free
    why = f"{size_of(free)} free, of which {size_of(reserve)} are the reserve"
    yield _find("disk", why, good=free > reserve, remedy="make room: below the reserve nothing new is accepted")
    if lacks_inodes(data):
        yield Finding("fail", "inodes", "none is left", "remove files, however small: no new one can be made")
    yield from _private(data)
    yield from _keys(data)


def _file_system(data: Path) -> str:
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    place, best, kind = data.resolve(), "", ""
    for line in mounts:
        _, at, named, *_ = line.split(" ")
        at = at.replace("\\040", " ")
        if place.is_relative_to(at) and len(at) >= len(best):
            best, kind = at, named
    return kind


def _private(data: Path) -> Iterator[Finding]:
    if os.name != "posix":
        return
    for name in (STORE_FILE, IDENTITY_FILE):
        path = data / name
        if path.exists():
            why = why_exposed(path.stat(), secret=True)
            yield _find(f"mode of {name}", why or "its owner alone", good=why is None, remedy=f"chmod 600 {path}")


def _keys(data: Path) -> Iterator[Finding]:
    if not (data / IDENTITY_FILE).exists():
        yield Finding("warn", "key", "the node has none yet", "triack keygen --data DIR makes it")
    peers = _peers_of(data)
    keyless = [name for name, _, has_key in peers if not has_key]
    why = f"{len(peers)} trusted" + (f", no key of {', '.join(keyless)}" if keyless else "")
    remedy = "triack trust add NAME KEY, or triack enrol"
    yield _find("peers", why, good=bool(peers) and not keyless, remedy=remedy, bad="warn")


def _peers_of(data: Path) -> list[tuple[str, tuple[str, ...], bool]]:
    """Name, addresses, and whether a key is known, of each trusted peer; none if the file cannot be read."""
    try:
        return [(it.name, it.addresses, bool(it.keys)) for it in TrustFile(PrivateFiles(data)).load()]
    except (TriackError, OSError):
        return []


# ---- the running node


async def _running(node: triack.Client, wanted: tuple[str, ...], timeout: float) -> AsyncIterator[Finding]:
    stats = await node.stats()
    yield Finding("ok", "process", f"{node.name} runs, listens on {node.address or 'no address'}")
    busy_s = stats.store_busy_s or 0.0
    yield _find(
        "store",
        f"its current job takes {busy_s:.1f} s" if busy_s >= timeout else "it works",
        good=busy_s < timeout,
        remedy="look for errors of the disk in the log of the system",
    )
    for trouble in stats.troubles:
        yield Finding("fail", f"trouble {trouble.trouble}", trouble.cause, trouble.remedy)
    peers = wanted or tuple(sorted(stats.links.keys() | {it.peer for it in stats.sessions}))
    for peer in peers:
        yield await _answers(node, peer, timeout)


async def _answers(node: triack.Client, peer: str, timeout: float) -> Finding:
    what = f"peer {peer}"
    try:
        pong = await node.ping(peer, timeout=timeout)
    except TriackError as error:
        return Finding("fail", what, str(error), "triack status, here and there, says more")
    by = f"messages for it go by {pong.by}, which " if pong.by else ""
    why = f"{by}answers in {pong.round_trip_s * 1_000:.3g} ms, datagrams up to {pong.datagram_bytes} bytes"
    if abs(pong.clock_ahead_s) > CLOCK_AHEAD_S:
        side = "ahead of" if pong.clock_ahead_s > 0 else "behind"
        why += f"; its clock is {abs(pong.clock_ahead_s):.1f} s {side} this one"
        return Finding("warn", what, why, "set both clocks by a time service")
    return Finding("ok", what, why)
