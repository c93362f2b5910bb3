"""T9: ten thousand idle sessions in one node: the memory of each, and the processor time of all together.

    python -m triack.tools.bench.idle OPTIONS

is the node that is measured, or all its peers: whole engines, each with its keys, its socket and its address. Their
commits need no time, as they have nothing to keep.
"""

import asyncio
import contextlib
import heapq
import os
import random
import socket
import time
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import triack
from triack.base.commit import StoreContent
from triack.base.delivery import Delivery
from triack.base.errors import WaitTimeout
from triack.base.peers import Directory, Peer
from triack.node.files.keys import KeyKind, decode_key
from triack.node.files.private_files import PrivateFiles
from triack.node.files.trust import TRUST_FILE, encode_trust
from triack.queues.manager.effects import Send, StartJob
from triack.queues.manager.engine import Engine
from triack.queues.node_settings import NodeSettings
from triack.tools.bench.figures import Result
from triack.tools.bench.options import Meter, Options
from triack.tools.bench.process import resident_bytes
from triack.tools.bench.rows import Row
from triack.tools.bench.run import Progress, judge
from triack.tools.bench.systems.own import QUEUE, RECEIVER
from triack.tools.bench.work import Work
from triack.tools.demo.child import Report, run_child, tell
from triack.tools.demo.run import Child
from triack.transport.insecure import InsecureChannels
from triack.transport.noise import KeyPair
from triack.transport.secure import SecureChannels

_MODULE = "triack.tools.bench.idle"
FULL = 10_000
FIRST_HOST = IPv4Address("127.1.0.0")
"""Each peer has its own address, as a node limits the handshakes of one host at a time."""
OPENING_S = 0.005
"""Between two peers that begin: the node is asked to open sessions, not to bear a flood."""
REST_S = 3.0
READ_BYTES = 65_536
OPEN_S_EACH = 0.05
"""How long opening a session may last before it is given up, on a busy machine."""
NS = 1_000_000_000


# ---- the node


async def _node(options: Report, stopping: asyncio.Event) -> None:
    data, count, insecure = Path(options["data"]), options["messages"], options["insecure"]
    if not insecure:
        peers = [Peer(f"p{number}", (KeyPair.of(_secret(number)).public,)) for number in range(count)]
        PrivateFiles(data).change(TRUST_FILE, lambda _now: encode_trust(peers))
    settings = NodeSettings(session=triack.SessionSettings(cleanup_interval_s=86_400.0), max_sessions=2 * count)
    async with triack.open(
        RECEIVER,
        data=data,
        log=options["log"],
        listen="udp://127.0.0.1:0",
        insecure=insecure,
        queues=[QUEUE],
        settings=settings,
    ) as node:
        await asyncio.sleep(0.5)
        before_bytes = resident_bytes()
        tell({"found": {"address": node.address, "key": "" if insecure else node.key}})
        delivered = 0
        async for _message in node.receive(QUEUE):
            delivered += 1
            if delivered % 100 == 0:
                tell({"delivered": delivered})
            if delivered == count:
                break
        await asyncio.sleep(REST_S)
        opened, after_bytes = len(node.stats().sessions), resident_bytes()
        began_ns, cpu_ns = time.monotonic_ns(), time.process_time_ns()
        await asyncio.sleep(options["seconds"])
        cpu = (time.process_time_ns() - cpu_ns) / (time.monotonic_ns() - began_ns)
        facts = {"sessions": opened, "still": len(node.stats().sessions), "before": before_bytes, "after": after_bytes}
        tell({"delivered": delivered, "receiver_facts": {**facts, "cpu": cpu}, "done": True})
        await stopping.wait()


# ---- its peers


def _secret(number: int) -> bytes:
    return random.Random(f"bench {number}").randbytes(32)


class _Peer:
    """An engine and its socket."""

    def __init__(self, number: int, found: Report, insecure: bool, settings: NodeSettings) -> None:
        self.number = number
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        self.socket.bind((str(FIRST_HOST + 1 + number), 0))
        host, _, port = found["address"].removeprefix("udp://").rpartition(":")
        self._to, self._address = (host, int(port)), found["address"]
        directory = Directory()
        channels: Any = InsecureChannels()
        if not insecure:
            node = Peer(RECEIVER, (decode_key(KeyKind.PUBLIC, found["key"]),), (found["address"],))
            directory = Directory([node])
            channels = SecureChannels([_secret(number)], directory, entropy=os.urandom)
        self.engine = Engine(
            StoreContent(os.urandom(16), 1, start=number + 1),
            name=f"p{number}",
            address="",
            settings=settings,
            queues=None,
            channels=channels,
            directory=directory,
            random=random.Random(number),
            now_ns=time.monotonic_ns(),
            wall_offset_ns=0,
            recording=False,
        )

    def begin(self) -> None:
        """Send something, which opens a session."""
        self.engine.submit(self.engine.outgoing_stream(self._address, QUEUE, Delivery.EXPRESS), b"x" * 16, 16)
        self.settle()

    def settle(self) -> int | None:
        """Do the engine's effects. Returns its next deadline."""
        engine, again = self.engine, True
        while again:
            again = False
            for effect in engine.poll(time.monotonic_ns()):
                if isinstance(effect, StartJob):
                    engine.handle_done(effect.job, time.monotonic_ns())
                    again = True
                elif isinstance(effect, Send):
                    for datagram in effect.datagrams:
                        with contextlib.suppress(OSError):  # full: as good as lost
                            self.socket.sendto(datagram, self._to)
        return engine.next_deadline()

    def read(self) -> None:
        """Read the arrived datagrams."""
        with contextlib.suppress(BlockingIOError):
            while True:
                datagram = self.socket.recv(READ_BYTES)
                self.engine.handle_datagram(datagram, self._address, time.monotonic_ns())


