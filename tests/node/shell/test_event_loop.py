"""Which event loop runs what has none of its own, and that nodes run in uvloop's as in asyncio's."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

import triack
from tests.machine import PATIENCE_S
from triack.node.shell import event_loop
from triack.node.sync.sync_loop import LoopThread

uvloop = pytest.importorskip("uvloop", reason="uvloop has no wheel for this system")
ABSENT = "import sys; sys.modules['uvloop'] = None\n"
SHOWN = "from triack.node.shell import event_loop; print(type(event_loop.new_event_loop()).__module__)"


def test_it_is_that_of_uvloop_where_that_is_installed() -> None:
    """Of a command, and of the thread of a program without one."""

    async def loop() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    assert isinstance(event_loop.run(loop()), uvloop.Loop)
    background = LoopThread("test")
    assert isinstance(background.wait(loop()), uvloop.Loop)
    background.end()


def test_it_is_that_of_asyncio_where_it_is_not() -> None:
    shown = subprocess.run([sys.executable, "-c", ABSENT + SHOWN], capture_output=True, text=True, check=True)
    assert shown.stdout == "asyncio.unix_events\n"


@pytest.mark.parametrize("scheme", ["udp", "tcp"])
@pytest.mark.parametrize("batches", [True, False])
def test_nodes_talk_to_each_other_in_it(
    scheme: str, batches: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over both transports, and both kinds of UDP socket; everything arrives in order and is acknowledged."""
    if not batches:
        monkeypatch.setattr("triack.transport.udp.offers_batches", lambda _sock: False)
    bodies = [b"%d" % number for number in range(500)]

    async def transfer() -> list[bytes]:
        listen = f"{scheme}://127.0.0.1:0"
        plant = triack.open("plant", data=tmp_path / "plant", listen=listen, insecure=True)
        shop = triack.open("shop", data=tmp_path / "shop", listen=listen, insecure=True)
        async with plant, shop, plant.receive("orders") as orders:
            receipts = await shop.send_many(f"{plant.address}/orders", bodies)
            found: list[bytes] = []
            async with asyncio.timeout(PATIENCE_S):
                while len(found) < len(bodies):
                    found += [message.body for message in await orders.get_many()]
                await receipts.ordered()
        return found

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(transfer()) == bodies
