"""The tables of bridges: what their rules mean, and where each mistake is."""

from pathlib import Path

import pytest

from tests.node.config.files import problems_of, read
from tests.pages import ROOT, read_blocks
from triack.base.errors import UsageError
from triack.node.config.bridge_rules import GiveExchange, MessageKey, TakeQueue
from triack.node.config.bridge_table import BridgeTable, Give, KeyRule, Take

GOOD = """
[[bridges]]
name = "sensors"
mqtt = "mqtts://broker.example"
take = ["sensors/{site}/# -> cloud/telemetry"]
session_s = "1 h"
password_file = "secret"
"""


AMQP = """
[[bridges]]
name = "office"
amqp = "amqps://rabbit.example/back%2Foffice"
take = ["orders -> cloud/orders"]
"""


def test_a_bridge_of_a_file(tmp_path: Path) -> None:
    (bridge,) = read(tmp_path, GOOD).bridges
    assert bridge.address == ("broker.example", 8883, True)
    assert (bridge.qos, bridge.in_flight, bridge.session_s) == (1, 100, 3600)
    assert bridge.password_file == str(tmp_path / "secret")


@pytest.mark.parametrize(
    ("rule", "topic", "destination"),
    [
        ("sensors/{site}/# -> cloud/telemetry", "sensors/hall/a/b", "cloud/telemetry"),
        ("sensors/{site}/# -> topic:sensors.{site}.{#}", "sensors/hall/a/b", "topic:sensors.hall.a.b"),
        ("sensors/+/{what} -> {what}", "sensors/hall/heat", "heat"),
        ("# -> topic:all.{topic}", "a/b", "topic:all.a.b"),
        ("a/# -> q", "a", "q"),
        ("a/+ -> q", "a/b/c", None),
        ("a/b -> q", "a/c", None),
    ],
)
def test_a_rule_leads_a_topic_to_a_destination(rule: str, topic: str, destination: str | None) -> None:
    assert Take(rule).destination(topic) == destination


@pytest.mark.parametrize("level", ["a b", "topic:x", "..", "@hub", "", "x" * 200])
def test_a_level_brings_no_message_to_another_place(level: str) -> None:
    with pytest.raises(UsageError):
        Take("sensors/{site} -> from-{site}").destination(f"sensors/{level}")


def test_two_rules_that_a_topic_may_fit_overlap() -> None:
    assert Take("a/+/c -> x").overlaps(Take("a/b/# -> y"))
    assert Take("a/# -> x").overlaps(Take("a -> y"))
    assert not Take("a/+/c -> x").overlaps(Take("a/b/d -> y"))
    assert not Take("a/+ -> x").overlaps(Take("a/b/c -> y"))


def test_a_key_is_made_of_what_the_message_has() -> None:
    rule, user = KeyRule("{topic} {json.head.seq} {user.unit}"), [("unit", "C")]
    assert rule.key("a", b'{"head": {"seq": 7}}', user) == "a 7 C"
    assert rule.key("a", b"no JSON", user) is None
    assert rule.key("a", b'{"head": {"seq": 7}}', []) is None
    assert len(KeyRule("{payload}").key("a", b"x", []) or "") == 64
    assert KeyRule("").key("a", b"x", []) is None
    with pytest.raises(UsageError, match="FIELD"):
        KeyRule("{sequence}")


def test_a_topic_of_the_broker_is_made_of_headers() -> None:
    assert Give("commands -> plant/{machine}/set").topic({"machine": "press"}, None) == "plant/press/set"
    assert Give("topic:Games.# -> games/{topic}").topic({}, "Games.Cricket") == "games/Games/Cricket"
    assert Give("hub/topic:Games.# -> x").pattern == "hub/topic:Games.#"
    with pytest.raises(UsageError, match="no header machine"):
        Give("commands -> plant/{machine}").topic({}, None)
    with pytest.raises(UsageError, match="is no topic"):
        Give("commands -> plant/{machine}").topic({"machine": "#"}, None)
    with pytest.raises(UsageError, match="a queue of this node"):
        BridgeTable("b", "mqtt://h", give=["far/commands -> x"])


def test_the_file_of_the_page_about_rabbitmq_has_no_mistake(tmp_path: Path) -> None:
    (office,) = [text for kind, text in read_blocks(ROOT / "docs" / "amqp.md") if kind == "toml"]
    assert read(tmp_path, office).bridges[0].broker == "amqp://127.0.0.1:5672"


