"""``triack trust``: whom a node trusts. A running node acts by a change when the command returns."""

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import TextIO

import click

from triack.base.peers import NO_PSK
from triack.node.control.handover import reread
from triack.node.files import operator_log
from triack.node.files.keys import IDENTITY_FILE, Identity, KeyKind, decode_key, encode_key
from triack.node.files.ownership import why_exposed
from triack.node.files.private_files import PrivateFiles
from triack.node.files.trust import TrustFile
from triack.tools.commands.common import (
    CommandGroup,
    PublicKey,
    data_option,
    existing_data_option,
    json_line,
    json_option,
)

SECRET_LETTERS_MAX = 4096
"""Of the file of a secret, which has one line: a device never ends."""

_psk_option = click.option(
    "--psk",
    type=click.File("r", errors="replace"),
    metavar="FILE",
    help="A file with the secret that both sides have agreed on, `-` for standard input; `triack trust psk` makes one.",
)
_address_option = click.option(
    "--address", "addresses", multiple=True, metavar="URL", help="udp://host:port and the like."
)


@click.group(cls=CommandGroup, no_args_is_help=False)
def trust() -> None:
    """Say whom a node trusts, and where they are. A running node acts by a change when the command returns."""


@trust.command("add")
@click.argument("name")
@click.argument("key", type=PublicKey(), required=False)
@_address_option
@click.option(
    "--send", "patterns", multiple=True, metavar="PATTERN", help="The only queues it may send to; `in-*` and the like."
)
@_psk_option
@click.option(
    "--keep-alive",
    "keep_alive_s",
    type=float,
    metavar="SECONDS",
    help="It cannot call this node: keep a session with it open, and send something over UDP that often; 0 for none.",
)
@click.option(
    "--may-relay",
    multiple=True,
    metavar="PATTERN",
    help="Nodes to which it may send by way of this one; `plant-*` and the like.",
)
@click.option(
    "--relays-for",
    multiple=True,
    metavar="PATTERN",
    help="Nodes whose messages it may bring here as a relay; `plant-*` and the like.",
)
@click.option(
    "--may-subscribe",
    multiple=True,
    metavar="PATTERN",
    help="Topics of this node to which it may subscribe; `Games.#` and the like, `#` for all.",
)
@click.option("--seal/--no-seal", default=None, help="Seal all messages for it: no node on the way can read them.")
@click.option(
    "--sealed-only/--no-sealed-only",
    default=None,
    help="Take its messages that a relay brings, and those that it brings as a relay, only sealed.",
)
@data_option
def add(
    *,
    name: str,
    key: bytes | None,
    addresses: tuple[str, ...],
    patterns: tuple[str, ...],
    psk: TextIO | None,
    keep_alive_s: float | None,
    may_relay: tuple[str, ...],
    relays_for: tuple[str, ...],
    may_subscribe: tuple[str, ...],
    seal: bool | None,
    sealed_only: bool | None,
    data: Path,
) -> None:
    """Trust the peer with the public key KEY, and call it NAME.

    For a peer that is known already, add a key or addresses; the other options replace what was said before.
    """
    files = PrivateFiles(data)
    identity = files.read(IDENTITY_FILE)
    TrustFile(files).add(
        name,
        keys=() if key is None else (key,),
        addresses=addresses,
        may_send=patterns or None,
        psk=None if psk is None else _read_psk(psk),
        keep_alive_s=keep_alive_s,
        may_relay=may_relay or None,
        relays_for=relays_for or None,
        may_subscribe=may_subscribe or None,
        seal=seal,
        sealed_only=sealed_only,
        own=() if identity is None else Identity.decode(identity, files.where(IDENTITY_FILE)).public,
    )
    asyncio.run(reread(data))


def _read_psk(file: TextIO) -> bytes:
    with suppress(OSError):  # what is read is no file
        why = why_exposed(os.fstat(file.fileno()), secret=True)
        if why is not None:
            operator_log.warning(f"secret in {file.name}: {why}")
    return decode_key(KeyKind.SHARED, file.read(SECRET_LETTERS_MAX))


@trust.command("remove")
@click.argument("name")
@click.option("--key", "keys", type=PublicKey(), multiple=True, metavar="KEY", help="Only this key of it.")
@_address_option
@existing_data_option
def remove(*, name: str, keys: tuple[bytes, ...], addresses: tuple[str, ...], data: Path) -> None:
    """Trust NAME no longer: its sessions have ended when this returns.

    With --key or --address, take only these from it.
    """
    TrustFile(PrivateFiles(data)).remove(name, keys=keys, addresses=addresses)
    asyncio.run(reread(data))


@trust.command("list")
@json_option
@existing_data_option
def show(*, data: Path, as_json: bool) -> None:
    """Print all peers. Below each name: its keys, its addresses, and the queues that it may send to."""
    for peer in TrustFile(PrivateFiles(data)).load():
        keys = [encode_key(KeyKind.PUBLIC, key) for key in peer.keys]
        if as_json:
            known = {"name": peer.name, "keys": keys, "addresses": peer.addresses, "may_send": peer.may_send}
            known |= {"may_relay": peer.may_relay, "relays_for": peer.relays_for}
            known |= {"may_subscribe": peer.may_subscribe}
            about = {"seal": peer.seal, "sealed_only": peer.sealed_only, "psk": peer.psk != NO_PSK}
            click.echo(json_line(known | about | {"keep_alive_s": peer.keep_alive_s}))
            continue
        click.echo(peer.name)
        for key in keys:
            click.echo(f"  key      {key}")
        for address in peer.addresses:
            click.echo(f"  address  {address}")
        click.echo(f"  send     {' '.join(peer.may_send) or 'nothing'}")
        if peer.may_relay:
            click.echo(f"  onward   {' '.join(peer.may_relay)}")
        if peer.relays_for:
            click.echo(f"  relays   {' '.join(peer.relays_for)}")
        if peer.may_subscribe:
            click.echo(f"  topics   {' '.join(peer.may_subscribe)}")
        if peer.seal:
            click.echo("  seal     yes")
        if peer.sealed_only:
            click.echo("  takes    sealed messages only, by relays")
        if peer.psk != NO_PSK:
            click.echo("  psk      yes")
        if peer.keep_alive_s is not None:
            click.echo(f"  alive    {peer.keep_alive_s:g} s" if peer.keep_alive_s else "  alive    no keep-alives")


@trust.command("psk")
def make_psk() -> None:
    """Print a new secret. It is for the --psk of two peers that trust each other."""
    click.echo(encode_key(KeyKind.SHARED, os.urandom(len(NO_PSK))))
