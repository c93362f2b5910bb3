"""The command line: ``triack`` and ``python -m triack``.

Every failure that Triack knows is one line on standard error, ``triack: what went wrong``, and an exit code: 1 when it
did not work, 2 when it was asked for wrongly, 130 or 143 when a signal ended it.
"""

import importlib
import sys

import click

import triack
from triack.errors import TriackError, UsageError

__all__ = ["main"]

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

# Where each command is, and what the list of commands says of it. Modules are loaded when they are needed: some bring
# Spark along.
COMMANDS = {
    "serve": ("triack.tools.commands.serve:serve", "Run a node until it is told to stop."),
    "send": ("triack.tools.commands.send:send", "Send each line of standard input as a message."),
    "receive": ("triack.tools.commands.receive:receive", "Write each message of a queue as a line."),
    "demo": ("triack.tools.demo.command:demo", "Send messages over a bad network and prove that they arrived."),
    "replay": ("triack.tools.replay.command:replay", "Check session logs: nothing lost, repeated or reordered."),
}


class _Commands(click.Group):
    """Loads a command when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - the same
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - the same
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=_Commands, no_args_is_help=False)
@click.version_option(triack.__version__, prog_name="triack", message="%(prog)s %(version)s")
def cli() -> None:
    """Messages from machine to machine, exactly once, in order and durably, with no broker."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit."""
    sys.exit(_run(arguments))


def _run(arguments: list[str] | None) -> int:
    try:
        code = cli.main(arguments, prog_name="triack", standalone_mode=False)
    except click.UsageError as error:
        return _fail(error.format_message(), EXIT_USAGE)
    except click.ClickException as error:
        return _fail(error.format_message(), EXIT_FAILED)
    except UsageError as error:
        return _fail(str(error), EXIT_USAGE)
    except TriackError as error:
        return _fail(str(error), EXIT_FAILED)
    except BrokenPipeError:  # whoever read our output has gone, and needs no message
        sys.stdout = None  # type: ignore[assignment]  # nor a second try when Python ends
        return EXIT_FAILED
    except OSError as error:
        return _fail(str(error), EXIT_FAILED)
    except (click.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    return code if isinstance(code, int) else 0


def _fail(message: str, code: int) -> int:
    click.echo(f"triack: {' '.join(message.split())}", err=True)
    return code
