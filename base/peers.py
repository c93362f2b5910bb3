"""The peers that a node knows, by name, with their keys, their addresses and their permissions.

This node chooses the names of its peers. A peer's keys prove its identity (it has several while it replaces them); its
addresses only say where to look, and may be wrong. Queues, streams and links belong to peers, so that they outlive
every address. A node that runs without keys knows peers by address alone.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from triack.base.names import covers

NO_PSK = bytes(32)
"""The value for Noise's psk2 when the two sides have agreed on no secret besides their keys."""


@dataclass(frozen=True, slots=True)
class Peer:
    """One peer.

    Attributes:
        keys: its X25519 public keys, 32 bytes each; calls use the first. None without keys.
        addresses: where it may be, as ``udp://host:port`` and the like; the first is tried first.
        psk: 32 bytes that both sides have agreed on.
        may_send: patterns (``fnmatch``) of the queues that it may send to.
        may_relay: patterns of the nodes that it may send to through this node.
        relays_for: patterns of the nodes whose messages it may bring here as a relay.
        seal: whether messages for it are sealed, so that no node on the way can read them.
        sealed_only: accept only sealed messages from it through a relay, and only sealed ones that it relays.
        keep_alive_s: keep a session with it, and ping it over UDP after that many seconds without traffic, as it cannot
            call this node; 0: no pings; None: the node's own setting.
        may_subscribe: patterns (``check_permitted``) of the topics of this node that it may subscribe to.
    """

    name: str
    keys: tuple[bytes, ...] = ()
    addresses: tuple[str, ...] = ()
    psk: bytes = field(default=NO_PSK, repr=False)
    may_send: tuple[str, ...] = ("*",)
    keep_alive_s: float | None = None
    may_relay: tuple[str, ...] = ()
    relays_for: tuple[str, ...] = ()
    may_subscribe: tuple[str, ...] = ()
    seal: bool = False
    sealed_only: bool = False

    @property
    def wants_touch(self) -> bool:
        """Whether a session with it stays open without traffic."""
        return bool(self.keep_alive_s)

    def may_send_to(self, queue: str) -> bool:
        """Whether it may send to a queue of this node."""
        return _matches(queue, self.may_send)

    def may_relay_to(self, final: str) -> bool:
        """Whether it may send to a node through this one. Each node that ``final`` names must be allowed."""
        return all(_matches(name, self.may_relay) for name in final.split("@"))

    def may_subscribe_to(self, pattern: str) -> bool:
        """Whether it may subscribe to all topics that match a pattern."""
        return any(covers(permitted, pattern) for permitted in self.may_subscribe)

    def may_bring(self, origin: str) -> bool:
        """Whether it may bring messages of a node as a relay."""
        return _matches(origin, self.relays_for)


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


class Directory:
    """The peers of a node; one object for all readers, changed in place."""

    __slots__ = ("_by_address", "_by_key", "_by_name")

    def __init__(self, peers: Iterable[Peer] = ()) -> None:
        self._by_name: dict[str, Peer] = {}
        self._by_key: dict[bytes, Peer] = {}
        self._by_address: dict[str, Peer] = {}
        self.replace(peers)

    def replace(self, peers: Iterable[Peer]) -> None:
        """Know these, and no others."""
        self._by_name = {peer.name: peer for peer in peers}
        self._by_key = {key: peer for peer in self._by_name.values() for key in peer.keys}
        self._by_address = {address: peer for peer in self._by_name.values() for address in peer.addresses}

    def __iter__(self) -> Iterator[Peer]:
        return iter(self._by_name.values())

    def named(self, name: str) -> Peer | None:
        """The peer of that name."""
        return self._by_name.get(name)

    def with_key(self, key: bytes) -> Peer | None:
        """The peer with that public key."""
        return self._by_key.get(key)

    def at(self, address: str) -> Peer | None:
        """The peer that is said to be at that address."""
        return self._by_address.get(address)

    def trusts(self, name: str, key: bytes) -> bool:
        """Whether that key still belongs to that peer."""
        peer = self._by_key.get(key)
        return peer is not None and peer.name == name
