"""An auditor adds a replay up against his own count of the messages that were accepted."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import triack
from tests.tools.replay.report.test_page_tables import assert_adds_up, tables
from triack.testing import World
from triack.tools.replay.log.schema import Timeline, Verdict, reader_account
from triack.tools.replay.run import replay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

B = "udp://127.0.0.1:7802"
READ = ("orders", "stock", "ticks", "films")
QUEUES = (*READ, "brief", "small", "late", "twice", "given-up", "parked", "elsewhere")
SETTINGS = triack.NodeSettings(
    large=triack.LargeBodies(from_bytes=2_000, part_bytes=256),
    limits=triack.Limits(queue_quota={"small": triack.Quota(messages=5, when_full="reject")}),
)
EXPRESS, RECOVERABLE = triack.Delivery.EXPRESS, triack.Delivery.RECOVERABLE


@dataclass
class Books:
    """What the auditor counts himself.

    Attributes:
        sent: by queue the messages that a node has accepted: from applications, and when one was moved or requeued.
        dead: by destination the dead letters that the sender's node has had.
        nodes: the nodes that run, by name.
    """

    sent: Counter[str] = field(default_factory=Counter)
    dead: Counter[str] = field(default_factory=Counter)
    nodes: dict[str, triack.Node] = field(default_factory=dict)

    async def send(self, queue: str, count: int, **how: Any) -> None:
        """Send messages, and count those that the node accepted for good."""
        receipts = [await self.nodes["a"].send(f"{B}/{queue}", b"%d" % number, **how) for number in range(count)]
        for receipt in receipts:
            await receipt.queued()
            self.sent[queue] += 1

    async def look_at_the_dead(self) -> None:
        """Count the dead letters, and send again those whose time was over and that did not arrive."""
        async for letter in self.nodes["a"].browse("dead-letter"):
            self.dead[str(letter.destination).rpartition("/")[2]] += 1
        expired = [it async for it in self.nodes["a"].browse("dead-letter") if it.destination == f"{B}/late"]
        self.sent["late"] += await self.nodes["a"].requeue([it.id for it in expired], maybe_delivered=True)


async def sender(books: Books) -> None:
    async with triack.open("a", data="a", insecure=True, settings=SETTINGS) as node:
        books.nodes["a"] = node
        raise await node.failed()


async def destination(books: Books) -> None:
    async with triack.open("b", data="b", listen=B, insecure=True, settings=SETTINGS, queues=QUEUES) as node:
        books.nodes["b"] = node
        async with asyncio.TaskGroup() as group:
            for queue in READ:
                group.create_task(read(node, queue))


async def read(node: triack.Node, queue: str) -> None:
    async for _ in node.receive(queue):
        pass


async def start(world: World, books: Books, name: str) -> None:
    books.nodes.pop(name, None)
    machine = world.machine(name)
    if machine.is_up and not machine.works:
        machine.start({"a": sender, "b": destination}[name], books)
    else:
        machine.restart()
    await world.until(lambda: name in books.nodes)


async def trade(world: World, books: Books) -> None:
    """Everything that may become of a message, apart from a relay."""
    await start(world, books, "b")
    await start(world, books, "a")
    world.set_loss(0.2)
    world.set_duplicate(0.1)
    await books.send("orders", 60)
    await books.send("stock", 30, delivery=RECOVERABLE, priority=5)
    await books.send("stock", 10, delivery=RECOVERABLE)
    await books.send("ticks", 20, delivery=EXPRESS)
    await books.send("small", 5)
    await books.nodes["a"].drain()
    await books.send("small", 7)
    await books.send("nowhere", 4)
    await books.send("parked", 6)
    await books.send("brief", 2, time_to_be_received=20)
    for _ in range(3):
        await books.nodes["a"].send_stream(f"{B}/films", bytes(5_000))
        books.sent["films"] += 1
    await books.nodes["a"].drain()
    # They arrive, and no acknowledgement of it.
    world.cut("b", "a", one_way=True)
    await books.send("twice", 5, time_to_reach_queue=2)
    await world.advance(4)
    world.cut("a")
    await books.send("late", 8, time_to_reach_queue=1)
    await books.send("given-up", 7)
    await world.advance(3)
    await books.nodes["a"].purge(f"{B}/given-up")
    # Express messages die with the process; what is queued is there again.
    await books.send("ticks", 9, delivery=EXPRESS)
    await books.send("orders", 5)
    await books.send("stock", 3, delivery=RECOVERABLE)
    await world.advance(1)
    await start(world, books, "a")
    world.heal()
    await start(world, books, "b")
    await books.look_at_the_dead()
    books.sent["elsewhere"] += await books.nodes["b"].move("parked", "elsewhere")
    await books.nodes["b"].purge("small")
    await books.nodes["a"].drain()
    world.cut("a")
    await books.send("orders", 4)
    await world.advance(30)


def logs_of(seed: int, folder: Path) -> Books:
    books = Books()
    with World(seed) as world:
        world.run(trade(world, books))
        world.write_logs(folder)
    return books


def audit(verdict: Verdict, books: Books) -> None:
    assert_adds_up(verdict)
    assert (verdict.verdict, verdict.lost, verdict.unqueued) == ("pass", 0, 0)
    rows = {queue: Counter[str]() for queue in books.sent}
    for row in tables(verdict)["queues"].rows:
        if row["sent"]:
            rows[row["queue"]].update({name: value for name, value in row.items() if isinstance(value, int)})
    assert {queue: row["sent"] for queue, row in rows.items()} == dict(books.sent)
    assert verdict.sent == books.sent.total()
    given_up = {queue: row["dead"] + row["purged"] for queue, row in rows.items() if row["dead"] + row["purged"]}
    assert given_up == dict(books.dead)
    assert (rows["small"]["delivered"], rows["small"]["dead"], rows["nowhere"]["dead"]) == (5, 7, 4)
    assert (rows["twice"]["delivered"], rows["twice"]["dead"], rows["twice"]["dead_delivered"]) == (5, 5, 5)
    assert (rows["late"]["delivered"], rows["late"]["dead"], rows["given-up"]["purged"]) == (8, 8, 7)
    assert (rows["orders"]["pending"], rows["films"]["delivered"], rows["ticks"]["unkept"]) == (4, 3, 9)
    assert (rows["small"]["taken_out"], rows["parked"]["taken_out"], rows["brief"]["expired_there"]) == (5, 6, 2)
    assert (verdict.pending, verdict.unkept, verdict.dead_delivered) == (4, 9, 5)
    assert verdict.dead == {"expired": 13, "queue-full": 7, "queue-not-found": 4}


@pytest.mark.parametrize("seed", range(3))
def test_an_auditor_adds_the_page_up_against_his_own_count(tmp_path: Path, seed: int) -> None:
    books = logs_of(seed, tmp_path)
    verdict = replay(tmp_path, engine="local")
    audit(verdict, books)
    assert str(verdict) == (
        "202 sent = 163 delivered + 4 pending + 24 dead (13 expired, 7 queue-full, 4 queue-not-found) + 7 purged"
        " + 9 express that wait in memory or were lost with it - 5 that are dead and delivered"
    )


@pytest.mark.spark
def test_spark_and_its_tables_have_the_same_rows(spark: "SparkSession", tmp_path: Path) -> None:
    """The other engine, its second count, and the tables, by queue and by reason."""
    from triack.replay import load
    from triack.replay import tables as tables_of

    books = logs_of(0, tmp_path)
    verdict = replay(tmp_path, engine="spark")
    audit(verdict, books)
    assert (verdict.differences, verdict.counted["sent"]) == ([], 202)
    made = tables_of(load(spark, str(tmp_path)).cache())
    names = ["sent", "unqueued", "delivered", "pending", "dead", "purged", "dead_delivered", "unkept", "lost"]
    (sums,) = made["queues"].where("not system").groupBy().sum(*names).collect()
    assert dict(zip(names, sums, strict=True)) == {
        name: verdict.dead_sum if name == "dead" else getattr(verdict, name) for name in names
    }
    by_queue = made["queues"].where("not system").groupBy("queue").sum("sent").collect()
    assert {row["queue"]: row["sum(sent)"] for row in by_queue} == dict(books.sent)
    dead = {(row.queue, row.reason): row.messages for row in made["dead"].collect()}
    assert dead == {(row["queue"], row["reason"]): row["messages"] for row in tables(verdict)["dead"].rows}
    assert dead["twice", "expired"] == 5


async def reporter(done: asyncio.Event) -> None:
    """Ten messages for two subscriptions, of which three expire: one is read in part, the other ends before its end."""
    async with triack.open("hub", data="hub", insecure=True) as node:
        async with node.subscribe("Games.#", durable="audit"):
            pass
        async with node.subscribe("Games.#", delivery=EXPRESS, max_unacked=5) as brief:
            for _ in range(3):
                await node.publish("Games.Cricket", b"old", time_to_be_received=1)
            for _ in range(7):
                await node.publish("Games.Cricket", b"new")
            await asyncio.sleep(5)
            for _ in range(4):
                await brief.get()
        async with node.subscribe("Games.#", durable="audit") as audit:
            for _ in range(5):
                await audit.get()
        await node.flush()
        done.set()
        raise await node.failed()


def test_the_messages_of_a_subscription_add_up(tmp_path: Path) -> None:
    """Done with are more than were handed out, where some have expired; what nobody took before its end is gone."""
    with World(1) as world:
        done = asyncio.Event()
        world.machine("hub").start(reporter, done)
        world.run(done.wait())
        world.write_logs(tmp_path)
    verdict = replay(tmp_path, engine="local")
    said = {name[2]: reader_account(counts) for name, counts in (verdict.timeline or Timeline()).readers.items()}
    assert said == {
        "audit": "10 given = 8 settled (3 expired) + 2 pending; 5 handed out",
        "$1": "8 given = 7 settled (3 expired) + 1 gone; 4 handed out",
    }
    assert_adds_up(verdict)
    (row,) = [row for row in tables(verdict)["queues"].rows if row["queue"] == "topic:Games"]
    assert (row["sent"], row["delivered"]) == (10, 10)
