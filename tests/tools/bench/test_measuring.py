"""What the benchmark measures: processors, memory, disks, links, processes."""

import asyncio
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from mmap import mmap
from pathlib import Path

import pytest
from rich.console import Console

from tests.machine import PATIENCE_S
from tests.tools.bench.measuring import measured
from triack.base.errors import TriackError, UsageError
from triack.base.units import MS, SECOND
from triack.node.handles.policies import DEFAULT, SOLACE
from triack.queues.node_settings import NodeSettings
from triack.session.protocol.settings import SessionSettings
from triack.tools.bench import policy_nodes, progress
from triack.tools.bench.application import Outlet, Sink, Source
from triack.tools.bench.figures import Result
from triack.tools.bench.link import T8_LINK, _one, share
from triack.tools.bench.namespace import Emulator, missing
from triack.tools.bench.options import Meter
from triack.tools.bench.policies import LINKS
from triack.tools.bench.policy_nodes import FINEST_NS, lose_session, pace, stream
from triack.tools.bench.process import is_memory, peak_bytes, processor_s, resident_bytes
from triack.tools.bench.process import missing as memory_missing
from triack.tools.bench.rows import CURVES
from triack.tools.bench.run import CHILD, Outcome, Progress
from triack.tools.bench.servers import SERVERS, running
from triack.tools.bench.table import as_markdown, side_by_side
from triack.tools.bench.work import HEAD_BYTES, RING, Work, index_of, is_plain, make_ring, noise_of, stamp_of, stamped
from triack.tools.demo.relay import Direction
from triack.tools.sim.faults import Faults

# The two applications: one sends exactly the wanted messages, the other finds every mistake of the system between.
BODIES = make_ring(100)


class Pipe(Outlet):
    batch = 64

    def __init__(self) -> None:
        self.batches: list[list[bytes]] = []
        self.settled: list[int] = []

    async def put(self, bodies: Sequence[bytes]) -> None:
        self.batches.append(list(bodies))

    async def settle(self) -> None:
        self.settled.append(sum(map(len, self.batches)))


async def sent(work: Work) -> tuple[Pipe, Source]:
    outlet = Pipe()
    source = Source(work, outlet)
    await source.run()
    return outlet, source


async def test_the_messages_are_sent_in_batches_and_waited_for_once() -> None:
    outlet, source = await sent(Work(messages=RING + 100))
    assert [body for batch in outlet.batches for body in batch] == BODIES[: RING + 100]
    assert {len(batch) for batch in outlet.batches[:-1]} == {64}
    assert outlet.settled == [source.sent] == [RING + 100]
    outlet, _ = await sent(Work(messages=5, mode="single"))
    assert outlet.settled == [1, 2, 3, 4, 5, 5]


async def test_a_time_is_kept() -> None:
    began = time.monotonic()
    outlet, _ = await sent(Work(seconds=0.1))
    assert 0.1 <= time.monotonic() - began < PATIENCE_S
    assert outlet.batches


async def test_paced_messages_say_when_they_were_sent() -> None:
    """None before its turn; and the other end says how long they took."""
    work = Work(messages=5, mode="paced", rate=100)
    outlet, source = await sent(work)
    sink = Sink(work)
    for batch in outlet.batches:
        sink.take(batch)
    found = sink.latencies()
    assert time.monotonic_ns() - source.first_ns >= 4 * 10_000_000
    assert (sink.delivered, sink.missing, sink.late, sink.corrupt) == (5, 0, 0, 0)
    assert 0 < found["p50_ms"] <= found["p99_ms"] <= found["longest_ms"]
    assert sum(count for _, count in found["histogram"]) == 5


@pytest.mark.parametrize(
    ("order", "seen"),
    [
        ([0, 1, 2, 3], (4, 0, 0, 0)),
        ([0, 1, 3], (3, 1, 0, 0)),
        ([0, 1, 1, 2], (3, 0, 1, 0)),
        ([0, 2, 1, 3], (3, 1, 1, 0)),
        ([0, -1, 1], (2, 0, 0, 1)),
        (list(range(RING - 2, RING + 3)), (5, RING - 2, 0, 0)),
    ],
    ids=["all", "gap", "twice", "overtaken", "corrupt", "round"],
)
@pytest.mark.parametrize("at_once", [True, False])
def test_every_mistake_is_seen(order: list[int], seen: tuple[int, int, int, int], at_once: bool) -> None:
    sink = Sink(Work())
    if order[0]:  # so far everything was as it should be
        sink.take(BODIES[: RING - 2])
        seen = (RING + 3, 0, 0, 0)
    bodies = [BODIES[at] if at >= 0 else stamped(BODIES[1], 5) for at in order]
    for part in [bodies] if at_once else [[body] for body in bodies]:
        sink.take(part)
    assert (sink.delivered, sink.missing, sink.late, sink.corrupt) == seen