def test_a_bridge_has_one_broker_and_its_defaults(tmp_path: Path) -> None:
    (bridge,) = read(tmp_path, AMQP).bridges
    assert (bridge.address, bridge.vhost) == (("rabbit.example", 5671, True), "back/office")
    assert BridgeTable("b", amqp="amqp://h", take=["q -> q"]).vhost == "/"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            GOOD.replace("mqtts:", "https:"),
            "4: bridges.0.mqtt: 'https://broker.example' is not mqtt://HOST:PORT or mqtts://HOST:PORT",
        ),
        (GOOD.replace("{site}/#", "#/{site}"), "5: bridges.0.take: take "),
        (GOOD.replace('name = "sensors"', "qos = 3"), "3: bridges.0: name is missing"),
        (GOOD.replace("session_s", "qos = 3\nsession_s"), "6: bridges.0.qos: must be at most 2, not 3"),
        (GOOD + GOOD, "10: bridges.1.name: there is another bridge sensors"),
        (AMQP.replace("amqp =", "mqtt ="), "4: bridges.0.mqtt: 'amqps:"),
        (AMQP + 'mqtt = "mqtt://h"', "6: bridges.0.mqtt: a bridge has either mqtt or amqp, its broker"),
        (
            AMQP.replace("amqp =", "#"),
            "3: bridges.0.name: BridgeTable: mqtt: a bridge has either mqtt or amqp, its broker",
        ),
        (AMQP + "qos = 2", "6: bridges.0.qos: is a key of mqtt"),
        (GOOD + "mandatory = false", "8: bridges.0.mandatory: is a key of amqp"),
        (AMQP + 'give = ["commands -> nowhere"]', "6: bridges.0.give: give "),
    ],
)
def test_each_mistake_has_its_line(tmp_path: Path, text: str, told: str) -> None:
    (problem,) = problems_of(tmp_path, text)
    assert problem.startswith(f"triack.toml:{told}")


def test_a_rule_leads_a_message_of_a_queue_to_a_destination() -> None:
    values = {"routing_key": "press.heat", "header.site": "hall", "header.far": "cloud/orders"}
    assert TakeQueue("events -> topic:plant.{routing_key}").destination(values.get) == "topic:plant.press.heat"
    assert TakeQueue("a queue/of:any name -> from-{header.site}").destination(values.get) == "from-hall"
    with pytest.raises(UsageError, match="no part of a destination"):
        TakeQueue("events -> {header.far}").destination(values.get)
    with pytest.raises(UsageError, match="has no exchange"):
        TakeQueue("events -> {exchange}").destination(values.get)
    with pytest.raises(UsageError, match="write"):
        TakeQueue("events -> {site}")


def test_a_routing_key_is_made_of_headers() -> None:
    rule = GiveExchange("commands -> plant/machine.{machine}/set")
    assert (rule.exchange, rule.routing_key({"machine": "press"}, None)) == ("plant", "machine.press/set")
    assert GiveExchange("topic:Games.# -> /{topic}").routing_key({}, "Games.Cricket") == "Games.Cricket"
    assert GiveExchange("events -> events/").routing_key({}, None) == ""
    with pytest.raises(UsageError, match="no header topic"):
        GiveExchange("commands -> /{topic}").routing_key({}, None)
    with pytest.raises(UsageError, match="a routing key of 301 bytes"):
        GiveExchange("commands -> /{machine}").routing_key({"machine": "x" * 301}, None)
    with pytest.raises(UsageError, match="EXCHANGE/ROUTING_KEY"):
        GiveExchange("commands -> {machine}/set")


def test_the_message_id_is_the_key_before_the_rule() -> None:
    key, ids = MessageKey("{json.seq}", by_message_id=True), {"message_id": "7"}
    no_ids: dict[str, str] = {}
    assert key.key(b'{"seq": 8}', ids.get) == "7"
    assert key.key(b'{"seq": 8}', no_ids.get) == "8"
    assert key.key(b"no JSON", no_ids.get) is None
    assert MessageKey("{json.seq}", by_message_id=False).key(b'{"seq": 8}', ids.get) == "8"
    with pytest.raises(UsageError, match="message_id"):
        MessageKey("{id}", by_message_id=True)
