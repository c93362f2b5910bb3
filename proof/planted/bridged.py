"""Bridges in simulated worlds, between a node and a broker that both die, and mistakes of bridges."""

import asyncio
from random import Random
from typing import Any

import triack
from proof.planted.brokers import AmqpBroker, Broker, MqttBroker
from proof.planted.bug import Bugs, Patch
from proof.planted.stories import Story
from triack.bridges import Bridge, BridgeTable, mqtt
from triack.bridges.giving import Giving, Run
from triack.bridges.taking import Taking
from triack.testing import PromiseBroken, World

BUGS = Bugs()
SEEDS = 12
"""Of the story: each protocol, and each quality of service, a few times."""
MESSAGES = 60
IN_FLIGHT = 20


async def _gate(table: BridgeTable) -> None:
    async with triack.open("gate", data="gate") as node:
        await Bridge(node, table).run()


def run_bridge(seed: int) -> dict[str, bytes]:
    """Let messages pass a bridge, from a broker to a queue and back to it.

    Returns the session logs of the node, by name. Raises PromiseBroken if a log shows a broken promise, or a message is
    lost or, at QoS 2, repeated.
    """
    random = Random(seed)
    qos = (0, 1, 2)[seed % 3]
    rules: dict[str, Any] = {
        "take": ["in -> through"],
        "give": ["through -> out" if qos else "through -> /out"],
        "in_flight": IN_FLIGHT,
    }
    broker: Broker
    if qos:
        key = "{payload}" if random.random() < 0.5 else ""  # noqa: PLR2004 - every other
        broker = MqttBroker(random, qos, IN_FLIGHT)
        table = BridgeTable("b", "mqtt://broker", qos=qos, key=key if qos == 1 else "", **rules)
    else:
        broker = AmqpBroker(random)
        table = BridgeTable("b", amqp="amqp://broker", **rules)
    with broker.patched(), World(seed) as world:
        try:
            world.run(_pass(world, broker, table, random))
        finally:
            world.check()  # a lost message is awaited in vain, and what lost it is in the logs
        logs = {log.name: bytes(log.records) for log in world.logs}
    payloads = [b"%d" % number for number in range(MESSAGES)]
    if qos > 1 and broker.out != payloads:
        raise PromiseBroken(f"seed {seed}: the broker has {broker.out}, and each is to be there once, in order")
    return logs


async def _pass(world: World, broker: Broker, table: BridgeTable, random: Random) -> None:
    machine = world.machine("gate")
    machine.start(_gate, table)
    for number in range(MESSAGES):
        broker.put(b"%d" % number)
        match random.randrange(12):
            case 0:
                broker.drop()
            case 1:
                broker.is_up = False
                broker.drop()
            case 2:
                machine.crash_after(random.randrange(20), power=random.random() < 0.5)  # noqa: PLR2004 - every other
            case 3:
                broker.is_up = True
        await world.advance(random.random() * 0.1)
        if not machine.is_up:
            broker.drop()
            machine.restart()
    broker.is_up = True
    machine.crash_after(None)
    everything = {b"%d" % number for number in range(MESSAGES)}
    await world.until(lambda: broker.is_empty and set(broker.out) >= everything, 300)
    await world.advance(5)
    await machine.stop()


def _story() -> str:
    for seed in range(SEEDS):
        try:
            run_bridge(seed)
        except triack.TriackError as error:
            return f"seed {seed}: {error}"
    return ""


BRIDGES = Story("bridges whose brokers die", _story)


@BUGS.by_search("a bridge acknowledges before the disk has the messages", BRIDGES, "neither queued nor known")
def _acked_early(patch: Patch) -> None:
    async def run(self: Taking[Any]) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while batch := self._next_batch():
                await self._tell_broker(batch)
                await self._until_done(lambda: self._commit(batch))

    patch.setattr(Taking, "run", run)


@BUGS.by_search("a bridge commits before the broker has answered", BRIDGES, "the broker had not acknowledged")
def _let_go_early(patch: Patch) -> None:
    async def pass_on(self: Any, tx: Any, rule: Any, messages: list[Any], in_order: asyncio.Lock) -> None:
        run = Run()
        await self._publish(run, [(it, self._plan(rule, it)) for it in messages])
        in_order.release()
        await self._commit(tx, run)
        while run.left:
            await self._next_answer()

    patch.setattr(Giving, "_pass_on", pass_on)


@BUGS.by_search("a bridge forgets the packet ids of QoS 2", BRIDGES, "each is to be there once", mqtt, "_is_new")
def _forgets_ids(_right: Any, it: Any, held: set[int]) -> bool:
    held |= set() if it.released else {it.packet_id}
    return not it.released
