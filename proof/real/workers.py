"""The work of the children of the real runs. Each stores its progress by ``remember``.

So after a restart each can report what it had done, and a run can compare that with earlier reports.
"""

import asyncio
import contextlib
from random import Random
from typing import Any

import triack
from proof.real.children import Report
from proof.real.nodes import body, number_of, quick

IN_FLIGHT = 400
"""How far a sender may be ahead of the order acks, in messages: enough to fill the window, cheap to drain."""
FILLED = "filled"
FILL_MESSAGES = 1_000


def _open(name: str, options: dict[str, Any], **more: Any) -> triack.Node:
    return triack.open(
        name, data=options["data"], log=options["log"], insecure=True, settings=quick(options.get("udp")), **more
    )


def _recall(node: triack.Node, key: str) -> int:
    return int(node.recall(key) or b"0")


async def sender(options: dict[str, Any], report: Report) -> None:
    """Send numbers in transactions, from where it was. ``finish``: only what is already in transit."""
    random = Random(options["seed"])
    ordered = asyncio.Event()
    async with _open("sender", options) as node, asyncio.TaskGroup() as watchers:
        number = done = _recall(node, "next")
        report(f"opened {number}")

        async def watch(receipt: triack.Receipt, upto: int) -> None:
            nonlocal done
            await receipt.ordered()
            done = max(done, upto)
            ordered.set()

        while not options["finish"]:
            while number - done > IN_FLIGHT:
                ordered.clear()
                await ordered.wait()
            count = random.randint(1, 40)
            async with node.transaction() as tx:
                for offset in range(count):
                    await tx.send(options["to"], body(number + offset))
                tx.remember("next", b"%d" % (number + count))
                receipts = await tx.commit()
            number += count
            report(f"committed {number}")
            watchers.create_task(watch(receipts[-1], number))
        await asyncio.Event().wait()


async def receiver(options: dict[str, Any], report: Report) -> None:
    """Read numbers from ``orders`` and pass them on to ``done``, in transactions of one to twenty."""
    random = Random(options["seed"])
    async with _open("receiver", options, listen=options["listen"]) as node:
        expected = _recall(node, "expected")
        report(f"address {node.address}")
        report(f"opened {expected}")
        while True:
            async with node.transaction() as tx:
                limit_s = None
                with contextlib.suppress(triack.WaitTimeout):
                    for _ in range(random.randint(1, 20)):
                        message = await tx.receive("orders", limit_s)
                        if number_of(message.body) != expected:
                            report(f"violation: {message.body[:40]!r} came in place of {expected}")
                        await tx.send("done", message.body)
                        expected += 1
                        limit_s = 0.001
                tx.remember("expected", b"%d" % expected)
            report(f"committed {expected}")


async def filler(options: dict[str, Any], report: Report) -> None:
    """Put numbers into a local queue, as fast as possible, until it is killed."""
    async with _open("filler", options) as node:
        number = _recall(node, "next")
        report(f"opened {number}")
        while True:
            async with node.transaction() as tx:
                for offset in range(FILL_MESSAGES):
                    await tx.send(FILLED, body(number + offset, options["size_bytes"]))
                number += FILL_MESSAGES
                tx.remember("next", b"%d" % number)
            report(f"committed {number}")


async def opener(options: dict[str, Any], report: Report) -> None:
    """Open what the filler left, and change nothing."""
    async with _open("filler", options) as node:
        report(f"opened {_recall(node, 'next')}")
        await asyncio.Event().wait()
