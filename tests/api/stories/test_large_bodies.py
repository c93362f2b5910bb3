"""Bodies of any size, between machines that fail: a reader gets the whole message once, or nothing of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from random import Random

import pytest

import triack
from triack.base.commit import Read, key_of
from triack.node.handles.streaming import Upload
from triack.node.node import port_of
from triack.queues.mailboxes import large_bodies
from triack.testing import World

B = "udp://127.0.0.1:7801"
BODY = Random(1).randbytes(120_000)
OTHER = Random(2).randbytes(150_000)
PARTS = triack.LargeBodies(from_bytes=1_000, part_bytes=10_000, ahead_bytes=30_000)


def settings(**more: object) -> triack.NodeSettings:
    return triack.NodeSettings(large=PARTS, **more)  # type: ignore[arg-type]


class Ends:
    """A machine that receives and one that sends, with a node each."""

    def __init__(self, world: World, receiving: triack.NodeSettings | None = None) -> None:
        self.world = world
        self.receiving = receiving or settings()
        self.a, self.b = world.machine("a"), world.machine("b")
        self.sender: triack.Node
        self.receiver: triack.Node

    async def _serve(self, name: str) -> None:
        if name == "b":
            node = triack.open("b", data="data", listen=B, log="log", settings=self.receiving)
        else:
            node = triack.open("a", data="data", peers={"b": B}, log="log", settings=settings())
        async with node:
            setattr(self, "receiver" if name == "b" else "sender", node)
            await asyncio.Event().wait()

    async def start(self, *names: str) -> None:
        for name in names or ("b", "a"):
            machine = self.world.machine(name)
            node = "receiver" if name == "b" else "sender"
            before = getattr(self, node, None)
            if machine.is_up:
                machine.start(self._serve, name)
            else:
                machine.restart()  # with its services
            await self.world.until(partial(self._is_new, node, before))

    def _is_new(self, which: str, before: triack.Node | None) -> bool:
        node = getattr(self, which, None)
        return node is not None and node is not before and "open" in repr(node)

    async def lose_power(self, name: str) -> None:
        self.world.machine(name).lose_power()
        await self.world.advance(1)
        await self.start(name)

    async def begin(self) -> "asyncio.Task[triack.Receipt]":
        """A large message has begun to arrive."""
        sending = asyncio.create_task(self.sender.send_stream("b/q", pieces(BODY, wait_s=1), content_length=len(BODY)))
        await self.world.until(lambda: self.coming)
        return sending

    @property
    def coming(self) -> int:
        """Bytes of bodies that no message stands for yet."""
        return port_of(self.receiver).engine.queues.bodies.held.total_bytes

    @property
    def bodies(self) -> int:
        return len(port_of(self.receiver).engine.queues.bodies.by_id)


async def read(node: triack.Node, queue: str = "q", *, ack: bool = True) -> bytes:
    async with node.receive(queue, ack="manual") as reader:
        message = await reader.get()
        body = b"".join([chunk async for chunk in message.stream()])
        if ack:
            message.ack()
    await node.flush()
    return body


async def pieces(body: bytes, *, fails_at: int | None = None, wait_s: float = 0.0) -> AsyncIterator[bytes]:
    for at in range(0, len(body), 7_000):
        if fails_at is not None and at >= fails_at:
            raise OSError("the source is gone")
        yield body[at : at + 7_000]
        await asyncio.sleep(wait_s)


@pytest.fixture
def ends(triack_world: World) -> Ends:
    return Ends(triack_world)


@pytest.mark.gate
async def test_a_large_body_is_one_message(ends: Ends) -> None:
    await ends.start()
    ends.world.set_loss(0.1)
    receipt = await ends.sender.send_stream("b/q", BODY, label="film")
    await receipt.ordered()
    assert ends.receiver.queue_lengths()["q"] == 1
    assert ends.receiver.stats().queues["q"].bytes > len(BODY)
    async with ends.receiver.receive("q", ack="manual") as reader:
        message = await reader.get()
        assert (message.id, message.label, message.size, message.is_large) == (receipt.id, "film", len(BODY), True)
        assert b"".join([chunk async for chunk in message.stream()]) == BODY
        with pytest.raises(triack.LargeBody, match=r"message\.stream"):
            _ = message.body
        message.ack()
        await ends.receiver.flush()
        with pytest.raises(triack.BodyLost):
            await anext(message.stream())
    assert ends.bodies == ends.receiver.stats().queues["q"].bytes == 0


@pytest.mark.gate
async def test_order_holds_between_large_and_small_messages(ends: Ends) -> None:
    """What is sent after a large message comes after it; what is sent meanwhile does not wait for it."""
    await ends.start()
    await ends.sender.send("b/q", b"first")
    sending = asyncio.create_task(ends.sender.send_stream("b/q", pieces(BODY, wait_s=1), content_length=len(BODY)))
    await ends.world.advance(5)
    await ends.sender.send("b/q", b"meanwhile")
    await ends.world.until(lambda: ends.receiver.queue_lengths().get("q") == 2, timeout=1)
    await sending
    await ends.sender.send_stream("b/q", OTHER)
    await ends.sender.send("b/q", b"last")
    assert [await read(ends.receiver) for _ in range(5)] == [b"first", b"meanwhile", BODY, OTHER, b"last"]


async def test_bodies_of_a_list_with_a_large_message_are_read_one_by_one(ends: Ends) -> None:
    """A list says so by name when it is asked for all bodies at once; its messages are at hand nevertheless."""
    await ends.start()
    await ends.sender.send("b/q", b"small")
    await ends.sender.send_stream("b/q", BODY)
    await ends.world.until(lambda: ends.receiver.queue_lengths().get("q") == 2, timeout=5)
    async with ends.receiver.receive("q") as reader:
        batch = await reader.get_many()
        with pytest.raises(triack.LargeBody, match=r"message\.stream"):
            _ = batch.bodies
        assert [message.is_large for message in batch] == [False, True]
        assert b"".join([chunk async for chunk in batch[1].stream()]) == BODY


@pytest.mark.parametrize("content_length", [len(BODY), None])
async def test_a_source_that_fails_leaves_nothing(ends: Ends, content_length: int | None) -> None:
    await ends.start()
    with pytest.raises(OSError, match="the source is gone"):
        await ends.sender.send_stream("b/q", pieces(BODY, fails_at=70_000), content_length=content_length)
    with pytest.raises(triack.UsageError, match="98000 of the 120000 bytes"):
        await ends.sender.send_stream("b/q", pieces(BODY[:98_000]), content_length=len(BODY))
    with pytest.raises(triack.UsageError, match="more than the 2000 bytes"):
        await ends.sender.send_stream("b/q", pieces(BODY), content_length=2_000)
    await ends.sender.send("b/q", b"next")
    assert await read(ends.receiver) == b"next"
    await ends.world.until(lambda: ends.bodies == ends.coming == 0)
    assert ends.receiver.queue_lengths() == {"dead-letter": 0, "q": 0}
    assert ends.sender.queue_lengths() == {"dead-letter": 0}


@pytest.mark.parametrize("how", ["crash", "lose_power"])
async def test_a_sender_that_dies_leaves_nothing(ends: Ends, how: str) -> None:
    """Its next process gives the body up; another body goes on."""
    await ends.start()
    sending = await ends.begin()
    await ends.world.advance(5)
    getattr(ends.a, how)()
    await ends.world.advance(5)
    assert ends.coming
    assert not sending.done()
    sending.cancel()
    await ends.start("a")
    await ends.world.until(lambda: not ends.bodies)
    await ends.sender.send_stream("b/q", OTHER)
    assert await read(ends.receiver) == OTHER
    assert not ends.coming
    assert ends.receiver.queue_lengths()["q"] == 0


@pytest.mark.gate
async def test_a_destination_that_dies_gets_the_rest(ends: Ends) -> None:
    await ends.start()
    sending = await ends.begin()
    for _ in range(3):
        await ends.world.advance(4)
        await ends.lose_power("b")
    await sending
    assert await read(ends.receiver, ack=False) == BODY
    await ends.lose_power("b")
    assert await read(ends.receiver) == BODY
    await ends.lose_power("b")
    assert ends.bodies == ends.coming == 0
    assert ends.receiver.queue_lengths()["q"] == 0
    assert not port_of(ends.receiver).engine.queues.bodies.deletes_any


@pytest.mark.gate
async def test_a_reader_that_stops_half_way_begins_anew(ends: Ends) -> None:
    await ends.start()
    await ends.sender.send_stream("b/q", BODY)
    async with ends.receiver.receive("q", ack="manual") as reader:
        message = await reader.get()
        assert BODY.startswith(await anext(message.stream()))
        message.reject(failed=False)
        again = await reader.get()
        assert again.redelivered
        assert b"".join([chunk async for chunk in again.stream()]) == BODY
    assert await read(ends.receiver) == BODY


@pytest.mark.gate
async def test_two_bodies_and_room_for_one(triack_world: World) -> None:
    """The second one waits until the first was read; a small message between them goes in."""
    quota = triack.Quota(size_bytes=200_000)
    ends = Ends(triack_world, settings(limits=triack.Limits(quota=quota)))
    await ends.start()
    first = await ends.begin()
    second = asyncio.create_task(ends.sender.send_stream("b/q", OTHER))
    other = asyncio.create_task(ends.sender.send_stream("b/q", OTHER, delivery=triack.RECOVERABLE))
    await ends.sender.send("b/q", b"small")
    await first
    await ends.world.advance(60)
    assert not second.done()
    assert not other.done()
    assert any(it.state == "held" for it in ends.sender.stats().outgoing)
    assert {await read(ends.receiver) for _ in range(4)} == {b"small", BODY, OTHER}
    await asyncio.gather(second, other)
    assert ends.bodies == ends.coming == ends.receiver.queue_lengths()["q"] == 0


async def test_a_body_larger_than_its_queue_is_refused(triack_world: World) -> None:
    quotas = {"q": triack.Quota(size_bytes=100_000), "strict": triack.Quota(size_bytes=130_000, when_full="reject")}
    ends = Ends(triack_world, settings(limits=triack.Limits(queue_quota=quotas)))
    await ends.start()
    for sender, queue in ((ends.sender, "b/q"), (ends.receiver, "q")):
        with pytest.raises(triack.TriackError, match=r"too-large|larger than all"):
            await sender.send_stream(queue, BODY)
    await ends.sender.send_stream("b/strict", BODY)
    with pytest.raises(triack.DeliveryFailed, match="queue-full"):
        await ends.sender.send_stream("b/strict", BODY)
    with pytest.raises(triack.QueueFull):
        await ends.receiver.send_stream("strict", BODY)
    assert await read(ends.receiver, "strict") == BODY
    assert ends.sender.queue_lengths() == {"dead-letter": 0}


async def test_time_that_runs_out_in_the_middle(ends: Ends) -> None:
    await ends.start()
    with pytest.raises(triack.DeliveryFailed, match="reach-queue-timeout"):
        await ends.sender.send_stream("b/q", pieces(BODY, wait_s=1), content_length=len(BODY), time_to_reach_queue=5)
    await ends.world.until(lambda: ends.bodies == 0)
    ends.world.cut("a", "b")
    with pytest.raises(triack.DeliveryFailed, match="reach-queue-timeout"):
        await ends.sender.send_stream("b/q", BODY, time_to_reach_queue=5)
    ends.world.heal()
    await ends.sender.send("b/q", b"next")
    assert await read(ends.receiver) == b"next"
    await ends.world.until(lambda: ends.bodies == ends.coming == 0)


@pytest.mark.gate
@pytest.mark.parametrize("letters", [True, "letters"])
async def test_a_message_that_dies_on_its_way_frees_its_body(ends: Ends, letters: bool | str) -> None:
    """Its dead letter says how large it was, and why it is there, in a queue that its sender has chosen, too."""
    await ends.start()
    queue = letters if isinstance(letters, str) else "dead-letter"
    tx = ends.sender.transaction()
    await tx.send_stream("b/q", BODY, time_to_reach_queue=60, dead_letter=letters)
    assert ends.coming == len(BODY)
    ends.world.cut("a", "b")
    await tx.commit()
    await ends.world.until(lambda: ends.sender.queue_lengths().get(queue) == 1, timeout=120)
    ends.world.heal()
    await ends.world.until(lambda: ends.bodies == ends.coming == 0)
    async with ends.sender.receive(queue) as reader:
        letter = await reader.get()
        assert (letter.size, letter.properties["dead_reason"]) == (len(BODY), "reach-queue-timeout")
        with pytest.raises(triack.BodyLost):
            await anext(letter.stream())


@pytest.mark.gate
async def test_a_dead_letter_at_the_destination_has_the_body(ends: Ends) -> None:
    await ends.start()
    await ends.sender.send_stream("b/q", BODY, time_to_be_received=20)
    await ends.sender.send_stream("b/q", OTHER)
    await ends.world.until(lambda: ends.receiver.queue_lengths()["dead-letter"] == 1)
    async with ends.receiver.receive("q", ack="manual") as reader:
        (await reader.get()).reject(dead=True)
    await ends.receiver.flush()
    await ends.lose_power("b")
    assert ends.receiver.stats().queues["q"].bytes == 0
    assert ends.receiver.stats().queues["dead-letter"].bytes > len(BODY) + len(OTHER)
    assert [await read(ends.receiver, "dead-letter") for _ in range(2)] == [BODY, OTHER]
    assert ends.bodies == 0


@pytest.mark.gate
async def test_dead_letters_are_browsed_moved_and_sent_again(ends: Ends) -> None:
    """A look at them shows sizes, not bodies. A body is sent once more, to a queue of this node or another one."""
    await ends.start()
    receipt = await ends.sender.send_stream("b/q", BODY, label="film")
    async with ends.receiver.receive("q", ack="manual") as reader:
        (await reader.get()).reject(dead=True)
    await ends.receiver.flush()
    (letter,) = [it async for it in ends.receiver.browse("dead-letter")]
    assert (letter.id, letter.size, letter.large_bytes, letter.body) == (receipt.id, len(BODY), len(BODY), b"")
    assert await ends.receiver.requeue() == 1
    assert ends.receiver.queue_lengths() == {"dead-letter": 0, "q": 1}
    assert await ends.receiver.move("q", "other") == 1
    assert await read(ends.receiver, "other") == BODY
    assert ends.bodies == ends.coming == 0


@pytest.mark.gate
async def test_a_purge_in_the_middle_leaves_what_is_coming(ends: Ends) -> None:
    await ends.start()
    await (await ends.sender.send_stream("b/q", OTHER)).ordered()
    sending = await ends.begin()
    assert await ends.receiver.purge("q") == 1
    assert ends.bodies == 1
    await sending
    assert await read(ends.receiver) == BODY


async def test_what_cannot_be_large_is_refused_by_name(ends: Ends) -> None:
    await ends.start()
    sender = ends.sender
    with pytest.raises(triack.UsageError, match="express"):
        await sender.send_stream("b/q", BODY, delivery=triack.EXPRESS)
    with pytest.raises(triack.UsageError, match="not to topics"):
        await sender.send_stream("b/topic:Games", BODY)
    with pytest.raises(triack.UsageError, match="no key"):
        await sender.send_stream("b/q", BODY, key="k")
    with pytest.raises(triack.AddressError, match="longer name"):
        await sender.send_stream(f"b/{'q' * 120}", BODY)


async def send_bodies(ends: Ends, sizes: list[int], sent: list[int]) -> None:
    """Send bodies, one after the other, in a service that begins anew with its machine; the number is in each."""
    async with triack.open("a", data="data", peers={"b": B}, log="log", settings=settings()) as node:
        ends.sender = node
        for number in range(int(node.recall("sent") or 0), len(sizes)):
            body = number.to_bytes(2) * (sizes[number] // 2)
            async with node.transaction() as tx:
                await tx.send_stream("b/q", pieces(body, wait_s=0.05), content_length=len(body))
                await tx.send("b/q", b"%d" % number)
                tx.remember("sent", b"%d" % (number + 1))
            sent.append(number)
        await asyncio.Event().wait()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_bodies_survive_a_swarm_of_faults(seed: int) -> None:
    """Both ends die in the middle, with and without power, over a bad network: each body is read once, whole."""
    with World(seed, max_events=2_000_000) as world:
        world.run(swarm(world))
        world.check()


async def swarm(world: World) -> None:
    chance, ends, sent = world.chance("large"), Ends(world), list[int]()
    sizes = [chance.randrange(2_000, 160_000) for _ in range(12)]
    world.set_loss(chance.choice([0.0, 0.05, 0.2]))
    world.set_reorder(chance.choice([0.0, 0.3]))
    await ends.start("b")
    ends.a.start(send_bodies, ends, sizes, sent)
    for _ in range(chance.randrange(2, 12)):
        await world.advance(chance.random() * 3)
        machine = chance.choice([ends.a, ends.b])
        if chance.random() < 0.3:
            world.cut("a", "b")
            await world.advance(chance.random() * 5)
            world.heal()
        elif chance.random() < 0.5:
            machine.crash()
        else:
            machine.lose_power()
        if not ends.b.is_up and hasattr(ends, "receiver"):
            del ends.receiver  # it is the node of a process that is gone, and looks open for good
        await world.advance(chance.random() * 3)
        if not machine.is_up:
            machine.restart()
    world.calm()
    await world.until(lambda: len(set(sent)) and max(sent) == len(sizes) - 1, timeout=600)
    await world.until(lambda: hasattr(ends, "receiver") and ends.receiver.queue_lengths()["q"] == 2 * len(sizes))
    for number, size in enumerate(sizes):
        assert await read(ends.receiver) == number.to_bytes(2) * (size // 2)
        assert await read(ends.receiver) == b"%d" % number
    await world.until(lambda: ends.bodies == ends.coming == 0)
    assert ends.receiver.queue_lengths() == {"dead-letter": 0, "q": 0}


@asynccontextmanager
async def by_a_relay(world: World) -> AsyncIterator[tuple[triack.Node, triack.Node]]:
    """A node that sends, and the one that gets what it sends by way of a third."""
    at_relay = "udp://127.0.0.1:7803"
    with world.machine("r"):
        relay = triack.open("r", data="r", listen=at_relay, peers={"b": B}, log="log")
    with world.machine("b"):
        there = triack.open("b", data="b", listen=B, log="log", settings=settings())
    with world.machine("a"):
        ways = [triack.Route("b", "r")]
        here = triack.open("a", data="a", peers={"r": at_relay}, routes=ways, log="log", settings=settings())
    async with relay, there, here:
        await relay.trust("a", here.key, may_relay=["b"])
        await there.trust("r", relay.key, relays_for=["a"])
        yield here, there


@pytest.mark.gate
async def test_a_body_goes_by_a_relay(triack_world: World) -> None:
    """Part by part, when the disk of its destination has room; as one message that only a transaction can be."""
    machine = triack_world.machine("b")
    machine.disk.free_bytes = triack.Limits().disk_reserve_bytes + 1_000
    async with by_a_relay(triack_world) as (here, there):
        triack_world.set_loss(0.1)
        sending = asyncio.create_task(here.send_stream("b/q", BODY))
        await triack_world.until(lambda: [it.reason for it in there.stats().holds] == ["no-room-for-body"])
        await (await here.send("b/q", b"small")).ordered(timeout=60)
        machine.disk.free_bytes = 2**40
        await sending
        assert [await read(there) for _ in range(2)] == [b"small", BODY]
        with pytest.raises(triack.UsageError, match="by way of a relay"):
            await here.send_stream("b/q", BODY, delivery=triack.RECOVERABLE)


@pytest.mark.gate
async def test_permissions_are_those_of_the_queue(ends: Ends) -> None:
    """A peer that may send to a queue may send large messages there, and to no other."""
    await ends.start()
    await ends.receiver.trust("a", ends.sender.key, send=["q"])
    await ends.sender.send_stream("b/q", BODY)
    assert await read(ends.receiver) == BODY
    with pytest.raises(triack.DeliveryFailed, match="access-denied"):
        await ends.sender.send_stream("b/other", BODY)
    for name in ("$large.q", "$large.dead-letter"):
        await ends.sender.send(f"b/{name}", b"by hand, which makes no body")
    await ends.world.advance(5)
    assert ends.bodies == ends.coming == 0


async def test_a_sender_that_does_not_wait_for_its_parts_makes_a_dead_letter(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planted bug: no reader gets a torn body, whatever a sender does."""

    async def hasty(_upload: Upload, _ahead_bytes: int) -> None:
        ends.world.set_loss(0.5)

    await ends.start()
    monkeypatch.setattr(Upload, "_settle", hasty)
    await ends.sender.send_stream("b/q", BODY)
    await ends.sender.send("b/q", b"next")
    assert await read(ends.receiver) == b"next"
    (letter,) = [it async for it in ends.receiver.browse("dead-letter")]
    assert (letter.reason, letter.size) == ("body-lost", len(BODY))


