"""What the site has beside the pages of docs/: ``mkdocs.yml`` names this file.

The command line and the Python interface are printed from the code. Files of the repository that pages link to, such as
examples, are copied, so that the site needs no other place.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import triack
from triack.base import errors
from triack.tools.cli import COMMANDS, cli

ROOT = Path(__file__).parents[1]
SOURCES = "source"
_OUTSIDE = re.compile(r"\]\((?:\.\./)+((?:examples/[\w.-]+)|Containerfile|SECURITY\.md)\)")
_SHIM = "https://unpkg.com/iframe-worker/shim"
"""What the theme loads from another host, so that the search works from a folder; docs/assets has a copy."""
_LOOKED_UP = (
    "decisions/",
    "reference/",
    "checks",
    "session-log",
    "log-lines",
    "settings",
    "reasons",
    "proof",
    "performance",
    "house",
)
LATER = 0.1
"""A page that has all words of a language is the best find for most questions, and answers none of them."""
CLI = "reference/cli.md"
PYTHON = "reference/python.md"
FIRST = ("open", "connect", "run", "Node", "Client", "Message", "Receipt", "Transaction", "Consumer", "Subscriber")
"""What a program meets first; all else follows by name."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made, and the files that pages link to."""
    files.append(File.generated(config, CLI, content=cli_page()))
    files.append(File.generated(config, PYTHON, content=python_page()))
    house = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").replace("](docs/", "](")
    files.append(File.generated(config, "house.md", content=house))
    for path in sorted([*(ROOT / "examples").glob("*.*"), ROOT / "Containerfile", ROOT / "SECURITY.md"]):
        name = f"{SOURCES}/{path.relative_to(ROOT)}"
        # Not a page: a file as it is.
        files.append(File.generated(config, name.removesuffix(".md"), content=path.read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - as it is called
    """Let links out of docs/ lead to the copies, and a search find pages for users first."""
    if page.file.src_uri.startswith(_LOOKED_UP):
        page.meta["search"] = {"boost": LATER}
    up = "../" * page.file.src_uri.count("/")
    return _OUTSIDE.sub(lambda found: f"]({up}{SOURCES}/{found[1].removesuffix('.md')})", markdown)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:  # noqa: ARG001 - as it is called
    """Load nothing from other hosts."""
    up = "../" * page.file.dest_uri.count("/")
    return output.replace(_SHIM, f"{up}assets/iframe-worker/index.js")


def cli_page() -> str:
    """Every command with its help, as it is printed."""
    parts = ["# Command line\n\nEvery command, with what `-h` prints after it.\n"]
    parent = click.Context(cli, info_name="triack", max_content_width=100)
    for name in COMMANDS:
        command = cli.get_command(parent, name)
        assert command is not None
        parts += _helps(command, name, parent, 2)
    return "\n".join(parts)


def _helps(command: click.Command, name: str, parent: click.Context, level: int) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=parent, max_content_width=100)
    yield f"{'#' * level} {context.command_path}\n"
    yield f"```text\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            if found is not None:
                yield from _helps(found, below, context, level + 1)


def python_page() -> str:
    """Every name that ``import triack`` gives."""
    names = sorted(set(triack.__all__) - set(FIRST) - set(errors.__all__), key=str.lower)
    parts = ["# Python\n\nWhat `import triack` gives.\n", "## First\n", *map(_entry, FIRST)]
    parts += ["## All else\n", *map(_entry, names), "## Errors\n", *map(_entry, errors.__all__)]
    return "\n".join(parts)


def _entry(name: str) -> str:
    return f"::: triack.{name}\n"
