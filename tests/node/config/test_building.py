"""From a configuration to a running node, and to one with other settings."""

import json
from collections.abc import AsyncIterator
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

import triack
from tests.node.config.files import problems_of, read
from tests.node.nodes import WAIT, bodies, make, quick
from triack import policies
from triack.node.config.config import Config, Sources
from triack.node.config.keys import KEYS, NUMBERED, Key, KeyPath, written_path
from triack.node.config.reload import Change
from triack.node.node import port_of
from triack.queues.node_settings import Journal, NodeSettings, Quota, Topic
from triack.queues.routes import Route

# Settings are built over those of a policy; the classes themselves say what is wrong.


def test_a_key_beats_the_policy_which_beats_the_default(tmp_path: Path) -> None:
    assert read(tmp_path, "").settings == NodeSettings()
    settings = read(tmp_path, '[node]\npolicy = "MSMQ"\n[session]\nmax_unacked_packet = 5\n').settings
    assert settings.session.max_unacked_packet == 5
    assert settings.order == policies.MSMQ.order
    assert settings.session.ack_trigger == policies.MSMQ.session.ack_trigger
    assert read(tmp_path, '[node]\npolicy = "amps"\n').settings == policies.AMPS


def test_a_queue_has_a_journal_when_its_table_says_anything_of_one(tmp_path: Path) -> None:
    """The rest is as for all journals; with MSMQ's policy a full one gets no more copies."""
    text = """
    [node]
    policy = "MSMQ"
    [queues.orders]
    journal = { messages = 5, keep_s = "none" }
    """
    journals = read(tmp_path, text).settings.limits.queue_journal
    assert journals == {"orders": Journal(messages=5, when_full="stop", keep_s=None)}
    bad = "[queues.orders]\njournal.when_full = 'burn'\n"
    assert "drop oldest" in problems_of(tmp_path, bad)[0]


def test_a_root_of_topics_has_settings_of_its_own(tmp_path: Path) -> None:
    text = """
    [limits.quota]
    messages = 10
    [topics.Games]
    strategy = "discard_allowed"
    delivery_timeout_s = "1 min"
    quota.size_bytes = "1 KiB"
    """
    settings = read(tmp_path, text).settings
    assert settings.topic_of("Games") == Topic(
        "discard_allowed", delivery_timeout_s=60, quota=Quota(messages=10, size_bytes=1_024)
    )
    assert settings.topic_of("Plays") == Topic()
    assert settings.quota_of("topic:Games") == Quota(messages=10, size_bytes=1_024)
    assert settings.quota_of("topic:Plays") == Quota(messages=10)
    (told,) = problems_of(tmp_path, '[topics.Games]\nstrategy = "fastest"\n')
    assert "topics.Games.strategy" in told
    (told,) = problems_of(tmp_path, '[topics."Games.Cricket"]\nmax_unacked = 5\n')
    assert "only a root, the first level of names, has settings" in told


