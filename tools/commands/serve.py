"""``triack serve``: a node that runs until a signal stops it."""

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

import triack
from triack.base.errors import AddressError, TriackError, UsageError
from triack.base.survival import SURVIVES
from triack.node.config.config import Config, Sources, said_routes
from triack.node.config.keys import KeyPath
from triack.node.config.layers import CONFIG_VARIABLE
from triack.node.files.access import SUITES
from triack.node.node import open_configured
from triack.node.shell import event_loop
from triack.tools.commands.common import (
    Directory,
    existing_file,
    insecure_option,
    json_option,
    log_format_option,
    log_in_json,
    log_option,
    name_for,
    on_hangup,
    on_signals,
    peer_option,
    read_peers,
    read_tls,
    tls_ca_option,
    verbose_option,
)
from triack.tools.commands.route import read_routes
from triack.tools.operate.bridging import Bridges, check_extra
from triack.tools.operate.notify import notifying, starting
from triack.transport.address import Address

_OPTIONS = {"queues": "--queue"}
_APART = ("window",)


@click.command()
@click.option(
    "--config", "file", metavar="FILE", type=existing_file, envvar=CONFIG_VARIABLE, help="Settings: triack.toml."
)
@click.option("--name", help="Name of the node, for people; without it, that of the data directory.")
@click.option(
    "--listen",
    metavar="URL",
    help="udp://host:port or tcp://host:port; port 0 takes a free one. Without it, the node only connects.",
)
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="The only queues it has; may be repeated.")
@click.option("--announce", metavar="URL", help="Where others find it, if not where it listens.")
@peer_option
@click.option(
    "--route",
    "routes",
    multiple=True,
    metavar="TO=VIA[+VIA][,seal]",
    help="Messages for TO go by the peer VIA, or the first that answers, perhaps sealed; in order.",
)
@click.option("--policy", metavar="POLICY", help="Acknowledge as `triack policy list` has it.")
@click.option("--window", metavar="PACKETS", help='Packets of a session without acknowledgement; or "auto".')
@click.option("--survives", type=click.Choice(SURVIVES), help="What the store survives.")
@click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="Any key of triack.toml.")
@click.option("--suite", type=click.Choice(sorted(SUITES)), help="Cipher and hash; the same at all peers.")
@click.option("--tls-cert", metavar="FILE", type=existing_file, help="Accept TCP with TLS, with this certificate.")
@click.option("--tls-key", metavar="FILE", type=existing_file, help="Its private key, if that is in another file.")
@tls_ca_option
@click.option("--metrics", metavar="HOST:PORT", help="Serve metrics there for Prometheus, without authentication.")
@json_option
@verbose_option
@log_format_option
@insecure_option
@log_option
@click.option(
    "--data",
    metavar="DIR",
    type=Directory(file_okay=False, path_type=Path),
    help="Data directory of the node; made when it does not exist.",
)
def serve(
    *,
    file: Path | None,
    peers: tuple[str, ...],
    routes: tuple[str, ...],
    assignments: tuple[str, ...],
    as_json: bool,
    **given: Any,
) -> int:
    """Run a node until SIGTERM or SIGINT.

    Options beat variables such as TRIACK_NODE__LISTEN, which beat the file of --config; `triack config init` writes
    one with every key. With SIGHUP, or `triack reload`, the file is read again, and so are files of TLS.

    Prints "listening URL" when it is ready. While it runs, `triack send` and `triack receive` with the same --data work
    through it. Without --queue, a queue is made when the first message for it arrives. With --metrics it prints
    "metrics URL" next. With --json it prints an object with "listening", "name", "node_id" and, if asked for, "metrics"
    instead, and log lines are JSON. Under systemd it says when it is ready, when it stops, and, with WatchdogSec=, that
    its store works. `triack help log-lines` explains each line of its log, `triack help operations` what else to watch.
    """
    if as_json:
        log_in_json()
    import_module("structlog.stdlib")  # its first log line may report that there are no descriptors left
    arguments = _arguments(given, peers) | said_routes(read_routes(routes), "--route")
    assigned = tuple((text, "--set") for text in assignments)
    sources, config = _read(Sources(file, dict(os.environ), arguments, assigned))
    it = config.node
    check_served(config)
    tls = read_tls(*(None if path is None else Path(path) for path in (it.tls_cert, it.tls_key, it.tls_ca)))
    node = open_configured(sources, config, tls=tls)
    return event_loop.run(_serve(node, config, _hangup(node, file, tls), as_json=as_json))


