"""What the commands share: options, signals, logging."""

import asyncio
import contextlib
import json
import logging
import math
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterable, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from triack.base.errors import AddressError, KeyUnreadable
from triack.base.names import check_name, what_else
from triack.base.printable import escaped_json
from triack.node.config.config import Sources
from triack.node.config.layers import CONFIG_VARIABLE, variable_of
from triack.node.files import operator_log
from triack.node.files.access import DEFAULT_SUITE, SUITES
from triack.node.files.keys import KeyKind, decode_key
from triack.node.files.log_file import Recorded
from triack.node.files.notes import read_signed_note
from triack.node.files.ownership import is_folder_of
from triack.node.files.tls_files import TlsFiles
from triack.node.shell import event_loop
from triack.tools.cli import DESTROYING
from triack.tools.operate.contexts import chosen_data
from triack.transport.address import Address

if TYPE_CHECKING:
    from rich.console import Console

F = TypeVar("F", bound=Callable[..., Any])

EXIT_SIGNAL = 128
PIPED_COLUMNS = 100_000
"""Wider than any table: a program that reads a pipe line by line needs unbroken lines."""
_DATA_VARIABLE = variable_of(("node", "data"))
_WHICH_NODE = "Give the directory of the node, or choose a node for all commands with `triack context`"
_LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)


_LOG_FORMAT = "triack.log-format"

existing_file = click.Path(exists=True, dir_okay=False, path_type=Path)


class CommandGroup(click.Group):
    """Commands of one kind. For a mistyped one it suggests the nearest, unless that destroys something."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is meant. Raises UsageError when there is none of that name."""
        name = args[0]
        if name in self.commands or name.startswith("-"):
            return super().resolve_command(ctx, args)
        harmless = self.commands.keys() - DESTROYING
        raise click.UsageError(f"no such command {name}; {what_else(name, harmless)}", ctx)


class FloatRange(click.FloatRange):
    """A number within bounds. ``nan``, which is within all of them, and ``inf`` are refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a number", param, ctx)
        return number


class PublicKey(click.ParamType[bytes]):
    """The text of a public key, as an argument of a command."""

    name = "key"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        """Its bytes."""
        try:
            return decode_key(KeyKind.PUBLIC, value)
        except KeyUnreadable as error:
            self.fail(str(error), param, ctx)


class _Lines(logging.Formatter):
    """Renders log entries as structlog does; structlog is imported with the first line, as most runs have none."""

    _renderer: logging.Formatter | None = None

    def __init__(self, *, as_json: bool = False) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        if self._renderer is None:
            from structlog import dev, processors, stdlib

            as_json = self._as_json
            when = processors.TimeStamper("iso" if as_json else "%Y-%m-%d %H:%M:%S", utc=as_json)
            to_json = processors.JSONRenderer(serializer=_to_json)
            self._renderer = stdlib.ProcessorFormatter(
                foreign_pre_chain=[stdlib.add_log_level, stdlib.ExtraAdder(), _leave_out_what_says_nothing, when],
                processors=[
                    stdlib.ProcessorFormatter.remove_processors_meta,
                    to_json if as_json else dev.ConsoleRenderer(colors=sys.stderr.isatty()),
                ],
            )
        return self._renderer.format(record)


def _to_json(line: Any, **_how: Any) -> str:
    return escaped_json(json.dumps(line, ensure_ascii=False, default=str))


def _leave_out_what_says_nothing(_log: Any, _level: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Remove from a line what is empty, and a cause that the sentence has already."""
    said = str(line["event"])
    return {name: it for name, it in line.items() if it not in ({}, "") and not (name == "cause" and it in said)}


def log_to_stderr(verbosity: int = 0) -> None:
    """Send operational logs to standard error: warnings, with 1 what happens, with 2 everything."""
    log = logging.getLogger(operator_log.NAME)
    log.setLevel(_LEVELS[min(verbosity, len(_LEVELS) - 1)])
    for handler in list(log.handlers):
        if isinstance(handler.formatter, _Lines):
            log.removeHandler(handler)
    context = click.get_current_context(silent=True)
    handler = operator_log.PatientHandler(sys.stderr)
    handler.setFormatter(_Lines(as_json=context is not None and context.meta.get(_LOG_FORMAT) == "json"))
    log.addHandler(handler)