NAMES = """\
[node]
name = "a b"
suite = "rot13"
queues = ["orders"]
tls_key = "key.pem"
data = ""
[queues.order.quota]
messages = 1
[peers.one]
address = "udp://a:1"
[peers.two]
address = "udp://A:1"
[peers."t t"]
address = "udp://b:1"
"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "[session]\nmax_unacked_packet = 0\nmax_datagram_bytes = 5\ncongestion = 'reno'\ncleanup_interval_s = 7\n",
            [
                '2: session.max_unacked_packet: must be 1 to 65535 or "auto", not 0',
                "3: session.max_datagram_bytes: must be 576 to 65535, not 5",
                "4: session.congestion: must be one of bbr, newreno, not 'reno'",
            ],
        ),
        ("[reconnect]\nmost_s = 0.01\n", ["2: reconnect.most_s: first_s is 0.1, more than most_s, 0.01"]),
        (
            NAMES,
            [
                "2: node.name: name 'a b': ' ' is not a letter, a digit or one of . _ - $",
                '3: node.suite: there is no suite "rot13"; there is 25519_AESGCM_SHA256, 25519_ChaChaPoly_BLAKE2s',
                "5: node.tls_key: it needs node.tls_cert, the certificate of that key",
                "6: node.data: it is empty",
                "8: queues.order: it is not in node.queues; did you mean orders?",
                "12: peers.two.address: it is the address of one, too",
                "14: peers.\"t t\": name 't t': ' ' is not a letter, a digit or one of . _ - $",
            ],
        ),
    ],
    ids=["values", "default", "names"],
)
def test_all_that_is_refused_is_told_at_its_line(tmp_path: Path, text: str, told: list[str]) -> None:
    """Each is left out until the class takes the rest. A class may name another key, which nobody has written."""
    assert [problem.removeprefix("triack.toml:") for problem in problems_of(tmp_path, text)] == told


def test_paths_are_relative_to_the_file_that_names_them(tmp_path: Path) -> None:
    """And those of a variable to the working directory."""
    node = read(tmp_path, '[node]\ndata = "here"\nlog = "/var/log"\n', {"TRIACK_NODE__TLS_CA": "ca.pem"}).node
    assert (node.data, node.log, node.tls_ca) == (str(tmp_path / "here"), "/var/log", "ca.pem")


ROUTES = """\
[[routes]]
to = "plant-*"
via = "hub"
[[routes]]
to = "press"
rename = "press-7"
[[routes]]
to = "a/b"
via = "hub"
[[routes]]
to = "c"
via = "h b"
by = "x"
"""


def test_routes_are_in_their_order_and_each_mistake_has_its_line(tmp_path: Path) -> None:
    found = read(tmp_path, ROUTES.partition('[[routes]]\nto = "a/b"')[0].replace("rename =", 'via = "hub"\nrename ='))
    assert found.routes == (Route("plant-*", "hub"), Route("press", "hub", "press-7"))
    assert [problem.removeprefix("triack.toml:") for problem in problems_of(tmp_path, ROUTES)] == [
        "5: routes.1: via is missing",
        "8: routes.2.to: is 'a/b': a route is for nodes, without queues and without @",
        "12: routes.3.via: name 'h b': ' ' is not a letter, a digit or one of . _ - $",
        f"13: routes.3.by: there is no such key; there is {', '.join(sorted(field.name for field in fields(Route)))}",
    ]
    assert problems_of(tmp_path, "[routes]\nto = 'a'\n") == [
        "triack.toml:2: routes.to: write each route as a table of its own, [[routes]]"
    ]


def test_a_route_may_have_several_neighbours(tmp_path: Path) -> None:
    text = '[[routes]]\nto = "cloud"\nvia = ["gw1", "gw2"]\nswitch_after_s = "2 s"\n'
    assert read(tmp_path, text).routes == (Route("cloud", ["gw1", "gw2"], switch_after_s=2),)
    (said,) = problems_of(tmp_path, text.replace("gw2", "gw1"))
    assert said.startswith("triack.toml:3: routes.0.via: is ['gw1', 'gw1']: name 1 to 8 neighbours, each once")


def test_a_route_makes_its_link_synchronous(tmp_path: Path) -> None:
    """Routes by one neighbour must agree, and the mistake is at one of them."""
    sync = '[[routes]]\nto = "plant-*"\nvia = "hub"\nlink = "sync"\ndowngrade_after_s = 10\n'
    found = read(tmp_path, sync)
    assert found.routes == (Route("plant-*", "hub", link="sync", downgrade_after_s=10),)
    (said,) = problems_of(tmp_path, sync.replace("downgrade_after_s = 10", ""))
    assert said.startswith("triack.toml:4: routes.0.link: is sync, and downgrade_after_s, which has no default,")
    (said,) = problems_of(tmp_path, sync + '[[routes]]\nto = "*"\nvia = "hub"\n')
    assert "go by hub, and say different things of that link" in said


# A running node takes up what can change, names the rest, and takes up nothing of a file with a mistake.

FILE = """
[node]
name = "b"
data = "b"
insecure = true
{listen}
[limits]
quota = {{ messages = {messages} }}
{more}
"""


class Edited:
    """A file, and the node that runs with it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "triack.toml"
        self.node: triack.Node

    def write(self, messages: int = 2, more: str = "", listen: str = 'listen = "memory://b"') -> None:
        self.path.write_text(FILE.format(messages=messages, more=more, listen=listen))


