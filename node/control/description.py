"""Descriptions of messages for a process, or a person at a command line, that reads them."""

from typing import Any

from triack.node.handles.message import Message


def describe(message: Message) -> dict[str, Any]:
    """The fields of a message beside its body, for JSON."""
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
