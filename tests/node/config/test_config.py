"""What triack.toml says: keys, values, and where they come from."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

import triack
from tests.node.config.files import problems_of, read
from triack.node.config.bridge_table import BridgeTable
from triack.node.config.config import Sources
from triack.node.config.gone import GONE, gone
from triack.node.config.keys import (
    KEYS,
    SECONDS,
    SECTIONS,
    SIZES,
    KeyPath,
    NodeTable,
    key_at,
    part_of,
    read_quantity,
    write_quantity,
    written_path,
)
from triack.node.config.layers import FILE_BYTES_MAX, PROBLEMS_MAX, Layers
from triack.node.config.lines import DEPTH_MAX, line_too_deep, lines_of
from triack.node.config.values import read_value, write_value
from triack.queues.node_settings import NodeSettings
from triack.queues.routes import Route

# Arguments beat the environment, which beats the file, which beats the policy; each value says where it is from.

FILE = """\
[node]
name = "plant"
data = "none"
policy = "solace"
insecure = true
[session]
max_unacked_packet = 10
cleanup_interval_s = 11
[queues.orders.quota]
messages = 7
"""
VARIABLES = {"TRIACK_SESSION__MAX_UNACKED_PACKET": "20", "TRIACK_ORDER__SEQ_RESEND_79_S": "21"}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    file = tmp_path / "triack.toml"
    file.write_text(FILE)
    return file


def test_each_value_says_where_it_is_from(file: Path) -> None:
    window = ("session", "max_unacked_packet")
    sources = Sources(file, VARIABLES, {window: (30, "--window")}, (("order.seq_resend_10_s=31", "--set"),))
    rows = {row.name: (row.value, row.source) for row in sources.read().rows()}
    assert rows["session.max_unacked_packet"] == (30, "--window")
    assert rows["order.seq_resend_10_s"] == (31, "--set")
    assert rows["order.seq_resend_79_s"] == (21, "TRIACK_ORDER__SEQ_RESEND_79_S")
    assert rows["session.cleanup_interval_s"] == (11, f"{file}:8")
    assert rows["order.seq_resend_13_s"] == (2.0, "policy solace")
    assert rows["session.congestion"] == ("bbr", "default")
    assert rows["queues.orders.quota.messages"] == (7, f"{file}:10")
    assert rows["queues.orders.quota.when_full"] == ("hold", "limits.quota")
    assert not [name for name in rows if name.startswith("queues.orders.redelivery")]


async def test_a_node_is_opened_with_a_file(file: Path) -> None:
    """The environment beats it, and arguments beat both."""
    overrides = {"order.seq_resend_79_s": 40, "queues.orders.redelivery.first_wait_s": "2 s"}
    async with triack.open(config=file, name="other", overrides=overrides) as node:
        assert node.name == "other"
        assert node.settings.session.max_unacked_packet == 20
        assert node.settings.order.seq_resend_79_s == 40
        assert node.settings.redelivery_of("orders").first_wait_s == 2
        assert node.settings.limits.quota_of("orders").messages == 7


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"overrides": {"order.seq_max": 1}}, "overrides of order.seq_max: order.seq_max: there is no such key"),
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
        triack.open("a", data=None, overrides={"order.seq_resend_79_s": 1})


async def test_a_node_without_a_file_reads_no_variables(file: Path) -> None:
    """A library that did would change under a program that has never heard of them."""
    async with triack.open("a", data=None, insecure=True) as node:
        assert node.settings == triack.NodeSettings()


# Every setting of the library is a key, by the same name, with a description.


def leaves(kind: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The fields of a class of settings that hold values, by path."""
    hints = get_type_hints(kind)
    for one in fields(kind):
        part = part_of(hints[one.name])
        if part is not None:
            yield from leaves(part, (*before, one.name))
        elif get_origin(hints[one.name]) is not Mapping:
            yield (*before, one.name)


