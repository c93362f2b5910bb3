"""Request and reply over queues: a question says where its answer goes, and a correlation id ties them together."""

import asyncio
import tempfile
from pathlib import Path

import triack


async def answer(node: triack.Node, count: int) -> None:
    """Answer ``count`` questions; question and answer leave and arrive in one transaction."""
    for _ in range(count):
        async with node.transaction() as transaction:
            question = await transaction.receive("questions", timeout=10)
            if question.reply_to is None:
                continue
            reply = question.body.upper()
            await transaction.send(question.reply_to, reply, correlation_id=question.correlation_id or question.id)


async def ask(node: triack.Node, destination: str, text: bytes, correlation_id: str) -> bytes:
    """Send one question and wait for its answer."""
    reply_to = f"{node.name}/answers"  # a peer's name, which is the one that answers has for this node
    await node.send(destination, text, reply_to=reply_to, correlation_id=correlation_id, time_to_be_received=60)
    async with node.receive("answers") as answers:
        reply = await answers.get(timeout=10)
    assert reply.correlation_id == correlation_id
    return reply.body


async def main(folder: Path) -> None:
    """Ask two questions."""
    async with (
        triack.open("oracle", data=folder / "oracle", listen="udp://127.0.0.1:0") as oracle,
        triack.open("asker", data=folder / "asker") as asker,
    ):
        await oracle.trust("asker", asker.key)
        await asker.trust("oracle", oracle.key, oracle.address)
        answering = asyncio.create_task(answer(oracle, 2))
        for number, text in enumerate([b"is it durable?", b"is it in order?"]):
            print((await ask(asker, "oracle/questions", text, f"q{number}")).decode())
        await answering


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))
