"""Real sockets through a bad network: loss, copies, overtaking, damage and outages, by a seeded relay."""

import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import triack
from proof.real.nodes import HANG_S, body, number_of
from triack.tools.demo.relay import Relay, rough
from triack.tools.replay.run import replay
from triack.tools.sim.faults import Faults

QUEUE = "crossing"
IN_FLIGHT_BYTES = 4 * 1024 * 1024
STEADY_MESSAGES, STEADY_S = 20, 0.01
TRUNCATED_SHARE = 0.2
"""The share of damaged datagrams that lose their end; the others keep their length."""


def weather(*, loss: float = 0.0, duplicate: float = 0.0, reorder: float = 0.0, corrupt: float = 0.0) -> Faults:
    """What the network does in each direction, as shares of the datagrams; some of the damaged ones lose their end."""
    damage = {"corrupt": corrupt * (1 - TRUNCATED_SHARE), "truncate": corrupt * TRUNCATED_SHARE}
    return rough(loss=loss, duplicate=duplicate, reorder=reorder, **damage)


@dataclass(slots=True)
class Crossing:
    """The result of a transfer."""

    messages: int = 0
    payload_bytes: int = 0
    sent_bytes: int = 0
    back_bytes: int = 0
    damaged: int = 0
    drops: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    violations: list[str] = field(default_factory=list)

    @property
    def overhead(self) -> float:
        """Bytes that the sender's node sent for each byte of payload."""
        return self.sent_bytes / self.payload_bytes if self.payload_bytes else 0.0


async def cross(
    folder: Path,
    faults: Faults | None,
    *,
    scheme: str,
    messages: int,
    size_bytes: int,
    seed: int = 1,
    limit_s: float = HANG_S,
    settings: triack.NodeSettings | None = None,
) -> Crossing:
    """Send messages from one node to another through bad weather, until the last is accepted in order."""
    found = Crossing()
    log, start = folder / "logs", time.monotonic()
    async with (
        triack.open(
            "to", data=folder / "to", listen=f"{scheme}://127.0.0.1:0", log=log, insecure=True, settings=settings
        ) as receiver,
        _relayed(receiver.address, faults or weather(), seed) as relay,
        triack.open("from", data=folder / "from", log=log, insecure=True, settings=settings) as sender,
    ):
        start = time.monotonic()
        taking = asyncio.create_task(_take(receiver, messages, size_bytes, found))
        try:
            async with asyncio.timeout(limit_s):
                await _send(sender, f"{relay.address if faults else receiver.address}/{QUEUE}", messages, size_bytes)
                await taking
        except TimeoutError:
            found.violations.append(f"{found.messages} of {messages} messages after {limit_s:g} s")
        finally:
            taking.cancel()
        found.seconds = time.monotonic() - start
        found.payload_bytes = found.messages * size_bytes
        found.sent_bytes, found.back_bytes = relay.to_target.sent_bytes, relay.to_client.sent_bytes
        found.damaged = sum(way.fates.counts["damaged"] for way in (relay.to_target, relay.to_client))
        found.drops = dict(Counter(sender.stats().drops) + Counter(receiver.stats().drops))
        left = receiver.queue_lengths()[QUEUE]
        if left and not found.violations:
            found.violations.append(f"{left} messages too many")
    verdict = replay([log], engine="local")
    found.violations += [f"the record: {verdict.verdict} {verdict.violations}"] if verdict.verdict != "pass" else []
    return found


@asynccontextmanager
async def _relayed(target: str, faults: Faults, seed: int) -> AsyncIterator[Relay]:
    relay = Relay(target=target, listen=f"{target.partition(':')[0]}://127.0.0.1:0", faults=faults, seed=seed)
    await relay.start()
    try:
        yield relay
    finally:
        await relay.close()


async def _send(node: triack.Node, destination: str, messages: int, size_bytes: int) -> None:
    step = max(1, min(500, IN_FLIGHT_BYTES // size_bytes // 2))
    before: triack.Receipt | None = None
    for first in range(0, messages, step):
        receipt = None
        for number in range(first, min(first + step, messages)):
            receipt = await node.send(destination, body(number, size_bytes))
        if before is not None:
            await before.ordered()
        before = receipt
    if before is not None:
        await before.ordered()


async def _take(node: triack.Node, messages: int, size_bytes: int, found: Crossing) -> None:
    async with node.receive(QUEUE) as consumer:
        while found.messages < messages:
            message = await consumer.get()
            if number_of(message.body, size_bytes) != found.messages:
                found.violations.append(f"{message.body[:40]!r} came in place of {found.messages}")
                return
            found.messages += 1


@dataclass(slots=True)
class Outage:
    """The effect of an outage on a user."""

    first_delivery_s: float = 0.0
    messages: int = 0
    violations: list[str] = field(default_factory=list)


async def outage(folder: Path, *, scheme: str, seconds: float, both: bool = True) -> Outage:
    """Cut the network under a steady stream of messages, heal it, and see how soon they arrive again."""
    found = Outage()
    async with (
        triack.open("to", data=folder / "to", listen=f"{scheme}://127.0.0.1:0", insecure=True) as receiver,
        _relayed(receiver.address, weather(), 1) as relay,
        triack.open("from", data=folder / "from", insecure=True) as sender,
        receiver.receive(QUEUE) as consumer,
        asyncio.timeout(seconds + HANG_S),
    ):
        stream = _Stream(sender, f"{relay.address}/{QUEUE}")
        sending = asyncio.create_task(stream.send())

        async def take() -> float:
            number = number_of((await consumer.get()).body)
            if number != found.messages:
                found.violations.append(f"{number} came in place of {found.messages}")
            found.messages += 1
            return time.monotonic()

        try:
            while found.messages < STEADY_MESSAGES:
                await take()
            relay.cut(both=both)
            healed_at = time.monotonic() + seconds
            asyncio.get_running_loop().call_later(seconds, relay.heal)
            while (arrived_at := await take()) < healed_at:
                pass
            found.first_delivery_s = arrived_at - healed_at
        finally:
            sending.cancel()
        while found.messages < stream.sent:
            await take()
    return found


class _Stream:
    """Sends a small message every few milliseconds."""

    def __init__(self, node: triack.Node, destination: str) -> None:
        self._node = node
        self._destination = destination
        self.sent = 0

    async def send(self) -> None:
        """Send until cancelled."""
        while True:
            self._node.send_nowait(self._destination, body(self.sent))
            self.sent += 1
            await asyncio.sleep(STEADY_S)


def main() -> None:
    """Cross whatever network this process is in: ``SCHEME MESSAGES BYTES SECONDS``. Prints a line of JSON.

    ``portable`` is UDP on asyncio-dgram.
    """
    scheme, messages, size_bytes, limit_s = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    settings = triack.NodeSettings(udp="portable" if scheme == "portable" else None)
    scheme = "udp" if scheme == "portable" else scheme
    with tempfile.TemporaryDirectory(prefix="triack-crossing-") as folder:
        work = cross(
            Path(folder),
            None,
            scheme=scheme,
            messages=messages,
            size_bytes=size_bytes,
            limit_s=limit_s,
            settings=settings,
        )
        sys.stdout.write(json.dumps(asdict(asyncio.run(work))) + "\n")


if __name__ == "__main__":
    main()