# The five policies side by side on real nodes, on small runs: the effects of the link, and the counts.
NEAR = LINKS["LAN"]


async def test_a_way_delays_what_the_link_delays() -> None:
    """Half of the round trip, in order; not at all when it is shorter than a timer; nothing when it is cut."""
    far, near = (Direction(faults, "1", FINEST_NS) for faults in (Faults(delay_ns=20 * MS), NEAR))
    arrived, began_ns, over = list[tuple[bytes, int]](), time.monotonic_ns(), asyncio.Event()

    def deliver(datagram: bytes) -> bool:
        arrived.append((datagram, time.monotonic_ns() - began_ns))
        if datagram == b"2":
            over.set()
        return True

    far.pass_on(b"1", deliver)
    far.pass_on(b"2", deliver)
    near.pass_on(b"near", deliver)
    near.is_cut = True
    near.pass_on(b"cut", deliver)
    await asyncio.wait_for(over.wait(), PATIENCE_S)
    assert [datagram for datagram, _ in arrived] == [b"near", b"1", b"2"]
    assert min(at_ns for datagram, at_ns in arrived if datagram != b"near") >= 20 * MS
    assert (near.counters.dropped, near.sent, far.counters.forwarded) == (1, 2, 2)


@pytest.mark.slow
async def test_acks_are_counted_and_told(tmp_path: Path) -> None:
    """Solace: a third of the window is 16 messages, or more where more came before there was time to answer."""
    rate, acks = await stream(SOLACE, NEAR, tmp_path / "stream", 160)
    assert rate > 0
    assert 0 < acks < 0.5
    delays_ns, held_bytes = await pace(SOLACE, NEAR, tmp_path / "pace", 50)
    assert len(delays_ns) == 50
    assert delays_ns[-1] > 0
    assert held_bytes >= 100


@pytest.mark.slow
async def test_what_arrived_does_not_come_again_after_a_lost_session(tmp_path: Path) -> None:
    """Order acks wait for two seconds, so that the link was cut before any of them: the next accept says it all."""
    order = replace(DEFAULT.order, order_ack_idle_s=2, seq_max_ack_delay_s=2)
    settings = NodeSettings(session=SessionSettings(ack_timeout_s=1.0), order=order)
    assert await lose_session(settings, NEAR, tmp_path, 40) == 0


@pytest.mark.slow
async def test_a_strategy_does_to_a_fast_and_a_slow_subscriber_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slow one acknowledges nothing here: there is room for 20 messages."""
    small = {"QUICK_SHARE": 10, "SLOW_NS": 3_600 * SECOND, "MAX_UNACKED": 20, "DELIVERY_TIMEOUT_S": 0.1}
    for name, value in small.items():
        monkeypatch.setattr(policy_nodes, name, value)
    result = await measured("STRATEGIES", tmp_path, None)
    lines = {line[0]: line[3:] for line in side_by_side(result)}
    assert (lines["slowest_sub_rate"][0], *lines["slowest_sub_rate"][2:]) == ("0", "180", "20", "0")
    slow, _, waiting, pending, lost = lines["discard_none"]
    assert (slow, int(waiting) + int(pending), lost) == ("0", 200, "0")
    assert int(pending) > 20
    slow, _, waiting, pending, lost = lines["discard_allowed"]
    assert (slow, int(waiting) + int(pending) + int(lost)) == ("0", 200)
    assert int(lost) > 0
    assert result.verified
    assert "| slowest_sub_rate |" in as_markdown([result])


# A link between two devices, here two sockets that keep packets whole.
FAST = Faults(rate_bps=1_000_000_000, delay_ns=10_000_000)


def carried(faults: Faults, packets: list[bytes]) -> tuple[list[bytes], float, list[dict[str, int]]]:
    """What comes out, how long the first took, and the counters."""
    pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2)]
    for _, inner in pairs:
        inner.setblocking(False)
    (here, first), (there, second) = pairs
    emulator = Emulator((first.fileno(), second.fileno()), faults, 1)
    emulator.start()
    began, found, took_s = time.monotonic(), list[bytes](), 0.0
    for packet in packets:
        here.send(packet)
    there.settimeout(0.5)
    try:
        while len(found) < len(packets):
            found.append(there.recv(2_000))
            took_s = took_s or time.monotonic() - began
    except TimeoutError:
        pass
    emulator.end()
    for pair in pairs:
        for end in pair:
            end.close()
    return found, took_s, emulator.counts()


def test_packets_arrive_in_order_and_not_before_their_time() -> None:
    """Those that are lost are counted."""
    packets = [b"packet %d" % number for number in range(50)]
    found, took_s, (there, back) = carried(FAST, packets)
    assert found == packets
    assert took_s >= 0.01
    assert (there, back) == ({"sent": 50}, {"sent": 0})
    found, _, (there, _) = carried(Faults(delay_ns=0, loss=0.5), packets)
    assert 0 < len(found) < 50
    assert there == {"sent": 50, "lost": 50 - len(found)}


# Servers of peers: started for themselves, found, and ended.
WAITS = """#!{python}
import socket, sys, time
print("not today", file=sys.stderr)
if {works}:
    sock = socket.create_server(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])))
    time.sleep(60)
