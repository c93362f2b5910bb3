"""The help of each command is in ordinary words, and ends with an example that its parser takes."""

import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.proof.test_words import UNPLAIN
from triack.node.files.keys import KeyKind, encode_key
from triack.tools.cli import cli
from triack.tools.examples import EXAMPLES
from triack.transport.noise import KeyPair

SAID = {
    "$(triack keygen --data plant)": encode_key(KeyKind.PUBLIC, KeyPair.of(b"k" * 32).public),
    "$(cat code)": "0000-0000",
}
"""What a shell would put in place of a part."""
EXAMPLE = "Example:\n    $ "
"""After that, the help has nothing else."""


def commands(command: click.Command, ctx: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    """Every command with what is before it, groups included."""
    yield command, ctx
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            one = command.get_command(ctx, name)
            assert one is not None
            yield from commands(one, click.Context(one, info_name=name, parent=ctx))


def test_the_help_of_each_command_ends_with_an_example() -> None:
    """And there is none for a command that is no longer there."""
    found = [
        (ctx.command_path.removeprefix("triack "), it, ctx)
        for it, ctx in commands(cli, click.Context(cli, info_name="triack"))
    ]
    assert {path for path, it, _ in found if not isinstance(it, click.Group)} == set(EXAMPLES)
    for path, it, ctx in found[1:]:
        said = it.get_help(ctx)
        assert f"triack {path} " in f"{said.rpartition(EXAMPLE)[2]} ", path
        assert not UNPLAIN.findall(" ".join(said.split())), f"{path}: say it in ordinary words"


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_an_example_is_taken_as_it_is(example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("plant", "shop", "hub", "sensor", "gateway", "logs"):
        (tmp_path / name).mkdir()
    (tmp_path / "triack.toml").write_text("")
    for part, value in SAID.items():
        example = example.replace(part, value)
    words = shlex.split(example)
    words = words[words.index("triack") + 1 :]
    words = words[: words.index(">")] if ">" in words else words
    ctx, command = click.Context(cli, info_name="triack"), click.Command("")
    while isinstance(group := ctx.command, click.Group):
        _, found, words = group.resolve_command(ctx, words)
        assert found is not None
        ctx, command = click.Context(found, info_name=found.name, parent=ctx), found
    command.make_context(ctx.info_name, words, parent=ctx.parent)
