"""The node of a data directory, for a command: through the process that runs it, or else by opening the directory."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import triack
from triack.base.errors import StoreError, StoreInUse, UsageError, WaitTimeout
from triack.node.control import handover
from triack.node.files import operator_log
from triack.node.files.keys import IDENTITY_FILE
from triack.node.files.trust import TRUST_FILE
from triack.node.node import open_at_rest
from triack.store.folder import STORE_FILE
from triack.tools.commands.common import existing_data_option, name_for, run

ANSWER_S = 10.0
"""A node that runs answers within milliseconds."""
Host = triack.Node | triack.Client
"""A node at rest, or the client of one that runs."""


async def visit(data: Path, work: Callable[[Host], Awaitable[int]], *, only_looks: bool = False) -> int:
    """Let a command work with the node of a directory, if possible in a copy where it only looks.

    Returns its exit code. Raises UsageError if there is no node in the directory, WaitTimeout if a process runs it and
    does not answer.
    """
    link = await handover.find(data)
    if link is None:
        try:
            async with _at_rest(data, only_looks=only_looks) as node:
                return await work(node)
        except StoreInUse:
            # A process may begin to run the node now.
            link = await handover.find_soon(data)
            if link is None:
                raise
    await link.close()
    async with connected(data) as client:
        return await work(client)


def on_node(*, only_looks: bool = False) -> Callable[[Callable[..., Awaitable[int | None]]], Callable[..., int]]:
    """Make a command of what is to be done with the node of ``--data``; ``only_looks`` as for ``visit``."""

    def made(work: Callable[..., Awaitable[int | None]]) -> Callable[..., int]:
        @wraps(work)
        def command(*, data: Path, **given: Any) -> int:
            async def visited(node: Host) -> int:
                return await work(node, **given) or 0

            return run(visit(data, visited, only_looks=only_looks))

        return existing_data_option(command)

    return made


async def stats_of(node: Host) -> triack.NodeStats:
    """The statistics of a node."""
    return node.stats() if isinstance(node, triack.Node) else await node.stats()


@asynccontextmanager
async def connected(data: Path, within_s: float | None = None) -> AsyncIterator[triack.Client]:
    """A client of the process that runs the node of a directory.

    Raises NodeClosed if no process runs it, WaitTimeout if one does and does not answer.
    """
    client, limit_s = triack.connect(data, patience=0), ANSWER_S if within_s is None else within_s
    try:
        async with asyncio.timeout(limit_s):
            await client.start()
    except TimeoutError:
        raise WaitTimeout(
            f"the process that runs the node of {data} has not answered for {limit_s:g} s: it is stopped, or stuck"
        ) from None
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def calling(data: Path, peers: dict[str, str], suite: str) -> AsyncIterator[Host]:
    """The node of a directory, for a command that calls peers: in the process that runs it, or else opened here.

    Raises TriackError as ``triack.connect`` and ``triack.open`` do; UsageError for a directory without a node.
    """
    link = await handover.find(data)
    if link is None:
        check_node(data)
        # A few datagrams one by one: batches gain nothing.
        settings = triack.NodeSettings(udp="portable")
        async with triack.open(name_for(None, data), data=data, peers=peers, suite=suite, settings=settings) as node:
            yield node
        return
    await link.close()
    async with connected(data) as client:
        yield client


def check_node(data: Path) -> None:
    """Raises UsageError for a directory that has neither a store nor keys nor peers, so that none is made in it."""
    if not any((data / name).exists() for name in (STORE_FILE, IDENTITY_FILE, TRUST_FILE)):
        raise UsageError(f"there is no node in {data}: it has no {STORE_FILE}, no {IDENTITY_FILE} and no {TRUST_FILE}")


@asynccontextmanager
async def _at_rest(data: Path, *, only_looks: bool) -> AsyncIterator[triack.Node]:
    if not only_looks or os.access(data, os.W_OK) or not (data / STORE_FILE).exists():
        async with open_at_rest(data) as node:
            yield node
        return
    with tempfile.TemporaryDirectory(prefix="triack-look-") as folder:
        await asyncio.to_thread(_copy_store, data, Path(folder))
        operator_log.info(f"{data} cannot be written; looking at a copy of its store")
        async with open_at_rest(folder) as node:
            yield node


def _copy_store(data: Path, folder: Path) -> None:
    try:
        for name in (STORE_FILE, f"{STORE_FILE}-wal"):
            if (data / name).exists():
                shutil.copyfile(data / name, folder / name)
                (folder / name).chmod(0o600)
    except OSError as cause:
        raise StoreError(f"copy the store of {data}, which cannot be written: {cause.strerror or cause}") from cause
