"""``triack completion``: the script with which a shell completes commands and options, printed or installed."""

import os
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from triack.base.errors import UsageError
from triack.tools.cli import cli

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_TRIACK_COMPLETE"
"""How the script asks ``triack`` for what could follow; click makes the name of the command's."""


@click.command()
@click.option("--shell", type=click.Choice(SHELLS), help="Without it, the one that $SHELL names.")
@click.option("--install", is_flag=True, help="Write it where the shell finds it, for every new shell.")
def completion(*, shell: str | None, install: bool) -> int:
    """Print the script with which a shell completes what follows `triack`, or install it.

    For fish it goes to the folder of completions. For bash and zsh it goes to triack/ in ~/.local/share, and ~/.bashrc
    or ~/.zshrc gets one line that reads it.
    """
    shell = shell or _shell_of_user()
    kind = get_completion_class(shell)
    assert kind is not None, "every shell of the list is one of click's"
    script = kind(cli, {}, "triack", VARIABLE).source()
    if not install:
        click.echo(script)
        return 0
    click.echo(f"installed in {_install(shell, script)}; it works in every new shell")
    return 0


def _shell_of_user() -> str:
    name = Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        raise UsageError(f"completion: the shell is {name or 'not known'}; say --shell {', '.join(SHELLS)}")
    return name


def _install(shell: str, script: str) -> Path:
    if shell == "fish":
        config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
        return _write(config / "fish" / "completions" / "triack.fish", script)
    share = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    path = _write(share / "triack" / f"completion.{shell}", script)
    settings = Path.home() / f".{shell}rc"
    line = f'source "{path}"  # completion of triack\n'
    known = settings.read_text() if settings.exists() else ""
    if line not in known:
        with settings.open("a") as file:
            file.write(line if not known or known.endswith("\n") else f"\n{line}")
    return settings


def _write(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script)
    return path