@pytest.mark.gate
@pytest.mark.parametrize("name", ["a", "b"])
async def test_a_disk_that_is_full_in_the_middle(ends: Ends, name: str) -> None:
    """The node of that disk ends by name. What it had accepted is there when it is started again with room."""
    await ends.start()
    await (await ends.sender.send_stream("b/q", OTHER)).ordered()
    sending = await ends.begin()
    machine = ends.world.machine(name)
    machine.fill_disk()
    node = ends.sender if name == "a" else ends.receiver
    await ends.world.until(lambda: port_of(node).engine.failure is not None)
    if name == "a":
        with pytest.raises(triack.StoreFailed, match="full"):
            await sending
    else:
        assert not sending.done()
    machine.mend_disk()
    await ends.lose_power(name)
    if name == "a":
        await ends.world.until(lambda: ends.bodies == 1)
        await ends.sender.send_stream("b/q", BODY)
    else:
        await sending
    assert [await read(ends.receiver) for _ in range(2)] == [OTHER, BODY]
    await ends.world.until(lambda: ends.bodies == ends.coming == 0)


def give_room(ends: Ends, beside_reserve_bytes: int) -> None:
    """From the next look on, the receiver's disk has that much room beside its reserve."""
    ends.b.disk.free_bytes = triack.Limits().disk_reserve_bytes + beside_reserve_bytes


