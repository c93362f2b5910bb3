"""Gap detection: which node has a peer's acknowledged messages, and what happens when another node answers.

Promise: the id of the node that acknowledged durable messages is in the commit that deletes them here. If a session
opens with another node by the same name, which has none of them, the gap is reported before anything is sent there.

    no holder --acknowledged--> holder
    holder --the same node answers--> holder
    holder --another node answers--> gap, reported once; "warn": the stream continues there; "error": suspend the link
    holder --another node acknowledges--> the other is the holder

A node that answers with an older copy of its store is the same node: ``history`` detects that in any case.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from triack.base.commit import OWN_STATE, Commit, kept_under
from triack.base.news import GapFound
from triack.queues.node_settings import Gap
from triack.queues.peers.introduction import NO_NODE

_PREFIX = f"{OWN_STATE}holder:"


class Resuming:
    """The holder of the acknowledged messages of every peer to which this node sends."""

    def __init__(self, gap: Gap) -> None:
        self.gaps: Counter[str] = Counter()
        self._gap = gap
        self._holders: dict[str, bytes] = {}
        self._told: dict[str, bytes] = {}
        self.unwritten: dict[str, bytes] = {}
        self.news: list[GapFound] = []

    def restore(self, state: Mapping[str, bytes]) -> None:
        """Restore the holders from the store."""
        self._holders = dict(kept_under(state, _PREFIX))

    def handle_freed(self, peer: str, node_id: bytes) -> None:
        """A node has acknowledged durable messages to its peer, which leave the store with the next commit."""
        if node_id not in (NO_NODE, self._holders.get(peer)):
            self._holders[peer] = self.unwritten[peer] = node_id

    def write_down(self, commit: Commit) -> None:
        """Add to a commit the holders of the messages that it deletes."""
        for peer, node_id in self.unwritten.items():
            commit.state[_PREFIX + peer] = node_id
        self.unwritten.clear()

    def handle_opened(self, peer: str, node_id: bytes, queues: Iterable[str]) -> GapFound | None:
        """A session of a peer with a node is open, and nothing has been sent in it yet.

        ``queues``: those with messages that were acknowledged or given up. Returns the gap, for waiters, if that node
        lacks acknowledged messages.
        """
        holder = self._holders.get(peer, node_id)
        if holder == node_id:
            self._told.pop(peer, None)
            return None
        names, other, before = tuple(sorted(set(queues))), node_id.hex(), holder.hex()
        what = f"messages for {', '.join(names)}" if names else "messages"
        cause = (
            f"{peer} is another node, {other}, than the one that acknowledged {what} before, {before}, and has none of "
            "them"
        )
        found = GapFound(peer, other, before, names, halts=self._gap == "error", cause=cause)
        if self._told.get(peer) != node_id:
            self._told[peer] = node_id
            self.gaps[peer] += 1
            self.news.append(found)
        return found
