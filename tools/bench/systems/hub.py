"""The relay between the two nodes of a run: ``python -m triack.tools.bench.systems.hub OPTIONS``."""

import asyncio

from triack.tools.bench.systems.own import HUB, RECEIVER, SENDER, End
from triack.tools.demo.child import Report, run_child, tell


async def work(options: Report, stopping: asyncio.Event) -> None:
    """Pass messages of the sender on to the receiver, until the end."""
    end, found = End(options), options["found"]
    node = await end.open(HUB, listen="udp://127.0.0.1:0")
    try:
        await node.trust(RECEIVER, found["key"], found["address"])
        await node.trust(SENDER, options["sender_key"], send=[], may_relay=[RECEIVER])
        tell({"found": {"address": node.address, "key": node.key, "is_hub": True}})
        await stopping.wait()
    finally:
        await end.close()


if __name__ == "__main__":
    run_child(work)
