"""Two machines with a cable between them: network namespaces that the caller creates, and a veth pair.

Nothing outside the namespaces is touched, and no privilege outside them is needed. They share the disk, and end with
the context.

    python -m proof.real.machines INTERFACE FILE    # inside one: write every frame of an interface to a file
"""

import functools
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from struct import Struct

from triack.tools.bench.namespace import lacks, program

INTERFACE = "cable"
HOSTS = ("10.99.7.1", "10.99.7.2")
"""Addresses that are not loopback; in a separate network they collide with nothing."""
FRAME_BYTES_MAX = 65_536

_LENGTH = Struct("!I")
_ETHERNET_BYTES = 14
_IPV4, _UDP = b"\x08\x00", 17  # IEEE 802.3; RFC 790


@dataclass(frozen=True, slots=True)
class Machine:
    """One of the two."""

    host: str
    enter: tuple[str, ...]

    @contextmanager
    def capture(self, file: Path) -> Iterator[None]:
        """Write down every frame on its end of the cable, from the start of the block to its end."""
        with _running([*self.enter, sys.executable, "-m", __name__, INTERFACE, str(file)]):
            yield


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame as it was on the cable."""

    data: bytes
    sender: tuple[str, int] | None
    receiver: tuple[str, int] | None


@functools.cache
def missing() -> str | None:
    """Return why such machines cannot be made here, or None."""
    if why := lacks("unshare", "nsenter", "ip"):
        return why
    try:
        with two_machines():
            return None
    except subprocess.CalledProcessError as error:
        return f"no network namespaces here: {(error.stderr or b'').decode().strip() or error}"


@contextmanager
def two_machines() -> Iterator[tuple[Machine, Machine]]:
    """Make them. Raises CalledProcessError, with what the system said, where that cannot be."""
    unshare, nsenter, ip = map(program, ("unshare", "nsenter", "ip"))
    with ExitStack() as made:
        first = made.enter_context(_running([unshare, "-r", "-n", *_HOLD]))
        inside = (nsenter, "--preserve-credentials", "-U", "-t", str(first))
        second = made.enter_context(_running([*inside, unshare, "-n", *_HOLD]))
        machines = [
            Machine(host, (*inside, f"--net=/proc/{pid}/ns/net"))
            for host, pid in zip(HOSTS, (first, second), strict=True)
        ]
        cable = f"type veth peer name {INTERFACE} netns {second}"
        _do(*machines[0].enter, ip, "link", "add", INTERFACE, *cable.split())
        for machine in machines:
            _do(*machine.enter, ip, "address", "add", f"{machine.host}/24", "dev", INTERFACE)
            for interface in ("lo", INTERFACE):
                _do(*machine.enter, ip, "link", "set", interface, "up")
        yield machines[0], machines[1]


_HOLD = ("sh", "-c", "echo ready; exec cat")
"""Reports that the namespace is there, and ends when its input is closed."""


@contextmanager
def _running(command: list[str]) -> Iterator[int]:
    """Run a command that says when it is ready and ends with its input. Gives its process id."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    try:
        if not process.stdout.readline():
            _, complaint = process.communicate()
            raise subprocess.CalledProcessError(process.returncode, command, stderr=complaint)
        yield process.pid
    finally:
        process.communicate()


def _do(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


# ---- what was on the cable


def read_capture(file: Path) -> list[Frame]:
    """Read what ``Machine.capture`` has written."""
    content, at, frames = file.read_bytes(), 0, list[Frame]()
    while at < len(content):
        (size,) = _LENGTH.unpack_from(content, at)
        at += _LENGTH.size
        frames.append(_read_frame(content[at : at + size]))
        at += size
    return frames


def _read_frame(data: bytes) -> Frame:
    packet = data[_ETHERNET_BYTES:]
    if data[12:_ETHERNET_BYTES] != _IPV4 or packet[9] != _UDP:
        return Frame(data, None, None)
    segment = packet[(packet[0] & 0x0F) * 4 :]
    sender, receiver = (
        (socket.inet_ntoa(packet[place : place + 4]), int.from_bytes(segment[port : port + 2]))
        for place, port in ((12, 0), (16, 2))
    )
    return Frame(data, sender, receiver)


def main() -> None:
    """Write every frame of an interface to a file, until there is no more input."""
    import selectors

    interface, file = sys.argv[1:]
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as cable, Path(file).open("wb") as out:
        cable.bind((interface, 0))
        both = selectors.DefaultSelector()
        both.register(cable, selectors.EVENT_READ)
        both.register(sys.stdin, selectors.EVENT_READ)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            ready = [key.fileobj for key, _ in both.select()]
            if cable in ready:
                frame = cable.recv(FRAME_BYTES_MAX)
                out.write(_LENGTH.pack(len(frame)) + frame)
            elif ready:
                return


if __name__ == "__main__":
    main()
