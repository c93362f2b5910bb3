"""The nodes of a simulated world: each has keys, drawn from the world's randomness, and all know each other.

All nodes know a node that joins, and it knows them. Later, tests and faults change trust (``SimHost.know``,
``SimHost.forget``).
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Protocol

from triack.base.datagram import Channels
from triack.base.peers import Directory, Peer
from triack.tools.sim.world import World
from triack.transport.cookies import Entropy
from triack.transport.insecure import InsecureChannels
from triack.transport.noise import AESGCM_SHA256, KEY_BYTES, KeyPair
from triack.transport.secure import SecureChannels

KEYS_CACHED = 1_024


class Resident(Protocol):
    """A node among others."""

    @property
    def peer(self) -> Peer:
        """It as a peer of others."""

    def know(self, peer: Peer) -> None:
        """Another node exists."""


class Identity:
    """The identity of a node and its trust, which outlive its processes."""

    def __init__(self, keys: tuple[bytes, ...], *, resides: bool) -> None:
        self.keys = keys
        self.resides = resides
        self.directory = Directory()
        self.suite = AESGCM_SHA256
        self.unread: list[Callable[[], object]] = []
        self._channels: SecureChannels | None = None

    def make_channels(self, entropy: Entropy) -> Channels:
        """The channels of a process that begins."""
        if not self.keys:
            return InsecureChannels()
        self._channels = SecureChannels(self.keys, self.directory, entropy=entropy, suite=self.suite)
        return self._channels

    def use_keys(self, keys: tuple[bytes, ...]) -> None:
        """Use these private keys from now on, also in a running process."""
        self.keys = keys
        if self._channels is not None:
            self._channels.use_keys(keys)

    def know(self, peer: Peer) -> None:
        """Trust a peer, as it is now."""
        self.directory.replace([*(other for other in self.directory if other.name != peer.name), peer])

    def forget(self, name: str) -> None:
        """Stop trusting a peer."""
        self.directory.replace([other for other in self.directory if other.name != name])


class Residents:
    """All nodes that know each other, in the order in which they joined."""

    def __init__(self) -> None:
        self._all: list[Resident] = []

    def join(self, resident: Resident) -> None:
        """Add one."""
        for other in self._all:
            other.know(resident.peer)
            resident.know(other.peer)
        self._all.append(resident)


def draw_key(world: World, name: str) -> bytes:
    """The private key of that name: the same in every run of a seed."""
    return world.chance(f"key {name}").randbytes(KEY_BYTES)


@lru_cache(maxsize=KEYS_CACHED)
def public_of(private: bytes) -> bytes:
    """The public key of a private one."""
    return KeyPair.of(private).public
