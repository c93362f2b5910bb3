"""``triack support``: what another person needs to understand a node's trouble, and none of its messages or keys."""

import io
import json
import platform
import re
import sys
import tarfile
import time
from dataclasses import asdict
from importlib import metadata
from pathlib import Path

import apsw
import click

import triack
from triack.base.errors import TriackError
from triack.node.files.log_file import Recorded
from triack.node.files.notes import read_signed_note
from triack.tools.commands.common import data_option_of, run
from triack.tools.commands.visiting import Host, stats_of, visit
from triack.tools.operate.doctor import examine

LOG_BYTES_MAX = 256 * 1024
"""Of the newest segment of the session log: some thousand records, and little to send by mail."""
LIBRARIES = ("apsw", "asyncio-dgram", "cryptography", "click", "rich", "structlog", "prometheus-client", "uvloop")
_KEYS = re.compile(r"(triack-(?:public|private|shared)-)[a-z2-7]+", re.IGNORECASE)
"""Public ones too: they name their owners to every reader of the file."""


@click.command()
@click.option(
    "--to", "path", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="A new file, .tar.gz."
)
@data_option_of(click.Path(exists=True, path_type=Path), "Data directory.")
def support(*, path: Path | None, data: Path) -> int:
    """Write a bundle for support: versions, status, the doctor's findings, and the end of the session log.

    It has no bodies, labels or headers of messages, and no keys. It has names of nodes, peers and queues, and
    addresses: look through it before you send it.
    """
    target = path or Path(f"triack-support-{time.strftime('%Y%m%d-%H%M%S')}.tar.gz")
    files: dict[str, str] = {}

    async def work(node: Host) -> int:
        files.update(await gather(node, data))
        return 0

    async def both() -> int:
        try:
            await visit(data, work, only_looks=True)
        except TriackError as error:
            files["status.txt"] = f"{error}\n"
        files["doctor.jsonl"] = "".join([f"{json.dumps(asdict(it))}\n" async for it in examine(data)])
        return 0

    run(both())
    files |= {"versions.json": _versions(), "session-log.jsonl": _log_end(data)}
    _write(target, files)
    click.echo(f"{target}: {', '.join(sorted(files))}")
    return 0


async def gather(node: Host, data: Path) -> dict[str, str]:
    """What a node says of itself, by the name of the file."""
    about = {"directory": str(data), "name": node.name, "node_id": node.node_id, "listening": node.address or None}
    return {"status.json": json.dumps(about | asdict(await stats_of(node)), indent=1, default=str)}


def _versions() -> str:
    installed = {}
    for name in LIBRARIES:
        try:
            installed[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            installed[name] = "not installed"
    found = {
        "triack": triack.__version__,
        "python": sys.version,
        "platform": platform.platform(),
        "sqlite": apsw.sqlite_lib_version(),
        "libraries": installed,
    }
    return json.dumps(found, indent=1)


def _log_end(data: Path) -> str:
    """The last records of the session log, which has no content of messages; empty without one."""
    recorded = read_signed_note(data, Recorded)
    if recorded is None:
        return ""
    folder = Path(recorded[0].log)
    segments = sorted(folder.rglob(f"{recorded[0].name}-*.jsonl*"), key=lambda it: it.stat().st_mtime)
    if not segments:
        return ""
    with segments[-1].open("rb") as file:
        first = file.readline()
        size = file.seek(0, io.SEEK_END)
        file.seek(max(len(first), size - LOG_BYTES_MAX))
        rest = file.read()
    return first.decode(errors="replace") + rest.decode(errors="replace")


def _write(path: Path, files: dict[str, str]) -> None:
    with path.open("xb") as file, tarfile.open(fileobj=file, mode="w:gz") as bundle:
        for name, text in sorted(files.items()):
            content = _KEYS.sub(r"\1...", text).encode(errors="replace")
            entry = tarfile.TarInfo(f"triack-support/{name}")
            entry.size, entry.mode, entry.mtime = len(content), 0o600, int(time.time())
            bundle.addfile(entry, io.BytesIO(content))
    path.chmod(0o600)
