"""Request and reply: the asking node listens nowhere, as behind a firewall, and still gets its answers."""

import asyncio
import tempfile
from pathlib import Path

import triack


async def answer(node: triack.Node) -> None:
    """Answer every question; question and answer leave and arrive in one transaction."""
    while True:
        async with node.transaction() as transaction:
            question = await transaction.receive("questions")
            await transaction.reply(question, question.body.upper())


async def main(folder: Path) -> None:
    """Ask two questions."""
    async with (
        triack.open("oracle", data=folder / "oracle", listen="udp://127.0.0.1:0") as oracle,
        triack.open("asker", data=folder / "asker") as asker,
    ):
        await oracle.trust("asker", asker.key)
        await asker.trust("oracle", oracle.key, oracle.address)
        answering = asyncio.create_task(answer(oracle))
        for text in (b"is it durable?", b"is it in order?"):
            reply = await asker.request("oracle/questions", text, timeout=10)
            print(reply.body.decode())
        answering.cancel()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        triack.run(main(Path(folder)))
