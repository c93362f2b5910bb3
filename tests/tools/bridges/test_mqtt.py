"""One bridge between a node and a real mosquitto: what passes, what is refused, and what is known after a fall."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import triack
from tests.tools.bridges.brokers import Mosquitto, as_properties, client_of, judged, mosquitto, until
from triack import BridgeLost, BridgeUp, Limits, Node, NodeSettings, Quota
from triack.bridges import Bridge, BridgeTable
from triack.bridges.mqtt import Outward
from triack.bridges.mqtt_link import Connection
from triack.bridges.part import BrokerAway
from triack.bridges.taking import Taking
from triack.node.node import port_of

pytestmark = pytest.mark.slow

WAIT = 60.0
"""For what should come."""


@asynccontextmanager
async def bridged(folder: Path, broker: Mosquitto, *, settings: NodeSettings | None = None, **said: Any) -> Any:
    """A node and a running bridge of it."""
    async with triack.open("gate", data=folder / "gate", log=folder / "log", insecure=True, settings=settings) as node:
        bridge = Bridge(node, BridgeTable("b", broker.url, **said))
        port_of(node).bridges["b"] = bridge.stats
        async with running(bridge):
            yield node, bridge
    judged(folder / "log")


@asynccontextmanager
async def running(bridge: Bridge) -> AsyncIterator[None]:
    task = asyncio.create_task(bridge.run())
    try:
        await until(lambda: bridge.stats().is_up or task.done(), "it is connected")
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def bodies(node: Node, queue: str, count: int) -> list[bytes]:
    async with node.receive(queue) as messages:
        return [(await messages.get(WAIT)).body for _ in range(count)]


def numbered(count: int) -> list[bytes]:
    return [str(number).encode() for number in range(count)]


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_messages_of_the_broker_come_to_a_queue_in_order(tmp_path: Path, broker: Mosquitto, qos: int) -> None:
    async with (
        bridged(tmp_path, broker, take=["sensors/{site}/# -> from-{site}"], qos=qos) as (node, bridge),
        client_of(broker) as sensor,
    ):
        for number in range(20):
            await sensor.publish("sensors/hall/temperature", str(number), qos=qos)
        assert await bodies(node, "from-hall", 20) == numbered(20)
        await until(lambda: bridge.stats().taken == 20, "all are counted")


async def test_properties_of_mqtt_become_ours_and_those_of_mqtt_again(tmp_path: Path, broker: Mosquitto) -> None:
    said: dict[str, Any] = {"take": ["in/# -> both"], "give": ["both -> out/{site}"]}
    async with bridged(tmp_path, broker, **said), client_of(broker) as client:
        await client.subscribe("out/#", qos=1)
        data = b"\xff\x00"
        about = {"ContentType": "text/plain", "ResponseTopic": "answers/7", "CorrelationData": data}
        user = [("site", "hall"), ("unit", "C")]
        properties = as_properties(**about, MessageExpiryInterval=500, UserProperty=user)
        await client.publish("in/a", "21.5", qos=1, properties=properties)
        message = await anext(aiter(client.messages))
        found: Any = message.properties
        assert found is not None
        assert (str(message.topic), message.payload) == ("out/hall", b"21.5")
        assert (found.ContentType, found.ResponseTopic, found.CorrelationData) == ("text/plain", "answers/7", data)
        assert 0 < found.MessageExpiryInterval <= 500
        came = dict(found.UserProperty)
        assert len(came.pop("triack-id")) > 32
        assert came == dict(user)


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_a_queue_goes_to_the_broker_in_order(tmp_path: Path, broker: Mosquitto, qos: int) -> None:
    async with client_of(broker) as plant:
        await plant.subscribe("plant/#", qos=qos)
        async with bridged(tmp_path, broker, give=["commands -> plant/{machine}/set"], qos=qos) as (node, bridge):
            for number in range(50):
                await node.send("commands", str(number).encode(), headers={"machine": "press"})
            came = [await anext(aiter(plant.messages)) for _ in range(50)]
            assert [it.payload for it in came] == numbered(50)
            assert {str(it.topic) for it in came} == {"plant/press/set"}
            await until(lambda: node.stats().queues["commands"].messages == 0, "the queue is empty")
            await until(lambda: bridge.stats().given == 50, "all are counted")


@pytest.mark.parametrize("qos", [1, 2])
async def test_the_broker_has_no_more_to_answer_than_the_limit(
    tmp_path: Path, broker: Mosquitto, monkeypatch: pytest.MonkeyPatch, qos: int
) -> None:
    """All queues of a bridge together, and the limit is reached."""
    most, real = [0], Outward._send  # noqa: SLF001 - the broker does not say how many it has

    def send(self: Outward, *given: Any) -> None:
        real(self, *given)
        most[0] = max(most[0], len(self._unanswered))

    monkeypatch.setattr(Outward, "_send", send)
    give = ["commands -> plant", "others -> plant"]
    async with bridged(tmp_path, broker, give=give, qos=qos, in_flight=5) as (node, bridge):
        for queue in ("commands", "others"):
            await node.send_many(queue, numbered(100))
        await until(lambda: bridge.stats().given == 200, "all are given")
    assert most == [5]


async def test_a_run_of_like_messages_keeps_the_place_of_those_between(tmp_path: Path, broker: Mosquitto) -> None:
    """Neighbours of one topic are sent as a list; what differs from them divides it, and what is refused is alone."""
    said: dict[str, Any] = {"take": ["s/# -> all"], "key": "{json.key}"}
    sent = [("s/a", '{"key": "1"}'), ("s/a", '{"key": "2"}'), ("s/a", '{"key": "1"}'), ("s/b", "3"), ("s/b", "4")]
    sent += [("s/a", "5"), ("s/a", '{"key": ""}'), ("s/a", '{"key": "\\ud800"}'), ("s/a", '{"key": "7"}')]
    async with client_of(broker) as sensor:
        async with bridged(tmp_path, broker, **said) as _:
            pass
        for topic, payload in sent:
            await sensor.publish(topic, payload, qos=1)
        async with bridged(tmp_path, broker, **said) as (node, bridge):
            kept = [payload.encode() for at, (_, payload) in enumerate(sent) if at not in (2, 6)]
            assert await bodies(node, "all", len(kept)) == kept
            await until(lambda: (bridge.stats().taken, bridge.stats().refused) == (8, 1), "all are counted")


async def test_a_subscription_goes_to_the_broker_and_the_broker_retains_it(tmp_path: Path, broker: Mosquitto) -> None:
    async with bridged(tmp_path, broker, give=["topic:Games.# -> games/{topic}"], retain=True) as (node, bridge):
        await until(lambda: "Games" in node.stats().topics, "it has subscribed")
        await node.publish("Games.Cricket", b"six")
        await until(lambda: bridge.stats().given == 1, "the broker has it")
    async with client_of(broker) as late:
        await late.subscribe("games/#")
        message = await anext(aiter(late.messages))
        assert (str(message.topic), message.payload, message.retain) == ("games/Games/Cricket", b"six", True)


async def test_what_can_never_be_passed_on_is_kept_with_the_reason(tmp_path: Path, broker: Mosquitto) -> None:
    said: dict[str, Any] = {"take": ["sensors/{site}/# -> from-{site}"], "give": ["commands -> plant/{machine}"]}
    async with bridged(tmp_path, broker, **said) as (node, bridge), client_of(broker) as sensor:
        await sensor.publish("sensors/a b/t", "1", qos=1)
        await node.send("commands", b"2", headers={"machine": "press/#"})
        await node.send("commands", b"3")
        async with node.receive("b.refused") as refused:
            reasons = {it.body: it.headers["mqtt-refused"] for it in [await refused.get(WAIT) for _ in range(3)]}
        assert "'a b'" in reasons[b"1"]
        assert "'plant/press/#' is no topic" in reasons[b"2"]
        assert "no header machine" in reasons[b"3"]
        await until(lambda: bridge.stats().refused == 3, "they are counted")


@pytest.mark.parametrize("way", ["in", "out"])
async def test_refused_messages_without_room_are_told_and_kept(tmp_path: Path, broker: Mosquitto, way: str) -> None:
    settings = NodeSettings(limits=Limits(queue_quota={"b.refused": Quota(messages=5)}))
    said: dict[str, Any] = {"take": ["in/{site} -> from-{site}"], "give": ["commands -> plant/{machine}"]}
    numbers = numbered(20)
    async with bridged(tmp_path, broker, settings=settings, **said) as (node, bridge), client_of(broker) as sensor:
        for number in numbers:
            await (sensor.publish("in/a b", number, qos=1) if way == "in" else node.send("commands", number))
            if number == b"4":
                await until(lambda: bridge.stats().refused == 5, "the queue is full")
        await until(lambda: "no room" in str(bridge.stats().waits_for), "it says what it waits for")
        assert await bodies(node, "b.refused", 20) == numbers
        await until(lambda: (bridge.stats().waits_for, bridge.stats().refused) == (None, 20), "it goes on")
        assert bridge.stats().last_error is None


async def test_names_of_any_letters_reach_the_broker(tmp_path: Path, broker: Mosquitto) -> None:
    (tmp_path / "password").write_text("ge\u00e4ndert")
    said: dict[str, Any] = {
        "client_id": "br\u00fccke",
        "user": "g\u00e4rtner",
        "password_file": str(tmp_path / "password"),
    }
    async with bridged(tmp_path, broker, give=["commands -> plant"], **said) as (node, bridge):
        await node.send("commands", b"1")
        await until(lambda: bridge.stats().given == 1, "it is given")
        assert bridge.stats().last_error is None


async def test_a_full_queue_stops_taking_and_loses_nothing(tmp_path: Path, broker: Mosquitto) -> None:
    settings = NodeSettings(limits=Limits(quota=Quota(messages=30)))
    said: dict[str, Any] = {"take": ["sensors/# -> small"], "in_flight": 10, "qos": 1}
    async with bridged(tmp_path, broker, settings=settings, **said) as (node, bridge), client_of(broker) as sensor:
        for number in range(200):
            await sensor.publish("sensors/a", str(number), qos=1)
        await until(lambda: bridge.stats().waits_for is not None, "it says what it waits for")
        assert [it.trouble for it in node.stats().troubles if it.about == "b"] == ["bridge-waits"]
        # mosquitto 2.0.11 sends up to two messages for an acknowledgement, of which there were some fifty: beyond ten.
        assert bridge.stats().waiting < 120, "the broker keeps the rest"
        assert await bodies(node, "small", 200) == numbered(200)
        await until(lambda: bridge.stats().waits_for is None, "it goes on")


async def test_large_messages_that_find_no_room_stay_at_the_broker(
    tmp_path: Path, broker: Mosquitto, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are few, and have many bytes. Nothing is read meanwhile, so the connection ends after a while."""
    monkeypatch.setattr("triack.bridges.taking.BYTES_MAX", 100_000)
    monkeypatch.setattr("triack.bridges.part.HELD_BACK_S", 0.0)
    settings = NodeSettings(limits=Limits(quota=Quota(messages=5)))
    most, real = [0], Taking.handle_arrived

    def arrived(self: Taking[Any], it: Any) -> None:
        real(self, it)
        most[0] = max(most[0], self._in_hand_bytes)

    monkeypatch.setattr(Taking, "handle_arrived", arrived)
    sent = [str(number).encode() * 20_000 for number in range(10, 70)]
    async with (
        bridged(tmp_path, broker, settings=settings, take=["sensors/# -> small"]) as (node, bridge),
        client_of(broker) as sensor,
    ):
        for body in sent:
            await sensor.publish("sensors/a", body, qos=1)
        await until(lambda: "find no room" in str(bridge.stats().last_error), "it says why it has left")
        came = await bodies(node, "small", len(sent))
        assert list(dict.fromkeys(came)) == sent
    assert 100_000 < most[0] < 300_000, "what was being read may come, and a kilobyte for each message"


