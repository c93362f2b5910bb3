"""Which connects are newer than all before them: a recorded one that comes again is not, whoever sends it.

Each connect says in which start of its node it was made, and when by that node's clock. The clock is that of the
process, which never goes back while it lives, and starts are counted in the store; so no wall clock has a say, and one
that was set back locks nobody out. WireGuard has a wall clock here (TAI64N, section 5.1 of its paper).

A connect that is not newer may be an honest one all the same: it was overtaken, or its node's store is an older copy.
So it is not refused, but has to show that its sender is where it says (``handshake``).

Promise: of what a peer says here, only what its key has proved is remembered, of few nodes for each.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

__all__ = ["NODES_OF_ONE_MAX", "Freshness", "Moment"]

NODES_OF_ONE_MAX = 64
"""Nodes with the key of one peer that are told apart: honest ones are one or two, and a few after stores were lost."""


class Moment(NamedTuple):
    """When a connect was made: in which start of its node, and when in that."""

    incarnation: int
    sent_at_ns: int


class Freshness:
    """The newest connect of each node of each peer."""

    __slots__ = ("_newest",)

    def __init__(self) -> None:
        self._newest: dict[str, OrderedDict[bytes, Moment]] = {}

    def take(self, peer: str, node_id: bytes, moment: Moment) -> bool:
        """A connect has come that a peer has made. Returns whether it is newer than all of that node before."""
        nodes = self._newest.setdefault(peer, OrderedDict())
        newest = nodes.get(node_id)
        if newest is not None and moment <= newest:
            return False
        nodes[node_id] = moment
        nodes.move_to_end(node_id)
        if len(nodes) > NODES_OF_ONE_MAX:
            nodes.popitem(last=False)
        return True

    def forget(self, is_known: Callable[[str], bool]) -> None:
        """Forget the peers that are known no more."""
        self._newest = {peer: nodes for peer, nodes in self._newest.items() if is_known(peer)}
