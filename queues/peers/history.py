"""The histories of stores, which show that a store is an older copy of itself, or runs twice.

Each start of a store has a random id and each commit a serial that only grows, so a point (start, serial) names one
durable state permanently. A store's history is the list of its starts, each with the serial at its end; the current one
is open. A node remembers the latest known point of each peer, and stores it in the same commit as everything that
depends on it. When two nodes connect, each asks whether the point that it remembers is in the other's history. Only the
other can answer:

    remembered start   true when
    none               always
    the current one    the serial is not above the newest commit
    an earlier one     the serial is not above the one at its end
    any other          never: this store is an older copy or another branch

Promise: no session opens while either node remembers a point that the other's store does not have.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from triack.base.commit import OWN_STATE, Commit, PeerRow, StoreContent
from triack.base.peers import Directory
from triack.ordering.wire import EARLIER_MAX, StoreWord
from triack.queues.mailboxes.quotas import Payer
from triack.queues.peers.introduction import NO_POINT, HistoryPoint
from triack.queues.peers.reconnect import DOUBLINGS_MAX

STRANGERS_MAX = 65_536
"""Beyond this number, peers that nothing durable depends on are forgotten with their last session: anyone can invent a
node id, and no honest node has this many peers."""

NODES_OF_ONE_MAX = 4_096
"""Nodes of one peer that are remembered on the disk, some 500 bytes each: as many as it may have streams. A peer could
invent any number of them, and each would stay. Further ones are remembered as long as strangers."""

_BY_ID = "id:"
"""Comes before the id of a node that has proved no name, where the names of peers are. No peer has such a name."""

_KEY = f"{OWN_STATE}key/"
"""Comes before the id of a node in the store's state: the key with which it has proved its name."""


class History:
    """The history of this node's own store; ``content``: what that had at the start."""

    def __init__(self, content: StoreContent) -> None:
        assert content.start, "a store that was not loaded has no start"
        self.start = content.start
        self.committed = content.serial
        self._last = content.serial
        self._ends: Mapping[int, int] = content.starts
        self._incarnation = content.incarnation

    @property
    def point(self) -> HistoryPoint:
        """The latest point of the store that is on the disk."""
        return HistoryPoint(self.start, self.committed)

    def word(self) -> StoreWord:
        """What this node says of its store to nodes that it never meets."""
        earlier = tuple(self._ends.items())[-EARLIER_MAX:]
        return StoreWord(self.start, self.committed, self._incarnation, earlier)

    def has(self, point: HistoryPoint) -> bool:
        """Whether the store has been at this point, by the module's table."""
        if point.start == NO_POINT.start:
            return True
        if point.start == self.start:
            return point.serial <= self.committed
        return point.serial <= self._ends.get(point.start, -1)

    def number(self, commit: Commit) -> None:
        """Give a commit its serial; it goes to the store now."""
        self._last += 1
        commit.serial = self._last

    def handle_committed(self, commit: Commit) -> None:
        """The commit has returned: peers may learn its serial."""
        if commit.serial > self.committed:
            self.committed = commit.serial


@dataclass(slots=True)
class KnownPeer:
    """What this node remembers of one peer.

    Attributes:
        start, serial: the latest point of its store that it has announced.
        name: the peer that has proved to be this node, by a key; empty when none has.
        key: that key; empty for none, and if it is not known any more.
        is_over: whether the peer of that name has other keys by now, so that this one proves nothing.
        written: its row in our store, as of the next commit; None for none. ``written_key`` is its key there.
        unheard: how often a fixed ack timeout is doubled for it.
    """

    node_id: bytes
    start: int = 0
    serial: int = 0
    name: str = ""
    written: PeerRow | None = None
    unheard: int = 0
    key: bytes = b""
    written_key: bytes = b""
    is_over: bool = False

    @property
    def point(self) -> HistoryPoint:
        """The latest point."""
        return HistoryPoint(self.start, self.serial)

    def handle_serial(self, serial: int) -> None:
        """The peer has announced a commit of its current start."""
        if serial > self.serial:
            self.serial = serial

    def handle_waited(self, probe_ns: int | None, timeout_ns: int, *, unheard: bool) -> None:
        """A session with it that was open is gone, whichever end began it. ``unheard``: it ended because no ack came.

        A fixed ack timeout may be shorter than a round trip, and then no ack would ever arrive in time. So after a
        session that ended by ack timeout, the next one waits twice as long. If one needed less than half of its
        ``timeout_ns``, the next one waits half as long. ``probe_ns``: how long an ack might need in it; None when
        unknown.
        """
        if probe_ns is not None and 2 * probe_ns <= timeout_ns:
            self.unheard = max(0, self.unheard - 1)
        elif unheard and (probe_ns is None or probe_ns > timeout_ns):
            self.unheard = min(self.unheard + 1, DOUBLINGS_MAX)


_UNKNOWN = KnownPeer(b"")
"""What is known of any other node: nothing. It is never changed."""


