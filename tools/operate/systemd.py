"""``triack systemd``: a unit that runs ``triack serve`` with little more than it needs."""

import shlex
import shutil
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

import click

from triack.base.errors import UsageError
from triack.base.names import check_name

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
{writable}ProtectHome={home}
ProtectProc=invisible
ProtectClock=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectControlGroups=yes
PrivateDevices=yes
PrivateTmp={tmp}
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

_HOMES = ("/home", "/root", "/run/user")
_HIDDEN = {**dict.fromkeys(_HOMES, "ProtectHome"), **dict.fromkeys(("/tmp", "/var/tmp"), "PrivateTmp")}  # noqa: S108
"""What the hardening hides from the node, and the setting that does so (systemd.exec(5))."""
_PATHS = ("data", "log", "tls_cert", "tls_key", "tls_ca")
_WRITTEN = ("data", "log")


def unit(
    name: str,
    arguments: tuple[str, ...],
    *,
    user: str | None,
    program: tuple[str, ...],
    paths: dict[str, str] | None = None,
) -> str:
    """The text of a unit."""
    paths = paths or {}
    wanted = ["serve", *arguments]
    if "--name" not in arguments:
        wanted += ["--name", name]
    command = " ".join(_quoted(part) for part in (*program, *wanted))
    if "data" not in paths and not any(part == "--data" or part.startswith("--data=") for part in arguments):
        command += f" --data %S/triack/{name}"
    return _UNIT.format(
        name=name,
        watchdog=WATCHDOG_S,
        user="" if user is None else f"User={user}\n",
        command=command,
        hardening="" if user is None else _hardening(name, user, program, paths),
        target="default.target" if user is None else "multi-user.target",
    )


def _hardening(name: str, user: str, program: tuple[str, ...], paths: dict[str, str]) -> str:
    written = [paths[key] for key in _WRITTEN if key in paths]
    others = [it for it in written if not Path(it).is_relative_to(f"/var/lib/triack/{name}")]
    writable = ""
    if others:
        words = " ".join(_quoted(it, "%") for it in others)
        made = shlex.join(["install", "-d", "-m", "0700", "-o", user, *others]).replace("\n", " ")
        writable = f"# Make them before the start: {made}\nReadWritePaths={words}\n"
    home = tmp = "yes"
    hidden = {_hidden(Path(part)) for part in (program[0], sys.executable)} - {""}
    if hidden:
        writable += (
            f"# The program is in {', '.join(sorted(hidden))}, so the node sees that: better install it elsewhere.\n"
        )
        home = "read-only" if hidden & set(_HOMES) else home
        tmp = "yes" if hidden <= set(_HOMES) else "no"
    return _HARDENING.format(writable=writable, home=home, tmp=tmp)


def _hidden(path: Path) -> str:
    """The directory with a path, also behind links, that a hardened unit hides; empty if there is none."""
    both = path, path.resolve()
    return next((it for it in _HIDDEN if any(one.is_relative_to(it) for one in both)), "")


def _quoted(part: str, expanded: Collection[str] = "%$") -> str:
    """A word, as systemd.syntax(7) quotes it: specifiers and, in ExecStart, variables in it mean nothing."""
    if part and set(part) <= _PLAIN:
        return part
    escaped = part.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    for character in expanded:
        escaped = escaped.replace(character, 2 * character)
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

    Without --to it is printed. Without a data directory among the options of serve, or in the file of its --config, the
    node has its own below /var/lib/triack, or below the state directory of the user.
    """
    check_name(name)
    paths = _paths_of(arguments, name, is_user=is_user)
    text = unit(name, arguments, user=None if is_user else run_as, program=_program(), paths=paths)
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


def _paths_of(arguments: tuple[str, ...], name: str, *, is_user: bool) -> dict[str, str]:
    """The paths that options of ``serve`` name, by their keys. Raises UsageError for one that it would not find."""
    paths = {key: (said, path) for said, key, path in _named_paths(arguments)}
    for key, (said, path) in paths.items():
        if not Path(path).is_absolute():
            raise UsageError(f"{said}: systemd starts the node in another directory; say {Path(path).absolute()}")
        hidden = "" if is_user else _hidden(Path(path))
        if hidden:
            instead = "name a place elsewhere, as below /srv"
            if key == "data":
                instead = f"leave it out, and the node has /var/lib/triack/{name}"
            raise UsageError(
                f"{said}: the unit hides {hidden} from the node ({_HIDDEN[hidden]}); {instead}, or have --user write a "
                "unit of your own service manager, which hides nothing"
            )
    return {key: path for key, (_, path) in paths.items()}


def _named_paths(arguments: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    """The paths that options of ``serve`` name: their source, the key, and the path. Of one key, the last counts."""
    from triack.node.config.config import Sources
    from triack.tools.commands.serve import serve

    given = serve.make_parser(click.Context(serve)).parse_args(list(arguments))[0]
    file = given.get("file")
    if file is not None:
        yield f"--config {file}", "config", file
        if Path(file).is_file():
            node = Sources(Path(file)).read().node
            found = {key: path for key in _PATHS if (path := getattr(node, key)) is not None}
            yield from ((f"{key} = {path} in {file}", key, path) for key, path in found.items())
    for assigned in given.get("assignments", ()):
        key, _, value = assigned.partition("=")
        key, path = key.strip().removeprefix("node."), value.strip().strip("\"'")
        if key in _PATHS and path != "none":
            yield f"--set {assigned}", key, path
    yield from ((f"--{key.replace('_', '-')} {given[key]}", key, given[key]) for key in _PATHS if key in given)


def _program() -> tuple[str, ...]:
    found = shutil.which("triack")
    return (str(Path(found).absolute()),) if found else (sys.executable, "-m", "triack")
