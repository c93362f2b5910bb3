"""``triack keygen``: a node's own keys."""

import asyncio
import os
from pathlib import Path

import click

from triack.base.errors import IdentityError
from triack.node.control.handover import reread
from triack.node.files.keys import IDENTITY_FILE, Identity, KeyKind, encode_key, open_identity
from triack.node.files.private_files import PrivateFiles
from triack.tools.commands.common import PublicKey, data_option


@click.command()
@data_option
@click.option("--add", is_flag=True, help="Make one more key, to be trusted by the peers before it is used.")
@click.option("--use", type=PublicKey(), metavar="KEY", help="Call others with this one of its keys from now on.")
@click.option("--remove", type=PublicKey(), metavar="KEY", help="Forget one of its keys, and answer to it no longer.")
def keygen(*, data: Path, add: bool, use: bytes | None, remove: bytes | None) -> None:
    """Print the public keys of the node with that data directory, the one that it calls with first.

    Its key is made when it has none yet; `triack serve`, `send` and `receive` do so, too. The private key stays in the
    data directory, in the file "identity", for its owner alone.

    To exchange a key: --add a new one, let every peer trust it (`triack trust add NAME KEY`), --use it, and --remove
    the old one.
    """
    files = PrivateFiles(data)
    identity = open_identity(files, os.urandom)
    if add or use is not None or remove is not None:
        where = files.where(IDENTITY_FILE)

        def edit(content: bytes | None) -> bytes:
            if content is None:
                raise IdentityError(f"read {where}: it has gone")
            changed = Identity.decode(content, where)
            changed = changed.with_new(os.urandom) if add else changed
            changed = changed.with_first(use) if use is not None else changed
            return (changed.without(remove) if remove is not None else changed).encode()

        identity = Identity.decode(files.change(IDENTITY_FILE, edit), where)
        asyncio.run(reread(data))
    for key in identity.public:
        click.echo(encode_key(KeyKind.PUBLIC, key))