def check_served(config: Config) -> None:
    """Raises what ``serve`` would end with: AddressError, or UsageError when an extra is missing."""
    it = config.node
    for bridge in config.bridges:
        check_extra(bridge)
    if it.listen is not None and Address.parse(it.listen, listening=True).scheme == "memory":
        raise AddressError(f"listen on {it.listen}: other processes cannot reach memory")
    if it.metrics is None:
        return
    try:
        Address.parse(f"tcp://{it.metrics}", listening=True)
    except AddressError as error:
        raise AddressError(f"metrics at {it.metrics}: {error}") from None
    if find_spec("prometheus_client") is None:
        raise UsageError("serve metrics: prometheus_client is not installed here: pip install 'triack[metrics]'")


def _arguments(given: Mapping[str, Any], peers: tuple[str, ...]) -> dict[KeyPath, tuple[object, str]]:
    found: dict[KeyPath, tuple[object, str]] = {
        ("peers", name, "address"): (address, "--peer") for name, address in read_peers(peers).items()
    }
    for name, value in given.items():
        if name not in _APART and value not in (None, (), False):
            plain = (
                list(value) if isinstance(value, tuple) else str(value.absolute()) if isinstance(value, Path) else value
            )
            found["node", name] = plain, _OPTIONS.get(name, f"--{name.replace('_', '-')}")
    window = given["window"]
    if window is not None:
        found["session", "max_unacked_packet"] = int(window) if window.isdecimal() else window, "--window"
    return found


def _read(sources: Sources) -> tuple[Sources, Config]:
    config = sources.read()
    if ("node", "data") not in config.said:
        why = "the data directory is missing: --data DIR, or data in [node] of the file of --config"
        raise click.UsageError(why, click.get_current_context(silent=True))
    if config.node.name is None:
        name = name_for(None, Path(config.node.data or ""))
        sources = replace(sources, arguments={**sources.arguments, ("node", "name"): (name, "--data")})
        config = sources.read()
    return sources, config


def _hangup(node: triack.Node, file: Path | None, tls: Any) -> Callable[[], None]:
    """What SIGHUP does: everything that may have changed is read again, and the log has the result."""
    tasks: set[asyncio.Task[None]] = set()

    async def reload() -> None:
        with suppress(TriackError):  # the node has logged it
            await node.reload()

    def read_again() -> None:
        if tls is not None:
            tls.read_now()
        if file is not None:
            task = asyncio.create_task(reload(), name="triack-reload")
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    return read_again


async def _serve(node: triack.Node, config: Config, read_again: Callable[[], None], *, as_json: bool) -> int:
    metrics = config.node.metrics
    stopping = asyncio.Event()
    on_signals(lambda _number: stopping.set())
    on_hangup(read_again)
    async with AsyncExitStack() as stack:
        if not await _start(node, stack, stopping):
            return 0
        ready = {"listening": node.address}
        if metrics is not None:
            ready["metrics"] = await stack.enter_async_context(_exporting(node, metrics))
        if as_json:
            click.echo(json.dumps(ready | {"name": node.name, "node_id": node.node_id}))
        else:
            click.echo("\n".join(f"{what} {where or 'nowhere'}" for what, where in ready.items()))
        await stack.enter_async_context(Bridges(node).running(config.bridges))
        await stack.enter_async_context(notifying(node))
        error = await _until(stopping, node)
    if error is not None:
        raise error
    return 0


async def _start(node: triack.Node, stack: AsyncExitStack, stopping: asyncio.Event) -> bool:
    """Start a node that the stack closes. Returns whether it has started before it was to stop."""
    async with starting(node):
        start = asyncio.create_task(stack.enter_async_context(node))
        stop = asyncio.create_task(stopping.wait())
        try:
            await asyncio.wait((start, stop), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
            start.cancel()  # which has no effect on one that is done
            with suppress(asyncio.CancelledError):
                await start
    return not stopping.is_set()


def _exporting(node: triack.Node, place: str) -> AbstractAsyncContextManager[str]:
    from triack.metrics.exporter import exporting  # of an extra, see ``check_served``

    return exporting(node, place)


async def _until(stopping: asyncio.Event, node: triack.Node) -> TriackError | None:
    stop, failed = asyncio.create_task(stopping.wait()), asyncio.create_task(node.failed())
    await asyncio.wait((stop, failed), return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    failed.cancel()
    return failed.result() if failed.done() and not failed.cancelled() else None
