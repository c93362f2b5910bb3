"""Which channels have their ciphers ready, and which have only their keys.

A cipher of OpenSSL needs 2.6 KiB, each channel has two, and making one from a key of 32 bytes takes a microsecond. So
only a limited number of channels keep their ciphers: when one more begins to talk, the one that began longest ago must
make its ciphers anew when it talks next.

    COLD --seals | opens--> WARM --as many began later | the process is a forked child--> COLD

In a forked child every channel is cold, and stays so, as parent and child would seal with the same keys and counters.
With AES-GCM, two datagrams under one key and nonce reveal both contents, and let anyone forge more (RFC 5116, section
5.1.1). ``multiprocessing`` forks by default before Python 3.14, without a call of ``os.fork``.
"""

import os
from collections import deque
from typing import Protocol
from weakref import WeakSet, ref

WARM_MAX = 128
"""Channels that have ciphers, two thirds of a megabyte: more peers than a node talks to in a moment. With more, each
turn of one costs it two microseconds."""


_alive: "WeakSet[WarmChannels]" = WeakSet()
"""Those of this process: a forked child ends them."""


class Cooling(Protocol):
    """An object that makes ciphers."""

    def cool(self) -> None:
        """Drop them, and ask before making the next ones."""


class WarmChannels:
    """The channels of one node that have ciphers."""

    __slots__ = ("__weakref__", "_warm", "has_ended")

    def __init__(self) -> None:
        self._warm: deque[ref[Cooling]] = deque()
        self.has_ended = False
        _alive.add(self)

    def admit(self, channel: Cooling) -> bool:
        """A cold channel needs its ciphers. Returns whether it may make them."""
        if self.has_ended:
            return False
        if len(self._warm) >= WARM_MAX:
            self._cool_oldest()
        self._warm.append(ref(channel))
        return True

    def end(self) -> None:
        """From now on no channel may make ciphers: the keys belong to another process."""
        self.has_ended = True
        while self._warm:
            self._cool_oldest()

    def _cool_oldest(self) -> None:
        oldest = self._warm.popleft()()
        if oldest is not None:
            oldest.cool()


def _handle_fork() -> None:
    for channels in list(_alive):
        channels.end()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_handle_fork)
