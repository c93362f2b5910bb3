"""A message in the hands of an application."""

from collections.abc import Callable
from typing import Any

from triack.queues.mailbox import Lease

__all__ = ["Message", "Settle"]

Settle = Callable[[Lease, bool | None], None]
"""Ends a message: None acknowledges it, otherwise it comes again, as failed or not."""


class Message:
    """A message that was received.

    Attributes:
        body: what was sent, at most 4 MiB.
        queue: the queue it was taken from.
        redelivered: True when it may have been handed out before.
    """

    __slots__ = ("_handed", "_settle", "body", "queue", "redelivered")

    def __init__(self, body: bytes, queue: str, handed: Lease, settle: Settle) -> None:
        self.body = body
        self.queue = queue
        self.redelivered = handed.redelivered
        self._handed = handed
        self._settle = settle

    def __repr__(self) -> str:
        return f"<Message {self.id} of queue {self.queue}, {len(self.body)} bytes>"

    def ack(self) -> None:
        """The message is done; it leaves the queue with the next commit. A second call does nothing."""
        self._settle(self._handed, None)

    def reject(self, *, failed: bool = True) -> None:
        """Give the message back: it comes again, before anything younger.

        Args:
            failed: count this as a failure; after ``max_redeliveries`` of them it goes to the dead-letter queue.
        """
        self._settle(self._handed, failed)

    @property
    def id(self) -> str:
        """Names the message for ever: 32 hex digits of its node, ``-``, its ordinal there."""
        parcel = self._handed.parcel
        return f"{parcel.origin.hex()}-{parcel.open().first_ordinal + self._handed.index}"

    @property
    def sent_at_ms(self) -> int:
        """Wall clock of the sender, milliseconds since 1970."""
        return self._handed.parcel.open().sent_at_ms

    @property
    def failures(self) -> int:
        """How often it was given back as failed."""
        return self._handed.parcel.failures.get(self._handed.index, 0)

    @property
    def properties(self) -> dict[str, Any]:
        """Everything the sender set beside the body.

        In the dead-letter queue also ``dead_reason``, ``dead_destination`` and, if it was sent from here,
        ``dead_maybe_delivered``.
        """
        properties = self._handed.parcel.open().properties
        return dict(properties[self._handed.index]) if properties is not None else {}

    @property
    def correlation_id(self) -> str | None:
        """What the sender set to match a reply with its request."""
        return self._text("correlation_id")

    @property
    def reply_to(self) -> str | None:
        """The destination to which the sender wants replies."""
        return self._text("reply_to")

    @property
    def label(self) -> str | None:
        """A label for people."""
        return self._text("label")

    def _text(self, name: str) -> str | None:
        value = self.properties.get(name)
        return value if isinstance(value, str) else None
