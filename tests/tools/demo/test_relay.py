"""The relay damages the planned datagrams, repeatably, and no others."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from click.testing import CliRunner

from tests.machine import PATIENCE_S
from tests.node.nodes import until
from triack.base.errors import AddressError, TransportError
from triack.tools.demo.relay import Direction, Relay, main, rough
from triack.transport.endpoint import Endpoint
from triack.transport.opening import open_endpoint

DATAGRAMS = [b"%d" % number for number in range(2_000)]
TIMEOUT_SECONDS = PATIENCE_S


async def gathered(endpoint: Endpoint, count: int) -> list[bytes]:
    found: list[bytes] = []
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while len(found) < count:
            found += [data for data, _ in await endpoint.receive() if data]
    return found


def complaints() -> list[object]:
    """What the event loop has to complain about from now on: errors that nobody handled."""
    found: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: found.append(context))
    return found


Way = tuple[Endpoint, Relay, Endpoint]


@asynccontextmanager
async def relayed(scheme: str = "udp", **options: Any) -> AsyncIterator[Way]:
    anywhere = f"{scheme}://127.0.0.1:0"
    async with AsyncExitStack() as stack:
        target = await open_endpoint(scheme, anywhere)
        stack.push_async_callback(target.close)
        client = await open_endpoint(scheme, anywhere if scheme == "udp" else None)
        stack.push_async_callback(client.close)
        relay = Relay(target=target.address, listen=anywhere, **options)
        stack.push_async_callback(relay.close)
        await relay.start()
        yield client, relay, target


@pytest.mark.parametrize("scheme", ["udp", "tcp"])
async def test_clean_relay_changes_nothing(scheme: str) -> None:
    async with relayed(scheme) as (client, relay, target):
        await client.send(DATAGRAMS[:500], relay.address)
        first = (await target.receive())[0]
        await target.send(DATAGRAMS[:500], first.sender)
        assert await gathered(client, 500) == DATAGRAMS[:500]
        whole = {"forwarded": 500, "dropped": 0, "duplicated": 0, "reordered": 0}
        assert relay.counters == {"to_target": whole, "to_client": whole}


@pytest.mark.parametrize("scheme", ["udp", "tcp"])
async def test_impaired_relay(scheme: str) -> None:
    """Some are lost, some come twice, some late; each whole; and the counters tell."""
    shares = {"loss": 0.2, "duplicate": 0.1, "reorder": 0.1}
    way = Direction(rough(**shares), "3 to_target")
    plans = [way.fates.decide(way.faults, data) for data in DATAGRAMS]
    expected = sorted(copy for plan in plans for _, copy in plan)
    async with relayed(scheme, faults=rough(**shares), seed=3) as (client, relay, target):
        await client.send(DATAGRAMS, relay.address)
        found = await gathered(target, len(expected))
        assert sorted(found) == expected
        assert found != sorted(found, key=int)
        assert relay.counters["to_target"] == {
            "forwarded": len(expected),
            "dropped": plans.count([]),
            "duplicated": sum(len(plan) == 2 for plan in plans),
            "reordered": sum(delay_ns > 0 for plan in plans for delay_ns, _ in plan),
        }


async def test_a_cut_relay_loses_all_until_it_is_healed() -> None:
    """One way or both, counted; and what is longer than the path carries is lost before and after."""
    async with relayed(faults=rough(mtu_bytes=3)) as (client, relay, target):
        relay.cut(both=False)
        await client.send([b"one", b"long"], relay.address)
        (data, sender), *others = await target.receive()
        assert (data, others) == (b"one", [])
        await target.send([b"cut"], sender)
        await until(lambda: relay.counters["to_client"]["dropped"] == 1)
        relay.cut()
        await client.send([b"cut"], relay.address)
        await until(lambda: relay.counters["to_target"]["dropped"] == 2)
        relay.heal()
        await client.send([b"two"], relay.address)
        await target.send([b"two"], sender)
        assert await gathered(target, 1) == await gathered(client, 1) == [b"two"]
        assert (relay.to_target.sent, relay.to_target.sent_bytes) == (4, 13)


async def test_tcp_ends_end_together() -> None:
    async with relayed("tcp") as (client, relay, target):
        await client.send([b"x"], relay.address)
        assert await gathered(target, 1) == [b"x"]
        await target.close()
        async with asyncio.timeout(TIMEOUT_SECONDS):
            assert await client.receive() == [(b"", relay.address)]
            await client.send([b"y"], relay.address)
            assert await client.receive() == [(b"", relay.address)]


async def test_each_client_has_its_own_way() -> None:
    async with relayed() as (client, relay, target), relayed() as (other, _, _):
        for number, its in enumerate((client, other, client)):
            await its.send([b"%d" % number], relay.address)
            data, sender = (await target.receive())[0]
            await target.send([b"to " + data], sender)
            assert await gathered(its, 1) == [b"to %d" % number]


async def test_what_cannot_be_relayed() -> None:
    """Mixed schemes, taken ports and unknown hosts are refused; the command says so without a traceback."""
    with pytest.raises(AddressError, match="both must be"):
        Relay(target="tcp://127.0.0.1:1", listen="udp://127.0.0.1:0")
    async with relayed() as (_, relay, _):
        with pytest.raises(TransportError, match="address already in use"):
            await Relay(target="udp://127.0.0.1:1", listen=relay.address).start()
    with pytest.raises(TransportError, match=r"cannot resolve udp://no-such-host\.invalid:1: "):
        await Relay(target="udp://no-such-host.invalid:1").start()
    result = await asyncio.to_thread(
        CliRunner().invoke, main, ["--target", "nonsense", "--listen", "udp://127.0.0.1:0"]
    )
    assert (result.exit_code, "cannot read address 'nonsense'" in result.output) == (1, True)


async def test_a_target_to_which_there_is_no_way() -> None:
    """Everybody's address is not for sockets like these: what is sent there is dropped, and counted."""
    async with relayed() as (client, _, _):
        relay = Relay(target="udp://255.255.255.255:1")
        await relay.start()
        await client.send([b"1", b"2"], relay.address)
        await until(lambda: relay.counters["to_target"]["dropped"] == 2)
        assert relay.counters["to_target"]["forwarded"] == 0
        await relay.close()


