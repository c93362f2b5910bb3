"""The peers that may talk to a node, and that it may talk to.

With keys: the peers of its trust file, wherever they are, and no others. Without: every node on this machine.
"""

import re
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from triack.base.datagram import Channels
from triack.base.errors import AddressError, IdentityError, UsageError
from triack.base.peers import Directory, Peer
from triack.node.files.followed import Followed, Work
from triack.node.files.keys import IDENTITY_FILE, Identity, KeyKind, encode_key, open_identity
from triack.node.files.private_files import Files
from triack.node.files.trust import TRUST_FILE, TrustFile
from triack.transport.address import Address, Destination, check_loopback
from triack.transport.insecure import InsecureChannels
from triack.transport.noise import AESGCM_SHA256, CHACHAPOLY_BLAKE2S
from triack.transport.secure import SecureChannels

SUITES = {suite.name: suite for suite in (AESGCM_SHA256, CHACHAPOLY_BLAKE2S)}
"""The suites to choose from, by their names in the protocol's name (Noise, revision 34, section 8)."""
DEFAULT_SUITE = AESGCM_SHA256.name
"""The faster one if the processor has instructions for AES, as nearly all have."""

_NODE_ID = re.compile("[0-9a-f]{32}")

T = TypeVar("T")

Start = Callable[[Coroutine[Any, Any, None], str], object]
"""Starts a task of the node that ends with it."""


class Keyless:
    """A node without keys: it cannot authenticate peers, and so keeps to its machine.

    Raises NotLoopback: an address is on another machine.
    """

    loopback_only = True

    def __init__(self, name: str, peers: dict[str, str]) -> None:
        self.directory = Directory(_on_loopback(peers))
        self._name = name

    def knows(self, peer: str) -> bool:
        """Whether it is a peer, or the id of a node: a node that does not listen has no other name here."""
        return self.directory.named(peer) is not None or _NODE_ID.fullmatch(peer) is not None

    def check_listening(self, address: Address) -> None:
        """Raise NotLoopback for an address beyond this machine."""
        check_loopback("listen on", address)

    def check_destination(self, _text: str, destination: Destination) -> None:
        """Raise NotLoopback for an address beyond this machine; every node on it is accepted."""
        if destination.address is not None:
            check_loopback(f"send to {destination.queue} at", destination.address)

    def open(self, _files: Files, _entropy: Callable[[int], bytes]) -> Channels:
        """Channels that only detect damage."""
        return InsecureChannels()

    def watch(self, start: Start, work: Work, handle_changed: Callable[[], None]) -> None:
        """Do nothing: there is no file to follow."""

    def _refuse(self, *_: object) -> Any:
        raise UsageError(f"node {self._name} runs without keys (insecure), and so knows no peer by a key")

    keys = identity = suite = trust = property(_refuse)
    change_trust = _refuse

    async def reread(self, work: Work) -> None:
        """Do nothing: there is no file to read."""

    async def change_addresses(self, addresses: dict[str, str], work: Work) -> None:  # noqa: ARG002 - there is no file
        """Know peers by other addresses. Raises NotLoopback."""
        self.directory.replace(_on_loopback(addresses))


def _on_loopback(addresses: dict[str, str]) -> list[Peer]:
    for peer, address in addresses.items():
        check_loopback(f"know {peer} at", Address.parse(address))
    return [Peer(peer, addresses=(address,)) for peer, address in addresses.items()]


class Secured:
    """A node with keys: it talks to the peers that it trusts. Raises UsageError: there is no such suite.

    Attributes:
        identity: its own keys, as the file has them now.
        trust: the file of the peers.
    """

    loopback_only = False

    def __init__(self, peers: dict[str, str], suite: str) -> None:
        if suite not in SUITES:
            raise UsageError(f"there is no suite {suite!r}; there is {', '.join(SUITES)}")
        self.directory = Directory()
        self._peers = peers
        self.suite = SUITES[suite]
        self._handle_changed: Callable[[], None] = lambda: None

    def knows(self, peer: str) -> bool:
        """Whether it is a peer."""
        return self.directory.named(peer) is not None

    def check_listening(self, address: Address) -> None:
        """Accept any address: it may listen anywhere."""

    def check_destination(self, text: str, destination: Destination) -> None:
        """Raise AddressError for an address of no known peer, and for a peer without a known key."""
        where = destination.address
        peer = self.directory.named(destination.peer or "") if where is None else self.directory.at(str(where))
        advice = "`triack trust add` and node.trust(...) tell a node whom to trust"
        if peer is None:
            raise AddressError(f"send to {text}: this node trusts no peer at {where}; {advice}")
        if not peer.keys:
            raise AddressError(f"send to {text}: this node has no key of {peer.name}; {advice}")

    def open(self, files: Files, entropy: Callable[[int], bytes]) -> Channels:
        """Read keys and peers; the first start makes a key. Blocks; raises IdentityError."""
        self.trust = TrustFile(files)
        self.identity = open_identity(files, entropy)
        self._identity_file = files.where(IDENTITY_FILE)
        self._channels = SecureChannels(_raw(self.identity), self.directory, entropy=entropy, suite=self.suite)
        self._keys_file = Followed(files, IDENTITY_FILE, self._decode_identity, self._use_identity)
        self._peers_file = Followed(files, TRUST_FILE, self._decode_peers, self._use_peers)
        self._keys_file.open()
        self._peers_file.open()
        return self._channels

    @property
    def keys(self) -> tuple[str, ...]:
        """The node's own public keys, as text; it connects with the first."""
        return tuple(encode_key(KeyKind.PUBLIC, key) for key in self.identity.public)

    async def change_trust(self, change: Callable[[TrustFile], T], work: Work) -> T:
        """Change the file of the peers, and use the result. Raises what ``change`` raises."""
        return await self._peers_file.load(work, lambda: change(self.trust))

    async def reread(self, work: Work) -> None:
        """Read the files of keys and peers again, and use them. Raises IdentityError."""
        await self._keys_file.load(work, lambda: None)
        await self._peers_file.load(work, lambda: None)

    async def change_addresses(self, addresses: dict[str, str], work: Work) -> None:
        """Know peers by other addresses, besides those of the file. Raises IdentityError; then nothing has changed."""
        before, self._peers = self._peers, addresses
        try:
            await self._peers_file.load(work, lambda: None)
        except IdentityError:
            self._peers = before
            raise

    def watch(self, start: Start, work: Work, handle_changed: Callable[[], None]) -> None:
        """Follow both files; ``handle_changed`` is called when the peers have changed."""
        self._handle_changed = handle_changed
        start(self._peers_file.watch(work), "triack-trust")
        start(self._keys_file.watch(work), "triack-identity")

    def _decode_identity(self, content: bytes | None) -> Identity:
        if content is None:
            raise IdentityError(f"read {self._identity_file}: it has gone")
        return Identity.decode(content, self._identity_file)

    def _use_identity(self, identity: Identity) -> None:
        self.identity = identity
        self._channels.use_keys(_raw(identity))

    def _decode_peers(self, content: bytes | None) -> list[Peer]:
        peers = {peer.name: peer for peer in self.trust.decode(content)}
        for name, address in self._peers.items():
            peer = peers.get(name, Peer(name))
            peers[name] = replace(peer, addresses=tuple(dict.fromkeys((address, *peer.addresses))))
        return list(peers.values())

    def _use_peers(self, peers: list[Peer]) -> None:
        self.directory.replace(peers)
        self._handle_changed()


Access = Keyless | Secured


def _raw(identity: Identity) -> list[bytes]:
    return [key.private_bytes_raw() for key in identity.keys]