@pytest.mark.gate
def test_settings_have_no_descriptions_without_docstrings() -> None:
    """``python -OO`` leaves them out."""
    program = "from triack.node.config.keys import KEYS; print({key.description for key in KEYS.values()})"
    done = subprocess.run([sys.executable, "-OO", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "{''}\n"


def test_every_setting_is_a_key_with_the_same_name_or_gone() -> None:
    """Those of the node itself are in the table ``node``, with the arguments of ``triack.open``."""
    wanted = {path if len(path) > 1 else ("node", *path) for path in leaves(NodeSettings)}
    own = {("node", one.name) for one in fields(NodeTable)}
    assert {path for path in KEYS if "*" not in path} == {path for path in wanted | own if not gone(path)}
    assert {path for path in KEYS if "*" in path} == {
        *(("queues", "*", "quota", name) for name in ("messages", "size_bytes", "when_full")),
        *(("queues", "*", "journal", name) for name in ("messages", "size_bytes", "when_full", "keep_s")),
        *(("queues", "*", "redelivery", name) for name in ("first_wait_s", "max_wait_s", "keep_order")),
        *(("queues", "*", "forward", name) for name in ("to", "label", "others_to")),
        *(("topics", "*", name) for name in ("strategy", "max_unacked", "delivery_timeout_s", "ack_wait_s")),
        *(("topics", "*", "quota", name) for name in ("messages", "size_bytes", "when_full")),
        ("peers", "*", "address"),
        *(("routes", "*", one.name) for one in fields(Route)),
        *(("bridges", "*", one.name) for one in fields(BridgeTable)),
    }


def test_a_file_with_a_key_that_is_gone_is_told_its_value_and_what_to_do(tmp_path: Path) -> None:
    text = "[session]\ndrain_timeout_s = 9\nidle_ack_delay_s = 1\n[session.store_ack_trigger]\ndelay_s = 1\n"
    store = GONE["session", "store_ack_trigger"]
    assert problems_of(tmp_path, text) == [
        "triack.toml:2: session.drain_timeout_s: this key is gone, and its value is 5: remove the line",
        "triack.toml:3: session.idle_ack_delay_s: this key is gone: write session.ack_trigger.delay_s in its place",
        f"triack.toml:5: session.store_ack_trigger.delay_s: this key is gone, and its value is 0.5: {store}",
    ]
    assert all(gone(path) == advice and path not in KEYS for path, advice in GONE.items())


def test_every_key_says_what_it_does() -> None:
    """And every table that has keys, in the order of the tables."""
    assert all(key.description.endswith(".") for key in KEYS.values())
    assert list(dict.fromkeys(path[:-1] for path in KEYS)) == list(SECTIONS)
    assert all(SECTIONS.values()), SECTIONS


def test_every_number_says_what_happens_when_it_is_too_small_and_too_large() -> None:
    """In its declaration, from which the page of settings is made. The levels of MQTT are three."""
    numbers = [key for key in KEYS.values() if {int, float} & {key.type, *get_args(key.type)} and key.name != "qos"]
    assert [key.path for key in numbers if not re.search(r"Too small: .+; too large: .+", key.description)] == []
    assert len(numbers) > len(KEYS) // 2


def test_a_queue_and_a_peer_have_names_of_their_own() -> None:
    assert key_at(("queues", "a.b", "quota", "messages")) == KEYS["queues", "*", "quota", "messages"]
    assert key_at(("peers", "hub", "address")) == KEYS["peers", "*", "address"]
    assert key_at(("session", "hub")) is None
    assert written_path(("queues", "a.b", "quota")) == 'queues."a.b".quota'


# A value is read by the type of its key, and refused with what is wanted.

WINDOW: KeyPath = ("session", "max_unacked_packet")
SHARE: KeyPath = ("session", "ack_trigger", "window_share")


@pytest.mark.parametrize(
    ("path", "raw", "text", "value"),
    [
        (WINDOW, 128, "128", 128),
        (WINDOW, "auto", "auto", "auto"),
        (("session", "ack_timeout_s"), "none", "none", None),
        (("session", "ack_timeout_s"), 20, "20 s", 20.0),
        (("redelivery", "first_wait_s"), "500 ms", "0.5", 0.5),
        (("limits", "node_quota_bytes"), "4 KiB", "4096", 4_096),
        (("redelivery", "keep_order"), False, "false", False),
        (("blocking", "durable"), "stored", "stored", "stored"),
        (("node", "queues"), ["a", "b"], "a, b", ["a", "b"]),
        (("node", "name"), "12", "12", "12"),
        (SHARE, "1/3", "1/3", 1 / 3),
    ],
)
def test_a_value_of_a_file_or_of_a_variable_has_the_type_of_its_key(
    path: KeyPath, raw: object, text: str, value: object
) -> None:
    for found in (read_value(KEYS[path], raw), read_value(KEYS[path], text, from_text=True)):
        assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("path", "raw", "told"),
    [
        (WINDOW, 1.5, 'must be a whole number or "auto", not 1.5'),
        (WINDOW, True, 'must be a whole number or "auto", not true'),
        (("redelivery", "max_wait_s"), True, 'must be seconds, such as 1.5 or "500 ms", not true'),
        (("redelivery", "first_wait_s"), "soon", 'must be seconds, such as 1.5 or "500 ms", not "soon"'),
        (("limits", "memory_bytes"), "8 Gib", 'must be bytes, such as 65536 or "64 KiB", not "8 Gib"'),
        (("limits", "memory_bytes"), "none", 'must be bytes, such as 65536 or "64 KiB", not "none"'),
        (("redelivery", "keep_order"), 1, "must be true or false, not 1"),
        (("node", "name"), 5, 'must be text or "none", not 5'),
        (("node", "queues"), "orders", 'must be a list of texts or "none", not "orders"'),
        (SHARE, "1/0", 'must be a number or "none", not "1/0"'),
    ],
)
def test_what_is_no_value_is_refused_with_what_is_wanted(path: KeyPath, raw: object, told: str) -> None:
    with pytest.raises(ValueError, match="must be") as caught:
        read_value(KEYS[path], raw)
    assert str(caught.value) == told


def test_each_default_is_read_as_it_is_written() -> None:
    """So a file of defaults says what is in force without it."""
    for key in KEYS.values():
        text = write_value(key, key.default)
        raw = tomllib.loads(f"x = {text}")["x"]
        assert read_value(key, raw) == key.default, key.path


def test_a_share_that_no_short_number_is_stays_a_fraction() -> None:
    assert [write_value(KEYS[SHARE], share) for share in (Fraction(1, 2), Fraction(1, 3))] == ["0.5", '"1/3"']


def test_a_size_and_a_duration_have_a_unit() -> None:
    sizes = {"8 GiB": 8 * 2**30, "64KiB": 65_536, "1.5 MiB": 1_572_864, "2 MB": 2_000_000}
    assert {text: read_quantity(text, SIZES) for text in sizes} == sizes
    durations = {"500 ms": 0.5, "30 s": 30, "5 min": 300, "6 h": 21_600, "1 d": 86_400}
    assert {text: read_quantity(text, SECONDS) for text in durations} == durations


def test_what_is_no_quantity_is_none() -> None:
    """``Gib`` could be bits. Python reads no number of very many digits, and none of them is a float."""
    long = (f"{'9' * 20_000} s", f"{'9' * 400} ms", f"{'9' * 400}.5 d")
    for text in ("8 Gib", "8", "GiB", "-1 s", "1 s s", "", "1e3 s", *long):
        assert read_quantity(text, SIZES) is read_quantity(text, SECONDS) is None


def test_a_whole_number_of_a_large_unit_is_written_with_it() -> None:
    assert [write_quantity(size, SIZES) for size in (2**30, 3 * 2**20, 1_000, 0)] == ["1 GiB", "3 MiB", None, None]
    assert write_quantity(7_200, SECONDS) == "2 h"


# The line of every key of a file, however it is written.

WRITTEN = '''
# [commented]
top = 1
[a.b]            # 4
"quoted.key" = """
x = 1
"""
'literal' = '[no]'   # 8
c.d = { e = [1, { f = 2.5 }], "g" = "}" }
list = [
  1, # one
  [ 2 ],
  { h = 3 },
]
[[tables]]       # 15
i = 1979-05-27 07:32:00
[[tables]]
i = inf
[tables.inner]
j = "a\\"b = c"
'''


def test_each_key_has_its_line() -> None:
    """Those in inline tables and lists, too; tables of a list have numbers for names."""
    found = {".".join(path): line for path, line in lines_of(WRITTEN).items()}
    assert found == {
        "top": 3, "a.b": 4, "a.b.quoted.key": 5, "a.b.literal": 8, "a.b.c": 9, "a.b.c.d": 9, "a.b.c.d.e": 9,
        "a.b.c.d.e.1.f": 9, "a.b.c.d.g": 9, "a.b.list": 10, "a.b.list.2.h": 13, "tables.0": 15, "tables.0.i": 16,
        "tables.1": 17, "tables.1.i": 18, "tables.inner": 19, "tables.inner.j": 20,
    }  # fmt: skip


SOME_KEYS = st.text('ab."= #\n', min_size=1, max_size=3)
VALUES = st.recursive(
    st.integers() | st.text("a\"'[]{}=,\n#\\", max_size=6) | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SOME_KEYS, inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.gate
@given(st.dictionaries(SOME_KEYS, VALUES, max_size=5), st.integers(0, 3))
def test_whatever_a_file_has_each_key_is_found_at_its_line(table: dict[str, Any], gap: int) -> None:
    """Strings with quotes, brackets and comments in them, and keys with dots, lead nobody astray."""
    text, lines = "", {}
    for name, value in table.items():
        text += "\n" * gap + "# x = [\n" * (gap > 1)
        lines[name] = text.count("\n") + 1
        text += f"{quoted(name)} = {written(value)}\n"
    assert tomllib.loads(text) == table
    found = lines_of(text)
    assert {path[0]: line for path, line in found.items() if len(path) == 1} == lines
    assert all(line == lines[path[0]] for path, line in found.items())


def written(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{quoted(name)} = {written(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    return str(value).lower() if isinstance(value, bool) else quoted(value) if isinstance(value, str) else str(value)


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def test_what_is_too_deep_has_its_line_whatever_follows() -> None:
    """Dots and brackets in texts and comments do not count, nor does what comes after a mistake."""
    deep = "[" * (DEPTH_MAX + 1)
    assert line_too_deep(f"a = 1\nb = {deep}") == 2
    assert line_too_deep(f"a{'.a' * (DEPTH_MAX + 1)} = 1") == 1
    for harmless in (f'a = "{deep}"', f"a = '''\n{deep}'''", f"# {deep}", f'a = """{deep}', "a = [1.5]\n" * 100):
        assert line_too_deep(harmless) is None


# The later source beats the earlier one, and every mistake is noted with its place.

EACH_WRONG = """\
[node]
nmae = "plant"
listen = "udp://[::]:x"
max_redeliveries = "ten"
policy = "msqm"
[session]
max_unacked_packet = 0
[limits]
quota = { messages = 5, size = "1 GiB" }
[sesion]
x = 1
[order]
max_unacked_packet = 5
blocking.survives = 5
[peers.hub]
keys = ["triack-public-x"]
[keys]
# seconds
lifetime_s = "1 day"
[reconnect]
gap = { x = 1 }
[ack_events]
"""


def test_every_mistake_is_told_at_once_with_its_line(tmp_path: Path) -> None:
    """And with the name that was most likely meant."""
    elsewhere = "there is no such key in this table; did you mean session.max_unacked_packet?"
    assert problems_of(tmp_path, EACH_WRONG, {"TRIACK_RECONNECT__GAP": "some", "TRIACK_LISTEN": "udp://a:1"}) == [
        "triack.toml:2: node.nmae: there is no such key; did you mean name?",
        "triack.toml:3: node.listen: cannot read address 'udp://[::]:x': port 'x' is not a number from 1 to 65535",
        'triack.toml:4: node.max_redeliveries: must be a whole number, not "ten"',
        'triack.toml:5: node.policy: there is no policy "msqm"; did you mean msmq?',
        'triack.toml:7: session.max_unacked_packet: must be 1 to 65535 or "auto", not 0',
        "triack.toml:9: limits.quota.size: there is no such key; did you mean size_bytes?",
        "triack.toml:11: sesion.x: there is no such table; did you mean session?",
        f"triack.toml:13: order.max_unacked_packet: {elsewhere}",
        "triack.toml:14: order.blocking.survives: there is no such table; did you mean blocking?",
        "triack.toml:16: peers.hub.keys: keys and permissions of peers are in trust.json alone: use triack trust",
        'triack.toml:19: keys.lifetime_s: must be seconds, such as 1.5 or "500 ms", not "1 day"',
        'triack.toml:21: reconnect.gap: must be "warn" or "error", not a table',
        "TRIACK_LISTEN: write TRIACK_NODE__LISTEN",
        'TRIACK_RECONNECT__GAP: reconnect.gap: must be "warn" or "error", not "some"',
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[node]\nname = \n", "triack.toml:2: it is no TOML: Invalid value"),
        ("[node]\nname = 'x'\nname = 'y'\n", "triack.toml:3: it is no TOML: Cannot overwrite a value"),
        ("[node]\nname = [1,\n2", "triack.toml:3: it is no TOML: Unclosed array"),
        ("[limits]\nquota = 5\n", "triack.toml:2: limits.quota: it is a table, [limits.quota], not 5"),
        ("[reconnect]\nfirst_s = 60\n", "triack.toml:2: reconnect.first_s: is 60.0, more than most_s, 1.0"),
        ("[peers]\nhub = 'udp://a:1'\n", 'triack.toml:2: peers.hub: it is a table, [peers.hub], not "udp://a:1"'),
        ("[nothing]\n", "triack.toml:1: nothing: there is no such table; did you mean node?"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_with_its_line(text: str, told: str, tmp_path: Path) -> None:
    found = problems_of(tmp_path, text)
    assert (len(found), found[0].startswith(told.partition(";")[0])) == (1, True), found


def layers_of(file: Path) -> Layers:
    layers = Layers()
    layers.add_file(file)
    return layers


def test_a_file_that_is_not_there_or_no_text_is_named(tmp_path: Path) -> None:
    """A pipe is not waited for."""
    (tmp_path / "bytes.toml").write_bytes(b"[node]\nname = '\xff'\n")
    os.mkfifo(tmp_path / "pipe.toml", 0o600)
    for name, why in (
        ("gone.toml", "gone.toml: No such file or directory"),
        ("bytes.toml", "bytes.toml:2: it is not UTF-8"),
        ("pipe.toml", "pipe.toml: it is no regular file"),
        ("", ": it is no regular file"),
    ):
        assert layers_of(tmp_path / name).problems == [f"{tmp_path}{'/' if name else ''}{why}"]


def test_a_file_of_an_editor_of_windows_is_read(tmp_path: Path) -> None:
    """With a mark at its beginning, and two characters at the end of each line."""
    (tmp_path / "triack.toml").write_bytes(b"\xef\xbb\xbf[node]\r\nname = 'a'\r\nnam = 'b'\r\n")
    layers = layers_of(tmp_path / "triack.toml")
    assert layers.said["node", "name"].where.endswith("triack.toml:2")
    assert [problem.rpartition("triack.toml")[2].partition(";")[0] for problem in layers.problems] == [
        ":3: node.nam: there is no such key"
    ]


def test_variables_of_others_are_left_alone(tmp_path: Path) -> None:
    """Kubernetes sets some for a service of that name, and the file is named by one of ours."""
    others = {"TRIACK_PORT": "tcp://10.0.0.1:7801", "TRIACK_SERVICE_HOST": "10.0.0.1", "TRIACK_CONFIG": "x"}
    assert read(tmp_path, "", others).said == {}
    (told,) = problems_of(tmp_path, "", {"TRIACK_SESSION__WINDOW": "5"})
    assert told.startswith("TRIACK_SESSION__WINDOW: session.window: there is no such key")


def test_an_option_may_set_any_key() -> None:
    layers = Layers()
    layers.add_assignment("session.max_unacked_packet=128", "--set")
    layers.add_assignment('queues."a.b".quota.size_bytes=1 MiB', "--set")
    assert {path: said.value for path, said in layers.said.items()} == {
        ("session", "max_unacked_packet"): 128,
        ("queues", "a.b", "quota", "size_bytes"): 2**20,
    }
    layers.add_assignment("window", "--set")
    layers.add_assignment("a b=3", "--set")
    assert len(layers.problems) == 2


NODE = "[node]\n"
DEEP = 50_000
"""More than Python calls itself, and, as parts of one name, minutes of ``tomllib``."""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"{NODE}x = {'[' * DEEP}{']' * DEEP}\n", "triack.toml:2: it is nested too deeply"),
        (f"{NODE}x = {'{x = ' * DEEP}1{'}' * DEEP}\n", "triack.toml:2: it is nested too deeply"),
        (f"{NODE}x{'.x' * DEEP} = 1\n", "triack.toml:2: it is nested too deeply"),
        (f"[x{'.x' * DEEP}]\n", "triack.toml:1: it is nested too deeply"),
        (f"{NODE}max_redeliveries = {'9' * 20_000}\n", "triack.toml: it has a number of several thousand digits"),
        (
            f"{NODE}max_redeliveries = 0x{'f' * 20_000}\n",
            "triack.toml:2: node.max_redeliveries: must be a whole number, not a number of more than 64 bits",
        ),
        ("[routes.x]\nto = 'a'\n", "triack.toml:2: routes.x.to: write each route as a table of its own, [[routes]]"),
        (f"# {'x' * FILE_BYTES_MAX}", f"triack.toml: it has more than {FILE_BYTES_MAX} bytes"),
    ],
)
def test_a_file_that_no_person_wrote_is_refused_like_another_mistake(text: str, told: str, tmp_path: Path) -> None:
    assert problems_of(tmp_path, text) == [told]


@pytest.mark.gate
def test_after_a_hundred_mistakes_the_rest_is_not_read(tmp_path: Path) -> None:
    """Each costs a search for the name that was meant, and nobody reads more."""
    for text in (
        NODE + "".join(f"unknown_{number} = 1\n" for number in range(2_000)),
        "".join(f"[[routes]]\nto = 'n{number}'\n" for number in range(2_000)),
    ):
        told = problems_of(tmp_path, text)
        assert len(told) == PROBLEMS_MAX + 1
        assert told[-1] == "after 100 mistakes the rest was not read: there may be more"


def test_a_mistake_is_one_line_without_control_characters(tmp_path: Path) -> None:
    """A key that turns the direction of writing, or colours the terminal, is shown and has no effect."""
    text = '[node]\n"a\u202eb\x9b" = 1\nlisten = "x\\ny\\u001b[31m"\n'
    told = problems_of(tmp_path, text)
    assert told[0].startswith('triack.toml:2: node."a\\u202eb\\x9b": there is no such key')
    assert len(told) == 2
    assert all(line.isprintable() for line in told)


def test_a_file_that_others_may_write_is_refused(tmp_path: Path) -> None:
    """By a link as well, as Kubernetes has them. What root, or the user of the node, alone writes is read."""
    file = tmp_path / "file"
    file.write_text(NODE)
    (tmp_path / "triack.toml").symlink_to("file")
    for mode, told in ((0o664, "others may write to it (mode 0664): chmod go-w it"), (0o644, "")):
        file.chmod(mode)
        assert layers_of(tmp_path / "triack.toml").problems == ([f"{tmp_path}/triack.toml: {told}"] if told else [])


def test_the_place_of_a_table_is_that_of_its_first_key(tmp_path: Path) -> None:
    (tmp_path / "triack.toml").write_text("[limits]\nnode_quota_bytes = 5\nquota = { messages = 5, size_bytes = 6 }\n")
    layers = layers_of(tmp_path / "triack.toml")
    assert layers.first_place(("limits", "quota")).endswith(":3")
    assert (layers.says(("limits",)), layers.says(("limits", "journal"))) == (True, False)
