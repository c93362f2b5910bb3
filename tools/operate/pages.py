"""``triack help``: the pages of the documentation, as they were when this version was built."""

import re
from importlib import resources
from importlib.resources.abc import Traversable

import click

from triack.base.errors import UsageError
from triack.base.names import what_else
from triack.tools.commands.common import console_on, write_table

_INDEX = "README.md"
_FOLDERS = (".", "tutorials", "cookbook")
_HEADING = re.compile(r"^# (.+)$", re.MULTILINE)


@click.command(name="help")
@click.argument("topic", required=False)
@click.option("--find", metavar="TEXT", help="Show each line of a page that has this, whatever its case.")
def pages(topic: str | None, find: str | None) -> None:
    """Print a page of the documentation; without TOPIC, list them."""
    known = _pages()
    if topic is not None and topic not in known:
        raise UsageError(f"no page {topic}; {what_else(topic, known)}")
    chosen = known if topic is None else {topic: known[topic]}
    if find is not None:
        for name, page in chosen.items():
            for line in page.read_text(encoding="utf-8").splitlines():
                if find.lower() in line.lower():
                    click.echo(f"{name}: {line.strip()}")
    elif topic is None:
        write_table(("TOPIC", "PAGE"), [[name, _title(page)] for name, page in known.items()])
    else:
        _print(known[topic].read_text(encoding="utf-8"))


def _pages() -> dict[str, Traversable]:
    folder = resources.files("triack.docs")
    found = [page for place in _FOLDERS for page in folder.joinpath(place).iterdir() if page.name.endswith(".md")]
    named = sorted(found, key=lambda page: page.name)
    return {page.name.removesuffix(".md"): page for page in named if page.name != _INDEX}


def _title(page: Traversable) -> str:
    found = _HEADING.search(page.read_text(encoding="utf-8"))
    return found[1] if found is not None else ""


def _print(page: str) -> None:
    console = console_on()
    if not console.is_terminal:
        click.echo(page, nl=False)
        return
    from rich.markdown import Markdown

    with console.pager(styles=True):
        console.print(Markdown(page))
