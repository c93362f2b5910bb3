"""A node, and a client of it that is in the same loop, as for the other end of the socket."""

from tests.node.control.conftest import client, node

__all__ = ["client", "node"]