async def become_low(ends: Ends) -> None:
    """The room is looked at with commits, ten times a second."""
    give_room(ends, -10_000_000)
    with suppress(triack.NoRoom):
        while True:
            await ends.receiver.send("other", b"fills the disk")
            await ends.world.advance(0.2)


def held(ends: Ends) -> list[str | None]:
    return [it.held for it in ends.sender.stats().outgoing if it.queue.startswith("$large.")]


async def test_a_body_larger_than_the_disk_is_refused_before_its_first_part(ends: Ends) -> None:
    """By name, at both ends; what else comes goes on."""
    give_room(ends, 100_000)
    ends.b.disk.size_bytes = ends.b.disk.free_bytes
    await ends.start()
    with pytest.raises(triack.DeliveryFailed, match="larger-than-disk"):
        await ends.sender.send_stream("b/q", BODY)
    with pytest.raises(triack.MessageTooLarge, match="the disk never has room"):
        await ends.receiver.send_stream("q", BODY)
    await (await ends.sender.send("b/q", b"small")).ordered()
    assert ends.bodies == ends.coming == 0
    ends.b.disk.size_bytes = 2**40
    await ends.lose_power("b")
    with pytest.raises(triack.NoRoom, match="beside its reserve"):
        await ends.receiver.send_stream("q", BODY)


