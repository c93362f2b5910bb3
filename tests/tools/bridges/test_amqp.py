"""One bridge between a node and a real RabbitMQ: what passes, what is refused, and what is known after a fall."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aio_pika import ExchangeType, Message
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractQueue

import triack
from tests.tools.bridges.brokers import judged, until
from tests.tools.bridges.rabbits import Rabbit, channel_of, fresh_queue
from triack import Limits, Node, NodeSettings, Quota
from triack.bridges import Bridge, BridgeTable
from triack.bridges.amqp import AmqpOutward
from triack.bridges.amqp_link import AmqpLink
from triack.bridges.part import BrokerAway
from triack.bridges.taking import Taking
from triack.node.node import port_of

pytestmark = pytest.mark.slow

WAIT = 60.0
"""For what should come."""


@asynccontextmanager
async def bridged(folder: Path, url: str, *, settings: NodeSettings | None = None, **said: Any) -> Any:
    """A node and a bridge of it, which may still be on its way to its broker."""
    async with triack.open("gate", data=folder / "gate", log=folder / "log", insecure=True, settings=settings) as node:
        bridge = Bridge(node, BridgeTable("b", amqp=url, **said))
        port_of(node).bridges["b"] = bridge.stats
        task = asyncio.create_task(bridge.run())
        try:
            yield node, bridge
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    judged(folder / "log")


async def publish(channel: AbstractChannel, queue: str, bodies: Iterable[bytes]) -> None:
    """Publish messages, and wait until the broker has them. The client gives each an id."""
    for body in bodies:
        await channel.default_exchange.publish(Message(body), queue)


async def taken_from(queue: AbstractQueue, count: int) -> list[AbstractIncomingMessage]:
    found: list[AbstractIncomingMessage] = []
    async with queue.iterator() as messages:
        async for message in messages:
            await message.ack()
            found.append(message)
            if len(found) == count:
                break
    return found


async def waiting_in(queue: AbstractQueue) -> int:
    """Messages of a queue of the broker that nothing has in hand."""
    return (await queue.declare()).message_count or 0


async def received(node: Node, queue: str, count: int) -> list[triack.Message]:
    async with node.receive(queue) as messages:
        return [await messages.get(WAIT) for _ in range(count)]


@pytest.fixture
async def channel(rabbitmq: Rabbit) -> AsyncIterator[AbstractChannel]:
    """A program beside the bridge."""
    async with channel_of(rabbitmq) as opened:
        yield opened


NUMBERS = [str(number).encode() for number in range(50)]


async def test_messages_pass_in_both_directions_in_order_with_their_properties(
    tmp_path: Path, rabbitmq: Rabbit, channel: AbstractChannel
) -> None:
    await fresh_queue(channel, "orders")
    out = await fresh_queue(channel, "out")
    said: dict[str, Any] = {"take": ["orders -> from-{header.site}"], "give": ["from-hall -> /out"]}
    async with bridged(tmp_path, rabbitmq.url, **said) as (node, bridge):
        for body in NUMBERS:
            message = Message(
                body,
                headers={"site": "hall", "pumps": 6, "parts": [1, {"steel": True}]},
                content_type="text/plain",
                content_encoding="utf-8",
                message_id=f"order-{body.decode()}",
                correlation_id="inquiry-7",
                reply_to="answers",
                type="order",
                app_id="office",
                priority=4,
                expiration=500,
                timestamp=1_800_000_000,
            )
            await channel.default_exchange.publish(message, "orders")
        came = await taken_from(out, len(NUMBERS))
        assert [it.body for it in came] == NUMBERS
        assert [it.message_id for it in came] == [f"order-{number}" for number in range(50)]
        last = came[-1]
        assert (last.content_type, last.content_encoding, last.type) == ("text/plain", "utf-8", "order")
        assert (last.correlation_id, last.reply_to, last.app_id, last.priority) == ("inquiry-7", "answers", "office", 4)
        assert last.timestamp == datetime.fromtimestamp(1_800_000_000, UTC)
        assert isinstance(last.expiration, float)
        assert 0 < last.expiration <= 500.1
        headers = dict(last.headers)
        assert len(str(headers.pop("triack-id"))) > 32
        assert headers == {"site": "hall", "pumps": "6", "parts": '[1, {"steel": true}]'}
        await until(lambda: (bridge.stats().taken, bridge.stats().given) == (50, 50), "all are counted")
        assert node.stats().queues["from-hall"].messages == 0


async def test_a_message_here_says_where_it_came_from(
    tmp_path: Path, rabbitmq: Rabbit, channel: AbstractChannel
) -> None:
    queue = await fresh_queue(channel, "orders")
    plant = await channel.declare_exchange("plant", ExchangeType.TOPIC, durable=True)
    await queue.bind(plant, "press.#")
    async with bridged(tmp_path, rabbitmq.url, take=["orders -> {routing_key}"]) as (node, _):
        await plant.publish(Message(b"hot", priority=9, message_id="7"), "press.heat")
        (message,) = await received(node, "press.heat", 1)
        said = {"exchange": "plant", "routing-key": "press.heat", "priority": "9", "message-id": "7"}
        assert message.headers == {f"amqp-{name}": value for name, value in said.items()}


async def test_a_subscription_goes_to_an_exchange(tmp_path: Path, rabbitmq: Rabbit, channel: AbstractChannel) -> None:
    queue = await fresh_queue(channel, "scores")
    games = await channel.declare_exchange("games", ExchangeType.TOPIC, durable=True)
    await queue.bind(games, "*.Cricket")
    async with bridged(tmp_path, rabbitmq.url, give=["topic:Games.# -> games/{topic}"]) as (node, _):
        await until(lambda: "Games" in node.stats().topics, "it has subscribed")
        await node.publish("Games.Cricket", b"six", time_to_be_received=60 * 86_400)
        (message,) = await taken_from(queue, 1)
        assert message.expiration is None, "it is longer than RabbitMQ has any"
        assert (message.routing_key, message.body) == ("Games.Cricket", b"six")
        assert message.message_id == message.headers["triack-id"]


async def test_what_the_broker_does_not_take_is_kept_with_the_reason(
    tmp_path: Path, rabbitmq: Rabbit, channel: AbstractChannel
) -> None:
    await fresh_queue(channel, "orders")
    await fresh_queue(channel, "full", {"x-max-length": 1, "x-overflow": "reject-publish"})
    said: dict[str, Any] = {"take": ["orders -> from-{header.site}"], "give": ["commands -> /{machine}"]}
    async with bridged(tmp_path, rabbitmq.url, **said) as (node, bridge):
        for machine in ("full", "full", "nobody"):
            await node.send("commands", machine.encode(), headers={"machine": machine})
        await node.send("commands", b"nameless")
        await node.send("commands", b"long", headers={"machine": "x" * 300})
        await node.send("commands", b"copied", headers={"machine": "full", "CC": "press"})
        await publish(channel, "orders", [b"astray"])
        letters = {it.body: it.headers for it in await received(node, "b.refused", 6)}
        assert {body: headers["amqp-reason"] for body, headers in letters.items()} == {
            b"full": "rejected",
            b"nobody": "returned",
            b"nameless": "unfit",
            b"long": "unfit",
            b"copied": "unfit",
            b"astray": "unfit",
        }
        assert letters[b"nobody"]["amqp-refused"] == "312 NO_ROUTE"
        assert letters[b"astray"]["amqp-routing-key"] == "orders"
        await until(lambda: bridge.stats().given == 1, "the first filled the queue")
        assert bridge.stats().refusals == {"rejected": 1, "returned": 1, "unfit": 4}
        assert bridge.stats().refused == 6


async def test_what_leads_to_no_queue_is_given_when_it_need_not(
    tmp_path: Path, rabbitmq: Rabbit, channel: AbstractChannel
) -> None:
    await channel.declare_exchange("events", ExchangeType.FANOUT, durable=True)
    async with bridged(tmp_path, rabbitmq.url, give=["events -> events/"], mandatory=False) as (node, bridge):
        await node.send("events", b"nobody listens")
        await until(lambda: bridge.stats().given == 1, "the broker has it")


async def test_of_two_messages_with_one_id_the_returned_one_is_refused(
    tmp_path: Path, rabbitmq: Rabbit, channel: AbstractChannel
) -> None:
    """The broker returns a message by its id: two on their way with the same id would be taken for each other."""
    out = await fresh_queue(channel, "out")
    async with bridged(tmp_path, rabbitmq.url, give=["commands -> /{to}"]) as (node, bridge):
        async with node.transaction() as tx:
            for to in ("nobody", "out"):
                await tx.send("commands", to.encode(), headers={"to": to, "amqp-message-id": "7"})
        (letter,) = await received(node, "b.refused", 1)
        assert (letter.body, letter.headers["amqp-reason"]) == (b"nobody", "returned")
        assert [it.body for it in await taken_from(out, 1)] == [b"out"]
        await until(lambda: bridge.stats().given == 1, "it is counted")


async def test_a_body_that_no_message_here_can_have_is_kept_whole(
    tmp_path: Path, rabbitmq: Rabbit, channel: AbstractChannel
) -> None:
    await fresh_queue(channel, "orders")
    body = bytes(5 * 1024 * 1024)
    async with bridged(tmp_path, rabbitmq.url, take=["orders -> here"]) as (node, _):
        await channel.default_exchange.publish(Message(body), "orders")
        await publish(channel, "orders", [b"next"])
        assert [it.body for it in await received(node, "here", 1)] == [b"next"]
        async with node.receive("b.refused") as letters:
            letter = await letters.get(WAIT)
            assert letter.headers["amqp-reason"] == "unfit"
            assert b"".join([part async for part in letter.stream()]) == body


async def test_a_body_that_is_larger_than_a_bridge_takes_is_a_dead_letter_of_the_broker(
    tmp_path: Path, rabbitmq: Rabbit, channel: AbstractChannel
) -> None:
    dead = await fresh_queue(channel, "dead")
    await fresh_queue(channel, "orders", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    body = bytes(17 * 1024 * 1024)
    async with bridged(tmp_path, rabbitmq.url, take=["orders -> here"]) as (node, bridge):
        for one in (b"before", body, b"behind", body):
            await channel.default_exchange.publish(Message(one), "orders")
        assert [it.body for it in await received(node, "here", 2)] == [b"before", b"behind"]
        letter = (await received(node, "b.refused", 2))[0]
        assert (letter.body, letter.headers["amqp-reason"]) == (b"", "too-large")
        assert letter.headers["amqp-routing-key"] == "orders"
        assert [len(it.body) for it in await taken_from(dead, 2)] == [len(body)] * 2
        assert bridge.stats().refusals == {"too-large": 2}
        assert bridge.stats().last_error is None


async def test_large_messages_that_find_no_room_stay_at_the_broker(
    tmp_path: Path, rabbitmq: Rabbit, channel: AbstractChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are few, and have many bytes. Nothing is read meanwhile, so the connection ends after a while."""
    await fresh_queue(channel, "orders")
    monkeypatch.setattr("triack.bridges.taking.BYTES_MAX", 100_000)
    monkeypatch.setattr("triack.bridges.part.HELD_BACK_S", 0.0)
    settings = NodeSettings(limits=Limits(quota=Quota(messages=5)))
    most, real = [0], Taking.handle_arrived

    def arrived(self: Taking[Any], it: Any) -> None:
        real(self, it)
        most[0] = max(most[0], self._in_hand_bytes)

    monkeypatch.setattr(Taking, "handle_arrived", arrived)
    sent = [str(number).encode() * 100_000 for number in range(10, 70)]
    async with bridged(tmp_path, rabbitmq.url, settings=settings, take=["orders -> small"]) as (node, bridge):
        await publish(channel, "orders", sent)
        await until(lambda: "find no room" in str(bridge.stats().last_error), "it says why it has left")
        assert [it.body for it in await received(node, "small", len(sent))] == sent
    assert 100_000 < most[0] < 2_500_000, "what aiormq has begun to read may come"


