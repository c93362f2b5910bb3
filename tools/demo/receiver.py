"""The demo's receiving process: ``python -m triack.tools.demo.receiver OPTIONS``."""

import asyncio
import time

import triack
from triack.node.control.tasks import first_of
from triack.tools.demo.bodies import Bodies
from triack.tools.demo.child import QUEUE, RECEIVER, SENDER, Report, run_child, tell, tell_regularly


class Receiver:
    """Receives, and checks each message as the application sees it."""

    def __init__(self, options: Report) -> None:
        self._count = int(options["messages"])
        self._bodies = Bodies(options["size"], options["seed"])
        self._seen = bytearray(self._count)
        self._highest = -1
        self.delivered = 0
        self.duplicates = 0
        self.out_of_order = 0
        self.corrupt = 0
        self.last_ns = 0

    def progress(self) -> Report:
        """The results so far."""
        return {
            "delivered": self.delivered,
            "duplicates": self.duplicates,
            "out_of_order": self.out_of_order,
            "corrupt": self.corrupt,
            "last_ns": self.last_ns,
        }

    async def receive(self, node: triack.Node) -> None:
        """Receive until cancelled: a message too many would show."""
        consumer = node.receive(QUEUE)
        while True:
            for message in await consumer.get_many():
                self._take(message.body)
            if self.delivered == self._count and not self.last_ns:
                self.last_ns = time.monotonic_ns()
                tell(self.progress())

    def _take(self, body: bytes) -> None:
        index = self._highest + 1
        if index < self._count and body == self._bodies.make(index):
            self._seen[index] = 1
            self._highest = index
            self.delivered += 1
        else:
            self._take_irregular(body)

    def _take_irregular(self, body: bytes) -> None:
        index = self._bodies.index_of(body)
        if index is None or index >= self._count or body != self._bodies.make(index):
            self.corrupt += 1
        elif self._seen[index]:
            self.duplicates += 1
        else:
            self._seen[index] = 1
            self.delivered += 1
            # One that comes after a later one; the later one itself, which left a gap, is not counted as well.
            self.out_of_order += index < self._highest
            self._highest = max(self._highest, index)


async def _work(options: Report, stopping: asyncio.Event) -> None:
    receiver = Receiver(options)

    async def stopped() -> None:
        await stopping.wait()

    async with triack.open(
        RECEIVER,
        data=options["data"],
        log=options["log"],
        listen=options["listen"],
        insecure=options["insecure"],
        queues=[QUEUE],
        # The sender would bypass the relay if it knew the address.
        announce="" if options["is_behind_relay"] else None,
    ) as node:
        if options["insecure"]:
            tell({"address": node.address})
        else:
            await node.trust(SENDER, options["sender_key"], send=[QUEUE])
            tell({"address": node.address, "key": node.key})
        await first_of(receiver.receive(node), tell_regularly(receiver.progress), stopped())
    tell(receiver.progress())


if __name__ == "__main__":
    run_child(_work)
