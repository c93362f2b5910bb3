"""``triack config`` and ``triack reload``: files of settings are checked, shown, begun, and read again."""

import json
import os
import textwrap
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import click

import triack
from triack.base.errors import ConfigError, TriackError, UsageError
from triack.base.names import check_name
from triack.base.printable import escaped, escaped_json
from triack.node.config.config import Config, Sources
from triack.node.config.keys import KEYS, NUMBERED, SECTIONS, Key, KeyPath, written_path
from triack.node.config.layers import CONFIG_VARIABLE
from triack.node.config.values import write_value
from triack.node.node import open_configured
from triack.tools.commands.common import Directory, data_option_of, json_option, run, verbose_option, write_table
from triack.tools.operate.contexts import chosen_data
from triack.transport.address import Address

FILE = "triack.toml"
LINE_LETTERS = 100
_file_argument = click.argument(
    "file", metavar="[FILE]", envvar=CONFIG_VARIABLE, default=FILE, type=click.Path(dir_okay=False, path_type=Path)
)


@click.group(no_args_is_help=False)
def config() -> None:
    """Check, show and begin files of settings. FILE is that of TRIACK_CONFIG, or triack.toml, if left out."""


@config.command()
@_file_argument
def check(*, file: Path) -> int:
    """Say whether a node can be opened with a file and the variables of the environment.

    Each mistake is a line on standard error with its place, and the exit code is 1.
    """
    try:
        _try_open(_read(file))
    except TriackError as error:
        problems = error.problems if isinstance(error, ConfigError) else (f"{file}: {error}",)
        for problem in problems:
            click.echo(f"triack: {problem}", err=True)
        return 1
    click.echo(f"{file}: no mistake found")
    return 0


def _read(file: Path) -> tuple[Sources, Config]:
    sources = Sources(file, dict(os.environ))
    return sources, sources.read()


def _try_open(read: tuple[Sources, Config]) -> None:
    """Make the node, without starting it: some keys contradict each other only there, and some need an extra."""
    from triack.tools.commands.serve import check_served

    sources, found = read
    check_served(found)
    if found.node.name is not None and ("node", "data") in found.said:
        open_configured(sources, found)


@config.command()
@_file_argument
@click.option("--given", is_flag=True, help="Only what has no default value.")
@json_option
def show(*, file: Path, given: bool, as_json: bool) -> None:
    """Show each setting with a file and the variables of the environment: its value, and where that is from."""
    _, found = _read(file)
    rows = [row for row in found.rows() if not given or row.source != "default"]
    if as_json:
        for row in rows:
            said = json.dumps({"setting": row.name, "value": row.value, "source": row.source}, default=float)
            click.echo(escaped_json(said))
        return
    shown = [(row.name, write_value(row.key, row.value), row.source) for row in rows]
    write_table(("SETTING", "VALUE", "FROM"), [map(escaped, cells) for cells in shown])


@config.command()
@click.argument("file", metavar="[FILE]", default=FILE, type=click.Path(path_type=Path))
@click.option("--name", default="node", help="Name of the node, and of its data directory beside the file.")
@click.option("--listen", metavar="URL", help="Where it listens.")
def init(*, file: Path, name: str, listen: str | None) -> int:
    """Write a file with every key: what it does, and its default value. `-` writes to standard output."""
    check_name(name)
    text = template(name, None if listen is None else str(Address.parse(listen, listening=True)))
    if str(file) == "-":
        click.echo(text, nl=False)
        return 0
    try:
        # Not for a group to write, whatever the umask says: such a file is refused.
        with open(file, "x", encoding="utf-8", opener=partial(os.open, mode=0o644)) as opened:
            opened.write(text)
    except FileExistsError:
        raise UsageError(f"write {file}: it exists already") from None
    click.echo(f"{file}: written; triack serve --config {file} runs the node {name}")
    return 0


def template(name: str, listen: str | None = None) -> str:
    """A file with every key, of which only the name, the data directory and perhaps the address are in force."""
    given = {"name": name, "data": name, "listen": listen}
    return "\n".join(_template_lines({("node", key): value for key, value in given.items() if value is not None}))


def _template_lines(given: dict[KeyPath, str]) -> Iterator[str]:
    yield "# Settings of a Triack node. A line that begins with # has the value that is in force without it."
    yield '# Sizes may be "64 KiB", durations "500 ms"; "none" means no value.'
    for section, about in SECTIONS.items():
        yield ""
        yield f"# {about}"
        yield f"{'' if section == ('node',) else '# '}{header_of(section, 'orders', 'plant-b', 'Games')}"
        for key in KEYS.values():
            if key.path[:-1] == section:
                yield from _key_lines(key, given.get(key.path))
    yield ""


def _key_lines(key: Key, given: str | None) -> Iterator[str]:
    about = key.description + (f" One of {', '.join(key.choices)}." if len(key.choices) > 1 else "")
    yield from textwrap.wrap(about, LINE_LETTERS, initial_indent="#   ", subsequent_indent="#   ")
    if given is not None:
        yield f"{key.name} = {write_value(key, given)}"
    else:
        yield f"# {key.name} = {write_value(key, key.default)}"


def header_of(section: KeyPath, queue: str, peer: str, topic: str) -> str:
    """The line that begins a table, with these names for a queue, a peer and a root of topics."""
    if section[0] in NUMBERED:
        return f"[[{section[0]}]]"
    names = {"queues": queue, "peers": peer, "topics": topic}
    return f"[{written_path(tuple(names[section[0]] if part == '*' else part for part in section))}]"


@click.command()
@json_option
@verbose_option
@data_option_of(Directory(file_okay=False, exists=True, path_type=Path), "Of the node.", required=False)
@click.option(
    "--config", "file", metavar="FILE", envvar=CONFIG_VARIABLE, type=click.Path(path_type=Path), help="Its file."
)
def reload(*, data: Path | None, file: Path | None, as_json: bool) -> int:
    """Let the node that runs on a directory read its file of settings again.

    A file with a mistake changes nothing. Quotas, the reserve of the disk, the waits of failed messages, the queues
    that are passed on, addresses of peers, routes and bridges take effect now; every other key that has changed is
    named, and takes effect with a restart.
    """
    if data is None and file is not None:
        found = _read(file)[1].node.data
        data = None if found is None else Path(found)
    data = data or chosen_data()
    if data is None:
        raise click.UsageError("the node is missing: --data DIR, or --config FILE", click.get_current_context())
    return run(_reload(data, as_json=as_json))


async def _reload(data: Path, *, as_json: bool) -> int:
    async with triack.connect(data) as node:
        result = await node.reload()
    if as_json:
        click.echo(json.dumps({"in_force": result.in_force, "needs_restart": result.needs_restart}))
        return 0
    for key in result.in_force:
        click.echo(f"in force: {escaped(key)}")
    for key in result.needs_restart:
        click.echo(f"needs a restart: {escaped(key)}")
    if not result.in_force and not result.needs_restart:
        click.echo("nothing has changed")
    return 0
