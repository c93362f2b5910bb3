"""Resolves names of queues: to a user's queue, a system queue of the node, or a queue of another node.

All parts of a node use this, so that a name means the same for sending, arrival and browsing. A further kind of target
is one more class in ``Target``. Mypy then names the places that have to handle it: those that end with
``assert_never``.
"""

from dataclasses import dataclass

from triack.base.names import split_topic
from triack.base.peers import Directory
from triack.queues.mailboxes.system_queues import SystemQueue, is_reserved, system_queue


@dataclass(frozen=True, slots=True)
class LocalQueue:
    """A user's queue of this node, which need not exist yet."""

    name: str

    @property
    def takes_from_peers(self) -> bool:
        """Whether peers may send there at all: not to names that are reserved for system queues."""
        return not is_reserved(self.name)


@dataclass(frozen=True, slots=True)
class RemoteQueue:
    """A queue of another node. ``peer``: the node's name, or its address if it has no name here."""

    peer: str
    name: str

    @property
    def destination(self) -> str:
        """The same as one string, as in outgoing streams and dead letters."""
        return f"{self.peer}/{self.name}"


Target = LocalQueue | SystemQueue | RemoteQueue


def local_queue(name: str) -> LocalQueue | SystemQueue:
    """Resolve the name of a queue of this node. The name has been checked (``base/names.py``)."""
    return system_queue(name) or LocalQueue(name)


class Resolver:
    """Resolves names on one node. ``address``: where it listens; empty when it does not."""

    def __init__(self, directory: Directory, address: str) -> None:
        self._directory = directory
        self.address = address

    def resolve(self, where: str, queue: str) -> Target:
        """Resolve a destination.

        Args:
            where: a peer's name or an address; empty for this node. The address may be that of a peer in the directory,
                this node's own, or that of a node without a name here.
            queue: the name of the queue there. A topic, such as ``topic:Games.Cricket``, is resolved to the queue in
                which the messages of its root arrive, ``topic:Games``.
        """
        queue, _ = split_topic(queue)
        there = self._directory.at(where) or self._directory.named(where)
        if where == self.address or (there is not None and self.address in there.addresses):
            return local_queue(queue)
        peer = where if there is None else there.name
        return RemoteQueue(peer, queue) if peer else local_queue(queue)
