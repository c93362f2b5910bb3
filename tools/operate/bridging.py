"""Bridges to brokers: those of the settings, which ``triack serve`` runs, and ``triack bridge``, which runs one."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import triack
from triack.base.errors import UsageError
from triack.node.config.bridge_table import BridgeTable
from triack.node.control.tasks import first_of
from triack.node.files import operator_log
from triack.node.node import Node, on_reload, port_of
from triack.tools.commands.common import CommandGroup, existing_data_option, on_signals, run, verbose_option

if TYPE_CHECKING:
    from triack.bridges import Bridge

START_S = 10.0
"""How long ``triack bridge`` waits for the node when it begins; a unit may start both together."""


CLIENTS = {"mqtt": "gmqtt", "amqp": "aiormq"}


def check_extra(table: BridgeTable) -> None:
    """Raises UsageError when the client of the protocol is not installed."""
    client = CLIENTS[table.kind]
    if find_spec(client) is None:
        raise UsageError(f"run a bridge: {client} is not installed here: pip install 'triack[{table.kind}]'")


class Bridges:
    """Runs the bridges of the settings of a node, also after they were read again."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._running: dict[str, tuple[Bridge, asyncio.Task[None]]] = {}

    @asynccontextmanager
    async def running(self, tables: Iterable[BridgeTable]) -> AsyncIterator[None]:
        """Run bridges, and follow the settings, until the block ends."""
        self.change(tables)
        on_reload(self._node, lambda config: self.change(config.bridges))
        try:
            yield
        finally:
            on_reload(self._node, lambda _config: None)
            await asyncio.gather(*map(self._end, list(self._running)), return_exceptions=True)

    def change(self, tables: Iterable[BridgeTable]) -> None:
        """End the bridges that are not wanted any more or have changed, and start the others."""
        wanted = {table.name: table for table in tables}
        before: dict[str, asyncio.Task[None]] = {}
        for name in [name for name, (it, _) in self._running.items() if wanted.get(name) != it.table]:
            before[name] = self._end(name)
        for name in [name for name in wanted if name not in self._running]:
            try:
                check_extra(wanted[name])
            except UsageError as error:
                operator_log.error(f"bridge {name}: {error}", bridge=name)
            else:
                self._start(wanted[name], before.get(name))

    def _start(self, table: BridgeTable, before: "asyncio.Task[None] | None") -> None:
        from triack.bridges import Bridge

        it = Bridge(self._node, table)

        async def work() -> None:
            if before is not None:  # with whose session and memory it continues
                await asyncio.wait((before,))
            await it.run()

        self._running[table.name] = it, asyncio.create_task(work(), name=f"triack-bridge-{table.name}")
        port_of(self._node).bridges[table.name] = it.stats

    def _end(self, name: str) -> "asyncio.Task[None]":
        _, task = self._running.pop(name)
        del port_of(self._node).bridges[name]
        task.cancel()
        return task


@click.group(cls=CommandGroup)
def bridge() -> None:
    """Run one bridge between a node and a broker, by hand; [[bridges]] in triack.toml has those of `triack serve`."""


def _options_of_all(command: Callable[..., int]) -> Callable[..., int]:
    """What bridges of every protocol have."""
    for option in (
        existing_data_option,
        verbose_option,
        click.option(
            "--tls-ca", default="", metavar="FILE", help="With TLS: the authority of the broker's certificate."
        ),
        click.option("--password-file", default="", metavar="FILE", help="A file with the password."),
        click.option("--user", default="", help="User at the broker."),
        click.option("--name", default="by-hand", help="Name of the bridge.  [default: by-hand]"),
        click.option(
            "--in-flight", type=click.IntRange(1), default=100, help="Unacknowledged messages.  [default: 100]"
        ),
    ):
        command = option(command)
    return command


@bridge.command()
@click.argument("url", metavar="URL")
@click.option("--take", multiple=True, metavar="RULE", help="From the broker: 'sensors/{site}/# -> cloud/telemetry'.")
@click.option("--give", multiple=True, metavar="RULE", help="To the broker: 'commands -> plant/{machine}/set'.")
@click.option("--key", default="", metavar="RULE", help="Makes keys of what is taken, such as '{topic} {json.seq}'.")
@click.option("--qos", type=click.IntRange(0, 2), default=1, help="Of both directions.  [default: 1]")
@click.option("--retain", is_flag=True, help="Let the broker retain what it is given.")
@click.option("--client-id", default="", help="Names the session at the broker; without it, made of both names.")
@_options_of_all
def mqtt(*, url: str, data: Path, take: tuple[str, ...], give: tuple[str, ...], **given: Any) -> int:
    """Pass messages on between the broker at URL, mqtt://HOST:PORT or mqtts://HOST:PORT, and the node of a directory.

    The node must run. Prints "connected URL" when it has subscribed. Ends with a signal; the broker then keeps what
    comes, as long as its session lasts, and this command takes it when it is started again with the same name.
    """
    return _run(data, BridgeTable(mqtt=url, take=list(take), give=list(give), **given))


@bridge.command()
@click.argument("url", metavar="URL")
@click.option("--take", multiple=True, metavar="RULE", help="From a queue of the broker: 'orders -> cloud/orders'.")
@click.option("--give", multiple=True, metavar="RULE", help="To an exchange: 'commands -> plant/machine.{machine}'.")
@click.option("--key", default="", metavar="RULE", help="Makes keys of what has no message id, such as '{json.seq}'.")
@click.option("--mandatory/--no-mandatory", default=True, help="Refuse what leads to no queue.  [default: mandatory]")
@click.option(
    "--by-message-id/--no-by-message-id", default=True, help="Take message ids as keys.  [default: take them]"
)
@_options_of_all
def amqp(*, url: str, data: Path, take: tuple[str, ...], give: tuple[str, ...], **given: Any) -> int:
    """Pass messages on between the broker at URL, amqp://HOST:PORT/VHOST or amqps://..., and the node of a directory.

    The node must run. Prints "connected URL" when the broker sends. Ends with a signal; what was not acknowledged
    stays in the queues of both sides.
    """
    return _run(data, BridgeTable(amqp=url, take=list(take), give=list(give), **given))


def _run(data: Path, table: BridgeTable) -> int:
    check_extra(table)
    return run(_by_hand(data, table))


async def _by_hand(data: Path, table: BridgeTable) -> int:
    from triack.bridges import Bridge

    stopping = asyncio.Event()
    on_signals(lambda _number: stopping.set())
    async with triack.connect(data, patience=None, start_timeout=START_S) as node:
        it = Bridge(node, table)

        async def tell() -> None:
            await it.up.wait()
            click.echo(f"connected {table.broker}")
            sys.stdout.flush()
            await stopping.wait()

        await first_of(it.run(), tell(), stopping.wait())
        found = it.stats()
        click.echo(f"taken {found.taken}, given {found.given}, repeated {found.repeated}, refused {found.refused}")
    return 0
