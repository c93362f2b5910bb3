"""The nodes of this machine by short names that the user gave them, in a file of the user."""

import os
from collections.abc import Callable
from pathlib import Path

import click
import msgspec

from triack.base.errors import UsageError
from triack.base.names import what_else
from triack.node.files.private_files import PrivateFiles

CONTEXT_VARIABLE = "TRIACK_CONTEXT"
_FILE = "contexts.json"


class Contexts(msgspec.Struct, frozen=True):
    """What the user has named."""

    nodes: dict[str, str]
    chosen: str

    @classmethod
    def of(cls, content: bytes | None) -> "Contexts":
        """Those of a file; None: there is none."""
        if content is None:
            return cls({}, "")
        try:
            return msgspec.json.decode(content, type=cls)
        except (msgspec.MsgspecError, RecursionError):
            raise UsageError(f"read {_files().where(_FILE)}: it is no file of contexts; remove it") from None

    def encode(self) -> bytes:
        """As the file has it."""
        return msgspec.json.format(msgspec.json.encode(self)) + b"\n"

    def having(self, name: str, data: str) -> "Contexts":
        """With another name; the first one is chosen."""
        return Contexts({**self.nodes, name: data}, self.chosen or name)

    def using(self, name: str) -> "Contexts":
        """With that name chosen. Raises UsageError when there is none."""
        self.data_of(name)
        return Contexts(self.nodes, name)

    def without(self, name: str) -> "Contexts":
        """Without a name. Raises UsageError when there is none."""
        self.data_of(name)
        left = {other: data for other, data in self.nodes.items() if other != name}
        return Contexts(left, "" if self.chosen == name else self.chosen)

    def data_of(self, name: str) -> Path:
        """The data directory of a name. Raises UsageError when there is none."""
        if name not in self.nodes:
            raise UsageError(f"no context {name}; {what_else(name, self.nodes)}")
        return Path(self.nodes[name])


def chosen_data() -> Path | None:
    """The data directory that the user has chosen: by the variable, or else by ``triack context use``; or None."""
    named = os.environ.get(CONTEXT_VARIABLE)
    found = read_contexts()
    name = named or found.chosen
    return found.data_of(name) if name else None


def _files() -> PrivateFiles:
    return PrivateFiles(Path(click.get_app_dir("triack")))


def read_contexts() -> Contexts:
    """Those of the user."""
    return Contexts.of(_files().read(_FILE))


def change_contexts(edit: Callable[[Contexts], Contexts]) -> Contexts:
    """Replace them by the result of ``edit``. Returns the new ones."""
    return Contexts.of(_files().change(_FILE, lambda content: edit(Contexts.of(content)).encode()))
