"""``triack serve``: a node that runs until a signal stops it."""

import asyncio
import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from importlib import import_module
from pathlib import Path

import click

import triack
from triack.base.errors import AddressError, TriackError, UsageError
from triack.base.names import check_name
from triack.node.shell import event_loop
from triack.tools.commands.common import (
    existing_file,
    json_option,
    log_in_json,
    name_for,
    node_options,
    on_hangup,
    on_signals,
    peer_option,
    read_peers,
    read_tls,
    suite_option,
    tls_ca_option,
)
from triack.tools.operate.notify import notifying
from triack.transport.address import Address

__all__ = ["serve"]


@click.command()
@click.option("--name", help="Name of the node, for people; without it, that of the data directory.")
@click.option(
    "--listen", required=True, metavar="URL", help="udp://host:port or tcp://host:port; port 0 takes a free one."
)
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="The only queues it has; may be repeated.")
@click.option("--announce", metavar="URL", help="Where others find it, if not where it listens.")
@peer_option
@suite_option
@click.option("--tls-cert", metavar="FILE", type=existing_file, help="Accept TCP with TLS, with this certificate.")
@click.option("--tls-key", metavar="FILE", type=existing_file, help="Its private key, if that is in another file.")
@tls_ca_option
@click.option("--metrics", metavar="HOST:PORT", help="Serve metrics there for Prometheus, without authentication.")
@json_option
@node_options
def serve(
    *,
    name: str | None,
    listen: str,
    queues: tuple[str, ...],
    announce: str | None,
    peers: tuple[str, ...],
    suite: str,
    tls_cert: Path | None,
    tls_key: Path | None,
    tls_ca: Path | None,
    metrics: str | None,
    as_json: bool,
    data: Path,
    log: Path | None,
    insecure: bool,
) -> int:
    """Run a node until SIGTERM or SIGINT.

    Files of TLS are read again when they have changed, or with SIGHUP; connections that are open stay as they are.
    Prints "listening URL" when it is ready. While it runs, `triack send` and `triack receive` with the same --data work
    through it. Without --queue, a queue is made when the first message for it arrives. With --metrics it prints
    "metrics URL" next. With --json it prints an object with "listening", "name", "node_id" and, if asked for, "metrics"
    instead, and log lines are JSON. Under systemd it says when it is ready, when it stops, and, with WatchdogSec=, that
    its store works.
    """
    if as_json:
        log_in_json()
    import_module("structlog.stdlib")  # its first log line may report that there are no descriptors left
    if Address.parse(listen, listening=True).scheme == "memory":
        raise AddressError(f"listen on {listen}: other processes cannot reach memory")
    tls = read_tls(tls_cert, tls_key, tls_ca)
    node = triack.open(
        name_for(name, data),
        data=data,
        listen=listen,
        log=log,
        insecure=insecure,
        queues=[check_name(queue) for queue in queues] or None,
        peers=read_peers(peers),
        announce=announce,
        suite=suite,
        tls=tls,
    )
    return event_loop.run(_serve(node, metrics, None if tls is None else tls.read_now, as_json=as_json))


async def _serve(
    node: triack.Node, metrics: str | None, read_again: Callable[[], None] | None, *, as_json: bool
) -> int:
    stopping = asyncio.Event()
    on_signals(lambda _number: stopping.set())
    on_hangup(read_again or (lambda: None))
    async with node, AsyncExitStack() as stack:
        ready = {"listening": node.address}
        if metrics is not None:
            ready["metrics"] = await stack.enter_async_context(_exporting(node, metrics))
        if as_json:
            click.echo(json.dumps(ready | {"name": node.name, "node_id": node.node_id}))
        else:
            click.echo("\n".join(f"{what} {where}" for what, where in ready.items()))
        await stack.enter_async_context(notifying(node))
        error = await _until(stopping, node)
    if error is not None:
        raise error
    return 0


def _exporting(node: triack.Node, place: str) -> AbstractAsyncContextManager[str]:
    try:
        from triack.metrics.exporter import exporting
    except ModuleNotFoundError as cause:
        raise UsageError(f"serve metrics: {cause.name} is not installed here: pip install 'triack[metrics]'") from cause
    return exporting(node, place)


async def _until(stopping: asyncio.Event, node: triack.Node) -> TriackError | None:
    stop, failed = asyncio.create_task(stopping.wait()), asyncio.create_task(node.failed())
    await asyncio.wait((stop, failed), return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    failed.cancel()
    return failed.result() if failed.done() and not failed.cancelled() else None
