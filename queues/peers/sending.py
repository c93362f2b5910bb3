"""What a link gives turns to: an outgoing stream of this node, or one of another node that passes through it."""

from typing import Protocol

__all__ = ["Sending"]


class _Peekable(Protocol):
    """A sequence that may have something to send."""

    def peek(self) -> object | None:
        """The packet that goes next, or None."""


class Sending(Protocol):
    """A stream whose packets go to one neighbour."""

    @property
    def sequence(self) -> _Peekable:
        """Its packets."""

    def __hash__(self) -> int:
        """By identity."""
