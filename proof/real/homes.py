"""Calls a node at each of its several addresses, from behind a firewall that lets in nothing but answers.

The two ends are two network namespaces with a cable between them (veth(4)), and the firewall is the kernel's: it knows
flows (``ct state``), so it drops an answer that leaves from another address than the one that was called.

    python -m proof.real.namespace 0 python -m proof.real.homes    # prints the result of each address, as JSON
"""

import asyncio
import json
import subprocess
import sys
from contextlib import AsyncExitStack

import triack
from proof.real.nodes import HANG_S
from triack.tools.bench.namespace import ip, program

PORT = 7801
HOMES = ("10.0.0.1", "10.0.0.2", "[fd00::1]", "[fd00::2]", "[fe80::77%v0]")
_WALL = """
table inet wall {
    chain input {
        type filter hook input priority 0;
        ct state established,related accept
        meta l4proto udp drop
    }
}
"""


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def serve(listen: str, keys: list[str]) -> None:
    """Be the called node: wait for the cable, then listen until the end."""
    _say("here")
    sys.stdin.readline()  # the other end has connected the cable
    for host in HOMES:
        bare = host.strip("[]").partition("%")[0]
        ip("addr", "add", f"{bare}/64" if ":" in bare else f"{bare}/24", "dev", "v1", *(["nodad"] * (":" in bare)))
    ip("link", "set", "v1", "up")
    async with triack.open("hub", data=None, listen=listen) as hub:
        for number, key in enumerate(keys):
            await hub.trust(f"caller-{number}", key)
        _say(str(hub.key))
        await asyncio.Event().wait()


def _start_hub(listen: str, keys: list[str]) -> "subprocess.Popen[str]":
    command = [program("unshare"), "-n", sys.executable, "-m", __spec__.name, listen, *keys]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _plug_in(child: "subprocess.Popen[str]") -> None:
    assert child.stdin is not None
    ip("link", "add", "v0", "type", "veth", "peer", "name", "v1", "netns", str(child.pid))
    ip("addr", "add", "10.0.0.9/24", "dev", "v0")
    ip("addr", "add", "fd00::9/64", "dev", "v0", "nodad")
    ip("link", "set", "v0", "up")
    subprocess.run([program("nft"), "-f", "-"], input=_WALL.encode(), check=True)
    child.stdin.write("\n")
    child.stdin.flush()


async def call(listen: str) -> dict[str, str]:
    """Call a node at each address where it listens. Returns by address ``ordered``, or another result."""
    homes = [host for host in HOMES if "[" in listen or ":" not in host]
    async with AsyncExitStack() as nodes:
        opened = (triack.open(f"caller-{number}", data=None) for number in range(len(homes)))
        callers = [await nodes.enter_async_context(node) for node in opened]
        return await _call_from(dict(zip(homes, callers, strict=True)), listen)


async def _call_from(callers: dict[str, triack.Node], listen: str) -> dict[str, str]:
    child = await asyncio.to_thread(_start_hub, listen, [str(caller.key) for caller in callers.values()])
    assert child.stdout is not None
    await asyncio.to_thread(child.stdout.readline)  # the child is in its namespace
    _plug_in(child)
    key = (await asyncio.to_thread(child.stdout.readline)).strip()
    found: dict[str, str] = {}
    for host, caller in callers.items():
        await caller.trust("hub", key, f"udp://{host}:{PORT}")
        receipt = await caller.send("hub/orders", b"12 valves", delivery=triack.TRANSACTIONAL)
        try:
            await receipt.ordered(timeout=HANG_S)
            found[host] = "ordered"
        except triack.TriackError as error:
            found[host] = str(error)
    child.kill()
    return found


def main() -> None:
    """Be either end: with arguments the called node, with the keys that it trusts; else the callers."""
    if len(sys.argv) > 2:  # noqa: PLR2004 - an address and keys
        asyncio.run(serve(sys.argv[1], sys.argv[2:]))
    else:
        sys.stdout.write(json.dumps(asyncio.run(call(sys.argv[1]))))


if __name__ == "__main__":
    main()