@pytest.mark.gate
async def test_two_bodies_and_a_disk_for_one(ends: Ends) -> None:
    """They count together, in any queues; small messages go on; the second one begins when the disk has room for it."""
    give_room(ends, 200_000)
    await ends.start()
    sending = [
        asyncio.create_task(ends.sender.send_stream(f"b/{queue}", pieces(OTHER, wait_s=1), content_length=len(OTHER)))
        for queue in ("one", "two", "three")
    ]
    await ends.world.advance(5)
    assert ends.bodies == 1
    assert sorted(map(str, held(ends))) == ["None", "no-room-for-body", "no-room-for-body"]
    assert ("held-here", "a") in [(it.trouble, it.about) for it in ends.receiver.stats().troubles]
    await (await ends.sender.send("b/q", b"small")).ordered(timeout=10)
    give_room(ends, 200_000 - len(OTHER))
    await ends.world.until(lambda: any(it.done() for it in sending))
    await ends.world.advance(60)
    assert ends.bodies == 1
    # Room is made by others, and nothing happens on this node.
    give_room(ends, 2 * len(OTHER) + 100_000)
    await asyncio.wait_for(asyncio.gather(*sending), 120)
    assert [await read(ends.receiver, queue) for queue in ("one", "two", "three")] == [OTHER] * 3
    assert ends.bodies == ends.coming == port_of(ends.receiver).engine.queues.bodies.coming_bytes == 0