"""


def program(folder: Path, *, works: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server of the name and the options of Redis, first on the path."""
    folder.mkdir(exist_ok=True)
    file = folder / "redis-server"
    file.write_text(WAITS.format(python=sys.executable, works=works))
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    assert shutil.which("redis-server") == str(file)


async def test_a_server_runs_while_it_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "bin", works=True, monkeypatch=monkeypatch)
    async with running("redis", tmp_path / "data") as server:
        assert server["port"] > 0
        os.kill(server["pid"], 0)
        assert processor_s(server["pid"]) >= 0
    with pytest.raises(ProcessLookupError):
        os.kill(server["pid"], 0)
    assert processor_s(server["pid"]) == 0


async def test_one_that_does_not_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "bin", works=False, monkeypatch=monkeypatch)
    with pytest.raises(TriackError, match="did not start: not today"):
        async with running("redis", tmp_path / "data"):
            pass


@pytest.mark.parametrize("name", SERVERS)
def test_every_server_keeps_to_loopback_and_its_folder(tmp_path: Path, name: str) -> None:
    command, places = SERVERS[name](4_711, tmp_path)
    files = [Path(word).read_text() for word in command if Path(word).is_file()]
    said = " ".join([*command, *places.values(), *files])
    assert "127.0.0.1" in said
    assert "4711" in said


# A small run of each row of two processes: counts and guarantees, never times.
ALL = ["every message once, in order", "synced at both ends", "encrypted", "recorded"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("row", "messages"), [("T2", 500), ("T3", 500), ("T4", 200), ("T5", 20), ("T6", 500), ("T7", 1_000)]
)
async def test_a_row_does_what_it_says(tmp_path: Path, row: str, messages: int) -> None:
    """Express messages are on no disk, and so not said to be synced."""
    guarantee = [ALL[0], ALL[2], ALL[3]] if row == "T6" else ALL
    assert_whole(await measured(row, tmp_path, messages), messages, guarantee)


def assert_whole(result: Result, messages: int, guarantee: list[str]) -> None:
    assert result.verified, result.notes
    assert result.guarantee == guarantee
    assert result.details["messages"] == messages
    assert all(len(figure.values) == 1 for figure in result.figures.values())


@pytest.mark.slow
@pytest.mark.parametrize(("row", "beside"), [("T13", "of direct"), ("T15", "of plain")])
async def test_a_row_stands_beside_a_plain_run(tmp_path: Path, row: str, beside: str) -> None:
    """By a third process, and with two answers to each message."""
    result = await measured(row, tmp_path, 2_000)
    assert result.verified, result.notes
    assert result.guarantee[:2] == ALL[:2]
    assert result.figures[beside].values[0] > 0


@pytest.mark.slow
async def test_a_peer_runs_in_turns(tmp_path: Path) -> None:
    """And a row without a peer says why."""
    alone = await measured("T10", tmp_path, 500, versus="outbox")
    assert_whole(alone, 500, ALL)
    assert alone.notes == ["no outbox beside it: no peer has a session log"]
    result = await measured("T1", tmp_path, 500, versus="outbox")
    assert_whole(result, 500, ALL)
    found = result.to_json()
    assert (found["versus"], found["versus_verified"]) == ("outbox", True)
    assert found["ratio"] == found["median"] / found["versus_median"] > 0


