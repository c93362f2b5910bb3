"""Replay detection: which connects are newer than all before them. A replayed one is not, from any sender.

Each connect names the start of its node in which it was made, and the time by that node's clock. That is the monotonic
clock of the process, and starts are counted in the store. So the wall clock does not matter, and a node whose wall
clock was set back is not locked out. WireGuard uses a wall clock (TAI64N, section 5.1 of its paper).

A connect that is not newer may still be honest: it was overtaken, or its node's store is an older copy. So it is not
refused, but its sender has to prove its address (``handshake``).

Promise: this remembers only moments that a peer's key has proved, of few nodes for each peer.
"""

from collections.abc import Callable
from typing import NamedTuple

NODES_OF_ONE_MAX = 64
"""Nodes remembered for the key of one peer: an honest peer has one or two, and a few after stores were lost."""


class Moment(NamedTuple):
    """When a connect was made: the start of its node, and the time in it."""

    incarnation: int
    sent_at_ns: int


class Freshness:
    """The newest connect of each node of each peer."""

    def __init__(self) -> None:
        # Of each peer: its nodes, the one that connected last at the end.
        self._newest: dict[str, dict[bytes, Moment]] = {}

    def take(self, peer: str, node_id: bytes, moment: Moment) -> bool:
        """A connect of a peer has arrived. Returns whether it is newer than all before it of that node."""
        nodes = self._newest.setdefault(peer, {})
        newest = nodes.get(node_id)
        if newest is not None and moment <= newest:
            return False
        nodes.pop(node_id, None)
        nodes[node_id] = moment
        if len(nodes) > NODES_OF_ONE_MAX:
            del nodes[next(iter(nodes))]
        return True

    def forget(self, is_known: Callable[[str], bool]) -> None:
        """Forget peers that are no longer known."""
        self._newest = {peer: nodes for peer, nodes in self._newest.items() if is_known(peer)}