def log_in_json() -> None:
    """Write each operational log entry as a JSON object from now on, unless --log-format says otherwise."""
    _set_format(click.get_current_context(), None, click.get_current_context().meta.get(_LOG_FORMAT, "json"))


def _set_format(context: click.Context, _parameter: click.Parameter | None, chosen: str | None) -> None:
    if chosen is None:
        return
    context.meta[_LOG_FORMAT] = chosen
    for handler in logging.getLogger(operator_log.NAME).handlers:
        if isinstance(handler.formatter, _Lines):
            handler.setFormatter(_Lines(as_json=chosen == "json"))


def _set_level(_context: click.Context, _parameter: click.Parameter, count: int) -> None:
    log_to_stderr(count)


class Directory(click.Path):
    """The directory of a node. The empty name of an unset variable is not the working directory."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Its path."""
        if not str(value):
            self.fail("it is empty", param, ctx)
        return super().convert(value, param, ctx)


def data_said() -> Path | None:
    """The directory of the variable of node.data, or of the file of TRIACK_CONFIG; or None. Raises ConfigError."""
    said, file = os.environ.get(_DATA_VARIABLE), os.environ.get(CONFIG_VARIABLE)
    if not said and file:
        said = Sources(Path(file), {}).read().node.data
    return None if not said or said == "none" else Path(said).absolute()


def data_option_of(kind: click.Path, help_text: str, *, required: bool = True) -> Callable[[F], F]:
    """The option for the data directory of a node, which the environment or the context in use may name as well.

    With ``required=False`` the command reads the context itself, after what else names a node.
    """

    def find(context: click.Context, option: click.Parameter, given: Path | None) -> Path | None:
        if given is not None:
            return given
        said = data_said() or (chosen_data() if required else None)
        if said is not None:
            return Path(str(kind.convert(said, option, context)))
        if required:
            raise click.MissingParameter(_WHICH_NODE, ctx=context, param=option)
        return None

    return click.option(
        "--data",
        callback=find,
        metavar="DIR",
        type=kind,
        help=f"{help_text}  [env: {variable_of(('node', 'data'))}, {CONFIG_VARIABLE}; or a context]",
    )