async def _peers(options: Report, stopping: asyncio.Event) -> None:
    loop, due = asyncio.get_running_loop(), list[tuple[int, int]]()
    settings = NodeSettings(session=triack.SessionSettings(cleanup_interval_s=86_400.0))
    peers: list[_Peer] = []

    def settle(peer: _Peer) -> None:
        deadline_ns = peer.settle()
        if deadline_ns is not None:
            heapq.heappush(due, (deadline_ns, peer.number))

    def read(peer: _Peer) -> None:
        peer.read()
        settle(peer)

    async def keep_time() -> None:
        while True:
            await asyncio.sleep(OPENING_S)
            now_ns = time.monotonic_ns()
            while due and due[0][0] <= now_ns:
                _, number = heapq.heappop(due)
                deadline_ns = peers[number].engine.next_deadline()
                if deadline_ns is not None and deadline_ns <= now_ns:
                    settle(peers[number])

    timing = asyncio.create_task(keep_time())
    for number in range(options["messages"]):
        peer = _Peer(number, options["found"], options["insecure"], settings)
        peers.append(peer)
        loop.add_reader(peer.socket, read, peer)
        peer.begin()
        settle(peer)
        await asyncio.sleep(OPENING_S)
        if stopping.is_set():
            break
    tell({"sent": len(peers)})
    await stopping.wait()
    timing.cancel()
    for peer in peers:
        loop.remove_reader(peer.socket)
        peer.socket.close()


async def _work(options: Report, stopping: asyncio.Event) -> None:
    await (_node if options["role"] == "node" else _peers)(options, stopping)


# ---- measuring


async def measure_idle(row: Row, options: Options, meter: Meter, result: Result) -> None:
    """Open that many, leave them alone, measure."""
    work = options.shaped(row.work)
    count = work.messages or 0
    if count != FULL:
        result.note(f"{count:,} sessions; the row asks for {FULL:,}")
    if count > _sockets_max():
        result.note(f"not run: {count:,} sockets are more than this process may have (ulimit -n)")
        return
    for number in range(options.runs):
        name = f"{row.name} {number + 1}/{options.runs}"
        meter.begin(name, work)
        progress = await _one(work, options.folder / f"idle-{number}", meter)
        facts = progress.receiver_facts
        progress.last_ns, progress.first_ns = time.monotonic_ns(), time.monotonic_ns() - NS
        outcome = judge(work, progress)
        result.handle(outcome)
        result.verified = result.verified and facts["sessions"] == facts["still"] == count
        result.guarantee = ["every session open, before and after", *(["recorded"] if work.log else [])]
        memory_kib = (facts["after"] - facts["before"]) / count / 1024
        result.figures["memory a session"].values.append(memory_kib)
        result.figures["processor"].values.append(100 * facts["cpu"])
        meter.say(f"{name}: {count:,} sessions, {memory_kib:.1f} KiB each, {facts['cpu']:.2%} of a core")


def _sockets_max() -> int:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return soft - 100


async def _one(work: Work, folder: Path, meter: Meter) -> Progress:
    progress = Progress()
    meter.watch(progress)
    shared = {"messages": work.messages, "insecure": work.insecure, "seconds": work.seconds}
    log = str(folder / "logs") if work.log else None
    options = {**shared, "role": "node", "data": str(folder / "node"), "log": log}
    async with Child.running("node", options, _MODULE) as node:
        found = (await node.next_report())["found"]
        async with Child.running("peers", {**shared, "role": "peers", "found": found}, _MODULE):
            try:
                async with asyncio.timeout(60 + (work.messages or 0) * OPEN_S_EACH + work.seconds):
                    while not progress.done:
                        progress.handle(await node.next_report())
            except TimeoutError:
                opened = f"{progress.delivered} of {work.messages} sessions were opened"
                raise WaitTimeout(f"bench given up: {opened}") from None
            await node.finish(progress.handle)
    return progress


if __name__ == "__main__":
    run_child(_work)
