"""A socket that carries many datagrams in one call of the system sends and receives exactly these datagrams."""

import asyncio
import errno
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from tests.machine import PATIENCE_S
from tests.transport.test_fragmenting import why_not
from triack.base.reasons import DropReason
from triack.tools.bench.namespace import wrapped
from triack.transport import batched
from triack.transport.batched import RUN_BYTES_MAX, SEGMENTS_MAX, BatchedSocket, offers_batches, runs_of
from triack.transport.resolve import SocketAddress, bound
from triack.transport.udp import SOCKET_BUFFER_BYTES

DAY_S = 86_400.0

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux carries datagrams in batches")


@given(st.lists(st.one_of(st.integers(0, 3), st.sampled_from([1_199, 1_200, 40_000]))), st.sampled_from([0, 2, 65_000]))
def test_runs_are_the_burst_in_order(sizes: list[int], longest_bytes: int) -> None:
    burst = [bytes([number % 256]) * size for number, size in enumerate(sizes)]
    runs = list(runs_of(burst, longest_bytes))
    assert [datagram for run in runs for datagram in run] == burst
    for run in runs:
        if len(run) > 1:
            first = len(run[0])
            assert {len(datagram) for datagram in run[:-1]} == {first}
            assert 0 < len(run[-1]) <= first <= longest_bytes
            assert len(run) <= SEGMENTS_MAX
            assert sum(map(len, run)) <= RUN_BYTES_MAX


class Wire:
    """A real socket that counts calls, and refuses what the test says."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.calls: list[str] = []
        self.refuse: dict[str, list[int]] = {}

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if self.refuse.get(name):
            raise OSError(self.refuse[name].pop(0), "refused")

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._sock, name)
        if name not in ("sendmsg", "sendto", "recvmsg_into"):
            return real

        def call(*arguments: Any) -> Any:
            self._called(name)
            return real(*arguments)

        return call


class End:
    """One socket, and what came to it."""

    def __init__(self) -> None:
        sock = bound(socket.SOCK_DGRAM, ("127.0.0.1", 0))
        assert offers_batches(sock)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BUFFER_BYTES)
        self.wire = Wire(sock)
        self.arrived = asyncio.Event()
        self.drops: Counter[DropReason] = Counter()
        self.bursts: list[list[bytes]] = []
        self.socket = BatchedSocket(self.wire, self.drops, self.take)  # type: ignore[arg-type]

    def take(self, arrived: list[tuple[list[bytes], SocketAddress, bytes]]) -> None:
        self.bursts += [datagrams for datagrams, _, _ in arrived]
        self.arrived.set()

    @property
    def got(self) -> list[bytes]:
        return [datagram for burst in self.bursts for datagram in burst]

    async def has(self, count: int) -> list[bytes]:
        async with asyncio.timeout(PATIENCE_S):
            while len(self.got) < count:
                self.arrived.clear()
                await self.arrived.wait()
        return self.got

    async def rounds(self, count: int) -> set[int]:
        """How much had come after each round of the loop, until that many had."""
        seen = {0}
        async with asyncio.timeout(PATIENCE_S):
            while len(self.got) < count:
                await asyncio.sleep(0)
                seen.add(len(self.got))
        return seen


@pytest_asyncio.fixture
async def ends() -> AsyncIterator[tuple[End, End]]:
    two = End(), End()
    yield two
    for end in two:
        await end.socket.close()


BURST = [bytes([number]) * 1_200 for number in range(50)]


async def test_a_burst_is_one_call_at_each_end(ends: tuple[End, End]) -> None:
    here, there = ends
    await here.socket.send([*BURST, b"short"], there.socket.sockname)
    assert await there.has(51) == [*BURST, b"short"]
    assert here.wire.calls == ["sendmsg"]
    assert len(there.bursts) == 1


@pytest.mark.parametrize("error", [errno.EIO, errno.EINVAL, errno.EMSGSIZE])
async def test_a_device_that_cannot_gets_them_one_by_one(
    ends: tuple[End, End], monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    """From the first refusal on, and nothing is lost by it; shorter ones are tried if it was their length."""
    monkeypatch.setattr(batched, "AGAIN_SECONDS", DAY_S)
    here, there = ends
    here.wire.refuse["sendmsg"] = [error]
    for _ in range(2):
        await here.socket.send(BURST, there.socket.sockname)
    assert here.wire.calls == ["sendmsg", *["sendto"] * 100]
    assert await there.has(100) == BURST * 2
    await here.socket.send([b"x" * 1_000, b"y" * 1_000], there.socket.sockname)
    assert here.wire.calls[101:] == (["sendto"] * 2 if error == errno.EIO else ["sendmsg"])
    assert not here.drops


@pytest.mark.parametrize("error", [errno.EIO, errno.EINVAL])
async def test_a_refusal_counts_for_a_while(ends: tuple[End, End], monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    """Then runs are tried again: the device, or the way to it, may be another one."""
    monkeypatch.setattr(batched, "AGAIN_SECONDS", 0.0)
    here, there = ends
    here.wire.refuse["sendmsg"] = [error]
    for _ in range(2):
        await here.socket.send(BURST, there.socket.sockname)
    assert here.wire.calls == ["sendmsg", *["sendto"] * 50, "sendmsg"]
    assert await there.has(100) == BURST * 2


RISEN = """
import asyncio, socket, subprocess, sys
from collections import Counter
from triack.transport import batched
from triack.transport.resolve import bound

def mtu(size):
    subprocess.run(["ip", "link", "set", "lo", "mtu", str(size), "up"], check=True)

class Counted:
    def __init__(self, sock):
        self.sock, self.calls = sock, 0

    def __getattr__(self, name):
        self.calls += name in ("sendmsg", "sendto")
        return getattr(self.sock, name)