data_option = data_option_of(
    Directory(file_okay=False, path_type=Path), "Data directory of the node; made when it does not exist."
)
existing_data_option = data_option_of(
    Directory(file_okay=False, exists=True, path_type=Path), "Data directory of the node."
)
verbose_option = click.option(
    "-v", "--verbose", count=True, expose_value=False, callback=_set_level, help="More of what happens; twice for all."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Write JSON: one object a line.")
peer_option = click.option(
    "--peer", "peers", multiple=True, metavar="NAME=URL", help="A name for an address, for NAME/queue; may be repeated."
)
suite_option = click.option(
    "--suite", type=click.Choice(sorted(SUITES)), default=DEFAULT_SUITE, help="Cipher and hash; the same at all peers."
)
tls_ca_option = click.option(
    "--tls-ca",
    metavar="FILE",
    type=existing_file,
    help="Open TCP with TLS, to servers with certificates of this authority.",
)
log_option = click.option(
    "--log", metavar="DIR", type=click.Path(file_okay=False, path_type=Path), help="Record a session log for `replay`."
)
log_format_option = click.option(
    "--log-format",
    type=click.Choice(["console", "json"]),
    expose_value=False,
    callback=_set_format,
    help="How to write log lines on standard error: for people, or as JSON.",
)
insecure_option = click.option("--insecure", is_flag=True, help="Run without keys: loopback only.")


def node_options(command: F) -> F:
    """Add the options of every command that opens a node."""
    for option in (verbose_option, log_format_option, insecure_option, log_option, data_option):
        command = option(command)
    return command


def given_options() -> list[str]:
    """The options that the user gave to the running command, as they are written, and its arguments."""
    context = click.get_current_context(silent=True)
    if context is None:
        return []
    given = click.core.ParameterSource.COMMANDLINE
    return [it.opts[0] for it in context.command.params if context.get_parameter_source(str(it.name)) is given]


def console_on(*, stderr: bool = False) -> "Console":
    """Where text for people goes. It breaks lines only for a terminal."""
    from rich.console import Console

    # Names are shown as they are: ``:a:`` in one is no picture.
    console = Console(stderr=stderr, emoji=False)
    if not console.is_terminal:
        console.soft_wrap = True
        console.width = PIPED_COLUMNS
    return console


def json_line(found: Any) -> str:
    """JSON as people read it: letters as they are; JSON escapes only what is not printable."""
    return escaped_json(json.dumps(found, ensure_ascii=False))


def read_pairs(option: str, values: tuple[str, ...]) -> dict[str, str]:
    """The ``NAME=VALUE`` of an option that may be repeated. Raises click's UsageError for what is none."""
    pairs: dict[str, str] = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not name or not equals:
            raise click.UsageError(f"{option} {value}: it must be NAME=VALUE", click.get_current_context(silent=True))
        pairs[name] = text
    return pairs


def read_peers(values: tuple[str, ...]) -> dict[str, str]:
    """Addresses by name, of ``--peer``. Raises AddressError for a name or an address that cannot be."""
    return {check_name(name): str(Address.parse(url)) for name, url in read_pairs("--peer", values).items()}


def read_tls(
    certificate: Path | None = None, key: Path | None = None, authority: Path | None = None
) -> TlsFiles | None:
    """The TLS settings from files that are followed; None without any. See ``TlsFiles``."""
    if key is not None and certificate is None:
        raise click.UsageError("--tls-key needs --tls-cert", click.get_current_context(silent=True))
    return None if certificate is authority is None else TlsFiles(certificate, key, authority)


def name_for(name: str | None, data: Path) -> str:
    """The name of a node: as given, or that of its data directory, or ``node``."""
    if name is not None:
        return check_name(name)
    try:
        return check_name(Path(os.path.realpath(data)).name)  # a loop of links has a name, too
    except AddressError:
        return "node"


def log_for(log: Path | None, data: Path) -> Path | None:
    """Where the node of a command records: where the options say, or else where its last start did.

    Otherwise a replay of that log would miss this start, and could prove nothing about it.
    """
    found = read_signed_note(data, Recorded) if log is None else None
    recorded = None if found is None else Path(found[0].log)
    if found is None or recorded is None or not recorded.is_dir():
        return log
    why = "permission denied"
    if not is_folder_of(recorded, found[1]):
        why = "it belongs to another user"
    elif os.access(recorded, os.W_OK | os.X_OK):
        return recorded
    operator_log.warning(f"open session log in {recorded}: {why}; what is done now is not in it")
    return None


def run(work: Coroutine[Any, Any, int]) -> int:
    """Run a command to its exit code. SIGINT and SIGTERM cancel it, so that its node is closed in good order."""
    return event_loop.run(_until_signal(work))


def on_signals(stop: Callable[[int], object]) -> None:
    """Call this with the number of each SIGINT and SIGTERM. On Windows, Ctrl-C cancels the command by itself."""
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(number, stop, number)


def on_hangup(read_again: Callable[[], object]) -> None:
    """Call this with each SIGHUP, with which service managers ask for a reload. Windows has no such signal."""
    with contextlib.suppress(NotImplementedError, AttributeError):
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, read_again)


async def _until_signal(work: Coroutine[Any, Any, int]) -> int:
    loop = asyncio.get_running_loop()
    task = loop.create_task(work)
    came: list[int] = []

    def stop(number: int) -> None:
        # Once is enough: closing is bounded, and a second cancellation would interrupt it.
        if not came:
            came.append(number)
            task.cancel()

    on_signals(stop)
    with contextlib.suppress(asyncio.CancelledError):
        code = await task
        if not came:
            return code
    return EXIT_SIGNAL + came[0] if came else 1


def write_table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """Write columns, each as wide as what is in it. A dash stands for None."""
    table = [["-" if cell is None else str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
