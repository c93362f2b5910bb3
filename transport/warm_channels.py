"""Which channels have their ciphers ready, and which have only their keys.

A cipher of OpenSSL needs 2.6 KiB, each channel has two, and making one from a key of 32 bytes takes a microsecond. So
only a limited number of channels keep their ciphers: when one more begins to talk, the one that began longest ago must
make its ciphers anew when it talks next.

    COLD --seals | opens--> WARM --as many began later | the process is a forked child--> COLD

In a forked child every channel is cold, and stays so: two that seal with the same keys and counters reveal everything
(``forking``).
"""

from collections import deque
from typing import Protocol
from weakref import ref

from triack.transport.forking import end_in_children

WARM_MAX = 128
"""Channels that have ciphers, two thirds of a megabyte: more peers than a node talks to in a moment. With more, each
turn of one costs it two microseconds."""


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
        end_in_children(self)

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
