"""Large messages at the command line: files that ``triack send`` streams, and bodies that ``triack receive`` saves."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import click

import triack
from triack.base.errors import TriackError, UsageError, WaitTimeout
from triack.base.printable import counted, written
from triack.node.client.client import Client, client_on
from triack.node.shell.outgoing_message import MessageProperties
from triack.queues.messages import MAX_BODY_BYTES
from triack.tools.commands.succession import Succession

EXIT_LATE = 3


def has_large(files: Sequence[Path]) -> bool:
    """Whether one of these files is longer than a message that is sent at once."""
    return any(file.is_file() and file.stat().st_size > MAX_BODY_BYTES for file in files)


@asynccontextmanager
async def _client(
    data: Path, open_node: Callable[[], triack.Node], *, passing: bool = True
) -> AsyncIterator[tuple[Client, Succession]]:
    async with Succession(data, open_node, passing=passing) as succession:
        client, welcome = await client_on(await succession.first(), data)
        succession.handle_welcome(welcome)
        try:
            yield client, succession
        finally:
            await client.close()


async def stream_files(
    data: Path,
    open_node: Callable[[], triack.Node],
    destination: str,
    files: Sequence[Path],
    *,
    delivery: triack.Delivery,
    until: triack.Stage,
    timeout: float | None,
    properties: MessageProperties,
) -> int:
    """Send each file as one message, however large, in order, and wait for each. Returns the exit code."""
    if any(str(file) == "-" for file in files):
        raise UsageError("--file -: standard input goes with files of at most 4 MiB; save it to a file first")
    async with _client(data, open_node) as (client, _):
        sent: list[Path] = []
        try:
            async with asyncio.timeout(timeout):
                for file in files:
                    receipt = await client.send_stream(destination, file, delivery=delivery, **properties)
                    sent.append(file)
                    await receipt.reached(until)
        except TimeoutError:
            late = f"{counted(len(sent), 'file')} of {len(files)} sent after {written(timeout or 0)} s"
            click.echo(f"triack: {late}", err=True)
            return EXIT_LATE if len(sent) == len(files) else 1
        except TriackError as error:
            raise TriackError(f"{files[min(len(sent), len(files) - 1)]}: {error}") from error
    return 0


async def save_messages(
    data: Path,
    open_node: Callable[[], triack.Node],
    queue: str,
    target: Path,
    *,
    count: int | None,
    timeout: float | None,
    passing: bool,
) -> int:
    """Write the body of each message to a file; it leaves the queue after that. Returns the exit code.

    A folder gets a file for each message, named by its id; any other target is the file of one message.
    """
    is_folder = target.is_dir()  # noqa: ASYNC240 - before anything else runs
    most = count if is_folder else 1
    if not is_folder and count not in (None, 1):
        raise UsageError(f"--save {target}: {count} messages need a folder that exists")
    saved = 0
    async with _client(data, open_node, passing=passing) as (client, _), client.receive(queue, ack="manual") as reader:
        while most is None or saved < most:
            try:
                message = await reader.get(timeout)
            except WaitTimeout:
                if most is None:
                    return 0
                raise
            file = target / message.id if is_folder else target
            size = await message.save(file)
            message.ack()
            saved += 1
            click.echo(f"{file} {size}")
        with contextlib.suppress(TriackError):
            await client.flush()
    return 0
