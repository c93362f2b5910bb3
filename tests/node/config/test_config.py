"""Arguments beat the environment, which beats the file, which beats the policy; each value says where it is from."""

from pathlib import Path

import pytest

import triack
from triack.node.config.config import Sources

FILE = """\
[node]
name = "plant"
data = "none"
policy = "solace"
insecure = true
[session]
max_unacked_packet = 10
auto_window_max = 11
[queues.orders.quota]
messages = 7
"""
VARIABLES = {"TRIACK_SESSION__MAX_UNACKED_PACKET": "20", "TRIACK_ORDER__MAX_HELD_PACKETS": "21"}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file, and variables."""
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    file = tmp_path / "triack.toml"
    file.write_text(FILE)
    return file


def test_each_value_says_where_it_is_from(file: Path) -> None:
    window = ("session", "max_unacked_packet")
    sources = Sources(file, VARIABLES, {window: (30, "--window")}, (("order.order_ack_every=31", "--set"),))
    rows = {row.name: (row.value, row.source) for row in sources.read().rows()}
    assert rows["session.max_unacked_packet"] == (30, "--window")
    assert rows["order.order_ack_every"] == (31, "--set")
    assert rows["order.max_held_packets"] == (21, "TRIACK_ORDER__MAX_HELD_PACKETS")
    assert rows["session.auto_window_max"] == (11, f"{file}:8")
    assert rows["order.seq_resend_13_s"] == (2.0, "policy solace")
    assert rows["order.seq_resend"] == ("all", "default")
    assert rows["queues.orders.quota.messages"] == (7, f"{file}:10")
    assert rows["queues.orders.quota.when_full"] == ("hold", "limits.quota")
    assert not [name for name in rows if name.startswith("queues.orders.redelivery")]
    assert not [name for name in rows if name.startswith("session.store_ack_trigger")]  # the policy has none


async def test_a_node_is_opened_with_a_file(file: Path) -> None:
    """The environment beats it, and arguments beat both."""
    overrides = {"order.max_held_packets": 40, "queues.orders.redelivery.first_wait_s": "2 s"}
    async with triack.open(config=file, name="other", overrides=overrides) as node:
        assert node.name == "other"
        assert node.settings.session.max_unacked_packet == 20
        assert node.settings.order.max_held_packets == 40
        assert node.settings.redelivery_of("orders").first_wait_s == 2
        assert node.settings.limits.quota_of("orders").messages == 7


@pytest.mark.slow
def test_a_node_without_async_is_opened_with_a_file(file: Path) -> None:
    with triack.sync.open(config=file, peers={"hub": "memory://hub"}) as node:
        assert node.name == "plant"
        node.send("hub/orders", b"x")


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"overrides": {"order.max_held": 1}}, "overrides of order.max_held: order.max_held: there is no such key"),
        ({"settings": triack.NodeSettings()}, "settings and config exclude each other"),
        ({"queues": ["in"]}, "queues.orders: it is not in node.queues"),
        ({"listen": "udp://a"}, "argument listen: node.listen: cannot read address"),
    ],
)
def test_arguments_are_refused_as_keys_are(more: dict[str, object], told: str, file: Path) -> None:
    with pytest.raises(triack.UsageError, match=told):
        triack.open(config=file, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("data", ["none", Path("none")])
async def test_a_directory_may_be_called_none(
    data: str | Path, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an argument; None is for a node in memory."""
    monkeypatch.chdir(tmp_path)
    async with triack.open(config=file, data=data):
        assert (tmp_path / "none" / "store.db").exists()
    with pytest.raises(triack.UsageError):
        triack.open(config=file, data="")


def test_what_is_missing_is_named(file: Path) -> None:
    file.write_text("[node]\nname = 'a'\n")
    with pytest.raises(triack.UsageError, match=r"node\.data is missing: .*triack\.toml has none"):
        triack.open(config=file)
    with pytest.raises(triack.UsageError, match="a name is missing"):
        triack.open(data=None)
    with pytest.raises(triack.UsageError, match="data, a directory or None, is missing"):
        triack.open("a")
    with pytest.raises(triack.UsageError, match="config= names none"):
        triack.open("a", data=None, overrides={"order.max_held_packets": 1})


async def test_a_node_without_a_file_reads_no_variables(file: Path) -> None:
    """A library that did would change under a program that has never heard of them."""
    async with triack.open("a", data=None, insecure=True) as node:
        assert node.settings == triack.NodeSettings()
