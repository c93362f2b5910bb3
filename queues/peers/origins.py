"""The nodes whose messages relays bring to this node: by which neighbour, and under which name.

A relayed origin proves nothing to this node. So the neighbour that brings its messages pays for them, and a node that
has proved to be a peer here keeps its own name.
"""

from typing import NamedTuple


class Brought(NamedTuple):
    """How the messages of a node arrive.

    ``via``: the neighbour that brings them, by name. ``from_name``: the name of their origin where they were relayed
    first.
    """

    via: str
    from_name: str

    @property
    def name(self) -> str:
        """The origin's name on this node: messages for it go back by the same neighbour."""
        return f"{self.from_name}@{self.via}"


class Origins:
    """The relayed origins of all streams that arrive here."""

    def __init__(self) -> None:
        self._brought: dict[bytes, Brought] = {}

    def bind(self, origin: bytes, via: str, from_name: str) -> bool:
        """A neighbour brings messages of a node. Returns whether that is new."""
        brought = Brought(via, from_name)
        is_new = self._brought.get(origin) != brought
        self._brought[origin] = brought
        return is_new

    def of(self, origin: bytes) -> Brought | None:
        """How the messages of a node arrive; None when no relay has brought any."""
        return self._brought.get(origin)

    def forget(self, origin: bytes) -> None:
        """No stream of a node is left."""
        self._brought.pop(origin, None)
