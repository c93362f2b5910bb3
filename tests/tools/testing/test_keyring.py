"""Machines of a simulated world know each other, unless that is turned off."""

from pathlib import Path
from random import Random

import pytest

import triack
from triack.base.peers import Peer
from triack.node.files.private_files import MemoryFiles
from triack.node.files.trust import TrustFile
from triack.testing import World
from triack.testing.keyring import Keyring

DATA = Path("data")
AT = "udp://127.0.0.1:7802"


async def collect(got: list[bytes]) -> None:
    async with triack.open("node", data=DATA, listen=AT) as node:
        async for message in node.receive("q"):
            got.append(message.body)  # noqa: PERF401 - it never ends


async def feed(*bodies: bytes) -> None:
    async with triack.open("node", data=DATA) as node:
        for body in bodies:
            await (await node.send("b/q", body)).ordered()


async def test_machines_are_peers_by_their_names(triack_world: World) -> None:
    """From their start on, in whatever order; crashes change no key."""
    got: list[bytes] = []
    a, b = triack_world.machine("a"), triack_world.machine("b")
    sending = a.start(feed, b"0", b"1")
    await triack_world.advance(5)
    b.start(collect, got)
    await sending
    a.restart()
    b.lose_power()
    b.restart()
    await triack_world.until(lambda: got == [b"0", b"1", b"0", b"1"])


@pytest.mark.triack(trust=False)
async def test_or_they_are_strangers(triack_world: World) -> None:
    """Then a service says itself whom it trusts, and that survives crashes as keys do."""
    a, b = triack_world.machine("a"), triack_world.machine("b")
    with b:
        node_b = await triack.open("b", data=DATA, listen=AT).start()
    with a:
        node_a = await triack.open("a", data=DATA).start()
    with pytest.raises(triack.AddressError, match="unknown peer b"):
        await node_a.send("b/q", b"x")
    await node_a.trust("b", node_b.key, AT)
    receipt = await node_a.send("b/q", b"x")
    await triack_world.advance(1)
    assert node_b.stats().drops["untrusted"]
    await node_b.trust("a", node_a.key)
    await receipt.ordered()
    key = node_a.key
    a.restart()
    with a:
        node_a = await triack.open("a", data=DATA).start()
    assert node_a.key == key
    await (await node_a.send("b/q", b"y")).ordered()


async def test_a_revoked_machine_stays_revoked(triack_world: World) -> None:
    """It may start as often as it likes."""
    a, b = triack_world.machine("a"), triack_world.machine("b")
    with b:
        node = await triack.open("b", data=DATA, listen=AT).start()
    sending = a.start(feed, b"0")
    await sending
    await node.revoke("a")
    for _ in range(3):
        a.restart()
        await triack_world.advance(1)
    assert node.queue_lengths()["q"] == 1


def peers(keyring: Keyring, files: MemoryFiles) -> dict[str, Peer]:
    return {peer.name: peer for peer in TrustFile(files).load()}


def test_what_nodes_know_of_each_other() -> None:
    """The first of a machine has the machine's name, more have their own; an address is the last one."""
    keyring = Keyring(Random)
    keyring.add_machine("a")
    keyring.add_machine("b")
    first = keyring.files("a", DATA, "x")
    more = [keyring.files("a", Path(f"more{number}"), "x") for number in range(3)]
    in_b = keyring.files("b", None, "b")
    assert keyring.files("a", DATA, "whatever") is first
    for files, address in ((first, ""), (in_b, "udp://127.0.0.1:1"), (more[0], "")):
        keyring.introduce(files, address)
    keyring.introduce(in_b, "udp://127.0.0.1:2")
    assert set(peers(keyring, first)) == {"b", "x", "a.x", "a.x-2"}
    assert set(peers(keyring, in_b)) == {"a", "x", "a.x", "a.x-2"}
    assert peers(keyring, first)["b"].addresses == ("udp://127.0.0.1:2",)
    assert more[2].read("trust.json") is None
