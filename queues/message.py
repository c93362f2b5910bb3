"""A message in the hands of an application."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from triack.queues.mailbox import Handed

__all__ = ["Message", "Settle"]

Settle = Callable[[Handed, bool | None], None]
"""Ends a message: None acknowledges it, otherwise it comes again, as failed or not."""


@dataclass(slots=True, eq=False)
class Message:
    """A message that was received.

    Attributes:
        body: what was sent, at most 4 MiB.
        id: names the message for ever: 32 hex digits of its node, ``-``, its ordinal there.
        queue: the queue it was taken from.
        sent_at_ms: wall clock of the sender, milliseconds since 1970.
        redelivered: True when it may have been handed out before.
        failures: how often it was given back as failed.
        correlation_id, reply_to, label: as the sender set them, or None.
        properties: everything the sender set beside the body, and what the dead-letter queue adds: ``dead_reason``,
            ``dead_destination``, ``dead_maybe_delivered``.
    """

    body: bytes
    id: str
    queue: str
    sent_at_ms: int
    redelivered: bool
    failures: int
    properties: dict[str, Any]
    _handed: Handed = field(repr=False)
    _settle: Settle = field(repr=False)

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
