"""Messages that were checked, and are to be accepted: their outgoing queues, and their forms in packets."""

from dataclasses import dataclass, replace

from triack.base.errors import UsageError
from triack.node.shell.outgoing_message import below_root
from triack.queues.messages import Outgoing
from triack.queues.streams.outgoing_stream import OutgoingStream

MESSAGE_OVERHEAD_BYTES = 64
"""Bytes that a message counts in limits on memory beside its body: about what Python needs to keep it."""

Prepared = tuple[OutgoingStream, bytes | Outgoing, int]
"""A message that was checked: its outgoing queue, the message, and the bytes of memory that it counts for."""


@dataclass(slots=True)
class PreparedList:
    """Messages that were checked: their outgoing queue, bodies and keys, and the properties that they share."""

    destination: str
    outgoing: OutgoingStream
    bodies: list[bytes]
    shared: Outgoing | None
    keys: list[str] | None = None

    def singly(self) -> list[Prepared]:
        """The messages, to be accepted one by one: each has its own key."""
        assert self.keys is not None
        shared = self.shared or Outgoing(b"")
        return [
            (self.outgoing, replace(shared, body=body, key=key), len(body) + MESSAGE_OVERHEAD_BYTES)
            for body, key in zip(self.bodies, self.keys, strict=True)
        ]

    def messages(self, bodies: list[bytes]) -> list[bytes | Outgoing]:
        """Some of the bodies as messages."""
        shared = self.shared
        if shared is None:
            return list(bodies)
        properties, reach_by_ms, receive_by_ms = shared.properties, shared.reach_by_ms, shared.receive_by_ms
        return [
            Outgoing(
                body, properties, reach_by_ms, ack_now=shared.ack_now, receive_by_ms=receive_by_ms, topic=shared.topic
            )
            for body in bodies
        ]


def published(destination: str, message: bytes | Outgoing) -> Outgoing:
    """A message for the topic of a destination."""
    if isinstance(message, bytes):
        return Outgoing(message, topic=below_root(destination))
    message.topic = below_root(destination)
    return message


def check_keepable(destination: str, outgoing: OutgoingStream) -> None:
    """Raise UsageError for a key in a class that is on no disk."""
    if not outgoing.durable:
        raise UsageError(f"send to {destination} with a key: express messages are on no disk, and neither are keys")
