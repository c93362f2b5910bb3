"""``triack trust``: add, list and remove peers of a data directory."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from triack.node.files.keys import Identity, KeyKind, encode_key
from triack.tools.cli import main
from triack.tools.commands.keygen import keygen
from triack.tools.commands.trust import trust

B, C = (encode_key(KeyKind.PUBLIC, Identity.make(lambda size, n=n: bytes([n]) * size).public[0]) for n in (1, 2))  # type: ignore[misc]


def run(data: Path, *arguments: str, stdin: str = "") -> Result:
    """Run the command on a data directory."""
    return CliRunner().invoke(trust, [*arguments, "--data", str(data)], input=stdin)


def test_peers_are_added_listed_and_removed(tmp_path: Path) -> None:
    """A second key comes behind the first; the secret is used and not shown."""
    psk = CliRunner().invoke(trust, ["psk"]).output
    assert psk.startswith("triack-shared-")
    run(tmp_path, "add", "plant-b", B, "--address", "udp://B:7801", "--send", "orders", "--send", "in-*")
    assert run(tmp_path, "add", "plant-b", C, "--psk", "-", stdin=psk).exit_code == 0
    assert run(tmp_path, "list").output.splitlines() == [
        "plant-b",
        f"  key      {B}",
        f"  key      {C}",
        "  address  udp://b:7801",
        "  send     orders in-*",
        "  psk      yes",
    ]
    assert json.loads(run(tmp_path, "list", "--json").output) == {
        "name": "plant-b",
        "keys": [B, C],
        "addresses": ["udp://b:7801"],
        "may_send": ["orders", "in-*"],
        "may_relay": [],
        "may_subscribe": [],
        "relays_for": [],
        "psk": True,
        "keep_alive_s": None,
    }
    run(tmp_path, "add", "plant-b", "--keep-alive", "25")
    assert run(tmp_path, "list").output.splitlines()[-1] == "  alive    25 s"
    run(tmp_path, "add", "plant-b", "--keep-alive", "0")
    assert run(tmp_path, "list").output.splitlines()[-1] == "  alive    no keep-alives"
    run(tmp_path, "add", "plant-b", "--may-relay", "plant-*", "--relays-for", "sensor", "--relays-for", "hub")
    lines = run(tmp_path, "list").output.splitlines()
    assert "  onward   plant-*" in lines
    assert "  relays   sensor hub" in lines
    run(tmp_path, "remove", "plant-b", "--key", B)
    assert B not in run(tmp_path, "list").output
    run(tmp_path, "remove", "plant-b")
    assert run(tmp_path, "list").output == ""


@pytest.mark.parametrize("command", [["list"], ["remove", "plant-b"]])
def test_a_directory_that_does_not_exist_has_no_peers_to_show(tmp_path: Path, command: list[str]) -> None:
    """It is a mistyped one, and nothing is made of it."""
    result = run(tmp_path / "typo", *command)
    assert result.exit_code == 2
    assert "does not exist" in result.output
    assert not (tmp_path / "typo").exists()


def test_bad_arguments_are_rejected(tmp_path: Path) -> None:
    """A mistyped key, an unknown peer, and the node's own key, which a copied command line easily has."""
    typo = B[:-1] + ("a" if B[-1] != "a" else "b")
    assert "mistyped" in run(tmp_path, "add", "plant-b", typo).output
    assert "no such peer" in str(run(tmp_path, "remove", "plant-c").exception)
    own = CliRunner().invoke(keygen, ["--data", str(tmp_path)]).output.strip()
    assert "own key" in str(run(tmp_path, "add", "plant-b", own).exception)
    assert run(tmp_path, "list").output == ""


@pytest.mark.parametrize("command", ["trust", "keygen"])
def test_the_command_is_there(command: str) -> None:
    """As a command of ``triack``."""
    with pytest.raises(SystemExit) as end:
        main([command, "--help"])
    assert end.value.code == 0


@pytest.mark.parametrize(("mode", "warned"), [(0o644, True), (0o600, False)])
def test_a_secret_that_others_may_read_gets_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, warned: bool
) -> None:
    path = tmp_path / "psk"
    path.write_text(CliRunner().invoke(trust, ["psk"]).output)
    path.chmod(mode)
    assert run(tmp_path / "a", "add", "plant-b", C, "--psk", str(path)).exit_code == 0
    assert caplog.messages == (
        [f"secret in {path}: other users may read it (mode 0644): chmod 600 it"] if warned else []
    )
