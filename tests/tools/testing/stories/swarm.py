"""A swarm against the shell of a node: services that use the public API on machines that fail in every way.

Every station runs one node; it sends numbered messages to all others and reads what they send, in several ways at once.
Each station remembers what it has sent and seen in its own store, in the transaction that sends or receives, so that
both ends can be compared to the number in the end.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable
from contextlib import suppress
from random import Random
from typing import Any

import triack
from triack.testing import World
from triack.tools.sim.disk import DiskFaults
from triack.tools.sim.faults import SHARES

NAMES = ("a", "b", "c")
FAULTS = (
    "share", "share", "share", "slow", "delay", "cut", "clog", "heal", "heal", "crash", "lose_power", "effect", "pause",
    "resume", "clock", "start", "start", "rebind", "disk", "mend_disk",
)  # fmt: skip
DISK_SHARES = ("full", "write", "sync", "read", "short", "open", "truncate", "delete")
FAULTY_SECONDS = 10.0
QUIET_SECONDS = 120.0
GRACE_SECONDS = 12.0
"""A node closes in at most so long, its disk included."""


class Swarm:
    """One run.

    Attributes:
        violations: what must not be.
        seen: how often what was seen, for the coverage of a campaign.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = random = world.chance("swarm")
        self.violations: list[str] = []
        self.seen: Counter[str] = Counter()
        self.quiet = False
        self.is_over = False
        self.nodes: dict[str, triack.Node] = {}
        self.schemes = {name: random.choice(["udp", "udp", "tcp"]) for name in NAMES}
        self.settings = triack.NodeSettings(close_timeout_s=random.choice([0.001, 1.0, 5.0]))
        self.queued: dict[str, set[int]] = defaultdict(set)
        self.handed: dict[str, list[int]] = defaultdict(list)
        self.next: Counter[str] = Counter()
        for name in NAMES:
            world.machine(name).disk_delay = random.choice([0.0002, 0.005, 0.08])

    def address(self, name: str) -> str:
        return f"{self.schemes[name]}://127.0.0.1:{7800 + NAMES.index(name)}"

    def expect(self, holds: bool, what: str) -> None:
        """Keep what is not as it must be; what dead code finds when the world has ended is nothing."""
        if not holds and not self.is_over:
            self.violations.append(f"{self.world.now:.6f} s: {what}")

    # ---- a station

    async def station(self, name: str, random: Random) -> None:
        """Open the node, work for a while, close it, and open it again; also when its disk has failed."""
        while True:
            try:
                await self._open_and_work(name, random)
            except triack.StoreError as error:
                self.seen[type(error).__name__] += 1
                self.expect(not isinstance(error, triack.StoreInUse | triack.StoreDamaged), f"{name}: {error}")
            await asyncio.sleep(random.uniform(0.0, 1.0))

    async def _open_and_work(self, name: str, random: Random) -> None:
        node = triack.open(name, data=name, listen=self.address(name), insecure=True, settings=self.settings)
        opening = asyncio.create_task(node.start())
        if random.random() < 0.2:
            await asyncio.sleep(random.uniform(0.0, 0.1))
            if opening.cancel():
                await asyncio.wait([opening])
                self.seen["start cancelled"] += 1
                return
        await opening
        self.nodes[name] = node
        failed = asyncio.create_task(node.failed())
        work = self._work(name, node, random)
        await asyncio.wait([failed], timeout=random.uniform(0.1, 15.0))
        if self.quiet and not failed.done():
            await asyncio.wait([failed])
        if not failed.done():
            await self._close(name, node, random)
            self.seen["closed"] += 1
        # Nobody may hang at a closed or failed node.
        _, waiting = await asyncio.wait(work, timeout=1.0)
        for task in waiting:
            self.expect(False, f"{name}: {task.get_name()} still waits, node {'failed' if failed.done() else 'closed'}")
            task.cancel()
        if not failed.cancel():
            await self._close(name, node, random)
            raise await failed

    async def _close(self, name: str, node: triack.Node, random: Random) -> None:
        """Close once, or twice at a time, or impatiently and then once more."""
        closing = [asyncio.create_task(node.close()) for _ in range(random.choice([1, 1, 2]))]
        if random.random() < 0.2:
            await asyncio.sleep(random.uniform(0.0, 0.05))
            closing[0].cancel()
            closing.append(asyncio.create_task(node.close()))
        outcomes = await self._bounded(
            asyncio.gather(*closing, return_exceptions=True), GRACE_SECONDS, f"{name}: close"
        )
        for outcome in outcomes:
            self.expect(outcome is None or isinstance(outcome, asyncio.CancelledError), f"{name}: close: {outcome!r}")

    def _work(self, name: str, node: triack.Node, random: Random) -> list[asyncio.Task[None]]:
        others = [other for other in NAMES if other != name]
        work: list[Any] = [
            *(self.send_in_transactions(name, other, node, random) for other in others),
            *(self.send_plainly(name, other, node, random) for other in others),
            self.read_in_transactions(name, node, random),
            self.read_plainly(name, node, random),
            self.read_express(name, node),
            self.wait_for_ever(name, node),
        ]
        return [asyncio.create_task(self._until_closed(one), name=one.__name__) for one in work]

    async def _until_closed(self, work: Awaitable[None]) -> None:
        with suppress(triack.NodeClosed, triack.StoreFailed):
            await work

    async def _bounded(self, wait: Awaitable[Any], seconds: float, what: str) -> Any:
        start, pauses = self.world.now, self.seen["pause"]
        try:
            return await wait
        except asyncio.CancelledError:
            start = self.world.now
            raise
        finally:
            took = self.world.now - start
            self.expect(took <= seconds + 0.001 or pauses != self.seen["pause"], f"{what} took {took:.3f} s")

    # ---- sending

    async def send_in_transactions(self, name: str, to: str, node: triack.Node, random: Random) -> None:
        """Numbers remembered in the transaction that sends them; some transactions are given up."""
        for delivery in (triack.TRANSACTIONAL, triack.RECOVERABLE):
            self.seen[f"sends {delivery.label}"] += 1
        while not self.quiet:
            await asyncio.sleep(random.uniform(0.0, 0.5))
            delivery = random.choice([triack.TRANSACTIONAL, triack.RECOVERABLE])
            stream = f"{name} {to} {delivery.label}"
            transaction = node.transaction()
            number = int(node.recall(stream) or 0)
            for _ in range(random.choice([1, 3, 40])):
                body = b"%s %d" % (stream.encode(), number) + b"." * random.choice([0, 10, 5_000])
                await transaction.send(f"{self.address(to)}/tx", body, delivery=delivery)
                number += 1
            transaction.remember(stream, b"%d" % number)
            if random.random() < 0.2:
                transaction.rollback()
                continue
            receipts = await transaction.commit()
            if random.random() < 0.3:
                await self._wait(receipts[-1].stored, random)

    async def send_plainly(self, name: str, to: str, node: triack.Node, random: Random) -> None:
        """Numbers that go up; what a receipt says is kept."""
        stream = f"{name} {to}"
        while not self.quiet:
            await asyncio.sleep(random.uniform(0.0, 0.5))
            number = self.next[stream]
            self.next[stream] += 1
            body = b"%s %d" % (stream.encode(), number)
            receipt = await node.send(f"{self.address(to)}/plain", body)
            await node.send(f"{self.address(to)}/express", body, delivery=triack.EXPRESS)
            if random.random() < 0.5:
                await receipt.queued()
                self.queued[stream].add(number)
            if random.random() < 0.3:
                await self._wait(receipt.ordered, random)

    async def _wait(self, stage: Any, random: Random) -> None:
        timeout = random.choice([0.0, 0.05, 1.0, 5.0])
        try:
            await self._bounded(stage(timeout=timeout), timeout, "a receipt")
            self.seen["receipt reached"] += 1
        except triack.WaitTimeout:
            self.seen["receipt timed out"] += 1

    async def wait_for_ever(self, name: str, node: triack.Node) -> None:
        """A message to nowhere: its receipt ends with the node."""
        receipt = await node.send("udp://127.0.0.1:9/nowhere", name.encode(), delivery=triack.EXPRESS)
        await receipt.received()

    # ---- receiving

    async def read_in_transactions(self, name: str, node: triack.Node, random: Random) -> None:
        """Exactly once, as the reader's own memory says; some transactions fail."""
        while True:
            with suppress(ZeroDivisionError):
                async with node.transaction() as transaction:
                    for taken in range(random.choice([1, 1, 10])):
                        try:
                            message = await transaction.receive("tx", timeout=0.5 if taken else None)
                        except triack.WaitTimeout:
                            break
                        self._note(name, node, transaction, message)
                    if random.random() < 0.05:
                        raise ZeroDivisionError

    def _note(self, name: str, node: triack.Node, transaction: triack.Transaction, message: triack.Message) -> None:
        head = message.body.rstrip(b".").decode()
        stream, _, number = head.rpartition(" ")
        key = f"got {stream}"
        if "recoverable" in stream:
            self.expect(node.recall(f"{key} {number}") is None, f"{name} gets {head} again")
            transaction.remember(f"{key} {number}", b"")
            return
        pending: dict[str, int] = transaction.__dict__.setdefault("expected", {})
        expected = pending.get(key, int(node.recall(key) or 0))
        self.expect(int(number) == expected, f"{name} gets {head}, expected number {expected}")
        pending[key] = int(number) + 1
        transaction.remember(key, b"%d" % pending[key])

    async def read_plainly(self, name: str, node: triack.Node, random: Random) -> None:
        """In order; what comes again says so."""
        async with node.receive("plain", ack=random.choice(["auto", "manual"])) as reader:
            async for message in reader:
                stream, _, number = message.body.decode().rpartition(" ")
                handed = self.handed[stream]
                if message.redelivered and int(number) in handed:
                    self.seen["redelivered"] += 1
                else:
                    newest = max(handed, default=-1)
                    self.expect(int(number) > newest, f"{name} gets {stream} {number} after {newest}")
                    handed.append(int(number))
                if random.random() < 0.05:
                    message.reject()
                elif random.random() < 0.9:
                    message.ack()
                await asyncio.sleep(random.choice([0.0, 0.0, 0.01]))

    async def read_express(self, name: str, node: triack.Node) -> None:
        """At most once, as long as the node is open."""
        got: set[bytes] = set()
        async for message in node.receive("express"):
            self.expect(message.body not in got, f"{name} gets express {message.body.decode()} again")
            got.add(message.body)

    # ---- the world

    async def run(self) -> None:
        world = self.world
        for name in NAMES:
            world.machine(name).start(self.station, name, world.chance(f"station {name}"))
        while world.now < FAULTY_SECONDS:
            await world.advance(self.random.uniform(0.0, 3.0))
            self._break_something()
        world.calm()
        self.quiet = True
        for name in NAMES:
            machine = world.machine(name)
            machine.resume()
            machine.mend_disk()
            if machine.is_up:
                machine.crash_after(None)
            else:
                machine.restart()
        await world.advance(2)
        end = world.now + QUIET_SECONDS
        while not self._is_complete() and world.now < end:
            await world.advance(0.5)
        self.expect(self._is_complete(), f"not everything arrived within {QUIET_SECONDS:g} s after the last fault")
        for stream, numbers in self.queued.items():
            lost = sorted(numbers - set(self.handed[stream]))
            self.expect(not lost, f"queued, and never handed out: {stream} {lost[:5]}")
        self.is_over = True

    def _break_something(self) -> None:
        world, random = self.world, self.random
        machine = world.machine(random.choice(NAMES))
        what = random.choice(FAULTS)
        self.seen[what] += 1
        share = random.choice([0.0, 0.05, 0.3, 0.5])
        other = random.choice([name for name in NAMES if name != machine.name])
        match what:
            case "share":
                setattr(world.faults, random.choice(SHARES), share)
            case "slow":
                world.faults.rate_bps, world.faults.queue_bytes = random.choice([0, 64_000, 500_000]), 6_000
            case "delay":
                world.set_delay(random.choice([0.0001, 0.005, 0.1]), jitter=random.choice([0, 0.01]))
            case "cut" | "clog":
                getattr(world, what)(machine, other, one_way=random.random() < 0.5)
            case "heal":
                world.heal()
            case "clock":
                machine.jump_clock(random.choice([-3600, -1, 1, 3600]))
            case _ if not machine.is_up:
                machine.restart()
            case "effect":
                machine.crash_after(random.randrange(100), power=random.random() < 0.5)
            case "disk":
                share = random.choice([0.001, 0.02, 1.0])
                machine.disk.faults = DiskFaults()
                setattr(machine.disk.faults, random.choice(DISK_SHARES), share)
            case "crash" | "lose_power" | "pause" | "resume" | "rebind" | "mend_disk":
                getattr(machine, what)()

    def _is_complete(self) -> bool:
        """Whether each station got all that was sent to it, as both ends remember it."""
        return len(self.nodes) == len(NAMES) and all(
            self._has_all(one, other) for one in NAMES for other in NAMES if one != other
        )

    def _has_all(self, one: str, other: str) -> bool:
        sender, receiver = self.nodes[one], self.nodes[other]
        ordered = f"{one} {other} transactional"
        if int(sender.recall(ordered) or 0) != int(receiver.recall(f"got {ordered}") or 0):
            return False
        stream = f"{one} {other} recoverable"
        count = int(sender.recall(stream) or 0)
        if any(receiver.recall(f"got {stream} {number}") is None for number in range(count)):
            return False
        return self.queued[f"{one} {other}"] <= set(self.handed[f"{one} {other}"])
