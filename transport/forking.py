"""Ends channels in a forked child, because parent and child would seal with the same keys and counters.

With AES-GCM, two datagrams under one key and nonce reveal both contents, and let anyone forge more (RFC 5116, section
5.1.1). ``multiprocessing`` forks by default before Python 3.14, without a call of ``os.fork``.
"""

import os
from typing import Protocol
from weakref import WeakSet


class Ending(Protocol):
    """An object that ends in a forked child."""

    def end(self) -> None:
        """Stop working."""


_alive: WeakSet[Ending] = WeakSet()


def end_in_children(thing: Ending) -> None:
    """Call its ``end`` in every process that is forked from this one while it exists."""
    _alive.add(thing)


def _handle_fork() -> None:
    for thing in list(_alive):
        thing.end()


os.register_at_fork(after_in_child=_handle_fork)
