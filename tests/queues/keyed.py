"""Peers that prove their names, by keys that follow from these."""

from hashlib import blake2b

from triack.base.peers import Peer
from triack.transport.noise import KeyPair


def key_of(name: str) -> bytes:
    return blake2b(name.encode(), digest_size=32).digest()


def peer(name: str, *addresses: str) -> Peer:
    return Peer(name, keys=(KeyPair.of(key_of(name)).public,), addresses=addresses)