@pytest.fixture
async def file(tmp_path: Path) -> AsyncIterator[Edited]:
    """A file with a small quota, and its node."""
    file = Edited(tmp_path)
    file.write()
    async with triack.open(config=file.path, overrides={"node.close_timeout_s": 0.05}) as file.node:
        yield file


async def test_a_larger_quota_lets_the_senders_go_on(file: Edited) -> None:
    """Of a file that was changed; by the node itself, a client, or without ``async``."""
    async with make("a", settings=quick(messages_per_packet=1)) as a:
        for number in range(6):
            await a.send("memory://b/q", b"%d" % number)
        last = await a.send("memory://b/q", b"6")
        with pytest.raises(triack.WaitTimeout):
            await last.ordered(0.1)
        file.write(messages=100)
        async with triack.connect(file.path.parent / "b") as client:
            assert await client.reload() == triack.Reloaded(("limits.quota.messages",), ())
        await last.ordered(WAIT)
        assert await bodies(file.node, "q", 7) == [b"%d" % number for number in range(7)]
    assert await file.node.reload() == triack.Reloaded((), ())


async def test_a_file_with_a_mistake_changes_nothing(file: Edited, caplog: pytest.LogCaptureFixture) -> None:
    """Not even what is right in it; nor does a file that is gone."""
    file.write(messages=100, more="[redelivery]\nfirst_wait = 1")
    before = file.node.settings
    for _ in range(2):
        with pytest.raises(triack.ConfigError):
            await file.node.reload()
        assert file.node.settings is before
        assert "not used, the settings before are still in force" in caplog.messages[-1]
        file.path.unlink(missing_ok=True)
    async with triack.connect(file.path.parent / "b") as client:
        with pytest.raises(triack.ConfigError, match=r"triack\.toml: No such file") as caught:
            await client.reload()
    assert len(caught.value.problems) == 1


async def test_what_needs_a_restart_is_named_until_then(file: Edited, caplog: pytest.LogCaptureFixture) -> None:
    """The rest of the file is in force."""
    file.write(messages=5, more="[session]\nmax_unacked_packet = 9", listen="")
    late = ("node.listen", "session.max_unacked_packet")
    assert await file.node.reload() == triack.Reloaded(("limits.quota.messages",), late)
    assert await file.node.reload() == triack.Reloaded((), late)
    assert file.node.settings.limits.quota.messages == 5
    assert file.node.settings.session.max_unacked_packet == 64
    assert "has changes that need a restart: node.listen, session.max_unacked_packet" in caplog.text


async def test_an_address_of_a_peer_is_found_at_once(file: Edited) -> None:
    """And one that an insecure node may not know leaves everything as it was."""
    async with make("c", scheme="memory") as c:
        file.write(messages=7, more='[peers.there]\naddress = "udp://example.com:7801"')
        with pytest.raises(triack.NotLoopback):
            await file.node.reload()
        assert file.node.settings.limits.quota.messages == 2
        with pytest.raises(triack.AddressError, match="unknown peer there"):
            await file.node.send("there/q", b"x")
        file.write(more='[peers.there]\naddress = "memory://c"')
        assert (await file.node.reload()).in_force == ("peers.there.address",)
        await (await file.node.send("there/q", b"x")).ordered(WAIT)
        assert await bodies(c, "q", 1) == [b"x"]


async def test_a_route_is_taken_at_once(file: Edited) -> None:
    """And those of an argument stay: they beat the file."""
    file.write(more='[[routes]]\nto = "far"\nvia = "c"\n[peers.c]\naddress = "memory://c"')
    names = [f"routes.0.{field.name}" for field in fields(triack.Route)]
    assert (await file.node.reload()).in_force == ("peers.c.address", *names)
    assert file.node.routes() == [triack.Route("far", "c")]
    file.write()
    await file.node.reload()
    assert file.node.routes() == []
    file.write(more='[[routes]]\nto = "a"\nvia = "b"\n[[routes]]\nto = "c"\nvia = "b"')
    given = triack.open(config=file.path, data=None, listen="memory://other", routes=[triack.Route("x", "y")])
    async with given as other:
        assert other.routes() == [triack.Route("x", "y")]


