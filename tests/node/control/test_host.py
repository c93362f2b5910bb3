"""What the socket asks of a node is what a node is."""

from triack.node.control.host import Host
from triack.node.node import Node


def test_a_node_is_a_host() -> None:
    """Each verb by its name; mypy holds the arguments against each other where a node is given to its server."""
    asked = {name for name in vars(Host) if not name.startswith("_")} | {"_port"}
    assert len(asked) > 5
    assert {name for name in asked - {"name"} if not hasattr(Node, name)} == set()