async def main():
    mtu(65_536)
    there = bound(socket.SOCK_DGRAM, ("127.0.0.1", 0))
    sock = bound(socket.SOCK_DGRAM, ("127.0.0.1", 0))
    assert batched.offers_batches(sock)
    counted, drops = Counted(sock), Counter()
    ours = batched.BatchedSocket(counted, drops, lambda *_: None)

    async def calls(size):
        before = counted.calls
        for _ in range(20):
            await ours.send([bytes(size)] * 5, there.getsockname())
        return counted.calls - before

    found = [await calls(8_000)]
    mtu(1_500)
    found += [await calls(8_000), await calls(1_400)]
    mtu(65_536)
    found.append(await calls(8_000))
    print(found, {reason.value: count for reason, count in drops.items()})
    await ours.close()

asyncio.run(main())
"""


@pytest.mark.slow
def test_runs_leave_again_when_the_mtu_of_the_path_has_fallen_and_risen() -> None:
    """On a loopback of the system. Twenty bursts: a call for each, while the path carries them, and after the first."""
    if problem := why_not():
        pytest.skip(f"no network namespace here: {problem}")
    command = [*wrapped(), sys.executable, "-c", RISEN]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[20, 101, 20, 24] {'too-large': 100}"


async def test_a_bad_datagram_takes_no_other_along(ends: tuple[End, End]) -> None:
    here, there = ends
    here.wire.refuse = {"sendmsg": [errno.EPERM], "sendto": [errno.EPERM, errno.ECONNREFUSED]}
    await here.socket.send(BURST, there.socket.sockname)
    assert await there.has(48) == BURST[2:]
    assert here.drops == {"send-error": 2}
    await here.socket.send(BURST, there.socket.sockname)
    assert here.wire.calls.count("sendmsg") == 2  # that was no fault of batches


async def test_when_there_is_no_room_they_wait_in_order(ends: tuple[End, End]) -> None:
    here, there = ends
    here.wire.refuse["sendmsg"] = [errno.EAGAIN, errno.EAGAIN]
    to = there.socket.sockname
    await asyncio.gather(here.socket.send(BURST[:20], to), here.socket.send(BURST[20:], to))
    assert await there.has(50) == BURST
    assert not here.drops


async def test_nobody_waits_for_a_system_that_takes_no_more(
    ends: tuple[End, End], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow link does not stop a node: what finds no room is lost, the next at once, until there is room."""
    here, there = ends
    room: list[Callable[[], None]] = []
    monkeypatch.setattr(asyncio.get_running_loop(), "add_writer", lambda _, handle: room.append(handle))
    here.wire.refuse = {"sendmsg": [errno.EAGAIN] * 2, "sendto": [errno.EAGAIN]}
    to = there.socket.sockname
    async with asyncio.timeout(PATIENCE_S):
        await here.socket.send(BURST, to)
        await here.socket.send(BURST, to)
        await here.socket.send(BURST[:1], to)
    assert here.drops == {"send-overflow": 101}
    (handle,) = room  # one wait, whatever came after it
    handle()
    await here.socket.send(BURST, to)
    assert await there.has(50) == BURST


async def test_close_ends_the_wait(ends: tuple[End, End], monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = ends
    monkeypatch.setattr(asyncio.get_running_loop(), "add_writer", lambda *_: None)  # room never comes
    here.wire.refuse["sendmsg"] = [errno.EAGAIN]
    sending = asyncio.ensure_future(here.socket.send(BURST, there.socket.sockname))
    await asyncio.sleep(0)
    await here.socket.close()
    async with asyncio.timeout(PATIENCE_S):
        await sending
    assert here.drops == {"closed": 50}


async def test_one_busy_socket_leaves_the_loop_to_others(ends: tuple[End, End]) -> None:
    here, there = ends
    for number in range(3 * batched.READS_MAX):
        await here.socket.send([bytes([number])], there.socket.sockname)
    assert await there.rounds(3 * batched.READS_MAX) >= {batched.READS_MAX, 2 * batched.READS_MAX}


async def test_runs_fill_a_round_sooner(ends: tuple[End, End]) -> None:
    here, there = ends
    burst = [bytes(9)] * batched.SEGMENTS_MAX
    for _ in range(2 * batched.BURST_MAX // len(burst)):
        await here.socket.send(burst, there.socket.sockname)
    assert batched.BURST_MAX in await there.rounds(2 * batched.BURST_MAX)


async def test_errors_of_receiving_are_counted_and_passed_over(ends: tuple[End, End]) -> None:
    """Such as an ICMP answer to something sent earlier."""
    here, there = ends
    there.wire.refuse["recvmsg_into"] = [errno.ECONNREFUSED, errno.EHOSTUNREACH]
    await here.socket.send([b"x"], there.socket.sockname)
    assert await there.has(1) == [b"x"]
    assert there.drops == {"receive-error": 2}


async def test_what_was_cut_off_is_not_guessed_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batched, "RECEIVE_BYTES", 2_000)
    here, there = End(), End()
    await here.socket.send(BURST[:2], there.socket.sockname)
    await here.socket.send(BURST[:1], there.socket.sockname)
    assert await there.has(1) == BURST[:1]
    assert there.drops == {"receive-error": 1}
    for end in (here, there):
        await end.socket.close()
        await end.socket.close()  # twice is once


def test_a_system_without_batches_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batched, "UDP_GRO", 9_999)
    with bound(socket.SOCK_DGRAM, ("127.0.0.1", 0)) as sock:
        assert not offers_batches(sock)
        monkeypatch.setattr(sys, "platform", "sunos5")
        assert not offers_batches(sock)
