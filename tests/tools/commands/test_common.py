"""What the commands share."""

from pathlib import Path

import click
import pytest

from triack.base.errors import AddressError
from triack.tools.commands.common import console_on, name_for, read_pairs, read_peers


def test_a_node_is_named_after_its_directory_if_that_can_be_a_name(tmp_path: Path) -> None:
    """What was not asked for is no error."""
    assert name_for(None, tmp_path / "plant-a") == "plant-a"
    assert name_for(None, tmp_path / "plant a") == "node"
    assert name_for("b", tmp_path / "plant a") == "b"
    with pytest.raises(AddressError, match="' ' is not a letter"):
        name_for("plant a", tmp_path / "b")


def test_peers_are_names_of_addresses() -> None:
    assert read_peers(("b=udp://127.0.0.1:7802", "c=tcp://[::1]:1")) == {
        "b": "udp://127.0.0.1:7802",
        "c": "tcp://[::1]:1",
    }
    with pytest.raises(AddressError, match="pigeon"):
        read_peers(("b=pigeon://home",))


@pytest.mark.parametrize("wrong", ["b", "=x", ""])
def test_a_pair_has_a_name_and_a_value(wrong: str) -> None:
    assert read_pairs("--header", ("a=1=2", "b=")) == {"a": "1=2", "b": ""}
    with pytest.raises(click.UsageError, match="it must be NAME=VALUE"):
        read_pairs("--header", (wrong,))


def test_what_goes_into_a_pipe_is_not_broken_into_lines(capsys: pytest.CaptureFixture[str]) -> None:
    console_on().print("word " * 100)
    assert capsys.readouterr().out.count("\n") == 1
