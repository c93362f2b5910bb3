"""The keys of a world's machines, and which peers they know.

Each machine has a key from the start, and is a peer of all others by its own name. Further nodes of a machine are peers
of all others, too, each with another key and by another name.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from triack.base.peers import Peer
from triack.node.files.keys import Identity, open_identity
from triack.node.files.private_files import MemoryFiles
from triack.node.files.trust import TRUST_FILE, decode_trust, encode_trust


@dataclass(slots=True, eq=False)
class _Member:
    """A node, or a machine that may run one.

    Attributes:
        files: its keys and peers; they survive every crash.
        address: where it listens, or empty.
        told: the peers that it was given, by name.
    """

    name: str
    files: MemoryFiles
    identity: Identity
    address: str = ""
    is_open: bool = False
    told: dict[str, str] = field(default_factory=dict)


class Keyring:
    """The keys of all machines.

    Args:
        chance: gives another random stream for each key.

    Attributes:
        shares: whether nodes get each other's keys; if not, the test sets their trust.
    """

    def __init__(self, chance: Callable[[str], Random]) -> None:
        self.shares = True
        self._chance = chance
        self._members: dict[str, _Member] = {}
        self._places: dict[tuple[str, str], _Member] = {}

    def add_machine(self, machine: str) -> None:
        """Add a machine."""
        member = self._add(machine)
        self._tell((other for other in self._members.values() if other.is_open), [member])

    def files(self, machine: str, data: Path | None, node: str) -> MemoryFiles:
        """Where a node on a machine keeps its keys and peers."""
        place = machine, f"memory {node}" if data is None else f"disk {data}"
        if place not in self._places:
            is_first = all(other != machine for other, _ in self._places)
            self._places[place] = self._members[machine] if is_first else self._add(self._free_name(machine, node))
        return self._places[place].files

    def introduce(self, files: MemoryFiles, address: str) -> None:
        """A node opens: it gets the keys of all others, and all open ones get its keys."""
        member = next(member for member in self._members.values() if member.files is files)
        member.address, member.is_open = address, True
        others = [other for other in self._members.values() if other is not member]
        self._tell([member], others)
        self._tell((other for other in others if other.is_open), [member])

    def _free_name(self, machine: str, node: str) -> str:
        name = node if node not in self._members else f"{machine}.{node}"
        while name in self._members:
            name += "-2"
        return name

    def _add(self, name: str) -> _Member:
        files = MemoryFiles()
        identity = open_identity(files, self._chance(f"key {name}").randbytes)
        self._members[name] = _Member(name, files, identity)
        return self._members[name]

    def _tell(self, readers: Iterable[_Member], members: list[_Member]) -> None:
        for reader in readers:
            news = [member for member in members if reader.told.get(member.name) != member.address]
            if news and self.shares:
                _write(reader, news)


def _write(reader: _Member, news: list[_Member]) -> None:
    """Let a member know others; it keeps its own later changes of trust."""

    def edit(content: bytes | None) -> bytes:
        before = [] if content is None else decode_trust(content, reader.files.where(TRUST_FILE))
        peers = {peer.name: peer for peer in before}
        for member in news:
            peer = peers.get(member.name, None if member.name in reader.told else Peer(member.name))
            if peer is not None:
                kept = [address for address in peer.addresses if address != reader.told.get(member.name)]
                addresses = dict.fromkeys([*filter(None, [member.address]), *kept])
                keys = dict.fromkeys([*peer.keys, *member.identity.public])
                peers[member.name] = replace(peer, keys=tuple(keys), addresses=tuple(addresses))
            reader.told[member.name] = member.address
        return encode_trust(peers.values())

    reader.files.change(TRUST_FILE, edit)
