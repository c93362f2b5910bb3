"""The systems that are compared."""

import asyncio
import importlib.util
import shutil
from pathlib import Path

import pytest

import triack
from triack.base.errors import TriackError, UsageError
from triack.node.shell.platform import PLATFORM
from triack.tools.bench.run import Outcome, run_once
from triack.tools.bench.servers import running
from triack.tools.bench.systems.catalogue import PEERS, SYSTEMS, system_of
from triack.tools.bench.systems.framing import pack_batch, read_batch
from triack.tools.bench.systems.outbox import OutboxInlet, OutboxOutlet
from triack.tools.bench.systems.own import Counting, settings_of
from triack.tools.bench.work import Work, make_ring, noise_of

SYNCED = {"redis": ["synced once"], "outbox": ["synced at both ends"]}
"""What is said of the systems that write to the disk."""


async def ran(name: str, folder: Path, work: Work) -> Outcome:
    """Run a peer; skip the test, with what to install, if that is not there."""
    try:
        SYSTEMS[name].check()
    except TriackError as error:
        pytest.skip(str(error))
    async with running(name, folder / "server") as server:
        return await run_once(SYSTEMS[name], work, folder, server, lambda _progress: None)


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "messages"), [("stream", 3_000), ("paced", 50), ("single", 50)])
@pytest.mark.parametrize("system", PEERS)
async def test_messages_arrive_in_each_mode(system: str, mode: str, messages: int, tmp_path: Path) -> None:
    """And no more is said of it than what was seen."""
    found = await ran(system, tmp_path, Work(messages=messages, mode=mode, rate=200))  # type: ignore[arg-type]
    assert (found.sent, found.delivered, found.flaw) == (messages, messages, "")
    assert found.guarantee == ["every message once, in order", *SYNCED.get(system, [])]
    assert bool(found.latencies) == (mode == "paced")


def test_every_peer_that_is_promised_is_there() -> None:
    assert set(PEERS) == {"redis", "nats", "rabbitmq", "zmq", "mosquitto", "outbox", "tcp"}
    with pytest.raises(UsageError, match="no system kafka; there are triack, tcp"):
        system_of("kafka")


def test_what_is_missing_is_said_in_one_line_with_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    for name in ("triack", "tcp", "outbox"):
        SYSTEMS[name].check()
    with pytest.raises(TriackError) as told:
        SYSTEMS["redis"].check()
    assert str(told.value) == (
        "bench --versus redis needs its Python client (pip install 'triack[bench]') and redis-server on the PATH "
        "(Debian: apt-get install redis-server)"
    )
    with pytest.raises(TriackError, match=r"^bench --versus zmq needs its Python client"):
        SYSTEMS["zmq"].check()


def test_settings_are_defaults_but_for_what_the_row_says() -> None:
    udp = triack.SessionSettings(max_unacked_packet=9, max_datagram_bytes=1_000)
    assert settings_of(Work(window=9, datagram_bytes=1_000)) == triack.NodeSettings(session=udp)
    tcp = triack.NodeSettings(session=triack.SessionSettings(max_unacked_packet=9), stream_datagram_bytes=60_000)
    assert settings_of(Work(window=9, transport="tcp", datagram_bytes=60_000)) == tcp


@pytest.mark.parametrize("data", ["on-disk", None])
async def test_commits_and_datagrams_are_counted(tmp_path: Path, data: str | None) -> None:
    """A store in memory is not said to be synced, and a body in the clear is seen."""
    platform = Counting(noise_of(100))
    async with triack.open("b", data=None, listen="udp://127.0.0.1:0", insecure=True, queues=["q"]) as receiver:
        token = PLATFORM.set(platform)
        sender = triack.open("a", data=tmp_path / data if data else None, insecure=True)
        PLATFORM.reset(token)
        async with sender:
            receipt = await sender.send(f"{receiver.address}/q", make_ring(100)[0])
            await receipt.ordered(10)
            found = platform.facts()
    assert found["synced"] == (data is not None)
    least = {"commits": 1, "datagrams": 2, "wire_bytes": 101, "looked": 1}
    assert [name for name, count in least.items() if found[name] < count] == []


async def test_a_batch_comes_out_as_it_went_in() -> None:
    batches = [(1, [b"a", b"", b"ccc"]), (4, [b"x" * 70_000])]
    reader = asyncio.StreamReader()
    for first, bodies in batches:
        reader.feed_data(pack_batch(first, bodies))
    reader.feed_eof()
    assert [await read_batch(reader) for _ in batches] == batches


@pytest.mark.slow
async def test_after_a_break_it_goes_on_where_it_was(tmp_path: Path) -> None:
    """Committed messages without an ack leave again, and messages that came are not handed out again."""
    options = {"work": Work().to_json(), "data": str(tmp_path)}
    for numbers in (range(3), range(3, 5)):
        sink = Taken()
        async with OutboxInlet(options) as inlet:
            reading = asyncio.create_task(inlet.run(sink))  # type: ignore[arg-type]
            async with OutboxOutlet({**options, "found": inlet.found()}) as outlet:
                await outlet.put([b"%d" % number for number in numbers])
                await outlet.settle()
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        assert sink.bodies == [b"%d" % number for number in numbers]


class Taken:
    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def take(self, bodies: list[bytes]) -> None:
        self.bodies += bodies
