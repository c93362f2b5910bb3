"""Messages by the batch: the first is waited for, the others are those that are there already."""

from typing import Any

from triack.base.errors import QueueNotFound, WaitTimeout
from triack.base.names import nearest
from triack.node.consumer import Consumer
from triack.node.control.host import Host
from triack.node.message import Message

__all__ = ["BATCH_BYTES", "BATCH_MESSAGES", "check_queue", "describe", "take_batch"]

BATCH_MESSAGES = 1_000
"""As many as a chunk of lines has on its way in (``tools.commands.pipes``): what a commit and a screen take easily."""
BATCH_BYTES = 1024 * 1024
"""A batch is one frame of the control socket, or one write: large enough that handing it on costs little for each."""


async def take_batch(consumer: Consumer, *, timeout: float | None = None, most: int = BATCH_MESSAGES) -> list[Message]:
    """Take at least one message, and others as long as they are at hand.

    Args:
        consumer: where from; it acknowledges by hand.
        timeout: seconds to wait for the first.
        most: how many at the most.

    Raises:
        WaitTimeout: the first did not come.
    """
    batch = [await consumer.get(timeout)]
    size_bytes = len(batch[0].body)
    while len(batch) < min(most, BATCH_MESSAGES) and size_bytes < BATCH_BYTES:
        try:
            message = await consumer.get(timeout=0)
        except WaitTimeout:
            break
        batch.append(message)
        size_bytes += len(message.body)
    return batch


def check_queue(node: Host, queue: str) -> None:
    """Raises QueueNotFound when a node has no queue of that name, with what may have been meant."""
    there = node.queue_lengths()
    if queue not in there:
        meant = nearest(queue, there)
        what = f"did you mean {meant}?" if meant else f"there is {', '.join(sorted(there))}; --create makes it"
        raise QueueNotFound(f"receive from {queue}: node {node.name} has no such queue; {what}")


def describe(message: Message) -> dict[str, Any]:
    """What there is to know of a message beside its body, as JSON has it."""
    return {
        "id": message.id,
        "queue": message.queue,
        "sender": message.sender,
        "sent_at": message.sent_at,
        "redelivered": message.redelivered,
        "failures": message.failures,
        "properties": message.properties,
    }