@pytest.mark.slow
async def test_a_curve_has_every_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = CURVES["WINDOWS"]
    assert [goal.name for goal in row.goals] == list(row.points)
    monkeypatch.setitem(CURVES, "WINDOWS", replace(row, goals=row.goals[:2], points=dict([*row.points.items()][:2])))
    result = await measured("WINDOWS", tmp_path, 60)
    assert result.verified, result.notes
    assert [len(figure.values) for figure in result.figures.values()] == [1, 1]
    assert all(figure.values[0] > 0 for figure in result.figures.values())


# T8 on a real link of two namespaces: Triack and TCP get through, in order, and the losses are counted.
def test_a_full_link_is_a_hundred_percent_of_what_it_lets_through() -> None:
    outcome = Outcome(1, 1, 1.0, 1.0, 11_250_000.0, True, [], "", {}, {}, {})
    assert share(outcome, replace(T8_LINK, loss=0.1)) == 100


@pytest.mark.slow
async def test_a_loss_has_its_figures(tmp_path: Path) -> None:
    if missing() is not None:
        pytest.skip(str(missing()))
    result = await measured("T8", tmp_path, None, seconds=0.1)
    assert result.verified, result.notes
    assert "no gap, none twice, in order" in result.guarantee
    figure = result.figures["5 % loss"]
    assert 0 < figure.values[0] <= 100
    assert 0 <= figure.versus_values[0] <= 100


@pytest.mark.slow
async def test_a_slow_link_carries_a_stream_of_large_packets(tmp_path: Path) -> None:
    """The kernel's own TCP at 2 Mbit/s: all come once and in order, and the link is not filled with copies."""
    if missing() is not None:
        pytest.skip(str(missing()))
    work = Work(size=16_384, transport="tcp", datagram_bytes=65_000, window=64, messages=40)
    slow = Faults(rate_bps=2_000_000, delay_ns=25_000_000, queue_bytes=64_000)
    outcome = await _one("triack", "", work, slow, tmp_path / "slow", Meter())
    assert (outcome.verified, outcome.delivered) == (True, 40), outcome.flaw
    assert outcome.facts["sender"]["wire_bytes"] < 2 * 40 * 16_384


@pytest.mark.slow
async def test_a_cable_carries_packets_of_1500_bytes(tmp_path: Path) -> None:
    if missing() is not None:
        pytest.skip(str(missing()))
    result = await measured("T18", tmp_path, 2_000)
    assert (result.verified, result.versus_verified) == (True, True), result.notes
    assert min(result.headline.values + result.headline.versus_values) > 0
    outcome = await _one("triack", "bbr", Work(size=1_024, messages=2_000), None, tmp_path / "one", Meter())
    sent = outcome.facts["sender"]
    assert 900 < sent["wire_bytes"] / sent["datagrams"] < 1_473


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="others have no namespaces at all")
async def test_without_namespaces_it_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    missing.cache_clear()
    try:
        result = await measured("T8", tmp_path, None)
    finally:
        missing.cache_clear()
    said = "not run: there is no unshare here (Debian: apt-get install util-linux)"
    assert (result.notes, result.headline.values) == ([said], [])


