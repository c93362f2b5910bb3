"""``triack systemd``: a unit that runs ``triack serve`` with little more than it needs."""

import shlex
import shutil
import sys
from pathlib import Path

import click

from triack.base.names import check_name

__all__ = ["systemd", "unit"]

WATCHDOG_S = 30
"""Three times as long as a disk may hang before ``/healthz`` says so."""

_UNIT = """\
[Unit]
Description=Triack node {name}
Documentation=man:systemd.exec(5)
Wants=network-online.target time-sync.target
After=network-online.target time-sync.target
# However often it has ended, it is started again: by default systemd gives up after five times in ten seconds.
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
WatchdogSec={watchdog}
{user}ExecStart={command}
# Reads files of TLS again.
ExecReload=kill -HUP $MAINPID
StateDirectory=triack/{name}
StateDirectoryMode=0700
# Where the control socket is made, for commands of the same user and of root.
RuntimeDirectory=triack-{name}
RuntimeDirectoryMode=0700
UMask=0077
Restart=always
RestartSec=1
TimeoutStopSec=20
LimitCORE=0
NoNewPrivileges=yes
{hardening}
[Install]
WantedBy={target}
"""
_HARDENING = """\
ProtectSystem=strict
ProtectHome=yes
ProtectProc=invisible
ProtectClock=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectControlGroups=yes
PrivateDevices=yes
PrivateTmp=yes
RemoveIPC=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
CapabilityBoundingSet=
"""
"""Not for units of a user: their service manager lacks the privileges for most of them (systemd.exec(5))."""


def unit(name: str, arguments: tuple[str, ...], *, user: str | None, program: tuple[str, ...]) -> str:
    """The text of a unit.

    Args:
        name: of the node.
        arguments: of ``triack serve``; without ``--data``, the unit's own state directory is added.
        user: the user that it runs as; None for a unit of the service manager of a user.
        program: the command line before ``serve``.
    """
    wanted = ["serve", *arguments]
    if "--name" not in arguments:
        wanted += ["--name", name]
    command = " ".join(_quoted(part) for part in (*program, *wanted))
    if not any(part == "--data" or part.startswith("--data=") for part in arguments):
        command += f" --data %S/triack/{name}"
    return _UNIT.format(
        name=name,
        watchdog=WATCHDOG_S,
        user="" if user is None else f"User={user}\n",
        command=command,
        hardening="" if user is None else _HARDENING,
        target="default.target" if user is None else "multi-user.target",
    )


def _quoted(part: str) -> str:
    """A word of ExecStart, as systemd.syntax(7) quotes it: specifiers and variables in it mean nothing."""
    if part and set(part) <= _PLAIN:
        return part
    escaped = part.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$").replace("\n", "\\n")
    return f'"{escaped}"'


_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=@,+[]")


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--name", required=True, metavar="NAME", help="Name of the node.")
@click.option("--user", "is_user", is_flag=True, help="A unit of your own service manager, and not of the system's.")
@click.option("--run-as", metavar="USER", default="triack", help="The user that runs it.  [default: triack]")
@click.option(
    "--to", "folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path), help="Write the unit there."
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[--] [OPTIONS OF SERVE]...")
def systemd(*, name: str, is_user: bool, run_as: str, folder: Path | None, arguments: tuple[str, ...]) -> int:
    """Write a unit for systemd that runs `triack serve` with these options.

    Without --to it is printed. Without --data among the options of serve, the node has a directory of its own below
    /var/lib/triack, or below the state directory of the user.
    """
    check_name(name)
    text = unit(name, arguments, user=None if is_user else run_as, program=_program())
    if folder is None:
        click.echo(text, nl=False)
        return 0
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"triack-{name}.service"
    path.write_text(text, encoding="utf-8")
    reload = "systemctl --user daemon-reload" if is_user else "systemctl daemon-reload"
    click.echo(
        f"{path}\nthen: {reload} && {reload.split(' daemon', maxsplit=1)[0]} enable --now {shlex.quote(path.stem)}"
    )
    return 0


def _program() -> tuple[str, ...]:
    found = shutil.which("triack")
    return (str(Path(found).absolute()),) if found else (sys.executable, "-m", "triack")
