"""``triack request``: one message, and the answer to it."""

import sys
from pathlib import Path

import click

from triack.queues.messages import MAX_BODY_BYTES
from triack.tools.commands.common import (
    FloatRange,
    existing_data_option,
    json_line,
    json_option,
    peer_option,
    read_pairs,
    read_peers,
    run,
    suite_option,
    verbose_option,
)
from triack.tools.commands.visiting import calling


@click.command()
@verbose_option
@click.argument("destination", metavar="DEST")
@click.argument("body", required=False)
@click.option(
    "--timeout", type=FloatRange(min=0, min_open=True), default=60.0, metavar="S", help="Wait S seconds for the answer."
)
@click.option("--label", metavar="TEXT", help="Label of the request.")
@click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header; may be repeated.")
@peer_option
@suite_option
@json_option
@existing_data_option
def request(
    *,
    destination: str,
    body: str | None,
    timeout: float,
    label: str | None,
    headers: tuple[str, ...],
    peers: tuple[str, ...],
    suite: str,
    data: Path,
    as_json: bool,
) -> int:
    """Send BODY, or standard input as a whole, and write the answer to it.

    Works through the process that runs the node; without one, the command opens the directory itself. It fails if no
    answer comes in time: the receiver answers with `reply`.
    """
    content = sys.stdin.buffer.read(MAX_BODY_BYTES + 1) if body is None else body.encode()
    properties = {"label": label, "headers": read_pairs("--header", headers) or None}
    wanted = {name: value for name, value in properties.items() if value is not None}

    async def work() -> int:
        async with calling(data, read_peers(peers), suite) as node:
            answer = await node.request(destination, content, timeout=timeout, **wanted)  # type: ignore[arg-type]
        if as_json:
            text = answer.body.decode(errors="replace")
            click.echo(json_line({"body": text, "label": answer.label, "headers": answer.headers}))
        else:
            sys.stdout.buffer.write(answer.body)
            sys.stdout.buffer.write(b"" if answer.body.endswith(b"\n") else b"\n")
            sys.stdout.buffer.flush()
        return 0

    return run(work())
