"""The node of a data directory, for a command: through the process that runs it, or else by opening the directory."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import triack
from triack.base.errors import StoreInUse, WaitTimeout
from triack.node.at_rest import open_at_rest
from triack.node.control import handover

__all__ = ["Host", "stats_of", "visit"]

ANSWER_S = 10.0
"""A node that runs answers within milliseconds."""
Host = triack.Node | triack.Client
"""A node at rest, or the client of one that runs."""


async def visit(data: Path, work: Callable[[Host], Awaitable[int]]) -> int:
    """Let a command do its work with the node of a directory.

    Returns:
        Its exit code.

    Raises:
        UsageError: there is no node in the directory.
        WaitTimeout: a process runs it, and does not answer.
    """
    link = await handover.find(data)
    if link is None:
        try:
            async with open_at_rest(data) as node:
                return await work(node)
        except StoreInUse:
            # Perhaps a process that begins to run the node just now.
            link = await handover.find_soon(data)
            if link is None:
                raise
    await link.close()
    client = triack.connect(data, patience=0)
    try:
        async with asyncio.timeout(ANSWER_S):
            await client.start()
    except TimeoutError:
        raise WaitTimeout(
            f"the process that runs the node of {data} has not answered for {ANSWER_S:g} s: it is stopped, or stuck"
        ) from None
    try:
        return await work(client)
    finally:
        await client.close()


async def stats_of(node: Host) -> triack.NodeStats:
    """What it counts."""
    return node.stats() if isinstance(node, triack.Node) else await node.stats()
