"""``triack keygen``: a key is made once, exchanged without a gap, and never printed."""

from pathlib import Path

from click.testing import CliRunner

from triack.node.files.keys import KeyKind, decode_key
from triack.tools.commands.keygen import keygen


def run(data: Path, *arguments: str) -> list[str]:
    """The keys that it prints."""
    done = CliRunner().invoke(keygen, ["--data", str(data), *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output.split()


def test_a_key_is_made_once_and_its_public_half_printed(tmp_path: Path) -> None:
    (key,) = run(tmp_path / "a")
    assert len(decode_key(KeyKind.PUBLIC, key)) == 32
    assert run(tmp_path / "a") == [key]
    assert run(tmp_path / "b") != [key]


def test_a_key_is_exchanged_for_another(tmp_path: Path) -> None:
    """There is always one to call with; the last one stays."""
    (old,) = run(tmp_path)
    assert run(tmp_path, "--add")[0] == old
    new = run(tmp_path)[1]
    assert run(tmp_path, "--use", new) == [new, old]
    assert run(tmp_path, "--remove", old) == [new]


def test_what_is_no_key_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(keygen, ["--data", str(tmp_path), "--use", "triack-private-abc"])
    assert done.exit_code == 2
    assert "a public key is wanted, and this is a private one" in done.output
