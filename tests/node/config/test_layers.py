"""The later source beats the earlier one, and every mistake is noted with its place."""

import os
from pathlib import Path

import pytest

from tests.node.config.files import problems_of, read
from triack.node.config.layers import FILE_BYTES_MAX, PROBLEMS_MAX, Layers

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
most = 1
lifetime_s = "1 day"
[reconnect]
gap = { x = 1 }
[ack_events]
"""


def test_every_mistake_is_told_at_once_with_its_line(tmp_path: Path) -> None:
    """And with the name that was most likely meant."""
    elsewhere = "there is no such key in this table; did you mean session.max_unacked_packet?"
    assert problems_of(tmp_path, EACH_WRONG, {"TRIACK_ORDER__SEQ_RESEND": "some", "TRIACK_LISTEN": "udp://a:1"}) == [
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
        'TRIACK_ORDER__SEQ_RESEND: order.seq_resend: must be "all" or "first", not "some"',
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


def test_a_file_that_is_not_there_or_no_text_is_named(tmp_path: Path) -> None:
    layers = Layers()
    layers.add_file(tmp_path / "gone.toml")
    (tmp_path / "bytes.toml").write_bytes(b"[node]\nname = '\xff'\n")
    layers.add_file(tmp_path / "bytes.toml")
    layers.add_file(tmp_path)
    assert sorted(problem.removeprefix(f"{tmp_path}") for problem in layers.problems) == [
        "/bytes.toml:2: it is not UTF-8",
        "/gone.toml: No such file or directory",
        ": it is no regular file",
    ]


def test_a_file_of_an_editor_of_windows_is_read(tmp_path: Path) -> None:
    """With a mark at its beginning, and two characters at the end of each line."""
    (tmp_path / "triack.toml").write_bytes(b"\xef\xbb\xbf[node]\r\nname = 'a'\r\nnam = 'b'\r\n")
    layers = Layers()
    layers.add_file(tmp_path / "triack.toml")
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


@pytest.mark.slow
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


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "triack.toml", 0o600)
    layers = Layers()
    layers.add_file(tmp_path / "triack.toml")
    assert layers.problems == [f"{tmp_path}/triack.toml: it is no regular file"]


def test_a_file_that_others_may_write_is_refused(tmp_path: Path) -> None:
    """By a link as well, as Kubernetes has them. What root, or the user of the node, alone writes is read."""
    file = tmp_path / "file"
    file.write_text(NODE)
    (tmp_path / "triack.toml").symlink_to("file")
    for mode, told in ((0o664, "others may write to it (mode 0664): chmod go-w it"), (0o644, "")):
        file.chmod(mode)
        layers = Layers()
        layers.add_file(tmp_path / "triack.toml")
        assert layers.problems == ([f"{tmp_path}/triack.toml: {told}"] if told else [])


def test_the_place_of_a_table_is_that_of_its_first_key(tmp_path: Path) -> None:
    layers = Layers()
    (tmp_path / "triack.toml").write_text("[limits]\nnode_quota_bytes = 5\nquota = { messages = 5, size_bytes = 6 }\n")
    layers.add_file(tmp_path / "triack.toml")
    assert layers.first_place(("limits", "quota")).endswith(":3")
    assert (layers.says(("limits",)), layers.says(("limits", "journal"))) == (True, False)