async def test_a_message_that_is_too_large_is_refused_by_name(tmp_path: Path, broker: Mosquitto) -> None:
    """One that no message here can have is kept whole, if it is not larger than a bridge reads."""
    whole, too_large = bytes(5 * 1024 * 1024), bytes(17 * 1024 * 1024)
    async with bridged(tmp_path, broker, take=["in/# -> all"], qos=2) as (node, bridge), client_of(broker) as client:
        for payload in (b"before", too_large, whole, b"behind"):
            await client.publish("in/a", payload, qos=2)
        assert await bodies(node, "all", 2) == [b"before", b"behind"]
        async with node.receive("b.refused") as refused:
            first, second = [await refused.get(WAIT) for _ in range(2)]
            assert (first.body, first.headers["mqtt-topic"], first.headers["mqtt-reason"]) == (b"", "in/a", "too-large")
            assert "and a bridge takes 16777216" in first.headers["mqtt-refused"]
            assert b"".join([part async for part in second.stream()]) == whole
            assert second.headers["mqtt-reason"] == "unfit"
        await until(lambda: bridge.stats().refusals == {"too-large": 1, "unfit": 1}, "they are counted")


async def test_what_the_broker_says_is_too_large_for_it_is_refused(tmp_path: Path) -> None:
    """It would end the connection for it, again and again."""
    with mosquitto(tmp_path / "mosquitto", more=["max_packet_size 20000"]) as broker:
        async with bridged(tmp_path, broker, give=["commands -> plant"]) as (node, bridge):
            for body in (bytes(19_000), bytes(20_000), b"behind"):
                await node.send("commands", body)
            assert await bodies(node, "b.refused", 1) == [bytes(20_000)]
            await until(lambda: (bridge.stats().given, bridge.stats().refusals) == (2, {"too-large": 1}), "all pass")
            assert bridge.stats().last_error is None