class Peers:
    """What this node remembers of its peers.

    Args:
        addresses: the addresses that peers have announced, by name; stored, so that a peer that was never dialled is
            found after a restart.
    """

    def __init__(
        self,
        rows: Iterable[PeerRow],
        addresses: Mapping[str, str] | None = None,
        state: Mapping[str, bytes] | None = None,
    ) -> None:
        self.addresses = dict(addresses or {})
        self._known = {row.node_id: KnownPeer(*row, written=row) for row in rows}
        for node_id, known in self._known.items():
            known.key = known.written_key = (state or {}).get(_KEY + node_id.hex(), b"")
        # How many nodes of each peer are on the disk; the empty name counts nodes that have proved no name.
        self._written = Counter(known.name for known in self._known.values())
        self.needed: dict[bytes, KnownPeer] = {}
        self._met = {known.name for known in self._known.values()}

    def has_met(self, name: str) -> bool:
        """Whether a peer of that name has ever proved to be a node, as far as this node remembers."""
        return name in self._met

    def of(self, node_id: bytes) -> HistoryPoint:
        """The latest point known of a peer, ``NO_POINT`` if there is none."""
        return self._known.get(node_id, _UNKNOWN).point

    def ack_factor(self, node_id: bytes) -> int:
        """Factor for a fixed ack timeout in the next session with a peer."""
        return 1 << self._known.get(node_id, _UNKNOWN).unheard

    def owner(self, node_id: bytes) -> str:
        """The peer that has proved to be a node; empty when none has, and when its name belongs to other keys now."""
        known = self._known.get(node_id, _UNKNOWN)
        return "" if known.is_over else known.name

    def holder(self, node_id: bytes) -> str:
        """The same, whatever became of its key: no other peer may claim to be this node."""
        return self._known.get(node_id, _UNKNOWN).name

    def key_of(self, node_id: bytes) -> bytes:
        """The key with which a node has proved its name; empty when it is not known."""
        return self._known.get(node_id, _UNKNOWN).key

    def handle_directory(self, directory: Directory) -> list[bytes]:
        """Peers may have new keys: permissions of a name end with its old keys. Returns whose proof changed."""
        changed = []
        for node_id, known in self._known.items():
            peer = directory.named(known.name) if known.key else None
            is_over = peer is not None and bool(peer.keys) and known.key not in peer.keys
            if is_over is not known.is_over:
                known.is_over = is_over
                changed.append(node_id)
        return changed

    def payer_of(self, node_id: bytes) -> Payer:
        """The payer that is charged for what a node sends (``queues.mailboxes.quotas``)."""
        return self.owner(node_id) or node_id

    def meet(self, node_id: bytes, point: HistoryPoint, name: str, key: bytes = b"") -> KnownPeer:
        """A session with a node opens: its store has the point that was remembered, and is at least at this one.

        ``name``: the peer that it has proved to be, with this key; empty when it has proved nothing.
        """
        known = self._known.setdefault(node_id, KnownPeer(node_id))
        if name:
            known.name, known.key, known.is_over = name, key, False
            self._met.add(name)
        if known.start == point.start:
            known.handle_serial(point.serial)
        else:
            known.start, known.serial = point
        return known

    def learn(self, name: str, address: str, commit: Commit) -> None:
        """A peer that has proved its name announces its address; empty for none."""
        if address != self.addresses.get(name, ""):
            self.addresses[name] = commit.addresses[name] = address

    def name_of(self, node_id: bytes) -> str:
        """The name by which messages went to a node that has proved none, in an earlier session; empty if unknown."""
        return self.addresses.get(_BY_ID + node_id.hex(), "")

    def learn_name(self, node_id: bytes, name: str, commit: Commit) -> None:
        """Remember the name by which messages go to an unproved node: it may not call for long after a start."""
        if len(self.addresses) < STRANGERS_MAX:
            self.learn(_BY_ID + node_id.hex(), name, commit)

    def depend(self, known: KnownPeer) -> None:
        """Something in the next commit depends on what this peer's store has."""
        self.needed[known.node_id] = known

    def write_down(self, commit: Commit) -> None:
        """Add to a commit the points of peers' stores on which it depends."""
        for node_id, known in self.needed.items():
            row = PeerRow(node_id, known.start, known.serial, known.name)
            if not self._has_place(known):
                continue
            if row != known.written:
                known.written = commit.peers[node_id] = row
            if known.key != known.written_key:
                known.written_key = commit.state[_KEY + node_id.hex()] = known.key
        self.needed.clear()

    def _has_place(self, known: KnownPeer) -> bool:
        """Whether a node may be on the disk as one of its peer; if it may, it is counted as one."""
        if known.written is not None and known.written.name == known.name:
            return True
        if self._written[known.name] >= (NODES_OF_ONE_MAX if known.name else STRANGERS_MAX):
            return False
        self._written[known.name] += 1
        if known.written is not None:
            self._written[known.written.name] -= 1
        return True

    def part(self, node_id: bytes) -> None:
        """The last session with a peer has ended: beyond the limit, forget it if nothing durable depends on it."""
        known = self._known.get(node_id)
        if known is not None and known.written is None and node_id not in self.needed and self.crowded:
            del self._known[node_id]

    @property
    def crowded(self) -> bool:
        """Whether there are more peers than the limit, so that strangers are forgotten."""
        return len(self._known) > STRANGERS_MAX


def covers(checked: HistoryPoint, remembered: HistoryPoint) -> bool:
    """Whether a peer whose history has ``checked`` must have ``remembered``, too."""
    if remembered.start == NO_POINT.start:
        return True
    return checked.start == remembered.start and checked.serial >= remembered.serial