# Processor time of a process and of its children.
WORK_S = 0.2
"""Of processor time, however long it takes."""
BUSY = f"import time\nwhile time.process_time() < {WORK_S}: pass"
WAITING = f"{BUSY}\nprint(flush=True)\ninput()"
PARENT = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {BUSY!r}])
child = subprocess.Popen([sys.executable, "-c", {WAITING!r}], stdin=subprocess.PIPE)
sys.stdin.read()
child.communicate(bytes([10]))
"""


@pytest.mark.slow
def test_what_runs_and_what_is_over_counts() -> None:
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert processor_s(process.pid) >= 2 * WORK_S * 0.9
        process.communicate()
    assert processor_s(process.pid) == 0.0


# A process of a run follows its options.
@pytest.mark.gate
def test_a_sender_without_a_receiver_says_so_and_ends() -> None:
    options = {"role": "sender", "system": "tcp", "work": Work().to_json(), "found": {"host": "127.0.0.1", "port": 1}}
    command = [sys.executable, "-m", CHILD, json.dumps(options)]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S, check=False)
    assert ended.returncode == 1
    assert "error" in json.loads(ended.stdout)


# Bodies that are distinct, and made at no cost.
@pytest.mark.parametrize("size", [HEAD_BYTES, 20, 100])
def test_bodies_have_their_size_and_say_which_they_are(size: int) -> None:
    ring = make_ring(size)
    assert {len(body) for body in ring} == {size}
    assert [index_of(body) for body in ring] == 2 * list(range(RING))
    if size == 100:
        marked = stamped(ring[7], 123_456_789_012)
        assert (stamp_of(ring[7]), stamp_of(marked), index_of(marked)) == (0, 123_456_789_012, 7)
        assert is_plain(b"head" + ring[3] + b"tail", noise_of(100))
        assert not is_plain(bytes(byte ^ 1 for byte in ring[3]), noise_of(100))
    with pytest.raises(UsageError, match="11 bytes; 12 are needed"):
        Work(size=HEAD_BYTES - 1)


# The resident memory of a process.
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux tells it in /proc")
def test_what_is_made_is_seen() -> None:
    assert memory_missing() is None
    before = resident_bytes()
    # Straight from the system: what a process has freed may still be its own, and is used again first.
    with mmap(-1, 50_000_000) as made:
        made.write(b"x" * 50_000_000)
        assert 40_000_000 < resident_bytes() - before < 80_000_000


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux tells it in /proc")
def test_the_peak_of_another_process_is_seen() -> None:
    """Memory that it has given back counts; for a process that is over the answer is 0."""
    code = "made = bytearray(80_000_000); del made; print('done', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"done\n"
        assert 80_000_000 < peak_bytes(child.pid) < 200_000_000
        child.communicate(b"\n")
    assert peak_bytes(child.pid) == 0
    assert peak_bytes(os.getpid()) > 0


# A folder in memory is distinguished from one on a disk.
MOUNTS = """/dev/vda / ext4 rw 0 0
tmpfs /tmp tmpfs rw 0 0
/dev/vdb /tmp/on\\040disk xfs rw 0 0
"""


@pytest.mark.parametrize(
    ("folder", "memory"), [("/", False), ("/var/x", False), ("/tmp/x", True), ("/tmp/on disk/x", False)]
)
def test_the_nearest_mount_decides(tmp_path: Path, folder: str, memory: bool) -> None:
    (tmp_path / "mounts").write_text(MOUNTS)
    assert is_memory(Path(folder), tmp_path / "mounts") == memory
    assert not is_memory(Path(folder), tmp_path / "nothing")


# T12 with few messages: they wait on the disk, outlive the process, and arrive in order.
@pytest.mark.slow
async def test_a_backlog_waits_and_arrives(tmp_path: Path) -> None:
    result = await measured("T12", tmp_path, 3_000)
    assert result.verified, result.notes
    assert result.guarantee[0] == "every message once, in order"
    assert result.details["messages"] == 3_000
    assert result.figures["drained"].values[0] > 0
    assert result.notes == ["3,000 messages; the row asks for 1,000,000 (--messages 1000000), which take minutes"]


# T9 with few sessions: all of them open, before and after.
@pytest.mark.slow
async def test_every_session_is_open_and_stays_so(tmp_path: Path) -> None:
    result = await measured("T9", tmp_path, 20, seconds=0.5)
    assert result.verified, result.notes
    assert (result.details["receiver_sessions"], result.details["receiver_still"]) == (20, 20)
    assert result.notes == ["20 sessions; the row asks for 10,000"]
    assert result.figures["processor"].values[0] >= 0


@pytest.mark.parametrize("terminal", [True, False])
async def test_it_says_what_runs_and_what_is_done(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    """A line for each run, and the current run."""
    monkeypatch.setattr(progress, "PLAIN_S", 0.001)
    monkeypatch.setattr(progress, "TERMINAL_S", 0.001)
    out, now = StringIO(), Progress(sent=5_000, delivered=4_000)
    async with progress.shown(Console(file=out, width=120, force_terminal=terminal, color_system=None)) as meter:
        meter.begin("T1 triack 1/5", Work())
        meter.watch(now)
        async with asyncio.timeout(PATIENCE_S):
            while "T1 triack 1/5, 100 B: sent 5,000  delivered 4,000" not in out.getvalue():  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.001)
        meter.say("T1 triack 1/5: done [once]")
    assert "T1 triack 1/5: done [once]" in out.getvalue()
