"""The node of a data directory, for a command: the process that runs it is asked, or the directory opened at rest."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import triack
from triack.base.errors import StoreInUse
from triack.node.control import handover
from triack.node.node import open_at_rest

__all__ = ["Host", "stats_of", "visit"]

Host = triack.Node | triack.Client
"""A node at rest, or the client of one that runs."""


async def visit(data: Path, work: Callable[[Host], Awaitable[int]]) -> int:
    """Let a command do its work with the node of a directory. Returns its exit code."""
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
    async with triack.connect(data) as client:
        return await work(client)


async def stats_of(node: Host) -> triack.NodeStats:
    """What it counts."""
    return node.stats() if isinstance(node, triack.Node) else await node.stats()