async def test_two_bodies_of_the_node_itself_and_a_disk_for_one(ends: Ends) -> None:
    give_room(ends, 200_000)
    await ends.start("b")
    sending = (ends.receiver.send_stream(queue, OTHER) for queue in ("one", "two"))
    assert sorted(type(it).__name__ for it in await asyncio.gather(*sending, return_exceptions=True)) == [
        "NoRoom",
        "NodeReceipt",
    ]


@pytest.mark.parametrize("how", ["cancelled", "dead", "rolled back", "revoked", "purged"])
async def test_what_ends_a_body_is_taken_without_any_room(ends: Ends, how: str) -> None:
    """Others have taken the room meanwhile. The body is freed though nothing else is accepted."""
    await ends.start()
    tx = ends.sender.transaction()
    sending = asyncio.create_task(tx.send_stream("b/q", pieces(BODY, wait_s=1), content_length=len(BODY)))
    await ends.world.until(lambda: ends.coming)
    if how == "rolled back":
        await sending
    await become_low(ends)
    small = await ends.sender.send("b/q", b"small")
    await ends.world.advance(20)
    if how == "rolled back":
        await tx.rollback()
    elif how == "cancelled":
        assert held(ends) == ["store-low"]
        sending.cancel()
        await asyncio.wait([sending])
        await tx.rollback()
    elif how == "dead":
        await ends.lose_power("a")
    elif how == "revoked":
        await ends.receiver.revoke("a")
    else:
        assert await ends.receiver.purge("$large.q") == 1
    await ends.world.until(lambda: ends.bodies == ends.coming == 0, timeout=30)
    assert ends.receiver.stats().store_low
    assert ends.receiver.queue_lengths().get("q", 0) == 0
    give_room(ends, 10**9)
    if how == "revoked":
        await ends.receiver.trust("a", ends.sender.key)
    if how in ("revoked", "purged"):
        with pytest.raises(triack.DeliveryFailed, match="body-gone"):
            await sending
    if how != "dead":
        await small.ordered(timeout=60)
    assert await read(ends.receiver) == b"small"