async def test_a_broker_that_is_away_is_a_trouble_and_nothing_is_lost(tmp_path: Path, broker: Mosquitto) -> None:
    async with bridged(tmp_path, broker, give=["commands -> plant"]) as (node, bridge):
        events = node.events()
        broker.stop()
        await until(lambda: [it.trouble for it in node.stats().troubles] == ["broker-away"], "it is told")
        assert "connect" in node.stats().troubles[0].cause.lower()
        await node.send("commands", b"later")
        broker.start()
        await until(lambda: bridge.stats().given == 1, "it is given")
        assert not node.stats().troubles
        told = await anext(events)
        assert isinstance(told, BridgeLost)
        while not isinstance(told, BridgeUp):  # each new cause is told
            told = await anext(events)
        assert told == BridgeUp("b", broker.url)


@pytest.mark.parametrize(("qos", "key"), [(1, "{payload}"), (1, ""), (2, "")])
async def test_the_session_log_counts_from_the_ack_of_a_broker_to_the_ack_of_a_broker(
    tmp_path: Path, broker: Mosquitto, monkeypatch: pytest.MonkeyPatch, qos: int, key: str
) -> None:
    """The bridge falls once on each way. What then comes again counts as known, if the node knows it."""
    said: dict[str, Any] = {"take": ["in/# -> through"], "give": ["through -> out/{to}"], "qos": qos, "key": key}
    headers = as_properties(UserProperty=[("to", "a")])
    async with bridged(tmp_path, broker, **said) as (node, bridge), client_of(broker) as client:
        falling(monkeypatch, "acknowledge", 1)
        for number in range(30):
            await client.publish("in/a", str(number), qos=qos, properties=headers)
        await client.publish("in/a", "nowhere", qos=qos)
        await until(lambda: bridge.stats().given >= 30 and bridge.stats().refused, "all are given")
        falling(monkeypatch, "_handle_answer", 1)
        await (await node.send("through", b"last", headers={"to": "b"})).queued()
        await until(lambda: bridge.stats().given >= 31, "it is given after a fall")
        await until(lambda: node.stats().queues["through"].messages == 0, "what came twice is given, too")
        refused = await bodies(node, "b.refused", 1)
    (counts,) = judged(tmp_path / "log").bridges.values()
    known = counts.get("known", 0)
    assert refused == [b"nowhere"]
    assert counts["taken"] >= 31
    assert counts["acked"] - known >= 31
    assert counts["given"] == counts["taken"] + 1 - counts["refused"]
    assert not counts.get("pending")
    assert (known > 0) is (qos == 2 or bool(key))