async def test_a_target_that_is_away_for_a_while() -> None:
    """The kernel answers that nobody listens: some datagrams are lost, and later ones arrive."""
    unhandled = complaints()
    async with relayed() as (client, relay, target):
        await target.close()
        for sent, count in ((1, 1), (11, 10)):
            await client.send(DATAGRAMS[:count], relay.address)
            await until(lambda sent=sent: sum(relay.counters["to_target"].values()) == sent)
            # The relay reads the last refusal.
            await asyncio.sleep(0.01)
        assert relay.counters["to_target"]["dropped"] > 0
        back = await open_endpoint("udp", target.address)
        await client.send([b"here again"], relay.address)
        assert await gathered(back, 1) == [b"here again"]
        assert unhandled == []
        await back.close()


async def test_what_is_held_back_is_lost_when_the_relay_closes() -> None:
    """In both directions, counted, and without a complaint of the event loop."""
    unhandled = complaints()
    async with relayed(faults=rough(reorder=1.0)) as (client, relay, target):
        await client.send([b"there"], relay.address)
        data, sender = (await target.receive())[0]
        # So long that both are still held when the relay closes.
        for way in (relay.to_target, relay.to_client):
            way.faults.delay_ns = 200_000_000
        await target.send([data], sender)
        await client.send([b"late"], relay.address)
        await until(lambda: [way["reordered"] for way in relay.counters.values()] == [2, 1])
        await relay.close()
        await until(lambda: [way["dropped"] for way in relay.counters.values()] == [1, 1])
    assert unhandled == []


async def test_command_prints_its_counters() -> None:
    async with relayed() as (client, _, target):
        options = ["--target", target.address, "--listen", "udp://127.0.0.1:0", "--duplicate", "1"]
        command = [sys.executable, "-m", "triack.tools.demo.relay", *options]
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        assert process.stdout is not None
        async with asyncio.timeout(2 * TIMEOUT_SECONDS):
            word, address = (await process.stdout.readline()).decode().split()
            await client.send([b"x"], address)
            assert word == "relaying"
            assert await gathered(target, 2) == [b"x", b"x"]
            process.send_signal(signal.SIGTERM)
            counters = json.loads(await process.stdout.readline())
            assert await process.wait() == 0
        assert counters["to_target"] == {"forwarded": 2, "dropped": 0, "duplicated": 1, "reordered": 0}