async def test_a_body_that_is_given_up_while_it_waits_stops_no_other(ends: Ends) -> None:
    """It waits for room that may never come. The next one, which fits, does not stand behind it."""
    give_room(ends, 140_000)
    await ends.start()
    sending = asyncio.create_task(ends.sender.send_stream("b/q", OTHER))
    await ends.world.until(lambda: "no-room-for-body" in held(ends))
    sending.cancel()
    await asyncio.wait([sending])
    at_once = asyncio.create_task(ends.sender.send_stream("b/q", OTHER))
    await asyncio.sleep(0)
    at_once.cancel()
    await asyncio.wait([at_once])
    await asyncio.wait_for(ends.sender.send_stream("b/q", BODY), 30)
    assert await read(ends.receiver) == BODY
    assert ends.bodies == ends.coming == 0


FREED = ["read", "purged", "expired", "moved", "refused", "cancelled", "rolled back", "dead sender", "journal"]


@pytest.mark.parametrize("how", FREED)
async def test_the_room_of_a_body_that_is_over_is_there_again(
    triack_world: World, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Step by step, each with a commit of its own, though nothing else happens on the node any more."""
    monkeypatch.setattr(large_bodies, "DELETED_BYTES", 10_000)
    monkeypatch.setattr(large_bodies, "MERGED_BYTES", 0)
    journals = {"q": triack.Journal()} if how == "journal" else {}
    ends = Ends(triack_world, settings(limits=triack.Limits(queue_journal=journals)))
    await ends.start()
    await end_body(ends, how)
    if how == "journal":
        assert rows_of(ends) > 10
        await ends.receiver.purge("$journal.q")
    await ends.world.until(lambda: ends.bodies == ends.coming == 0, timeout=30)
    await ends.world.until(lambda: rows_of(ends) == 0, timeout=5)


async def end_body(ends: Ends, how: str) -> None:
    tx = ends.sender.transaction()
    letters = {"dead_letter": False} if how in ("expired", "refused") else {}
    life = {"time_to_be_received": 20} if how == "expired" else {}
    sending = asyncio.create_task(
        tx.send_stream("b/q", pieces(BODY, wait_s=1), content_length=len(BODY), **letters, **life)  # type: ignore[arg-type]
    )
    await ends.world.until(lambda: ends.coming and rows_of(ends) > 5)
    if how == "cancelled":
        sending.cancel()
        await asyncio.wait([sending])
    elif how == "dead sender":
        await ends.lose_power("a")
    else:
        await sending
        await (tx.rollback() if how == "rolled back" else tx.commit())
    if how in ("read", "journal"):
        await read(ends.receiver)
    elif how == "purged":
        await ends.world.until(lambda: ends.receiver.queue_lengths().get("q") == 1)
        await ends.receiver.purge("q")
    elif how == "moved":
        await ends.world.until(lambda: ends.receiver.queue_lengths().get("q") == 1)
        assert await ends.receiver.move("q", "other") == 1
        assert await read(ends.receiver, "other") == BODY
    elif how == "refused":
        async with ends.receiver.receive("q", ack="manual") as reader:
            (await reader.get()).reject(dead=True)


def rows_of(ends: Ends) -> int:
    """Rows of large bodies, and of their messages, in the store of the receiver."""
    engine = port_of(ends.receiver).engine
    shelves = [it for name, it in engine.queues.mailboxes.items() if name.startswith("$large.")]
    keys = [key_of(it.queue_id, position) for it in shelves for position in range(1, it.next_position)]
    port_of(ends.receiver)._driver._store.read(read := Read("messages", keys))  # noqa: SLF001 - what is on the disk
    return len(read.bodies)


@pytest.mark.gate
async def test_queues_that_are_used_once_make_room_for_others(triack_world: World) -> None:
    """A peer may have two pairs of them: for messages, and for parts. While bodies are here, none of theirs goes."""
    limits = triack.Limits(max_peer_queues=4)
    ends = Ends(triack_world, settings(limits=limits))
    await ends.start()
    for number in range(0, 10, 2):
        for queue in (f"q{number}", f"q{number + 1}"):
            await asyncio.wait_for(ends.sender.send_stream(f"b/{queue}", BODY), 60)
        waits = await ends.sender.send("b/later", b"waits for a place")
        await ends.world.advance(2)
        for queue in (f"q{number}", f"q{number + 1}"):
            assert await read(ends.receiver, queue) == BODY
        await waits.ordered(timeout=60)
        assert await read(ends.receiver, "later") == b"waits for a place"
