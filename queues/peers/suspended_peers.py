"""Suspended peers, whose store, or ours, was rolled back; and the links that lead to them.

Promise: waiters for such a peer get the reason, now and whenever another link turns out to lead there. The operator
gets each once. Invented node ids fill no memory. ``handshake`` finds out which peers to suspend.
"""

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from triack.base.errors import RollbackDetected
from triack.base.peers import Directory
from triack.base.reasons import DropReason
from triack.base.session_log import Record
from triack.queues.peers.introduction import Introduction, RolledBack
from triack.queues.peers.link import Link

SUSPENDED_MAX = 1_024
"""Most remembered suspended peers to which no link leads, as anyone can invent a node id. Further ones are still
refused."""

_SIDES = {RolledBack.SENDER: "own", RolledBack.RECEIVER: "peer", RolledBack.UNKNOWN: "unknown"}


class Suspended(NamedTuple):
    """Why a peer is suspended."""

    rolled_back: RolledBack
    error: RollbackDetected


@dataclass(eq=False, repr=False)
class SuspendedPeers:
    """The peers that a node has suspended, for the life of its process."""

    node_id: bytes
    directory: Directory
    drops: Counter[DropReason]
    record: Record

    def __post_init__(self) -> None:
        self._by_node: dict[bytes, Suspended] = {}
        self._leading: dict[bytes, dict[Link, None]] = {}
        self._accused: set[str] = set()
        self.detected: list[RollbackDetected] = []

    def __contains__(self, node_id: bytes) -> bool:
        return node_id in self._by_node

    def rolled_back(self, node_id: bytes) -> RolledBack:
        """Whose store is the older copy, for a suspended peer."""
        return self._by_node[node_id].rolled_back

    @property
    def sides(self) -> dict[str, str]:
        """The suspended peers: node id in hex, and whose store was rolled back (own, peer, unknown)."""
        return {node_id.hex(): suspended.error.rolled_back for node_id, suspended in self._by_node.items()}

    @property
    def errors(self) -> dict[bytes, RollbackDetected]:
        """The suspended peers by node id, and why each is suspended."""
        return {node_id: suspended.error for node_id, suspended in self._by_node.items()}

    def add(self, peer: Introduction, name: str, rolled_back: RolledBack, now_ns: int) -> bool:
        """Suspend a peer. Returns whether it was not suspended before, and is remembered."""
        node_id = peer.node_id
        if node_id == self.node_id:
            rolled_back = RolledBack.SENDER
        if node_id in self._by_node:
            return False
        # A peer can invent nodes, but only one rollback of it is reported.
        if node_id not in self._leading and (name in self._accused or len(self._by_node) >= SUSPENDED_MAX):
            self.drops[DropReason.SUSPENDED_OVERFLOW] += 1
            return False
        if self.directory.named(name) is not None:
            self._accused.add(name)
        suspended = self._by_node[node_id] = Suspended(rolled_back, self._explain(peer, name, rolled_back))
        self.detected.append(suspended.error)
        self.record(
            "rollback_detected", now_ns, peer=node_id.hex(), peer_name=name, rolled_back=suspended.error.rolled_back
        )
        return True

    def _explain(self, peer: Introduction, name: str, rolled_back: RolledBack) -> RollbackDetected:
        side = _SIDES[rolled_back]
        other = f"node {name} ({peer.node_id.hex()})" if name else f"node {peer.node_id.hex()}"
        if peer.node_id == self.node_id:
            what = "another process runs on a copy of this node's store"
        elif side == "own":
            what = f"{other} depends on what this node's store does not have: it is an older copy, or runs twice"
        elif side == "peer":
            what = f"the store of {other} does not have what this node depends on: it is an older copy, or runs twice"
        else:
            what = f"{other} says that its store or this node's is an older copy, or runs twice"
        return RollbackDetected(what, peer=peer.node_id.hex(), rolled_back=side)

    def stop_links(self, node_id: bytes, *, told: bool) -> None:
        """Stop the links that lead to a suspended peer. ``told``: the peer knows."""
        for link in list(self._leading.get(node_id, ())):
            link.halt(self._by_node[node_id].error, told=told)

    def lead(self, link: Link, node_id: bytes) -> None:
        """Note the node to which a link leads."""
        if link.peer_id == node_id:
            return
        before = self._leading.get(link.peer_id, {})
        before.pop(link, None)
        if not before:
            self._leading.pop(link.peer_id, None)
        self._leading.setdefault(node_id, {})[link] = None
        link.peer_id = node_id
        suspended = self._by_node.get(node_id)
        link.halt(None if suspended is None else suspended.error, told=False)
