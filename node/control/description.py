"""What there is to know of a message, for whoever hands it on to another process."""

from typing import Any

from triack.node.message import Message

__all__ = ["describe"]


def describe(message: Message) -> dict[str, Any]:
    """What there is to know of a message beside its body, as JSON has it."""
    return {
        "id": message.id,
        "queue": message.queue,
        "sent_at": message.sent_at,
        "redelivered": message.redelivered,
        "failures": message.failures,
        "properties": message.properties,
    }