async def test_a_full_queue_stops_taking_and_loses_nothing(
    tmp_path: Path, rabbitmq: Rabbit, channel: AbstractChannel
) -> None:
    queue = await fresh_queue(channel, "orders")
    settings = NodeSettings(limits=Limits(quota=Quota(messages=20)))
    said: dict[str, Any] = {"take": ["orders -> small"], "in_flight": 10, "settings": settings}
    async with bridged(tmp_path, rabbitmq.url, **said) as (node, bridge):
        await publish(channel, "orders", NUMBERS)
        await until(lambda: bridge.stats().waits_for is not None, "it says what it waits for")
        assert [it.trouble for it in node.stats().troubles if it.about == "b"] == ["bridge-waits"]
        assert bridge.stats().waiting <= 10, "the broker does not send more"
        assert await waiting_in(queue) >= 10, "the broker has the others"
        assert [it.body for it in await received(node, "small", 50)] == NUMBERS
        await until(lambda: bridge.stats().waits_for is None, "it goes on")
    assert await waiting_in(queue) == 0


async def test_what_is_missing_at_the_broker_is_told_until_it_is_there(
    tmp_path: Path, rabbitmq: Rabbit, channel: AbstractChannel
) -> None:
    await channel.queue_delete("late")
    await channel.exchange_delete("later")
    async with bridged(tmp_path, rabbitmq.url, take=["late -> here"], give=["out -> later/"]) as (node, bridge):
        await until(lambda: "no queue 'late'" in str(bridge.stats().last_error), "it says which queue is missing")
        assert [it.trouble for it in node.stats().troubles] == ["broker-away"]
        await fresh_queue(channel, "late")
        await until(lambda: "no exchange 'later'" in str(bridge.stats().last_error), "and which exchange")
        queue = await fresh_queue(channel, "behind")
        await queue.bind(await channel.declare_exchange("later", ExchangeType.FANOUT, durable=True))
        await node.send("out", b"at last")
        await publish(channel, "late", [b"at last"])
        assert [it.body for it in await received(node, "here", 1)] == [b"at last"]
        assert [it.body for it in await taken_from(queue, 1)] == [b"at last"]
        await channel.queue_delete("late")
        await until(lambda: "'late'" in str(bridge.stats().last_error), "a queue that goes is told, too")


