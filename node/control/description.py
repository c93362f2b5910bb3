"""What is said of queues and messages to whoever reads them from another process or a command line."""

from typing import Any

from triack.base.errors import QueueNotFound
from triack.base.names import what_else
from triack.node.handles.message import Message
from triack.node.handles.verbs import Verbs

__all__ = ["check_queue", "describe"]


def check_queue(node: Verbs, queue: str) -> None:
    """Raises QueueNotFound when a node has no queue of that name, with what may have been meant."""
    there = node.queue_lengths()
    if queue not in there:
        raise QueueNotFound(
            f"receive from {queue}: node {node.name} has no such queue; {what_else(queue, there)} (--create makes it)"
        )


def describe(message: Message) -> dict[str, Any]:
    """What there is to know of a message beside its body, as JSON has it."""
    return {
        "id": message.id,
        "queue": message.queue,
        "sender": message.sender,
        "sent_at": message.sent_at,
        "receive_by": message.receive_by,
        "redelivered": message.redelivered,
        "failures": message.failures,
        "properties": message.properties,
    }
