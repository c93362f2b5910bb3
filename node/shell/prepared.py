"""Messages that were checked, and are to be accepted: their outgoing queues, and their forms in packets."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import repeat

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
    """Messages that were checked: their outgoing queue, bodies and keys, and the properties of all, or of each."""

    destination: str
    outgoing: OutgoingStream
    bodies: list[bytes]
    shared: Outgoing | None
    keys: list[str] | None = None
    each: list[Outgoing | None] | None = None

    def singly(self) -> list[Prepared]:
        """The messages, to be accepted one by one: each has its own key."""
        assert self.keys is not None
        plain = Outgoing(b"")
        whole = zip(self._abouts(0, len(self.bodies)), self.bodies, self.keys, strict=True)
        return [
            (self.outgoing, _message(about or plain, body, key), len(body) + MESSAGE_OVERHEAD_BYTES)
            for about, body, key in whole
        ]

    def messages(self, bodies: list[bytes], at: int = 0) -> list[bytes | Outgoing]:
        """Some of the bodies, from the one with that index on, as messages."""
        if self.shared is None and self.each is None:
            return list(bodies)
        whole = zip(self._abouts(at, len(bodies)), bodies, strict=True)
        return [body if about is None else _message(about, body) for about, body in whole]

    def _abouts(self, at: int, count: int) -> Iterable[Outgoing | None]:
        return repeat(self.shared, count) if self.each is None else self.each[at : at + count]


def _message(about: Outgoing, body: bytes, key: str = "") -> Outgoing:
    """A message that is like another one, but for its body and its key."""
    times = about.reach_by_ms, key, about.ack_now, about.receive_by_ms
    return Outgoing(body, about.properties, *times, topic=about.topic)


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
