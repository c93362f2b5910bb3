"""``triack enrol``: what ends at once; two nodes that do it are in the stories."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from triack.tools.commands.enrol import enrol
from triack.transport.invitation import Invitation

CODE = Invitation.make(lambda size: bytes(range(size)), 0).code


def run(data: Path, *arguments: str) -> Result:
    """Run the command on a data directory that no process serves."""
    return CliRunner().invoke(enrol, [*arguments, "--data", str(data)])


@pytest.mark.slow
def test_only_a_running_node_invites(tmp_path: Path) -> None:
    assert "no process runs one there" in str(run(tmp_path, "invite").exception)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("aaaa" * 8, "udp://127.0.0.1:9"), "mistyped"),
        (("twelve", "udp://127.0.0.1:9"), "32 letters"),
        ((CODE, "nowhere"), "cannot read address"),
        ((CODE, "udp://127.0.0.1:9", "--as", "no name"), "no name"),
        ((CODE, "udp://127.0.0.1:9", "--name", "no name"), "no name"),
        ((CODE, "udp://127.0.0.1:9", "--address", "here"), "cannot read address"),
    ],
)
def test_bad_arguments_are_rejected(tmp_path: Path, arguments: tuple[str, ...], why: str) -> None:
    """Before anything is sent; and never with the code."""
    failed = run(tmp_path, "join", *arguments)
    assert failed.exit_code
    assert why in str(failed.exception)
    assert arguments[0] not in str(failed.exception)
