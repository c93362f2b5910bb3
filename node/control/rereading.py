"""Telling the process that serves a data directory that its keys or its peers have changed.

The node notices by itself within half a second; an operator who has withdrawn trust wants to know that it has.
"""

import asyncio
from pathlib import Path

from triack.base.errors import TriackError, WaitTimeout
from triack.node.control import handover
from triack.node.control.control_frames import Link, call_once

REREAD_S = 10.0
"""A running node answers within milliseconds; one that takes this long is stopped, or stuck."""


async def reread(data: Path) -> bool:
    """Have the node that runs on a directory read its files again, and wait until they are in force.

    When this returns, sessions of peers that are no longer trusted have ended. Returns whether a node runs there; if
    not, the next one starts with the files.

    Raises:
        WaitTimeout: it runs, and has not answered for ``REREAD_S`` seconds.
        TriackError: it cannot use the files.
    """
    link = await handover.find(data)
    if link is None:
        return False
    try:
        async with asyncio.timeout(REREAD_S):
            await _ask(link)
    except TimeoutError:
        raise WaitTimeout(
            f"the change is written down, but the node that runs on {data} has not answered for {REREAD_S:g} s"
        ) from None
    except ConnectionError:
        return False  # it has just ended
    finally:
        await link.close()
    return True


async def _ask(link: Link) -> None:
    answer = await call_once(link, "reread")
    if answer["op"] != "done":
        raise TriackError(f"the change is written down, but not in force: {answer.get('message')}")