async def test_what_comes_before_the_answer_to_the_subscription_is_taken(
    tmp_path: Path, broker: Mosquitto, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session may have more than the bridge holds at a time, and sends it before it answers."""
    said: dict[str, Any] = {"take": ["sensors/# -> all"], "qos": 1, "in_flight": 10}
    async with client_of(broker) as sensor:
        async with bridged(tmp_path, broker, **said) as _:
            pass
        for number in range(50):
            await sensor.publish("sensors/a", str(number), qos=1)
        monkeypatch.setattr("triack.bridges.mqtt.UNACKNOWLEDGED_MAX", -15)
        async with bridged(tmp_path, broker, **said) as (node, _):
            assert await bodies(node, "all", 50) == numbered(50)


FALL = BrokerAway("the test has ended it")


def falling(
    monkeypatch: pytest.MonkeyPatch, name: str, times: int, error: Exception = FALL, of: type = Connection
) -> list[int]:
    """The connection ends instead of the call, some times, as if the bridge had died there. Returns how many."""
    real, left = getattr(of, name), [times]

    def fall(self: object, *given: Any, **named: Any) -> Any:
        if left[0] == 0:
            return real(self, *given, **named)
        left[0] -= 1
        raise error

    monkeypatch.setattr(of, name, fall)
    return left


@pytest.mark.parametrize(("qos", "key"), [(2, ""), (1, "{topic} {payload}"), (1, "")])
async def test_a_fall_between_the_disk_and_the_acknowledgement(
    tmp_path: Path, broker: Mosquitto, monkeypatch: pytest.MonkeyPatch, qos: int, key: str
) -> None:
    """At QoS 2, or with a key, each message is there once. At QoS 1 without one, it is counted as sent again."""
    said: dict[str, Any] = {"take": ["sensors/# -> all"], "qos": qos, "key": key}
    async with client_of(broker) as sensor, bridged(tmp_path, broker, **said) as (node, bridge):
        left = falling(monkeypatch, "acknowledge", 3)
        for number in range(10):
            await sensor.publish("sensors/a", str(number), qos=qos)
        await until(lambda: left == [0], "the bridge has fallen three times")
        await sensor.publish("sensors/end", "end", qos=qos)
        came: list[bytes] = []
        async with node.receive("all") as messages:
            while not came or came[-1] != b"end":
                came.append((await messages.get(WAIT)).body)
        once = [*numbered(10), b"end"]
        if qos == 2 or key:
            assert came == once
        else:
            assert set(came) == set(once)
            assert len(came) > len(once), "the test is about repeats"
            await until(lambda: bridge.stats().repeated >= len(came) - len(once), "they are counted")


@pytest.mark.parametrize(
    ("of", "call"), [(Connection, "_handle_answer"), (Connection, "release"), (Outward, "_handle_completed")]
)
async def test_at_qos_2_the_broker_gets_each_message_once_wherever_the_bridge_falls(
    tmp_path: Path, broker: Mosquitto, monkeypatch: pytest.MonkeyPatch, of: type, call: str
) -> None:
    falling(monkeypatch, call, 3, of=of)
    async with client_of(broker) as plant:
        await plant.subscribe("plant/#", qos=2)
        async with bridged(tmp_path, broker, give=["commands -> plant"], qos=2) as (node, _):
            for body in (*numbered(30), b"end"):
                await node.send("commands", body)
            came: list[Any] = []
            while not came or came[-1] != b"end":
                came.append((await anext(aiter(plant.messages))).payload)
        assert came == [*numbered(30), b"end"]


async def test_an_error_of_the_client_is_told_and_does_not_end_the_bridge(
    tmp_path: Path, broker: Mosquitto, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = falling(monkeypatch, "publish", 1, RuntimeError("the client has a bug"))
    async with bridged(tmp_path, broker, give=["commands -> plant"]) as (node, bridge):
        await node.send("commands", b"1")
        await until(lambda: bridge.stats().given == 1, "it is given")
        assert left == [0]
        assert bridge.stats().last_error == "RuntimeError: the client has a bug"


async def test_a_session_that_the_broker_has_lost_hides_no_message(tmp_path: Path, broker: Mosquitto) -> None:
    """A new session has other messages by the same packet ids: what is remembered of the old one must not hide them."""
    said: dict[str, Any] = {"take": ["sensors/# -> all"], "qos": 2}
    async with triack.open("gate", data=tmp_path / "gate", insecure=True) as node:
        async with node.transaction() as tx:
            tx.remember("bridge:b:in", b"".join(number.to_bytes(2, "little") for number in range(1, 100)))
        bridge = Bridge(node, BridgeTable("b", broker.url, **said))
        async with running(bridge), client_of(broker) as sensor:
            for number in range(20):
                await sensor.publish("sensors/a", str(number), qos=2)
            await until(lambda: bridge.stats().taken == 20, "all come")
            await until(lambda: node.recall("bridge:b:in") is None, "the ids are free again")


async def test_a_mistake_in_the_table_is_told(broker: Mosquitto) -> None:
    table = BridgeTable("b", broker.url, take=["# -> all"])
    with pytest.raises(triack.UsageError, match="filter has no"):
        replace(table, take=["sensors/+ -> from-{site}"])
    with pytest.raises(triack.UsageError, match="may take the same message"):
        replace(table, take=["a/# -> x", "a/+/c -> y"])
    with pytest.raises(triack.UsageError, match="mqtt://HOST:PORT"):
        replace(table, mqtt="http://somewhere")
    with pytest.raises(triack.UsageError, match="nothing to do"):
        replace(table, take=[])