async def test_a_broker_that_refuses_or_is_not_there_is_told(tmp_path: Path, rabbitmq: Rabbit) -> None:
    async with bridged(tmp_path / "1", rabbitmq.url, take=["q -> here"], user="nobody") as (_, bridge):
        await until(lambda: "ACCESS_REFUSED" in str(bridge.stats().last_error), "the user is refused")
    async with bridged(tmp_path / "2", f"{rabbitmq.url}/nowhere", take=["q -> here"]) as (_, bridge):
        await until(lambda: "nowhere" in str(bridge.stats().last_error), "there is no such virtual host")
    async with bridged(tmp_path / "3", "amqp://127.0.0.1:1", take=["q -> here"]) as (_, bridge):
        await until(lambda: "Connect call failed" in str(bridge.stats().last_error), "nothing listens there")


async def test_a_broker_with_tls_is_reached_if_its_authority_is_known(
    tmp_path: Path, rabbitmq: Rabbit, channel: AbstractChannel
) -> None:
    await fresh_queue(channel, "orders")
    url, authority = f"amqps://127.0.0.1:{rabbitmq.tls_port}", str(rabbitmq.certificate)
    async with bridged(tmp_path / "1", url, take=["orders -> here"]) as (_, bridge):
        await until(lambda: "certificate verify failed" in str(bridge.stats().last_error), "it is not trusted")
    async with bridged(tmp_path / "2", url, take=["orders -> here"], tls_ca=authority) as (node, _):
        await publish(channel, "orders", [b"1"])
        assert [it.body for it in await received(node, "here", 1)] == [b"1"]


