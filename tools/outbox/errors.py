"""The error of the outbox."""

from triack.base.errors import TriackError


class OutboxTaken(TriackError):
    """Another node sends what is in this outbox: with two of them, a message could be sent twice."""