async def test_a_node_with_keys_keeps_its_addresses_when_the_trust_file_is_damaged(tmp_path: Path) -> None:
    file = tmp_path / "triack.toml"
    file.write_text('[node]\nname = "a"\ndata = "a"\n')
    async with triack.open(config=file) as node:
        (tmp_path / "a" / "trust.json").write_text("{")
        (tmp_path / "a" / "trust.json").chmod(0o600)
        file.write_text(
            '[node]\nname = "a"\ndata = "a"\nmax_redeliveries = 3\n[peers.b]\naddress = "udp://127.0.0.1:9"\n'
        )
        with pytest.raises(triack.IdentityError):
            await node.reload()
        assert node.settings.max_redeliveries == 10
        (tmp_path / "a" / "trust.json").unlink()
        assert (await node.reload()).in_force == ("node.max_redeliveries", "peers.b.address")


async def test_a_node_without_a_file_has_nothing_to_reload() -> None:
    async with make(settings=quick()) as node:
        with pytest.raises(triack.UsageError, match="it was opened without a file"):
            await node.reload()


def test_what_was_taken_out_of_a_file_is_as_without_it(tmp_path: Path) -> None:
    """A queue without a table has the quota of all queues again."""
    file = tmp_path / "triack.toml"
    file.write_text("[queues.q]\nquota.messages = 3\nredelivery.first_wait_s = 9\n[limits]\nmemory_bytes = '1 GiB'\n")
    running = Sources(file).read()
    file.write_text("")
    change = Change(running, Sources(file).read())
    assert {name for name in change.in_force if name.startswith("queues.q.quota")} == {
        "queues.q.quota.messages",
        "queues.q.quota.size_bytes",
        "queues.q.quota.when_full",
    }
    assert change.needs_restart == ("limits.memory_bytes",)
    assert change.config.settings.limits.quota_of("q").messages == 10_000_000
    assert change.config.settings.limits.memory_bytes == 2**30


def other_value(key: Key) -> object:
    """Another value of a key, as a file has it."""
    if key.choices:
        return next(choice for choice in key.choices if choice != key.default)
    kinds = set(get_args(key.type)) or {key.type}
    if bool in kinds:
        return not key.default
    if kinds & {int, float}:
        return key.default + 1 if isinstance(key.default, int | float) else 7
    return "other"


def rows_of(config: Config) -> dict[KeyPath, object]:
    return {row.path: row.value for row in config.rows()}


@pytest.mark.gate
def test_each_key_is_in_force_or_needs_a_restart_as_it_is_said(tmp_path: Path) -> None:
    """Whatever a reload says of a key is what it does with the value."""
    file, tried = tmp_path / "triack.toml", 0
    file.write_text("")
    running = Sources(file).read()
    for key in (key for key in KEYS.values() if key.path[0] not in NUMBERED):  # those are lists
        path = tuple("orders" if part == "*" else part for part in key.path)
        file.write_text(f"{written_path(path)} = {json.dumps(other_value(key))}\n")
        try:
            fresh = Sources(file).read()
        except triack.ConfigError:
            continue  # what it may be depends on other keys
        change = Change(running, fresh)
        after, before, said = (rows_of(config).get(path) for config in (change.config, running, fresh))
        assert said != before
        assert written_path(path) in (change.in_force if after == said else change.needs_restart)
        assert after in (said, before)
        tried += 1
    assert tried > 70


async def test_another_strategy_of_a_topic_is_in_force(file: Edited) -> None:
    await file.node.publish("Games.Chess", b"1")
    file.write(more='[topics.Games]\nstrategy = "discard_allowed"')
    assert "topics.Games.strategy" in (await file.node.reload()).in_force
    assert file.node.settings.topic_of("Games").strategy == "discard_allowed"
    root = next(iter(port_of(file.node).engine.topics.roots))
    assert root.settings.strategy == "discard_allowed"
