"""``triack context``: name the nodes of this machine, so that no command needs ``--data`` twice."""

import os
from pathlib import Path

import click

from triack.base.names import check_name
from triack.tools.commands.common import CommandGroup, Directory, json_line, json_option, write_table
from triack.tools.operate.contexts import CONTEXT_VARIABLE, change_contexts, read_contexts


@click.group(cls=CommandGroup, no_args_is_help=False)
def context() -> None:
    """Name nodes of this machine, and choose the one that commands without --data use.

    --data comes first, then TRIACK_NODE__DATA, TRIACK_CONFIG and TRIACK_CONTEXT, then the chosen one.
    """


@context.command()
@click.argument("name")
@click.option(
    "--data",
    metavar="DIR",
    required=True,
    type=Directory(file_okay=False, exists=True, path_type=Path),
    help="Data directory of the node.",
)
def add(name: str, data: Path) -> None:
    """Name a node. The first one is chosen."""
    name, path = check_name(name), str(data.absolute())
    found = change_contexts(lambda it: it.having(name, path))
    click.echo(f"context {name}: {path}{', in use' if found.chosen == name else ''}")


@context.command()
@click.argument("name")
def use(name: str) -> None:
    """Choose the node that commands use from now on."""
    found = change_contexts(lambda it: it.using(name))
    click.echo(f"context {name}: {found.data_of(name)}, in use")


@context.command("list")
@json_option
def list_contexts(*, as_json: bool) -> None:
    """List the names; the one in use is marked."""
    found = read_contexts()
    chosen = os.environ.get(CONTEXT_VARIABLE) or found.chosen
    if as_json:
        for name, data in sorted(found.nodes.items()):
            click.echo(json_line({"context": name, "data": data, "in_use": name == chosen}))
        return
    rows = [("*" if name == chosen else "", name, data) for name, data in sorted(found.nodes.items())]
    write_table(("", "CONTEXT", "DATA"), rows)


@context.command()
@click.argument("name")
def remove(name: str) -> None:
    """Forget a name. The node and its directory stay."""
    change_contexts(lambda it: it.without(name))
    click.echo(f"context {name} is forgotten; its node stays")
