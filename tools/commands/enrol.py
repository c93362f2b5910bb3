"""``triack enrol``: two nodes come to trust each other by a one-time code, which is given out here and used there."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import click

import triack
from triack.base.errors import NodeClosed
from triack.node.client.client import ClientInvitation
from triack.node.shell.enrolling import EnrolledPeer, enrol_at_rest
from triack.tools.commands.common import (
    CommandGroup,
    FloatRange,
    data_option,
    name_for,
    read_tls,
    run,
    suite_option,
    tls_ca_option,
)

_as_option = click.option(
    "--as", "name", metavar="NAME", help="What this node calls the other; what it calls itself, if left out."
)
_send_option = click.option(
    "--send", "patterns", multiple=True, metavar="PATTERN", help="The only queues it may send to; `in-*` and the like."
)


@click.group(cls=CommandGroup, no_args_is_help=False)
def enrol() -> None:
    """Let two nodes come to trust each other by a one-time code: `invite` gives one out, `join` uses it."""


@enrol.command("invite")
@_as_option
@_send_option
@click.option("--no-wait", is_flag=True, help="Print the code, and leave it open in the node.")
@data_option
def invite(*, name: str | None, patterns: tuple[str, ...], no_wait: bool, data: Path) -> int:
    """Print a code, and wait for the node that comes with it.

    A process has to run the node (`triack serve`). The code is good once and for an hour, as long as that process runs
    and, without --no-wait, this command: give it to the operator of that node, by a way that no one else can listen to.
    """
    return run(_invite(name, patterns, data, waits=not no_wait))


async def _invite(name: str | None, patterns: tuple[str, ...], data: Path, *, waits: bool) -> int:
    async with triack.connect(data, patience=0) as client:
        invitation = await client.invite(name, send=patterns or None)
        click.echo(invitation.code)
        if waits:
            try:
                _tell(await invitation.enrolled())
            finally:
                await asyncio.shield(_withdraw(invitation))
    return 0


async def _withdraw(invitation: ClientInvitation) -> None:
    try:
        await invitation.withdraw()
    except NodeClosed:  # and the code with it
        return


@enrol.command("join")
@click.argument("code")
@click.argument("url")
@_as_option
@_send_option
@click.option("--name", "own_name", metavar="NAME", help="What this node calls itself, if no process runs it.")
@click.option(
    "--address", "addresses", multiple=True, metavar="URL", help="Where this node will listen, if no process runs it."
)
@click.option(
    "--timeout", type=FloatRange(min=0, min_open=True), metavar="S", help="Ask for S seconds; 30, if left out."
)
@suite_option
@tls_ca_option
@data_option
def join(
    *,
    code: str,
    url: str,
    name: str | None,
    patterns: tuple[str, ...],
    own_name: str | None,
    addresses: tuple[str, ...],
    timeout: float | None,
    suite: str,
    tls_ca: Path | None,
    data: Path,
) -> int:
    """Come to another node with a CODE. It listens at URL: udp://host:port or tcp://host:port.

    The process that runs the node of that data directory does it, with its own name, addresses and settings; if none
    does, this command does, and the key is made if there is none yet.
    """
    return run(
        _join(
            data,
            lambda node: node.enrol(code, url, name=name, send=patterns or None, timeout=timeout),
            lambda: enrol_at_rest(
                data,
                code,
                url,
                own_name=name_for(own_name, data),
                addresses=addresses,
                name=name,
                may_send=patterns or None,
                timeout=timeout,
                suite=suite,
                tls=read_tls(authority=tls_ca),
            ),
        )
    )


async def _join(
    data: Path,
    by_process: Callable[[triack.Client], Awaitable[EnrolledPeer]],
    at_rest: Callable[[], Awaitable[EnrolledPeer]],
) -> int:
    client = triack.connect(data, patience=0)
    try:
        await client.start()
    except NodeClosed:
        _tell(await at_rest())
        return 0
    try:
        _tell(await by_process(client))
    finally:
        await client.close()
    return 0


def _tell(peer: EnrolledPeer) -> None:
    click.echo(" ".join([f"trusts {peer.name}", *([f"at {peer.addresses[0]}"] if peer.addresses else [])]))
