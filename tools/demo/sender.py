"""The demo's sending process: ``python -m triack.tools.demo.sender OPTIONS``."""

import asyncio
import time

import triack
from triack.node.control.tasks import first_of
from triack.tools.demo.bodies import Bodies
from triack.tools.demo.child import QUEUE, RECEIVER, SENDER, Report, run_child, tell, tell_regularly

IN_FLIGHT_BYTES = 8 * 1024 * 1024
MARK_MESSAGES = 500


class Sender:
    """Sends all messages, and knows how far they have come."""

    def __init__(self, options: Report) -> None:
        self._count = int(options["messages"])
        self._destination = f"{options['address'] if options['insecure'] else RECEIVER}/{QUEUE}"
        self._bodies = Bodies(options["size"], options["seed"])
        self._in_flight = max(2, IN_FLIGHT_BYTES // int(options["size"]))
        self._marks: asyncio.Queue[tuple[int, triack.Receipt]] = asyncio.Queue()
        self._moved = asyncio.Event()
        self.sent = 0
        self.ordered = 0
        self.first_ns = 0

    def progress(self) -> Report:
        """How many messages the node has accepted, and how many are in order at the other end."""
        return {"sent": self.sent, "ordered": self.ordered}

    async def send(self, node: triack.Node) -> None:
        """Send all, at most the limit ahead of the ordered ones."""
        make = self._bodies.make
        step = min(MARK_MESSAGES, self._in_flight // 2)
        self.first_ns = time.monotonic_ns()
        for start in range(0, self._count, step):
            end = min(start + step, self._count)
            while end - self.ordered > self._in_flight:
                self._moved.clear()
                await self._moved.wait()
            receipts = await node.send_many(self._destination, map(make, range(start, end)))
            self._marks.put_nowait((end, receipts[-1]))
            self.sent = end
        await asyncio.Event().wait()

    async def follow(self) -> None:
        """Until every message is accepted at the other end, in order and on its disk."""
        while self.ordered < self._count:
            count, receipt = await self._marks.get()
            await receipt.ordered()
            self.ordered = count
            self._moved.set()


async def _work(options: Report, stopping: asyncio.Event) -> None:
    async with triack.open(SENDER, data=options["data"], log=options["log"], insecure=options["insecure"]) as node:
        sender = Sender(options)
        if not options["insecure"]:
            await node.trust(RECEIVER, options["receiver_key"], options["address"])

        async def stopped() -> None:
            await stopping.wait()

        await first_of(sender.send(node), sender.follow(), tell_regularly(sender.progress), stopped())
        tell({**sender.progress(), "first_ns": sender.first_ns})
        await stopping.wait()


if __name__ == "__main__":
    run_child(_work)
