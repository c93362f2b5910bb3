"""The command line: ``triack`` and ``python -m triack``.

Every failure that Triack knows is one line on standard error, ``triack: what went wrong``, and an exit code: 1 when it
did not work, 2 when it was asked for wrongly, 130 or 143 when a signal ended it.
"""

import importlib
import sys
from contextlib import suppress

import click

import triack
from triack.base.errors import ConfigError, TriackError, UsageError
from triack.base.names import nearest
from triack.base.printable import printable
from triack.node.files import operator_log
from triack.tools.compiled import is_compiled
from triack.tools.examples import with_examples

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
SAY_S = 2.0
"""How long standard error may take to be ready for the reason of a failure."""

# Where each command is, and what the list of commands says of it. Modules are loaded when they are needed: some bring
# Spark along.
COMMANDS = {
    "serve": ("triack.tools.commands.serve:serve", "Run a node until a signal stops it."),
    "send": ("triack.tools.commands.send:send", "Send each line of standard input as a message."),
    "receive": ("triack.tools.commands.receive:receive", "Write each message of a queue as a line."),
    "status": ("triack.tools.commands.status:status", "Show how a node is: its links, its disk, what is unread."),
    "reload": ("triack.tools.commands.config:reload", "Let a running node read its file of settings again."),
    "config": ("triack.tools.commands.config:config", "Check, show and begin files of settings, triack.toml."),
    "queue": ("triack.tools.commands.queue:queue", "Look into queues, and steer what waits in them."),
    "stream": ("triack.tools.commands.stream:stream", "Show why single streams do not move, and when they are sent."),
    "topic": ("triack.tools.commands.topic:topic", "Publish to topics, subscribe to them, and look at them."),
    "route": ("triack.tools.commands.route:route", "Show by which neighbours messages go, and why."),
    "trace": ("triack.tools.operate.trace:trace", "Say where a message is, or where it ended."),
    "bridge": ("triack.tools.operate.bridging:bridge", "Run a bridge between a node and a broker of MQTT or AMQP."),
    "request": ("triack.tools.operate.request:request", "Send one message, and write the answer to it."),
    "top": ("triack.tools.operate.top:top", "Watch a running node: its peers, its queues and their rates."),
    "check": ("triack.tools.operate.check:check", "Say in one line how a node is, for monitoring."),
    "ping": ("triack.tools.operate.ping:ping", "Measure how long a peer takes to answer."),
    "doctor": (
        "triack.tools.operate.doctor:doctor",
        "Examine machine, node and peers; say what to do.",
    ),
    "upgrade": (
        "triack.tools.operate.upgrade:upgrade",
        "Say whether this Triack reads a store, or what to do.",
    ),
    "support": ("triack.tools.operate.support:support", "Write a bundle for support, without messages and keys."),
    "systemd": ("triack.tools.operate.systemd:systemd", "Write a hardened unit that runs a node."),
    "keygen": ("triack.tools.commands.keygen:keygen", "Print the public keys of a node; made when it has none."),
    "trust": ("triack.tools.commands.trust:trust", "Say whom a node trusts, and where they are."),
    "msmq": ("triack.tools.operate.msmq:msmq", "Say which destination a name of MSMQ is."),
    "help": ("triack.tools.operate.pages:pages", "Print a page of the documentation, or find a word in all of them."),
    "context": ("triack.tools.operate.context:context", "Name nodes, so that no command needs --data twice."),
    "policy": ("triack.tools.commands.policy:policy", "Show the policies of acknowledgement that there are."),
    "enrol": ("triack.tools.commands.enrol:enrol", "Let two nodes come to trust each other by a one-time code."),
    "chaos": ("triack.tools.chaos.command:chaos", "Break everything in a simulated world, and check every promise."),
    "bench": ("triack.tools.bench.command:bench", "Measure how fast it is, beside what others would use instead."),
    "demo": ("triack.tools.demo.command:demo", "Send messages over a bad network and prove that they arrived."),
    "replay": ("triack.tools.replay.command:command", "Check session logs: nothing lost, repeated or reordered."),
    "log": ("triack.tools.commands.log:log", "Make Parquet files of session logs."),
    "completion": ("triack.tools.commands.completion:completion", "Let the shell complete commands and options."),
}

DESTROYING = frozenset({"prune", "purge", "remove"})
"""Commands that are never suggested for a mistyped one: a person who accepts a suggestion must not lose anything."""


class _Commands(click.Group):
    """Loads a command when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - the same
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        with_examples(command, cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            meant = nearest(name, COMMANDS.keys() - DESTROYING)
            raise click.UsageError(f"no such command {name}{f'; did you mean {meant}?' if meant else ''}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - the same
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=_Commands, no_args_is_help=False, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(
    triack.__version__, prog_name="triack", message=f"%(prog)s %(version)s{' compiled' if is_compiled() else ''}"
)
def cli() -> None:
    """Messages from machine to machine, exactly once, in order and durably, with no broker."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit."""
    sys.exit(_run(arguments))


def _run(arguments: list[str] | None) -> int:
    try:
        code = cli.main(arguments, prog_name="triack", standalone_mode=False)
    except BrokenPipeError:  # the reader of our output has gone, and needs no message
        sys.stdout = None  # nor a second try when Python ends
        return EXIT_FAILED
    except (click.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except click.UsageError as error:
        path = "triack" if error.ctx is None else error.ctx.command_path
        return _fail(f"{error.format_message().removesuffix('.')}; see {path} --help", error.exit_code)
    except click.ClickException as error:
        return _fail(error.format_message(), error.exit_code)
    except (TriackError, OSError) as error:
        code = EXIT_USAGE if isinstance(error, UsageError) else EXIT_FAILED
        for line in error.problems if isinstance(error, ConfigError) else [_told(error)]:
            _fail(line, code)
    return code if isinstance(code, int) else 0


def _told(error: TriackError | OSError) -> str:
    """The text of an error; for the system's errors, which have a number before it, the cause and its file."""
    if isinstance(error, TriackError) or not error.strerror:
        return str(error)
    return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"


def _fail(message: str, code: int) -> int:
    with suppress(OSError, ValueError):
        # The reader of a pipe may be slow, or have stopped: the end of a service must not wait for it.
        operator_log.write_within(sys.stderr, f"triack: {printable(' '.join(message.split()))}\n", SAY_S)
    return code