async def test_a_broker_that_hangs_is_told_and_the_bridge_connects_again(
    tmp_path: Path, rabbitmq: Rabbit, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with channel_of(rabbitmq) as channel:
        out = await fresh_queue(channel, "out")
    monkeypatch.setattr("triack.bridges.amqp_link.HEARTBEAT_S", 1)
    async with bridged(tmp_path, rabbitmq.url, give=["commands -> /out"]) as (node, bridge):
        await until(lambda: bridge.stats().is_up, "it is connected")
        with rabbitmq.hanging():
            await node.send("commands", b"1")
            await until(lambda: bridge.stats().last_error is not None, "it notices")
            assert [it.trouble for it in node.stats().troubles] == ["broker-away"]
        await until(lambda: bridge.stats().given == 1, "it is given")
    async with channel_of(rabbitmq) as channel:
        assert await waiting_in(await channel.get_queue(out.name)) >= 1


FALL = BrokerAway("the test has ended it")


def falling(monkeypatch: pytest.MonkeyPatch, name: str, times: int, error: BaseException = FALL) -> list[int]:
    """The connection ends instead of a call, some times, as if the bridge had died there. Returns how many."""
    real, left = getattr(AmqpLink, name), [times]

    def fall(self: AmqpLink, *given: Any) -> Any:
        if left[0] == 0:
            return real(self, *given)
        left[0] -= 1
        if name == "acknowledge":
            raise error
        return self._lose(str(error))

    monkeypatch.setattr(AmqpLink, name, fall)
    return left


async def test_a_client_that_cancels_what_waits_for_it_does_not_end_the_bridge(
    tmp_path: Path, rabbitmq: Rabbit, channel: AbstractChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Aiormq does so when it ends a connection by itself."""
    await fresh_queue(channel, "orders")
    left = falling(monkeypatch, "acknowledge", 2, asyncio.CancelledError())
    async with bridged(tmp_path, rabbitmq.url, take=["orders -> here"]) as (node, bridge):
        await publish(channel, "orders", [b"1"])
        await until(lambda: (left, bridge.stats().is_up, bridge.stats().waiting) == ([0], True, 0), "it goes on")
        assert [it.body for it in await received(node, "here", 1)] == [b"1"]


@pytest.mark.parametrize(("by_id", "key"), [(True, ""), (False, "{routing_key} {payload}"), (False, "")])
async def test_a_fall_between_the_disk_and_the_acknowledgement(
    tmp_path: Path, rabbitmq: Rabbit, channel: AbstractChannel, monkeypatch: pytest.MonkeyPatch, by_id: bool, key: str
) -> None:
    """With message ids or a key, each message is there once. Without, what comes again is counted and marked."""
    await fresh_queue(channel, "orders")
    left = falling(monkeypatch, "acknowledge", 3)
    async with bridged(tmp_path, rabbitmq.url, take=["orders -> here"], by_message_id=by_id, key=key) as (node, bridge):
        await publish(channel, "orders", NUMBERS)
        await until(lambda: left == [0], "the bridge has fallen three times")
        await publish(channel, "orders", [b"end"])
        came: list[triack.Message] = []
        async with node.receive("here") as messages:
            while not came or came[-1].body != b"end":
                came.append(await messages.get(WAIT))
        await until(lambda: (bridge.stats().waiting, bridge.stats().is_up) == (0, True), "all is counted")
        if by_id or key:
            assert [it.body for it in came] == [*NUMBERS, b"end"]
            assert bridge.stats().repeated > 0, "the test is about repeats"
        else:
            times = Counter(it.body for it in came)
            assert set(times) == {*NUMBERS, b"end"}
            marked = sum(it.headers.get("amqp-again") == "1" for it in came)
            assert 0 < times.total() - len(times) <= marked == bridge.stats().repeated


async def test_a_fall_between_the_confirmation_and_the_commit(
    tmp_path: Path, rabbitmq: Rabbit, channel: AbstractChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker gets the messages again, in order, by the same message ids."""
    out = await fresh_queue(channel, "out")
    left = falling(monkeypatch, "_handle_answered", 2)
    async with bridged(tmp_path, rabbitmq.url, give=["commands -> /out"]) as (node, bridge):
        await node.send_many("commands", NUMBERS)
        await until(lambda: bridge.stats().given == 50, "all are given")
        assert left == [0]
        came = await taken_from(out, await waiting_in(out))
    assert len(came) > 50
    assert list(dict.fromkeys(it.body for it in came)) == NUMBERS
    assert len({it.message_id for it in came}) == 50


async def test_the_broker_has_no_more_to_confirm_than_the_limit(
    tmp_path: Path, rabbitmq: Rabbit, channel: AbstractChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All queues of a bridge together, and the limit is reached."""
    out = await fresh_queue(channel, "out")
    most, real = [0], AmqpOutward._send  # noqa: SLF001 - the broker does not say how many it has

    def send(self: AmqpOutward, *given: Any) -> None:
        real(self, *given)
        most[0] = max(most[0], len(self._unanswered))

    monkeypatch.setattr(AmqpOutward, "_send", send)
    give = ["commands -> /out", "others -> /out"]
    async with bridged(tmp_path, rabbitmq.url, give=give, in_flight=5) as (node, bridge):
        for queue in ("commands", "others"):
            await node.send_many(queue, NUMBERS)
        await until(lambda: bridge.stats().given == 100, "all are given")
    assert most == [5]
    assert await waiting_in(out) == 100


async def test_a_broker_that_confirms_nothing_is_told(
    tmp_path: Path, rabbitmq: Rabbit, channel: AbstractChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that is low on memory, which reads nothing more from those who publish."""
    await fresh_queue(channel, "out")
    monkeypatch.setattr("triack.bridges.giving.ANSWER_S", 0.05)
    real, held = AmqpLink.publish, list[Any]()
    monkeypatch.setattr(AmqpLink, "publish", lambda *given, **named: held.append(partial(real, *given, **named)))
    async with bridged(tmp_path, rabbitmq.url, give=["commands -> /out"]) as (node, bridge):
        await node.send("commands", b"1")
        await until(lambda: "confirmed nothing" in str(bridge.stats().waits_for), "it says what it waits for")
        held.pop()()
        await until(lambda: bridge.stats().given == 1, "it is given")
        assert bridge.stats().waits_for is None
