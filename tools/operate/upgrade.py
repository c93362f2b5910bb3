"""``triack upgrade``: whether this Triack reads the store of a node, and if not, what to do."""

from pathlib import Path

import click

from triack.base.errors import StoreError
from triack.store.folder import STORE_FILE
from triack.store.store import SCHEMA_VERSION, version_in
from triack.tools.commands.common import existing_data_option

EXIT_FAILED = 1
_NEWER = "A newer Triack has written it. Install that one again: a store is never moved back."
_OLDER = """\
It was written before the first release, and is not moved forward. Nothing in it has been changed.

1. With the Triack that wrote it, let what is on its way leave: run `triack serve --data {folder}` until
   `triack status --data {folder}` shows nothing on the way.
2. With the same Triack, read what waits: `triack queue list --data {folder}`, and for each queue
   `triack receive QUEUE --data {folder}`.
3. Start this Triack with another, empty directory. It is another node then: let its peers trust its key,
   and subscribe again."""


@click.command(short_help="Say whether this Triack reads a store, and if not, what to do.")
@existing_data_option
def upgrade(data: Path) -> int:
    """Say whether this Triack reads the store of a node, and if not, what to do.

    It changes nothing, and ends with 0 if there is nothing to do. From the first release on, a Triack reads what the
    releases before it have written.
    """
    store = data / STORE_FILE
    version = version_in(store)
    if version is None:
        raise StoreError(f"look at {store}: it is no store of a node, or an empty one")
    if version == SCHEMA_VERSION:
        click.echo(f"{store}: store version {version}, which this Triack reads: nothing to do")
        return 0
    click.echo(f"{store}: store version {version}, and this Triack reads {SCHEMA_VERSION}.\n")
    click.echo(_NEWER if version > SCHEMA_VERSION else _OLDER.format(folder=data))
    return EXIT_FAILED
